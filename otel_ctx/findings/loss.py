"""What a break cost the call, and how sure that is: recorded text predicts, the provider's usage confirms or denies.

A helper of the checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from otel_ctx.findings.step import Step
from otel_ctx.model import Break, Call, Evidence, Finding, Severity
from otel_ctx.tokens.unseen import AROUND_EACH, SHARE_OF_TOOLS

_SLACK_TOKENS = 128  # providers read whole blocks and add tokens of their own
_SLACK_EXACT = 0.05
_SLACK_ESTIMATED = 0.25

UNSEEN = "What was sent is stored under a name that holds its hash, and the hash is another one."


@dataclass(frozen=True, slots=True)
class Loss:
    """``tokens`` had to be read again. ``denied``: the provider read more from its cache than the text allows."""

    tokens: int
    evidence: Evidence
    denied: bool = False


def known_by_hash(at: Break) -> bool:
    """Is all that is known of what differs that it is not the same? (Of a tool or a system prompt that was seen, tokens
    are always known.)"""
    sides = (s for s in (at.before, at.after) if s is not None)
    return at.kind in ("tools", "system") and any(s.method == "unmeasured" for s in sides)


def loss_of(step: Step, at: Break) -> Loss:
    """The loss at ``at``, the break of this step: nothing where another cause would have cost the same anyway."""
    old, call, tokens, access = step.compared, step.call, step.reading.tokens, step.reading.access
    if old is None:
        return Loss(at.tokens, "predicted")
    if known_by_hash(at) or not call.completeness.text_seen:
        return _by_usage(old, call)
    if access is not None and not access.in_use:
        return Loss(0, "predicted")
    kept = in_front(old, at)
    if access is not None:
        lost = 0 if access.barrier else access.lost - access.behind
    else:  # no call reads more than it holds
        lost = max(0, min(at.tokens, round((tokens.counted - kept) * tokens.factor)))
    read = call.usage.cache_read
    if read is None:
        return Loss(lost, "predicted")
    share = _SLACK_EXACT if tokens.method == "exact" else _SLACK_ESTIMATED
    agreeing = (kept + _common_part(at)) * tokens.factor
    if access is not None and access.predicted is not None:
        # the place by what calls before had reported, or an older entry
        agreeing = max(agreeing, access.predicted.read)
    unseen = max(0, tokens.unaccounted or 0)  # may stand in front of the break: tools that were not recorded
    most = agreeing + unseen + max(_SLACK_TOKENS, share * agreeing)
    before = old.usage.input if old.usage.input is not None else kept * tokens.factor + at.tokens
    known_to = most
    if step.engine == "breakpoint" and access is not None and access.predicted is not None:
        # no entry ends between two markers: what stands in front of the change may be far more than what can be read
        known_to = access.predicted.read + unseen + max(_SLACK_TOKENS, share * access.predicted.read)
    evidence: Evidence = "reported" if before > most or read <= known_to < before else "predicted"
    front = old.prompt.tools[: at.index]
    most += (SHARE_OF_TOOLS * sum(s.tokens or 0 for s in front) + AROUND_EACH * len(front)) * tokens.factor
    if read <= most:
        return Loss(lost, evidence)
    # back to a text of before, which may be cached still
    known = any(
        b.before is not None and at.after is not None and b.before.digest == at.after.digest
        for b in step.breaks
    )
    return Loss(max(0, min(lost, round(before - read))), "reported", denied=not known)


def too_short(step: Step, loss: Loss) -> str:
    """In words, where nothing was lost because neither prompt is long enough to be cached: a change costs nothing yet."""
    sizes = [c.usage.input for c in (step.compared, step.call) if c is not None]
    size = max((n for n in (step.reading.context.usage, *sizes) if n is not None), default=None)
    if loss.tokens or not step.minimum or size is None or size >= step.minimum:
        return ""
    return f" The prompt is shorter than the {step.minimum:,} tokens from which on it is cached: this costs nothing yet."


def as_implied(step: Step, found: Finding) -> Finding:
    """As an inference, where that nothing was read is one: no call tells of cached tokens."""
    access, call = step.reading.access, step.call
    if access is None or not access.implied or not found.tokens:
        return found
    who = call.scope or call.dialect
    said = (
        f"{found.detail} No call before tells of cached tokens; {who} leaves a zero out, so it is taken as 0."
    )
    evidence: Evidence = "inferred" if found.evidence == "reported" else found.evidence
    return replace(found, detail=said, evidence=evidence)


def costless(step: Step, found: Finding) -> Finding:
    """As a property of the text alone, where no cache is known to be in use."""
    access = step.reading.access
    if access is None or access.in_use:
        return found
    if not access.promised:
        shown = access.reported is not None
        said = "Its provider promises nothing, and nothing shows that this prompt is cached: what this costs is not known."
        severity: Severity = "info" if shown or found.severity == "info" else "warning"
        return replace(found, severity=severity, detail=f"{found.detail} {said}")
    costs = (
        "this costs nothing yet"
        if access.ruled
        else "no cache rule of the model is known, nor what this costs"
    )
    said = f"{found.detail} Nothing shows that this prompt is cached: {costs}."
    return replace(found, severity="info", detail=said)


def _by_usage(old: Call, call: Call) -> Loss:
    """Without text: what the provider could have read again of the call before, and did not."""
    before, now, read = old.usage.input, call.usage.input, call.usage.cache_read
    if before is None or now is None or read is None:
        return Loss(0, "inferred")
    could = min(before, now)
    return Loss(max(0, could - read), "inferred", denied=read >= could * (1 - _SLACK_EXACT))


def in_front(old: Call, at: Break) -> int:
    """Tokens of the segments of ``old`` in front of the break."""
    prompt = old.prompt
    head = (*prompt.tools, *prompt.system)
    if at.index <= len(head):
        return sum(s.tokens or 0 for s in head[: at.index])
    behind = sum(s.tokens or 0 for s in prompt.since(at.index))
    return sum(s.tokens or 0 for s in head) + sum(prompt.messages.tokens_by_kind) - behind


def _common_part(at: Break) -> float:
    """Tokens of the segment that broke, in front of the place where it did."""
    if at.before is None or not at.before.tokens or at.char_offset is None:
        return 0.0
    return at.before.tokens * min(1.0, at.char_offset / max(at.before.bytes, 1))
