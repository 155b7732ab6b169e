"""What a value of unknown origin is: messages, tool definitions, a request, a response. Told by keys alone, never by
what the texts say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_ctx.model import Raw
from otel_ctx.parts.answers import Answer, spoken
from otel_ctx.parts.bodies import Body, read_body
from otel_ctx.parts.messages import TOOL_CALLS, is_batch, is_role, plain
from otel_ctx.parts.texts import structure

_CONTENT = ("content", "parts", "contents", "text", "function_call", "items", *TOOL_CALLS)
_BARE = frozenset({"role", "name", "id", "finish_reason", "meta", "metadata"})  # content was switched off
_HALF = (*_CONTENT, "role", "tool_call_id", "name")
ITEM_TYPES = frozenset(  # of OpenAI's Responses

    {
        "message", "function_call", "function_call_output", "reasoning", "custom_tool_call",
        "custom_tool_call_output", "item_reference", "compaction", "web_search_call", "file_search_call",
        "code_interpreter_call", "image_generation_call", "computer_call", "computer_call_output", "mcp_call",
        "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
    }
)  # fmt: skip
_SCHEMAS = (
    "parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema", "json_schema",
    "args_schema", "schema", "outputSchema",
)  # fmt: skip
_NESTS = ("functionDeclarations", "function_declarations", "toolSpec")
_CALLED = ("arguments", "args", "input", "id", "call_id")  # of a tool that was called; one on offer has none
_USAGES = ("usage", "usageMetadata", "usage_metadata", "token_usage", "tokenUsage")
_ENDS = (*_USAGES, "stop_reason", "stopReason")
_GEMINI = ("promptTokenCount", "prompt_token_count")
_ENVELOPES = ("choices", "candidates", "object", "stop_reason", "stopReason")
_DEEP = 8  # levels that are looked at for a usage: LangChain's lies on the seventh
# what holds no usage
_NO_USAGE = frozenset({"input", "arguments", "args", "tools", "instructions", "content", "parts"})


def is_message(value: Any) -> bool:
    """One message (or item) of a prompt or an answer, in any provider's or framework's clothes."""
    if not isinstance(value, Mapping):
        return False
    inner = value.get("message")
    if isinstance(inner, Mapping) and "role" not in value:
        return is_message(inner)
    if "lc" in value:  # LangChain serialises documents and the like in the same way
        ident = value.get("id")
        return isinstance(ident, (list, tuple)) and "Message" in str(ident[-1:])
    message = plain(dict(value))
    role = message.get("role")
    if role is None:
        return str(message.get("type")) in ITEM_TYPES or (
            "parts" in message and isinstance(message["parts"], (list, tuple)) and "type" not in message
        )
    if not isinstance(role, str) or not is_role(role):
        return False
    return any(k in message for k in _CONTENT) or message.keys() <= _BARE


def messages_in(value: Any) -> list[Any] | None:
    """``value`` where it is a list of messages (or a batch of one such list), else None. Holes are None, and of the first
    message a limit may have left a half."""
    if is_batch(value):
        value = value[0]
    if not isinstance(value, (list, tuple)):
        return None
    messages = list(value)
    there = [m for m in messages if m is not None]
    if not there or not all(map(is_message, there[1:])):
        return None
    half = len(there) > 1 and isinstance(there[0], Mapping) and any(k in there[0] for k in _HALF)
    return messages if half or is_message(there[0]) else None


def definitions_in(value: Any, *, named: bool = False) -> list[Any] | None:
    """``value`` as a list of tool definitions, else None. ``named``: what holds it says that it is about tools, so that
    a name and a description, or a list of bare names, will do."""
    value = structure(value)
    if isinstance(value, Mapping):
        if any(k in value for k in _NESTS):
            return [value]
        if not value or not named or not all(isinstance(v, Mapping) for v in value.values()):
            return None
        value = list(value.values())  # a mapping of name -> definition
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if named and all(isinstance(v, str) and v[:1] not in ("{", "[") for v in value):
        return list(value)
    found = [_definition(v, named) for v in value]
    return None if None in found else found


def _definition(value: Any, named: bool) -> Any:
    """One definition, out of the wrappers that frameworks put round it; None where it is none."""
    value = structure(value)
    if not isinstance(value, Mapping):
        return None
    for wrapper in ("tool", "data"):
        inner = value.get(wrapper)
        if isinstance(inner, Mapping) and "name" not in value:
            return _definition(inner, named)
    if any(isinstance(value.get(k), (Mapping, list)) for k in (*_NESTS, "cachePoint")):
        return value
    schema = structure(value.get("json_schema"))
    if isinstance(schema, Mapping) and not value.get("name"):
        return _definition(schema, True)
    function = value.get("function")
    if isinstance(function, Mapping):
        return value if "arguments" not in function and isinstance(function.get("name"), str) else None
    if not isinstance(value.get("name"), str):  # a provider's own tools have a type only
        return value if named and isinstance(value.get("type"), str) and "text" not in value else None
    if isinstance(schema, Mapping) and ("name" in schema or "function" in schema):
        return schema
    has_schema = any(isinstance(structure(value.get(k)), Mapping) for k in _SCHEMAS)
    if not has_schema and any(k in value for k in _CALLED):
        return None
    if not has_schema and not (named and ("description" in value or "type" in value)):
        return None
    return {k: structure(v) if k in _SCHEMAS else v for k, v in value.items()}


def request_in(value: Mapping[str, Any]) -> Body | None:
    """A request body of any provider: ``read_body`` where what it holds are messages, or text beside a model."""
    body = read_body(value)
    if body is None or body.messages is None:
        return None
    held = structure(body.messages.value)
    if isinstance(held, str):
        return body if held and (body.model or body.system is not None) else None
    if isinstance(held, Mapping):
        held = [held]
    if body.tools is not None and definitions_in(body.tools.value, named=True) is None:
        return None
    if isinstance(held, list) and "contents" in value and all(isinstance(v, str) for v in held):
        return body
    messages = messages_in(held)
    if messages is None:
        return None
    tools = definitions_in(body.tools.value, named=True) if body.tools is not None else None
    return Body(
        Raw("tools", tools) if tools else None, body.system, Raw("messages", messages), body.model,
        body.previous_response_id, body.reserve,
    )  # fmt: skip


def response_in(value: Mapping[str, Any]) -> Answer | None:
    """The response of a provider's API, or of a framework that keeps to its keys; None where ``value`` is none."""
    messages = _framework(value)
    if messages is None:
        if not _is_response(value):
            return None
        messages = [_as_message(m) for m in spoken(value)]
    holder, usage = next((u for u in usages_in(value) if _is_own(*u)), (value, None))
    return Answer(
        messages,
        id=_text((value, holder), "id", "responseId", "response_id"),
        model=_text((value, holder), "model", "model_version", "modelVersion", "model_name"),
        usage=usage,
    )


def _is_own(holder: Mapping[str, Any], usage: Mapping[str, Any]) -> bool:
    """A usage as the provider wrote it. Many frameworks write one of a provider's names and mean something else; what a
    provider's response has beside it, and what is nested in it, they do not make up."""
    return (
        any(isinstance(v, Mapping) for v in usage.values())
        or any(k in usage for k in _GEMINI)
        or any(k in holder for k in _ENVELOPES)
    )


def _is_response(value: Mapping[str, Any]) -> bool:
    output, content = value.get("output"), value.get("content")
    return (
        any(_holds_mappings(value.get(k)) for k in ("choices", "candidates"))
        or (isinstance(output, list) and bool(output) and all(map(is_message, output)))
        or (isinstance(output, Mapping) and isinstance(output.get("message"), Mapping))
        or (isinstance(content, (list, str)) and any(k in value for k in _ENDS))
    )


def _framework(value: Mapping[str, Any]) -> list[Any] | None:
    """The answer where a framework puts it: LangChain's ``generations``, a list a prompt; Haystack's ``replies``; one
    ``message`` (Genkit, Ollama); Gemini's content without its candidates (Google's ADK)."""
    found = value.get("generations")
    while isinstance(found, list) and found and isinstance(found[0], list):
        found = found[0]
    if isinstance(found, list) and found and isinstance(found[0], Mapping):
        return [_as_message(found[0].get("message") or found[0].get("text"))]
    replies = value.get("replies")
    if isinstance(replies, list) and replies and all(map(is_message, replies)):
        return replies
    inner = value.get("message")
    if isinstance(inner, Mapping) and "role" not in value and is_message(inner):
        return [inner]
    content = value.get("content")
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list) and "role" not in value:
        return [_as_message(content)]
    return None


def _holds_mappings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def usages_in(value: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(what holds it, usage) of each usage object inside a response, the nearest to the top first."""
    level = [value]
    for _ in range(_DEEP):
        for node in level:
            if isinstance(node, Mapping):
                yield from ((node, node[k]) for k in _USAGES if isinstance(node.get(k), Mapping) and node[k])
        level = [child for node in level for child in _children(node)]


def _choices(value: Mapping[str, Any]) -> Iterator[Any] | None:
    """OpenAI's Chat (and completions, and joined streams)."""
    return _spoken(value.get("choices"), "message", "delta", "text")


def _candidates(value: Mapping[str, Any]) -> Iterator[Any] | None:
    return _spoken(value.get("candidates"), "content")


def _generations(value: Mapping[str, Any]) -> Iterator[Any] | None:
    """LangChain's: a list a prompt, of which there is one."""
    found = value.get("generations")
    while isinstance(found, list) and found and isinstance(found[0], list):
        found = found[0]
    return _spoken(found, "message", "text")


def _spoken(listed: Any, *keys: str) -> Iterator[Any] | None:
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        return None
    held = (next((item[k] for k in keys if item.get(k) not in (None, "")), None) for item in listed)
    return (_as_message(h) for h in held if h is not None)


def _items(value: Mapping[str, Any]) -> Sequence[Any] | None:
    """OpenAI's Responses; Haystack calls them replies."""
    for key in ("output", "replies"):
        items = value.get(key)
        if isinstance(items, list) and items and all(map(is_message, items)):
            return items
    return None


def _message(value: Mapping[str, Any]) -> Sequence[Any] | None:
    """Bedrock, Ollama, Genkit: one message."""
    output = value.get("output")
    inner = (output if isinstance(output, Mapping) else value).get("message")
    return [inner] if isinstance(inner, Mapping) and "role" not in value and is_message(inner) else None


def _content(value: Mapping[str, Any]) -> Sequence[Any] | None:
    """Anthropic: the response is the message. One that is nothing but a message is no response."""
    content = value.get("content")
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list) and "role" not in value:
        return [_as_message(content)]
    if not isinstance(content, (list, str)) or not any(
        k in value for k in (*_USAGES, "stop_reason", "stopReason")
    ):
        return None
    return [{"role": "assistant", "content": content}]


_ANSWERS = (_choices, _candidates, _generations, _items, _message, _content)


def _as_message(held: Any) -> Any:
    if isinstance(held, Mapping):
        return held if any(k in held for k in ("role", "lc", "type")) else {**held, "role": "assistant"}
    return {"role": "assistant", "content": held}


def _children(node: Any) -> Sequence[Any]:
    if isinstance(node, Mapping):
        return [v for k, v in node.items() if k not in _NO_USAGE and isinstance(v, (Mapping, list))]
    return node[:1] if isinstance(node, list) else []


def _text(nodes: Sequence[Mapping[str, Any]], *keys: str) -> str:
    return next((v for node in nodes for k in keys if isinstance(v := node.get(k), str) and v), "")
