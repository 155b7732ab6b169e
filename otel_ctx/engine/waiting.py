"""What was told and has not settled, found by what it may be told of again: at the cost of what is near, not of all that waits.

Two spans tell of one call, or one of them of the other's sum, where they share a trace, an id of a request or a response, the
history of a stream, or, told by two instrumentations, the numbers or the first words. Records that may belong to anything
(transcripts, requests in logs, pieces of prompts, records without a span) are near everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, MutableMapping
from heapq import heappop, heappush
from typing import Generic, TypeVar

from otel_ctx.calls import Told, awaits_its_end, may_be_told_twice

K = TypeVar("K", bound=Hashable)


class Waiting(MutableMapping[K, Told], Generic[K]):
    def __init__(self) -> None:
        self._told: dict[K, Told] = {}
        self._keys: dict[Told, K] = {}
        self._near: dict[Hashable, dict[Told, None]] = {}
        self._sums: dict[Hashable, dict[Told, None]] = {}
        self._clothes: dict[Hashable, None] = {}  # scopes and dialects that there were
        self._anywhere = 0  # records that may belong to anything
        self._order: list[tuple[int, int, Told]] = []  # a heap by start; those that have left are still in it
        self._number = 0

    def __getitem__(self, key: K) -> Told:
        return self._told[key]

    def __len__(self) -> int:
        return len(self._told)

    def __iter__(self) -> Iterator[K]:
        return iter(self._told)

    def __setitem__(self, key: K, told: Told) -> None:
        if key in self._told:
            del self[key]
        self._told[key] = told
        self._keys[told] = key
        self._anywhere += _belongs_anywhere(told)
        self._clothes[_clothes(told)] = None
        for place in _places(told):
            self._near.setdefault(place, {})[told] = None
        if told.telling.role == "aggregate":
            self._sums.setdefault(_whose(told), {})[told] = None
        self._push(told)

    def __delitem__(self, key: K) -> None:
        told = self._told.pop(key)
        del self._keys[told]
        self._anywhere -= _belongs_anywhere(told)
        for place in _places(told):
            _drop(self._near, place, told)
        if told.telling.role == "aggregate":
            _drop(self._sums, _whose(told), told)

    def forget(self, told: Iterable[Told]) -> None:
        for t in told:
            if t in self._keys:
                del self[self._keys[t]]

    def has_span(self, told: Told) -> bool:
        """Is anything told of the same span?"""
        return any(t.id == told.id for t in self._near.get(("trace", told.telling.trace_id), ()))

    @property
    def is_local(self) -> bool:
        """Is it known of each what it is near to?"""
        return not self._anywhere

    def near(self, some: Iterable[Told]) -> list[Told]:
        """``some``, and all that may have to do with them, in the order in which it came."""
        if self._anywhere:
            return [*self._told.values()]
        found = dict.fromkeys(some)
        to_do = [*found]
        while to_do:
            for other in self._beside(to_do.pop()):
                if other not in found:
                    found[other] = None
                    to_do.append(other)
        return [t for t in found if t in self._keys]

    def _beside(self, told: Told) -> Iterator[Told]:
        for place in _places(told):
            if place[0] not in ("words", "output"):
                yield from self._near.get(place, ())
                continue
            *what, mine = place
            for theirs in self._clothes:  # of one library two spans are two calls
                if theirs != mine:
                    same = self._near.get((*what, theirs), ())
                    yield from (t for t in same if place[0] == "words" or may_be_told_twice(told, t))

    def sums_like(self, some: Iterable[Told]) -> list[Told]:
        """The other sums of the agents that any of ``some`` sums up."""
        some = dict.fromkeys(some)
        whose = {_whose(t) for t in some if t.telling.role == "aggregate"}
        return [t for agent in whose for t in self._sums.get(agent, ()) if t not in some]

    # ---- in the order of their starts

    def first_start(self) -> int | None:
        while self._order and self._order[0][2] not in self._keys:
            heappop(self._order)
        return self._order[0][0] if self._order else None

    def pop_first(self) -> Told:
        """To be put back, where it goes on waiting."""
        return heappop(self._order)[2]

    def put_back(self, told: Iterable[Told]) -> None:
        for t in told:
            if t in self._keys:
                self._push(t)

    def _push(self, told: Told) -> None:
        self._number += 1
        heappush(self._order, (told.telling.start_unix_nano, self._number, told))


def _drop(index: dict[Hashable, dict[Told, None]], place: Hashable, told: Told) -> None:
    of = index[place]
    del of[told]
    if not of:
        del index[place]


def _whose(told: Told) -> Hashable:
    t = told.telling
    return t.scope, t.service, t.agent or t.operation


def _belongs_anywhere(told: Told) -> bool:
    t = told.telling
    return (
        t.record != "span" or t.role == "piece" or bool(t.thread or t.names or not t.span_id or t.request_id)
    )


def _clothes(told: Told) -> Hashable:
    return told.telling.scope, told.telling.dialect


def _places(told: Told) -> Iterator[tuple[Hashable, ...]]:
    t, chain = told.telling, told.messages
    yield "trace", t.trace_id
    if t.response_id:
        yield "response", t.response_id
    if t.role != "call":
        return
    if chain.length and (awaits_its_end(told) or t.start_unix_nano == t.end_unix_nano):
        yield "stream", t.scope, t.request_model, chain.key
    if chain.first is not None:
        yield "words", chain.first.digest, _clothes(told)
    if t.usage is not None and t.usage.output is not None:
        yield "output", t.usage.output, _clothes(told)
        if t.usage.reasoning:
            yield "output", t.usage.output + t.usage.reasoning, _clothes(told)
