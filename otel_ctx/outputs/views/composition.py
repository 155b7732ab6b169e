"""What fills the window at one call, as tiles: an area for each kind, in it one for each large segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from squarify import normalize_sizes, squarify

from otel_ctx.model import KIND_INDEX, ZERO, Chain, Reading, Segment
from otel_ctx.outputs.views.kinds import by_kind

_LEAST = 0.002  # of the window: what is smaller is no tile of its own


class Tile(NamedTuple):
    """``segment``: its index in the prompt; None: the tile stands for ``segments`` smaller segments of its kind together.
    x, y, width, height in the units of the whole picture; ``tokens`` are the provider's, as far as that is known."""

    kind: str
    segment: int | None
    segments: int
    tokens: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Heavy:
    """The largest segments of a stretch of prompt (tokens, index), and how many segments of each kind it has."""

    largest: tuple[tuple[int, int, Segment], ...]
    counts: tuple[int, ...]


Memo = dict[Chain, Heavy]
"""Of the chains that were looked at: a call that extends another costs only what is new in it."""

_NONE = Heavy((), ZERO)


def composition(
    reading: Reading, width: float = 1.0, height: float = 1.0, *, most: int = 30, memo: Memo | None = None
) -> tuple[Tile, ...]:
    """Tiles that fill ``width`` × ``height``, areas by tokens: at most ``most`` segments, the rest of each kind together."""
    if reading.tokens.method == "unmeasured" and reading.call.usage.input is None:
        return ()
    sums = by_kind(reading)
    whole = sum(sums.values())
    if not whole:
        return ()
    heavy = _heavy(reading, most, {} if memo is None else memo)
    factor = reading.tokens.factor
    largest = [
        (round(tokens * factor), i, s) for tokens, i, s in heavy.largest if tokens * factor >= whole * _LEAST
    ]
    kinds = sorted(sums, key=lambda k: (-sums[k], k))
    tiles: list[Tile] = []
    for kind, (x, y, w, h) in zip(kinds, _tiled([sums[k] for k in kinds], 0, 0, width, height), strict=True):
        own = [(tokens, i) for tokens, i, s in largest if s.kind == kind and tokens]
        count = heavy.counts[KIND_INDEX[kind]] - len(own) if kind in KIND_INDEX else 0
        rest = sums[kind] - sum(tokens for tokens, _ in own)
        parts: list[tuple[int, int | None, int]] = [(tokens, i, 1) for tokens, i in own]
        if rest > 0 and (count > 0 or not own):
            parts.append((rest, None, max(count, 0)))
        parts.sort(key=lambda p: -p[0])
        places = _tiled([tokens for tokens, _, _ in parts], x, y, w, h)
        tiles += [Tile(kind, i, n, tokens, *at) for (tokens, i, n), at in zip(parts, places, strict=True)]
    return tuple(tiles)


def _tiled(
    sizes: Sequence[int], x: float, y: float, width: float, height: float
) -> list[tuple[float, float, float, float]]:
    """``sizes``, descending and positive."""
    rects = squarify(normalize_sizes(sizes, width, height), x, y, width, height)
    return [(r["x"], r["y"], r["dx"], r["dy"]) for r in rects]


def _heavy(reading: Reading, most: int, memo: Memo) -> Heavy:
    prompt = reading.call.prompt
    head = (*prompt.tools, *prompt.system)
    front = _more(_NONE, head, 0, most)
    links = []
    link: Chain | None = prompt.messages
    while link is not None and link not in memo:
        links.append(link)
        link = link.base
    known = memo[link] if link is not None else _NONE
    for link in reversed(links):
        known = memo[link] = _more(known, link.new, link.length - len(link.new), most)
    moved = tuple((tokens, i + len(head), s) for tokens, i, s in known.largest)
    both = nlargest(most, (*front.largest, *moved), key=_size)
    return Heavy(tuple(both), tuple(a + b for a, b in zip(front.counts, known.counts, strict=True)))


def _more(known: Heavy, new: Iterable[Segment], start: int, most: int) -> Heavy:
    counts = list(known.counts)
    added = []
    for i, s in enumerate(new, start):
        counts[KIND_INDEX[s.kind]] += 1
        if s.tokens:
            added.append((s.tokens, i, s))
    return Heavy(tuple(nlargest(most, (*known.largest, *added), key=_size)), tuple(counts))


def _size(item: tuple[int, int, Segment]) -> tuple[int, int]:
    return item[0], -item[1]
