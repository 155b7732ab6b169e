"""Codex CLI: figures only. The prompt is nowhere in what it exports.

A request's model stands on the span of the attempt, its numbers on the span below that handled the last event of the
stream (and in a log record, for those who export no spans), the conversation on the span of the turn.
"""

from __future__ import annotations

from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import number, of_record, of_span, text
from otel_ctx.model import LogRecord, Span, Telling, UsageClaim

_ATTEMPT, _TURN, _LAST_EVENT = "try_run_sampling_request", "run_turn", "handle_responses"
_CONVERSATION = "conversation.id"
_INCLUSIVE: Any = {
    "semantics": "inclusive",
    "semantics_evidence": "OpenAI's input_tokens include the cached ones",
}
_UNSEEN: Any = {"reasons": frozenset({"not_captured"}), "lost": frozenset({"tools", "system", "messages"})}
_EVENT, _COMPLETED, _INPUT = "codex.sse_event", "response.completed", "input_token_count"
NEEDS = frozenset({"turn_id", "codex.usage.total_tokens", _CONVERSATION})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of Codex's, or of another of its many steps."""
    a = span.attributes
    if span.name == _ATTEMPT and "turn_id" in a and "model" in a:
        return of_span(
            span,
            "codex",
            "call",
            operation="chat",
            provider="openai",
            request_model=text(a, "model"),
            **_UNSEEN,
        )
    if span.name == _LAST_EVENT and "codex.usage.total_tokens" in a:
        return of_span(
            span, "codex", "call", operation="chat", provider="openai", usage=_usage(span), **_UNSEEN
        )
    if span.name == _TURN and _CONVERSATION in a:
        return of_span(span, "codex", "aggregate", operation="turn", conversation_hint=text(a, _CONVERSATION))
    return None


def _usage(span: Span) -> UsageClaim | None:
    claim = semconv.usage(span.attributes)
    return claim and claim._replace(
        reasoning=number(span.attributes, "codex.usage.reasoning_output_tokens"), **_INCLUSIVE
    )


def read_log(record: LogRecord) -> Telling | None:
    """The numbers of a request that has come to its end; None where it is no such record."""
    a = record.attributes
    if text(a, "event.name") != _EVENT or text(a, "event.kind") != _COMPLETED or _INPUT not in a:
        return None  # the same event comes without numbers too
    return of_record(
        record,
        "codex",
        operation="chat",
        provider="openai",
        request_model=text(a, "model"),
        conversation_hint=text(a, _CONVERSATION),
        usage=UsageClaim(
            input=number(a, _INPUT),
            output=number(a, "output_token_count"),
            cache_read=number(a, "cached_token_count"),
            cache_write=number(a, "cache_write_token_count"),
            reasoning=number(a, "reasoning_token_count"),
            **_INCLUSIVE,
        ),
        **_UNSEEN,
    )
