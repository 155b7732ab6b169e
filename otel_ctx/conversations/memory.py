"""The memory of histories: which were last seen, by all that a later call may name them by. Bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ctx.memo import Memo
from otel_ctx.model import Call

_RECENT = 64  # open ends looked at when no history fits
_ANCESTORS = 8


@dataclass(slots=True, eq=False)
class End:
    """The last known state of a history: a later call may continue it."""

    call: Call
    conversation: str
    turn: int
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
    """What is remembered, each by the key it is asked for; the oldest leave first. ``each``: ends of one key. Most keys have
    one, which stands there itself."""

    size: int
    each: int = 16
    items: dict[Hashable, End | tuple[End, ...]] = field(default_factory=dict)

    def add(self, key: Hashable, end: End) -> None:
        items = self.items
        known = items.pop(key, None)
        if known is None:
            items[key] = end
        else:
            items[key] = (*(known if isinstance(known, tuple) else (known,)), end)[-self.each :]
        if len(items) > self.size:
            del items[next(iter(items))]

    def get(self, key: Hashable) -> Sequence[End]:
        known = self.items.get(key, ())
        if isinstance(known, End):
            return () if known.void else (known,)
        return [end for end in known if not end.void] if known else ()

    def drop(self, key: Hashable, end: End) -> bool:
        """Forget ``end``; was it there?"""
        known = self.items.get(key)
        if known is not end and (not isinstance(known, tuple) or end not in known):
            return False
        left = tuple(e for e in known if e is not end) if isinstance(known, tuple) else ()
        if left:
            self.items[key] = left if len(left) > 1 else left[0]
        else:
            del self.items[key]
        return True


class _Ends:
    """Ends of histories by key: those that were continued stand first, and fewer of them are remembered."""

    def __init__(self, size: int) -> None:
        self._open = _Recent(size)
        self._continued = _Recent(max(_RECENT, size // 10))

    def add(self, key: Hashable, end: End) -> None:
        self._open.add(key, end)

    def extended(self, key: Hashable, end: End) -> None:
        if self._open.drop(key, end):
            self._continued.add(key, end)

    def get(self, key: Hashable) -> Sequence[End]:
        continued, newest = self._continued.get(key), self._open.get(key)
        return (*continued, *newest) if continued else newest


class Memory:
    """Ends by the key of their history, by its key and a part of their answer, by the id of their response, by what calls
    of one conversation have in common, by the tool calls that they wait for; and the newest ones.

    ``parents``: (trace, span) to the span above it. ``size`` histories are remembered."""

    def __init__(self, parents: Mapping[tuple[str, str], str], size: int) -> None:
        self._parents = parents
        self._size = size
        self.by_key = _Ends(size)
        self.by_answer = _Ends(size)
        self.by_response = _Ends(size)
        self.by_group = _Recent(size)
        self.by_tool_call = _Recent(size)
        self.newest: deque[End] = deque(maxlen=_RECENT)
        self._digests: Memo[End, frozenset[str]] = Memo(4 * _RECENT)
        self._agents: dict[tuple[str, str], Call] = {}
        self._above: dict[tuple[str, str], tuple[int, str]] = {}

    def remember(self, end: End) -> None:
        call = end.call
        chain = call.prompt.messages
        if chain.length and "head" not in call.completeness.lost:
            self.by_key.add(chain.key, end)
            for answered in _answered(call):
                self.by_answer.add(answered, end)
        for group in groups(call):
            for old in [e for e in self.by_group.get(group) if e.extended]:
                self.by_group.drop(group, old)
            self.by_group.add(group, end)
        if call.response_id:
            self.by_response.add(call.response_id, end)
        for s in call.answer:
            if s.kind == "tool_call" and s.call_id:
                self.by_tool_call.add(s.call_id, end)
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
        call = end.call
        self.by_key.extended(call.prompt.messages.key, end)
        for answered in _answered(call):
            self.by_answer.extended(answered, end)
        self.by_response.extended(call.response_id, end)
        for s in call.answer:
            if s.kind == "tool_call" and s.call_id:
                self.by_tool_call.drop(s.call_id, end)

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


def _answered(call: Call) -> list[tuple[bytes, str]]:
    """The history with each part of its answer: what a call that continues it goes on with."""
    key = call.prompt.messages.key
    return [(key, digest) for digest in {s.digest: None for s in call.answer}]
