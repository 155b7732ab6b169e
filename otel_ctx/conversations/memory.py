"""The memory of histories: which were last seen, by all that a later call may name them by. Bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ctx.memo import Memo
from otel_ctx.model import Call

_RECENT = 64  # open ends looked at when no history fits
_ANCESTORS = 8
_NAMES = 3  # that a history has, most of the time


@dataclass(slots=True, eq=False)
class End:
    """The last known state of a history: a later call may continue it."""

    call: Call
    conversation: str
    turn: int
    names: tuple[Hashable, ...] = ()  # by which a later call may know it
    next: End | None = None  # the call that continued or repeated it
    void: bool = False  # more was told of the call later, and it stands at another end

    @property
    def extended(self) -> bool:
        """Did a later call that went well continue it, or one of its retries?"""
        end = self.next
        while end is not None and (end.void or end.call.status != "ok"):
            end = end.next
        return end is not None


@dataclass(slots=True)
class _Recent:
    """What is remembered, each by the names it is asked for; the oldest leave first. ``each``: ends of one name. Most names
    have one, which stands there itself. ``waiting``: where another end comes, those that were continued leave."""

    size: int
    each: int = 16
    waiting: bool = False
    items: dict[Hashable, End | tuple[End, ...]] = field(default_factory=dict)

    def add(self, names: Iterable[Hashable], end: End) -> None:
        items = self.items
        for name in names:
            known = items.pop(name, None)
            if known is None:
                items[name] = end
                continue
            several = (known,) if isinstance(known, End) else known
            if self.waiting:
                several = tuple([e for e in several if not e.extended])
            items[name] = (*several, end)[-self.each :] if several else end
        while len(items) > self.size:
            del items[next(iter(items))]

    def get(self, name: Hashable) -> Sequence[End]:
        known = self.items.get(name, ())
        if isinstance(known, End):
            return () if known.void else (known,)
        return [end for end in known if not end.void] if known else ()

    def drop(self, names: Iterable[Hashable], end: End) -> list[Hashable]:
        """Forget ``end``; the names under which it was there."""
        items = self.items
        dropped = []
        for name in names:
            known = items.get(name, ())
            if known is end:
                del items[name]
            elif isinstance(known, tuple) and end in known:
                left = tuple([e for e in known if e is not end])
                if left:
                    items[name] = left if len(left) > 1 else left[0]
                else:
                    del items[name]
            else:
                continue
            dropped.append(name)
        return dropped


class _Ends:
    """Those that were continued stand first, and fewer of them are remembered."""

    def __init__(self, size: int) -> None:
        self._open = _Recent(size)
        self._continued = _Recent(max(_RECENT, size // 10))

    def add(self, end: End) -> None:
        self._open.add(end.names, end)

    def extended(self, end: End) -> None:
        self._continued.add(self._open.drop(end.names, end), end)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._open.items or name in self._continued.items

    def get(self, name: Hashable) -> Sequence[End]:
        continued, waiting = self._continued.get(name), self._open.get(name)
        return (*continued, *waiting) if continued else waiting


class Memory:
    """Ends by their names, by what calls of one conversation have in common, by the tool calls that they wait for; and the
    newest ones.

    ``parents``: (trace, span) to the span above it. ``size`` histories are remembered."""

    def __init__(self, parents: Mapping[tuple[str, str], str], size: int) -> None:
        self._parents = parents
        self._size = size
        self.ends = _Ends(_NAMES * size)
        self.by_group = _Recent(size, waiting=True)
        self.by_tool_call = _Recent(size)
        self.newest: deque[End] = deque(maxlen=_RECENT)
        self._digests: Memo[End, frozenset[str]] = Memo(4 * _RECENT)
        self._agents: dict[tuple[str, str], Call] = {}
        self._above: dict[tuple[str, str], tuple[int, str]] = {}

    def remember(self, end: End) -> None:
        call = end.call
        end.names = _names(call)
        self.ends.add(end)
        self.by_group.add(groups(call), end)
        self.by_tool_call.add(_asked(call), end)
        self.newest.append(end)
        if call.agent:
            self._agents[(end.conversation, call.agent)] = call
            if len(self._agents) > self._size:
                del self._agents[next(iter(self._agents))]
        for distance, key in self.ancestors(call):
            known = self._above.get(key)
            if known is None or distance < known[0]:
                self._above[key] = (distance, end.conversation)
        while len(self._above) > _ANCESTORS * self._size:
            del self._above[next(iter(self._above))]

    def leave(self, end: End) -> None:
        """What is continued is asked for less: only a fork or a repetition comes back to it."""
        self.ends.extended(end)
        self.by_tool_call.drop(_asked(end.call), end)

    def forget(self, call: Call) -> bool:
        """The end of ``call`` stands for nothing any more. False: another call continues it, or it is not known."""
        for group in groups(call):
            for end in self.by_group.get(group):
                if end.call.id == call.id:
                    if end.next is not None:
                        return False
                    end.void = True
                    for distance, key in self.ancestors(call):
                        if self._above.get(key) == (distance, end.conversation):
                            del self._above[key]
                    return True
        return False

    def digests(self, end: End) -> frozenset[str]:
        """Of the messages of ``end``: kept for those that were asked for of late, as they take more than the rest."""
        found = self._digests.get(end)
        if found is None:
            found = frozenset(s.digest for s in end.call.prompt.messages if s.kind != "system")
            self._digests.put(end, found)
        return found

    def last_of(self, conversation: str, agent: str) -> Call | None:
        """The last call of an agent in a conversation."""
        return self._agents.get((conversation, agent))

    def ancestors(self, call: Call) -> Iterator[tuple[int, tuple[str, str]]]:
        """The spans above a call, as far as they are known: (distance, (trace, span))."""
        span = call.parent_id
        for distance in range(1, _ANCESTORS + 1):
            if not span:
                return
            yield distance, (call.trace_id, span)
            span = self._parents.get((call.trace_id, span), "")

    def parent(self, call: Call) -> str | None:
        """The conversation that stands nearer to a common ancestor span: a sub-agent's parent."""
        for distance, key in self.ancestors(call):
            known = self._above.get(key)
            if known is not None and known[0] < distance and known[1] != call.id:
                return known[1]
        return None


def groups(call: Call) -> tuple[Hashable, ...]:
    """What calls of one conversation may have in common, the stronger first: a hint, marked as one, or the trace. Records of
    one log of requests do not."""
    hint = (("hint", call.conversation_hint),) if call.conversation_hint else ()
    return hint if call.record == "request" else (*hint, call.trace_id)


def _names(call: Call) -> tuple[Hashable, ...]:
    """What a later call may name it by: the key of its history, that and a part of its answer, the id of its response."""
    chain = call.prompt.messages
    response = (call.response_id,) if call.response_id else ()
    if not chain.length or "head" in call.completeness.lost:
        return response
    answered = dict.fromkeys([(chain.key, s.digest) for s in call.answer])
    return (chain.key, *answered, *response)


def _asked(call: Call) -> list[str]:
    """The ids of the tool calls that it waits for."""
    return [s.call_id for s in call.answer if s.kind == "tool_call" and s.call_id]
