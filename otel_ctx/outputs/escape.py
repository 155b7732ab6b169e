"""Text out of telemetry made safe and visible: for terminals, and wherever the unseen would hide a difference."""

from __future__ import annotations

import re

from otel_ctx.names import cells as cells

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Letters and marks by their category, but drawn by no terminal: they would hide in an excerpt.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def escape(text: str) -> str:
    """``text`` on one line: control characters, bidirectional overrides, lone surrogates, odd spaces and all else that
    cannot be seen as ``\\n``, ``\\x1b``, ``\\u202e``."""
    if can_be_seen(text):
        return text
    return "".join(map(_visible, text))


def can_be_seen(text: str) -> bool:
    """Does each of its characters show, and as what it is?"""
    return text.isprintable() and not _INVISIBLE.search(text)


def _visible(char: str) -> str:
    if can_be_seen(char):
        return char
    named = _NAMED.get(char)
    if named is not None:
        return named
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
