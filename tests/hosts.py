"""Applications to try the live part in: each is run without us and with us, and must notice no difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from otel_ctx.live.analysis import Engine
from otel_ctx.live.analyzer import Analyzer
from otel_ctx.live.processor import ContextSpanProcessor
from otel_ctx.live.settings import LiveSettings

SETTINGS = LiveSettings(tokenizer="bytes")
ROOT = Path(__file__).parent.parent


class Receiver(SpanExporter):
    """Where spans arrive. ``answer`` is asked after each batch, and may raise."""

    def __init__(self, answer: Callable[[], SpanExportResult] = lambda: SpanExportResult.SUCCESS) -> None:
        self.spans: list[ReadableSpan] = []
        self.answer = answer
        self._more = threading.Condition()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._more:
            self.spans += spans
            self._more.notify_all()
        return self.answer()

    def wait_for(self, spans: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.spans) >= spans, 60)

    @property
    def names(self) -> Counter[str]:
        return Counter(span.name for span in self.spans)

    @property
    def shown(self) -> int:
        """Calls that spans show: each has one primary span."""
        return sum((s.attributes or {}).get("otelctx.call.role") == "primary" for s in self.spans)


class Host:
    """An application in this process, and the exceptions that it saw. ``ours``: whether otel_ctx is there."""

    def __init__(
        self,
        ours: bool,
        *receivers: Receiver,
        engine: Callable[[], Engine] | None = None,
        processor: Callable[[Receiver], SpanProcessor] = BatchSpanProcessor,
    ) -> None:
        self.receivers = receivers or (Receiver(),)
        self.raised: list[BaseException] = []
        self.chats: set[str] = set()
        self.provider = TracerProvider(shutdown_on_exit=False)
        for receiver in self.receivers:
            self.provider.add_span_processor(processor(receiver))
        self.analyzer = None
        self._reader = InMemoryMetricReader()
        if ours:
            self.analyzer = Analyzer(SETTINGS, MeterProvider([self._reader], shutdown_on_exit=False), engine)
            self.provider.add_span_processor(ContextSpanProcessor(analyzer=self.analyzer, settings=SETTINGS))
        self._tracer = self.provider.get_tracer("t")

    def chat(self, name: str, **more: Any) -> None:
        """One model call, with a name of its own."""
        self.chats.add(name)
        messages = [{"role": "user", "parts": [{"type": "text", "content": f"hello {name}"}]}]
        self._span(name, {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 10, "gen_ai.input.messages": json.dumps(messages), **more,
        })  # fmt: skip

    def other(self, name: str) -> None:
        self._span(name, {"http.request.method": "GET", "url.path": "/"})

    def close(self) -> None:
        self.attempt(self.provider.force_flush)
        self.attempt(self.provider.shutdown)
        if self.analyzer is not None:
            self.attempt(self.analyzer.discard)

    def attempt(self, what: Callable[[], object]) -> None:
        try:
            what()
        except BaseException as error:
            self.raised.append(error)

    def count(self, metric: str) -> int:
        """The sum of a counter over all its series."""
        data = self._reader.get_metrics_data()
        points: list[Any] = [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for m in scope.metrics
            if m.name == metric
            for point in m.data.data_points
        ]
        return sum(point.value for point in points)

    def _span(self, name: str, attributes: dict[str, Any]) -> None:
        self.attempt(lambda: self._tracer.start_span(name, attributes=attributes).end())


def assert_no_harm(plain: Host, ours: Host) -> None:
    """The application saw no exception, what arrives without us arrives with us and once, and no call is counted
    twice."""
    assert (plain.raised, ours.raised) == ([], [])
    for without, with_us in zip(plain.receivers, ours.receivers, strict=True):
        assert without.names - with_us.names == Counter(), "lost"
        assert set(with_us.names.values()) <= {1}, "sent twice"
        assert with_us.shown <= ours.count("otelctx.calls") <= len(ours.chats)


# ---- in processes of their own

_APP = """
import json, os, signal, sys, threading, time
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
import otel_ctx

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

class Metrics(MetricExporter):
    def export(self, data, timeout_millis=10000, **_):
        for r in data.resource_metrics:
            for s in r.scope_metrics:
                for m in s.metrics:
                    if m.name in ("otelctx.calls", "otelctx.context.segment.tokens"):
                        say("metric", who(), m.name, sum(p.value for p in m.data.data_points))
        return MetricExportResult.SUCCESS
    def shutdown(self, timeout_millis=30000, **_): pass
    def force_flush(self, timeout_millis=10000): return True

class Spans(SpanExporter):
    def export(self, spans):
        for s in spans:
            say("span", who(), s.name, s.attributes.get("otelctx.call.role"))
        return SpanExportResult.SUCCESS
    def shutdown(self): pass

def who():
    return "parent" if os.getpid() == PARENT else os.getpid()

PARENT = os.getpid()
OURS = os.environ["OURS"] == "1"
trace.set_tracer_provider(TracerProvider())
provider = trace.get_tracer_provider()
add = provider.add_span_processor
def install():
    if OURS: otel_ctx.install()
def chat(name):
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": name * 40}]}])}
    provider.get_tracer("t").start_span(name, attributes=attributes).end()
def meters():
    reader = PeriodicExportingMetricReader(Metrics(), export_interval_millis=600000)
    metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
"""


class Process:
    """What an application said that ran ``script`` after the set-up of ``_APP``: spans and metrics as they were
    exported, by process ("parent" or a number)."""

    def __init__(self, script: str, ours: bool) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _APP + textwrap.dedent(script)],
            capture_output=True, text=True, check=False, timeout=100, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OTELCTX_TOKENIZER": "bytes", "OURS": str(int(ours))},
        )  # fmt: skip
        self.code, self.stderr = done.returncode, done.stderr
        said = [line.split() for line in done.stdout.splitlines()]
        self.spans = Counter((who, name) for what, who, name, *_ in said if what == "span")
        self.names = Counter(name for what, _, name, *_ in said if what == "span")
        self.shown = sum(what == "span" and rest == ["primary"] for what, _, _, *rest in said)
        last = {(who, name): int(rest[0]) for what, who, name, *rest in said if what == "metric"}
        self.calls = sum(n for (_, name), n in last.items() if name == "otelctx.calls")
        self.tokens = sum(n for (_, name), n in last.items() if name == "otelctx.context.segment.tokens")
        self.said = said
