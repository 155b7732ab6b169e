"""Where the prefix broke: the place, the characters, and what was billed again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from otel_ctx.model import Break, Reading, Relation, Segment
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.text.layout import (
    BLANK,
    Line,
    Run,
    Style,
    clip,
    facts,
    heading,
    line,
    many,
    number,
    paragraph,
    spaced,
)
from otel_ctx.outputs.text.view import View
from otel_ctx.outputs.views.names import name_of
from otel_ctx.parts import masked_at

_SHOWN = 4
_INDENT = 4
CHANGES = {"modified": "changed", "added": "inserted", "removed": "gone", "reordered": "order changed"}
_KEEPING: frozenset[Relation] = frozenset({"continues", "rewrites", "compacted"})
_CHECKS = ("prefix_changed", "tools_changed")
_BESIDE = 400  # characters beside a difference that can be of use on a screen


def breaks(view: View) -> Iterator[Line]:
    """One entry for each place and kind of change, the costliest first, with its first occurrence (of several
    characters: at the first of them) as the example."""
    broken = [r for r in view.analysis.readings if r.break_ is not None]
    if not broken:
        yield from _held(view)
        return
    groups: dict[tuple[str, ...], list[Reading]] = {}
    for reading in broken:
        groups.setdefault(_place(reading), []).append(reading)
    ordered = sorted(groups.values(), key=lambda group: -_lost(group))
    followers = sum(r.previous is not None for r in view.analysis.readings)
    note = f"{many(len(broken), 'call')} of {followers:,} that continue another"
    yield from heading("Where the prefix broke", note, view.width)
    shown = ordered[: view.limit(_SHOWN)]
    yield from spaced((_entry(view, group) for group in shown), len(ordered) - len(shown), "place")


def _held(view: View) -> Iterator[Line]:
    """That nothing broke is said of the calls that were compared, and of no others."""
    held, _, unknown = kept(view, view.analysis.readings)
    total = held + unknown
    if not total:
        return
    yield BLANK
    if not unknown:
        calls = "the one call that continues" if held == 1 else f"all {held:,} calls that continue"
        yield line(Run(f"The prefix held in {calls} another.", "good"))
    elif held:
        words = f"The prefix held in {held:,} of {many(total, 'call')} that continue another; "
        yield from paragraph(f"{words}{unknown:,} could not be compared.", view.width, 0)
    else:
        words = (
            "Whether the prefix held could not be checked: calls that continue another were not seen whole."
        )
        yield from paragraph(words, view.width, 0)


def kept(view: View, readings: Iterable[Reading]) -> tuple[int, int, int]:
    """Of those that continue another call: in how many the prefix held, broke, and could not be compared."""
    unchecked = {c for n in view.analysis.not_checked if n.check in _CHECKS for c in n.calls}
    held = broken = unknown = 0
    for new in readings:
        old = view.readings.get(new.previous or "")
        if new.break_ is not None:
            broken += 1
        elif old is None or new.relation not in _KEEPING or _handed_on(old, new):
            continue
        elif new.call.id not in unchecked and _kept_all(old, new):
            held += 1
        else:
            unknown += 1
    return held, broken, unknown


def _handed_on(old: Reading, new: Reading) -> bool:
    """To another agent, which has a prompt of its own."""
    return bool(old.call.agent and new.call.agent) and old.call.agent != new.call.agent


def _kept_all(old: Reading, new: Reading) -> bool:
    for seen in (old.call.completeness, new.call.completeness):
        if seen.lost or not seen.text_seen:
            return False
    return new.shared >= len(old.call.prompt)


def _place(reading: Reading) -> tuple[str, ...]:
    """What makes two breaks the same. Messages move on from turn to turn, so that only their sort counts."""
    at, call = reading.break_, reading.call
    assert at is not None
    path = re.sub(r"^messages\[\d+\].*", "messages", at.path)
    name = at.after.name if at.after else at.before.name if at.before else ""
    return call.service, call.agent, path, at.kind, at.change, name


def _lost(group: list[Reading]) -> int:
    return sum(r.wasted if r.access is not None else r.break_.tokens for r in group if r.break_)


def _entry(view: View, group: list[Reading]) -> Iterator[Line]:
    offsets = {r.break_.char_offset for r in group if r.break_ and r.break_.char_offset is not None}
    # Where they break at several characters the first of these is told, and shown.
    at = min((r.break_ for r in group if r.break_), key=lambda b: _or(b.char_offset, max(offsets, default=0)))
    segment = at.after or at.before
    paths = list(dict.fromkeys(r.break_.path for r in group if r.break_))
    path = escape(paths[0]) + (f" … {escape(paths[-1])}" if len(paths) > 1 else "")
    name = f" {escape(name_of(segment.name, view.show_text))}" if segment and segment.name else ""
    kind = "" if at.path.startswith(at.kind) else f" {at.kind}"
    what = f"{kind} {CHANGES[at.change]}"
    if at.char_offset is not None and at.change == "modified":
        first = number(at.char_offset)
        what += f" at character {first}" if len(offsets) == 1 else f" from character {first} on"
    yield line("  ", Run(clip(path + name, view.width - 2 - cells(what) - 1), "strong"), what)
    lost = _lost(group)
    times, losing = many(len(group), "time"), sum(_lost([r]) > 0 for r in group)
    about = [f"{number(lost)} tokens billed again"] if lost else []
    about.append(f"{losing:,} of {times}" if 0 < losing < len(group) else times)
    about += view.turns([r.call.id for r in group])
    yield from facts(about, view.width, _INDENT)
    if view.show_text:
        yield from _excerpt(view, at)


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _excerpt(view: View, at: Break) -> Iterator[Line]:
    old, new = _text(view, at.before), _text(view, at.after)
    room = view.width - _INDENT - 2
    if old is not None and new is not None and at.change == "modified" and at.char_offset is not None:
        if masked_at(old, new, at.char_offset):  # a difference of masks says nothing of the texts
            yield line(" " * _INDENT, Run("masked where the texts differ", "dim"))
            return
        yield from _difference(old, new, at.char_offset, room)
        return
    if at.change != "added" and old is not None:
        yield _sample("- ", _named(at.before, old), room, "removed")
    if at.change != "removed" and new is not None:
        yield _sample("+ ", _named(at.after, new), room, "added")


def _text(view: View, segment: Segment | None) -> str | None:
    return view.analysis.text(segment.digest) if segment is not None else None


def _named(segment: Segment | None, text: str) -> str:
    return f"{segment.name}: {text}" if segment is not None and segment.name else text


def _sample(sign: str, text: str, room: int, style: Style) -> Line:
    return line(" " * _INDENT, Run(sign, style), clip(escape(text[: room + 1]), room))


def _difference(old: str, new: str, offset: int, room: int) -> Iterator[Line]:
    """Both texts around the place where they part, and carets under what differs."""
    offset = min(offset, len(old), len(new))
    same = _common_end(old, new, offset)
    lead = _lead(old, offset, room // 2)
    under = 0
    for sign, text, style in (("- ", old, "removed"), ("+ ", new, "added")):
        changed = escape(text[offset : len(text) - same][:_BESIDE])
        left = room - cells(lead)
        shown = clip(changed, left)
        rest = text[len(text) - same :][:_BESIDE] if same else ""
        after = clip(escape(rest), left - cells(shown)) if shown == changed else ""
        under = max(under, cells(shown))
        yield line(" " * _INDENT, Run(sign, style), lead, Run(shown, style), after)  # type: ignore[arg-type]
    yield line(" " * (_INDENT + 2 + cells(lead)), Run("^" * max(under, 1), "notice"))


def _lead(text: str, offset: int, room: int) -> str:
    """The end of what stands before ``offset``, escaped, in ``room`` columns."""
    start = max(offset - room, 0)
    while start < offset and cells(escape(text[start:offset])) > room - 1:
        start += 1
    return ("…" if start else "") + escape(text[start:offset])


def _common_end(old: str, new: str, offset: int) -> int:
    """How many characters both end with, of those behind ``offset``."""
    low, high = 0, min(len(old), len(new)) - offset
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle :] == new[len(new) - middle :]:
            low = middle
        else:
            high = middle - 1
    return low
