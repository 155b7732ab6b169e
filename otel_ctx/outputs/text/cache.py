"""What the prompt cache read, what it could have read, and what the difference cost, by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from otel_ctx.model import NOT_OURS, Access, Lifetime, Outcome, Reading
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
_WAYS: dict[Lifetime, str] = {
    "shorter": "by the usual lifetime of entries",
    "longer": "by the longer lifetime of entries",
    "kept_alive": "by small requests in pauses, which keep entries alive",
}


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
    yield from facts([*_unruled(readings), *_implied(readings), *_unpromised(readings)], view.width, _INDENT)
    reported = [
        r for r in readings if r.access is not None and r.access.reported is not None and not r.unruled
    ]
    read = sum(r.access.reported.read for r in reported if r.access is not None and r.access.reported)
    best = sum(_best(r.access) for r in reported if r.access is not None)
    marks = any(r.access.optimal.write for r in reported if r.access is not None and r.access.optimal)
    words = []
    if reported:
        kept = "an unbroken, marked" if marks else "an unbroken"
        words.append(f"read {number(read)} of {number(best)} tokens that {kept} prefix gives")
    if cost["saved_usd"]:
        saved = cost["saved_usd"]
        words.append(f"saved {usd(saved)}" if saved > 0 else f"cost {usd(-saved)} more than no cache")
    yield from facts(words, view.width, _INDENT)
    if waste["tokens"]:
        yield from _lost(waste, readings, view.width)
    yield from facts(_savings(view, sums["savings"], waste), view.width, _INDENT)


def _lost(waste: dict[str, Any], readings: Sequence[Reading], width: int) -> Iterator[Line]:
    yield BLANK
    total = f"{number(waste['tokens'])} tokens billed again"
    known = (r for r in readings if r.cost is not None and r.cost.wasted is not None)
    priced = sum(n for r in known for _, n in r.losses)
    them = f"{number(priced)} of them" if priced < waste["tokens"] else "them"
    lost = (
        f", {usd_range(waste['usd'], waste['usd_high'])} more than reading {them}"
        if waste["usd"] is not None
        else ""
    )
    predicted = " (predicted)" if only_predicted(r for r in readings if r.losses) else ""
    yield line("  ", Run(total, "strong"), lost, predicted)
    for cause, part in waste["by_cause"].items():
        calls = sum(cause == c for r in readings for c, _ in r.losses)
        amount = f"{number(part['tokens']):>10}  {many(calls, 'call'):<10}"
        price = "" if part["usd"] is None else usd(part["usd"])
        gauge = bar(part["tokens"] / waste["tokens"], _BAR, "notice") if width >= _NAME + 42 else ()
        yield line("    ", Run(f"{cause:<{_NAME - 4}}"), *gauge, f"  {amount}  {price}".rstrip())


def _best(access: Access) -> int:
    """Tokens that could have been read; of a hit those that were: the few that counts may be wrong by are not lost."""
    read = access.reported.read if access.reported is not None else 0
    return read if access.outcome == "hit" or access.optimal is None else max(access.optimal.read, read)


def _named(outcome: Outcome, readings: Sequence[Reading]) -> str:
    if outcome != "ineligible":
        return outcome.replace("_", " ")
    bounds = {r.access.minimum for r in readings if r.access is not None and r.access.outcome == outcome}
    return f"ineligible (shorter than {' or '.join(number(n) for n in sorted(bounds))} tokens)"


def _unruled(readings: Sequence[Reading]) -> Iterator[str]:
    """Of how many calls it is not known whether they lost anything, as their models have no rule."""
    calls = [r.call for r in readings if r.unruled]
    if calls:
        models = list(dict.fromkeys(call.model or "a model without a name" for call in calls))
        yield f"not known what {many(len(calls), 'call')} lost: no cache rule of {escape(some(models))}"
        yield "a [[family]] row of --rules gives one"


def _implied(readings: Sequence[Reading]) -> Iterator[str]:
    """Of whose calls that nothing was read is taken from what they do not tell."""
    calls = [r.call for r in readings if r.access is not None and r.access.implied]
    if calls and not any(r.call.usage.cache_read for r in readings):
        told = "tells" if len(calls) == 1 else "tell"
        yield f"{many(len(calls), 'call')} {told} no cached tokens: the library leaves zeros out (inferred)"


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


def _savings(view: View, savings: dict[str, Any] | None, waste: dict[str, Any]) -> Iterator[str]:
    if savings is None or savings["usd"] is None:
        return
    known = {c.id for c in view.analysis.conversations if c.savings is not None}
    lost: Counter[str] = Counter()
    for r in view.analysis.readings:
        for cause, tokens in r.losses if r.conversation in known else ():
            lost[cause] += tokens
    beyond = max(0, lost.total() - savings["tokens"])
    fixless = min(beyond, sum(lost[cause] for cause in NOT_OURS))
    if savings["usd"]:
        yield f"fixed, it saves {usd(savings['usd'])}, {savings['share']:.0%} of the cost"
        ways = _ways(view)
        yield from (f"{_WAYS[lifetime]}{f' ({ttl})' if ttl else ''}" for lifetime, ttl in ways)
        if not beyond and _less(savings, waste):
            kept = any(lifetime == "kept_alive" for lifetime, _ in ways)
            yield f"the {'requests' if kept else 'writes'} that it takes are counted"
        if fixless and _less(savings, waste):
            yield f"{number(fixless)} tokens have no known fix"
    if beyond > fixless:
        yield f"{number(beyond - fixless)} tokens have no fix that is sure to cost less than they did"
    if savings["usd"] and savings["usd_per_1000_sessions"] is not None:
        yield f"{usd(savings['usd_per_1000_sessions'])} in 1,000 such sessions"


def _less(savings: dict[str, Any], waste: dict[str, Any]) -> bool:
    """Whether less is saved than was lost, as it is written here."""
    lost = waste["usd"]
    return lost is not None and usd(savings["usd"]) != usd(lost) and savings["usd"] < lost


def _ways(view: View) -> list[tuple[Lifetime, str]]:
    """The lifetimes that the number stands for, with the names of those that are to be asked for."""
    saved = [c.savings for c in view.analysis.conversations if c.savings is not None and c.savings.usd]
    return list(dict.fromkeys((s.lifetime, s.ttl) for s in saved if s.lifetime in _WAYS))
