"""One module per instrumentation family: a record -> what it tells of a model call.

A reader looks at attributes (and the scope where attributes cannot tell), never at content, and leaves messages unparsed.
Order matters only where one span wears two dialects at once: the first reader that recognises a record has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from otel_ctx.dialects import (
    adk,
    anthropic_sdk,
    claude_code,
    claude_code_bodies,
    codex,
    diagnoses,
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
    parameters,
    pydantic,
    vercel,
)
from otel_ctx.dialects.cuts import with_cut
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

# Of what each must find something to tell anything: a span has it as an attribute, as its name or as its scope, "*" is
# any end. The generic reader looks at all.
NEEDS: Mapping[Reader, frozenset[str]] = {
    module.read: module.NEEDS
    for module in (
        exchange,
        openinference,
        vercel,
        openllmetry,
        anthropic_sdk,
        claude_code,
        langfuse,
        langsmith,
        langgraph,
        haystack,
        adk,
        codex,
        mastra,
        monocle,
        litellm,
        pydantic,
        genai,
    )
}
_HINTS = ("gen_ai.", "llm.", "ai.prompt", "ai.model", "openinference.", "traceloop.")
_WIDEST = 48  # attributes; a call with a prompt in more of them has others each time
_LONGEST = 4096  # characters of all their names
_NAMED = frozenset(word for needs in NEEDS.values() for word in needs)
_OF_A_TOOL = re.compile(r"(?:tool|tools|functions|definitions)\.\d+\.").search
_BESIDE = parameters.NAMES | diagnoses.NAMES  # of what every reader leaves to this module
_LIMIT = 128  # attributes of a span, where nobody has set another limit


def is_announcement(span: Span) -> bool:
    """Whether ``span`` says no more than that another has begun, which will say all of it at its end."""
    return pydantic.is_pending(span)


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none.

    A span that is full to its limit, and lacks what it must have had, has lost it, whatever its counter says: not every way
    keeps that number."""
    telling = _read(span)
    if len(span.attributes) != _LIMIT or telling is None or telling.role != "call" or span.dropped_attributes:
        return telling
    cut = _read(replace(span, dropped_attributes=1))
    if cut is None or (telling.usage is not None and "head" not in cut.lost):
        return telling
    return cut


def _read(span: Span) -> Telling | None:
    for reader in _readers_of(span):
        telling = reader(span)
        if telling is None:
            continue
        if telling.messages is None and reader is genai.read and telling.role == "call" and not telling.lost:
            telling = generic.with_content(telling, span)  # the library may have names of its own for words
        telling = with_cut(telling, span.cut)
        if span.dropped_attributes:
            telling = _damaged(telling, span)
        if telling.role != "call" or _BESIDE.isdisjoint(span.attributes):
            return telling
        return telling._replace(
            parameters=telling.parameters or parameters.of_attributes(span.attributes),
            diagnosis=telling.diagnosis or diagnoses.of_attributes(span.attributes),
            service_tier=telling.service_tier or parameters.tier_of(span.attributes),
        )
    return None


def is_foreign(span: Span) -> bool:
    """Whether ``span``, of which no reader tells anything, has telemetry of a model's use: attributes that hold messages or
    token counts. What names itself a tool's run has such too: what goes into the tool and comes out of it."""
    a = span.attributes
    words = "\n".join(a) if len(a) <= _WIDEST else ""
    hinted = _hints(tuple(a)) if not words or len(words) > _LONGEST else _hints_by(words)
    return hinted and "tool" not in str(a.get("gen_ai.operation.name", ""))


@lru_cache(maxsize=1024)
def _hints_by(words: str) -> bool:
    return _hints(words.split("\n"))


def _hints(words: Iterable[str]) -> bool:
    return any(w.startswith(_HINTS) and ("token" in w or "message" in w or "prompt" in w) for w in words)


def _damaged(telling: Telling, span: Span) -> Telling:
    """``telling`` of a span that has lost attributes, and nobody says which."""
    usage = telling.usage._replace(damaged=True) if telling.usage is not None else None
    return telling._replace(usage=usage, in_pieces=any(map(_OF_A_TOOL, span.attributes)))


def _readers_of(span: Span) -> tuple[Reader, ...]:
    """The readers that may know ``span``, by its words alone: most spans are of web servers, databases and frameworks'
    steps, and have the same words each time."""
    a = span.attributes
    if len(a) <= _WIDEST:
        words = "\n".join((span.scope_name, span.name if span.name in _NAMED else "", *a))
        if len(words) <= _LONGEST:
            return _readers_by(READERS, words)
    return READERS if not _is_known(a, READERS) else tuple(r for r in READERS if r is not _GUESS)


@lru_cache(maxsize=1024)
def _readers_by(readers: tuple[Reader, ...], words: str) -> tuple[Reader, ...]:
    said = frozenset(words.split("\n"))
    known = _is_known(said, readers)
    return tuple(r for r in readers if (not known if r is _GUESS else _has(said, NEEDS[r])))


def _has(said: frozenset[str], needs: frozenset[str]) -> bool:
    begins = tuple(word[:-1] for word in needs if word[-1] == "*")
    return not needs.isdisjoint(said) or bool(begins and any(word.startswith(begins) for word in said))


def _is_known(words: Collection[str], readers: tuple[Reader, ...]) -> bool:
    """Is it a dialect's own, so that the generic one would have to look at all that is written there for nothing?"""
    return any(mark in words and reader in readers for reader, mark in MARKS.items())


def read_log(record: LogRecord) -> Telling | None:
    """The content that ``record`` holds of the span it belongs to; None where it holds none."""
    for reader in LOG_READERS:
        telling = reader(record)
        if telling is not None:
            return with_cut(telling, record.cut)
    return None
