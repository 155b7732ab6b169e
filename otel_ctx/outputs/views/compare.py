"""Two prompts side by side: what came, what went, what moved, and what changed in place, down to the characters.

Nothing is said of a section that one of the two has lost: ``unseen`` names it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from otel_ctx.model import KINDS, Reading, Segment
from otel_ctx.outputs.views.align import aligned, rising
from otel_ctx.outputs.views.edits import Edit, common_start, edits
from otel_ctx.outputs.views.kinds import by_kind

TextOf = Callable[[str], str | None]
Change = Literal["same", "added", "evicted", "moved", "changed"]

_MEDIA = ("image", "file")  # their text is a reference of ours
_SAMPLE = 20_000  # characters of a text that say whether it is like another
_ALIKE = 0.4  # of the words, for a message to be the same one, edited


@dataclass(frozen=True, slots=True)
class Row:
    """One segment of either prompt, or of both. ``tokens`` as the provider counts them, so far as that is known:
    ``tokens_before`` is None where the segment was not there or cannot be counted."""

    change: Change
    before: Segment | None
    after: Segment | None
    tokens_before: int | None
    tokens_after: int | None
    char_offset: int | None = None  # of a change: where the texts part
    edits: tuple[Edit, ...] | None = None  # of a change; None where texts may not be shown or are not here


@dataclass(frozen=True, slots=True)
class KindChange:
    """Tokens of one kind (or ``other``) in both prompts; 0 where it has none of them."""

    kind: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """``rows`` in the order of the new prompt, and between them what has gone. ``prefix``: how many segments from the start
    are the same. ``unseen``: sections (tools, system, messages) that are in no row, since one of the two has lost them."""

    old: Reading
    new: Reading
    rows: tuple[Row, ...]
    kinds: tuple[KindChange, ...]
    prefix: int
    prefix_tokens: int
    unseen: tuple[str, ...]

    def of(self, change: Change) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.change == change)

    def tokens(self, change: Change) -> int:
        """Of the rows of that change: in the new prompt, or in the old one of what has left it."""
        side = "tokens_before" if change == "evicted" else "tokens_after"
        return sum(getattr(row, side) or 0 for row in self.of(change))


def compare(old: Reading, new: Reading, text: TextOf, *, show_text: bool = True) -> Comparison:
    """What became of the prompt of ``old`` in that of ``new``."""
    unseen = _unseen(old) | _unseen(new)
    before, after = _seen(old, unseen), _seen(new, unseen)
    same = aligned([s.digest for s in before], [s.digest for s in after])
    prefix = next((n for n, pair in enumerate(same) if pair != (n, n)), len(same))
    pairs: dict[int, tuple[int, Change]] = {j: (i, "same") for i, j in same}
    gone = _without((i for i, _ in same), len(before))
    came = _without((j for _, j in same), len(after))
    for i, j in _moved(before, after, gone, came):
        pairs[j] = i, "moved"
    gone = _without((i for i, _ in pairs.values()), len(before))
    came = _without(pairs, len(after))
    for i, j in _changed(before, after, gone, came, same, text):
        pairs[j] = i, "changed"
    scaled = _to_one_scale(old, new)
    scale = _scale(scaled, new)
    rows = [
        _row(
            change,
            before[i] if i is not None else None,
            after[j] if j is not None else None,
            scale,
            text,
            show_text,
        )
        for change, i, j in _in_order(len(before), len(after), pairs)
    ]
    return Comparison(
        old,
        new,
        tuple(rows),
        _kinds(scaled, new),
        prefix,
        sum(scale(s, 1) or 0 for s in after[:prefix]),
        tuple(sorted(unseen)),
    )


def _unseen(reading: Reading) -> set[str]:
    lost = set(reading.call.completeness.lost)
    if "head" in lost:
        lost = lost - {"head"} | {"messages"}
    return lost


def _seen(reading: Reading, unseen: set[str]) -> list[Segment]:
    prompt = reading.call.prompt
    return [
        *(() if "tools" in unseen else prompt.tools),
        *(() if "system" in unseen else prompt.system),
        *(s for s in prompt.messages if ("system" if s.kind == "system" else "messages") not in unseen),
    ]


def _without(indexes: Iterable[int], length: int) -> list[int]:
    known = set(indexes)
    return [i for i in range(length) if i not in known]


def _moved(
    before: Sequence[Segment], after: Sequence[Segment], gone: Sequence[int], came: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The same content at another place in the order."""
    places: dict[str, list[int]] = defaultdict(list)
    for i in reversed(gone):
        places[before[i].digest].append(i)
    for j in came:
        if places[after[j].digest]:
            yield places[after[j].digest].pop(), j


# ---- the same one, edited


def _changed(
    before: Sequence[Segment],
    after: Sequence[Segment],
    gone: Sequence[int],
    came: Sequence[int],
    same: Sequence[tuple[int, int]],
    text: TextOf,
) -> Iterator[tuple[int, int]]:
    """A tool of the same name, wherever it stands; else, between the same neighbours, one of the same kind and role
    whose text is like the other's; in order, so that no two pairs cross."""
    tools = {before[i].name: i for i in gone if before[i].kind == "tools" and before[i].name}
    for j in came:
        if after[j].kind == "tools" and after[j].name in tools:
            yield tools.pop(after[j].name), j
    room = _gaps(
        same, [i for i in gone if before[i].kind != "tools"], [j for j in came if after[j].kind != "tools"]
    )
    for olds, news in room:
        left = list(olds)
        for j in news:
            for n, i in enumerate(left):
                if _same_sort(before[i], after[j]) and _alike(
                    before[i], after[j], text, len(olds), len(news)
                ):
                    yield i, j
                    del left[: n + 1]  # in order: what was passed over is gone
                    break


def _gaps(
    same: Sequence[tuple[int, int]], gone: Sequence[int], came: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """What went and what came between two segments that stayed."""
    gaps: dict[int, tuple[list[int], list[int]]] = {}
    for side, indexes in enumerate((gone, came)):
        n = 0
        for index in indexes:
            while n < len(same) and same[n][side] < index:
                n += 1
            gaps.setdefault(n, ([], []))[side].append(index)
    for n in sorted(gaps):
        if all(gaps[n]):
            yield gaps[n]


def _same_sort(a: Segment, b: Segment) -> bool:
    return (a.kind, a.role, a.name) == (b.kind, b.role, b.name)


def _alike(a: Segment, b: Segment, text: TextOf, olds: int, news: int) -> bool:
    if a.kind == "system" or olds == 1 == news:
        return True  # at the same place, with nothing else that it could be
    x, y = text(a.digest), text(b.digest)
    if x is None or y is None or a.kind in _MEDIA:
        return a.path == b.path
    x, y = x[:_SAMPLE], y[:_SAMPLE]
    if common_start(x, y) >= _ALIKE * max(len(x), len(y)):
        return True
    words, others = Counter(x.split()), Counter(y.split())
    total = words.total() + others.total()
    return bool(total) and 2 * (words & others).total() / total >= _ALIKE


# ---- rows


def _in_order(
    olds: int, news: int, pairs: dict[int, tuple[int, Change]]
) -> Iterator[tuple[Change, int | None, int | None]]:
    """The new prompt from start to end; what has gone stands where it stood, before what came there."""
    told = {i for i, _ in pairs.values()}
    stayed = rising([(j, i) for j, (i, change) in sorted(pairs.items()) if change != "moved"])
    at_old = at_new = 0
    for next_j, next_i in [*stayed, (news, olds)]:
        for i in range(at_old, next_i):
            if i not in told:
                yield "evicted", i, None
        for j in range(at_new, min(next_j + 1, news)):
            if j in pairs:
                i, change = pairs[j]
                yield change, i, j
            else:
                yield "added", None, j
        at_old, at_new = next_i + 1, next_j + 1


Scale = Callable[[Segment, int], int | None]


def _to_one_scale(old: Reading, new: Reading) -> Reading:
    """Of one model, what is the same has one size: what estimates are scaled by gets better from call to call."""
    estimates = {old.tokens.method, new.tokens.method} <= {"estimated", "calibrated"}
    if old.call.model != new.call.model or not estimates:
        return old
    return old._replace(tokens=replace(old.tokens, factor=new.tokens.factor))


def _scale(old: Reading, new: Reading) -> Scale:
    """A segment's tokens in the old (0) and in the new (1) prompt."""
    factors = old.tokens.factor, new.tokens.factor

    def scale(segment: Segment, side: int) -> int | None:
        return None if segment.tokens is None else round(segment.tokens * factors[side])

    return scale


def _row(
    change: Change, before: Segment | None, after: Segment | None, scale: Scale, text: TextOf, show_text: bool
) -> Row:
    offset, parts = None, None
    if change == "changed" and before is not None and after is not None and before.kind not in _MEDIA:
        x, y = text(before.digest), text(after.digest)
        if x is not None and y is not None:
            offset = common_start(x, y)
            parts = edits(x, y) if show_text else None
    return Row(
        change,
        before,
        after,
        None if before is None else scale(before, 0),
        None if after is None else scale(after, 1),
        offset,
        parts,
    )


def _kinds(old: Reading, new: Reading) -> tuple[KindChange, ...]:
    before, after = by_kind(old), by_kind(new)
    return tuple(
        KindChange(kind, before.get(kind, 0), after.get(kind, 0))
        for kind in (*KINDS, "other")
        if before.get(kind) or after.get(kind)
    )
