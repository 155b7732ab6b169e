"""OTLP over HTTP, on this machine only, for a person who looks on: protobuf or JSON, plain or gzip.

What arrives is shown and kept nowhere. For a Collector's place, with gRPC, TLS and forwarding, there is the gateway.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from ipaddress import ip_address

from otel_ctx.engine import LiveEngine, Settings
from otel_ctx.errors import InputError, SettingError
from otel_ctx.inputs import Batch, read
from otel_ctx.live.tailing import hear
from otel_ctx.model import LogRecord, Span
from otel_ctx.outputs.views.board import Board

_MOST = 64 << 20  # bytes of a request, unpacked
_LINE = 1 << 12
_WAITING = 1_000  # requests
_FORMATS = {"application/x-protobuf": "otlp-protobuf", "application/json": "otlp-json"}
_PATHS = ("/v1/traces", "/v1/logs")
_IGNORED = "/v1/metrics"


class Listening:
    """As ``otel_ctx.live.tailing.Following``, of what is sent here. ``place``: HOST:PORT of loopback; port 0: any that is
    free. Raises SettingError where it cannot listen."""

    follows = True

    def __init__(self, place: str, settings: Settings) -> None:
        host, port = _split(place)
        self._waiting: deque[Batch] = deque(maxlen=_WAITING)
        self._engine = LiveEngine(settings)
        self.board = Board()
        self.note = ""
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise SettingError(f"{place}: {why}; another port: --otlp 127.0.0.1:4319") from None
        self._server.waiting = self._waiting
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            daemon=True,
            name="otelctx-watch",
        )
        self._thread.start()

    def look(self) -> bool:
        spans: list[Span] = []
        logs: list[LogRecord] = []
        while self._waiting:
            batch = self._waiting.popleft()
            spans += batch.spans
            logs += batch.logs
            if batch.skipped:
                self.note = batch.skipped[-1].why
        return hear(self._engine, self.board, spans, logs)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _split(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = False
    if not port.isdecimal() or int(port) > 65_535:
        raise SettingError(f"{place!r} is no HOST:PORT, as 127.0.0.1:4318 is")
    if not local:
        raise SettingError(f"{host} is not this machine alone: watch listens on 127.0.0.1 or ::1 only")
    return host, int(port)


class _Server(ThreadingHTTPServer):
    waiting: deque[Batch]
    daemon_threads = True

    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in place[0]:
            import socket

            self.address_family = socket.AF_INET6
        super().__init__(place, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that went away in the middle: nothing that the screen should show."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.path not in (*_PATHS, _IGNORED):
            return self._answer(404, kind)
        if kind not in _FORMATS:  # no web page can send these here unasked
            return self._answer(415, kind)
        try:
            body = self._body()
        except OverflowError:
            return self._answer(413, kind)
        except ValueError:
            return self._answer(400, kind)
        if self.path == _IGNORED:
            return self._answer(200, kind)
        try:
            data = _unpacked(body, self.headers.get("content-encoding", ""))
            if data:
                self.server.waiting.extend(read(["-"], format=_FORMATS[kind], stdin=BytesIO(data)))
        except (InputError, ValueError):
            return self._answer(400, kind)
        return self._answer(200, kind)

    def _body(self) -> bytes:
        """Raises OverflowError where it is too large, ValueError where it does not say how large it is or ends too soon."""
        if self.headers.get("transfer-encoding", "").strip().lower() != "chunked":
            return self._exactly(int(self.headers.get("content-length", "")), 0)
        parts: list[bytes] = []
        held = 0
        while size := int(self.rfile.readline(_LINE).partition(b";")[0], 16):
            parts.append(self._exactly(size, held))
            held += size
            self.rfile.readline(_LINE)
        while self.rfile.readline(_LINE).strip():
            pass  # trailers
        return b"".join(parts)

    def _exactly(self, size: int, held: int) -> bytes:
        if size < 0:
            raise ValueError
        if held + size > _MOST:
            raise OverflowError
        data = self.rfile.read(size)
        if len(data) < size:
            raise ValueError
        return data

    def _answer(self, status: int, kind: str) -> None:
        body = b"{}" if kind == "application/json" and status == 200 else b""
        self.send_response(status)
        if kind in _FORMATS:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if status != 200:
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The screen is not for that."""


def _unpacked(body: bytes, encoding: str) -> bytes:
    """Raises ValueError where it is damaged, unknown or too large."""
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            unpacker = zlib.decompressobj(wbits=31)
            try:
                data = unpacker.decompress(body, _MOST)
            except zlib.error:
                raise ValueError("damaged") from None
            if not unpacker.eof:
                raise ValueError("too large, or cut off")
            return data
    raise ValueError(f"{encoding} is not known")
