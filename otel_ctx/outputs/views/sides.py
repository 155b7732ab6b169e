"""What is set against what: a turn, a conversation, an agent or all of an analysis."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from otel_ctx.errors import SettingError
from otel_ctx.model import Analysis, Conversation, Reading
from otel_ctx.outputs.views.compare import Comparison, TextOf, compare
from otel_ctx.outputs.views.selection import conversations_named, label, mark
from otel_ctx.outputs.views.summary import Summary, summary

_TURN = re.compile(r"(.*):(-?\d{1,6})", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """``readings`` in the order of their starts, one where a turn was named; ``shown``: the one whose prompt is compared."""

    label: str
    readings: tuple[Reading, ...]
    shown: Reading
    turn: bool


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    old: Side
    new: Side
    summaries: tuple[Summary, Summary]
    prompts: Comparison


def difference(old: Side, new: Side, text: TextOf, *, show_text: bool = True) -> Difference:
    """``text`` knows the texts of both."""
    summaries = summary(old.label, old.readings), summary(new.label, new.readings)
    return Difference(old, new, summaries, compare(old.shown, new.shown, text, show_text=show_text))


def side(analysis: Analysis, given: str, numbered: Analysis | None = None) -> Side:
    """``CONVERSATION:TURN``, ``:TURN`` where there is one conversation, ``CONVERSATION`` (its number, the beginning of its
    id) or the name of a service or agent. A turn of -1 is the last. ``numbered``: the whole that ``analysis`` is a part of,
    and in which conversations have their numbers. Raises SettingError."""
    name, turn = given, 0
    match = _TURN.fullmatch(given)
    if match and not _is_id(analysis, given):
        name, turn = match[1], int(match[2])
        if turn == 0:
            raise SettingError(f"{given!r}: turns count from 1, or from -1 at the end")
    found = list(analysis.conversations)
    if name:
        ids = {c.id for c in conversations_named(numbered or analysis, name)}
        found = [c for c in found if c.id in ids]
    if not found:
        raise SettingError(f"{given!r}: nothing of it is selected")
    if not turn:
        return group(analysis, found, label(found[0]) if len(found) == 1 else name)
    if len(found) > 1:
        raise SettingError(
            f"{given!r}: turn {turn} of which of these {len(found):,} conversations? {listed(analysis, found)}"
        )
    return _turn(analysis, found[0], given, turn)


def whole(analysis: Analysis, name: str) -> Side:
    """All of it. Raises SettingError where that is nothing."""
    if not analysis.readings:
        raise SettingError(f"{name}: no model call in it")
    return group(analysis, analysis.conversations, name)


def last_two(analysis: Analysis) -> tuple[Side, Side]:
    """The last turn of the only conversation, and what it goes on from. Raises SettingError where that says nothing."""
    if len(analysis.conversations) != 1:
        raise SettingError(
            f"which turns? There are {len(analysis.conversations):,} conversations: {listed(analysis, analysis.conversations)}"
            if analysis.conversations
            else "no model call in this input"
        )
    conversation = analysis.conversations[0]
    if len(conversation.calls) < 2:
        raise SettingError("its only conversation has one turn: there is nothing to set it against")
    return _turn(analysis, conversation, ":-2", -2), _turn(analysis, conversation, ":-1", -1)


def group(analysis: Analysis, conversations: Sequence[Conversation], name: str) -> Side:
    """The prompt that is shown is the last that was seen of the deepest conversation."""
    ids = {c.id for c in conversations}
    readings = tuple(r for r in analysis.readings if r.conversation in ids)
    deepest = max(conversations, key=lambda c: c.usage_last or 0)
    own = [r for r in readings if r.conversation == deepest.id]
    seen = [r for r in own if r.call.completeness.status in ("full", "partial")]
    return Side(name, readings, (seen or own)[-1], turn=False)


def _turn(analysis: Analysis, conversation: Conversation, given: str, turn: int) -> Side:
    ids = set(conversation.calls)
    readings = [r for r in analysis.readings if r.call.id in ids]
    wanted = max(r.turn for r in readings) + 1 + turn if turn < 0 else turn
    found = next((r for r in readings if r.turn == wanted), None)
    if found is None:
        last = max(r.turn for r in readings)
        raise SettingError(f"{given!r}: {label(conversation)} has no such turn; its last is {last:,}")
    return Side(f"turn {wanted} of {label(conversation)}", (found,), found, turn=True)


def _is_id(analysis: Analysis, given: str) -> bool:
    """A conversation's mark may look like a turn: its end is all digits."""
    wanted = given.removeprefix("#")
    trace, _, span = wanted.partition(":")
    ids = [c.id for c in analysis.conversations]
    if f"#{wanted}" in map(mark, ids):
        return True
    if len(trace) < 4 or len(span) < 4:
        return False
    return any(
        id_ == wanted or (id_.startswith(trace) and id_.partition(":")[2].startswith(span)) for id_ in ids
    )


_LISTED = 8


def listed(analysis: Analysis, found: Sequence[Conversation]) -> str:
    numbers = {c.id: n for n, c in enumerate(analysis.conversations, 1)}
    more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
    return ", ".join(f"{numbers[c.id]} ({label(c)})" for c in found[:_LISTED]) + more
