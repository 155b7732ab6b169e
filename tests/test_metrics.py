"""The table keeps its rules, a reading adds each token and call once, and the series stay few."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any, get_args

import pytest

from otel_ctx import model
from otel_ctx.engine import LiveEngine
from otel_ctx.findings.kinds import KINDS as FINDING_KINDS
from otel_ctx.inputs import read
from otel_ctx.model import Context, Finding, Said, Usage
from otel_ctx.outputs.metrics import (
    FED,
    METRICS,
    MODEL,
    OPEN,
    PROVIDER,
    SERVICE,
    SOURCE,
    TABLE,
    VALUES,
    Caps,
    Metric,
    label_sets,
    prometheus_name,
    records,
    zeros,
)

every_metric = pytest.mark.parametrize("metric", TABLE, ids=[m.name for m in TABLE])


# ---- names: what two families of exporters make of them


_SUFFIXES = {"s": "seconds", "ms": "milliseconds", "By": "bytes", "1": "ratio"}


def by_python_exporter(m: Metric) -> str:
    """Dots become underscores, an annotation is no unit, known units are spelled out and others kept as they are, and
    "1" is nothing; a counter ends in one _total."""
    name, unit = m.name.replace(".", "_"), re.sub(r"\{[^}]*\}", "", m.unit)
    suffix = "" if unit == "1" else _SUFFIXES.get(unit, unit)
    if suffix and not name.endswith(f"_{suffix}"):
        name += f"_{suffix}"
    if m.kind == "counter" and not name.endswith("_total"):
        name += "_total"
    return name


def by_collector(m: Metric) -> str:
    """Words with a suffix that is already among them do not get it again; units that are not in UCUM's list are left
    out; a counter's "total" is moved to the end, a gauge's "ratio" likewise; "1" means something for gauges only."""
    words = m.name.split(".")
    suffix = _SUFFIXES.get(m.unit, "")
    if suffix and suffix != "ratio" and suffix not in words:
        words.append(suffix)
    last = "total" if m.kind == "counter" else "ratio" if m.kind == "gauge" and m.unit == "1" else ""
    if last:
        words = [*(w for w in words if w != last), last]
    return "_".join(words)


@pytest.mark.parametrize(
    ("name", "kind", "unit", "python", "collector"),
    [
        ("x.utilization", "gauge", "1", "x_utilization", "x_utilization_ratio"),
        ("x.hit.ratio", "gauge", "1", "x_hit_ratio", "x_hit_ratio"),
        ("x.usage", "histogram", "token", "x_usage_token", "x_usage"),
        ("x.usage", "histogram", "{token}", "x_usage", "x_usage"),
        ("x.total.tokens", "counter", "{token}", "x_total_tokens_total", "x_tokens_total"),
        ("x.cost.usd", "counter", "{USD}", "x_cost_usd_total", "x_cost_usd_total"),
        ("x.duration", "histogram", "s", "x_duration_seconds", "x_duration_seconds"),
    ],
)
def test_the_two_ways_are_told_apart(name: str, kind: Any, unit: str, python: str, collector: str) -> None:
    """What was measured on the exporters themselves: the rules below would notice a name that differs."""
    m = Metric("self", name, kind, unit, (), "")

    assert (by_python_exporter(m), by_collector(m)) == (python, collector)


@every_metric
def test_its_name_is_the_same_on_every_way(metric: Metric) -> None:
    assert prometheus_name(metric) == by_python_exporter(metric) == by_collector(metric)


@every_metric
def test_its_unit_adds_nothing_to_the_name_but_seconds(metric: Metric) -> None:
    assert re.fullmatch(r"\{[A-Za-z]+\}|s|1|", metric.unit)


@every_metric
def test_its_noun_is_the_last_word(metric: Metric) -> None:
    words = metric.name.split(".")
    noun = {"{token}": "tokens", "{turn}": "turns", "{USD}": "usd", "1": "ratio"}.get(metric.unit)

    assert noun is None or words[-1] == noun
    assert not {"tokens", "turns", "usd", "ratio"}.intersection(words[:-1])


@every_metric
def test_it_has_no_total_inside(metric: Metric) -> None:
    assert "total" not in metric.name


@every_metric
def test_what_only_informs_has_no_unit(metric: Metric) -> None:
    assert (metric.unit == "") == metric.name.endswith(".info")


@every_metric
def test_its_own_keys_have_no_dots(metric: Metric) -> None:
    for key in set(metric.keys) - {PROVIDER, MODEL}:
        assert re.fullmatch(r"[a-z_]+", key)
    assert (PROVIDER, MODEL) == ("gen_ai.provider.name", "gen_ai.request.model")


@every_metric
def test_its_name_is_one_that_every_sdk_takes(metric: Metric) -> None:
    assert re.fullmatch(r"otelctx(\.[a-z]+)+", metric.name)
    assert metric.description.endswith(".")


def test_names_and_their_prometheus_names_are_unique() -> None:
    assert len(TABLE) == len(METRICS) == len({prometheus_name(m) for m in TABLE}) == 34


# ---- buckets, values, series


@every_metric
def test_only_histograms_have_buckets_rising_and_floats(metric: Metric) -> None:
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert all(isinstance(b, float) for b in metric.buckets)


@every_metric
def test_its_closed_values_are_closed_values(metric: Metric) -> None:
    closed = [k for k in metric.keys if k not in OPEN]

    assert set(closed) <= set(VALUES)
    sets = list(label_sets(metric))
    assert sets
    for labels in sets:
        assert list(labels) == closed
        assert all(v in VALUES[k] for k, v in labels.items())
    for key in closed:  # every value can be told
        assert {labels[key] for labels in sets} == set(VALUES[key])


def test_values_are_those_of_the_vocabulary() -> None:
    assert VALUES["category"] == (*model.KINDS, "other")
    assert VALUES["content"] == get_args(model.Status)
    assert VALUES["evidence"] == get_args(model.Evidence)
    assert VALUES["headroom"] == get_args(model.Band)
    assert VALUES["severity"] == model.SEVERITIES
    assert set(VALUES["loss"]) < set(get_args(model.Reason))
    for key in ("cause", "break_cause"):
        assert set(VALUES[key]) - {"unknown"} <= set(FINDING_KINDS)
    assert set(VALUES["break_cause"]) <= set(VALUES["cause"])


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("volatile_prefix", "error"),
        ("compaction_loop", "error"),
        ("tools_changed", "warning"),
        ("double_instrumentation", "warning"),
        ("compaction", "info"),
        ("unknown_dialect", "info"),
    ],
)
def test_a_finding_has_its_severity(kind: str, severity: str) -> None:
    assert [s["severity"] for s in label_sets(METRICS["otelctx.findings"]) if s["kind"] == kind] == [severity]


def series(m: Metric, *, services: int, models: int) -> int:
    """Series of the metric when every value has been seen; a conversation gauge shows 20."""
    if m.opt_in:
        return 20
    open_ = {SERVICE: services, PROVIDER: 1, MODEL: models, "source_version": 2}
    n = prod(open_[k] for k in m.keys if k in open_) * sum(1 for _ in label_sets(m))
    return n * (len(m.buckets) + 3 if m.kind == "histogram" else 1)


def test_the_worst_case_is_few_series() -> None:
    assert 10_000 < sum(series(m, services=10, models=6) for m in TABLE) <= 12_000


# ---- what a reading adds


@pytest.fixture(scope="module")
def said(corpus_case: Callable[[str], Any]) -> Said:
    engine = LiveEngine()
    for batch in read(corpus_case("oi-anthropic").files):
        engine.feed(batch.spans, batch.logs)
    return engine.drain()[3]


def with_usage(said: Said, **changes: int | None) -> Said:
    call = replace(said.reading.call, usage=Usage(**changes))  # type: ignore[arg-type]
    return replace(said, reading=said.reading._replace(call=call))


def with_context(said: Said, **changes: Any) -> Said:
    return replace(said, reading=said.reading._replace(context=replace(said.reading.context, **changes)))


def told(said: Said, name: str, *, first: bool) -> list[int | float]:
    return [value for metric, value, _ in records(said, first=first) if metric == name]


def by(key: str, said: Said, name: str, *, first: bool) -> dict[str, int | float]:
    out: Counter[str] = Counter()
    for metric, value, attributes in records(said, first=first):
        if metric == name:
            out[attributes[key]] += value  # type: ignore[assignment]
    return dict(out)


def test_usage_is_told_at_first_and_content_when_settled(said: Said) -> None:
    said = with_context(said, limit=None, growth=10.0)
    said = replace(said, findings=(finding("compaction"),))

    at_first = {name for name, _, _ in records(said, first=True)}
    settled = {name for name, _, _ in records(said, first=False)}

    assert at_first == {
        "otelctx.calls",
        "otelctx.self.model.unknown",
        "otelctx.context.tokens",
        "otelctx.context.utilization.ratio",
        "otelctx.context.headroom.tokens",
        "otelctx.context.headroom.turns",
        "otelctx.cache.reported.tokens",
    }
    assert settled == {
        "otelctx.context.segment.tokens",
        "otelctx.context.growth.tokens",
        "otelctx.context.compactions",
        "otelctx.findings",
        "otelctx.cache.calls",
        "otelctx.cache.optimal.tokens",
        "otelctx.cache.simulated.tokens",
        "otelctx.cost.usd",
        "otelctx.savings.usd",
    }


def test_what_is_told_again_adds_nothing(said: Said) -> None:
    again = replace(said, again=True)

    assert list(records(said, first=True))
    assert not [*records(again, first=True), *records(again, first=False)]


@pytest.mark.parametrize("first", [True, False])
def test_labels_are_those_of_the_table(first: bool, said: Said) -> None:
    said = with_context(replace(said, findings=(finding("tools_changed"),)), limit=None)
    for name, value, attributes in records(said, first=first):
        metric = METRICS[name]
        assert name in FED
        assert tuple(attributes) == metric.keys
        assert value > 0
        assert all(v in VALUES[k] for k, v in attributes.items() if k not in OPEN)


def test_a_call_counts_once(said: Said) -> None:
    assert by("content", said, "otelctx.calls", first=True) == {"full": 1}
    assert not told(said, "otelctx.calls", first=False)


def test_the_figures_are_the_readings(said: Said) -> None:
    context = said.reading.context

    assert told(said, "otelctx.context.tokens", first=True) == [context.usage]
    assert told(said, "otelctx.context.utilization.ratio", first=True) == [context.utilization]
    assert told(said, "otelctx.context.headroom.tokens", first=True) == [context.headroom]
    assert told(said, "otelctx.context.headroom.turns", first=True) == [context.headroom_turns]
    assert told(said, "otelctx.context.growth.tokens", first=False) == [context.growth]


@pytest.mark.parametrize(
    ("usage", "states"),
    [
        ({"input": 100}, {"unknown": 100}),
        ({"input": 100, "cache_read": 0}, {"uncached": 100}),
        ({"input": 100, "cache_read": 60}, {"read": 60, "uncached": 40}),
        (
            {"input": 100, "cache_read": 60, "cache_write": 30},
            {"read": 60, "write": 30, "uncached": 10},
        ),
        ({"input": 100, "cache_write": 30}, {"write": 30, "uncached": 70}),
        ({"input": 100, "cache_read": 90, "cache_write": 30}, {"read": 90, "write": 10}),
        ({"input": 100, "cache_read": 130}, {"read": 100}),
        ({"cache_read": 60}, {}),
    ],
)
def test_every_reported_token_is_in_one_state(
    usage: dict[str, int], states: dict[str, int], said: Said
) -> None:
    got = by("state", with_usage(said, **usage), "otelctx.cache.reported.tokens", first=True)

    assert got == states
    assert sum(got.values()) in (usage.get("input"), 0)


def test_segments_and_other_are_the_input(said: Said) -> None:
    more = with_usage(said, input=10_000_000)

    got = by("category", more, "otelctx.context.segment.tokens", first=False)

    assert {"tools", "system", "user", "other"} <= got.keys()
    assert sum(got.values()) == 10_000_000


def test_a_full_window_has_no_headroom_and_not_less(said: Said) -> None:
    over = with_context(said, headroom=-500)

    assert told(over, "otelctx.context.headroom.tokens", first=True) == [0]


@pytest.mark.parametrize(("growth", "recorded"), [(None, []), (-12.5, []), (0.0, [0.0]), (7.5, [7.5])])
def test_shrinking_is_no_growth(growth: float | None, recorded: list[float], said: Said) -> None:
    assert told(with_context(said, growth=growth), "otelctx.context.growth.tokens", first=False) == recorded


def test_what_is_not_known_is_not_recorded(said: Said) -> None:
    nothing = Context(None, "unmeasured", None, "", 0, None, None, None, None, "unknown")
    said = replace(said, reading=said.reading._replace(context=nothing))
    said = with_usage(said)

    assert {name for name, _, _ in records(said, first=True)} == {
        "otelctx.calls",
        "otelctx.self.model.unknown",
    }


def finding(kind: str, **changes: Any) -> Finding:
    plain = Finding(kind=kind, severity="warning", title="t", detail="d", fix="f", calls=("a",))
    return replace(plain, **changes)


def test_a_kind_counts_once_at_a_call(said: Said) -> None:
    said = replace(
        said,
        findings=(finding("tools_changed"), finding("tools_changed", title="u"), finding("headroom_low")),
    )

    assert by("kind", said, "otelctx.findings", first=False) == {"tools_changed": 1, "headroom_low": 1}


def test_a_compaction_is_counted_once_by_whichever_sign(said: Said) -> None:
    compacted = replace(said, reading=said.reading._replace(relation="compacted"))
    found = replace(said, findings=(finding("compaction", severity="info"),))
    both = replace(compacted, findings=found.findings)

    counts = [
        len(told(s, "otelctx.context.compactions", first=False)) for s in (said, compacted, found, both)
    ]
    assert counts == [0, 1, 1, 1]


def test_what_no_span_says_is_unknown(said: Said) -> None:
    nameless = replace(said.reading.call, service="", provider="", model="")
    said = replace(said, reading=said.reading._replace(call=nameless))

    for _, _, attributes in records(said, first=True):
        assert {attributes[k] for k in SOURCE if k in attributes} == {"unknown"}


# ---- zeros


def test_zeros_are_every_closed_value_of_a_new_source() -> None:
    got = list(zeros("shop", "openai", "gpt-5"))

    assert Counter(name for name, _ in got) == {
        "otelctx.context.segment.tokens": 10,
        "otelctx.context.compactions": 1,
        "otelctx.calls": 4,
        "otelctx.cache.reported.tokens": 4,
        "otelctx.cache.simulated.tokens": 4,
        "otelctx.cache.optimal.tokens": 4,
        "otelctx.cache.calls": 6,
        "otelctx.waste.tokens": 24,
        "otelctx.waste.cost.usd": 24,
        "otelctx.cost.usd": 4,
        "otelctx.savings.usd": 2,
    }
    for name, attributes in got:
        assert tuple(attributes) == METRICS[name].keys
        assert [attributes[k] for k in SOURCE] == ["shop", "openai", "gpt-5"]


def test_zeros_of_a_service_and_of_the_process() -> None:
    assert Counter(name for name, _ in zeros("shop")) == {
        "otelctx.findings": len(FINDING_KINDS),
        "otelctx.cache.breaks": 127,
        "otelctx.self.model.unknown": 1,
    }
    assert Counter(name for name, _ in zeros()) == {
        "otelctx.self.spans": 7,
        "otelctx.self.content.lost": 8,
        "otelctx.self.exports": 2,
        "otelctx.self.conversations.evicted": 2,
    }


def test_zeros_come_before_whatever_a_call_adds(said: Said) -> None:
    source = [said.reading.call.service, said.reading.call.provider, said.reading.call.model]
    counters = {m.name for m in TABLE if m.kind == "counter"}
    ready = [(n, a) for place in ((), source[:1], source) for n, a in zeros(*place)]
    said = replace(said, findings=(finding("tools_changed"), finding("compaction", severity="info")))

    for first in (True, False):
        for name, _, attributes in records(with_context(said, limit=None), first=first):
            assert name not in counters or (name, attributes) in ready


def test_every_counter_has_its_zeros() -> None:
    everything = {n for place in ((), ("s",), ("s", "p", "m")) for n, _ in zeros(*place)}

    assert everything == {m.name for m in TABLE if m.kind == "counter" and m.name in FED}


# ---- caps


def sources(n: int) -> Iterator[dict[str, str]]:
    for i in range(n):
        yield {SERVICE: f"service-{i}", PROVIDER: f"provider-{i}", MODEL: f"model-{i}"}


def test_the_first_names_are_kept_and_later_ones_are_other() -> None:
    caps = Caps(services=3, providers=5, models=2)

    got = [caps.fit(s) for s in sources(6)]

    assert [s[SERVICE] for s in got] == ["service-0", "service-1", "service-2", "other", "other", "other"]
    assert [s[PROVIDER] for s in got] == [*(f"provider-{i}" for i in range(5)), "other"]
    assert [s[MODEL] for s in got] == ["model-0", "model-1", "other", "other", "other", "other"]
    assert [caps.fit(s) for s in sources(6)] == got


def test_combinations_are_bounded_too() -> None:
    caps = Caps(services=10, providers=10, models=10, sources=4)
    pairs = [{SERVICE: f"s{i}", PROVIDER: "p", MODEL: f"m{j}"} for i in range(3) for j in range(3)]

    got = [caps.fit(s) for s in pairs]

    assert got[:4] == pairs[:4]
    assert [tuple(s.values()) for s in got[4:]] == [
        *[("s1", "other", "other")] * 2,
        *[("s2", "other", "other")] * 3,
    ]


@pytest.mark.parametrize("name", ["x" * 201, "two\nlines"])
def test_what_is_no_name_is_other(name: str) -> None:
    caps = Caps()

    assert caps.fit({SERVICE: name}) == {SERVICE: "other"}
    assert caps.fit({SERVICE: "shop"}) == {SERVICE: "shop"}


@pytest.mark.parametrize("key", list(VALUES))
def test_values_outside_a_closed_set_are_other(key: str) -> None:
    caps = Caps()

    assert caps.fit({key: "made up"}) == {key: "other"}
    for value in VALUES[key]:
        assert caps.fit({key: value}) == {key: value}
