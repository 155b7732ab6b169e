"""The example dump says what the README pages say of it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from otel_ctx.engine import Engine
from otel_ctx.inputs import read
from otel_ctx.model import Analysis, Reading
from otel_ctx.outputs.views.kinds import by_kind
from otel_ctx_cli.main import main

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"
DESK, JS = "larkspur-support", "support-agent-js"


@cache
def analysis() -> Analysis:
    engine = Engine()
    for batch in read([DEMO]):
        assert not batch.skipped
        engine.feed(batch.spans, batch.logs)
    return engine.close()


def readings(service: str) -> list[Reading]:
    return [r for r in analysis().readings if r.call.service == service]


def otelctx(*arguments: str) -> Result:
    environment: dict[str, Any] = {"COLUMNS": "80", "NO_COLOR": "1", "FORCE_COLOR": None}
    return CliRunner().invoke(main, ["analyze", str(DEMO), *arguments], env=environment)


def test_it_is_small_and_make_demo_reads_it() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert DEMO.stat().st_size < 100_000
    assert re.search(r"^DEMO \?= (.*)$", makefile, re.MULTILINE)[1] == str(DEMO.relative_to(ROOT))  # type: ignore[index]
    assert re.search(r"^demo:.*\n\t\$\(BIN\)/otelctx analyze \$\(DEMO\)$", makefile, re.MULTILINE)
    assert otelctx().exit_code == 0


def test_two_services_with_a_conversation_each() -> None:
    told = [(c.services, len(c.calls), c.models, c.joined, c.gaps) for c in analysis().conversations]

    assert sorted(told) == [
        ((DESK,), 24, ("gpt-4o-2024-08-06",), False, 0),
        ((JS,), 8, ("claude-sonnet-4-5-20250929",), False, 0),
    ]
    assert not analysis().foreign
    assert not analysis().unassigned_bytes


def test_the_long_conversation_is_seen_whole_and_its_cache_works() -> None:
    calls = readings(DESK)
    last = calls[-1]

    assert {r.call.completeness.status for r in calls} == {"full"}
    assert {r.tokens.method for r in calls} == {"exact"}
    assert not any(r.break_ for r in calls)
    assert all(r.call.usage.cache_read for r in calls[1:])
    assert by_kind(last)["tool_result"] > (last.context.usage or 0) / 2
    assert (last.context.usage, last.context.limit, last.context.band) == (11_512, 128_000, "ok")


def test_the_other_ones_system_prompt_is_volatile_and_nothing_is_read_from_the_cache() -> None:
    (finding,) = [f for f in analysis().findings if f.severity == "error"]

    assert (finding.kind, finding.path, finding.tokens) == ("volatile_prefix", "system[0]", 24_009)
    assert finding.calls == tuple(r.call.id for r in readings(JS)[1:])
    assert all(r.call.usage.cache_read == 0 and r.call.usage.cache_write for r in readings(JS))
    assert otelctx("--fail-on", "error").exit_code == 1


def test_what_was_not_recorded_is_not_judged() -> None:
    unchecked = [n for n in analysis().not_checked if n.check == "tools_changed"]

    assert {r.call.completeness.reasons for r in readings(JS)} == {("schema_missing",)}
    assert [n.calls for n in unchecked] == [tuple(r.call.id for r in readings(JS)[1:])]


# ---- the pages


def claims(page: str) -> set[str]:
    """Large numbers and shares in what a page says of this dump: all of its own page, elsewhere the paragraphs that
    name it. What a snippet shows is compared line by line in test_docs."""
    text = (ROOT / page).read_text("utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    about = [
        block
        for block in re.split(r"\n\s*\n", prose)
        if page.startswith("examples/")
        or re.search(r"\bdemo\b|\bexample dump\b", block)
        or DEMO.name in block
    ]
    return set(re.findall(r"\d{1,3}(?:,\d{3})+|\d+ ?%", "\n".join(about)))


@pytest.mark.parametrize("page", ["README.md", "examples/README.md"])
def test_numbers_that_a_page_names_are_in_the_report(page: str) -> None:
    shown = otelctx("-v").stdout

    assert {c for c in claims(page) if c.replace(" ", "") not in shown.replace(" %", "%")} == set()


def test_claims_are_found() -> None:
    assert "24,009" in claims("examples/README.md")
