"""Spans in the dialect of OpenTelemetry's GenAI conventions: ``gen_ai.*`` attributes; messages as JSON strings, as
nested values or, in older generations, in span events.

OpenTelemetry's own packages speak it, OpenLLMetry since 0.54, and most frameworks that trace themselves. Scopes matter
only for what no attribute tells: whether a missing number is a zero, and a missing tool list an empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from otel_ctx.dialects import event_messages, semconv
from otel_ctx.dialects.fields import first, text
from otel_ctx.model import Span, Telling
from otel_ctx.parts import structure

_CALLS = frozenset(
    {
        "chat", "generate_content", "text_completion", "completion", "generatetext", "streamtext", "generate_text",
        "stream_text", "generate_content_stream", "chat_completion", "response", "responses", "messages", "llm_call",
    }
)  # fmt: skip
_SUMS = frozenset(
    {
        "invoke_agent", "create_agent", "invoke_workflow", "workflow", "agent", "chain", "agent_run",
        "execute_event_loop_cycle",
    }
)  # fmt: skip
_NO_CALLS = frozenset(
    {
        "embeddings", "embedding", "retrieval", "rerank", "reranking", "execute_tool", "tool", "execute_task",
        "count_tokens", "moderation", "plan", "fetch_response", "image_generation", "generate_image", "speech",
        "text_to_speech", "transcription", "audio_transcription", "batch", "create_batch", "create_memory_store",
        "tool_call", "schedule_tool_calls",
        "delete_memory_store", "create_memory", "update_memory", "upsert_memory", "delete_memory", "search_memory",
    }
)  # fmt: skip
# They write log records of every call, whatever the switch of contents says: where none is, the logs were not given.
_LOGGED = frozenset(
    {
        "opentelemetry.instrumentation.botocore.bedrock-runtime",
        "opentelemetry.instrumentation.google_genai",
        "opentelemetry.instrumentation.openai_v2",
    }
)
_GEMINI_CLI = "llm_call"  # what it calls a request
_SUM_KINDS = frozenset({"workflow", "agent", "task", "subtask"})  # of traceloop.span.kind and ag2.usage.kind
NEEDS = frozenset(
    {
        *semconv.OPERATION,
        *semconv.REQUEST_MODEL,
        *semconv.RESPONSE_MODEL,
        *semconv.AGENT,
        "traceloop.span.kind",
        "ag2.usage.kind",
    }
)


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none."""
    role = _role(span)
    if role is None:
        return None
    telling = semconv.telling(
        span,
        "genai",
        role,
        writes_tools=semconv.writes_tools(span.scope_name, span.scope_version),
        zeros_omitted=semconv.omits_zeros(span.scope_name, span.scope_version),
    )
    if role == "call" and span.scope_name in _LOGGED and not _has_content(span):
        telling = telling._replace(reasons=telling.reasons | {"logs_missing"})
    if span.scope_name == "opentelemetry.instrumentation.google_generativeai":
        return _with_thoughts(telling)
    if telling.operation == _GEMINI_CLI and telling.system is not None:
        return telling._replace(system=telling.system._replace(value=_unquoted(telling.system.value)))
    return _bedrock_client(span, telling)


def _unquoted(value: Any) -> Any:
    """Gemini CLI writes the system prompt, a text, as JSON: with quotes and escapes."""
    text_of = structure(f"[{value}]") if isinstance(value, str) and value[:1] == '"' else None
    return text_of[0] if isinstance(text_of, list) and len(text_of) == 1 else value


def _with_thoughts(telling: Telling) -> Telling:
    """OpenLLMetry's Gemini spans count thoughts in the total only."""
    usage = telling.usage
    if usage is None or usage.total is None or usage.input is None or usage.output is None:
        return telling
    thoughts = (
        usage.reasoning if usage.reasoning is not None else max(usage.total - usage.input - usage.output, 0)
    )
    return telling._replace(usage=usage._replace(reasoning=thoughts, output_excludes_reasoning=True))


def _role(span: Span) -> Literal["call", "aggregate"] | None:
    a = span.attributes
    if "ai.operationId" in a:
        return None  # the AI SDK's: its reader has said what the operation is
    operation = text(a, *semconv.OPERATION).lower()
    kind = text(a, "traceloop.span.kind", "ag2.usage.kind")
    if operation in _NO_CALLS or kind == "tool":
        return None
    if operation in _SUMS or kind in _SUM_KINDS:
        return "aggregate" if _has_usage(a) or _has_content(span) or _names_someone(a) else None
    if operation in _CALLS:
        return "call"
    model = text(a, *semconv.REQUEST_MODEL, *semconv.RESPONSE_MODEL)
    if not (model or text(a, *semconv.AGENT)) or not (_has_usage(a) or _has_content(span)):
        return None
    return "call" if model else "aggregate"


def _has_usage(a: Mapping[str, Any]) -> bool:
    return semconv.usage(a) is not None


def _has_content(span: Span) -> bool:
    names = (*semconv.INPUT, *semconv.OUTPUT, *semconv.SYSTEM, *semconv.TOOLS)
    return first(span.attributes, *names) is not None or any(
        e.name == event_messages.DETAILS or event_messages.is_message(e.name) for e in span.events
    )


def _names_someone(a: Mapping[str, Any]) -> bool:
    """The calls below are this agent's, or this conversation's."""
    return bool(text(a, *semconv.AGENT) or text(a, *semconv.CONVERSATION))


def _bedrock_client(span: Span, telling: Telling) -> Telling:
    """botocore's own instrumentation, known by what it writes of every AWS call: input_tokens without the cached
    ones and, as all its counts, absent where 0. Only Converse has cache counts at all."""
    usage = telling.usage
    if usage is None or telling.provider != "aws.bedrock" or text(span.attributes, "rpc.system") != "aws-api":
        return telling
    converse = text(span.attributes, "rpc.method") in ("Converse", "ConverseStream")
    claim = usage._replace(
        input=0
        if usage.input is None and converse and (usage.cache_read or usage.cache_write)
        else usage.input,
        semantics="exclusive",
        semantics_evidence="botocore passes Bedrock's inputTokens on, which exclude cached tokens",
        zeros_omitted=converse,
    )
    return telling._replace(usage=claim)
