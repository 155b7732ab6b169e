"""The analyzer of a process: once for each span, whatever fails, in parent and child."""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from otel_ctx.engine import LiveEngine
from otel_ctx.engine.judge import Judge
from otel_ctx.live import analyzer as module
from otel_ctx.live import worker
from otel_ctx.live.analyzer import Analyzer, release, shared
from otel_ctx.live.enrichment import Enrichment
from otel_ctx.live.log_records import ContextLogRecordProcessor
from otel_ctx.live.pipelines import Queue
from otel_ctx.live.settings import LiveSettings
from otel_ctx.model import Call, LogRecord, Said, Span
from tests.exported import recording

pytestmark = pytest.mark.usefixtures("live_afresh")
SETTINGS = LiveSettings(tokenizer="bytes")
SECRET = "the prompt that nobody else may read"


class Panic(BaseException):
    """As native code raises it."""


class App:
    """A provider whose finished spans are taken as they come, and metrics that can be read."""

    def __init__(self) -> None:
        self.provider, self.memory = recording(resource=Resource({"service.name": "shop"}))
        self.reader = InMemoryMetricReader()
        self.metrics = MeterProvider([self.reader], shutdown_on_exit=False)

    def span(self, name: str = "chat m", **attributes: Any) -> ReadableSpan:
        self.provider.get_tracer("t").start_span(name, attributes=attributes).end()
        return self.memory.get_finished_spans()[-1]

    def chat(self, turns: int = 1, name: str = "chat m", **more: Any) -> ReadableSpan:
        messages = [
            {"role": "user", "parts": [{"type": "text", "content": f"{SECRET} {n}"}]} for n in range(turns)
        ]
        return self.span(
            name,
            **{
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4o",
                "gen_ai.usage.input_tokens": 10 * turns,
                "gen_ai.input.messages": json.dumps(messages),
                **more,
            },
        )

    def counts(self, metric: str, key: str) -> dict[str, float]:
        data = self.reader.get_metrics_data()
        points = [
            p
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for m in scope.metrics
            if m.name == metric
            for p in m.data.data_points
        ]
        found: dict[str, float] = {}
        for p in points:
            value = getattr(p, "value", None)
            if value is None:
                value = p.count  # type: ignore[union-attr]  # a histogram's
            if value:
                label = str((p.attributes or {}).get(key, ""))
                found[label] = found.get(label, 0) + value
        return found

    def analyzer(self, engine: Any = None, given: LiveSettings = SETTINGS) -> Analyzer:
        return Analyzer(given, self.metrics, engine)


class Exporter:
    def __init__(self, queue: Queue | None = None) -> None:
        self.queue = queue


@pytest.fixture
def app() -> App:
    return App()


def roles(found: list[Enrichment | None]) -> list[object]:
    return [e.attributes["otelctx.call.role"] if e is not None else None for e in found]


def test_a_call_is_enriched_and_another_span_is_not(app: App) -> None:
    analyzer = app.analyzer()
    found = analyzer.enrich([app.chat(), app.span("GET /"), app.chat(2)])
    assert roles(found) == ["primary", None, "primary"]
    assert found[2] is not None
    assert found[2].attributes["otelctx.conversation.turn"] == 2
    assert found[2].link is not None
    assert app.counts("otelctx.self.spans", "result") == {"analysed": 2, "not_genai": 1}
    assert app.counts("otelctx.calls", "source_service") == {"shop": 2}


def test_a_span_that_comes_again_is_not_analysed_again(app: App) -> None:
    analyzer = app.analyzer()
    spans = [app.chat(), app.span("GET /"), app.chat(2)]
    first = analyzer.enrich(spans)
    assert [a is b for a, b in zip(analyzer.enrich(spans), first, strict=True)] == [True] * 3
    assert [a is b for a, b in zip(analyzer.enrich(spans[::-1]), first[::-1], strict=True)] == [True] * 3
    assert sum(app.counts("otelctx.self.spans", "result").values()) == 3


def test_results_are_let_go_and_nothing_is_counted_again(app: App) -> None:
    analyzer = app.analyzer(given=LiveSettings(tokenizer="bytes", remembered_spans=2))
    spans = [app.chat(n) for n in range(1, 6)]
    assert None not in analyzer.enrich(spans), "a batch may be larger than what is remembered"
    assert len(analyzer._results) == 2
    analyzer.enrich(spans)
    assert app.counts("otelctx.calls", "source_service") == {"shop": 5}


def test_a_duplicate_says_so(app: App) -> None:
    with app.provider.get_tracer("outer").start_as_current_span("wrapper") as outer:
        inner = app.chat()
        for key, value in (inner.attributes or {}).items():
            outer.set_attribute(key, value)
    found = app.analyzer().enrich([inner, app.memory.get_finished_spans()[-1]])
    assert sorted(map(str, roles(found))) in (["duplicate", "primary"], ["aggregate", "primary"])
    assert app.counts("otelctx.calls", "source_service") == {"shop": 1}


# ---- faults


class Fragile(LiveEngine):
    """Fails on spans that are named so."""

    error: BaseException = Panic(SECRET)

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
        return super().feed(self._each(spans), logs)

    def _each(self, spans: Iterable[Span]) -> Iterator[Span]:
        for span in spans:
            if span.name == "bad":
                raise self.error
            yield span


@pytest.mark.parametrize("error", [Panic(SECRET), ValueError(SECRET), MemoryError(), RecursionError(SECRET)])
def test_a_span_that_the_engine_fails_on_passes_and_the_others_are_enriched(
    app: App, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    engine = Fragile(SETTINGS.engine())
    engine.error = error
    analyzer = app.analyzer(lambda: engine)
    found = analyzer.enrich([app.chat(name="bad"), app.chat(), app.chat(name="bad"), app.chat(2)])
    assert roles(found)[0] is roles(found)[2] is None
    assert roles(found)[3] == "primary"
    assert app.counts("otelctx.self.spans", "result")["failed"] >= 2
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text
    assert roles(analyzer.enrich([app.chat(3)])) == ["primary"], "and it goes on"


@pytest.mark.parametrize("error", [Panic(SECRET), ValueError(SECRET)])
def test_a_call_that_is_failed_on_costs_only_itself(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    judge = Judge.judge

    def fragile(self: Judge, call: Call, conflicts: Sequence[str] = ()) -> Said:
        if call.model == "bad":
            raise error
        return judge(self, call, conflicts)

    monkeypatch.setattr(Judge, "judge", fragile)
    analyzer = app.analyzer()
    bad = {"gen_ai.request.model": "bad"}
    spans = [app.chat(1), app.chat(2, **bad), app.span("GET /"), app.chat(3), app.chat(4, **bad), app.chat(5)]
    assert roles(analyzer.enrich(spans)) == ["primary", None, None, "primary", None, "primary"]
    assert app.counts("otelctx.self.spans", "result") == {"analysed": 3, "failed": 2, "not_genai": 1}
    assert SECRET not in caplog.text
    analyzer.drain()
    assert app.counts("otelctx.calls", "source_service") == {"shop": 3}
    tokens = app.counts("otelctx.context.segment.tokens", "category")
    assert tokens == {"user": 10 + 30 + 50}, "each that can settle, settles once"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit()])
def test_what_means_stop_stops(app: App, error: BaseException) -> None:
    engine = Fragile(SETTINGS.engine())
    engine.error = error
    analyzer = app.analyzer(lambda: engine)
    with pytest.raises(type(error)):
        analyzer.enrich([app.chat(name="bad")])
    assert roles(analyzer.enrich([app.chat()])) == ["primary"], "the lock was given back"


def test_spans_that_cannot_be_read(app: App) -> None:
    class Broken(ReadableSpan):
        @property
        def events(self) -> Any:
            raise Panic(SECRET)

    good = app.chat()
    bad = Broken("chat", trace.SpanContext(1, 2, is_remote=False), attributes={})
    no_ids = SimpleNamespace(context=None)
    no_span: Any = object()
    found = app.analyzer().enrich([bad, good, no_ids, no_span])  # type: ignore[list-item]
    assert roles(found) == [None, "primary", None, None]
    assert app.counts("otelctx.self.spans", "result") == {"analysed": 1, "unreadable": 3}


class Broken(LiveEngine):
    """Fails always: ``at`` says where."""

    made = 0
    at = "feed"

    def __init__(self) -> None:
        super().__init__(SETTINGS.engine())
        type(self).made += 1

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
        said = super().feed(spans, logs)
        if self.at == "feed":
            raise Panic(SECRET)
        return said

    def advance(self, now_unix_nano: int) -> list[Said]:
        if self.at == "advance":
            raise Panic(SECRET)
        return super().advance(now_unix_nano)


@pytest.mark.parametrize("where", ["feed", "advance"])
def test_an_engine_that_always_fails_is_replaced_and_then_left_alone(app: App, where: str) -> None:
    class Engine(Broken):
        at = where
        made = 0

    analyzer = app.analyzer(Engine)
    for n in range(1, 10):
        found = analyzer.enrich([app.chat(n)])
        assert roles(found) == [None if where == "feed" else "primary"]
    assert Engine.made == 3
    if where == "feed":
        assert app.counts("otelctx.self.spans", "result") == {"failed": 9}


def test_an_engine_that_cannot_be_made(app: App, caplog: pytest.LogCaptureFixture) -> None:
    def make() -> Any:
        raise OSError(SECRET)

    analyzer = app.analyzer(make)
    assert analyzer.enrich([app.chat()]) == [None]
    assert "OSError" in caplog.text
    assert SECRET not in caplog.text


def test_metrics_that_fail_change_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer = app.analyzer()

    def fail(*_: object, **__: object) -> None:
        raise Panic(SECRET)

    monkeypatch.setattr(analyzer._instruments, "record", fail)
    assert roles(analyzer.enrich([app.chat()])) == ["primary"]


# ---- settling


def test_content_is_counted_when_a_call_settles_and_once(app: App) -> None:
    analyzer = app.analyzer()
    spans = [app.chat(1), app.chat(2)]
    analyzer.enrich(spans)
    analyzer.enrich(spans)
    analyzer.drain()
    analyzer.drain()
    analyzer.finish()
    assert app.counts("otelctx.calls", "source_service") == {"shop": 2}
    tokens = app.counts("otelctx.context.segment.tokens", "category")
    assert tokens == {"user": pytest.approx(tokens["user"])}
    assert app.counts("otelctx.context.tokens", "source_service") == {"shop": 2}


def test_what_is_open_settles_with_time_and_without_another_span(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TICK", 0.01)
    settled = threading.Event()

    class Engine(LiveEngine):
        def advance(self, now_unix_nano: int) -> list[Said]:
            said = super().advance(now_unix_nano + 60_000_000_000 * self.waited)
            self.waited = 1
            if said:
                settled.set()
            return said

        waited = 0

    analyzer = app.analyzer(lambda: Engine(SETTINGS.engine()))
    with app.provider.get_tracer("t").start_as_current_span("still open"):
        found = analyzer.enrich([app.chat()])
        assert found[0] is not None
        assert found[0].attributes["otelctx.provisional"] is True
        assert settled.wait(20), "a thread of its own looks"
    analyzer.discard()
    assert app.counts("otelctx.context.segment.tokens", "category")["user"] > 0


def test_log_records_are_read_with_the_spans(app: App) -> None:
    body = {"content": SECRET}
    bare = app.span(
        **{"gen_ai.system": "openai", "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    )
    assert bare.context is not None
    context = trace.set_span_in_context(trace.NonRecordingSpan(bare.context))
    record = ApiLogRecord(
        timestamp=bare.start_time, context=context, body=body, event_name="gen_ai.user.message",
        attributes={"gen_ai.system": "openai", "event.name": "gen_ai.user.message"},
    )  # fmt: skip
    analyzer = app.analyzer()
    listening = ContextLogRecordProcessor(analyzer=analyzer)
    listening.on_emit(ReadableLogRecord(record, Resource({})))
    listening.on_emit(SimpleNamespace(log_record=None))  # type: ignore[arg-type]
    found = analyzer.enrich([bare])
    assert found[0] is not None
    assert found[0].attributes["otelctx.completeness"] != "none"
    assert "otelctx.segments.user.tokens" in found[0].attributes


# ---- time and room


def test_a_full_queue_takes_no_analysis(app: App) -> None:
    queue = Queue(deque([app.span("waiting")] * 95), 100)
    analyzer = app.analyzer()
    assert analyzer.enrich([app.chat()], queue) == [None]
    analyzer.drain()
    assert app.counts("otelctx.self.spans", "result") == {"dropped": 1}
    queue.held.clear()
    assert roles(analyzer.enrich([app.chat()], queue)) == ["primary"]


def test_a_batch_has_a_time(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LEAST_BUDGET", 0.0)
    analyzer = app.analyzer(given=LiveSettings(tokenizer="bytes", span_budget_ms=0.0))
    spans = [app.chat(n) for n in range(1, 4)]
    assert analyzer.enrich(spans) == [None] * 3
    assert app.counts("otelctx.self.spans", "result") == {"dropped": 3}
    assert caplog.text.count("spans come faster") == 1


@pytest.mark.parametrize(
    ("thread", "more", "rests"),
    [
        ("OtelBatchSpanRecordProcessor", 0, True),
        ("OtelBatchSpanRecordProcessor", 15, False),
        ("MainThread", 0, False),
    ],
)
def test_only_an_exporting_thread_that_nobody_waits_for_rests(
    app: App, monkeypatch: pytest.MonkeyPatch, thread: str, more: int, rests: bool
) -> None:
    """``more``: what comes into its queue meanwhile."""
    slept: list[float] = []
    times = iter(range(10_000))
    queue = Queue(deque(), 100)

    class Pace(module.Pace):
        def __init__(self, duty: float, hurried: Any, sleep: Any) -> None:
            super().__init__(duty, hurried, lambda: next(times) / 1000, slept.append)
            queue.held.extend([waiting] * more)

    monkeypatch.setattr(module, "Pace", Pace)
    analyzer = app.analyzer()
    waiting = app.span("waiting")
    spans = [app.chat(n) for n in range(1, 4)]
    exporting = threading.Thread(target=lambda: analyzer.enrich(spans, queue), name=thread)
    exporting.start()
    exporting.join()
    assert bool(slept) is rests


def test_who_waits_makes_the_worker_hurry(app: App) -> None:
    """The worker works on until it is told that another thread waits."""
    entered = threading.Event()

    class Engine(LiveEngine):
        def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
            entered.set()
            hurried.append(analyzer._worker._eager.wait(20))
            return super().feed(spans, logs)

    hurried: list[bool] = []
    analyzer = app.analyzer(lambda: Engine(SETTINGS.engine()))
    first, second = app.chat(1), app.chat(2)
    patient = threading.Thread(target=lambda: analyzer.enrich([first]), name="OtelBatchSpanRecordProcessor")
    patient.start()
    assert entered.wait(20)
    assert roles(analyzer.enrich([second])) == ["primary"]
    patient.join()
    assert hurried == [True, True]
    assert not analyzer._worker.hurried


def test_many_threads(app: App) -> None:
    analyzer = app.analyzer()
    spans = [app.chat(n) for n in range(1, 41)]
    wrong: list[object] = []

    def export(part: int) -> None:
        for n in range(len(spans)):
            found = analyzer.enrich([spans[(n * 7 + part) % len(spans)]])
            if roles(found) != ["primary"]:
                wrong.append(found)

    threads = [threading.Thread(target=export, args=[n]) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert app.counts("otelctx.calls", "source_service") == {"shop": 40}
    assert app.counts("otelctx.self.spans", "result") == {"analysed": 40}


# ---- fork and exit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_begins_anew_whatever_the_parent_was_doing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_FORK_WAIT", 0.01)
    entered, go_on = threading.Event(), threading.Event()

    class Engine(LiveEngine):
        def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
            entered.set()
            go_on.wait(20)
            return super().feed(spans, logs)

    analyzer = app.analyzer(lambda: Engine(SETTINGS.engine()))
    busy = threading.Thread(target=lambda: analyzer.enrich([app.chat()]))
    busy.start()
    assert entered.wait(20)  # and the child does not have the thread
    child = os.fork()
    if child == 0:
        result = 1
        try:
            go_on.set()
            own, _ = app.chat(), analyzer.drain()
            result = 0 if roles(analyzer.enrich([own])) == ["primary"] else 2
        finally:
            os._exit(result)
    go_on.set()
    busy.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert app.counts("otelctx.calls", "source_service") == {"shop": 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_for_the_batch_under_analysis(app: App) -> None:
    """Whatever lock the engine holds inside, the child does not inherit it."""
    entered, inside = threading.Event(), threading.Lock()

    class Engine(LiveEngine):
        def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
            with inside:
                entered.set()
                analyzer._worker._eager.wait(20)
                return super().feed(spans, logs)

    analyzer = app.analyzer(lambda: Engine(SETTINGS.engine()))
    busy = threading.Thread(target=lambda: analyzer.enrich([app.chat()]))
    busy.start()
    assert entered.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if inside.acquire(blocking=False) else 1)
    busy.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert roles(analyzer.enrich([app.chat(2)])) == ["primary"], "the parent goes on"


def test_at_exit_what_waits_is_analysed_and_settled_but_not_taken(app: App) -> None:
    analyzer = app.analyzer()
    queue = Queue(deque([app.chat(2), app.chat(1)]), 100)
    waiting = Exporter(queue)
    analyzer.opened(waiting)
    analyzer.finish()
    assert len(queue) == 2
    assert app.counts("otelctx.calls", "source_service") == {"shop": 2}
    assert app.counts("otelctx.context.segment.tokens", "category")["user"] > 0
    assert roles(analyzer.enrich(queue.spans())) == ["primary"] * 2
    assert app.counts("otelctx.self.spans", "result") == {"analysed": 2}


def test_the_last_exporter_that_closes_settles_all(app: App) -> None:
    analyzer = app.analyzer()
    one, two = Exporter(), Exporter()
    analyzer.opened(one)
    analyzer.opened(two)
    analyzer.enrich([app.chat()])
    with app.provider.get_tracer("t").start_as_current_span("open"):
        analyzer.enrich([app.chat(2)])
    before = app.counts("otelctx.context.segment.tokens", "category")
    analyzer.closed(one)
    assert app.counts("otelctx.context.segment.tokens", "category") == before
    analyzer.closed(two)
    assert app.counts("otelctx.context.segment.tokens", "category") != before


def test_gauges_do_not_wait_for_a_batch(app: App) -> None:
    analyzer = app.analyzer()
    analyzer.enrich([app.chat(), app.chat(2)])
    analyzer.drain()
    assert app.counts("otelctx.self.conversations.tracked", "") == {"": 1}
    shown = app.counts("otelctx.conversations", "headroom")
    assert sum(shown.values()) == 1
    with analyzer._worker._busy:
        assert app.counts("otelctx.self.conversations.tracked", "") == {"": 1}
        assert app.counts("otelctx.conversations", "headroom") == shown


def test_an_analyzer_is_let_go(app: App) -> None:
    analyzer = app.analyzer()
    analyzer.enrich([app.chat()])
    analyzer.discard()
    gone = weakref.ref(analyzer)
    del analyzer
    gc.collect()
    assert gone() is None


# ---- the one of the process


def test_one_for_all(caplog: pytest.LogCaptureFixture) -> None:
    first = shared(SETTINGS, None)
    assert shared(SETTINGS, None) is first
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        assert shared(LiveSettings(duty=0.9), None) is first
    assert "one process has one analysis" in caplog.text
    release()
    assert shared(SETTINGS, None) is not first
