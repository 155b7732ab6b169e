"""The library's front door: what a report holds, and what it is written as."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import otel_ctx
from otel_ctx.errors import InputError, SettingError
from otel_ctx.outputs import notebook
from otel_ctx.outputs.markdown import render as markdown
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.views.totals import totals
from tests.test_terminal_golden import wide_spans
from tests.test_text import Builder

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"


@cache
def report() -> otel_ctx.Report:
    return otel_ctx.analyze(DEMO)


def test_the_nouns() -> None:
    assert (len(report().calls), len(report().conversations), len(report().findings)) == (32, 2, 6)
    assert report().findings[0].kind == "volatile_prefix"
    assert {n.check for n in report().not_checked} == {"tools_changed"}
    assert report().inputs.files[0].spans == 37
    assert repr(report()) == "<Report: 32 calls, 2 conversations, 6 findings>"
    assert report().text(report().calls[0].call.prompt.system[0].digest or "").startswith("Current time")  # type: ignore[union-attr]


def test_totals_are_those_of_the_json() -> None:
    ours, theirs = report().totals, totals(report().calls, report().conversations)

    assert ours is report().totals
    assert (ours.calls, ours.conversations) == (theirs["calls"], theirs["conversations"])
    assert (ours.input, ours.cache_read, ours.cache_write, ours.output) == tuple(
        theirs["usage"][k] for k in ("input", "cache_read", "cache_write", "output")
    )
    assert ours.wasted == theirs["waste"]["tokens"]
    assert ours.usd == pytest.approx(theirs["cost"]["usd"])
    assert ours.wasted_usd == pytest.approx(theirs["waste"]["usd"])


def test_settings_reach_the_engine() -> None:
    found = otel_ctx.analyze(
        str(DEMO), limits={"gpt-*": 12_000}, ignore=["dead_tool_schema"], service="lark*", turn=24
    )

    assert [(r.context.limit, r.context.limit_source, r.turn) for r in found.calls] == [
        (12_000, "setting", 24)
    ]
    assert "dead_tool_schema" not in {f.kind for f in found.findings}
    renamed = otel_ctx.analyze([DEMO], models={"gpt-4o-2024-08-06": "gpt-4.1"}, model=["gpt-*"])
    assert {r.context.limit for r in renamed.calls} != {128_000}


def test_a_selection_of_a_report_is_a_report() -> None:
    part = report().select(conversation="1", turn=["2", "-1"])

    assert [r.turn for r in part.calls] == [2, 8]
    assert part.totals.calls == 2
    with pytest.raises(SettingError, match="no conversation 'x'"):
        report().select(conversation="x")


def test_a_turn_against_another() -> None:
    found = report().diff("1:7", "1:8")
    (changed,) = found.prompts.of("changed")

    assert [e.text for e in changed.edits or () if e.op != "same"] == ["42", "59"]
    assert found.prompts.tokens("added") == 7 + 22 + 696
    with pytest.raises(SettingError, match="has no such turn"):
        report().diff("1:7", "1:9")


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(InputError, match="nowhere"):
        otel_ctx.analyze("nowhere.jsonl")


def test_json_holds_text_only_where_it_is_asked_for() -> None:
    plain, told = report().to_json(), report().to_json(include_text=True, pretty=True)

    assert json.loads(plain) == report().to_dict()
    assert json.loads(plain)["schema"] == "otelctx.report/1"
    assert "support agent of Larkspur" not in plain
    assert "support agent of Larkspur" in told


def test_text_is_what_the_command_prints() -> None:
    assert report().to_text().startswith("1 file · 37 spans · 32 calls")
    assert "\x1b[" not in report().to_text(120)
    assert re.sub(r"\x1b\[[\d;]*m", "", report().to_text(100, colour=True)) == report().to_text(100)
    assert "support agent of Lark" in report().to_text()
    assert "support agent of Lark" not in report().to_text(show_text=False)


# ---- Markdown


def test_markdown_in_short() -> None:
    text = report().to_md()

    assert text.startswith("### Context window: 1 error · 5 info\n\n32 calls in 2 conversations")
    assert "**24,009 tokens billed again** ($0.083)" in text
    assert (
        "**Fix:** Take the value out of the system prompt. Where the model needs it, write it once into a user message"
        in text
    )
    assert (
        "| 1 | `support-agent-js` | `claude-sonnet-4-5-20250929` | 8 | 5,311 | 3% | 405 | 0% | 24,009 |"
        in text
    )
    assert "Not all was seen: of 32 calls 8 partial." in text
    assert "Larkspur\\ " not in text
    assert len(text) < 4_000
    assert "Seen: `Current time" in report().to_md(include_text=True)
    assert "Current time" not in text


def wide(tmp_path: Path) -> otel_ctx.Report:
    path = tmp_path / "wide.jsonl"
    path.write_text(wide_spans(), "utf-8")
    return otel_ctx.analyze(path)


EVIL = "a|b `c` <img src=x onerror=alert(1)> @team #12 **x** [l](http://h) \x1b[2J\n"


def evil() -> Builder:
    b = Builder()
    prompt = [b.segment("user", "messages[0]", "hello", 1)]
    call = b.call("t:1", segments=prompt, model=EVIL, service=EVIL, context={"usage": 9})
    b.converse(call, services=(EVIL,), agents=(EVIL,), models=(EVIL,))
    return b


def evil_analysis() -> otel_ctx.Analysis:
    finding = otel_ctx.Finding("volatile_prefix", "error", EVIL, EVIL, EVIL, ("t:1",), path=EVIL)
    return evil().analysis(findings=(finding,))


def test_names_in_markdown_mean_nothing_else() -> None:
    text = markdown(evil_analysis(), Inputs((), ()))
    outside = re.sub(r"`[^`\n]*`", "", text)

    assert not re.search(
        r"(?<!\\)[<>@]|(?<!\\)\[l|http://|(?<!#)(?<!\\)#\d|\x1b", outside.replace("<sub>", "")
    )
    rows = [line for line in text.split("\n") if line.startswith("| 1 ")]
    assert [row.count("|") for row in rows] == [10]


def test_one_conversation_in_markdown_counts_and_shares_as_the_terminal_does() -> None:
    """9 of 128,000 tokens are not 0%."""
    text = markdown(evil_analysis(), Inputs((), ()))

    assert "1 call in 1 conversation\n" in text
    assert r"| 1 | 9 | \<1% |" in text


def test_an_empty_dump_in_markdown() -> None:
    assert markdown(Builder().analysis(), Inputs((), ())) == (
        "### Context window: nothing found\n\nNo model call in this input.\n"
    )


# ---- notebooks


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.open.append(tag)
        assert [name for name, _ in attrs] in ([], ["style"])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def tags_of(html: str) -> Tags:
    parser = Tags()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


def test_a_notebook_shows_tables() -> None:
    shown = tags_of(report()._repr_html_())

    assert set(shown.seen) == {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "24,009 tokens billed again" in shown.text
    assert "System prompt contains a value" in shown.text
    assert "Current time" not in shown.text


def test_names_in_a_notebook_are_text() -> None:
    shown = tags_of(notebook.render(evil_analysis()))

    assert "img" not in shown.seen
    assert "<img src=x onerror=alert(1)>" in shown.text
    assert "\x1b" not in shown.text


def test_an_empty_dump_in_a_notebook() -> None:
    assert notebook.render(Builder().analysis()) == "<p>No model call in this input.</p>"


def test_wide_names(tmp_path: Path) -> None:
    found: Any = wide(tmp_path)

    assert "注文サービス\\u200b" in found.to_md()
    assert "注文サービス" in found._repr_html_()


# ---- pages and pictures


def test_html() -> None:
    pytest.importorskip("otel_ctx.outputs.html")
    page = report().to_html(redact=True, title="a <b>")

    assert page.startswith("<!doctype html>")
    assert "a &lt;b&gt;" in page
    assert "support agent of Larkspur" not in page


def test_svg() -> None:
    pytest.importorskip("otel_ctx.outputs.svg")

    assert "<svg" in report().to_svg()
