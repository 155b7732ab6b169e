"""OTLP over HTTP, in: protobuf or JSON, plain, gzip or zstd; what is too large or too slow is let go early."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from otel_ctx.live.faults import survive
from otel_ctx.live.gateway.answers import FAULT, UNAUTHENTICATED, Answer, later, refused
from otel_ctx.live.gateway.bodies import (
    TookTooLongError,
    TooLargeError,
    json_of_message,
    message_of_json,
    unpack,
)
from otel_ctx.live.gateway.config import GatewayConfig
from otel_ctx.live.gateway.guard import NO, allowed
from otel_ctx.live.gateway.relay import CLOSING, Relay
from otel_ctx.live.gateway.seldom import Seldom
from otel_ctx.live.gateway.signals import METRICS, SIGNALS, Signal

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_SMALL = 1 << 16  # bytes that are unpacked at once: more of them on another thread
_AT_ONCE = 2  # that are being unpacked: what they become is not in the room yet
_READ_ON = 2  # times the largest request: so far what is too large is read
_BOUND = Seldom()  # of uvicorn's own log: each bad request line is worth one to it
_FULL = "the gateway holds as much as it may"


class _Held:
    """What a request has taken of the room so far."""

    def __init__(self, relay: Relay) -> None:
        self._room = relay.room
        self.size = 0

    def take(self, size: int) -> None:
        if not self._room.take(size):
            raise _Refused(later(_FULL))
        self.size += size

    def give(self) -> None:
        self._room.give(self.size)
        self.size = 0


class _Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def application(config: GatewayConfig, relay: Relay) -> Starlette:

    unpacking = asyncio.Semaphore(_AT_ONCE)

    def route(signal: Signal) -> Route:
        async def endpoint(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if not allowed(request.headers.get("authorization", ""), config.token):
                no = Answer(UNAUTHENTICATED, NO)
                return _response(signal, relay.answered(signal, no), kind, close=True)
            return await _export(signal, config, relay, request, kind, unpacking)

        return Route(signal.path, endpoint, methods=["POST"])

    return Starlette(routes=[route(signal) for signal in SIGNALS])


async def _export(
    signal: Signal,
    config: GatewayConfig,
    relay: Relay,
    request: Request,
    kind: str,
    unpacking: asyncio.Semaphore,
) -> Response:
    held = _Held(relay)
    try:
        try:
            body, message = await _read(signal, config, relay, request, kind, held, unpacking)
        except BaseException:
            held.give()
            raise
        tenant = request.headers.get(config.tenant_header, "") if config.tenant_header else ""
        return _response(signal, await relay.deliver(signal, body, message, tenant, held.size), kind)
    except _Refused as error:
        answer = error.answer
    # by the server, which waits no longer: what is not answered is to come again
    except asyncio.CancelledError:
        answer = later(CLOSING)
    except Exception as error:
        survive(error, "receiving a request", "its sender is asked to send it again")
        answer = later(FAULT)
    return _response(signal, relay.answered(signal, answer), kind, close=True)


def _enough(relay: Relay, seconds: float) -> Callable[[], bool]:
    """Has unpacking had its time? When the gateway stops, at once: what it yields would not be taken in."""
    until = time.monotonic() + seconds
    return lambda: relay.closed or time.monotonic() > until


async def _read(
    signal: Signal,
    config: GatewayConfig,
    relay: Relay,
    request: Request,
    kind: str,
    held: _Held,
    unpacking: asyncio.Semaphore,
) -> tuple[bytes, Any]:
    """The request as protobuf, and parsed (metrics: None)."""
    if kind not in (_PROTOBUF, _JSON):
        raise _Refused(refused(f"the content type must be {_PROTOBUF} or {_JSON}", 415))
    most = config.max_request_bytes
    packed = await _arrive(request, most, config.receive_timeout, held)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    try:
        if encoding in ("", "identity"):
            body = packed
        else:
            async with unpacking:
                enough = _enough(relay, config.receive_timeout)
                if len(packed) > _SMALL:
                    body = await asyncio.to_thread(unpack, encoding, packed, most, enough)
                else:
                    body = unpack(encoding, packed, most, enough)
                held.give()
                held.take(len(body))
        if kind == _JSON:
            message = message_of_json(signal, body)
            return message.SerializeToString(), None if signal is METRICS else message
        return body, None if signal is METRICS else signal.parse(body)
    except TooLargeError:
        raise _Refused(_too_large(most)) from None
    except TookTooLongError:
        raise _Refused(later(CLOSING if relay.closed else "the request took too long to unpack")) from None
    except LookupError:
        raise _Refused(refused("the content encoding must be gzip or zstd, or none", 415)) from None
    except ValueError as error:
        raise _Refused(refused(str(error))) from None


async def _arrive(request: Request, most: int, timeout: float, held: _Held) -> bytes:
    """What is somewhat too large is read to its end, and not kept: many senders look for an answer only then, and a
    connection that is closed before resets it."""
    told = request.headers.get("content-length", "0")
    announced = int(told) if told.isdigit() else 0
    large = announced > most
    if announced > _READ_ON * most or (large and "expect" in request.headers):
        raise _Refused(_too_large(most))
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout):
            async for piece in request.stream():
                size += len(piece)
                if size > _READ_ON * most:
                    break
                if large or size > most:
                    large = True
                    pieces.clear()
                    held.give()
                else:
                    held.take(len(piece))
                    pieces.append(piece)
    except TimeoutError:
        if not large:
            raise _Refused(later("the request took too long to arrive")) from None
    except ClientDisconnect:
        raise _Refused(refused("the sender has gone")) from None
    if large or size > most:
        raise _Refused(_too_large(most))
    return b"".join(pieces)


def _too_large(most: int) -> Answer:
    return refused(f"more than {most} bytes", 413)


def _response(signal: Signal, answer: Answer, kind: str, close: bool = False) -> Response:
    """In the encoding of the request. ``close``: what is still to come of the body is not wanted."""
    as_json = kind == _JSON
    headers = {"connection": "close"} if close else {}
    if answer.retry_header is not None and answer.again:
        headers["retry-after"] = answer.retry_header
    if answer.ok:
        body = json_of_message(signal.response.FromString(answer.body)) if as_json else answer.body
    elif as_json:
        import orjson

        body = orjson.dumps({"code": answer.code, "message": answer.message})
    else:
        body = answer.rpc_status()
    return Response(body, answer.http_status, headers, media_type=_JSON if as_json else _PROTOBUF)


# ---- the server


class _Protocol(H11Protocol):
    """With a limit on the time between two requests' heads: uvicorn itself waits for ever for a head that has
    begun."""

    patience = 10.0  # s
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            if self._waits is None:
                self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.trailing_data[0] and self.conn.their_state is h11.IDLE and self._waits is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waits = self.loop.call_later(self.patience, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        self._waits = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class HttpServer(uvicorn.Server):
    """Signals are the gateway's to handle."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: Any, config: GatewayConfig, tls: bool, connections: int) -> HttpServer:
    protocol = type("Protocol", (_Protocol,), {"patience": max(config.receive_timeout, 0.1)})
    logging.getLogger("uvicorn.error").addFilter(_BOUND)
    options: dict[str, Any] = {}
    if tls:
        options = {"ssl_certfile": config.cert_file, "ssl_keyfile": config.key_file}
        if config.client_ca_file:
            options |= {"ssl_ca_certs": config.client_ca_file, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return HttpServer(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=connections,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=max(1, round(config.drain_timeout)),
            **options,
        )
    )
