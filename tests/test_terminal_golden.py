"""What a person sees: every command that shows a dump, on ten dumps, in a narrow and a wide terminal, with and without colour.

``terminal/<dump>.<width>.txt`` is to be read like a page; ``….ansi.gz`` has the same with its colours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from otel_ctx.outputs.escape import cells
from otel_ctx_cli.main import main

TESTS = Path(__file__).parent
CORPUS = TESTS / "corpus"
WIDTHS = (80, 140)


def corpus(case: str) -> list[Path]:
    return [p for name in ("traces", "logs") if (p := CORPUS / case / f"{name}.jsonl.gz").exists()]


DUMPS: dict[str, list[Path]] = {
    "support-agent": [TESTS.parent / "examples" / "support-agent.otlp.jsonl.gz"],
    "sessions": corpus("oi-anthropic-sessions"),
    "crewai": corpus("oi-crewai-double"),
    "codex": corpus("codex-nocontent"),
    "stateful": corpus("otel-genai-openai-responses-spanonly-stateful"),
    "values-cut": corpus("oi-openai-chat-valuelen"),
    "images": corpus("oi-anthropic-image"),
    "vercel": corpus("oi-vercel-ai7-anthropic-legacy"),
    "transcript": [TESTS / "data" / "transcripts" / "claude-code-compact" / "session.jsonl.gz"],
    "wide": [],  # below
}
DIFFS = {
    "crewai": "4:-2 4:-1",
    "sessions": "1:-1 2:-1",
    "support-agent": "1:7 1:8",
    "transcript": "1:-2 1:-1",
}


GATES = "--max-context 60k --max-growth 500 --stable-prefix --no-eviction --no-dead-schemas --min-hit-ratio 0.9 --max-waste 100"
ASKED: dict[str, tuple[str, tuple[str, ...], str]] = {  # golden: command, cases of the corpus, the rest
    "check-sessions": ("check", ("oi-anthropic-sessions",), GATES),
    "check-unseen": ("check", ("otel-openai-v2-chat-legacy-off",), GATES),
    "compare-better": ("compare", ("oi-anthropic-bust", "oi-anthropic"), ""),
    "compare-unseen": ("compare", ("oi-anthropic", "oi-openai-chat-hidemessages"), ""),
    "watch-sessions": ("watch", ("oi-anthropic-sessions",), "--plain"),
    "watch-unseen": ("watch", ("otel-openai-v2-chat-legacy-off",), "--plain"),
}


def test_there_are_ten() -> None:
    assert len(DUMPS) == 10
    assert all(p.exists() for paths in DUMPS.values() for p in paths)


@cache
def wide_spans() -> str:
    """Spans whose names and texts are wide, combined, hidden, turned round or meant to take over the terminal."""
    system = "あなたは親切な助手です。今は{}です。\x1b[2J\x1b]0;owned\x07 e\u0301 👩‍👩‍👧 \u202eevil\u202c"
    tool = {
        "type": "function",
        "name": "注文を探す",
        "description": "注文 " * 40,
        "parameters": {"type": "object"},
    }
    requests = []
    for turn in range(4):
        messages = []
        for n in range(turn + 1):
            messages.append(message("user", f"質問{n}: 注文はどこ？ \t\r\n" + "長い文 " * 500))
            if n < turn:
                messages.append(message("assistant", f"答え{n} \x00\x9b31m 🚚"))
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-漢字\x1b[31m",
            "gen_ai.agent.name": "計画係\x1b[31m",
            "gen_ai.tool.definitions": json.dumps([tool]),
            "gen_ai.system_instructions": json.dumps(
                [{"type": "text", "content": system.format(f"1{turn}時")}]
            ),
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.usage.input_tokens": 1_650 + 1_525 * turn,
            "gen_ai.usage.cache_read.input_tokens": 0,
            "gen_ai.usage.output_tokens": 9,
        }
        start = 1_800_000_000 + 20 * turn
        span = {
            "traceId": f"{turn + 1:032x}", "spanId": f"{turn + 1:016x}", "name": "chat", "kind": 3,
            "startTimeUnixNano": f"{start}000000000", "endTimeUnixNano": f"{start + 2}000000000",
            "attributes": [attribute(k, v) for k, v in attributes.items()],
        }  # fmt: skip
        requests.append({
            "resource": {"attributes": [attribute("service.name", "注文サービス\u200b")]},
            "scopeSpans": [{"scope": {"name": "by.hand"}, "spans": [span]}],
        })  # fmt: skip
    return json.dumps({"resourceSpans": requests}) + "\n"


def message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def attribute(key: str, value: str | int) -> dict[str, object]:
    return {
        "key": key,
        "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)},
    }


@cache
def shown(dump: str, width: int, *, colour: bool) -> str:
    with TemporaryDirectory() as folder, chdir(folder):
        if dump == "wide":
            Path("wide.jsonl").write_text(wide_spans(), "utf-8")
            paths = ["wide.jsonl"]
        else:
            paths = [f"{dump}{n or ''}.gz" for n in range(len(DUMPS[dump]))]
            for name, path in zip(paths, DUMPS[dump], strict=True):
                Path(name).write_bytes(path.read_bytes())
        sides = DIFFS.get(dump, ":-2 :-1").split()
        commands = [["conversations"], ["tokens"], ["cache"], ["findings"], ["diff"], ["analyze"]]
        return "".join(
            run([name, *paths, *(sides if name == "diff" else ())], width, colour=colour)
            for (name,) in commands
        )


def asked(name: str, width: int) -> str:
    """What a command that judges, compares or follows prints."""
    command, cases, rest = ASKED[name]
    with TemporaryDirectory() as folder, chdir(folder):
        for case in cases:
            Path(f"{case}.gz").write_bytes((CORPUS / case / "traces.jsonl.gz").read_bytes())
        arguments = [command, *(f"{case}.gz" for case in cases), *rest.split()]
        return run(arguments, width, colour=False, codes=(0, 1) if command == "check" else (0,))


def run(arguments: Sequence[str], width: int, *, colour: bool, codes: Sequence[int] = (0,)) -> str:
    colours = {"FORCE_COLOR": "1", "NO_COLOR": None} if colour else {"NO_COLOR": "1", "FORCE_COLOR": None}
    result = CliRunner().invoke(
        main,
        list(arguments),
        env={"COLUMNS": str(width), "OTELCTX_DEBUG": None, **colours},
        prog_name="otelctx",
    )
    assert result.exit_code in codes, result.output
    return f"$ otelctx {' '.join(arguments)}\n{result.stdout}\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dump", DUMPS)
def test_terminal(dump: str, width: int, golden: Callable[[str, object], None]) -> None:
    golden(f"terminal/{dump}.{width}.txt", shown(dump, width, colour=False))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dump", DUMPS)
def test_terminal_with_colours(dump: str, width: int, golden: Callable[[str, object], None]) -> None:
    golden(f"terminal/{dump}.{width}.ansi.gz", shown(dump, width, colour=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ASKED)
def test_what_is_judged_compared_and_followed(
    name: str, width: int, golden: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tired(_: float) -> None:
        raise KeyboardInterrupt  # as by Ctrl-C, once all was shown

    monkeypatch.setattr("otel_ctx_cli.watching.time.sleep", tired)
    text = asked(name, width)

    if not name.startswith("watch"):  # which writes a log: a line for each call, however long
        assert not [line for line in text.split("\n") if cells(line) > width and not line.startswith("$ ")]
    golden(f"terminal/{name}.{width}.txt", text)


# ---- laws

_CODES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dump", DUMPS)
def test_colours_are_all_that_colours_change(dump: str, width: int) -> None:
    coloured = shown(dump, width, colour=True)

    assert _CODES.sub("", coloured) == shown(dump, width, colour=False)
    assert _CODES.search(coloured)


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("dump", DUMPS)
def test_no_line_is_wider_than_the_terminal_and_none_moves_its_cursor(dump: str, width: int) -> None:
    lines = shown(dump, width, colour=False).split("\n")

    assert not [line for line in lines if cells(line) > width and not line.startswith("$ ")]
    assert not [
        line for line in lines if any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202a\u202e" for c in line)
    ]


def test_columns_stand_under_each_other_where_characters_are_wide() -> None:
    table = shown("wide", 140, colour=False).split("$ otelctx ")[1].split("\n")
    header, row = table[1:3]
    end = header.index("depth") + len("depth")

    assert re.match(r"[\d,]+$", _columns(row, end).split()[-1])
    assert _columns(row, end + 2).endswith("  ")


def _columns(text: str, end: int) -> str:
    used = 0
    for i, char in enumerate(text):
        used += cells(char)
        if used > end:
            return text[:i]
    return text
