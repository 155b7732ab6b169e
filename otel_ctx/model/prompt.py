"""What a call sends, part by part. Histories share what they have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import field
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from typing import NamedTuple

from otel_ctx.frozen import frozen
from otel_ctx.model.values import KINDS, Kind, Method


@frozen(frozen=True, slots=True)
class Segment:
    """One part of a prompt in the provider's order. The text is not here: ``Texts`` keeps it by ``digest``."""

    kind: Kind
    role: str
    name: str
    path: str
    bytes: int
    tokens: int | None
    method: Method
    digest: str  # 32 hex digits over kind, role, name and text: cache markers and call ids are no part of it
    cache_marker: str = ""
    call_id: str = ""
    inferred: bool = False  # restored from an earlier answer of the same conversation


class Section(tuple[Segment, ...]):
    """The segments of tools or of a system prompt. They come again with every call: what is summed up of them is kept."""

    @cached_property
    def counted(self) -> int:
        return sum([s.tokens or 0 for s in self])

    @cached_property
    def exact(self) -> bool:
        return all(s.method == "exact" for s in self if s.tokens is not None)

    @cached_property
    def bytes(self) -> int:
        return sum([s.bytes for s in self])

    @cached_property
    def marked(self) -> tuple[tuple[int, str], ...]:
        """(index, marker) of those that carry a cache marker."""
        return tuple([(i, s.cache_marker) for i, s in enumerate(self) if s.cache_marker])


NO_SECTION = Section()
ZERO = (0,) * len(KINDS)
KIND_INDEX: dict[str, int] = {k: i for i, k in enumerate(KINDS)}


class Awaited(NamedTuple):
    """Tool calls of a history whose results did not come yet, by their ids: those of the newest ``round`` of calls, and of
    ``earlier`` ones. ``over``: something else than calls came after the round. ``hole``: a later call has its result while an
    earlier one has none. No provider takes such a prompt, so a message is missing."""

    round: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    over: bool = False
    hole: bool = False

    def after(self, s: Segment) -> Awaited:
        if s.kind == "tool_call" and s.call_id:
            if self.over:
                return Awaited((s.call_id,), self.earlier + self.round, False, self.hole)
            return self if s.call_id in self.round else self._replace(round=(*self.round, s.call_id))
        if s.kind not in ("tool_result", "user"):
            return self
        if s.call_id not in self.round:
            if self.over and not self.earlier:
                return self
            return self._replace(earlier=tuple(i for i in self.earlier if i != s.call_id), over=True)
        rest = tuple(i for i in self.round if i != s.call_id)
        return Awaited(rest, self.earlier, True, self.hole or bool(self.earlier))


NOTHING_AWAITED = Awaited()


@frozen(frozen=True, slots=True, eq=False)
class Chain:
    """The message segments of a call: those of ``base`` (shared, not copied) and then ``new``.

    ``key`` names the content of the whole chain, system segments left out, so that equal keys mean equal histories;
    ``marks`` are the keys after each of the new segments. Sums are kept, so that a call that extends another costs
    only what is new in it.
    """

    base: Chain | None
    new: Sequence[Segment]
    length: int
    messages: int  # how many messages of the source they came from
    key: bytes
    marks: Sequence[bytes]
    tokens_by_kind: tuple[int, ...]  # in the order of KINDS
    bytes: int
    first: Segment | None  # that is not of the system prompt
    unmeasured: int  # segments without a token count
    estimated: int  # segments whose count is not exact
    # (index in the chain, marker) of those that carry a cache marker
    marked: tuple[tuple[int, str], ...] = ()
    opening: Segment | None = None  # the very first
    awaited: Awaited = NOTHING_AWAITED

    def __iter__(self) -> Iterator[Segment]:
        links = []
        link: Chain | None = self
        while link is not None:
            links.append(link.new)
            link = link.base
        for new in reversed(links):
            yield from new

    def __len__(self) -> int:
        return self.length

    def since(self, start: int) -> list[Segment]:
        """The segments from ``start`` on, without walking what lies before."""
        begin = self.length - len(self.new)
        if start >= begin:
            return list(self.new[start - begin :])
        links = []
        link: Chain | None = self
        end = self.length
        while link is not None and end > start:
            begin = end - len(link.new)
            links.append(link.new[max(0, start - begin) :])
            end, link = begin, link.base
        return [s for new in reversed(links) for s in new]


EMPTY_CHAIN = Chain(None, (), 0, 0, b"", (), ZERO, 0, None, 0, 0)


def grown(base: Chain, segments: Iterable[Segment], messages: int) -> Chain:
    """``base`` and then ``segments``; ``messages`` is the number of messages of the whole."""
    new = tuple(segments)
    key, marks, by_kind = base.key, [], list(base.tokens_by_kind)
    size, unmeasured, estimated = base.bytes, base.unmeasured, base.estimated
    marked, awaited, first = base.marked, base.awaited, base.first
    for index, s in enumerate(new, base.length):
        if s.cache_marker:
            marked += ((index, s.cache_marker),)
        if s.call_id or s.kind == "user":
            awaited = awaited.after(s)
        if s.kind != "system":
            key = blake2b(key + s.digest.encode(), digest_size=16).digest()
            first = first or s
        marks.append(key)
        size += s.bytes
        if s.tokens is None:
            unmeasured += 1
        else:
            by_kind[KIND_INDEX[s.kind]] += s.tokens
            estimated += s.method != "exact"
    return Chain(
        base if base.length else None, new, base.length + len(new), messages, key, tuple(marks), tuple(by_kind), size,
        first, unmeasured, estimated, marked, base.opening or (new[0] if new else None), awaited,
    )  # fmt: skip


@frozen(frozen=True, slots=True, eq=False)
class Prompt:
    """A call's segments, in the order tools, system, messages (a system message may also stand in ``messages``).

    ``counted`` is the sum of their tokens; ``exact`` says that every count is."""

    tools: Section
    system: Section
    messages: Chain
    counted: int = field(init=False)
    exact: bool = field(init=False)

    def __post_init__(self) -> None:
        tools, system, messages = self.tools, self.system, self.messages
        counted = tools.counted + system.counted + sum(messages.tokens_by_kind)
        object.__setattr__(self, "counted", counted)
        object.__setattr__(self, "exact", tools.exact and system.exact and not messages.estimated)

    def __iter__(self) -> Iterator[Segment]:
        yield from self.tools
        yield from self.system
        yield from self.messages

    def __len__(self) -> int:
        return len(self.tools) + len(self.system) + self.messages.length

    def since(self, start: int) -> list[Segment]:
        """The segments from ``start`` on."""
        ahead = len(self.tools) + len(self.system)
        if start >= ahead:
            return self.messages.since(start - ahead)
        return [*(*self.tools, *self.system)[start:], *self.messages]

    def marked(self) -> tuple[tuple[int, str], ...]:
        """(index, marker) of the segments that carry a cache marker."""
        tools, system, messages = self.tools, self.system, self.messages
        marked, ahead = tools.marked, len(tools)
        if system.marked:
            marked += tuple([(i + ahead, marker) for i, marker in system.marked])
        if messages.marked:
            ahead += len(system)
            marked += tuple([(i + ahead, marker) for i, marker in messages.marked])
        return marked


def replaced(gone: Sequence[Segment], rest: Sequence[Segment]) -> dict[int, int]:
    """Which pieces of ``gone`` stand changed at their place in ``rest``: index -> index. Both are what two prompts send from
    where they part on.

    A tool's place is its name, that of any other piece what it stands in front of. Messages are left out and summed up, too:
    of them a piece counts only where it stands alone between those that stayed, or is all that is gone."""
    was, now = {s.digest for s in gone}, {s.digest for s in rest}
    if len(gone) == 1:
        same = bool(rest) and gone[0].digest not in now and rest[0].digest not in was
        return {0: 0} if same and gone[0].kind == rest[0].kind else {}
    old, new = _unshared(gone, now), _unshared(rest, was)
    return {
        i: j
        for place, pieces in old.items()
        if len(pieces) == len(new.get(place, ())) and (place[0] != "messages" or len(pieces) == 1)
        for i, j in zip(pieces, new[place], strict=True)
        if gone[i].kind == rest[j].kind
    }


def _unshared(segments: Sequence[Segment], others: Set[str]) -> dict[tuple[str, str], list[int]]:
    """The indexes of those that are not among ``others``, by their places, from the last to the first."""
    head = sum(1 for _ in takewhile(lambda s: s.kind in ("tools", "system"), segments))
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    following = ""  # digest of the next one that is shared
    for i in range(len(segments) - 1, -1, -1):
        s = segments[i]
        if i == head - 1:
            following = ""
        if s.digest in others:
            following = s.digest
        elif s.kind == "tools":
            places["tools", s.name].append(i)
        elif i < head:
            places["system", following].append(i)
        elif following:
            places["messages", following].append(i)
    return places
