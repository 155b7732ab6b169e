"""Requests that two files of logs hold: a copy of a log, or rotated logs that overlap.

One log may tell of equal requests one after the other or at once, and each is a request. A second file that tells the same
of the same instant is a copy. Without times only a run tells: a whole file that stands in another, or the end of one with
which the other begins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import NamedTuple

from otel_ctx.calls.told import Told, place_of

_LEAST = 2  # different records of a run: one that comes again may as well be a request that was made again
_LOOKED_AT = 64  # places where a run may begin

Pairs = Iterator[tuple[Told, Told]]


class _File(NamedTuple):
    told: list[Told]
    marks: list[int]


def copied(calls: list[Told], find: Callable[[str], str]) -> Pairs:
    """Pairs of one record each; never two of one file. ``find`` names the group that a telling was put into: requests that
    were answered by others are others."""
    files: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        if t.telling.record == "request":
            files[t.telling.trace_id].append(t)
    if len(files) < 2:
        return
    answers: dict[str, set[str]] = defaultdict(set)
    for t in calls:
        if t.telling.response_id:
            answers[find(t.id)].add(t.telling.response_id)
    for pairs in (_of_one_instant(files), _of_runs(files)):
        for t, other in pairs:
            mine, theirs = answers[find(t.id)], answers[find(other.id)]
            if not mine or not theirs or not mine.isdisjoint(theirs):
                yield t, other


def _mark(t: Told) -> Hashable:
    """All that a record tells, but where it stands."""
    segments = (*t.tools, *t.system, *t.answer)
    said = t.telling._replace(trace_id="", span_id="", parent_id="", where="")
    return said, t.messages.key, tuple((s.digest, s.call_id) for s in segments)


def _of_one_instant(files: dict[str, list[Told]]) -> Pairs:
    known: dict[Hashable, list[Told]] = defaultdict(list)
    for told in files.values():
        mine: Counter[Hashable] = Counter()
        for t in told:
            if not t.telling.start_unix_nano:
                continue
            mark = _mark(t)
            same, n = known[mark], mine[mark]
            mine[mark] += 1
            if n < len(same):
                yield t, same[n]
            else:
                same.append(t)


def _of_runs(files: dict[str, list[Told]]) -> Pairs:
    """Each file beside the one before it with which it has most in common: so no record is joined with one of its own file."""
    before: list[_File] = []
    numbers: dict[Hashable, int] = {}
    places: dict[int, list[tuple[int, int]]] = defaultdict(list)  # mark -> (file, place)
    heads: dict[int, list[int]] = defaultdict(list)  # mark -> files that begin with it
    for told in files.values():
        timeless = sorted((t for t in told if not t.telling.start_unix_nano), key=place_of)
        if len(timeless) < _LEAST:
            continue
        mine = _File(timeless, [numbers.setdefault(_mark(t), len(numbers)) for t in timeless])
        ends = ((n, at, 0) for n, at in places.get(mine.marks[0], ()))
        begins = ((n, 0, own) for own, mark in enumerate(mine.marks) for n in heads.get(mark, ()))
        found = [*islice(ends, _LOOKED_AT), *islice(begins, _LOOKED_AT)]
        length, n, at, own = max(
            ((_common(before[n].marks, at, mine.marks, own), n, at, own) for n, at, own in found),
            default=(0, 0, 0, 0),
            key=lambda run: run[0],
        )
        if len(set(mine.marks[own : own + length])) >= _LEAST:
            yield from zip(mine.told[own : own + length], before[n].told[at : at + length], strict=True)
        for at, mark in enumerate(mine.marks):
            places[mark].append((len(before), at))
        heads[mine.marks[0]].append(len(before))
        before.append(mine)


def _common(theirs: list[int], at: int, mine: list[int], own: int) -> int:
    """How long the run is that begins at two places, 0 where it stops before one of the lists does."""
    length = min(len(theirs) - at, len(mine) - own)
    return length if theirs[at : at + length] == mine[own : own + length] else 0
