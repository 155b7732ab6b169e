"""Numbers in words, the same in every output."""

from __future__ import annotations


def percent(part: float, whole: float) -> str:
    share = 100 * part / whole
    if 0 < share < 1:
        return "<1%"
    if 99 < share < 100:
        return "99%"
    return f"{share:.0f}%"


def many(count: int, word: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
