"""What the commands beside ``analyze`` show, as data: schemas ``otelctx.conversations/1``, ``otelctx.tokens/1``,
``otelctx.cache/1``, ``otelctx.findings/1``, ``otelctx.diff/1``, ``otelctx.check/1`` and ``otelctx.compare/1``. No prompt text
unless it is asked for; missing is null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from otel_ctx.model import Analysis, CacheTokens, Conversation, Finding, Reading, Segment
from otel_ctx.outputs.report import conversation_of, finding_of, outcome_of
from otel_ctx.outputs.views.changes import Changes, Figure
from otel_ctx.outputs.views.compare import Row
from otel_ctx.outputs.views.gates import Verdict
from otel_ctx.outputs.views.listing import Entry
from otel_ctx.outputs.views.names import held_back, name_of, shown
from otel_ctx.outputs.views.prefix_map import prefix_map
from otel_ctx.outputs.views.sides import Difference, Side
from otel_ctx.outputs.views.summary import Summary
from otel_ctx.outputs.views.tokens import AgentTokens, Window

_FIGURES = (
    "calls", "conversations", "depth", "peak", "input", "cache_read", "cache_write", "output", "hit_ratio", "wasted",
    "usd", "usd_low", "usd_high", "wasted_usd", "breaks",
)  # fmt: skip


def conversations(entries: Iterable[Entry]) -> dict[str, Any]:
    """As the report has them, each with its number, its sums and how full its window is."""
    return {
        "schema": "otelctx.conversations/1",
        "conversations": [
            {
                "number": e.number,
                **conversation_of(e.conversation),
                "start_unix_nano": e.start_unix_nano or None,
                "utilization": None if e.utilization is None else round(e.utilization, 4),
                "errors": e.findings[0],
                "warnings": e.findings[1],
                "totals": _summary(e.summary),
            }
            for e in entries
        ],
    }


def _summary(s: Summary) -> dict[str, Any]:
    figures = {name: getattr(s, name) for name in _FIGURES}
    return {k: round(v, 8) if isinstance(v, float) else v for k, v in figures.items()}


def tokens(windows: Iterable[Window], agents: Iterable[AgentTokens]) -> dict[str, Any]:
    return {
        "schema": "otelctx.tokens/1",
        "conversations": [
            {
                "conversation": w.conversation,
                "limit": w.limit,
                "turns": [
                    {"call": t.call, "turn": t.turn, "usage": t.usage, "kinds": dict(t.kinds) or None}
                    for t in w.turns
                ],
                "last_seen": w.last,
                "tools": [{**asdict(t), "name": name_of(t.name) or None, "total": t.total} for t in w.tools],
            }
            for w in windows
        ],
        "agents": [
            {"service": a.service or None, "agent": a.agent or None, **_summary(a.summary)} for a in agents
        ],
    }


def cache(conversations_: Iterable[Conversation], readings: Mapping[str, Reading]) -> dict[str, Any]:
    """``stretches``: (state, tokens) in the order of the prompt, adding up to ``usage``; ``break_at``: tokens before it."""
    return {
        "schema": "otelctx.cache/1",
        "conversations": [
            {
                "conversation": c.id,
                "turns": [
                    {
                        "call": row.call,
                        "turn": row.turn,
                        "usage": row.usage,
                        "source": row.source,
                        "stretches": [{"state": s.state, "tokens": s.tokens} for s in row.stretches],
                        "break_at": row.break_at,
                        **_access(readings[row.call]),
                    }
                    for row in prefix_map(c, readings)
                ],
            }
            for c in conversations_
        ],
    }


def _access(r: Reading) -> dict[str, Any]:
    a, b, u = r.access, r.break_, r.call.usage
    return {
        "predicted": _cache_tokens(a.predicted) if a else None,
        "reported": None
        if u.cache_read is None and u.cache_write is None
        else {"read": u.cache_read, "write": u.cache_write},
        "optimal": _cache_tokens(a.optimal) if a else None,
        "outcome": outcome_of(r),
        "cause": r.cause or None,
        "evidence": r.evidence if r.cause else None,
        "lost": r.wasted if r.judged else None,
        "break": None
        if b is None
        else {"path": b.path, "kind": b.kind, "change": b.change, "char_offset": b.char_offset},
    }


def _cache_tokens(tokens_: CacheTokens | None) -> dict[str, int] | None:
    return None if tokens_ is None else tokens_._asdict()


def findings(found: Sequence[Finding], analysis: Analysis, *, include_text: bool = False) -> dict[str, Any]:
    if not include_text:
        analysis = held_back(replace(analysis, findings=tuple(found)))
        found = analysis.findings
    return {
        "schema": "otelctx.findings/1",
        "findings": [finding_of(f, include_text) for f in found],
        "not_checked": [
            {"check": n.check, "why": n.why, "calls": list(n.calls)} for n in analysis.not_checked
        ],
    }


def check(found: Sequence[Verdict], analysis: Analysis, *, strict: bool, passed: bool) -> dict[str, Any]:
    return {
        "schema": "otelctx.check/1",
        "passed": passed,
        "strict": strict,
        "calls": len(analysis.readings),
        "gates": [
            {
                "gate": v.gate,
                "bound": v.bound,
                "result": v.result,
                "value": None if v.value is None else round(v.value, 8),
                "told": v.told,
                "calls": list(v.calls),
            }
            for v in found
        ],
    }


# ---- two sides


def diff(found: Difference, *, include_text: bool = False) -> dict[str, Any]:
    p = found.prompts
    return {
        "schema": "otelctx.diff/1",
        "old": _side(found.old, found.summaries[0]),
        "new": _side(found.new, found.summaries[1]),
        "kinds": [{"kind": k.kind, "old": k.before, "new": k.after} for k in p.kinds],
        "prefix": {"segments": p.prefix, "tokens": p.prefix_tokens},
        "not_compared": list(p.unseen),
        "segments": [_row(row, include_text) for row in p.rows],
    }


def _side(side: Side, numbers: Summary) -> dict[str, Any]:
    return {
        "calls": [r.call.id for r in side.readings],
        "conversations": list(dict.fromkeys(r.conversation for r in side.readings)),
        "models": list(map(shown, numbers.models)),
        "shown": side.shown.call.id,
        "turn": side.shown.turn,
        "totals": _summary(numbers),
    }


def _row(row: Row, include_text: bool) -> dict[str, Any]:
    out: dict[str, Any] = {
        "change": row.change,
        "old": _segment(row.before, row.tokens_before),
        "new": _segment(row.after, row.tokens_after),
        "char_offset": row.char_offset,
    }
    if include_text:
        out["edits"] = None if row.edits is None else [{"op": e.op, "text": e.text} for e in row.edits]
    return out


def _segment(s: Segment | None, size: int | None) -> dict[str, Any] | None:
    if s is None:
        return None
    return {
        "path": s.path,
        "kind": s.kind,
        "name": name_of(s.name) or None,
        "tokens": size,
        "digest": s.digest,
    }


# ---- two dumps


def changes(found: Changes) -> dict[str, Any]:
    return {
        "schema": "otelctx.compare/1",
        "before": _summary(found.before),
        "after": _summary(found.after),
        "same_turns": {
            "calls": found.same_calls,
            "conversations": sum(p.matched for p in found.pairs),
            "figures": [_figure(f) for f in found.figures],
        },
        "conversations": [
            {
                "before": None if p.before is None else p.before.id,
                "after": None if p.after is None else p.after.id,
                "turns": list(p.turns),
                "figures": [_figure(f) for f in p.figures],
            }
            for p in found.pairs
        ],
        "findings": [
            {
                "change": f.change,
                "kind": f.kind,
                "place": f.place or None,
                "severity": f.severity,
                "title": f.title,
                "before": {"calls": f.calls[0], "tokens": f.tokens[0]},
                "after": {"calls": f.calls[1], "tokens": f.tokens[1]},
            }
            for f in found.findings
        ],
        "worse": list(found.worse),
    }


def _figure(f: Figure) -> dict[str, Any]:
    old, new = (None if v is None else round(v, 8) for v in (f.before, f.after))
    return {"figure": f.name, "before": old, "after": new, "judged": f.judged or None}
