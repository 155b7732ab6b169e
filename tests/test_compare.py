"""``otelctx compare``: what a change did, judged on the turns that both dumps have."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import otel_ctx
from otel_ctx.model import Analysis, Finding, Kind
from otel_ctx.outputs import data
from otel_ctx.outputs.escape import cells
from otel_ctx.outputs.text.changes import changes as lines
from otel_ctx.outputs.text.layout import plain
from otel_ctx.outputs.views.changes import Changes, changes
from otel_ctx.outputs.views.selection import Selection, narrowed, select
from otel_ctx_cli.main import main
from tests.test_check import BROKEN, DEMO, MENDED, dump


@cache
def analysis(*paths: Path) -> Analysis:
    return otel_ctx.analyze(list(paths)).analysis


def compare(*args: str | Path) -> Result:
    environment = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None, "OTELCTX_DEBUG": None}
    return CliRunner().invoke(main, ["compare", *map(str, args)], env=environment, prog_name="otelctx")


def judged(found: Changes) -> dict[str, str]:
    return {f.name: f.judged for f in found.figures}


def test_what_a_mended_prompt_does() -> None:
    found = changes(analysis(BROKEN), analysis(MENDED))
    figures = {f.name: (f.before, f.after) for f in found.figures}

    assert judged(found) == {
        "depth at the same turn": "same",
        "cache hit ratio": "better",
        "billed again per call": "better",
        "breaks per call": "better",
        "cost per call": "better",
    }
    assert figures["depth at the same turn"] == (5_304, 5_286)
    assert figures["billed again per call"] == (23_979 / 8, 0)
    assert figures["breaks per call"] == (7 / 8, 0)
    assert found.worse == ()
    assert [(f.change, f.kind, f.place) for f in found.findings if f.severity != "info"] == [
        ("gone", "volatile_prefix", "system[0]")
    ]


def test_a_value_that_went_from_the_system_prompt_into_the_messages_is_another_finding() -> None:
    """Where the system prompt is the first message, both stand in ``messages``."""

    def at(path: str, kind: Kind) -> Analysis:
        broken = analysis(BROKEN)
        readings = tuple(
            r._replace(break_=replace(r.break_, path=path, kind=kind)) if r.break_ is not None else r
            for r in broken.readings
        )
        (found,) = (f for f in broken.findings if f.kind == "volatile_prefix")
        return replace(broken, readings=readings, findings=(replace(found, path=path),))

    system, user = at("messages[0]", "system"), at("messages[5]", "user")
    found = changes(system, user)
    assert [(f.change, f.kind, f.place) for f in found.findings] == [
        ("new", "volatile_prefix", "messages"),
        ("gone", "volatile_prefix", "messages (system)"),
    ]
    assert "new finding volatile_prefix at messages" in found.worse
    assert [f.change for f in changes(user, at("messages[7]", "user")).findings] == ["kept"]


def test_and_the_other_way_round() -> None:
    found = changes(analysis(MENDED), analysis(BROKEN))

    assert list(found.worse) == [
        "cache hit ratio",
        "billed again per call",
        "breaks per call",
        "cost per call",
        "new finding volatile_prefix at system[0]",
    ]


@pytest.mark.parametrize(
    "path", [DEMO, BROKEN, MENDED, *dump("oi-anthropic-sessions"), *dump("codex-nocontent")]
)
def test_nothing_is_worse_than_itself(path: Path) -> None:
    whole = analysis(path)
    found = changes(whole, whole)

    assert found.worse == ()
    assert all(p.matched and p.before is p.after for p in found.pairs)
    assert {f.judged for f in found.figures} <= {"same", ""}
    assert {f.change for f in found.findings} <= {"kept"}


@settings(max_examples=30)
@given(st.integers(1, 8), st.integers(1, 8))
def test_a_longer_run_of_the_same_is_no_worse(short: int, long: int) -> None:
    whole = analysis(MENDED)
    a, b = (select(whole, Selection(turn=(f"1-{n}",))) for n in (short, long))
    found = changes(a, b)

    assert {f.judged for f in found.figures} == {"same"}
    assert found.same_calls == min(short, long)
    assert found.pairs[0].turns == (short, long)


def test_conversations_are_matched_by_their_names() -> None:
    found = changes(analysis(DEMO), analysis(BROKEN))
    pairs = {
        (p.before.services if p.before else None, p.after.services if p.after else None) for p in found.pairs
    }

    # of the two in the demo, the one that begins with the same words
    assert pairs == {(("support-agent-js",), ("oi-anthropic-bust",)), (("larkspur-support",), None)}


def test_where_nothing_matches_all_calls_are_judged() -> None:
    whole = analysis(DEMO)
    names = {
        c.services: narrowed(whole, [r for r in whole.readings if r.conversation == c.id])
        for c in whole.conversations
    }
    both, other = analysis(*dump("oi-anthropic-sessions")), names["larkspur-support",]
    found = changes(other, both)

    assert found.same_calls == 0 or any(p.matched for p in found.pairs)
    assert all(f.before is not None for f in found.figures)


def test_what_is_not_seen_any_more_is_not_fine() -> None:
    from dataclasses import replace

    whole = analysis(MENDED)
    quiet = replace(
        whole,
        readings=tuple(
            r._replace(cost=None, call=replace(r.call, usage=replace(r.call.usage, cache_read=None)))
            for r in whole.readings
        ),
    )
    found = changes(whole, quiet)

    assert "cost per call: known before, not seen any more" in found.worse
    assert "cache hit ratio: known before, not seen any more" in found.worse
    assert changes(quiet, whole).worse == ()


def test_the_gate() -> None:
    worse, fine = compare(MENDED, BROKEN, "--fail-on", "worse"), compare(BROKEN, MENDED, "--fail-on", "worse")

    assert (worse.exit_code, fine.exit_code, compare(MENDED, BROKEN).exit_code) == (1, 0, 0)
    assert "--fail-on worse: cache hit ratio; billed again per call" in worse.stderr
    assert "Nothing is worse" in fine.stdout


def test_a_tolerance() -> None:
    assert compare(MENDED, BROKEN, "--fail-on", "worse", "--tolerance", "0").exit_code == 1
    found = changes(analysis(BROKEN), analysis(MENDED), 0.001)
    assert judged(found)["depth at the same turn"] == "better"  # 18 of 5,304 tokens


def test_json_and_markdown(tmp_path: Path) -> None:
    report, page = tmp_path / "c.json", tmp_path / "c.md"
    shown = compare(BROKEN, MENDED, "--json", report, "--md", page)
    found: dict[str, Any] = json.loads(report.read_bytes())

    assert shown.exit_code == 0
    assert found == json.loads(json.dumps(data.changes(changes(analysis(BROKEN), analysis(MENDED)))))
    assert (found["schema"], found["worse"]) == ("otelctx.compare/1", [])
    assert found["same_turns"]["calls"] == 8
    text = page.read_text("utf-8")
    assert text.startswith("### Context window: nothing is worse\n")
    assert "| cache hit ratio | 0.0% | 81.9% | 🟢 better |" in text
    assert "- **gone** error `volatile_prefix` at `system[0]`, 23,979 tokens" in text
    assert all(line.count("|") == 5 for line in text.splitlines() if line.startswith("|"))


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("verbose", [0, 1])
def test_every_line_fits(width: int, verbose: int) -> None:
    for before, after in ((DEMO, BROKEN), (MENDED, DEMO), (*dump("oi-anthropic-sessions"), DEMO)):
        found = changes(analysis(before), analysis(after))
        drawn = [plain(one) for one in lines(found, ("before.jsonl", "x" * 200), width, verbose)]
        assert all(cells(one) <= width for one in drawn)


def test_no_prompt_text(tmp_path: Path) -> None:
    shown = compare(BROKEN, MENDED, "--json", tmp_path / "j", "--md", tmp_path / "m", "-v")
    written = shown.stdout + (tmp_path / "j").read_text() + (tmp_path / "m").read_text()

    assert "Current time" not in written


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([BROKEN], "here are 1"),
        ([BROKEN, MENDED, DEMO], "here are 3"),
        (["-", "-"], "can be one of the two"),
        ([BROKEN, "nowhere.jsonl"], "no such file"),
        ([BROKEN, MENDED, "--tolerance", "x"], "is not a valid"),
        ([BROKEN, MENDED, "--tolerance", "nan"], "nan is no number of percent"),
        ([BROKEN, MENDED, "--json", "x", "--md", "x"], "cannot be two of these"),
        ([BROKEN, MENDED, "--service", "nobody"], "no call; there are"),
    ],
)
def test_arguments_that_do_not_fit(args: list[str | Path], words: str) -> None:
    result = compare(*args)

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_half_an_input_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "after.jsonl"
    path.write_bytes(gzip.decompress(MENDED.read_bytes()) + b'{"resourceSpans": [{"scope\n')

    assert compare(BROKEN, path).exit_code == 0
    refused = compare(BROKEN, path, "--fail-on", "worse")
    assert refused.exit_code == 2
    assert "does not judge half an input" in " ".join(refused.stderr.split())


def test_standard_input_is_one_side() -> None:
    environment = {"COLUMNS": "80", "NO_COLOR": "1"}
    result = CliRunner().invoke(
        main, ["compare", "-", os.fspath(MENDED)], input=BROKEN.read_bytes(), env=environment
    )

    assert result.exit_code == 0
    assert "before  -" in result.stdout


def test_what_is_not_seen_any_more_is_not_gone() -> None:
    """Without the text of the second dump nobody knows whether what was found in the first is mended."""
    corpus = Path(__file__).parent / "corpus"
    hidden = analysis(corpus / "oi-openai-chat-hidemessages" / "traces.jsonl.gz")
    found = changes(analysis(corpus / "oi-openai-chat-bust" / "traces.jsonl.gz"), hidden)
    told = {f.kind: f.change for f in found.findings if f.place}

    assert told["volatile_prefix"] == "unseen"
    assert set(told.values()) == {"unseen"}
    assert judged(found)["breaks per call"] == "unseen"
    assert {f.change for f in found.findings if f.kind == "content_not_captured"} == {"new"}


def test_what_could_not_be_seen_before_is_not_new() -> None:
    """Without the text of the first dump nobody knows whether what is found in the second had been there all along."""
    corpus = Path(__file__).parent / "corpus"
    hidden = analysis(corpus / "oi-openai-chat-hidemessages" / "traces.jsonl.gz")
    found = changes(hidden, analysis(corpus / "oi-openai-chat-bust" / "traces.jsonl.gz"))
    told = {f.kind: f.change for f in found.findings if f.place}

    assert told["volatile_prefix"] == "unseen"
    assert set(told.values()) == {"unseen"}
    assert not [words for words in found.worse if words.startswith("new finding")]


@pytest.mark.parametrize(
    ("kind", "path", "told"),
    [
        ("tools_changed", "tools[1]", "unseen"),
        ("dead_tool_schema", "", "unseen"),
        ("prefix_changed", "system[0]", "new"),
        ("ttl_expired", "", "new"),
    ],
)
def test_a_section_that_the_first_dump_has_not_got_says_nothing_of_new_findings(
    kind: str, path: str, told: str
) -> None:
    mended = analysis(MENDED)
    blind = replace(
        mended,
        findings=(),
        readings=tuple(
            r._replace(
                call=replace(r.call, completeness=replace(r.call.completeness, lost=frozenset({"tools"})))
            )
            for r in mended.readings
        ),
    )
    one = Finding(kind=kind, severity="warning", title="", detail="", fix="", calls=(), path=path, tokens=0)
    found = changes(blind, replace(mended, findings=(one,)))

    assert [f.change for f in found.findings] == [told]
    assert any("new finding" in words for words in found.worse) == (told == "new")
