"""HAR files, as browsers and recording proxies write them: each entry is a request and its answer, most of them to no model.

Source: HTTP Archive 1.2.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from otel_ctx.parts import mapping

_BROKEN = '{"error":'  # stands for an answer that is there and cannot be decoded


def entries(document: Any) -> list[Any] | None:
    """The entries of ``document`` as records of requests, in their order, None for what is no entry; None where it is no
    HAR file."""
    listed = mapping(mapping(document).get("log")).get("entries")
    if not isinstance(listed, list) or not (any(map(_is_entry, listed)) or not listed):
        return None
    return [_record(entry) if _is_entry(entry) else None for entry in listed]


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("request"), Mapping)


def _record(entry: Mapping[str, Any]) -> dict[str, Any]:
    request, response = entry["request"], mapping(entry.get("response"))
    headers = request.get("headers")
    return {
        "timestamp": entry.get("startedDateTime"),
        "duration_ms": entry.get("time"),
        "method": request.get("method"),
        "url": request.get("url"),
        "headers": {
            h["name"]: h.get("value")
            for h in (headers if isinstance(headers, list) else ())
            if isinstance(h, Mapping) and isinstance(h.get("name"), str)
        },
        "request": _text(mapping(request.get("postData"))),
        "status": response.get("status"),
        "response": _text(mapping(response.get("content"))),
    }


def _text(content: Mapping[str, Any]) -> Any:
    text = content.get("text")
    if content.get("encoding") != "base64" or not isinstance(text, str):
        return text
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except binascii.Error:
        return _BROKEN
    except UnicodeDecodeError:
        return None
