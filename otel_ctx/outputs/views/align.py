"""Two sequences side by side: what of one is in the other, in the same order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

_WORK = 20  # looks at each item, on average: past it the rest is taken for different


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs (index in ``a``, index in ``b``) of equal items, rising in both: a patience diff. What is unique on both sides
    anchors the rest, so that time and result do not hang on how often a word or a blank line is repeated."""
    pairs: list[tuple[int, int]] = []
    budget = _WORK * (len(a) + len(b)) + 1_000
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        low_a, high_a, low_b, high_b = gaps.pop()
        while low_a < high_a and low_b < high_b and a[low_a] == b[low_b]:
            pairs.append((low_a, low_b))
            low_a, low_b = low_a + 1, low_b + 1
        while low_a < high_a and low_b < high_b and a[high_a - 1] == b[high_b - 1]:
            high_a, high_b = high_a - 1, high_b - 1
            pairs.append((high_a, high_b))
        budget -= high_a - low_a + high_b - low_b
        if low_a == high_a or low_b == high_b or budget < 0:
            continue
        at_a, at_b = low_a, low_b
        for i, j in _anchors(a, b, low_a, high_a, low_b, high_b):
            gaps.append((at_a, i, at_b, j))
            pairs.append((i, j))
            at_a, at_b = i + 1, j + 1
        if at_a > low_a:  # else there is no anchor, and the gap is what it was
            gaps.append((at_a, high_a, at_b, high_b))
    return sorted(pairs)


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], low_a: int, high_a: int, low_b: int, high_b: int
) -> list[tuple[int, int]]:
    """The longest rising chain of items that both gaps hold once; where there is none, of first with first, second with
    second of those that they hold several times."""
    in_a, in_b = Counter(a[low_a:high_a]), Counter(b[low_b:high_b])
    places = {b[j]: j for j in range(low_b, high_b) if in_b[b[j]] == 1 == in_a[b[j]]}
    if places:
        return rising([(i, places[a[i]]) for i in range(low_a, high_a) if a[i] in places])
    repeated: dict[Hashable, list[int]] = {item: [] for item in in_a.keys() & in_b.keys()}
    for j in range(high_b - 1, low_b - 1, -1):
        if b[j] in repeated:
            repeated[b[j]].append(j)
    return rising([(i, repeated[a[i]].pop()) for i in range(low_a, high_a) if repeated.get(a[i])])


def rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest chain of ``pairs``, which rise in the first number, that rises in the second too."""
    ends: list[int] = []  # smallest second number that ends a chain of each length
    tops: list[int] = []  # which pair that is
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(tops[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            tops.append(n)
        else:
            ends[length], tops[length] = j, n
    chain, n = [], tops[-1] if tops else -1
    while n >= 0:
        chain.append(pairs[n])
        n = before[n]
    return chain[::-1]
