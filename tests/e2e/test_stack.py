"""A real agent through the real servers: apps → Collector → gateway → Collector → Jaeger, and Prometheus beside.

What Jaeger holds, and what Prometheus counts, is what the analysis of the Collector's own dump of the same run says.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otel_ctx.model import Reading, Span
from otel_ctx.outputs.metrics import METRICS, prometheus_name
from otel_ctx_cli.main import main
from otel_ctx_cli.monitoring.rules import Place, prometheus_yaml
from tests.e2e.comparing import analysed, check, check_others, early, in_jaeger, read_dump
from tests.e2e.stack import Collector, Jaeger, Prometheus, Stack, until
from tests.monitoring import annotation_queries, filled, panel_queries, rule_queries, variable_queries
from tests.provider_stub import ProviderStub, Request
from tests.said import counted

pytestmark = pytest.mark.servers

RULES = prometheus_yaml(Place()).replace("interval: 1m", "interval: 1s")
GATEWAY = "otelctx"  # the job that scrapes it
_SETTLING = 90.0  # seconds: a call without a root settles 30 s after its end


@dataclass(frozen=True)
class Run:
    """What is left when the agents are done, with the servers still up."""

    jaeger: Jaeger
    prometheus: Prometheus
    dump: Path
    seen: list[list[Span]]  # of each process that analysed, what it saw
    readings: tuple[Reading, ...]
    requests: list[Request]
    job: str
    start: float

    @property
    def spans(self) -> list[Span]:
        return [span for part in self.seen for span in part]


def by_process(spans: list[Span]) -> list[list[Span]]:
    """What each process of an app saw: it does not know what the others have in the provider's cache."""
    found: dict[Any, list[Span]] = {}
    for span in spans:
        found.setdefault(span.resource["service.instance.id"], []).append(span)
    return list(found.values())


AGENTS = (
    # name, version, options
    ("clean", "1.0.0", ("--sessions", "3", "--pause", "0.3")),
    ("volatile", "1.0.1", ("--sessions", "3", "--pause", "0.3", "--volatile")),
    ("bare", "1.0.1", ("--sessions", "3", "--pause", "0.1", "--no-turns")),
)
_CALLS = 9 * 8  # sessions, and calls of each


@pytest.fixture(scope="module")
def gateway_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with ProviderStub() as stub, Stack(tmp_path_factory.mktemp("gateway")) as stack:
        jaeger, gateway, collector = stack.through_the_gateway()
        prometheus = stack.prometheus({GATEWAY: gateway.admin, "collector": collector.metrics}, RULES)
        yield from running(stack, stub, jaeger, collector, prometheus, job=GATEWAY)


@pytest.fixture(scope="module")
def app_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """otel_ctx in the app; its metrics are pushed, and scraped from the Collector."""
    with ProviderStub() as stub, Stack(tmp_path_factory.mktemp("app")) as stack:
        jaeger = stack.jaeger()
        collector = stack.collector(jaeger=jaeger.otlp)
        prometheus = stack.prometheus({"collector": collector.metrics}, RULES)
        yield from running(stack, stub, jaeger, collector, prometheus, job="shop", options=("--in-process",))


@pytest.fixture(params=["gateway", "app"])
def run(request: pytest.FixtureRequest) -> Run:
    """Where the analysis takes place."""
    made: Run = request.getfixturevalue(f"{request.param}_run")
    return made


def running(
    stack: Stack,
    stub: ProviderStub,
    jaeger: Jaeger,
    collector: Collector,
    prometheus: Prometheus,
    *,
    job: str,
    options: tuple[str, ...] = (),
) -> Iterator[Run]:
    start = time.time()
    until(lambda: prometheus.value("sum(up)") >= 1, "Prometheus to scrape")
    # One after the other: what the provider has cached for the one must not be in doubt for the next.
    for name, version, own in AGENTS:
        stack.agent(name, stub.url, collector.grpc, *own, *options, version=version).finish()
    for counter in ("otelctx_calls_total", "otelctx_cache_calls_total"):  # said at once, and when settled
        asked = f'sum({counter}{{job="{job}"}})'
        until(partial(_reaches, prometheus, asked, _CALLS), asked, _SETTLING)
    until(lambda: len(analysed(read_dump(collector.dump))) == _CALLS, "the dump to be written")
    spans = read_dump(collector.dump)
    seen = [spans] if job == GATEWAY else by_process(spans)
    readings = tuple(reading for part in seen for reading in analysed(part))
    yield Run(jaeger, prometheus, collector.dump, seen, readings, list(stub.requests), job, start)


def _reaches(prometheus: Prometheus, expr: str, n: int) -> bool:
    return prometheus.value(expr) >= n


# ---- Jaeger


def test_every_call_is_in_the_dump_once(run: Run) -> None:
    assert len(run.readings) == len(run.requests) == _CALLS
    assert {r.call.completeness.status for r in run.readings} == {"full"}
    assert {r.call.provider for r in run.readings} == {"openai", "anthropic"}


def test_jaeger_has_every_span_with_what_the_dump_says_of_it(run: Run) -> None:
    found = in_jaeger(run.jaeger, run.spans)
    assert len(check(found, run.readings)) <= _CALLS / 8
    check_others(found, run.readings)


# ---- Prometheus


def test_the_numbers_are_those_of_the_dump(run: Run) -> None:
    late = _SAID_FIRST if early(in_jaeger(run.jaeger, run.spans), run.readings) else set()
    assert {key: both for key, both in uncounted(run).items() if key[0] not in late} == {}
    for provider in ("openai", "anthropic"):
        calls = sum(reading.call.provider == provider for reading in run.readings)
        where = f'job="{run.job}", gen_ai_provider_name="{provider}"'
        assert run.prometheus.value(f"sum(otelctx_calls_total{{{where}}})") == calls


def uncounted(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """Counters, and sums of histograms, that are not those of the calls in the dump: both numbers."""
    wrong = {}
    totals: Counter[tuple[str, str]] = sum((counted(part) for part in run.seen), Counter())
    for (name, labels), wanted in totals.items():
        metric = METRICS[name]
        series = prometheus_name(metric) + ("_sum" if metric.kind == "histogram" else "")
        matchers = [f'{k.replace(".", "_")}="{v}"' for k, v in json.loads(labels).items()]
        where = ", ".join([f'job="{run.job}"', *matchers])
        got = run.prometheus.value(f"sum({series}{{{where}}})")
        if got != pytest.approx(wanted):
            wrong[name, labels] = (got, wanted)
    return wrong


_SAID_FIRST = {"otelctx.calls", "otelctx.context.headroom.turns"}
"""Recorded when a call is said first: by what was known then, where one of its spans left early."""


def test_the_totals_are_those_of_the_report(run: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = CliRunner().invoke(main, ["analyze", str(run.dump), "--json", str(report)])
    assert result.exit_code == 0, result.output
    said = json.loads(report.read_bytes())
    calls, ask = said["calls"], run.prometheus

    job = f'{{job=~"{run.job}"}}'
    assert ask.value(f"sum(otelctx_calls_total{job})") == len(calls)
    assert ask.value(f"sum(otelctx_context_tokens_sum{job})") == sum(c["usage"]["input"] for c in calls)
    read_ = f'{{job=~"{run.job}", state="read"}}'
    assert ask.value(f"sum(otelctx_cache_reported_tokens_total{read_})") == sum(
        c["usage"]["cache_read"] or 0 for c in calls
    )
    assert ask.value(f"sum(otelctx_cost_usd_total{job})") == pytest.approx(
        sum(c["cost"]["usd"] for c in calls)
    )
    assert ask.value(f"sum(otelctx_waste_tokens_total{job})") == sum(c["waste"]["tokens"] for c in calls) > 0


# Nothing is there while all is well.
_HEALTHY = ("OtelCtxAbsent", "OtelCtxSeriesOverflow", "Alerts of otel_ctx")
_CONVERSATIONS = "otelctx_conversation_"  # the gateway's own gauges


def without_data(run: Run) -> list[str]:
    """Queries that have no answer, over all the time of the run and without their least traffic."""
    end = time.time()
    window = f"{int(end - run.start) + 5}s"
    empty = []
    for where, expr, instant in (
        *panel_queries(),
        *annotation_queries(),
        *variable_queries(),
        *rule_queries(),
    ):
        if where.endswith(", condition") or (_CONVERSATIONS in expr and run.job != GATEWAY):
            continue
        asked = filled(expr, rate=window, range_=window, step=window)
        asked = re.sub(r"\[\d+[mh]\]", f"[{window}]", asked)
        asked = re.sub(r" >= \d+\)", " >= 1)", asked)
        if instant:
            found = run.prometheus.query(asked)
            values = [s["value"][1] for s in found]
        else:
            found = run.prometheus.query_range(asked, run.start, end, 5)
            values = [v for s in found for _, v in s["values"]]
        if where.startswith(_HEALTHY) or where.endswith(_HEALTHY):
            assert not found, f"{where}: {found}"
        elif all(v == "NaN" for v in values) and not _born_at_once(run, asked):
            empty.append(f"{where}: {asked}")
    return empty


def _born_at_once(run: Run, asked: str) -> bool:
    """A series that came with all its counts in one scrape has no rate: then its totals must give a number."""
    totals = re.sub(r"rate\(([^()]*)\[\w+\]\)", r"\1", asked)
    return totals != asked and any(s["value"][1] != "NaN" for s in run.prometheus.query(totals))


def test_every_query_gives_data(run: Run) -> None:
    assert without_data(run) == []


def test_every_value_of_the_variables_is_there(run: Run) -> None:
    ask = run.prometheus
    assert ask.by("otelctx_calls_total", "source_service", "gen_ai_provider_name").keys() == {
        ("shop", "openai"),
        ("shop", "anthropic"),
    }
    versions = {
        s["metric"]["source_version"] for s in ask.query('otelctx_source_info{source_service="shop"}')
    }
    assert versions == {"1.0.0", "1.0.1"}


def test_exemplars_lead_to_traces(run: Run) -> None:
    ids = exemplar_ids(run)
    calls = {ref.trace_id for r in run.readings for ref in r.call.spans}

    assert ids
    assert ids <= calls
    for trace_id in ids:
        assert run.jaeger.spans(trace_id), trace_id


def exemplar_ids(run: Run) -> set[str]:
    """Of every panel that shows exemplars."""
    found: set[str] = set()
    for board_query in panel_queries():
        names = re.findall(r"\w+_bucket", board_query.expr)
        for name in names:
            series = run.prometheus.exemplars(name, run.start, time.time())
            found |= {e["labels"]["trace_id"] for s in series for e in s["exemplars"]}
    return found
