"""``otelctx check``: what holds passes, what does not fails with the evidence, and what was not seen never passes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import otel_ctx
from otel_ctx.errors import SettingError
from otel_ctx.model import Analysis
from otel_ctx.outputs import junit
from otel_ctx.outputs.escape import cells
from otel_ctx.outputs.text.gates import WORDS, verdicts
from otel_ctx.outputs.text.layout import plain
from otel_ctx.outputs.views.gates import Gates, Verdict, gates_of, judge
from otel_ctx.outputs.views.selection import Selection, narrowed, select
from otel_ctx_cli.main import main

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "corpus"
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"
TOUR = ROOT / "cli" / "otel_ctx_cli" / "tour"
BROKEN, MENDED = TOUR / "broken.jsonl.gz", TOUR / "mended.jsonl.gz"
ACTION = ROOT / ".github" / "actions" / "check"
CASES = (
    "codex-nocontent", "oi-crewai-double", "oi-openai-chat-valuelen", "oi-anthropic-sessions", "oi-anthropic-image",
    "otel-genai-openai-responses-spanonly-stateful", "litellm-chat-default-parent", "haystack",
)  # fmt: skip


def dump(case: str) -> list[Path]:
    return [p for name in ("traces", "logs") if (p := CORPUS / case / f"{name}.jsonl.gz").exists()]


@cache
def analysis(case: str) -> Analysis:
    paths = {"demo": [DEMO], "broken": [BROKEN], "mended": [MENDED]}.get(case) or dump(case)
    return otel_ctx.analyze(paths).analysis


def verdict(case: str, **gate: Any) -> Verdict:
    (found,) = judge(analysis(case), analysis(case), Gates(**gate))
    return found


def check(*args: str | Path, cwd: Path | None = None) -> Result:
    environment = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None, "OTELCTX_DEBUG": None}
    before = Path.cwd()
    os.chdir(cwd or ROOT)
    try:
        return CliRunner().invoke(main, ["check", *map(str, args)], env=environment, prog_name="otelctx")
    finally:
        os.chdir(before)


# ---- what holds, and what does not


@pytest.mark.parametrize(
    ("case", "gate", "value", "told"),
    [
        ("demo", {"max_context": 11_511}, 11_512, "11,512 tokens at turn 24 of larkspur-support #f5b1d124:e4fc"),
        ("demo", {"max_percent": 8.99}, 8.99375, "9.0% (11,512 tokens of 128,000) at turn 24 of larkspur-support"),
        ("demo", {"max_growth": 1_155}, 1_156, "+1,156 tokens at turn 4 of support-agent-js"),
        ("demo", {"max_growth_percent": 43.6}, 43.672081601813375, "+43.7% (+1,156 tokens) at turn 4"),
        ("demo", {"stable_prefix": True}, 7, "system[0] (volatile_prefix) at turn 2 of support-agent-js"),
        ("demo", {"no_dead_schemas": True}, 1, "tools[2] (issue_refund): about 118 tokens in each of 24 calls"),
        ("demo", {"min_hit_ratio": 0.779}, 148_992 / 191_440, "77.8% of 191,440 tokens came from the cache"),
        ("demo", {"max_waste": 24_008}, 24_009, "24,009 tokens billed again, most (4,634 tokens, volatile_prefix)"),
        ("demo", {"max_waste_usd": 0.0828}, 0.08283105, "$0.0828 billed again"),
        ("oi-anthropic-image", {"max_context": 10}, None, "at turn "),
    ],
)  # fmt: skip
def test_what_fails_names_the_evidence(
    case: str, gate: dict[str, Any], value: float | None, told: str
) -> None:
    found = verdict(case, **gate)

    assert found.result == "fail"
    assert found.told.startswith(told) or (value is None and told in found.told)
    assert value is None or found.value == pytest.approx(value)
    assert found.calls


@pytest.mark.parametrize(
    ("case", "gate"),
    [
        ("demo", {"max_context": 11_512}),
        ("demo", {"max_percent": 9}),
        ("demo", {"max_growth": 1_156}),
        ("demo", {"max_growth_percent": 43.68}),
        ("demo", {"no_eviction": True}),
        ("demo", {"min_hit_ratio": 0.778}),
        ("demo", {"max_waste": 24_009}),
        ("demo", {"max_waste_usd": 0.0829}),
        ("oi-crewai-double", {"stable_prefix": True}),
    ],
)
def test_what_holds_to_the_token(case: str, gate: dict[str, Any]) -> None:
    assert verdict(case, **gate).result == "pass"


def test_reads_that_no_call_reports_are_not_checked() -> None:
    whole = analysis("mended")
    told = [
        r._replace(access=r.access._replace(simulated=True)) for r in whole.readings if r.access is not None
    ]
    whole = replace(whole, readings=tuple(told))
    (found,) = judge(whole, whole, Gates(max_waste=0))

    assert found.result == "not_checked"
    assert found.told.endswith(" do not report what was read from the cache")


@pytest.mark.parametrize(
    ("bound", "result", "told"),
    [
        (0.01, "fail", "$0.02 billed again, most"),
        (
            0.025,
            "not_checked",
            "$0.02 to $0.03 billed again: usage does not say for how long tokens were written",
        ),
        (0.031, "pass", "$0.02 to $0.03 billed again"),
    ],
)
def test_a_loss_with_two_bounds_holds_by_the_dearer_one(bound: float, result: str, told: str) -> None:
    whole = analysis("demo")
    first = next(r for r in whole.readings if r.wasted and r.cost is not None)
    assert first.cost is not None
    cost = replace(first.cost, wasted=0.02, wasted_high=0.03)
    whole = replace(whole, readings=(first._replace(cost=cost),))
    (found,) = judge(whole, whole, Gates(max_waste_usd=bound))

    assert found.result == result
    assert found.told.startswith(told)


@pytest.mark.parametrize(
    ("case", "gate", "why"),
    [
        ("codex-nocontent", {"stable_prefix": True}, "contents were not recorded"),
        ("codex-nocontent", {"no_eviction": True}, "contents were not recorded"),
        ("codex-nocontent", {"no_dead_schemas": True}, "not seen whole"),
        ("haystack", {"max_context": 10**9}, "no input is reported"),
    ],
)
def test_what_was_not_seen_is_no_pass(case: str, gate: dict[str, Any], why: str) -> None:
    whole = analysis(case)
    if case == "haystack":  # as if nothing had been reported
        bare = [
            r._replace(context=replace(r.context, usage=None)) if n == 0 else r
            for n, r in enumerate(whole.readings)
        ]
        whole = replace(whole, readings=tuple(bare))
    (found,) = judge(whole, whole, Gates(**gate))

    assert found.result == "not_checked"
    assert why in found.told


def test_one_call_alone_compares_nothing() -> None:
    whole = analysis("demo")
    one = narrowed(whole, whole.readings[:1])
    found = judge(
        one, one, Gates(stable_prefix=True, no_eviction=True, max_growth=9**9, no_dead_schemas=True)
    )

    assert {v.result for v in found} == {"not_checked"}


def test_the_turn_before_need_not_be_selected() -> None:
    whole = analysis("broken")
    last = select(whole, Selection(turn=("-1",)))
    found = judge(whole, last, Gates(stable_prefix=True, max_growth=1))

    assert [(v.result, len(v.calls)) for v in found] == [("fail", 1), ("fail", 1)]


def test_an_unknown_window_is_told_with_the_way_out() -> None:
    whole = analysis("demo")
    blind = [r._replace(context=replace(r.context, limit=None)) for r in whole.readings]
    (found,) = judge(whole, replace(whole, readings=tuple(blind)), Gates(max_percent=100))

    assert found.result == "not_checked"
    assert "claude-sonnet-4-5" in found.told
    assert "--limit MODEL=TOKENS" in found.told


def test_an_estimate_near_the_bound_is_neither() -> None:
    whole = analysis("demo")
    about = [r._replace(context=replace(r.context, usage_method="estimated")) for r in whole.readings]
    guessed = replace(whole, readings=tuple(about))
    results = [
        judge(guessed, guessed, Gates(max_context=bound))[0].result
        for bound in (8_000, 9_000, 16_000, 17_000)
    ]

    assert results == ["fail", "not_checked", "not_checked", "pass"]


@pytest.mark.parametrize("broken", ["zero", "conflict"])
def test_numbers_that_cannot_be_are_no_pass(broken: str) -> None:
    whole = analysis("mended")
    first = whole.readings[0]
    usage = replace(
        first.call.usage, **({"input": 0} if broken == "zero" else {"conflicts": ("1 or 2 tokens",)})
    )
    wrong = first._replace(
        call=replace(first.call, usage=usage),
        context=replace(first.context, usage=usage.input),
    )
    seen = replace(whole, readings=(wrong, *whole.readings[1:]))
    found = judge(seen, seen, Gates(max_context=10**9, max_percent=100, min_hit_ratio=0, max_growth=10**9))

    assert {v.gate: v.result for v in found} == dict.fromkeys(
        ("max_context", "max_percent", "max_growth", "min_hit_ratio"), "not_checked"
    )


def test_a_window_that_was_exceeded_fails_whatever_was_counted() -> None:
    whole = analysis("mended")
    refused = whole.readings[3]._replace(findings=("window_exceeded",))
    seen = replace(whole, readings=(*whole.readings[:3], refused))
    (found,) = judge(seen, seen, Gates(max_percent=100))

    assert (found.result, found.calls) == ("fail", (refused.call.id,))


def test_silence_about_the_cache_is_no_miss_and_no_hit() -> None:
    whole = analysis("mended")
    half = [
        r if n % 2 else r._replace(call=replace(r.call, usage=replace(r.call.usage, cache_read=None)))
        for n, r in enumerate(whole.readings)
    ]
    told = replace(whole, readings=tuple(half))
    results = [judge(told, told, Gates(min_hit_ratio=bound))[0].result for bound in (0.3, 0.7, 0.99)]

    assert results == ["pass", "not_checked", "fail"]


def test_content_that_went_behind_a_change_is_found() -> None:
    """The system prompt changes, and behind it an old message is gone: one break, which names the first only."""
    said = {
        who: [{"role": who, "content": f"{who} {n} " + f"word{n} " * 50} for n in range(4)]
        for who in ("user", "assistant")
    }
    system = [
        {"role": "system", "content": f"Now it is 2026-11-30T04:0{n}:00Z. " + "x " * 99} for n in range(4)
    ]
    history: list[dict[str, str]] = []
    requests = []
    for n in range(4):
        history = [*history, said["user"][n]]
        if n == 3:
            del history[:2]
        requests.append({"model": "gpt-4o", "messages": [system[n], *history]})
        history = [*history, said["assistant"][n]]
    lines = "\n".join(map(json.dumps, requests)).encode()
    result = CliRunner().invoke(
        main, ["check", "-", "--no-config", "--no-eviction", "--json", "-"], input=lines
    )
    (gate,) = json.loads(result.stdout)["gates"]

    assert (result.exit_code, gate["result"]) == (1, "fail")
    assert gate["told"].startswith("evicted behind another change at turn 4")
    assert len(gate["calls"]) == 1


def test_no_call_at_all_fails_even_where_the_rest_is_let_through(tmp_path: Path) -> None:
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "GET /",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
    }
    path = tmp_path / "dump.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    result = check(path, "--max-context", "1", "--lenient")

    assert result.exit_code == 1
    assert "NOT CHECKED  max-context 1" in result.stdout
    assert "no model call in this input" in result.stdout


def test_half_an_input_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_bytes(gzip.decompress(DEMO.read_bytes()) + b'{"resourceSpans": [{"scope\n')
    strict = check(path, "--max-context", "20k", "--max-growth", "1")
    lenient = check(path, "--max-context", "20k", "--lenient")

    assert strict.exit_code == 1
    assert re.findall(r"^(\S.*?)  ", strict.stdout, re.MULTILINE) == ["NOT CHECKED", "FAIL"]
    assert "1 record of the input could not be read" in strict.stdout
    assert lenient.exit_code == 0


def test_a_bound_of_nothing_is_a_bound() -> None:
    assert Gates(max_waste=0, max_growth=0, min_hit_ratio=0).asked() == (
        "max_growth",
        "min_hit_ratio",
        "max_waste",
    )
    assert check(BROKEN, "--max-waste", "0").exit_code == 1
    assert check(MENDED, "--max-waste", "0").exit_code == 0


# ---- a larger bound is never worse

_RANK = {"fail": 0, "not_checked": 1, "pass": 2}
_BOUNDS = [f.name for f in fields(Gates) if f.name.startswith("max_")]


@settings(max_examples=150)
@given(
    st.sampled_from(("demo", "broken", "mended", *CASES)),
    st.sampled_from([*_BOUNDS, "min_hit_ratio"]),
    st.tuples(st.floats(0, 1), st.floats(0, 1)),
    st.sets(st.integers(0, 40)),
    st.sets(st.integers(0, 40)),
)
def test_a_wider_bound_never_makes_it_worse(
    case: str, gate: str, at: tuple[float, float], blind: set[int], guessed: set[int]
) -> None:
    """Whatever was not reported, and whatever is an estimate only."""
    whole = analysis(case)
    readings = [
        r._replace(context=replace(r.context, usage=None), call=replace(r.call, usage=replace(r.call.usage, cache_read=None)))
        if n in blind
        else r._replace(context=replace(r.context, usage_method="estimated"))
        if n in guessed
        else r
        for n, r in enumerate(whole.readings)
    ]  # fmt: skip
    seen = replace(whole, readings=tuple(readings))
    scale = (
        1.0
        if gate == "min_hit_ratio"
        else 0.2
        if gate.endswith("usd")
        else 100
        if "percent" in gate
        else 30_000
    )
    low, high = sorted(x * scale for x in at)
    narrow, wide = (high, low) if gate == "min_hit_ratio" else (low, high)
    results = [
        judge(seen, seen, gates_of({gate: bound if scale <= 100 else int(bound)}))[0]
        for bound in (narrow, wide)
    ]

    assert _RANK[results[0].result] <= _RANK[results[1].result]
    assert all(v.told for v in results)
    assert all(v.calls for v in results if v.result != "pass")


@pytest.mark.parametrize("case", ["demo", *CASES])
def test_a_pass_rests_on_every_call(case: str) -> None:
    """With one call's figures and text taken away, no gate that is about calls passes any more."""
    whole = analysis(case)
    first = whole.readings[0]
    dark = first._replace(
        context=replace(first.context, usage=None),
        access=None,
        call=replace(
            first.call,
            usage=replace(first.call.usage, input=None, cache_read=None),
            completeness=replace(first.call.completeness, status="none"),
        ),
    )
    seen = replace(whole, readings=(dark, *whole.readings[1:]))
    asked = Gates(
        max_context=10**9,
        max_percent=1e9,
        max_waste=10**9,
        max_waste_usd=1e9,
        min_hit_ratio=0,
        no_dead_schemas=True,
    )

    assert "pass" not in {v.result for v in judge(seen, seen, asked)}


# ---- settings


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"max-contxt": 1}, "'max-contxt' is no gate: is max-context meant?"),
        ({"max-context": "60k"}, "max-context: '60k' is no number"),
        ({"max-context": True}, "is no number"),
        ({"max-context": 1.5}, "no whole number"),
        ({"max-context": -1}, "0 or more"),
        ({"stable-prefix": 1}, "neither true nor false"),
        ({"min-hit-ratio": 60}, "lies between 0 and 1"),
        ({"max-waste-usd": float("nan")}, "is no bound"),
    ],
)
def test_a_gate_that_cannot_be_is_named(given_: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=re.escape(words)):
        gates_of(given_)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "no bound was given"),
        (["--max-context", "many"], "'many' is no number"),
        (["--max-context", "1.5"], "no whole number"),
        (["--max-context", "-1"], "0 or more"),
        (["--min-hit-ratio", "60"], "0.6 and 60%"),
        (["--max-waste", "1", "--ignore", "nothing"], "'nothing' is not known"),
        (["--max-waste", "1", "--no-config", "--config", "pyproject.toml"], "contradict"),
        (["--max-waste", "1", "--config", "pyproject.toml"], "there is no table [tool.otelctx.check]"),
        (["--max-waste", "1", "--json", "x", "--junit", "x"], "cannot be two of these"),
        (["--max-waste", "1", "--junit", "no/x"], "there is no folder"),
    ],
)
def test_arguments_that_do_not_fit(args: list[str], words: str) -> None:
    result = check(DEMO, *args)

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_amounts_as_people_write_them() -> None:
    result = check(DEMO, "--max-context", "12k", "--max-growth", "1,156", "--max-percent", "9%", "--min-hit-ratio", "77%",
                   "--max-waste", "24_009", "--max-waste-usd", "$0.10")  # fmt: skip

    assert result.exit_code == 0, result.stdout
    assert result.stdout.count("PASS") == 6


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A person's repository, with a table and a dump in a folder below."""
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'agent'\n\n[tool.otelctx.check]\nmax-context = 6000\nstable-prefix = true\n"
    )
    work = tmp_path / "tests" / "spans"
    work.mkdir(parents=True)
    shutil.copy(MENDED, work / "mended.jsonl.gz")
    shutil.copy(BROKEN, work / "broken.jsonl.gz")
    return tmp_path


def configured(repo: Path, text: str) -> None:
    (repo / "pyproject.toml").write_text(text)


def test_the_table_is_found_upward(repo: Path) -> None:
    work = repo / "tests" / "spans"
    assert check("mended.jsonl.gz", cwd=work).exit_code == 0
    failed = check("broken.jsonl.gz", cwd=work)

    assert failed.exit_code == 1
    assert "FAIL  stable-prefix" in failed.stdout
    assert "PASS  max-context 6,000" in failed.stdout


def test_a_nearer_project_without_a_table_is_passed_over(repo: Path) -> None:
    work = repo / "tests" / "spans"
    (work / "pyproject.toml").write_text("[project]\nname = 'inner'\n")

    assert check("broken.jsonl.gz", cwd=work).exit_code == 1


def test_options_win_over_the_table(repo: Path) -> None:
    work = repo / "tests" / "spans"

    assert check("broken.jsonl.gz", "--allow-unstable-prefix", cwd=work).exit_code == 0
    assert check("mended.jsonl.gz", "--max-context", "5k", cwd=work).exit_code == 1
    assert check("mended.jsonl.gz", "--no-config", cwd=work).exit_code == 2


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("max-contxt = 1", "[tool.otelctx.check]: 'max-contxt' is no gate: is max-context meant?"),
        ("max-context = '1'", "max-context: '1' is no number"),
        ("strict = 1", "strict: 1 is neither true nor false"),
        ("limits = { a = 'b' }", "limits is a table of tokens by model"),
        ("ignore = 'compaction'", "ignore is a list"),
        ("ignore = ['compactio']", "'compactio' is no kind of finding"),
        ("max-context =", "Invalid value"),
        ("[tool.otelctx.chekc]", "[tool.otelctx] has no table 'chekc'; there is check"),
    ],
)
def test_a_table_that_is_wrong_names_the_key(table: str, words: str, repo: Path) -> None:
    configured(repo, f"[tool.otelctx.check]\n{table}\n")
    result = check("tests/spans/mended.jsonl.gz", "--max-waste", "1", cwd=repo)

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert str(repo) in result.stderr


def test_strictness_windows_and_ignored_kinds_of_the_table(repo: Path) -> None:
    configured(
        repo,
        "[tool.otelctx.check]\nstable-prefix = true\nmax-percent = 50\nstrict = false\nignore = ['volatile_prefix']\n"
        "limits = { 'claude-*' = 6000 }\n",
    )
    result = check("tests/spans/broken.jsonl.gz", cwd=repo)
    other = check("tests/spans/broken.jsonl.gz", "--limit", "claude-*=200k", cwd=repo)

    assert "PASS  stable-prefix" in result.stdout
    assert "88.4% (5,304 tokens of 6,000)" in result.stdout
    assert (result.exit_code, other.exit_code) == (1, 0)


def test_a_pass_tells_what_was_ignored_for_it(repo: Path) -> None:
    ignored = ("--ignore", "volatile_prefix", "--ignore", "dead_tool_schema")
    told = " ".join(
        check("tests/spans/broken.jsonl.gz", "--stable-prefix", "--no-dead-schemas", "--no-config", *ignored, cwd=repo)
        .stdout.split()
    )  # fmt: skip
    assert (
        "PASS stable-prefix but for 7 breaks that are ignored (volatile_prefix), every prompt goes on" in told
    )
    assert "PASS no-dead-schemas but for what is ignored (dead_tool_schema), every tool" in told


def test_what_was_not_checked_fails_unless_it_is_let_through() -> None:
    files = dump("codex-nocontent")
    strict, lenient = (check(*files, "--stable-prefix", *more) for more in ([], ["--lenient"]))

    assert (strict.exit_code, lenient.exit_code) == (1, 0)
    assert "NOT CHECKED  stable-prefix" in strict.stdout
    assert "NOT CHECKED  stable-prefix" in lenient.stdout
    assert "--lenient lets it through" in strict.stdout
    assert "PASS" not in lenient.stdout


# ---- files and lines


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("case", ["demo", *CASES])
def test_every_line_fits(case: str, width: int) -> None:
    asked = Gates(*(0 if f.default is None else True for f in fields(Gates)))
    found = judge(analysis(case), analysis(case), asked)
    lines = [plain(one) for one in verdicts(found, True, width)]

    assert all(cells(one) <= width for one in lines)
    assert sum(one.startswith(tuple(WORDS.values())) for one in lines) == len(fields(Gates))


def test_json_and_junit_say_the_same(tmp_path: Path) -> None:
    files = dump("codex-nocontent")
    asked = ["--stable-prefix", "--max-context", "10k", "--max-percent", "50"]
    report, tests = tmp_path / "check.json", tmp_path / "check.xml"
    told = check(*files, *asked, "--json", report, "--junit", tests)
    found = json.loads(report.read_bytes())

    assert told.exit_code == 1
    assert (found["schema"], found["passed"], found["strict"]) == ("otelctx.check/1", False, True)
    results = {g["gate"]: g["result"] for g in found["gates"]}
    assert results == {"stable_prefix": "not_checked", "max_context": "fail", "max_percent": "pass"}
    root = ET.parse(tests).getroot()
    suite = root[0]
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["skipped"]) == ("3", "2", "0")
    assert [len(case.findall("failure")) for case in suite] == [1, 0, 1]
    for case, gate in zip(suite, found["gates"], strict=True):
        assert case.attrib["name"].startswith(gate["gate"].replace("_", "-"))
        assert gate["told"] in (case[0].attrib.get("message"), case[0].text)


def test_lenient_skips() -> None:
    out = check(*dump("codex-nocontent"), "--stable-prefix", "--lenient", "--junit", "-")
    suite = ET.fromstring(out.stdout.encode())[0]

    assert out.exit_code == 0
    assert (suite.attrib["failures"], suite.attrib["skipped"], suite[0][0].tag) == ("0", "1", "skipped")


@given(st.text(), st.text())
def test_junit_is_xml_whatever_is_told(told: str, call: str) -> None:
    found = [
        Verdict("max_context", 1.0, "fail", told, None, (call,)),
        Verdict("max_waste", 1.0, "pass", told, None, ()),
    ]

    assert len(ET.fromstring(junit.render(found, True))[0]) == 2


def test_no_prompt_text_in_anything(tmp_path: Path) -> None:
    gates = [
        "--stable-prefix",
        "--no-eviction",
        "--no-dead-schemas",
        "--max-waste",
        "1",
        "--max-context",
        "1",
    ]
    result = check(BROKEN, *gates, "--json", tmp_path / "j", "--junit", tmp_path / "x")
    written = result.stdout + (tmp_path / "j").read_text() + (tmp_path / "x").read_text()

    assert "Current time" not in written
    assert "2026-" not in written


# ---- the action, and a repository that uses it


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["runs"]["steps"]
    return found


def act(repo: Path, inputs: dict[str, str]) -> tuple[int, dict[str, str], str, str]:
    """The action's steps, as a runner runs them: (exit code, outputs, summary, log)."""
    known = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["inputs"]
    assert set(inputs) <= set(known)
    values = {name: inputs.get(name, about.get("default", "")) for name, about in known.items()}
    bin_ = repo / "bin"
    bin_.mkdir(exist_ok=True)
    command = bin_ / "otelctx"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m otel_ctx_cli "$@"\n')
    command.chmod(0o755)
    output, summary, log = repo / "output", repo / "summary", ""
    output.write_text("")
    summary.write_text("")
    code = 0
    for step in steps():
        given_ = {
            name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text)
            for name, text in step.get("env", {}).items()
        }
        environment = {
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "RUNNER_TEMP": str(repo),
            **given_,
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=repo, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        log += done.stdout + done.stderr
        code = done.returncode
        if code:
            break
    told = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return code, told, summary.read_text(), log


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ({"paths": "tests/spans/mended.jsonl.gz"}, 0, "PASS  stable-prefix"),
        ({"paths": "tests/spans/broken.jsonl.gz"}, 1, "FAIL  stable-prefix"),
        ({"paths": "tests/spans/broken.jsonl.gz", "stable-prefix": "false"}, 0, "PASS  max-context"),
        (
            {"paths": "tests/spans/mended.jsonl.gz\ntests/spans/broken.jsonl.gz", "max-waste": "1"},
            1,
            "FAIL  max-waste 1",
        ),
        (
            {"paths": "tests/spans/mended.jsonl.gz", "args": "--turn 3- --max-growth 1"},
            1,
            "FAIL  max-growth 1",
        ),
        (
            {"paths": "tests/spans/mended.jsonl.gz", "stable-prefix": "yes"},
            2,
            "stable-prefix is true or false",
        ),
        ({"paths": "nowhere.jsonl"}, 2, "no such file"),
        ({"paths": "x", "max-context": "$(touch owned); touch owned"}, 2, "is no number"),
    ],
)
def test_the_action_in_a_sample_repository(inputs: dict[str, str], code: int, words: str, repo: Path) -> None:
    status, outputs, summary, log = act(repo, {**inputs, "install": "none"})

    assert status == code, log
    assert words in log
    assert ("::error::" in log) == bool(code)
    assert not (repo / "owned").exists()
    if outputs:
        assert (outputs["passed"], outputs["exit-code"]) == (str(not code).lower(), str(code))
        assert summary.startswith(f"### Context window: {'failed' if code else 'passed'}\n\n```")
        if code < 2:
            assert json.loads(Path(outputs["report"]).read_bytes())["passed"] == (not code)


def test_the_action_takes_every_gate() -> None:
    about = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))
    gates = {f.name.replace("_", "-") for f in fields(Gates)}

    assert gates <= set(about["inputs"])
    assert about["runs"]["using"] == "composite"
    used = "\n".join(step["run"] for step in steps())
    assert "${{" not in used  # an input is a variable, never part of a script


def test_the_install_step_takes_the_action_s_own_version() -> None:
    run = steps()[0]["run"]

    assert "$GITHUB_ACTION_PATH/../../.." in run
    assert (ACTION / ".." / ".." / "..").resolve() == ROOT.resolve()


def names(found: Sequence[Verdict]) -> list[str]:
    return [v.gate for v in found]


def test_a_program_asks_the_same() -> None:
    report = otel_ctx.analyze(MENDED)
    found = report.check(max_context=6_000, stable_prefix=True)

    assert names(found) == ["max_context", "stable_prefix"]
    assert {v.result for v in found} == {"pass"}
    with pytest.raises(SettingError):
        report.check(max_contexts=1)


@pytest.mark.parametrize(
    "case", sorted(p.name for p in CORPUS.iterdir() if re.search("nocontent|hidemessages", p.name))
)
def test_without_contents_no_gate_about_text_passes(case: str) -> None:
    whole = analysis(case)
    found = judge(whole, whole, Gates(stable_prefix=True, no_eviction=True, no_dead_schemas=True))

    assert {v.result for v in found} == {"not_checked"}
