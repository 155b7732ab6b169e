"""What trace stores and their exporters make of spans: Jaeger, Tempo, Zipkin, Datadog, and one object a span."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from google.protobuf.json_format import MessageToDict

from otel_ctx.model import LogRecord, Span
from tests.writers import otlp

Json = dict[str, Any]
KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
CODES = ("UNSET", "OK", "ERROR")
_SCOPE = "library"  # what OpenTelemetry called a scope before: its older attribute names have it


def traces(spans: Sequence[Span]) -> list[list[Span]]:
    ordered = sorted(spans, key=lambda span: span.trace_id)
    return [list(group) for _, group in groupby(ordered, lambda span: span.trace_id)]


# ---- Jaeger: pkg/translator/jaeger of the Collector, and the UI's model


def _tag(key: str, value: Any) -> Json:
    if isinstance(value, bool):
        return {"key": key, "type": "bool", "value": value}
    if isinstance(value, int):
        return {"key": key, "type": "int64", "value": value}
    if isinstance(value, float):
        return {"key": key, "type": "float64", "value": value}
    if isinstance(value, bytes):
        return {"key": key, "type": "binary", "value": base64.b64encode(value).decode()}
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return {"key": key, "type": "string", "value": "" if value is None else value}


def _jaeger_span(span: Span, process: str) -> Json:
    tags = [_tag(key, value) for key, value in span.attributes.items()]
    if span.scope_name:
        tags.append(_tag("otel.scope.name", span.scope_name))
    if span.scope_version:
        tags.append(_tag("otel.scope.version", span.scope_version))
    if span.kind:
        tags.append(_tag("span.kind", KINDS[span.kind].lower()))
    if span.status_code:
        tags.append(_tag("otel.status_code", CODES[span.status_code]))
    if span.status_code == 2:
        tags.append(_tag("error", True))
    if span.status_message:
        tags.append(_tag("otel.status_description", span.status_message))
    references = [
        {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_id},
        *({"refType": "FOLLOWS_FROM", "traceID": to.trace_id, "spanID": to.span_id} for to in span.links),
    ]
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "operationName": span.name,
        "references": references if span.parent_id else references[1:],
        "startTime": span.start_unix_nano // 1000,
        "duration": (span.end_unix_nano - span.start_unix_nano) // 1000,
        "tags": tags,
        "logs": [
            {
                "timestamp": e.time_unix_nano // 1000,
                "fields": [_tag("event", e.name), *(_tag(k, v) for k, v in e.attributes.items())],
            }
            for e in span.events
        ],
        "processID": process,
        "warnings": None,
    }


def jaeger(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    data = []
    for trace in traces(spans):
        processes: dict[str, str] = {}
        written = []
        for span in trace:
            key = json.dumps(span.resource, default=str)
            written.append(_jaeger_span(span, processes.setdefault(key, f"p{len(processes) + 1}")))
        resources = {processes[json.dumps(s.resource, default=str)]: s.resource for s in trace}
        data.append(
            {
                "traceID": trace[0].trace_id,
                "spans": written,
                "processes": {
                    name: {
                        "serviceName": r.get("service.name", ""),
                        "tags": [_tag(k, v) for k, v in r.items() if k != "service.name"],
                    }
                    for name, r in resources.items()
                },
                "warnings": None,
            }
        )
    return json.dumps({"data": data, "total": 0, "limit": 0, "offset": 0, "errors": None}).encode()


def jaeger_v3(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(otlp.dumps({"result": request}) + b"\n" for request in otlp.requests(spans, ()))


# ---- Tempo


def _groups(spans: Sequence[Span]) -> list[Json]:
    return [g for m in otlp.messages(spans, ()) for g in MessageToDict(m)["resourceSpans"]]


def tempo_v1(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return otlp.dumps({"batches": _groups(spans)})


def tempo_v2(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return otlp.dumps({"trace": {"resourceSpans": _groups(spans)}, "metrics": {}})


def tempo_cli(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return json.dumps({"resourceSpans": _groups(spans)}, indent=2).encode()


# ---- Zipkin: Python's exporter, JavaScript's, the Collector's


def _zipkin(span: Span, tags: Mapping[str, str], annotations: list[Json]) -> Json:
    record = {
        "traceId": span.trace_id,
        "id": span.span_id,
        "name": span.name,
        "timestamp": (span.start_unix_nano + 500) // 1000,
        "duration": (span.end_unix_nano - span.start_unix_nano + 500) // 1000,
        "localEndpoint": {"serviceName": span.resource.get("service.name", "")},
        "kind": KINDS[span.kind] if span.kind > 1 else None,
        "tags": tags,
        "annotations": annotations,
    }
    return {**record, "parentId": span.parent_id} if span.parent_id else record


def _status_and_losses(span: Span) -> dict[str, str]:
    tags = {}
    if span.status_code:
        tags["otel.status_code"] = CODES[span.status_code]
    if span.status_code == 2:
        tags["error"] = span.status_message
    if span.dropped_attributes:
        tags["otel.dropped_attributes_count"] = str(span.dropped_attributes)
    if span.dropped_events:
        tags["otel.dropped_events_count"] = str(span.dropped_events)
    return tags


def _python_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float, str)) else None


def zipkin_python(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    written = []
    for span in spans:
        tags: dict[str, str] = {}
        for key, value in (*span.attributes.items(), *span.resource.items()):
            if isinstance(value, (list, bytes)):
                items = [
                    _python_text(item) for item in value if item is None or _python_text(item) is not None
                ]
                tags[key] = json.dumps(items, separators=(",", ":"))
            elif (text := _python_text(value)) is not None:
                tags[key] = text
        tags |= {f"otel.{word}.name": span.scope_name for word in (_SCOPE, "scope")}
        tags |= {f"otel.{word}.version": span.scope_version for word in (_SCOPE, "scope")}
        tags |= _status_and_losses(span)
        annotations = [
            {
                "timestamp": e.time_unix_nano // 1000,
                "value": json.dumps({e.name: e.attributes}, sort_keys=True),
            }
            for e in span.events
        ]
        written.append(_zipkin(span, tags, annotations))
    return json.dumps(written).encode()


def _javascript_text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join("" if item is None else _javascript_text(item) for item in value)
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def zipkin_javascript(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    written = []
    for span in spans:
        tags = {key: _javascript_text(value) for key, value in span.attributes.items()}
        tags |= _status_and_losses(span)
        tags |= {key: _javascript_text(value) for key, value in span.resource.items()}
        annotations = [{"timestamp": e.time_unix_nano // 1000, "value": e.name} for e in span.events]
        written.append(_zipkin(span, tags, annotations))
    return json.dumps(written).encode()


def zipkin_collector(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    def text(value: Any) -> str:
        if isinstance(value, (dict, list)):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _javascript_text(value)

    written = []
    for span in spans:
        tags = {key: text(value) for key, value in (*span.resource.items(), *span.attributes.items())}
        tags |= {f"otel.{_SCOPE}.name": span.scope_name, f"otel.{_SCOPE}.version": span.scope_version}
        if span.status_code:
            tags["otel.status_code"] = f"STATUS_CODE_{CODES[span.status_code]}"
        if span.status_code == 2:
            tags["error"] = span.status_message or "true"
        annotations = [
            {"timestamp": e.time_unix_nano // 1000, "value": f"{e.name}|{json.dumps(e.attributes)}|0"}
            for e in span.events
        ]
        written.append(_zipkin(span, tags, annotations))
    return json.dumps(written).encode()


# ---- Datadog: ddtrace's LogWriter behind its OpenTelemetry API


def datadog(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    lines = []
    for trace in traces(spans):
        chunk = [_datadog_span(span) for span in trace]
        chunk[0]["meta"]["_dd.p.tid"] = trace[0].trace_id[:16]
        lines.append(json.dumps({"traces": [chunk]}))
    return "\n".join(lines).encode()


def _datadog_span(span: Span) -> Json:
    meta: dict[str, str] = {}
    metrics: dict[str, float] = {}
    for key, value in span.attributes.items():
        for name, item in _spread(key, value):
            if isinstance(item, (int, float)):
                metrics[name] = item
            else:
                meta[name] = item if isinstance(item, str) else str(item)
    if span.kind > 1:
        meta["span.kind"] = KINDS[span.kind].lower()
    if span.status_message:
        meta["error.message"] = span.status_message
    if span.events:
        events = [
            {"name": e.name, "time_unix_nano": e.time_unix_nano, "attributes": e.attributes}
            for e in span.events
        ]
        meta["events"] = json.dumps(events)
    return {
        "trace_id": span.trace_id[16:].upper(),
        "parent_id": (span.parent_id or "0" * 16).upper(),
        "span_id": span.span_id.upper(),
        "service": span.resource.get("service.name", ""),
        "resource": span.name,
        "name": KINDS[span.kind].lower(),
        "error": int(span.status_code == 2),
        "start": span.start_unix_nano,
        "duration": span.end_unix_nano - span.start_unix_nano,
        "meta": meta,
        "metrics": metrics,
    }


def _spread(key: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list):
        return [pair for i, item in enumerate(value) for pair in _spread(f"{key}.{i}", item)]
    return [(key, value)]


# ---- one object a span


def flat_typed(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(
        otlp.dumps(
            {
                **otlp.span(span),
                "resource": {"attributes": otlp.pairs(span.resource)},
                "scope": {"name": span.scope_name, "version": span.scope_version},
            }
        )
        + b"\n"
        for span in spans
    )


def flat_plain(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """Snake case, plain values, times in ISO 8601."""
    return b"".join(
        otlp.dumps(
            {
                "trace_id": span.trace_id,
                "span_id": span.span_id,
                "parent_span_id": span.parent_id or None,
                "name": span.name,
                "kind": f"SPAN_KIND_{KINDS[span.kind]}",
                "start_time": iso(span.start_unix_nano),
                "end_time": iso(span.end_unix_nano),
                "attributes": _plain(span.attributes),
                "resource": _plain(span.resource),
                "scope_name": span.scope_name,
                "scope_version": span.scope_version,
                "status": {"code": CODES[span.status_code], "message": span.status_message},
                "events": [
                    {"name": e.name, "timeUnixNano": e.time_unix_nano, "attributes": _plain(e.attributes)}
                    for e in span.events
                ],
                "dropped_attributes_count": span.dropped_attributes,
            }
        )
        + b"\n"
        for span in spans
    )


def flat_table(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """Rows of the Collector's ClickHouse exporter, JSONEachRow: every attribute is text."""

    def text(value: Any) -> str:
        if isinstance(value, (dict, list)):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _javascript_text(value)

    return b"".join(
        otlp.dumps(
            {
                "Timestamp": iso(span.start_unix_nano).replace("T", " ").rstrip("Z"),
                "TraceId": span.trace_id,
                "SpanId": span.span_id,
                "ParentSpanId": span.parent_id,
                "SpanName": span.name,
                "SpanKind": KINDS[span.kind].capitalize(),
                "ServiceName": span.resource.get("service.name", ""),
                "ResourceAttributes": {key: text(value) for key, value in span.resource.items()},
                "ScopeName": span.scope_name,
                "ScopeVersion": span.scope_version,
                "SpanAttributes": {key: text(value) for key, value in span.attributes.items()},
                "Duration": span.end_unix_nano - span.start_unix_nano,
                "StatusCode": CODES[span.status_code].capitalize(),
                "StatusMessage": span.status_message,
                "Events.Timestamp": [
                    iso(e.time_unix_nano).replace("T", " ").rstrip("Z") for e in span.events
                ],
                "Events.Name": [e.name for e in span.events],
                "Events.Attributes": [{k: text(v) for k, v in e.attributes.items()} for e in span.events],
            }
        )
        + b"\n"
        for span in spans
    )


def iso(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _plain(attributes: Mapping[str, Any]) -> Json:
    return {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
