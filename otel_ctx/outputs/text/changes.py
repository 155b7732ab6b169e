"""``otelctx compare``: two dumps in figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.text.layout import (
    NOTHING,
    Line,
    Run,
    Style,
    fit,
    heading,
    line,
    many,
    more,
    paragraph,
    usd,
)
from otel_ctx.outputs.text.table import Cell, Column, table
from otel_ctx.outputs.views.changes import Changes, Figure, FindingChange, Pair, rows

_SHOWN = 10
_STYLES: Mapping[str, Style] = {"better": "good", "worse": "alarm", "unseen": "notice"}
_FOUND: Mapping[str, Style] = {"new": "alarm", "gone": "good", "kept": "dim", "unseen": "notice"}
_WORDS: Mapping[str, str] = {"unseen": "not seen", "same": "", "": ""}
_COLUMNS = (
    Column("", right=False, least=12),
    Column("before"),
    Column("after"),
    Column("change"),
    Column("", right=False),
)
_PAIRS = (
    Column("conversation", right=False, least=14, style="strong"),
    Column("turns"),
    Column("depth"),
    Column("cached", rank=2),
    Column("lost per call", rank=1),
    Column("cost per call", rank=3),
)


def changes(found: Changes, names: tuple[str, str], width: int, verbose: int) -> Iterator[Line]:
    for one in _lines(found, names, width, verbose):
        yield fit(one, width)


def _lines(found: Changes, names: tuple[str, str], width: int, verbose: int) -> Iterator[Line]:
    yield line(Run("before  ", "dim"), Run(escape(names[0]), "strong"))
    yield line(Run("after   ", "dim"), Run(escape(names[1]), "strong"))
    matched = sum(p.matched for p in found.pairs)
    note = f"{many(found.same_calls, 'call')} in {many(matched, 'conversation')}" if matched else "all calls"
    yield from heading("At the same turns" if matched else "No conversation has a counterpart", note, width)
    yield from table(_COLUMNS, [_row(f) for f in found.figures], width, 2)
    yield from heading("All calls", "", width)
    yield from table(
        _COLUMNS, [_row(Figure(name, unit, b, a, "")) for name, unit, b, a in rows(found)], width, 2
    )
    if len(found.pairs) > 1 or not matched:
        yield from heading("Conversations", "at the same turns, before → after", width)
        shown = found.pairs if verbose else found.pairs[:_SHOWN]
        yield from table(_PAIRS, [_pair(p) for p in shown], width, 2)
        yield from more(len(found.pairs) - len(shown), "conversation", 2)
    yield from _findings(found.findings, width, verbose)
    yield from heading("Worse" if found.worse else "Nothing is worse", "", width)
    for words in found.worse:
        yield from paragraph(escape(words), width, 2, "alarm")


def shown(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    if unit == "share":
        return f"{100 * value:.1f}%"
    if unit == "usd":
        return usd(value)
    return f"{value:,.2f}" if unit == "number" else f"{value:,.0f}"


def difference(f: Figure) -> str:
    if f.before is None or f.after is None:
        return NOTHING
    change = f.after - f.before
    if shown(f.before, f.unit) == shown(f.after, f.unit):
        return "="
    if f.unit == "share":
        return f"{100 * change:+.1f} points"
    if f.unit == "usd":
        return f"{100 * change / f.before:+.0f}%" if f.before else f"+{usd(change)}"
    return f"{change:+,.2f}" if f.unit == "number" else f"{change:+,.0f}"


def _row(f: Figure) -> list[Cell]:
    style = _STYLES.get(f.judged, "")
    word = _WORDS.get(f.judged, f.judged)
    return [
        f.name,
        shown(f.before, f.unit),
        shown(f.after, f.unit),
        Run(difference(f), style),
        Run(word, style),
    ]


def _pair(p: Pair) -> list[Cell]:
    old, new = p.turns
    if not p.matched:
        return [escape(p.name), f"{old or NOTHING} → {new or NOTHING}", Run("no counterpart", "notice")]
    by_name = {f.name: f for f in p.figures}
    cells: list[Cell] = [escape(p.name), f"{old} → {new}" if old != new else f"{old}"]
    for name in ("depth at the same turn", "cache hit ratio", "billed again per call", "cost per call"):
        f = by_name[name]
        cells.append(Run(f"{shown(f.before, f.unit)} → {shown(f.after, f.unit)}", _STYLES.get(f.judged, "")))
    return cells


def _findings(found: Sequence[FindingChange], width: int, verbose: int) -> Iterator[Line]:
    if not found:
        return
    yield from heading("Findings", "", width)
    seen = found if verbose else [f for f in found if f.severity != "info" or f.change != "kept"]
    room = max((len(f.change) + 1 for f in seen), default=0)
    for f in seen[: None if verbose else _SHOWN]:
        place = f" · {escape(f.place)}" if f.place else ""
        sizes = f"{f.tokens[0]:,} → {f.tokens[1]:,} tokens, {f.calls[0]:,} → {f.calls[1]:,} calls"
        yield line(
            "  ",
            Run(f"{f.change:<{room}}", _FOUND[f.change]),
            Run(f"{f.severity:<8}", "dim"),
            f"{f.kind}{place}",
        )
        yield from paragraph(sizes, width, 15, "dim")
    yield from more(len(found) - len(seen[: None if verbose else _SHOWN]), "finding", 2)
