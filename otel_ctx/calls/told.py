"""A telling whose content has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from hashlib import blake2b

from otel_ctx.frozen import frozen
from otel_ctx.model import (
    Chain,
    Reason,
    Section,
    Segment,
    Telling,
    Usage,
    UsageClaim,
)
from otel_ctx.rules import Rules
from otel_ctx.usage import decide

Extend = Callable[[Chain, Iterable[Chain]], Chain]
"""One chain out of several that follow each other (content that came in single log records)."""


def content_of(told: Told) -> str:
    """A name of what a record holds; the ids of tool calls tell results apart that are the same text."""
    segments = (*told.tools, *told.system, *told.messages, *told.answer)
    return blake2b(
        "".join(f"{s.digest}{s.call_id}\0" for s in segments).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()


TICK_NS = 1_000_000  # log records count in milliseconds


def own_key(told: Told) -> tuple[str, str]:
    """The ids of a record that stands for a span: of its conversation and of itself."""
    said = told.telling
    return said.conversation_hint, f"{said.order:x}.{content_of(told)[:8]}"


@frozen(frozen=True, slots=True, eq=False)
class Told:
    """A telling whose content has been read: the raw values are gone, the segments are here."""

    telling: Telling
    tools: Section
    system: Section
    messages: Chain
    answer: tuple[Segment, ...]
    reasons: frozenset[Reason]
    weight: tuple[int, int] = (0, 0)  # how much the telling held; of two of one span the heavier counts
    id: str = field(init=False)  # "TRACE:SPAN"
    content: int = field(init=False)  # how much of a prompt is here, in bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.telling.trace_id}:{self.telling.span_id}")
        object.__setattr__(self, "content", self.tools.bytes + self.system.bytes + self.messages.bytes)


def place_of(record: Told) -> tuple[int, ...]:
    """The number of a record in its file: of the line, and of its place in a list there."""
    return tuple(int(n) for n in record.telling.span_id.split(".") if n.isdecimal())


def tells_a_request(record: Told) -> bool:
    """One record for a whole request, and not one for each message: only such a one says whose request it is."""
    t = record.telling
    return bool(t.operation or t.request_model or t.response_model or t.response_id or t.usage)


def was_open(call: Telling, record: Telling, slack: int = TICK_NS) -> bool:
    """Was ``call`` open at the end of what the record tells of?"""
    return call.start_unix_nano - slack <= record.end_unix_nano <= call.end_unix_nano + slack


def equal_numbers(a: Told, b: Told) -> bool:
    """Are all numbers equal that both tell, as they were written? One input may be without the cached tokens."""
    x, y = a.telling.usage, b.telling.usage
    if x is None or y is None or x.input is None or y.input is None or not _one_input(x, y):
        return False
    both = ((getattr(x, count), getattr(y, count)) for count in ("output", "cache_read", "cache_write"))
    return all(m == n for m, n in both if m is not None and n is not None)


def _one_input(x: UsageClaim, y: UsageClaim) -> bool:
    cached = (x.cache_read or 0) + (x.cache_write or 0)
    return x.input == y.input or (bool(cached) and abs((x.input or 0) - (y.input or 0)) == cached)


def another_span(known: Telling, new: Telling) -> bool:
    """Are there two spans of one id (processes that were forked draw the same ones), and not one that was sent again?"""
    if known.record != "span":
        return False
    a, b, x, y = known.start_unix_nano, new.start_unix_nano, known.usage, new.usage
    if a and b and abs(a - b) > TICK_NS:
        return True
    return x is not None and y is not None and bool(x.input and y.input) and not _one_input(x, y)


def usage_of(record: Told, rules: Rules) -> Usage:
    """What it tells of usage, as the rules of its library and of its model's provider read it."""
    said = record.telling
    if said.usage is None:
        return Usage()
    family = rules.model(said.response_model or said.request_model, said.provider)
    meaning = family.usage_input_includes_cache if family is not None else None
    return decide(said.usage, rules.usage(said.scope, said.scope_version, said.provider), meaning)
