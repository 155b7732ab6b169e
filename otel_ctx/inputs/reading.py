"""Files, folders and standard input, one after the other -> batches."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from otel_ctx.errors import InputError
from otel_ctx.inputs import bedrock_log, unread
from otel_ctx.inputs.formats import format_named, format_names
from otel_ctx.inputs.interface import MANY_NOTES, Batch, Format, Skipped
from otel_ctx.inputs.streams import records_of

STDIN = "<stdin>"
_BUFFER = 1 << 22  # a line of a few spans may well be a megabyte: one that lies in it is copied once
_NOTHING = "no file in this folder holds spans"


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
        forced = format_named(format)
        if forced is None:
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
        with path.open("rb", _BUFFER) as stream:
            yield from _read_stream(str(path), stream, forced)
    except OSError as error:
        raise InputError(str(path), _reason(error)) from error


def _read_stream(source: str, stream: BinaryIO, forced: Format | None) -> Iterator[Batch]:
    skipped: list[Skipped] = []
    first: Skipped | None = None
    found, foreign, format_, told = False, True, "", 0
    for name, records in records_of(stream, source, skipped, forced):
        format_ = name or format_
        if records.spans or records.logs:
            found = True
        elif len(skipped) < MANY_NOTES:
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
