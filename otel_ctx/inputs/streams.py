"""A stream of bytes -> records: envelopes are opened, and the format that claims what is inside reads it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from otel_ctx.inputs import jsontext, signs, unread
from otel_ctx.inputs.detection import bytes_format, envelope
from otel_ctx.inputs.documents import json_records
from otel_ctx.inputs.interface import BUFFER, HEAD, Format, JsonFormat, Records, Skipped, StreamFormat

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_NESTED = 4  # envelopes inside envelopes
# May hold telemetry, and are not looked into.
_CLOSED = {b"PK\x03\x04": unread.ZIP, b"SQLite format 3\0": unread.SQLITE}


def records_of(
    stream: BinaryIO,
    where: str,
    skipped: list[Skipped],
    forced: Format | None,
    envelopes: tuple[str, ...] = (),
) -> Iterator[tuple[str, Records]]:
    """(name of the format, what one piece of it held), as often as something was read; ("", nothing) where it
    was passed over. ``envelopes``: what the stream lay in, the innermost first."""
    head, stream = _head(stream)
    suffix = "".join(f"+{name}" for name in envelopes)
    if len(envelopes) < _NESTED and (packed := envelope(head)):
        for inner in packed.open(stream, where, skipped):
            yield from records_of(inner.stream, inner.where, skipped, forced, (packed.name, *envelopes))
        return
    if not head:
        return
    closed = next((what for magic, what in _CLOSED.items() if head.startswith(magic)), "")
    if closed:
        skipped.append(Skipped(where, closed))
    elif known := bytes_format(head, forced):
        for records in known.read(stream, where, skipped):
            yield known.name + suffix, records
    elif isinstance(forced, (JsonFormat, StreamFormat)) or jsontext.looks_like_json(head):
        text = forced is None and not jsontext.begins_as_json(head)
        found, before = False, len(skipped)
        for name, records in json_records(stream, where, skipped, forced, head, text=text):
            found = found or bool(name)
            yield name + suffix if name else "", records
        if text and not found and jsontext.behind_text(head):
            skipped[before:] = [_none_known(head, where)]
    else:
        skipped.append(_none_known(head, where))


def _none_known(head: bytes, where: str) -> Skipped:
    why = f"{unread.UNKNOWN}: {unread.BEHIND}" if jsontext.behind_text(head) else unread.UNKNOWN
    return Skipped(where, why, foreign=not signs.of_telemetry(head, where))


def _head(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    """The first bytes, and a stream that begins with them again."""
    if stream.seekable():
        start = stream.tell()
        head = stream.read(HEAD)
        stream.seek(start)
        return head, stream
    parts = []
    size = 0
    while size < HEAD and (part := stream.read(HEAD - size)):
        parts.append(part)
        size += len(part)
    head = b"".join(parts)
    return head, io.BufferedReader(_Rejoined(head, stream), BUFFER)


class _Rejoined(io.RawIOBase):
    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._head[: len(view)] or self._rest.read(len(view))
        self._head = self._head[len(view) :]
        view[: len(data)] = data
        return len(data)
