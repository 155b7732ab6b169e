"""Conversations as they stand now, from readings that still come: a row for each, the newest first.

A call is heard when its span arrives and once more when it has settled; the second time takes the place of the first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from otel_ctx.memo import Memo
from otel_ctx.model import Band, Reading, Said

_KNOWN = 100_000  # calls that are known not to be new


@dataclass(frozen=True, slots=True)
class Row:
    """``usage``, ``limit``, ``turns_left`` and ``band`` of the newest call; the rest of all. ``broke``: the last break and
    its turn; ``hit_ratio``: of the input of calls that report it."""

    conversation: str
    service: str
    agent: str
    model: str
    turn: int
    usage: int | None
    limit: int | None
    turns_left: float | None
    band: Band
    lost: int
    usd: tuple[float, float] | None  # at least, at most
    hit_ratio: float | None
    broke: tuple[int, str, str] | None  # turn, path, kind of finding
    seen_unix_nano: int


@dataclass(slots=True)
class _Sums:
    """Of the calls that have settled."""

    lost: int = 0
    usd: tuple[float, float] | None = None
    read: int = 0
    input: int = 0

    def add(self, r: Reading) -> None:
        self.lost += r.wasted
        if r.cost is not None:
            low, high = self.usd or (0.0, 0.0)
            self.usd = low + r.cost.low, high + r.cost.high
        if r.call.usage.input and r.call.usage.cache_read is not None:
            self.read += r.call.usage.cache_read
            self.input += r.call.usage.input


@dataclass(slots=True)
class _Conversation:
    newest: Reading
    settled: _Sums = field(default_factory=_Sums)
    open: dict[str, Reading] = field(default_factory=dict)  # by call id
    broke: Reading | None = None


class Board:
    """``most``: conversations; the longest silent leave first. ``fresh``: calls that were not heard before, for whoever
    takes them away."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._conversations: OrderedDict[str, _Conversation] = OrderedDict()
        self._homes: dict[str, str] = {}  # of calls that have not settled
        self._known: Memo[str, bool] = Memo(_KNOWN)
        self.fresh: list[Reading] = []

    def hear(self, said: Iterable[Said], *, settled: bool) -> None:
        for one in said:
            if not one.again:
                self._take(one.reading, settled)

    def replace(self, readings: Iterable[Reading]) -> None:
        """All of it anew: what was read again as a whole."""
        self._conversations.clear()
        self._homes.clear()
        for r in readings:
            self._take(r, True)

    def rows(self) -> list[Row]:
        found = [_row(c) for c in self._conversations.values()]
        return sorted(found, key=lambda row: -row.seen_unix_nano)

    def _take(self, r: Reading, settled: bool) -> None:
        id_ = r.call.id
        if self._known.get(id_) is None:
            self.fresh.append(r)
        self._known.put(id_, True)
        before = self._homes.pop(id_, None)
        home = self._conversations.get(before) if before is not None else None
        if home is not None and before is not None:
            home.open.pop(id_, None)
            if before != r.conversation and not home.open and home.newest.call.id == id_:
                self._conversations.pop(before, None)  # it was another one's after all
        conversation = self._conversations.get(r.conversation)
        if conversation is None:
            conversation = _Conversation(r)
        elif r.call.start_unix_nano >= conversation.newest.call.start_unix_nano:
            conversation.newest = r
        if settled:
            conversation.settled.add(r)
        else:
            conversation.open[id_] = r
            self._homes[id_] = r.conversation
        if r.break_ is not None and (conversation.broke is None or r.turn >= conversation.broke.turn):
            conversation.broke = r
        self._conversations[r.conversation] = conversation
        self._conversations.move_to_end(r.conversation)
        if len(self._conversations) > self._most:
            self._conversations.popitem(last=False)


def _row(c: _Conversation) -> Row:
    r, sums = c.newest, _Sums(c.settled.lost, c.settled.usd, c.settled.read, c.settled.input)
    for each in c.open.values():
        sums.add(each)
    broke = None
    if c.broke is not None and c.broke.break_ is not None:
        broke = c.broke.turn, c.broke.break_.path, c.broke.cause or next(iter(c.broke.findings), "")
    return Row(
        r.conversation,
        r.call.service,
        r.call.agent,
        r.call.model,
        r.turn,
        r.context.usage,
        r.context.limit,
        r.context.headroom_turns,
        r.context.band,
        sums.lost,
        sums.usd,
        sums.read / sums.input if sums.input else None,
        broke,
        r.call.start_unix_nano,
    )
