"""OTLP as JSON: export requests as the Collector's ``file`` exporter, the SDKs and protobuf's JSON write them.

Source: opentelemetry-proto (trace.proto, logs.proto, common.proto) and the OTLP specification's JSON mapping;
beside it protobuf's canonical JSON (base64 ids, enum names, snake_case) and the fields of before 2022.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from otel_ctx.inputs.fields import SPAN_ID, TRACE_ID, event_name, id_of_text
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Event, Link, LogRecord, Span

_TRACES = ("resourceSpans", "resource_spans")
_LOGS = ("resourceLogs", "resource_logs")

_ALL_TEXT = frozenset((str,))
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_CODES = {"OK": 1, "ERROR": 2}


class _MalformedError(ValueError):
    """Names a field and what is wrong with it; never its value, which may be prompt text."""


_ODD = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


def claims(document: Any) -> bool:
    return isinstance(document, dict) and any(key in document for key in _TRACES + _LOGS)


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    return Records(list(spans_of(document, where, skipped)), list(logs_of(document, where, skipped)))


def spans_of(request: dict[str, Any], where: str, skipped: list[Skipped] | None = None) -> Iterator[Span]:
    """The spans of one decoded export request. What is malformed is passed over, noted in ``skipped``."""
    for scope, resource, path, span in _entries(request, "Spans", "spans", where, skipped):
        try:
            read = _span(span, scope, resource, where)
        except _ODD as error:
            _note(skipped, where, path, error)
        else:
            yield read


def logs_of(request: dict[str, Any], where: str, skipped: list[Skipped] | None = None) -> Iterator[LogRecord]:
    """The log records of one decoded export request, malformed ones as in ``spans_of``."""
    for scope, resource, path, record in _entries(request, "Logs", "logRecords", where, skipped):
        try:
            read = _log_record(record, scope, resource, where)
        except _ODD as error:
            _note(skipped, where, path, error)
        else:
            yield read


def attributes_of(pairs: Any) -> tuple[dict[str, Any], int]:
    """A list of ``{"key", "value"}`` as a dict, and how many of them could not be read."""
    attributes: dict[str, Any] = {}
    if not pairs:
        return attributes, 0
    if isinstance(pairs, dict):
        return dict(pairs), 0
    try:
        for pair in pairs:  # the loop that most of the reading time goes into
            value = pair["value"]
            if "stringValue" in value and (text := value["stringValue"]) is not None:
                attributes[pair["key"]] = text
            else:
                attributes[pair["key"]] = value_of(value)
    except _ODD:
        return _attributes_one_by_one(pairs)
    return (attributes, 0) if _ALL_TEXT.issuperset(map(type, attributes)) else _attributes_one_by_one(pairs)


def value_of(value: Mapping[str, Any] | None) -> Any:
    """An AnyValue as plain Python; an empty one is None. Raises ValueError, TypeError or AttributeError."""
    if value is None:
        return None
    for field, raw in value.items():
        if raw is not None and (reader := _VALUES.get(field)):
            return reader(raw)
    return None


def camel_case(value: Any) -> Any:
    """The same request with OTLP's names for protobuf's: every key of OTLP's JSON is the name of a field."""
    if isinstance(value, dict):
        return {_CAMEL.get(key, key): camel_case(item) for key, item in value.items()}
    if isinstance(value, list):
        return [camel_case(item) for item in value]
    return value


def _note(skipped: list[Skipped] | None, where: str, path: str, error: Exception) -> None:
    if skipped is not None:
        why = str(error) if isinstance(error, _MalformedError) else f"malformed ({type(error).__name__})"
        skipped.append(Skipped(where, f"{path}: {why}"))


_Scope = tuple[str, str]


def _entries(
    request: Any, signal: str, records: str, where: str, skipped: list[Skipped] | None
) -> Iterator[tuple[_Scope, dict[str, Any], str, Any]]:
    """(scope, resource attributes, path, record) of each record; ``signal`` is "Spans" or "Logs"."""
    path = f"resource{signal}"
    try:
        if any(key in request for key in ("resource_spans", "resource_logs")):
            request = camel_case(request)
        groups = _list(request.get(path))
    except _ODD as error:
        _note(skipped, where, path, error)
        return
    for r, group in enumerate(groups):
        try:
            resource = attributes_of((group.get("resource") or {}).get("attributes"))[0]
            scopes = _list(group.get(f"scope{signal}") or group.get(f"instrumentationLibrary{signal}"))
        except _ODD as error:
            _note(skipped, where, f"{path}[{r}]", error)
            continue
        for s, scoped in enumerate(scopes):
            place = f"{path}[{r}].scope{signal}[{s}]"
            try:
                named = scoped.get("scope") or scoped.get("instrumentationLibrary") or {}
                scope = (_text(named, "name"), _text(named, "version"))
                # Collectors of before 2022 called the log records "logs"
                found = _list(scoped.get(records) or (scoped.get("logs") if signal == "Logs" else None))
            except _ODD as error:
                _note(skipped, where, place, error)
                continue
            for i, record in enumerate(found):
                yield scope, resource, f"{place}.{records}[{i}]", record


def _span(span: Any, scope: _Scope, resource: dict[str, Any], where: str) -> Span:
    if "trace_id" in span:
        span = camel_case(span)
    trace_id, span_id = _id(span, "traceId", TRACE_ID), _id(span, "spanId", SPAN_ID)
    if not (trace_id and span_id):
        raise _MalformedError("no traceId" if not trace_id else "no spanId")
    attributes, lost = attributes_of(span.get("attributes"))
    events, lost_events = _events(span["events"]) if span.get("events") else ((), 0)
    status = span.get("status") or {}
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(span, "parentSpanId", SPAN_ID),
        name=_text(span, "name"),
        start_unix_nano=_int(span, "startTimeUnixNano"),
        end_unix_nano=_int(span, "endTimeUnixNano"),
        attributes=attributes,
        kind=_enum(span.get("kind"), "SPAN_KIND_", _KINDS),
        events=events,
        links=_links(span["links"]) if span.get("links") else (),
        scope_name=scope[0],
        scope_version=scope[1],
        resource=resource,
        status_code=_enum(status.get("code"), "STATUS_CODE_", _CODES),
        status_message=_text(status, "message"),
        dropped_attributes=_int(span, "droppedAttributesCount") + lost,
        dropped_events=_int(span, "droppedEventsCount") + lost_events,
        where=where,
    )


def _events(events: Any) -> tuple[tuple[Event, ...], int]:
    """The events, and how many could not be read: they count as dropped."""
    read = []
    for event in _list(events):
        try:
            attributes, lost = attributes_of(event.get("attributes"))
            dropped = _int(event, "droppedAttributesCount") + lost
            read.append(Event(_text(event, "name"), _int(event, "timeUnixNano"), attributes, dropped))
        except _ODD:
            continue
    return tuple(read), len(events) - len(read)


def _links(links: Any) -> tuple[Link, ...]:
    read = []
    for link in _list(links):
        try:
            trace_id, span_id = _id(link, "traceId", TRACE_ID), _id(link, "spanId", SPAN_ID)
            read.append(Link(trace_id, span_id, attributes_of(link.get("attributes"))[0]))
        except _ODD:
            continue
    return tuple(read)


def _log_record(record: Any, scope: _Scope, resource: dict[str, Any], where: str) -> LogRecord:
    if "time_unix_nano" in record or "observed_time_unix_nano" in record:
        record = camel_case(record)
    attributes, lost = attributes_of(record.get("attributes"))
    return LogRecord(
        trace_id=_id(record, "traceId", TRACE_ID),
        span_id=_id(record, "spanId", SPAN_ID),
        name=event_name(_text(record, "eventName"), attributes),
        time_unix_nano=_int(record, "timeUnixNano") or _int(record, "observedTimeUnixNano"),
        body=value_of(record.get("body")),
        attributes=attributes,
        scope_name=scope[0],
        scope_version=scope[1],
        resource=resource,
        dropped_attributes=_int(record, "droppedAttributesCount") + lost,
        where=where,
    )


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _MalformedError("is no list")
    return value


def _text(record: Any, field: str) -> str:
    value = record.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _MalformedError(f"{field} is no text")
    return value


def _id(record: Any, field: str, size: int) -> str:
    try:
        return id_of_text(record.get(field), size)
    except ValueError as error:
        raise _MalformedError(f"{field} {error}") from error


_TOO_LARGE = 2**64


def _int(record: Any, field: str) -> int:
    value = record.get(field)
    if value is None:
        return 0
    try:
        number = int(value)
    except _ODD as error:
        raise _MalformedError(f"{field} is no number") from error
    if not 0 <= number < _TOO_LARGE:
        raise _MalformedError(f"{field} is no 64-bit number")
    return number


def _enum(value: Any, prefix: str, numbers: Mapping[str, int]) -> int:
    """OTLP's number of an enum that came as a number or by its name; 0 for what is unknown."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        return 0
    return int(value) if value.isdecimal() else numbers.get(value.upper().removeprefix(prefix), 0)


def _attributes_one_by_one(pairs: Any) -> tuple[dict[str, Any], int]:
    if not isinstance(pairs, list):
        raise _MalformedError("attributes are no list")
    attributes: dict[str, Any] = {}
    lost = 0
    for pair in pairs:
        try:
            key, value = pair["key"], pair.get("value")
            if not isinstance(key, str):
                raise TypeError
            plain = value is None or isinstance(value, (str, bool, int, float))
            attributes[key] = value if plain else value_of(value)
        except _ODD:
            lost += 1
    return attributes, lost


def _bytes(raw: Any) -> bytes:
    return base64.b64decode(raw, b"-_" if "-" in raw or "_" in raw else None, validate=True)


def _array(raw: Any) -> list[Any]:
    return [value_of(item) for item in raw.get("values") or ()]


def _key_values(raw: Any) -> dict[str, Any]:
    values, lost = attributes_of(raw.get("values"))
    if lost:
        raise _MalformedError("a value inside is malformed")
    return values


def _as_it_is(raw: Any) -> Any:
    return raw


_VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": _as_it_is,
    "intValue": int,
    "boolValue": _as_it_is,
    "doubleValue": float,  # also of "NaN" and "Infinity"
    "bytesValue": _bytes,
    "arrayValue": _array,
    "kvlistValue": _key_values,
    "string_value": _as_it_is,
    "int_value": int,
    "bool_value": _as_it_is,
    "double_value": float,
    "bytes_value": _bytes,
    "array_value": _array,
    "kvlist_value": _key_values,
}

_CAMEL = {
    "resource_spans": "resourceSpans",
    "scope_spans": "scopeSpans",
    "instrumentation_library_spans": "instrumentationLibrarySpans",
    "resource_logs": "resourceLogs",
    "scope_logs": "scopeLogs",
    "instrumentation_library_logs": "instrumentationLibraryLogs",
    "instrumentation_library": "instrumentationLibrary",
    "log_records": "logRecords",
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_span_id": "parentSpanId",
    "start_time_unix_nano": "startTimeUnixNano",
    "end_time_unix_nano": "endTimeUnixNano",
    "time_unix_nano": "timeUnixNano",
    "observed_time_unix_nano": "observedTimeUnixNano",
    "event_name": "eventName",
    "dropped_attributes_count": "droppedAttributesCount",
    "dropped_events_count": "droppedEventsCount",
    "string_value": "stringValue",
    "int_value": "intValue",
    "bool_value": "boolValue",
    "double_value": "doubleValue",
    "bytes_value": "bytesValue",
    "array_value": "arrayValue",
    "kvlist_value": "kvlistValue",
}

FORMAT = JsonFormat("otlp-json", claims, decode)
