"""What became of a prompt: its tokens by what the cache did, or could have done, and the outcome in a word."""

from __future__ import annotations

from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.model import CacheTokens, Outcome, Usage


def best_split(mech: Mechanism, total: int, read: int) -> CacheTokens:
    """With the end of the prompt marked, where the cache acts on marks."""
    writes, rest = mech.style in ("marked", "endings"), total - read
    return CacheTokens(read, rest if writes else 0, 0 if writes else rest)


def reported_split(usage: Usage, total: int) -> CacheTokens | None:
    read, write = usage.cache_read, usage.cache_write
    if read is None and write is None:
        return None
    return CacheTokens(read or 0, write or 0, max(0, total - (read or 0) - (write or 0)))


def outcome_of(mech: Mechanism, usage: Usage, total: int, expected: int, slack: int) -> Outcome:
    """By the provider's word; ``expected``: what could have been read."""
    read = usage.cache_read
    if read is None:
        return "not_reported"
    if total < mech.minimum and not read:
        return "ineligible"
    if not expected:
        return "hit" if read else "cold"
    if read + slack >= expected:
        return "hit"
    return "partial" if read else "miss"
