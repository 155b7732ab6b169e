"""OTLP as JSON, as the Collector and the SDKs write it and as protobuf's own JSON does, and as protobuf."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from google.protobuf.json_format import MessageToJson, ParseDict
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_ctx.model import LogRecord, Span

Json = dict[str, Any]
BATCH = 2  # records that one request holds


def value(item: Any) -> Json:
    if item is None:
        return {}
    if isinstance(item, bool):
        return {"boolValue": item}
    if isinstance(item, int):
        return {"intValue": str(item)}
    if isinstance(item, float):
        return {"doubleValue": item if math.isfinite(item) else str(item)}
    if isinstance(item, bytes):
        return {"bytesValue": base64.b64encode(item).decode()}
    if isinstance(item, dict):
        return {"kvlistValue": {"values": pairs(item)}}
    if isinstance(item, (list, tuple)):
        return {"arrayValue": {"values": [value(i) for i in item]}}
    return {"stringValue": item}


def pairs(attributes: Any) -> list[Json]:
    return [{"key": key, "value": value(item)} for key, item in attributes.items()]


def span(s: Span) -> Json:
    return {
        "traceId": s.trace_id,
        "spanId": s.span_id,
        "parentSpanId": s.parent_id,
        "name": s.name,
        "kind": s.kind,
        "startTimeUnixNano": str(s.start_unix_nano),
        "endTimeUnixNano": str(s.end_unix_nano),
        "attributes": pairs(s.attributes),
        "droppedAttributesCount": s.dropped_attributes,
        "events": [
            {"name": e.name, "timeUnixNano": str(e.time_unix_nano), "attributes": pairs(e.attributes)}
            for e in s.events
        ],
        "droppedEventsCount": s.dropped_events,
        "links": [
            {"traceId": to.trace_id, "spanId": to.span_id, "attributes": pairs(to.attributes)}
            for to in s.links
        ],
        "status": {"code": s.status_code, "message": s.status_message},
    }


def log_record(r: LogRecord) -> Json:
    return {
        "traceId": r.trace_id,
        "spanId": r.span_id,
        "eventName": r.name,
        "timeUnixNano": str(r.time_unix_nano),
        "body": value(r.body),
        "attributes": pairs(r.attributes),
        "droppedAttributesCount": r.dropped_attributes,
    }


def requests(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Json]:
    yield from _requests(spans, "Spans", "spans", span)
    yield from _requests(logs, "Logs", "logRecords", log_record)


def _requests(
    records: Sequence[Any], signal: str, field: str, write: Callable[[Any], Json]
) -> Iterator[Json]:
    def owner(record: Any) -> tuple[str, str, str]:
        return record.scope_name, record.scope_version, json.dumps(record.resource, default=str)

    for (name, version, _), group in groupby(records, owner):
        members = list(group)
        for at in range(0, len(members), BATCH):
            batch = members[at : at + BATCH]
            scope = {"scope": {"name": name, "version": version}, field: [write(r) for r in batch]}
            resource = {"attributes": pairs(batch[0].resource)}
            yield {f"resource{signal}": [{"resource": resource, f"scope{signal}": [scope]}]}


def dumps(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def json_lines(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(dumps(request) + b"\n" for request in requests(spans, logs))


def json_list(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return json.dumps(list(requests(spans, logs)), indent=2).encode()


def json_gzip(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return gzip.compress(json_lines(spans, logs))


def json_numbers(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """As JavaScript's exporter: 64-bit integers as numbers."""

    def numbers(item: Any) -> Any:
        if isinstance(item, dict):
            if item.keys() == {"intValue"}:
                return {"intValue": int(item["intValue"])}
            return {key: numbers(inner) for key, inner in item.items()}
        return [numbers(inner) for inner in item] if isinstance(item, list) else item

    return b"".join(dumps(numbers(request)) + b"\n" for request in requests(spans, logs))


# ---- protobuf


def messages(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Any]:
    """The requests as protobuf messages."""
    for request in requests(spans, logs):
        data = TracesData() if "resourceSpans" in request else LogsData()
        yield ParseDict(_ids_in_base64(request), data)


def _ids_in_base64(item: Any) -> Any:
    """Protobuf's own JSON takes any bytes for base64."""
    if isinstance(item, dict):
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else _ids_in_base64(inner)
            for key, inner in item.items()
        }
    return [_ids_in_base64(inner) for inner in item] if isinstance(item, list) else item


def protobuf(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(message.SerializeToString() for message in messages(spans, logs))


def protobuf_gzip(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return gzip.compress(protobuf(spans, logs))


def message_to_json(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(MessageToJson(m).encode() + b"\n" for m in messages(spans, logs))


def message_to_json_enum_ints(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(
        MessageToJson(m, use_integers_for_enums=True, indent=None).encode() + b"\n"
        for m in messages(spans, logs)
    )


def message_to_json_snake_case(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return b"".join(
        MessageToJson(m, preserving_proto_field_name=True).encode() + b"\n" for m in messages(spans, logs)
    )
