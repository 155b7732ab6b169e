"""Which conversations to look at first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from otel_ctx.model import Conversation, Reading


def by_weight(conversations: Sequence[Conversation], readings: Mapping[str, Reading]) -> list[int]:
    """Their indexes: those that lost the most tokens first, of equal ones the deepest. ``readings``: by call id."""
    lost = [sum(readings[call].wasted for call in c.calls) for c in conversations]
    return sorted(range(len(conversations)), key=lambda i: (-lost[i], -(conversations[i].usage_peak or 0), i))
