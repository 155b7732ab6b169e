"""What several formats read alike: ids as dumps write them -> lower-case hex ("" where there is none, or only
zeros), and the name of a log record."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

TRACE_ID, SPAN_ID = 16, 8  # bytes

_is_hex = re.compile(r"[0-9a-fA-F]+").fullmatch
_ZEROS = {TRACE_ID: "0" * 32, SPAN_ID: "0" * 16}


def id_of_text(text: object, size: int) -> str:
    """Hex in any case, base64 of the bytes (protobuf's own JSON), or base64 of the hex: the length tells.
    A trace id of 64 bits is filled up with zeros. Raises ValueError where it is none of these."""
    if text is None or text == "":
        return ""
    if not isinstance(text, str):
        raise ValueError("is no text")
    if len(text) != 2 * size or not _is_hex(text):
        text = _other_text(text, size)
    text = text.lower()
    return "" if text == _ZEROS[size] else text


def id_of_bytes(raw: bytes, size: int) -> str:
    """The bytes of an id; also its hex, or hex that a JSON reader took for base64 (24 and 12 bytes)."""
    if len(raw) == size:
        text = raw.hex()
    elif not raw:
        return ""
    else:
        text = (raw if len(raw) == 2 * size else base64.b64encode(raw)).decode("ascii", "replace").lower()
        if len(text) != 2 * size or not _is_hex(text):
            raise ValueError(f"is of {len(raw)} bytes, not {size}")
    return "" if text == _ZEROS[size] else text


def event_name(name: str, attributes: Mapping[str, Any]) -> str:
    """The name of a log record: its own, else the attribute that OpenTelemetry or litellm keeps it in."""
    name = name or attributes.get("event.name") or attributes.get("event_name") or ""
    return name if isinstance(name, str) else ""


def _other_text(text: str, size: int) -> str:
    if size == TRACE_ID and len(text) == 16 and _is_hex(text):
        return text.rjust(32, "0")
    if text.startswith("0x"):
        return id_of_text(text[2:], size)
    padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
    try:
        raw = base64.b64decode(padded, validate=True)
    except ValueError as error:
        raise ValueError("is neither hex nor base64") from error
    return id_of_bytes(raw, size)
