"""The conversations, a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from otel_ctx.model import Analysis, Band, Conversation, Reading
from otel_ctx.outputs.views.summary import Summary, summary

Order = Literal["urgency", "start", "turns", "depth", "headroom", "waste", "cost"]
ORDERS: tuple[Order, ...] = get_args(Order)
_URGENCY: Mapping[Band, int] = {"exceeded": 0, "critical": 1, "low": 2, "unknown": 3, "ok": 4}


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """``number``: what selectors call it, from 1 in the order of the starts; ``utilization``: depth / limit;
    ``findings``: (errors, warnings) that concern it."""

    number: int
    conversation: Conversation
    summary: Summary
    start_unix_nano: int
    utilization: float | None
    findings: tuple[int, int]


def listing(
    analysis: Analysis, order: Order = "urgency", numbers: Mapping[str, int] | None = None
) -> tuple[Entry, ...]:
    """Most urgent, latest, longest, deepest, fullest, costliest first. ``numbers``: of conversations by id, where
    ``analysis`` was narrowed and its own would be others."""
    by_conversation: dict[str, list[Reading]] = {}
    for r in analysis.readings:
        by_conversation.setdefault(r.conversation, []).append(r)
    found: Counter[tuple[str, str]] = Counter()
    home = {r.call.id: r.conversation for r in analysis.readings}
    for f in analysis.findings:
        found.update((id_, f.severity) for id_ in {home[call] for call in f.calls if call in home})
    own = numbers or numbering(analysis)
    entries = [
        _entry(own[c.id], c, by_conversation[c.id], (found[c.id, "error"], found[c.id, "warning"]))
        for c in analysis.conversations
        if c.id in by_conversation
    ]
    return tuple(sorted(entries, key=_KEYS[order]))


def numbering(analysis: Analysis) -> dict[str, int]:
    return {c.id: n for n, c in enumerate(analysis.conversations, 1)}


def not_joined(readings: Sequence[Reading]) -> str:
    """In words, where several conversations may be one: their first calls have neither text nor an id to go on from."""
    alone = [r.call for r in readings if r.unplaced and not r.call.conversation_hint]
    if len(alone) < 2:
        return ""
    logged = all(call.record == "request" for call in alone)
    return (
        f"{len(alone):,} calls could not be joined to any: without text or a conversation id one session looks like several "
        f"conversations. {_IN_A_LOG if logged else _ON_SPANS}"
    )


_ON_SPANS = "Record contents, or set gen_ai.conversation.id (session.id) on the spans."
_IN_A_LOG = "Log the request beside each answer, or one id with both (request_id), or a conversation_id."


def _entry(number: int, c: Conversation, readings: Sequence[Reading], found: tuple[int, int]) -> Entry:
    share = c.usage_last / c.limit if c.limit and c.usage_last is not None else None
    first = min((r.call.start_unix_nano for r in readings if r.call.start_unix_nano), default=0)
    return Entry(number, c, summary(c.id, readings), first, share, found)


def _urgency(e: Entry) -> tuple[int, int, int, int]:
    errors, warnings = e.findings
    of_findings = 1 if errors else 2 if warnings else 4
    return (
        min(_URGENCY[e.conversation.band], of_findings),
        -(e.summary.wasted or 0),
        -(e.summary.depth or 0),
        e.number,
    )


def _turns_left(e: Entry) -> tuple[bool, float, float, int]:
    turns, share = e.conversation.headroom_turns, e.utilization
    return turns is None, turns or 0.0, -(share or 0.0), e.number


_KEYS: Mapping[Order, Callable[[Entry], tuple[float, ...]]] = {
    "urgency": _urgency,
    "start": lambda e: (-e.start_unix_nano, e.number),
    "turns": lambda e: (-e.summary.calls, e.number),
    "depth": lambda e: (-(e.summary.depth or 0), e.number),
    "headroom": _turns_left,
    "waste": lambda e: (-(e.summary.wasted or 0), e.number),
    "cost": lambda e: (-(e.summary.usd or 0.0), e.number),
}
