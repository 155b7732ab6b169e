"""What a provider's cache may hold: entries by the content that stands before them, while they may live."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct, error

import xxhash

from otel_ctx.model import SECOND

_MOST = 174_762  # two generations that each fill a dict
_PACKED = Struct("<QQQqq")
_MAX = 2**64 - 1  # the latest time that OTLP can tell; a sender may claim any
_UNKNOWN = -1
_FEW = 1000


@dataclass(slots=True, eq=False)
class Entry:
    """``start``: the start of the request that wrote or read it last; ``ready``: when it could first be read;
    ``least``, ``most``: how long it lives after a use, in seconds (None: not published); ``place``: where the store has it."""

    tokens: int
    start: int
    ready: int
    least: int | None
    most: int | None
    place: int | None = None

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

    def copied(self) -> Entry:
        return replace(self)


class Store:
    """Entries by (who shares the cache, key of the prefix). Bounded; those that nobody used for long leave first.

    In two generations, of which the older goes as a whole when the newer is full; an entry is a few bytes. ``behind``: a
    store that the same entries come to later: it is looked into where there is none here, and what it has got meanwhile
    may go here."""

    def __init__(self, keep_seconds: int, behind: Store | None = None, most: int = _MOST) -> None:
        self._new: dict[int, bytes] = {}
        self._old: dict[int, bytes] = {}
        self._keep = keep_seconds * SECOND
        self._half = most // 2
        self._behind = behind
        self._latest = 0  # start of the last use
        self._ahead = 0  # entries that the one behind had not got when that was last looked at

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def get(self, scope: str, key: int) -> Entry | None:
        return self._at(_place(scope, key))

    def use(self, scope: str, key: int, entry: Entry) -> None:
        """An entry is written, or read and so refreshed: it stays readable from when it first was while it lives."""
        place = entry.place = _place(scope, key)
        old = self._at(place)
        if old is not None and old.lives(entry.start):
            entry.ready = min(entry.ready, old.ready)
        self._latest = _fitting(entry.start)
        self._put(entry, place)

    def answered(self, entry: Entry, now: int) -> None:
        """``entry`` could be read by ``now``, whatever the clocks say."""
        if entry.ready > now:
            entry.ready = now
            if entry.place is not None:
                known = self._at(entry.place)
                if known is not None and known.start == entry.start:
                    self._put(entry, entry.place)

    def caught_up(self) -> None:
        """Forget what the store ``behind`` has got: all that started up to its last use."""
        # each is looked at: not each time
        if self._behind is not None and len(self) > 2 * self._ahead + _FEW:
            latest = self._behind._latest
            self._new = {place: e for place, e in self._new.items() if _PACKED.unpack(e)[1] > latest}
            self._old = {place: e for place, e in self._old.items() if _PACKED.unpack(e)[1] > latest}
            self._ahead = len(self)

    def _at(self, place: int) -> Entry | None:
        own = self._own(place)
        if self._behind is None:
            return own
        theirs = self._behind._own(place)
        return theirs if own is None or (theirs is not None and theirs.start > own.start) else own

    def _own(self, place: int) -> Entry | None:
        packed = self._new.get(place) or self._old.get(place)
        if packed is None:
            return None
        tokens, start, ready, least, most = _PACKED.unpack(packed)
        if self._latest - start > self._keep:
            return None
        known = None if least == _UNKNOWN else least
        return Entry(tokens, start, ready, known, None if most == _UNKNOWN else most, place)

    def _put(self, entry: Entry, place: int) -> None:
        least = _UNKNOWN if entry.least is None else entry.least
        most = _UNKNOWN if entry.most is None else entry.most
        if self._old:
            self._old.pop(place, None)
        try:
            packed = _PACKED.pack(entry.tokens, entry.start, entry.ready, least, most)
        except error:  # times that a sender claims and OTLP cannot tell
            packed = _PACKED.pack(*map(_fitting, (entry.tokens, entry.start, entry.ready)), least, most)
        self._new[place] = packed
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}


def _fitting(number: int) -> int:
    return min(max(number, 0), _MAX)


def _place(scope: str, key: int) -> int:
    """60 bits, as a number that takes 32 bytes."""
    return xxhash.xxh3_64_intdigest(scope.encode("utf-8", "replace"), key) >> 4
