"""``otelctx tokens``: what fills the window, over the turns, by kind, by tool and by agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ctx.model import Kind
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    NOTHING,
    Line,
    Run,
    clip_middle,
    fitted,
    heading,
    legend,
    line,
    many,
    more,
    number,
    paragraph,
    percent,
    stacked,
    usd_range,
)
from otel_ctx.outputs.text.table import Cell, Column, table
from otel_ctx.outputs.text.view import View
from otel_ctx.outputs.text.window import by_kind_chart
from otel_ctx.outputs.views.names import name_of
from otel_ctx.outputs.views.tokens import COLUMNS, AgentTokens, Window

LETTERS: dict[Kind | str, str] = {
    "tools": "t", "system": "s", "user": "u", "assistant": "a", "tool_call": "c", "tool_result": "r", "image": "i",
    "file": "f", "thinking": "h", "other": "-",
}  # fmt: skip
_INDENT = 2
_SHOWN = 3  # conversations
_TURNS = 24
_TOOLS = 8
_ALARM = 0.8


def tokens(view: View, windows: Sequence[Window], agents: Sequence[AgentTokens]) -> Iterator[Line]:
    """``windows``: the deepest first."""
    return fitted(_tokens(view, windows, agents), view.width)


def _tokens(view: View, windows: Sequence[Window], agents: Sequence[AgentTokens]) -> Iterator[Line]:
    shown = windows[: view.limit(_SHOWN)]
    for window in shown:
        yield from _window(view, window)
    if len(shown) < len(windows):
        yield BLANK
        yield from more(len(windows) - len(shown), "conversation", 0)
    if agents:
        yield from _agents(view, agents)
    if not windows:
        yield line(Run("No model call in this input.", "notice"))


def _window(view: View, window: Window) -> Iterator[Line]:
    conversation = view.conversations[window.conversation]
    name = clip_middle(view.name(conversation), max(view.width - 40, 16))
    yield from heading("Window over turns", f"{name}, {many(len(window.turns), 'turn')}", view.width)
    yield BLANK
    yield from _turns(view, window)
    if window.last is None:
        yield BLANK
        words = "what fills it is unknown: no call's text was captured, only its token counts"
        yield from paragraph(words, view.width, _INDENT, "dim")
        return
    reading = view.readings[window.last]
    yield BLANK
    yield line("  ", Run(f"by kind, at turn {reading.turn}", "strong"))
    yield from by_kind_chart(view, reading)
    yield from _tools(view, window, max(reading.context.usage or 0, 1))


def _turns(view: View, window: Window) -> Iterator[Line]:
    """A bar for each turn, all to the same scale."""
    widest = max((max(t.usage or 0, sum(t.kinds.values())) for t in window.turns), default=0)
    turns = window.turns if view.verbose else window.turns[-_TURNS:]
    if len(turns) < len(window.turns):
        yield line("  ", Run(f"{'…':>4}  the first {len(window.turns) - len(turns):,} (-v shows all)", "dim"))
    numbers = [number(t.usage) for t in turns]
    room = max(map(cells, numbers), default=0)
    bar = min(view.width - _INDENT - 4 - 2 - room - 2 - 4 - 2, 100)
    for t, depth in zip(turns, numbers, strict=True):
        share = percent(t.usage, window.limit) if window.limit and t.usage is not None else NOTHING
        full = window.limit and t.usage is not None and t.usage / window.limit >= _ALARM
        rest = (t.usage or 0) - sum(t.kinds.values())
        parts = [(t.kinds.get(k, 0), LETTERS[k], k) for k in COLUMNS]
        if not t.kinds:
            parts = [(rest, "-", "other")]
        yield line(
            " " * _INDENT,
            f"{t.turn:>4}  {depth:>{room}}  ",
            Run(f"{share:>4}", "alarm" if full else "dim"),
            "  ",
            *stacked(parts, widest, bar),  # type: ignore[arg-type]
        )
    present = [k for k in COLUMNS if any(t.kinds.get(k) for t in turns)]
    unseen = any(not t.kinds for t in turns)
    if unseen and "other" not in present:
        present.append("other")
    words = {"other": "other or not seen" if unseen else "other"}
    known = ((Run(LETTERS[k], k), words.get(k, k)) for k in present)  # type: ignore[arg-type]
    yield from legend(known, view.width, _INDENT)


_TOOL_COLUMNS = (
    Column("tool", right=False, least=12),
    Column("definition"),
    Column("calls"),
    Column("arguments", rank=1),
    Column("results"),
    Column("together"),
    Column("of window", rank=2),
)


def _tools(view: View, window: Window, whole: int) -> Iterator[Line]:
    if not window.tools:
        return
    yield BLANK
    yield line("  ", Run("by tool", "strong"))
    shown = window.tools[: view.limit(_TOOLS)]
    rows: list[list[Cell]] = [
        [
            escape(name_of(t.name)) or "(no name)",
            number(t.definition),
            Run(number(t.calls), "" if t.calls else "notice"),
            number(t.arguments),
            number(t.results),
            number(t.total),
            percent(t.total, whole),
        ]
        for t in shown
    ]
    yield from table(_TOOL_COLUMNS, rows, view.width, _INDENT)
    yield from more(len(window.tools) - len(shown), "tool", _INDENT)


_AGENT_COLUMNS = (
    Column("agent", right=False, least=16),
    Column("conversations", rank=2),
    Column("calls"),
    Column("tokens in"),
    Column("cached"),
    Column("out", rank=1),
    Column("peak"),
    Column("cost", rank=1),
)


def _agents(view: View, agents: Sequence[AgentTokens]) -> Iterator[Line]:
    yield from heading("By agent", "tokens sent, all calls together", view.width)
    yield BLANK
    rows: list[list[Cell]] = [
        [
            escape(a.summary.label) or "unnamed",
            number(a.summary.conversations),
            number(a.summary.calls),
            number(a.summary.input),
            NOTHING if a.summary.hit_ratio is None else percent(a.summary.hit_ratio, 1),
            number(a.summary.output),
            number(a.summary.peak),
            usd_range(a.summary.usd_low, a.summary.usd_high),
        ]
        for a in agents
    ]
    yield from table(_AGENT_COLUMNS, rows, view.width, _INDENT)
