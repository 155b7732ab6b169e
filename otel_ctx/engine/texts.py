"""The texts of segments by digest, under one cap: what was not used of late leaves first."""

from __future__ import annotations

from math import inf

_OWN = 200  # characters' worth of memory that a text takes beside its characters: of short ones it is most
_DIGITS = 32  # of a digest


class Texts:
    """``cap`` is in characters, of which each text takes 200 beside its own; None keeps everything.

    In two generations, each of half the cap: the older one goes as a whole when the newer is full."""

    def __init__(self, cap: int | None) -> None:
        self._half = cap // 2 if cap is not None else inf
        self._size = 0
        self._new: dict[int | str, str] = {}
        self._old: dict[int | str, str] = {}

    def put(self, digest: str, text: str) -> None:
        key = _key(digest)
        if key in self._new:
            return
        if self._old:
            self._old.pop(key, None)
        size = len(text) + _OWN
        if self._size + size > self._half:
            if size > self._half:
                return
            self._old, self._new, self._size = self._new, {}, 0
        self._size += size
        self._new[key] = text

    @property
    def forgets(self) -> bool:
        """May something leave that is not used?"""
        return bool(self._old)

    def touch(self, digest: str) -> None:
        """Keep ``digest`` longer: it is shared by many calls."""
        text = self._old.get(_key(digest))
        if text is not None:
            self.put(digest, text)

    def get(self, digest: str) -> str | None:
        """The text, or None where it was never seen or has left."""
        key = _key(digest)
        text = self._new.get(key)
        return text if text is not None else self._old.get(key)


def _key(digest: str) -> int | str:
    """A digest as a number takes half the memory. A name that is none stays as it is."""
    try:
        return int(digest, 16) if len(digest) == _DIGITS else digest
    except ValueError:
        return digest
