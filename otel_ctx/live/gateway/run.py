"""The gateway as a whole: what it is made of, how it starts and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal as signals
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from otel_ctx.engine import LiveEngine
from otel_ctx.live.faults import survive
from otel_ctx.live.gateway import admin, http_server
from otel_ctx.live.gateway.config import GatewayConfig
from otel_ctx.live.gateway.counters import Counters
from otel_ctx.live.gateway.delivered import Delivered
from otel_ctx.live.gateway.desk import TICK, Desk
from otel_ctx.live.gateway.downstream import open_downstream
from otel_ctx.live.gateway.enricher import Enricher
from otel_ctx.live.gateway.exposition import Exposition
from otel_ctx.live.gateway.grpc_server import GrpcReceiver
from otel_ctx.live.gateway.nearest import Nearest
from otel_ctx.live.gateway.relay import Relay, Room
from otel_ctx.live.gateway.signals import SIGNALS
from otel_ctx.live.gateway.state import StateError, Store
from otel_ctx.live.gateway.values import Address
from otel_ctx.live.instruments import Instruments
from otel_ctx.model import Said
from otel_ctx.rules import load
from otel_ctx.tokens import Counter

_log = logging.getLogger("otel_ctx")
_BACKLOG = 512
_OBSERVERS = 100  # connections to the admin port
_USUAL = ("o200k_base", "claude4.7")  # vocabularies that are loaded at once: each takes some 30 MB
_HUSH = 0.1  # s between the last request that is taken in and the end of the receivers
_LEAST = 100  # conversations of a tenant


class _Watched(Instruments):
    """Instruments that also tell ``nearest`` of each call."""

    nearest: Nearest | None = None

    def record(self, said: Said, span_context: trace.SpanContext | None, first: bool) -> None:
        super().record(said, span_context, first)
        if self.nearest is not None and not said.again:
            self.nearest.note(said)


class Gateway:
    """``await start()``, then ``await stop()``. ``ports`` tells what was bound."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.ports: dict[str, int] = {}
        self.ready = False
        registry = CollectorRegistry()
        self.counters = Counters(
            registry, tuple(s.name for s in SIGNALS), tuple(to.name for to in config.forward)
        )
        reader = InMemoryMetricReader()
        self._provider = MeterProvider([reader], shutdown_on_exit=False)
        self.delivered = Delivered(config.redelivery_window, config.max_remembered_bytes)
        self.instruments = _Watched(
            self._provider,
            conversations=lambda: self.enricher.bands(),
            sources=lambda: self.enricher.sources(),
            queue=lambda: self.desk.queue,
            tracked=lambda: self.enricher.tracked(),
            rulebook_age=partial(_rulebook_age, config),
        )
        nearest = Nearest(config.top_conversations) if config.top_conversations else None
        self.instruments.nearest = nearest
        self.exposition = Exposition(reader, registry, nearest.points if nearest is not None else None)
        self.counters.forgotten.set_function(lambda: self.delivered.early)
        many = bool(config.tenant_header or config.tenant_attribute)
        tenants = config.max_tenants if many else 1
        self.enricher = Enricher(
            partial(new_engine, config, tenants),
            self.instruments,
            self.delivered,
            config.tenant_attribute,
            tenants,
        )
        self.desk = Desk(
            self.enricher,
            self.instruments,
            self.counters,
            config.analysis_timeout,
            config.max_waiting_bytes,
        )
        self._store: Store | None = None
        self._servers: list[tuple[http_server.HttpServer, asyncio.Task[None]]] = []
        self._grpc: GrpcReceiver | None = None
        self._admin: tuple[http_server.HttpServer, asyncio.Task[None]] | None = None
        self._ticking: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """OSError where a port cannot be had."""
        config = self.config
        self.relay = Relay(
            [(to, open_downstream(to)) for to in config.forward],
            self.desk,
            Room(config.max_in_flight_bytes, self.counters),
            config.max_in_flight_bytes,
            self.instruments,
            self.counters,
        )
        if config.admin is not None:
            app = admin.application(self.exposition, lambda: self.ready)
            self._admin = await self._serve("admin", config.admin, app, tls=False)
        if config.state_dir:
            self._store = Store(config.state_dir)
        await self.desk.run(self._warm_up)
        if config.grpc is not None:
            self._grpc = GrpcReceiver(config, self.relay)
            self.ports["grpc"] = self._grpc.bind(config.grpc)
            await self._grpc.start()
        if config.http is not None:
            app = http_server.application(config, self.relay)
            self._servers.append(await self._serve("http", config.http, app, tls=config.tls))
        self._ticking = [asyncio.create_task(self._tick())]
        if self._store is not None:
            self._ticking.append(asyncio.create_task(self._save_sometimes()))
        self.ready = True

    async def stop(self) -> None:
        """Take nothing more in, finish what was taken in, settle and save."""
        self.ready = False
        config = self.config
        # gRPC cancels the calls that wait at its door when it closes. Who is told to come again waits, and is not there.
        self.relay.closed = True
        await asyncio.sleep(min(_HUSH, config.drain_timeout))
        with suppress(TimeoutError):
            async with asyncio.timeout(config.drain_timeout + 2):
                for server, _ in self._servers:
                    server.should_exit = True
                if self._grpc is not None:
                    await self._grpc.stop(config.drain_timeout)
                if self._servers:
                    await asyncio.wait([task for _, task in self._servers])
                await self.relay.finish()
        for task in self._ticking:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(config.drain_timeout):
                await self.desk.run(self._end)
        await self.relay.close()
        if self._admin is not None:
            self._admin[0].should_exit = True
            await asyncio.wait([self._admin[1]])
        self.desk.stop()
        if self._store is not None:
            self._store.close()
        self._provider.shutdown()

    async def failed(self) -> OSError:
        """Waits until a server ends that was not told to: what has ended it."""
        serving = {task: "http" for _, task in self._servers}
        if self._admin is not None:
            serving[self._admin[1]] = "admin"
        if not serving:
            await asyncio.Event().wait()
        done, _ = await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
        task = done.pop()
        return _ended(serving[task], task)

    # ---- inside

    async def _serve(
        self, name: str, address: Address, app: Any, tls: bool
    ) -> tuple[http_server.HttpServer, asyncio.Task[None]]:
        listening = _listen(address)
        self.ports[name] = listening.getsockname()[1]
        connections = self.config.max_connections if name == "http" else _OBSERVERS
        server = http_server.http_server(app, self.config, tls, connections)
        task = asyncio.create_task(server.serve([listening]))
        task.add_done_callback(lambda _: _close(server, listening))
        while not server.started and not task.done():
            await asyncio.sleep(0.005)
        if task.done():
            raise _ended(name, task)
        return server, task

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            await self.desk.settle()

    async def _save_sometimes(self) -> None:
        pause = self.config.save_interval
        while True:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            await self.desk.run(self._save)
            # No span is analysed meanwhile: that is a hundredth of the time at most.
            pause = max(self.config.save_interval, 100 * (time.monotonic() - begun))

    def _warm_up(self) -> None:
        """Tables and vocabularies are loaded before the first span comes."""
        try:
            counter = Counter(self.config.analysis.tokenizer)
            for encoding in _USUAL:
                counter.count("Warm up.", encoding)
            new_engine(self.config, 1)
            self._load()
        except Exception as error:
            survive(error, "warming up", "what is missing is loaded when it is needed, and no state")

    def _end(self) -> None:
        """What has not settled settles after the restart, where there is a state; else now."""
        if self._store is not None:
            self._save()
            return
        try:
            self.enricher.drain()
        except Exception as error:
            survive(error, "settling", "some of what was still open is not counted")

    def _load(self) -> None:
        store = self._store
        if store is None:
            return
        try:
            content = store.load()
            if content is not None:
                self.enricher.load(content)
        except StateError as error:
            aside = store.set_aside()
            _log.warning("otel_ctx: the saved state is not used: %s; it is now %s", error, aside)

    def _save(self) -> None:
        """Forwarding goes on whatever comes of it."""
        assert self._store is not None
        try:
            self._store.save(self.enricher.saved())
        except OSError as error:
            self.counters.saves.labels("false").inc()
            _log.warning("otel_ctx: the state was not saved: %s", error.strerror or type(error).__name__)
        except Exception as error:
            self.counters.saves.labels("false").inc()
            survive(error, "saving the state", "the last one that was saved stays")
        else:
            self.counters.saves.labels("true").inc()


def _rulebook_age(config: GatewayConfig) -> float:
    """Seconds since the newest source of the tables."""
    year, month, day = (*load(config.analysis.engine().rules_override).as_of.split("-"), "1", "1")[:3]
    return time.time() - datetime(int(year), int(month), int(day), tzinfo=UTC).timestamp()


def new_engine(config: GatewayConfig, tenants: int) -> LiveEngine:
    """All tenants together remember what one may."""
    share = max(min(_LEAST, config.analysis.conversations), config.analysis.conversations // tenants)
    characters = config.analysis.kept_characters // tenants
    return LiveEngine(replace(config.analysis.engine(), text_cap=characters, discreet=True), share)


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(f"{address} cannot be listened on: {error.strerror}") from None
    listening.setblocking(False)
    return listening


def _close(server: http_server.HttpServer, listening: socket.socket) -> None:
    """A server that failed leaves its door open."""
    for door in getattr(server, "servers", ()):
        door.close()
    listening.close()


def _ended(name: str, task: asyncio.Task[None]) -> OSError:
    error = task.exception()
    why = (
        getattr(error, "strerror", None) or type(error).__name__ if error is not None else "without an error"
    )
    return OSError(f"{name}: the server has ended ({why})")


def lines(gateway: Gateway) -> Mapping[str, str]:
    """What was started, in words."""
    config, ports = gateway.config, gateway.ports
    found = {}
    for name in ("grpc", "http", "admin"):
        address = getattr(config, name)
        if address is not None:
            found[name] = str(Address(address.host, ports[name]))
    return found


async def run(config: GatewayConfig) -> None:
    """Until SIGTERM or SIGINT. OSError where it cannot start, or where a server of it ends by itself."""
    gateway = Gateway(config)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signals.SIGTERM, signals.SIGINT):
        loop.add_signal_handler(number, ended.set)
    await gateway.start()
    listening = lines(gateway)
    received = ", ".join(f"{name} {listening[name]}" for name in ("grpc", "http") if name in listening)
    _log.info(
        "otelctx gateway: receives OTLP on %s; sends on to %s; %s",
        received,
        ", ".join(to.url for to in config.forward),
        f"/metrics on {listening['admin']}" if "admin" in listening else "no /metrics",
    )
    failing = asyncio.create_task(gateway.failed())
    stopping = asyncio.create_task(ended.wait())
    await asyncio.wait((failing, stopping), return_when=asyncio.FIRST_COMPLETED)
    failure = None if stopping.done() else failing.result()
    failing.cancel()
    stopping.cancel()
    _log.info("otelctx gateway: stops, and finishes what it has taken in")
    await gateway.stop()
    if failure is not None:
        raise failure
    _log.info("otelctx gateway: stopped")
