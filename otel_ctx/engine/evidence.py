"""What the calls before it say of how completely a call was recorded.

Calls must come in the order of their starts, so that the same dump has the same answer in whatever order it arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

import xxhash

from otel_ctx.calls import accounted_for, has_hole, with_cut, without_server, without_tools
from otel_ctx.conversations import Placed
from otel_ctx.frozen import frozen
from otel_ctx.memo import Memo
from otel_ctx.model import EMPTY_CHAIN, Call, Chain, Completeness, Segment
from otel_ctx.parts.texts import in_common

_SHORTEST = 128  # characters: nobody sets a lower limit
_ROUND = (100, 64)  # a limit is a multiple of one of these, or one less: other lengths are equal by chance
_DOTS = ("...", "…")  # what is put in the place of an end that was cut off
_ALIKE = 0.5  # of two texts that have more than this in common one is the other, changed
_SAME_GAP = 0.75  # of the larger of two numbers of missing tokens: counts of the rest are estimates
_FAR_MORE = 4  # times what can be: no estimate is as wrong
_REMEMBERED = 4096
_SECTIONS = 256
_CHAINS = 24_576
_NOT_TEXT = ("image", "file", "thinking")


@frozen(frozen=True, slots=True)
class _Longest:
    """The greatest length in characters, and texts of that length (two at most) that have little in common."""

    length: int = 0
    digests: tuple[str, ...] = ()


_NONE = _Longest()
_NO_SECTIONS = frozenset[str]()


class Evidence:
    """``text`` gives a segment's text by its digest while it is kept. ``same``: of the same texts: what was found in a
    chain holds for both."""

    def __init__(self, text: Callable[[str], str | None], same: Evidence | None = None) -> None:
        self._text = text
        self._sections: Memo[int, tuple[tuple[Segment, ...], _Longest]] = Memo(_SECTIONS)
        self._chains: Memo[int, _Longest] = same._chains if same is not None else Memo(_CHAINS)
        self._newest: tuple[Chain, _Longest] = (
            EMPTY_CHAIN,
            _NONE,
        )  # which the next call extends, most of the time
        self._services: Memo[str, _Longest] = Memo(_REMEMBERED)
        self._served: Memo[tuple[str, str], bool] = Memo(_REMEMBERED)
        self._gaps: Memo[str, tuple[int, Completeness]] = Memo(_REMEMBERED)

    # ---- texts that end at one length

    def of_lengths(self, call: Call) -> Call:
        """``call``, said to be cut where its longest texts are as long as others that have nothing to do with them: a limit
        on the length of values leaves no other trace in plain text. One whose tokens add up was not cut."""
        prompt = call.prompt
        mine = {
            "tools": self._of_section(prompt.tools),
            "system": self._of_section(prompt.system),
            "messages": self._of_chain(prompt.messages),
        }
        before = known = self._services.get(call.service) or _NONE
        for longest in mine.values():
            if longest.length >= known.length and longest is not known:
                known = self._both(known, longest)
        if known is not before:
            self._services.put(call.service, known)
        cut = self._dotted(mine)
        if len(known.digests) == 2 and _may_be_limit(known.length):
            cut |= {s for s, longest in mine.items() if longest.length == known.length}
        if not cut or accounted_for(prompt, call.usage):
            return call
        return replace(call, completeness=with_cut(call.completeness, cut, stateful=_is_stateful(call)))

    def _dotted(self, mine: Mapping[str, _Longest]) -> frozenset[str]:
        """Sections whose longest texts end in dots behind a limit, where two texts that have little in common do."""
        found = {
            s: longest.digests
            for s, longest in mine.items()
            if _dots_behind_limit(longest.length)
            and all((self._text(d) or "").endswith(_DOTS) for d in longest.digests)
        }
        if not found:
            return _NO_SECTIONS
        texts = {digest for digests in found.values() for digest in digests}
        return frozenset(found) if len(texts) > 1 else frozenset()

    def _of_section(self, section: tuple[Segment, ...]) -> _Longest:
        """Tools and system prompts come again as the very same ones."""
        known = self._sections.get(id(section))
        if known is None or known[0] is not section:
            known = section, self._longest(_NONE, section)
            self._sections.put(id(section), known)
        return known[1]

    def _of_chain(self, chain: Chain) -> _Longest:
        links = []
        link: Chain | None = chain
        known = _NONE
        while link is not None and link.length:
            if link is self._newest[0]:
                known = self._newest[1]
                break
            name = _name(link)
            found = self._chains.get(name)
            if found is not None:
                known = found
                break
            links.append((name, link.new))
            link = link.base
        for name, new in reversed(links):
            known = self._longest(known, new)
            self._chains.put(name, known)
        self._newest = chain, known
        return known

    def _longest(self, known: _Longest, segments: Iterable[Segment]) -> _Longest:
        for s in segments:
            if s.bytes < known.length or s.kind in _NOT_TEXT:
                continue  # no text has more characters than bytes
            text = self._text(s.digest)
            if text is not None and len(text) >= known.length:
                known = self._both(known, _Longest(len(text), (s.digest,)))
        return known

    def _both(self, a: _Longest, b: _Longest) -> _Longest:
        if a.length != b.length:
            return a if a.length > b.length else b
        others = (d for d in b.digests if d not in a.digests and all(self._unlike(d, e) for e in a.digests))
        return _Longest(a.length, (*a.digests, *others)[:2])

    def _unlike(self, a: str, b: str) -> bool:
        x, y = self._text(a), self._text(b)
        if x is None or y is None:
            return False
        return in_common(x, y) <= _ALIKE * len(x)

    # ---- what was missing before

    def of_gaps(self, placed: Placed) -> Placed:
        """The same. Where as many tokens are missing as in the call before, of which it was plain that its
        instructions were not recorded, they are missing here too: in a long prompt they are too few to tell alone."""
        call, previous = placed.call, placed.previous
        gap = (call.usage.input or 0) - call.prompt.counted
        seen = call.completeness
        before = self._gaps.get(previous.id) if previous is not None else None
        if before is not None and seen.status == "full" and _told_by_gap(before[1], call):
            low, high = sorted((gap, before[0]))
            if low >= _SAME_GAP * high:
                seen = before[1]
        if _told_by_gap(seen, call):
            self._gaps.put(call.id, (gap, seen))
        return placed if seen is call.completeness else placed._replace(call=replace(call, completeness=seen))

    # ---- histories on a server

    def of_servers(self, placed: Placed) -> Placed:
        """The same. That the call's history lies on a server is believed where it names it, begins with the result of
        a call that is not there, or goes on from a call that was seen, or where its service does so otherwise. Else tokens
        are missing that were not recorded: instructions, mostly."""
        call = placed.call
        if "server_side" not in call.completeness.reasons or call.record == "request":
            return placed  # a body names what the server keeps
        key = call.service, call.scope
        sure = placed.previous is not None or _is_stateful(call)
        if sure:
            self._served.put(key, True)
        if sure or key in self._served:
            return placed
        return placed._replace(call=replace(call, completeness=without_server(call.completeness)))

    # ---- tools that were dropped in part

    def of_dropped(self, placed: Placed, last: Call | None) -> Placed:
        """The same, the tools of the call or of the one before said to be lost where a span told them in pieces, may have
        dropped some, and they differ from the other's. ``last``: the call before as it was judged."""
        call, old = placed.call, placed.compared
        if old is None or not (call.in_pieces or old.in_pieces):
            return placed
        known = last is not None and last.id == old.id and "tools" in last.completeness.lost
        same = [s.digest for s in call.prompt.tools] == [s.digest for s in old.prompt.tools]
        if same and not known:
            return placed
        if call.in_pieces:
            call = replace(call, completeness=without_tools(call.completeness))
        if old.in_pieces:
            old = replace(old, completeness=without_tools(old.completeness))
        return placed._replace(call=call, compared=old)

    # ---- numbers that the conversation cannot hold

    def of_reads(self, placed: Placed, last: Call | None) -> Placed:
        """The same, the input and what of it was cached not believed where more was read than the conversation can hold: the
        call before with its answer, and what was added since. ``last``: the call before as it was judged."""
        old = placed.previous
        if old is None or last is None or old.id != last.id:
            return placed
        if last.usage is not old.usage:
            same = placed.compared is old
            placed = placed._replace(previous=last, compared=last if same else placed.compared)
        call = placed.call
        read = call.usage.cache_read
        if not read or read <= _FAR_MORE * (last.usage.input or 0):
            return placed
        most = _most_read(placed)
        if most is None or read <= _FAR_MORE * most:
            return placed
        words = f"input {call.usage.input or 0:,} with cache read {read:,}, but the conversation holds about {most:,}"
        usage = replace(
            call.usage,
            input=None,
            cache_read=None,
            cache_write=None,
            cache_write_1h=None,
            conflicts=(*call.usage.conflicts, words),
        )
        seen = call.completeness
        if seen.reasons == ("not_captured",):  # as its input has it, which is wrong
            seen = last.completeness
        return placed._replace(call=replace(call, usage=usage, completeness=seen))


def _most_read(placed: Placed) -> int | None:
    """Tokens that a cache can hold of the call, about; None where its text, or what the provider did for it, does not tell."""
    call, old = placed.call, placed.previous
    if old is None or old.usage.input is None or placed.relation != "continues" or placed.compared is None:
        return None
    unseen = call.prompt.messages.unmeasured or "server_side" in call.completeness.reasons
    if unseen or not old.prompt.counted or any(s.kind == "tool_result" for s in call.answer):
        return None  # it may be a sum over what the provider's own tools asked
    added = max(0, call.prompt.counted - old.prompt.counted)
    return old.usage.input + (old.usage.output or 0) + added


def _is_stateful(call: Call) -> bool:
    first = call.prompt.messages.first
    return bool(call.previous_response_id) or (first is not None and first.kind == "tool_result")


def _told_by_gap(seen: Completeness, call: Call) -> bool:
    """Is all that is known of what is missing that tokens are, and could it be the system prompt?"""
    if seen.status != "partial" or seen.reasons != ("not_captured",) or has_hole(call.prompt.messages):
        return False
    first = call.prompt.messages.opening
    return not call.prompt.system and (first is None or first.kind != "system")


def _may_be_limit(length: int) -> bool:
    return length >= _SHORTEST and any(length % n in (0, n - 1) for n in _ROUND)


@lru_cache(4096)
def _dots_behind_limit(length: int) -> bool:
    return any(length > len(dots) and (length - len(dots)) % n == 0 for dots in _DOTS for n in _ROUND)


def _name(chain: Chain) -> int:
    """60 bits of what it holds, system prompts included: its key leaves them out."""
    held = chain.key + chain.length.to_bytes(4, "big") + chain.bytes.to_bytes(8, "big")
    return xxhash.xxh3_64_intdigest(held) >> 4
