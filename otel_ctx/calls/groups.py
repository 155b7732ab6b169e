"""Which spans tell of the same request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple

from otel_ctx.calls.answers import paired
from otel_ctx.calls.beside import CLOSE_NS, beside_logs, beside_spans, one_model, other_ids, unlike
from otel_ctx.calls.copies import copied
from otel_ctx.calls.ids import with_one_id
from otel_ctx.calls.told import Told
from otel_ctx.model import KIND_INDEX, Telling, Usage
from otel_ctx.rules import Rules
from otel_ctx.usage import agree

HIGHEST = 64  # spans that are looked at above one
_AT_ONCE = 512  # spans of one library and one length of answer that are looked at beside one


class Grouped(NamedTuple):
    """``groups``: tellings of one request each; ``wrappers``: spans that turned out to wrap several; ``unclear``: requests and
    answers of one id of which nothing tells which belong together."""

    groups: list[list[Told]]
    wrappers: list[Told]
    unclear: list[Told]


def group(
    calls: list[Told], parents: Mapping[tuple[str, str], str], usage: Mapping[str, Usage], rules: Rules
) -> Grouped:
    calls = sorted(calls, key=outer_first)
    leader = {t.id: t.id for t in calls}
    by_id = {t.id: t for t in calls}

    def find(x: str) -> str:
        while leader[x] != x:
            leader[x] = leader[leader[x]]
            x = leader[x]
        return x

    def join(a: str, b: str) -> None:
        a, b = find(a), find(b)
        if a != b:
            leader[max(a, b)] = min(a, b)

    inside: dict[str, list[Told]] = {}
    for t in calls:
        above = nearest(t.telling, parents, by_id)
        if above is not None:
            inside.setdefault(above, []).append(t)

    for t, other in with_one_id(calls, usage, inside):
        # a loop that ends with its last answer has that answer's id, and the numbers of all
        within = [inside.get(x.id, ()) for x in (t, other)]
        loop = any(len({i.telling.response_id or i.id for i in inner}) > 1 for inner in within)
        if not loop or agree(usage[t.id], usage[other.id]):
            join(t.id, other.id)

    unclear: list[Told] = []
    if any(t.telling.record == "request" for t in calls):
        answers = paired(calls, rules, find)
        unclear = answers.unclear
        for t, other in answers.pairs:
            join(t.id, other.id)
        for t, other in copied(calls, find):
            join(t.id, other.id)
    for t, other in beside_spans(calls, usage, find):
        join(t.id, other.id)
    for t, other in beside_logs(calls, usage, find):
        join(t.id, other.id)

    wrappers: dict[str, list[Told]] = {}
    innermost_first = sorted(inside, key=lambda i: (-_height(by_id[i].telling, parents), i))
    for outer_id in innermost_first:
        outer = by_id[outer_id]
        inner = [t for i in inside[outer_id] for t in wrappers.get(i.id, (i,))]
        requests = {find(t.id) for t in inner}
        others = requests - {find(outer_id)}
        if len(requests) == 1 and others and may_be_same(outer, inner[0], usage):
            join(outer_id, inner[0].id)
        elif find(outer_id) not in requests and (len(others) > 1 or outer.telling.guess):
            wrappers[outer_id] = inner  # a guess gives way to what is told below it

    gone = wrappers.keys()
    left = [t for t in calls if t.id not in gone]
    several = len({(t.telling.scope, t.telling.dialect) for t in left}) > 1
    if several:  # one alone does not tell of a request in these ways
        _join_nodes(left, join)
        _join_across_traces(left, usage, find, join)
    _join_ends_of_streams(left, join)
    groups: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        if t.id not in gone:
            groups[find(t.id)].append(t)
    return Grouped(list(groups.values()), [by_id[i] for i in gone], unclear)


def outer_first(t: Told) -> tuple[int, int, str]:
    return t.telling.start_unix_nano, -t.telling.end_unix_nano, t.id


def _height(t: Telling, parents: Mapping[tuple[str, str], str]) -> int:
    """How many spans are known to stand above this one."""
    span, steps = _parent(t, parents), 0
    while span and steps < HIGHEST:
        span, steps = parents.get((t.trace_id, span), ""), steps + 1
    return steps


def _parent(t: Telling, parents: Mapping[tuple[str, str], str]) -> str:
    return parents.get((t.trace_id, t.span_id)) or t.parent_id


def nearest(t: Telling, parents: Mapping[tuple[str, str], str], among: Mapping[str, Told]) -> str | None:
    """The nearest ancestor that is one of ``among``."""
    span, steps = _parent(t, parents), 0
    while span and steps < HIGHEST:
        key = f"{t.trace_id}:{span}"
        if key in among:
            return key
        span, steps = parents.get((t.trace_id, span), ""), steps + 1
    return None


def may_be_same(outer: Told, inner: Told, usage: Mapping[str, Usage]) -> bool:
    """Could a call span inside another call span tell of the same request?"""
    if other_ids(outer.telling, inner.telling):
        return False
    if _same_words(outer, inner):
        return True
    if outer.telling.usage is None or inner.telling.usage is None:
        if outer.telling.scope == inner.telling.scope:
            return not (outer.content and inner.content) or _equal_messages(outer, inner)
        return not unlike(outer, inner)
    return agree(usage[outer.id], usage[inner.id])


def _same_words(outer: Told, inner: Told) -> bool:
    """One prompt, told by two instrumentations, one inside the other: the numbers may differ a little."""
    a, b = outer.telling, inner.telling
    inside = a.start_unix_nano <= b.start_unix_nano and b.end_unix_nano <= a.end_unix_nano + CLOSE_NS
    return inside and a.scope != b.scope and one_model(a, b) and _equal_messages(outer, inner)


def _equal_messages(a: Told, b: Told) -> bool:
    return bool(a.messages.key) and a.messages.key == b.messages.key


def _join_nodes(calls: list[Told], join: Callable[[str, str], None]) -> None:
    """A library that loses its spans' parents, and tells of a request by a span of its own and by that of the step
    around it: each step to the last request within it that has its words. A step that has none stands for itself."""
    alike: dict[tuple[str, str, tuple[int, ...]], list[Told]] = defaultdict(list)
    for t in calls:
        if t.messages.first is not None and t.telling.record == "span":
            asked = tuple(t.messages.tokens_by_kind[KIND_INDEX[k]] for k in ("user", "tool_result"))
            alike[t.telling.scope, t.messages.first.digest, asked].append(t)
    for same in alike.values():
        if len({t.telling.dialect for t in same}) < 2:
            continue
        for step in same:
            within = [t for t in same if _is_around(step.telling, t.telling)]
            if within:
                join(step.id, max(within, key=lambda t: (t.telling.end_unix_nano, t.id)).id)


def _is_around(step: Telling, call: Telling) -> bool:
    return (
        step.dialect != call.dialect
        and not (step.parent_id or call.parent_id)
        and step.start_unix_nano <= call.start_unix_nano
        and call.end_unix_nano <= step.end_unix_nano
        and not other_ids(step, call)
        and one_model(step, call)
    )


def _join_across_traces(
    calls: list[Told],
    usage: Mapping[str, Usage],
    find: Callable[[str], str],
    join: Callable[[str, str], None],
) -> None:
    """Instrumentations whose spans lie in different traces: one inside the other in time, other scopes, equal numbers, and
    nobody else who could be meant."""
    clothes: dict[str, set[tuple[str, str]]] = defaultdict(set)
    by_output: dict[int, list[Told]] = defaultdict(list)
    for t in calls:
        clothes[find(t.id)].add((t.telling.scope, t.telling.dialect))
        output = usage[t.id].output
        if output is not None:
            by_output[output].append(t)
    partners: dict[str, set[str]] = defaultdict(set)
    for same in by_output.values():
        worn: dict[frozenset[tuple[str, str]], list[tuple[int, Told]]] = defaultdict(list)
        for place, t in enumerate(same):
            worn[frozenset(clothes[find(t.id)])].append((place, t))
        for mine, theirs in permutations(worn, 2):
            if not mine.isdisjoint(theirs):
                continue  # of one scope two spans are two calls
            for a, b in _in_time(worn[mine], worn[theirs]):
                if _two_clothes(a, b) and agree(usage[a.id], usage[b.id]) and not unlike(a, b):
                    x, y = find(a.id), find(b.id)
                    partners[x].add(y)
                    partners[y].add(x)
    for x, others in partners.items():
        meant = {x, *others}
        if all(partners[y] | {y} == meant for y in others):
            for y in others:
                join(x, y)


def _in_time(mine: list[tuple[int, Told]], theirs: list[tuple[int, Told]]) -> Iterator[tuple[Told, Told]]:
    """Each of ``mine`` with those of ``theirs`` that begin after it, and before it ends. Both in their order."""
    first = 0
    for place, a in mine:
        while first < len(theirs) and theirs[first][0] < place:
            first += 1
        for _, b in theirs[first : first + _AT_ONCE]:
            if b.telling.start_unix_nano > a.telling.end_unix_nano + CLOSE_NS:
                break
            yield a, b


def _join_ends_of_streams(calls: list[Told], join: Callable[[str, str], None]) -> None:
    """A request whose answer was streamed, told by two spans: one with the prompt when it was sent, one without a length with
    the prompt, the answer and the numbers when the stream had ended."""
    sent: dict[tuple[str, str, bytes], list[Told]] = defaultdict(list)
    spans = [t for t in calls if t.telling.record == "span"]
    if not any(map(awaits_its_end, spans)):
        return
    for t in sorted(spans, key=lambda t: (t.telling.end_unix_nano, t.telling.usage is not None, t.id)):
        key = (t.telling.scope, t.telling.request_model, t.messages.key)
        if not t.messages.length:
            continue
        if awaits_its_end(t):
            sent[key].append(t)
        elif t.telling.start_unix_nano == t.telling.end_unix_nano and sent[key]:
            join(t.id, sent[key].pop().id)


def awaits_its_end(t: Told) -> bool:
    """Another span may tell, however much later, what was answered."""
    return t.telling.usage is None and not t.answer


def may_be_told_twice(a: Told, b: Told) -> bool:
    """Could two instrumentations, whose spans lie in different traces, tell of one request? By all but the numbers."""
    return _two_clothes(a, b) and not unlike(a, b)


def _two_clothes(a: Told, b: Told) -> bool:
    x, y = a.telling, b.telling
    if x.scope == y.scope and x.dialect == y.dialect:
        return False
    if x.trace_id == y.trace_id and x.parent_id != y.parent_id:
        return False  # inside one trace the tree decides
    if other_ids(x, y) or not one_model(x, y) or (x.service and y.service and x.service != y.service):
        return False
    outer, inner = (x, y) if x.start_unix_nano <= y.start_unix_nano else (y, x)
    return inner.end_unix_nano <= outer.end_unix_nano + CLOSE_NS
