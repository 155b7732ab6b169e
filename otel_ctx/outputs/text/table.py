"""Tables: columns as wide as what is in them, one that gives way, and those that are left out where there is no room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otel_ctx.outputs.escape import cells
from otel_ctx.outputs.text.layout import Line, Run, Style, clip_middle

_GAP = 2


class Column(NamedTuple):
    """``rank`` 0 is always there, the highest leaves first; ``least``: of a column that gives way, its narrowest width
    (0: it does not give way)."""

    name: str
    right: bool = True
    rank: int = 0
    least: int = 0
    style: Style = ""


Cell = str | Run


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, indent: int
) -> Iterator[Line]:
    """Cells are escaped text. A row may be shorter than the columns."""
    rows = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    widths = [
        max((cells(c.name), *(cells(_text(row[i])) for row in rows)), default=0)
        for i, c in enumerate(columns)
    ]
    shown = list(range(len(columns)))
    while _needed(columns, widths, shown) + indent > width and any(columns[i].rank for i in shown):
        shown.remove(max(shown, key=lambda i: (columns[i].rank, i)))
    over = sum(widths[i] + _GAP for i in shown) - _GAP + indent - width
    while over > 0 and (giving := [i for i in shown if widths[i] > columns[i].least > 0]):
        widths[max(giving, key=lambda i: widths[i] - columns[i].least)] -= 1
        over -= 1
    yield _line(columns, widths, shown, [Run(c.name, "dim") for c in columns], indent)
    for row in rows:
        yield _line(columns, widths, shown, row, indent)


def _needed(columns: Sequence[Column], widths: Sequence[int], shown: Sequence[int]) -> int:
    narrow = (min(widths[i], columns[i].least) if columns[i].least else widths[i] for i in shown)
    return sum(narrow) + _GAP * (len(shown) - 1)


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Run) else cell


def _line(
    columns: Sequence[Column], widths: Sequence[int], shown: Sequence[int], row: Sequence[Cell], indent: int
) -> Line:
    runs = [Run(" " * indent)]
    for n, i in enumerate(shown):
        cell = row[i]
        run = cell if isinstance(cell, Run) else Run(cell, columns[i].style)
        text = clip_middle(run.text, widths[i])
        pad = Run(" " * (widths[i] - cells(text)))
        runs += [Run(" " * _GAP)] if n else []
        runs += [pad, Run(text, run.style)] if columns[i].right else [Run(text, run.style), pad]
    return tuple(run for run in runs if run.text)
