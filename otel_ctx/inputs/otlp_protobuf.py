"""OTLP as protobuf: export requests (TracesData and LogsData are the same on the wire), one or several.

Read one resource at a time. opentelemetry-proto is imported when the first one arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from otel_ctx.inputs.fields import EVENT_NAMES, SPAN_ID, TRACE_ID, event_name, id_of_bytes
from otel_ctx.inputs.interface import LONGEST, OVERLONG, BytesFormat, Records, Skipped
from otel_ctx.model import Event, Link, LogRecord, Span

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLogRecord
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData, ResourceLogs
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, TracesData
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_RESOURCE = 0x0A  # field 1, bytes: the tag that a request begins with, and every resource in it


def claims(head: bytes) -> bool:
    """Field 1 that holds a resource (1), scopes (2) or a schema URL (3), which begins as these do in turn."""
    try:
        size, at = _varint(head, 1)
        if head[0] != _RESOURCE or size < 2 or head[at] not in (0x0A, 0x12, 0x1A):
            return False
        inner, begin = _varint(head, at + 1)
        if begin + inner > at + size:
            return False
        return inner == 0 or head[at] == 0x1A or head[begin] in (0x0A, 0x10, 0x12, 0x1A)
    except IndexError:
        return False


def read(stream: BinaryIO, where: str, skipped: list[Skipped]) -> Iterator[Records]:
    at = 0
    while tag := stream.read(1):
        place = f"{where}, byte {at}"
        size, length = _size_ahead(stream)
        if tag[0] != _RESOURCE or not length:
            skipped.append(Skipped(place, "no OTLP protobuf from here on"))
            return
        if size > LONGEST:
            skipped.append(Skipped(place, f"a resource {OVERLONG}: not read from here on"))
            return
        entry = stream.read(size)
        if len(entry) < size:
            skipped.append(Skipped(place, "cut off: the data end inside this resource"))
            return
        at += 1 + length + size
        yield _records(entry, where, place, skipped)


def spans_of(
    request: ExportTraceServiceRequest | TracesData, where: str, skipped: list[Skipped] | None = None
) -> Iterator[Span]:
    """The spans of a parsed request. What is malformed is passed over, with a note in ``skipped``."""
    for group in request.resource_spans:
        yield from _spans(group, where, skipped)


def logs_of(
    request: ExportLogsServiceRequest | LogsData, where: str, skipped: list[Skipped] | None = None
) -> Iterator[LogRecord]:
    """The log records of a parsed request, malformed ones as in ``spans_of``."""
    for group in request.resource_logs:
        yield from _logs(group, where, skipped)


class _Signal(NamedTuple):
    """The names of one signal in opentelemetry-proto."""

    group: str
    scopes: str
    records: str
    record: str
    times: tuple[str, str]
    path: str  # as OTLP's JSON has it


_Read = TypeVar("_Read")

_TRACES = _Signal(
    "ResourceSpans",
    "scope_spans",
    "spans",
    "Span",
    ("start_time_unix_nano", "end_time_unix_nano"),
    "scopeSpans[{}].spans[{}]",
)
_LOGS = _Signal(
    "ResourceLogs",
    "scope_logs",
    "log_records",
    "LogRecord",
    ("time_unix_nano", "observed_time_unix_nano"),
    "scopeLogs[{}].logRecords[{}]",
)


def _records(entry: bytes, where: str, place: str, skipped: list[Skipped]) -> Records:
    """One resource of a request, which does not say whether it holds spans, log records or metrics.

    The first field of a span is bytes and that of a log record is not, so the likely one is tried first. What
    was parsed must then have times: metrics have nothing where spans and log records have them.
    """
    tag = _first_tag(entry)
    for signal in (_TRACES, _LOGS) if tag == _RESOURCE else (_LOGS, _TRACES):
        notes: list[Skipped] = []
        group = _parse(signal, entry, place, notes)
        records = [
            record for scope in getattr(group, signal.scopes) for record in getattr(scope, signal.records)
        ]
        if any(getattr(record, time) for record in records for time in signal.times):
            skipped += notes
            if signal is _TRACES:
                return Records(spans=list(_spans(group, where, skipped)))
            return Records(logs=list(_logs(group, where, skipped)))
    if tag is not None:
        skipped.append(Skipped(place, "neither spans nor log records (OTLP metrics, or damaged)"))
    return Records()


def _parse(signal: _Signal, entry: bytes, place: str, skipped: list[Skipped]) -> Any:
    """The resource's message; where it does not parse as a whole, with those of its records that do."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.logs.v1 import logs_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

    protos = trace_pb2 if signal is _TRACES else logs_pb2
    group = getattr(protos, signal.group)()
    try:
        group.ParseFromString(entry)
    except DecodeError:
        group.Clear()
    else:
        return group
    try:
        for field, payload in _fields(entry):
            if field == 1:
                group.resource.MergeFromString(payload)
            elif field == 2:
                scope = getattr(group, signal.scopes).add()
                for inner, part in _fields(payload):
                    if inner == 1:
                        scope.scope.MergeFromString(part)
                    elif inner == 2:
                        try:
                            record = getattr(protos, signal.record).FromString(part)
                        except DecodeError:
                            skipped.append(Skipped(place, "a record in it does not parse"))
                        else:
                            getattr(scope, signal.records).append(record)
    except (DecodeError, IndexError):
        skipped.append(Skipped(place, "does not parse to its end"))
    return group


def _spans(group: ResourceSpans, where: str, skipped: list[Skipped] | None) -> Iterator[Span]:
    return _readable(_TRACES, span_of, group, where, skipped)


def _logs(group: ResourceLogs, where: str, skipped: list[Skipped] | None) -> Iterator[LogRecord]:
    return _readable(_LOGS, log_of, group, where, skipped)


def _readable(
    signal: _Signal,
    read: Callable[[Any, str, str, dict[str, Any], str], _Read],
    group: Any,
    where: str,
    skipped: list[Skipped] | None,
) -> Iterator[_Read]:
    resource = attributes_of(group.resource.attributes)
    for s, scoped in enumerate(getattr(group, signal.scopes)):
        for i, record in enumerate(getattr(scoped, signal.records)):
            try:
                made = read(record, scoped.scope.name, scoped.scope.version, resource, where)
            except (ValueError, RecursionError) as error:
                if skipped is not None:
                    why = str(error) if isinstance(error, ValueError) else "nested too deeply"
                    skipped.append(Skipped(where, f"{signal.path.format(s, i)}: {why}"))
            else:
                yield made


def span_of(
    span: ProtoSpan, scope_name: str, scope_version: str, resource: dict[str, Any], where: str = ""
) -> Span:
    """One span of a parsed request. ValueError where its ids are none; RecursionError where values nest too deeply."""
    trace_id, span_id = _id("traceId", span.trace_id, TRACE_ID), _id("spanId", span.span_id, SPAN_ID)
    if not (trace_id and span_id):
        raise ValueError("no traceId" if not trace_id else "no spanId")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id("parentSpanId", span.parent_span_id, SPAN_ID),
        name=span.name,
        start_unix_nano=span.start_time_unix_nano,
        end_unix_nano=span.end_time_unix_nano,
        attributes=attributes_of(span.attributes),
        kind=span.kind,
        events=tuple(
            Event(e.name, e.time_unix_nano, attributes_of(e.attributes), e.dropped_attributes_count)
            for e in span.events
        ),
        links=tuple(
            Link(
                _id("link's traceId", link.trace_id, TRACE_ID),
                _id("link's spanId", link.span_id, SPAN_ID),
                attributes_of(link.attributes),
            )
            for link in span.links
        ),
        scope_name=scope_name,
        scope_version=scope_version,
        resource=resource,
        status_code=span.status.code,
        status_message=span.status.message,
        dropped_attributes=span.dropped_attributes_count,
        dropped_events=span.dropped_events_count,
        where=where,
    )


def is_event(record: ProtoLogRecord) -> bool:
    """Whether it has a name at all. Log lines have none, and content is never in one: they need not be read."""
    return bool(record.event_name) or not EVENT_NAMES.isdisjoint([a.key for a in record.attributes])


def log_of(
    record: ProtoLogRecord, scope_name: str, scope_version: str, resource: dict[str, Any], where: str = ""
) -> LogRecord:
    """One log record of a parsed request, as ``span_of``."""
    attributes = attributes_of(record.attributes)
    return LogRecord(
        trace_id=_id("traceId", record.trace_id, TRACE_ID),
        span_id=_id("spanId", record.span_id, SPAN_ID),
        name=event_name(record.event_name, attributes),
        time_unix_nano=record.time_unix_nano or record.observed_time_unix_nano,
        body=_value(record.body),
        attributes=attributes,
        scope_name=scope_name,
        scope_version=scope_version,
        resource=resource,
        dropped_attributes=record.dropped_attributes_count,
        where=where,
    )


def _id(field: str, raw: bytes, size: int) -> str:
    try:
        return id_of_bytes(raw, size)
    except ValueError as error:
        raise ValueError(f"{field} {error}") from error


def attributes_of(pairs: Any) -> dict[str, Any]:
    """A list of KeyValue messages as plain Python."""
    attributes: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        # text is what most attributes are; the empty one goes the long way
        attributes[pair.key] = value.string_value or _value(value)
    return attributes


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    # an index into the dictionary of profiles means nothing here
    return None if kind is None or kind == "string_value_strindex" else getattr(value, kind)


def _first_tag(entry: bytes) -> int | None:
    """The tag that the first record of a resource begins with."""
    try:
        for field, scope in _fields(entry):
            if field == 2:
                for inner, record in _fields(scope):
                    if inner == 2 and record:
                        return record[0]
    except IndexError:
        pass
    return None


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each length-delimited field; IndexError where the message ends too early."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise IndexError("cut off")
            yield tag >> 3, message[at : at + size]
            at += size
        elif wire == _VARINT:
            _, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise IndexError("no such wire type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and where it ends; IndexError where there is none."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError("no varint")


def _size_ahead(stream: BinaryIO) -> tuple[int, int]:
    """The length that comes next in the stream, and how many bytes it took: 0 where there is none."""
    read = b""
    while len(read) < 10 and (byte := stream.read(1)):
        read += byte
        if byte[0] < 0x80:
            return _varint(read, 0)
    return 0, 0


FORMAT = BytesFormat("otlp-protobuf", claims, read)
