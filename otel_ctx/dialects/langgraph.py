"""LangGraph's nodes as OpenLLMetry's JavaScript package writes them: a workflow span each, its state as JSON.

The span of the model's request has lost the tool calls of the history, cache counts and often its id; the node that made
the request has them in its state, but neither the system prompt nor the tools. The two are told together: none of these
spans knows a parent, each is a trace of its own, so nothing but time and content says that they belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import of_span, text
from otel_ctx.model import Raw, Span, Telling, UsageClaim
from otel_ctx.parts import mapping, read_usage, structure

_KIND = "traceloop.span.kind"
_KINDS = frozenset({"workflow", "task"})
_STATE, _UPDATE = "traceloop.entity.input", "traceloop.entity.output"
_ANSWER = '"AIMessage'  # the class of an answer, and of one that was streamed
_OWN_ID = "run-"  # LangChain's, where the provider gave none
_SUMMED = "LangChain counts all kinds of input in usage_metadata"
NEEDS = frozenset({_UPDATE})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is no node that a model has answered."""
    a = span.attributes
    if text(a, _KIND) not in _KINDS or _ANSWER not in text(a, _UPDATE):
        return None
    answer = _answer(structure(a[_UPDATE]))
    messages = mapping(structure(a.get(_STATE))).get("messages")
    if answer is None or not isinstance(messages, list) or not messages:
        return None
    said = mapping(answer["kwargs"].get("response_metadata"))
    return of_span(
        span,
        "langgraph",
        "call",
        operation="chat",
        provider=text(said, "model_provider"),
        response_model=text(said, "model_name", "model"),
        response_id=_id(answer, said),
        conversation_hint=text(a, *semconv.CONVERSATION),
        usage=_usage(answer, said),
        messages=Raw("messages", messages),
        output=Raw("messages", [answer]),
        reasons=frozenset({"schema_missing"}),
        lost=frozenset({"tools", "system"}),
    )


def _answer(update: Any) -> Mapping[str, Any] | None:
    """The one message that a node adds to its state, where it is a model's."""
    commands = mapping(update).get("output")
    if isinstance(commands, list) and len(commands) == 1:
        update = mapping(commands[0]).get("update")
    added = mapping(update).get("messages")
    if not isinstance(added, list) or len(added) != 1:
        return None
    message = mapping(added[0])
    ident = message.get("id")
    spoken = isinstance(ident, list) and bool(ident) and str(ident[-1]).startswith(_ANSWER[1:])
    return message if spoken and isinstance(message.get("kwargs"), Mapping) else None


def _id(answer: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    own = text(answer["kwargs"], "id")
    return text(said, "id") or ("" if own.startswith(_OWN_ID) else own)


def _usage(answer: Mapping[str, Any], said: Mapping[str, Any]) -> UsageClaim | None:
    """The provider's own numbers, else LangChain's."""
    claim = read_usage(said.get("usage"))
    if claim is not None:
        return claim
    claim = read_usage(answer["kwargs"].get("usage_metadata"))
    return claim and claim._replace(semantics="inclusive", semantics_evidence=_SUMMED)
