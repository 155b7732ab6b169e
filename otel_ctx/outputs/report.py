"""The report as data: schema ``otelctx.report/1``. No prompt text in it unless it is asked for; missing is null."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from otel_ctx.model import (
    Analysis,
    CacheTokens,
    Call,
    Context,
    Conversation,
    Cost,
    Finding,
    Outcome,
    Prompt,
    Reading,
    Savings,
    Segment,
)
from otel_ctx.names import is_word
from otel_ctx.outputs.escape import can_be_seen
from otel_ctx.outputs.views.kinds import reconcile
from otel_ctx.outputs.views.names import held_back, name_of
from otel_ctx.outputs.views.totals import rounded_usd, totals

SCHEMA = "otelctx.report/1"

TextOf = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    format: str
    spans: int
    log_records: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was read, and what could not be: (where, why). ``foreign``: (path, why) of whole files in a folder that are no
    telemetry: what was read is all of it without them."""

    files: tuple[Source, ...]
    skipped: tuple[tuple[str, str], ...]
    foreign: tuple[tuple[str, str], ...] = ()

    @property
    def telemetry(self) -> int:
        """How many of the files are not foreign."""
        return len(self.files) - len(self.foreign)


def build(analysis: Analysis, inputs: Inputs, *, include_text: bool = False) -> dict[str, Any]:
    """The whole report as plain values. Raises Reconciliation where a sum does not hold."""
    if not include_text:
        analysis = held_back(analysis)
    readings = analysis.readings
    known = {r.call.id: r for r in readings}
    shown = analysis.text if include_text else None
    calls = [_call(r, known, shown) for r in readings]
    reconcile(readings)
    return {
        "schema": SCHEMA,
        "input": input_of(analysis, inputs),
        "calls": calls,
        "conversations": [conversation_of(c) for c in analysis.conversations],
        "findings": [finding_of(f, include_text) for f in analysis.findings],
        "ignored": [{"kind": kind, "calls": calls} for kind, calls in analysis.ignored],
        "not_checked": [
            {"check": n.check, "why": n.why, "calls": list(n.calls)} for n in analysis.not_checked
        ],
        "totals": totals(readings, analysis.conversations),
    }


def input_of(analysis: Analysis, inputs: Inputs) -> dict[str, Any]:
    """What was read, and what was not."""
    return {
        "files": [
            {"path": f.path, "format": f.format, "spans": f.spans, "log_records": f.log_records}
            for f in inputs.files
        ],
        "spans": sum(f.spans for f in inputs.files),
        "log_records": sum(f.log_records for f in inputs.files),
        "skipped": [
            *({"where": where, "why": why} for where, why in inputs.skipped),
            *({"where": path, "why": why, "foreign": True} for path, why in inputs.foreign),
        ],
        "orphan_records": analysis.orphans,
        "unassigned_bytes": analysis.unassigned_bytes,
    }


def dumps(report: Mapping[str, Any], *, pretty: bool = False) -> bytes:
    """The report as JSON bytes, one line and a new line (or indented). It may go to a terminal: what cannot be seen, and
    would move its cursor or turn its text round, is written as JSON's ``\\u202e``."""
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if pretty else 0)
    try:
        return _seen(orjson.dumps(report, option=option))
    except (TypeError, ValueError):  # lone surrogates out of a dump
        return _seen(orjson.dumps(_clean(report), option=option))


def _seen(written: bytes) -> bytes:
    if written.isascii() and b"\x7f" not in written:
        return written
    text = written.decode()
    unseen = {ord(c): json.dumps(c)[1:-1] for c in set(text) - {"\n"} if not can_be_seen(c)}
    return text.translate(unseen).encode() if unseen else written


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {k: _clean(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return value


# ---- calls


def _call(r: Reading, known: Mapping[str, Reading], text: TextOf | None) -> dict[str, Any]:
    c = r.call
    return {
        "id": c.id,
        "spans": [
            {"trace_id": s.trace_id, "span_id": s.span_id, "role": s.role, "scope": s.scope or None}
            for s in c.spans
        ],
        "response_id": c.response_id or None,
        "previous_response_id": c.previous_response_id or None,
        "conversation": r.conversation,
        "turn": r.turn,
        "relation": r.relation,
        "previous": r.previous,
        "gap": r.gap,
        "service": c.service or None,
        "agent": c.agent or None,
        "operation": c.operation or None,
        "status": c.status,
        "error": _error(c.error, text) or None,
        "dialect": c.dialect,
        "guess": list(c.guess) or None,
        "scope": c.scope or None,
        "scope_version": c.scope_version or None,
        "provider": c.provider or None,
        "platform": c.platform or None,
        "model": c.model or None,
        "service_tier": c.service_tier or None,
        "start_unix_nano": c.start_unix_nano,
        "end_unix_nano": c.end_unix_nano,
        "first_token_unix_nano": c.first_token_unix_nano,
        "completeness": {
            "status": c.completeness.status,
            "reasons": list(c.completeness.reasons),
            "lost": sorted(c.completeness.lost),
        },
        "usage": _usage(c),
        "segments": _segments(r, known, text),
        "context": _context(r.context),
        "tokens": {
            "counted": r.tokens.counted,
            "unaccounted": r.tokens.unaccounted,
            "server_side": r.tokens.server_side,
            "method": r.tokens.method,
            "factor": r.tokens.factor,
        },
        "cache": _cache(r),
        "waste": _waste(r),
        "cost": _cost(r.cost),
        "findings": list(r.findings),
    }


def _error(error: str, text: TextOf | None) -> str:
    """The type of an error. A message may quote the prompt: it is text."""
    return error if not error or text is not None or is_word(error) else "error"


def _usage(c: Call) -> dict[str, Any]:
    u = c.usage
    return {
        "input": u.input,
        "cache_read": u.cache_read,
        "cache_write": u.cache_write,
        "cache_write_1h": u.cache_write_1h,
        "output": u.output,
        "reasoning": u.reasoning,
        "semantics": u.semantics,
        "semantics_evidence": u.semantics_evidence or None,
    }


def _context(c: Context) -> dict[str, Any]:
    return {
        "usage": c.usage,
        "usage_method": c.usage_method,
        "limit": c.limit,
        "limit_source": c.limit_source or None,
        "reserve": c.reserve,
        "utilization": c.utilization,
        "headroom": c.headroom,
        "headroom_turns": c.headroom_turns,
        "growth": c.growth,
        "band": c.band,
    }


def outcome_of(r: Reading) -> Outcome | None:
    """None: the provider told its tokens, and nothing says what they could have been."""
    if r.access is not None:
        return r.access.outcome
    usage = r.call.usage
    return "not_reported" if usage.cache_read is None and usage.cache_write is None else None


def _cache(r: Reading) -> dict[str, Any]:
    """Predicted by the rules, reported by the provider, and what an unbroken, well-marked prefix would have given."""
    u, b, access = r.call.usage, r.break_, r.access
    reported = None
    if u.cache_read is not None or u.cache_write is not None:
        fresh = None if u.input is None else u.input - (u.cache_read or 0) - (u.cache_write or 0)
        reported = {"read": u.cache_read, "write": u.cache_write, "uncached": fresh}
    known = access is not None
    return {
        "predicted": _state(access.predicted) if access is not None else None,
        "reported": reported,
        "optimal": _state(access.optimal) if access is not None else None,
        "outcome": outcome_of(r),
        "cause": r.cause or None,
        "evidence": r.evidence if known and r.cause else None,
        "break": None
        if b is None
        else {
            "path": b.path,
            "kind": b.kind,
            "change": b.change,
            "tokens": b.tokens,
            "char_offset": b.char_offset,
        },
    }


def _state(tokens: CacheTokens | None) -> dict[str, int] | None:
    return (
        None if tokens is None else {"read": tokens.read, "write": tokens.write, "uncached": tokens.uncached}
    )


def _waste(r: Reading) -> dict[str, Any] | None:
    if not r.judged:
        return None
    usd = rounded_usd(r.cost.wasted) if r.cost is not None else None
    paid = r.cost.losses if r.cost is not None else {}
    by_cause = {cause: {"tokens": n, "usd": rounded_usd(paid.get(cause))} for cause, n in r.losses}
    high = rounded_usd(r.cost.wasted_high) if r.cost is not None else None
    return {"tokens": r.wasted, "usd": usd, "usd_high": high, "by_cause": by_cause}


def _cost(c: Cost | None) -> dict[str, Any] | None:
    if c is None:
        return None
    return {
        "usd": rounded_usd(c.usd),
        "usd_low": rounded_usd(c.low),
        "usd_high": rounded_usd(c.high),
        "method": c.method,
        "parts": {name: rounded_usd(usd) for name, usd in c.parts.items()},
    }


def _segments(r: Reading, known: Mapping[str, Reading], text: TextOf | None) -> dict[str, Any]:
    """What the call shares with the one that it continues is not written again."""
    prompt = r.call.prompt
    base, same = r.previous, 0
    if base is not None and base in known:
        same = _told_alike(known[base].call.prompt, prompt, r.shared)
    else:
        base = None
    return {"from": base, "same": same, "new": [segment(s, text) for s in prompt.since(same)]}


def _told_alike(old: Prompt, new: Prompt, shared: int) -> int:
    """How many of the ``shared`` segments are written alike, too: a cache marker rolls on, and another model's
    tokenizer counts the same text anew."""
    if new.messages.base is old.messages and shared > len(new.tools) + len(new.system):
        if old.tools == new.tools and old.system == new.system:
            return shared
        before, after = (*old.tools, *old.system), (*new.tools, *new.system)
        pairs, same = list(zip(before, after, strict=True)), shared
    else:
        pairs = list(islice(zip(old, new, strict=False), shared))
        same = len(pairs)
    return next(
        (i for i, (a, b) in enumerate(pairs) if a is not b and segment(a, None) != segment(b, None)), same
    )


_ROLES = frozenset({
    "system", "developer", "user", "human", "assistant", "model", "ai", "tool", "function", "tool_result", "tool-call",
    "tool-response", "thinking",
})  # fmt: skip


def segment(s: Segment, text: TextOf | None) -> dict[str, Any]:
    """One segment; its text where ``text`` has it."""
    out: dict[str, Any] = {
        "kind": s.kind,
        "role": s.role if s.role.lower() in _ROLES else None,
        "name": name_of(s.name, text is not None) or None,
        "path": s.path,
        "bytes": s.bytes,
        "tokens": s.tokens,
        "method": s.method,
        "digest": s.digest,
        "cache_marker": s.cache_marker or None,
    }
    if s.inferred:
        out["inferred"] = True
    if text is not None:
        out["text"] = text(s.digest)
    return out


# ---- the rest


def conversation_of(c: Conversation) -> dict[str, Any]:
    return {
        "id": c.id,
        "parent": c.parent,
        "calls": list(c.calls),
        "services": list(c.services),
        "agents": list(c.agents),
        "models": list(c.models),
        "usage_peak": c.usage_peak,
        "usage_last": c.usage_last,
        "limit": c.limit,
        "headroom": c.headroom,
        "headroom_turns": c.headroom_turns,
        "band": c.band,
        "saved_by_restarting": c.saved_by_restarting,
        "gaps": c.gaps,
        "joined": c.joined,
        "savings": _savings(c.savings),
    }


def _savings(s: Savings | None) -> dict[str, Any] | None:
    if s is None:
        return None
    share = round(s.share, 4) if s.share is not None else None
    return {
        "tokens": s.tokens,
        "usd": rounded_usd(s.usd),
        "share": share,
        "lifetime": s.lifetime,
        "ttl": s.ttl or None,
    }


def finding_of(f: Finding, include_text: bool) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": f.kind,
        "severity": f.severity,
        "title": f.title,
        "detail": f.detail,
        "fix": f.fix,
        "calls": list(f.calls),
        "path": f.path or None,
        "tokens": f.tokens,
        "usd": rounded_usd(f.usd),
        "evidence": f.evidence,
    }
    if include_text:
        out["excerpt"] = f.excerpt or None
    return out
