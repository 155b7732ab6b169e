"""Where requests are sent on to: OTLP over gRPC or HTTP. One try for each: who sent it keeps it until it is
acknowledged, and tries again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import grpc
import grpc.aio

from otel_ctx.live.gateway.answers import LATE, Answer, later, of_grpc, of_http
from otel_ctx.live.gateway.forwards import Forward
from otel_ctx.live.gateway.signals import Signal
from otel_ctx.live.gateway.tls import client_context

if TYPE_CHECKING:
    import httpx

_LONGEST_ANSWER = 4 << 20  # bytes
_DETAILS = "grpc-status-details-bin"


class Downstream(Protocol):
    async def send(self, signal: Signal, body: bytes) -> Answer: ...
    async def close(self) -> None: ...


def open_downstream(to: Forward) -> Downstream:
    return GrpcDownstream(to) if to.is_grpc else HttpDownstream(to)


class GrpcDownstream:
    def __init__(self, to: Forward) -> None:
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", _LONGEST_ANSWER),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.min_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 5000),
        ]
        if to.tls:
            read = {name: _content(getattr(to, name)) for name in ("ca_file", "cert_file", "key_file")}
            credentials = grpc.ssl_channel_credentials(read["ca_file"], read["key_file"], read["cert_file"])
            self._channel = grpc.aio.secure_channel(to.target, credentials, options)
        else:
            self._channel = grpc.aio.insecure_channel(to.target, options)
        self._metadata = tuple((key.lower(), value) for key, value in to.headers.items())
        self._timeout = to.timeout
        self._compression = grpc.Compression.Gzip if to.compression == "gzip" else None

    async def send(self, signal: Signal, body: bytes) -> Answer:
        call = self._channel.unary_unary(signal.method)(
            body, timeout=self._timeout, metadata=self._metadata, compression=self._compression
        )
        try:
            return Answer(body=await call)
        except grpc.aio.AioRpcError as error:
            trailers: Mapping[str, bytes] = dict(error.trailing_metadata() or ())
            return of_grpc(error.code().value[0], error.details() or "", trailers.get(_DETAILS, b""))

    async def close(self) -> None:
        await self._channel.close(grace=1)


class HttpDownstream:
    def __init__(self, to: Forward) -> None:
        import httpx

        self._base = to.url.rstrip("/")
        self._headers = {**to.headers, "content-type": "application/x-protobuf"}
        self._gzip = to.compression == "gzip"
        self._timeout = to.timeout
        self._client: httpx.AsyncClient = httpx.AsyncClient(
            verify=client_context(to.ca_file, to.cert_file, to.key_file) if to.tls else False,
            timeout=httpx.Timeout(to.timeout, pool=to.timeout),
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=30),
            trust_env=False,
        )

    async def send(self, signal: Signal, body: bytes) -> Answer:
        import httpx

        headers = self._headers
        if self._gzip:
            import gzip

            body = await asyncio.to_thread(gzip.compress, body, 1)
            headers = {**headers, "content-encoding": "gzip"}
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(
                    "POST", self._base + signal.path, content=body, headers=headers
                ) as response,
            ):
                answered = await _read(response)
                return of_http(response.status_code, answered, response.headers.get("retry-after"))
        except (TimeoutError, httpx.TimeoutException):
            return Answer(LATE, "the receiver behind the gateway did not answer in time", retry_after=1.0)
        except httpx.HTTPError as error:
            return later(f"the receiver behind the gateway cannot be reached ({type(error).__name__})")

    async def close(self) -> None:
        await self._client.aclose()


async def _read(response: httpx.Response) -> bytes:
    """No more of the answer than makes sense; where it cannot be unpacked, its status says enough."""
    import httpx

    read = b""
    try:
        async for piece in response.aiter_bytes():
            read += piece
            if len(read) > _LONGEST_ANSWER:
                return b""
    except httpx.DecodingError:
        return b""
    return read


def _content(path: str) -> bytes | None:
    return Path(path).read_bytes() if path else None
