"""The page compares any two turns by itself: it says what the engine says."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from otel_ctx.outputs.html import render
from otel_ctx.outputs.views.compare import compare
from tests.browser.window import Open
from tests.html_reports import DUMP, INPUTS, analysed

CORPUS = Path(__file__).parent.parent / "corpus"
_SUM = re.compile(r"([\d,]+) (same|added|evicted|moved|changed)")


@pytest.mark.parametrize("case", ["", "oi-anthropic-sessions", "claude-code-content-proto"])
def test_the_page_and_the_engine_see_the_same_changes(opened: Open, case: str) -> None:
    analysis = analysed([str(CORPUS / case if case else DUMP)])
    readings = {r.call.id: r for r in analysis.readings}
    one = opened(render(analysis, INPUTS))
    for number, conversation in enumerate(analysis.conversations[:3]):
        calls = [readings[id_] for id_ in conversation.calls]
        pairs = [*list(pairwise(calls))[:3], (calls[0], calls[-1]), (calls[-1], calls[0])]
        for old, new in pairs:
            if old is new:
                continue
            rows = compare(old, new, analysis.text).rows

            page = one.at(f"c={number}&b={old.turn}&t={new.turn}")

            shown = page.locator('section[aria-label="What changed"] .sums').inner_text()
            said = {change: int(count.replace(",", "")) for count, change in _SUM.findall(shown)}
            assert said == Counter(row.change for row in rows)
    one.quiet()
