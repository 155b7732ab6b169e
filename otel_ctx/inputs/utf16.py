"""Text in UTF-16, as PowerShell's ``>`` writes it: known by its byte order mark, read as the UTF-8 that it stands for."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from otel_ctx.inputs.interface import Envelope, Inner, Skipped
from otel_ctx.inputs.pieces import stream_of

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PIECE = 1 << 16  # bytes at a time
_CUT = "the UTF-16 text is cut off inside a character"


def _as_utf8(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[bytes]:
    """Halves of characters stay what they are: whoever reads the text says so."""
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    while data := stream.read(_PIECE):
        yield decoder.decode(data).encode("utf-8", "surrogatepass")
    try:
        yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        skipped.append(Skipped(where, _CUT))


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    yield Inner(where, stream_of(_as_utf8(stream, where, skipped)))


ENVELOPE = Envelope("utf-16", lambda head: head.startswith(_MARKS), _open)
