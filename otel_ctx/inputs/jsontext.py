"""JSON documents in a stream of bytes: one a line, one for the whole file, or pretty-printed in a row.

Lines are read one by one; only a document that spans lines is held as a whole, up to ``LONGEST`` bytes. A damaged
document costs itself, not its neighbours: one that begins a line is found again.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

import orjson

from otel_ctx.inputs.interface import LONGEST, OVERLONG

BOM = b"\xef\xbb\xbf"

NOT_JSON = "no JSON"
BROKEN = "no valid JSON"
CUT = "cut off: the data end inside this record"
DEEP = "JSON that is nested too deeply"
REPLACED = "bytes that are no UTF-8 were replaced by U+FFFD"
NO_UTF8 = "JSON with bytes that are no UTF-8"
ZEROS = "zeros in the place of text"
NUMBERS = "JSON with a number that JSON does not have (NaN, infinite)"
TWICE = "JSON with a key that an object has twice"
FLAWS = frozenset((DEEP, NO_UTF8, NUMBERS, TWICE))

_begins = re.compile(rb"[\0\s]*(?:[{\[]\s*)+[\"'}\]]").match
_goes_on = re.compile(rb"^(?!data:)[^\s{\"'][^\n]*?[ \t=:|>]\{\s*\"[^\"\n]*\"\s*:", re.MULTILINE).search
_opens_a_line = re.compile(rb"^[^\S\n]*[{\[]", re.MULTILINE).search
_has_surrogate = re.compile(r"\\u[dD][89a-fA-F]").search
# One that is cut goes to the end: else each quote in it would be tried as the beginning of another.
_strings = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_ZERO = b"\0"
_OPENERS = (b"{", b"[")
_CLOSERS = (b"}", b"]")
_INDENT = (b" ", b"\t")
_INSIDE = frozenset(bytes((c,)) for c in b' \t"}],:-0123456789tfnNI')
_WHITE = " \t\r\n"
_DEEPEST = 128  # levels that a strict reader believes
# Bytes of a document that are kept beside its value, and that are read in the hope that they are one.
_KEPT = 1 << 26


class Document(NamedTuple):
    """``value`` of lines ``first`` to ``last``, or the ``problem`` why there is none. ``note``: read, but.
    ``alone``: the stream holds nothing else. ``data``: its bytes, b"" where they are not kept; ``odd``: NaN or
    an infinite number is in it."""

    first: int
    last: int
    value: Any = None
    problem: str = ""
    note: str = ""
    alone: bool = False
    data: bytes = b""
    odd: bool = False


class _Parsed(NamedTuple):
    values: list[Any]
    rest: bytes = b""  # behind the last whole value
    problem: str = ""
    note: str = ""
    odd: bool = False


def looks_like_json(head: bytes) -> bool:
    """It begins as a JSON object or list does, or a line of it, where nothing says that this is binary."""
    if head.lstrip(b"\0")[:1] in _OPENERS:
        return True
    return b"\0" not in head and _opens_a_line(head.removeprefix(BOM)) is not None


def begins_as_json(head: bytes) -> bool:
    """Its first characters are those of a JSON object, or of a list of such: not of ``[section]`` or ``[![badge]``."""
    return _begins(head.removeprefix(BOM)) is not None


def behind_text(head: bytes) -> bool:
    """Do lines of a text go on with a JSON object?"""
    return b"\0" not in head and _goes_on(head) is not None


def loads(data: bytes) -> Any:
    """One JSON value. What orjson refuses (NaN, lone surrogates, bytes that are no UTF-8) goes to the
    standard reader; what is no text becomes U+FFFD. Raises ValueError."""
    parsed = _parse(data)
    if parsed.problem or len(parsed.values) != 1:
        raise ValueError(parsed.problem or BROKEN)
    return parsed.values[0]


def flaw(document: Document) -> str:
    """Why a reader that repairs nothing passes the document over; "" where there is no reason."""
    if document.note or document.odd:
        return NO_UTF8 if document.note else NUMBERS
    keys, depth = _extent(document.value)
    if depth > _DEEPEST:
        return DEEP
    return TWICE if document.data and _strings.sub(b"", document.data).count(b":") > keys else ""


def flaw_of(text: str) -> str:
    """The same of JSON in a string; "" also where it is none."""
    data = text.encode(errors="replace")
    parsed = _parse(data)
    if parsed.problem or len(parsed.values) != 1:
        return ""
    return flaw(Document(1, 1, parsed.values[0], note=parsed.note, data=data, odd=parsed.odd))


def _extent(value: Any) -> tuple[int, int]:
    """How many keys its objects have, and how deep they are nested."""
    keys = depth = 0
    level = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                keys += len(item)
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = [item for item in below if isinstance(item, (dict, list))]
        depth += bool(below)
    return keys, depth


def documents(stream: BinaryIO) -> Iterator[Document]:
    """Every document of a stream, and every stretch that is none."""
    lines = _Lines(_numbered(stream))
    held: _Held | None = None
    fresh = True
    while (read := next(lines, None)) is not None:
        number, line = read
        del read
        first, fresh = fresh, False
        if not line:
            if held:
                yield from _close(held, False)[0]
                held = None
            yield Document(number, number, problem=OVERLONG)
            continue
        if held and held.takes(line):
            held.add(number, line)
            if held.complete:
                found, held = _close(held, lines.ahead() is None)
                yield from found
            continue
        if line[:1] not in _OPENERS:
            stripped = line.lstrip()
            if stripped[:1] not in _OPENERS or held:
                # a line of a log between two documents, or inside one
                yield Document(number, number, problem=ZEROS if line == _ZERO else NOT_JSON)
                continue
            line = stripped
        if held:
            yield from _close(held, False)[0]
            held = None
        parsed = _parse(line)
        ahead = lines.ahead() if first else None
        if not parsed.values and ahead is not None and _Held(number, line).takes(ahead[1]):
            parsed, line, lines = _at_once(parsed, line, lines, stream)
        del ahead
        single = len(parsed.values) == 1 and not parsed.rest
        alone = first and single and lines.ahead() is None
        parsed.values.reverse()
        while parsed.values:
            # of what is handed out nothing is kept here, so that it is freed as soon as its reader is done
            yield Document(
                number,
                number,
                parsed.values.pop(),
                "",
                parsed.note,
                alone,
                line if single else b"",
                parsed.odd,
            )
        if parsed.problem == DEEP:
            yield Document(number, number, problem=DEEP)
        elif parsed.rest and parsed.rest != b",":
            held = _Held(number, parsed.rest + (b"\n" if line.endswith(b"\n") else b""))
            if held.complete:
                yield Document(number, number, problem=BROKEN)
                held = None
    if held:
        yield from _close(held, True)[0]


def _at_once(parsed: _Parsed, line: bytes, lines: _Lines, stream: BinaryIO) -> tuple[_Parsed, bytes, _Lines]:
    """One document for the whole file, in all likelihood, of which ``line`` is the first: read without a look at its lines.
    Where it is none, the same again, and the lines as if nothing had been read."""
    second, ahead = next(lines)
    rest = stream.read(_KEPT)
    if len(rest) == _KEPT:
        rest += stream.readline(LONGEST)
    whole = b"".join((line, ahead, rest))
    try:
        return _Parsed([orjson.loads(whole)]), whole, lines
    except orjson.JSONDecodeError:
        behind = second + 1 + rest.count(b"\n")
        others = _numbered(io.BytesIO(rest), second + 1), _numbered(stream, behind)
        return parsed, line, _Lines(chain([(second, ahead)], *others))


class _Held:
    """The lines of a document that spans lines, as far as they were seen."""

    def __init__(self, number: int, line: bytes) -> None:
        self.lines = [(number, line)]
        self.indented = self.overlong = False
        self._size = len(line)
        self._depth = _depth(line)
        self.complete = self._depth <= 0

    def takes(self, line: bytes) -> bool:
        """May the line be a part of this document? In an indented one only brackets stand at the margin; in
        another one a line that opens a bracket goes on only what ended in the middle: else that was cut."""
        first = line[:1]
        if self.indented:
            return first in _INDENT or first in _CLOSERS
        if first in _OPENERS:
            return self.lines[-1][1].rstrip()[-1:] in (b"{", b"[", b",", b":")
        return first in _INSIDE

    def add(self, number: int, line: bytes) -> None:
        if len(self.lines) == 1:
            self.indented = line[:1] in _INDENT
        self._size += len(line)
        if self._size > LONGEST:
            self.overlong = True
            del self.lines[1:]
        self.lines.append((number, line))
        if self.indented:
            self.complete = line[:1] in _CLOSERS
        else:
            self._depth += _depth(line)
            self.complete = self._depth <= 0


def _close(held: _Held, last: bool) -> tuple[list[Document], _Held | None]:
    """The documents that the held lines are, and what begins behind them on the last of these lines."""
    (first, _), (final, tail) = held.lines[0], held.lines[-1]
    if held.overlong:
        return [Document(first, final, problem=OVERLONG)], None
    parsed = _parse(b"".join(line for _, line in held.lines))
    alone = last and first == 1 and len(parsed.values) == 1 and not parsed.problem
    data = b"".join(line for _, line in held.lines) if len(parsed.values) == 1 and not parsed.rest else b""
    found = [
        Document(first, final, value, "", parsed.note, alone, data, parsed.odd) for value in parsed.values
    ]
    if not parsed.problem:
        return found, None
    if parsed.values and not last:
        return found, _Held(final, parsed.rest)
    if not held.indented and not parsed.values and len(held.lines) > 1:
        for number, line in held.lines:
            alike = _parse(line.rstrip(b", \t\r\n"))
            found += [
                Document(number, number, value, note=alike.note, odd=alike.odd) for value in alike.values
            ]
            if alike.problem:
                found.append(Document(number, number, problem=alike.problem))
    elif begun := _begun(held, last) if not parsed.values else ():
        found += begun
    else:
        cut = last and parsed.problem == BROKEN and not tail.endswith(b"\n")
        found.append(Document(first, final, problem=CUT if cut else parsed.problem))
    return found, None


def _begun(held: _Held, last: bool) -> list[Document]:
    """Of a list that breaks off, the objects before that, and where it is; nothing where there are none."""
    data = b"".join(line for _, line in held.lines)
    text = data.decode(errors="replace")
    scan, odd, values, end, at = _Numbers(), False, [], 0, 1
    try:
        while text[:1] == "[" and text[at := _behind(text, at)] == "{":
            value, at = scan.scan(text, at)
            values.append(_whole(value) if "\\u" in text else value)
            end, odd = at, scan.odd
            at = _behind(text, at)
            if text[at] != ",":
                break
            at += 1
    except (ValueError, IndexError, RecursionError):
        pass
    if not values:
        return []
    (first, _), (final, _) = held.lines[0], held.lines[-1]
    note = REPLACED if text.encode() != data else ""
    line = held.lines[min(text.count("\n", 0, at), len(held.lines) - 1)][0]
    problem = CUT if last and _depth(text[end:].encode()) >= 0 else BROKEN
    whole = f"{text[:end]}]".encode()
    return [
        Document(first, final, values, "", note, last and first == 1, whole, odd),
        Document(line, final, problem=problem),
    ]


def _behind(text: str, at: int) -> int:
    """Where it goes on behind white space."""
    while at < len(text) and text[at] in _WHITE:
        at += 1
    return at


def _depth(line: bytes) -> int:
    """How many more brackets a line opens than it closes."""
    bare = _strings.sub(b"", line)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def _numbered(stream: BinaryIO, start: int = 1) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; b"" for one that is too long, one zero for one of zeros. Taken off is
    what may stand in front of them: a byte order mark, and the zeros of a log file that was emptied while its writer went
    on."""
    number = start
    while line := stream.readline(LONGEST + 1):
        if len(line) > LONGEST:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_KEPT)
            yield number, b""
        else:
            if line[:1] == b"\0":
                line = line.lstrip(b"\0")
                if not line or line.isspace():
                    yield number, _ZERO
            if line[:3] == BOM:
                line = line[3:]
            if line and not line.isspace():
                yield number, line
        number += 1


class _Lines:
    """Lines with their numbers, of which the next can be looked at. It is not read before: a line may be large, and is parsed
    soonest when it has just been read."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._ahead: list[tuple[int, bytes]] = []

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self

    def __next__(self) -> tuple[int, bytes]:
        return self._ahead.pop() if self._ahead else next(self._lines)

    def ahead(self) -> tuple[int, bytes] | None:
        if not self._ahead:
            self._ahead += islice(self._lines, 1)
        return self._ahead[0] if self._ahead else None


def _parse(data: bytes) -> _Parsed:
    try:
        return _Parsed([orjson.loads(data)])
    except orjson.JSONDecodeError:
        pass
    note = ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text, note = data.decode(errors="replace"), REPLACED
    text = text.strip(_WHITE)
    repair = _has_surrogate(text) is not None
    values: list[Any] = []
    numbers = _Numbers()
    at = 0
    try:
        while at < len(text):
            value, at = numbers.scan(text, at)
            values.append(_whole(value) if repair else value)
            while at < len(text) and text[at] in _WHITE:
                at += 1
    except RecursionError:
        return _Parsed(values, text[at:].encode(errors="replace"), DEEP, note, numbers.odd)
    except ValueError:
        return _Parsed(values, text[at:].encode(errors="replace"), BROKEN, note, numbers.odd)
    return _Parsed(values, b"", "", note, numbers.odd)


class _Numbers:
    """The standard reader, and whether it met a number that JSON does not have."""

    def __init__(self) -> None:
        self.odd = False
        self.scan = json.JSONDecoder(parse_float=self._float, parse_constant=self._float).raw_decode

    def _float(self, text: str) -> float:
        value = float(text)
        self.odd = self.odd or not math.isfinite(value)
        return value


def _whole(value: Any) -> Any:
    """The same value, U+FFFD for every lone surrogate: text that cannot be encoded breaks whoever counts it."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value
