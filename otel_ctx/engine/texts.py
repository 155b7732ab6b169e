"""The texts of segments by digest, under one cap: the oldest leave first."""

from __future__ import annotations


class Texts:
    """``cap`` is in characters; None keeps everything."""

    def __init__(self, cap: int | None) -> None:
        self._cap = cap
        self._size = 0
        self._texts: dict[str, str] = {}

    def put(self, digest: str, text: str) -> None:
        if digest in self._texts:
            return
        if self._cap is not None:
            if len(text) > self._cap:
                return
            self._size += len(text)
            while self._size > self._cap:
                self._size -= len(self._texts.pop(next(iter(self._texts))))
        self._texts[digest] = text

    def touch(self, digest: str) -> None:
        """Keep ``digest`` longer: it is shared by many calls."""
        if self._cap is None:
            return
        text = self._texts.pop(digest, None)
        if text is not None:
            self._texts[digest] = text

    def get(self, digest: str) -> str | None:
        """The text, or None where it was never seen or has left."""
        return self._texts.get(digest)
