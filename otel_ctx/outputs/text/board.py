"""``otelctx watch``: the screen, as many lines as it has; and a line for each call, where there is no screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ctx.model import Reading
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    NOTHING,
    Line,
    Run,
    bar,
    clip,
    clip_middle,
    fit,
    line,
    many,
    moment,
    number,
    percent,
    usd_range,
)
from otel_ctx.outputs.text.view import BAND_STYLES
from otel_ctx.outputs.views.board import Row
from otel_ctx.outputs.views.names import shown

_EACH = 2  # lines of a conversation
_AROUND = 4  # lines above and below


def board(
    rows: Sequence[Row], source: str, note: str, width: int, height: int, *, quits: bool = True
) -> Iterator[Line]:
    """Exactly ``height`` lines at most, none wider than ``width``."""
    lines = list(_lines(rows, source, note, width, height))
    end = line(Run("q quits" if quits else "Ctrl-C quits", "dim"))
    for one in (*lines[: height - 1], end):
        yield fit(one, width)


def _lines(rows: Sequence[Row], source: str, note: str, width: int, height: int) -> Iterator[Line]:
    lost = sum(r.lost for r in rows)
    told = f"{many(len(rows), 'conversation')}" + (f" · {number(lost)} tokens billed again" if lost else "")
    name = clip_middle(escape(source), max(8, width - cells(told) - 12))
    yield line(Run(f"otelctx {name}", "title"), "  ", Run(told, "notice" if lost else "dim"))
    yield line(Run(escape(note), "dim")) if note else BLANK
    shown = rows[: max(1, (height - _AROUND) // _EACH)]
    names = [_name(r) for r in shown]
    room = min(max((cells(n) for n in names), default=0), max(12, width // 3))
    for r, named in zip(shown, names, strict=True):
        yield from _row(r, clip(named, room), room, width)
    if len(rows) > len(shown):
        yield line(Run(f"… and {many(len(rows) - len(shown), 'older conversation')}", "dim"))
    if not rows:
        yield line(Run("no model call yet", "dim"))


def _row(r: Row, named: str, room: int, width: int) -> Iterator[Line]:
    style = BAND_STYLES[r.band]
    share = r.usage / r.limit if r.limit and r.usage is not None else None
    facts = f"  turn {r.turn:<4} {number(r.usage):>9}"
    full = f" {NOTHING if share is None else percent(share, 1):>4} "
    left = NOTHING if r.turns_left is None else f"{int(r.turns_left):,} turns left"
    gauge = max(6, min(40, width - room - cells(facts) - cells(full) - cells(left) - 2))
    drawn = bar(min(share, 1.0), gauge, style) if share is not None else line(Run("·" * gauge, "dim"))
    yield line(
        Run(named, "strong"), " " * (room - cells(named)), facts, Run(full, style), *drawn, f"  {left}"
    )
    words = [f"cached {NOTHING if r.hit_ratio is None else percent(r.hit_ratio, 1)}"]
    if r.usd is not None:
        words.append(usd_range(*r.usd))
    runs = [Run(" " * (room + 2)), Run(" · ".join(words), "dim")]
    if r.lost:
        runs += [Run(" · ", "dim"), Run(f"{number(r.lost)} lost", "alarm")]
    if r.broke is not None:
        turn, path, kind = r.broke
        cause = f" ({escape(kind)})" if kind else ""
        runs += [Run(" · ", "dim"), Run(f"broke at turn {turn}: {escape(path)}{cause}", "notice")]
    yield line(*runs)


def _name(r: Row) -> str:
    named = " › ".join(map(shown, filter(None, (r.service, r.agent)))) or shown(r.model) or r.conversation[:8]
    return escape(named)


def call(r: Reading) -> Line:
    """One call, on one line."""
    c, at = r.context, moment(r.call.start_unix_nano)
    share = percent(c.usage or 0, c.limit) if c.limit and c.usage is not None else NOTHING
    told = " › ".join(map(shown, filter(None, (r.call.service, r.call.agent))))
    named = told or shown(r.call.model) or NOTHING
    runs: list[str | Run] = [
        Run(f"{at:%H:%M:%S}  " if at else "", "dim"),
        Run(escape(named), "strong"),
        f"  turn {r.turn}  {number(c.usage)} tokens  ",
        Run(f"{share} full", BAND_STYLES[c.band]),
    ]
    if c.headroom_turns is not None:
        runs.append(Run(f"  {int(c.headroom_turns):,} turns left"))
    u = r.call.usage
    if u.cache_read is not None and u.input:
        runs.append(Run(f"  {percent(u.cache_read, u.input)} cached", "dim"))
    if r.wasted:
        runs.append(Run(f"  {number(r.wasted)} lost ({escape(r.cause)})", "alarm"))
    if r.break_ is not None:
        runs.append(Run(f"  broke at {escape(r.break_.path)}", "notice"))
    return line(*runs)
