"""A bounded memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """What was used of late, by key: at most ``size`` items, and always those of the last ``size / 2`` uses.

    In two generations: the older one goes as a whole when the newer is full. An order of use would take twice the
    memory, and a dict finds its oldest item by a search. No value is None.
    """

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def __contains__(self, key: object) -> bool:
        return key in self._new or key in self._old

    def get(self, key: K) -> V | None:
        value = self._new.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        if self._old:
            self._old.pop(key, None)
        self._new[key] = value
        if len(self._new) >= self._half:
            self._old, self._new = self._new, {}

    def pop(self, key: K) -> V | None:
        value = self._new.pop(key, None)
        return value if value is not None else self._old.pop(key, None)
