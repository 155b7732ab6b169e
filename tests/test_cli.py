"""The command: arguments, exit codes, files, streams; never a traceback."""

from __future__ import annotations

import ast
import gc
import gzip
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from otel_ctx import findings
from otel_ctx.errors import InputError, OtelCtxError
from otel_ctx.findings.kinds import KINDS
from otel_ctx.inputs import format_names
from otel_ctx.outputs.text import Run
from otel_ctx_cli import asking, reading, terminal
from otel_ctx_cli.main import COMMANDS, main
from tests.dumps import line

ROOT = Path(__file__).parent.parent
SENTINEL = "the-sentinel-of-a-prompt"
NOON = 1_800_000_000


def otelctx(*args: str | Path, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Result:
    variables = {"COLUMNS": "80", "NO_COLOR": None, "FORCE_COLOR": None, "OTELCTX_DEBUG": None, **(env or {})}
    return CliRunner().invoke(main, [str(a) for a in args], input=stdin, env=variables, prog_name="otelctx")


def process(
    *args: str | Path, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "otel_ctx_cli", *map(str, args)]
    return subprocess.run(
        command, env=environment(env), capture_output=True, check=False, timeout=60, **options
    )


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    quiet = {
        k: v
        for k, v in os.environ.items()
        if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "OTELCTX_DEBUG")
    }
    return {**quiet, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli"))), **(more or {})}


# ---- a small dump


def attribute(key: str, value: str | int) -> dict[str, Any]:
    return {
        "key": key,
        "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)},
    }


def span(n: int, system: str, messages: Sequence[str], **more: str | int) -> dict[str, Any]:
    told = [
        {"role": "assistant" if i % 2 else "user", "parts": [{"type": "text", "content": text}]}
        for i, text in enumerate(messages)
    ]
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.response.model": "gpt-4.1-2025-04-14",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
        "gen_ai.input.messages": json.dumps(told),
        "gen_ai.usage.input_tokens": 200 + n,
        "gen_ai.usage.output_tokens": 5,
        **more,
    }
    return {
        "traceId": f"{0xA0 + n:032x}",
        "spanId": f"{0xB0 + n:016x}",
        "name": "chat gpt-4.1",
        "kind": 3,
        "startTimeUnixNano": str((NOON + 10 * n) * 10**9),
        "endTimeUnixNano": str((NOON + 10 * n + 2) * 10**9),
        "attributes": [attribute(k, v) for k, v in attributes.items()],
    }


def export(*spans: dict[str, Any]) -> bytes:
    scope = {"name": "opentelemetry.instrumentation.openai_v2", "version": "2.1"}
    resource = {"attributes": [attribute("service.name", "shop")]}
    request = {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": list(spans)}]}]
    }
    return json.dumps(request).encode() + b"\n"


def quiet_dump() -> bytes:
    return export(span(1, SENTINEL, ["hello"]), span(2, SENTINEL, ["hello", "hi", "bye"]))


def volatile_dump() -> bytes:
    """The time in the system prompt moves on from call to call."""
    history = ["hello", "hi", "how are you", "fine", "and now", "later", "bye"]
    return export(
        *(
            span(
                n,
                f"{SENTINEL}. It is 2026-11-30T09:00:{10 * n:02d}Z. " + "Be kind. " * 400,
                history[: 2 * n + 1],
                **{"gen_ai.usage.input_tokens": 1_260 + 5 * n},
            )
            for n in range(4)
        )
    )


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.jsonl"
    path.write_bytes(volatile_dump())
    return path


# ---- help and start-up


def test_help_names_every_command_and_the_exit_codes() -> None:
    result = otelctx("--help")

    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert "0 fine, 1 a gate was met, 2 unusable input or arguments" in result.output


def test_the_help_of_analyze_names_its_options() -> None:
    text = otelctx("analyze", "--help").output

    for option in (
        "--json",
        "--include-text",
        "--redact",
        "--format",
        "--fail-on",
        "--ignore",
        "--limit",
        "--model",
        "--verbose",
    ):
        assert option in text


def test_the_help_of_analyze_names_the_formats_and_the_kinds_that_a_check_yields() -> None:
    checks = Path(findings.__file__).parent
    words = {
        node.value
        for path in checks.glob("*.py")
        if path.name not in ("kinds.py", "merge.py", "blame.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
    } | set(tomllib.loads((checks / "caching.toml").read_text("utf-8")))

    text = " ".join(otelctx("analyze", "--help").output.split())

    assert set(text.partition("for --ignore: ")[2].rstrip(".").split(", ")) == words & set(KINDS)
    assert set(format_names()) == set(reading.FORMATS)
    assert ",".join(reading.FORMATS) in text.replace(" ", "")  # a line may end at a hyphen


@pytest.mark.parametrize("args", [("--version",), ("-V",), ("analyze", "--version"), ("analyze", "-V")])
def test_version(args: tuple[str, ...]) -> None:
    result = otelctx(*args)

    assert result.exit_code == 0
    assert result.output.startswith("otelctx ")


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["analyze", "--help"]])
def test_help_and_version_import_nothing_heavy(args: list[str]) -> None:
    heavy = (
        "rich",
        "tiktoken",
        "opentelemetry",
        "google",
        "orjson",
        "otel_ctx.engine",
        "otel_ctx.inputs",
        "splintr",
    )
    script = (
        f"import sys; from otel_ctx_cli.main import main; main({args!r}, standalone_mode=False);"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )

    run = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=False
    )

    assert run.stderr == "[]\n"
    assert "otelctx" in run.stdout or "Usage" in run.stdout


# ---- arguments that cannot be used: 2


def test_an_unknown_kind_is_refused_with_the_kinds_that_there_are(dump: Path) -> None:
    result = otelctx("analyze", dump, "--ignore", "volatile_prefx")

    assert result.exit_code == 2
    assert "'volatile_prefx' is not known" in result.stderr
    assert "volatile_prefix" in result.stderr
    assert "headroom_low" in result.stderr


def test_an_unknown_format_is_refused_with_the_formats_that_there_are(dump: Path) -> None:
    result = otelctx("analyze", dump, "--format", "word")

    assert result.exit_code == 2
    assert "'word' is not known" in result.stderr
    assert "otlp-json" in result.stderr


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--limit", "gpt-x", "is not MODEL=TOKENS"),
        ("--limit", "=5", "is not MODEL=TOKENS"),
        ("--limit", "gpt-x=", "is not MODEL=TOKENS"),
        ("--limit", "gpt-x=many", "'many' is no number of tokens"),
        ("--limit", "gpt-x=0", "a window of 0 tokens holds nothing"),
        ("--limit", "gpt-x=-5", "a window of -5 tokens holds nothing"),
        ("--model", "gpt-x=", "is not NAME, or NAME=MODEL"),
        ("--fail-on", "fatal", "'fatal' is not one of"),
    ],
)
def test_values_that_cannot_be_are_refused(dump: Path, option: str, value: str, words: str) -> None:
    result = otelctx("analyze", dump, option, value)

    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "args", [("analyze",), ("--no-such",), ("analyse", "x"), ("analyze", "x", "--no-such")]
)
def test_a_wrong_command_line_exits_2(args: tuple[str, ...]) -> None:
    assert otelctx(*args).exit_code == 2


def test_a_file_where_a_command_belongs_is_answered_with_the_command(dump: Path) -> None:
    result = otelctx(dump)

    assert result.exit_code == 2
    assert f"otelctx analyze {dump}" in result.stderr


def test_include_text_without_json_is_refused(dump: Path) -> None:
    result = otelctx("analyze", dump, "--include-text")

    assert result.exit_code == 2
    assert "--json FILE" in result.stderr


def test_include_text_and_redact_are_refused_together(dump: Path) -> None:
    result = otelctx("analyze", dump, "--json", "-", "--include-text", "--redact")

    assert result.exit_code == 2
    assert "contradict each other" in result.stderr


def test_redact_keeps_prompt_text_off_the_screen(dump: Path) -> None:
    shown, redacted = otelctx("analyze", dump, "-v"), otelctx("analyze", dump, "-v", "--redact")

    assert "2026-11-30T09:00" in shown.stdout
    assert redacted.exit_code == 0
    assert "2026-11-30T09:00" not in redacted.stdout
    assert "Be kind" not in redacted.stdout
    assert "volatile_prefix" in redacted.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--limit", "gpt-5=5"), ["--limit gpt-5: no call uses such a model; there are: gpt-4.1-2025-04-14"]),
        (("--limit", "gpt-4.1*=200k"), []),
        (("--model", "gpt-4.1*=gpt-4o", "--limit", "gpt-4o=5k"), []),
        (
            ("--model", "prod=gpt-4o"),
            ["--model prod: no call uses such a model; there are: gpt-4.1-2025-04-14"],
        ),
        (
            ("--model", "gpt-4.1*=nosuch"),
            ["--model gpt-4.1*=nosuch: nosuch is not in the model table; --limit can tell its window"],
        ),
        (("--model", "gpt-4.1*=nosuch", "--limit", "nosuch=200k"), []),
    ],
)
def test_models_that_are_not_there_are_named(dump: Path, args: tuple[str, ...], told: list[str]) -> None:
    result = otelctx("analyze", dump, *args)

    assert result.exit_code == 0
    assert result.stderr.splitlines() == told


@pytest.mark.parametrize("unit", ["150000", "150_000", "150,000", "150k", "150K"])
def test_a_limit_may_be_written_in_several_ways(dump: Path, unit: str) -> None:
    result = otelctx("analyze", dump, "--limit", f"gpt-4.1*={unit}")

    assert "of 150,000 tokens" in result.stdout
    assert "limit set by --limit" in result.stdout


def test_a_deployment_is_the_model_that_it_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    names: dict[str, str | int] = {"gen_ai.request.model": "prod-eu", "gen_ai.response.model": "prod-eu"}
    path.write_bytes(export(span(1, "be kind", ["hello"], **names)))

    unknown, known = otelctx("analyze", path), otelctx("analyze", path, "--model", "prod-eu=gpt-4.1")

    assert "limit unknown (--limit prod-eu=TOKENS)" in unknown.stdout
    assert "limit from the model table" in known.stdout


# ---- inputs that cannot be used: 2, one line


def one_line(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere.json") in one_line(otelctx("analyze", tmp_path / "nowhere.json"))


def test_a_file_that_holds_no_telemetry(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")

    assert str(path) in one_line(otelctx("analyze", path))


def test_an_empty_file_and_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    (tmp_path / "folder").mkdir()

    assert "empty.json" in one_line(otelctx("analyze", tmp_path / "empty.json"))
    assert "folder" in one_line(otelctx("analyze", tmp_path / "folder"))


def test_a_name_with_control_characters_stays_on_its_line(tmp_path: Path) -> None:
    line = one_line(otelctx("analyze", tmp_path / "evil\n\x1b[2J\u202e.json"))

    assert r"evil\n\x1b[2J\u202e.json" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "{dump}", "--json", "{evil}/x"],
        ["analyze", "{dump}", "--rules", "{evil}"],
        ["analyze", "{dump}", "--baseline", "{evil}"],
        ["analyze", "{dump}", "--baseline", "{there}"],
        ["analyze", "{dump}", "--{evil}"],
        ["diff", "{dump}", "{evil}", ":1"],
        ["{there}"],
        ["{evil}"],
        ["--{evil}"],
    ],
)
def test_no_error_commands_the_terminal(
    arguments: list[str], dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"dump": str(dump), "evil": "e\x1b[2J\u202ev\nl", "there": "\x1b[2J\u202e\n.json"}
    Path(given["there"]).write_text("[]")
    result = otelctx(*(a.format(**given) for a in arguments))
    assert result.exit_code == 2
    assert set("\x1b\u202e").isdisjoint(result.stderr)
    assert r"\x1b[2J\u202e" in result.stderr.splitlines()[-1]


def test_a_fault_of_ours_is_one_line_and_debug_shows_it(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(*_: object) -> None:
        raise ZeroDivisionError("of all\nthings")

    monkeypatch.setattr(asking, "analysed", burst)

    line = one_line(otelctx("analyze", dump))
    debugged = otelctx("analyze", dump, env={"OTELCTX_DEBUG": "1"})

    assert line == (
        r"Error: ZeroDivisionError: of all\nthings (a fault of otelctx itself; OTELCTX_DEBUG=1 shows where)"
        "\n"
    )
    assert isinstance(debugged.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    "error", [InputError("dump:3", "is odd", "mend it"), OtelCtxError("dump:3: is odd (mend it)")]
)
def test_errors_of_the_package_are_told_as_they_are(
    dump: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def burst(*_: object) -> None:
        raise error

    monkeypatch.setattr(asking, "analysed", burst)

    assert one_line(otelctx("analyze", dump)) == "Error: dump:3: is odd (mend it)\n"


def test_an_interrupt_is_no_gate(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "analysed", interrupt)

    assert otelctx("analyze", dump).exit_code == 130


# ---- what comes out


def test_a_dump_is_read_and_told(dump: Path) -> None:
    result = otelctx("analyze", dump)

    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("1 file · 4 spans · 4 calls · 1 conversation")
    assert "system[0]" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_several_files_folders_gzip_and_stdin(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(export(span(1, "be kind", ["a"]))))
    (tmp_path / "b.json").write_bytes(export(span(2, "be kind", ["b"])))

    result = otelctx("analyze", folder, tmp_path / "b.json", "-", stdin=export(span(3, "be kind", ["c"])))

    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("3 files · 3 spans · 3 calls")


def test_the_terminal_report_follows_the_width(dump: Path) -> None:
    narrow, wide = (otelctx("analyze", dump, env={"COLUMNS": c}).stdout.splitlines() for c in ("60", "100"))

    assert max(map(len, narrow)) <= 60
    assert 80 < max(map(len, wide)) <= 100


def test_json_on_stdout_is_all_there_is_on_stdout(dump: Path) -> None:
    result = otelctx("analyze", dump, "--json", "-")

    report = json.loads(result.stdout)
    assert report["schema"] == "otelctx.report/1"
    assert report["totals"]["calls"] == 4
    assert [f["path"] for f in report["input"]["files"]] == [str(dump)]
    assert result.exit_code == 0


def test_json_in_a_file_comes_with_the_terminal_report(dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"

    result = otelctx("analyze", dump, "--json", out)

    assert json.loads(out.read_bytes())["totals"]["calls"] == 4
    assert "Conversations" in result.stdout
    assert {p.name for p in tmp_path.iterdir()} == {"dump.jsonl", "report.json"}


def test_no_prompt_text_in_json_unless_asked(dump: Path) -> None:
    without, with_text = (
        otelctx("analyze", dump, "--json", "-"),
        otelctx("analyze", dump, "--json", "-", "--include-text"),
    )

    assert without.exit_code == with_text.exit_code == 0
    assert "sentinel" not in without.stdout
    assert "Be kind" not in without.stdout
    assert "T09:00" not in without.stdout
    assert SENTINEL in with_text.stdout


def test_the_json_file_is_replaced_as_a_whole_and_keeps_its_mode(dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    out.write_text("old")
    out.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(out)
    with out.open() as old:
        assert otelctx("analyze", dump, "--json", link).exit_code == 0

        assert old.read() == "old"
    assert json.loads(out.read_bytes())["schema"] == "otelctx.report/1"
    assert out.stat().st_mode & 0o777 == 0o600
    assert link.is_symlink()


def test_a_failed_run_leaves_the_json_file_as_it_was(tmp_path: Path) -> None:
    out, bad = tmp_path / "report.json", tmp_path / "bad.json"
    out.write_text("old")
    bad.write_text("dear diary")

    assert otelctx("analyze", bad, "--json", out).exit_code == 2
    assert out.read_text() == "old"


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("nowhere/x.json", "there is no folder")])
def test_a_json_path_that_cannot_be_is_told_before_the_work(
    dump: Path, tmp_path: Path, name: str, words: str
) -> None:
    result = otelctx("analyze", dump, "--json", tmp_path / name)

    assert result.exit_code == 2
    assert words in result.stderr


def test_an_input_is_never_overwritten(dump: Path) -> None:
    before = dump.read_bytes()

    result = otelctx("analyze", dump, "--json", dump)

    assert result.exit_code == 2
    assert "is an input" in result.stderr
    assert dump.read_bytes() == before


def test_a_device_may_be_the_json_file(dump: Path) -> None:
    result = otelctx("analyze", dump, "--json", "/dev/null")

    assert result.exit_code == 0
    assert Path("/dev/null").is_char_device()


def test_the_collector_is_as_it_was(dump: Path) -> None:
    assert gc.isenabled()

    otelctx("analyze", dump)

    assert gc.isenabled()


# ---- the gate


def test_a_gate_is_met_where_a_finding_is_as_severe(dump: Path) -> None:
    result = otelctx("analyze", dump, "--fail-on", "error")

    assert result.exit_code == 1
    assert "--fail-on error: volatile_prefix" in result.stderr
    assert "Findings" in result.stdout


def test_a_gate_holds_for_json_too(dump: Path) -> None:
    result = otelctx("analyze", dump, "--fail-on", "info", "--json", "-")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["schema"] == "otelctx.report/1"


def test_an_ignored_kind_meets_no_gate_and_is_not_told(dump: Path) -> None:
    result = otelctx("analyze", dump, "--fail-on", "error", "--ignore", "volatile_prefix")

    assert result.exit_code == 0
    assert "contains a value that changes" not in result.stdout
    assert "ignored volatile_prefix (" in result.stdout
    assert "Nothing found" not in result.stdout


def test_without_a_gate_findings_are_no_failure(dump: Path) -> None:
    assert otelctx("analyze", dump).exit_code == 0


def test_a_gate_does_not_judge_half_an_input(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_bytes(quiet_dump() + b"{broken\n")

    gated, open_ = otelctx("analyze", path, "--fail-on", "error"), otelctx("analyze", path)

    assert gated.exit_code == 2
    assert f"{path}:2" in gated.stderr
    assert "--fail-on does not judge half an input" in gated.stderr
    assert "skipped in the input: 1" in gated.stdout
    assert open_.exit_code == 0


NEIGHBOURS = {
    "README.md": b'[![CI](badge.svg)](ci)\n\n```json\n{"a": oops}\n```\n',
    "Cargo.toml": b"[[bin]]\nname = 'x'\n",
    "agent.meta.json": b'{"agentType": "Explore", "description": "Looks"}',
    "sessions-index.json": b'{"version": 1, "entries": [{"sessionId": "x"}]}',
    "table.csv": b"a,b\n1,2\n",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0\0",
    "metrics.jsonl": b'{"resourceMetrics": []}\n',
    "app.log": b'2026-11-30 10:01 INFO {"event": "up"}\n[oops {"event": "up"}\n',
    "empty.txt": b"",
    "OTLP.md": b'# Spans\n\n```json\n{"resourceSpans": [}\n```\n',
    "ask.py": b'print({"messages": [{"role": "user"}]}, [\n{"a": 1,\n',
    "tsconfig.json": b'{\n  // all of it\n  "strict": true,\n}\n',
    "examples.jsonl": b'{"messages": [{"role": "user", "content": "Hi!"}]}\n',
    "service.json": b'{"level": "info", "trace_id": "1", "span_id": "2", "msg": "up"}\nStarting\n',
    "http.json": b'{"url": "/", "response": "{\\"id\\": 1, \\"na"}\n',
    "deep/1/part.json": b'{"id": "prt_1", "type": "text", "text": "Hi"}',
}


def test_what_lies_beside_the_telemetry_in_a_folder_is_no_half_of_it(tmp_path: Path) -> None:
    (tmp_path / "dump.jsonl").write_bytes(quiet_dump())
    for name, data in NEIGHBOURS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)

    gated = otelctx("analyze", tmp_path, "--fail-on", "error", "--json", tmp_path / "report.json")
    checked = otelctx("check", tmp_path, "--max-context", "1m", "--no-config")
    listed = otelctx("analyze", tmp_path, "-v")

    assert (gated.exit_code, checked.exit_code) == (0, 0)
    assert gated.stdout.startswith("1 file ")
    said = " ".join(gated.stdout.split())
    assert "16 other files hold no telemetry:" in said
    assert "skipped in the input" not in gated.stdout
    skipped = json.loads((tmp_path / "report.json").read_bytes())["input"]["skipped"]
    assert {Path(note["where"]).name for note in skipped} == {Path(name).name for name in NEIGHBOURS}
    assert all(note["foreign"] for note in skipped)
    assert "sessions-index.json" in listed.stdout


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.jsonl", quiet_dump()[:200]),
        ("cut.jsonl.gz", gzip.compress(quiet_dump())[:-40]),
        ("broken.json", b'{"resourceSpans": [}'),
        ("front.jsonl", quiet_dump()[20:] * 2),
        ("front.json", b"\n".join(json.dumps(json.loads(quiet_dump()), indent=1).encode().split(b"\n")[9:])),
        ("begun.jsonl", b"starting up\n" + quiet_dump()[:-40]),
        (
            "session.jsonl",
            b'r", "uuid": "1", "sessionId": "2", "message": {"role": "user", "content": "Hi!"}}\n',
        ),
        (
            "requests.jsonl",
            b' "request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi!"}]}}\n',
        ),
        ("answer.jsonl", b'{"response": "{\\"object\\": \\"chat.completion\\", "}\n'),
        ("batch.jsonl", b'{"custom_id": "1", "response": {"body": "{\\"id\\": \\"1\\", \\"choices\\": "}}\n'),
        ("bedrock.json", b'{"schemaType": "ModelInvocationLog", "input": "damaged", "output": "damaged"}'),
        (
            "cloudwatch.json",
            b'{"events": [{"message": "{\\"schemaType\\": \\"ModelInvocationLog\\", \\"in"}]}',
        ),
        (
            "litellm.json",
            b'{"call_type": "acompletion", "messages": "[{\\"role\\": ", "model_parameters": {}}',
        ),
        ("sessions.db", b"SQLite format 3\0" + b"\0" * 100),
        ("dumps.zip", b"PK\x03\x04" + b"\0" * 100),
    ],
)
def test_a_file_that_may_be_telemetry_is_a_part_of_its_folder(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / "dump.jsonl").write_bytes(quiet_dump())
    (tmp_path / name).write_bytes(data)

    gated = otelctx("analyze", tmp_path, "--fail-on", "error")

    assert gated.exit_code == 2
    assert name in gated.stderr
    assert "other file" not in gated.stdout


def test_a_gate_needs_something_to_judge(tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    foreign = span(1, "", [])
    foreign["attributes"] = [attribute("http.method", "GET")]
    path.write_bytes(export(foreign))

    assert otelctx("analyze", path).exit_code == 0
    gated = otelctx("analyze", path, "--fail-on", "error")
    assert gated.exit_code == 2
    assert "no model call in this input" in gated.stderr


# ---- as a real process


def test_a_process_writes_plain_utf8_into_a_pipe(dump: Path) -> None:
    run = process("analyze", dump)

    text = run.stdout.decode()
    assert run.returncode == 0
    assert run.stderr == b""
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_process_reads_standard_input() -> None:
    run = process("analyze", "-", "--json", "-", input=quiet_dump())

    assert json.loads(run.stdout)["totals"]["calls"] == 2


def test_a_terminal_that_knows_only_ascii_gets_ascii(dump: Path) -> None:
    run = process("analyze", dump, env={"PYTHONIOENCODING": "ascii"})

    text = run.stdout.decode("ascii")
    assert run.returncode == 0
    assert text.startswith("1 file | 4 spans | 4 calls")
    assert "\\u" not in text


def test_a_closed_pipe_is_quiet_and_the_gate_still_holds(dump: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "otel_ctx_cli", "analyze", str(dump), "-vv", "--fail-on", "error"]
        run = subprocess.run(
            command, env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writing)

    assert run.stderr == b"--fail-on error: volatile_prefix\n"
    assert run.returncode == 1


# ---- colours


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("tty", "env", "coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colours_are_for_people(
    tty: bool, env: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **env}.items():
        monkeypatch.setenv(name, value)
    kind = Terminal if tty else io.TextIOWrapper
    written = io.BytesIO()
    out = kind(written, encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)

    terminal.print_lines([(Run("Error", "alarm"), Run(" rest"))])

    assert written.getvalue() == (b"\x1b[31m\x1b[1mError\x1b[0m rest\n" if coloured else b"Error rest\n")


def test_every_style_has_a_colour() -> None:
    from typing import get_args

    from otel_ctx.outputs.text import Style
    from otel_ctx.outputs.text.ansi import CODES

    assert {"", *CODES} == set(get_args(Style))


# ---- a sign of life


def test_a_long_reading_shows_how_far_it_is(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1_000, 2))
    monkeypatch.setattr(reading, "monotonic", lambda: next(clock))
    monkeypatch.setattr(reading, "_watched", lambda: True)

    result = otelctx("analyze", dump)

    assert "[####################] 100%  4 records read, in dump.jsonl" in result.stderr
    assert result.stderr.endswith("\r\x1b[K")
    assert "records read" not in result.stdout


def test_the_bar_is_that_of_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, first in (("a.jsonl", 1), ("b.jsonl", 6)):
        (tmp_path / name).write_bytes(b"".join(line(n) + b"\n" for n in range(first, first + 5)))
    clock = iter(range(0, 1_000, 2))
    monkeypatch.setattr(reading, "monotonic", lambda: next(clock))
    monkeypatch.setattr(reading, "_watched", lambda: True)

    result = otelctx("analyze", tmp_path)

    told = [int(share) for share in re.findall(r"(\d+)%  ", result.stderr)]
    assert told == sorted(told)
    assert 10 <= told[0] <= 30
    assert told[-1] == 100


def test_a_pipe_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1_000, 2))
    monkeypatch.setattr(reading, "monotonic", lambda: next(clock))
    monkeypatch.setattr(reading, "_watched", lambda: True)

    result = otelctx("analyze", "-", stdin=line(1) + b"\n" + line(2))

    assert "\x1b[K2 records read, in <stdin>" in result.stderr
    assert "%" not in result.stderr


# ---- golden reports of real dumps


@pytest.mark.parametrize("name", ["oi-anthropic", "oi-openai-chat-long-genai-limit128"])
def test_the_report_of_a_real_dump(
    name: str,
    corpus_case: Callable[[str], Any],
    golden: Callable[[str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = corpus_case(name).files
    monkeypatch.chdir(files[0].parent)

    result = otelctx("analyze", *(file.name for file in files))

    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    golden(f"corpus/{name}/terminal.txt", result.stdout)


def test_the_report_of_a_prompt_that_changes(dump: Path, golden: Callable[[str, object], None]) -> None:
    golden("data/terminal/volatile.txt", otelctx("analyze", dump).stdout)
