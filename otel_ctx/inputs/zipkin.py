"""Zipkin's JSON, v2: a list of spans, as Zipkin exporters send it and ``/api/v2/traces`` answers.

Every tag is text. Python's exporter writes a list of objects as ``[]`` and leaves maps out, JavaScript's joins a list with
commas and writes ``[object Object]``: what such a tag held is lost, and the span says so. The instrumentation scope
and the status are in tags, and those of the resource among them; times are microseconds.
"""

from __future__ import annotations

import json
from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    dict_of,
    ids_of,
    int_of,
    list_of,
    note,
    span_kind,
    taken_from_tags,
    text_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Cut, Event, Span

NAME = "zipkin"
_MICRO = 1000  # nanoseconds
_OBJECT = "[object Object]"
_CONTENT = "gen_ai."  # events of the conventions, which JavaScript's exporter strips of their attributes
_scan = json.JSONDecoder().raw_decode


def claims(document: Any) -> bool:
    return (
        isinstance(document, dict) and "traceId" in document and "id" in document and "type" not in document
    )


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    try:
        return Records([_span(document, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


def _span(span: dict[str, Any], where: str) -> Span:
    trace_id, span_id, parent_id = ids_of(span, "traceId", "id", "parentId")
    tags = dict(dict_of(span, "tags"))
    start = int_of(span, "timestamp", _MICRO)
    service = text_of(dict_of(span, "localEndpoint"), "serviceName")
    fields = taken_from_tags(tags)
    if fields["status_code"] and not fields["status_message"]:
        fields["status_message"] = str(tags.get("error") or "")
    events = tuple(map(_event, list_of(span.get("annotations"))))
    lost = frozenset(
        [key for key, value in tags.items() if _is_lost(value)]
        + [
            f"{event.name}.content"
            for event in events
            if event.name.startswith(_CONTENT) and not event.attributes
        ]
    )
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "name"),
        start_unix_nano=start,
        end_unix_nano=start + int_of(span, "duration", _MICRO),
        attributes={key: _value(value) for key, value in tags.items()},
        kind=span_kind(span.get("kind")),
        events=events,
        resource={"service.name": service} if service else {},
        cut=Cut(NAME, lost) if lost else None,
        where=where,
        **fields,
    )


def _is_lost(value: Any) -> bool:
    return value == "[]" or (isinstance(value, str) and value.startswith(_OBJECT))


def _value(text: Any) -> Any:
    """A list of JSON objects that was joined with commas is a list again; in the place of an object stands no text."""
    if isinstance(text, str) and text.startswith(_OBJECT):
        return None
    if not isinstance(text, str) or text[:1] != "{" or "},{" not in text:
        return text
    items, at = [], 0
    try:
        while at <= len(text):
            _, end = _scan(text, at)
            if text[end : end + 1] not in ("", ","):
                return text
            items.append(text[at:end])
            at = end + 1
    except (ValueError, RecursionError):
        return text
    return items if len(items) > 1 else text


def _event(annotation: dict[str, Any]) -> Event:
    """The name alone (JavaScript), ``{"NAME": {attributes}}`` (Python) or ``NAME|{attributes}|0`` (the Collector)."""
    value, at = text_of(annotation, "value"), int_of(annotation, "timestamp", _MICRO)
    name, bar, rest = value.partition("|")
    if bar and rest.startswith("{"):
        attributes = _object(rest.rpartition("|")[0] or rest)
        if attributes is not None:
            return Event(name, at, attributes)
    named = _object(value) if value.startswith("{") else None
    if named and len(named) == 1 and isinstance(attributes := next(iter(named.values())), dict):
        return Event(next(iter(named)), at, attributes)
    return Event(value, at, {})


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


FORMAT = JsonFormat(NAME, claims, decode)
