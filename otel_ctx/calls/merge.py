"""What several spans tell of one request -> one Call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from otel_ctx.calls.completeness import completeness_of
from otel_ctx.calls.content import once
from otel_ctx.calls.told import Told
from otel_ctx.model import (
    KIND_INDEX,
    Call,
    Completeness,
    Prompt,
    Reason,
    SpanRef,
    Status,
    Telling,
    Usage,
)
from otel_ctx.rules import Rules

_BEYOND = 10  # times its window: no model reads that much at once, whatever window was sold since

def call_of(group: list[Told], usage: Mapping[str, Usage], rules: Rules, above: list[Told]) -> Call:
    best, *rest = group if len(group) == 1 else _best_first(group, usage)
    said = [best.telling, *(t.telling for t in rest)]
    tools = best.tools or next((t.tools for t in rest if t.tools), ())
    system = once(best.system, best.messages)
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
    platform = rules.platform_of(_said(said, "platform") or _said(said, "provider"), model)
    beyond = _beyond(merged, model, platform, rules) if best.telling.role == "call" else ""
    if beyond:
        merged = replace(merged, conflicts=(*merged.conflicts, beyond))
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
        platform=platform,
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
        completeness=completeness_of(
            prompt,
            merged,
            frozenset(reasons),
            frozenset(lost),
            stateful=bool(_said(said, "previous_response_id")),
            believed=not beyond,
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


def aggregate_only(a: Told, usage: Usage, rules: Rules) -> Call:
    """A sum with nothing below it: the only word on calls that were not captured themselves."""
    call = call_of([a], {a.id: usage}, rules, [])
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
            conflicts=tuple(dict.fromkeys((*merged.conflicts, *u.conflicts, *_differ(merged, u)))),
        )
    return merged


def _differ(a: Usage, b: Usage) -> Iterator[str]:
    """Both numbers, where two spans of one call do not agree."""
    for name in ("input", "output"):
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None and x != y:
            yield f"{name} {x:,} on one span, {y:,} on another"


def _beyond(usage: Usage, model: str, platform: str, rules: Rules) -> str:
    """In words, where the reported input is no prompt that this model could read."""
    window = rules.window(model, platform)
    if window is None or not window.value or (usage.input or 0) <= _BEYOND * window.value:
        return ""
    return f"input {usage.input:,}, but the model's window holds {window.value:,}"


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
