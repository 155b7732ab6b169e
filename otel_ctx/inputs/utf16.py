"""Text in UTF-16, as PowerShell's ``>`` writes it: known by its byte order mark, read as the UTF-8 that it stands for."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from otel_ctx.inputs.interface import BUFFER, Envelope, Inner, Skipped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PIECE = 1 << 16  # bytes at a time
_CUT = "the UTF-16 text is cut off inside a character"


class _AsUtf8(io.RawIOBase):
    """Halves of characters stay what they are: whoever reads the text says so."""

    def __init__(self, stream: BinaryIO, where: str, skipped: list[Skipped]) -> None:
        self._stream, self._where, self._skipped = stream, where, skipped
        self._decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        self._piece = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._piece and not self._ended:
            self._piece = memoryview(self._next())
        size = min(len(view), len(self._piece))
        view[:size], self._piece = self._piece[:size], self._piece[size:]
        return size

    def _next(self) -> bytes:
        data = self._stream.read(_PIECE)
        self._ended = not data
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            self._skipped.append(Skipped(self._where, _CUT))
            return b""
        return text.encode("utf-8", "surrogatepass")


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    yield Inner(where, io.BufferedReader(_AsUtf8(stream, where, skipped), BUFFER))


ENVELOPE = Envelope("utf-16", lambda head: head.startswith(_MARKS), _open)
