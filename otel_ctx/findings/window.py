"""How much room is left in the context window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from otel_ctx.findings.step import Step
from otel_ctx.model import Band, Context, Finding, Reading

_RANK: dict[Band, int] = {"unknown": 0, "ok": 0, "low": 1, "critical": 2, "exceeded": 3}
_TOO_LONG = re.compile(
    r"context[ _]?(?:length|window)|maximum context|(?:prompt|input|request) is too long|too many (?:input )?tokens",
    re.IGNORECASE,
)
_SPIKE, _SPIKE_LEAST, _SPIKE_SHARE = 4, 4000, 0.02  # times the usual growth, tokens, share of the window
_FIX = "Compact or trim the history, start a new conversation, or use a model with a larger window."


def headroom_low(step: Step) -> Iterator[Finding]:
    """Said when a conversation gets there, and again when it gets worse; not at every turn after."""
    now = step.reading.context
    before = step.before.band if step.before is not None else "unknown"
    if now.band not in ("low", "critical") or _RANK[now.band] <= _RANK[before]:
        return
    yield Finding(
        kind="headroom_low",
        severity="warning",
        title=_title(now),
        detail=_figures(now),
        fix=_FIX,
        calls=(step.call.id,),
        evidence="reported" if now.usage_method == "exact" else "predicted",
    )


def as_it_stands(finding: Finding, said_at: Reading, newest: Reading) -> Finding:
    """What ``headroom_low`` said at one call, with the figures of its conversation's newest one; others stay."""
    now = newest.context
    if finding.kind != "headroom_low" or newest.call.id == said_at.call.id:
        return finding
    if now.band not in ("low", "critical"):
        end = " There is room again since." if now.band == "ok" else ""
        return replace(finding, detail=f"At turn {said_at.turn}: {finding.detail}{end}")
    return replace(
        finding,
        title=_title(now),
        detail=f"By turn {newest.turn}: {_figures(now)}",
        evidence="reported" if now.usage_method == "exact" else "predicted",
    )


def _title(now: Context) -> str:
    if now.band == "critical":
        return "The context window is nearly full"
    return "Room in the context window gets short"


def is_too_long(error: str) -> bool:
    """Do these words of a provider say that the prompt does not fit?"""
    return _TOO_LONG.search(error) is not None


def window_exceeded(step: Step) -> Iterator[Finding]:
    """The provider refused the prompt as too long, or it is longer than the window."""
    call, now = step.call, step.reading.context
    refused = call.status == "error" and is_too_long(call.error)
    told = now.usage is not None and now.limit is not None and now.limit_source in ("setting", "attribute")
    over = told and (now.usage or 0) > (now.limit or 0)
    if not refused and not over and now.band != "exceeded":
        return
    yield Finding(
        kind="window_exceeded",
        severity="error",
        title="The prompt does not fit the context window",
        detail=("The provider refused the request. " if refused else "") + _figures(now),
        fix=_FIX,
        calls=(call.id,),
        evidence="reported" if refused or now.usage_method == "exact" else "predicted",
    )


def growth_spike(step: Step) -> Iterator[Finding]:
    """One turn added far more than the turns before it."""
    now, before = step.reading.context, step.before
    if now.usage is None or before is None or before.usage is None or before.growth is None:
        return
    added = now.usage - before.usage
    usual = max(before.growth, 1.0)
    if added < _SPIKE_LEAST or added < _SPIKE * usual or (now.limit and added < _SPIKE_SHARE * now.limit):
        return
    yield Finding(
        kind="growth_spike",
        severity="warning",
        title="One turn added far more than those before it",
        detail=f"{added:,} tokens in one turn; {usual:,.0f} a turn were usual.{_largest_new(step, added)}",
        fix="Look at the largest new segment, most often a tool's result: let the tool return less, or a part at a time.",
        calls=(step.call.id,),
        evidence="reported" if now.usage_method == "exact" else "predicted",
    )


def _largest_new(step: Step, added: int) -> str:
    """Which part of the prompt it was, where all of it was seen: the one that is most of it, or media, whose tokens nobody
    counts."""
    call, before = step.call, step.previous
    whole = before is not None and before.completeness.status == call.completeness.status == "full"
    if not whole or step.reading.break_ is not None:
        return ""
    new = list(call.prompt)[step.reading.shared :]
    largest = max(new, key=lambda s: s.tokens or 0, default=None)
    if largest is not None and (largest.tokens or 0) > added / 2:
        about = "" if call.prompt.exact else "about "
        return f" Most of it is {largest.path} ({largest.kind}, {about}{largest.tokens:,} tokens)."
    media = [f"{s.path} ({s.kind})" for s in new if s.tokens is None and s.kind in ("image", "file")]
    return f" New in it: {', '.join(media)}." if media else ""


def _figures(now: Context) -> str:
    if now.usage is None or not now.limit:
        return "How long the prompt was, or how large the window is, is not known."
    about = "" if now.usage_method == "exact" else "about "
    reserve = f" and {now.reserve:,} reserved for the answer" if now.reserve else ""
    words = f"{about}{now.usage:,} of {now.limit:,} tokens used ({now.usage / now.limit:.0%}){reserve}"
    if now.headroom is not None:
        words += f", {now.headroom:,} left" if now.headroom > 0 else ", no room left"
    if (now.headroom or 0) > 0 and now.headroom_turns is not None and now.growth is not None:
        words += f": about {now.headroom_turns:g} turns at {now.growth:,.0f} tokens a turn"
    return f"{words[:1].upper()}{words[1:]}."
