"""Segments that are seldom looked at, in a tenth of the memory: each is made anew when it is."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, overload

from otel_ctx.memo import Memo
from otel_ctx.model import Chain, Segment

_PACKED = Struct("<16s16sqi")  # digest, mark, bytes, tokens
_NO_MARK = bytes(16)
_GROWTH = 2
_Shape = tuple[Any, ...]
"""All of a segment but digest and sizes: what few words there are comes again and again."""


class PackedSegments(Sequence[Segment]):
    __slots__ = ("data", "shapes")

    def __init__(self, data: bytes, shapes: tuple[_Shape, ...]) -> None:
        self.data, self.shapes = data, shapes

    def __len__(self) -> int:
        return len(self.shapes)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, at: int | slice) -> Segment | tuple[Segment, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        kind, role, name, path, method, marker, call_id, inferred = self.shapes[at]
        digest, _, size, tokens = _PACKED.unpack_from(self.data, at % len(self) * _PACKED.size)
        known = tokens if tokens >= 0 else None
        return Segment(kind, role, name, path, size, known, method, digest.hex(), marker, call_id, inferred)


class PackedMarks(Sequence[bytes]):
    """The keys of a chain after each of its new segments."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // _PACKED.size

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, at: int | slice) -> bytes | tuple[bytes, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        mark: bytes = _PACKED.unpack_from(self._data, at % len(self) * _PACKED.size)[1]
        return mark if mark != _NO_MARK else b""


class Packing:
    """Packs chains, and remembers the ``most`` words that came last: they are held once."""

    def __init__(self, most: int = 16_384) -> None:
        self._shapes: Memo[_Shape, _Shape] = Memo(most)

    def pack(self, chain: Chain) -> None:
        """In place: who holds the chain, or one that goes on from it, sees the same segments as before."""
        link: Chain | None = chain
        while link is not None and type(link.new) is tuple:
            if link.new:
                self._pack(link)
            link = link.base
        while self._take_in(chain):
            pass

    def _pack(self, link: Chain) -> None:
        try:
            data = b"".join(_written(s, mark) for s, mark in zip(link.new, link.marks, strict=True))
        except ValueError:  # a digest or a size that is none of ours
            return
        self._put(link, data, tuple(self._one(_shape(s)) for s in link.new))

    def _take_in(self, chain: Chain) -> bool:
        """One link in the place of two, where that copies no more than a few times what is new: a long history is a few."""
        base = chain.base
        if base is None or len(base.new) > _GROWTH * len(chain.new):
            return False
        ours, theirs = chain.new, base.new
        if not isinstance(ours, PackedSegments) or not isinstance(theirs, PackedSegments):
            return False
        self._put(chain, theirs.data + ours.data, theirs.shapes + ours.shapes)
        object.__setattr__(chain, "base", base.base)
        return True

    def _put(self, chain: Chain, data: bytes, shapes: tuple[_Shape, ...]) -> None:
        object.__setattr__(chain, "new", PackedSegments(data, self._one(shapes)))
        object.__setattr__(chain, "marks", PackedMarks(data))

    def _one(self, shape: _Shape) -> _Shape:
        known = self._shapes.get(shape)
        if known is None:
            self._shapes.put(shape, shape)
        return known or shape


def _shape(s: Segment) -> _Shape:
    return s.kind, s.role, s.name, s.path, s.method, s.cache_marker, s.call_id, s.inferred


def _written(s: Segment, mark: bytes) -> bytes:
    digest = bytes.fromhex(s.digest)
    tokens = -1 if s.tokens is None else s.tokens
    if (
        len(digest) != 16
        or digest.hex() != s.digest
        or len(mark or _NO_MARK) != 16
        or not -1 <= tokens < 1 << 31
    ):
        raise ValueError(s.digest)
    return _PACKED.pack(digest, mark or _NO_MARK, s.bytes, tokens)
