"""One module per instrumentation family: a record -> what it tells of a model call.

A reader looks at attributes (and the scope where attributes cannot tell), never at content, and leaves messages unparsed.
Order matters only where one span wears two dialects at once: the first reader that recognises a record has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from otel_ctx.dialects import (
    adk,
    anthropic_sdk,
    claude_code,
    claude_code_bodies,
    codex,
    exchange,
    gemini_cli,
    genai,
    genai_events,
    generic,
    haystack,
    langfuse,
    langgraph,
    langsmith,
    litellm,
    mastra,
    monocle,
    openinference,
    openllmetry,
    pydantic,
    vercel,
)
from otel_ctx.dialects.cuts import with_cut
from otel_ctx.dialects.diagnoses import of_attributes as diagnosis_of
from otel_ctx.dialects.parameters import of_attributes
from otel_ctx.model import LogRecord, Span, Telling

Reader = Callable[[Span], Telling | None]

READERS: tuple[Reader, ...] = (
    exchange.read,
    openinference.read,
    vercel.read,
    openllmetry.read,
    anthropic_sdk.read,
    claude_code.read,
    langfuse.read,
    langsmith.read,
    langgraph.read,
    haystack.read,
    adk.read,
    codex.read,
    mastra.read,
    monocle.read,
    litellm.read,
    pydantic.read,
    genai.read,
    generic.read,
)

# Each goes by the name of a record: who has many of them need not read those without one.
LOG_READERS: tuple[Callable[[LogRecord], Telling | None], ...] = (
    claude_code_bodies.read_log,
    claude_code.read_log,
    gemini_cli.read_log,
    codex.read_log,
    genai_events.read_log,
    generic.read_log,
)


# An attribute by which a dialect knows its spans: where it tells nothing of one, nobody guesses.
MARKS: Mapping[Reader, str] = {
    openinference.read: "openinference.span.kind",
    openllmetry.read: "traceloop.span.kind",
    vercel.read: "ai.operationId",
    langfuse.read: "langfuse.observation.type",
    langsmith.read: "langsmith.span.kind",
    mastra.read: "mastra.span.type",
    monocle.read: monocle.MARK,
    exchange.read: "exchange.dialect",
}

_GUESS: Reader = generic.read
_OF_A_TOOL = re.compile(r"(?:tool|tools|functions|definitions)\.\d+\.").search
_LIMIT = 128  # attributes of a span, where nobody has set another limit


def is_announcement(span: Span) -> bool:
    """Whether ``span`` says no more than that another has begun, which will say all of it at its end."""
    return pydantic.is_pending(span)


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none.

    A span that is full to its limit, and lacks what it must have had, has lost it, whatever its counter says: not every way
    keeps that number."""
    telling = _read(span)
    if telling is None or telling.role != "call" or span.dropped_attributes or len(span.attributes) != _LIMIT:
        return telling
    cut = _read(replace(span, dropped_attributes=1))
    if cut is None or (telling.usage is not None and "head" not in cut.lost):
        return telling
    return cut


def _read(span: Span) -> Telling | None:
    for reader in READERS:
        if reader is _GUESS and _is_known(span):
            continue  # it would have to look at all that is written there
        telling = reader(span)
        if telling is None:
            continue
        if reader is genai.read and telling.role == "call" and telling.messages is None and not telling.lost:
            telling = generic.with_content(telling, span)  # the library may have names of its own for words
        telling = with_cut(telling, span.cut)
        if span.dropped_attributes:
            telling = _damaged(telling, span)
        if telling.role != "call":
            return telling
        parameters = telling.parameters or of_attributes(span.attributes)
        diagnosis = telling.diagnosis or diagnosis_of(span.attributes)
        if parameters == telling.parameters and diagnosis == telling.diagnosis:
            return telling
        return telling._replace(parameters=parameters, diagnosis=diagnosis)
    return None


def _damaged(telling: Telling, span: Span) -> Telling:
    """``telling`` of a span that has lost attributes, and nobody says which."""
    usage = telling.usage._replace(damaged=True) if telling.usage is not None else None
    return telling._replace(usage=usage, in_pieces=any(map(_OF_A_TOOL, span.attributes)))


def _is_known(span: Span) -> bool:
    return any(mark in span.attributes and reader in READERS for reader, mark in MARKS.items())


def read_log(record: LogRecord) -> Telling | None:
    """The content that ``record`` holds of the span it belongs to; None where it holds none."""
    for reader in LOG_READERS:
        telling = reader(record)
        if telling is not None:
            return with_cut(telling, record.cut)
    return None
