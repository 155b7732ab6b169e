"""Tellings with one response id -> which of them tell of one response.

An id can come back: from a test's provider, out of a cache, from a server that numbers nothing. Then it is told by another
service, long after, or with another prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from otel_ctx.calls.beside import SAME_ID_NS, apart, one_model
from otel_ctx.calls.told import Told
from otel_ctx.model import Usage
from otel_ctx.usage import agree

_NOT_ASKED = ("system", "thinking")  # they are told in several ways, or not at all


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
    below = {t.id for inner in inside.values() for t in inner}
    for same in several:
        if not _is_reused([t for t in same if t.id not in below]):
            yield from _pairs(same, usage)
            continue
        alike: dict[Hashable, list[Told]] = defaultdict(list)
        for t in same:
            alike[_asked(t)].append(t)
        for those in alike.values():
            yield from _pairs(those, usage)


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
