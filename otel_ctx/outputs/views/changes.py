"""Two dumps, before and after a change: what it did to depth, cache, waste, money and findings.

Runs differ in length, and a longer conversation is deeper, costs more and hits the cache more often. So conversations are
matched, and judged is what both have: the same turns of each, per call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_ctx.model import SEVERITIES, Analysis, Break, Conversation, Finding, Reading, Severity
from otel_ctx.outputs.views.selection import label
from otel_ctx.outputs.views.summary import Summary, summary

Judged = Literal["better", "worse", "same", "unseen", ""]
Change = Literal["new", "gone", "kept", "unseen"]

_SECTIONS = frozenset({"tools", "system", "messages"})
_KNOWN_BY_TEXT = {
    **dict.fromkeys(("tools_changed", "tools_reordered", "tool_schema_key_order", "dead_tool_schema"), "tools"),
    **dict.fromkeys(
        (
            "volatile_prefix", "prefix_changed", "moved_segment", "evicted_content", "duplicate_content",
            "breakpoint_before_change", "server_side_rewrite_suspected", "provider_side_miss",
        ),
        "messages",
    ),
}  # fmt: skip
"""Kinds that without a place of their own are not known without the text either, and the section of it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """``unit``: tokens, share, usd or number. None: nobody reports it. ``judged`` "unseen": it was known before."""

    name: str
    unit: str
    before: float | None
    after: float | None
    judged: Judged


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A conversation before and after; one of them None: it has no counterpart. ``turns``: of each side."""

    before: Conversation | None
    after: Conversation | None
    turns: tuple[int, int]
    figures: tuple[Figure, ...]

    @property
    def matched(self) -> bool:
        return self.before is not None and self.after is not None

    @property
    def name(self) -> str:
        known = self.after or self.before
        return label(known) if known is not None else ""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A kind at a place: an index inside the messages is left out of it. (before, after) each. ``unseen``: it stands in the
    text, and the dump that has it not saw none of that text."""

    change: Change
    kind: str
    place: str
    severity: Severity
    title: str
    calls: tuple[int, int]
    tokens: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """``before``, ``after``: all calls. ``figures``: of ``same_calls`` calls each, the same turns of the matched
    conversations; of all calls where none match (``same_calls`` 0). ``worse``: what is, in words."""

    before: Summary
    after: Summary
    figures: tuple[Figure, ...]
    same_calls: int
    pairs: tuple[Pair, ...]
    findings: tuple[FindingChange, ...]
    worse: tuple[str, ...]


def changes(before: Analysis, after: Analysis, tolerance: float = 0.01) -> Changes:
    """``tolerance``: a share by which figures differ from run to run."""
    old, new = _by_conversation(before), _by_conversation(after)
    pairs, same_old, same_new = [], list[Reading](), list[Reading]()
    for b, a in _matched(before, after, old, new):
        mine, others = old[b.id] if b is not None else [], new[a.id] if a is not None else []
        if not (mine and others):
            pairs.append(Pair(b, a, (len(mine), len(others)), ()))
            continue
        ends = min(max(r.turn for r in mine), max(r.turn for r in others))
        sides = [r for r in mine if r.turn <= ends], [r for r in others if r.turn <= ends]
        pairs.append(Pair(b, a, (len(mine), len(others)), _figures(*sides, tolerance)))
        same_old += sides[0]
        same_new += sides[1]
    if same_old:
        figures = _figures(same_old, same_new, tolerance)
    else:
        figures = _figures(before.readings, after.readings, tolerance)
    found = _findings(before, after)
    return Changes(
        summary("before", before.readings),
        summary("after", after.readings),
        figures,
        len(same_new),
        tuple(pairs),
        found,
        tuple(_worse(figures, found)),
    )


def _worse(figures: Iterable[Figure], found: Iterable[FindingChange]) -> Iterable[str]:
    yield from (f.name for f in figures if f.judged == "worse")
    yield from (f"{f.name}: known before, not seen any more" for f in figures if f.judged == "unseen")
    yield from (
        f"new finding {f.kind}" + (f" at {f.place}" if f.place else "")
        for f in found
        if f.change == "new" and f.severity != "info"
    )


# ---- which belongs to which


def _by_conversation(analysis: Analysis) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {c.id: [] for c in analysis.conversations}
    for r in analysis.readings:
        found[r.conversation].append(r)
    return found


def _matched(
    before: Analysis, after: Analysis, old: dict[str, list[Reading]], new: dict[str, list[Reading]]
) -> list[tuple[Conversation | None, Conversation | None]]:
    """By id; else by names and first words, by names, by first words, each in the order of their starts; else because there
    is one left on both sides."""
    theirs = {c.id: c for c in after.conversations}
    pairs: dict[str, Conversation] = {c.id: theirs[c.id] for c in before.conversations if c.id in theirs}
    taken = set(pairs)
    for key in (_both, _names, _first_words, _anything):
        open_old: dict[tuple[str, ...], list[Conversation]] = defaultdict(list)
        open_new: dict[tuple[str, ...], list[Conversation]] = defaultdict(list)
        for c in before.conversations:
            if c.id not in pairs:
                open_old[key(c, old[c.id])].append(c)
        for c in after.conversations:
            if c.id not in taken:
                open_new[key(c, new[c.id])].append(c)
        for name, mine in open_old.items():
            others = open_new.get(name, [])
            if not name or (key is _anything and len(mine) + len(others) > 2):
                continue
            for b, a in zip(mine, others, strict=False):
                pairs[b.id] = a
                taken.add(a.id)
    found: list[tuple[Conversation | None, Conversation | None]] = [
        (c, pairs.get(c.id)) for c in before.conversations
    ]
    return [*found, *((None, c) for c in after.conversations if c.id not in taken)]


def _both(c: Conversation, readings: Sequence[Reading]) -> tuple[str, ...]:
    names, words = _names(c, readings), _first_words(c, readings)
    return (*names, *words) if names and words else ()


def _names(c: Conversation, _: Sequence[Reading]) -> tuple[str, ...]:
    return (*c.services[:1], "\0", *c.agents[:1]) if c.services or c.agents else ()


def _first_words(_: Conversation, readings: Sequence[Reading]) -> tuple[str, ...]:
    first = readings[0].call.prompt.messages.first if readings else None
    return (first.digest,) if first is not None else ()


def _anything(_: Conversation, __: Sequence[Reading]) -> tuple[str, ...]:
    return ("the only one",)


# ---- figures


def _figures(before: Sequence[Reading], after: Sequence[Reading], tolerance: float) -> tuple[Figure, ...]:
    """Of the same turns."""
    old, new = summary("", before), summary("", after)
    depths = _last_depths(before), _last_depths(after)
    size = old.input / old.calls if old.input and old.calls else 0.0
    return (
        _figure(
            "depth at the same turn", "tokens", *depths, lambda b, a: a - b, tolerance * (depths[0] or 0)
        ),
        _figure("cache hit ratio", "share", old.hit_ratio, new.hit_ratio, lambda b, a: b - a, tolerance),
        _figure(
            "billed again per call",
            "tokens",
            _waste(before),
            _waste(after),
            lambda b, a: a - b,
            tolerance * size,
        ),
        _figure(
            "breaks per call",
            "number",
            _breaks(before),
            _breaks(after),
            lambda b, a: a - b,
            tolerance,
        ),
        _figure(
            "cost per call",
            "usd",
            _cost(before),
            _cost(after),
            lambda b, a: a - b,
            tolerance * (_cost(before) or 0),
        ),
    )


def _figure(
    name: str,
    unit: str,
    before: float | None,
    after: float | None,
    loss: Callable[[float, float], float],
    tolerance: float,
) -> Figure:
    judged: Judged = ""
    if before is not None and after is None:
        judged = "unseen"
    elif before is not None and after is not None:
        lost = loss(before, after)
        judged = "same" if abs(lost) <= tolerance else "worse" if lost > 0 else "better"
    return Figure(name, unit, before, after, judged)


def _last_depths(readings: Sequence[Reading]) -> float | None:
    """The mean over conversations, each at its last turn."""
    last = {r.conversation: r.context.usage for r in readings}
    known = [u for u in last.values() if u is not None]
    return sum(known) / len(known) if known and len(known) == len(last) else None


def _waste(readings: Sequence[Reading]) -> float | None:
    known = [r for r in readings if r.judged]
    return sum(r.wasted for r in known) / len(known) if known else None


def _cost(readings: Sequence[Reading]) -> float | None:
    known = [r.cost.usd for r in readings if r.cost is not None]
    return sum(known) / len(known) if known else None


def _breaks(readings: Sequence[Reading]) -> float | None:
    """Of each call whose text was seen."""
    seen = [r for r in readings if r.seen]
    return sum(r.break_ is not None for r in seen) / len(seen) if seen else None


# ---- findings


def _findings(before: Analysis, after: Analysis) -> tuple[FindingChange, ...]:
    old, new = _by_place(before), _by_place(after)
    seen = _sections(before.readings), _sections(after.readings)
    out = []
    for key in dict.fromkeys((*old, *new)):
        sides = old.get(key, []), new.get(key, [])
        shown = (sides[1] or sides[0])[0]
        change: Change = "kept" if all(sides) else "new" if sides[1] else "gone"
        section = _section(shown)
        if change != "kept" and section and section not in seen[change == "gone"]:
            change = "unseen"
        calls = len(_calls(sides[0])), len(_calls(sides[1]))
        tokens = sum(f.tokens for f in sides[0]), sum(f.tokens for f in sides[1])
        out.append(FindingChange(change, *key, shown.severity, shown.title, calls, tokens))
    order = {"new": 0, "kept": 1, "unseen": 2, "gone": 3}
    return tuple(sorted(out, key=lambda f: (order[f.change], SEVERITIES.index(f.severity), -max(f.tokens))))


def _sections(readings: Sequence[Reading]) -> set[str]:
    """Those of which the text was seen in any call."""
    return {section for r in readings if r.seen for section in _SECTIONS - r.call.completeness.lost}


def _section(found: Finding) -> str:
    """Of the text that it stands in; empty: it is known without."""
    section = found.path.partition("[")[0]
    return section if section in _SECTIONS else _KNOWN_BY_TEXT.get(found.kind, "")


def _calls(found: Sequence[Finding]) -> set[str]:
    return {c for f in found for c in f.calls}


def _by_place(analysis: Analysis) -> dict[tuple[str, str], list[Finding]]:
    breaks = {r.call.id: r.break_ for r in analysis.readings if r.break_ is not None}
    places: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for f in analysis.findings:
        places[f.kind, _place(f, breaks)].append(f)
    return places


def _place(found: Finding, breaks: dict[str, Break]) -> str:
    """An index inside the messages differs from run to run. A system prompt that stands among them is none the less not
    what was said behind it."""
    if not found.path.startswith("messages["):
        return found.path
    at = (breaks.get(call) for call in found.calls)
    system = any(b is not None and b.path == found.path and b.kind == "system" for b in at)
    return "messages (system)" if system else "messages"


def rows(found: Changes) -> Iterable[tuple[str, str, float | None, float | None]]:
    """(name, unit, before, after) of all calls."""
    b, a = found.before, found.after
    yield "calls", "tokens", b.calls, a.calls
    yield "conversations", "tokens", b.conversations, a.conversations
    yield "peak depth", "tokens", b.peak, a.peak
    yield "tokens in", "tokens", b.input, a.input
    yield "cache hit ratio", "share", b.hit_ratio, a.hit_ratio
    yield "billed again", "tokens", b.wasted, a.wasted
    yield "cost at list price", "usd", b.usd, a.usd
    if b.usd_at_least is not None or a.usd_at_least is not None:
        yield "cost at list price, at least", "usd", b.usd_low, a.usd_low
