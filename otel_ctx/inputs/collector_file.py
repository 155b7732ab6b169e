"""The Collector's ``file`` exporter where it writes no lines: messages of JSON or protobuf, or such in a zstd frame each, with
their length in front as four bytes, big-endian.

Source: fileexporter's file_writer.go and compress.go: ``format: proto``, and ``compression: zstd`` without the feature gate
for native compression.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from otel_ctx.inputs.interface import BUFFER, Envelope, Inner, Skipped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_LENGTH = 4  # bytes
_BEGINNINGS = (b"{", b"\x0a", b"\x28\xb5\x2f\xfd")  # JSON, a request of protobuf, zstd


def claims(head: bytes) -> bool:
    """A length, a message, and where it ends within the head another length or nothing."""
    size = int.from_bytes(head[:_LENGTH], "big")
    if len(head) <= _LENGTH or head[0] >= 0x0A or not size:
        return False  # what begins with a tab, a letter or a bracket is text
    end = _LENGTH + size
    return head.startswith(_BEGINNINGS, _LENGTH) and (
        end + _LENGTH >= len(head) or head.startswith(_BEGINNINGS, end + _LENGTH)
    )


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    at = 0
    while length := stream.read(_LENGTH):
        place = f"{where}, byte {at}"
        size = int.from_bytes(length, "big")
        if len(length) < _LENGTH:
            skipped.append(Skipped(place, "cut off: the data end inside a length"))
            return
        message = _Message(stream, size)
        yield Inner(place, io.BufferedReader(message, min(size, BUFFER) or 1))
        if not message.drain():
            skipped.append(Skipped(place, "cut off: the data end inside this message"))
            return
        at += _LENGTH + size


class _Message(io.RawIOBase):
    """The next ``left`` bytes of a stream."""

    def __init__(self, stream: BinaryIO, left: int) -> None:
        self._stream, self._left = stream, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._stream.read(min(len(view), self._left))
        self._left -= len(data)
        view[: len(data)] = data
        return len(data)

    def drain(self) -> bool:
        """Go to the end of the message; False where the stream ends before it."""
        while self._left and (data := self._stream.read(min(BUFFER, self._left))):
            self._left -= len(data)
        return not self._left


ENVELOPE = Envelope("collector-file", claims, _open)
