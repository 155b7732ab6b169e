"""Datadog's tracers, as their log and JSON writers put it: ``{"traces": [[span, …], …]}`` or the list alone.

Source: ddtrace's encoding (LogWriter, agentless writer, JSONEncoder) and its OpenTelemetry API. A trace id has 64 bits here;
the upper half stands in one span of a chunk. Texts are in ``meta``, numbers in ``metrics``, lists are spread over indices.
"""

from __future__ import annotations

import json
from typing import Any

from otel_ctx.inputs.fields import ODD, dict_of, ids_of, int_of, note, span_kind, text_of
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Event, Span

_UPPER = "_dd.p.tid"


def claims(document: Any) -> bool:
    chunks = document.get("traces") if isinstance(document, dict) else document
    if not isinstance(chunks, list) or not chunks:
        return False
    first = _spans(chunks[0])
    return bool(first) and _is_span(first[0])


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    spans: list[Span] = []
    chunks = document["traces"] if isinstance(document, dict) else document
    if _is_span(chunks[0]):
        chunks = [chunks]
    for c, chunk in enumerate(chunks):
        records = _spans(chunk)
        upper = next((meta[_UPPER] for r in records if _UPPER in (meta := _meta(r))), "")
        for i, record in enumerate(records):
            try:
                spans.append(_span(record, upper, where))
            except ODD as error:
                note(skipped, where, f"traces[{c}][{i}]", error)
    return Records(spans)


def _spans(chunk: Any) -> list[Any]:
    """Those of a chunk; of a single span, that one."""
    if isinstance(chunk, dict):
        chunk = chunk.get("spans") or [chunk]
    return chunk if isinstance(chunk, list) else []


def _is_span(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and {"trace_id", "span_id", "service", "resource"} <= value.keys()
        and not isinstance(value["resource"], dict)
    )


def _meta(span: Any) -> dict[str, Any]:
    meta = span.get("meta") if isinstance(span, dict) else None
    return meta if isinstance(meta, dict) else {}


def _span(span: dict[str, Any], upper: str, where: str) -> Span:
    ids = {name: _hex(span.get(name)) for name in ("trace_id", "span_id", "parent_id")}
    trace_id, span_id, parent_id = ids_of(ids, "trace_id", "span_id", "parent_id")
    own = str(_meta(span).get(_UPPER) or upper)
    if len(own) == 16:
        trace_id = own.lower() + trace_id[16:]
    attributes = {**_meta(span), **dict_of(span, "metrics")}
    events = _events(attributes.get("events") or span.get("span_events"))
    if events:
        attributes.pop("events", None)
    kind = span_kind(attributes.pop("span.kind", "INTERNAL"))
    attributes = _listed({key: value for key, value in attributes.items() if not _is_own(key)})
    start = int_of(span, "start")
    failed = bool(span.get("error"))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        # the operation, which ddtrace calls the name, is the kind where OpenTelemetry's API made the span
        name=text_of(span, "resource") or text_of(span, "name"),
        start_unix_nano=start,
        end_unix_nano=start + int_of(span, "duration"),
        kind=kind,
        events=events,
        attributes=attributes,
        resource={"service.name": text_of(span, "service")},
        status_code=2 if failed else 0,
        status_message=str(attributes.get("error.message") or "") if failed else "",
        where=where,
    )


def _is_own(key: str) -> bool:
    """Does the tracer add it by itself?"""
    return key.startswith("_") or key in ("runtime-id", "language", "process_id")


def _hex(value: Any) -> Any:
    return f"{value:016x}" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else value


def _events(events: Any) -> tuple[Event, ...]:
    """Those in a text of JSON; none where an attribute has the same name."""
    if isinstance(events, str):
        try:
            events = json.loads(events)
        except (ValueError, RecursionError):
            return ()
    if not isinstance(events, list) or not all(isinstance(e, dict) and "time_unix_nano" in e for e in events):
        return ()
    return tuple(
        Event(text_of(e, "name"), int_of(e, "time_unix_nano"), dict_of(e, "attributes")) for e in events
    )


def _listed(attributes: dict[str, Any]) -> dict[str, Any]:
    """The same with lists of plain values put together again: ``reasons.0``, ``reasons.1`` -> ``reasons``."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        name, dot, index = key.rpartition(".")
        items = found.get(name)
        if dot and index == "0" and name not in attributes:
            found[name] = [value]
        elif dot and isinstance(items, list) and index == str(len(items)):
            items.append(value)
        else:
            found[key] = value
    return found


FORMAT = JsonFormat("datadog", claims, decode)
