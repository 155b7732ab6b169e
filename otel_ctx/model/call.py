"""One request to a model provider, told by one or several spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otel_ctx.frozen import frozen
from otel_ctx.model.prompt import Prompt, Segment
from otel_ctx.model.telling import Diagnosis
from otel_ctx.model.values import Reason, Record, Role, Status


@dataclass(frozen=True, slots=True)
class Completeness:
    status: Status
    reasons: tuple[Reason, ...] = ()
    lost: frozenset[str] = frozenset()  # "tools", "system", "messages", "head"

    @property
    def text_seen(self) -> bool:
        """Is any of the prompt's text here? Without it nothing can be said of what changed."""
        return self.status in ("full", "partial")


@frozen(frozen=True, slots=True)
class Usage:
    """Tokens as the provider reports them; ``input`` always includes the cached ones. ``None`` = not reported."""

    input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    semantics: Literal["inclusive", "exclusive"] | None = None  # of the numbers as they arrived
    semantics_evidence: str = ""
    cache_implied: bool = False  # a 0 of the cache that the dialect leaves out: nobody wrote it
    conflicts: tuple[str, ...] = ()  # what cannot be right of the numbers that were told, in words


@frozen(frozen=True, slots=True)
class SpanRef:
    trace_id: str
    span_id: str
    role: Role
    scope: str = ""


@frozen(frozen=True, slots=True, eq=False)
class Call:
    """One request to a model provider, told by one or several spans, counted once."""

    id: str  # "TRACE:SPAN" of the primary span; "FILE:RECORD" out of a log of requests
    spans: tuple[SpanRef, ...]
    trace_id: str
    parent_id: str
    dialect: str
    scope: str
    scope_version: str
    service: str
    agent: str
    operation: str
    status: Literal["ok", "error", "cancelled"]
    error: str
    provider: str
    platform: str
    model: str
    response_id: str
    previous_response_id: str
    conversation_hint: str
    start_unix_nano: int
    end_unix_nano: int
    first_token_unix_nano: int | None
    completeness: Completeness
    usage: Usage
    prompt: Prompt
    answer: tuple[Segment, ...]
    reserve: int | None
    limit: int | None
    service_tier: str = ""  # as in ``Telling``
    parameters: tuple[tuple[str, str], ...] = ()
    diagnosis: Diagnosis | None = None
    cut_by: str = ""  # as in ``Telling``
    unassigned_bytes: int = 0
    record: Record = "span"
    compacted: bool = False
    sums_up: bool = False  # as in ``Telling``
    in_pieces: bool = False  # as in ``Telling``: the same tools may be told otherwise
    guess: tuple[str, ...] = ()  # the evidence of a reading that no dialect vouches for, as in ``Telling``

    @property
    def served_by(self) -> str:
        """Whose rules and prices hold: the platform's, else the provider's; "" not known."""
        return self.platform or self.provider


def told_otherwise(old: Call, new: Call) -> bool:
    """Do two libraries tell of the same tools, each in its own way? What differs then may be the telling."""
    a, b = old.prompt.tools, new.prompt.tools
    return (
        old.scope != new.scope
        and bool(a)
        and [s.name for s in a] == [s.name for s in b]
        and [s.digest for s in a] != [s.digest for s in b]
    )
