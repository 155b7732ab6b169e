"""Contents that come beside the spans: what is kept of them, for how long, and what is said with them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_ctx.live import analyzer as analyzer_module
from otel_ctx.live import completion_hook, faults, log_records, settings
from otel_ctx.live.analyzer import Analyzer, shared
from otel_ctx.live.completion_hook import ContextCompletionHook
from otel_ctx.live.contents import Contents
from otel_ctx.live.install import install, uninstall
from otel_ctx.live.instrumentor import ContextInstrumentor
from otel_ctx.live.log_records import ContextLogRecordProcessor, listen, stop_listening
from otel_ctx.live.pipelines import Queue
from otel_ctx.live.processor import ContextSpanProcessor
from otel_ctx.live.settings import LiveSettings
from otel_ctx.model import LogRecord

SETTINGS = LiveSettings(tokenizer="bytes")
TEXT = "Where is the parcel that I sent back last week?"
CALL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 20,
}
A, B = ("1" * 32, "a" * 16), ("1" * 32, "b" * 16)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_named", set())
    monkeypatch.setattr(faults, "_told", set())


def record(name: str = "x", key: tuple[str, str] = A) -> LogRecord:
    return LogRecord(*key, name, 1, None, {})


def names(records: list[LogRecord]) -> list[str]:
    return [each.name for each in records]


# ---- what waits


def test_records_wait_for_the_end_of_their_span() -> None:
    contents = Contents()
    for name, key in (("one", A), ("other", B), ("two", A), ("free", ("", ""))):
        contents.put(key, lambda name=name, key=key: record(name, key))

    assert names(contents.take([])) == ["free"]
    assert names(contents.take([A])) == ["one", "two"]
    assert names(contents.take([A])) == []
    contents.put(A, lambda: record("late"))
    assert names(contents.take([], before={A})) == ["late"]
    assert names(contents.take([B])) == ["other"]
    assert not contents


def test_all_of_a_span_or_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Half a prompt would be taken for a whole one."""
    contents = Contents(most=4)
    for n in range(3):
        contents.put(A, lambda n=n: record(f"a{n}"))
    for n in range(3):  # two of these have no room
        contents.put(B, lambda n=n: record(f"b{n}", B))

    assert names(contents.take([A])) == ["a0", "a1", "a2"]
    contents.put(B, lambda: record("b3", B))
    assert names(contents.take([B])) == []
    assert caplog.text.count("more log records wait") == 1


def test_those_that_wait_longest_leave_first() -> None:
    contents = Contents(most=4)
    for key in (A, B):
        for n in range(3):
            contents.put(key, lambda key=key, n=n: record(str(n), key))
        contents.take([])

    assert names(contents.take([A])) == []
    assert names(contents.take([B])) == ["0", "1", "2"]


def test_a_record_that_cannot_be_read_takes_the_others_of_its_span_along() -> None:
    contents = Contents()

    def fail() -> LogRecord:
        raise ValueError

    contents.put(A, lambda: record("one"))
    contents.put(A, fail)
    contents.put(B, lambda: record("other", B))

    assert names(contents.take([A, B])) == ["other"]


def test_what_nobody_asks_for_is_forgotten() -> None:
    contents = Contents()
    contents.put(A, record)
    contents.take([])
    contents.forget([A])

    assert not contents
    assert contents.take([A]) == []


# ---- log records


class App:
    """An SDK that is set up, in this process. ``events``: emits them while the span is open."""

    def __init__(self, sampler: Any = None) -> None:
        self.kept = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(self.kept))
        self.logs = LoggerProvider(shutdown_on_exit=False)
        self.reader = InMemoryMetricReader()
        self.analyzer = Analyzer(SETTINGS, MeterProvider([self.reader], shutdown_on_exit=False))
        self.provider.add_span_processor(ContextSpanProcessor(analyzer=self.analyzer, settings=SETTINGS))

    def call(self, text: str = TEXT, *, after: bool = False) -> None:
        tracer, logger = self.provider.get_tracer("t"), self.logs.get_logger("t")
        span = tracer.start_span("chat", attributes=CALL)
        event = ApiLogRecord(
            context=trace.set_span_in_context(span),
            event_name="gen_ai.user.message",
            body={"content": text},
            attributes={"gen_ai.system": "openai"},
        )
        if after:
            span.end()
            self.provider.force_flush()
        logger.emit(event)
        span.end()

    @property
    def said(self) -> list[dict[str, Any]]:
        self.provider.force_flush()
        return [dict(span.attributes or {}) for span in self.kept.get_finished_spans()]

    def counts(self, metric: str, category: str | None = None) -> int:
        data = self.reader.get_metrics_data()
        metrics = (
            [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        )
        points: list[Any] = [p for m in metrics if m.name == metric for p in m.data.data_points]
        return sum(p.value for p in points if category in (None, p.attributes.get("category")))


@pytest.fixture
def app() -> Iterator[App]:
    made = App()
    yield made
    stop_listening()
    made.provider.shutdown()
    made.analyzer.discard()


def test_contents_in_log_records_are_contents_of_their_span(app: App) -> None:
    assert listen(app.analyzer, app.logs)
    assert listen(app.analyzer, app.logs), "again does no harm"
    app.call()

    (said,) = app.said
    assert said["otelctx.segments.user.tokens"] > 0
    assert said["otelctx.provisional"] is False
    assert app.counts("otelctx.context.segment.tokens") == 0, "not settled yet"
    app.analyzer.drain()
    assert app.counts("otelctx.context.segment.tokens") == pytest.approx(said["otelctx.context.usage"])


def test_threads_that_start_to_listen_add_one(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(8)

    class Slow(ContextLogRecordProcessor):
        def __init__(self, **options: Any) -> None:
            time.sleep(0.02)  # the others come meanwhile
            super().__init__(**options)

    monkeypatch.setattr(log_records, "ContextLogRecordProcessor", Slow)

    def start() -> None:
        both.wait(60)
        listen(app.analyzer, app.logs)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(app.logs._multi_log_record_processor._log_record_processors) == 1


def test_contents_that_come_after_their_span_are_there_when_it_settles(app: App) -> None:
    listen(app.analyzer, app.logs)
    app.call(after=True)

    (said,) = app.said
    assert "otelctx.segments.user.tokens" not in said
    assert said["otelctx.provisional"] is True
    app.analyzer.drain()
    assert app.counts("otelctx.context.segment.tokens", "user") > 0
    assert app.counts("otelctx.calls") == 1


def test_records_of_no_call_are_not_kept(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(app.analyzer, "hear", lambda *given: heard.append(given))
    listen(app.analyzer, app.logs)
    logger = app.logs.get_logger("app")
    with app.provider.get_tracer("t").start_as_current_span("request"):
        logger.emit(ApiLogRecord(body="a line of the app", attributes={}))
        logger.emit(ApiLogRecord(event_name="payment.done", body={"content": TEXT}))
    assert heard == []
    logger.emit(ApiLogRecord(body={"content": TEXT}, attributes={"event.name": "gen_ai.user.message"}))
    assert [key for key, _ in heard] == [("0" * 32, "")], "of no span: read with the next batch"


def test_a_span_that_is_not_sampled_never_comes() -> None:
    app = App(ALWAYS_OFF)
    listen(app.analyzer, app.logs)
    app.call()

    assert not app.analyzer._contents
    stop_listening()
    app.analyzer.discard()


def test_nobody_makes_records_for_us_alone(app: App) -> None:
    listen(app.analyzer, app.logs)

    (ours,) = app.logs._multi_log_record_processor._log_record_processors
    assert (ours.enabled(event_name="gen_ai.choice"), ours.enabled(event_name="payment.done")) == (
        True,
        False,
    )


def test_uninstall_takes_it_out() -> None:
    provider, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_records, "get_logger_provider", lambda: logs)
        provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
        assert install(provider, settings=SETTINGS)
        assert install(provider, settings=SETTINGS)
        assert len(logs._multi_log_record_processor._log_record_processors) == 1
        uninstall(provider)
        assert logs._multi_log_record_processor._log_record_processors == ()
        assert install(provider, settings=SETTINGS)
        assert len(logs._multi_log_record_processor._log_record_processors) == 1
        uninstall(provider)
    provider.shutdown()


def test_contents_of_a_span_that_goes_out_as_it_is_are_not_kept(app: App) -> None:
    listen(app.analyzer, app.logs)
    full = Queue(deque([None] * 10), 10)  # type: ignore[list-item]
    span = app.provider.get_tracer("t").start_span("chat", attributes=CALL)
    with trace.use_span(span):
        app.logs.get_logger("t").emit(ApiLogRecord(event_name="gen_ai.user.message", body={"content": TEXT}))
    app.analyzer.drain()
    assert app.analyzer._contents, "it waits"
    app.analyzer.hold()  # as if it were busy
    assert app.analyzer.enrich([span], full) == [None]  # type: ignore[list-item]
    app.analyzer.let_go()
    app.analyzer.drain()
    assert not app.analyzer._contents
    span.end()


def test_contents_in_a_fork_that_python_does_not_know_of(app: App) -> None:
    """There no handler has begun anew: the first content does, not the span behind it, which would forget it."""
    listen(app.analyzer, app.logs)
    app.analyzer._worker._pid = -1
    app.call()

    assert app.said[0]["otelctx.segments.user.tokens"] > 0


def test_a_vendors_provider_may_have_no_hash_and_other_insides(app: App) -> None:
    class Vendors:
        __hash__ = None  # type: ignore[assignment]  # as of a dataclass that can be compared

        def __init__(self) -> None:
            self.added: list[Any] = []

        def add_log_record_processor(self, processor: Any) -> None:
            self.added.append(processor)

    provider: Any = Vendors()
    assert listen(app.analyzer, provider)
    stop_listening()
    (ours,) = provider.added
    assert ours.analyzer is None, "it cannot be taken out, and does nothing"
    assert listen(app.analyzer, provider)
    assert provider.added == [ours]
    assert ours.analyzer is app.analyzer


def test_a_provider_without_processors_is_left_alone(app: App) -> None:
    assert listen(app.analyzer, SimpleNamespace()) is False  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, SimpleNamespace(), SimpleNamespace(log_record=3)], ids=str)
def test_no_record_raises(given: Any, app: App) -> None:
    ContextLogRecordProcessor(analyzer=app.analyzer).on_emit(given)


def test_switched_off_it_hears_nothing(app: App) -> None:
    off = ContextLogRecordProcessor(disabled=True)
    body = ApiLogRecord(event_name="gen_ai.user.message", body={"content": TEXT})
    off.on_emit(ReadableLogRecord(body, Resource({})))

    assert off.analyzer is None
    assert not off.enabled(event_name="gen_ai.user.message")


# ---- the hook


@pytest.fixture
def hook(app: App, monkeypatch: pytest.MonkeyPatch) -> ContextCompletionHook:
    monkeypatch.setattr(completion_hook, "install", lambda **_: True)
    monkeypatch.setattr(analyzer_module, "_shared", app.analyzer)
    return ContextCompletionHook(settings=SETTINGS)


def messages(text: str = TEXT) -> list[Any]:
    from opentelemetry.util.genai.types import InputMessage, TextPart

    return [InputMessage("user", [TextPart(text)])]


def complete(app: App, hook: ContextCompletionHook, operation: str = "chat", inputs: Any = None) -> None:
    span = app.provider.get_tracer("t", "1.0").start_span(
        "chat", attributes={**CALL, "gen_ai.operation.name": operation}
    )
    hook.on_completion(
        inputs=messages() if inputs is None else inputs, outputs=[], system_instruction=[], span=span
    )
    span.end()


def test_a_hooks_contents_are_analysed_and_nowhere(app: App, hook: ContextCompletionHook) -> None:
    complete(app, hook)

    (said,) = app.said
    assert said["otelctx.segments.user.tokens"] > 0
    assert TEXT[:12] not in str(said)
    assert {k for k in said if not k.startswith("otelctx.")} == set(CALL)


def test_the_list_that_the_caller_goes_on_with_is_not_ours(app: App, hook: ContextCompletionHook) -> None:
    inputs = messages()
    complete(app, hook, inputs=inputs)
    inputs.clear()

    assert app.said[0]["otelctx.segments.user.tokens"] > 0


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool"])
def test_what_is_no_call_is_no_content(operation: str, app: App, hook: ContextCompletionHook) -> None:
    complete(app, hook, operation)

    assert not app.analyzer._contents


@pytest.mark.parametrize("span", [None, trace.INVALID_SPAN, SimpleNamespace(), 3], ids=str)
def test_a_hook_never_raises(span: Any, app: App, hook: ContextCompletionHook) -> None:
    hook.on_completion(
        inputs=messages(), outputs=[], system_instruction=[], span=span, more="of a later version"
    )

    assert not app.analyzer._contents


def test_a_hook_that_is_switched_off(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer_module, "_shared", app.analyzer)
    complete(app, ContextCompletionHook(disabled=True))

    assert not app.analyzer._contents


def test_a_hook_alone_installs_us_where_there_is_a_provider(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[Any] = []
    monkeypatch.setattr(completion_hook, "install", lambda **given: installed.append(given) or True)
    monkeypatch.setattr(analyzer_module, "_shared", app.analyzer)
    hook = ContextCompletionHook(settings=SETTINGS)
    assert installed == [], "when it is made there may be none"
    complete(app, hook)
    complete(app, hook)

    assert installed == [{"settings": SETTINGS}]


# ---- the instrumentor


def test_an_instrumentor_installs_and_uninstalls() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    one = ContextInstrumentor()
    one.instrument(skip_dep_check=True, tracer_provider=provider, tokenizer="bytes")

    assert ContextInstrumentor().is_instrumented_by_opentelemetry is True, "the loader makes another object"
    assert shared(SETTINGS, None).settings == SETTINGS
    one.uninstrument()
    assert one.is_instrumented_by_opentelemetry is False
    provider.shutdown()


def test_an_instrumentor_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    """That would keep those behind it from loading."""
    one = ContextInstrumentor()
    with caplog.at_level(logging.WARNING):
        one.instrument(tracer_provider=3, nonsense=1, duty="much")

    assert one.is_instrumented_by_opentelemetry is False
    assert "nonsense: there is no such setting" in caplog.text
    assert "duty='much' is not used" in caplog.text
    one.uninstrument()
