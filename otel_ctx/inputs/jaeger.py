"""Jaeger's own JSON, as its UI downloads it and its ``/api/traces`` answers: traces with a table of processes; also
single spans that carry their process, as its storage backends hold them.

Source: Jaeger's UI model and its OTLP translation. Tags are typed, but lists and maps came in as the text of their JSON. The
instrumentation scope is in tags; times are microseconds.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    MalformedError,
    dict_of,
    id_of,
    ids_of,
    int_of,
    list_of,
    note,
    span_kind,
    taken_from_tags,
    text_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Event, Link, Span

_MICRO = 1000  # nanoseconds


def claims(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and "traceID" in document
        and ("spans" in document or "operationName" in document)
    )


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    spans: list[Span] = []
    try:
        if "spans" not in document:
            return Records([_span(document, document.get("process"), where)])
        processes = dict_of(document, "processes")
        records = list_of(document["spans"])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()
    for i, record in enumerate(records):
        try:
            spans.append(_span(record, processes.get(record.get("processID"), record.get("process")), where))
        except ODD as error:
            note(skipped, where, f"spans[{i}]", error)
    return Records(spans)


def _span(span: dict[str, Any], process: Any, where: str) -> Span:
    parent, links = _references(span)
    trace_id, span_id, parent_id = ids_of(
        {**span, "parentSpanID": parent}, "traceID", "spanID", "parentSpanID"
    )
    attributes = _tags(span.get("tags"))
    told = taken_from_tags(attributes)
    kind = span_kind(attributes.pop("span.kind", None))
    process = process if isinstance(process, dict) else {}
    start = int_of(span, "startTime", _MICRO)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "operationName"),
        start_unix_nano=start,
        end_unix_nano=start + int_of(span, "duration", _MICRO),
        kind=kind,
        **told,
        events=tuple(map(_event, list_of(span.get("logs")))),
        links=links,
        attributes=attributes,
        resource={"service.name": text_of(process, "serviceName"), **_tags(process.get("tags"))},
        where=where,
    )


def _references(span: Mapping[str, Any]) -> tuple[Any, tuple[Link, ...]]:
    """The parent is the first CHILD_OF of the same trace; what else is referred to was a link."""
    parent: Any = span.get("parentSpanID")
    links = []
    for reference in list_of(span.get("references")):
        same = reference.get("traceID") == span.get("traceID")
        if not parent and same and reference.get("refType") == "CHILD_OF":
            parent = reference.get("spanID")
        elif reference.get("spanID") != parent or not same:
            links.append(Link(id_of(reference, "traceID", TRACE_ID), id_of(reference, "spanID", SPAN_ID)))
    return parent, tuple(links)


def _event(log: Mapping[str, Any]) -> Event:
    """A log's fields are an event's attributes, its name among them."""
    attributes = _tags(log.get("fields"))
    name = attributes.pop("event", None) or attributes.pop("message", "")
    return Event(str(name), int_of(log, "timestamp", _MICRO), attributes)


def _tags(tags: Any) -> dict[str, Any]:
    """A list of ``{"key", "type", "value"}``."""
    found: dict[str, Any] = {}
    for tag in list_of(tags):
        key = tag["key"]
        if not isinstance(key, str):
            raise MalformedError("a tag's key is no text")
        found[key] = _value(tag.get("type"), tag.get("value"))
    return found


def _value(kind: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        if kind == "int64":
            return int(value)
        if kind == "float64":
            number = float(value)
            return number if math.isfinite(number) else value
        if kind == "binary":
            return base64.b64decode(value, validate=True)
    except ValueError:
        return value
    return value == "true" if kind == "bool" else value


FORMAT = JsonFormat("jaeger", claims, decode)
