"""Claude's counts by the ctok package, where it is installed (extra ``claude``, Python 3.12 or newer).

ctok is an offline reconstruction; it counts one user message, so the message's own frame is taken off.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from otel_ctx.tokens.engines import Count, UnfitError

_MODULE = "ctok"
# The version to ask for and the tokens of its frame. From 4.7 on the vocabulary is one, and the frame of 4.8 does not
# merge with the text.
# Source: ctok 1.3.0's README, read on 2026-11-30; its counts equal every recorded answer that it comes with.
_VERSIONS = {"claude3": ("3.0", 7), "claude4.7": ("4.8", 6)}
_KNOWN = ("hello, world", {"claude3": 3, "claude4.7": 4})
ENCODINGS = frozenset(_VERSIONS)
LONGEST = 200_000  # characters: pure Python, 0.4 MB a second


@cache
def installed() -> Any:
    """ctok's function; None where it is not installed. What is not there takes long to look for: once is enough."""
    try:
        return import_module(_MODULE).token_count
    except ModuleNotFoundError as error:
        if error.name != _MODULE:
            raise
        return None


def start(encoding: str) -> Count:
    """ctok's count of ``encoding``, tested. Raises whatever goes wrong."""
    token_count = installed()
    if token_count is None:
        raise ModuleNotFoundError(name=_MODULE)
    version, frame = _VERSIONS[encoding]

    def count(text: str) -> int:
        return max(1, int(token_count(text, version)) - frame)

    text, known = _KNOWN
    if (found := count(text)) != known[encoding]:
        raise UnfitError(f"{text!r} has {known[encoding]} tokens, not {found}")
    return count
