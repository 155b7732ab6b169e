"""Contents that a record only refers to, put in their place.

Where they cannot be had, the reason says so. A name that holds a hash of its content (instrumentations name system prompts
and tool definitions so) still tells whether that content is another one than before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from otel_ctx.dialects.parameters import of_request
from otel_ctx.model import Raw, Reason, Stored, Telling, Unseen
from otel_ctx.parts import read_answer, read_body, read_usage

Fetch = Callable[[str], Any]
"""A reference -> the parsed JSON that it leads to; None where it leads nowhere that may be read."""

_SECTIONS = ("tools", "system", "messages", "output")
_CONTENT_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")  # SHA-256
_OF_A_MESSAGE = ("role", "parts", "content", "type")
_OF_A_TOOL = ("name", "function", "toolSpec", "functionDeclarations", "function_declarations")
_OF_A_SYSTEM_PART = ("content", "text", "parts")


def with_contents(telling: Telling, fetch: Fetch | None) -> Telling:
    """``telling`` with what lies elsewhere in its place, or without it and with the reason."""
    if Stored not in map(type, telling.contents):
        return telling
    raws = (telling.tools, telling.system, telling.messages, telling.output)
    stored = [
        (section, raw.shape, raw.value.reference)
        for section, raw in zip(_SECTIONS, raws, strict=True)
        if raw is not None and isinstance(raw.value, Stored)
    ]
    changes: dict[str, Any] = {}
    reasons: set[Reason] = set()
    lost: set[str] = set()
    for section, shape, reference in stored:
        found = _found(section, shape, fetch(reference)) if fetch is not None else None
        if found is not None:
            changes |= {k: v for k, v in found.items() if k == section or not getattr(telling, k)}
            continue
        known = _CONTENT_HASH.search(reference) if section in ("tools", "system") else None
        changes[section] = Raw(shape, Unseen(known[0][:32])) if known else None
        if section != "output":
            reasons.add("reference_missing")
            lost.update(() if known else (section,))
    return telling._replace(**changes, reasons=telling.reasons | reasons, lost=telling.lost | lost)


def _found(section: str, shape: str, value: Any) -> dict[str, Any] | None:
    """What a reference led to, as fields of the telling: the section itself (None where a whole body has none of it), and
    what a body tells beside it. None where it is something else: a reference is no reason to show whatever it leads to."""
    if section == "output" and (answer := read_answer(value)) is not None and answer.messages:
        return {section: Raw(shape, answer.messages), "usage": read_usage(answer.usage)}
    if not isinstance(value, Mapping):
        of = {"tools": _OF_A_TOOL, "system": _OF_A_SYSTEM_PART}.get(section, _OF_A_MESSAGE)
        return {section: Raw(shape, value)} if _are(value, of) else None
    if section == "output":
        if not _are([value], _OF_A_MESSAGE):
            return None
        return {section: Raw(shape, [value]), "usage": read_usage(value.get("usage"))}
    body = read_body(value)
    if body is None or body.messages is None or not _are(body.messages.value, _OF_A_MESSAGE):
        return None
    return {
        section: getattr(body, section),
        "reserve": body.reserve,
        "parameters": of_request(value),
        "previous_response_id": body.previous_response_id,
    }


def _are(value: Any, keys: tuple[str, ...]) -> bool:
    """A list of objects, of which each has one of ``keys``."""
    return isinstance(value, list) and all(
        isinstance(v, Mapping) and any(k in v for k in keys) for v in value
    )
