"""The terminal report: lines of styled runs, at most ``width`` columns wide, the same for the same input.

All text out of telemetry is escaped; numbers and times know no locale. Colours are the printer's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.model import Analysis
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.text.breaks import breaks
from otel_ctx.outputs.text.cache import cache
from otel_ctx.outputs.text.conversations import conversations
from otel_ctx.outputs.text.findings import STYLES, findings, ignored, ordered, tally, unseen
from otel_ctx.outputs.text.layout import (
    BLANK,
    NOTHING,
    Line,
    Run,
    Style,
    facts,
    fit,
    line,
    many,
    number,
    paragraph,
    percent,
    period,
    plain,
)
from otel_ctx.outputs.text.view import View, view
from otel_ctx.outputs.text.window import window
from otel_ctx.outputs.views.totals import totals

__all__ = ["MIN_WIDTH", "Line", "Run", "Style", "plain", "render"]

MIN_WIDTH = 40


def render(
    analysis: Analysis, inputs: Inputs, *, width: int = 80, verbose: int = 0, show_text: bool = True
) -> Iterator[Line]:
    """The report's lines. ``verbose`` 1 shows all of every list and each turn, 2 call ids too; without ``show_text`` no
    prompt text is in it. A ``width`` below ``MIN_WIDTH`` is taken as that."""
    seen = view(analysis, inputs, max(width, MIN_WIDTH), verbose, show_text)
    for section in (_head, conversations, window, breaks, cache, findings, unseen, _verdict):
        for one in section(seen):
            yield fit(one, seen.width)


def _head(seen: View) -> Iterator[Line]:
    analysis = seen.analysis
    sums = totals(analysis.readings, analysis.conversations)
    told_by = {r.call.record for r in analysis.readings}
    items = [many(seen.inputs.telemetry, "file")]
    items.append(many(analysis.spans, "span" if "span" in told_by or not told_by else "record"))
    if analysis.log_records:
        items.append(many(analysis.log_records, "log record"))
    items += [many(sums["calls"], "call"), many(sums["conversations"], "conversation")]
    if sums["errors"]:
        items.append(f"{sums['errors']:,} failed")
    if sums["start_unix_nano"]:
        items.append(period(sums["start_unix_nano"], sums["end_unix_nano"] or 0))
    yield from facts(items, seen.width, 0, "strong")
    if not sums["calls"]:
        return
    usage = sums["usage"]
    read, given = usage["cache_read"], usage["input"]
    cached = NOTHING if read is None else number(read) + (f" ({percent(read, given)})" if given else "")
    words = [f"tokens in {number(given)}", f"cached {cached}", f"out {number(usage['output'])}"]
    if sums["reported_by"] < sums["calls"]:
        words.append(f"reported by {sums['reported_by']:,} of {many(sums['calls'], 'call')}")
    yield from facts(words, seen.width, 0)


def _verdict(seen: View) -> Iterator[Line]:
    analysis = seen.analysis
    yield BLANK
    if not analysis.readings:
        yield line(Run("No model call in this input.", "notice"))
        return
    if analysis.findings:
        first = ordered(analysis.findings)[0]
        yield line(Run(tally(analysis.findings), STYLES[first.severity]))
        if len(analysis.findings) > 1:
            yield from paragraph(escape(first.title), seen.width, 0, "", "first   ")
        yield from _ignored(seen)
        return
    yield from _ignored(seen)
    else_ = " else" if analysis.ignored else ""
    whole = all(r.call.completeness.status == "full" for r in analysis.readings)
    if whole and not analysis.not_checked and not seen.inputs.skipped:
        yield line(Run(f"Nothing{else_} found.", "" if else_ else "good"))
    else:
        yield line(f"Nothing{else_} found in what could be seen.")


def _ignored(seen: View) -> Iterator[Line]:
    if seen.analysis.ignored:
        yield from paragraph(ignored(seen.analysis), seen.width, 0, "", "ignored ")
