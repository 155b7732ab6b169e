"""Prompts that no record holds whole, put together from what a run or a session told piece by piece.

What an agent was asked, what its models answered and what its tools gave back stand on spans and log records of their
own. Put in a row they are the history of each request, or the part of it that was recorded: only where the request's own
record has every text of it too, in the same order, it is known to be all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from otel_ctx.calls.sections import system_of
from otel_ctx.calls.told import Extend, Told
from otel_ctx.model import EMPTY_CHAIN, NO_SECTION, Call, Chain, Section, Segment, Telling, grown

_Names = Mapping[tuple[str, str], Told]
_ASKED = frozenset({"user", "tool_result"})
_LAST = 2**62  # of the pieces of one time
_WORDS = frozenset({"user", "assistant"})


def with_pieces(groups: list[list[Told]], pieces: Sequence[Told], extend: Extend) -> list[list[Told]]:
    """``groups``, the tellings of each request, with what ``pieces`` tell of their prompts."""
    if not pieces:
        return groups
    named = {name: p for p in pieces if p.telling.role == "piece" for name in p.telling.names}
    threads: dict[str, _Thread] = defaultdict(_Thread)
    for p in _each_once(pieces):
        threads[p.telling.thread].pieces.append(p)
    out = []
    for group in sorted(groups, key=lambda g: min(t.telling.start_unix_nano for t in g)):
        name = next((t.telling.thread for t in group if t.telling.thread), "")
        group = [_with_named(t, named) for t in group]
        out.append(threads[name].asked(group, extend) if name in threads else group)
    return out


def _each_once(pieces: Sequence[Told]) -> Iterable[Told]:
    """The pieces in order; of those that a span and a log record tell, the first."""
    seen = set()
    for p in sorted(pieces, key=lambda p: (_time(p), p.telling.order, p.id)):
        key = (p.telling.thread, p.telling.request_id or f"{p.id} {p.telling.order}")
        if p.telling.thread and key not in seen:
            seen.add(key)
            yield p


def _time(piece: Told) -> int:
    """When it entered the thread: what an agent was asked when it began, what a tool gave back when that had ended."""
    said = piece.telling
    return said.start_unix_nano if said.role == "aggregate" else said.end_unix_nano


def _with_named(told: Told, named: _Names) -> Told:
    """``told`` with the sections that it only names, where all that they name is there."""
    found: dict[str, Section] = {}
    for section in ("tools", "system"):
        names = [n for n in told.telling.names if n[0] == section]
        if names and not getattr(told, section) and all(n in named for n in names):
            segments = (s for n in names for s in getattr(named[n], section))
            found[section] = Section([replace(s, path=f"{section}[{i}]") for i, s in enumerate(segments)])
    if not found:
        return told
    reasons = told.reasons - ({"schema_missing"} if "tools" in found else set())
    return replace(
        told,
        telling=told.telling._replace(lost=told.telling.lost - found.keys()),
        tools=found.get("tools", told.tools),
        system=found.get("system", told.system),
        reasons=reasons,
    )


@dataclass
class _Thread:
    """A run or a session, as far as it has gone: its history, and what has come since the last request."""

    pieces: list[Told] = field(default_factory=list)  # those to come, the next one first
    history: Chain = EMPTY_CHAIN
    damaged: bool = False  # something of the history is known to be missing
    answer: tuple[Segment, ...] = ()
    compacted: bool = False  # since the last request a summary has taken the place of the history

    def asked(self, group: list[Told], extend: Extend) -> list[Told]:
        """A request is made: what it tells, with its history."""
        start = min(t.telling.start_unix_nano for t in group)
        at = max(range(len(group)), key=lambda i: group[i].content)
        own = group[at]
        news = own.telling.news
        self._go_on(start, bool(news), extend)
        if news:
            self._learn(own.messages, extend)
        elif own.messages.length and "messages" not in own.telling.lost:
            self.history = own.messages
        told = self._told(own)
        if self.compacted:
            told = replace(told, telling=told.telling._replace(compacted=True))
            self.compacted = False
        self.answer = max((t.answer for t in group), key=lambda a: sum(s.bytes for s in a))
        return [*group[:at], told, *group[at + 1 :]]

    def _go_on(self, until: int, without_questions: bool, extend: Extend) -> None:
        """Take in the last answer and the pieces up to a time; ``without_questions``: the request tells them itself."""
        now = list(takewhile(lambda p: _time(p) <= until, self.pieces))
        del self.pieces[: len(now)]
        since: list[Chain] = []
        for p in now:
            if p.telling.news == "all":
                self.history, self.answer, since = p.messages, p.answer, []
                self.damaged = "messages" in p.telling.lost
                self.compacted |= p.telling.compacted
            elif not (without_questions and p.messages.first is not None and p.messages.first.kind == "user"):
                since.append(p.messages)
        order = {s.call_id: n for n, s in enumerate(self.answer) if s.call_id}
        results = sorted((c for c in since if _call_id(c) in order), key=lambda c: order[_call_id(c)])
        others = [c for c in since if _call_id(c) not in order]
        answer = [_as_message(self.answer)] if self.answer else []
        self.history, self.answer = extend(self.history, [*answer, *results, *others]), ()

    def _learn(self, new: Chain, extend: Extend) -> None:
        """A request says what is new to it. After a restart that is all once more, without the answers; after a history was
        rewritten, all that it has now: no history begins with the result of a tool."""
        known = [s.digest for s in self.history if s.kind in _ASKED]
        told = [s.digest for s in new if s.kind in _ASKED]
        if known and told[: len(known)] == known:
            rest = [s for s in new if s.kind in _ASKED][len(known) :]
            self.history = extend(self.history, [grown(EMPTY_CHAIN, [s], 1) for s in rest])
        elif new.messages > 1 and new.first is not None and new.first.kind == "user":
            self.history = new
        else:
            self.history = extend(self.history, [new])

    def _told(self, own: Told) -> Told:
        if own.messages.length and not own.telling.news:
            if "messages" not in own.telling.lost or _words(own.messages) != _words(self.history):
                return own
            system = system_of(own)
            lost, reasons = own.telling.lost - ({"system"} if system else set()), own.reasons
            if not self.damaged:
                lost, reasons = lost - {"messages"}, reasons - {"not_captured"}
            told = own.telling._replace(lost=lost)
            return replace(own, telling=told, system=system, messages=self.history, reasons=reasons)
        if not self.history.length:
            return own
        told = own.telling._replace(lost=own.telling.lost | {"messages"})
        return replace(own, telling=told, messages=self.history, reasons=own.reasons | {"not_captured"})


def history_of(call: Call, thread: str) -> Told:
    """How far a thread had gone at a request of its, as a piece: what was told before need not be kept."""
    lost = call.completeness.lost & {"messages"}
    telling = Telling(
        "",
        "piece",
        thread,
        "",
        end_unix_nano=call.start_unix_nano,
        lost=lost,
        order=_LAST,
        thread=thread,
        news="all",
    )
    return Told(telling, NO_SECTION, NO_SECTION, call.prompt.messages, call.answer, frozenset())


def _call_id(message: Chain) -> str:
    return message.first.call_id if message.first is not None else ""


def _as_message(segments: tuple[Segment, ...]) -> Chain:
    return grown(EMPTY_CHAIN, (replace(s, path=f"messages[0].parts[{i}]") for i, s in enumerate(segments)), 1)


def _words(chain: Chain) -> list[str]:
    return [s.digest for s in chain if s.kind in _WORDS]
