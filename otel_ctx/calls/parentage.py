"""Where parent ids were lost: which span stands around another, by their times."""

from __future__ import annotations

from collections import ChainMap, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from otel_ctx.calls.beside import CLOSE_NS
from otel_ctx.calls.told import Told
from otel_ctx.model import Usage

Parents = Mapping[tuple[str, str], str]
_LOOKED_AT = 64  # spans that are open at one time
_MOST = 256  # calls that one span sums up, though it says that it is a call


def found_again(
    spans: Sequence[Told],
    parents: Parents,
    usage: Mapping[str, Usage],
    may_wrap: Callable[[Told, Told], bool],
) -> Parents:
    """``parents``, and for spans whose parent is not named or never came the one that they stand in: the innermost sum
    of their trace that was open all the time, or a call with the exact numbers of those in it. Some exporters and filters
    leave the parents out: then a sum is no call either. ``may_wrap``: could an outer call tell of the one inner call?"""
    roots: dict[str, list[Told]] = defaultdict(list)
    for t in spans:
        said = t.telling
        if said.record == "span" and said.start_unix_nano and (said.trace_id, said.parent_id) not in parents:
            roots[said.trace_id].append(t)
    found = {
        (inner.telling.trace_id, inner.telling.span_id): outer.telling.span_id
        for same in roots.values()
        if len(same) > 1
        for inner, outer in _placed(same, usage, may_wrap)
    }
    return ChainMap(found, parents) if found else parents  # type: ignore[arg-type]  # it is only read


def _placed(
    roots: list[Told], usage: Mapping[str, Usage], may_wrap: Callable[[Told, Told], bool]
) -> Iterator[tuple[Told, Told]]:
    """(inner, outer) of one trace, from the inside outwards: what a call does not explain stands in what is around it."""
    around = dict(_around(roots))
    within: dict[Told, list[Told]] = defaultdict(list)
    for t in reversed(around):
        inner = within.pop(t, [])
        if inner and (t.telling.role == "aggregate" or _explains(t, inner, usage, may_wrap)):
            yield from ((i, t) for i in inner)
            inner = []
        outer = around[t]
        if outer is not None:
            inner.append(t)
            within[outer] = [*within[outer], *inner] if outer in within else inner


def _around(roots: list[Told]) -> Iterator[tuple[Told, Told | None]]:
    """Each span and the innermost that was open from its start to its end, outer ones first; of equal times sums are."""
    still: list[Told] = []
    for t in sorted(roots, key=_outer_first):
        start, end = t.telling.start_unix_nano, t.telling.end_unix_nano
        while still and still[-1].telling.end_unix_nano < start:
            still.pop()
        yield t, _innermost(still, start, end) if still else None
        if end > start:
            still.append(t)


def _innermost(still: list[Told], start: int, end: int) -> Told | None:
    outer = (o for o in reversed(still[-_LOOKED_AT:]) if end <= o.telling.end_unix_nano + CLOSE_NS)
    return next((o for o in outer if start <= o.telling.end_unix_nano), None)


def _outer_first(t: Told) -> tuple[int, int, bool, str]:
    return t.telling.start_unix_nano, -t.telling.end_unix_nano, t.telling.role == "call", t.id


def _explains(
    outer: Told, inner: list[Told], usage: Mapping[str, Usage], may_wrap: Callable[[Told, Told], bool]
) -> bool:
    """Does a call only tell again of those inside? Of one, or of the first or the last of a loop, what could be its
    wrapper and is no second one of its kind; of several their exact sum."""
    if (len(inner) == 1 or outer.telling.usage is not None) and any(
        _kind(outer) != _kind(i)
        and not outer.telling.parent_id == i.telling.parent_id != ""
        and may_wrap(outer, i)
        for i in (inner[0], inner[-1])
    ):
        return True
    if not 1 < len(inner) <= _MOST:
        return False
    mine, theirs = usage[outer.id], [usage[i.id] for i in inner]
    return all(
        getattr(mine, n) is not None and getattr(mine, n) == sum(getattr(u, n) or 0 for u in theirs)
        for n in ("input", "output")
    )


def _kind(t: Told) -> tuple[object, ...]:
    """What a library fills in in each span of one kind: two of one kind are two calls, be the numbers equal."""
    said = t.telling
    filled = (said.response_id, said.response_model, said.usage, t.content)
    return said.scope, said.dialect, said.operation, tuple(map(bool, filled))
