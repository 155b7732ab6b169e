"""Requests that logs, transcripts and accounts tell of, beside the spans of the same requests; and how far two tellings are
apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from otel_ctx.calls.told import Told
from otel_ctx.model import SECOND, Telling, Usage
from otel_ctx.rules import normalise_model_id
from otel_ctx.usage import agree

CLOSE_NS = 5_000_000  # clocks of two instrumentations in one process
SAME_ID_NS = 5_000_000_000  # a response id that comes back later than this is another response
# as OpenTelemetry writes it: other tracers have others of the same request
_TRACE = re.compile("[0-9a-f]{32}")
_LOOKED_AT = 64  # spans with the same prompt or numbers


def beside_spans(
    calls: list[Told], usage: Mapping[str, Usage], find: Callable[[str], str]
) -> Iterator[tuple[Told, Told]]:
    """Pairs that tell of one request each. ``find`` names the group that a telling was put into."""
    if all(t.telling.record == "span" for t in calls):
        return _accounted(calls, usage)
    return chain(_logged(calls, usage, find), _transcribed(calls, usage), _accounted(calls, usage))


def apart(a: Telling, b: Telling) -> int:
    """Nanoseconds between two spans, 0 where they overlap. One whose end is not known, or wrong, ended when it began."""
    ends = (max(t.start_unix_nano, t.end_unix_nano) for t in (a, b))
    return max(0, max(a.start_unix_nano, b.start_unix_nano) - min(ends))


def other_ids(a: Telling, b: Telling) -> bool:
    return bool(a.response_id) and bool(b.response_id) and a.response_id != b.response_id


def one_model(a: Telling, b: Telling) -> bool:
    """Nothing says that two models answered."""
    mine, theirs = ({normalise_model_id(m) for m in (t.request_model, t.response_model) if m} for t in (a, b))
    return not mine or not theirs or not mine.isdisjoint(theirs)


def unlike(a: Told, b: Told) -> bool:
    """Both prompts were seen, and have nothing in common."""
    x, y = a.messages.first, b.messages.first
    if x is None or y is None or x.digest == y.digest or "messages" in a.telling.lost | b.telling.lost:
        return False
    mine, theirs = ({s.digest for s in t.messages if s.kind != "system"} for t in (a, b))
    return mine.isdisjoint(theirs)


def _of_another(logged: Telling, span: Telling) -> bool:
    """Does a log say that its request was of another conversation or trace than the span?"""
    mine, theirs = logged.conversation_hint, span.conversation_hint
    if mine and theirs and mine != theirs:
        return True
    traces = {value.lower() for name, value in logged.ids if name.lower().replace("_", "") == "traceid"}
    return any(map(_TRACE.fullmatch, traces)) and span.trace_id.lower() not in traces


def _accounted(calls: list[Told], usage: Mapping[str, Usage]) -> Iterator[tuple[Told, Told]]:
    """Spans that only keep account of what was spent (AG2's ``record_usage``), beside the span of the request: that of
    one scope and one parent, begun before, with the same numbers. One that nobody tells of stands for itself."""
    spans = [t for t in calls if t.telling.record == "span"]
    accounts = [t for t in spans if _keeps_account(t)]
    if not accounts:
        return
    requests: dict[tuple[str, ...], list[Told]] = defaultdict(list)
    for t in spans:
        if not _keeps_account(t):
            requests[_place(t.telling)].append(t)
    for t in accounts:
        near = requests[_place(t.telling)]
        found = next((r for r in reversed(near) if _may_be_accounted(t, r, usage)), None)
        if found is not None:
            near.remove(found)
            yield t, found


def _keeps_account(t: Told) -> bool:
    """Are there numbers of a model, and nothing that was asked, not even a name of what was done?"""
    said = t.telling
    nothing = not (said.operation or said.request_model or said.response_id or t.content or t.answer)
    return nothing and bool(said.response_model) and said.usage is not None


def _place(said: Telling) -> tuple[str, ...]:
    return said.trace_id, said.parent_id, said.scope, said.dialect


def _may_be_accounted(account: Told, request: Told, usage: Mapping[str, Usage]) -> bool:
    a, b = account.telling, request.telling
    if b.start_unix_nano > a.start_unix_nano or apart(a, b) > SAME_ID_NS:
        return False
    return a.response_model in (b.response_model, b.request_model) and agree(
        usage[account.id], usage[request.id]
    )


def _logged(
    calls: list[Told], usage: Mapping[str, Usage], find: Callable[[str], str]
) -> Iterator[tuple[Told, Told]]:
    """Requests in a log beside spans of the same requests: of those with the same prompt, and no other numbers, the nearest
    in time. Bodies that agents leave in files have no time: a span with that prompt tells it. Of spans that tell no
    prompt, the nearest with the same numbers."""
    spans: dict[bytes, list[Told]] = defaultdict(list)
    numbered: dict[tuple[int | None, int | None], list[Told]] = defaultdict(list)
    traced: set[str] = set()
    for t in calls:
        if t.telling.record != "span":
            continue
        traced.add(find(t.id))
        if t.messages.key:
            spans[t.messages.key].append(t)
        elif None not in _sizes(usage[t.id]):
            numbered[_sizes(usage[t.id])].append(t)
    for t in calls:
        if t.telling.record != "request" or find(t.id) in traced:
            continue
        for same, may_be in (
            (spans.get(t.messages.key, []), _may_be_logged),
            (numbered.get(_sizes(usage[t.id]), []), _has_its_numbers),
        ):
            found = _nearest(t, same, usage, may_be)
            if found is not None:
                same.remove(found)
                traced.add(find(t.id))
                yield t, found
                break


def _sizes(usage: Usage) -> tuple[int | None, int | None]:
    return usage.input, usage.output


def _nearest(
    t: Told,
    same: list[Told],
    usage: Mapping[str, Usage],
    may_be: Callable[[Told, Told, Mapping[str, Usage]], bool],
) -> Told | None:
    """The one of ``same`` that may tell of the request of ``t``. Both come in the order of their starts: what ended long
    before is taken out."""
    while same and t.telling.start_unix_nano - same[0].telling.end_unix_nano > SAME_ID_NS:
        del same[0]
    return min(
        (s for s in same[:_LOOKED_AT] if may_be(t, s, usage)),
        key=lambda s: apart(s.telling, t.telling),
        default=None,
    )


def _has_its_numbers(logged: Told, other: Told, usage: Mapping[str, Usage]) -> bool:
    """Could what tells no whole prompt tell of the request? Its clock may be another: one is the client's, one the server's."""
    a, b = logged.telling, other.telling
    if other_ids(a, b) or a.status != b.status or not a.start_unix_nano or apart(a, b) > SAME_ID_NS:
        return False
    if b.record == "span" and _of_another(a, b):
        return False
    return one_model(a, b) and agree(usage[logged.id], usage[other.id]) and not unlike(logged, other)


def _may_be_logged(logged: Told, span: Told, usage: Mapping[str, Usage]) -> bool:
    """Could a span with its prompt tell of the request? The less else is known, the nearer it must be."""
    a, b = logged.telling, span.telling
    if other_ids(a, b) or a.status != b.status or _of_another(a, b):
        return False
    told = a.usage is not None and b.usage is not None
    if told and not (one_model(a, b) and agree(usage[logged.id], usage[span.id])):
        return False
    if not a.start_unix_nano or apart(a, b) <= CLOSE_NS:
        return True
    # many logs count in whole seconds
    written_ns = SECOND if a.start_unix_nano % SECOND == 0 else CLOSE_NS
    return one_model(a, b) and apart(a, b) <= (SAME_ID_NS if told else written_ns)


def _transcribed(calls: list[Told], usage: Mapping[str, Usage]) -> Iterator[tuple[Told, Told]]:
    """Turns of a transcript beside spans of the same session: the same numbers at about the same time."""

    def numbers(t: Told) -> tuple[str, int | None, int | None]:
        return t.telling.conversation_hint, usage[t.id].input, usage[t.id].output

    spans: dict[tuple[str, int | None, int | None], list[Told]] = defaultdict(list)
    for t in calls:
        if t.telling.record == "span" and t.telling.conversation_hint and usage[t.id].input is not None:
            spans[numbers(t)].append(t)
    for t in calls:
        if t.telling.record != "transcript":
            continue
        same = spans.get(numbers(t), [])
        near = [s for s in same if not other_ids(s.telling, t.telling)]
        found = min(
            near, key=lambda s: abs(s.telling.start_unix_nano - t.telling.start_unix_nano), default=None
        )
        if found is not None and apart(found.telling, t.telling) < SAME_ID_NS:
            same.remove(found)
            yield t, found


def beside_logs(
    calls: list[Told], usage: Mapping[str, Usage], find: Callable[[str], str]
) -> Iterator[tuple[Told, Told]]:
    """Turns of a transcript beside requests in a log that know of no session: the same numbers at about the same time.
    ``find`` names the group that a telling was put into: one that has a turn and a request needs no other."""
    turns = [t for t in calls if t.telling.record == "transcript"]
    requests = [t for t in calls if t.telling.record == "request" and t.telling.start_unix_nano]
    if not turns or not requests:
        return
    logged, taken = {find(t.id) for t in requests}, {find(t.id) for t in turns}
    numbered: dict[tuple[int | None, int | None], list[Told]] = defaultdict(list)
    for t in requests:
        if usage[t.id].input and find(t.id) not in taken:
            taken.add(find(t.id))
            numbered[_sizes(usage[t.id])].append(t)
    for t in turns:
        if find(t.id) in logged:
            continue
        same = numbered[_sizes(usage[t.id])]
        found = _nearest(t, same, usage, _has_its_numbers)
        if found is not None:
            same.remove(found)
            logged.add(find(t.id))
            yield t, found
