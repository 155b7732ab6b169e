"""A stream of bytes that are made piece by piece. A helper of the envelopes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from otel_ctx.inputs.interface import BUFFER

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def stream_of(pieces: Iterator[bytes | memoryview]) -> BinaryIO:
    """The pieces, one behind the other; each is made when all before it were read."""
    return io.BufferedReader(_Pieces(pieces), BUFFER)


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes | memoryview]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        size = min(len(view), len(self._piece))
        view[:size], self._piece = self._piece[:size], self._piece[size:]
        return size
