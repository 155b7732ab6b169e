"""A telling whose content has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from otel_ctx.model import (
    Chain,
    Reason,
    Segment,
    Telling,
)

Extend = Callable[[Chain, Iterable[Chain]], Chain]
"""One chain out of several that follow each other (content that came in single log records)."""


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A telling whose content has been read: the raw values are gone, the segments are here."""

    telling: Telling
    tools: tuple[Segment, ...]
    system: tuple[Segment, ...]
    messages: Chain
    answer: tuple[Segment, ...]
    reasons: frozenset[Reason]
    weight: tuple[int, int] = (0, 0)  # how much the telling held; of two of one span the heavier counts
    id: str = field(init=False)  # "TRACE:SPAN"
    content: int = field(init=False)  # how much of a prompt is here, in bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.telling.trace_id}:{self.telling.span_id}")
        size = self.messages.bytes
        for section in (self.tools, self.system):
            for s in section:
                size += s.bytes
        object.__setattr__(self, "content", size)
