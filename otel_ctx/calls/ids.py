"""Tellings with one response id -> which of them tell of one response.

An id can come back: from a test's provider, out of a cache, from a server that numbers nothing. Then it is told by another
service, long after, with another prompt, or again and again by one library or one log, whose every record is a request.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from otel_ctx.calls.beside import SAME_ID_NS, apart, one_model
from otel_ctx.calls.told import Told
from otel_ctx.model import Usage
from otel_ctx.usage import agree

_NOT_ASKED = ("system", "thinking")  # they are told in several ways, or not at all
_TWICE = 2
_LOOKED_AT = 64  # calls above one


def with_one_id(
    calls: Iterable[Told], usage: Mapping[str, Usage], inside: Mapping[str, Sequence[Told]]
) -> Iterator[tuple[Told, Told]]:
    """Pairs that tell of one response each. ``calls``: in the order of their starts; ``inside``: by id what stands right
    below."""
    told: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        if t.telling.response_id:
            told[t.telling.response_id].append(t)
    several = [same for same in told.values() if len(same) > 1]
    if not several:
        return
    below = {t.id: outer for outer, inner in inside.items() for t in inner}
    numbering = _numbering(told.values())
    for same in several:
        if not (
            _is_reused([t for t in same if t.id not in below]) or _comes_back(same, usage, below, numbering)
        ):
            yield from _pairs(same, usage)
            continue
        alike: dict[Hashable, list[Told]] = defaultdict(list)
        for t in same:
            alike[_asked(t)].append(t)
        for those in alike.values():
            if not _comes_back(those, usage, below, numbering):
                yield from _pairs(those, usage)
                continue
            for near in _at_once(those):
                if not _comes_back(near, usage, below, numbering):
                    yield from _pairs(near, usage)
                    continue
                named: dict[Hashable, list[Told]] = defaultdict(list)
                for t in near:
                    if t.telling.request_id and t.telling.record == "request":
                        named[t.telling.trace_id, t.telling.request_id].append(t)
                for one in named.values():
                    yield from _pairs(one, usage)


def _numbering(told: Iterable[Sequence[Told]]) -> frozenset[str]:
    """The logs that give each answer an id of its own, if they tell some of them twice."""
    ids: Counter[str] = Counter()
    constant: set[str] = set()
    for same in told:
        times = Counter(t.telling.trace_id for t in same if t.telling.record == "request")
        ids.update(times.keys())
        constant.update(file for file, n in times.items() if n > _TWICE)
    return frozenset(file for file, n in ids.items() if n > 1 and file not in constant)


def _comes_back(
    same: Iterable[Told], usage: Mapping[str, Usage], below: Mapping[str, str], numbering: frozenset[str]
) -> bool:
    """Does one library, or one log, tell of several requests under the id? One may tell of a request by a span inside
    another, by a record of what was asked and one of what was spent, or twice under one id of the request."""
    by_teller: dict[Hashable, list[Told]] = defaultdict(list)
    for t in same:
        if t.telling.record != "transcript":
            by_teller[_teller(t), bool(t.content), t.telling.usage is None].append(t)
    for own in by_teller.values():
        if len(own) < _TWICE:
            continue
        ids = {t.id for t in own}
        requests = {t.telling.request_id or t.id: t for t in own if not _is_below(t, ids, below)}
        if len(requests) > _TWICE or (
            len(requests) == _TWICE and not _written_twice(list(requests.values()), usage, numbering)
        ):
            return True
    return False


def _is_below(t: Told, ids: Container[str], below: Mapping[str, str]) -> bool:
    outer, steps = below.get(t.id, ""), 0
    while outer and outer not in ids and steps < _LOOKED_AT:  # broken parents may run in a circle
        outer, steps = below.get(outer, ""), steps + 1
    return outer in ids


def _written_twice(two: Sequence[Told], usage: Mapping[str, Usage], numbering: frozenset[str]) -> bool:
    """Has a log that numbers its answers written one exchange twice?"""
    a, b = two
    x, y = a.telling, b.telling
    return (
        x.trace_id in numbering
        and not (x.request_id and y.request_id)
        and not (dict(x.ids).keys() & dict(y.ids).keys() and x.ids != y.ids)
        and bool(x.start_unix_nano and y.start_unix_nano)
        and not apart(x, y)
        and _asked(a) == _asked(b)
        and agree(usage[a.id], usage[b.id])
    )


def _at_once(same: Iterable[Told]) -> list[list[Told]]:
    """Those that follow each other closely."""
    runs: list[list[Told]] = []
    for t in same:
        if runs and apart(runs[-1][-1].telling, t.telling) < SAME_ID_NS:
            runs[-1].append(t)
        else:
            runs.append([t])
    return runs


def _is_reused(same: Iterable[Told]) -> bool:
    """Does one library, or one log, tell of several prompts under the id? Then the id alone proves nothing."""
    prompts: dict[Hashable, bytes] = {}
    return any(
        prompts.setdefault(_teller(t), t.messages.key) != t.messages.key
        for t in same
        if t.messages.key and "messages" not in t.telling.lost and t.telling.record != "transcript"
    )


def _pairs(same: Sequence[Told], usage: Mapping[str, Usage]) -> Iterator[tuple[Told, Told]]:
    sure: bool | None = None
    for other, t in pairwise(same):
        a, b = t.telling, other.telling
        if a.service != b.service and a.service and b.service:
            continue
        if not a.start_unix_nano or not b.start_unix_nano:
            one = len({t.messages.key, other.messages.key} - {b""}) < 2
        elif apart(a, b) < SAME_ID_NS:
            one = True
        else:
            sure = _are_one(same, usage) if sure is None else sure
            one = sure
        if one:
            yield t, other


def _are_one(same: Sequence[Told], usage: Mapping[str, Usage]) -> bool:
    """Do several witnesses tell of one response, by clocks of their own or by the time of writing? Each tells it once, and
    all the same prompt, model and numbers. Spans have one clock, and so have transcripts."""
    by_witness: dict[str, list[Told]] = defaultdict(list)
    for t in same:
        by_witness[t.telling.trace_id if t.telling.record == "request" else t.telling.record].append(t)
    first = same[0]
    return (
        len(by_witness) > 1
        and all(
            apart(a.telling, b.telling) < SAME_ID_NS for own in by_witness.values() for a, b in pairwise(own)
        )
        and all(one_model(t.telling, first.telling) and agree(usage[t.id], usage[first.id]) for t in same)
        and len({_asked(t) for t in same if t.messages.length and "messages" not in t.telling.lost}) < 2
    )


def _asked(t: Told) -> Hashable:
    return tuple(s.digest for s in t.messages if s.kind not in _NOT_ASKED)


def _teller(t: Told) -> Hashable:
    said = t.telling
    return said.scope, said.dialect, said.service, said.trace_id if said.record != "span" else ""
