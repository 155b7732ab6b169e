"""Lines of the terminal report: runs of text with the name of a style, never wider than they may be.

What comes from telemetry is escaped before it gets here; who prints the lines gives the styles their colours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from otel_ctx.model import SECOND
from otel_ctx.outputs.escape import cells
from otel_ctx.outputs.views.words import many as many
from otel_ctx.outputs.views.words import percent as percent

Style = Literal[
    "", "title", "strong", "dim", "good", "notice", "alarm", "chart", "removed", "added",
    "tools", "system", "user", "assistant", "tool_call", "tool_result", "image", "file", "thinking", "other",
]  # fmt: skip
"""What a run is; the second line: of a stacked bar, the kind of segment."""

DOT = " · "
NOTHING = "–"
_LAST_SECOND = 253402300799  # of the year 9999


class Run(NamedTuple):
    text: str
    style: Style = ""


Line = tuple[Run, ...]

BLANK: Line = ()


def plain(line: Line) -> str:
    """The line without its styles, and without spaces at the end."""
    return "".join(run.text for run in line).rstrip()


def line(*runs: str | Run) -> Line:
    return tuple(run if isinstance(run, Run) else Run(run) for run in runs)


# ---- numbers and times


def number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def moment(unix_nano: int) -> datetime | None:
    """The second, in UTC; None where the time was not told or is none."""
    seconds = unix_nano // SECOND
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds <= _LAST_SECOND else None


def period(start_unix_nano: int, end_unix_nano: int) -> str:
    start, end = moment(start_unix_nano), moment(end_unix_nano)
    if start is None:
        return "times unknown"
    if end is None or end <= start:
        return f"{start:%Y-%m-%d %H:%M:%S} UTC"
    same_day = start.date() == end.date()
    return f"{start:%Y-%m-%d %H:%M:%S}{NOTHING}{end:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"


def usd(value: float) -> str:
    """``$12.30``; below ten cents to two figures that count."""
    if value < 0:
        return f"-{usd(-value)}"
    if value >= 0.1 or value == 0:
        return f"${value:,.2f}"
    return f"${value:.{max(2, 1 - math.floor(math.log10(abs(value))))}f}"


def usd_range(low: float | None, high: float | None) -> str:
    """``$0.037 to $0.071``; one number where both read the same, and a dash where none is known."""
    if low is None or high is None:
        return NOTHING
    return usd(high) if usd(low) == usd(high) else f"{usd(low)} to {usd(high)}"


def spans_of(numbers: Sequence[int]) -> str:
    """``2–8, 11`` for 2, 3, 4, 5, 6, 7, 8 and 11."""
    out: list[list[int]] = []
    for n in sorted(set(numbers)):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}{NOTHING if b > a + 1 else ', '}{b}" for a, b in out)


# ---- fitting


def clip(text: str, width: int) -> str:
    """``text``, shortened to ``width`` columns with an ellipsis."""
    if cells(text) <= width:
        return text
    return _start(text, max(width - 1, 0)) + "…" if width > 0 else ""


def clip_middle(text: str, width: int) -> str:
    """The same, but the end stays: for paths, whose end tells most."""
    if cells(text) <= width or width < 8:
        return clip(text, width)
    head = _start(text, width // 3)
    tail = _start(text[::-1], width - 1 - cells(head))[::-1]
    return f"{head}…{tail}"


def clip_path(text: str, width: int) -> str:
    """The place of a segment, with its names as letters where it is too wide: the numbers tell one from another."""
    if cells(text) <= width:
        return text
    return clip_middle(re.sub(r"\b(tools|system|messages|parts)(?=\[)", lambda name: name[0][0], text), width)


def _start(text: str, width: int) -> str:
    if text.isascii():
        return text[:width]
    used = 0
    for i, char in enumerate(text):
        used += cells(char)
        if used > width:
            return text[:i]
    return text


def fit(one: Line, width: int) -> Line:
    """The line, cut where it would be wider than ``width``."""
    left, out = width, []
    for run in one:
        if cells(run.text) > left:
            out.append(Run(clip(run.text, left), run.style))
            return tuple(out)
        left -= cells(run.text)
        out.append(run)
    return tuple(out)


def fitted(lines: Iterable[Line], width: int) -> Iterator[Line]:
    return (fit(one, width) for one in lines)


_JOINTS = re.compile(r".*[-_/=]", re.DOTALL)


def wrap(text: str, width: int, most: int = 0) -> list[str]:
    """``text`` in lines of at most ``width`` columns, broken between words where that is possible. A word that is wider
    but not wider than ``most`` is a line of its own: what is copied from it is whole."""
    lines, current = [], ""
    for word in _words(text, max(width, most)):
        if width < cells(word) <= most:
            lines += [current, word] if current else [word]
            current, word = "", ""
        while cells(word) > width:  # an id, a path
            room = width - cells(current) - 1 if current else width
            if room < min(16, width):
                lines.append(current)
                current, room = "", width
            piece = _start(word, room) or word[0]
            joint = _JOINTS.match(piece)
            piece = joint[0] if joint else piece
            lines.append(f"{current} {piece}" if current else piece)
            current, word = "", word[len(piece) :]
        if not word:
            continue
        if current and cells(current) + 1 + cells(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    if current:
        lines.append(current)
    return lines


def _words(text: str, most: int) -> Iterator[str]:
    """Of those wider than ``most`` the parts: the name of a variable, and its value."""
    for word in text.split():
        yield from re.split(r"(?<==)(?=.)", word) if cells(word) > most else [word]


def paragraph(text: str, width: int, indent: int, style: Style = "", lead: str = "") -> Iterator[Line]:
    """``text`` wrapped behind ``indent`` columns; ``lead`` stands before its first line, and the others under it. A word
    that has no room there begins further left."""
    left = indent + cells(lead)
    for i, part in enumerate(wrap(text, width - left, width)):
        start = min(left, max(width - cells(part), 0))
        if i == 0 and lead and start < left:
            yield line(Run(" " * indent + lead, "dim"))
        first = i == 0 and lead and start == left
        yield line(Run(" " * indent + lead, "dim") if first else " " * start, Run(part, style))


def facts(items: Iterable[str], width: int, indent: int, style: Style = "") -> Iterator[Line]:
    """Short facts side by side, with dots between them, on as many lines as that takes; never broken inside one."""
    current = ""
    for item in items:
        if current and indent + cells(current) + cells(DOT) + cells(item) > width:
            yield line(" " * indent, Run(current, style))
            current = item
        else:
            current = f"{current}{DOT}{item}" if current else item
    if current:
        yield line(" " * indent, Run(current, style))


def legend(items: Iterable[tuple[Run, str]], width: int, indent: int) -> Iterator[Line]:
    """What the characters of a chart stand for, each in its own style."""
    runs, used = list[Run](), indent
    for sample, words in items:
        size = cells(sample.text) + 1 + cells(words)
        if runs and used + cells(DOT) + size > width:
            yield (Run(" " * indent), *runs)
            runs, used = [], indent
        lead = DOT if runs else ""
        runs += [Run(lead, "dim"), sample, Run(f" {words}", "dim")]
        used += cells(lead) + size
    if runs:
        yield (Run(" " * indent), *runs)


def heading(title: str, note: str, width: int) -> Iterator[Line]:
    yield BLANK
    gap = width - cells(title) - cells(note)
    yield (
        line(Run(title, "title"), " " * max(gap, 2), Run(note, "dim")) if note else line(Run(title, "title"))
    )


def more(hidden: int, word: str, indent: int, note: str = "") -> Iterator[Line]:
    """The line that stands for what was left out."""
    if hidden > 0:
        count = many(hidden, word).replace(" ", " more ", 1)
        yield line(" " * indent, Run(f"… and {count}{note} (-v shows all)", "dim"))


def spaced(shown: Iterable[Iterable[Line]], hidden: int, word: str) -> Iterator[Line]:
    """Entries of several lines, and the line that stands for those that were left out."""
    for entry in shown:
        yield BLANK
        yield from entry
    if hidden > 0:
        yield BLANK
        yield from more(hidden, word, 2)


def bar(share: float, width: int, style: Style) -> Line:
    """A gauge: at least one block where there is anything, and never full before it is."""
    filled = min(width, int(share * width))
    if share > 0:
        filled = max(filled, 1)
    return line(Run("█" * filled, style), Run("░" * (width - filled), "dim"))


_EIGHTHS = " ▏▎▍▌▋▊▉"


def fine_bar(share: float, width: int) -> str:
    """A bar of a chart, to an eighth of a column."""
    eighths = max(1, round(min(share, 1.0) * width * 8)) if share > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def stacked(parts: Sequence[tuple[int, str, Style]], whole: int, width: int) -> list[Run]:
    """A bar of several parts (size, character, style) in a row, of which ``whole`` fills ``width`` columns. Ends are
    rounded, so that the parts together are as long as their sum."""
    runs, done, at = [], 0, 0
    for size, char, style in parts:
        done += size
        end = min(round(done * width / whole), width) if whole else 0
        if end > at:
            runs.append(Run(char * (end - at), style))
            at = end
    if not runs and done:
        _, char, style = max(parts)
        runs.append(Run(char, style))
    return runs
