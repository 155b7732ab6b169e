"""Everything that arrives -> Span and LogRecord. One module a format; what it is, is told from the content.

A new format is one module that exports a value of one of the kinds in ``interface``, and one line in ``FORMATS``.
"""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from otel_ctx.errors import InputError
from otel_ctx.inputs import (
    answers,
    bedrock_log,
    claude_code,
    cloudwatch,
    codex,
    collector_file,
    compression,
    datadog,
    flat_span,
    gemini_cli,
    jaeger,
    js_console,
    js_json,
    jsontext,
    langfuse,
    opencode,
    otlp_json,
    otlp_protobuf,
    parquet,
    phoenix,
    python_console,
    raw_requests,
    signs,
    unread,
    utf16,
    zipkin,
)
from otel_ctx.inputs.interface import (
    BUFFER,
    HEAD,
    Batch,
    BytesFormat,
    Envelope,
    Format,
    Item,
    JsonFormat,
    Records,
    Skipped,
    StreamFormat,
    Unread,
    Wrapping,
)
from otel_ctx.inputs.store import Store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["FORMATS", "Batch", "Skipped", "Store", "format_names", "read", "total_size"]

# Asked in this order; JSON comes after all that is known by its bytes.
FORMATS: tuple[Format, ...] = (
    compression.GZIP,
    compression.ZSTD,
    utf16.ENVELOPE,
    collector_file.ENVELOPE,
    cloudwatch.ENVELOPE,
    parquet.ENVELOPE,
    otlp_protobuf.FORMAT,
    otlp_json.FORMAT,
    python_console.FORMAT,
    js_console.FORMAT,
    js_json.FORMAT,
    phoenix.SPANS,
    phoenix.ROWS,
    jaeger.FORMAT,
    langfuse.FORMAT,
    zipkin.FORMAT,
    datadog.FORMAT,
    answers.TEMPO,
    answers.JAEGER,
    answers.PAGE,
    flat_span.FLAT,
    claude_code.FORMAT,
    codex.FORMAT,
    gemini_cli.FORMAT,
    opencode.FORMAT,
    raw_requests.FORMAT,
)

STDIN = "<stdin>"
_MANY = 1000  # notes that may wait for the next batch
_NESTED = 4  # envelopes inside envelopes
_NOTHING = "no file in this folder holds spans"
_CLOSED = {
    b"PK\x03\x04": unread.ZIP,
    b"SQLite format 3\0": unread.SQLITE,
}  # may hold telemetry, and are not looked into


def format_names() -> tuple[str, ...]:
    """What ``read(format=…)`` may be given."""
    return tuple(known.name for known in FORMATS if not isinstance(known, (Envelope, Wrapping)))


def read(
    paths: Iterable[str | Path],
    *,
    format: str | None = None,  # noqa: A002  (the word of the command's option)
    stdin: BinaryIO | None = None,
) -> Iterator[Batch]:
    """The batches of files, folders (all files in them but hidden ones, in the order of their names) and
    standard input ("-"), one after the other, as they are read.

    ``format`` names the one that all are in, else each is told by its content; compression always is. A file
    that was named and cannot be used raises ``InputError``; inside a folder it is a ``Skipped``, and a foreign one
    where the whole file is no telemetry. The garbage collector rests while a batch is made: it would look at every
    value of a document again and again.
    """
    forced = None
    if format is not None:
        forced = next((known for known in FORMATS if known.name == format), None)
        if forced is None or isinstance(forced, (Envelope, Wrapping)):
            raise InputError(f"format {format!r}", "is not known", "one of " + ", ".join(format_names()))
    return _without_collector(_read(paths, forced, stdin))


def _read(paths: Iterable[str | Path], forced: Format | None, stdin: BinaryIO | None) -> Iterator[Batch]:
    for path in paths:
        if not str(path):
            raise InputError("''", "is no path", "an empty variable in a script? The folder it runs in is .")
        if str(path) == "-":
            yield from _read_stream(STDIN, stdin or sys.stdin.buffer, forced)
        elif _is_folder(Path(path)):
            yield from _read_folder(Path(path), forced)
        else:
            yield from _read_file(Path(path), forced)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # opening it will say what is wrong


class _Nothing(InputError):
    """A stream of which nothing was read, by the first of the reasons; ``more``: how many others there are."""

    def __init__(self, note: Skipped, more: int) -> None:
        super().__init__(note.where, note.why + _and_more(more), unread.way_out(note.why, format_names()))
        self.note = note


def _read_folder(folder: Path, forced: Format | None) -> Iterator[Batch]:
    found = False
    notes: list[Skipped] = []
    for file in _files(folder):
        try:
            if file.name == bedrock_log.PERMISSION_CHECK and not file.stat().st_size:
                continue
            if _is_folder(file):
                raise InputError(str(file), "a link to a folder is not followed")
            if not file.is_file():
                raise InputError(str(file), "no regular file")
            for batch in _read_file(file, forced):
                found = found or bool(batch.spans or batch.logs)
                yield batch
            continue
        except _Nothing as error:
            notes.append(error.note)
        except InputError as error:
            notes.append(Skipped(error.where, error.why))
        except OSError as error:
            notes.append(Skipped(str(file), _reason(error)))
        yield Batch(str(file), "", skipped=(notes[-1],))
    if not found:
        raise _of_no_use(folder, notes)


def _of_no_use(folder: Path, notes: list[Skipped]) -> InputError:
    """A folder of which nothing was read, by the first of its files that may be telemetry, else by the first."""
    if not notes:
        return InputError(str(folder), _NOTHING, unread.FLUSHED)
    note = next((note for note in notes if not note.foreign), notes[0])
    why = f"{_NOTHING}: {note.where}: {note.why}{_and_more(len(notes) - 1)}"
    return InputError(str(folder), why, unread.way_out(note.why, format_names()))


def _and_more(reasons: int) -> str:
    return f", and {reasons:,} more" if reasons else ""


def _files(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise InputError(str(folder), _reason(error)) from error
    for entry in entries:
        if _is_folder(entry) and not entry.is_symlink():
            yield from _files(entry)
        else:
            yield entry


def _read_file(path: Path, forced: Format | None) -> Iterator[Batch]:
    try:
        with path.open("rb", BUFFER) as stream:
            yield from _read_stream(str(path), stream, forced)
    except OSError as error:
        raise InputError(str(path), _reason(error)) from error


def _read_stream(source: str, stream: BinaryIO, forced: Format | None) -> Iterator[Batch]:
    skipped: list[Skipped] = []
    first: Skipped | None = None
    found, foreign, format_, told = False, True, "", 0
    for name, records in _records(stream, source, skipped, forced, ()):
        format_ = name or format_
        if records.spans or records.logs:
            found = True
        elif len(skipped) < _MANY:
            continue
        first = first or (skipped[0] if skipped else None)
        foreign = foreign and all(note.foreign for note in skipped)
        told += len(skipped)
        notes = tuple(skipped)
        skipped.clear()
        yield Batch(source, format_, records.spans, records.logs, notes, _position(stream))
    if not found:
        first = first or (skipped[0] if skipped else Skipped(source, unread.EMPTY, foreign=True))
        foreign = foreign and all(note.foreign for note in skipped)
        more = told + len(skipped) - 1 if first.foreign else 0
        raise _Nothing(Skipped(first.where, first.why, foreign), max(0, more))
    if skipped:
        yield Batch(source, format_, skipped=tuple(skipped))


def _position(stream: BinaryIO) -> int | None:
    try:
        return stream.tell()
    except (OSError, ValueError):
        return None  # a pipe


def total_size(paths: Iterable[str | Path]) -> int | None:
    """Bytes of all files that ``read`` would open, as they lie on disk; None where that cannot be told."""
    total = 0
    try:
        for path in map(Path, paths):
            if path.is_dir():
                total += sum(file.stat().st_size for file in _files(path) if file.is_file())
            elif path.is_file():
                total += path.stat().st_size
            else:
                return None
    except (OSError, InputError):
        return None
    return total


def _reason(error: OSError) -> str:
    return (error.strerror or "cannot be read").lower()


def _records(
    stream: BinaryIO, where: str, skipped: list[Skipped], forced: Format | None, envelopes: tuple[str, ...]
) -> Iterator[tuple[str, Records]]:
    """(name of the format, what one piece of it held), as often as something was read; ("", nothing) where it
    was passed over."""
    head, stream = _head(stream)
    suffix = "".join(f"+{name}" for name in envelopes)
    for known in FORMATS:
        if isinstance(known, Envelope) and len(envelopes) < _NESTED and known.claims(head):
            for inner in known.open(stream, where, skipped):
                yield from _records(inner.stream, inner.where, skipped, forced, (known.name, *envelopes))
            return
    if not head:
        return
    closed = next((what for magic, what in _CLOSED.items() if head.startswith(magic)), "")
    if closed:
        skipped.append(Skipped(where, closed))
        return
    for known in FORMATS:
        if isinstance(known, BytesFormat) and (known is forced or (forced is None and known.claims(head))):
            for records in known.read(stream, where, skipped):
                yield known.name + suffix, records
            return
    if isinstance(forced, (JsonFormat, StreamFormat)) or jsontext.looks_like_json(head):
        text = forced is None and not jsontext.begins_as_json(head)
        found, before = False, len(skipped)
        for name, records in _json_records(stream, where, skipped, forced, head, text=text):
            found = found or bool(name)
            yield name + suffix if name else "", records
        if text and not found and jsontext.behind_text(head):
            skipped[before:] = [_none_known(head, where)]
    else:
        skipped.append(_none_known(head, where))


def _json_records(
    stream: BinaryIO, where: str, skipped: list[Skipped], forced: Format | None, head: bytes, *, text: bool
) -> Iterator[tuple[str, Records]]:
    """``text``: the stream begins as text, and not as JSON; ``head``: with what it begins."""
    passed = Unread(where, skipped)
    was_telemetry, of_a_vendor = signs.of_telemetry(head, where), signs.of_a_vendor(head)
    documents = _Documents(jsontext.documents(stream))
    for document in documents:
        if document.problem:
            foreign = text or document.problem == jsontext.NOT_JSON
            passed.add(document.first, document.last, document.problem, foreign=foreign and not was_telemetry)
            if len(skipped) >= _MANY:
                yield "", Records()
            continue
        value = document.value
        known = _stream_format(value, forced)
        if known is not None:
            passed.end()
            documents.put_back(document)
            del document, value
            for records in known.read(_items(documents, where, skipped, known, forced), where, skipped):
                yield known.name, records
            continue
        first, last, note, alone = document.first, document.last, document.note, document.alone
        del document
        place = where if alone else f"{where}:{first}"
        if note:
            skipped.append(Skipped(place, note))
        opened = [("", value)]
        del value
        while opened:
            # taken out and let go, so that whoever works on the records does not keep the document
            suffix, item = opened.pop()
            claimed = _claimed(item, forced)
            if isinstance(claimed, JsonFormat):
                passed.end()
                records = claimed.decode(item, place, skipped)
                del item
                yield claimed.name + suffix, records
                del records
            elif inside := _inside(item, claimed):
                added = f"+{claimed.name}" if claimed and claimed.name else ""
                opened += ((added + suffix, value) for value in reversed(inside))
                del item, inside
            else:
                foreign = forced is None and not of_a_vendor
                passed.add(first, last, unread.why_strange(item, forced), alone=alone, foreign=foreign)
                if len(skipped) >= _MANY:
                    yield "", Records()
    passed.end()


def _inside(item: Any, claimed: Format | None) -> list[Any]:
    """What lies in a list, or in what an API put round its answer."""
    if isinstance(claimed, Wrapping):
        return claimed.open(item)
    return item if isinstance(item, list) else []


class _Documents:
    """Documents of which the last may be put back."""

    def __init__(self, documents: Iterator[jsontext.Document]) -> None:
        self._documents = documents
        self._back: list[jsontext.Document] = []

    def __iter__(self) -> Iterator[jsontext.Document]:
        return self

    def __next__(self) -> jsontext.Document:
        return self._back.pop() if self._back else next(self._documents)

    def put_back(self, document: jsontext.Document) -> None:
        self._back.append(document)


def _items(
    documents: _Documents, where: str, skipped: list[Skipped], known: StreamFormat, forced: Format | None
) -> Iterator[Item]:
    """The values of documents that belong together: up to the first that is of another format. No two have one number: those
    that begin on one line are counted."""
    passed = Unread(where, skipped)
    line = count = 0
    for document in documents:
        first, last, value, problem, note, alone, *_ = document
        problem = problem or (jsontext.flaw(document) if known.strict else "")
        if not problem and forced is None and _is_anothers(value, known):
            documents.put_back(document)
            break
        del document
        if problem:
            passed.add(first, last, problem, alone=alone)
            continue
        passed.end()
        place = where if alone else f"{where}:{first}"
        if note:
            skipped.append(Skipped(place, note))
        if first != line:
            line, count = first, 0
        listed, single = alone and isinstance(value, list), True
        waiting = [value]
        del value
        while waiting:
            inside = known.opens(waiting[-1])
            if inside is not None:
                waiting[-1:] = reversed(inside)
                single = False
                continue
            count += 1
            if single and count == 1:
                yield Item(str(first), place, waiting.pop())
            else:
                record = str(count) if listed else f"{first}.{count}"
                yield Item(record, f"{where}, record {record}", waiting.pop())
    passed.end()


def _stream_format(value: Any, forced: Format | None) -> StreamFormat | None:
    """The format of a stream that begins with ``value``, or with a list of such."""
    if forced is not None:
        return forced if isinstance(forced, StreamFormat) else None
    whole, known = value, _claimed(value, None)
    while not isinstance(known, (JsonFormat, StreamFormat)) and (inside := _inside(value, known)):
        value = next((v for v in inside if isinstance(v, (dict, list))), None)
        known = _claimed(value, None)
    opens = isinstance(known, StreamFormat) and (value is whole or known.opens(whole) is not None)
    return known if isinstance(known, StreamFormat) and opens else None


def _is_anothers(value: Any, known: StreamFormat) -> bool:
    """Does it belong to another format than the stream that it stands in?"""
    if isinstance(value, list):
        value = _known_by(value)
    return not (known.owns or known.claims)(value) and _claimed(value, None) not in (None, known)


def _known_by(value: Any) -> Any:
    """What tells whose it is: of a list that nobody claims as a whole, its first document."""
    if isinstance(value, list) and _claimed(value, None) is None:
        return next((v for v in value if isinstance(v, dict)), None)
    return value


def _claimed(value: Any, forced: Format | None) -> JsonFormat | StreamFormat | Wrapping | None:
    """Who knows ``value``; where a format was named, that one does, but for what others put round it."""
    if isinstance(forced, JsonFormat) and forced.claims(value):
        return forced
    for known in FORMATS:
        if (
            isinstance(known, Wrapping) or (forced is None and isinstance(known, (JsonFormat, StreamFormat)))
        ) and known.claims(value):
            return known
    return None


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


def _without_collector(batches: Iterator[Batch]) -> Iterator[Batch]:
    while True:
        collects = gc.isenabled()
        gc.disable()
        try:
            batch = next(batches, None)
        finally:
            if collects:
                gc.enable()
        if batch is None:
            return
        yield batch
