"""Content that events carry, one message an event: log records (1.28 to 1.36 of the conventions) and span events.

A helper of the dialects. An event's name says the role, its body (or attributes) holds the message as the provider's
SDK has it; what comes out is a message that ``otel_ctx.parts`` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.parts import loads

DETAILS = "gen_ai.client.inference.operation.details"
"""One event for a whole request: its content stands in attributes of the names that spans use."""

_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.content.prompt": "user",
}
_ANSWERS = frozenset({"gen_ai.choice", "gen_ai.content.completion"})
_BLOCKS = frozenset(
    {
        "type", "text", "toolUse", "toolResult", "cachePoint", "reasoningContent", "image", "document", "video",
        "functionCall", "functionResponse", "function_call", "function_response",
    }
)  # fmt: skip


def is_message(name: str) -> bool:
    """Is an event of this name a message of a prompt or of an answer?"""
    return name in _ROLES or name in _ANSWERS


def is_answer(name: str) -> bool:
    return name in _ANSWERS


def message(name: str, body: Any, attributes: Mapping[str, Any]) -> dict[str, Any] | list[Any] | None:
    """The message that an event named ``name`` holds; None where its content was not captured.

    A span event has no body: its attributes hold the message, or one of them holds it as JSON. The first generation
    put a whole list of messages into one attribute: it comes back as a list."""
    if isinstance(body, str):
        body = _opened(body)
    if not body:
        body = _from_attributes(name, attributes)
    role = "assistant" if name in _ANSWERS else _ROLES[name]
    if isinstance(body, str):
        return {"role": role, "content": body} if body else None
    if not isinstance(body, Mapping):
        return list(body) if isinstance(body, (list, tuple)) and body else None
    if name in _ANSWERS:
        body = _answer(body)
    if "parts" not in body:
        body = _unnested(body)
    kept = {**body, "role": body.get("role") or role}
    if "content" in body:
        kept["content"] = blocks(body["content"])
    return kept if _has_content(kept) else None


def is_copy(name: str, body: Any, provider: str) -> bool:
    """Bedrock's messages come with each tool result twice: as an event of its own and, in its place among the other
    blocks, in the user message that follows. The user message is the one to keep."""
    return (
        name == "gen_ai.tool.message"
        and provider == "aws.bedrock"
        and isinstance(body, Mapping)
        and isinstance(body.get("content"), (list, tuple))
    )


def _from_attributes(name: str, attributes: Mapping[str, Any]) -> Any:
    for key in ("gen_ai.event.content", "gen_ai.completion" if name in _ANSWERS else "gen_ai.prompt"):
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return _opened(value)
        if value:
            return value
    return attributes


def _answer(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice's message; some libraries put the tool calls beside it, Google's the content in its place."""
    inner = body.get("message")
    if isinstance(inner, str):
        return {"content": inner}
    if isinstance(inner, Mapping):
        calls = body.get("tool_calls")
        return {**inner, "tool_calls": calls} if calls and not inner.get("tool_calls") else inner
    return body


def _unnested(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Google's Content object, role and parts, as the content of the message: its role is the true one."""
    content = body.get("content")
    if isinstance(content, Mapping) and isinstance(content.get("parts"), (list, tuple)):
        return content
    return body


def blocks(content: Any) -> Any:
    """A list of blocks that had to become a string, opened; anything else as it is."""
    if isinstance(content, str) and content[:1] == "[":
        found = _opened(content)
        if isinstance(found, list) and all(isinstance(b, Mapping) and _BLOCKS & b.keys() for b in found):
            return found
    return content


def _opened(value: str) -> Any:
    if value.lstrip()[:1] in ("[", "{"):
        try:
            return loads(value)
        except ValueError:
            return value
    return value


def _has_content(body: Mapping[str, Any]) -> bool:
    """With content switched off, events come all the same: a role, ids and names of tools are left of them."""
    if any(body.get(k) for k in ("content", "parts", "refusal", "reasoning_content")):
        return True
    calls = body.get("tool_calls")
    if not isinstance(calls, (list, tuple)):
        return False
    functions = (c.get("function", c) for c in calls if isinstance(c, Mapping))
    return any(
        isinstance(f, Mapping) and any(k in f for k in ("arguments", "args", "input")) for f in functions
    )
