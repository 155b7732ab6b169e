"""The commands that show one side of a dump: what they take, what they write, what they never say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from otel_ctx.findings.kinds import KINDS
from otel_ctx.outputs.text.diff import _edits as diff_lines
from otel_ctx.outputs.text.layout import plain
from otel_ctx.outputs.views.edits import edits
from otel_ctx_cli import conversations
from otel_ctx_cli.main import COMMANDS, main
from tests.test_cli import process
from tests.test_golden import CORPUS, prompt_texts, runs_of, strings_of, wire_of

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"
SHOWING = ("conversations", "tokens", "cache", "findings", "diff", "analyze")
SECRET = "Current time"


def otelctx(*args: str | Path, width: int = 80, env: dict[str, str] | None = None) -> Result:
    variables = {
        "COLUMNS": str(width),
        "NO_COLOR": "1",
        "FORCE_COLOR": None,
        "OTELCTX_DEBUG": None,
        **(env or {}),
    }
    return CliRunner().invoke(main, [str(a) for a in args], env=variables, prog_name="otelctx")


def shown(*args: str | Path, **more: Any) -> str:
    result = otelctx(*args, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


def data(*args: str | Path) -> Any:
    return json.loads(shown(*args, "--json", "-"))


def ended(command: str) -> tuple[str, ...]:
    """What a command needs beside the dump."""
    return ("1:7", "1:8") if command == "diff" else ()


# ---- shared by all


@pytest.mark.parametrize("command", SHOWING)
def test_every_selector_is_taken_by_every_command(command: str) -> None:
    chosen = [
        "--conversation", "1", "--agent", "*", "--turn", "7-", "--trace", "", "--service", "support*",
        "--model", "claude-*", "--since", "1h",
    ]  # fmt: skip
    told = shown(command, DEMO, *ended(command), *chosen)

    assert "larkspur" not in told
    assert command == "findings" or "support-agent-js" in told  # of one conversation the name is not said
    if command != "diff":
        assert told == shown(command, DEMO, "--conversation", "1", "--turn", "7-8")


@pytest.mark.parametrize("command", [c for c in SHOWING if c != "diff"])
def test_a_trace_is_what_one_question_led_to(command: str) -> None:
    found = shown(command, DEMO, "--trace", "21FD34bb")

    assert found == shown(command, DEMO, "--conversation", "1", "--turn", "1-2")
    assert found != shown(command, DEMO, "--conversation", "1")


@pytest.mark.parametrize("command", SHOWING)
@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--conversation", "support-agnt", "the nearest are 1 (support-agent-js #21fd34bb:059e)"),
        ("--service", "nobody", "there are support-agent-js, larkspur-support"),
        ("--model", "gpt-5", "there are claude-sonnet-4-5-20250929, gpt-4o-2024-08-06"),
        ("--turn", "three", "3-8, 3- (to the last) and -2 (the last two) are"),
        ("--since", "yesterday", "2h (before the newest call) another"),
        ("--since", "99999999999999h", "is longer than 100 years"),
    ],
)
def test_what_is_not_there_is_told_with_the_way_out(
    command: str, option: str, value: str, words: str
) -> None:
    result = otelctx(command, DEMO, *ended(command), option, value)

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split()).replace(
        "gpt-4o-2024-08-06, claude-sonnet-4-5-20250929", ""
    )
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", SHOWING)
def test_json_into_a_file_and_the_lines_onto_the_screen(command: str, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    told = shown(command, DEMO, *ended(command), "--json", target)

    assert told == shown(command, DEMO, *ended(command))
    assert json.loads(target.read_bytes()) == data(command, DEMO, *ended(command))
    schema = {"analyze": "report"}.get(command, command)
    assert json.loads(target.read_bytes())["schema"] == f"otelctx.{schema}/1"


@pytest.mark.parametrize("command", SHOWING)
def test_a_target_that_cannot_be_is_refused_before_the_work(command: str, tmp_path: Path) -> None:
    result = otelctx(command, DEMO, *ended(command), "--json", tmp_path / "no" / "out.json")

    assert result.exit_code == 2
    assert "there is no folder" in result.stderr


@pytest.mark.parametrize("command", SHOWING)
def test_a_dump_without_calls(command: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text(
        '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"'
        + "1" * 32
        + '","spanId":"'
        + "2" * 16
        + '",'
        '"name":"GET /","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}\n'
    )
    result = otelctx(command, path, *(":1", ":2") if command == "diff" else ())

    if command == "diff":
        assert result.exit_code == 2
        assert "nothing of it is selected" in result.stderr
    else:
        assert result.exit_code == 0
        assert "No model call in this input." in result.stdout


@pytest.mark.parametrize("command", SHOWING)
def test_settings_of_windows_and_names(command: str) -> None:
    arguments = ["--limit", "claude-*=6k", "--model", "claude-sonnet-4-5-20250929=gpt-4o"]
    assert otelctx(command, DEMO, *ended(command), *arguments).exit_code == 0


def test_help_has_examples_and_lists_every_command() -> None:
    whole = shown("--help", width=100)
    assert all(f"\n  {name} " in whole for name in COMMANDS)
    for command in (*SHOWING, "demo"):
        text = shown(command, "--help", width=100)
        assert "Examples:\n" in text
        examples = [line.split() for line in text.split("\n") if line.strip().startswith("otelctx ")]
        assert len(examples) >= 2
        assert all(words[1] == command for words in examples)


def test_a_slip_of_the_pen_is_told_what_it_may_mean() -> None:
    result = otelctx("conversation", "x.jsonl")

    assert result.exit_code == 2
    assert "No such command 'conversation'. Did you mean conversations?" in " ".join(result.stderr.split())
    assert "No such command 'zzz'." in otelctx("zzz").stderr


def test_the_orders_are_those_of_the_library() -> None:
    from otel_ctx.outputs.views.listing import ORDERS

    assert ORDERS == conversations._ORDERS


# ---- what is never said

CASES = (
    "oi-anthropic-bust", "oi-anthropic-sessions", "otel-genai-openai-chat-spanonly-bust", "oi-crewai-double",
    "vercel-ai7-anthropic-stream", "oi-langgraph-anthropic-thinking", "oi-google-genai-bust",
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_no_prompt_text_unless_it_is_asked_for(case: str) -> None:
    dump = CORPUS / case / "traces.jsonl.gz"
    sides = ("1:1", "1:2")
    redacted = [
        shown("conversations", dump, width=200),
        shown("tokens", dump, "-v", width=200),
        shown("cache", dump, "-v", width=200),
        shown("findings", dump, "-v", "--redact", width=200),
        shown("diff", dump, *sides, "-v", "--redact", width=200),
        shown("analyze", dump, "--md", "-"),
    ]
    values = [
        data("conversations", dump),
        data("tokens", dump),
        data("cache", dump),
        data("findings", dump),
        data("diff", dump, *sides),
    ]
    models = {call["model"] for call in data("analyze", dump)["calls"]}
    private = runs_of(t for request in wire_of(case) for t in prompt_texts(request) if t not in models)

    assert private
    assert not private & runs_of(redacted)
    assert not private & runs_of(strings_of(values))


def test_text_is_there_where_it_is_asked_for() -> None:
    sides = ("1:7", "1:8")
    assert SECRET in shown("findings", DEMO)
    assert "[-42-]{+59+}" in shown("diff", DEMO, *sides)
    assert SECRET in shown("findings", DEMO, "--json", "-", "--include-text")
    edits = data("diff", DEMO, *sides, "--include-text")["segments"][0]["edits"]
    assert [e["text"] for e in edits if e["op"] != "same"] == ["42", "59"]
    assert SECRET in shown("analyze", DEMO, "--md", "-", "--include-text")


@pytest.mark.parametrize("command", ["findings", "diff"])
def test_include_text_is_about_the_json(command: str) -> None:
    result = otelctx(command, DEMO, *ended(command), "--include-text")

    assert result.exit_code == 2
    assert "it needs --json FILE" in result.stderr


# ---- conversations


@pytest.mark.parametrize(
    ("order", "numbers"),
    [("urgency", [1, 2]), ("turns", [2, 1]), ("depth", [2, 1]), ("headroom", [2, 1]), ("waste", [1, 2]),
     ("cost", [2, 1]), ("start", [2, 1])],
)  # fmt: skip
def test_conversations_in_the_order_that_is_asked_for(order: str, numbers: list[int]) -> None:
    assert [c["number"] for c in data("conversations", DEMO, "--sort", order)["conversations"]] == numbers


def test_a_number_stays_what_it_is_where_others_are_left_out() -> None:
    (only,) = data("conversations", DEMO, "--service", "larkspur*")["conversations"]

    assert only["number"] == 2
    assert (only["totals"]["calls"], only["totals"]["wasted"]) == (24, 0)
    assert data("conversations", DEMO, "--conversation", "2")["conversations"] == [only]


# ---- tokens


def test_tokens_add_up() -> None:
    found = data("tokens", DEMO)
    desk, _ = found["conversations"]

    assert len(desk["turns"]) == 24
    assert all(sum(t["kinds"].values()) == t["usage"] for t in desk["turns"])
    last = desk["turns"][-1]["kinds"]
    assert sum(t["definition"] or 0 for t in desk["tools"]) == last["tools"]
    assert sum(t["results"] for t in desk["tools"]) == last["tool_result"]
    assert sum(t["arguments"] for t in desk["tools"]) == last["tool_call"]
    assert {t["name"]: t["calls"] for t in desk["tools"]} == {
        "search_docs": 12,
        "get_order": 3,
        "issue_refund": 0,
    }
    assert {a["service"]: a["input"] for a in found["agents"]} == {
        "larkspur-support": 162_120, "support-agent-js": 29_320,
    }  # fmt: skip


def test_a_full_window_is_an_alarm() -> None:
    colours = {"FORCE_COLOR": "1", "NO_COLOR": ""}
    calm = shown("tokens", DEMO, "-c", "1", env=colours)
    tight = shown("tokens", DEMO, "-c", "1", "--limit", "claude-*=6000", env=colours)

    assert "\x1b[31m\x1b[1m 89%" in tight
    assert "\x1b[31m" not in calm


# ---- cache


def test_the_stretches_of_a_turn_are_its_prompt() -> None:
    for conversation in data("cache", DEMO)["conversations"]:
        for turn in conversation["turns"]:
            assert sum(s["tokens"] for s in turn["stretches"]) == turn["usage"]
            lost = sum(s["tokens"] for s in turn["stretches"] if s["state"] == "lost")
            assert lost == turn["lost"]


# ---- findings


def test_findings_by_kind_and_severity() -> None:
    def kinds(*args: str) -> set[str]:
        return {f["kind"] for f in data("findings", DEMO, *args)["findings"]}

    assert kinds() == {"volatile_prefix", "duplicate_content", "dead_tool_schema", "content_not_captured"}
    assert kinds("--severity", "warning") == {"volatile_prefix"}
    assert kinds("--kind", "d*") == {"duplicate_content", "dead_tool_schema"}
    assert kinds("-k", "volatile_prefix", "-k", "dead_tool_schema") == {"volatile_prefix", "dead_tool_schema"}
    assert "No such finding." in shown("findings", DEMO, "--kind", "compaction")


def test_a_kind_that_is_none() -> None:
    result = otelctx("findings", DEMO, "--kind", "volatile")

    assert result.exit_code == 2
    assert all(kind in "".join(result.stderr.split()) for kind in KINDS)


# ---- diff


def test_changes_near_each_other_are_written_once() -> None:
    """Turn 4 asks at 04:00:51, turn 5 at 04:01:08."""
    told = shown("diff", DEMO, "1:4", "1:5", width=100)

    assert "2026-11-30T04:[-00:51-]{+01:08+}.000Z" in told


def test_the_text_between_two_changes_is_written_once() -> None:
    for between in (", and ", " x" * 20, " y" * 29):
        lines = diff_lines(edits(f"a one{between} two z", f"a 1{between} 2 z"), 200, 0)

        assert [plain(one).strip() for one in lines] == [f"a [-one-]{{+1+}}{between} [-two-]{{+2+}} z"]
    far = [plain(one).strip() for one in diff_lines(edits(f"one {'z' * 80} two", f"1 {'z' * 80} 2"), 200, 0)]
    assert far == [f"[-one-]{{+1+}} {'z' * 28}…", f"…{'z' * 28} [-two-]{{+2+}}"]


def test_of_many_changes_the_first_are_shown() -> None:
    old, new = (" and ".join(f"{sign}{n}" for n in range(9)) for sign in "ab")
    told = [plain(one) for one in diff_lines(edits(old, new), 200, 0)]

    assert told[0].count("[-") == told[0].count("{+") == 3
    assert "6 more changes in it" in told[-1]
    assert "".join(plain(one) for one in diff_lines(edits(old, new), 200, 1)).count("[-") == 9


def test_two_turns() -> None:
    found = data("diff", DEMO, "1:7", "1:8")

    assert (found["old"]["turn"], found["new"]["turn"]) == (7, 8)
    assert found["not_compared"] == ["tools"]
    assert [s["change"] for s in found["segments"]].count("same") == 18
    (changed,) = [s for s in found["segments"] if s["change"] == "changed"]
    assert (changed["new"]["path"], changed["char_offset"]) == ("system[0]", 31)
    exact = data("diff", DEMO, "2:23", "2:24")
    assert sum(k["new"] - k["old"] for k in exact["kinds"]) == 11_512 - 10_872


def test_the_last_two_turns_where_nothing_is_named() -> None:
    assert shown("diff", DEMO, "-c", "1") == shown("diff", DEMO, "1:7", "1:8")
    assert shown("diff", DEMO, "-c", "1", ":7", ":8") == shown("diff", DEMO, "1:7", "1:8")


def test_a_dump_against_another() -> None:
    tour = ROOT / "cli" / "otel_ctx_cli" / "tour"
    found = data("diff", tour / "broken.jsonl.gz", tour / "mended.jsonl.gz")
    told = shown("diff", tour / "broken.jsonl.gz", tour / "mended.jsonl.gz")

    assert (found["old"]["totals"]["wasted"], found["new"]["totals"]["wasted"]) == (23_979, 0)
    assert "old  broken.jsonl.gz\nnew  mended.jsonl.gz\n" in told
    assert "Their prompts" in told
    part = data("diff", tour / "broken.jsonl.gz", tour / "mended.jsonl.gz", "--turn", "1")
    assert [len(part[side]["calls"]) for side in ("old", "new")] == [1, 1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["1:7"], "two sides are compared, here 1 of them: 1:7"),
        (["1:7", "1:8", "1:9"], "two sides are compared, here 3 of them"),
        ([], "which turns? There are 2 conversations"),
        ([":7", ":8"], "turn 7 of which of these 2 conversations?"),
        (["1:7", "1:99"], "has no such turn; its last is 8"),
        ([str(DEMO), str(DEMO)], "which sides? Of several files OLD and NEW come last"),
    ],
)
def test_sides_that_are_none(words: Sequence[str], told: str) -> None:
    result = otelctx("diff", DEMO, *words)

    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


def test_files_that_are_not_there() -> None:
    assert "nowhere.jsonl: there is no such file" in otelctx("diff", "nowhere.jsonl", "1:7", "1:8").stderr
    result = otelctx("diff", "nowhere.jsonl", DEMO, "1:7", "1:8")
    assert "nowhere.jsonl: there is no such file; OLD and NEW come last." in " ".join(result.stderr.split())


# ---- analyze's files


def test_one_file_cannot_be_two(tmp_path: Path) -> None:
    result = otelctx("analyze", DEMO, "--json", tmp_path / "out", "--md", tmp_path / "out")

    assert result.exit_code == 2
    assert "one file cannot be two of these" in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_markdown_and_json_at_once(tmp_path: Path) -> None:
    told = shown("analyze", DEMO, "--json", tmp_path / "a.json", "--md", tmp_path / "a.md")

    assert told == shown("analyze", DEMO)
    assert (tmp_path / "a.md").read_text("utf-8").startswith("### Context window: 1 error")
    assert json.loads((tmp_path / "a.json").read_bytes())["totals"]["calls"] == 32


# ---- demo


def test_the_tour_is_what_its_commands_print(tmp_path: Path) -> None:
    tour = shown("demo", "--keep", tmp_path / "tour").split("\n")
    commands = [line.removeprefix("   $ otelctx ") for line in tour if line.startswith("   $ otelctx ")]

    assert len(commands) == 5
    for command in commands[:4]:
        words = [str(tmp_path / "tour" / w) if w.endswith(".gz") else w for w in command.split()]
        printed = [line for line in shown(*words).split("\n") if line]
        start = tour.index(f"   $ otelctx {command}") + 2
        assert [line for line in tour[start:] if line][: len(printed)] == printed


def test_the_tour_needs_no_file_and_keeps_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl.gz").write_bytes(b"mine")
    result = otelctx("demo", "--keep", tmp_path)

    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert (tmp_path / "broken.jsonl.gz").read_bytes() == b"mine"
    assert "Did that help?" in shown("demo")


def test_the_recordings_are_those_of_the_corpus() -> None:
    """They are shipped, and so must not drift from what is tested."""
    for name, case in (("broken", "oi-anthropic-bust"), ("mended", "oi-anthropic")):
        shipped = ROOT / "cli" / "otel_ctx_cli" / "tour" / f"{name}.jsonl.gz"
        assert shipped.read_bytes() == (CORPUS / case / "traces.jsonl.gz").read_bytes()


# ---- shells


def test_completion_knows_commands_options_and_values() -> None:
    def completed(words: list[str], start: str) -> set[str]:
        shell = BashComplete(main, {}, "otelctx", "_OTELCTX_COMPLETE")
        return {item.value for item in shell.get_completions(words, start)}

    assert completed([], "con") == {"conversations"}
    assert "--conversation" in completed(["tokens"], "--con")
    assert completed(["conversations", "--sort"], "h") == {"headroom"}
    assert completed(["findings", "--severity"], "") == {"error", "warning", "info"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str) -> None:
    variables = {"_OTELCTX_COMPLETE": f"{shell}_source"}
    result = CliRunner().invoke(
        main, [], env=variables, prog_name="otelctx", complete_var="_OTELCTX_COMPLETE"
    )

    assert "otelctx" in result.stdout
    assert "_OTELCTX_COMPLETE" in result.stdout


def test_help_loads_nothing_heavy() -> None:
    run = process("--help")
    code = (
        "import sys; sys.argv = ['otelctx', '--help']\n"
        "from otel_ctx_cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'orjson', 'tiktoken', 'opentelemetry', 'rich', 'otel_ctx.engine', 'otel_ctx.inputs', 'json', 'difflib'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli")))}
    loaded = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)

    assert run.returncode == 0
    assert loaded.stderr.strip() == "[]"


# ---- the same in every output


def test_a_break_that_varies_says_from_which_character_on() -> None:
    """Turn 5 is the first of a new minute: it changes two characters earlier than the others."""
    told = shown("analyze", DEMO)

    assert "system[0] changed from character 29 on" in told
    assert "- Current time: 2026-11-30T04:00:51.000Z" in told
    assert "changed at character" not in told
    assert "changed at character 29" in shown("diff", DEMO, "1:4", "1:5")
    assert "changed at character 31" in shown("diff", DEMO, "1:3", "1:4")
    assert "system[0] changed at character 31" in shown("analyze", DEMO, "--turn", "1-4")


def test_places_can_be_told_apart_on_a_narrow_screen() -> None:
    told = shown("analyze", DEMO, width=50)

    for place in ("m[0].p[0]", "m[3].p[0]", "m[7].p[0]", "m[12].p[0]", "m[16].p[0]"):
        assert f"  {place}" in told


def test_the_band_has_a_heading() -> None:
    """An "ok" in front of a conversation with an error is its headroom's."""
    lines = shown("analyze", DEMO).splitlines()
    first = next(n for n, one in enumerate(lines) if one.startswith("  ok  "))

    assert lines[first - 1] == "  headroom"
