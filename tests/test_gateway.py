"""The gateway's hop: OTLP in, the same OTLP out, but for what is added to the spans of model calls."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import zstandard
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs.otlp_json import spans_of as spans_of_json
from otel_ctx.inputs.otlp_protobuf import spans_of
from otel_ctx.model import Said
from otel_ctx.outputs.attributes import attributes, link
from tests.gateway_rig import (
    SECOND,
    GatewayRig,
    GrpcDownstream,
    HttpDownstream,
    Reply,
    ask,
    chat,
    content_log,
    ours,
    partial_success,
    plain,
    request,
)

CORPUS = Path(__file__).parent / "corpus"
JSON = "application/json"


@pytest.fixture
def down() -> Iterator[HttpDownstream]:
    with HttpDownstream() as downstream:
        yield downstream


@pytest.fixture
def rig(down: HttpDownstream) -> Iterator[GatewayRig]:
    with GatewayRig(down.url) as gateway:
        yield gateway


# ---- what is forwarded


def test_a_request_without_model_calls_is_forwarded_as_the_very_bytes_that_came(
    rig: GatewayRig, down: HttpDownstream
) -> None:
    # A field of a later OTLP, and an order of fields that no serializer writes.
    body = request(plain(1)) + b"\xfa\x07\x03abc" + request(plain(2))
    assert rig.post("/v1/traces", body).status_code == 200
    rig.call("traces", body)
    assert down.of("traces") == [body, body]
    assert rig.spans("not_genai") == 2  # the second delivery is known


def test_a_span_of_a_call_gains_ours_and_keeps_all_it_had(rig: GatewayRig, down: HttpDownstream) -> None:
    body = request(chat(1, 0), plain(1))
    later = ExportTraceServiceRequest.FromString(body)
    unknown = b"\xfa\x07\x03abc"  # field 127
    later.resource_spans[0].scope_spans[0].spans[0].MergeFromString(unknown)
    sent = later.SerializeToString()
    rig.call("traces", sent)
    arrived = ExportTraceServiceRequest.FromString(down.of("traces")[0])
    span = arrived.resource_spans[0].scope_spans[0].spans[0]
    assert ours(span)["otelctx.call.role"] == "primary"
    assert ours(span)["otelctx.conversation.turn"] == 1
    assert unknown in span.SerializeToString()
    kept = [a for a in span.attributes if not a.key.startswith("otelctx.")]
    del span.attributes[:]
    span.attributes.extend(kept)
    del span.events[:]
    assert arrived == later


@pytest.mark.parametrize("exporter", ["grpc", "http"])
@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_real_exporters_through_every_pair_of_protocols(exporter: str, make: Any) -> None:
    with make() as down, GatewayRig(down.url) as rig:
        out: Any = (
            GrpcExporter(endpoint=rig.grpc, insecure=True)
            if exporter == "grpc"
            else HttpExporter(endpoint=f"{rig.http}/v1/traces")
        )
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(out))
        tracer = provider.get_tracer("opentelemetry.util.genai")
        for turn in range(3):
            with tracer.start_as_current_span("chat", attributes=dict(chat(1, turn).attributes)):
                pass
        assert provider.force_flush()
        provider.shutdown()
        turns = [ours(s)["otelctx.conversation.turn"] for s in down.spans()]
        assert turns == [1, 2, 3]
        assert [len(s.links) for s in down.spans()] == [0, 1, 1]


@pytest.mark.parametrize(
    "name",
    [
        "otel-genai-openai-chat-spanonly",
        "oi-anthropic",
        "oll053-openai-chat-long-limit128",
        "langfuse-chat-stream",
    ],
)
def test_attributes_are_those_of_the_offline_analysis(down: HttpDownstream, name: str) -> None:
    """Of dumps whose spans arrive in one batch, so that nothing is provisional about them."""
    compared = 0
    spans = _spans(CORPUS / name / "traces.jsonl.gz")
    with GatewayRig(down.url) as rig:
        assert rig.post("/v1/traces", request(*spans)).status_code == 200
        engine = Engine(Settings(tokenizer="bytes"))
        engine.feed(spans)
        by_call = {r.call.id: r for r in engine.close().readings}
        for span in down.spans():
            mine = ours(span)
            if mine.get("otelctx.call.role") != "primary":
                continue
            reading = by_call[f"{span.trace_id.hex()}:{span.span_id.hex()}"]
            wanted = {**attributes(Said(reading, (), ()), "primary"), "otelctx.findings": reading.findings}
            assert mine.pop("otelctx.provisional") in (True, False)
            assert {key: _plain(got) for key, got in mine.items()} == {
                key: list(said) if isinstance(said, tuple) else said
                for key, said in wanted.items()
                if said != () and key != "otelctx.provisional"
            }
            to = link(reading)
            assert [(x.trace_id.hex(), x.span_id.hex()) for x in span.links[-1:]] == ([to] if to else [])
            compared += 1
    assert compared


def _spans(file: Path) -> list[Any]:
    with gzip.open(file, "rt") as lines:
        return [span for line in lines for span in spans_of_json(json.loads(line), str(file))]


def _plain(value: Any) -> Any:
    return [v.string_value for v in value.values] if hasattr(value, "values") else value


def test_metrics_pass_untouched(rig: GatewayRig, down: HttpDownstream) -> None:
    body = ExportMetricsServiceRequest()
    body.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=3)
    sent = body.SerializeToString() + b"\xfa\x07\x03abc"
    assert rig.post("/v1/metrics", sent).status_code == 200
    rig.call("metrics", sent)
    assert down.of("metrics") == [sent, sent]


def test_content_in_log_records_is_joined_to_its_span(rig: GatewayRig, down: HttpDownstream) -> None:
    now = time.time_ns() - 1000 * SECOND  # turn 1 has just ended
    first, second = chat(1, 0, start=now), chat(1, 1, start=now)
    bare = chat(1, 0, content=False, start=now), chat(1, 1, content=False, start=now)
    before = content_log(bare[0], json.loads(first.attributes["gen_ai.input.messages"]))
    after = content_log(bare[1], json.loads(second.attributes["gen_ai.input.messages"]))
    assert rig.post("/v1/logs", before).status_code == 200
    rig.post("/v1/traces", request(bare[0]))
    rig.post("/v1/traces", request(bare[1]))
    rig.call("logs", after)
    assert down.of("logs") == [before, after]
    one, two = map(ours, down.spans())
    assert (one["otelctx.completeness"], one["otelctx.provisional"]) == ("partial", False)  # no tools
    assert (two["otelctx.completeness"], two["otelctx.provisional"]) == ("usage_only", True)
    sent = rig.settled()["otelctx_context_segment_tokens_total"]["user", "openai", "gpt-4o", "shop"]
    assert sent > 2 * one["otelctx.segments.user.tokens"]  # what came late counts too


# ---- bodies


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda b: gzip.compress(b[:100], mtime=0) + gzip.compress(b[100:])),
        ("zstd", zstandard.ZstdCompressor().compress),
        (
            "zstd",
            lambda b: zstandard.ZstdCompressor().compress(b[:9]) + zstandard.ZstdCompressor().compress(b[9:]),
        ),
        ("identity", lambda b: b),
    ],
)
def test_packed_bodies(rig: GatewayRig, down: HttpDownstream, encoding: str, pack: Any) -> None:
    body = request(plain(1), plain(2))
    assert rig.post("/v1/traces", pack(body), content_encoding=encoding).status_code == 200
    assert down.of("traces") == [body]


def test_grpc_gzip(rig: GatewayRig, down: HttpDownstream) -> None:
    body = request(plain(1))
    with grpc.insecure_channel(rig.grpc, compression=grpc.Compression.Gzip) as channel:
        channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(body, timeout=10)
    assert down.of("traces") == [body]


def test_json_is_read_as_the_specification_says(rig: GatewayRig, down: HttpDownstream) -> None:
    value: dict[str, Any] = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "n", "version": "1"},
                        "spans": [
                            {
                                "traceId": "5B8EFFF798038103D269B633813FC60C",
                                "spanId": "EEE19B7EC3C1B174",
                                "parentSpanId": "",
                                "name": "x",
                                "kind": 3,
                                "startTimeUnixNano": "1544712660000000000",
                                "endTimeUnixNano": 1544712661000000000,
                                "status": {"code": "STATUS_CODE_ERROR"},
                                "aFieldOfTheFuture": {"a": [1]},
                                "attributes": [
                                    {"key": "i", "value": {"intValue": "9007199254740993"}},
                                    {"key": "d", "value": {"doubleValue": 0.5}},
                                    {"key": "b", "value": {"boolValue": True}},
                                    {"key": "y", "value": {"bytesValue": "AAH/"}},
                                    {"key": "n", "value": {}},
                                    {"key": "l", "value": {"arrayValue": {"values": [{"stringValue": "ü"}]}}},
                                    {
                                        "key": "m",
                                        "value": {
                                            "kvlistValue": {
                                                "values": [{"key": "k", "value": {"intValue": 1}}]
                                            }
                                        },
                                    },
                                ],
                            }
                        ],
                    }
                ],
            }
        ]
    }
    answer = rig.post("/v1/traces", json.dumps(value).encode(), JSON)
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, JSON, {})
    [span] = down.spans()
    assert span.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert span.span_id.hex() == "eee19b7ec3c1b174"
    assert (span.kind, span.status.code, span.end_time_unix_nano) == (3, 2, 1544712661000000000)
    held = {a.key: a.value for a in span.attributes}
    assert held["i"].int_value == 9007199254740993
    assert (held["d"].double_value, held["b"].bool_value, held["y"].bytes_value) == (0.5, True, b"\0\1\xff")
    assert held["n"].WhichOneof("value") is None
    assert held["l"].array_value.values[0].string_value == "ü"
    assert held["m"].kvlist_value.values[0].value.int_value == 1


@pytest.mark.parametrize("signal", ["logs", "metrics"])
def test_json_of_the_other_signals(rig: GatewayRig, down: HttpDownstream, signal: str) -> None:
    group, scope, records = {
        "logs": (
            "resourceLogs",
            "scopeLogs",
            {"logRecords": [{"body": {"stringValue": "hello"}, "traceId": "ab" * 16}]},
        ),
        "metrics": (
            "resourceMetrics",
            "scopeMetrics",
            {"metrics": [{"name": "m", "sum": {"isMonotonic": True}}]},
        ),
    }[signal]
    body = json.dumps({group: [{scope: [records]}]}).encode()
    assert rig.post(f"/v1/{signal}", body, JSON).status_code == 200
    [sent] = down.of(signal)
    if signal == "logs":
        record = ExportLogsServiceRequest.FromString(sent).resource_logs[0].scope_logs[0].log_records[0]
        assert (record.body.string_value, record.trace_id.hex()) == ("hello", "ab" * 16)
    else:
        metric = ExportMetricsServiceRequest.FromString(sent).resource_metrics[0].scope_metrics[0].metrics[0]
        assert metric.sum.is_monotonic


# ---- answers


@pytest.mark.parametrize(
    ("body", "kind", "encoding", "status"),
    [
        (b"\xff\xff\xff", "application/x-protobuf", "", 400),
        (b"{", JSON, "", 400),
        (b'{"resourceSpans": 3}', JSON, "", 400),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}', JSON, "", 400),
        (b"[]", JSON, "", 400),
        (b"x", "text/plain", "", 415),
        (b"x", "", "", 415),
        (b"x", "application/x-protobuf", "br", 415),
        (b"no gzip", "application/x-protobuf", "gzip", 400),
        (gzip.compress(b"abc" * 100, mtime=0)[:-12], "application/x-protobuf", "gzip", 400),
        (b"no zstd", "application/x-protobuf", "zstd", 400),
    ],
)
def test_what_cannot_be_read_is_refused(
    rig: GatewayRig, down: HttpDownstream, body: bytes, kind: str, encoding: str, status: int
) -> None:
    answer = rig.post("/v1/traces", body, kind, **({"content_encoding": encoding} if encoding else {}))
    assert answer.status_code == status
    if kind == JSON:
        assert answer.json()["message"]
    else:
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert status_pb2.Status.FromString(answer.content).message
    assert "retry-after" not in answer.headers
    assert not down.bodies
    assert rig.metrics()["otelctx_gateway_requests_total"]["refused", "traces"] == 1


def test_an_invalid_message_by_grpc(rig: GatewayRig) -> None:
    with pytest.raises(grpc.RpcError) as error:
        rig.call("traces", b"\xff\xff\xff")
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_other_paths_and_methods(rig: GatewayRig) -> None:
    assert rig.post("/v1/profiles", b"").status_code == 404
    assert ask("GET", f"{rig.http}/v1/traces").status_code == 405
    with grpc.insecure_channel(rig.grpc) as channel, pytest.raises(grpc.RpcError) as error:
        channel.unary_unary("/x.Y/Z")(b"", timeout=10)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_a_partial_success_is_passed_back(make: Any) -> None:
    said = partial_success(2, "two were odd")
    with make(lambda path, body: Reply(body=said)) as down, GatewayRig(down.url) as rig:
        assert rig.post("/v1/traces", request(plain(1))).content == said
        assert rig.call("traces", request(plain(2))) == said
        body = b'{"resourceSpans": []}'
        assert rig.post("/v1/traces", body, JSON).json() == {
            "partialSuccess": {"rejectedSpans": "2", "errorMessage": "two were odd"}
        }
        counted = rig.metrics()["otelctx_gateway_exports_total"]
        assert counted[f"127.0.0.1:{down.port}", "partial"] == 3


def test_a_downstream_that_answers_in_words_of_its_own_has_accepted() -> None:
    with HttpDownstream(lambda p, b: Reply(200, b'{"ok": true}')) as down, GatewayRig(down.url) as rig:
        assert rig.post("/v1/traces", b'{"resourceSpans": []}', JSON).json() == {}
        assert rig.post("/v1/traces", request(plain(1))).content == b""
        assert rig.call("traces", request(plain(2))) == b""


@pytest.mark.parametrize(
    ("status", "header", "http", "again", "code"),
    [
        (503, "7", 503, "7", grpc.StatusCode.UNAVAILABLE),
        (429, "3", 503, "3", grpc.StatusCode.UNAVAILABLE),
        (502, None, 503, None, grpc.StatusCode.UNAVAILABLE),
        (400, None, 400, None, grpc.StatusCode.INVALID_ARGUMENT),
        (401, None, 401, None, grpc.StatusCode.UNAUTHENTICATED),
        (413, None, 413, None, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (500, None, 500, None, grpc.StatusCode.INTERNAL),
    ],
)
def test_what_an_http_downstream_refuses_is_refused(
    status: int, header: str | None, http: int, again: str | None, code: grpc.StatusCode
) -> None:
    headers = {"Retry-After": header} if header else {}
    with HttpDownstream(lambda p, b: Reply(status, headers=headers)) as down, GatewayRig(down.url) as rig:
        answer = rig.post("/v1/traces", request(plain(1)))
        assert (answer.status_code, answer.headers.get("retry-after")) == (http, again)
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", request(plain(1)))
        assert error.value.code() is code
        result = "retry" if http == 503 else "refused"
        counted = rig.metrics()
        assert counted["otelctx_gateway_requests_total"][result, "traces"] == 2
        assert counted["otelctx_self_exports_total"]["false",] == 2


def _retry_info(code: int, seconds: int) -> bytes:
    status = status_pb2.Status(code=code)
    info = error_details_pb2.RetryInfo()
    info.retry_delay.seconds = seconds
    status.details.add().Pack(info)
    encoded: bytes = status.SerializeToString()
    return encoded


@pytest.mark.parametrize(
    ("code", "details", "http", "again"),
    [
        (14, b"", 503, None),
        (14, _retry_info(14, 9), 503, "9"),
        (8, _retry_info(8, 4), 429, "4"),
        (8, b"", 413, None),
        (4, b"", 503, None),
        (3, b"", 400, None),
        (16, b"", 401, None),
        (13, b"", 500, None),
    ],
)
def test_what_a_grpc_downstream_refuses_is_refused(
    code: int, details: bytes, http: int, again: str | None
) -> None:
    with GrpcDownstream(lambda p, b: Reply(code, details)) as down, GatewayRig(down.url) as rig:
        answer = rig.post("/v1/traces", request(plain(1)))
        assert (answer.status_code, answer.headers.get("retry-after")) == (http, again)
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", request(plain(1)))
        assert error.value.code().value[0] == code
        if details:
            trailers = dict(error.value.trailing_metadata())
            assert trailers["grpc-status-details-bin"] == details


# ---- several downstreams


def test_the_first_downstream_decides_and_the_others_are_counted() -> None:
    with (
        HttpDownstream() as first,
        HttpDownstream(lambda p, b: Reply(503)) as second,
        GrpcDownstream() as third,
        GatewayRig(
            {"url": first.url, "name": "first", "headers": {"x-key": "secret"}},
            {"url": second.url, "name": "second"},
            {"url": third.url, "name": "third"},
        ) as rig,
    ):
        assert rig.post("/v1/traces", request(chat(1, 0))).status_code == 200
        second.wait_for(1)
        third.wait_for(1)
        rig.run(rig.gateway.relay.finish())
        assert first.bodies[0][2]["x-key"] == "secret"
        assert first.of("traces") == third.of("traces")
        counted = rig.metrics()["otelctx_gateway_exports_total"]
        assert counted["first", "accepted"] == counted["second", "retry"] == counted["third", "accepted"] == 1
        assert rig.metrics()["otelctx_self_exports_total"] == {("true",): 2, ("false",): 1}
    with HttpDownstream(lambda p, b: Reply(400)) as first, HttpDownstream() as second:
        with GatewayRig(first.url, second.url) as rig:
            assert rig.post("/v1/traces", request(plain(1))).status_code == 400
        assert second.arrived().total() == 1


# ---- tenants


@pytest.mark.parametrize("by", ["header", "metadata", "attribute"])
def test_tenants_have_states_of_their_own(down: HttpDownstream, by: str) -> None:
    """The same conversation told by two tenants is two, and two by one is one."""
    settings = {"tenant_attribute": "tenant.id"} if by == "attribute" else {"tenant_header": "X-Tenant"}
    with GatewayRig(down.url, **settings) as rig:

        def send(tenant: str, turn: int, trace: int) -> None:
            span = chat(trace, turn)
            told = {"tenant.id": tenant} if by == "attribute" else {}
            said = chat(1, turn).attributes
            body = request(replace(span, attributes=said, resource={**span.resource, **told}))
            if by == "metadata":
                rig.call("traces", body, (("x-tenant", tenant),))
            else:
                rig.post("/v1/traces", body, **({"x_tenant": tenant} if by == "header" else {}))

        send("a", 0, 1)
        send("b", 1, 2)
        send("a", 1, 3)
        a1, b2, a2 = (ours(s) for s in down.spans())
        assert a2["otelctx.conversation.relation"] == "continues"
        assert a2["otelctx.conversation.id"] == a1["otelctx.conversation.id"]
        assert b2["otelctx.conversation.id"] != a1["otelctx.conversation.id"]
        assert rig.metrics()["otelctx_self_conversations_tracked"][()] == 2


def test_more_tenants_than_may_be_pass_unanalysed(down: HttpDownstream) -> None:
    with GatewayRig(down.url, tenant_header="x-tenant", max_tenants=2) as rig:
        for n, tenant in enumerate("abca"):
            rig.post("/v1/traces", request(chat(n, 0)), x_tenant=tenant)
        roles = ["otelctx.call.role" in ours(s) for s in down.spans()]
        assert roles == [True, True, False, True]
        assert rig.spans("dropped") == 1


# ---- what has been through one of us


def test_a_span_that_was_enriched_before_is_left_as_it_is(down: HttpDownstream) -> None:
    with GatewayRig(down.url) as second, GatewayRig(second.http) as first:
        first.post("/v1/traces", request(chat(1, 0)))
        [span] = down.spans()
        assert [a.key for a in span.attributes].count("otelctx.call.role") == 1
        assert (first.spans("analysed"), second.spans("analysed"), second.spans("duplicate")) == (1, 0, 1)
        assert "otelctx_calls_total" not in second.metrics()


def test_the_events_are_on_the_span(rig: GatewayRig, down: HttpDownstream) -> None:
    rig.post("/v1/traces", request(chat(1, 0)))
    [span] = down.spans()
    told = [e for e in span.events if e.name == "otelctx.finding"]
    kinds = [
        v.string_value
        for a in span.attributes
        if a.key == "otelctx.findings"
        for v in a.value.array_value.values
    ]
    assert (
        [a.value.string_value for e in told for a in e.attributes if a.key.endswith(".kind")] == kinds != []
    )
    assert {e.time_unix_nano for e in told} == {span.end_time_unix_nano}


def test_responses_are_what_the_services_answer(rig: GatewayRig) -> None:
    assert (
        ExportTraceServiceResponse.FromString(rig.call("traces", request(plain(1))))
        == ExportTraceServiceResponse()
    )
    assert list(spans_of(ExportTraceServiceRequest.FromString(request(plain(1))), ""))
