"""``otelctx conversations``: a line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    NOTHING,
    Line,
    Run,
    facts,
    fitted,
    line,
    many,
    moment,
    number,
    paragraph,
    percent,
    usd_range,
)
from otel_ctx.outputs.text.table import Cell, Column, table
from otel_ctx.outputs.text.view import BAND_STYLES, View, mark, some, who
from otel_ctx.outputs.views.listing import Entry, not_joined
from otel_ctx.outputs.views.totals import cost_words

_COLUMNS = (
    Column("#"),
    Column("conversation", right=False, least=17, style="strong"),
    Column("id", right=False, rank=5, style="dim"),
    Column("model", right=False, rank=4, least=17),
    Column("started (UTC)", right=False, rank=6),
    Column("turns"),
    Column("depth"),
    Column("full"),
    Column("turns left"),
    Column("cached", rank=2),
    Column("lost"),
    Column("cost", rank=3),
    Column("found", right=False, rank=1),
)


def listing(view: View, entries: Sequence[Entry], numbers: Mapping[str, int]) -> Iterator[Line]:
    """``numbers``: of all conversations, by id."""
    return fitted(_listing(view, entries, numbers), view.width)


def _listing(view: View, entries: Sequence[Entry], numbers: Mapping[str, int]) -> Iterator[Line]:
    if not entries:
        yield line(Run("No model call in this input.", "notice"))
        return
    yield from table(_COLUMNS, [_row(view, e, numbers) for e in entries], view.width, 0)
    yield BLANK
    calls = sum(e.summary.calls for e in entries)
    lost = sum(e.summary.wasted or 0 for e in entries)
    lows = [e.summary.usd_low for e in entries if e.summary.usd_low is not None]
    highs = [e.summary.usd_high for e in entries if e.summary.usd_high is not None]
    words = [many(len(entries), "conversation"), many(calls, "call")]
    if lost:
        predicted = all(e.summary.predicted for e in entries if e.summary.wasted)
        words.append(f"{number(lost)} tokens billed again{' (predicted)' if predicted else ''}")
    if highs:
        words.append(cost_words(view.analysis.readings, usd_range(sum(lows), sum(highs))))
    yield from facts(words, view.width, 0)
    alone = not_joined(view.analysis.readings)
    if alone:
        yield from paragraph(alone, view.width, 0, "notice")
    if any(e.conversation.joined for e in entries):
        yield line(Run("joined: it began before this input", "dim"))


def _row(view: View, e: Entry, numbers: Mapping[str, int]) -> list[Cell]:
    c, s = e.conversation, e.summary
    style = BAND_STYLES[c.band]
    call = view.last(c).call
    name = who(c) or ("unnamed service" if call.record == "span" else call.dialect)
    if c.parent is not None and c.parent in numbers:
        name += f" (of {numbers[c.parent]})"
    if c.joined:
        name += " (joined)"
    start = moment(e.start_unix_nano)
    turns = c.headroom_turns
    share = NOTHING if e.utilization is None else percent(c.usage_last or 0, c.limit or 1)
    errors, warnings = e.findings
    found = ", ".join(many(n, word) for n, word in ((errors, "error"), (warnings, "warning")) if n)
    return [
        str(e.number),
        name,
        mark(c),
        escape(some(c.models)) or NOTHING,
        f"{start:%m-%d %H:%M:%S}" if start else NOTHING,
        number(s.calls),
        number(s.depth),
        Run(share, "" if c.band == "ok" else style),
        Run(NOTHING if turns is None else number(int(turns)), "" if c.band == "ok" else style),
        NOTHING if s.hit_ratio is None else percent(s.hit_ratio, 1),
        Run(number(s.wasted), "notice" if s.wasted else "dim"),
        usd_range(s.usd_low, s.usd_high),
        Run(found, "alarm" if errors else "notice"),
    ]
