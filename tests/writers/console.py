"""What the console exporters print: Python's by the SDK itself, JavaScript's as Node's ``util.inspect`` would."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry._logs import LogRecord as SdkLogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from otel_ctx.model import LogRecord, Span

# ---- Python


def sdk_span(span: Span) -> ReadableSpan:
    def context(trace_id: str, span_id: str) -> SpanContext:
        return SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(1))

    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.span_id),
        parent=context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=Resource(dict(span.resource)),
        attributes=dict(span.attributes),
        events=[Event(e.name, dict(e.attributes), e.time_unix_nano) for e in span.events],
        links=[Link(context(to.trace_id, to.span_id), dict(to.attributes)) for to in span.links],
        kind=SpanKind(max(span.kind - 1, 0)),
        status=Status(StatusCode(span.status_code), span.status_message or None)
        if span.status_code == StatusCode.ERROR.value
        else Status(StatusCode(span.status_code)),
        start_time=span.start_unix_nano,
        end_time=span.end_unix_nano,
    )


def _sdk_log_record(record: LogRecord) -> ReadableLogRecord:
    context = SpanContext(
        int(record.trace_id or "0", 16), int(record.span_id or "0", 16), False, TraceFlags(1)
    )
    inside = set_span_in_context(NonRecordingSpan(context))
    made = SdkLogRecord(
        timestamp=record.time_unix_nano,
        observed_timestamp=record.time_unix_nano,
        context=inside,
        event_name=record.name,
        body=record.body,
        attributes=dict(record.attributes),
    )
    return ReadableLogRecord(made, Resource(dict(record.resource)))


def python_pretty(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return _python(spans, logs, 4)


def python_lines(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return _python(spans, logs, None)


def _python(spans: Sequence[Span], logs: Sequence[LogRecord], indent: int | None) -> bytes:
    texts = [sdk_span(span).to_json(indent=indent) for span in spans]
    texts += [_sdk_log_record(record).to_json(indent=indent) for record in logs]
    return "".join(text + "\n" for text in texts).encode()


# ---- JavaScript


class _Undefined:
    pass


UNDEFINED = _Undefined()
_LONGEST_TEXT, _LONGEST_LIST, _DEEPEST, _WIDTH, _SHORT, _COMPACT = 10_000, 100, 3, 80, 16, 3
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z_0-9]*")
_ESCAPED = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|[\ud800-\udfff]")
_NAMED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\", "\v": "\\x0B"}


def javascript(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    records = [_js_span(span) for span in spans] + [_js_log_record(record) for record in logs]
    return "".join(inspect(record) + "\n" for record in records).encode()


def _js_span(span: Span) -> dict[str, Any]:
    parent: Any = UNDEFINED
    if span.parent_id:
        parent = {
            "traceId": span.trace_id, "spanId": span.parent_id, "traceFlags": 1, "traceState": UNDEFINED,
        }  # fmt: skip
    status: dict[str, Any] = {"code": span.status_code}
    if span.status_message:
        status["message"] = span.status_message
    return {
        "resource": {"attributes": span.resource},
        "instrumentationScope": {
            "name": span.scope_name, "version": span.scope_version or UNDEFINED, "schemaUrl": UNDEFINED,
        },
        "traceId": span.trace_id,
        "parentSpanContext": parent,
        "traceState": UNDEFINED,
        "name": span.name,
        "id": span.span_id,
        "kind": max(span.kind - 1, 0),
        "timestamp": _micro(span.start_unix_nano),
        "duration": _micro(span.end_unix_nano - span.start_unix_nano),
        "attributes": span.attributes,
        "status": status,
        "events": [
            {
                "name": e.name,
                "attributes": e.attributes,
                "time": [e.time_unix_nano // 10**9, e.time_unix_nano % 10**9],
                "droppedAttributesCount": 0,
            }
            for e in span.events
        ],
        "links": [
            {
                "context": {"traceId": to.trace_id, "spanId": to.span_id, "traceFlags": 1},
                "attributes": to.attributes,
                "droppedAttributesCount": 0,
            }
            for to in span.links
        ],
    }  # fmt: skip


def javascript_json(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """``JSON.stringify(span, null, 2)``, one after the other."""
    items = [*map(_js_span_object, spans), *map(_js_log_object, logs)]
    return "".join(json.dumps(item, indent=2) + "\n" for item in items).encode()


def _js_time(nanos: int) -> list[int]:
    return [nanos // 10**9, nanos % 10**9]


def _js_context(trace_id: str, span_id: str) -> dict[str, Any]:
    return {"traceId": trace_id, "spanId": span_id, "traceFlags": 1}


def _js_span_object(span: Span) -> dict[str, Any]:
    parent = {"parentSpanContext": _js_context(span.trace_id, span.parent_id)} if span.parent_id else {}
    status: dict[str, Any] = {"code": span.status_code}
    return {
        "_spanContext": _js_context(span.trace_id, span.span_id),
        "kind": max(span.kind - 1, 0),
        **parent,
        "attributes": dict(span.attributes),
        "links": [
            {"context": _js_context(to.trace_id, to.span_id), "attributes": dict(to.attributes)} for to in span.links
        ],
        "events": [
            {
                "name": e.name, "attributes": dict(e.attributes), "time": _js_time(e.time_unix_nano),
                "droppedAttributesCount": e.dropped_attributes,
            }
            for e in span.events
        ],
        "startTime": _js_time(span.start_unix_nano),
        "resource": {"_rawAttributes": [[k, v] for k, v in span.resource.items()], "_asyncAttributesPending": False},
        "instrumentationScope": {"name": span.scope_name, "version": span.scope_version},
        "_droppedAttributesCount": span.dropped_attributes,
        "_droppedEventsCount": span.dropped_events,
        "name": span.name,
        "status": {**status, "message": span.status_message} if span.status_message else status,
        "endTime": _js_time(span.end_unix_nano),
        "_ended": True,
        "_spanProcessor": {"_spanProcessors": [{"_exporter": {}, "_shutdownOnce": {"_that": "[Circular]"}}]},
    }  # fmt: skip


def _js_log_object(record: LogRecord) -> dict[str, Any]:
    context = {"_spanContext": _js_context(record.trace_id, record.span_id)} if record.span_id else {}
    return {
        "resource": {"_rawAttributes": [[k, v] for k, v in record.resource.items()]},
        "instrumentationScope": {"name": record.scope_name, "version": record.scope_version},
        "attributes": dict(record.attributes),
        "_hrTime": _js_time(record.time_unix_nano),
        "_hrTimeObserved": _js_time(record.time_unix_nano),
        **context,
        "_body": record.body,
        "_eventName": record.name,
        "_droppedAttributesCount": record.dropped_attributes,
    }


def _js_log_record(record: LogRecord) -> dict[str, Any]:
    return {
        "resource": {"attributes": record.resource},
        "instrumentationScope": {
            "name": record.scope_name, "version": record.scope_version or UNDEFINED, "schemaUrl": UNDEFINED,
        },
        "timestamp": _micro(record.time_unix_nano),
        "traceId": record.trace_id or UNDEFINED,
        "spanId": record.span_id or UNDEFINED,
        "traceFlags": 1,
        "severityText": UNDEFINED,
        "severityNumber": UNDEFINED,
        "eventName": record.name or UNDEFINED,
        "body": record.body,
        "attributes": record.attributes,
    }  # fmt: skip


def _micro(nanos: int) -> int | float:
    return nanos // 1000 if nanos % 1000 == 0 else nanos / 1000


def inspect(value: Any, depth: int = 0, indent: int = 0) -> str:
    """``util.inspect(value, {depth: 3})`` of Node, for what JSON knows."""
    if isinstance(value, _Undefined):
        return "undefined"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return (
            str(int(value))
            if isinstance(value, float) and value.is_integer() and abs(value) < 1e21
            else str(value)
        )
    if isinstance(value, str):
        return _text(value, indent)
    if isinstance(value, Mapping):
        return _mapping(value, depth, indent)
    return _sequence(value, depth, indent)


def _mapping(value: Mapping[str, Any], depth: int, indent: int) -> str:
    if not value:
        return "{}"
    if depth > _DEEPEST:
        return "[Object]"
    shown = []
    for key, item in value.items():
        name = key if _NAME.fullmatch(key) else _quoted(key)
        text = inspect(item, depth + 1, indent + 2)
        shown.append(f"{name}: {text}")
    return _laid_out(shown, "{", "}", depth, indent, list(value.values()))


def _sequence(value: Sequence[Any], depth: int, indent: int) -> str:
    if not value:
        return "[]"
    if depth > _DEEPEST:
        return "[Array]"
    shown = [inspect(item, depth + 1, indent + 2) for item in value[:_LONGEST_LIST]]
    if (more := len(value) - _LONGEST_LIST) > 0:
        shown.append(f"... {more} more item{'s' if more > 1 else ''}")
    return _laid_out(shown, "[", "]", depth, indent, value)


def _laid_out(shown: list[str], opener: str, closer: str, depth: int, indent: int, values: Any) -> str:
    """On one line where it fits and what is shown last in it is not nested three levels deep."""
    room = sum(map(len, shown)) + 2 * len(shown) + indent + len(opener) + 10
    if _levels(values, depth) < _COMPACT and room <= _WIDTH and "\n" not in "".join(shown):
        return f"{opener} {', '.join(shown)} {closer}"
    pad = "\n" + " " * (indent + 2)
    return f"{opener}{pad}{f',{pad}'.join(shown)}\n{' ' * indent}{closer}"


def _levels(values: Any, depth: int) -> int:
    """How deep the last of ``values`` that is shown as a list or an object is nested."""
    nested = [v for v in values if isinstance(v, (Mapping, list, tuple)) and v]
    if not nested or depth >= _DEEPEST:
        return 0
    last = nested[-1]
    return 1 + _levels(list(last.values()) if isinstance(last, Mapping) else last, depth + 1)


def _text(text: str, indent: int) -> str:
    units = text.encode("utf-16-le", "surrogatepass")  # which JavaScript counts
    more = len(units) // 2 - _LONGEST_TEXT
    tail = f"... {more} more character{'s' if more > 1 else ''}" if more > 0 else ""
    text = units[: 2 * _LONGEST_TEXT].decode("utf-16-le", "surrogatepass")
    if len(text) > _SHORT and len(text) > _WIDTH - indent - 4:
        pieces = re.findall(r"[^\n]*\n|[^\n]+", text)
        return f" +\n{' ' * (indent + 2)}".join(map(_quoted, pieces)) + tail
    return _quoted(text) + tail


def _quoted(text: str) -> str:
    quote = "'"
    if "'" in text:
        if '"' not in text:
            quote = '"'
        elif "`" not in text and "${" not in text:
            quote = "`"
    escaped = _ESCAPED.sub(_escape, text)
    return quote + (escaped.replace("'", "\\'") if quote == "'" else escaped) + quote


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _NAMED:
        return _NAMED[char]
    return f"\\u{ord(char):04X}" if ord(char) > 0xFF else f"\\x{ord(char):02X}"


def to_json(record: Any) -> str:
    return json.dumps(record, default=lambda _: None)
