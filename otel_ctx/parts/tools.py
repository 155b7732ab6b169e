"""Tool definitions in the shapes of every provider -> Parts of kind ``tools``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_ctx.model import Part
from otel_ctx.parts.markers import cache_point, marker_of
from otel_ctx.parts.texts import compact, loads, printed, printed_text, structure

_NESTS = ("functionDeclarations", "function_declarations")
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_MARKERS = ("cache_control", "cacheControl", "providerOptions", "providerMetadata")


def read_tools(value: Any) -> list[Part]:
    """``value``: a list of definitions (or of JSON strings of them, or of bare names), a JSON string of such a list,
    or Gemini's list of ``functionDeclarations``. A cache point that stands as a tool marks the tool before it."""
    parts: list[Part] = []
    for tool in _definitions(structure(value)):
        point = cache_point(tool)
        if point is None:
            parts.append(_part(tool, len(parts)))
        elif parts:
            parts[-1] = parts[-1]._replace(cache_marker=point)
    return parts


def _definitions(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if not any(isinstance(value.get(n), list) for n in _NESTS) and not _looks_like_tool(value):
            value = list(value.values())  # a mapping of name -> definition
        else:
            value = [value]
    if not isinstance(value, (list, tuple)):
        value = [value] if value not in (None, "") else []
    for item in value:
        tool = structure(item)
        nested = (
            next((tool[n] for n in _NESTS if isinstance(tool.get(n), list)), None)
            if isinstance(tool, dict)
            else None
        )
        if nested is not None:
            yield from nested
        elif isinstance(tool, list):
            yield from _definitions(tool)
        elif tool is not None:
            yield tool


def is_cut(part: Part) -> bool:
    """Is the definition, or the schema in it, JSON that stops before its end?"""
    if part.text[:1] not in ("{", "["):
        return False  # a bare name
    try:
        tool = loads(part.text)
    except ValueError:
        return True
    schemas = [tool.get(key) for key in _SCHEMAS] if isinstance(tool, dict) else []
    return any(isinstance(s, str) and s[:1] == "{" and isinstance(structure(s), str) for s in schemas)


def _looks_like_tool(value: dict[str, Any]) -> bool:
    return (
        isinstance(value.get("name"), str)
        or isinstance(value.get("type"), str)
        or "function" in value
        or "toolSpec" in value
    )


def _part(tool: Any, index: int) -> Part:
    path = f"tools[{index}]"
    if not isinstance(tool, dict):
        name = str(tool) if isinstance(tool, str) else ""
        return Part("tools", "", name, path, name or compact(tool))
    inner = _definition(_definition(tool))  # a converter wraps once more what came wrapped
    schema = inner.get("parameters")
    if isinstance(schema, dict) and _is_printed(schema):
        inner = {**inner, "parameters": _unprinted(schema)}
    name = inner.get("name") or tool.get("name") or tool.get("type") or ""
    marker = marker_of(tool) or marker_of(inner)
    if marker:
        inner = {k: v for k, v in inner.items() if k not in _MARKERS}
    return Part("tools", "", str(name), path, compact(inner), marker)


def _definition(tool: dict[str, Any]) -> dict[str, Any]:
    return next((tool[k] for k in ("function", "toolSpec") if isinstance(tool.get(k), dict)), tool)


def _is_printed(schema: dict[str, Any]) -> bool:
    """Is it a schema of which all that lies deep has become text? A property of a real one is no text."""
    properties = schema.get("properties")
    return isinstance(properties, dict) and any(isinstance(p, str) for p in properties.values())


def _unprinted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unprinted(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unprinted(v) for v in value]
    return printed_text(printed(value))
