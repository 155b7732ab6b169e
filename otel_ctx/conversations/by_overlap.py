"""Which history a call continues where none fits from its start: one that was edited, rewritten, compacted, or seen without
its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from otel_ctx.conversations.compare import (
    SAME,
    Text,
    after,
    before,
    carries,
    other_hint,
    same_hint,
    same_session,
    same_setup,
    shrunk,
)
from otel_ctx.conversations.memory import End, Memory, groups
from otel_ctx.model import KIND_INDEX, MODEL_KINDS, Call, Chain, Prompt, Relation, Segment
from otel_ctx.parts.texts import adds_summary, in_common, is_summary, says_summary

_SYSTEM = KIND_INDEX["system"]
_OVERLAP = 0.5  # share of an earlier history that has to be there again to call it rewritten


def edited(memory: Memory, call: Call, end: End) -> End | None:
    """The newest state of a history that ``call`` shares with ``end`` only, and of which it says again what came after:
    a message in between was edited. Who goes back to ``end`` for something else says other things."""
    if not end.extended:
        return None
    start = end.call.prompt.messages
    old, answered = memory.digests(end), {s.digest for s in end.call.answer}
    beyond = [
        s for s in after(call.prompt.messages, start) if s.digest not in old and s.digest not in answered
    ]
    again = {s.digest for s in beyond}
    best: tuple[int, End] | None = None
    for _, e in _open(memory, call):
        theirs = memory.digests(e)
        shared = len(again & theirs)
        if not shared or (best is not None and shared < best[0]):
            continue
        most = shared >= 2 and shared >= _OVERLAP * min(len(theirs - old - answered), len(again))
        if most or _goes_on(e.call, call, start, beyond):
            best = shared, e
    return best[1] if best is not None else None


def _goes_on(old: Call, new: Call, start: Chain, beyond: list[Segment]) -> bool:
    """Does ``new`` say again what little ``old`` has behind ``start``, and what the model said to it? A fork with the same
    words is first seen without an answer to them."""
    later = after(old.prompt.messages, start)
    words = {s.digest for s in later}
    last = max((i for i, s in enumerate(beyond) if s.digest in words), default=len(beyond))
    behind = beyond[last + 1 :]
    if {s.digest for s in behind} & {s.digest for s in old.answer}:
        return True
    told = {s.digest for s in later if s.kind not in MODEL_KINDS}
    answered = any(s.kind in MODEL_KINDS for s in behind)
    said = {s.digest for s in after(new.prompt.messages, start)}
    return answered and bool(told) and told <= said and same_session(old, new)


def by_overlap(memory: Memory, call: Call, text: Text) -> tuple[End, Relation] | None:
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
            and (
                (shared >= _OVERLAP and (lost_before or kept >= 2))
                or (answer and (kept or _begins_with_answer(e.call, call)))
                or _asks_alike(e.call, call, text)
            )
            and (best is None or (bool(answer), shared, i) > best[:3])
        ):
            best = (bool(answer), shared, i, e)
    if best is not None:
        if head_lost or "head" in best[3].call.completeness.lost:
            return best[3], "continues"
        return best[3], "rewrites"
    compacted = _compacted(memory, call, carried, text)
    return (compacted, "compacted") if compacted is not None else None


def _open(memory: Memory, call: Call) -> Iterator[tuple[int, End]]:
    """The newest ends that nobody continued and that may be the call's, each with its place."""
    for i, e in enumerate(memory.newest):
        if not (e.void or e.extended) and before(e.call, call) and not other_hint(e.call, call):
            yield i, e


def _begins_with_answer(old: Call, new: Call) -> bool:
    """Is it the call after the first of one agent's session or trace, whose only question it says in other words?"""
    return (
        old.agent == new.agent
        and not carries(old.prompt.messages)
        and not set(groups(old)).isdisjoint(groups(new))
        and {s.name for s in old.prompt.tools} == {s.name for s in new.prompt.tools}
    )


def _asks_alike(old: Call, new: Call, text: Text) -> bool:
    """The same of a session that both name: the question is the same but for a value in it that changes."""
    if not same_hint(old, new) or old.agent != new.agent or carries(old.prompt.messages):
        return False
    a, b = (_questions(call.prompt) for call in (old, new))
    if not a or len(a) > len(b) or not same_setup(old.prompt, new.prompt, text):
        return False
    pairs = [(text(x.digest), text(y.digest)) for x, y in zip(a, b, strict=False)]
    return all(x and y and in_common(x, y) >= SAME * max(len(x), len(y)) for x, y in pairs)


def _questions(prompt: Prompt) -> list[Segment]:
    """What stands in front of the first answer."""
    asked = (s for s in prompt.messages if s.kind != "system")
    return list(takewhile(lambda s: s.kind == "user", asked))


def _compacted(memory: Memory, call: Call, carried: bool, text: Text) -> End | None:
    """A summary in the place of a long history: same agent, same session or trace, same tools, a much smaller window; or one
    that says what it is, where the session is the same."""
    first = next((s for s in call.prompt.messages if s.kind != "system"), None)
    opening = text(first.digest) if first is not None else None
    says, summary = says_summary(opening), is_summary(opening)
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
            kept, added = _kept_system(old.prompt, call.prompt, text)
            if not kept:
                continue
            hinted = same_hint(old, call)
            anew = first is not None and first.digest not in memory.digests(e)
            if hinted and carries(old.prompt.messages) and (added or (anew and summary)):
                return e
            told = carried or says or added
            if old.prompt.messages.length < 6 or not _summed(old, call, told):
                continue
            if hinted or (first is not None and not anew) or (told and group == call.trace_id):
                return e
    return None


def _kept_system(old: Prompt, new: Prompt, text: Text) -> tuple[bool, bool]:
    """Is the system prompt the same, but for a value that changes or a summary at its end; and is there such a summary?"""
    a, b = (_leading_system(p) for p in (old, new))
    if a == b or not a:
        return True, False
    if len(a) == len(b) and a[:-1] != b[:-1]:
        return False, False
    was, now = ("\n".join(text(d) or "" for d in side) for side in (a, b))
    if not was or not now:
        return False, False
    added = adds_summary(was, now) is not None
    return added or same_setup(old, new, text), added


def _leading_system(prompt: Prompt) -> tuple[str, ...]:
    if prompt.system:
        return _digests(prompt.system)
    return tuple(s.digest for s in takewhile(lambda s: s.kind == "system", prompt.messages))


def _digests(segments: tuple[Segment, ...]) -> tuple[str, ...]:
    return tuple(s.digest for s in segments)


def _summed(old: Call, new: Call, told: bool) -> bool:
    """Is the prompt much smaller; or, where a long system prompt hides that, its history, which is none that begins only now
    (``told``)?"""
    chains = old.prompt.messages, new.prompt.messages
    was, now = (sum(c.tokens_by_kind) for c in chains)
    if shrunk(old.usage.input or was, new.usage.input or now):
        return True
    return told and shrunk(*(sum(c.tokens_by_kind) - c.tokens_by_kind[_SYSTEM] for c in chains))
