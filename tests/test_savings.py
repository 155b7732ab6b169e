"""What the fixes would save: a session like the published example, and what must hold of any session."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_ctx import analyze
from otel_ctx.engine import Engine
from otel_ctx.model import Analysis, Span
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.outputs.text import plain, render
from otel_ctx.outputs.views.totals import totals
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


def test_where_no_read_is_reported_the_savings_are_what_is_predicted() -> None:
    totals = told(GPT_4O, [30.0] * 4, changed=(2,), silent=True)["totals"]
    assert totals["cost"]["usd_low"] < totals["cost"]["usd_high"]
    assert totals["savings"]["tokens"] == totals["waste"]["tokens"] > 0
    assert totals["savings"]["usd"] == pytest.approx(totals["waste"]["usd"])


def test_where_what_was_lost_is_not_known_no_savings_are_told() -> None:
    report = told(GPT_4O, [30.0] * 4, silent=True)
    assert report["totals"]["waste"]["tokens"] is None
    assert report["totals"]["savings"] is None
    assert {c["savings"] for c in report["conversations"]} == {None}


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


# ---- what the best choice of lifetime costs

SECOND = 1_000_000_000
GPT_4O, GPT_5_6, SONNET = ("openai", "gpt-4o"), ("openai", "gpt-5.6"), ("anthropic", "claude-sonnet-4-5")
HEAD, TURN = 4000, 200  # tokens of the system prompt, and that a turn adds


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def text(of: str, tokens: int) -> str:
    return " ".join(f"{of} {n}" for n in range(tokens // 4))


def analysed(
    who: tuple[str, str],
    pauses: Sequence[float],
    lost: Sequence[int] = (),
    changed: Sequence[int] = (),
    hour: bool = False,
    silent: bool = False,
) -> Analysis:
    """A session in which the turns ``lost`` read nothing, ``changed`` ones as the system prompt is another.
    ``pauses``: seconds before each turn but the first; ``hour``: everything is written for an hour; ``silent``: no usage
    tells of the cache."""
    provider, model = who
    spans, now, version = [], 1_764_500_000.0, 0
    messages: list[dict[str, Any]] = []
    for turn in range(len(pauses) + 1):
        now += 0 if turn == 0 else pauses[turn - 1]
        version += turn in changed
        head = f"Version {version}. {text('policy', HEAD)}"
        messages.append(said("user", text(f"question {turn}", TURN)))
        total, read = HEAD + TURN * (turn + 1), 0 if turn == 0 or turn in lost else HEAD + TURN * turn
        usage = {"input_tokens": total, "output_tokens": 1, "cache_read.input_tokens": read}
        if silent:
            del usage["cache_read.input_tokens"]
        elif who != GPT_4O:
            usage["cache_creation.input_tokens"] = total - read
        long = {"anthropic.usage.cache_creation.ephemeral_1h_input_tokens": total - read} if hour else {}
        spans.append(
            Span(
                trace_id="1" * 32, span_id=f"{turn + 1:016x}", parent_id="", name="chat", start_unix_nano=round(now * SECOND),
                end_unix_nano=round((now + 1) * SECOND), kind=3, scope_version="1.3b0",
                scope_name="acme.tracer" if silent else "opentelemetry.instrumentation.genai.openai",
                attributes={
                    "gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": model,
                    "gen_ai.input.messages": json.dumps(messages),
                    "gen_ai.output.messages": json.dumps([said("assistant", "ok")]),
                    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": head}]),
                    **{f"gen_ai.usage.{k}": v for k, v in usage.items()}, **long,
                },
            )
        )  # fmt: skip
        messages.append(said("assistant", "ok"))
    engine = Engine()
    engine.feed(spans)
    return engine.close()


def told(who: tuple[str, str], pauses: Sequence[float], **more: Any) -> dict[str, Any]:
    """The report of ``analysed``."""
    return build(analysed(who, pauses, **more), Inputs((), ()))


def shown(analysis: Analysis, verbose: int = 0) -> str:
    """The report on a screen, in one line."""
    lines = render(analysis, Inputs((), ()), verbose=verbose)
    return " ".join(" ".join(plain(line) for line in lines).split())


def test_a_session_saves_what_those_with_a_price_save() -> None:
    priced, dear = (
        analysed(SONNET, [30.0] * 3, lost=(2,), changed=(2,)),
        analysed(("acme", "zephyr-9"), [30.0] * 3),
    )
    others = tuple(replace(c, id=f"other {c.id}") for c in dear.conversations)
    sums = totals((*priced.readings, *dear.readings), (*priced.conversations, *others))["savings"]
    assert sums["sessions"] == 1
    assert sums["usd_per_session"] == sums["usd"] > 0
    below = replace(priced.conversations[0], id="below", parent=priced.conversations[0].id)
    assert totals(priced.readings, (*priced.conversations, below))["savings"]["sessions"] == 1
    assert totals(priced.readings, (*priced.conversations, *others))["conversations"] == 2


def test_keeping_an_entry_alive_costs_its_requests_where_no_longer_lifetime_is_offered() -> None:
    """gpt-4o: a read costs half, so two requests in a pause cost what the pause lost."""
    day = told(GPT_4O, [86_400.0] * 4, lost=range(1, 5))
    assert day["totals"]["waste"]["usd"] > 0
    assert day["totals"]["savings"]["usd"] == 0
    assert day["conversations"][0]["savings"]["lifetime"] == "as_it_is"


def test_requests_that_keep_an_entry_alive_are_counted_by_the_lifetime_that_it_has() -> None:
    """Claude: 700 s are two requests where entries live 5 minutes; 7,300 s are two where they live an hour."""
    for pause, hour, write in ((700.0, False, 3.75), (7300.0, True, 6.0)):
        report = told(SONNET, [30.0, pause, 30.0], lost=[2], hour=hour)
        assert report["totals"]["waste"]["by_cause"].keys() == {"ttl_expired"}
        (savings,) = [c["savings"] for c in report["conversations"]]
        assert (savings["lifetime"], savings["ttl"], savings["tokens"]) == ("kept_alive", None, 4400)
        assert savings["usd"] == pytest.approx(4400 * (write - 0.3 - 2 * 0.3) / 1e6)


def test_a_longer_lifetime_costs_its_own_writes() -> None:
    """gpt-5.6: 12 h are written at twice the price of input ($5), 30 min at 1.25 times; all four turns write."""
    report = told(GPT_5_6, [30.0, 36_000.0, 30.0], lost=[2])
    spent, mended = 4200 + 200 + 4600 + 200, 4200 + 200 + 200 + 200
    (savings,) = [c["savings"] for c in report["conversations"]]
    assert (savings["lifetime"], savings["ttl"], savings["tokens"]) == ("longer", "12h", 4400)
    assert savings["usd"] == pytest.approx((spent * 6.25 - mended * 10.0 - 4400 * 0.5) / 1e6)
    (fix,) = [f["fix"] for f in report["findings"] if f["kind"] == "ttl_expired"]
    assert 'ask for the longer lifetime (prompt_cache_options.ttl "12h"' in fix


def test_a_lifetime_in_vain_is_not_saved_once_more_where_its_tokens_are_read() -> None:
    """Everything read, and the rest written for five minutes: no more than that."""
    report = told(SONNET, [30.0] * 4, lost=[2], changed=[2], hour=True)
    (savings,) = [c["savings"] for c in report["conversations"]]
    written, best = 4200 + 200 + 4600 + 200 + 200, 4200 + 4 * 200
    assert (savings["lifetime"], savings["ttl"]) == ("shorter", "5m")
    assert savings["tokens"] == pytest.approx(4400, abs=20)
    assert savings["usd"] == pytest.approx((written * 6.0 - best * 3.75 - 4400 * 0.3) / 1e6, rel=0.01)


def test_findings_together_bill_no_more_than_was_spent_above_the_best() -> None:
    """The price of a lifetime in vain leaves out the tokens that another finding bills whole."""
    report = told(SONNET, [30.0] * 4, lost=[2], changed=[2], hour=True)
    usd = {f["kind"]: f["usd"] for f in report["findings"] if f["usd"] is not None}
    (lost,) = [part["tokens"] for part in report["totals"]["waste"]["by_cause"].values()]
    assert usd.pop("ttl_overpaid") == pytest.approx((9400 - lost) * 2.25 / 1e6)
    assert math.fsum(usd.values()) == pytest.approx(lost * 5.7 / 1e6)


@pytest.mark.parametrize(
    ("session", "words"),
    [
        ((SONNET, [30.0, 700.0, 30.0]), "by small requests in pauses, which keep entries alive"),
        ((GPT_5_6, [30.0, 36_000.0, 30.0]), "by the longer lifetime of entries (12h)"),
        (
            (GPT_4O, [30.0, 86_400.0, 30.0]),
            "4,352 tokens have no fix that is sure to cost less than they did",
        ),
    ],
)
def test_the_text_names_the_way_that_the_number_stands_for(
    session: tuple[tuple[str, str], list[float]], words: str
) -> None:
    analysis = analysed(*session, lost=[2])
    for verbose in (0, 1):
        assert words in shown(analysis, verbose)


def test_a_lifetime_in_vain_is_told_where_nothing_was_lost() -> None:
    text = shown(analysed(SONNET, [30.0] * 4, hour=True))
    assert "fixed, it saves $0.011, 32% of the cost" in text
    assert "by the usual lifetime of entries (5m)" in text


def test_a_lifetime_that_only_may_bridge_a_pause_is_said_to_and_not_counted() -> None:
    """gpt-5.4: what is asked to live 24 h is certain to for 30 min."""
    for pause, sure in ((1200.0, True), (5400.0, False)):
        report = told(("openai", "gpt-5.4"), [30.0, pause, 30.0], lost=[2])
        (fix,) = [f["fix"] for f in report["findings"] if f["kind"] == "ttl_expired"]
        (savings,) = [c["savings"] for c in report["conversations"]]
        assert 'prompt_cache_retention "24h"' in fix
        assert ("it may bridge them, as an entry then lives 30 min to 24 h" in fix) is not sure
        assert savings["lifetime"] == ("longer" if sure else "as_it_is")
