"""``analyze --html``, ``analyze --svg`` and ``view``: the files they write, and where they refuse."""

from __future__ import annotations

import stat
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote, urlparse

import click
import pytest
from click.testing import CliRunner, Result

from otel_ctx.outputs.svg import draw
from otel_ctx_cli.main import main
from tests.html_reports import DUMP, blocks, chat, judged, part, support_agent, text, usage_only


def otelctx(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args], prog_name="otelctx")


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been opened in a browser."""
    urls: list[str] = []
    monkeypatch.setattr(click, "launch", lambda url: urls.append(url))
    return urls


def test_analyze_writes_the_page_beside_what_it_prints(tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    result = otelctx("analyze", DUMP, "--html", page)

    assert result.exit_code == 0
    assert "What fills the window" in result.stdout
    held = blocks(page.read_bytes())
    assert len(held["index"]["calls"]) == 32
    assert b"<title>support-agent.otlp.jsonl.gz" in page.read_bytes()
    assert b"Larkspur" in page.read_bytes()


def test_redact_is_about_the_page_too(tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    assert otelctx("analyze", DUMP, "--redact", "--html", page).exit_code == 0

    assert b"Larkspur" not in page.read_bytes()
    assert blocks(page.read_bytes())["index"]["redacted"] is True


@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_a_file_that_cannot_be_is_told_before_the_work(option: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "folder.html", DUMP):
        result = otelctx("analyze", DUMP, option, path)
        assert result.exit_code == 2
        assert option in result.stderr
    assert otelctx("analyze", "--watch", DUMP, option, tmp_path / "x").exit_code == 2


def test_view_opens_what_it_made(launched: list[str]) -> None:
    result = otelctx("view", DUMP)

    path = Path(result.stdout.strip())
    try:
        assert result.exit_code == 0
        assert [unquote(urlparse(u).path) for u in launched] == [str(path)]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600  # prompts are nobody else's business
        assert len(blocks(path.read_bytes())["index"]["calls"]) == 32
    finally:
        path.unlink()


def test_view_leaves_the_browser_closed_where_it_is_told_to(tmp_path: Path, launched: list[str]) -> None:
    page = tmp_path / "x.html"

    result = otelctx("view", DUMP, "-o", page, "--no-open", "--redact")

    assert result.exit_code == 0
    assert launched == []
    assert result.stdout == f"{page}\n"
    assert b"Larkspur" not in page.read_bytes()


def test_view_refuses_to_write_over_its_input(launched: list[str]) -> None:
    before = DUMP.read_bytes()
    result = otelctx("view", DUMP, "-o", DUMP)
    assert result.exit_code == 2
    assert "-o" in result.stderr
    assert DUMP.read_bytes() == before
    assert launched == []


# ---- pictures


SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_of_the_conversation_that_lost_the_most(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    assert otelctx("analyze", DUMP, "--svg", path).exit_code == 0

    root = ET.fromstring(path.read_bytes())

    title = root.findtext(f"{SVG}title")
    assert title == (
        "support-agent-js: 8 turns · deepest 5,311 tokens of 200,000 (3%) · full at about turn 413 · 24,009 tokens billed again"
    )
    lost = [
        float(r.get("width") or 0)
        for r in root.iter(f"{SVG}rect")
        if r.get("class") == "lost" and r.get("height") == "11"
    ]
    assert len(lost) == 7
    whole = 860 - 56 - 12
    assert sum(lost) / whole == pytest.approx(24_009 / 5_311, rel=0.01)
    assert len([p for p in root.iter(f"{SVG}path") if p.get("class") == "break"]) == 7


def test_a_picture_has_no_prompt_text_and_no_way_out() -> None:
    picture = draw(support_agent()).decode()

    for word in (
        "Larkspur",
        "search_docs",
        "<script",
        "href",
        "<image",
        "<foreignObject",
        "@import",
        "onload",
    ):
        assert word not in picture
    assert "http" not in picture.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_hostile_names_are_text() -> None:
    bad = "</text><script>alert(1)</script>\x00\u202e\ud800&"
    picture = draw(judged([chat(1, [text("user", "hi")], service=bad, **{"gen_ai.agent.name": bad})]))

    root = ET.fromstring(picture)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script>alert(1)</script>\\x00\\u202e\\ud800&" in (root.findtext(f"{SVG}title") or "")


def test_a_conversation_can_be_chosen_and_a_long_one_is_cut() -> None:
    analysis = judged(list(usage_only(120, turns=100)))
    root = ET.fromstring(draw(analysis, analysis.conversations[0]))

    texts = ["".join(t.itertext()) for t in root.iter(f"{SVG}text")]
    assert any("the last 48 of 100 turns" in t for t in texts)
    assert (root.findtext(f"{SVG}title") or "").startswith("service-0: 100 turns")


def test_a_part_of_a_conversation_keeps_its_turns_numbers() -> None:
    root = ET.fromstring(draw(part(support_agent(), range(3, 7))))

    axis = [t.text for t in root.iter(f"{SVG}text") if t.get("class") == "m"]
    assert axis == ["3", "4", "6"]


def test_nothing_to_draw_is_a_picture_too() -> None:
    root = ET.fromstring(draw(judged([])))
    assert root.findtext(f"{SVG}title") == "No model call"


def test_one_turn_is_a_picture() -> None:
    root = ET.fromstring(draw(judged([chat(1, [text("user", "hello " * 50)])])))
    assert list(root.iter(f"{SVG}polygon"))
