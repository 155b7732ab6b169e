"""What the prompt cache read, what it could have read, and what the difference cost, by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from otel_ctx.model import Outcome, Reading
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.report import outcome_of
from otel_ctx.outputs.text.layout import (
    BLANK,
    Line,
    Run,
    bar,
    facts,
    heading,
    line,
    many,
    number,
    usd,
    usd_range,
)
from otel_ctx.outputs.text.view import View, some
from otel_ctx.outputs.views.summary import only_predicted
from otel_ctx.outputs.views.totals import cost_words, totals

_INDENT = 2
_NAME = 34
_BAR = 12
_OUTCOMES: tuple[Outcome, ...] = ("hit", "partial", "miss", "cold", "ineligible", "not_reported")


def cache(view: View) -> Iterator[Line]:
    readings = view.analysis.readings
    sized = [r for r in readings if r.access is not None or r.call.usage.input is not None]
    outcomes: Counter[str] = Counter(filter(None, map(outcome_of, sized)))
    dark = [r for r in sized if outcome_of(r) is None and "aggregate_only" not in r.call.completeness.reasons]
    if not sized:
        return
    sums = totals(readings, view.analysis.conversations)
    waste, cost = sums["waste"], sums["cost"]
    money = "" if cost["usd"] is None else usd_range(cost["usd_low"], cost["usd_high"])
    yield from heading("Prompt cache", cost_words(readings, money), view.width)
    named = [f"{outcomes[o]:,} {_named(o, sized)}" for o in _OUTCOMES if outcomes[o] and o != "not_reported"]
    yield from facts([*named, *_silent(sized)], view.width, _INDENT)
    if dark:
        read_by = [r.call.usage.cache_read for r in dark if r.call.usage.cache_read is not None]
        told = (f"{number(sum(read_by))} tokens read",) if read_by else ()
        why = "what came before was not recorded"
        yield from facts((f"{many(len(dark), 'call')} not checked", why, *told), view.width, _INDENT)
    yield from facts(_unpromised(readings), view.width, _INDENT)
    reported = [r for r in readings if r.access is not None and r.access.reported is not None]
    read = sum(r.access.reported.read for r in reported if r.access is not None and r.access.reported)
    best = sum(
        max(r.access.optimal.read if r.access.optimal else 0, r.access.reported.read)
        for r in reported
        if r.access is not None and r.access.reported
    )
    words = []
    if reported:
        words.append(f"read {number(read)} of {number(best)} tokens that an unbroken, marked prefix gives")
    if cost["saved_usd"]:
        saved = cost["saved_usd"]
        words.append(f"saved {usd(saved)}" if saved > 0 else f"cost {usd(-saved)} more than no cache")
    yield from facts(words, view.width, _INDENT)
    if not waste["tokens"]:
        return
    yield BLANK
    total = f"{number(waste['tokens'])} tokens billed again"
    lost = f", {usd(waste['usd'])} more than reading them" if waste["usd"] is not None else ""
    predicted = " (predicted)" if only_predicted(r for r in readings if r.losses) else ""
    yield line("  ", Run(total, "strong"), lost, predicted)
    for cause, part in waste["by_cause"].items():
        calls = sum(cause == c for r in readings for c, _ in r.losses)
        amount = f"{number(part['tokens']):>10}  {many(calls, 'call'):<10}"
        price = "" if part["usd"] is None else usd(part["usd"])
        gauge = bar(part["tokens"] / waste["tokens"], _BAR, "notice") if view.width >= _NAME + 42 else ()
        yield line("    ", Run(f"{cause:<{_NAME - 4}}"), *gauge, f"  {amount}  {price}".rstrip())
    yield from facts(_savings(sums["savings"], waste), view.width, _INDENT)


def _named(outcome: Outcome, readings: Sequence[Reading]) -> str:
    if outcome != "ineligible":
        return outcome.replace("_", " ")
    bounds = {r.access.minimum for r in readings if r.access is not None and r.access.outcome == outcome}
    return f"ineligible (shorter than {' or '.join(number(n) for n in sorted(bounds))} tokens)"


def _unpromised(readings: Sequence[Reading]) -> Iterator[str]:
    """How many calls missed what no provider promises to keep: nobody is to blame."""
    missed = [r for r in readings if r.access is not None and not r.access.promised and not r.losses]
    count = sum(outcome_of(r) in ("miss", "partial") for r in missed)
    if count:
        yield f"{many(count, 'call')} read less than could be kept: this cache promises nothing"


def _silent(readings: Sequence[Reading]) -> Iterator[str]:
    """Who tells nothing of the cache, of how many calls."""
    calls = [r.call for r in readings if outcome_of(r) == "not_reported"]
    if calls:
        names = list(dict.fromkeys(call.scope or call.dialect for call in calls))
        yield f"not reported by {escape(some(names))} ({many(len(calls), 'call')})"


def _savings(savings: dict[str, Any] | None, waste: dict[str, Any]) -> Iterator[str]:
    if savings is None or not savings["usd"]:
        return
    yield f"fixed, it saves {usd(savings['usd'])}, {savings['share']:.0%} of the cost"
    if (
        waste["usd"] is not None
        and usd(savings["usd"]) != usd(waste["usd"])
        and savings["usd"] < waste["usd"]
    ):
        beyond = waste["tokens"] - savings["tokens"]
        yield (
            f"{number(beyond)} tokens have no known fix"
            if beyond > 0
            else "the writes that it takes are counted"
        )
    if savings["usd_per_1000_sessions"] is not None:
        yield f"{usd(savings['usd_per_1000_sessions'])} in 1,000 such sessions"
