"""What the Python SDK's console exporters print: ``ReadableSpan.to_json`` and that of log records.

Source: opentelemetry-sdk 1.30 to 1.45. The instrumentation scope is not printed, times are cut to microseconds.
"""

from __future__ import annotations

from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    dict_of,
    event_name,
    events_of,
    id_of,
    ids_of,
    int_of,
    list_of,
    note,
    span_kind,
    status_code,
    text_of,
    time_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Link, LogRecord, Span


def claims(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    return _is_span(document) or ("severity_number" in document and "observed_timestamp" in document)


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    try:
        if _is_span(document):
            return Records(spans=[_span(document, where)])
        return Records(logs=[_log_record(document, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


def _is_span(document: dict[str, Any]) -> bool:
    context = document.get("context")
    return isinstance(context, dict) and "trace_id" in context and "kind" in document


def _span(span: dict[str, Any], where: str) -> Span:
    trace_id, span_id, parent_id = ids_of(
        {**span["context"], "parent": span.get("parent_id")}, "trace_id", "span_id", "parent"
    )
    status = dict_of(span, "status")
    attributes = dict_of(span, "attributes")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "name"),
        start_unix_nano=time_of(span, "start_time"),
        end_unix_nano=time_of(span, "end_time"),
        attributes=attributes,
        kind=span_kind(span.get("kind")),
        events=events_of(span),
        links=tuple(_link(link) for link in list_of(span.get("links"))),
        resource=_resource(span),
        status_code=status_code(status.get("status_code")),
        status_message=text_of(status, "description"),
        where=where,
    )


def _link(link: dict[str, Any]) -> Link:
    context = dict_of(link, "context")
    return Link(
        id_of(context, "trace_id", TRACE_ID), id_of(context, "span_id", SPAN_ID), dict_of(link, "attributes")
    )


def _log_record(record: dict[str, Any], where: str) -> LogRecord:
    attributes = dict_of(record, "attributes")
    return LogRecord(
        trace_id=id_of(record, "trace_id", TRACE_ID),
        span_id=id_of(record, "span_id", SPAN_ID),
        name=event_name(text_of(record, "event_name"), attributes),
        time_unix_nano=time_of(record, "timestamp") or time_of(record, "observed_timestamp"),
        body=record.get("body"),
        attributes=attributes,
        resource=_resource(record),
        dropped_attributes=int_of(record, "dropped_attributes"),
        where=where,
    )


def _resource(record: dict[str, Any]) -> dict[str, Any]:
    return dict_of(dict_of(record, "resource"), "attributes")


FORMAT = JsonFormat("python-console", claims, decode)
