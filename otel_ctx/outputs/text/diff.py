"""``otelctx diff``: two prompts side by side, and what they belong to in numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from otel_ctx.model import Segment
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    DOT,
    NOTHING,
    Line,
    Run,
    Style,
    clip,
    clip_path,
    facts,
    fitted,
    heading,
    line,
    many,
    more,
    number,
    paragraph,
    percent,
    usd,
)
from otel_ctx.outputs.text.table import Cell, Column, table
from otel_ctx.outputs.views.compare import Change, Comparison, Row
from otel_ctx.outputs.views.edits import Edit
from otel_ctx.outputs.views.names import name_of
from otel_ctx.outputs.views.sides import Difference, Side
from otel_ctx.outputs.views.summary import Summary

_INDENT = 2
_SHOWN = 12  # segments that are not the same
_HUNKS = 3  # changes in one segment
_AROUND = 30  # characters beside a change
_LONG = 160  # characters of one change
_SIGNS: dict[Change, tuple[str, Style]] = {
    "same": ("=", "dim"),
    "added": ("+", "added"),
    "evicted": ("-", "removed"),
    "moved": (">", "notice"),
    "changed": ("~", "notice"),
}
_WORDS: dict[Change, str] = {
    "same": "the same", "changed": "changed", "moved": "moved", "added": "added", "evicted": "evicted",
}  # fmt: skip
_MEDIA = ("image", "file")
_LOST = {"tools": "tool definitions", "system": "the system prompt", "messages": "the messages"}

TextOf = Callable[[str], str | None]


def diff(
    found: Difference, text: TextOf, *, width: int = 80, verbose: int = 0, show_text: bool = True
) -> Iterator[Line]:
    """``text`` knows the texts of both; without ``show_text`` none of it is shown."""
    return fitted(_diff(found, text, width, verbose, show_text), width)


def _diff(found: Difference, text: TextOf, width: int, verbose: int, show_text: bool) -> Iterator[Line]:
    yield from paragraph(escape(found.old.label), width, 0, "strong", "old  ")
    yield from paragraph(escape(found.new.label), width, 0, "strong", "new  ")
    if found.old.turn and found.new.turn:
        yield from _kinds(found.prompts, width)
    else:
        yield from summaries(found, width)
        yield from _which(found.old, found.new, width)
        yield from _kinds(found.prompts, width)
    yield from _prompts(found.prompts, text, width, verbose, show_text)


def _which(old: Side, new: Side, width: int) -> Iterator[Line]:
    words = f"turn {old.shown.turn} of the old, turn {new.shown.turn} of the new: the last that was seen of the deepest"
    yield from heading("Their prompts", "", width)
    yield from paragraph(words, width, _INDENT, "dim")


# ---- in numbers

_COLUMNS = (Column("", right=False), Column("old"), Column("new"), Column("change"))
_Field = tuple[str, Callable[[Summary], Any], Callable[[Any], str]]
_FIELDS: tuple[_Field, ...] = (
    ("conversations", lambda s: s.conversations, number),
    ("calls", lambda s: s.calls, number),
    ("depth at the end", lambda s: s.depth, number),
    ("deepest", lambda s: s.peak, number),
    ("tokens in", lambda s: s.input, number),
    ("read from the cache", lambda s: s.cache_read, number),
    ("cached share", lambda s: s.hit_ratio, lambda v: percent(v, 1)),
    ("billed again", lambda s: s.wasted, number),
    ("breaks of the prefix", lambda s: s.breaks, number),
    ("tokens out", lambda s: s.output, number),
    ("cost at list price", lambda s: s.usd, usd),
    ("cost, at least", lambda s: s.usd_at_least, usd),
    ("billed again in USD", lambda s: s.wasted_usd, usd),
)


def summaries(found: Difference, width: int) -> Iterator[Line]:
    """Both sides in numbers."""
    old, new = found.summaries
    rows: list[list[Cell]] = []
    for name, value, words in _FIELDS:
        a, b = value(old), value(new)
        if a is not None or b is not None:
            rows.append([name, _or_nothing(a, words), _or_nothing(b, words), _change(name, a, b, words)])
    models = [", ".join(map(escape, s.models)) or NOTHING for s in (old, new)]
    yield BLANK
    yield from table(_COLUMNS, rows, width, _INDENT)
    if models[0] != models[1]:
        yield from facts([f"model: {models[0]} → {models[1]}"], width, _INDENT, "notice")


def _or_nothing(value: Any, words: Callable[[Any], str]) -> str:
    return NOTHING if value is None else words(value)


def _change(name: str, a: Any, b: Any, words: Callable[[Any], str]) -> str:
    if a is None or b is None:
        return NOTHING
    if name == "cached share":
        points = round(100 * (b - a))
        return f"{points:+d} points" if points else "="
    return "=" if a == b else ("+" if b > a else "-") + words(abs(b - a))


_KIND_COLUMNS = (
    Column("kind", right=False),
    Column("old"),
    Column("new"),
    Column("change"),
)


def _kinds(prompts: Comparison, width: int) -> Iterator[Line]:
    rows: list[list[Cell]] = [
        [k.kind, number(k.before), number(k.after), _change("", k.before, k.after, number)]
        for k in prompts.kinds
    ]
    depths = prompts.old.context.usage, prompts.new.context.usage
    if None not in depths:
        words = [number(d) for d in depths]
        rows.append([
            Run("together", "strong"), Run(words[0], "strong"), Run(words[1], "strong"), _change("", *depths, number),
        ])  # fmt: skip
    if rows:
        yield BLANK
        yield from table(_KIND_COLUMNS, rows, width, _INDENT)


# ---- segment by segment


def _prompts(prompts: Comparison, text: TextOf, width: int, verbose: int, show_text: bool) -> Iterator[Line]:
    yield from heading("Segments", _tally(prompts), width)
    yield BLANK
    if not prompts.rows:
        why = "no prompt was seen" if prompts.unseen else "both prompts are empty"
        yield from paragraph(f"nothing to compare: {why}", width, _INDENT, "dim")
    limit = None if verbose else _SHOWN
    told = 0
    hidden = 0
    for change, rows in groupby(prompts.rows, key=lambda row: row.change):
        group = list(rows)
        if change == "same":
            if limit is None or told < limit:
                yield _same(group, width)
            continue
        for row in group:
            if limit is not None and told >= limit:
                hidden += 1
                continue
            told += 1
            yield from _row(row, text, width, verbose, show_text)
    yield from more(hidden, "segment", _INDENT)
    yield from _footnotes(prompts, width)


def _tally(prompts: Comparison) -> str:
    return DOT.join(
        f"{len(rows):,} {words}" for change, words in _WORDS.items() if (rows := prompts.of(change))
    )


def _same(rows: Sequence[Row], width: int) -> Line:
    size = sum(row.tokens_after or 0 for row in rows)
    places = [re.sub(r"\.parts\[\d+\]$", "", row.after.path) for row in rows if row.after]
    where = escape(places[0]) + (f" … {escape(places[-1])}" if places[-1] != places[0] else "")
    words = f"{many(len(rows), 'segment')} the same, {many(size, 'token')}"
    room = width - _INDENT - 2 - cells(words) - 2
    return line("  ", Run("= ", "dim"), Run(words, "dim"), Run(f"  {clip_path(where, max(room, 0))}", "dim"))


def _row(row: Row, text: TextOf, width: int, verbose: int, show_text: bool) -> Iterator[Line]:
    sign, style = _SIGNS[row.change]
    segment = row.after or row.before
    assert segment is not None
    what = [segment.kind if not segment.path.startswith(segment.kind) else "", escape(name_of(segment.name))]
    size = _size(row)
    place = f" at character {number(row.char_offset)}" if row.char_offset is not None else ""
    said = {"changed": f"changed{place}", "moved": "moved"}.get(row.change, "")
    end = ", ".join(filter(None, (said, size)))
    room = width - _INDENT - 2 - cells(end) - 2
    where = _path(row)
    name = " ".join(filter(None, what))
    shown = clip_path(where, room)
    named = clip(f" {name}", max(room - cells(shown), 0)) if name else ""
    gap = " " * max(room + 2 - cells(shown) - cells(named), 2)
    yield line("  ", Run(f"{sign} ", style), Run(shown, "strong"), named, gap, Run(end, "dim"))
    if not show_text or segment.kind in _MEDIA:
        return
    if row.edits is not None:
        yield from _edits(row.edits, width - _INDENT - 2, verbose)
        return
    sample = text(segment.digest)
    if row.change in ("added", "evicted") and sample:
        left = width - _INDENT - 2
        yield line("    ", Run(clip(escape(sample[: left + 1]), left), style))


def _path(row: Row) -> str:
    if row.before is None or row.after is None or row.before.path == row.after.path:
        return escape((row.after or row.before).path)  # type: ignore[union-attr]
    return f"{escape(row.before.path)} → {escape(row.after.path)}"


def _size(row: Row) -> str:
    a, b = row.tokens_before, row.tokens_after
    if row.change == "changed" and a is not None and b is not None and a != b:
        return f"{number(a)} → {number(b)} tokens"
    value = a if row.change == "evicted" else b
    return "" if value is None else many(value, "token")


def _edits(parts: Sequence[Edit], width: int, verbose: int) -> Iterator[Line]:
    """As ``git diff --word-diff`` writes it: what has gone in [-…-], what came in {+…+}, both with some text around.
    Changes that stand near each other share it: no character is written twice."""
    changes = list(_changes(parts))
    shown = changes if verbose else changes[:_HUNKS]
    for before, within, after in _hunks(parts, shown):
        room = max(width - sum(cells(run.text) for run in within), 0)
        lead = _end(before, min(room // 2, _AROUND))
        rest = clip(escape(after[: _AROUND + 1]), min(room - cells(lead), _AROUND))
        for one in _flowed([Run(lead), *within, Run(rest)], width):
            yield (Run("    "), *one)
    if len(shown) < len(changes):
        yield line(
            "    ", Run(f"… and {many(len(changes) - len(shown), 'more change')} in it (-v shows all)", "dim")
        )


def _end(text: str, room: int) -> str:
    """The end of ``text``, escaped."""
    shown = escape(text[-room - 1 :]) if room > 0 else ""
    while cells(shown) > room or (shown and len(text) > room and cells(shown) > room - 1):
        shown = shown[1:]
    return ("…" if len(shown) < len(text) and room else "") + shown


def _changes(parts: Sequence[Edit]) -> Iterator[tuple[int, int]]:
    """From where to where in ``parts`` each change goes: what was removed, what was added, or both."""
    start = 0
    for n, part in enumerate((*parts, Edit("same", "", 0))):
        if part.op == "same":
            if start < n:
                yield start, n
            start = n + 1


def _hunks(
    parts: Sequence[Edit], changes: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, Sequence[Run], str]]:
    """(text before, changes and the short texts between them, text after)"""
    near = [0]  # the changes that a hunk starts with
    near += [n for n, (start, _) in enumerate(changes) if n and len(parts[start - 1].text) > 2 * _AROUND]
    for first, end in zip(near, [*near[1:], len(changes)], strict=True):
        start, stop = changes[first][0], changes[end - 1][1]
        yield (
            parts[start - 1].text if start else "",
            [_marked(part) for part in parts[start:stop]],
            parts[stop].text if stop < len(parts) else "",
        )


def _marked(part: Edit) -> Run:
    if part.op == "removed":
        return Run(f"[-{_shorter(escape(part.text))}-]", "removed")
    if part.op == "added":
        return Run(f"{{+{_shorter(escape(part.text))}+}}", "added")
    return Run(escape(part.text))


def _shorter(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG // 2]} … {len(text) - _LONG:,} characters … {text[-_LONG // 2 :]}"


def _flowed(runs: Sequence[Run], width: int) -> Iterator[Line]:
    """The runs one behind the other on as many lines as they need, broken anywhere."""
    current: list[Run] = []
    left = width
    for run in runs:
        text = run.text
        while cells(text) > left:
            piece = _fitting(text, left)
            current.append(Run(piece, run.style))
            yield tuple(current)
            current, left, text = [], width, text[len(piece) :]
        if text:
            current.append(Run(text, run.style))
            left -= cells(text)
    if current:
        yield tuple(current)


def _fitting(text: str, room: int) -> str:
    used = 0
    for i, char in enumerate(text):
        used += cells(char)
        if used > room:
            return text[:i]
    return text


def _footnotes(prompts: Comparison, width: int) -> Iterator[Line]:
    if prompts.unseen:
        words = ", ".join(_LOST.get(name, name) for name in prompts.unseen)
        yield from paragraph(
            f"not compared, since one of the two was not seen whole: {words}", width, _INDENT, "notice"
        )
    if {prompts.old.tokens.method, prompts.new.tokens.method} & {"estimated", "calibrated"}:
        yield from paragraph("sizes of segments are estimates", width, _INDENT, "dim")
    marks = [_marks(r.call.prompt.marked(), list(r.call.prompt)) for r in (prompts.old, prompts.new)]
    if marks[0] != marks[1]:
        words = f"cache markers: {marks[0] or 'none'} → {marks[1] or 'none'}"
        yield from paragraph(escape(words), width, _INDENT, "dim")


def _marks(marked: Sequence[tuple[int, str]], segments: Sequence[Segment]) -> str:
    return ", ".join(segments[i].path for i, _ in marked)
