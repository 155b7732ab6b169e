"""Which history a call continues, by content: the longest that its own begins with."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.conversations.compare import (
    Text,
    answered_before,
    before,
    continues_or_forks,
    other_hint,
    same_hint,
    same_session,
    same_setup,
)
from otel_ctx.conversations.memory import End, Memory
from otel_ctx.model import Call, Chain, Relation, Segment


def by_prefix(memory: Memory, call: Call, text: Text) -> tuple[End, Relation] | None:
    chain = call.prompt.messages
    repeated = _repeated(memory, call, text) if chain.key else None
    if repeated is not None and repeated.call.status != "ok":
        return repeated, "repeats"
    for key, following in _positions(chain):
        if key not in memory.ends or not key or key == chain.key:
            continue  # nobody stopped here; nothing but a system prompt stands before; or nothing comes after it
        answered = memory.ends.get((key, following.digest)) if following is not None else ()
        known = answered or memory.ends.get(key)
        if not known:
            continue
        fits = [e for e in known if before(e.call, call) and not _foreign(e.call, call, following)]
        # what is said again had been answered, whatever the clocks say
        fits = fits or [e for e in answered if same_session(e.call, call)]
        if not fits:
            continue
        best = fits[0] if len(fits) == 1 else max(fits, key=lambda e: _score(e, call, following))
        if repeated is not None and (best.extended or not _answers(best.call, following)):
            break
        return best, continues_or_forks(best, call, text)
    if repeated is None:
        return None
    # histories that were cut may be equal by the cut alone
    return repeated, "continues" if "messages" in call.completeness.lost else "repeats"


def _repeated(memory: Memory, call: Call, text: Text) -> End | None:
    """The same history once more: a retry, unless it is another session that begins with the same words, or another
    agent that is asked the same."""
    ends = memory.ends.get(call.prompt.messages.key)
    if not ends:
        return None
    grown = answered_before(call.prompt.messages)
    for e in reversed(ends):
        if not before(e.call, call) or other_hint(e.call, call):
            continue
        told = same_hint(e.call, call) and e.call.trace_id == call.trace_id
        if (told or grown or e.call.status != "ok") and same_setup(e.call.prompt, call.prompt, text):
            return e
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


def _answers(old: Call, following: Segment | None) -> bool:
    return following is not None and any(s.digest == following.digest for s in old.answer)


def _foreign(old: Call, new: Call, following: Segment | None) -> bool:
    """Ids say another session, and the answer that follows does not say otherwise."""
    return other_hint(old, new) and not _answers(old, following)


def _score(end: End, call: Call, following: Segment | None) -> tuple[bool, bool, bool, bool, int]:
    old = end.call
    return (
        _answers(old, following),
        same_hint(old, call),
        not end.extended,
        old.trace_id == call.trace_id,
        old.start_unix_nano,
    )
