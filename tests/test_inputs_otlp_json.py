"""OTLP's JSON as it is met: every spelling of a field, and what is malformed costs only itself."""

from __future__ import annotations

import base64
import copy
import math
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, TracesData
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from otel_ctx.inputs import otlp_json, otlp_protobuf
from otel_ctx.inputs.fields import id_of_text
from otel_ctx.inputs.interface import Skipped
from otel_ctx.model import LogRecord, Span

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def request(*spans: Any, **group: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}], **group}]}


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE, "spanId": SPAN, **fields}


def read(document: Any) -> tuple[list[Span], list[Skipped]]:
    skipped: list[Skipped] = []
    return list(otlp_json.spans_of(document, "here", skipped)), skipped


def one(**fields: Any) -> Span:
    spans, skipped = read(request(span(**fields)))
    assert not skipped
    return spans[0]


def attribute(value: Any) -> Any:
    return one(attributes=[{"key": "k", "value": value}]).attributes["k"]


def log(**fields: Any) -> LogRecord:
    (record,) = otlp_json.logs_of({"resourceLogs": [{"scopeLogs": [{"logRecords": [fields]}]}]}, "here")
    return record


# ---- values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": -5}, -5),
        ({"boolValue": False}, False),
        ({"doubleValue": 2}, 2.0),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"bytesValue": "AAH/"}, b"\x00\x01\xff"),
        ({"bytesValue": "AAH_"}, b"\x00\x01\xff"),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {}]}}, ["a", None]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}, {"a": 1}),
        ({}, None),
        (None, None),
        ({"stringValue": None, "intValue": "3"}, 3),
        ({"string_value": None, "int_value": 3}, 3),
        ({"kvlist_value": {"values": [{"key": "a", "value": {"string_value": "b"}}]}}, {"a": "b"}),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    read_ = attribute(value)
    assert read_ == expected
    assert type(read_) is type(expected)


def test_not_a_number() -> None:
    assert math.isnan(attribute({"doubleValue": "NaN"}))


@pytest.mark.parametrize(
    "bad",
    [
        {"key": "k", "value": {"intValue": "many"}},
        {"key": "k", "value": {"bytesValue": "?"}},
        {"key": "k", "value": {"arrayValue": 5}},
        {"key": "k", "value": {"kvlistValue": {"values": [{"value": {"stringValue": "no key"}}]}}},
        {"key": 5, "value": {"stringValue": "x"}},
        {"key": [], "value": {"stringValue": "x"}},
        {"value": {"stringValue": "x"}},
        "text",
        None,
    ],
)
def test_an_attribute_that_cannot_be_read_counts_as_dropped(bad: Any) -> None:
    good = {"key": "a", "value": {"stringValue": "b"}}
    read_ = one(attributes=[good, bad, {"key": "n", "value": {"intValue": "1"}}], droppedAttributesCount=2)
    assert read_.attributes == {"a": "b", "n": 1}
    assert read_.dropped_attributes == 3


def test_a_value_that_is_nested_too_deeply_counts_as_dropped() -> None:
    deep: dict[str, Any] = {"stringValue": "x"}
    for _ in range(5000):
        deep = {"arrayValue": {"values": [deep]}}
    read_ = one(attributes=[{"key": "deep", "value": deep}, {"key": "a", "value": {"stringValue": "b"}}])
    assert (read_.attributes, read_.dropped_attributes) == ({"a": "b"}, 1)


def test_plain_attributes_are_taken_as_they_are() -> None:
    assert one(attributes={"a": 1, "b": ["x"]}).attributes == {"a": 1, "b": ["x"]}
    assert one(attributes=[{"key": "a", "value": "bare"}]).attributes == {"a": "bare"}
    assert one(attributes=None).attributes == {}


# ---- ids, numbers, names


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [
        (TRACE, SPAN),
        (TRACE.upper(), SPAN.upper()),
        ("0x" + TRACE, "0x" + SPAN),
        (base64.b64encode(bytes.fromhex(TRACE)).decode(), base64.b64encode(bytes.fromhex(SPAN)).decode()),
        (base64.b64encode(TRACE.encode()).decode(), base64.b64encode(SPAN.encode()).decode()),
        (base64.urlsafe_b64encode(bytes.fromhex(TRACE)).decode().rstrip("="), SPAN),
    ],
)
def test_ids_are_lower_case_hex(trace_id: str, span_id: str) -> None:
    read_ = one(
        traceId=trace_id,
        spanId=span_id,
        parentSpanId=span_id,
        links=[{"traceId": trace_id, "spanId": span_id}],
    )
    assert (read_.trace_id, read_.span_id, read_.parent_id) == (TRACE, SPAN, SPAN)
    assert (read_.links[0].trace_id, read_.links[0].span_id) == (TRACE, SPAN)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8))
def test_base64_and_hex_ids_are_never_mixed_up(trace_id: bytes, span_id: bytes) -> None:
    for raw, size in ((trace_id, 16), (span_id, 8)):
        wanted = raw.hex() if any(raw) else ""
        encoded = base64.b64encode(raw).decode()
        assert id_of_text(encoded, size) == id_of_text(raw.hex(), size) == wanted


def test_a_trace_id_of_64_bits_is_filled_up() -> None:
    assert one(traceId=SPAN).trace_id == "0" * 16 + SPAN


@pytest.mark.parametrize("none", ["", None, "0000000000000000"])
def test_a_root_has_no_parent(none: Any) -> None:
    assert one(parentSpanId=none).parent_id == ""


@pytest.mark.parametrize(
    ("kind", "number"), [(3, 3), ("SPAN_KIND_CLIENT", 3), ("client", 3), ("2", 2), ("?", 0), (None, 0)]
)
def test_kinds(kind: Any, number: int) -> None:
    assert one(kind=kind).kind == number


@pytest.mark.parametrize(
    ("code", "number"), [(2, 2), ("STATUS_CODE_ERROR", 2), ("OK", 1), ("STATUS_CODE_UNSET", 0)]
)
def test_status_codes(code: Any, number: int) -> None:
    read_ = one(status={"code": code, "message": "why"})
    assert (read_.status_code, read_.status_message) == (number, "why")


@pytest.mark.parametrize("time", ["1764500000000000001", 1764500000000000001])
def test_times_are_exact(time: Any) -> None:
    assert one(startTimeUnixNano=time, endTimeUnixNano=time).start_unix_nano == 1764500000000000001


# ---- what stands around the spans


def test_scope_and_resource() -> None:
    group = {
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeSpans": [
            {"scope": {"name": "lib", "version": "1"}, "spans": [span(), span(spanId="c" * 16)]},
            {"spans": [span(spanId="d" * 16)]},
        ],
    }
    spans, skipped = read({"resourceSpans": [group]})
    assert not skipped
    assert [(s.scope_name, s.scope_version) for s in spans] == [("lib", "1"), ("lib", "1"), ("", "")]
    assert all(s.resource is spans[0].resource for s in spans)
    assert spans[0].resource == {"service.name": "shop"}
    assert {s.where for s in spans} == {"here"}


def test_collectors_of_before_2022() -> None:
    library = {"name": "lib", "version": "1"}
    spans, skipped = read(
        {
            "resourceSpans": [
                {"instrumentationLibrarySpans": [{"instrumentationLibrary": library, "spans": [span()]}]}
            ]
        }
    )
    assert (spans[0].scope_name, spans[0].scope_version, skipped) == ("lib", "1", [])
    logs = {
        "resourceLogs": [{"instrumentationLibraryLogs": [{"instrumentationLibrary": library, "logs": [{}]}]}]
    }
    (record,) = otlp_json.logs_of(logs, "here")
    assert record.scope_name == "lib"


def test_snake_case_inside_camel_case() -> None:
    spans, _ = read(request({"trace_id": TRACE, "span_id": SPAN, "start_time_unix_nano": "5"}))
    assert spans[0].start_unix_nano == 5


def test_events_and_links() -> None:
    event = {"name": "e", "timeUnixNano": "7", "attributes": [{"key": "a", "value": {"intValue": 1}}]}
    read_ = one(
        events=[event, {"name": 5}, None, {**event, "droppedAttributesCount": 3}],
        droppedEventsCount=1,
        links=[{"traceId": TRACE, "spanId": SPAN, "attributes": event["attributes"]}, {"traceId": "?"}],
    )
    assert [(e.name, e.time_unix_nano, e.attributes, e.dropped_attributes) for e in read_.events] == [
        ("e", 7, {"a": 1}, 0),
        ("e", 7, {"a": 1}, 3),
    ]
    assert read_.dropped_events == 3
    assert [link.attributes for link in read_.links] == [{"a": 1}]


# ---- log records


def test_names_of_log_records() -> None:
    def named(**attributes: str) -> list[dict[str, Any]]:
        return [
            {"key": key.replace("__", "."), "value": {"stringValue": value}}
            for key, value in attributes.items()
        ]

    assert log(eventName="a", attributes=named(event__name="b")).name == "a"
    assert log(eventName="", attributes=named(event__name="b", event_name="c")).name == "b"
    assert log(attributes=named(event_name="c")).name == "c"
    assert log().name == ""


def test_times_and_bodies_of_log_records() -> None:
    assert log(timeUnixNano="5", observedTimeUnixNano="6").time_unix_nano == 5
    assert log(timeUnixNano="0", observedTimeUnixNano="6").time_unix_nano == 6
    record = log(
        body={"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}}, traceId=TRACE
    )
    assert (record.body, record.trace_id, record.span_id, record.time_unix_nano) == (
        {"content": "hi"},
        TRACE,
        "",
        0,
    )
    assert log(body={"stringValue": "text"}).body == "text"


# ---- malformed


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({}, "no traceId"),
        ({"traceId": TRACE}, "no spanId"),
        ({"traceId": "0" * 32, "spanId": SPAN}, "no traceId"),
        (span(traceId="secret prompt"), "traceId is neither hex nor base64"),
        (span(traceId=5), "traceId is no text"),
        (span(spanId="abcd"), "spanId is of 3 bytes, not 8"),
        (span(name=5), "name is no text"),
        (span(startTimeUnixNano="secret prompt"), "startTimeUnixNano is no number"),
        (span(endTimeUnixNano={}), "endTimeUnixNano is no number"),
        (span(attributes="secret prompt"), "attributes are no list"),
        (span(events={"a": 1}), "is no list"),
        (span(status=5), "malformed (AttributeError)"),
        ([], "malformed (AttributeError)"),
        (None, "malformed (TypeError)"),
    ],
)
def test_a_malformed_span_is_passed_over(bad: Any, why: str) -> None:
    spans, skipped = read(request(span(), bad, span(spanId="c" * 16)))
    assert [s.span_id for s in spans] == [SPAN, "c" * 16]
    assert skipped == [Skipped("here", f"resourceSpans[0].scopeSpans[0].spans[1]: {why}")]


def test_a_malformed_log_record_is_passed_over() -> None:
    skipped: list[Skipped] = []
    document = {
        "resourceLogs": [{"scopeLogs": [{"logRecords": [{"spanId": "?"}, {"body": {"stringValue": "b"}}]}]}]
    }
    assert [record.body for record in otlp_json.logs_of(document, "here", skipped)] == ["b"]
    assert skipped == [
        Skipped("here", "resourceLogs[0].scopeLogs[0].logRecords[0]: spanId is neither hex nor base64")
    ]


@pytest.mark.parametrize(
    "document",
    [
        {"resourceSpans": 5},
        {"resourceSpans": [None]},
        {"resourceSpans": [{"resource": 5}]},
        {"resourceSpans": [{"scopeSpans": {"spans": []}}]},
        {"resourceSpans": [{"scopeSpans": [None]}]},
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": 5}}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": {"traceId": TRACE}}]}]},
        {"resource_spans": 5},
        5,
        None,
    ],
)
def test_a_malformed_request_is_passed_over(document: Any) -> None:
    spans, skipped = read(document)
    assert not spans
    assert len(skipped) == 1
    good = request(span())["resourceSpans"]
    if isinstance(document, dict) and isinstance(document.get("resourceSpans"), list):
        spans, skipped = read({"resourceSpans": document["resourceSpans"] + good})
        assert (len(spans), len(skipped)) == (1, 1)


def test_what_is_malformed_may_also_go_unnoted() -> None:
    assert next(otlp_json.spans_of(request({}, span()), "here")).span_id == SPAN


def test_the_request_stays_as_it_was() -> None:
    document = request(span(attributes=[{"key": "a", "value": {"intValue": "1"}}]))
    before = copy.deepcopy(document)
    read(document)
    assert document == before


# ---- JSON and protobuf say the same

any_values = st.recursive(
    st.builds(AnyValue)
    | st.builds(AnyValue, string_value=st.text(max_size=8))
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(AnyValue, bool_value=st.booleans())
    | st.builds(AnyValue, double_value=st.floats(allow_nan=False))
    | st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
    lambda inside: (
        st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(inside, max_size=3)))
        | st.builds(
            AnyValue,
            kvlist_value=st.builds(
                KeyValueList,
                values=st.lists(
                    st.builds(KeyValue, key=st.text(min_size=1, max_size=4), value=inside), max_size=3
                ),
            ),
        )
    ),
    max_leaves=8,
)
proto_attributes = st.lists(
    st.builds(KeyValue, key=st.text(min_size=1, max_size=6), value=any_values), max_size=5
)
proto_spans = st.builds(
    ProtoSpan,
    trace_id=st.binary(min_size=16, max_size=16).filter(any),
    span_id=st.binary(min_size=8, max_size=8).filter(any),
    parent_span_id=st.sampled_from([b"", b"12345678"]),
    name=st.text(max_size=8),
    kind=st.integers(0, 5),
    start_time_unix_nano=st.integers(0, 2**64 - 1),
    end_time_unix_nano=st.integers(0, 2**64 - 1),
    attributes=proto_attributes,
    events=st.lists(
        st.builds(
            ProtoSpan.Event,
            name=st.text(max_size=4),
            time_unix_nano=st.integers(0, 2**63),
            attributes=proto_attributes,
        ),
        max_size=2,
    ),
    dropped_attributes_count=st.integers(0, 9),
)


@given(st.lists(proto_spans, max_size=3), proto_attributes, st.booleans(), st.booleans(), st.booleans())
def test_protobuf_and_its_json_are_read_alike(
    spans: list[ProtoSpan], resource: list[KeyValue], snake: bool, numbers: bool, hexadecimal: bool
) -> None:
    group = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    group.resource.attributes.extend(resource)
    data = TracesData(resource_spans=[group])
    document = MessageToDict(data, preserving_proto_field_name=snake, use_integers_for_enums=numbers)
    if hexadecimal:
        for shown in document["resource_spans" if snake else "resourceSpans"][0][
            "scope_spans" if snake else "scopeSpans"
        ]:
            for fields in shown.get("spans", ()):
                for key in {
                    "traceId",
                    "spanId",
                    "parentSpanId",
                    "trace_id",
                    "span_id",
                    "parent_span_id",
                } & set(fields):
                    fields[key] = base64.b64decode(fields[key]).hex()
    skipped: list[Skipped] = []
    from_json = list(otlp_json.spans_of(document, "here", skipped))
    assert not skipped
    assert repr(from_json) == repr(list(otlp_protobuf.spans_of(data, "here", skipped)))
    assert len(from_json) == len(spans)
