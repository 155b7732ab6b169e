"""The Python SDK's own objects: ReadableSpan -> Span, ReadableLogRecord (LogData before 1.36) -> LogRecord.

Known by their attributes: the SDK itself is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otel_ctx.errors import InputError
from otel_ctx.inputs.fields import event_name
from otel_ctx.model import Event, Link, LogRecord, Span

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

_SCALARS = frozenset((str, int, float, bool, bytes, type(None)))


def span_of(span: ReadableSpan) -> Span:
    """A finished span as the exporters would send it. Raises InputError where it has no ids."""
    context, parent, scope = span.context, span.parent, span.instrumentation_scope
    if context is None or not (context.trace_id and context.span_id):
        raise InputError(f"span {span.name!r}", "has no ids")
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{parent.span_id:016x}" if parent and parent.span_id else "",
        name=span.name,
        start_unix_nano=span.start_time or 0,
        end_unix_nano=span.end_time or 0,
        attributes=_attributes(span.attributes),
        kind=span.kind.value + 1,  # the SDK counts from INTERNAL = 0, OTLP from INTERNAL = 1
        events=tuple(
            Event(event.name, event.timestamp, _attributes(event.attributes), _dropped(event))
            for event in span.events
        ),
        links=tuple(
            Link(f"{to.context.trace_id:032x}", f"{to.context.span_id:016x}", _attributes(to.attributes))
            for to in span.links
        ),
        scope_name=scope.name if scope else "",
        scope_version=(scope.version or "") if scope else "",
        resource=_resource(span.resource),
        status_code=span.status.status_code.value,
        status_message=span.status.description or "",
        dropped_attributes=_dropped(span),
        dropped_events=getattr(span, "dropped_events", 0),
    )


def log_record_of(data: ReadableLogRecord) -> LogRecord:
    """A log record as the exporters would send it."""
    record: Any = data.log_record
    scope = data.instrumentation_scope
    attributes = _attributes(record.attributes)
    return LogRecord(
        trace_id=f"{record.trace_id:032x}" if record.trace_id else "",
        span_id=f"{record.span_id:016x}" if record.span_id else "",
        name=event_name(getattr(record, "event_name", None) or "", attributes),
        time_unix_nano=record.timestamp or record.observed_timestamp or 0,
        body=_plain(record.body),
        attributes=attributes,
        scope_name=scope.name if scope else "",
        scope_version=(scope.version or "") if scope else "",
        resource=_resource(getattr(data, "resource", None) or getattr(record, "resource", None)),
        dropped_attributes=_dropped(data) or _dropped(record),
    )


def _dropped(item: Any) -> int:
    count: int = getattr(item, "dropped_attributes", 0)
    return count


def _attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    if not attributes:
        return {}
    return {key: value if type(value) in _SCALARS else _plain(value) for key, value in attributes.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bytes)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return str(value)


_last_resource: tuple[object, dict[str, Any]] = (None, {})


def _resource(resource: Any) -> dict[str, Any]:
    """One dict for all spans of a resource: a process has one resource, so the last one is remembered."""
    global _last_resource
    known, attributes = _last_resource
    if resource is not known:
        attributes = _attributes(resource.attributes)
        _last_resource = (resource, attributes)
    return attributes
