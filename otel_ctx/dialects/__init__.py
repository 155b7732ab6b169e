"""One module per instrumentation family: a record -> what it tells of a model call.

A reader looks at attributes (and the scope where attributes cannot tell), never at content, and leaves messages unparsed.
Order matters only where one span wears two dialects at once: the first reader that recognises a record has it.
"""

from __future__ import annotations

from collections.abc import Callable

from otel_ctx.dialects import (
    adk,
    anthropic_sdk,
    claude_code,
    exchange,
    genai,
    genai_events,
    haystack,
    langfuse,
    langgraph,
    langsmith,
    litellm,
    openinference,
    openllmetry,
    pydantic,
    vercel,
)
from otel_ctx.model import LogRecord, Span, Telling

READERS: tuple[Callable[[Span], Telling | None], ...] = (
    exchange.read,
    openinference.read,
    vercel.read,
    openllmetry.read,
    anthropic_sdk.read,
    langfuse.read,
    langsmith.read,
    langgraph.read,
    haystack.read,
    adk.read,
    litellm.read,
    pydantic.read,
    genai.read,
)

LOG_READERS: tuple[Callable[[LogRecord], Telling | None], ...] = (claude_code.read_log, genai_events.read_log)


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none."""
    for reader in READERS:
        telling = reader(span)
        if telling is not None:
            return telling
    return None


def read_log(record: LogRecord) -> Telling | None:
    """The content that ``record`` holds of the span it belongs to; None where it holds none."""
    for reader in LOG_READERS:
        telling = reader(record)
        if telling is not None:
            return telling
    return None
