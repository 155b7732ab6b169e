"""Compressed streams: known by their first bytes, opened piece by piece."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from otel_ctx.inputs.interface import BUFFER, Envelope, Inner, Skipped, needs
from otel_ctx.inputs.pieces import stream_of

# Guards against bombs: what one compressed file may unfold to in bytes, and, beyond a modest size, in ratio.
MAX_UNPACKED = 16 << 30
_MODEST = 1 << 26
_GZIP_RATIO = 500  # deflate ends at 1032; prompts that are sent again lie too far apart for its window
_ZSTD_RATIO = 10_000  # within its window a prompt that is sent again costs nothing

_ZSTD_FEED = 1 << 12  # bytes at a time: each can become 32 KiB at once
_ZSTD_WINDOW = 1 << 27  # bytes of memory that a stream may ask for
_ENDS = "only what comes before that was read"


class _Counted:
    """A stream that is read from, and how much was."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


def _within_limits(
    pieces: Iterator[bytes], packed: _Counted, name: str, ratio: int, note: Callable[[str], None]
) -> Iterator[bytes]:
    """The ``pieces`` that ``packed`` unfolds to. Damage is noted and ends them, raising nothing."""
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            by_ratio = max(_MODEST, ratio * packed.count)
            over = size - min(MAX_UNPACKED, by_ratio)
            if over > 0:
                most = f"{MAX_UNPACKED} bytes" if by_ratio > MAX_UNPACKED else f"{ratio} times its size"
                note(f"it unfolds to more than {most}: {_ENDS}")
                yield piece[:-over]
                return
            yield piece
    except (EOFError, OSError, zlib.error) as error:
        note(f"the {name} data {'are cut off' if isinstance(error, EOFError) else 'are damaged'}: {_ENDS}")


def _unpacked(
    stream: BinaryIO,
    unpack: Callable[[_Counted], Iterator[bytes]],
    name: str,
    ratio: int,
    where: str,
    skipped: list[Skipped],
) -> Iterator[Inner]:
    packed = _Counted(stream)
    pieces = _within_limits(
        unpack(packed), packed, name, ratio, lambda why: skipped.append(Skipped(where, why))
    )
    yield Inner(where, stream_of(pieces))


def _open_gzip(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    return _unpacked(stream, _gunzip, "gzip", _GZIP_RATIO, where, skipped)


def _gunzip(packed: _Counted) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=packed, mode="rb") as unpacked:  # type: ignore[call-overload]  # it reads, no more
        while piece := unpacked.read1(BUFFER):
            yield piece


def _is_zstd(head: bytes) -> bool:
    """A frame, or one that readers skip, as parallel writers put it in front."""
    return head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5)


def _open_zstd(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    try:
        import zstandard  # noqa: F401  (an extra)
    except ImportError:
        skipped.append(Skipped(where, needs("zstd")))
        return iter(())
    return _unpacked(stream, _unzstd, "zstd", _ZSTD_RATIO, where, skipped)


def _unzstd(packed: _Counted) -> Iterator[bytes]:
    """The library's own reader does not tell a stream that was cut off from one that ended."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    data = packed.read(_ZSTD_FEED)
    while data:
        frame = decompressor.decompressobj()
        try:
            while data and not frame.eof:
                if piece := frame.decompress(data):
                    yield piece
                data = frame.unused_data or packed.read(_ZSTD_FEED)
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from error
        if not frame.eof:
            raise EOFError


GZIP = Envelope("gzip", lambda head: head.startswith(b"\x1f\x8b\x08"), _open_gzip)
ZSTD = Envelope("zstd", _is_zstd, _open_zstd)
