"""What the telemetry itself has lost or says twice, with the switch that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec

from otel_ctx.findings.gaps import gaps, recorded_by
from otel_ctx.findings.step import Step
from otel_ctx.findings.switches import fix_for_double, switch_of
from otel_ctx.model import Call, Cost, Evidence, Finding, NotChecked, Severity
from otel_ctx.rules import normalise_model_id

_MORE_TEXT = 3  # times the reported input: tokenizers and framing explain no such difference
_FEW = 64  # tokens
_UNRECORDED = ("content_not_captured", "content_truncated", "attributes_dropped", "usage_missing")

_OF_SUMS = (
    "Where the parent has more, look for calls that are not in this dump: dropped by sampling, or made by a client that is "
    "not instrumented. Where it has less, report it to the instrumentation. The calls are what is counted here."
)
_UNPAIRED = (
    "requests and answers have one id, and which answer is whose is not known: several have it, or they name two models. "
    "Analyse each batch by itself"
)


def unrecorded(step: Step) -> Iterator[Finding]:
    """What is not in the telemetry, kind by kind: contents, all or part of them; the ends of values or messages; attributes
    that a span lost to its limit; the input tokens of calls that went well."""
    call = step.call
    lost = list(gaps(call))
    for kind in _UNRECORDED if lost else ():
        for gap in lost:
            if gap.kind == kind:
                detail, fix = recorded_by(call) + gap.note, switch_of(gap.lost, call)
                yield _finding(step, kind, gap.severity, gap.title, detail, fix, gap.evidence)


def cached_missing(step: Step) -> Iterator[Finding]:
    """The library counts the input, and not what of it came from the cache, where something could have."""
    call, access = step.call, step.reading.access
    if access is None or not access.expected or call.usage.input is None or call.usage.cache_read is not None:
        return
    if call.usage.conflicts or "attributes_dropped" in call.completeness.reasons:
        return
    detail = f"{recorded_by(call)}; what the cache gave them is not known"
    fix = switch_of("cached", call)
    yield _finding(step, "usage_missing", "info", "Calls report no cached tokens", detail, fix)


def usage_inconsistent(step: Step) -> Iterator[Finding]:
    """Token numbers that cannot be right: unreadable, beyond any model, at odds with each other, with the text or with a
    parent's sum."""
    fix = "Compare with the provider's own usage, then upgrade the instrumentation or report it there."
    more_text = _more_text_than_input(step)
    for words in (*step.call.usage.conflicts, *((more_text,) if more_text else ())):
        yield _finding(
            step,
            "usage_inconsistent",
            "warning",
            "Token numbers of a call cannot be right",
            words,
            fix,
            "reported",
        )
    for words in step.sum_conflicts:
        yield _finding(
            step,
            "usage_inconsistent",
            "warning",
            "The sum on a parent span is not that of its calls",
            words,
            _OF_SUMS,
            "reported",
        )


def _more_text_than_input(step: Step) -> str:
    """In words, where the text that was seen, counted exactly, cannot be as little as was reported. Tool definitions are
    left out: providers write them shorter."""
    call, reported = step.call, step.call.usage.input
    if not reported or call.status != "ok" or step.reading.tokens.method != "exact":
        return ""
    most = _MORE_TEXT * reported + _FEW
    if call.prompt.counted <= most:
        return ""
    if "head" in call.completeness.lost or "aggregate_only" in call.completeness.reasons:
        return ""
    text = call.prompt.counted - sum(s.tokens or 0 for s in call.prompt.tools)
    return f"input {reported:,}, but the text has {text:,} tokens" if text > most else ""


def double_instrumentation(step: Step) -> Iterator[Finding]:
    """One call that two instrumentations tell of."""
    if len(step.call.spans) < 2:
        return
    scopes = tuple(sorted({s.scope for s in step.call.spans if s.role != "aggregate" and s.scope}))
    if len(scopes) > 1:
        names = " and ".join((", ".join(scopes[:-1]), scopes[-1]))
        yield _finding(
            step, "double_instrumentation", "warning", f"Each call is recorded {_times(len(scopes))}: by {names}",
            "It is counted once here; tools that add spans up count it several times", fix_for_double(scopes),
        )  # fmt: skip


def unknown_dialects(foreign: Sequence[tuple[str, int]]) -> tuple[Finding, ...]:
    """One finding for each scope whose spans look like a model's telemetry but which no dialect knows.
    ``foreign``: (scope, spans)."""
    return tuple(
        Finding(
            kind="unknown_dialect",
            severity="info",
            title=f"Spans of a library that is not known here: {scope}",
            detail=f"{n:,} span{'s' if n != 1 else ''} look like calls to a model and were passed by.",
            fix="Report it with a small dump, or use an instrumentation that follows the GenAI conventions.",
            calls=(),
            evidence="unknown",
        )
        for scope, n in sorted(foreign)
    )


def unpaired(calls: tuple[str, ...]) -> tuple[NotChecked, ...]:
    """``calls``: requests and answers of which nothing tells which belong together."""
    return (NotChecked("usage_missing", _UNPAIRED, calls),) if calls else ()


def _finding(
    step: Step,
    kind: str,
    severity: Severity,
    title: str,
    detail: str,
    fix: str,
    evidence: Evidence = "reported",
) -> Finding:
    return Finding(kind, severity, title, f"{detail}.", fix, (step.call.id,), evidence=evidence)


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{n} times"


def unknown_cache_rule(step: Step, lost: int) -> Iterator[Finding]:
    """Less was read than could have been, and nobody knows whether the cache of that model keeps it. ``lost``: tokens that
    have a cause."""
    call, access = step.call, step.reading.access
    if access is None or access.ruled or lost or not call.model:
        return
    platform = step.rules.platform_of(call.served_by, call.model)
    where = f" on {platform or call.served_by}" if platform or call.served_by else ""
    own = ", ".join(step.rules.own_platforms(call.model))
    yours = f" The row of yours is for {own}." if own else ""
    row = f'match = ["{normalise_model_id(call.model)}"]' + (
        f', platforms = ["{platform}"]' if platform else ""
    )
    yield Finding(
        kind="unknown_cache_rule",
        severity="info",
        title="How the cache of a model works is not known",
        detail=f"No cache rule of {call.model}{where} is known: whether what was not read had been kept is not known, and "
        "nothing is counted as lost.",
        fix=f"Write the rule into a file of your own: --rules FILE with a [[family]] row, {row}. Where the name stands for a "
        f"known model, --model NAME=MODEL is enough.{yours}",
        calls=(call.id,),
        evidence="unknown",
    )


def unpriced_model(step: Step, cost: Cost | None) -> Iterator[Finding]:
    """The model's price is not known: no cost is given, rather than a wrong one. Or that of its cached tokens is not."""
    call = step.call
    usual = call.service_tier in ("", "standard")
    if cost is not None:
        if usual and (cost.saved is None or cost.wasted is None):
            yield _unpriced(
                call,
                "The price of cached tokens is not known",
                f"{call.model} has a price of input, and none of what the cache read or wrote: between nothing and the "
                "price of input is counted.",
                "Name cache_read, and cache_write where writes cost, in a [[price]] row of --rules FILE.",
            )
        return
    if not call.model or call.usage.input is None or "aggregate_only" in call.completeness.reasons:
        return
    served, rules = "", step.rules
    provider = rules.provider_of(call.served_by, call.model)
    row = f'provider = "{provider}", ' if provider else ""
    own = ", ".join(rules.own_providers(call.model))
    yours = f" The row of yours is of provider {own}." if own else ""
    write = (
        f"write the price into a file of your own: --rules FILE with a [[price]] row, {row}model = "
        f'"{normalise_model_id(call.model)}". The name of a deployment is mended by --model NAME=MODEL.{yours}'
    )
    extra = "Install the extra prices (pip install '.[prices]' in a clone of otel-ctx), or "
    fix = f"{write[:1].upper()}{write[1:]}" if _has_package() else f"{extra}{write}"
    if not usual:
        served = f" for requests that were served as {call.service_tier}"
        fix = (
            "Write what such requests cost into a file of your own: --rules FILE with a [[service_tier]] row, and a "
            "[[price]] row where the model has none."
        )
    yield _unpriced(
        call,
        "The price of a model is not known",
        f"{call.model} is in no price table{served}: its cost is left out, not counted as zero.",
        fix,
    )


@cache  # a search of the disk is not for each call
def _has_package() -> bool:
    """Are the prices of genai-prices there?"""
    return find_spec("genai_prices") is not None


def _unpriced(call: Call, title: str, detail: str, fix: str) -> Finding:
    return Finding(
        kind="unpriced_model",
        severity="info",
        title=title,
        detail=detail,
        fix=fix,
        calls=(call.id,),
        evidence="unknown",
    )
