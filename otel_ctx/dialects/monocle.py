"""Monocle's spans (``monocle_apptrace``): what was asked and answered on events, the model among numbered entities.

Each message is JSON of one key, the role: ``{"user": "…"}``. Tool calls of OpenAI's are JSON once more, without their ids.
Tool definitions are nowhere, nor is Anthropic's system prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_ctx.dialects.fields import number, of_span, text
from otel_ctx.model import Raw, Reason, Span, Telling, UsageClaim
from otel_ctx.parts import mapping, structure

MARK = "monocle_apptrace.version"
_CALL = "inference"  # of span.type; a framework's wrapper is "inference.framework"
_MODELS, _PROVIDER = "model.llm.", "inference."  # how the type of an entity begins that is one
_TOLD = {"tool_id": "id", "tool_name": "name", "tool_function": "name", "tool_arguments": "arguments"}
NEEDS = frozenset({MARK})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none."""
    a = span.attributes
    if MARK not in a or not text(a, "span.type").startswith(_CALL):
        return None
    events = {e.name: e.attributes for e in span.events}
    asked = [m for item in _items(mapping(events.get("data.input")).get("input")) for m in _messages(item)]
    answered = [
        m for item in _items(mapping(events.get("data.output")).get("response")) for m in _messages(item)
    ]
    entities = dict(_entities(a))
    model = next((name for kind, name in entities.items() if kind.startswith(_MODELS)), "")
    provider = next((kind[len(_PROVIDER) :] for kind in entities if kind.startswith(_PROVIDER)), "")
    reasons: set[Reason] = {"schema_missing"}
    lost = {"tools"}
    if not asked:
        reasons.add("attributes_dropped" if span.dropped_events else "not_captured")
        lost.update(("system", "messages"))
    elif provider == "anthropic":
        reasons.add("not_captured")
        lost.add("system")
    return of_span(
        span,
        "monocle",
        "call",
        operation="chat",
        provider=provider,
        request_model=model,
        usage=_usage(mapping(events.get("metadata")), provider),
        messages=Raw("messages", asked) if asked else None,
        output=Raw("messages", answered) if answered else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value in (None, "") else [value]


def _entities(a: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(type, name) of each entity."""
    count = number(a, "entity.count") or 0
    for n in range(1, min(count, len(a)) + 1):
        yield text(a, f"entity.{n}.type"), text(a, f"entity.{n}.name")


def _messages(item: Any) -> Iterator[dict[str, Any]]:
    """The message of each role in ``item``; what is no JSON was asked by the user."""
    said = structure(item)
    if not isinstance(said, dict):
        yield {"role": "user", "content": said}
        return
    for role, content in said.items():
        calls = [_tool_call(c) for c in content] if isinstance(content, list) else []
        if calls and all(calls):
            yield {"role": "assistant", "tool_calls": calls}
        else:
            yield {"role": role, "content": content}


def _tool_call(value: Any) -> dict[str, Any] | None:
    call = structure(value)
    if not isinstance(call, dict) or not call.keys() & {"tool_name", "tool_function"}:
        return None
    return {name: call[told] for told, name in _TOLD.items() if told in call}


def _usage(told: Mapping[str, Any], provider: str) -> UsageClaim | None:
    claim = UsageClaim(
        input=number(told, "prompt_tokens"),
        output=number(told, "completion_tokens"),
        cache_read=number(told, "cache_read_input_tokens"),
        cache_write=number(told, "cache_creation_input_tokens"),
        semantics="exclusive" if provider == "anthropic" else "",
        semantics_evidence="Monocle passes Anthropic's input_tokens on" if provider == "anthropic" else "",
    )
    return None if claim.input is None and claim.output is None else claim
