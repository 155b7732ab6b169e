"""``otelctx cache``: the prompt's prefix turn by turn, what of it was read, written and lost, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from otel_ctx.model import CacheTokens, Conversation, Reading
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.breaks import CHANGES, kept
from otel_ctx.outputs.text.cache import cache as _totals
from otel_ctx.outputs.text.layout import (
    BLANK,
    NOTHING,
    Line,
    Run,
    Style,
    clip_middle,
    facts,
    fitted,
    heading,
    legend,
    line,
    many,
    more,
    number,
    stacked,
)
from otel_ctx.outputs.text.view import View
from otel_ctx.outputs.views.prefix_map import Row, State, prefix_map

_INDENT = 2
_SHOWN = 5  # conversations
_LEAST_BAR, _LONGEST_BAR = 12, 80  # columns
_FIRST, _LAST, _NOTED = 2, 8, 14  # turns that are shown of a long conversation
_DRAWN: dict[State, tuple[str, Style, str]] = {
    "read": ("█", "good", "read"),
    "lost": ("×", "alarm", "lost: could have been read"),
    "written": ("▒", "notice", "written"),
    "fresh": ("░", "dim", "neither"),
    "unknown": ("·", "dim", "not reported"),
}


def prefixes(view: View, conversations: Sequence[Conversation]) -> Iterator[Line]:
    """Those that lost most first."""
    return fitted(_prefixes(view, conversations), view.width)


def _prefixes(view: View, conversations: Sequence[Conversation]) -> Iterator[Line]:
    shown = conversations[: view.limit(_SHOWN)]
    for conversation in shown:
        yield from _conversation(view, conversation)
    if len(shown) < len(conversations):
        yield BLANK
        yield from more(len(conversations) - len(shown), "conversation", 0)
    if conversations:
        yield from _totals(view)
    else:
        yield line(Run("No model call in this input.", "notice"))


def _conversation(view: View, conversation: Conversation) -> Iterator[Line]:
    name = clip_middle(view.name(conversation), max(view.width - 40, 16))
    turns = view.length(conversation)
    yield from heading("Prefix by turn", f"{name}, {turns}", view.width)
    yield BLANK
    rows = prefix_map(conversation, view.readings)
    widest = max((row.usage or 0 for row in rows), default=0)
    names = ["predicted", "reported", "optimal"]
    columns = [max(len(name), *(cells(_read(view, row, name)) for row in rows)) for name in names]
    depth = max(5, *(cells(number(row.usage)) for row in rows))
    room = view.width - _INDENT - 4 - 2 - depth - 2
    while names and room - sum(c + 2 for c in columns) < _LEAST_BAR:
        gone = 0 if len(names) == 3 else -1  # what is reported stays longest
        del names[gone], columns[gone]
    bar = min(room - sum(c + 2 for c in columns), _LONGEST_BAR)
    head = f"{'turn':>4}  {'depth':>{depth}}  " + " " * bar
    head += "".join(f"  {name:>{c}}" for name, c in zip(names, columns, strict=True))
    yield line(" " * _INDENT, Run(head, "dim"))
    hidden, said = 0, list[str]()
    chosen = None if view.verbose else _chosen(view, rows)
    for n, row in enumerate(rows):
        if chosen is not None and n not in chosen:
            hidden += 1
            continue
        if hidden:
            yield line(" " * _INDENT, Run(f"{'…':>4}  {many(hidden, 'turn')} (-v shows all)", "dim"))
            hidden = 0
        drawn = _bar(row, widest, bar)
        pad = bar - sum(cells(run.text) for run in drawn)
        yield line(
            " " * _INDENT,
            f"{row.turn:>4}  {number(row.usage):>{depth}}  ",
            *drawn,
            " " * pad,
            *(
                Run(f"  {_read(view, row, name):>{c}}", "" if name == row.source else "dim")
                for name, c in zip(names, columns, strict=True)
            ),
        )
        why, lost = _note(view.readings[row.call])
        if why or lost:
            yield from _under([*(["again"] if why and why == said else why), *lost], view.width)
        said = why or said
    if hidden:
        yield line(" " * _INDENT, Run(f"{'…':>4}  {many(hidden, 'turn')} (-v shows all)", "dim"))
    states = Counter(s.state for row in rows for s in row.stretches)
    known = [(Run(char, style), words) for state, (char, style, words) in _DRAWN.items() if states[state]]
    if any(row.break_at is not None for row in rows):
        known.append((Run("│", "alarm"), "the prefix broke"))
    yield from legend(known, view.width, _INDENT)
    if names:
        yield line(" " * _INDENT, Run(f"{', '.join(names)}: tokens read", "dim"))
    yield from _held(view, rows)


def _held(view: View, rows: Sequence[Row]) -> Iterator[Line]:
    held, broken, unknown = kept(view, [view.readings[row.call] for row in rows])
    words = []
    if held or broken:
        words.append(f"the prefix held in {held:,} of {many(held + broken, 'step')} from turn to turn")
    places = [(row.break_at, view.readings[row.call]) for row in rows if row.break_at is not None]
    if places and not any(r.call.completeness.lost & {"tools", "system"} for _, r in places):
        about = "" if all(r.tokens.method == "exact" for _, r in places) else "about "
        least = min(at for at, _ in places)
        words.append(f"where it broke, {about}{many(least, 'token')} or more had stayed the same")
    if unknown:
        words.append(f"{many(unknown, 'turn')} could not be compared")
    yield from facts(words, view.width, _INDENT, "" if broken or unknown else "good")


def _chosen(view: View, rows: Sequence[Row]) -> set[int] | None:
    """Of a long conversation the first turns, the last, and between them those with something to say."""
    if len(rows) <= _FIRST + _LAST + _NOTED:
        return None
    noted = [n for n, row in enumerate(rows) if _worth(view.readings[row.call])]
    return {*range(_FIRST), *range(len(rows) - _LAST, len(rows)), *noted[:_NOTED]}


def _worth(r: Reading) -> bool:
    return bool(r.break_ or r.wasted or r.cause)


def _bar(row: Row, widest: int, width: int) -> list[Run]:
    runs = stacked([(s.tokens, _DRAWN[s.state][0], _DRAWN[s.state][1]) for s in row.stretches], widest, width)
    if row.break_at is None or not widest:
        return runs
    end = sum(len(run.text) for run in runs)
    at, out = min(round(row.break_at * width / widest), end - 1), list[Run]()
    for run in runs:
        if 0 <= at < len(run.text):
            out += [Run(run.text[:at], run.style), Run("│", "alarm"), Run(run.text[at + 1 :], run.style)]
        else:
            out.append(run)
        at -= len(run.text)
    return [run for run in out if run.text]


def _read(view: View, row: Row, which: str) -> str:
    r = view.readings[row.call]
    if which == "reported":
        return number(r.call.usage.cache_read)
    tokens: CacheTokens | None = getattr(r.access, which) if r.access is not None else None
    return NOTHING if tokens is None else number(tokens.read)


def _note(r: Reading) -> tuple[list[str], list[str]]:
    """Where the prefix broke and why it missed, and what that cost."""
    words, at = [], r.break_
    if at is not None:
        place = f" at character {number(at.char_offset)}" if at.char_offset is not None else ""
        words.append(f"{escape(at.path)} {CHANGES[at.change]}{place}")
    if r.cause:
        words.append(f"{r.cause} ({r.evidence})")
    if r.unruled:
        words.append("no cache rule is known, nor what was lost")
    return words, [f"{number(r.wasted)} tokens lost"] if r.wasted else []


def _under(items: Sequence[str], width: int) -> Iterator[Line]:
    for n, one in enumerate(facts(items, width - 2, _INDENT + 4)):
        yield (*one[:1], Run("└ " if n == 0 else "  ", "dim"), *one[1:])
