"""The prefix map: a row for each turn, from the first token of the prompt to the last, and what the cache did with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

from otel_ctx.model import CacheTokens, Conversation, Reading

State = Literal["read", "lost", "written", "fresh", "unknown"]
"""read: from the cache. lost: could have been read, and was billed again. written: to the cache, and new to it. fresh: neither.
unknown: nobody says what the cache did."""
STATES: tuple[State, ...] = ("read", "lost", "written", "fresh", "unknown")
Source = Literal["reported", "predicted", "unknown"]


class Stretch(NamedTuple):
    """Tokens side by side in the prompt that fared alike."""

    state: State
    tokens: int


@dataclass(frozen=True, slots=True)
class Row:
    """One call. ``stretches`` stand in the order of the prompt and add up to ``usage``; ``source``: who says so;
    ``factor`` turns a segment's counted tokens into these; ``break_at``: tokens in front of the first change."""

    call: str
    turn: int
    usage: int | None
    source: Source
    stretches: tuple[Stretch, ...]
    factor: float
    break_at: int | None


def prefix_map(conversation: Conversation, readings: Mapping[str, Reading]) -> tuple[Row, ...]:
    """``readings``: by call id."""
    return tuple(row(readings[call]) for call in conversation.calls if call in readings)


def row(r: Reading) -> Row:
    usage = r.context.usage
    source, tokens = cached(r)
    return Row(
        call=r.call.id,
        turn=r.turn,
        usage=usage,
        source=source,
        stretches=_stretches(usage, tokens, r.wasted) if usage else (),
        factor=r.tokens.factor,
        break_at=_break_at(r),
    )


def cached(r: Reading) -> tuple[Source, CacheTokens | None]:
    """What the cache did with a call: by the provider's word, else by the rules."""
    access, usage = r.access, r.call.usage
    if access is not None and access.reported is not None:
        return "reported", access.reported
    if usage.cache_read is not None and usage.input is not None:
        read, write = usage.cache_read, usage.cache_write or 0
        return "reported", CacheTokens(read, write, max(usage.input - read - write, 0))
    if access is not None and access.predicted is not None:
        return "predicted", access.predicted
    return "unknown", None


def _stretches(usage: int, tokens: CacheTokens | None, lost: int) -> tuple[Stretch, ...]:
    """What was lost lies behind what was read. It was written again, or not; what is left is new."""
    if tokens is None:
        return (Stretch("unknown", usage),)
    out = []
    rest = usage
    wanted: tuple[tuple[State, int], ...] = (
        ("read", tokens.read),
        ("lost", lost),
        ("written", tokens.write - lost),
        ("fresh", usage),
    )
    for state, size in wanted:
        size = min(max(size, 0), rest)
        if size:
            out.append(Stretch(state, size))
            rest -= size
    return tuple(out)


def _break_at(r: Reading) -> int | None:
    """Counts that are above what the provider reports are scaled to it: the place is a share of the prompt then."""
    if r.break_ is None:
        return None
    before = sum(s.tokens or 0 for s in islice(r.call.prompt, r.break_.index)) * r.tokens.factor
    counted, usage = r.tokens.counted * r.tokens.factor, r.context.usage
    if usage is not None and counted > usage:
        before *= usage / counted
    return round(before)
