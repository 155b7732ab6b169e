"""Reports of inputs that are still being written: at once, and after each change."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_ctx_cli import watch
from otel_ctx_cli.main import main
from otel_ctx_cli.watch import changes


def told(paths: list[Path], *between: Callable[[], object]) -> list[int]:
    """How many changes were told before each of these acts was done, and after the last."""
    acts: Iterator[Callable[[], object]] = iter(between)
    seen, counts = 0, []

    class Done(Exception):
        pass

    def wait(_: float) -> None:
        counts.append(seen)
        act = next(acts, None)
        if act is None:
            raise Done
        act()

    with suppress(Done):
        for _ in changes([str(p) for p in paths], wait):
            seen += 1
    return counts


def test_a_file_that_grows_shrinks_is_replaced_or_gone(tmp_path: Path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    log.write_text("a")
    other.write_text("b")
    assert told(
        [log],
        lambda: None,
        lambda: log.write_text("aa"),
        lambda: log.write_text(""),  # rotated
        lambda: other.write_text("bb"),  # nobody asked for it
        lambda: other.replace(log),
        lambda: log.unlink(),
    ) == [1, 1, 2, 3, 3, 4, 5]


def test_a_folder_with_a_new_file(tmp_path: Path) -> None:
    below = tmp_path / "session" / "subagents"
    below.mkdir(parents=True)
    assert told([tmp_path], lambda: (below / "agent.jsonl").write_text("{}"), lambda: None) == [1, 2, 2]


def test_what_is_large_is_looked_at_less_often(tmp_path: Path) -> None:
    log, waited = tmp_path / "log", []
    log.write_text("a")
    times = iter([0.0, 10.0])  # the first look took 10 s

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        deque(changes([str(log)], wait, lambda: next(times)))
    assert waited == [40.0, 1.0]


def test_the_report_is_printed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.jsonl"
    request = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi!"}]}
    texts = iter([json.dumps(request) + "\n", json.dumps(request) + "\n" + json.dumps(request)[:-9]])

    def rounds(paths: list[str]) -> Iterator[None]:
        yield  # the file is not there yet
        for text in texts:
            log.write_text(text)
            yield
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "changes", rounds)
    result = CliRunner().invoke(main, ["analyze", "--watch", str(log)])
    assert result.exit_code == 0
    assert result.stdout.count("1 file · 1 record · 1 call") == 2
    assert "skipped in the input: 1" in result.stdout
    assert "no such file" in result.stderr


@pytest.mark.parametrize("more", [["--json", "-"], ["--fail-on", "error"]])
def test_one_report_only_goes_with_the_rest(more: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["analyze", "--watch", str(tmp_path), *more])
    assert result.exit_code == 2
    assert "--watch prints reports" in result.stderr
