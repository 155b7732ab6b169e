"""OpenInference (Arize): flat ``llm.*`` attributes and ``input.value``, over every framework, in Python and JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import number, of_span, text
from otel_ctx.dialects.openinference.indexed import Flat, gather
from otel_ctx.dialects.openinference.prompt import CLIENT, prompt_of
from otel_ctx.dialects.openinference.usage import usage_of
from otel_ctx.dialects.openinference.wire import parameters_of, response_id, response_of, wire_of
from otel_ctx.dialects.parameters import of_request
from otel_ctx.model import Raw, Span, Telling
from otel_ctx.parts import reserve_of, structure

_SUMS = frozenset({"AGENT", "CHAIN", "UNKNOWN"})  # kinds of spans that repeat or sum the calls below them
_THREADS = ("session_id", "conversation_id", "thread_id", "sessionId", "threadId")
NEEDS = frozenset({"openinference.span.kind", "llm.token_count.prompt", "llm.model_name"})


def read(span: Span) -> Telling | None:
    a = span.attributes
    kind = a.get("openinference.span.kind")
    if kind is None and "llm.token_count.prompt" not in a and "llm.model_name" not in a:
        return None
    kind = str(kind or "LLM").upper()
    if (kind != "LLM" and kind not in _SUMS) or "llm.request.type" in a:
        return None
    flat = gather(a)
    if flat.of_openllmetry:
        return None
    if kind != "LLM":
        return _aggregate(span, flat)
    return None if _only_marked(span, flat) else _call(span, flat)


def _only_marked(span: Span, flat: Flat) -> bool:
    """A span of another dialect that a processor has given a kind and token counts, and nothing else."""
    return (
        span.kind == CLIENT
        and "input.value" not in span.attributes
        and not flat.has_inputs
        and not flat.outputs
    )


def _call(span: Span, flat: Flat) -> Telling | None:
    a = span.attributes
    response = response_of(a.get("output.value"))
    usage = usage_of(span, response)
    wire = wire_of(a.get("input.value"))
    parameters = parameters_of(a, wire)
    prompt = prompt_of(span, flat, wire, parameters)
    who = _who(span, parameters)
    told = prompt.messages or prompt.output or "redacted" in prompt.reasons
    failed = who.status != "ok" and (who.provider or who.request_model)
    if usage is None and not told and not failed:
        return None  # a step around a call, not a call
    if usage is None and span.dropped_attributes:
        prompt.reasons.add("attributes_dropped")
    previous = str(parameters.get("previous_response_id") or "")
    if previous:
        prompt.miss("server_side", "head")
    reserve = reserve_of(parameters) or number(a, *semconv.RESERVE) or 0
    said = response or {}
    return who._replace(
        role="call",
        operation=text(a, "gen_ai.operation.name") or "chat",
        response_model=text(a, "llm.response.model_name", "gen_ai.response.model")
        or text(said, "model", "model_version", "modelVersion"),
        response_id=text(a, "gen_ai.response.id", "ai.response.id") or response_id(said),
        previous_response_id=previous,
        usage=usage,
        reserve=reserve if reserve > 0 else None,
        limit=number(parameters, "context_window"),
        parameters=of_request(parameters),
        tools=Raw("tools", prompt.tools) if prompt.tools is not None else None,
        system=Raw("system", prompt.system) if prompt.system else None,
        messages=Raw("messages", prompt.messages) if prompt.messages else None,
        output=Raw("messages", prompt.output) if prompt.output else None,
        reasons=frozenset(prompt.reasons),
        lost=frozenset(prompt.lost),
    )


def _aggregate(span: Span, flat: Flat) -> Telling | None:
    """An agent's or a chain's span: its numbers are sums or repetitions, its messages an excerpt."""
    usage = usage_of(span, None)
    if usage is None and not (flat.has_inputs or flat.outputs or "gen_ai.input.messages" in span.attributes):
        return None
    return _who(span, {})._replace(usage=usage)


def _who(span: Span, parameters: Mapping[str, Any]) -> Telling:
    """Who, where and when, as an aggregate without content."""
    a = span.attributes
    metadata = structure(a.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    return of_span(
        span,
        "openinference",
        "aggregate",
        first_token_unix_nano=semconv.first_token(span),
        agent=(
            text(a, "agent.name", *semconv.AGENT)
            or text(metadata, "lc_agent_name")
            or text(a, "graph.node.id")
        ),
        operation=text(a, "gen_ai.operation.name"),
        provider=text(a, "llm.provider", "llm.system", *semconv.PROVIDER),
        request_model=(
            text(a, "llm.request.model_name", "gen_ai.request.model")
            or text(parameters, "model")
            or text(a, "llm.model_name")
        ),
        conversation_hint=(
            text(a, "session.id", *semconv.CONVERSATION)
            or text(metadata, *_THREADS)
            or text(a, *(f"metadata.{name}" for name in _THREADS))
        ),
    )
