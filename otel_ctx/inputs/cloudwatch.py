"""Events of Amazon CloudWatch Logs that are JSON themselves: as its API answers, and as its exports and ``aws logs tail``
write them, a line each behind its time (and stream)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from otel_ctx.inputs.interface import LONGEST, Envelope, Inner, Skipped
from otel_ctx.inputs.pieces import stream_of

_STAMP = re.compile(rb"20\d\d-\d\d-\d\dT[\d:.]{8,}(?:Z|[+-]\d\d:?\d\d) (?:[^\s{]+ )?(?=\{)")


def messages(document: Any) -> list[Any] | None:
    """The messages of an answer of filter-log-events or get-log-events as they were written, and whatever else stands among
    them; None where it is none."""
    events = document.get("events") if isinstance(document, Mapping) else None
    if not isinstance(events, list):
        return None
    return [event.get("message") if isinstance(event, Mapping) else event for event in events]


def _unstamped(stream: BinaryIO) -> Iterator[memoryview]:
    """The lines without what stands before their JSON, each still a line."""
    begins = True
    while line := stream.readline(LONGEST):
        stamp = _STAMP.match(line) if begins else None
        begins = line.endswith(b"\n")
        yield memoryview(line)[stamp.end() if stamp else 0 :]


def _open(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Inner]:
    yield Inner(where, stream_of(_unstamped(stream)))


ENVELOPE = Envelope("cloudwatch", lambda head: _STAMP.match(head) is not None, _open)
