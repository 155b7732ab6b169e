"""Messages of any provider -> Parts, one message at a time, so that a longer history costs only its new messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from otel_ctx.model import Kind, Part
from otel_ctx.parts.blocks import RESULTS, read_block
from otel_ctx.parts.history import History, Linked
from otel_ctx.parts.markers import PLACES, cache_point, marker_of
from otel_ctx.parts.texts import arguments_text, compact, structure

_ROLES: dict[str, Kind] = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant",
    "model": "assistant", "ai": "assistant", "tool": "tool_result", "function": "tool_result",
    "tool_result": "tool_result", "thinking": "thinking",
    # smolagents sends these as the model's and the user's words: "Calling tools: …", "Observation: …"
    "tool-call": "assistant", "tool-response": "user",
}  # fmt: skip
_SENT_TOGETHER = frozenset({"tool-call", "tool-response"})
_CLASSES: dict[str, str] = {  # LangChain's, LangChain4j's and AutoGen's
    "SystemMessage": "system", "HumanMessage": "user", "AIMessage": "assistant", "AIMessageChunk": "assistant",
    "ToolMessage": "tool", "FunctionMessage": "tool", "ChatMessage": "user", "UserMessage": "user",
    "AiMessage": "assistant", "AssistantMessage": "assistant", "ToolExecutionResultMessage": "tool",
    "FunctionExecutionResultMessage": "tool", "TOOL_EXECUTION_RESULT": "tool",
}  # fmt: skip
TOOL_CALLS = ("tool_calls", "toolCalls", "toolExecutionRequests")
_BESIDE_THE_BLOCKS = frozenset({*TOOL_CALLS, "additional_kwargs", "function_call", *PLACES})
_SAID = ("content", "contents", "text", *TOOL_CALLS)
_ITEMS_WITHOUT_CONTENT = frozenset({"item_reference", "compaction"})  # the server has what they stand for


def read_messages(value: Any, start: int = 0) -> tuple[list[Part], int]:
    """The parts of ``messages_of(value, start)`` and how many messages there were, those before ``start`` included."""
    messages = messages_of(value, start)
    parts: list[Part] = []
    for i, message in enumerate(messages, start):
        parts += read_message(message, i)
    return parts, start + len(messages)


def messages_of(value: Any, start: int = 0) -> Sequence[Any]:
    """The messages that a value holds; ``start`` is the index of the first one in the whole.

    ``value``: a list, one message, a JSON string of either, plain text (one user message), a ``History`` or ``Linked``.
    LangChain's list in a list (one prompt of a batch) is opened."""
    if not isinstance(value, list):
        value = value.every() if isinstance(value, (History, Linked)) else structure(value)
    if not start and is_batch(value):
        value = value[0]
    return _as_list(value)


def is_batch(value: Any) -> bool:
    """A list whose only item is a list of messages."""
    return isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], (list, tuple))


def read_system(value: Any) -> list[Part]:
    """A system prompt: plain text, a list of blocks, a JSON string of such a list, or one message with parts. Text that is
    JSON of its own, a table or a configuration, stays as it was sent: its blanks are part of the prefix."""
    opened = structure(value)
    if not isinstance(value, str) or all(map(_may_be_block, _as_list(opened))):
        value = opened
    if isinstance(value, dict) and ("parts" in value or "content" in value) and "type" not in value:
        value = value.get("parts") or value.get("content")
    parts: list[Part] = []
    for block in _as_list(value):
        is_message = (
            isinstance(block, dict)
            and "role" in block
            and ("parts" in block or isinstance(block.get("content"), list))
        )
        for b in _as_list(block.get("parts") or block.get("content")) if is_message else [block]:
            point = cache_point(b)
            if point is not None:
                _mark_last(parts, point)
                continue
            parts += read_block(b, "system", "system", f"system[{len(parts)}]")
    return parts


_OF_BLOCKS = frozenset({"type", "text", "content", "parts", "role", "cachePoint"})


def _may_be_block(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and not _OF_BLOCKS.isdisjoint(value))


def _as_list(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple)):
        return value
    return [] if value in (None, "") else [value]


def read_message(message: Any, index: int) -> list[Part]:
    """The parts of one message. What no shape fits stays as one part that holds its JSON: nothing is lost."""
    if not isinstance(message, dict):
        message = structure(message)
        if isinstance(message, str):
            return [Part("user", "user", "", _place(index, 0), message)] if message else []
        if not isinstance(message, dict):
            return [] if _is_blank(message) else [Part("user", "", "", _place(index, 0), compact(message))]
    message = plain(message)
    if "type" in message and str(message["type"]) in _ITEMS_WITHOUT_CONTENT:
        return []
    role = str(message.get("role") or "")
    kind = _kind_of(role)
    parts: list[Part] = []
    for block in _blocks(message):
        point = cache_point(block)
        if point is not None:
            _mark_last(parts, point)
            continue
        at = _place(index, len(parts))
        if kind == "tool_result" and not _is_result(block):
            parts += _result(message, block, role, at)
        else:
            parts += read_block(block, kind, role, at)
    if kind == "tool_result":
        parts = _one_result(parts)
    if _BESIDE_THE_BLOCKS.isdisjoint(message):
        return parts
    if calls := _tool_calls(message):
        seen = {(p.call_id or p.text, p.name) for p in parts if p.kind == "tool_call"}
        for call in calls:
            part = _tool_call(call, role, _place(index, len(parts)))
            if (part.call_id or part.text, part.name) not in seen:
                parts.append(part)
    marker = marker_of(message)
    if marker and parts:
        parts[-1] = parts[-1]._replace(cache_marker=marker)
    return parts


def _place(index: int, part: int) -> str:
    return f"messages[{index}].parts[{part}]"


def _is_blank(value: Any) -> bool:
    """Is nothing left in it? Langtrace makes ``[{"id": "", "type": ""}]`` of the SDK's own objects."""
    if isinstance(value, dict):
        return all(map(_is_blank, value.values()))
    if isinstance(value, list):
        return all(map(_is_blank, value))
    return value is None or value == ""


def sent_together(role: str) -> bool:
    """Is it a role of smolagents, which sends neighbours that get one role as one message?"""
    return role in _SENT_TOGETHER


def as_sent(messages: list[Any]) -> list[Any]:
    """smolagents' messages as it sends them: texts of neighbours that get one role joined by a line's end. Those of any
    other library as they are."""
    if not any(isinstance(m, dict) and m.get("role") in _SENT_TOGETHER for m in messages):
        return messages
    sent: list[Any] = []
    texts: list[str] = []  # of the last message that was sent
    kind = ""
    for message in messages:
        parts = read_message(message, 0)
        kinds = {p.kind for p in parts}
        if (
            len(kinds) == 1
            and kinds <= {"system", "user", "assistant"}
            and not any(p.cache_marker for p in parts)
        ):
            more = [p.text for p in parts]
            if kind in kinds:
                texts[-1:] = [f"{texts[-1]}\n{more[0]}", *more[1:]]
                sent.pop()
            else:
                (kind,), texts = kinds, more
            sent.append({"role": kind, "content": [{"type": "text", "text": text} for text in texts]})
        else:
            kind = ""
            sent.append(message)
    return sent


def is_reference(message: Any) -> bool:
    """Does the message only name what the provider keeps?"""
    message = structure(message)
    return isinstance(message, dict) and str(plain(message).get("type")) in _ITEMS_WITHOUT_CONTENT


def _mark_last(parts: list[Part], marker: str) -> None:
    if parts:
        parts[-1] = parts[-1]._replace(cache_marker=marker)


def is_role(role: str) -> bool:
    return _name_of(role) in _ROLES


def _kind_of(role: str) -> Kind:
    return _ROLES.get(role) or _ROLES.get(_name_of(role), "user")


def _name_of(role: str) -> str:
    """``MessageRole.USER``, as Python prints an enumeration, is ``user``."""
    return role.rpartition(".")[2].lower()


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """Take a message out of its wrappers: LangChain's constructors and ``data``, OpenInference's ``message``. One whose
    type says who speaks gets a role."""
    if "role" not in message and isinstance(inner := message.get("message"), dict):
        message = inner
    if "lc" in message and isinstance(message.get("kwargs"), dict):
        ident = message.get("id")
        cls = str(ident[-1]) if isinstance(ident, (list, tuple)) and ident else ""
        kwargs = message["kwargs"]
        return {
            **kwargs,
            "type": None,
            "role": _CLASSES.get(cls) or kwargs.get("role") or kwargs.get("type") or "user",
        }
    if "role" in message:
        return message
    data = message.get("data")
    if isinstance(data, dict) and str(message.get("type")) in _ROLES:
        return {**data, "type": None, "role": message["type"]}
    said = message.get("type") or message.get("messageType")
    if isinstance(said, str) and any(k in message for k in _SAID):
        role = _CLASSES.get(said) or (said if is_role(said) else "")
        if role:
            return {**message, "role": role, "type": None}
    return message


def _blocks(message: dict[str, Any]) -> Iterable[Any]:
    """The content blocks of a message, in order; a message that is itself an item (Responses API) is its own block."""
    for key in ("parts", "contents", "content", "text"):
        value = message.get(key)
        if isinstance(value, (list, tuple)):
            return value if len(value) < 2 else _joined_deltas(value)
        if value is None or value == "":
            continue
        if key == "content" and isinstance(value, str):
            return _written_blocks(message, value) or [value]
        return [value]
    if message.get("type") and "role" not in message:
        return [message]
    results = message.get("function")
    if isinstance(results, (list, tuple)):  # OpenInference's list of AutoGen's tool results, each as JSON
        return [structure(result) for result in results]
    extra = message.get("reasoning_content")
    return [{"type": "thinking", "thinking": extra}] if extra else ()


def _written_blocks(message: dict[str, Any], content: str) -> list[Any] | None:
    """A list of blocks that was written as a string; what a tool gave back may look like one."""
    if content[:1] != "[" or _kind_of(str(message.get("role"))) == "tool_result":
        return None
    blocks = structure(content)
    if isinstance(blocks, list) and all(isinstance(b, dict) and _is_block(b) for b in blocks):
        return blocks
    return None


def _joined_deltas(blocks: Sequence[Any]) -> Sequence[Any]:
    """LangChain keeps a streamed tool call as a call without input and the pieces of its input after it."""
    joined: list[Any] = []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "input_json_delta" and joined:
            before = joined[-1]
            if isinstance(before, dict):
                joined[-1] = {**before, "input": f"{before.get('input') or ''}{block.get('input') or ''}"}
        else:
            joined.append(block)
    return joined


def _is_block(block: dict[str, Any]) -> bool:
    return isinstance(block.get("type"), str) or any(
        k in block for k in ("toolUse", "toolResult", "cachePoint", "functionCall")
    )


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and (
        block.get("type") in ("tool_call_response", "tool_result", "tool-result", "function_call_output")
        or any(block.get(k) is not None for k in RESULTS)
        or ("call_id" in block and "content" in block and "type" not in block)
    )


def _result(message: dict[str, Any], block: Any, role: str, path: str) -> Iterator[Part]:
    """A block of a tool's message is (part of) the tool's result."""
    call_id = str(message.get("tool_call_id") or message.get("id") or "")
    name = str(message.get("name") or "")
    for p in read_block(block, "tool_result", role, path):
        yield p._replace(call_id=p.call_id or call_id, name=p.name or name)


def _one_result(parts: list[Part]) -> list[Part]:
    """Text blocks of one tool result are one result, joined as providers join them."""
    out: list[Part] = []
    for p in parts:
        last = out[-1] if out else None
        if (
            last
            and p.kind == last.kind == "tool_result"
            and p.call_id == last.call_id
            and not last.cache_marker
        ):
            out[-1] = last._replace(text=f"{last.text}\n{p.text}", cache_marker=p.cache_marker)
        else:
            out.append(p)
    return out


def _tool_calls(message: dict[str, Any]) -> list[Any]:
    calls: Any = next((held for k in TOOL_CALLS if (held := message.get(k))), [])
    if not calls and isinstance(message.get("additional_kwargs"), dict):
        calls = message["additional_kwargs"].get("tool_calls") or []
    if isinstance(calls, dict):
        calls = list(calls.values())
    found = list(calls) if isinstance(calls, (list, tuple)) else []
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and legacy.get("name") and not found:
        found = [legacy]
    return found


def _tool_call(call: Any, role: str, path: str) -> Part:
    if not isinstance(call, dict):
        return Part("tool_call", role, "", path, compact(call))
    call = call.get("tool_call") if isinstance(call.get("tool_call"), dict) else call
    fn = call.get("function") if isinstance(call.get("function"), dict) else call
    arguments = next((fn[k] for k in ("arguments", "args", "input") if fn.get(k) is not None), None)
    return Part(
        "tool_call",
        role,
        str(fn.get("name") or ""),
        path,
        arguments_text(arguments),
        "",
        str(call.get("id") or ""),
    )
