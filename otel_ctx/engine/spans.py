"""Spans that came of late, by numbers of 60 bits in the place of their ids: two of those that are known have one number once
in 10^12 spans. Bounded; those that nobody asked for leave first."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from typing import Protocol

import xxhash

from otel_ctx.memo import Memo

Key = tuple[str, str]
"""Trace and span."""

_ID = re.compile(r"[0-9a-f]{16}")
_NONE = -1  # a root has no parent


class Marks(Protocol):
    """Spans that something is known of."""

    def add(self, key: Key, /) -> None: ...
    def __contains__(self, key: object, /) -> bool: ...


class RecentSpans:
    """``most`` of them."""

    def __init__(self, most: int) -> None:
        self._known: Memo[int, bool] = Memo(most)

    def add(self, key: Key) -> None:
        self._known.put(_number(*key), True)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._known.get(_number(*key)) is not None

    def __len__(self) -> int:
        return len(self._known)


class RecentParents(MutableMapping[Key, str]):
    """(trace, span) -> the span above it; ``most`` of them. Who they are cannot be told again."""

    def __init__(self, most: int) -> None:
        self._known: Memo[int, int | str] = Memo(most)

    def __getitem__(self, key: Key) -> str:
        parent = self._known.get(_number(*key))
        if parent is None:
            raise KeyError(key)
        if isinstance(parent, str):
            return parent
        return "" if parent == _NONE else f"{parent:016x}"

    def __setitem__(self, key: Key, parent: str) -> None:
        if not parent:
            self._known.put(_number(*key), _NONE)
        else:
            self._known.put(_number(*key), int(parent, 16) if _ID.fullmatch(parent) else parent)

    def __delitem__(self, key: Key) -> None:
        if self._known.pop(_number(*key)) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._known.get(_number(*key)) is not None

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Key]:
        raise TypeError("only numbers of the spans are kept")


def _number(trace_id: str, span_id: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{trace_id}:{span_id}".encode("utf-8", "replace")) >> 4
