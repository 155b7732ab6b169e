"""The JavaScript SDK's own objects as ``JSON.stringify`` writes them, one after the other: a home-made file exporter, and
that of Gemini CLI (``telemetry.outfile``).

Source: captures of sdk-trace-base 2.12 and sdk-logs 0.223; SpanImpl and LogRecordImpl of 1.x and 0.20x, whose private
fields have no underscore. Numbers of kinds begin at 0, times are seconds and nanoseconds; what was met before in an object
may be the text ``[Circular]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    dict_of,
    event_name,
    id_of,
    ids_of,
    int_of,
    list_of,
    note,
    status_code,
    text_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import SECOND, Event, Link, LogRecord, Span


def claims(document: Any) -> bool:
    if not isinstance(document, dict) or not isinstance(_private(document, "spanContext"), (dict, NoneType)):
        return False
    return _is_span(document) or (_is_log(document) and "attributes" in document)


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    try:
        if _is_span(document):
            return Records(spans=[_span(document, where)])
        return Records(logs=[_log_record(document, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


def _is_span(document: Mapping[str, Any]) -> bool:
    return isinstance(_private(document, "spanContext"), dict) and "startTime" in document


def _is_log(document: Mapping[str, Any]) -> bool:
    return isinstance(_private(document, "hrTime"), list) and "resource" in document


def _private(record: Mapping[str, Any], name: str) -> Any:
    return record.get(f"_{name}", record.get(name))


def _span(span: dict[str, Any], where: str) -> Span:
    parent = _object(span.get("parentSpanContext")).get("spanId") or span.get("parentSpanId")
    context = {**_object(_private(span, "spanContext")), "parent": parent}
    trace_id, span_id, parent_id = ids_of(context, "traceId", "spanId", "parent")
    scope, status = _scope(span), dict_of(span, "status")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "name"),
        start_unix_nano=_time(span.get("startTime")),
        end_unix_nano=_time(span.get("endTime")),
        attributes=dict_of(span, "attributes"),
        kind=int_of(span, "kind") + 1,
        events=tuple(_event(event) for event in list_of(span.get("events")) if isinstance(event, dict)),
        links=tuple(link for item in list_of(span.get("links")) if (link := _link(item))),
        scope_name=text_of(scope, "name"),
        scope_version=text_of(scope, "version"),
        resource=_resource(span.get("resource")),
        status_code=status_code(status.get("code")),
        status_message=text_of(status, "message"),
        dropped_attributes=_count(span, "droppedAttributesCount"),
        dropped_events=_count(span, "droppedEventsCount"),
        where=where,
    )


def _log_record(record: dict[str, Any], where: str) -> LogRecord:
    context, scope = _object(_private(record, "spanContext")), _scope(record)
    attributes = dict_of(record, "attributes")
    return LogRecord(
        trace_id=id_of(context, "traceId", TRACE_ID),
        span_id=id_of(context, "spanId", SPAN_ID),
        name=event_name(text_of({"name": _private(record, "eventName")}, "name"), attributes),
        time_unix_nano=_time(_private(record, "hrTime")) or _time(_private(record, "hrTimeObserved")),
        body=_private(record, "body"),
        attributes=attributes,
        scope_name=text_of(scope, "name"),
        scope_version=text_of(scope, "version"),
        resource=_resource(record.get("resource")),
        dropped_attributes=_count(record, "droppedAttributesCount"),
        where=where,
    )


def _object(value: Any) -> dict[str, Any]:
    """What is none may have been met before."""
    return value if isinstance(value, dict) else {}


def _scope(record: Mapping[str, Any]) -> dict[str, Any]:
    return _object(record.get("instrumentationScope")) or _object(record.get("instrumentationLibrary"))


def _resource(value: Any) -> dict[str, Any]:
    """A list of pairs, in 1.x an object."""
    resource = _object(value)
    pairs = resource.get("_rawAttributes")
    if isinstance(pairs, list):
        return {p[0]: p[1] for p in pairs if isinstance(p, list) and len(p) == 2 and isinstance(p[0], str)}
    return _object(_private(resource, "attributes"))


def _event(event: dict[str, Any]) -> Event:
    return Event(
        text_of(event, "name"),
        _time(event.get("time")),
        dict_of(event, "attributes"),
        int_of(event, "droppedAttributesCount"),
    )


def _link(item: Any) -> Link | None:
    context = _object(_object(item).get("context"))
    if not context:
        return None
    return Link(
        id_of(context, "traceId", TRACE_ID), id_of(context, "spanId", SPAN_ID), dict_of(item, "attributes")
    )


def _time(value: Any) -> int:
    seconds, nanos = (*list_of(value), 0, 0)[:2]
    return int_of({"time": seconds}, "time", SECOND) + int_of({"time": nanos}, "time")


def _count(record: Mapping[str, Any], name: str) -> int:
    return int_of({"count": _private(record, name)}, "count")


FORMAT = JsonFormat("js-json", claims, decode)
