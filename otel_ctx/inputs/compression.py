"""Compressed streams: known by their first bytes, opened piece by piece."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from otel_ctx.inputs.interface import Envelope, Inner, Skipped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_UNPACKED = 16 << 30  # bytes that one compressed file may unfold to: a guard against bombs
# Of a reader: a line can be megabytes long, and one that spans buffers is put together piece by piece.
BUFFER = 1 << 22


class Unpacked(io.RawIOBase):
    """What a decompressor gives, up to ``MAX_UNPACKED``. Damage is noted and ends the stream, raising nothing."""

    def __init__(self, packed: io.BufferedIOBase, name: str, where: str, skipped: list[Skipped]) -> None:
        self._packed, self._name, self._where, self._skipped = packed, name, where, skipped
        self._left = MAX_UNPACKED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if not self._left:
            return 0
        try:
            data = self._packed.read1(len(view))
        except (EOFError, OSError, zlib.error) as error:
            cut = isinstance(error, EOFError)
            self._ends(f"the {self._name} data {'are cut off' if cut else 'are damaged'}")
            return 0
        if len(data) > self._left:
            data = data[: self._left]
            self._ends(f"it unfolds to more than {MAX_UNPACKED} bytes")
        else:
            self._left -= len(data)
        view[: len(data)] = data
        return len(data)

    def _ends(self, why: str) -> None:
        self._left = 0
        self._skipped.append(Skipped(self._where, f"{why}: only what comes before that was read"))


def _open_gzip(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    with gzip.GzipFile(fileobj=stream) as packed:
        yield Inner(where, io.BufferedReader(Unpacked(packed, "gzip", where, skipped), BUFFER))


GZIP = Envelope("gzip", lambda head: head.startswith(b"\x1f\x8b\x08"), _open_gzip)
