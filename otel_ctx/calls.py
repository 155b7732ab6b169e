"""What several records tell of one request -> one Call, counted once.

The same request is told by a framework's span, by the SDK's own span below it (Anthropic's traces itself by default), by a
second instrumentation, by log records that hold its content, and once more in the sums of agent and chain spans. Leaves
count; a parent's sum is a check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import groupby
from typing import Literal

from otel_ctx.model import (
    EMPTY_CHAIN,
    KIND_INDEX,
    Call,
    Chain,
    Completeness,
    Prompt,
    Reason,
    Segment,
    SpanRef,
    Status,
    Telling,
    Usage,
)
from otel_ctx.rules import Rules
from otel_ctx.usage import agree, decide

_CLOSE_NS = 5_000_000  # clocks of two instrumentations in one process
_SAME_ID_NS = 5_000_000_000  # a response id that comes back later than this is another response
_GAP_TOKENS, _GAP_A_MESSAGE = 16, 4  # framing: the smallest tool takes more than this leaves
_FAR_TOKENS = 400
_HIGHEST = 64  # spans that are looked at above one
_FRAMING = 8  # tokens that a provider puts round a message, at most
_FAR_SHARE = 0.4  # of the reported input that no text accounts for, where counts are estimates
_FAR_EXACT = 0.15  # the same where they are exact: hidden instructions and framing are a few per cent


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """A telling whose content has been read: the raw values are gone, the segments are here."""

    telling: Telling
    tools: tuple[Segment, ...]
    system: tuple[Segment, ...]
    messages: Chain
    answer: tuple[Segment, ...]
    reasons: frozenset[Reason]
    weight: int = 0  # how much the telling held; of two of one span the heavier counts
    id: str = field(init=False)  # "TRACE:SPAN"
    content: int = field(init=False)  # how much of a prompt is here, in bytes

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"{self.telling.trace_id}:{self.telling.span_id}")
        size = self.messages.bytes
        for section in (self.tools, self.system):
            for s in section:
                size += s.bytes
        object.__setattr__(self, "content", size)


@dataclass(frozen=True, slots=True)
class Folded:
    """The calls in order of their start, and what belonged to none.

    ``conflicts``: call id -> contradictions between its numbers and sums above it, in words, told at the first call below
    the sum; ``members``: "TRACE:SPAN" of every span that tells of a call -> the call."""

    calls: list[Call]
    orphans: list[Told]  # content records whose span never came
    conflicts: dict[str, list[str]]
    members: dict[str, str]


Extend = Callable[[Chain, Iterable[Chain]], Chain]
"""One chain out of several that follow each other (content that came in single log records)."""


def fold(
    told: Sequence[Told],
    parents: Mapping[tuple[str, str], str],
    rules: Rules,
    extend: Extend,
    above: Container[tuple[str, str]] = (),
) -> Folded:
    """``told``: everything told, in any order; ``parents``: (trace, span) -> parent span id of every span seen; ``above``:
    spans known to stand above a call, though it may not be in ``told``."""
    spans, orphans = _join_content(told, extend)
    calls = [t for t in spans if t.telling.role == "call"]
    sums = [t for t in spans if t.telling.role == "aggregate"]
    usage = {t.id: _usage(t, rules) for t in spans}
    groups, wrappers = _group(calls, parents, usage)
    sums = sorted(sums + wrappers, key=_outer_first)
    by_id = {a.id: a for a in sums}
    made, below = [], defaultdict(list)
    for g in groups:
        over = _sums_above(g, by_id, parents)
        call = _call(g, usage, rules, over)
        made.append(call)
        for a in over:
            below[a.id].append(call)
    alone = {
        a.id: a
        for a in sums
        if a.telling.usage is not None
        and a.id not in below
        and (a.telling.trace_id, a.telling.span_id) not in above
    }
    for a in alone.values():
        if _nearest(a.telling, parents, alone) is None:  # of sums inside each other the outermost counts
            made.append(_aggregate_only(a, usage[a.id], rules))
    made.sort(key=_by_start)
    members = {f"{s.trace_id}:{s.span_id}": call.id for call in made for s in call.spans if s.role != "aggregate"}
    return Folded(made, orphans, _check_sums(sums, below, usage), members)


def _by_start(call: Call) -> tuple[int, int, str]:
    return call.start_unix_nano, call.end_unix_nano, call.id


def _outer_first(t: Told) -> tuple[int, int, str]:
    return t.telling.start_unix_nano, -t.telling.end_unix_nano, t.id


# ---- content records


def _join_content(told: Sequence[Told], extend: Extend) -> tuple[list[Told], list[Told]]:
    """Log records to the span they belong to. A record that tells a call's figures too stands in for a span that
    never came."""
    spans: dict[tuple[str, str], Told] = {}
    content: dict[tuple[str, str], list[Told]] = defaultdict(list)
    orphans: list[Told] = []
    for t in told:
        key = (t.telling.trace_id, t.telling.span_id)
        if t.telling.role == "content":
            if t.telling.span_id:
                content[key].append(t)
            else:
                orphans.append(t)
        elif key not in spans or (spans[key].content, spans[key].telling.role == "call") < (
            t.content,
            t.telling.role == "call",
        ):
            spans[key] = t
    for key, records in content.items():
        records = _delivered_once(sorted(records, key=lambda t: t.telling.order))
        span = spans.get(key)
        if span is None:
            speaker = next((r for r in records if r.telling.usage is not None or r.telling.response_id), None)
            if speaker is None:
                orphans += records
                continue
            span = replace(
                speaker, telling=replace(speaker.telling, role="call"), messages=EMPTY_CHAIN, answer=()
            )
        spans[key] = _with_content(span, records, extend)
    return list(spans.values()), orphans


def content_of(told: Told) -> str:
    """A name of what a record holds; the ids of tool calls tell results apart that are the same text."""
    segments = (*told.tools, *told.system, *told.messages, *told.answer)
    return blake2b(
        "".join(f"{s.digest}{s.call_id}\0" for s in segments).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()


def _delivered_once(records: list[Told]) -> list[Told]:
    """``records``, in order. Of one time there may be a whole history, in which messages come again; the same
    records all over again are a second delivery."""
    out: list[Told] = []
    for _, same_time in groupby(records, key=lambda t: t.telling.order):
        run = list(same_time)
        if len(run) > 1:
            contents = [content_of(t) for t in run]
            size = next(n for n in range(1, len(run) + 1) if contents == contents[:n] * (len(run) // n))
            run = run[:size]
        out += run
    return out


def _with_content(span: Told, records: list[Told], extend: Extend) -> Told:
    """``span`` with what its records hold. A section is taken from where it is whole, from the span where both are."""
    t = span.telling
    told = [span, *(r for r in records if _tells_a_request(r))]
    single = [r for r in records if not _tells_a_request(r)]
    if any(r.messages.length for r in single):
        told.append(_one_by_one(single, extend))
    messages = _whole(told, "messages", lambda x: x.messages.length)
    tools = _whole([span, *records], "tools", lambda x: len(x.tools))
    system = _whole([span, *records], "system", lambda x: len(x.system))
    answer = span.answer or tuple(s for r in records for s in r.answer)

    reasons = span.reasons.union(*(r.reasons for r in (*records, *told))) - {"not_captured", "logs_missing"}
    lost = t.lost.union(*(r.telling.lost for r in records))
    for section, speaker in (("messages", messages), ("tools", tools), ("system", system)):
        if speaker is not None:
            lost = lost - {section} | speaker.telling.lost & {section}
    if messages is not None:
        reasons |= messages.reasons & {"not_captured"}
        if messages is not span and not lost:
            reasons -= {"value_cut", "message_cut", "unparsable"}
    if tools is not None and "schema_missing" not in tools.reasons:
        reasons -= {"schema_missing"}
    chain = messages.messages if messages is not None else span.messages
    usage = t.usage or next((r.telling.usage for r in records if r.telling.usage), None)
    return replace(
        span,
        telling=replace(t, lost=lost, usage=usage),
        tools=tools.tools if tools is not None else (),
        system=_once(system.system, chain) if system is not None else (),
        messages=chain,
        answer=answer,
        reasons=reasons,
    )


def _tells_a_request(record: Told) -> bool:
    """One record for a whole request, and not one for each message: only such a one says whose request it is."""
    t = record.telling
    return bool(t.operation or t.request_model or t.response_model or t.response_id or t.usage)


def _one_by_one(records: list[Told], extend: Extend) -> Told:
    """Records that hold a message each, as one that holds them all. One without its content leaves a hole."""
    hole = any("not_captured" in r.reasons for r in records)
    first = records[0]
    lost = frozenset({"messages"}) if hole else frozenset()
    lost = lost.union(*(r.telling.lost for r in records))
    return replace(
        first,
        telling=replace(first.telling, lost=lost),
        messages=extend(EMPTY_CHAIN, [r.messages for r in records if r.messages.length]),
        reasons=frozenset().union(*(r.reasons for r in records)),
    )


def _whole(told: Sequence[Told], section: str, size: Callable[[Told], int]) -> Told | None:
    """Who tells of a section best: whole before damaged, then the first; of the damaged ones the longest."""
    has = [t for t in told if size(t)]
    whole = next((t for t in has if section not in t.telling.lost), None)
    return whole or max(has, key=size, default=None)


def _once(system: tuple[Segment, ...], messages: Chain) -> tuple[Segment, ...]:
    """A system prompt that stands in the messages too is one system prompt."""
    if not system or not messages.tokens_by_kind[KIND_INDEX["system"]]:
        return system
    there = {s.digest for s in messages if s.kind == "system"}
    return tuple(s for s in system if s.digest not in there)


# ---- which spans tell of the same request


def _usage(t: Told, rules: Rules) -> Usage:
    claim = t.telling.usage
    if claim is None:
        return Usage()
    return decide(claim, rules.usage(t.telling.scope, t.telling.scope_version, t.telling.provider))


def _group(
    calls: list[Told], parents: Mapping[tuple[str, str], str], usage: Mapping[str, Usage]
) -> tuple[list[list[Told]], list[Told]]:
    """Groups of tellings of one request, and the spans that turned out to wrap several."""
    calls = sorted(calls, key=_outer_first)
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
        above = _nearest(t.telling, parents, by_id)
        if above is not None:
            inside.setdefault(above, []).append(t)

    by_response: dict[str, Told] = {}
    for t in calls:
        rid = t.telling.response_id
        if not rid:
            continue
        other = by_response.get(rid)
        if other is not None and _one_response(t.telling, other.telling):
            # a loop that ends with its last answer has that answer's id, and the numbers of all
            within = [inside.get(x.id, ()) for x in (t, other)]
            loop = any(len({i.telling.response_id or i.id for i in inner}) > 1 for inner in within)
            if not loop or agree(usage[t.id], usage[other.id]):
                join(t.id, other.id)
        by_response[rid] = t

    wrappers: dict[str, list[Told]] = {}
    innermost_first = sorted(inside, key=lambda i: (-_height(by_id[i].telling, parents), i))
    for outer_id in innermost_first:
        outer = by_id[outer_id]
        inner = [t for i in inside[outer_id] for t in wrappers.get(i.id, (i,))]
        requests = {find(t.id) for t in inner}
        others = requests - {find(outer_id)}
        if len(requests) == 1 and others and _may_be_same(outer, inner[0], usage):
            join(outer_id, inner[0].id)
        elif len(others) > 1 and find(outer_id) not in requests:
            wrappers[outer_id] = inner

    gone = wrappers.keys()
    left = [t for t in calls if t.id not in gone]
    _join_across_traces(left, usage, find, join)
    _join_ends_of_streams(left, join)
    groups: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        if t.id not in gone:
            groups[find(t.id)].append(t)
    return list(groups.values()), [by_id[i] for i in gone]


def _height(t: Telling, parents: Mapping[tuple[str, str], str]) -> int:
    """How many spans are known to stand above this one."""
    span, steps = t.parent_id, 0
    while span and steps < _HIGHEST:
        span, steps = parents.get((t.trace_id, span), ""), steps + 1
    return steps


def _one_response(a: Telling, b: Telling) -> bool:
    """An id can come back: from a test's provider, out of a cache. Then it is another service, or long after."""
    services = a.service == b.service or not a.service or not b.service
    return services and _apart(a, b) < _SAME_ID_NS


def _apart(a: Telling, b: Telling) -> int:
    """Nanoseconds between two spans, 0 where they overlap."""
    return max(0, max(a.start_unix_nano, b.start_unix_nano) - min(a.end_unix_nano, b.end_unix_nano))


def _nearest(t: Telling, parents: Mapping[tuple[str, str], str], among: Mapping[str, Told]) -> str | None:
    """The nearest ancestor that is one of ``among``."""
    span, steps = t.parent_id, 0
    while span and steps < _HIGHEST:
        key = f"{t.trace_id}:{span}"
        if key in among:
            return key
        span, steps = parents.get((t.trace_id, span), ""), steps + 1
    return None


def _may_be_same(outer: Told, inner: Told, usage: Mapping[str, Usage]) -> bool:
    """Could a call span inside another call span tell of the same request?"""
    if _other_ids(outer.telling, inner.telling):
        return False
    if outer.telling.usage is None or inner.telling.usage is None:
        if outer.telling.scope == inner.telling.scope:
            return not (outer.content and inner.content)
        return not _unlike(outer, inner)
    return agree(usage[outer.id], usage[inner.id])


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
        for i, a in enumerate(same):
            for b in same[i + 1 :]:
                if b.telling.start_unix_nano > a.telling.end_unix_nano + _CLOSE_NS:
                    break
                x, y = find(a.id), find(b.id)
                if (
                    clothes[x].isdisjoint(clothes[y])  # of one scope two spans are two calls
                    and _two_clothes(a, b)
                    and agree(usage[a.id], usage[b.id])
                    and not _unlike(a, b)
                ):
                    partners[x].add(y)
                    partners[y].add(x)
    for x, others in partners.items():
        meant = {x, *others}
        if all(partners[y] | {y} == meant for y in others):
            for y in others:
                join(x, y)


def _join_ends_of_streams(calls: list[Told], join: Callable[[str, str], None]) -> None:
    """A request whose answer was streamed, told by two spans: one with the prompt when it was sent, one without a length with
    the prompt, the answer and the numbers when the stream had ended."""
    sent: dict[tuple[str, str, bytes], list[Told]] = defaultdict(list)
    for t in sorted(calls, key=lambda t: (t.telling.end_unix_nano, t.telling.usage is not None, t.id)):
        key = (t.telling.scope, t.telling.request_model, t.messages.key)
        if not t.messages.length:
            continue
        if t.telling.usage is None and not t.answer:
            sent[key].append(t)
        elif t.telling.start_unix_nano == t.telling.end_unix_nano and sent[key]:
            join(t.id, sent[key].pop().id)


def _two_clothes(a: Told, b: Told) -> bool:
    x, y = a.telling, b.telling
    if x.scope == y.scope and x.dialect == y.dialect:
        return False
    if x.trace_id == y.trace_id and x.parent_id != y.parent_id:
        return False  # inside one trace the tree decides
    if _other_ids(x, y):
        return False
    outer, inner = (x, y) if x.start_unix_nano <= y.start_unix_nano else (y, x)
    return inner.end_unix_nano <= outer.end_unix_nano + _CLOSE_NS


def _other_ids(a: Telling, b: Telling) -> bool:
    return bool(a.response_id) and bool(b.response_id) and a.response_id != b.response_id


def _unlike(a: Told, b: Told) -> bool:
    """Both prompts were seen, and have nothing in common."""
    x, y = a.messages.first, b.messages.first
    if x is None or y is None or x.digest == y.digest or "messages" in a.telling.lost | b.telling.lost:
        return False
    mine, theirs = ({s.digest for s in t.messages if s.kind != "system"} for t in (a, b))
    return mine.isdisjoint(theirs)


# ---- sums


def _sums_above(
    group: list[Told], sums: Mapping[str, Told], parents: Mapping[tuple[str, str], str]
) -> list[Told]:
    """The sums that stand above a request, the nearest first."""
    out: dict[str, Told] = {}
    for t in group:
        above = _nearest(t.telling, parents, sums)
        while above is not None and above not in out:
            out[above] = sums[above]
            above = _nearest(sums[above].telling, parents, sums)
    return list(out.values())


def _check_sums(
    sums: list[Told], below: Mapping[str, list[Call]], usage: Mapping[str, Usage]
) -> dict[str, list[str]]:
    """Contradictions, by the first call below each sum.

    Frameworks write the sum, one call's numbers, or a sum over the agent's whole life: none is wrong by itself."""
    out: dict[str, list[str]] = {}
    for a in sums:
        mine = usage[a.id].input
        if mine is None or a.id not in below:
            continue
        inputs = [c.usage.input for c in below[a.id]]
        total = sum(i or 0 for i in inputs)
        if None not in inputs and mine < total and mine not in inputs:
            words = f"input {mine:,} on {a.telling.operation or 'the parent'}, {total:,} on its calls"
            out.setdefault(min(below[a.id], key=_by_start).id, []).append(words)
    return out


# ---- one call


def _call(group: list[Told], usage: Mapping[str, Usage], rules: Rules, above: list[Told]) -> Call:
    best, *rest = group if len(group) == 1 else _best_first(group, usage)
    said = [best.telling, *(t.telling for t in rest)]
    tools = best.tools or next((t.tools for t in rest if t.tools), ())
    system = _once(best.system, best.messages)
    if not system and not best.messages.tokens_by_kind[KIND_INDEX["system"]]:
        system = next((t.system for t in rest if t.system), ())
    merged = _merge_usage([usage[t.id] for t in (best, *rest)])
    provider, model = _provider_model(said, rules)
    lost = set(best.telling.lost)
    reasons = set(best.reasons)
    if tools and not best.tools:
        speaker = next(t for t in rest if t.tools)
        lost -= {"tools"} - speaker.telling.lost
        reasons -= {"schema_missing"} - speaker.reasons
    prompt = Prompt(tools, system, best.messages)
    if merged.input == 0 and len(prompt):
        merged = _unreported(merged)
    start = min(t.start_unix_nano for t in said)
    failed = next((t for t in said if t.status != "ok"), None)
    refs = tuple(
        SpanRef(t.trace_id, t.span_id, "primary" if i == 0 else "duplicate", t.scope)
        for i, t in enumerate(said)
    )
    refs += tuple(SpanRef(a.telling.trace_id, a.telling.span_id, "aggregate", a.telling.scope) for a in above)
    return Call(
        id=best.id,
        spans=refs,
        trace_id=best.telling.trace_id,
        parent_id=best.telling.parent_id,
        dialect=best.telling.dialect,
        scope=best.telling.scope,
        scope_version=best.telling.scope_version,
        service=_said(said, "service"),
        agent=_said(said, "agent") or next((a.telling.agent for a in above if a.telling.agent), ""),
        operation=_said(said, "operation"),
        status=failed.status if failed else "ok",
        error=failed.error if failed else "",
        provider=provider,
        platform=rules.platform_of(_said(said, "platform") or _said(said, "provider"), model),
        model=model,
        response_id=_said(said, "response_id"),
        previous_response_id=_said(said, "previous_response_id"),
        conversation_hint=_said(said, "conversation_hint")
        or next((a.telling.conversation_hint for a in above if a.telling.conversation_hint), ""),
        start_unix_nano=start,
        end_unix_nano=max(t.end_unix_nano for t in said),
        first_token_unix_nano=min(
            (t.first_token_unix_nano for t in said if t.first_token_unix_nano), default=None
        ),
        completeness=_completeness(
            prompt, merged, frozenset(reasons), frozenset(lost), bool(_said(said, "previous_response_id"))
        ),
        usage=merged,
        prompt=prompt,
        answer=best.answer or next((t.answer for t in rest if t.answer), ()),
        reserve=next((t.reserve for t in said if t.reserve), None),
        limit=next((t.limit for t in said if t.limit), None),
    )


def _best_first(group: list[Told], usage: Mapping[str, Usage]) -> list[Told]:
    """The telling that shows most of the prompt, then the others."""
    best = max(
        group,
        key=lambda t: (
            t.content,
            usage[t.id].input is not None,
            bool(t.telling.response_id),
            -t.telling.start_unix_nano,
        ),
    )
    return [best, *(t for t in group if t is not best)]


def _aggregate_only(a: Told, usage: Usage, rules: Rules) -> Call:
    """A sum with nothing below it: the only word on calls that were not captured themselves."""
    call = _call([a], {a.id: usage}, rules, [])
    reasons: tuple[Reason, ...] = tuple(dict.fromkeys((*call.completeness.reasons, "aggregate_only")))
    status: Status = "usage_only" if usage.input is not None or usage.output is not None else "none"
    return replace(call, completeness=Completeness(status, reasons, call.completeness.lost))


def _said(
    tellings: Sequence[Telling],
    name: Literal[
        "service",
        "agent",
        "operation",
        "platform",
        "provider",
        "response_id",
        "previous_response_id",
        "conversation_hint",
    ],
) -> str:
    for t in tellings:
        if value := getattr(t, name):
            return str(value)
    return ""


def _provider_model(said: Sequence[Telling], rules: Rules) -> tuple[str, str]:
    model = next((t.response_model for t in said if t.response_model), "") or next(
        (t.request_model for t in said if t.request_model), ""
    )
    return rules.provider_of(next((t.provider for t in said if t.provider), ""), model), model


def _merge_usage(usages: list[Usage]) -> Usage:
    if len(usages) == 1:
        return usages[0]
    first = max(
        usages, key=lambda u: sum(v is not None for v in (u.input, u.output, u.cache_read, u.cache_write))
    )
    merged = first
    for u in usages:
        merged = replace(
            merged,
            input=merged.input if merged.input is not None else u.input,
            output=merged.output if merged.output is not None else u.output,
            cache_read=merged.cache_read if merged.cache_read is not None else u.cache_read,
            cache_write=merged.cache_write if merged.cache_write is not None else u.cache_write,
            cache_write_1h=merged.cache_write_1h if merged.cache_write_1h is not None else u.cache_write_1h,
            reasoning=merged.reasoning if merged.reasoning is not None else u.reasoning,
            semantics=merged.semantics or u.semantics,
            semantics_evidence=merged.semantics_evidence or u.semantics_evidence,
            conflicts=tuple(dict.fromkeys((*merged.conflicts, *u.conflicts))),
        )
    return merged


def _unreported(usage: Usage) -> Usage:
    """A stream without usage leaves zeros: nothing was read of a prompt that was there, so nothing was reported."""
    return replace(
        usage,
        input=None,
        output=usage.output or None,
        cache_read=usage.cache_read or None,
        cache_write=usage.cache_write or None,
        semantics=None,
        semantics_evidence="",
    )


def _completeness(
    prompt: Prompt, usage: Usage, reasons: frozenset[Reason], lost: frozenset[str], stateful: bool
) -> Completeness:
    """What of the prompt was seen. Text far below the reported tokens is a prompt that was not seen whole."""
    why, gone = set(reasons), set(lost)
    chain = prompt.messages
    if chain.length == chain.unmeasured:
        if chain.length == 0 and not why & {
            "redacted",
            "reference_missing",
            "unparsable",
            "logs_missing",
            "attributes_dropped",
        }:
            why.add("not_captured")
        if chain.length and not why:
            why.add("media_placeholder")
        status: Status = "usage_only" if usage.input is not None or usage.output is not None else "none"
        return Completeness(status, _ordered(why), frozenset({"messages"}))
    missing = (usage.input or 0) - prompt.counted
    exact = prompt.exact and not chain.unmeasured
    if prompt.tools:
        pass  # what a telling that has tools says of them stands: their schemas may be missing
    elif "tools" in gone:
        tooled = (
            chain.tokens_by_kind[KIND_INDEX["tool_call"]] or chain.tokens_by_kind[KIND_INDEX["tool_result"]]
        )
        if (
            not tooled
            and exact
            and usage.input is not None
            and missing <= _GAP_TOKENS + _GAP_A_MESSAGE * chain.messages
        ):
            gone.discard("tools")  # the numbers leave no room for tools
            why.discard("schema_missing")
        elif not why & {"attributes_dropped", "value_cut", "redacted", "reference_missing", "unparsable"}:
            why.add("schema_missing")
    else:
        gone.discard("tools")
        why.discard("schema_missing")
    by_kind = chain.tokens_by_kind
    if by_kind[KIND_INDEX["tool_result"]] and not by_kind[KIND_INDEX["tool_call"]] and not _answers_unseen(chain):
        why.add("not_captured")  # results of calls that are not there
        gone.add("messages")
    room = _FRAMING * (chain.length + len(prompt.tools) + len(prompt.system)) + _FAR_TOKENS
    share = _FAR_EXACT if exact else _FAR_SHARE
    short = usage.input is not None and not chain.unmeasured and missing > max(room, share * usage.input)
    if stateful or "server_side" in why or (not gone and not why and _answers_unseen(chain)):
        why.add("server_side")
        gone.add("head")
    elif short and not why - {"schema_missing"} and not (why and missing <= _FAR_SHARE * (usage.input or 0)):
        why.add("not_captured" if _carries_answers(chain) else "server_side")
        gone.add("head")
    if chain.unmeasured and any(s.kind in ("image", "file") and s.bytes <= 0 for s in chain):
        why.add("media_placeholder")
    hidden = why - {"media_placeholder", "guessed", "late"}
    return Completeness("partial" if hidden or gone else "full", _ordered(why), frozenset(gone))


def _answers_unseen(chain: Chain) -> bool:
    """The first message is the result of a tool call that is not there: the history lies on the server."""
    return chain.first is not None and chain.first.kind == "tool_result"


def _carries_answers(chain: Chain) -> bool:
    """The prompt holds answers of the model: the application sends its history itself."""
    return any(chain.tokens_by_kind[KIND_INDEX[k]] for k in ("assistant", "tool_call", "thinking"))


_ORDER: tuple[Reason, ...] = (
    "attributes_dropped", "value_cut", "message_cut", "redacted", "not_captured", "logs_missing", "reference_missing",
    "server_side", "media_placeholder", "aggregate_only", "schema_missing", "unparsable", "guessed", "late",
)  # fmt: skip


def _ordered(reasons: set[Reason]) -> tuple[Reason, ...]:
    return tuple(r for r in _ORDER if r in reasons)
