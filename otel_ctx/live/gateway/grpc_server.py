"""OTLP over gRPC, in: the bytes of a request are parsed once and otherwise left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from otel_ctx.live.faults import survive
from otel_ctx.live.gateway.answers import FAULT, Answer, later, refused
from otel_ctx.live.gateway.config import GatewayConfig
from otel_ctx.live.gateway.guard import NO, allowed
from otel_ctx.live.gateway.relay import CLOSING, Relay
from otel_ctx.live.gateway.signals import METRICS, SIGNALS, Signal
from otel_ctx.live.gateway.values import Address

_DETAILS = "grpc-status-details-bin"
_STREAMS = 100  # requests at once on one connection
_CODES = {code.value[0]: code for code in grpc.StatusCode}
FULL = "the gateway holds as much as it may"


class GrpcReceiver:
    def __init__(self, config: GatewayConfig, relay: Relay) -> None:
        self._server = grpc.aio.server(
            interceptors=[_Guard(config.token)] if config.token else [],
            options=[
                ("grpc.max_receive_message_length", config.max_request_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", _STREAMS),
                ("grpc.so_reuseport", 0),
                ("grpc.max_metadata_size", 16 << 10),
            ],
        )
        self._server.add_generic_rpc_handlers((_Methods(config, relay),))
        self._config = config

    def bind(self, address: Address) -> int:
        """The port. OSError where it cannot be had."""
        config = self._config
        try:
            if not config.tls:
                port = self._server.add_insecure_port(str(address))
            else:
                pair = Path(config.key_file).read_bytes(), Path(config.cert_file).read_bytes()
                ca = Path(config.client_ca_file).read_bytes() if config.client_ca_file else None
                credentials = grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)
                port = self._server.add_secure_port(str(address), credentials)
        except RuntimeError:
            port = 0
        if not port:
            why = (
                "is it in use, or does gRPC not take cert_file and key_file?"
                if config.tls
                else "is it in use?"
            )
            raise OSError(f"{address} cannot be listened on: {why}")
        return int(port)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float) -> None:
        await self._server.stop(grace)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    def __init__(self, config: GatewayConfig, relay: Relay) -> None:
        self._handlers = {
            signal.method: grpc.unary_unary_rpc_method_handler(_export(signal, config, relay))
            for signal in SIGNALS
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._handlers.get(handler_call_details.method)


def _export(signal: Signal, config: GatewayConfig, relay: Relay) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def export(body: bytes, context: Any) -> bytes:
        tenant = _metadata(context.invocation_metadata(), config.tenant_header)
        answer = await _answer(signal, relay, body, tenant)
        if answer.ok:
            return answer.body
        context.set_trailing_metadata(((_DETAILS, answer.rpc_status()),))
        await context.abort(_CODES.get(answer.code, grpc.StatusCode.UNKNOWN), answer.message)
        raise AssertionError  # abort has raised

    return export


async def _answer(signal: Signal, relay: Relay, body: bytes, tenant: str) -> Answer:
    if relay.closed:
        return relay.answered(signal, later(CLOSING))
    if not relay.room.take(len(body)):
        return relay.answered(signal, later(FULL))
    try:
        request = None if signal is METRICS else signal.parse(body)
    except ValueError as error:
        relay.room.give(len(body))
        return relay.answered(signal, refused(str(error)))
    except Exception as error:
        relay.room.give(len(body))
        survive(error, "reading a request", "its sender is asked to send it again")
        return relay.answered(signal, later(FAULT))
    return await relay.deliver(signal, body, request, tenant, len(body))


def _metadata(metadata: Any, name: str) -> str:
    if not name:
        return ""
    return next((str(value) for key, value in metadata or () if key == name), "")


class _Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Turns away who has no token, before the message is read."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._no = grpc.stream_stream_rpc_method_handler(_turn_away)

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        given = _metadata(handler_call_details.invocation_metadata, "authorization")
        if allowed(given, self._token):
            return await continuation(handler_call_details)
        return self._no


async def _turn_away(_: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, NO)
