"""What goes wrong around a gateway: nothing that it has acknowledged is lost, and no call is counted twice."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
import pytest
from google.rpc import status_pb2
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_ctx.engine import LiveEngine
from otel_ctx.engine.settings import Settings
from otel_ctx.live import analysis, faults
from otel_ctx.live.analysis import Analysis
from otel_ctx.live.gateway import http_server
from otel_ctx.live.gateway.enricher import Tenants
from otel_ctx.live.gateway.signals import TRACES
from otel_ctx.model import Span
from tests.gateway_rig import (
    SECOND,
    START,
    WAIT,
    Downstream,
    GatewayRig,
    GrpcDownstream,
    HttpDownstream,
    Reply,
    chat,
    content_log,
    ours,
    plain,
    request,
    until,
)


@pytest.fixture
def down() -> Iterator[HttpDownstream]:
    with HttpDownstream() as downstream:
        yield downstream


def calls(rig: GatewayRig) -> float:
    return sum(rig.settled().get("otelctx_calls_total", {}).values())


def duplicates(down: Downstream) -> int:
    return sum(n - 1 for n in down.arrived().values())


# ---- the downstream


@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_a_downstream_that_is_killed_and_comes_back_under_load(make: Any) -> None:
    """Real exporters retry what was not acknowledged: all arrives, and each call counts once."""
    down = make()
    port = down.port
    spans = 120
    with GatewayRig(down.url) as rig:
        exporters: list[Any] = [
            GrpcExporter(endpoint=rig.grpc, insecure=True, timeout=WAIT),
            HttpExporter(endpoint=f"{rig.http}/v1/traces", timeout=WAIT),
        ]
        providers = []
        for exporter in exporters:
            provider = TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(
                BatchSpanProcessor(exporter, schedule_delay_millis=20, max_export_batch_size=10)
            )
            providers.append(provider)

        def work(n: int) -> None:
            tracer = providers[n].get_tracer("opentelemetry.util.genai")
            for turn in range(spans):
                with tracer.start_as_current_span("chat", attributes=dict(chat(n, turn % 5).attributes)):
                    time.sleep(0.005)

        with ThreadPoolExecutor(2) as pool:
            working = [pool.submit(work, n) for n in range(2)]
            down.wait_for(4)
            down.stop()
            until(lambda: rig.metrics()["otelctx_gateway_requests_total"]["retry", "traces"] >= 2)
            again = make(port=port)
            for each in working:
                each.result(WAIT)
        for provider in providers:
            assert provider.force_flush()
            provider.shutdown()
        arrived = down.arrived() + again.arrived()
        again.stop()
        assert len(arrived) == 2 * spans
        assert calls(rig) == 2 * spans
        assert rig.spans("analysed") == 2 * spans
        assert all("otelctx.call.role" in ours(s) for s in down.spans() + again.spans())


def test_a_slow_downstream_is_answered_for_with_an_error_that_may_be_tried_again() -> None:
    with (
        HttpDownstream(lambda p, b: Reply(delay=0.5)) as down,
        GatewayRig({"url": down.url, "timeout": 0.2}) as rig,
    ):
        answer = rig.post("/v1/traces", request(plain(1)))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    with (
        GrpcDownstream(lambda p, b: Reply(delay=0.5)) as slow,
        GatewayRig({"url": slow.url, "timeout": 0.2}) as rig,
    ):
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", request(plain(1)))
        assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_no_more_is_held_than_may_be_and_the_rest_is_told_to_come_again() -> None:
    hold = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        hold.wait(WAIT)
        return Reply()

    body = request(plain(1, "x" * 40_000))
    with (
        HttpDownstream(reply) as down,
        GatewayRig(down.url, max_in_flight_bytes=100_000, max_request_bytes=100_000) as rig,
        ThreadPoolExecutor(8) as pool,
    ):
        first = [pool.submit(rig.post, "/v1/traces", body) for _ in range(2)]
        down.wait_for(2)
        full = rig.post("/v1/traces", body)
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", body)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert rig.metrics()["otelctx_gateway_in_flight_bytes"][()] == 2 * len(body)
        hold.set()
        assert [f.result().status_code for f in first] == [200, 200]
        assert rig.post("/v1/traces", body).status_code == 200
        until(lambda: rig.metrics()["otelctx_gateway_in_flight_bytes"][()] == 0)
        assert len(down.accepted) == 3


def test_a_second_downstream_that_hangs_does_not_hold_up_the_first() -> None:
    hold = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        hold.wait(WAIT)
        return Reply()

    body = request(plain(1, "x" * 10_000))
    with HttpDownstream() as first, HttpDownstream(reply) as second:
        with GatewayRig(
            {"url": first.url, "name": "a"},
            {"url": second.url, "name": "b", "timeout": WAIT},
            max_in_flight_bytes=100_000,
            max_request_bytes=50_000,
        ) as rig:
            assert [rig.post("/v1/traces", body).status_code for _ in range(5)] == [200] * 5
            counted = rig.metrics()["otelctx_gateway_exports_total"]
            assert counted["a", "accepted"] == 5
            assert counted["b", "full"] == 3  # a quarter of the room is its own
            hold.set()
        assert len(second.accepted) == 2


def test_who_sent_goes_away_and_what_was_taken_in_arrives() -> None:
    go_on = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        go_on.wait(WAIT)
        return Reply()

    with HttpDownstream(reply) as down, GatewayRig(down.url) as rig:
        with grpc.insecure_channel(rig.grpc) as channel:
            call = channel.unary_unary(TRACES.method).future(request(chat(1, 0)))
            down.wait_for(1)
            call.cancel()
        go_on.set()
        until(lambda: down.arrived().total() == 1)
        rig.call("traces", request(chat(1, 0)))  # it tries again, of course
        assert calls(rig) == 1
        until(lambda: rig.metrics()["otelctx_gateway_in_flight_bytes"][()] == 0)


# ---- deliveries that come again


def test_a_batch_that_had_arrived_and_comes_again_counts_once_and_looks_the_same(
    down: HttpDownstream,
) -> None:
    with GatewayRig(down.url) as rig:
        batch = request(chat(1, 0), chat(2, 0), plain(1))
        next_turn = request(chat(1, 1))
        for body in (batch, next_turn, batch, batch, next_turn):
            assert rig.post("/v1/traces", body).status_code == 200
        sent = down.of("traces")
        assert sent[0] == sent[2] == sent[3] != batch
        assert sent[1] == sent[4]
        counted = rig.settled()
        assert sum(counted["otelctx_calls_total"].values()) == 3
        assert counted["otelctx_self_spans_total"]["analysed",] == 3
        assert counted["otelctx_self_spans_total"]["not_genai",] == 1
        assert down.arrived().total() == 11


def test_a_batch_that_was_not_acknowledged_and_comes_again_counts_once() -> None:
    answers = iter([503, 503, 0])
    with HttpDownstream(lambda p, b: Reply(next(answers))) as down, GatewayRig(down.url) as rig:
        body = request(chat(1, 0), chat(1, 1))
        assert [rig.post("/v1/traces", body).status_code for _ in range(3)] == [503, 503, 200]
        assert len({body for _, body, _ in down.bodies}) == 1
        assert calls(rig) == 2


def test_a_gateway_that_is_killed_and_comes_back_under_load(tmp_path: Any) -> None:
    """A sender with a queue loses nothing. What was not acknowledged when it was killed may count once more."""
    spans, size = 150, 10
    with HttpDownstream() as down:
        settings = {"state_dir": str(tmp_path), "save_interval": 1}
        rig = GatewayRig(down.url, **settings)
        port = rig.gateway.ports["grpc"]
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = GrpcExporter(endpoint=rig.grpc, insecure=True, timeout=WAIT)
        provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=10, max_export_batch_size=size)
        )
        tracer = provider.get_tracer("opentelemetry.util.genai")
        work = ThreadPoolExecutor(1).submit(_calls, tracer, spans)
        down.wait_for(4)
        counted = rig.spans("analysed")
        rig.kill()
        with GatewayRig(down.url, **settings, grpc=f"127.0.0.1:{port}") as rig:
            work.result(WAIT)
            assert provider.force_flush()
            provider.shutdown()
            counted += rig.spans("analysed")
        assert len(down.arrived()) == spans
        assert duplicates(down) <= size
        assert (
            spans - 2 * size <= counted <= spans + size
        )  # the first was asked a moment before it was killed


def _calls(tracer: Any, n: int) -> None:
    for turn in range(n):
        with tracer.start_as_current_span("chat", attributes=dict(chat(1, turn % 5).attributes)):
            time.sleep(0.01)


def test_a_tenant_that_was_quiet_makes_room() -> None:
    clock = [0.0]
    made: list[str] = []

    class Quiet:
        def drain(self) -> None:
            made.append("drained")

    tenants = Tenants(lambda: cast(Analysis, Quiet()), 2, lambda: clock[0])
    a, b = tenants.get("a"), tenants.get("b")
    clock[0] = 1000
    assert tenants.get("b") is b
    assert tenants.get("c") is None
    clock[0] = 3700
    assert tenants.get("c") is not None
    assert made == ["drained"]
    assert tenants.get("b") is b
    assert a is not None
    assert tenants.get("a") is None


# ---- sizes


@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_spans_of_10_mb_and_batches_over_4_mb(make: Any) -> None:
    """What is over the limit of a receiver by gRPC goes in several requests; a span that is larger than it by itself is
    refused there, with and without us."""
    with make() as down, GatewayRig(down.url) as rig:
        batch = [chat(c, 0, words=22_000) for c in range(40)]  # about 200 kB each
        size = len(request(*batch))
        assert size > 7_000_000
        rig.call("traces", request(*batch))
        assert len(down.arrived()) == 40
        assert all("otelctx.call.role" in ours(s) for s in down.spans())
        if make is GrpcDownstream:
            assert len(down.of("traces")) > 1
            assert max(map(len, down.of("traces"))) <= 4_000_000
        huge = request(chat(50, 0, words=1_200_000))
        assert len(huge) > 10_000_000
        if make is HttpDownstream:
            assert rig.post("/v1/traces", huge).status_code == 200
            assert down.spans()[-1].span_id == bytes.fromhex(chat(50, 0).span_id)
        else:
            with pytest.raises(grpc.RpcError) as error:
                rig.call("traces", huge)
            assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert calls(rig) == 41


def test_a_batch_that_ours_make_too_large_is_sent_in_parts() -> None:
    with GrpcDownstream() as down, GatewayRig({"url": down.url, "max_request_bytes": "20k"}) as rig:
        spans = [chat(c, 0) for c in range(25)]
        assert len(request(*spans)) < 20_000
        rig.call("traces", request(*spans))
        assert len(down.of("traces")) > 1
        assert len(down.arrived()) == 25


# ---- many


def test_five_thousand_conversations_at_once(down: HttpDownstream) -> None:
    n, step = 5000, 500
    with GatewayRig(down.url) as rig:
        for begin in range(0, n, step):
            body = request(*(chat(c, 0, words=2) for c in range(begin, begin + step)))
            assert rig.post("/v1/traces", body).status_code == 200
        again = request(*(chat(c, 1, words=2) for c in range(0, n, 10)))
        assert rig.post("/v1/traces", again).status_code == 200
        turns = [ours(s)["otelctx.conversation.turn"] for s in down.spans()]
        assert (turns.count(1), turns.count(2)) == (n, n // 10)
        counted = rig.settled()
        assert sum(counted["otelctx_calls_total"].values()) == n + n // 10
        assert counted["otelctx_self_conversations_tracked"][()] == n


# ---- analysis


class Crashing:
    """An engine that fails, or hangs until it is let go, at what a test says."""

    def __init__(self, at: Any) -> None:
        self._inner = LiveEngine(Settings(tokenizer="bytes"))
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def feed(self, spans: Any = (), logs: Any = ()) -> Any:
        return self._inner.feed(self._looked(spans), logs)

    def _looked(self, spans: Any) -> Iterator[Span]:
        for span in spans:
            self._at(span)
            yield span


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, RecursionError, BaseException])
def test_an_engine_that_crashes_costs_the_span_its_attributes_and_nothing_else(
    down: HttpDownstream, error: type[BaseException]
) -> None:
    def at(span: Span) -> None:
        if span.attributes.get("gen_ai.conversation.id") == "session-2":
            raise error("quotes a prompt")

    def prepare(gateway: Any) -> None:
        gateway.enricher.tenants._make = lambda: _analysis_of(gateway, lambda: Crashing(at))

    with GatewayRig(down.url, prepare=prepare) as rig:
        assert rig.post("/v1/traces", request(*(chat(c, 0) for c in range(5)))).status_code == 200
        assert rig.post("/v1/traces", request(chat(2, 1))).status_code == 200
        assert rig.post("/v1/traces", request(chat(1, 1))).status_code == 200
        roles = [ours(s).get("otelctx.call.role") for s in down.spans()]
        assert roles == ["primary", "primary", None, "primary", "primary", None, "primary"]
        assert rig.spans("failed") == 2


def _analysis_of(gateway: Any, engine: Any) -> Any:
    from otel_ctx.live.gateway.enricher import _analysis

    return _analysis(engine, gateway.instruments)


def test_analysis_that_hangs_holds_nothing_up_longer_than_it_may(down: HttpDownstream) -> None:
    go_on = threading.Event()

    def at(span: Span) -> None:
        if span.attributes.get("gen_ai.conversation.id") == "session-1":
            go_on.wait(WAIT)

    engine = Crashing(at)

    def prepare(gateway: Any) -> None:
        gateway.enricher.tenants._make = lambda: _analysis_of(gateway, lambda: engine)

    with GatewayRig(down.url, prepare=prepare, analysis_timeout=2) as rig:
        bodies = [request(chat(c, 0)) for c in range(6)]
        for body in bodies:
            assert rig.post("/v1/traces", body).status_code == 200
        assert down.of("traces")[1:] == bodies[1:]  # the very bytes
        assert rig.spans("dropped") == 4
        assert rig.metrics()["otelctx_gateway_late_batches_total"][()] == 1
        go_on.set()
        until(lambda: rig.gateway.desk._doing is None)
        assert rig.post("/v1/traces", bodies[1]).status_code == 200  # what was looked at too late
        assert rig.post("/v1/traces", bodies[3]).status_code == 200  # what was not looked at
        assert ["otelctx.call.role" in ours(s) for s in down.spans()[-2:]] == [True, True]


def test_no_more_waits_for_analysis_than_there_is_room_for(down: HttpDownstream) -> None:
    with GatewayRig(down.url, max_waiting_bytes=2000) as rig:
        large = request(chat(1, 0, words=500))
        assert rig.post("/v1/traces", large).status_code == 200
        assert down.of("traces") == [large]
        assert rig.spans("dropped") == 1


def test_a_span_that_cannot_be_read_is_forwarded(down: HttpDownstream) -> None:
    from dataclasses import replace

    odd = replace(plain(1), trace_id="00" * 16)
    with GatewayRig(down.url) as rig:
        body = request(odd, chat(1, 0))
        assert rig.post("/v1/traces", body).status_code == 200
        assert [("otelctx.call.role" in ours(s)) for s in down.spans()] == [False, True]
        assert rig.spans("unreadable") == 1


# ---- clocks


def test_the_clock_may_be_set(down: HttpDownstream, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [START + 3600 * SECOND]

    class Clock:
        def __getattr__(self, name: str) -> Any:
            return getattr(time, name)

        def time_ns(self) -> int:
            return now[0]

    monkeypatch.setattr(analysis, "time", Clock())
    with GatewayRig(down.url) as rig:

        def settle() -> float:
            rig.run(rig.gateway.desk.settle())
            sent = rig.metrics().get("otelctx_context_segment_tokens_total", {})
            return sum(sent.values())

        rig.post("/v1/traces", request(chat(1, 0, start=now[0])))
        assert settle() == 0
        now[0] -= 86_400 * SECOND  # back by a day
        for _ in range(3):
            now[0] += 20 * SECOND
            first = settle()
        assert first > 0
        rig.post("/v1/traces", request(chat(1, 1, start=now[0])))
        now[0] += 86_400 * SECOND  # forward
        assert settle() > first
        assert calls(rig) == 2


def test_a_span_from_the_future_holds_nothing_up() -> None:
    """Nor does one that began long ago and ends in a year."""
    engine = LiveEngine(Settings(tokenizer="bytes"))
    year = 31_536_000 * SECOND
    now = START
    engine.advance(now)
    ahead = chat(1, 0, start=now + year)
    from dataclasses import replace

    odd = replace(chat(2, 0, start=now), end_unix_nano=now + year)
    sane = chat(3, 0, start=now)
    bare = chat(4, 0, start=now, content=False)
    engine.feed([ahead, odd, sane])
    from otel_ctx.inputs.otlp_protobuf import logs_of
    from otel_ctx.live.gateway.signals import LOGS

    said = [{"role": "user", "parts": [{"type": "text", "content": "content that comes before its span"}]}]
    engine.feed(logs=logs_of(LOGS.parse(content_log(bare, said)), ""))
    settled = []
    for _ in range(4):
        now += 5 * SECOND
        settled += engine.advance(now)
    [first] = engine.feed([bare])
    assert first.reading.call.completeness.status == "partial"  # its content was not let go
    for _ in range(10):
        now += 5 * SECOND
        settled += engine.advance(now)
    assert {s.reading.call.id for s in settled} == {
        f"{s.trace_id}:{s.span_id}" for s in (ahead, odd, sane, bare)
    }


# ---- the end


def test_a_stop_finishes_what_was_taken_in_and_takes_nothing_more() -> None:
    go_on = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        go_on.wait(WAIT)
        return Reply()

    with HttpDownstream(reply) as down, ThreadPoolExecutor(4) as pool:
        rig = GatewayRig(down.url, drain_timeout=WAIT)
        under_way = [
            pool.submit(rig.post, "/v1/traces", request(chat(1, 0))),
            pool.submit(rig.call, "traces", request(chat(2, 0))),
        ]
        down.wait_for(2)
        stopping = pool.submit(rig.stop)
        until(lambda: not rig.gateway.ready)

        def refused() -> bool:
            try:
                rig.call("traces", request(plain(1)), timeout=1)
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.UNAVAILABLE
            return False

        until(refused)
        go_on.set()
        assert under_way[0].result(WAIT).status_code == 200
        assert under_way[1].result(WAIT) == b""
        stopping.result(WAIT)
        assert down.arrived().total() == 2


def test_a_fault_of_the_receiver_is_to_come_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a prompt")

    monkeypatch.setattr(faults, "_told", set())
    with HttpDownstream() as down, GatewayRig(down.url) as rig:
        monkeypatch.setattr(http_server, "unpack", fail)
        answer = rig.post("/v1/traces", gzip.compress(request(chat(1, 0))), content_encoding="gzip")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert status_pb2.Status.FromString(answer.content).message == "a fault of the gateway"
        assert rig.gateway.relay.room.held == 0
        assert not down.bodies
    (line,) = [m for m in caplog.messages if "receiving a request" in m]
    assert line.endswith("; its sender is asked to send it again")
    assert "a prompt" not in caplog.text
    assert "Traceback" not in caplog.text
