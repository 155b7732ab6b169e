"""What the fixes would save: a session like the published example, and what must hold of any session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_ctx import analyze
from otel_ctx.engine import Engine
from otel_ctx.outputs.report import Inputs, build
from tests.oracle import mutations
from tests.oracle.example import TURNS, example, usage
from tests.oracle.score import run
from tests.oracle.sessions import Session
from tests.oracle.spans import Clothes, clothes_of, spans

DUMPS = Path(__file__).parent / "corpus"
DOCS = Path(__file__).parent.parent / "docs" / "savings.md"
CLOTHES = Clothes("genai", split=True, named=True, first_token=True)
PUBLISHED = {"timestamp": 0.133, "all": 0.84}
CACHE_GROUP = frozenset({
    "volatile_prefix", "prefix_changed", "tools_changed", "tools_reordered", "tool_schema_key_order", "moved_segment",
    "model_switch", "parameters_changed", "compaction", "evicted_content", "no_cache_control", "below_minimum",
    "breakpoint_before_change", "frozen_breakpoint", "lookback_exceeded", "missing_tail_breakpoint", "ttl_expired",
    "ttl_overpaid", "ttl_lost", "parallel_miss", "server_side_rewrite_suspected",
})  # fmt: skip
NOBODY_S = frozenset({"provider_side_miss", "unknown"})


def report(session: Session) -> dict[str, Any]:
    engine = Engine()
    engine.feed(spans(session, usage(session), CLOTHES))
    return build(engine.close(), Inputs((), ()))


@pytest.fixture(scope="module")
def as_it_is() -> dict[str, Any]:
    return report(example())


def input_cost(told: dict[str, Any]) -> float:
    """Of the prompts: the answers cost the same whatever the cache does."""
    return sum(c["cost"]["usd"] - c["cost"]["parts"]["output"] for c in told["calls"])


def test_the_example_is_of_the_published_size(as_it_is: dict[str, Any]) -> None:
    assert len(as_it_is["calls"]) == TURNS
    assert as_it_is["conversations"][0]["usage_peak"] == pytest.approx(79_000, rel=0.03)
    assert {"volatile_prefix", "tools_reordered", "missing_tail_breakpoint"} == set(
        as_it_is["totals"]["waste"]["by_cause"]
    )


def test_what_each_fix_saves_is_what_the_provider_bills_without_the_fault(as_it_is: dict[str, Any]) -> None:
    """The report knows the broken session only; the mended ones are sent through the oracle's provider."""
    spent = as_it_is["totals"]["cost"]["usd"]
    timestamp = spent - report(example(timestamp=False))["totals"]["cost"]["usd"]
    everything = spent - report(example(timestamp=False, unstable=False, tail=True))["totals"]["cost"]["usd"]
    said = as_it_is["totals"]

    assert said["waste"]["by_cause"]["volatile_prefix"]["usd"] == pytest.approx(timestamp, rel=0.08)
    assert said["savings"]["usd"] == pytest.approx(everything, rel=0.03)
    assert said["savings"]["share"] == pytest.approx(said["savings"]["usd"] / spent, abs=0.0001)
    assert said["savings"]["usd_per_1000_sessions"] == pytest.approx(1000 * said["savings"]["usd"], rel=1e-6)


def table(told: dict[str, Any]) -> str:
    spent, waste = told["totals"]["cost"]["usd"], told["totals"]["waste"]["by_cause"]
    savings = told["totals"]["savings"]
    rows = [
        ("the time out of the system prompt", waste["volatile_prefix"]["usd"], "13.3 %"),
        ("tools in one order", waste["tools_reordered"]["usd"], "not published"),
        ("a marker at the end of every request", waste["missing_tail_breakpoint"]["usd"], "not published"),
    ]
    lines = ["| fix | saves | of the session | published |", "|---|---:|---:|---:|"]
    lines += [
        f"| {fix} | ${usd:.4f} | {usd / spent:.1%} | {published} |".replace("%", " %").replace("  %", " %")
        for fix, usd, published in rows
    ]
    lines.append(
        f"| all of them | ${savings['usd']:.4f} | {savings['share']:.1%} | 84 % |".replace("%", " %").replace(
            "  %", " %"
        )
    )
    return "\n".join(lines)


def test_the_page_shows_these_numbers(as_it_is: dict[str, Any]) -> None:
    assert table(as_it_is) in DOCS.read_text("utf-8")


@pytest.mark.parametrize("name", ["otel-openai-v2-chat-legacy-off", "otel-openai-js-responses"])
def test_where_nothing_is_known_of_the_cache_no_savings_are_told(name: str) -> None:
    told = analyze(DUMPS / name / "traces.jsonl.gz").to_dict()
    assert told["totals"]["cost"]["priced_calls"] > 0
    assert told["totals"]["waste"]["tokens"] is None
    assert told["totals"]["savings"] is None
    assert {c["savings"] for c in told["conversations"]} == {None}


# ---- any session


@pytest.mark.parametrize("mutation", mutations.names())
def test_savings_and_findings_go_together(mutation: str) -> None:
    """A tenth of the cost can be saved only where a finding of the cache group says how. And where such a finding has lost a
    tenth of what was sent, something is saved: what costs less than its fix (a longer lifetime for one pause) is not."""
    for seed in (3, 4):
        case = mutations.case(seed, mutation, 10)
        _, truth = run(case, clothes_of(case.spans))
        engine = Engine()
        engine.feed(spans(case.spans, [t.usage for t in truth], clothes_of(case.spans)))
        told = build(engine.close(), Inputs((), ()))
        savings, found = told["totals"]["savings"], [f for f in told["findings"] if f["kind"] in CACHE_GROUP]
        if savings is None:
            assert all(c["cost"] is None for c in told["calls"])
            continue
        if savings["share"] >= 0.1:
            assert found
        lost = {k: v["tokens"] for k, v in told["totals"]["waste"]["by_cause"].items() if k not in NOBODY_S}
        timely = {"ttl_expired", "ttl_lost"}
        if sum(n for k, n in lost.items() if k not in timely) >= 0.2 * told["totals"]["usage"]["input"]:
            assert savings["usd"] > 0
        if not found:
            assert savings["usd"] == 0
        for c in told["conversations"]:
            assert c["savings"] is None or 0 <= c["savings"]["share"] <= 1
