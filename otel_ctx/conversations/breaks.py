"""Where two prompts part."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

from otel_ctx.model import (
    EMPTY_CHAIN,
    NO_SECTION,
    Break,
    Call,
    Chain,
    Prompt,
    Segment,
    grown,
    replaced,
    told_otherwise,
)
from otel_ctx.parts.texts import common_prefix

_BLOCK = 128  # tokens: what caches round down to
_MEDIA = ("image", "file")  # told apart by a hash of ours: no place in it is one in the prompt


def shared_segments(old: Prompt, new: Prompt, *, tools_alike: bool = False) -> int:
    """How many segments from the start are the same; ``tools_alike``: the tools are, though they are told otherwise."""
    old, new = _side_by_side(old, new)
    n = 0
    for a, b in ((old.tools, new.tools), (old.system, new.system)):
        same = len(a) if tools_alike and a is old.tools else _lcp(a, b)
        n += same
        if same < max(len(a), len(b)):
            return n
    return n + _shared_chain(old.messages, new.messages)


def keeps_all(old: Prompt, shared: int) -> bool:
    """Does one that has so many segments of ``old`` have all of it? Without messages it may have more tools, too."""
    return shared == len(old) and old.messages.length > 0


def _side_by_side(a: Prompt, b: Prompt) -> tuple[Prompt, Prompt]:
    """Both with the system prompt at one place: one library has it apart, another as the first of the messages."""
    apart, among = (a, b) if a.system else (b, a)
    if among.system or not apart.system or next((s.kind for s in among.messages), "") != "system":
        return a, b
    chain = grown(EMPTY_CHAIN, (*apart.system, *apart.messages), apart.messages.messages + 1)
    moved = Prompt(apart.tools, NO_SECTION, chain)
    return (moved, b) if apart is a else (a, moved)


def _lcp(a: tuple[Segment, ...] | list[Segment], b: tuple[Segment, ...] | list[Segment]) -> int:
    if a is b:
        return len(a)
    n = 0
    for x, y in zip(a, b, strict=False):
        if x.digest != y.digest:
            break
        n += 1
    return n


def _shared_chain(old: Chain, new: Chain) -> int:
    link: Chain | None = new
    while link is not None:
        if link is old:
            return old.length
        if link.base is not None and link.base.length < old.length and link.base is not old:
            break
        link = link.base
    return _lcp(list(old), list(new))


def find_break(old: Call, new: Call, text: Callable[[str], str | None]) -> Break | None:
    """Where ``new`` stops agreeing with ``old`` before the end of what was there; None where it keeps it all.

    Sections that one of the two has lost are left out: nothing is said of what was not seen; and tools that two
    libraries tell each in its own way."""
    lost = old.completeness.lost | new.completeness.lost
    if was_read_whole(old, new):
        lost |= {"tools"}  # they stand in front of it all: who told of them told the same ones in another way
    was, now = _side_by_side(old.prompt, new.prompt)
    index = 0
    for name in ("tools", "system"):
        a: tuple[Segment, ...] = getattr(was, name)
        b: tuple[Segment, ...] = getattr(now, name)
        if name in lost:
            index += len(a)
            continue
        same = _lcp(a, b)
        if (same < len(a) or len(b) > len(a)) and not (name == "tools" and told_otherwise(old, new)):
            at = _break(old, index + same, list(a[same:]), list(b[same:]), text)
            return replace(at, then=_then(old, at, was, now, lost, text))
        index += len(a)
    if lost & {"head", "messages"}:
        return None
    same = _shared_chain(was.messages, now.messages)
    if same >= was.messages.length:
        return None
    a_rest, b_rest = list(was.messages)[same:], list(now.messages)[same:]
    return _break(old, index + same, a_rest, b_rest, text)


def was_read_whole(old: Call, new: Call) -> bool:
    """Did ``new`` read at least the whole prompt of ``old`` from the cache? Then nothing in front of its end was another."""
    read, whole = new.usage.cache_read, old.usage.input
    return bool(read and whole) and (read or 0) + _BLOCK > (whole or 0)


def _break(
    old: Call, index: int, a: list[Segment], b: list[Segment], text: Callable[[str], str | None]
) -> Break:
    before, after = (a[0] if a else None), (b[0] if b else None)
    later_a, later_b = {s.digest for s in a}, {s.digest for s in b}
    offset = None
    if before is None or (after is not None and before.digest in later_b and after.digest not in later_a):
        change = "added"
    elif after is None or (after.digest in later_a and before.digest not in later_b):
        change = "removed"
    elif before.digest in later_b and after.digest in later_a:
        change = "reordered"
    else:
        change = "modified"
        offset = _offset(before, after, text)
    at = after or before
    assert at is not None
    return Break(at.path, at.kind, change, _tokens_after(old.prompt, index), offset, index, before, after)  # type: ignore[arg-type]


def _then(
    old: Call, at: Break, was: Prompt, now: Prompt, lost: Set[str], text: Callable[[str], str | None]
) -> Break | None:
    """Of prompts that part in tools or system prompt: what else stands changed at its place, behind the tools. There the first
    change would have been alone had all the tools been kept."""
    ahead = len(was.tools)
    skipped = len(was.system) if "system" in lost else max(0, at.index - ahead)
    messages = not lost & {"head", "messages"} and not _goes_on(was.messages, now.messages)
    gone, rest = (
        [*(() if "system" in lost else p.system[skipped:]), *(p.messages if messages else ())]
        for p in (was, now)
    )
    for i, j in sorted(replaced(gone, rest).items()):
        before, after = gone[i], rest[j]
        if before is not at.before:
            index = ahead + skipped + i
            offset, tokens = _offset(before, after, text), _tokens_after(old.prompt, index)
            return Break(after.path, after.kind, "modified", tokens, offset, index, before, after)
    return None


def _goes_on(old: Chain, new: Chain) -> bool:
    return _shared_chain(old, new) >= old.length


def _offset(before: Segment, after: Segment, text: Callable[[str], str | None]) -> int | None:
    """Characters that two texts have in common at their beginnings."""
    x, y = text(before.digest), text(after.digest)
    if x is None or y is None or before.kind != after.kind or before.kind in _MEDIA:
        return None
    return common_prefix(x, y)


def _tokens_after(prompt: Prompt, index: int) -> int:
    """Tokens of ``prompt`` from segment ``index`` on."""
    head = (*prompt.tools, *prompt.system)
    if index <= len(head):
        return sum(s.tokens or 0 for s in head[index:]) + sum(prompt.messages.tokens_by_kind)
    return sum(s.tokens or 0 for s in list(prompt.messages)[index - len(head) :])
