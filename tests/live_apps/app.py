"""An application with a real library, for each way in once: ``python -m tests.live_apps.app LIBRARY STUB RECEIVER FOLDER``.

What its exporters send arrives at RECEIVER under the name of the way in. FOLDER gets ``WAY.pb``: the same spans as a
processor beside sees them end, before any exporter; and ``WAY.json``: the metrics that the analysis has recorded.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

import otel_ctx
from tests.live_apps.libraries import LIBRARIES
from tests.live_apps.texts import USERS, system

# ---- the session


class Agent(Protocol):
    """Has the conversation so far: ``call`` sends it and takes the answer in. ``system`` is that of the call at hand."""

    def ask(self, text: str) -> None: ...
    def call(self, system: str, stream: bool) -> None: ...
    async def call_async(self, system: str, stream: bool) -> None: ...
    def answer_tools(self) -> bool:
        """Give the results of the tools that the answer called; whether there were any."""


# Imported by name: a client takes seconds to import, and a process needs one of the two.
APIS = {
    "chat": ("tests.live_apps.openai_agents", "Chat"),
    "responses": ("tests.live_apps.openai_agents", "Responses"),
    "messages": ("tests.live_apps.anthropic_agents", "Messages"),
}


def agent_of(api: str, stub: str) -> Agent:
    module, name = APIS[api]
    return cast(Agent, getattr(import_module(module), name)(stub))


AROUND = ("turn", "session", "nothing")
MODES = (("sync", False), ("async", False), ("sync", True), ("async", True))  # of each turn; True: streaming


def session(
    agent: Agent, around: str, volatile: bool, runner: asyncio.Runner, provider: TracerProvider
) -> None:
    """Four turns of two calls. ``around``: a span around each ``turn``, around the whole ``session``, or ``nothing``.
    What has ended is sent after each turn, as it would be in a session that takes its time."""
    tracer = trace.get_tracer("app")
    number = 0
    with tracer.start_as_current_span("session") if around == "session" else nullcontext():
        for text, (kind, stream) in zip(USERS, MODES, strict=True):
            with tracer.start_as_current_span("turn") if around == "turn" else nullcontext():
                agent.ask(text)
                more = True
                while more:
                    prompt = system(number, volatile)
                    number += 1
                    if kind == "sync":
                        agent.call(prompt, stream)
                    else:
                        # in this context, where the span around is the current one
                        runner.run(agent.call_async(prompt, stream), context=copy_context())
                    more = agent.answer_tools()
            provider.force_flush()
    provider.force_flush()


def sessions(
    number: int, apis: tuple[str, ...], stub: str, runner: asyncio.Runner, provider: TracerProvider
) -> None:
    """Two; over three ways in each API has had each kind of span around it."""
    for n, volatile in ((number, False), (number + 1, True)):
        agent = agent_of(apis[n % len(apis)], stub)
        session(agent, AROUND[n % len(AROUND)], volatile, runner, provider)


# ---- what sees the spans


class Witness(SpanProcessor):
    """Encodes each span when it ends: what is done to it later cannot be seen here."""

    def __init__(self) -> None:
        self.seen = ExportTraceServiceRequest()

    def on_end(self, span: ReadableSpan) -> None:
        self.seen.MergeFrom(encode_spans([span]))


class Current(trace.TracerProvider):
    """The global provider, of which a process has one: whichever ``provider`` is in use."""

    provider: TracerProvider

    def get_tracer(self, *args: Any, **options: Any) -> trace.Tracer:
        return _CurrentTracer(lambda: self.provider.get_tracer(*args, **options))


class _CurrentTracer(trace.Tracer):
    def __init__(self, tracer: Callable[[], trace.Tracer]) -> None:
        self._tracer = tracer

    def start_span(self, *args: Any, **options: Any) -> trace.Span:
        return self._tracer().start_span(*args, **options)

    @contextmanager
    def start_as_current_span(self, *args: Any, **options: Any) -> Iterator[trace.Span]:
        with self._tracer().start_as_current_span(*args, **options) as span:
            yield span


def totals(reader: InMemoryMetricReader) -> list[list[Any]]:
    """[name, attributes, sum] of every counter and histogram."""
    data = reader.get_metrics_data()
    found = []
    for metric in (
        (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics) if data else ()
    ):
        for point in metric.data.data_points:
            value = cast(Any, point).sum if hasattr(point, "sum") else cast(Any, point).value
            found.append([metric.name, dict(point.attributes or {}), value])
    return found


# ---- the ways in


def before(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(meter_provider=meters))
    provider.add_span_processor(BatchSpanProcessor(exporter))


def after(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(BatchSpanProcessor(exporter))
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(meter_provider=meters))


def simple(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(meter_provider=meters))


def pipeline(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(exporter, meter_provider=meters))


def installed(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(BatchSpanProcessor(exporter))
    assert otel_ctx.install(provider, meter_provider=meters)


def wrapped(provider: TracerProvider, exporter: SpanExporter, meters: MeterProvider) -> None:
    provider.add_span_processor(
        BatchSpanProcessor(otel_ctx.ContextSpanExporter(exporter, meter_provider=meters))
    )


WAYS = {way.__name__: way for way in (before, after, simple, pipeline, installed, wrapped)}


def main(library: str, stub: str, receiver: str, folder: Path) -> None:
    chosen = LIBRARIES[library]
    current = Current()
    trace.set_tracer_provider(current)
    chosen.start()
    with asyncio.Runner() as runner:
        for number, (name, way) in enumerate(WAYS.items()):
            provider = current.provider = TracerProvider(resource=Resource({"service.name": "shop"}))
            reader = InMemoryMetricReader()
            witness = Witness()
            provider.add_span_processor(witness)
            way(provider, OTLPSpanExporter(endpoint=f"{receiver}/{name}"), MeterProvider([reader]))
            sessions(number, chosen.apis, stub, runner, provider)
            provider.shutdown()
            (folder / f"{name}.pb").write_bytes(witness.seen.SerializeToString())
            (folder / f"{name}.json").write_text(json.dumps(totals(reader)), "utf-8")
            otel_ctx.uninstall(provider)  # and the analysis of the process begins anew


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
