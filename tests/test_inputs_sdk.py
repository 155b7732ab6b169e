"""The SDK's own spans, and that every way out of the SDK brings the same spans back.

The files data/inputs/trace.* hold the trace of ``the_trace`` as opentelemetry-exporter-otlp-proto-common 1.45.2,
opentelemetry-exporter-otlp-json-common 0.66b1 and protobuf's ``MessageToJson`` wrote it; logs.* its log records.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_ctx.errors import InputError
from otel_ctx.inputs import read
from otel_ctx.inputs.sdk import log_record_of, span_of
from otel_ctx.model import LogRecord, Span
from tests.exported import recording

DATA = Path(__file__).parent / "data" / "inputs"
START = 1_764_500_000_000_000_001
RESOURCE = Resource({"service.name": "shop", "service.version": "1.2", "replicas": 3})


class _Counted(IdGenerator):
    def __init__(self) -> None:
        self._next: Iterator[int] = iter(range(0xA0000001, 0xA0001000))

    def generate_span_id(self) -> int:
        return next(self._next)

    def generate_trace_id(self) -> int:
        return 0x0AF7651916CD43DD8448EB211C80319C


def the_trace(limits: SpanLimits | None = None) -> list[ReadableSpan]:
    """A root, a tool with every type of value, a failed call with an event and a link; always the same."""
    provider, memory = recording(resource=RESOURCE, id_generator=_Counted(), span_limits=limits)
    tracer = provider.get_tracer("shop.agent", "0.3")
    root = tracer.start_span("invoke_agent", start_time=START, attributes={"gen_ai.agent.name": "shop"})
    inside = trace.set_span_in_context(root)
    values: dict[str, Any] = {
        "text": "Grüße, 東京 🙂", "empty": "", "yes": True, "no": False, "int": 9007199254740993, "negative": -1,
        "float": 0.1, "whole": 2.0, "big": 1e300, "bytes": b"\x00\x01\xff", "texts": ["a", "b"], "ints": [1, 2],
        "none": None, "map": {"list": [1, "two", None, {"deep": True}]}, "nothing": [],
    }  # fmt: skip
    tool = tracer.start_span("execute_tool find", inside, start_time=START + 10, attributes=values)
    tool.end(START + 20)
    link = trace.Link(tool.get_span_context(), {"why": "retry"})
    call = tracer.start_span("chat m", inside, trace.SpanKind.CLIENT, links=[link], start_time=START + 30)
    call.add_event("gen_ai.choice", {"index": 0, "text": "hello"}, START + 35)
    call.set_status(trace.StatusCode.ERROR, "boom")
    call.end(START + 40)
    root.end(START + 50)
    return list(memory.get_finished_spans())


def the_logs() -> list[ReadableLogRecord]:
    scope = InstrumentationScope("shop.logs", "0.4")
    span = trace.NonRecordingSpan(trace.SpanContext(0xB1, 0xC2, False, trace.TraceFlags(1)))
    inside = trace.set_span_in_context(span)
    records = (
        ApiLogRecord(
            timestamp=START, observed_timestamp=START + 1, context=inside, event_name="gen_ai.user.message",
            body={"content": "hi", "parts": [1, None]}, attributes={"gen_ai.system": "openai"},
        ),
        ApiLogRecord(observed_timestamp=START + 2, context=inside, body="text", attributes={"event.name": "older"}),
        ApiLogRecord(observed_timestamp=START + 3, attributes={"event_name": "litellm's"}),
    )  # fmt: skip
    return [ReadableLogRecord(record, RESOURCE, scope) for record in records]


def _without_place(item: Any) -> Any:
    return type(item)(**{f: getattr(item, f) for f in item.__dataclass_fields__ if f != "where"})


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("trace.*")))
def test_what_the_sdk_exports_comes_back_as_the_same_spans(name: str) -> None:
    spans = [_without_place(span) for batch in read([DATA / name]) for span in batch.spans]
    assert sorted(map(repr, spans)) == sorted(map(repr, map(span_of, the_trace())))


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("logs.*")))
def test_what_the_sdk_exports_comes_back_as_the_same_log_records(name: str) -> None:
    records = [_without_place(record) for batch in read([DATA / name]) for record in batch.logs]
    assert list(map(repr, records)) == [repr(log_record_of(record)) for record in the_logs()]


def test_a_span_of_the_sdk() -> None:
    tool, call, root = map(span_of, the_trace())
    assert (root.trace_id, root.span_id, root.parent_id) == (
        "0af7651916cd43dd8448eb211c80319c",
        "00000000a0000001",
        "",
    )
    assert (tool.parent_id, call.parent_id) == (root.span_id, root.span_id)
    assert (root.kind, call.kind) == (1, 3)
    assert (call.status_code, call.status_message) == (2, "boom")
    assert (call.start_unix_nano, call.end_unix_nano) == (START + 30, START + 40)
    assert (call.scope_name, call.scope_version) == ("shop.agent", "0.3")
    assert call.links[0].span_id == tool.span_id
    assert call.events[0].attributes == {"index": 0, "text": "hello"}
    assert tool.attributes["texts"] == ["a", "b"]
    assert tool.attributes["map"] == {"list": [1, "two", None, {"deep": True}]}
    assert tool.attributes["bytes"] == b"\x00\x01\xff"
    assert type(tool.attributes["yes"]) is bool
    assert root.resource is tool.resource, "one dict for all spans of a resource"
    assert root.resource == {"service.name": "shop", "service.version": "1.2", "replicas": 3}


def test_what_the_limits_of_the_sdk_took_away_is_told() -> None:
    tool = span_of(the_trace(SpanLimits(max_span_attributes=5, max_events=0))[0])
    assert len(tool.attributes) == 5
    assert tool.dropped_attributes == 10


def test_a_span_without_ids_is_an_error_that_names_it() -> None:
    with pytest.raises(InputError, match=r"'lost'.*no ids"):
        span_of(ReadableSpan("lost", context=trace.INVALID_SPAN_CONTEXT))


def test_log_data_of_older_sdks_keep_the_resource_in_the_record() -> None:
    record = SimpleNamespace(
        trace_id=1,
        span_id=2,
        timestamp=None,
        observed_timestamp=5,
        body=("a",),
        attributes=None,
        resource=RESOURCE,
    )
    read_ = log_record_of(SimpleNamespace(log_record=record, instrumentation_scope=None))  # type: ignore[arg-type]
    assert (read_.trace_id, read_.span_id, read_.time_unix_nano) == (f"{1:032x}", f"{2:016x}", 5)
    assert read_.body == ["a"]
    assert read_.resource["service.name"] == "shop"
    assert (read_.name, read_.scope_name) == ("", "")


def test_ids_and_types_are_those_of_the_model() -> None:
    assert all(isinstance(span, Span) for span in map(span_of, the_trace()))
    record = log_record_of(the_logs()[2])
    assert isinstance(record, LogRecord)
    assert (record.trace_id, record.span_id, record.name) == ("", "", "litellm's")
