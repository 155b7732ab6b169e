"""The texts of segments by digest, under one cap: what was not used of late leaves first."""

from __future__ import annotations

_OWN = 200  # characters' worth of memory that a text takes beside its characters: of short ones it is most


class Texts:
    """``cap`` is in characters, of which each text takes 200 beside its own; None keeps everything.

    In two generations, each of half the cap: the older one goes as a whole when the newer is full."""

    def __init__(self, cap: int | None) -> None:
        self._half = cap // 2 if cap is not None else None
        self._size = 0
        self._new: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def put(self, digest: str, text: str) -> None:
        if digest in self._new:
            return
        self._old.pop(digest, None)
        if self._half is not None:
            size = len(text) + _OWN
            if size > self._half:
                return
            if self._size + size > self._half:
                self._old, self._new, self._size = self._new, {}, 0
            self._size += size
        self._new[digest] = text

    def touch(self, digest: str) -> None:
        """Keep ``digest`` longer: it is shared by many calls."""
        text = self._old.get(digest)
        if text is not None:
            self.put(digest, text)

    def get(self, digest: str) -> str | None:
        """The text, or None where it was never seen or has left."""
        text = self._new.get(digest)
        return text if text is not None else self._old.get(digest)
