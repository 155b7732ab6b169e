"""What a format of inputs is: five kinds, each a value that its module exports and ``formats`` lists.

``JsonFormat`` knows one JSON document at a time (documents are found and parsed for it), ``StreamFormat`` a stream of
those that make sense together, ``BytesFormat`` reads a stream itself. An ``Envelope`` (compression, framing) holds other
streams, a ``Wrapping`` (an API's answer) other documents: they are looked at anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from otel_ctx.model import LogRecord, Span


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not read: ``where`` is FILE, "FILE:LINE", "FILE:FIRST-LAST", "FILE, record N" or
    "FILE, byte N". ``foreign``: nothing says that it is telemetry."""

    where: str
    why: str
    foreign: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request, line or document held. ``format`` is a name of ``FORMATS``, and "+gzip" or "+tempo" if it lay
    in one; ``position``: how many bytes of the source were read up to here, None where it does not tell."""

    source: str
    format: str
    spans: Sequence[Span] = ()
    logs: Sequence[LogRecord] = ()
    skipped: Sequence[Skipped] = ()
    position: int | None = field(default=None, compare=False)


class Records(NamedTuple):
    spans: Sequence[Span] = ()
    logs: Sequence[LogRecord] = ()


class Inner(NamedTuple):
    """A stream that lay in an envelope, and the name that errors call it by."""

    where: str
    stream: BinaryIO


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """``claims(document)`` looks at the keys of a parsed document; ``decode(document, where, skipped)`` never
    raises: what it cannot read it appends to ``skipped``. A list that nobody claims is offered item by item."""

    name: str
    claims: Callable[[Any], bool]
    decode: Callable[[Any, str, list[Skipped]], Records]


class Item(NamedTuple):
    """One JSON value of a stream. ``record`` is its number: of the line that it begins on, of its place in the one list
    that the stream is, "LINE.PLACE" where it is not the first or only one that begins there."""

    record: str
    where: str
    value: Any


def in_list(value: Any) -> list[Any] | None:
    """The items of a list, None where it is none."""
    return value if isinstance(value, list) else None


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """``claims(value)`` looks at the keys of one value; that value and those that follow it in the stream are
    ``read(items, source, skipped)``, which appends to ``skipped`` what it cannot read. ``opens(value)``: the values that
    lie in one, None where it is read itself. A value that another format claims ends the stream, unless this one ``owns`` it
    (None: claims it): not all rows of a session look like its first ones. ``strict``: a document that was damaged or is
    ambiguous is passed over, not repaired."""

    name: str
    claims: Callable[[Any], bool]
    read: Callable[[Iterator[Item], str, list[Skipped]], Iterator[Records]]
    opens: Callable[[Any], list[Any] | None] = in_list
    owns: Callable[[Any], bool] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class BytesFormat:
    """``claims(head)`` looks at the first ``HEAD`` bytes; ``read(stream, where, skipped)`` reads the stream
    piece by piece, and appends to ``skipped`` what it cannot read."""

    name: str
    claims: Callable[[bytes], bool]
    read: Callable[[BinaryIO, str, list[Skipped]], Iterator[Records]]


@dataclass(frozen=True, slots=True)
class Envelope:
    """``open(stream, where, skipped)`` yields the streams inside, one after the other. Damage ends a stream
    as if it were complete, with a note in ``skipped``: what came before stays readable."""

    name: str
    claims: Callable[[bytes], bool]
    open: Callable[[BinaryIO, str, list[Skipped]], Iterator[Inner]]


@dataclass(frozen=True, slots=True)
class Wrapping:
    """``claims(document)`` looks at the keys of a parsed document that no format knows; ``open(document)`` gives those
    inside, and may take them out of it. An empty name is not told."""

    name: str
    claims: Callable[[Any], bool]
    open: Callable[[Any], list[Any]]


Format = JsonFormat | StreamFormat | BytesFormat | Envelope | Wrapping

HEAD = 1 << 16  # bytes that a format may look at before it claims a stream
LONGEST = 1 << 28  # bytes of what has to lie in memory at once: a line, a document, a resource
# Bytes of a reader. Larger ones make no long line faster, and each small file pays for them.
BUFFER = 1 << 20
MANY_NOTES = 1000  # notes that may wait for the next batch
OVERLONG = f"longer than {LONGEST >> 20} MiB"


def needs(extra: str) -> str:
    """Why something was not read where an optional dependency is missing, and the way out."""
    return f"it needs {extra}, which is not installed: pip install '.[{extra}]' in a clone of otel-ctx"


class Unread:
    """Documents that follow each other and are passed over for the same reason: told as one."""

    def __init__(self, where: str, skipped: list[Skipped]) -> None:
        self._where, self._skipped = where, skipped
        self._first = self._last = 0
        self._why = ""
        self._alone = self._foreign = False

    def add(self, first: int, last: int, why: str, *, alone: bool = False, foreign: bool = False) -> None:
        if why != self._why:
            self.end()
            self._first, self._why, self._alone, self._foreign = first, why, alone, foreign
        self._last = last

    def end(self) -> None:
        if self._why:
            lines = f"{self._first}-{self._last}" if self._last > self._first else f"{self._first}"
            where = self._where if self._alone else f"{self._where}:{lines}"
            self._skipped.append(Skipped(where, self._why, self._foreign))
        self._why = ""
