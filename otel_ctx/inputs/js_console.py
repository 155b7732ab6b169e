"""What the JavaScript SDK's console exporters print: the text of ``util.inspect``, which is no JSON.

Source: ConsoleSpanExporter and ConsoleLogRecordExporter of sdk-trace-base 1.x and 2.x, sdk-logs 0.2xx; Node's util.inspect.
They cut: texts after 10,000 characters, lists after 100 items, what is nested more than three levels deep. What an attribute
has lost so is told by ``Span.cut``. Numbers of kinds begin at 0, times are microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    MalformedError,
    dict_of,
    event_name,
    id_of,
    ids_of,
    int_of,
    list_of,
    note,
    text_of,
)
from otel_ctx.inputs.interface import LONGEST, OVERLONG, BytesFormat, Records, Skipped, Unread
from otel_ctx.model import SECOND, Cut, Event, Link, LogRecord, Span

NAME = "js-console"
_MICRO = 1000  # nanoseconds
_DEEPEST = 64  # levels; the exporters show four
_STRANGE = "no record of the console exporter"
_CUT = "cut off: the data end inside this record"

_begins = re.compile(
    rb"^\{[ \t]*\r?\n[ \t]+(?:resource: |traceId: '|instrumentationScope: |timestamp: \d)", re.MULTILINE
).match
_opens = re.compile(rb"^[{\[]", re.MULTILINE).search
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def claims(head: bytes) -> bool:
    """A record, and no JSON before it."""
    first = _opens(head)
    return first is not None and _begins(head, first.start()) is not None and b"\0" not in head


def read(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Records]:
    """A record is what stands between a line that is ``{`` and one that is ``}``."""
    strange = Unread(where, skipped)
    block: list[bytes] = []
    first = size = number = 0
    while line := stream.readline(LONGEST):
        number += 1
        bare = line.rstrip()
        if bare == b"{":
            if block:
                strange.add(first, number - 1, _STRANGE)
            block, first, size = [line], number, len(line)
        elif not block:
            if bare:
                strange.add(number, number, _STRANGE)
        else:
            size += len(line)
            block.append(line if size <= LONGEST else b"")
            if bare == b"}":
                strange.end()
                yield _record(block, size, f"{where}:{first}", skipped)
                block = []
    if block:
        strange.add(first, number, _CUT)
    strange.end()


def _record(block: list[bytes], size: int, where: str, skipped: list[Skipped]) -> Records:
    if size > LONGEST:
        skipped.append(Skipped(where, OVERLONG))
        return Records()
    try:
        value = _Reader(_COLOURS.sub("", b"".join(block).decode(errors="replace"))).value(0)
        if not isinstance(value, dict) or "traceId" not in value:
            raise MalformedError(_STRANGE)
        if "id" in value:
            return Records(spans=[_span(value, where)])
        return Records(logs=[_log_record(value, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


# ---- records


def _span(span: dict[str, Any], where: str) -> Span:
    parent = (
        dict_of(span, "parentSpanContext").get("spanId") or span.get("parentId") or span.get("parentSpanId")
    )
    trace_id, span_id, parent_id = ids_of({**span, "parent": parent}, "traceId", "id", "parent")
    scope = _scope(span)
    status = dict_of(span, "status")
    start = int_of(span, "timestamp", _MICRO)
    lost: set[str] = set()
    attributes = _attributes(span, "", lost)
    events = tuple(_event(event, lost) for event in list_of(span.get("events")) if isinstance(event, dict))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=_plain(text_of(span, "name")),
        start_unix_nano=start,
        end_unix_nano=start + int_of(span, "duration", _MICRO),
        attributes=attributes,
        kind=int_of(span, "kind") + 1,
        events=events,
        links=tuple(map(_link, filter(_is_dict, list_of(span.get("links"))))),
        scope_name=text_of(scope, "name"),
        scope_version=text_of(scope, "version"),
        resource=_attributes(dict_of(span, "resource"), "", set()),
        status_code=int_of(status, "code"),
        status_message=_plain(text_of(status, "message")),
        cut=Cut(NAME, frozenset(lost)) if lost else None,
        where=where,
    )


def _log_record(record: dict[str, Any], where: str) -> LogRecord:
    scope = _scope(record)
    lost: set[str] = set()
    attributes = _attributes(record, "", lost)
    body = _kept(record.get("body"))
    if body is not record.get("body"):
        lost.add("body")
    return LogRecord(
        trace_id=id_of(record, "traceId", TRACE_ID),
        span_id=id_of(record, "spanId", SPAN_ID),
        name=event_name(text_of(record, "eventName"), attributes),
        time_unix_nano=int_of(record, "timestamp", _MICRO),
        body=body,
        attributes=attributes,
        scope_name=text_of(scope, "name"),
        scope_version=text_of(scope, "version"),
        resource=_attributes(dict_of(record, "resource"), "", set()),
        cut=Cut(NAME, frozenset(lost)) if lost else None,
        where=where,
    )


def _scope(record: Mapping[str, Any]) -> dict[str, Any]:
    return dict_of(record, "instrumentationScope") or dict_of(record, "instrumentationLibrary")


def _event(event: dict[str, Any], lost: set[str]) -> Event:
    name = _plain(text_of(event, "name"))
    seconds, nanos = (*list_of(event.get("time")), 0, 0)[:2]
    time = int_of({"time": seconds}, "time", SECOND) + int_of({"time": nanos}, "time")
    attributes = _attributes(event, f"{name}.", lost)
    return Event(name, time, attributes, int_of(event, "droppedAttributesCount"))


def _link(link: dict[str, Any]) -> Link:
    context = dict_of(link, "context")
    attributes = _attributes(link, "", set())
    return Link(id_of(context, "traceId", TRACE_ID), id_of(context, "spanId", SPAN_ID), attributes)


def _attributes(record: Mapping[str, Any], prefix: str, lost: set[str]) -> dict[str, Any]:
    """The attributes of ``record``; the names of those that were cut are added to ``lost``, behind ``prefix``."""
    attributes = record.get("attributes")
    if not isinstance(attributes, dict):
        if attributes is _LOST:
            lost.add(f"{prefix}attributes")
        return {}
    found = {}
    for key, value in attributes.items():
        found[key] = _kept(value)
        if found[key] is not value:
            lost.add(prefix + key)
    return found


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


# ---- util.inspect


class _CutText(str):
    """The beginning of a text."""


_LOST: Any = object()  # in the place of what was not shown


def _plain(text: str) -> str:
    return str(text) if isinstance(text, _CutText) else text


def _kept(value: Any) -> Any:
    """``value`` itself where it is whole, else what is left of it."""
    if value is _LOST:
        return None
    if isinstance(value, _CutText):
        return str(value)
    if isinstance(value, list):
        items = [_kept(item) for item in value if item is not _LOST]
        return value if len(items) == len(value) and all(map(_same, items, value)) else items
    if isinstance(value, dict):
        fields = {key: _kept(item) for key, item in value.items()}
        return value if all(map(_same, fields.values(), value.values())) else fields
    return value


def _same(one: Any, other: Any) -> bool:
    return one is other


_space = re.compile(r"[\s,]*").match
_token = re.compile(
    r"""
      (?P<text> '[^'\\\n]*(?:\\.[^'\\\n]*)*' | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | `[^`\\\n]*(?:\\.[^`\\\n]*)*` )
    | (?P<number> -?(?: \d+(?:\.\d+)?(?:e[+-]?\d+)?n? | Infinity ) (?![\w:.-]) | NaN\b )
    | (?P<more> \.\.\.\ \d+\ more\ (?:items?|characters?|properties) | <\d+\ empty\ items?> )
    | (?P<hidden> \[ (?:Object|Array|Circular|Getter|Setter|Function|AsyncFunction|class|[A-Z]\w*) (?:[ :/][^\]\n]*)? \]
                  (?!\ \{) )
    | (?P<open> (?: <ref\ \*\d+>\ )? (?: (?: \[[^\]\n]*\] | [\w$.]+ (?:\(\d+\))? (?:\ \[[\w$.: ]+\])? )\  )? [{\[] )
    | (?P<word> [^\s,{}\[\]]+ )
    """,
    re.VERBOSE,
).match
_key = re.compile(r"(?:[A-Za-z_$][\w$]*|\[[^\]\n]*\])(?=:)|\d+(?=:)").match
_plus = re.compile(r"\s*\+\s*(?=['\"`])").match
_more_text = re.compile(r"\.\.\. \d+ more characters?").match
_arrow = re.compile(r"\s*(?::|=>)\s*").match
_escape = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "undefined": None}


class _Reader:
    """One value after the other out of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self, depth: int) -> Any:
        found = _token(self._text, self._skip())
        if found is None:
            raise MalformedError("no text of util.inspect")
        self._at = found.end()
        kind, token = found.lastgroup, found[0]
        if kind == "text":
            return self._joined(token)
        if kind == "number":
            return _number(token)
        if kind == "open":
            if depth >= _DEEPEST:
                raise MalformedError("nested too deeply")
            return self._object(depth) if token.endswith("{") else self._list(depth)
        return _WORDS.get(token, token) if kind == "word" else _LOST

    def _skip(self) -> int:
        self._at = _space(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing too
        return self._at

    def _joined(self, token: str) -> str:
        """A long text stands in pieces, a line each."""
        pieces = [_unescaped(token[1:-1])]
        while plus := _plus(self._text, self._at):
            found = _token(self._text, plus.end())
            if found is None or found.lastgroup != "text":
                break
            pieces.append(_unescaped(found[0][1:-1]))
            self._at = found.end()
        text = "".join(pieces)
        if more := _more_text(self._text, self._at):
            self._at = more.end()
            return _CutText(text)
        return text

    def _list(self, depth: int) -> list[Any]:
        items = []
        while not self._text.startswith("]", self._skip()):
            items.append(self.value(depth + 1))
        self._at += 1
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not self._text.startswith("}", self._skip()):
            name = _key(self._text, self._at)
            if name is not None:
                key, self._at = name[0], name.end()
            else:
                key = str(self.value(depth + 1))
            arrow = _arrow(self._text, self._at)
            if arrow is None:
                continue  # an item of a set, or "... 5 more items"
            self._at = arrow.end()
            fields[key] = self.value(depth + 1)
        self._at += 1
        return fields


def _number(token: str) -> int | float:
    token = token.removesuffix("n")
    if len(token) < 400 and token.lstrip("-").isdigit():
        return int(token)
    return float(token.replace("Infinity", "inf"))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    text = _escape.sub(_character, text)
    # halves of characters may have come together; a lone one is no text
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def _character(match: re.Match[str]) -> str:
    byte, long, short, other = match.groups()
    if other is not None:
        return _ESCAPES.get(other, other)
    code = int(byte or long or short, 16)
    return chr(code) if code < 0x110000 else "\ufffd"


FORMAT = BytesFormat(NAME, claims, read)
