"""Which history a call continues where none fits from its start: one that was edited, rewritten, compacted, or seen without
its beginning."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.conversations.compare import after, before, carries, other_hint, same_hint
from otel_ctx.conversations.memory import End, Memory, groups
from otel_ctx.model import Call, Relation, Segment

_OVERLAP = 0.5  # share of an earlier history that has to be there again to call it rewritten
_SHRUNK = 0.5  # a history that lost more than this, and whose rest is new, was compacted


def edited(memory: Memory, call: Call, end: End) -> End | None:
    """The newest state of a history that ``call`` shares with ``end`` only, and of which it says again what came after:
    a message in between was edited. Who goes back to ``end`` for something else says other things."""
    if not end.extended:
        return None
    old = memory.digests(end) | {s.digest for s in end.call.answer}
    again = {s.digest for s in after(call.prompt.messages, end.call.prompt.messages)} - old
    best: tuple[int, End] | None = None
    for _, e in _open(memory, call):
        later = memory.digests(e) - old
        shared = len(later & again)
        if shared >= max(2, _OVERLAP * min(len(later), len(again))) and (best is None or shared >= best[0]):
            best = shared, e
    return best[1] if best is not None else None


def by_overlap(memory: Memory, call: Call) -> tuple[End, Relation] | None:
    """Was a history rewritten, compacted, or seen without its beginning?"""
    chain = call.prompt.messages
    mine = frozenset(s.digest for s in chain if s.kind != "system")
    if not mine:
        return None
    carried = carries(chain)
    head_lost = "head" in call.completeness.lost
    best: tuple[bool, float, int, End] | None = None  # it says the answer again; the share; the place
    for i, e in _open(memory, call):
        theirs = memory.digests(e)
        if not theirs:
            continue
        answer = mine & {s.digest for s in e.call.answer}
        kept = len(mine & theirs)
        shared = kept / min(len(mine), len(theirs))
        lost_before = head_lost or "head" in e.call.completeness.lost
        if (
            carried
            and ((shared >= _OVERLAP and (lost_before or kept >= 2)) or (answer and kept))
            and (best is None or (bool(answer), shared, i) > best[:3])
        ):
            best = (bool(answer), shared, i, e)
    if best is not None:
        if head_lost or "head" in best[3].call.completeness.lost:
            return best[3], "continues"
        return best[3], "rewrites"
    compacted = _compacted(memory, call, carried)
    return (compacted, "compacted") if compacted is not None else None


def _open(memory: Memory, call: Call) -> Iterator[tuple[int, End]]:
    """The newest ends that nobody continued and that may be the call's, each with its place."""
    for i, e in enumerate(memory.newest):
        if not (e.void or e.extended) and before(e.call, call) and not other_hint(e.call, call):
            yield i, e


def _compacted(memory: Memory, call: Call, carried: bool) -> End | None:
    """A summary in the place of a long history: same agent, same session or trace, same tools, a much smaller window."""
    first = call.prompt.messages.first
    parent = memory.parent(call)
    for group in groups(call):
        for e in reversed(memory.by_group.get(group)):
            old = e.call
            if (
                e.extended
                or e.conversation == parent  # a sub-agent made like its parent, with a task of its own
                or not before(old, call)
                or other_hint(old, call)
                or old.agent != call.agent
                or _digests(old.prompt.tools) != _digests(call.prompt.tools)
            ):
                continue
            if old.prompt.messages.length < 6 or not _shrunk(old, call):
                continue
            same_system = _digests(old.prompt.system) == _digests(call.prompt.system)
            begins_alike = first is not None and first.digest in memory.digests(e)
            if same_system and (same_hint(old, call) or begins_alike or (carried and group[0] == "trace")):
                return e
    return None


def _digests(segments: tuple[Segment, ...]) -> tuple[str, ...]:
    return tuple(s.digest for s in segments)


def _shrunk(old: Call, new: Call) -> bool:
    was = old.usage.input or sum(old.prompt.messages.tokens_by_kind)
    now = new.usage.input or sum(new.prompt.messages.tokens_by_kind)
    return now < (1 - _SHRUNK) * was
