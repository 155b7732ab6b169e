"""What several records tell of one request -> one Call, counted once.

The same request is told by a framework's span, by the SDK's own span below it (Anthropic's traces itself by default), by a
second instrumentation, by log records that hold its content, and once more in the sums of agent and chain spans. Leaves
count; a parent's sum is a check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
_SAME_ID_NS = 600_000_000_000  # a response id that comes back later than this is another response
_GAP_TOKENS = 64
_GAP_SHARE = 0.05  # framing: below this nothing is missing
_FAR_TOKENS = 400
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

    @property
    def id(self) -> str:
        return f"{self.telling.trace_id}:{self.telling.span_id}"

    @property
    def content(self) -> int:
        """How much of a prompt is here, in bytes."""
        return self.messages.bytes + sum(s.bytes for s in self.tools) + sum(s.bytes for s in self.system)


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
    sums += wrappers
    below = _below(groups, sums, parents)
    made = [_call(g, usage, rules, [a for a in sums if g[0].id in below.get(a.id, ())]) for g in groups]
    by_member = {t.id: c.id for g, c in zip(groups, made, strict=True) for t in g}
    for a in sums:
        if below.get(a.id) or (a.telling.trace_id, a.telling.span_id) in above or a.telling.usage is None:
            continue
        if not _has_sum_above(a, sums, parents):
            made.append(_aggregate_only(a, usage[a.id], rules))
    made.sort(key=lambda c: (c.start_unix_nano, c.end_unix_nano, c.id))
    aggregates = {a: tuple(dict.fromkeys(by_member[m] for m in members)) for a, members in below.items()}
    members = {f"{s.trace_id}:{s.span_id}": call.id for call in made for s in call.spans if s.role != "aggregate"}
    return Folded(made, orphans, _check_sums(sums, aggregates, usage, {c.id: c for c in made}), members)


# ---- content records


def _join_content(told: Sequence[Told], extend: Extend) -> tuple[list[Told], list[Told]]:
    """Log records to the span they belong to. A record that tells a call's figures too stands in for a span that
    never came."""
    spans: dict[tuple[str, str], Told] = {}
    content: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for t in told:
        key = (t.telling.trace_id, t.telling.span_id)
        if t.telling.role == "content":
            content[key].append(t)
        elif key not in spans or (spans[key].content, spans[key].telling.role == "call") < (
            t.content,
            t.telling.role == "call",
        ):
            spans[key] = t
    orphans: list[Told] = []
    for key, records in content.items():
        records.sort(key=lambda t: t.telling.order)
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


def _with_content(span: Told, records: list[Told], extend: Extend) -> Told:
    messages = span.messages
    fresh: list[Chain] = [r.messages for r in records if r.messages.length]
    whole = max(fresh, key=lambda c: c.length, default=None)
    if messages.length == 0 and whole is not None:
        # one record with the whole prompt, or one record a message; the same prompt twice (request, response) is one
        single = [c for c in fresh if c.messages <= 1]
        messages = extend(messages, fresh) if len(single) == len(fresh) else whole
    answer = span.answer
    if not answer:
        answer = tuple(s for r in records for s in r.answer)
    t = span.telling
    reasons = span.reasons.union(*(r.reasons for r in records)) - {"not_captured", "logs_missing"}
    lost = t.lost - {"messages"} if messages.length else t.lost
    tools = span.tools or next((r.tools for r in records if r.tools), ())
    system = _once(span.system or next((r.system for r in records if r.system), ()), messages)
    if tools and not span.tools:
        speaker = next(r for r in records if r.tools)
        lost -= {"tools"} - speaker.telling.lost
        reasons -= {"schema_missing"} - speaker.reasons
    usage = t.usage or next((r.telling.usage for r in records if r.telling.usage), None)
    lost = lost.union(*(r.telling.lost for r in records)) if not tools else lost
    return replace(
        span,
        telling=replace(t, lost=frozenset(lost), usage=usage),
        tools=tools,
        system=system,
        messages=messages,
        answer=answer,
        reasons=frozenset(reasons),
    )


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
    calls = sorted(calls, key=lambda t: (t.telling.start_unix_nano, -t.telling.end_unix_nano, t.id))
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

    by_response: dict[str, Told] = {}
    for t in calls:
        rid = t.telling.response_id
        if not rid:
            continue
        other = by_response.get(rid)
        if other is not None and _apart(t.telling, other.telling) < _SAME_ID_NS:
            join(t.id, other.id)
        by_response[rid] = t

    wrappers: list[Told] = []
    inside: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        above = _nearest(t.telling, parents, by_id)
        if above is not None:
            inside[above].append(t)
    for outer_id, inner in inside.items():
        outer = by_id[outer_id]
        rest = {find(t.id) for t in inner} - {find(outer_id)}
        if not rest:
            continue
        if len({find(t.id) for t in inner}) == 1 and _may_be_same(outer, inner[0], usage):
            join(outer_id, inner[0].id)
        elif len(rest) > 1 and find(outer_id) not in {find(t.id) for t in inner}:
            wrappers.append(outer)

    _join_across_traces(calls, usage, find, join)
    gone = {t.id for t in wrappers}
    groups: dict[str, list[Told]] = defaultdict(list)
    for t in calls:
        if t.id not in gone:
            groups[find(t.id)].append(t)
    return list(groups.values()), wrappers


def _apart(a: Telling, b: Telling) -> int:
    """Nanoseconds between two spans, 0 where they overlap."""
    return max(0, max(a.start_unix_nano, b.start_unix_nano) - min(a.end_unix_nano, b.end_unix_nano))


def _nearest(t: Telling, parents: Mapping[tuple[str, str], str], among: Mapping[str, Told]) -> str | None:
    """The nearest ancestor that is one of ``among``."""
    span, steps = t.parent_id, 0
    while span and steps < 64:
        key = f"{t.trace_id}:{span}"
        if key in among:
            return key
        span, steps = parents.get((t.trace_id, span), ""), steps + 1
    return None


def _may_be_same(outer: Told, inner: Told, usage: Mapping[str, Usage]) -> bool:
    """Could a call span inside another call span tell of the same request?"""
    if outer.telling.usage is None or inner.telling.usage is None:
        return outer.telling.scope != inner.telling.scope or not (outer.content and inner.content)
    return agree(usage[outer.id], usage[inner.id])


def _join_across_traces(
    calls: list[Told],
    usage: Mapping[str, Usage],
    find: Callable[[str], str],
    join: Callable[[str, str], None],
) -> None:
    """Two instrumentations whose spans lie in different traces: one inside the other in time, another scope, equal numbers,
    and each has exactly one such partner."""
    by_numbers: dict[tuple[int | None, int | None], list[Told]] = defaultdict(list)
    for t in calls:
        u = usage[t.id]
        if u.output is not None:
            by_numbers[(None, u.output)].append(t)
    partners: dict[str, list[Told]] = defaultdict(list)
    for same in by_numbers.values():
        for i, a in enumerate(same):
            for b in same[i + 1 :]:
                if b.telling.start_unix_nano > a.telling.end_unix_nano + _CLOSE_NS:
                    break
                if _two_clothes(a, b) and agree(usage[a.id], usage[b.id]):
                    partners[a.id].append(b)
                    partners[b.id].append(a)
    for t in calls:
        mine = partners.get(t.id, [])
        roots = {find(p.id) for p in mine}
        if len(roots) == 1 and len({find(p.id) for p in partners[mine[0].id]}) == 1:
            join(t.id, mine[0].id)


def _two_clothes(a: Told, b: Told) -> bool:
    x, y = a.telling, b.telling
    if x.scope == y.scope and x.dialect == y.dialect:
        return False
    if x.trace_id == y.trace_id and x.parent_id != y.parent_id:
        return False  # inside one trace the tree decides
    if x.response_id and y.response_id and x.response_id != y.response_id:
        return False
    outer, inner = (x, y) if x.start_unix_nano <= y.start_unix_nano else (y, x)
    return inner.end_unix_nano <= outer.end_unix_nano + _CLOSE_NS


# ---- sums


def _below(
    groups: list[list[Told]], sums: list[Told], parents: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, ...]]:
    """For each aggregate span the first members of the groups that lie below it."""
    ids = {a.id for a in sums}
    out: dict[str, list[str]] = defaultdict(list)
    for g in groups:
        for t in g:
            span, steps = t.telling.parent_id, 0
            while span and steps < 64:
                key = f"{t.telling.trace_id}:{span}"
                if key in ids and g[0].id not in out[key]:
                    out[key].append(g[0].id)
                span, steps = parents.get((t.telling.trace_id, span), ""), steps + 1
    return {k: tuple(v) for k, v in out.items()}


def _has_sum_above(a: Told, sums: list[Told], parents: Mapping[tuple[str, str], str]) -> bool:
    """Another sum with usage stands above this one: the outermost counts."""
    counted = {s.id: s for s in sums if s.telling.usage is not None and s.id != a.id}
    return _nearest(a.telling, parents, counted) is not None


def _check_sums(
    sums: list[Told],
    below: Mapping[str, tuple[str, ...]],
    usage: Mapping[str, Usage],
    calls: Mapping[str, Call],
) -> dict[str, list[str]]:
    """Contradictions, by the first call below each sum."""
    out: dict[str, list[str]] = {}
    for a in sums:
        members = below.get(a.id)
        mine = usage[a.id]
        if not members or mine.input is None:
            continue
        inputs = [calls[m].usage.input for m in members]
        total = sum(i or 0 for i in inputs)
        # frameworks write the sum, one call's numbers, or a sum over the agent's whole life: none is wrong by itself
        if None not in inputs and mine.input < total and mine.input not in inputs:
            words = f"input {mine.input:,} on {a.telling.operation or 'the parent'}, {total:,} on its calls"
            out.setdefault(members[0], []).append(words)
    return out


# ---- one call


def _call(group: list[Told], usage: Mapping[str, Usage], rules: Rules, above: list[Told]) -> Call:
    best = max(
        group,
        key=lambda t: (
            t.content,
            usage[t.id].input is not None,
            bool(t.telling.response_id),
            -t.telling.start_unix_nano,
        ),
    )
    rest = [t for t in group if t is not best]
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
        agent=_said(said, "agent") or next((a.telling.agent for a in reversed(above) if a.telling.agent), ""),
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
    return next((v for t in tellings if (v := getattr(t, name))), "")


def _provider_model(said: Sequence[Telling], rules: Rules) -> tuple[str, str]:
    model = next((t.response_model for t in said if t.response_model), "") or next(
        (t.request_model for t in said if t.request_model), ""
    )
    return rules.provider_of(next((t.provider for t in said if t.provider), ""), model), model


def _merge_usage(usages: list[Usage]) -> Usage:
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


def _completeness(
    prompt: Prompt, usage: Usage, reasons: frozenset[Reason], lost: frozenset[str], stateful: bool
) -> Completeness:
    """What of the prompt was seen. Text far below the reported tokens is a prompt that was not seen whole."""
    why, gone = set(reasons), set(lost)
    chain = prompt.messages
    seen = [s for s in chain.new if s.method != "unmeasured"] or (chain.length > len(chain.new))
    if not chain.length or not seen:
        if chain.length == 0 and not why & {
            "redacted",
            "reference_missing",
            "unparsable",
            "logs_missing",
            "attributes_dropped",
        }:
            why.add("not_captured")
        status: Status = "usage_only" if usage.input is not None or usage.output is not None else "none"
        return Completeness(status, _ordered(why), frozenset({"messages"}))
    counted = (
        sum(s.tokens or 0 for s in prompt.tools)
        + sum(s.tokens or 0 for s in prompt.system)
        + sum(chain.tokens_by_kind)
    )
    missing = (usage.input or 0) - counted
    exact = (
        not chain.estimated
        and not chain.unmeasured
        and all(s.method == "exact" for s in (*prompt.tools, *prompt.system))
    )
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
            and missing <= max(_GAP_TOKENS, _GAP_SHARE * usage.input)
        ):
            gone.discard("tools")  # the numbers leave no room for tools
            why.discard("schema_missing")
        else:
            why.add("schema_missing")
    else:
        gone.discard("tools")
        why.discard("schema_missing")
    room = _FRAMING * (chain.length + len(prompt.tools) + len(prompt.system)) + _FAR_TOKENS
    share = _FAR_EXACT if exact else _FAR_SHARE
    short = usage.input is not None and not chain.unmeasured and missing > max(room, share * usage.input)
    if stateful or "server_side" in why or (not gone and not why and _answers_unseen(chain)):
        why.add("server_side")
        gone.add("head")
    elif short and not why - {"schema_missing"} and not (why and missing <= _FAR_SHARE * (usage.input or 0)):
        why.add("not_captured" if _carries_answers(chain) else "server_side")
        gone.add("head")
    if any(s.kind in ("image", "file") and s.bytes <= 0 for s in chain.new):
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
