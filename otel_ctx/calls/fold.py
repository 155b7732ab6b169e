"""Everything told -> the calls in order, and what belonged to none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ctx.calls.content import join_content
from otel_ctx.calls.groups import group, may_be_same, nearest, outer_first
from otel_ctx.calls.merge import aggregate_only, call_of
from otel_ctx.calls.parentage import found_again
from otel_ctx.calls.pieces import with_pieces
from otel_ctx.calls.told import Extend, Told, usage_of
from otel_ctx.model import (
    Call,
    Usage,
)
from otel_ctx.rules import Rules

_NO_USAGE = Usage()
_is_number = re.compile(r"\d{1,18}(?:\.\d{1,18})*").fullmatch


@dataclass(frozen=True, slots=True)
class Folded:
    """The calls in order of their start, and what belonged to none.

    ``conflicts``: call id -> contradictions between its numbers and sums above it, in words, told at the first call below
    the sum; ``members``: "TRACE:SPAN" of every span that tells of a call -> the call; ``records``: content records -> the
    call that they were given to; ``threads``: calls whose prompts are put together from pieces -> the thread of these;
    ``unclear``: calls of one id of which nothing tells which is the answer to which; ``usages``: what the spans tell of
    theirs."""

    calls: list[Call]
    orphans: list[Told]  # content records whose span never came
    conflicts: dict[str, list[str]]
    members: dict[str, str]
    records: dict[Told, str]
    threads: dict[str, str]
    unclear: tuple[str, ...]
    usages: dict[Told, Usage]

    def call_of(self, told: Told) -> str | None:
        """The id of the call that a span or a record tells of."""
        return self.records.get(told) or self.members.get(told.id)


@dataclass(slots=True)
class Made:
    """What was made of tellings that are folded again with others."""

    calls: dict[tuple[tuple[Told, ...], tuple[Told, ...]], Call] = field(default_factory=dict)
    usages: dict[Told, Usage] = field(default_factory=dict)

    parts: dict[Told, list[tuple[tuple[Told, ...], tuple[Told, ...]]]] = field(default_factory=dict)

    def put(self, group: tuple[Told, ...], over: tuple[Told, ...], call: Call) -> None:
        self.calls[group, over] = call
        for t in (*group, *over):
            self.parts.setdefault(t, []).append((group, over))

    def forget(self, told: Iterable[Told]) -> None:
        """And what was made of these with others."""
        for t in told:
            self.usages.pop(t, None)
            for key in self.parts.pop(t, ()):
                self.calls.pop(key, None)


def fold(
    told: Sequence[Told],
    parents: Mapping[tuple[str, str], str],
    rules: Rules,
    extend: Extend,
    above: Container[tuple[str, str]] = (),
    traced: Container[str] = (),
    *,
    whole: bool = True,
    made: Made | None = None,
    elsewhere: Sequence[Told] = (),
) -> Folded:
    """``told``: everything told, in any order; ``parents``: (trace, span) -> parent span id of every span seen; ``above``:
    spans known to stand above a call, though it may not be in ``told``; ``traced``: services of which each call has a
    span, be it one that has left; ``whole``: no call that was told is missing; ``made``: what earlier folds have made;
    ``elsewhere``: sums of calls that are not here."""
    joined = join_content(told, extend, traced)
    spans = joined.spans
    calls = [t for t in spans if t.telling.role == "call"]
    sums = [t for t in spans if t.telling.role == "aggregate"]
    own = set(told) if made is not None else set()  # others are made anew each time
    made = made or Made()
    usages = {t: _usage(t, rules, made.usages, own) for t in spans}
    usage = {t.id: said for t, said in usages.items()}
    parents = found_again(spans, parents, usage, lambda outer, inner: may_be_same(outer, inner, usage))
    grouped = group(calls, parents, usage, rules)
    groups = with_pieces(grouped.groups, joined.pieces, extend)
    sums = sorted(sums + grouped.wrappers, key=outer_first)
    by_id = {a.id: a for a in sums}
    folded: list[Call] = []
    below: dict[str, list[Call]] = defaultdict(list)
    threads: dict[str, str] = {}
    for g in groups:
        over = _sums_above(g, by_id, parents)
        key = tuple(g), tuple(over)
        call = made.calls.get(key)
        if call is None:
            call = call_of(g, usage, rules, over)
            if own.issuperset(g) and own.issuperset(over):
                made.put(*key, call)
        folded.append(call)
        thread = next((t.telling.thread for t in g if t.telling.thread), "")
        if thread:
            threads[call.id] = thread
        for a in over:
            below[a.id].append(call)
    requests = {t.id: t for g in groups for t in g}
    alone = {
        a.id: a
        for a in sums
        if a.telling.usage is not None
        and a.id not in below
        and (a.telling.trace_id, a.telling.span_id) not in above
        and nearest(a.telling, parents, requests) is None  # inside a request it sums nothing else
    }
    for a in alone.values():
        if nearest(a.telling, parents, alone) is None:  # of sums inside each other the outermost counts
            folded.append(aggregate_only(a, usage[a.id], rules))
    places = _places(folded)
    folded.sort(
        key=lambda call: (*places[call.id], *by_start(call)[2:]) if call.id in places else by_start(call)
    )
    members = {
        f"{s.trace_id}:{s.span_id}": call.id for call in folded for s in call.spans if s.role != "aggregate"
    }
    records = {record: members[span] for record, span in joined.given.items() if span in members}
    usage |= {t.id: _usage(t, rules, made.usages, own) for t in elsewhere}
    sums = sorted([*sums, *elsewhere], key=outer_first) if elsewhere else sums
    conflicts = _check_sums(sums, below, usage, whole=whole)
    unclear = tuple(dict.fromkeys(members[t.id] for t in grouped.unclear if t.id in members))
    return Folded(folded, joined.orphans, conflicts, members, records, threads, unclear, usages)


def by_start(call: Call) -> tuple[int, int, int, str, tuple[int, ...], str]:
    """Where times are equal or not known, records of a log in their order, and of others the shorter history first: the
    longer one may go on from it, never the other way round."""
    source, _, record = call.id.rpartition(":")
    length = call.prompt.messages.length if call.record != "request" else 0
    return call.start_unix_nano, call.end_unix_nano, length, source, _numbers(record), record


def _numbers(record: str) -> tuple[int, ...]:
    """Of a line, and of a place on it; () where it has a name."""
    return tuple(map(int, record.split("."))) if _is_number(record) else ()


def _places(calls: Iterable[Call]) -> dict[str, tuple[int, int]]:
    """Start and end by which a record is put in order that tells none, in a log where others do: those of the one before
    it, of the first ones those of the one behind them."""
    logs: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.record == "request":
            logs[call.id.rpartition(":")[0]].append(call)
    places: dict[str, tuple[int, int]] = {}
    for log in logs.values():
        if all(call.start_unix_nano for call in log):
            continue
        log.sort(key=lambda call: _numbers(call.id.rpartition(":")[2]))
        near = next(((c.start_unix_nano, c.end_unix_nano) for c in log if c.start_unix_nano), (0, 0))
        for call in log:
            if call.start_unix_nano:
                near = call.start_unix_nano, call.end_unix_nano
            else:
                places[call.id] = near
    return places


def _usage(t: Told, rules: Rules, known: dict[Told, Usage], own: set[Told]) -> Usage:
    if t.telling.usage is None:
        return _NO_USAGE
    usage = known.get(t)
    if usage is None:
        usage = usage_of(t, rules)
        if t in own:
            known[t] = usage
    return usage


def _sums_above(
    group: list[Told], sums: Mapping[str, Told], parents: Mapping[tuple[str, str], str]
) -> list[Told]:
    """The sums that stand above a request, the nearest first."""
    out: dict[str, Told] = {}
    for t in group if sums else ():
        above = nearest(t.telling, parents, sums)
        while above is not None and above not in out:
            out[above] = sums[above]
            above = nearest(sums[above].telling, parents, sums)
    return list(out.values())


def _check_sums(
    sums: list[Told], below: Mapping[str, list[Call]], usage: Mapping[str, Usage], *, whole: bool
) -> dict[str, list[str]]:
    """Contradictions, by the first call below each sum. Frameworks write the sum, one call's numbers, or a sum over the
    agent's whole life: none is wrong by itself. More than the calls have is told where all of them are here."""
    out: dict[str, list[str]] = {}
    before: dict[tuple[str, str, str], list[Usage]] = defaultdict(list)
    for a in sums:
        calls, mine = below.get(a.id, ()), usage[a.id]
        earlier = before[a.telling.scope, a.telling.service, a.telling.agent or a.telling.operation]
        words: list[str] = []
        for name in ("input", "output"):
            number, parts = getattr(mine, name), [getattr(c.usage, name) for c in calls]
            if number is None or not parts or None in parts:
                continue
            total = sum(parts)
            meant = {total, *parts, *(total + (getattr(u, name) or 0) for u in earlier)}
            meant.add(sum(getattr(c.usage, name) for c in calls if _is_right_above(a, c)))
            if name == "input":
                meant.add(total - sum((c.usage.cache_read or 0) + (c.usage.cache_write or 0) for c in calls))
            if number not in meant and (number < total or whole):
                words.append(
                    f"{name} {number:,} on {a.telling.operation or 'the parent'}, {total:,} on its calls"
                )
        if words:
            out.setdefault(min(calls, key=by_start).id, []).append("; ".join(words))
        earlier.append(mine)
    return out


def _is_right_above(a: Told, call: Call) -> bool:
    nearest_sum = next((s for s in call.spans if s.role == "aggregate"), None)
    return nearest_sum is not None and f"{nearest_sum.trace_id}:{nearest_sum.span_id}" == a.id
