"""One content block of any provider -> Parts. The table is read from the top: the first shape that fits wins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

from otel_ctx.model import Kind, Part
from otel_ctx.parts.markers import marker_of
from otel_ctx.parts.texts import arguments_text, compact, is_mask, printed_text, structure

_TEXT = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_CALL = frozenset(
    {
        "tool_call",
        "tool_use",
        "tool-call",
        "function_call",
        "custom_tool_call",
        "server_tool_use",
        "mcp_tool_use",
    }
)
_RESULT = frozenset(
    {"tool_call_response", "tool_result", "tool-result", "function_call_output", "custom_tool_call_output"}
)
_IMAGE = frozenset({"image", "image_url", "input_image", "image-url", "anthropic_image"})
_FILE = frozenset({
    "file", "input_file", "input_audio", "audio", "document", "video", "video_url", "anthropic_document",
    "document-url", "audio-url", "video-url", "container_upload", "media",
})  # fmt: skip
_MEDIA_BLOCKS = _IMAGE | _FILE
# the semantic conventions' media: ``modality`` or the MIME type tells
_MEDIA = frozenset({"blob", "uri", "binary"})
# What a block of one key holds: Bedrock's, Gemini's, OpenInference's, Genkit's and Haystack's
_CALLS = ("toolUse", "functionCall", "function_call", "tool_call", "toolRequest")
_MEDIUMS = (
    "inlineData", "inline_data", "fileData", "file_data", "image", "document", "video", "file", "media",
)  # fmt: skip
RESULTS = ("toolResult", "functionResponse", "function_response", "toolResponse", "tool_call_result")
_ARGUMENTS = frozenset({"arguments", "input", "args"})
_RESPONSE = frozenset({"response", "result", "content"})
_NEVER_SENT = frozenset({"tool_approval_response", "tool-approval-response", "tool-approval-request"})
_LABELS = frozenset({"type", "kind"})  # all that an instrumentation leaves of a block that it does not know
_THINKING = frozenset({"thinking", "redacted_thinking", "reasoning", "anthropic_redacted_thinking"})


def read_block(block: Any, kind: Kind, role: str, path: str) -> list[Part]:
    """The parts of one block (mostly one). ``kind`` is what its text is in this message. Empty text is no part."""
    if not isinstance(block, dict):
        text = block if isinstance(block, str) else "" if block is None else compact(block)
        return [Part(kind, role, "", path, text)] if text else []
    declared = block.get("type")
    read = _BY_TYPE.get(declared) if isinstance(declared, str) and _WRAPPERS.isdisjoint(block) else None
    return read(block, kind, role, path) if read is not None else _by_its_keys(block, kind, role, path)


def _by_its_keys(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    """The same of a block that is wrapped, or whose type says nothing."""
    inner = block.get("message_content")
    if isinstance(inner, dict):  # OpenInference's wrapper
        block = {**block, **inner}
    declared = block.get("type")
    declared = declared if isinstance(declared, str) else None
    for fits, read in _SHAPES:
        if fits(declared, block):
            return read(block, kind, role, path)
    said = {k: v for k, v in block.items() if v is not None and k != "cache_control"}
    if said.keys() <= _LABELS or declared in _NEVER_SENT:
        return []
    return [Part(kind, role, "", path, compact(said), marker_of(block))]


_TEXTUAL = ("system", "user", "assistant", "tools")


def _text(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    value = _first(block, "text", "content", "refusal")
    if block.get("thought") is True:
        kind = "thinking"
    if isinstance(value, str):
        if value.startswith(_WRITTEN_OUT):
            return _written_out(value, kind, role, path)
    elif isinstance(value, (list, tuple)):  # blocks in a block
        return _each(value, kind, role, path)
    elif isinstance(value, dict):
        value = value.get("value") or value.get("text") or compact(value)
    elif value is None:
        value = ""
    text = str(value)
    return [Part(kind, role, "", path, text, marker_of(block))] if text or kind not in _TEXTUAL else []


def _each(blocks: Iterable[Any], kind: Kind, role: str, path: str) -> list[Part]:
    return [part for block in blocks for part in read_block(block, kind, role, path)]


_WRITTEN_OUT = ('{"reasoningContent":', '[{"type":', "[]", "media_resolution=")
"""How blocks begin that an instrumentation did not know and wrote out as text: JSON, or what Google's SDK prints."""


def _is_known(block: Any) -> bool:
    return isinstance(block, dict) and any(
        str(block.get("type")) in types for types in (_TEXT, _CALL, _RESULT, _IMAGE, _FILE, _THINKING)
    )


def _holds_blocks(values: list[Any], kind: Kind) -> bool:
    """An empty list is the content of an answer that only calls tools."""
    return (bool(values) or kind == "assistant") and kind != "tool_result" and all(map(_is_known, values))


def _written_out(text: str, kind: Kind, role: str, path: str) -> list[Part]:
    block = structure(text)
    if isinstance(block, dict):
        return read_block(block, kind, role, path)
    if isinstance(block, list) and _holds_blocks(block, kind):
        return _each(block, kind, role, path)
    if "file_data=FileData(" in text or "inline_data=Blob(" in text:
        mime = re.search(r"mime_type='([^']*)'", text)
        return _media({"type": "file", "mime_type": mime[1] if mime else ""}, kind, role, path)
    return [Part(kind, role, "", path, text)]


def _call(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    inner = _unwrapped(block, _CALLS)
    fn = inner["function"] if isinstance(inner.get("function"), dict) else inner
    name = _first(fn, "name", "toolName", "tool_name")
    if block.get("type") == "tool_call" and _ARGUMENTS.isdisjoint(fn):
        return []  # the semantic conventions' skeleton: content is switched off
    arguments = _first(fn, "arguments", "input", "args")
    if isinstance(name, str) and name[:1] == "'":  # CrewAI prints what lies deep in a message
        name, arguments = printed_text(name), printed_text(arguments)
    call_id = _first(inner, "call_id", "toolUseId", "toolCallId", "ref", "id")
    return [
        Part(
            "tool_call",
            role,
            str(name or ""),
            path,
            arguments_text(arguments),
            marker_of(block),
            str(call_id or ""),
        )
    ]


def _result(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    inner = _unwrapped(block, RESULTS)
    asked = inner["origin"] if isinstance(inner.get("origin"), dict) else inner
    if block.get("type") == "tool_call_response" and _RESPONSE.isdisjoint(inner):
        return []  # as above
    value = _first(inner, "response", "result", "content", "output")
    call_id = _first(asked, "tool_use_id", "toolUseId", "tool_call_id", "call_id", "toolCallId", "ref", "id")
    name = _first(asked, "name", "toolName", "tool_name")
    result = Part(
        "tool_result", role, str(name or ""), path, result_text(value), marker_of(block), str(call_id or "")
    )
    if not isinstance(value, list):
        return [result]
    media = [b for b in value if isinstance(b, dict) and str(b.get("type")) in _MEDIA_BLOCKS]
    return [result, *_each(media, kind, role, path)]


def _thinking(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    inner = block.get("reasoningContent") or block.get("reasoning_content") or block.get("reasoning")
    if isinstance(inner, dict):
        block = inner
    value = _first(
        block, "thinking", "text", "content", "reasoningText", "reasoning_text", "summary", "reasoning"
    )
    text, signed = _joined(value), block.get("signature")
    if isinstance(signed, str) and signed and (not text or is_mask(text)):
        # the provider reads the signature alone: it is what tells this thinking from another
        name = blake2b(signed.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return [Part("thinking", role, name, path, "", marker_of(block))]
    return [Part("thinking", role, "", path, text, marker_of(block))]


def _media(block: dict[str, Any], kind: Kind, role: str, path: str) -> list[Part]:
    """Media: what they are, how big, and a short hash that tells one from another; never their data."""
    inner = _first(block, *_MEDIUMS)
    inner = inner if isinstance(inner, dict) else block
    mime = str(
        _first(inner, "mimeType", "mime_type", "mediaType", "media_type", "contentType", "format") or ""
    )
    modality = str(block.get("modality") or "")
    declared = str(block.get("type") or "")
    image = (
        declared in _IMAGE or modality == "image" or mime.startswith("image") or isinstance(block.get("image"), dict)
        or mime in ("png", "jpeg", "gif", "webp")
    )  # fmt: skip
    held = _held(block)
    text = f"{mime} {blake2b(held, digest_size=8).hexdigest()}".strip() if held else mime
    size = len(held) if held else -1
    return [Part("image" if image else "file", role, "", path, text, marker_of(block), "", size)]


_OF_MEDIA = frozenset(
    {"type", "modality", "mime_type", "mimeType", "media_type", "mediaType", "role", "detail", "format"}
)


def _held(value: Any, depth: int = 0) -> bytes:
    """What a media block holds of the medium: its data or a reference, whichever is longest; nothing where it was hidden."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return b"" if is_mask(value) else value.encode("utf-8", "surrogatepass")
    if depth > 4 or not isinstance(value, (dict, list)):
        return b""
    values = [v for k, v in value.items() if k not in _OF_MEDIA] if isinstance(value, dict) else value
    return max((_held(v, depth + 1) for v in values), key=len, default=b"")


def result_text(value: Any) -> str:
    """A tool result's value as the text that a provider reads: blocks joined by new lines, objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        if value.get("type") in ("json", "text", "error-text", "error-json", "content") and "value" in value:
            return result_text(value["value"])  # the AI SDK's output wrapper
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            return str(value["text"])
        return compact(value)
    if isinstance(value, (list, tuple)):
        texts = [_result_block(b) for b in value]
        return compact(value) if None in texts else "\n".join(t for t in texts if t)
    return compact(value)


def _result_block(block: Any) -> str | None:
    """The text of one block inside a tool result, "" for media, None where it is plain data and no block."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return None
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if block.get("type") == "text" and isinstance(block.get("content"), str):
        return str(block["content"])
    if "json" in block:
        return compact(block["json"])
    if str(block.get("type")) in _MEDIA_BLOCKS or "image" in block or "document" in block:
        return ""
    return None


def _joined(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _joined(value.get("text"))
    if isinstance(value, (list, tuple)):
        return "\n".join(filter(None, map(_joined, value)))
    return ""


def _first(block: dict[str, Any], *keys: str) -> Any:
    for value in map(block.get, keys):
        if value is not None:
            return value
    return None


def _unwrapped(block: dict[str, Any], wrappers: tuple[str, ...]) -> dict[str, Any]:
    if _WRAPPERS.isdisjoint(block):
        return block
    inner = _first(block, *wrappers)
    return inner if isinstance(inner, dict) else block


def _has(block: dict[str, Any], *keys: str) -> bool:
    return any(isinstance(block.get(k), dict) for k in keys)


_Fits = Callable[[Any, dict[str, Any]], bool]
_Read = Callable[[dict[str, Any], Kind, str, str], list[Part]]
_SHAPES: tuple[tuple[_Fits, _Read], ...] = (
    (lambda t, b: t in _TEXT, _text),
    (lambda t, b: t in _CALL or _has(b, *_CALLS), _call),
    (lambda t, b: t in _RESULT or _has(b, *RESULTS), _result),
    (lambda t, b: t in _THINKING or _has(b, "reasoningContent", "reasoning"), _thinking),
    (lambda t, b: t in _IMAGE or t in _FILE or t in _MEDIA, _media),
    (lambda t, b: _has(b, *_MEDIUMS), _media),
    (lambda t, b: isinstance(b.get("text"), (str, list)), _text),
    (lambda t, b: t is None and "call_id" in b and "content" in b, _result),
    (lambda t, b: t is None and isinstance(b.get("content"), (str, list)), _text),
    (lambda t, b: isinstance(b.get("name"), str) and "arguments" in b, _call),
)
_WRAPPERS = frozenset({*_CALLS, *RESULTS, "reasoningContent", "message_content"})
_BY_TYPE: dict[str, _Read] = {  # what the table says of blocks that are declared and not wrapped
    **dict.fromkeys(_IMAGE | _FILE | _MEDIA, _media), **dict.fromkeys(_THINKING, _thinking),
    **dict.fromkeys(_RESULT, _result), **dict.fromkeys(_CALL, _call), **dict.fromkeys(_TEXT, _text),
}  # fmt: skip
