"""The processor on a provider: before, between and after others, and nothing exported twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_ctx.live import processor as module
from otel_ctx.live.analyzer import Analyzer
from otel_ctx.live.exporter import ContextSpanExporter, DeferredExporter
from otel_ctx.live.processor import ContextSpanProcessor
from otel_ctx.live.settings import LiveSettings
from tests.exported import chat

pytestmark = pytest.mark.usefixtures("live_afresh")
SETTINGS = LiveSettings(tokenizer="bytes")


class Kept(SpanExporter):
    """What was exported, and on which thread. No InMemorySpanExporter: that one is treated as a test's."""

    def __init__(self, endpoint: str = "") -> None:
        self.spans: list[ReadableSpan] = []
        self.threads: set[str] = set()
        self.shutdowns = 0
        self._endpoint = endpoint

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        self.threads.add(threading.current_thread().name)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.shutdowns += 1

    @property
    def names(self) -> list[str]:
        return [s.name for s in self.spans]


def role(span: ReadableSpan) -> object:
    return (span.attributes or {}).get("otelctx.call.role")


# ---- beside others


@pytest.mark.parametrize("place", ["first", "between", "last", "later"])
def test_where_it_is_added_makes_no_difference(
    provider: TracerProvider, analyzer: Analyzer, place: str
) -> None:
    one, two = Kept(), Kept()
    add, ours = provider.add_span_processor, ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS)
    order: list[SpanProcessor] = [BatchSpanProcessor(one), BatchSpanProcessor(two)]
    order.insert({"first": 0, "between": 1}.get(place, 2), ours)
    for each in order if place != "later" else order[:2]:
        add(each)
    if place == "later":
        provider.get_tracer("t").start_span("before").end()
        add(ours)
    chat(provider, 1)
    chat(provider, 2)
    provider.force_flush()
    for kept in (one, two):
        assert kept.names == ["before"] * (place == "later") + ["chat", "chat"], "each once"
        assert [role(s) for s in kept.spans[-2:]] == ["primary", "primary"]


def test_a_processor_that_is_added_afterwards_is_found(provider: TracerProvider, analyzer: Analyzer) -> None:
    one, two = Kept(), Kept()
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(one))
    chat(provider)
    provider.add_span_processor(BatchSpanProcessor(two))
    chat(provider, 2)
    provider.force_flush()
    assert [role(s) for s in one.spans] == ["primary", "primary"]
    assert [role(s) for s in two.spans] == ["primary"]


def test_the_originals_stay_as_they_were(provider: TracerProvider, analyzer: Analyzer) -> None:
    class Look(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            seen.append(span)

    seen: list[ReadableSpan] = []
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(Kept()))
    provider.add_span_processor(Look())
    chat(provider)
    provider.force_flush()
    assert [k for k in seen[0].attributes or {} if k.startswith("otelctx.")] == []
    assert (len(seen[0].events), len(seen[0].links)) == (0, 0)


def test_one_exporter_in_two_processors_and_two_of_ours(provider: TracerProvider, analyzer: Analyzer) -> None:
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    for _ in range(2):
        provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    chat(provider, 2)
    provider.force_flush()
    assert kept.names == ["chat", "chat"]
    assert [len(s.links) for s in kept.spans] == [0, 1]


def test_processors_inside_processors(provider: TracerProvider, analyzer: Analyzer) -> None:
    class Wrapper(SpanProcessor):
        def __init__(self, *inner: SpanProcessor) -> None:
            self.inner, self.me = list(inner), self

        def on_end(self, span: ReadableSpan) -> None:
            for each in self.inner:
                each.on_end(span)

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return all(each.force_flush() for each in self.inner)

        def shutdown(self) -> None:
            for each in self.inner:
                each.shutdown()

    one, two = Kept(), Kept()
    provider.add_span_processor(Wrapper(BatchSpanProcessor(one), Wrapper(BatchSpanProcessor(two))))
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    provider.force_flush()
    assert [role(s) for s in (*one.spans, *two.spans)] == ["primary", "primary"]


def test_a_provider_that_calls_its_processors_at_once(analyzer: Analyzer) -> None:
    provider = TracerProvider(
        shutdown_on_exit=False, active_span_processor=ConcurrentMultiSpanProcessor(num_threads=2)
    )
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    provider.force_flush()
    provider.shutdown()
    assert [role(s) for s in kept.spans] == ["primary"]


def test_spans_that_are_not_sampled_cost_nothing(analyzer: Analyzer) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    kept = Kept()
    provider.add_span_processor(ContextSpanProcessor(kept, analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    provider.shutdown()
    assert kept.spans == []


def test_many_threads_start_spans_while_processors_are_added(
    provider: TracerProvider, analyzer: Analyzer
) -> None:
    kept = [Kept() for _ in range(4)]
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(kept[0]))
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for n in range(50):
                chat(provider, 1, f"chat {n}")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for k in kept[1:]:
        provider.add_span_processor(BatchSpanProcessor(k))
    for t in threads:
        t.join()
    chat(provider, 1, "chat 50")
    provider.force_flush()
    assert wrong == []
    assert len(kept[0].spans) == 201
    assert {role(s) for s in kept[0].spans} <= {"primary", "duplicate"}
    for p in provider._active_span_processor._span_processors[1:]:
        exporter = p._batch_processor._exporter  # type: ignore[attr-defined]
        assert isinstance(exporter, ContextSpanExporter)
        assert isinstance(exporter.exporter, Kept), "wrapped once"


# ---- behind a SimpleSpanProcessor


def test_what_cannot_flush_behind_a_simple_processor_hurts_nobody(
    provider: TracerProvider, analyzer: Analyzer, caplog: pytest.LogCaptureFixture
) -> None:
    class Raises(Kept):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            raise ValueError("theirs")

    kept = Raises()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    assert provider.force_flush() is True
    assert [role(s) for s in kept.spans] == ["primary"]
    assert "flushing an exporter failed with ValueError" in caplog.text
    assert "theirs" not in caplog.text


def test_behind_a_simple_processor_another_thread_exports(
    provider: TracerProvider, analyzer: Analyzer
) -> None:
    kept = Kept()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    chat(provider, 2)
    assert provider.force_flush() is True
    assert [role(s) for s in kept.spans] == ["primary", "primary"]
    processor = provider._active_span_processor._span_processors[0]
    assert isinstance(processor, SimpleSpanProcessor)
    assert isinstance(processor.span_exporter, DeferredExporter)
    provider.shutdown()
    assert kept.shutdowns == 1


@pytest.mark.parametrize("kind", ["sync", "memory"])
def test_at_once_where_it_is_asked_for_and_for_what_a_test_reads(
    provider: TracerProvider, analyzer: Analyzer, kind: str
) -> None:
    memory, kept = InMemorySpanExporter(), Kept()
    provider.add_span_processor(SimpleSpanProcessor(memory if kind == "memory" else kept))
    given = LiveSettings(tokenizer="bytes", mode="sync" if kind == "sync" else "background")
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=given))
    chat(provider)
    spans = memory.get_finished_spans() if kind == "memory" else kept.spans
    assert [role(s) for s in spans] == ["primary"]
    assert kept.threads <= {threading.current_thread().name}


# ---- a pipeline of its own


def test_with_an_exporter_it_is_a_pipeline(provider: TracerProvider, analyzer: Analyzer) -> None:
    kept, other = Kept(), Kept()
    provider.add_span_processor(ContextSpanProcessor(kept, analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(other))
    chat(provider)
    assert provider.force_flush() is True
    chat(provider, 2)
    provider.shutdown()
    assert [role(s) for s in kept.spans] == ["primary", "primary"]
    assert [role(s) for s in other.spans] == [None, None], "others are left alone"
    assert kept.shutdowns == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "warned"),
    [
        ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/traces", True),
        ("http://localhost:4318/v1/traces", "127.0.0.1:4317", True),
        ("http://localhost:4318/v1/traces", "http://collector:4318/v1/traces", False),
        ("https://a.example/v1/traces", "https://a.example/other/v1/traces", False),
        ("https://a.example/v1/traces", "https://a.example/v1/traces", True),
        ("", "", False),
    ],
)
def test_what_goes_twice_to_one_place_is_told(
    provider: TracerProvider,
    analyzer: Analyzer,
    caplog: pytest.LogCaptureFixture,
    ours: str,
    theirs: str,
    warned: bool,
) -> None:
    provider.add_span_processor(ContextSpanProcessor(Kept(ours), analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(Kept(theirs)))
    for _ in range(3):
        chat(provider)
    assert caplog.text.count("spans are sent twice: Kept") == caplog.text.count("spans are sent") == warned


def test_the_same_exporter_twice_is_told(
    provider: TracerProvider, analyzer: Analyzer, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    provider.add_span_processor(ContextSpanProcessor(kept, analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    assert "spans are sent twice" in caplog.text


# ---- with no exporter to be found


def test_without_an_exporter_there_are_metrics(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    reader = InMemoryMetricReader()
    analyzer = Analyzer(SETTINGS, MeterProvider([reader], shutdown_on_exit=False))
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    chat(provider)
    provider.force_flush()
    data = reader.get_metrics_data()
    assert data is not None
    calls = [
        m
        for r in data.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
        if m.name == "otelctx.calls"
    ]
    assert sum(p.value for p in calls[0].data.data_points) == 1  # type: ignore[union-attr]
    assert caplog.text.count("no exporter was found") == 1
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    chat(provider, 2)
    provider.force_flush()
    assert [role(s) for s in kept.spans] == ["primary"], "and one that comes later is wrapped"
    analyzer.discard()


# ---- the host


def test_nothing_of_ours_reaches_the_application(
    provider: TracerProvider,
    analyzer: Analyzer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> Iterator[SpanProcessor]:
        raise BaseException("a prompt")

    monkeypatch.setattr(module, "processors", fail)
    kept = Kept()
    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS))
    provider.add_span_processor(BatchSpanProcessor(kept))
    chat(provider)
    provider.force_flush()
    assert kept.names == ["chat"]
    assert caplog.text.count("looking for exporters failed") == 1
    assert "a prompt" not in caplog.text


def test_disabled_it_does_nothing(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCTX_DISABLED", "true")
    kept, own = Kept(), Kept()
    batch = BatchSpanProcessor(kept)
    provider.add_span_processor(batch)
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(ContextSpanProcessor(own))
    chat(provider)
    provider.force_flush()
    assert batch.span_exporter is kept
    assert [role(s) for s in (*kept.spans, *own.spans)] == [None, None], "a pipeline of its own still sends"


def test_a_foreign_span_on_start(analyzer: Analyzer) -> None:
    processor: Any = ContextSpanProcessor(analyzer=analyzer, settings=SETTINGS)
    processor.on_start(object())
    processor.on_end(object())
    assert processor.force_flush() is True
    processor.shutdown()
