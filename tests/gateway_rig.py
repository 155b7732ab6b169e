"""A gateway in this process, on free ports of loopback, and downstreams that do what a test wants."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from unittest.mock import patch

import grpc
import httpx
import uvicorn.server
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from prometheus_client.parser import text_string_to_metric_families

from otel_ctx.live.gateway import run
from otel_ctx.live.gateway.config import GatewayConfig, config_of
from otel_ctx.live.gateway.config_file import Given
from otel_ctx.live.gateway.run import Gateway
from otel_ctx.live.gateway.signals import SIGNALS
from otel_ctx.model import Span

WAIT = 30  # s that anything may take before a test has failed

# Nothing that is asked here has a certificate, and to read those of the machine takes 20 ms each time.
ask = partial(httpx.request, trust_env=False, verify=False)


class _Brisk:
    """The ``asyncio`` of uvicorn, which looks each 0.1 s for what has changed: here each 0.005 s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


uvicorn.server.asyncio = _Brisk()  # type: ignore[assignment]


class GatewayRig:
    """``settings``: of the file; addresses are free ports where they are not given."""

    def __init__(
        self,
        *forward: Any,
        prepare: Callable[[Gateway], None] | None = None,
        environ: Any = None,
        **settings: Any,
    ) -> None:
        free = dict.fromkeys(("grpc", "http", "admin"), "127.0.0.1:0")
        given = {**free, "tokenizer": "bytes", "analysis_timeout": 30, **settings, "forward": list(forward)}
        self.config: GatewayConfig = config_of({k: Given(v, "test") for k, v in given.items()}, environ or {})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.gateway: Gateway = self.run(self._made(prepare))
        self.http = f"http{'s' if self.config.tls else ''}://127.0.0.1:{self.gateway.ports.get('http')}"
        self.grpc = f"127.0.0.1:{self.gateway.ports.get('grpc')}"
        self.admin = f"http://127.0.0.1:{self.gateway.ports.get('admin')}"

    async def _made(self, prepare: Callable[[Gateway], None] | None) -> Gateway:
        gateway = Gateway(self.config)
        if prepare is not None:
            prepare(gateway)
        await gateway.start()
        return gateway

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT * 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with patch.object(run, "_HUSH", 0):  # nobody is at the door any more
            self.stop()

    def stop(self) -> None:
        self.run(self.gateway.stop())
        self._end()

    def kill(self) -> None:
        """As if the process was killed: nothing is finished, nothing saved."""

        async def drop() -> None:
            store, self.gateway._store = self.gateway._store, None
            if store is not None:
                store.close()
            object.__setattr__(self.config, "drain_timeout", 0)
            await self.gateway.stop()

        self.run(drop())
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT)
        self._loop.close()

    # ---- asking

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Family -> label values (in the order of their names) -> value, of counters and gauges."""
        text = ask("GET", f"{self.admin}/metrics").text
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = tuple(v for _, v in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    def settled(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The metrics when all has settled."""
        self.run(self.gateway.desk.run(self.gateway.enricher.drain))
        return self.metrics()

    def spans(self, result: str) -> float:
        return self.metrics()["otelctx_self_spans_total"][result,]

    def post(
        self, path: str, body: bytes, kind: str = "application/x-protobuf", **headers: str
    ) -> httpx.Response:
        given = {"content-type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
        return ask("POST", self.http + path, content=body, headers=given, timeout=WAIT)

    def call(self, signal: str, body: bytes, metadata: Any = (), timeout: float = WAIT) -> bytes:
        method = next(s.method for s in SIGNALS if s.name == signal)
        options = [("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)]
        with grpc.insecure_channel(self.grpc, options) as channel:
            answer: bytes = channel.unary_unary(method)(body, metadata=metadata, timeout=timeout)
            return answer


# ---- downstreams


@dataclass
class Reply:
    """``code``: of HTTP or gRPC; 0 is success on both."""

    code: int = 0
    body: bytes = b""
    delay: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class Downstream:
    """What arrived, in order. ``reply`` says what is answered to (path or method, body)."""

    def __init__(self, reply: Callable[[str, bytes], Reply] = lambda path, body: Reply()) -> None:
        self.reply = reply
        self.bodies: list[tuple[str, bytes, dict[str, str]]] = []
        self.accepted: list[tuple[str, bytes]] = []
        self.changed = threading.Condition()

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> Reply:
        with self.changed:
            self.bodies.append((path, body, headers))
            self.changed.notify_all()
        reply = self.reply(path, body)
        if reply.delay:
            time.sleep(reply.delay)
        if not reply.code or reply.code == 200:
            with self.changed:
                self.accepted.append((path, body))
                self.changed.notify_all()
        return reply

    def wait_for(self, n: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.bodies) >= n, WAIT)

    def of(self, signal: str) -> list[bytes]:
        return [
            body
            for path, body in self.accepted
            if signal in path.lower() or f"/{signal[:-1]}" in path.lower()
        ]

    def spans(self) -> list[Any]:
        return [
            span
            for body in self.of("traces")
            for group in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def arrived(self) -> Counter[bytes]:
        return Counter(span.span_id for span in self.spans())


class HttpDownstream(Downstream):
    def __init__(
        self, reply: Callable[[str, bytes], Reply] = lambda path, body: Reply(), port: int = 0
    ) -> None:
        super().__init__(reply)
        outer = self
        self.connections: list[socket.socket] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                reply = outer.answer(self.path, body, dict(self.headers))
                self.send_response(reply.code or 200)
                for key, value in reply.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def process_request(self, connection: Any, address: Any) -> None:
                outer.connections.append(connection)
                super().process_request(connection, address)

            def handle_error(self, *_: object) -> None:
                pass  # the gateway has gone

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class GrpcDownstream(Downstream):
    """With the limit of 4 MiB that receivers have by default."""

    def __init__(
        self,
        reply: Callable[[str, bytes], Reply] = lambda path, body: Reply(),
        port: int = 0,
        credentials: Any = None,
    ) -> None:
        super().__init__(reply)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(8), (_Generic(self),), options=[("grpc.so_reuseport", 0)]
        )
        at = f"127.0.0.1:{port}"
        self.port = (
            self._server.add_secure_port(at, credentials)
            if credentials
            else self._server.add_insecure_port(at)
        )
        assert self.port
        self.url = f"grpc{'s' if credentials else ''}://127.0.0.1:{self.port}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(0).wait(WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Generic(grpc.GenericRpcHandler):
    def __init__(self, downstream: Downstream) -> None:
        self._downstream = downstream

    def service(self, details: Any) -> Any:
        path = details.method

        def export(body: bytes, context: Any) -> bytes:
            headers = {k: str(v) for k, v in context.invocation_metadata()}
            reply = self._downstream.answer(path, body, headers)
            if reply.code:
                if reply.body:
                    context.set_trailing_metadata((("grpc-status-details-bin", reply.body),))
                code = next(c for c in grpc.StatusCode if c.value[0] == reply.code)
                context.abort(code, "not now")
            return reply.body

        return grpc.unary_unary_rpc_method_handler(export)


def partial_success(n: int, words: str) -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = n
    response.partial_success.error_message = words
    encoded: bytes = response.SerializeToString()
    return encoded


# ---- traffic


def value(of: Any) -> AnyValue:
    if isinstance(of, bool):
        return AnyValue(bool_value=of)
    if isinstance(of, int):
        return AnyValue(int_value=of)
    if isinstance(of, float):
        return AnyValue(double_value=of)
    if isinstance(of, bytes):
        return AnyValue(bytes_value=of)
    if isinstance(of, dict):
        return AnyValue(kvlist_value=KeyValueList(values=pairs(of)))
    if isinstance(of, (list, tuple)):
        return AnyValue(array_value=ArrayValue(values=[value(v) for v in of]))
    return AnyValue() if of is None else AnyValue(string_value=of)


def pairs(of: Any) -> list[KeyValue]:
    return [KeyValue(key=k, value=value(v)) for k, v in of.items()]


def request(*spans: Span) -> bytes:
    """As one export request."""
    out = ExportTraceServiceRequest()
    for s in spans:
        group = out.resource_spans.add()
        group.resource.attributes.extend(pairs(s.resource))
        scope = group.scope_spans.add()
        scope.scope.name, scope.scope.version = s.scope_name, s.scope_version
        proto = scope.spans.add(
            trace_id=bytes.fromhex(s.trace_id),
            span_id=bytes.fromhex(s.span_id),
            parent_span_id=bytes.fromhex(s.parent_id),
            name=s.name,
            kind=s.kind,
            start_time_unix_nano=s.start_unix_nano,
            end_time_unix_nano=s.end_unix_nano,
            attributes=pairs(s.attributes),
            dropped_attributes_count=s.dropped_attributes,
        )
        proto.status.code, proto.status.message = s.status_code, s.status_message
        for e in s.events:
            proto.events.add(name=e.name, time_unix_nano=e.time_unix_nano, attributes=pairs(e.attributes))
        for link in s.links:
            proto.links.add(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id))
    encoded: bytes = out.SerializeToString()
    return encoded


START = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def chat(
    conversation: int,
    turn: int,
    *,
    words: int = 20,
    service: str = "shop",
    content: bool = True,
    start: int = START,
    **resource: str,
) -> Span:
    """Turn ``turn`` (from 0) of one of many conversations."""
    said: list[Any] = []
    for t in range(turn + 1):
        if t:
            said.append(
                {"role": "assistant", "parts": [{"type": "text", "content": f"answer {conversation} {t}"}]}
            )
        text = f"Customer {conversation} asks question number {t}. " + f"basket{conversation} " * words
        said.append({"role": "user", "parts": [{"type": "text", "content": text}]})
    begin = start + (turn * 100_000 + conversation) * SECOND // 100
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.conversation.id": f"session-{conversation}",
        "gen_ai.usage.input_tokens": 100 + 60 * turn,
        "gen_ai.usage.output_tokens": 7,
    }
    if content:
        attributes["gen_ai.input.messages"] = json.dumps(said)
    return Span(
        trace_id=f"{conversation + 1:016x}{turn + 1:016x}",
        span_id=f"{conversation + 1:08x}{turn + 1:08x}",
        parent_id="",
        name="chat gpt-4o",
        start_unix_nano=begin,
        end_unix_nano=begin + SECOND // 2,
        attributes=attributes,
        kind=3,
        scope_name="opentelemetry.util.genai",
        resource={"service.name": service, **resource},
    )


def plain(n: int, service: str = "shop") -> Span:
    """A span of no model."""
    return Span(
        trace_id=f"{n + 1:032x}",
        span_id=f"{n + 1 + (1 << 60):016x}",
        parent_id="",
        name="GET /",
        start_unix_nano=START + n,
        end_unix_nano=START + n + 1000,
        attributes={"http.request.method": "GET"},
        kind=2,
        scope_name="http",
        resource={"service.name": service},
    )


def content_log(span: Span, said: Any) -> bytes:
    """The content of a call in a log record, as util-genai's event has it."""
    out = ExportLogsServiceRequest()
    group = out.resource_logs.add()
    group.resource.attributes.extend(pairs(span.resource))
    scope = group.scope_logs.add()
    scope.scope.name = span.scope_name
    scope.log_records.add(
        time_unix_nano=span.end_unix_nano,
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        event_name="gen_ai.client.inference.operation.details",
        attributes=pairs({**span.attributes, "gen_ai.input.messages": said}),
    )
    encoded: bytes = out.SerializeToString()
    return encoded


def ours(span: Any) -> dict[str, Any]:
    """What was added to a span's attributes."""
    return {
        a.key: getattr(a.value, a.value.WhichOneof("value"))
        for a in span.attributes
        if a.key.startswith("otelctx.")
    }


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def all_spans(bodies: Iterable[bytes]) -> list[Any]:
    return [
        span
        for body in bodies
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]
