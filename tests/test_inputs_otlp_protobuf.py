"""OTLP's protobuf: spans, log records and metrics are told apart, and damage costs only itself."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLogRecord
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from otel_ctx.inputs import otlp_protobuf
from otel_ctx.inputs.interface import OVERLONG, Records, Skipped

DATA = Path(__file__).parent / "data" / "inputs"
TRACE, SPAN = bytes.fromhex("0af7651916cd43dd8448eb211c80319c"), bytes.fromhex("b7ad6b7169203331")


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def span(name: str = "chat", trace_id: bytes = TRACE, span_id: bytes = SPAN) -> ProtoSpan:
    return ProtoSpan(
        trace_id=trace_id, span_id=span_id, name=name, start_time_unix_nano=5, attributes=[text("a", "b")]
    )


def traces(*spans: ProtoSpan) -> TracesData:
    return TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])])


def read(data: bytes) -> tuple[Records, list[Skipped]]:
    skipped: list[Skipped] = []
    pieces = list(otlp_protobuf.read(io.BytesIO(data), "f", skipped))
    return Records([s for p in pieces for s in p.spans], [r for p in pieces for r in p.logs]), skipped


def test_each_resource_comes_by_itself() -> None:
    data = traces(span("one")).SerializeToString() + traces(span("two")).SerializeToString()
    skipped: list[Skipped] = []
    pieces = list(otlp_protobuf.read(io.BytesIO(data), "f", skipped))
    assert [[s.name for s in piece.spans] for piece in pieces] == [["one"], ["two"]]
    assert {s.where for piece in pieces for s in piece.spans} == {"f"}
    assert not skipped


def test_log_records_are_told_from_spans() -> None:
    record = ProtoLogRecord(
        observed_time_unix_nano=7, trace_id=TRACE, span_id=SPAN, body=AnyValue(string_value="hi"),
        attributes=[text("event.name", "gen_ai.choice")], event_name="",
    )  # fmt: skip
    bare = ProtoLogRecord(time_unix_nano=9)
    data = LogsData(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[record, bare])])])
    records, skipped = read(data.SerializeToString())
    assert (records.spans, skipped) == ([], [])
    first, second = records.logs
    assert (first.trace_id, first.span_id, first.name, first.body) == (
        TRACE.hex(),
        SPAN.hex(),
        "gen_ai.choice",
        "hi",
    )
    assert (first.time_unix_nano, second.time_unix_nano) == (7, 9)
    assert (second.trace_id, second.span_id, second.body) == ("", "", None)
    assert list(otlp_protobuf.logs_of(data, "f")) == list(records.logs)


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=10), st.integers(0, 2**60))
def test_metrics_are_neither(name: str, description: str, unit: str, time: int) -> None:
    gauge = Gauge(data_points=[NumberDataPoint(time_unix_nano=time, as_int=time)])
    metric = Metric(name=name, description=description, unit=unit, gauge=gauge)
    data = MetricsData(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[metric])])])
    records, skipped = read(data.SerializeToString())
    assert records == ([], [])
    assert [note.where for note in skipped] == ["f, byte 0"]


def test_a_malformed_span_is_passed_over() -> None:
    records, skipped = read(traces(span("a"), span("b", b"abc"), span("c", TRACE, b"")).SerializeToString())
    assert [s.name for s in records.spans] == ["a"]
    assert skipped == [
        Skipped("f", "scopeSpans[0].spans[1]: traceId is of 3 bytes, not 16"),
        Skipped("f", "scopeSpans[0].spans[2]: no spanId"),
    ]


def test_text_that_is_no_utf8_costs_only_its_span() -> None:
    data = traces(span("good"), span("bad"), span("fine"))
    data.resource_spans[0].resource.attributes.append(text("service.name", "shop"))
    data.resource_spans[0].scope_spans[0].scope.name = "lib"
    records, skipped = read(data.SerializeToString().replace(b"bad", b"b\xff\xfe"))
    assert [(s.name, s.scope_name, s.resource["service.name"]) for s in records.spans] == [
        ("good", "lib", "shop"),
        ("fine", "lib", "shop"),
    ]
    assert skipped == [Skipped("f, byte 0", "a record in it does not parse")]


def test_ids_that_a_json_reader_took_for_base64() -> None:
    wrong = span("a", base64.b64decode(TRACE.hex()), base64.b64decode(SPAN.hex()))
    records, skipped = read(traces(wrong).SerializeToString())
    assert [(s.trace_id, s.span_id) for s in records.spans] == [(TRACE.hex(), SPAN.hex())]
    assert not skipped


def test_what_was_cut_off_costs_only_the_last_resource() -> None:
    first = traces(span("one")).SerializeToString()
    data = first + traces(span("two")).SerializeToString()
    for end in range(len(first) + 1, len(data)):
        records, skipped = read(data[:end])
        assert [s.name for s in records.spans] == ["one"]
        assert [note.where for note in skipped] == [f"f, byte {len(first)}"]


def test_a_resource_that_says_it_is_too_long_is_not_waited_for() -> None:
    good = traces(span("one")).SerializeToString()
    records, skipped = read(good + b"\x0a" + b"\xff" * 8 + b"\x01" + b"\0" * 100)
    assert [s.name for s in records.spans] == ["one"]
    assert skipped == [Skipped(f"f, byte {len(good)}", f"a resource {OVERLONG}: not read from here on")]


@given(st.binary(max_size=60), st.booleans())
def test_no_bytes_make_it_fail(data: bytes, framed: bool) -> None:
    otlp_protobuf.claims(data)
    read(bytes((0x0A, len(data))) + data if framed else data)


@given(st.data())
def test_no_damage_makes_it_fail(data: st.DataObject) -> None:
    whole = bytearray((DATA / "trace.binpb").read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    read(bytes(whole))


@pytest.mark.parametrize("name", ["trace.binpb", "logs.binpb", "trace.two-requests.binpb"])
def test_requests_are_claimed(name: str) -> None:
    assert otlp_protobuf.claims((DATA / name).read_bytes())
    assert otlp_protobuf.claims(traces(span()).SerializeToString())


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"\n\n\n{}",
        b'\n{\n  "a": 1}',
        b"\n\r\n\r\n{}",
        b'\n{"resourceSpans":[]}',
        b"\n[\n]",
        b"\n\ntext " * 9,
        b"text",
        b"\x00\x00\x01\x00\n",
    ],
)
def test_texts_that_begin_with_a_new_line_are_not(head: bytes) -> None:
    assert not otlp_protobuf.claims(head)
