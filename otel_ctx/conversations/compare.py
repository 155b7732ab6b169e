"""What two calls have to do with each other: time, session, agent, and what of a history is new in the later one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from otel_ctx.conversations.memory import End, groups
from otel_ctx.model import KIND_INDEX, Call, Chain, Prompt, Relation, Segment
from otel_ctx.parts.texts import in_common, phrases_in_common

Text = Callable[[str], str | None]
"""A segment's text by digest, None where it is not kept."""

_SKEW_NS = (
    20_000_000  # a call may start this long before the one it continues has ended (clocks of 1 ms, threads)
)
_ALIKE = 0.2  # system prompts that have less than this in common belong to different agents
_COMMON = 24  # characters that any two have in common ("You are a helpful …"), half of a short one at most
_PHRASES = 4  # that any two have in common, likewise
_SAME = 0.8  # those that have this much in common are one, with a value in it that changes
_SHRUNK = 0.5  # a history that lost more than this, and whose rest is new, was compacted
MODEL_KINDS = ("assistant", "tool_call", "thinking")


def before(old: Call, new: Call) -> bool:
    """Where the time of the later one is not known, calls come in their order."""
    known = new.start_unix_nano
    return (not known or old.end_unix_nano <= known + _SKEW_NS) and old is not new


def same_hint(a: Call, b: Call) -> bool:
    return bool(a.conversation_hint) and a.conversation_hint == b.conversation_hint


def other_hint(a: Call, b: Call) -> bool:
    return (
        bool(a.conversation_hint) and bool(b.conversation_hint) and a.conversation_hint != b.conversation_hint
    )


def same_session(a: Call, b: Call) -> bool:
    """Told to be of one session, or else of one trace."""
    return not other_hint(a, b) and not set(groups(a)).isdisjoint(groups(b))


def continues_or_forks(end: End, call: Call, text: Text) -> Relation:
    """What a call is whose history begins with that of ``end``."""
    if not end.extended or same_hint(end.call, call) or _was_aside(end, call, text):
        return "continues"
    return "forks"


def _was_aside(end: End, call: Call, text: Text) -> bool:
    """Was it another agent that took the history in between (to sum it up, say), and is this its own agent again?"""
    between = end.next
    return (
        between is not None
        and other_agent(end.call, between.call, text)
        and same_setup(end.call.prompt, call.prompt, text)
    )


def same_setup(old: Prompt, new: Prompt, text: Text) -> bool:
    """The same tools, and the same system prompt but for a value that changes."""
    if {s.name for s in old.tools} != {s.name for s in new.tools}:
        return False
    a, b = _system(old), _system(new)
    if a is None or b is None or a.digest == b.digest:
        return a is b or (a is not None and b is not None)
    x, y = text(a.digest), text(b.digest)
    return x is not None and y is not None and in_common(x, y) >= _SAME * max(len(x), len(y))


def other_agent(old: Call, new: Call, text: Text) -> bool:
    """A system prompt that has nothing in common with the one before, wherever it may stand in it: likely a hand-off. A text
    that was cut tells no agents apart."""
    a, b = _system(old.prompt), _system(new.prompt)
    if a is None or b is None or a.digest == b.digest:
        return False
    if "system" in old.completeness.lost | new.completeness.lost:
        return False
    x, y = text(a.digest), text(b.digest)
    if x is None or y is None:
        return False
    shorter = min(len(x), len(y))
    return not _enough(in_common(x, y), shorter, _COMMON) and not _enough(*phrases_in_common(x, y), _PHRASES)


def _enough(common: int, of: int, by_chance: int) -> bool:
    return of > 0 and common >= max(_ALIKE * of, min(by_chance, of / 2))


def _system(prompt: Prompt) -> Segment | None:
    if prompt.system:
        return prompt.system[0]
    if not prompt.messages.tokens_by_kind[KIND_INDEX["system"]]:
        return None
    first = prompt.messages.opening
    return first if first is not None and first.kind == "system" else None


def shrunk(was: int | None, now: int | None) -> bool:
    """Much smaller than it was, as far as both are known."""
    return was is not None and now is not None and now < (1 - _SHRUNK) * was


def answered_before(chain: Chain) -> bool:
    """Does it hold anything that a model said?"""
    return any(s.kind in MODEL_KINDS for s in chain)


def carries(chain: Chain) -> bool:
    """Does it hold a history: something that a model said, or a tool?"""
    return any(s.kind in MODEL_KINDS or s.kind == "tool_result" for s in chain)


def misses_an_answer(old: Call, new: Call) -> bool:
    """More than one answer of the model stands between the two calls: one call in between was not seen."""
    following = after(new.prompt.messages, old.prompt.messages)
    if sum([s.kind in MODEL_KINDS for s in following]) < 2:
        return False
    answer = {s.digest for s in old.answer}
    others, answered = 0, False
    for is_model, run in groupby(following, lambda s: s.kind in MODEL_KINDS):
        known = any(s.digest in answer for s in run)  # its parts may stand one by one, each before its result
        answered |= is_model and known
        others += is_model and not known
    return others + answered > 1


def after(chain: Chain, old: Chain) -> list[Segment]:
    """The segments of ``chain`` beyond the content of ``old``."""
    if chain.base is old and chain.new and chain.new[0].kind != "system":
        return list(chain.new)
    out: list[Segment] = []
    link: Chain | None = chain
    while link is not None:
        for segment, key in zip(reversed(link.new), reversed(link.marks), strict=True):
            if key == old.key:
                return out[::-1]
            out.append(segment)
        link = link.base
    return []
