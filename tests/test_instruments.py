"""The metrics through the real SDK: values, zeros before the first event, exemplars, bounds; no harm to the host."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import MeterProvider as ApiMeterProvider
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanContext, TraceFlags

from otel_ctx.engine import LiveEngine
from otel_ctx.inputs import read
from otel_ctx.live.instruments import Instruments
from otel_ctx.model import Band, Finding, Said
from otel_ctx.outputs.metrics import FED, METRICS, OPEN, VALUES, Caps
from otel_ctx.rules import load

CASE = "oi-anthropic"
SAMPLED = SpanContext(0x1234, 0x56, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
UNSAMPLED = SpanContext(0x1234, 0x56, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT))


class App:
    """An application's metrics. Nothing but what is asked for: no exporter, no exit hook."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], Resource.get_empty(), shutdown_on_exit=False)

    def collect(self) -> dict[str, Any]:
        """name -> metric, of the last collection."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}

    def points(self, name: str) -> dict[tuple[str, ...], Any]:
        """Attribute values, in the order of the table's keys, -> the point's value (of a histogram: the point)."""
        metric = self.collect().get(name)
        return {} if metric is None else values(metric)


def values(metric: Any) -> dict[tuple[str, ...], Any]:
    keys = METRICS[metric.name].keys
    return {tuple(p.attributes[k] for k in keys): getattr(p, "value", p) for p in metric.data.data_points}


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    yield app
    app.provider.shutdown()


@pytest.fixture(scope="module")
def calls(corpus_case: Callable[[str], Any]) -> list[Said]:
    engine = LiveEngine()
    for batch in read(corpus_case(CASE).files):
        engine.feed(batch.spans, batch.logs)
    return engine.drain()


def from_source(said: Said, service: str, provider: str = "openai", model: str = "gpt-5") -> Said:
    call = replace(said.reading.call, service=service, provider=provider, model=model)
    return replace(said, reading=said.reading._replace(call=call))


def finding(kind: str) -> Finding:
    return Finding(kind=kind, severity="warning", title="t", detail="d", fix="f", calls=("a",))


# ---- values


def test_the_sums_are_those_of_the_calls(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    for said in calls:
        instruments.record(said, SAMPLED, True)
        instruments.record(said, SAMPLED, False)

    got = {name: values(m) for name, m in app.collect().items()}

    inputs = [s.reading.call.usage.input or 0 for s in calls]
    assert len(inputs) > 3
    assert sum(got["otelctx.calls"].values()) == len(calls)
    assert sum(got["otelctx.cache.reported.tokens"].values()) == sum(inputs)
    (depth,) = got["otelctx.context.tokens"].values()
    assert (depth.count, depth.sum, depth.max) == (len(inputs), sum(inputs), max(inputs))
    reads = sum(s.reading.call.usage.cache_read or 0 for s in calls)
    assert sum(v for k, v in got["otelctx.cache.reported.tokens"].items() if k[-1] == "read") == reads > 0
    grown = [s.reading.context.growth for s in calls if s.reading.context.growth is not None]
    (growth,) = got["otelctx.context.growth.tokens"].values()
    assert growth.count == len(grown)


def test_a_finding_counts_once_in_a_conversation(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    one = replace(calls[0], findings=(finding("tools_changed"),))
    other = replace(one, reading=one.reading._replace(conversation="another"))
    for said in (one, one, other, one, other):
        instruments.record(said, SAMPLED, False)

    counts = {k: v for k, v in app.points("otelctx.findings").items() if v}

    service = calls[0].reading.call.service or "unknown"
    assert counts == {(service, "tools_changed", "warning"): 2}


def test_only_the_newest_conversations_are_remembered(
    app: App, calls: list[Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_ctx.live.instruments._FINDINGS_KEPT", 2)
    instruments = Instruments(app.provider)
    for conversation in ("a", "b", "c", "c", "b", "a"):
        said = replace(calls[0], findings=(finding("tools_changed"),))
        said = replace(said, reading=said.reading._replace(conversation=conversation))
        instruments.record(said, None, False)

    assert sum(app.points("otelctx.findings").values()) == 4


def test_a_call_that_is_told_again_counts_nothing(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    instruments.record(calls[0], SAMPLED, True)
    instruments.record(replace(calls[0], again=True), SAMPLED, True)

    assert sum(app.points("otelctx.calls").values()) == 1


def test_histograms_have_the_tables_buckets(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    for said in calls:
        instruments.record(said, SAMPLED, True)
        instruments.record(said, SAMPLED, False)
    instruments.processing(0.003)

    histograms = {n: m for n, m in app.collect().items() if METRICS[n].kind == "histogram"}

    assert len(histograms) == 6
    for name, metric in histograms.items():
        for point in metric.data.data_points:
            assert tuple(point.explicit_bounds) == METRICS[name].buckets


def test_what_otel_ctx_did_itself(app: App) -> None:
    instruments = Instruments(app.provider)
    instruments.self_spans("analysed", 3)
    instruments.self_spans("dropped")
    instruments.content_lost("value_cut")
    instruments.content_lost("server_side")
    instruments.exports(True)
    instruments.exports(False)
    instruments.evicted(early=True, n=2)
    instruments.processing(0.25)

    got = {n: {k: v for k, v in values(m).items() if v} for n, m in app.collect().items()}

    assert got["otelctx.self.spans"] == {("analysed",): 3, ("dropped",): 1}
    assert got["otelctx.self.content.lost"] == {("value_cut",): 1}
    assert got["otelctx.self.exports"] == {("true",): 1, ("false",): 1}
    assert got["otelctx.self.conversations.evicted"] == {("true",): 2}
    assert got["otelctx.self.processing.duration"][()].sum == 0.25


def test_names_units_and_keys_are_the_tables(app: App, calls: list[Said]) -> None:
    instruments = Instruments(
        app.provider,
        conversations=lambda: {("shop", "low"): 1},
        sources=lambda: [("shop", "1.2")],
        queue=lambda: (1, 2),
        tracked=lambda: 3,
        rulebook_age=lambda: 4.5,
    )
    for said in calls:
        instruments.record(said, SAMPLED, True)
        instruments.record(said, SAMPLED, False)
    instruments.processing(0.1)

    metrics = app.collect()

    assert set(metrics) == FED
    for name, metric in metrics.items():
        row = METRICS[name]
        assert (metric.unit, metric.description) == (row.unit, row.description)
        for point in metric.data.data_points:
            assert set(point.attributes) == set(row.keys)
            assert all(isinstance(v, str) for v in point.attributes.values())
            assert all(v in VALUES[k] for k, v in point.attributes.items() if k not in OPEN)


# ---- zeros


def test_the_process_starts_at_zero(app: App) -> None:
    Instruments(app.provider)

    got = {n: values(m) for n, m in app.collect().items()}

    assert got == {
        "otelctx.self.spans": {(v,): 0 for v in VALUES["result"]},
        "otelctx.self.content.lost": {(v,): 0 for v in VALUES["loss"]},
        "otelctx.self.exports": {("true",): 0, ("false",): 0},
        "otelctx.self.conversations.evicted": {("true",): 0, ("false",): 0},
    }


def test_an_expected_service_stands_at_zero_before_its_first_call(app: App) -> None:
    Instruments(app.provider).expect("shop")

    findings = app.points("otelctx.findings")

    assert {k[1] for k in findings} == set(VALUES["kind"])
    assert set(findings.values()) == {0}
    assert app.points("otelctx.self.model.unknown") == {("shop",): 0}


def test_every_value_of_a_source_is_there_from_its_first_call_on(app: App, calls: list[Said]) -> None:
    Instruments(app.provider).record(from_source(calls[0], "shop"), SAMPLED, True)

    got = {n: values(m) for n, m in app.collect().items()}

    assert set(got["otelctx.calls"]) == {("shop", "openai", "gpt-5", v) for v in VALUES["content"]}
    assert set(got["otelctx.cache.reported.tokens"]) == {
        ("shop", "openai", "gpt-5", v) for v in VALUES["state"]
    }
    # What is told when the call settles stands at 0 until then.
    assert got["otelctx.context.segment.tokens"] == {
        ("shop", "openai", "gpt-5", v): 0 for v in VALUES["category"]
    }
    assert got["otelctx.context.compactions"] == {("shop", "openai", "gpt-5"): 0}
    assert set(got["otelctx.findings"].values()) == {0}


def test_a_second_call_does_not_add_zeros_again(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    instruments.record(calls[0], SAMPLED, True)
    before = app.collect()
    instruments.record(replace(calls[0], again=True), SAMPLED, True)

    assert {n: values(m) for n, m in app.collect().items() if METRICS[n].kind == "counter"} == {
        n: values(m) for n, m in before.items() if METRICS[n].kind == "counter"
    }


# ---- bounds


def test_names_beyond_the_caps_are_other(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider, caps=Caps(services=2, models=1))
    for i in range(4):
        instruments.record(from_source(calls[0], f"service-{i}", model=f"model-{i}"), SAMPLED, True)

    counts = {k[:3]: v for k, v in app.points("otelctx.calls").items() if v}

    assert counts == {
        ("service-0", "openai", "model-0"): 1,
        ("service-1", "openai", "other"): 1,
        ("other", "openai", "other"): 2,
    }


def test_the_sdk_never_overflows(app: App, calls: list[Said]) -> None:
    """After 2,000 attribute sets an SDK puts the rest of an instrument under one label, for ever."""
    instruments = Instruments(app.provider)
    for i in range(60):
        for j in range(40 if i % 10 == 0 else 2):
            said = from_source(calls[0], f"service-{i}", f"provider-{j % 25}", f"model-{j}")
            said = replace(said, findings=(finding(f"kind-{j}"),))
            instruments.record(said, None, True)
            instruments.record(said, None, False)

    largest = 0
    for metric in app.collect().values():
        points = metric.data.data_points
        largest = max(largest, len(points))
        assert not [p for p in points if "otel.metric.overflow" in p.attributes]
    assert 1000 < largest <= 2000


def test_values_outside_the_closed_sets_are_other(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    instruments.self_spans("made up", 5)
    instruments.record(replace(calls[0], findings=(finding("made_up"),)), None, False)

    assert app.points("otelctx.self.spans")[("other",)] == 5
    assert [k[1:] for k, v in app.points("otelctx.findings").items() if v] == [("other", "warning")]


# ---- exemplars


@pytest.mark.parametrize("first", [True, False])
def test_exemplars_carry_the_span(first: bool, app: App, calls: list[Said]) -> None:
    said = next(s for s in calls if s.reading.context.growth)
    Instruments(app.provider).record(said, SAMPLED, first)

    name = "otelctx.context.tokens" if first else "otelctx.context.growth.tokens"
    (point,) = app.collect()[name].data.data_points

    (exemplar,) = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (0x1234, 0x56)


@pytest.mark.parametrize("span", [UNSAMPLED, None])
def test_no_exemplar_without_a_sampled_span(span: SpanContext | None, app: App, calls: list[Said]) -> None:
    Instruments(app.provider).record(calls[0], span, True)

    assert not [
        e for m in app.collect().values() for p in m.data.data_points for e in getattr(p, "exemplars", ())
    ]


def test_a_zero_is_no_exemplar(app: App, calls: list[Said]) -> None:
    Instruments(app.provider).record(calls[0], SAMPLED, True)

    exemplars = [
        e for m in app.collect().values() for p in m.data.data_points for e in getattr(p, "exemplars", ())
    ]
    assert exemplars
    assert all(e.value > 0 for e in exemplars)


# ---- gauges


def test_gauges_show_what_is_so_now(app: App) -> None:
    state: dict[tuple[str, Band], int] = {("shop", "ok"): 2, ("shop", "critical"): 1}
    queue = [5, 100]
    instruments = Instruments(
        app.provider,
        conversations=lambda: state,
        queue=lambda: (queue[0], queue[1]),
        tracked=lambda: sum(state.values()),
        rulebook_age=lambda: 86_400.0,
        sources=lambda: [("shop", "1.0"), ("shop", "1.1")],
    )
    instruments.expect("shop")

    assert app.points("otelctx.conversations") == {
        ("shop", "ok"): 2,
        ("shop", "low"): 0,
        ("shop", "critical"): 1,
        ("shop", "exceeded"): 0,
        ("shop", "unknown"): 0,
    }
    assert app.points("otelctx.self.queue.size") == {(): 5}
    assert app.points("otelctx.self.queue.capacity") == {(): 100}
    assert app.points("otelctx.self.conversations.tracked") == {(): 3}
    assert app.points("otelctx.self.rulebook.age") == {(): 86_400.0}
    assert app.points("otelctx.source.info") == {("shop", "1.0"): 1, ("shop", "1.1"): 1}

    state.clear()
    queue[0] = 0
    assert set(app.points("otelctx.conversations").values()) == {0}
    assert app.points("otelctx.self.queue.size") == {(): 0}


def test_the_window_is_the_last_that_was_seen(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)
    for limit in (100_000, 200_000):
        said = from_source(calls[0], "shop")
        context = replace(said.reading.context, limit=limit)
        instruments.record(replace(said, reading=said.reading._replace(context=context)), None, True)

    assert app.points("otelctx.context.window.tokens") == {("openai", "gpt-5"): 200_000}


def test_models_beyond_the_cap_have_no_common_window(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider, caps=Caps(models=1))
    for model in ("gpt-5", "another"):
        instruments.record(from_source(calls[0], "shop", model=model), None, True)

    assert list(app.points("otelctx.context.window.tokens")) == [("openai", "gpt-5")]


def test_a_gauge_that_nobody_feeds_shows_nothing(app: App) -> None:
    Instruments(app.provider)

    assert not [n for n in app.collect() if METRICS[n].kind == "gauge"]


def test_gauges_survive_another_installation(app: App) -> None:
    """The SDK keeps the first registration's callbacks for good."""
    first = Instruments(app.provider, tracked=lambda: 1)
    assert app.points("otelctx.self.conversations.tracked") == {(): 1}
    first.close()
    assert app.points("otelctx.self.conversations.tracked") == {}

    second = Instruments(app.provider, tracked=lambda: 2)

    assert app.points("otelctx.self.conversations.tracked") == {(): 2}
    del second
    gc.collect()
    assert app.points("otelctx.self.conversations.tracked") == {}


def test_two_engines_in_one_process_add_up(app: App) -> None:
    both = [
        Instruments(app.provider, tracked=lambda: 2, queue=lambda: (1, 10), rulebook_age=lambda: 5.0),
        Instruments(app.provider, tracked=lambda: 3, queue=lambda: (2, 10), rulebook_age=lambda: 7.0),
    ]

    assert app.points("otelctx.self.conversations.tracked") == {(): 5}
    assert app.points("otelctx.self.queue.capacity") == {(): 20}
    assert app.points("otelctx.self.rulebook.age") == {(): 7.0}
    assert len(both) == 2


def test_what_was_counted_stays_counted(app: App) -> None:
    first = Instruments(app.provider)
    first.self_spans("analysed", 3)
    first.close()
    del first
    gc.collect()
    assert app.points("otelctx.self.spans")[("analysed",)] == 3
    both = Instruments(app.provider), Instruments(app.provider)
    for each in both:
        each.self_spans("analysed", 2)
    assert app.points("otelctx.self.spans")[("analysed",)] == 7


# ---- no harm


def test_a_broken_callback_hides_nothing_else(app: App) -> None:
    def broken() -> int:
        raise RuntimeError("no")

    held = [Instruments(app.provider, tracked=broken), Instruments(app.provider, tracked=lambda: 4)]

    assert app.points("otelctx.self.conversations.tracked") == {(): 4}
    assert held


def test_nothing_is_ever_raised(app: App, calls: list[Said], caplog: pytest.LogCaptureFixture) -> None:
    instruments = Instruments(app.provider)
    unusable: Any = object()

    instruments.record(unusable, SAMPLED, True)
    instruments.record(calls[0], unusable, True)
    instruments.self_spans(unusable, unusable)
    instruments.content_lost(["not", "hashable"])  # type: ignore[arg-type]
    instruments.processing(unusable)
    instruments.exports(unusable)
    instruments.expect(unusable)
    instruments.evicted(unusable, unusable)
    instruments.close()
    instruments.close()

    assert not [r for r in caplog.records if r.name.startswith("otel_ctx") and r.levelname != "DEBUG"]


def test_a_provider_without_metrics_costs_nothing(calls: list[Said]) -> None:
    provider: ApiMeterProvider = NoOpMeterProvider()
    instruments = Instruments(provider, tracked=lambda: 1)

    instruments.record(calls[0], SAMPLED, True)
    instruments.self_spans("analysed")
    instruments.close()


def test_threads_lose_nothing(app: App, calls: list[Said]) -> None:
    instruments = Instruments(app.provider)

    def work(n: int) -> None:
        for i in range(50):
            said = replace(from_source(calls[0], f"service-{n % 2}"), findings=(finding("tools_changed"),))
            said = replace(said, reading=said.reading._replace(conversation=f"{i}"))
            instruments.record(said, SAMPLED, True)
            instruments.record(said, SAMPLED, False)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()

    assert sum(app.points("otelctx.calls").values()) == 200
    # Conversations are the same 50 in all threads.
    assert sum(app.points("otelctx.findings").values()) == 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_not_held_up_by_a_lock(app: App) -> None:
    assert _forked("sums") == "child 1 parent 2\n", "each process its own"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_that_sends_differences_sends_its_own(app: App) -> None:
    assert _forked("differences") == "child 1 parent 0\n", "never a negative one"


def _forked(how: str) -> str:
    """In a process of its own, so that no thread of the tests is forked with it."""
    run = subprocess.run(
        [sys.executable, "-c", _FORK, how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


ROOT = Path(__file__).parent.parent
_FORK = """
import os, signal, sys
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from otel_ctx.live.instruments import Instruments

delta = {ObservableCounter: AggregationTemporality.DELTA}
reader = InMemoryMetricReader(preferred_temporality=delta if sys.argv[1] == "differences" else None)
instruments = Instruments(MeterProvider([reader], shutdown_on_exit=False))

def dropped():
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    spans = next(m for m in metrics if m.name == "otelctx.self.spans")
    return sum(p.value for p in spans.data.data_points if p.attributes["result"] == "dropped")

instruments.self_spans("dropped", 2)
dropped()
instruments.lock.acquire()  # as another thread of the parent might
child = os.fork()
if child == 0:
    signal.alarm(30)
    instruments.self_spans("dropped")
    print("child", dropped(), end=" ", flush=True)
    os._exit(0)
instruments.lock.release()
os.waitpid(child, 0)
print("parent", dropped())
"""


# ---- the global provider


def test_a_provider_that_is_set_later_has_the_zeros_and_the_gauges() -> None:
    """In a process of its own: the global provider can be set once."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _LATER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert (
        run.stdout
        == "['analysed', 'dropped', 'duplicate', 'failed', 'late', 'not_genai', 'unreadable'] 1 7 8\n"
    )


_LATER = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otel_ctx.live.instruments import Instruments

gone = Instruments(tracked=lambda: 100)
gone.self_spans("analysed")
gone.close()
instruments = Instruments(tracked=lambda: 7)
instruments.self_spans("analysed")  # nobody is there yet

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
instruments.self_spans("analysed")

def collected():
    scopes = reader.get_metrics_data().resource_metrics[0].scope_metrics
    return {m.name: m.data.data_points for s in scopes for m in s.metrics}

spans = collected()["otelctx.self.spans"]
(tracked,) = collected()["otelctx.self.conversations.tracked"]
again = Instruments(tracked=lambda: 1)
(still,) = collected()["otelctx.self.conversations.tracked"]
print(sorted(p.attributes["result"] for p in spans), sum(p.value for p in spans), tracked.value, still.value)
"""


def test_the_age_of_the_own_tables_is_told_without_being_asked_for(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [source.date for source in load().sources.values() if len(source.date) == len("2026-11-30")]
    newest = datetime.fromisoformat(max(days)).replace(tzinfo=UTC)
    assert max(source.date for source in load().sources.values()) == max(days)
    monkeypatch.setattr("time.time", lambda: newest.timestamp() + 12.5)
    told = Instruments(app.provider)

    assert app.points("otelctx.self.rulebook.age") == {(): 12.5}
    monkeypatch.setattr("time.time", lambda: 0.0)  # a clock that was never set
    assert app.points("otelctx.self.rulebook.age") == {(): 0.0}
    told.close()
