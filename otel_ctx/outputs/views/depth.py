"""Depth over turns: how full the window was at each call of a conversation, its limit, and when it will be full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ctx.model import Band, Conversation, Method, Reading
from otel_ctx.outputs.views.kinds import by_kind


@dataclass(frozen=True, slots=True)
class Point:
    """One call. ``usage`` in tokens, cached ones included; ``kinds``: the same by kind of segment, as far as it
    was seen; where more was counted than the provider reports, shares of that."""

    call: str
    turn: int
    usage: int | None
    method: Method
    limit: int | None
    band: Band
    change: int | None  # tokens more than at the turn before
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Depth:
    """``limit``, ``reserve`` and ``growth`` (tokens a turn) as of the last call that tells them; ``full_at``: the turn, a
    fraction, at which limit − reserve is reached if it grows on like this (None: it does not grow, or there is no limit)."""

    conversation: str
    points: tuple[Point, ...]
    limit: int | None
    reserve: int
    growth: float | None
    full_at: float | None

    @property
    def peak(self) -> int | None:
        return max((p.usage for p in self.points if p.usage is not None), default=None)


def depth(conversation: Conversation, readings: Mapping[str, Reading]) -> Depth:
    """``readings``: by call id."""
    calls = [readings[call] for call in conversation.calls if call in readings]
    points = []
    before: int | None = None
    for r in calls:
        c = r.context
        change = c.usage - before if c.usage is not None and before is not None else None
        kinds = _fitting(by_kind(r), c.usage) if r.tokens.method != "unmeasured" else {}
        points.append(Point(r.call.id, r.turn, c.usage, c.usage_method, c.limit, c.band, change, kinds))
        before = c.usage
    last = _last(calls)
    if last is None:
        return Depth(conversation.id, tuple(points), None, 0, None, None)
    c = last.context
    ahead = c.headroom_turns
    full_at = last.turn + ahead if ahead is not None else None
    return Depth(conversation.id, tuple(points), c.limit, c.reserve, c.growth, full_at)


def _fitting(kinds: Mapping[str, int], usage: int | None) -> Mapping[str, int]:
    counted = sum(kinds.values())
    if usage is None or counted <= usage:
        return kinds
    return {kind: round(tokens * usage / counted) for kind, tokens in kinds.items()}


def _last(calls: Sequence[Reading]) -> Reading | None:
    return next((r for r in reversed(calls) if r.context.usage is not None), None)
