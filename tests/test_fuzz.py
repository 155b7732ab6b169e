"""The fuzzers' own: their seeds pass, what must be a find is one, and both ways to drive them work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.inputs import Skipped, format_names
from otel_ctx.inputs.interface import JsonFormat, Records
from tests.fuzz import seeds, targets
from tests.fuzz.finds import Finds
from tests.fuzz.records import CANARY, HOLDERS, real
from tests.fuzz.targets import TARGETS, Find, run

ROOT = Path(__file__).parents[1]
EACH = 5  # every fifth seed, so that it stays fast; `make fuzz` begins with all


@pytest.mark.parametrize("target", TARGETS)
def test_no_seed_is_a_find(target: str) -> None:
    made = seeds.seeds(target)
    assert len(made) > 100
    for data in made[::EACH]:
        run(target, data)


def test_seeds_reach_every_format() -> None:
    reached = {b.format for data in seeds.seeds("sniffed") for b in targets._read(targets.io.BytesIO(data))}
    assert {name.partition("+")[0] for name in reached} - {""} == set(format_names())


def test_records_are_of_every_case() -> None:
    assert len(real()) == len([p for p in (ROOT / "tests" / "corpus").iterdir() if p.is_dir()])


def test_words_are_written_as_libfuzzer_reads_them() -> None:
    words = seeds.dictionary()
    lines = seeds.as_dictionary(words).splitlines()
    assert len(lines) == len(words) > 500
    for line, word in zip(lines, words, strict=True):
        assert (inside := re.fullmatch(r'"((?:[^"\\]|\\x[0-9a-f]{2})+)"', line))
        assert re.sub(rb"\\x(..)", lambda m: bytes.fromhex(m[1].decode()), inside[1].encode()) == word


# ---- what is a find


def fault(error: Exception) -> Any:
    def raises(*_: Any) -> Any:
        raise error

    return raises


def test_an_exception_is_kept_once_with_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "sniffed", fault(KeyError("x")))
    finds = Finds(tmp_path)
    finds.tried("sniffed", b"one")
    finds.tried("sniffed", b"two")
    (told,) = tmp_path.glob("*.txt")
    assert "KeyError: 'x'" in told.read_text("utf-8")
    assert told.with_suffix("").read_bytes() == b"one"


def odd_format(skipped_where: str) -> JsonFormat:
    def decode(_: Any, __: str, skipped: list[Skipped]) -> Records:
        skipped.append(Skipped(skipped_where, "why"))
        return Records()

    return JsonFormat("odd", lambda document: document == {"odd": 1}, decode)


def test_a_note_without_a_place_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_ctx.inputs.detection.FORMATS", (odd_format("<stdin>:1"),))
    run("sniffed", b'{"odd": 1}')
    monkeypatch.setattr("otel_ctx.inputs.detection.FORMATS", (odd_format("somewhere"),))
    with pytest.raises(Find, match="an error names its place"):
        run("sniffed", b'{"odd": 1}')


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [("SECONDS", 0.0, "takes little time"), ("GROWTH", -1, "takes little memory")],
)
def test_what_costs_too_much_is_a_find(
    name: str, value: float, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, name, value)
    with pytest.raises(Find, match=rule):
        run("content", b"\0\0[]")


def test_text_in_a_report_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_ctx.outputs.report.name_of", lambda name, _=False: name)
    data = (
        b"\x03\0"
        b'[{"type": "function", "name": ["a name"], "description": "b"}, {"text": "a tool that is none"}]'
    )
    with pytest.raises(Find, match="no prompt text in the report") as told:
        run("content", data)
    assert CANARY in str(told.value)


def test_a_control_character_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["otel_ctx.outputs.text.view"], "escape", lambda text: f"{text}\x1b[31m")
    with pytest.raises(Find, match="moves the terminal"):
        run("content", b"\0\0[]")


# ---- as it is run


def test_without_atheris_hypothesis_drives(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run",
        "--seconds",
        "1",
        "--target",
        "named",
        "--workers",
        "1",
    ]
    ended = subprocess.run(
        [*command, "--engine", "hypothesis", "--folder", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    inputs = re.search(r"^([\d,]+) inputs, 0 files of finds$", ended.stdout, re.MULTILINE)
    assert inputs is not None
    assert int(inputs[1].replace(",", "")) > 0
    assert not list((tmp_path / "finds").iterdir())


# ---- what was found, and its kind


ODD: tuple[Any, ...] = ({"a": 1}, [1], 7)  # no words, and two of them in no set


@pytest.mark.parametrize("holder", range(len(HOLDERS)), ids=HOLDERS)
@pytest.mark.parametrize(
    "key", ["type", "role", "name", "id", "content", "parts", "tool_calls", "kind", "message", "text"]
)
def test_no_value_in_the_place_of_a_word_hurts(key: str, holder: int) -> None:
    for odd in ODD:
        for message in (
            {"role": "user", "content": "hi", key: odd},
            {key: odd},
            {"type": "x", "text": "hi", key: odd},
        ):
            said = [{"role": "user", "content": "hi"}, message]
            for value in (said, {"model": "m", "messages": said, "input": said, key: odd}):
                run("content", bytes((holder, 0)) + json.dumps(value).encode())
