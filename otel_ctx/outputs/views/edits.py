"""Two texts side by side, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from otel_ctx.outputs.views.align import aligned

_MOST = 200_000  # characters between the common ends that are compared word by word
# Scripts without blanks between words, whose characters are words enough.
_ALONE = r"\u0e00-\u0eff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[^\W{_ALONE}]+|\s+|.", re.DOTALL)
_LETTERS = re.compile(rf"[^\W{_ALONE}]+")
_LONGEST = 40  # characters of a word
_LEAST = 3  # equal characters between two changes, for these to be told apart


class Edit(NamedTuple):
    """``start``: in the old text of what is the same or removed, in the new one of what is added. ``left_out``: characters
    of an equal text that an excerpt does not show, before its last half."""

    op: Literal["same", "removed", "added"]
    text: str
    start: int
    left_out: int = 0


def edits(old: str, new: str) -> tuple[Edit, ...]:
    """From ``old`` to ``new``: what is the same, removed and added, in reading order. Of very long texts the middle is
    one change. The texts of "same" and "removed" join to ``old``, those of "same" and "added" to ``new``."""
    head = common_start(old, new)
    tail = common_end(old, new, head)
    end_old, end_new = len(old) - tail, len(new) - tail
    # A word is not cut in two: what changes is read as a whole.
    back = _letters(old[max(head - _LONGEST, 0) : head][::-1])
    if back < _LONGEST and (_letters(old[head:end_old][:1]) or _letters(new[head:end_new][:1])):
        head -= back
    on = _letters(old[end_old:][:_LONGEST])
    if on < _LONGEST and (_letters(old[head:end_old][-1:]) or _letters(new[head:end_new][-1:])):
        end_old, end_new = end_old + on, end_new + on
    out = [Edit("same", old[:head], 0)] if head else []
    out += _middle(old[head:end_old], new[head:end_new], head)
    if end_old < len(old):
        out.append(Edit("same", old[end_old:], end_old))
    return tuple(_joined(out))


def _letters(text: str) -> int:
    """How many letters and digits it starts with."""
    found = _LETTERS.match(text)
    return found.end() if found else 0


def _middle(old: str, new: str, start: int) -> Iterator[Edit]:
    if len(old) + len(new) > _MOST:
        pairs: list[tuple[int, int]] = []
        words_old, words_new = [old], [new]
    else:
        words_old, words_new = _WORD.findall(old), _WORD.findall(new)
        pairs = _bridged(aligned(words_old, words_new), words_old, words_new)
    at_old, at_new = start, start
    i = j = 0
    for next_i, next_j in [*pairs, (len(words_old), len(words_new))]:
        removed, added = "".join(words_old[i:next_i]), "".join(words_new[j:next_j])
        if removed:
            yield Edit("removed", removed, at_old)
        if added:
            yield Edit("added", added, at_new)
        at_old, at_new = at_old + len(removed), at_new + len(added)
        if next_i < len(words_old):
            same = words_old[next_i]
            yield Edit("same", same, at_old)
            at_old, at_new = at_old + len(same), at_new + len(same)
        i, j = next_i + 1, next_j + 1


def _bridged(pairs: list[tuple[int, int]], old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Without equal runs between two changes that are blank or shorter than ``_LEAST`` characters: what changes around
    them is read as a whole. A run at an end of the texts stands between no two."""
    runs: list[list[tuple[int, int]]] = []
    for i, j in pairs:
        if runs and runs[-1][-1] == (i - 1, j - 1):
            runs[-1].append((i, j))
        else:
            runs.append([(i, j)])
    kept = []
    for run in runs:
        between = run[0] != (0, 0) and run[-1] != (len(old) - 1, len(new) - 1)
        text = "".join(old[i] for i, _ in run)
        if not between or (len(text) >= _LEAST and not text.isspace()):
            kept += run
    return kept


def _joined(parts: Sequence[Edit]) -> Iterator[Edit]:
    """Neighbours of one kind as one."""
    for op, group in groupby(parts, key=lambda part: part.op):
        first, *rest = group
        yield Edit(op, "".join((first.text, *(part.text for part in rest))), first.start)


def excerpt(parts: Sequence[Edit], around: int = 40) -> tuple[Edit, ...]:
    """The same with no more than ``around`` characters of equal text beside a change."""
    out = []
    for n, part in enumerate(parts):
        first, last = n == 0, n == len(parts) - 1
        room = (0 if first else around) + (0 if last else around)
        if part.op != "same" or len(part.text) <= room:
            out.append(part)
            continue
        head = "" if first else part.text[:around]
        tail = "" if last else part.text[len(part.text) - around :]
        out.append(Edit("same", head + tail, part.start, len(part.text) - len(head) - len(tail)))
    return tuple(out)


def common_start(a: str, b: str) -> int:
    """Length of the common beginning, by halving: a few comparisons of slices, not a loop over characters."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_end(a: str, b: str, start: int) -> int:
    """How many characters both end with, of those behind ``start``."""
    low, high = 0, min(len(a), len(b)) - start
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low
