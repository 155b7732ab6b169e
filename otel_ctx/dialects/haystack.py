"""Haystack's own spans: the request of an agent's step, and a generator as a component of a pipeline.

Attributes hold what the component was given and what it returned, as JSON, and nothing else: model and token numbers
stand in the meta data of the replies. Without content there is only the span's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects.fields import of_span, text
from otel_ctx.model import Raw, Reason, Span, Telling
from otel_ctx.parts import mapping, read_usage, reserve_of, structure, unpack

_STEP = "haystack.agent.step.llm"
_COMPONENT = "haystack.component"
_GENERATOR = "Generator"  # how the classes of components that ask a model end
_DEFINITION = ("name", "description", "parameters")  # what a request has of a tool
NEEDS = frozenset({_STEP, f"{_STEP}.input", f"{_COMPONENT}.type"})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of Haystack's, or another component's."""
    a = span.attributes
    if span.name == _STEP or f"{_STEP}.input" in a:
        return _call(span, _STEP)
    if text(a, f"{_COMPONENT}.type").endswith(_GENERATOR):
        return _call(span, _COMPONENT)
    return None


def _call(span: Span, prefix: str) -> Telling:
    a = span.attributes
    given, cut = unpack(a.get(f"{prefix}.input"))
    given = mapping(given)
    output = mapping(structure(a.get(f"{prefix}.output")))
    replies = output.get("replies")
    meta = _meta(output)
    messages = given.get("messages") or given.get("prompt")
    tools = _definitions(given.get("tools"))
    reasons: set[Reason] = set()
    lost: set[str] = set()
    if not messages:
        reasons.add("attributes_dropped" if span.dropped_attributes else "not_captured")
        lost.update(("tools", "system", "messages"))
    elif cut:
        reasons.add("value_cut")
        lost.update(("tools", "messages"))
    elif prefix == _COMPONENT and "tools" not in given:
        reasons.add("schema_missing")  # those that the component was made with are no input
        lost.add("tools")
    return of_span(span, "haystack", "call")._replace(
        operation="chat",
        response_model=text(meta, "model"),
        response_id=text(meta, "id"),
        usage=read_usage(meta.get("usage")),
        reserve=reserve_of(mapping(given.get("generation_kwargs"))),
        tools=Raw("tools", tools) if tools else None,
        messages=Raw("messages", messages) if messages else None,
        output=Raw("messages", replies) if isinstance(replies, list) and replies else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _meta(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is known of the answer: beside it, or in the first of the replies."""
    for said in (output.get("meta"), output.get("replies")):
        first = mapping(said[0]) if isinstance(said, list) and said else {}
        found = mapping(first.get("meta")) or first
        if "model" in found or "usage" in found:
            return found
    return {}


def _definitions(tools: Any) -> list[Any]:
    """What the request has of each tool; a set of tools holds its own."""
    found: list[Any] = []
    for tool in tools if isinstance(tools, list) else (tools,):
        data = mapping(mapping(tool).get("data")) or mapping(tool)
        if isinstance(data.get("tools"), list):
            found += _definitions(data["tools"])
        elif data.get("name"):
            found.append({k: data[k] for k in _DEFINITION if k in data})
    return found
