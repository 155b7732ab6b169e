"""What is fuzzed, from bytes alone, and what counts as a find.

A find is: an exception that is not our own, an input that costs more time or memory than its size explains, an error or
a note that names no place in the input, another result where the same bytes come through a pipe, a control character in
what is printed, and prompt text in what has none.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import resource
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
import zstandard

from otel_ctx.engine import Engine
from otel_ctx.errors import OtelCtxError
from otel_ctx.inputs import Batch, format_names, read
from otel_ctx.model import Analysis, Span
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.report import Inputs, build, dumps
from otel_ctx.outputs.text import doctor, plain, render
from otel_ctx.outputs.views.kinds import reconcile
from tests.fuzz.records import CANARY, HOLDERS, Choices, edited, planted

SECONDS = 10.0  # of CPU, of one input; instrumented code is several times slower than it is
SMALL = 1 << 16  # bytes of an input that has to be done in that time
GROWTH = 400 << 20  # bytes that the peak of memory may rise by one input
SOURCE = "<stdin>"

_UNIT = 1 if sys.platform == "darwin" else 1024
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Find(Exception):
    """Something that must not be: which rule, and what was seen."""


def check(rule: str, holds: bool, seen: object) -> None:
    if not holds:
        raise Find(f"{rule}: {seen!r:.300}")


# ---- bytes


def sniffed(data: bytes) -> None:
    """A dump, known by its content."""
    batches = _read(io.BytesIO(data))
    if zlib.crc32(data) & 1:
        check("a pipe reads as a file does", _alike(_read(_Pipe(data))) == _alike(batches), data[:40])
    _judged(batches)


def named(data: bytes) -> None:
    """A dump whose format was named: the first byte chooses which."""
    names = format_names()
    _judged(_read(io.BytesIO(data[1:]), names[data[0] % len(names)] if data else None))


def packed(data: bytes) -> None:
    """Dumps inside what packs dumps; the first byte chooses which, and the second whether that is damaged."""
    if len(data) < 2:
        return
    inside = _PACKERS[data[0] % len(_PACKERS)](data[2:])
    if data[1]:
        at = data[1] * 7919 % max(1, len(inside))
        inside = inside[:at] + bytes((data[1],)) + inside[at + (data[1] & 1) :]
    _judged(_read(io.BytesIO(inside)))


def _frames(pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """As the Collector's file exporter writes them."""

    def framed(data: bytes) -> bytes:
        return b"".join(struct.pack(">I", len(f)) + f for f in map(pack, data.split(b"\n")))

    return framed


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


_PACKERS: tuple[Callable[[bytes], bytes], ...] = (
    _gzip, _zstd, lambda data: _gzip(_gzip(data)), lambda data: _zstd(_gzip(data)), _frames(bytes), _frames(_zstd),
    lambda data: b"".join(_gzip(line + b"\n") for line in data.split(b"\n")),
    lambda data: b"".join(_zstd(line + b"\n") for line in data.split(b"\n")),
    lambda data: b"\xff\xfe" + data.decode("utf-8", "replace").encode("utf-16-le"),
)  # fmt: skip


class _Pipe(io.RawIOBase):
    """Gives a few bytes at a time and cannot go back."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), 1 + len(self._rest) % 61)
        part, self._rest = self._rest[:size], self._rest[size:]
        buffer[: len(part)] = part
        return len(part)


def _alike(batches: list[Batch]) -> str:
    """Not compared as values: NaN is not itself. A pipe does not tell its position."""
    return repr([(b.source, b.format, b.spans, b.logs, b.skipped) for b in batches])


def _read(stream: Any, name: str | None = None) -> list[Batch]:
    batches: list[Batch] = []
    told: list[tuple[str, str]] = []
    try:
        for batch in read(["-"], format=name, stdin=stream):
            batches.append(batch)
            told += [(note.where, note.why) for note in batch.skipped]
            records: Iterable[Any] = (*batch.spans, *batch.logs)
            for record in records:
                check("a record knows where it came from", record.where.startswith(SOURCE), record)
    except OtelCtxError as error:
        told.append((str(getattr(error, "where", "")), str(error)))
        check("an error can be printed", not _UNPRINTABLE.search(escape(str(error))), error)
    for where, why in told:
        check("an error names its place", where.startswith(SOURCE) and why != "", (where, why))
    return batches


# ---- values


def content(data: bytes) -> None:
    """One value that holds messages, tools or a body: two bytes choose its key and its shape, the rest is its text."""
    choices = Choices(data)
    key, nested = choices.one(HOLDERS), choices.byte() & 1
    text = choices.rest().decode("utf-8", "surrogateescape")
    try:
        value = planted(json.loads(text))
    except (ValueError, RecursionError):
        value = CANARY + text
    base = choices.span(key)
    spans = [
        Span(
            **{
                **base,
                "attributes": {**base["attributes"], key: v},
                "span_id": f"{n:016x}",
                "where": f"x:{n}",
            }
        )
        for n, v in enumerate(
            (value if nested else json.dumps(value), f"{json.dumps(value)[: len(data) // 2]}…"), 1
        )
    ]
    _said(spans, (), private=True)


def spans(data: bytes) -> None:
    """Spans and log records: real ones that were edited, and some of attributes that never met."""
    choices = Choices(data)
    found, logs = edited(choices)
    _said(found, logs, private=True)


# ---- what is said of them


def _judged(batches: list[Batch]) -> None:
    notes = tuple((n.where, n.why) for batch in batches for n in batch.skipped)
    found = [s for batch in batches for s in batch.spans]
    logs = [r for batch in batches for r in batch.logs]
    _said(found, logs, notes=notes)


def _said(
    found: Iterable[Span],
    logs: Iterable[Any],
    *,
    notes: tuple[tuple[str, str], ...] = (),
    private: bool = False,
) -> None:
    """``private``: the canary stands where prompts stand and nowhere else."""
    engine = Engine()
    engine.feed(found, logs)
    analysis = engine.close()
    inputs = Inputs((), notes)
    reconcile(analysis.readings)
    report = dumps(build(analysis, inputs))
    check("the report is JSON", orjson.loads(report)["schema"] == "otelctx.report/1", report[:99])
    dumps(build(analysis, inputs, include_text=True))
    if private:
        check("no prompt text in the report", CANARY.encode() not in report, _around(report.decode()))
    for text, redacted in _printed(analysis, inputs):
        check("nothing that is printed moves the terminal", not _UNPRINTABLE.search(text), text)
        if private and redacted:
            check("no prompt text on the screen with --redact", CANARY not in text, text)


def _printed(analysis: Analysis, inputs: Inputs) -> Iterator[tuple[str, bool]]:
    for verbose in (0, 2):
        for show in (True, False):
            for one in render(analysis, inputs, verbose=verbose, show_text=show):
                yield plain(one), not show
    for one in doctor.render(analysis, inputs):
        yield plain(one), True


def _around(text: str) -> str:
    at = text.find(CANARY)
    return text[max(0, at - 150) : at + 100]


TARGETS: dict[str, Callable[[bytes], None]] = {
    t.__name__: t for t in (sniffed, named, packed, content, spans)
}


def run(target: str, data: bytes) -> None:
    """One input; raises whatever is a find."""
    before, start = _peak(), time.process_time()
    TARGETS[target](data)
    took, grew = time.process_time() - start, _peak() - before
    if len(data) <= SMALL:
        check("a small input takes little time", took < SECONDS, f"{took:.1f} s for {len(data)} bytes")
    check("an input takes little memory", grew < GROWTH, f"{grew >> 20} MiB for {len(data)} bytes")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
