"""An application with a real library, for each way in once: ``python -m tests.live_apps.app LIBRARY STUB RECEIVER FOLDER``.

What its exporters send arrives at RECEIVER under the name of the way in. FOLDER gets ``WAY.pb``: the same spans as a
processor beside sees them end, before any exporter; and ``WAY.json``: the metrics that the analysis has recorded.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

import otel_ctx
from tests.live_apps.libraries import LIBRARIES
from tests.live_apps.session import Witness, note, sessions


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
            sessions(number, chosen.apis, stub, runner, provider.force_flush)
            provider.shutdown()
            note(folder, name, witness, reader)
            otel_ctx.uninstall(provider)  # and the analysis of the process begins anew


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
