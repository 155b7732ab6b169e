"""What the telemetry itself has lost or says twice, with the switch that mends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ctx.findings.step import Step
from otel_ctx.findings.switches import Lost, fix_for, fix_for_double
from otel_ctx.model import Cost, Evidence, Finding, Reason, Severity

_UNSEEN = ("usage_only", "none")
_MORE_TEXT = 3  # times the reported input: tokenizers and framing explain no such difference
_FEW = 64  # tokens

_OF_SUMS = (
    "Where the parent has more, look for calls that are not in this dump: dropped by sampling, or made by a client that is "
    "not instrumented. Where it has less, report it to the instrumentation. The calls are what is counted here."
)

_CONTENT: dict[Reason, tuple[str, Lost]] = {
    "redacted": ("Message contents are masked", "masked"),
    "logs_missing": ("Message contents are in log records that were not given", "logs"),
    "reference_missing": ("Message contents are stored elsewhere", "reference"),
}
_SERVER_SIDE = (
    "Nothing needs to be mended: depth and headroom come from the reported usage. For a look into the prompt, send the "
    "whole history in each request in place of previous_response_id or a stored conversation."
)


def content_not_captured(step: Step) -> Iterator[Finding]:
    """Contents that are not in the telemetry: all of them, part of them, or the tool definitions."""
    call = step.call
    seen, reasons = call.completeness, call.completeness.reasons
    unseen = seen.status in _UNSEEN
    for reason, (title, lost) in _CONTENT.items():
        if reason in reasons:
            yield _finding(step, "content_not_captured", "info", title, _scope(step), _fix(step, lost))
    if "aggregate_only" in reasons:
        yield _finding(
            step, "content_not_captured", "info", "Only a sum over several calls is recorded",
            f"{_scope(step)}; the calls themselves have no spans of their own",
            "Instrument the client that calls the model, so that each call has a span.",
        )  # fmt: skip
    elif "not_captured" in reasons and unseen:
        yield _finding(
            step,
            "content_not_captured",
            "info",
            "Message contents are not recorded",
            _scope(step),
            _fix(step, "content"),
        )
    elif "not_captured" in reasons and seen.lost != {"tools"}:
        counted = (
            "; the provider counts more tokens than the recorded text has" if call.record == "span" else ""
        )
        yield _finding(
            step, "content_not_captured", "info", "Part of the prompt is not recorded", f"{_scope(step)}{counted}",
            _fix(step, "part"), "inferred" if counted else "reported",
        )  # fmt: skip
    if "schema_missing" in reasons and not unseen:
        yield _finding(
            step,
            "content_not_captured",
            "info",
            "Tool definitions are not recorded",
            _scope(step),
            _fix(step, "tools"),
        )
    if "server_side" in reasons:
        yield _finding(
            step, "content_not_captured", "info", "The history is kept on the provider's server", _scope(step),
            _SERVER_SIDE,
        )  # fmt: skip
    if "unparsable" in reasons:
        yield _finding(
            step, "content_not_captured", "info", "Recorded contents could not be read", _scope(step),
            "Look for something between the instrumentation and here that rewrites or cuts attribute values.",
        )  # fmt: skip


def content_truncated(step: Step) -> Iterator[Finding]:
    """Values or messages that end too early."""
    reasons = step.call.completeness.reasons
    if "value_cut" in reasons:
        yield _finding(
            step,
            "content_truncated",
            "warning",
            "Recorded contents are cut at a length limit",
            _scope(step),
            _fix(step, "cut"),
        )
    if "message_cut" in reasons:
        yield _finding(
            step,
            "content_truncated",
            "warning",
            "Messages are missing from the recorded prompt",
            _scope(step),
            _fix(step, "cut"),
        )


def attributes_dropped(step: Step) -> Iterator[Finding]:
    """Attributes that a span lost to its limit."""
    if "attributes_dropped" in step.call.completeness.reasons:
        yield _finding(
            step,
            "attributes_dropped",
            "warning",
            "Spans lost attributes to their limit",
            _scope(step),
            _fix(step, "attributes"),
        )


def usage_missing(step: Step) -> Iterator[Finding]:
    """A call that went well and reports no input tokens; 0 beside a prompt is no report either."""
    call = step.call
    if call.status != "ok" or "aggregate_only" in call.completeness.reasons:
        return
    if call.usage.input is None or (call.usage.input == 0 and len(call.prompt) > 0):
        lost: Lost = "attributes" if "attributes_dropped" in call.completeness.reasons else "usage"
        yield _finding(
            step, "usage_missing", "info", "Calls report no input tokens",
            f"{_scope(step)}; depth is counted from the text, as far as it was recorded", _fix(step, lost),
        )  # fmt: skip


def usage_inconsistent(step: Step) -> Iterator[Finding]:
    """Token numbers that contradict each other, on one span or between a parent's sum and its calls."""
    fix = "Compare with the provider's own usage, then upgrade the instrumentation or report it there."
    more_text = _more_text_than_input(step)
    for words in (*step.call.usage.conflicts, *((more_text,) if more_text else ())):
        yield _finding(
            step,
            "usage_inconsistent",
            "warning",
            "Token numbers of a call contradict each other",
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
    if "head" in call.completeness.lost or "aggregate_only" in call.completeness.reasons:
        return ""
    text = call.prompt.counted - sum(s.tokens or 0 for s in call.prompt.tools)
    return (
        f"input {reported:,}, but the text has {text:,} tokens" if text > _MORE_TEXT * reported + _FEW else ""
    )


def double_instrumentation(step: Step) -> Iterator[Finding]:
    """One call that two instrumentations tell of."""
    scopes = tuple(
        sorted({s.scope for s in step.call.spans if s.role in ("primary", "duplicate") and s.scope})
    )
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


def _scope(step: Step) -> str:
    scope, version = step.call.scope, step.call.scope_version
    if step.call.record == "transcript":
        return f"Told by a transcript of {step.call.dialect}"
    if step.call.record == "request":
        return "Told by a log of requests"
    return f"Recorded by {scope} {version}".rstrip() if scope else "Recorded by an unnamed instrumentation"


def _fix(step: Step, lost: Lost) -> str:
    scope = step.call.scope if step.call.record == "span" else step.call.dialect
    return fix_for(lost, scope, step.call.scope_version)


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{n} times"


def unpriced_model(step: Step, cost: Cost | None) -> Iterator[Finding]:
    """The model's price is not known: no cost is given, rather than a wrong one."""
    call = step.call
    if (
        cost is not None
        or not call.model
        or call.usage.input is None
        or "aggregate_only" in call.completeness.reasons
    ):
        return
    yield Finding(
        kind="unpriced_model",
        severity="info",
        title="The price of a model is not known",
        detail=f"{call.model} is in no price table: its cost is left out, not counted as zero.",
        fix=(
            "Install the extra prices (pip install 'otel-ctx[prices]'), or write the price into a file of your own: "
            "--rules FILE with a [[price]] row."
        ),
        calls=(call.id,),
        evidence="unknown",
    )
