"""The exporter before another: all spans, enriched, and every answer and wish of the other one passed on."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

from otel_ctx.engine import LiveEngine
from otel_ctx.live import exporter as module
from otel_ctx.live.analyzer import Analyzer
from otel_ctx.live.exporter import ContextSpanExporter, DeferredExporter
from otel_ctx.live.settings import LiveSettings
from otel_ctx.model import Said
from tests.exported import recording
from tests.otlp_receiver import OtlpReceiver

pytestmark = pytest.mark.usefixtures("live_afresh")
SETTINGS = LiveSettings(tokenizer="bytes")
OK, FAILED = SpanExportResult.SUCCESS, SpanExportResult.FAILURE


class Recorder(SpanExporter):
    """Keeps the batches; answers and raises as it is told."""

    def __init__(self, *answers: SpanExportResult | Exception) -> None:
        self.batches: list[list[ReadableSpan]] = []
        self.answers = list(answers)
        self.shutdowns: list[float | None] = []
        self.flushes: list[int] = []
        self.vendors_own = "here"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batches.append(list(spans))
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Exception):
            raise answer
        return answer

    def shutdown(self) -> None:
        self.shutdowns.append(None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.flushes.append(timeout_millis)
        return False

    @property
    def spans(self) -> list[ReadableSpan]:
        return [s for batch in self.batches for s in batch]


def chats(n: int, size: int = 10) -> list[ReadableSpan]:
    """Of one conversation; each prompt ``size`` characters longer than the one before."""
    provider, memory = recording()
    messages = []
    for turn in range(n):
        messages.append({"role": "user", "parts": [{"type": "text", "content": f"{turn} ".ljust(size, "x")}]})
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 10 * turn + 10, "gen_ai.input.messages": json.dumps(messages),
        }  # fmt: skip
        provider.get_tracer("t").start_span("chat", attributes=attributes).end()
    return list(memory.get_finished_spans())


def own(span: ReadableSpan) -> dict[str, Any]:
    return {k: v for k, v in (span.attributes or {}).items() if k.startswith("otelctx.")}


def test_enriched_in_order_and_the_originals_untouched(analyzer: Analyzer) -> None:
    spans, inner = chats(3), Recorder()
    before = [s.to_json() for s in spans]
    assert ContextSpanExporter(inner, analyzer=analyzer).export(spans) is OK
    assert [s.to_json() for s in spans] == before
    assert [own(s)["otelctx.conversation.turn"] for s in inner.spans] == [1, 2, 3]
    assert [s.context for s in inner.spans] == [s.context for s in spans]
    for sent, span in zip(inner.spans, spans, strict=True):
        assert {k: v for k, v in (sent.attributes or {}).items() if k not in own(sent)} == dict(
            span.attributes or {}
        )


def test_two_exporters_analyse_once_and_say_the_same() -> None:
    spans, one, two = chats(3), Recorder(), Recorder()
    fed: list[int] = []

    class Engine(LiveEngine):
        def feed(self, *args: Any, **kwargs: Any) -> list[Said]:
            fed.append(1)
            return super().feed(*args, **kwargs)

    analyzer = Analyzer(SETTINGS, engine=lambda: Engine(SETTINGS.engine()))
    ContextSpanExporter(one, analyzer=analyzer).export(spans)
    ContextSpanExporter(two, analyzer=analyzer).export(spans[:1])
    ContextSpanExporter(two, analyzer=analyzer).export(spans[1:])
    assert [own(s) for s in one.spans] == [own(s) for s in two.spans]
    assert all(own(s) for s in one.spans)
    assert len(fed) == 1
    analyzer.discard()


def test_one_around_another_adds_nothing(analyzer: Analyzer) -> None:
    inner = Recorder()
    ContextSpanExporter(ContextSpanExporter(inner, analyzer=analyzer), analyzer=analyzer).export(chats(2))
    assert [len(s.links) for s in inner.spans] == [0, 1]


def test_a_large_batch_is_sent_in_parts(analyzer: Analyzer) -> None:
    inner = Recorder()
    exporter = ContextSpanExporter(inner, analyzer=analyzer, max_batch_bytes=50_000)
    spans = chats(6, 10_000)
    assert exporter.export(spans) is OK
    assert [s.context for s in inner.spans] == [s.context for s in spans]
    assert [len(b) for b in inner.batches] == [2, 1, 1, 1, 1]


def test_a_part_that_fails_fails_the_batch_and_the_others_are_sent(analyzer: Analyzer) -> None:
    inner = Recorder(OK, FAILED, OK)
    exporter = ContextSpanExporter(inner, analyzer=analyzer, max_batch_bytes=50_000)
    assert exporter.export(chats(6, 10_000)) is FAILED
    assert len(inner.spans) == 6


def test_a_part_that_raises_raises_when_the_others_are_sent(analyzer: Analyzer) -> None:
    inner = Recorder(OK, ValueError("first"), OK, KeyError("second"))
    exporter = ContextSpanExporter(inner, analyzer=analyzer, max_batch_bytes=50_000)
    with pytest.raises(ValueError, match="first"):
        exporter.export(chats(6, 10_000))
    assert len(inner.spans) == 6


@pytest.mark.parametrize("place", ["enriched", "parts"])
def test_what_fails_here_changes_nothing_there(
    analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def fail(*_: object) -> None:
        raise BaseException("a prompt")

    monkeypatch.setattr(module, place, fail)
    inner, spans = Recorder(), chats(2)
    assert ContextSpanExporter(inner, analyzer=analyzer).export(spans) is OK
    assert [s.context for s in inner.spans] == [s.context for s in spans]


def test_batches_are_counted_by_how_they_went() -> None:
    reader = InMemoryMetricReader()
    analyzer = Analyzer(SETTINGS, MeterProvider([reader], shutdown_on_exit=False))
    exporter = ContextSpanExporter(Recorder(OK, FAILED, ValueError("no")), analyzer=analyzer)
    for n in range(2):
        exporter.export(chats(n + 1))
    with pytest.raises(ValueError, match="no"):
        exporter.export(chats(1))
    analyzer.discard()
    data = reader.get_metrics_data()
    assert data is not None
    counted = {
        str((p.attributes or {})["success"]): p.value  # type: ignore[union-attr]
        for r in data.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
        if m.name == "otelctx.self.exports"
        for p in m.data.data_points
    }
    assert counted == {"true": 1, "false": 2}


def test_an_empty_batch(analyzer: Analyzer) -> None:
    assert ContextSpanExporter(Recorder(), analyzer=analyzer).export([]) is OK


def test_disabled_is_as_if_it_were_not_there() -> None:
    inner, spans = Recorder(FAILED), chats(2)
    exporter = ContextSpanExporter(inner, disabled=True)
    assert exporter.export(spans) is FAILED
    assert [a is b for a, b in zip(inner.spans, spans, strict=True)] == [True, True]
    exporter.shutdown()
    assert inner.shutdowns == [None]


def test_disabled_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCTX_DISABLED", "1")
    inner, spans = Recorder(), chats(1)
    ContextSpanExporter(inner).export(spans)
    assert inner.spans[0] is spans[0]


def test_a_wrong_setting_is_named_and_it_works(caplog: pytest.LogCaptureFixture) -> None:
    inner = Recorder()
    with caplog.at_level(logging.WARNING):
        exporter = ContextSpanExporter(inner, duty="fast", tokenizer="bytes", nonsense=1)
        ContextSpanExporter(inner, duty="fast", tokenizer="bytes", nonsense=1)
    assert [r.getMessage().split(":")[1].split("=")[0] for r in caplog.records] == [" nonsense", " duty"]
    exporter.export(chats(1))
    assert own(inner.spans[0])


# ---- the other's wishes


def test_what_else_the_other_has_is_reached(analyzer: Analyzer) -> None:
    exporter = ContextSpanExporter(Recorder(), analyzer=analyzer)
    assert exporter.vendors_own == "here"
    with pytest.raises(AttributeError, match="nothing"):
        _ = exporter.nothing
    with pytest.raises(AttributeError):
        _ = ContextSpanExporter.__new__(ContextSpanExporter).exporter


def test_shutdown_and_flush_are_passed_on(analyzer: Analyzer) -> None:
    class WithTime(Recorder):
        def shutdown(self, timeout_millis: float = 1) -> None:
            self.shutdowns.append(timeout_millis)

    plain, timed = Recorder(), WithTime()
    for inner in (plain, timed):
        exporter = ContextSpanExporter(inner, analyzer=analyzer)
        assert exporter.force_flush(123) is False
        exporter.shutdown(timeout_millis=456)
    assert (plain.flushes, timed.flushes) == ([123], [123])
    assert (plain.shutdowns, timed.shutdowns) == ([None], [456])


def test_an_exporter_without_a_flush(analyzer: Analyzer) -> None:
    class Silent(Recorder):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return None  # type: ignore[return-value]  # as exporters in the field do

    class Bare:
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return OK

    assert ContextSpanExporter(Silent(), analyzer=analyzer).force_flush() is True
    assert ContextSpanExporter(Bare(), analyzer=analyzer).force_flush() is True  # type: ignore[arg-type]


def test_in_a_batch_span_processor_all_arrives_and_shutdown_gives_the_time(analyzer: Analyzer) -> None:
    class WithTime(Recorder):
        def shutdown(self, timeout_millis: float = 1) -> None:
            self.shutdowns.append(timeout_millis)

    inner = WithTime()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(ContextSpanExporter(inner, analyzer=analyzer)))
    for n in range(700):
        provider.get_tracer("t").start_span(f"{n}").end()
    provider.shutdown()
    assert [s.name for s in inner.spans] == [f"{n}" for n in range(700)]
    assert len(inner.shutdowns) == 1
    assert inner.shutdowns[0] is not None
    assert inner.shutdowns[0] > 1000, "what was left of the 30 s"


@pytest.mark.parametrize("error", [None, RuntimeError("no route")])
def test_an_exporter_that_fails_is_logged_by_the_sdk_as_ever(
    analyzer: Analyzer, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    inner = Recorder(error or FAILED)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(ContextSpanExporter(inner, analyzer=analyzer)))
    provider.get_tracer("t").start_span("one").end()
    provider.force_flush()
    provider.get_tracer("t").start_span("two").end()
    provider.shutdown()
    assert [s.name for s in inner.spans] == ["one", "two"]
    assert ("Exception while exporting Span" in caplog.text) is (error is not None)


# ---- behind a SimpleSpanProcessor


def test_deferred_spans_are_exported_by_another_thread(analyzer: Analyzer) -> None:
    threads: list[int] = []

    class Inner(Recorder):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            threads.append(threading.get_ident())
            arrived.set()
            return super().export(spans)

    arrived = threading.Event()
    inner = Inner()
    deferred = DeferredExporter(ContextSpanExporter(inner, analyzer=analyzer))
    spans = chats(2)
    for span in spans:
        assert deferred.export((span,)) is OK
    assert arrived.wait(20), "without a flush"
    deferred.force_flush()
    assert threading.get_ident() not in threads[:1]
    assert [own(s)["otelctx.conversation.turn"] for s in inner.spans] == [1, 2]
    assert deferred.vendors_own == "here"
    deferred.shutdown()
    assert inner.shutdowns == [None]


def test_deferred_spans_leave_at_shutdown(analyzer: Analyzer) -> None:
    inner = Recorder()
    deferred = DeferredExporter(ContextSpanExporter(inner, analyzer=analyzer))
    for span in chats(3):
        deferred.export((span,))
    deferred.shutdown()
    assert len(inner.spans) == 3


def test_a_full_queue_loses_no_span(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    monkeypatch.setattr(module, "_DEFERRED_MS", 1e9)
    go_on = threading.Event()

    class Slow(Recorder):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if threading.current_thread().name.startswith("OtelBatch"):
                go_on.wait(20)
            return super().export(spans)

    inner = Slow()
    deferred = DeferredExporter(ContextSpanExporter(inner, analyzer=analyzer))
    spans = chats(50)
    for span in spans:
        deferred.export((span,))
    assert len(inner.spans) >= 50 - 2 * 4, "what finds no room has gone out at once"
    go_on.set()
    deferred.shutdown()
    assert sorted(s.start_time or 0 for s in inner.spans) == sorted(s.start_time or 0 for s in spans)


# ---- over the wire


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


def test_over_otlp_a_full_span_arrives_whole(analyzer: Analyzer, receiver: OtlpReceiver) -> None:
    provider, memory = recording()
    attributes: dict[str, Any] = {f"k{n:03}": n for n in range(130)}
    attributes |= dict(chats(1)[0].attributes or {})
    provider.get_tracer("t").start_span("chat", attributes=attributes).end()
    (full,) = memory.get_finished_spans()
    assert len(full.attributes or {}) == 128

    exporter = ContextSpanExporter(OTLPSpanExporter(f"{receiver.url}/v1/traces"), analyzer=analyzer)
    assert exporter.export([*chats(2), full]) is OK
    exporter.shutdown()
    first, second, third = receiver.spans()
    assert {a.key for a in first.attributes} >= {
        "otelctx.call.role",
        "otelctx.context.usage",
        "gen_ai.input.messages",
    }
    assert (len(first.links), len(second.links)) == (0, 1)
    assert second.links[0].span_id == first.span_id
    assert second.links[0].trace_id == first.trace_id
    keys = [a.key for a in third.attributes]
    assert keys[:128] == list(full.attributes or {})
    assert "otelctx.call.role" in keys
    assert third.dropped_attributes_count == full.dropped_attributes > 0
