"""What ``input.value`` and ``output.value`` hold: a provider's request and response, a framework's, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_ctx.dialects.fields import text
from otel_ctx.dialects.openinference.indexed import MASK, SYSTEM_ROLES, role_of
from otel_ctx.parts import mapping, read_body, structure

_WIRE_ROLES = SYSTEM_ROLES | {"user", "assistant", "tool", "function", "model"}
_RESPONSES = (
    {"choices"}, {"candidates"}, {"generations"}, {"output", "object"}, {"content", "stop_reason"}, {"usage", "model"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wire:
    """``input.value``: a provider's request body, or the list of its messages alone, or neither."""

    body: Mapping[str, Any] = field(default_factory=dict)
    tools: Any = None
    system: Any = None
    messages: Any = None
    hidden: bool = False
    cut: str = ""  # JSON that was cut at its end, as it came


def wire_of(value: Any) -> Wire:
    if value == MASK:
        return Wire(hidden=True)
    parsed = structure(value)
    if isinstance(parsed, list):
        return Wire(messages=messages_of(parsed))
    if isinstance(parsed, str) and parsed[:1] in ("{", "["):
        return Wire(cut=parsed)
    read = read_body(parsed) if isinstance(parsed, dict) else None
    if read is None:
        return Wire(body=mapping(parsed))
    messages = read.messages.value if read.messages else None
    tools = read.tools.value if read.tools else None
    return Wire(
        body=parsed,
        tools=tools if isinstance(tools, list) and all(isinstance(t, dict) for t in tools) else None,
        system=read.system.value if read.system else None,
        messages=messages if isinstance(messages, str) and "model" in parsed else messages_of(messages),
    )


def messages_of(value: Any) -> Any:
    """``value`` where it is a list of messages as a provider has them (LangChain: the first of a batch), else None.
    Lists of Python reprs and of a framework's own roles (llama-index, smolagents) are none."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return value
    return None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or {"role", "type", "lc", "parts", "content"}.isdisjoint(value):
        return False
    return value.get("role") is None or role_of(value) in _WIRE_ROLES


def response_of(value: Any) -> Mapping[str, Any] | None:
    """``output.value`` where it is a provider's response (an answer may be JSON itself)."""
    parsed = structure(value)
    if isinstance(parsed, dict) and any(keys <= parsed.keys() for keys in _RESPONSES):
        return parsed
    return None


def parameters_of(attributes: Mapping[str, Any], wire: Wire) -> Mapping[str, Any]:
    """The request's parameters: the body, where it is a whole one, else ``llm.invocation_parameters``."""
    if isinstance(wire.body.get("model"), str):
        return wire.body
    return {**mapping(structure(attributes.get("llm.invocation_parameters"))), **wire.body}


def langchain_message(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """``kwargs`` of the first message of LangChain's ``generations``."""
    generations = response.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    return mapping(mapping(mapping(generations).get("message")).get("kwargs"))


def response_id(response: Mapping[str, Any]) -> str:
    if "generations" not in response:
        return text(response, "id", "responseId", "response_id")
    kwargs = langchain_message(response)
    own = text(kwargs, "id")
    return text(mapping(kwargs.get("response_metadata")), "id") or (
        "" if own.startswith(("lc_run", "run-")) else own
    )
