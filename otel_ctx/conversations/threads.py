"""The place of a call among the histories that are remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from otel_ctx.conversations.by_ids import by_group, by_response, by_server, summed_up
from otel_ctx.conversations.by_overlap import by_overlap, edited
from otel_ctx.conversations.by_prefix import by_prefix
from otel_ctx.conversations.compare import Text, carries, continues_or_forks, misses_an_answer, other_agent
from otel_ctx.conversations.memory import End, Memory
from otel_ctx.conversations.restore import restored
from otel_ctx.model import Call, Relation


class Placed(NamedTuple):
    """Where a call belongs.

    ``call`` is the call, its lost beginning restored where that could be done; ``previous`` is the call that it continues,
    ``compared`` the one whose prompt it should have kept (None after a hand-off to another agent, or where nothing was
    there to keep)."""

    call: Call
    conversation: str
    turn: int
    relation: Relation
    previous: Call | None
    compared: Call | None
    gap: bool
    parent: str | None


class Threads:
    """Places calls, which must come in the order of their starts. Bounded: ``size`` histories are remembered."""

    def __init__(self, parents: Mapping[tuple[str, str], str], text: Text, size: int = 20_000) -> None:
        self._memory = Memory(parents, size)
        self._text = text

    def place(self, call: Call) -> Placed:
        end, relation = self._continued(call)
        gap = False
        if end is None or relation in ("new", "forks", "joined"):
            conversation, turn = call.id, 1
            parent = end.conversation if end else self._memory.parent(call)
        else:
            conversation, turn, parent = end.conversation, end.turn + (relation != "repeats"), None
            gap = relation == "continues" and misses_an_answer(end.call, call)
        previous = end.call if end is not None and relation != "new" else None
        if previous is not None and "head" in call.completeness.lost:
            call = restored(call, previous)
        compared = (
            self._compared(call, conversation, previous)
            if relation in ("continues", "rewrites", "compacted")
            else None
        )
        mine = End(call, conversation, turn)
        if end is not None and conversation == end.conversation and not end.extended:
            end.next = mine
            if end.extended:
                self._memory.leave(end)
        self._memory.remember(mine)
        return Placed(call, conversation, turn, relation, previous, compared, gap, parent)

    def forget(self, call: Call) -> bool:
        """``call`` comes once more, with more told of it. False: another continues it already."""
        return self._memory.forget(call)

    def _continued(self, call: Call) -> tuple[End | None, Relation]:
        """Which history ``call`` goes on with, and how: what is said outright first, then content, then ids."""
        memory = self._memory
        whole = summed_up(memory, call)
        if whole is not None:
            return whole, "compacted"
        named = by_response(memory, call)
        if named is not None:
            return named, continues_or_forks(named, call, self._text)
        chain, lost = call.prompt.messages, call.completeness.lost
        unseen = not chain.length or not call.completeness.text_seen
        if unseen or "messages" in lost:  # histories that were cut may be equal by the cut alone
            known = by_group(memory, call)
            if known is not None:
                return known, "continues"
            if unseen:
                return None, "new"
        if "head" not in lost:
            found = by_prefix(memory, call, self._text)
            if found is not None:
                newer = edited(memory, call, found[0]) if found[1] != "repeats" else None
                return (newer, "rewrites") if newer is not None else found
        elif "server_side" in call.completeness.reasons:
            served = by_server(memory, call)
            if served is not None:
                return served, "continues"
        return by_overlap(memory, call, self._text) or (
            None,
            "joined" if carries(chain) or call.previous_response_id else "new",
        )

    def _compared(self, call: Call, conversation: str, previous: Call | None) -> Call | None:
        """The call whose prefix this one should have kept: the previous one of the same agent."""
        if previous is None:
            return None
        if call.agent and previous.agent and call.agent != previous.agent:
            return self._memory.last_of(conversation, call.agent)
        if not call.agent and other_agent(previous, call, self._text):
            return None
        return previous
