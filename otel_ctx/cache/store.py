"""What a provider's cache may hold: entries by the content that stands before them, while they may live."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

SECOND = 1_000_000_000
_MOST = 200_000


@dataclass(slots=True, eq=False)
class Entry:
    """``start``: the start of the request that wrote or read it last; ``ready``: when it could first be read;
    ``least``, ``most``: how long it lives after a use, in seconds (None: not published)."""

    tokens: int
    start: int
    ready: int
    least: int | None
    most: int | None

    def gap(self, now: int) -> float:
        return (now - self.start) / SECOND

    def lives(self, now: int) -> bool:
        return self.least is None or now - self.start <= self.least * SECOND

    def is_dead(self, now: int) -> bool:
        """For certain."""
        most = self.most if self.most is not None else self.least
        return most is not None and now - self.start > most * SECOND

    def is_ready(self, now: int) -> bool:
        return self.ready <= now


class Store:
    """Entries by (who shares the cache, key of the prefix). Bounded; those that nobody used for long leave first."""

    def __init__(self, keep_seconds: int, most: int = _MOST) -> None:
        self._entries: OrderedDict[tuple[str, int], Entry] = OrderedDict()
        self._keep = keep_seconds * SECOND
        self._most = most

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, scope: str, key: int) -> Entry | None:
        return self._entries.get((scope, key))

    def use(self, scope: str, key: int, entry: Entry) -> None:
        """An entry is written, or read and so refreshed: it stays readable from when it first was while it lives."""
        place = scope, key
        old = self._entries.get(place)
        if old is not None and old.lives(entry.start):
            entry.ready = min(entry.ready, old.ready)
        self._entries[place] = entry
        self._entries.move_to_end(place)
        now = entry.start
        while self._entries:
            first, oldest = next(iter(self._entries.items()))
            if now - oldest.start <= self._keep and len(self._entries) <= self._most:
                break
            del self._entries[first]
