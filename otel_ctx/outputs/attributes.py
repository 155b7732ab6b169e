"""A reading as attributes, events and a link of the spans that tell of its call: namespace ``otelctx.``.

Values are what every exporter takes: no bytes, no nested values, no number that OTLP cannot hold. What is not known is
left out. No prompt text: kinds, counts, positions, ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from otel_ctx.model import Finding, Reading, Role, Said
from otel_ctx.outputs.report import outcome_of
from otel_ctx.outputs.views.kinds import by_kind

Value = bool | int | float | str | tuple[str, ...]

EVENT = "otelctx.finding"

_LONGEST = 1000  # characters; the names of foreign scopes may be of any length, and Tempo cuts at 2048 bytes
_INT64 = 1 << 63


def attributes(said: Said, role: Role) -> dict[str, Value]:
    """What to add to a span of the call, by what the span is to it.

    Only the primary span carries figures: a backend that sums over spans must find each once. A duplicate or an
    aggregate says what it is and which conversation it belongs to.
    """
    if role != "primary":
        return _sendable(
            (("otelctx.call.role", role), ("otelctx.conversation.id", said.reading.conversation))
        )
    return _sendable(_figures(said))


def events(said: Said) -> tuple[tuple[str, dict[str, Value]], ...]:
    """(name, attributes) of each finding at the call: for its primary span only. Never the excerpt."""
    return tuple((EVENT, _sendable(_finding(f))) for f in said.findings)


def link(reading: Reading) -> tuple[str, str] | None:
    """(trace id, span id) of the call that this one continues, where its id is that of a span."""
    trace_id, _, span_id = (reading.previous or "").partition(":")
    return (trace_id, span_id) if _is_id(trace_id, 32) and _is_id(span_id, 16) else None


# ---- what is said


def _figures(said: Said) -> Iterator[tuple[str, Value | None]]:
    r = said.reading
    call, context, tokens, at = r.call, r.context, r.tokens, r.break_
    yield "otelctx.call.role", "primary"
    yield "otelctx.provisional", r.provisional
    yield "otelctx.completeness", call.completeness.status
    yield "otelctx.completeness.reasons", call.completeness.reasons
    yield "otelctx.conversation.id", r.conversation
    # Neither content nor an id of a conversation says where such a call stands: 1 would be a guess.
    yield "otelctx.conversation.turn", None if r.unplaced and not call.conversation_hint else r.turn
    yield "otelctx.conversation.relation", r.relation
    yield "otelctx.context.usage", context.usage
    yield "otelctx.context.limit", context.limit
    yield "otelctx.context.utilization", context.utilization
    yield "otelctx.context.headroom", context.headroom
    yield "otelctx.context.headroom_turns", context.headroom_turns
    yield "otelctx.context.growth", context.growth
    if tokens.method != "unmeasured":  # of a prompt that was not seen nobody knows what it was made of
        for kind, count in by_kind(r).items():
            yield f"otelctx.segments.{kind}.tokens", count
    yield "otelctx.tokens.method", tokens.method
    yield "otelctx.tokens.unaccounted", tokens.unaccounted
    access = r.access
    yield "otelctx.cache.outcome", outcome_of(r)
    if access is not None:
        if access.predicted is not None:
            yield "otelctx.cache.read.predicted", access.predicted.read
        if access.optimal is not None:
            yield "otelctx.cache.read.optimal", access.optimal.read
    if r.judged:
        yield "otelctx.waste.tokens", r.wasted
    if r.cost is not None:
        yield "otelctx.cost.usd", round(r.cost.usd, 8)
    yield "otelctx.cache.cause", r.cause
    yield "otelctx.cache.evidence", r.evidence if r.cause else None
    yield "otelctx.cache.read.reported", call.usage.cache_read
    if at is not None:
        yield "otelctx.cache.break.path", at.path
        yield "otelctx.cache.break.kind", at.kind
        yield "otelctx.cache.break.tokens", at.tokens
    yield "otelctx.findings", tuple(dict.fromkeys(f.kind for f in said.findings))


def _finding(f: Finding) -> Iterator[tuple[str, Value | None]]:
    yield "otelctx.finding.kind", f.kind
    yield "otelctx.finding.severity", f.severity
    yield "otelctx.finding.title", f.title
    yield "otelctx.finding.detail", f.detail
    yield "otelctx.finding.path", f.path
    yield "otelctx.finding.tokens", f.tokens or None
    yield "otelctx.finding.evidence", f.evidence


# ---- what can be sent


def _sendable(pairs: Iterable[tuple[str, Value | None]]) -> dict[str, Value]:
    """Without what is missing or empty, and without what would make an exporter lose the whole batch."""
    out: dict[str, Value] = {}
    for key, value in pairs:
        if isinstance(value, str):
            value = _encodable(value)
        elif isinstance(value, tuple):
            value = tuple(map(_encodable, value))
        elif isinstance(value, int) and not -_INT64 <= value < _INT64:
            continue
        if value is not None and value != "" and value != ():
            out[key] = value
    return out


def _encodable(text: str) -> str:
    return text[:_LONGEST].encode("utf-8", "replace").decode()


def _is_id(text: str, digits: int) -> bool:
    return len(text) == digits and not text.strip("0123456789abcdef") and text.strip("0") != ""
