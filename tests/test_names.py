"""Where no prompt text may be shown, names that are none are shown as digests: one rule, in every output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import otel_ctx
from otel_ctx.outputs.doctor import build as doctor
from otel_ctx.outputs.views.names import held_back, shown
from otel_ctx_cli.main import main

QUESTION = "Which of my orders is late, please?"
TASK = "Write to the customer about\nthe late parcel"
SPOKEN = "the parcel for Greta in Basel is"  # 32 characters of the question below
NO_NAME = re.compile(r"\(no name [0-9a-f]{8}\)")
ASKED = "Hello! the parcel for Greta in Basel is late. How come? " * 12


def dump(
    path: Path, *, agent: str = "planner", service: str = "shop", model: str = "gpt-4o", turns: int = 3
) -> Path:
    """A conversation of three turns whose names are these."""

    def pair(key: str, value: str | int) -> dict[str, Any]:
        return {
            "key": key,
            "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)},
        }

    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    spans = []
    for n in range(turns):
        prompt = [
            message("user", ASKED),
            *(message("user" if i % 2 else "assistant", f"part {i}") for i in range(n)),
        ]
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": model,
            "gen_ai.agent.name": agent, "gen_ai.conversation.id": "c-1",
            "gen_ai.input.messages": json.dumps(prompt), "gen_ai.usage.input_tokens": 180 + 5 * n,
            "gen_ai.usage.output_tokens": 4,
        }  # fmt: skip
        spans.append({
            "traceId": f"{7:032x}", "spanId": f"{n + 1:016x}", "name": "chat", "kind": 3,
            "startTimeUnixNano": f"{1_800_000_000 + 20 * n}000000000", "endTimeUnixNano": f"{1_800_000_002 + 20 * n}000000000",
            "attributes": [pair(k, v) for k, v in attributes.items()],
        })  # fmt: skip
    scope = {"scope": {"name": "shop.llm"}, "spans": spans}
    resource = {"attributes": [pair("service.name", service)]}
    path.write_text(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("planner", True),
        ("Senior Customer Support Representative", True),
        ("注文を探す係", True),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            True,
        ),
        ("claude-sonnet-4-5-20250929", True),
        ("two words", True),
        (TASK, False),
        ("tab\there", False),
        ("a b c d e f g h i", False),  # nine words
        ("x" * 201, False),
        ("Please summarise the confidential memo of our board for all of its members", False),
        ("あ" * 33, False),  # as wide as 66 letters
    ],
)
def test_what_a_name_looks_like(name: str, is_one: bool) -> None:
    assert (shown(name) == name) is is_one
    assert is_one or NO_NAME.fullmatch(shown(name))
    assert shown(shown(name)) == shown(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", TASK),
        ("service", TASK),
        ("model", TASK),
        ("agent", SPOKEN),
        ("service", SPOKEN),
        ("model", SPOKEN),
    ],
)
def test_no_output_without_text_shows_what_is_no_name(field: str, value: str, tmp_path: Path) -> None:
    path = dump(tmp_path / "dump.jsonl", **{field: value})  # type: ignore[arg-type]
    report = otel_ctx.analyze(path)
    outputs = {
        "json": report.to_json(),
        "markdown": report.to_md(),
        "html": report.to_html(redact=True),
        "text": report.to_text(show_text=False, verbose=2, width=200),
        "notebook": report._repr_html_(),
        "svg": report.to_svg(),
        "doctor": json.dumps(doctor(report.held_back().analysis, report.inputs)),
    }
    for name, arguments in {
        "analyze": ["--redact", "-v"], "findings": ["--redact"], "diff": ["--redact"], "conversations": [], "tokens": [],
        "cache": [], "doctor": [], "check": ["--max-growth", "0", "--stable-prefix"],
    }.items():  # fmt: skip
        for form in ([], ["--json", "-"]):
            outputs[f"{name} {form}"] = _run(name, path, [*arguments, *form])
    outputs["compare"] = _run("compare", path, [str(path)])

    leaked = value.split("\n")[0]
    assert not {name for name, text in outputs.items() if leaked in text}
    assert all(NO_NAME.search(outputs[name]) for name in ("json", "markdown", "html", "notebook"))


def _run(command: str, path: Path, rest: list[str]) -> str:
    result = CliRunner().invoke(main, [command, str(path), *rest], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def test_with_text_all_of_it_is_shown(tmp_path: Path) -> None:
    report = otel_ctx.analyze(dump(tmp_path / "dump.jsonl", agent=SPOKEN))

    assert SPOKEN in report.to_json(include_text=True)
    assert SPOKEN in report.to_html()
    assert SPOKEN in report.to_text(width=200)


def test_ordinary_names_stay_where_a_prompt_speaks_of_them(tmp_path: Path) -> None:
    """A short name, or an identifier, may well stand in a prompt."""
    analysis = otel_ctx.analyze(
        dump(tmp_path / "dump.jsonl", agent="parcel for Greta", service="part")
    ).analysis

    assert held_back(analysis) is analysis


def test_one_value_has_one_digest_and_two_have_two(tmp_path: Path) -> None:
    first, second = (
        otel_ctx.analyze(dump(tmp_path / str(n), agent=value)).held_back().conversations[0].agents
        for n, value in enumerate((TASK, TASK + "!"))
    )

    assert first == otel_ctx.analyze(tmp_path / "0").held_back().conversations[0].agents
    assert first != second


def test_selectors_know_the_names_as_they_were(tmp_path: Path) -> None:
    path = dump(tmp_path / "dump.jsonl", agent=TASK)

    assert NO_NAME.search(_run("conversations", path, ["--agent", "Write to*"]))
