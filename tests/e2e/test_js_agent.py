"""A JavaScript agent on the Vercel AI SDK through the real servers: apps → Collector → gateway → Collector → Jaeger.

Its spans are of a dialect of their own: each call of the model has one, inside one of the whole question that repeats its
figures, and what the last of these says of the prompt is counted once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from otel_ctx.model import Reading, Span
from otel_ctx_cli.main import main
from tests.e2e.comparing import Found, analysed, check, check_others, in_jaeger, links, read_dump, tags
from tests.e2e.servers.build import without_node
from tests.e2e.stack import Gateway, Stack, get, until
from tests.live_apps.texts import RESULTS, SYSTEM, TOOLS, USERS
from tests.provider_stub import ProviderStub, Request

pytestmark = [pytest.mark.servers, pytest.mark.skipif(bool(without_node()), reason=without_node())]

_SESSIONS = 2 * 3  # with a span around each question and without; an API each
_CALLS = _SESSIONS * 2 * len(USERS)  # each question is answered after one round of tools
_SETTLING = 90.0  # s: a call without a root settles 30 s after its end


@dataclass(frozen=True)
class Run:
    """What is left when the agents are done, with the servers still up."""

    gateway: Gateway
    dump: Path
    spans: list[Span]
    readings: tuple[Reading, ...]
    found: Found
    requests: list[Request]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with ProviderStub() as stub, Stack(tmp_path_factory.mktemp("js")) as stack:
        jaeger, gateway, collector = stack.through_the_gateway()
        scene = {"system": SYSTEM, "tools": TOOLS, "results": RESULTS, "users": USERS}
        for name, turns in (("turns", True), ("bare", False)):
            stack.js_agent(name, stub.url, collector.http, {**scene, "turns": turns}).finish()
        until(lambda: len(analysed(read_dump(collector.dump))) == _CALLS, "the dump to be written")
        spans = read_dump(collector.dump)
        found = in_jaeger(jaeger, spans)
        yield Run(gateway, collector.dump, spans, analysed(spans), found, list(stub.requests))


def test_the_agent_did_what_it_is_to_prove(run: Run) -> None:
    """Several turns through each API, plainly and in streams, and tools in parallel."""
    assert len(run.requests) == _CALLS
    assert {r.status for r in run.requests} == {200}
    kinds = Counter((r.api, bool(r.body.get("stream"))) for r in run.requests)
    assert kinds == {
        (api, s): _CALLS // 6 for api in ("chat", "responses", "anthropic") for s in (False, True)
    }
    assert Counter(s.name for s in run.spans)["ai.toolCall"] == _SESSIONS * (len(USERS) + 1)


def test_every_call_is_in_the_dump_once(run: Run) -> None:
    assert len(run.readings) == len(run.requests)
    assert {r.call.completeness.status for r in run.readings} == {"full"}
    assert Counter(r.call.provider for r in run.readings) == {"openai": 32, "anthropic": 16}
    assert sorted(r.call.usage.input or 0 for r in run.readings) == sorted(map(_input, run.requests))


def _input(request: Request) -> int:
    """Tokens of the prompt, cached ones too, as the provider told them."""
    usage: Any = request.usage
    if request.api == "anthropic":
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return sum(usage[name] for name in names)
    return int(usage["prompt_tokens" if request.api == "chat" else "input_tokens"])


def test_jaeger_has_every_span_with_what_the_dump_says_of_it(run: Run) -> None:
    assert len(check(run.found, run.readings)) <= _CALLS / 8
    check_others(run.found, run.readings)


def test_every_call_but_the_first_of_a_session_leads_to_the_one_before(run: Run) -> None:
    primary = {r.call.id: run.found[tuple(r.call.id.split(":"))] for r in run.readings}
    led = {call: [":".join(to) for to in links(span)] for call, span in primary.items()}

    firsts = [call for call, to in led.items() if not to]
    assert len(firsts) == _SESSIONS
    for reading in run.readings:
        if led[reading.call.id]:
            assert led[reading.call.id] == [reading.previous]
            before, now = (
                tags(primary[c])["otelctx.conversation.turn"] for c in (reading.previous, reading.call.id)
            )
            assert now == before + 1


def test_the_metrics_are_those_of_the_report(run: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = CliRunner().invoke(main, ["analyze", str(run.dump), "--json", str(report)])
    assert result.exit_code == 0, result.output
    calls = json.loads(report.read_bytes())["calls"]

    until(lambda: _sums(run.gateway).get("otelctx_cache_calls_total") == _CALLS, "all to settle", _SETTLING)
    sums = _sums(run.gateway)
    assert sums["otelctx_calls_total"] == len(calls) == _CALLS
    assert sums["otelctx_context_tokens_sum"] == sum(c["usage"]["input"] for c in calls)
    assert sums["otelctx_cost_usd_total"] == pytest.approx(sum(c["cost"]["usd"] for c in calls))
    assert sums["otelctx_waste_tokens_total"] == sum(c["waste"]["tokens"] for c in calls)


def _sums(gateway: Gateway) -> dict[str, float]:
    """Series of the gateway -> their sum over all labels."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(get(f"http://127.0.0.1:{gateway.admin}/metrics")):
        for sample in family.samples:
            found[sample.name] += sample.value
    return dict(found)
