"""Events of Amazon CloudWatch Logs that are JSON themselves: as its API answers, and as its exports and ``aws logs tail``
write them, a line each behind its time (and stream)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from otel_ctx.inputs.interface import BUFFER, LONGEST, Envelope, Inner, Skipped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_STAMP = re.compile(rb"20\d\d-\d\d-\d\dT[\d:.]{8,}(?:Z|[+-]\d\d:?\d\d) (?:[^\s{]+ )?(?=\{)")


def messages(document: Any) -> list[Any] | None:
    """The messages of an answer of filter-log-events or get-log-events as they were written, and whatever else stands among
    them; None where it is none."""
    events = document.get("events") if isinstance(document, Mapping) else None
    if not isinstance(events, list):
        return None
    return [event.get("message") if isinstance(event, Mapping) else event for event in events]


class _Unstamped(io.RawIOBase):
    """The lines without what stands before their JSON, each still a line."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._piece = memoryview(b"")
        self._begins = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._piece:
            line = self._stream.readline(LONGEST)
            if not line:
                return 0
            stamp = _STAMP.match(line) if self._begins else None
            self._begins = line.endswith(b"\n")
            self._piece = memoryview(line)[stamp.end() if stamp else 0 :]
        size = min(len(view), len(self._piece))
        view[:size], self._piece = self._piece[:size], self._piece[size:]
        return size


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    yield Inner(where, io.BufferedReader(_Unstamped(stream), BUFFER))


ENVELOPE = Envelope("cloudwatch", lambda head: _STAMP.match(head) is not None, _open)
