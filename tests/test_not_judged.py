"""Where nothing says what the cache gave, no output says that 0 tokens were billed again."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_ctx import analyze
from otel_ctx.model import Said
from otel_ctx.outputs import data
from otel_ctx.outputs.attributes import attributes
from otel_ctx.outputs.html.data import page
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.outputs.views.gates import Gates, judge
from otel_ctx.outputs.views.listing import ORDERS, listing
from otel_ctx.reports import Report
from otel_ctx_cli.main import main
from tests.test_conversations import App, analysed, said
from tests.test_finding_words import RULE, findings, turns

CORPUS = Path(__file__).parent / "corpus"
UNTOLD = ("anthropic-sdk-default", "oll053-gemini", "otel-openai-v2-chat-legacy-off")


@cache
def report(case: str) -> Report:
    return analyze(CORPUS / case / "traces.jsonl.gz")


@pytest.mark.parametrize("case", UNTOLD)
def test_it_is_null_as_data(case: str) -> None:
    found = report(case).to_dict()
    listed = data.conversations(listing(report(case).analysis))["conversations"]

    assert found["calls"]
    assert {json.dumps(c["waste"]) for c in found["calls"]} == {"null"}
    assert (found["totals"]["waste"]["tokens"], report(case).totals.wasted) == (None, None)
    assert report(case).totals.wasted_usd is None
    assert {c["totals"]["wasted"] for c in listed} == {None}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", UNTOLD)
def test_the_terminal_lists_a_dash(case: str, order: str) -> None:
    run = CliRunner().invoke(
        main,
        ["conversations", str(CORPUS / case / "traces.jsonl.gz"), "--sort", order],
        env={"COLUMNS": "160", "NO_COLOR": "1"},
    )
    header, *rows = run.stdout.split("\n\n")[0].splitlines()
    at = header.index("lost") + len("lost")

    assert run.exit_code == 0, run.output
    assert rows
    assert {row[:at].split()[-1] for row in rows} == {"–"}


@pytest.mark.parametrize("case", UNTOLD)
def test_markdown_and_notebooks_have_a_dash(case: str) -> None:
    rows = [row for row in report(case).to_md().splitlines() if row.startswith(("| 1 |", "| 2 |"))]
    last = [
        row.split("<td")[-1].split(">", 1)[1]
        for row in report(case)._repr_html_().split("<table>")[1].split("</tr>")[1:-1]
    ]

    assert rows
    assert {row.split("|")[-2].strip() for row in rows} == {"–"}
    assert last
    assert {cell.split("<")[0] for cell in last} == {"–"}


@pytest.mark.parametrize("case", UNTOLD)
def test_the_page_has_no_number(case: str) -> None:
    shown = page(report(case).analysis, report(case).inputs).index

    assert {c.get("wasted") for c in shown["conversations"]} == {None}
    assert {s["wasted"] for s in shown["services"]} == {None}


def test_what_was_judged_and_lost_nothing_is_zero() -> None:
    found = report("oi-anthropic")

    assert found.totals.wasted == 0
    assert found.to_dict()["totals"]["waste"]["tokens"] == 0
    assert {s["wasted"] for s in page(found.analysis, found.inputs).index["services"]} == {0}


@pytest.mark.parametrize(
    "scope",
    ["pydantic-ai", "opentelemetry.instrumentation.genai.openai"],
    ids=["no zero is written", "not reported"],
)
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "whole"])
def test_a_prompt_that_was_cut_has_no_waste_of_zero(scope: str, cut: bool) -> None:
    """What changed behind the cut is not known; nor is it whether a cache that told of no hit yet is told of at all."""
    app = App()
    history: list[dict[str, object]] = []
    for i in range(4):
        history = [*history, said("user", f"Question {i}, please?")]
        system = json.dumps([{"type": "text", "content": "Greet people, and never invent an order. " * 300}])
        app.call(
            i * 10,
            history,
            f"Answer {i}.",
            reported=2720 + 16 * i,
            **{"gen_ai.system_instructions": system[:200] if cut else system},
        )
        history = [*history, said("assistant", f"Answer {i}.")]

    analysis = analysed(replace(span, scope_name=scope) for span in app.spans)
    waste = build(analysis, Inputs((), ()))["totals"]["waste"]["tokens"]
    (found,) = judge(analysis, analysis, Gates(max_waste=0))

    assert {bool(r.call.completeness.lost) for r in analysis.readings} == {cut}
    assert (waste, found.result) == ((None, "not_checked") if cut else (0, "pass"))


@pytest.mark.parametrize("broken", [False, True], ids=["unchanged", "another system prompt"])
def test_a_model_without_a_cache_rule_lost_an_unknown_number_of_tokens(tmp_path: Path, broken: bool) -> None:
    """Less was read than could have been: whether its cache keeps that, no rule says."""
    found = analyze(unruled_dump(tmp_path, broken))
    calls, totals = found.to_dict()["calls"], found.to_dict()["totals"]
    (finding,) = [f for f in found.findings if f.kind == "unknown_cache_rule"]
    gates = judge(found.analysis, found.analysis, Gates(max_waste=0, max_waste_usd=0.0))

    assert calls[1]["waste"] is None
    assert (totals["waste"]["tokens"], totals["savings"], found.totals.wasted) == (None, None, None)
    assert "zephyr-99 on anthropic" in finding.detail
    assert 'match = ["zephyr-99"], platforms = ["anthropic"]' in finding.fix
    assert [v.result for v in gates] == ["not_checked", "not_checked"]
    assert all("zephyr-99" in v.told for v in gates)
    for word in ("lost: no cache rule of zephyr-99", "[[family]]"):
        assert word in found.to_text()
    assert all("costs nothing yet" not in f.detail for f in found.findings)


def test_a_call_without_a_cache_rule_has_no_attribute_of_waste(tmp_path: Path) -> None:
    found = analyze(unruled_dump(tmp_path, False))
    first, second = (attributes(Said(r, (), ()), "primary") for r in found.analysis.readings)

    assert first["otelctx.waste.tokens"] == 0
    assert "otelctx.waste.tokens" not in second


def unruled_dump(tmp_path: Path, broken: bool) -> Path:
    calls = [(20 * i, turns(i, f"{i * broken} {RULE * 150}"), 3_450 + 80 * i, 0, 0) for i in range(2)]
    findings(tmp_path, "anthropic", "zephyr-99", calls)
    return tmp_path / "dump.json"


@pytest.mark.parametrize("reads", [None, 0], ids=["not reported", "reported"])
def test_reads_that_are_never_reported_are_no_pass_and_the_report_says_what_records_them(
    tmp_path: Path, reads: int | None
) -> None:
    """The rules alone say that all was read: that proves no hit."""
    told = [0, 3_456, 3_456] if reads is not None else [None] * 3
    calls = [(20 * i, turns(i), 3_450 + 80 * i, told[i], 0) for i in range(3)]
    findings(tmp_path, "openai", "gpt-4.1", calls)
    found = analyze(tmp_path / "dump.json")
    gates = judge(found.analysis, found.analysis, Gates(max_waste=0, max_waste_usd=0.0))
    missing = [f.fix for f in found.findings if f.title == "Calls report no cached tokens"]

    assert [v.result for v in gates] == (["pass"] * 2 if reads is not None else ["not_checked"] * 2)
    assert len(missing) == (reads is None)
    assert all("gen_ai.usage.cache_read.input_tokens" in fix for fix in missing)


@pytest.mark.parametrize(("read", "believed"), [(50_000, False), (3_440, True)])
def test_a_read_that_the_conversation_cannot_hold_is_not_believed(
    tmp_path: Path, read: int, believed: bool
) -> None:
    """Nor is what follows from it: no depth, no saving, no growth."""
    told = [(3_450, 0), (3_530, 3_440), (100 if read > 3_610 else 3_610, read), (3_690, 3_600)]
    calls = [(20 * i, turns(i), n, cached, 0) for i, (n, cached) in enumerate(told)]
    kinds = {f["kind"] for f in findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)}
    readings = analyze(tmp_path / "dump.json").analysis.readings

    assert ("usage_inconsistent" in kinds, "growth_spike" in kinds) == (not believed, False)
    assert readings[2].call.usage.input == (3_610 if believed else None)
    assert readings[2].call.usage.cache_read == (3_440 if believed else None)
    assert (readings[2].context.usage or 0) < 5_000
    assert readings[3].call.usage.input == 3_690


@pytest.mark.parametrize("told", [False, True], ids=["never", "once before"])
def test_a_zero_that_a_library_leaves_out_is_an_inference_until_its_calls_tell_of_the_cache(
    tmp_path: Path, told: bool
) -> None:
    texts = [turns(i, f"{max(i - 1, 0)} {RULE * 150}") for i in range(3)]
    reads = [None, 3_440 if told else None, None]
    calls = [(20 * i, texts[i], 3_450 + 80 * i, reads[i], 0) for i in range(3)]
    found = findings(tmp_path, "openai", "gpt-4.1", calls, scope="opentelemetry.instrumentation.genai.openai")
    (lost,) = [f for f in found if f["tokens"] and f["calls"][-1].endswith(f"{3:016x}")]
    report = analyze(tmp_path / "dump.json")

    assert lost["evidence"] == ("reported" if told else "inferred")
    assert ("leaves a zero out" in lost["detail"]) == (not told)
    assert ("tell no cached tokens" in report.to_text()) == (not told)
    assert ("inferred ·" in report.to_text()) == (not told)
