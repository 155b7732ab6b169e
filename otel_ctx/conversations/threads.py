"""The memory of histories, and the place of a call among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from otel_ctx.conversations.breaks import common_prefix
from otel_ctx.conversations.restore import restored
from otel_ctx.model import KIND_INDEX, Call, Chain, Prompt, Relation, Segment

_SKEW_NS = (
    20_000_000  # a call may start this long before the one it continues has ended (clocks of 1 ms, threads)
)
_RECENT = 64  # open ends looked at when no history fits
_OVERLAP = 0.5  # share of an earlier history that has to be there again to call it rewritten
_SHRUNK = 0.5  # a history that lost more than this, and whose rest is new, was compacted
_ALIKE = 0.2  # system prompts that have less than this in common belong to different agents
_COMMON = 24  # characters that any two have in common ("You are a helpful …"), half of a short one at most
_SAME = 0.8  # those that have this much in common are one, with a value in it that changes
_ANCESTORS = 8
_MODEL_KINDS = ("assistant", "tool_call", "thinking")


@dataclass(slots=True, eq=False)
class End:
    """The last known state of a history: a later call may continue it."""

    call: Call
    conversation: str
    turn: int
    digests: frozenset[str] | None = None  # of its messages, made when first asked for
    next: End | None = None  # the call that continued or repeated it
    void: bool = False  # more was told of the call later, and it stands at another end

    @property
    def extended(self) -> bool:
        """Did a later call that went well continue it, or one of its retries?"""
        end = self.next
        while end is not None and (end.void or end.call.status != "ok"):
            end = end.next
        return end is not None


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
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


@dataclass(slots=True)
class _Recent:
    """What is remembered, each by the key it is asked for; the oldest leave first. ``each``: ends of one key."""

    size: int
    each: int = 16
    items: dict[object, list[End]] = field(default_factory=dict)

    def add(self, key: object, end: End) -> None:
        ends = self.items.pop(key, [])
        ends.append(end)
        del ends[: -self.each]
        self.items[key] = ends
        if len(self.items) > self.size:
            del self.items[next(iter(self.items))]

    def get(self, key: object) -> list[End]:
        return [end for end in self.items.get(key, ()) if not end.void]

    def drop(self, key: object, end: End) -> bool:
        """Forget ``end``; was it there?"""
        ends = self.items.get(key)
        if ends is None or end not in ends:
            return False
        ends.remove(end)
        if not ends:
            del self.items[key]
        return True


class _Ends:
    """Ends of histories by key: those that were continued stand first, and fewer of them are remembered."""

    def __init__(self, size: int) -> None:
        self._open = _Recent(size)
        self._continued = _Recent(max(_RECENT, size // 10))

    def add(self, key: object, end: End) -> None:
        self._open.add(key, end)

    def extended(self, key: object, end: End) -> None:
        if self._open.drop(key, end):
            self._continued.add(key, end)

    def get(self, key: object) -> list[End]:
        return [*self._continued.get(key), *self._open.get(key)]


class Threads:
    """Places calls, which must come in the order of their starts. Bounded: ``size`` histories are remembered."""

    def __init__(
        self, parents: Mapping[tuple[str, str], str], text: Callable[[str], str | None], size: int = 20_000
    ) -> None:
        self._parents = parents
        self._text = text
        self._by_key = _Ends(size)
        self._by_answer = _Ends(size)
        self._by_response = _Ends(size)
        self._by_group = _Recent(size)
        self._by_tool_call = _Recent(size)
        self._open: deque[End] = deque(maxlen=_RECENT)
        self._agents: dict[tuple[str, str], Call] = {}
        self._above: dict[tuple[str, str], tuple[int, str]] = {}
        self._size = size

    def place(self, call: Call) -> Placed:
        end, relation = self._continued(call)
        gap = False
        if end is None or relation in ("new", "forks", "joined"):
            conversation, turn, parent = call.id, 1, end.conversation if end else self._parent(call)
        else:
            conversation, turn, parent = end.conversation, end.turn + (relation != "repeats"), None
            gap = relation == "continues" and _misses_an_answer(end.call, call)
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
                self._leave(end)
        self._remember(call, mine)
        return Placed(call, conversation, turn, relation, previous, compared, gap, parent)

    def forget(self, call: Call) -> bool:
        """``call`` comes once more, with more told of it. False: another continues it already."""
        for group in _groups(call):
            for end in self._by_group.get(group):
                if end.call.id == call.id:
                    if end.next is not None:
                        return False
                    end.void = True
                    for distance, key in self._ancestors(call):
                        if self._above.get(key) == (distance, end.conversation):
                            del self._above[key]
                    return True
        return False

    # ---- which history is continued

    def _continued(self, call: Call) -> tuple[End | None, Relation]:
        summed_up = self._summed_up(call) if call.compacted else None
        if summed_up is not None:
            return summed_up, "compacted"
        if call.previous_response_id:
            ends = self._by_response.get(call.previous_response_id)
            if ends:
                return ends[-1], self._continues_or_forks(ends[-1], call)
        chain = call.prompt.messages
        if not chain.length or call.completeness.status in ("usage_only", "none"):
            return self._by_ids(call)
        if "messages" in call.completeness.lost:  # histories that were cut may be equal by the cut alone
            known, relation = self._by_ids(call)
            if known is not None:
                return known, relation
        if "head" not in call.completeness.lost:
            found = self._by_prefix(call)
            if found is not None:
                edited = self._edited(call, found[0]) if found[1] != "repeats" else None
                return (edited, "rewrites") if edited is not None else found
        elif "server_side" in call.completeness.reasons:
            served = self._by_server(call)
            if served is not None:
                return served, "continues"
        found = self._by_overlap(call)
        if found is not None:
            return found
        carries = any(s.kind in _MODEL_KINDS or s.kind == "tool_result" for s in chain)
        return None, "joined" if carries or call.previous_response_id else "new"

    def _by_prefix(self, call: Call) -> tuple[End, Relation] | None:
        chain = call.prompt.messages
        repeated = self._repeated(call) if chain.key else None
        if repeated is not None and repeated.call.status != "ok":
            return repeated, "repeats"
        for key, following in _positions(chain):
            if not key or key == chain.key:
                continue  # nothing but a system prompt stands before this place; or nothing comes after it
            answered = self._by_answer.get((key, following.digest)) if following is not None else []
            fits = [
                e
                for e in answered or self._by_key.get(key)
                if _before(e.call, call) and not _foreign(e.call, call, following)
            ]
            if not fits:
                continue
            best = max(fits, key=lambda e: _score(e, call, following))
            if repeated is not None and (best.extended or not _answers(best.call, following)):
                break
            return best, self._continues_or_forks(best, call)
        if repeated is None:
            return None
        # histories that were cut may be equal by the cut alone
        return repeated, "continues" if "messages" in call.completeness.lost else "repeats"

    def _repeated(self, call: Call) -> End | None:
        """The same history once more: a retry, unless it is another session that begins with the same words, or another
        agent that is asked the same."""
        ends = self._by_key.get(call.prompt.messages.key)
        if not ends:
            return None
        grown = any(s.kind in _MODEL_KINDS for s in call.prompt.messages)
        for e in reversed(ends):
            if not _before(e.call, call) or _other_hint(e.call, call):
                continue
            told = _same_hint(e.call, call) and e.call.trace_id == call.trace_id
            if (told or grown or e.call.status != "ok") and self._same_setup(e.call.prompt, call.prompt):
                return e
        return None

    def _continues_or_forks(self, end: End, call: Call) -> Relation:
        if not end.extended or _same_hint(end.call, call) or self._was_aside(end, call):
            return "continues"
        return "forks"

    def _was_aside(self, end: End, call: Call) -> bool:
        """Was it another agent that took the history in between (to sum it up, say), and is this its own agent again?"""
        between = end.next
        return (
            between is not None
            and self._other_agent(end.call.prompt, between.call.prompt)
            and self._same_setup(end.call.prompt, call.prompt)
        )

    def _same_setup(self, old: Prompt, new: Prompt) -> bool:
        """The same tools, and the same system prompt but for a value that changes."""
        if {s.name for s in old.tools} != {s.name for s in new.tools}:
            return False
        a, b = _system(old), _system(new)
        if a is None or b is None or a.digest == b.digest:
            return a is b or (a is not None and b is not None)
        x, y = self._text(a.digest), self._text(b.digest)
        return x is not None and y is not None and _alike(x, y) >= _SAME * max(len(x), len(y))

    def _by_ids(self, call: Call) -> tuple[End | None, Relation]:
        """Without content only ids are left: the conversation's, else the trace's."""
        for group in _groups(call):
            for e in reversed(self._by_group.get(group)):
                if (
                    _before(e.call, call)
                    and e.call.agent == call.agent
                    and not _other_hint(e.call, call)
                    and self._same_run(e.call, call)
                ):
                    return e, "continues"
        return None, "new"

    def _same_run(self, old: Call, new: Call) -> bool:
        """Could the tree of spans have both in one run of an agent? A sub-agent's calls hang deeper than those around them;
        and where each hangs below a span of its own, as steps do, the window of a sub-agent starts anew."""
        if old.trace_id != new.trace_id:
            return True
        mine, theirs = ([key for _, key in self._ancestors(call)] for call in (new, old))
        common = next((key for key in mine if key in theirs), None)
        if common is None:
            return True
        steps = mine.index(common)
        if steps != theirs.index(common):
            return False
        return steps == 0 or (new.usage.input or 0) > (old.usage.input or 0)

    def _by_server(self, call: Call) -> End | None:
        """The history lies on the server: a tool result names the tool call that it answers; a growing input in the same
        trace or session is the next best word."""
        first = call.prompt.messages.first
        if first is not None and first.call_id and first.kind == "tool_result":
            ends = [e for e in self._by_tool_call.get(first.call_id) if _before(e.call, call)]
            if ends:
                return ends[-1]
        for group in _groups(call):
            for e in reversed(self._by_group.get(group)):
                grown = (call.usage.input or 0) >= (e.call.usage.input or 0)
                if _before(e.call, call) and grown and not e.extended and not _other_hint(e.call, call):
                    return e
        return None

    def _edited(self, call: Call, end: End) -> End | None:
        """The newest state of a history that ``call`` shares with ``end`` only, and of which it says again what came after:
        a message in between was edited. Who goes back to ``end`` for something else says other things."""
        if not end.extended:
            return None
        old = self._digests(end) | {s.digest for s in end.call.answer}
        again = {s.digest for s in _after(call.prompt.messages, end.call.prompt.messages)} - old
        best: tuple[int, End] | None = None
        for e in self._open:
            if e.void or e.extended or not _before(e.call, call) or _other_hint(e.call, call):
                continue
            later = self._digests(e) - old
            shared = len(later & again)
            if shared >= max(2, _OVERLAP * min(len(later), len(again))) and (
                best is None or shared >= best[0]
            ):
                best = shared, e
        return best[1] if best is not None else None

    def _by_overlap(self, call: Call) -> tuple[End, Relation] | None:
        """No history fits from its start: was one rewritten, compacted, or seen without its beginning?"""
        chain = call.prompt.messages
        mine = frozenset(s.digest for s in chain if s.kind != "system")
        if not mine:
            return None
        carries = any(s.kind in _MODEL_KINDS or s.kind == "tool_result" for s in chain)
        head_lost = "head" in call.completeness.lost
        best: tuple[bool, float, int, End] | None = None  # it says the answer again; the share; the place
        for i, e in enumerate(self._open):
            if e.void or e.extended or not _before(e.call, call) or _other_hint(e.call, call):
                continue
            theirs = self._digests(e)
            if not theirs:
                continue
            answer = mine & {s.digest for s in e.call.answer}
            shared = len(mine & theirs) / min(len(mine), len(theirs))
            lost_before = head_lost or "head" in e.call.completeness.lost
            kept = len(mine & theirs)
            if (
                carries
                and ((shared >= _OVERLAP and (lost_before or kept >= 2)) or (answer and kept))
                and (best is None or (bool(answer), shared, i) > best[:3])
            ):
                best = (bool(answer), shared, i, e)
        if best is not None:
            if head_lost or "head" in best[3].call.completeness.lost:
                return best[3], "continues"
            return best[3], "rewrites"
        return self._compaction(call, carries)

    def _summed_up(self, call: Call) -> End | None:
        """What the summary stands for, where the call itself says that it begins with one: the session as it was."""
        for e in reversed(self._by_group.get(("hint", call.conversation_hint))):
            if _before(e.call, call) and e.call.agent == call.agent:
                return e
        return None

    def _compaction(self, call: Call, carries: bool) -> tuple[End, Relation] | None:
        """A summary in the place of a long history: same agent, same session or trace, same tools, a much smaller window."""
        first = call.prompt.messages.first
        parent = self._parent(call)
        for group in _groups(call):
            for e in reversed(self._by_group.get(group)):
                old = e.call
                if (
                    e.extended
                    or e.conversation == parent  # a sub-agent made like its parent, with a task of its own
                    or not _before(old, call)
                    or _other_hint(old, call)
                    or old.agent != call.agent
                    or _digest(old.prompt.tools) != _digest(call.prompt.tools)
                ):
                    continue
                if old.prompt.messages.length < 6 or not _shrunk(old, call):
                    continue
                same_system = _digest(old.prompt.system) == _digest(call.prompt.system)
                begins_alike = first is not None and first.digest in self._digests(e)
                if same_system and (
                    _same_hint(old, call) or begins_alike or (carries and group[0] == "trace")
                ):
                    return e, "compacted"
        return None

    def _digests(self, end: End) -> frozenset[str]:
        if end.digests is None:
            end.digests = frozenset(s.digest for s in end.call.prompt.messages if s.kind != "system")
        return end.digests

    # ---- what it should have kept

    def _compared(self, call: Call, conversation: str, previous: Call | None) -> Call | None:
        """The call whose prefix this one should have kept: the previous one of the same agent."""
        if previous is None:
            return None
        if call.agent and previous.agent and call.agent != previous.agent:
            return self._agents.get((conversation, call.agent))
        if not call.agent and self._other_agent(previous.prompt, call.prompt):
            return None
        return previous

    def _other_agent(self, old: Prompt, new: Prompt) -> bool:
        """A system prompt with nothing in common with the one before: a hand-off, not a change."""
        a, b = _system(old), _system(new)
        if a is None or b is None or a.digest == b.digest:
            return False
        x, y = self._text(a.digest), self._text(b.digest)
        if x is None or y is None:
            return False
        shorter = min(len(x), len(y))
        return _alike(x, y) < max(_ALIKE * shorter, min(_COMMON, shorter / 2))

    # ---- memory

    def _leave(self, end: End) -> None:
        """What is continued is asked for less: only a fork or a repetition comes back to it."""
        call = end.call
        self._by_key.extended(call.prompt.messages.key, end)
        for answered in _answered(call):
            self._by_answer.extended(answered, end)
        self._by_response.extended(call.response_id, end)
        for s in call.answer:
            if s.kind == "tool_call" and s.call_id:
                self._by_tool_call.drop(s.call_id, end)

    def _remember(self, call: Call, end: End) -> None:
        chain = call.prompt.messages
        if chain.length and "head" not in call.completeness.lost:
            self._by_key.add(chain.key, end)
            for answered in _answered(call):
                self._by_answer.add(answered, end)
        for group in _groups(call):
            for old in [e for e in self._by_group.get(group) if e.extended]:
                self._by_group.drop(group, old)
            self._by_group.add(group, end)
        if call.response_id:
            self._by_response.add(call.response_id, end)
        for s in call.answer:
            if s.kind == "tool_call" and s.call_id:
                self._by_tool_call.add(s.call_id, end)
        self._open.append(end)
        if call.agent:
            self._agents[(end.conversation, call.agent)] = call
            if len(self._agents) > self._size:
                del self._agents[next(iter(self._agents))]
        for distance, key in self._ancestors(call):
            known = self._above.get(key)
            if known is None or distance < known[0]:
                self._above[key] = (distance, end.conversation)
        while len(self._above) > _ANCESTORS * self._size:
            del self._above[next(iter(self._above))]

    def _ancestors(self, call: Call) -> Iterator[tuple[int, tuple[str, str]]]:
        span = call.parent_id
        for distance in range(1, _ANCESTORS + 1):
            if not span:
                return
            yield distance, (call.trace_id, span)
            span = self._parents.get((call.trace_id, span), "")

    def _parent(self, call: Call) -> str | None:
        """The conversation that stands nearer to a common ancestor span: a sub-agent's parent."""
        for distance, key in self._ancestors(call):
            known = self._above.get(key)
            if known is not None and known[0] < distance and known[1] != call.id:
                return known[1]
        return None


def _positions(chain: Chain) -> Iterator[tuple[bytes, Segment | None]]:
    """Every place at which an earlier history may have ended, the longest first, with the segment that follows."""
    link: Chain | None = chain
    following: Segment | None = None
    while link is not None:
        for segment, key in zip(reversed(link.new), reversed(link.marks), strict=True):
            yield key, following
            following = segment
        link = link.base


def _before(old: Call, new: Call) -> bool:
    return old.end_unix_nano <= new.start_unix_nano + _SKEW_NS and old is not new


def _same_hint(a: Call, b: Call) -> bool:
    return bool(a.conversation_hint) and a.conversation_hint == b.conversation_hint


def _other_hint(a: Call, b: Call) -> bool:
    return (
        bool(a.conversation_hint) and bool(b.conversation_hint) and a.conversation_hint != b.conversation_hint
    )


def _answers(old: Call, following: Segment | None) -> bool:
    return following is not None and any(s.digest == following.digest for s in old.answer)


def _foreign(old: Call, new: Call, following: Segment | None) -> bool:
    """Ids say another session, and the answer that follows does not say otherwise."""
    return _other_hint(old, new) and not _answers(old, following)


def _score(end: End, call: Call, following: Segment | None) -> tuple[bool, bool, bool, bool, int]:
    old = end.call
    return (
        _answers(old, following),
        _same_hint(old, call),
        not end.extended,
        old.trace_id == call.trace_id,
        old.start_unix_nano,
    )


def _groups(call: Call) -> Iterator[tuple[str, str]]:
    """What calls of one conversation may have in common, the stronger first. Records of one log of requests do not."""
    if call.conversation_hint:
        yield "hint", call.conversation_hint
    if call.record != "request":
        yield "trace", call.trace_id


def _answered(call: Call) -> Iterator[tuple[bytes, str]]:
    """The history with each part of its answer: what a call that continues it goes on with."""
    for digest in {s.digest: None for s in call.answer}:
        yield call.prompt.messages.key, digest


def _digest(segments: tuple[Segment, ...]) -> tuple[str, ...]:
    return tuple(s.digest for s in segments)


def _system(prompt: Prompt) -> Segment | None:
    if prompt.system:
        return prompt.system[0]
    if not prompt.messages.tokens_by_kind[KIND_INDEX["system"]]:
        return None
    first = next(iter(prompt.messages), None)
    return first if first is not None and first.kind == "system" else None


def _shrunk(old: Call, new: Call) -> bool:
    before = old.usage.input or sum(old.prompt.messages.tokens_by_kind)
    after = new.usage.input or sum(new.prompt.messages.tokens_by_kind)
    return after < (1 - _SHRUNK) * before


def _misses_an_answer(old: Call, new: Call) -> bool:
    """More than one answer of the model stands between the two calls: one call in between was not seen."""
    answer = {s.digest for s in old.answer}
    runs, inside, answered = 0, False, False
    for s in _after(new.prompt.messages, old.prompt.messages):
        is_model = s.kind in _MODEL_KINDS
        known = is_model and s.digest in answer  # its parts may stand one by one, each before its result
        answered |= known
        runs += is_model and not known and not inside
        inside = is_model
    return runs + answered > 1


def _after(chain: Chain, old: Chain) -> list[Segment]:
    """The segments of ``chain`` beyond the content of ``old``."""
    out: list[Segment] = []
    link: Chain | None = chain
    while link is not None:
        for segment, key in zip(reversed(link.new), reversed(link.marks), strict=True):
            if key == old.key:
                return out[::-1]
            out.append(segment)
        link = link.base
    return []


def _alike(a: str, b: str) -> int:
    """Characters that two texts have in common at their beginnings and ends."""
    head = common_prefix(a, b)
    return head + common_prefix(a[head:][::-1], b[head:][::-1])
