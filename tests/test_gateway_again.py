"""What fails in the gateway itself, and what comes while it stops: its sender is told to send it again, and loses nothing."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_ctx.live import faults
from otel_ctx.live.gateway import relay as relays
from otel_ctx.live.gateway.answers import Answer
from otel_ctx.live.gateway.damaged import carry
from otel_ctx.live.gateway.signals import TRACES, Signal
from tests.gateway_rig import (
    WAIT,
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

ROOT = Path(__file__).parent.parent
WORDS = "a fault of the gateway"
STOPS = "the gateway is shutting down"


def fail(*_: object, **__: object) -> Any:
    raise RuntimeError("quotes a prompt")


async def fail_later(*_: object, **__: object) -> Any:
    fail()


class Hasty(threading.Event):
    """What an exporter waits on before it tries again: a tenth as long."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else timeout / 10)


def told_by_grpc(rig: GatewayRig, body: bytes) -> tuple[grpc.StatusCode, float | None, str]:
    """Code, seconds after which to try again, words."""
    with pytest.raises(grpc.RpcError) as error:
        rig.call("traces", body)
    status = status_pb2.Status.FromString(dict(error.value.trailing_metadata())["grpc-status-details-bin"])
    info = error_details_pb2.RetryInfo()
    told = any(detail.Unpack(info) for detail in status.details)
    return (
        error.value.code(),
        info.retry_delay.ToMilliseconds() / 1000 if told else None,
        error.value.details(),
    )


# ---- faults

FAULTS: dict[str, tuple[object, str, Any]] = {
    "a request that cannot be cut": (relays, "parts", fail),
    "an answer that cannot be read": (relays, "_lost", fail),
    "a trouble that cannot be told": (relays.Relay, "_tell", fail),
    "a sender that breaks": (relays.Relay, "_send", fail_later),
}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_told", set())


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_ours_is_to_come_again(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body = request(chat(1, 0), chat(2, 0))
    with HttpDownstream() as down, GatewayRig({"url": down.url, "max_request_bytes": 500}) as rig:
        with monkeypatch.context() as broken:
            broken.setattr(*FAULTS[name])
            answer = rig.post("/v1/traces", body)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert status_pb2.Status.FromString(answer.content).message == WORDS
            assert told_by_grpc(rig, body) == (grpc.StatusCode.UNAVAILABLE, 1.0, WORDS)
        assert rig.gateway.relay.room.held == 0
        assert rig.post("/v1/traces", body).status_code == 200
        assert down.arrived().keys() == {bytes.fromhex(chat(c, 0).span_id) for c in (1, 2)}
        assert rig.metrics()["otelctx_gateway_requests_total"]["retry", "traces"] == 2
    assert len([m for m in caplog.messages if m.endswith("; its sender is asked to send it again")]) == 1
    assert "quotes a prompt" not in caplog.text


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("error", [RuntimeError, MemoryError, RecursionError])
def test_a_request_that_could_not_be_read_is_to_come_again(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*_: object) -> Any:
        raise error

    body = request(chat(1, 0))
    with HttpDownstream() as down, GatewayRig(down.url) as rig:
        with monkeypatch.context() as broken:
            broken.setattr(Signal, "parse", parse)
            assert rig.post("/v1/traces", body).status_code == 503
            assert told_by_grpc(rig, body) == (grpc.StatusCode.UNAVAILABLE, 1.0, WORDS)
        assert rig.gateway.relay.room.held == 0
        rig.call("traces", body)
        assert down.arrived().total() == 1


@pytest.mark.usefixtures("quiet")
def test_what_cannot_be_given_to_the_analysis_goes_on_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    body = request(chat(1, 0))
    with HttpDownstream() as down, GatewayRig(down.url) as rig:
        monkeypatch.setattr(rig.gateway.desk, "enrich", fail_later)
        assert rig.post("/v1/traces", body).status_code == 200
        rig.call("traces", body)
        assert down.of("traces") == [body, body]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("way", ["grpc", "http"])
def test_real_exporters_lose_nothing_by_a_fault_of_ours(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third request meets a fault, before it is sent on or after: all arrives, and each call counts once."""
    met = Counter[str]()
    send, tell = relays.Relay._send, relays.Relay._tell

    def sometimes(name: str) -> None:
        met[name] += 1
        if met[name] % 3 == 1:
            fail()

    async def sends(self: Any, *given: Any) -> Any:
        sometimes("before")
        return await send(self, *given)

    def tells(self: Any, *given: Any) -> None:
        sometimes("after")
        tell(self, *given)

    monkeypatch.setattr(relays.Relay, "_send", sends)
    monkeypatch.setattr(relays.Relay, "_tell", tells)
    spans = 24
    with HttpDownstream() as down, GatewayRig(down.url) as rig:
        exporter: Any = (
            GrpcExporter(endpoint=rig.grpc, insecure=True, timeout=WAIT)
            if way == "grpc"
            else HttpExporter(endpoint=f"{rig.http}/v1/traces", timeout=WAIT)
        )
        inside = (
            (exporter, "_shutdown_in_progress") if way == "grpc" else (exporter._client, "_shutdown_event")
        )
        monkeypatch.setattr(*inside, Hasty())
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=12))
        tracer = provider.get_tracer("opentelemetry.util.genai")
        for turn in range(spans):
            with tracer.start_as_current_span("chat", attributes=dict(chat(1, turn % 5).attributes)):
                pass
        assert provider.force_flush()
        provider.shutdown()
        assert met["before"] >= 4
        assert len(down.arrived()) == spans
        assert rig.spans("analysed") == sum(rig.settled()["otelctx_calls_total"].values()) == spans
        assert all("otelctx.call.role" in ours(s) for s in down.spans())


# ---- what a downstream says


@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_what_is_too_large_with_what_is_ours_goes_on_as_it_came(make: Any) -> None:
    body = request(chat(1, 0))

    def reply(path: str, came: bytes) -> Reply:
        if len(came) <= len(body):
            return Reply()
        return Reply(413 if make is HttpDownstream else 8)

    with make(reply) as down, make(reply) as beside, GatewayRig(down.url, beside.url) as rig:
        rig.call("traces", body)
        rig.run(rig.gateway.relay.finish())
        assert down.of("traces") == beside.of("traces") == [body]
        assert len(down.bodies) == len(beside.bodies) == 2
        huge = request(chat(1, 1, words=500))
        with pytest.raises(grpc.RpcError) as error:
            rig.call("traces", huge)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("9" * 400, 86_400),
        ("²", None),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_an_odd_time_to_try_again(said: str, seconds: float | None) -> None:
    headers = {"Retry-After": said}
    with HttpDownstream(lambda p, b: Reply(503, headers=headers)) as down, GatewayRig(down.url) as rig:
        code, after, _ = told_by_grpc(rig, request(plain(1)))
        assert (code, after) == (grpc.StatusCode.UNAVAILABLE, seconds)


@pytest.mark.parametrize("make", [HttpDownstream, GrpcDownstream])
def test_many_words_of_a_downstream_do_not_hide_its_code(make: Any) -> None:
    """A gRPC client that gets more metadata than it takes sees RESOURCE_EXHAUSTED, and drops its batch."""
    status = status_pb2.Status(code=14, message="größer " * 2000)
    code = 503 if make is HttpDownstream else 14
    body = status.SerializeToString() if make is HttpDownstream else b"\x00" * 3000
    with make(lambda p, b: Reply(code, body)) as down, GatewayRig(down.url) as rig:
        assert told_by_grpc(rig, request(plain(1)))[0] is grpc.StatusCode.UNAVAILABLE
        assert rig.post("/v1/traces", request(plain(1))).status_code == 503


def test_an_answer_that_cannot_be_unpacked_has_its_status() -> None:
    torn = {"Content-Encoding": "gzip"}
    with (
        HttpDownstream(lambda p, b: Reply(200, b"no gzip", headers=torn)) as down,
        GatewayRig(down.url) as rig,
    ):
        assert rig.post("/v1/traces", request(plain(1))).status_code == 200
        down.reply = lambda p, b: Reply(429, gzip.compress(b"x" * 99)[:-9], headers=torn)
        assert rig.post("/v1/traces", request(plain(1))).status_code == 503


def test_a_downstream_in_trouble_is_named_once_and_again_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        HttpDownstream(lambda p, b: Reply(400)) as down,
        GatewayRig({"url": down.url, "name": "store"}) as rig,
    ):
        for code in (400, 400, 503, 200, 200):
            down.reply = lambda p, b, code=code: Reply(code)
            assert rig.post("/v1/traces", request(plain(1))).status_code == code
    said = [m.removeprefix("otel_ctx: store ") for m in caplog.messages if "store" in m]
    refused = "does not accept what is sent to it"
    assert said == [f"{refused} (INVALID_ARGUMENT)", f"{refused} (UNAVAILABLE)", "accepts again"]
    assert Answer(99).name == "code 99"


# ---- the end


@contextmanager
def process(forward: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway, and where it listens by gRPC."""
    command = [sys.executable, "-W", "error", "-m", "otel_ctx_cli", "gateway", "--forward", forward, *more]
    command += ["--grpc", "127.0.0.1:0", "--http", "off", "--admin", "off", "--tokenizer", "bytes"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as running:
        assert running.stderr is not None
        try:
            yield running, running.stderr.readline().split("grpc ")[1].split(";")[0]
        finally:
            running.kill()


def test_no_call_by_grpc_is_acknowledged_and_lost_when_it_stops_under_load() -> None:
    """Each sender has a connection of its own and goes on until it is refused: with UNAVAILABLE, and then it was not
    sent on."""
    senders = 12
    with (
        GrpcDownstream(lambda p, b: Reply(delay=0.01)) as down,
        process(down.url) as (running, at),
        ThreadPoolExecutor(senders) as pool,
    ):

        def send(n: int) -> tuple[list[str], str, grpc.RpcError]:
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
            with grpc.insecure_channel(at, options) as channel:
                export: Callable[..., bytes] = channel.unary_unary(TRACES.method)
                accepted: list[str] = []
                while True:
                    span = chat(n * 10_000 + len(accepted), 0)
                    try:
                        export(request(span), timeout=WAIT)
                    except grpc.RpcError as error:
                        return accepted, span.span_id, error
                    accepted.append(span.span_id)

        sending = [pool.submit(send, n) for n in range(senders)]
        down.wait_for(5 * senders)
        running.send_signal(signal.SIGTERM)
        told = [each.result(WAIT) for each in sending]
        assert running.wait(WAIT) == 0
    arrived = down.arrived()
    assert {error.code() for _, _, error in told} == {grpc.StatusCode.UNAVAILABLE}
    assert arrived == Counter(bytes.fromhex(span) for accepted, _, _ in told for span in accepted)
    assert not {bytes.fromhex(span) for _, span, _ in told} & arrived.keys()


def test_a_call_by_grpc_that_hangs_when_the_drain_is_over_is_to_come_again() -> None:
    go_on = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        go_on.wait(WAIT)
        return Reply()

    with GrpcDownstream(reply) as down, process(down.url, "--drain-timeout", "100ms") as (running, at):
        with grpc.insecure_channel(at) as channel:
            call = channel.unary_unary(TRACES.method).future(request(chat(1, 0)), timeout=WAIT)
            down.wait_for(1)
            running.send_signal(signal.SIGTERM)
            assert call.exception().code() is grpc.StatusCode.UNAVAILABLE
        assert running.stderr is not None
        rest = running.stderr.read()
        assert running.wait(WAIT) == 0
        go_on.set()
    assert "Traceback" not in rest
    assert rest.splitlines()[-1].endswith("otelctx gateway: stopped")


def test_what_comes_while_it_finishes_is_told_that_it_stops() -> None:
    """On a connection that is open, before the receivers close."""
    go_on = threading.Event()

    def reply(path: str, body: bytes) -> Reply:
        go_on.wait(WAIT)
        return Reply()

    with HttpDownstream(reply) as down, ThreadPoolExecutor(2) as pool:
        rig = GatewayRig(down.url, drain_timeout=WAIT)
        under_way = pool.submit(rig.call, "traces", request(chat(1, 0)))
        down.wait_for(1)
        rig.gateway.relay.closed = True
        assert told_by_grpc(rig, request(chat(2, 0))) == (grpc.StatusCode.UNAVAILABLE, 1.0, STOPS)
        answer = rig.post("/v1/traces", request(chat(2, 0)))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        stopping = pool.submit(rig.stop)
        until(lambda: not rig.gateway.ready)
        go_on.set()
        assert under_way.result(WAIT) == b""
        stopping.result(WAIT)
        assert down.arrived().total() == 1


@pytest.mark.parametrize("way", ["grpc", "http"])
def test_real_exporters_lose_nothing_by_a_restart(way: str, tmp_path: Path) -> None:
    """A gateway stops under load and another begins at the same address with its state."""
    spans = 90
    settings = {"state_dir": str(tmp_path), "drain_timeout": WAIT}
    with HttpDownstream() as down:
        rig = GatewayRig(down.url, **settings)
        places = {name: f"127.0.0.1:{rig.gateway.ports[name]}" for name in ("grpc", "http")}
        exporter: Any = (
            GrpcExporter(endpoint=places["grpc"], insecure=True, timeout=WAIT)
            if way == "grpc"
            else HttpExporter(endpoint=f"http://{places['http']}/v1/traces", timeout=WAIT)
        )
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=10, max_export_batch_size=5)
        )
        pause = threading.Event()

        def work() -> None:
            tracer = provider.get_tracer("opentelemetry.util.genai")
            for turn in range(spans):
                with tracer.start_as_current_span("chat", attributes=dict(chat(1, turn % 5).attributes)):
                    pause.wait(0.01)

        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(work)
            down.wait_for(3)
            rig.stop()
            with GatewayRig(down.url, **{**settings, **places}) as again:
                working.result(WAIT)
                assert provider.force_flush()
                provider.shutdown()
                analysed = again.spans("analysed")
        assert set(down.arrived().values()) == {1}
        assert len(down.arrived()) == spans
        assert 0 < analysed < spans


# ---- damaged text


def spans_of(body: bytes) -> list[Any]:
    groups = TRACES.readable(TRACES.parse(body)).resource_spans
    return [span for group in groups for scope in group.scope_spans for span in scope.spans]


@pytest.mark.parametrize("by_grpc", [True, False])
def test_text_that_is_not_utf_8_goes_on_as_it_is(by_grpc: bool, caplog: pytest.LogCaptureFixture) -> None:
    """And is analysed as what has U+FFFD in its place."""
    with HttpDownstream() as down, GatewayRig(down.url) as rig, GatewayRig(down.url) as other:
        for turn in range(2):
            whole = chat(1, turn)
            said = whole.attributes["gen_ai.input.messages"]
            marked = {**whole.attributes, "gen_ai.input.messages": said.replace("Customer", "Custom\ufffdr")}
            damaged = request(whole, plain(turn)).replace(b"Customer", b"Custom\xc3r")
            assert damaged.count(b"\xc3") == turn + 1
            same = request(replace(whole, attributes=marked), plain(turn))
            assert other.post("/v1/traces", same).status_code == 200
            for _ in range(2):  # the second time as a batch that comes again
                if by_grpc:
                    rig.call("traces", damaged)
                else:
                    assert rig.post("/v1/traces", damaged).status_code == 200
            expected, *arrived = (body for _, body in down.accepted[-3:])
            assert arrived[0] == arrived[1]
            assert arrived[0].count(b"Custom\xc3r") == turn + 1
            assert [ours(s) for s in spans_of(arrived[0])] == [ours(s) for s in spans_of(expected)]
            assert [len(ours(s)) > 5 for s in spans_of(expected)] == [True, False]
        assert rig.post("/v1/traces", b"\xff" + damaged).status_code == 400  # no request at all
        metrics = rig.metrics()
        assert metrics["otelctx_gateway_damaged_requests_total"]["traces",] == 4
        assert metrics["otelctx_self_spans_total"]["analysed",] == 2
        assert caplog.text.count("holds text that is not UTF-8") == 1
        assert rig.gateway.relay.room.held == 0


@pytest.mark.parametrize("by_grpc", [True, False])
def test_log_records_whose_text_is_not_utf_8_are_read(by_grpc: bool) -> None:
    said = [{"role": "user", "parts": [{"type": "text", "content": "Customer one"}]}]
    span = chat(1, 0, content=False)
    logs = content_log(span, said).replace(b"Customer", b"Custom\xc3r")
    with HttpDownstream() as down, GatewayRig(down.url) as rig:
        if by_grpc:
            rig.call("logs", logs)
        else:
            assert rig.post("/v1/logs", logs).status_code == 200
        assert rig.post("/v1/traces", request(span)).status_code == 200
        assert down.of("logs") == [logs]
        assert rig.metrics()["otelctx_gateway_damaged_requests_total"]["logs",] == 1
        assert "otelctx.call.role" in ours(down.spans()[0])


def test_unchecked_messages_keep_all_that_came() -> None:
    """Unknown fields too, and empty strings."""
    body = request(plain(1)).replace(b"GET /", b"GE\xc3 /") + b"\xaa\x06\x03ab\xc3"
    came = TRACES.parse(body)
    assert not TRACES.is_text(came)
    read = TRACES.readable(came)
    assert TRACES.is_text(read)
    assert came.SerializeToString() == body
    assert spans_of(body)[0].name == "GE\ufffd /"
    carry(read, came)
    assert came.SerializeToString() == body  # nothing was added


def test_damaged_text_that_is_larger_than_the_receiver_takes_goes_in_parts() -> None:
    with HttpDownstream() as down, GatewayRig({"url": down.url, "max_request_bytes": "1k"}) as rig:
        body = request(*(plain(n) for n in range(20))).replace(b"GET /", b"GE\xc3 /")
        assert rig.post("/v1/traces", body).status_code == 200
        assert len(down.accepted) > 1
        assert sum(part.count(b"GE\xc3 /") for _, part in down.accepted) == 20


@pytest.mark.parametrize("status", [301, 304, 600, 999])
def test_a_status_that_says_neither_yes_nor_no_is_a_bad_gateway(status: int) -> None:
    with HttpDownstream(lambda path, body: Reply(status)) as down, GatewayRig(down.url) as rig:
        answer = rig.post("/v1/traces", request(plain(1)))
        assert answer.status_code == 502
        assert f"answered {status}".encode() in answer.content
        assert (b"a redirect, which is not followed" in answer.content) == (status < 400)
        code, _, words = told_by_grpc(rig, request(plain(1)))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert f"answered {status}" in words
