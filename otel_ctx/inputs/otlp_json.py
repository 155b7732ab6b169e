"""OTLP as JSON: export requests as the Collector's ``file`` exporter, the SDKs and protobuf's JSON write them.

Source: opentelemetry-proto (trace.proto, logs.proto, common.proto) and the OTLP specification's JSON mapping;
beside it protobuf's canonical JSON (base64 ids, enum names, snake_case) and the fields of before 2022.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    MalformedError,
    event_name,
    id_of,
    ids_of,
    int_of,
    list_of,
    note,
    span_kind,
    status_code,
    text_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Event, Link, LogRecord, Span

_TRACES = ("resourceSpans", "resource_spans")
_LOGS = ("resourceLogs", "resource_logs")

_ALL_TEXT = frozenset((str,))


def claims(document: Any) -> bool:
    return isinstance(document, dict) and any(key in document for key in _TRACES + _LOGS)


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    return Records(list(spans_of(document, where, skipped)), list(logs_of(document, where, skipped)))


def spans_of(request: dict[str, Any], where: str, skipped: list[Skipped] | None = None) -> Iterator[Span]:
    """The spans of one decoded export request. What is malformed is passed over, noted in ``skipped``."""
    return _readable(_span, _scoped(request, "Spans", "spans", where, skipped), where, skipped)


def logs_of(request: dict[str, Any], where: str, skipped: list[Skipped] | None = None) -> Iterator[LogRecord]:
    """The log records of one decoded export request, malformed ones as in ``spans_of``."""
    return _readable(_log_record, _scoped(request, "Logs", "logRecords", where, skipped), where, skipped)


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
            if (text := value.get("stringValue")) is not None:
                attributes[pair["key"]] = text
            elif (number := value.get("intValue")) is not None:
                attributes[pair["key"]] = int(number)
            else:
                attributes[pair["key"]] = value_of(value)
    except ODD:
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


_Scope = tuple[str, str]
_Scoped = tuple[_Scope, dict[str, Any], str, list[Any]]
_Read = TypeVar("_Read")


def _readable(
    read: Callable[[Any, _Scope, dict[str, Any], str], _Read],
    groups: Iterator[_Scoped],
    where: str,
    skipped: list[Skipped] | None,
) -> Iterator[_Read]:
    for scope, resource, path, records in groups:
        for i, record in enumerate(records):
            try:
                made = read(record, scope, resource, where)
            except ODD as error:
                note(skipped, where, f"{path}[{i}]", error)
            else:
                yield made


def _scoped(
    request: Any, signal: str, records: str, where: str, skipped: list[Skipped] | None
) -> Iterator[_Scoped]:
    """(scope, resource attributes, path, records) of each scope; ``signal`` is "Spans" or "Logs"."""
    path = f"resource{signal}"
    try:
        if any(key in request for key in ("resource_spans", "resource_logs")):
            request = camel_case(request)
        groups = list_of(request.get(path))
    except ODD as error:
        note(skipped, where, path, error)
        return
    for r, group in enumerate(groups):
        try:
            resource = attributes_of((group.get("resource") or {}).get("attributes"))[0]
            scopes = list_of(group.get(f"scope{signal}") or group.get(f"instrumentationLibrary{signal}"))
        except ODD as error:
            note(skipped, where, f"{path}[{r}]", error)
            continue
        for s, scoped in enumerate(scopes):
            place = f"{path}[{r}].scope{signal}[{s}]"
            try:
                named = scoped.get("scope") or scoped.get("instrumentationLibrary") or {}
                scope = (text_of(named, "name"), text_of(named, "version"))
                # Collectors of before 2022 called the log records "logs"
                found = list_of(scoped.get(records) or (scoped.get("logs") if signal == "Logs" else None))
            except ODD as error:
                note(skipped, where, place, error)
                continue
            yield scope, resource, f"{place}.{records}", found


def _span(span: Any, scope: _Scope, resource: dict[str, Any], where: str) -> Span:
    if "trace_id" in span:
        span = camel_case(span)
    trace_id, span_id, parent_id = ids_of(span, "traceId", "spanId", "parentSpanId")
    attributes, lost = attributes_of(span.get("attributes"))
    events, lost_events = _events(span["events"]) if span.get("events") else ((), 0)
    status = span.get("status")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "name"),
        start_unix_nano=int_of(span, "startTimeUnixNano"),
        end_unix_nano=int_of(span, "endTimeUnixNano"),
        attributes=attributes,
        kind=span_kind(span.get("kind")),
        events=events,
        links=_links(span["links"]) if span.get("links") else (),
        scope_name=scope[0],
        scope_version=scope[1],
        resource=resource,
        status_code=status_code(status.get("code")) if status else 0,
        status_message=text_of(status, "message") if status else "",
        dropped_attributes=int_of(span, "droppedAttributesCount") + lost,
        dropped_events=int_of(span, "droppedEventsCount") + lost_events,
        where=where,
    )


def _events(events: Any) -> tuple[tuple[Event, ...], int]:
    """The events, and how many could not be read: they count as dropped."""
    read = []
    for event in list_of(events):
        try:
            attributes, lost = attributes_of(event.get("attributes"))
            dropped = int_of(event, "droppedAttributesCount") + lost
            read.append(Event(text_of(event, "name"), int_of(event, "timeUnixNano"), attributes, dropped))
        except ODD:
            continue
    return tuple(read), len(events) - len(read)


def _links(links: Any) -> tuple[Link, ...]:
    read = []
    for link in list_of(links):
        try:
            trace_id, span_id = id_of(link, "traceId", TRACE_ID), id_of(link, "spanId", SPAN_ID)
            read.append(Link(trace_id, span_id, attributes_of(link.get("attributes"))[0]))
        except ODD:
            continue
    return tuple(read)


def _log_record(record: Any, scope: _Scope, resource: dict[str, Any], where: str) -> LogRecord:
    if "time_unix_nano" in record or "observed_time_unix_nano" in record:
        record = camel_case(record)
    attributes, lost = attributes_of(record.get("attributes"))
    return LogRecord(
        trace_id=id_of(record, "traceId", TRACE_ID),
        span_id=id_of(record, "spanId", SPAN_ID),
        name=event_name(text_of(record, "eventName"), attributes),
        time_unix_nano=int_of(record, "timeUnixNano") or int_of(record, "observedTimeUnixNano"),
        body=value_of(record.get("body")),
        attributes=attributes,
        scope_name=scope[0],
        scope_version=scope[1],
        resource=resource,
        dropped_attributes=int_of(record, "droppedAttributesCount") + lost,
        where=where,
    )


def _attributes_one_by_one(pairs: Any) -> tuple[dict[str, Any], int]:
    if not isinstance(pairs, list):
        raise MalformedError("attributes are no list")
    attributes: dict[str, Any] = {}
    lost = 0
    for pair in pairs:
        try:
            key, value = pair["key"], pair.get("value")
            if not isinstance(key, str):
                raise TypeError
            plain = value is None or isinstance(value, (str, bool, int, float))
            attributes[key] = value if plain else value_of(value)
        except ODD:
            lost += 1
    return attributes, lost


def _bytes(raw: Any) -> bytes:
    return base64.b64decode(raw, b"-_" if "-" in raw or "_" in raw else None, validate=True)


def _array(raw: Any) -> list[Any]:
    return [value_of(item) for item in raw.get("values") or ()]


def _key_values(raw: Any) -> dict[str, Any]:
    values, lost = attributes_of(raw.get("values"))
    if lost:
        raise MalformedError("a value inside is malformed")
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
