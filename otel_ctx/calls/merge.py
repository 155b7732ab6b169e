"""What several spans tell of one request -> one Call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from sys import intern
from typing import Any

from otel_ctx.calls.beside import SAME_ID_NS, apart
from otel_ctx.calls.completeness import completeness_of, has_hole, may_remember
from otel_ctx.calls.sections import prompt_of
from otel_ctx.calls.told import Told
from otel_ctx.model import (
    Call,
    Completeness,
    Reason,
    Role,
    SpanRef,
    Status,
    Telling,
    Usage,
)
from otel_ctx.rules import Rules
from otel_ctx.usage import settled

_BEYOND = 10  # times its window: no model reads that much at once, whatever window was sold since
_NEAR = 0.9  # of each other: either number of two is good enough
# parts of the input: of one that is not known, no share
_OF_THE_CACHE = ("cache_read", "cache_write", "cache_write_1h")
_OF_A_CALL = ("input", "output", "cache_read", "cache_write")


def call_of(group: list[Told], usage: Mapping[str, Usage], rules: Rules, above: list[Told]) -> Call:
    told = group if len(group) == 1 else _best_first(group, usage)
    best, *rest = told
    said = best.telling if not rest else _merged([t.telling for t in told])
    prompt, lost, reasons = prompt_of(best, rest, above)
    merged = _merge_usage([usage[t.id] for t in _latest(told, usage)]) if rest else usage[best.id]
    merged = settled(merged, best.telling.usage, prompt.counted, whole=not lost)
    if merged.input == 0 and len(prompt):
        merged = _unreported(merged)
    model = said.response_model or said.request_model
    provider = rules.provider_of(said.provider, model)
    platform = rules.platform_of(said.platform or said.provider, model)
    if best.telling.role == "call":
        merged = _within(merged, model, rules)
    refs = [_ref(said, "primary")]
    if rest:
        refs += [_ref(t.telling, "duplicate") for t in rest]
    agent, hint = said.agent, said.conversation_hint
    for a in above:
        refs.append(_ref(a.telling, "aggregate"))
        agent, hint = agent or a.telling.agent, hint or a.telling.conversation_hint
    sent_whole = tools_told = False
    for t in told:
        of_body = t.telling.record == "request"
        sent_whole = sent_whole or of_body or t.telling.stateless
        tools_told = tools_told or of_body or t.telling.tools is not None
    return Call(
        id=best.id,
        spans=tuple(refs),
        trace_id=said.trace_id,
        parent_id=said.parent_id,
        dialect=said.dialect,
        scope=intern(said.scope),
        scope_version=intern(said.scope_version),
        service=intern(said.service),
        agent=intern(agent),
        operation=intern(said.operation),
        status=said.status,
        error=said.error,
        provider=provider,
        platform=platform,
        model=intern(model),
        response_id=said.response_id,
        previous_response_id=said.previous_response_id,
        conversation_hint=hint,
        start_unix_nano=said.start_unix_nano,
        end_unix_nano=said.end_unix_nano,
        first_token_unix_nano=said.first_token_unix_nano,
        completeness=completeness_of(
            prompt,
            merged,
            reasons,
            lost,
            stateful=bool(said.previous_response_id),
            remembers=not sent_whole and may_remember(said.response_id, provider),
            tools_told=tools_told,
        ),
        usage=merged,
        prompt=prompt,
        answer=max((t.answer for t in told), key=lambda a: sum(s.bytes for s in a)) if rest else best.answer,
        reserve=said.reserve,
        limit=said.limit,
        service_tier=said.service_tier,
        parameters=said.parameters,
        diagnosis=said.diagnosis,
        record=said.record,
        compacted=said.compacted,
        sums_up=said.sums_up,
        in_pieces=best.telling.in_pieces,
        cut_by=best.telling.cut_by,
        guess=said.guess,
    )


def _ref(telling: Telling, role: Role) -> SpanRef:
    """Of what is remembered of a call, scopes and names are few and come again and again: each is held once."""
    return SpanRef(telling.trace_id, telling.span_id, role, intern(telling.scope))


def _merged(said: list[Telling]) -> Telling:
    """The first of several tellings of one request, with what only the others say."""
    failed = next((t for t in said if t.status != "ok"), said[0])
    timed = _of_one_clock(said)
    return said[0]._replace(
        service=_first(said, "service"),
        agent=_first(said, "agent"),
        operation=_first(said, "operation"),
        status=failed.status,
        error=failed.error,
        provider=_first(said, "provider"),
        platform=_first(said, "platform"),
        request_model=_first(said, "request_model"),
        response_model=_first(said, "response_model"),
        response_id=_first(said, "response_id"),
        previous_response_id=_first(said, "previous_response_id"),
        conversation_hint=_first(said, "conversation_hint"),
        start_unix_nano=min((t.start_unix_nano for t in timed if t.start_unix_nano), default=0),
        end_unix_nano=max(t.end_unix_nano for t in timed),
        first_token_unix_nano=min(
            (t.first_token_unix_nano for t in said if t.first_token_unix_nano), default=None
        ),
        reserve=next((t.reserve for t in said if t.reserve), None),
        limit=next((t.limit for t in said if t.limit), None),
        service_tier=_first(said, "service_tier"),
        compacted=any(t.compacted for t in said),
        sums_up=any(t.sums_up for t in said),
        parameters=next((t.parameters for t in said if t.parameters), ()),
        diagnosis=next((t.diagnosis for t in said if t.diagnosis), None),
    )


def _of_one_clock(said: list[Telling]) -> list[Telling]:
    """Without those that tell of the same response by another clock, or when they were written."""
    clock = min(said, key=lambda t: (not t.start_unix_nano, t.record != "span"))
    return [
        t
        for t in said
        if not t.response_id or t.response_id != clock.response_id or apart(t, clock) < SAME_ID_NS
    ]


def _first(said: list[Telling], name: str) -> str:
    return next((str(value) for t in said if (value := getattr(t, name))), "")


def _best_first(group: list[Told], usage: Mapping[str, Usage]) -> list[Told]:
    """The telling that shows most of the prompt, and has its messages whole, then the others."""
    best = max(
        group,
        key=lambda t: (
            bool(t.messages.length) and "messages" not in t.telling.lost and not has_hole(t.messages),
            t.content,
            usage[t.id].input is not None,
            bool(t.telling.response_id),
            -t.telling.start_unix_nano,
        ),
    )
    return [best, *(t for t in group if t is not best)]


def aggregate_only(a: Told, usage: Usage, rules: Rules) -> Call:
    """A sum with nothing below it: the only word on calls that were not captured themselves."""
    call = call_of([a], {a.id: usage}, rules, [])
    reasons: tuple[Reason, ...] = tuple(dict.fromkeys((*call.completeness.reasons, "aggregate_only")))
    status: Status = "usage_only" if usage.input is not None or usage.output is not None else "none"
    return replace(call, completeness=Completeness(status, reasons, call.completeness.lost))


def _latest(group: Sequence[Told], usage: Mapping[str, Usage]) -> list[Told]:
    """Without the copies of a message that were made while it still grew: numbers of a transcript only grow."""
    copies = [t for t in group if t.telling.record == "transcript"]
    last = max(copies, key=lambda t: usage[t.id].output or 0, default=None)
    return [t for t in group if t.telling.record != "transcript" or t is last]


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
            conflicts=tuple(dict.fromkeys((*merged.conflicts, *u.conflicts, *_differ(first, u)))),
        )
    return _agreed(merged, usages)


def _differ(a: Usage, b: Usage) -> Iterator[str]:
    """Both numbers, where two spans of one call do not agree."""
    for name in ("input", "output"):
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and x != y:
            yield f"{name} {x:,} on one span, {y:,} on another"


def _agreed(merged: Usage, usages: list[Usage]) -> Usage:
    """Without the counts of which spans of one call tell very different ones: who is right is not known. An input that is
    less by just the cached tokens is the same one; a cache of 0 is often only what nobody looked up."""
    cached = (merged.cache_read or 0) + (merged.cache_write or 0)
    unknown: dict[str, Any] = {}
    for name in _OF_A_CALL:
        said = {n for u in usages if (n := getattr(u, name)) is not None}
        if name == "input" and said == {most := max(said, default=0), most - cached} != {most, cached}:
            unknown[name] = most
            continue
        if name.startswith("cache"):
            said -= {0}
        if said and min(said) < _NEAR * max(said):
            unknown[name] = None
    if "input" in unknown and unknown["input"] is None:
        unknown |= dict.fromkeys(_OF_THE_CACHE)
    return replace(merged, **unknown)


def _within(usage: Usage, model: str, rules: Rules) -> Usage:
    """Without the counts that are more than this model could read or write in one call: they are told, and not known."""
    window = rules.window(model)
    if window is None or not window.value:
        return usage
    most = _BEYOND * window.value
    if max(usage.input or 0, usage.output or 0, usage.cache_read or 0, usage.cache_write or 0) <= most:
        return usage
    beyond = {c: n for c in _OF_A_CALL if (n := getattr(usage, c)) is not None and n > most}
    words = (
        f"{c.replace('_', ' ')} {n:,}, but the model's window holds {window.value:,}"
        for c, n in beyond.items()
    )
    unknown: dict[str, Any] = dict.fromkeys((*beyond, *_OF_THE_CACHE) if "input" in beyond else beyond)
    return replace(usage, conflicts=(*usage.conflicts, *words), **unknown)


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
