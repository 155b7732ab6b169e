"""Sums over calls, as the report has them. A number that no call reports is None; money is that of calls with a known price."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from otel_ctx.model import Conversation, Reading, wasted_tokens


def totals(readings: Sequence[Reading], conversations: Sequence[Conversation]) -> dict[str, Any]:
    """Sums over calls. A number that no call reports is null; ``reported_by`` says how many calls the sums rest on."""
    by_status: dict[str, int] = {"full": 0, "partial": 0, "usage_only": 0, "none": 0}
    for r in readings:
        by_status[r.call.completeness.status] += 1
    starts = [r.call.start_unix_nano for r in readings if r.call.start_unix_nano]
    usages = [r.call.usage for r in readings]
    return {
        "calls": len(readings),
        "errors": sum(r.call.status == "error" for r in readings),
        "conversations": len(conversations),
        "completeness": by_status,
        "usage": {
            k: _sum([getattr(usage, k) for usage in usages])
            for k in ("input", "cache_read", "cache_write", "output", "reasoning")
        },
        "waste": _total_waste(readings),
        "cost": _total_cost(readings),
        "savings": _total_savings(conversations),
        "reported_by": sum([usage.input is not None for usage in usages]),
        "start_unix_nano": min(starts, default=None),
        "end_unix_nano": max((r.call.end_unix_nano for r in readings), default=None),
    }


def _total_waste(readings: Sequence[Reading]) -> dict[str, Any]:
    """Lost tokens by cause, None where nothing can be said of any call; in USD over the calls whose price is known."""
    by_cause: dict[str, dict[str, Any]] = {}
    for r in readings:
        for cause, tokens in r.losses:
            sums = by_cause.setdefault(cause, {"tokens": 0, "usd": None})
            sums["tokens"] += tokens
            if r.cost is not None and r.cost.wasted is not None:
                sums["usd"] = (sums["usd"] or 0.0) + r.cost.losses.get(cause, 0.0)
    for sums in by_cause.values():
        sums["usd"] = rounded_usd(sums["usd"])
    known = [c["usd"] for c in by_cause.values() if c["usd"] is not None]
    most = [c.wasted_high or c.wasted or 0.0 for r in readings if r.losses and (c := r.cost) is not None]
    return {
        "tokens": sum(c["tokens"] for c in by_cause.values())
        if wasted_tokens(readings) is not None or not readings
        else None,
        "usd": rounded_usd(math.fsum(known)) if known else None,
        "usd_high": rounded_usd(math.fsum(most)) if known else None,
        "by_cause": dict(sorted(by_cause.items(), key=lambda item: (-item[1]["tokens"], item[0]))),
    }


def _total_cost(readings: Sequence[Reading]) -> dict[str, Any]:
    costs = [r.cost for r in readings if r.cost is not None]
    if not costs:
        return {"usd": None, "usd_low": None, "usd_high": None, "saved_usd": None, "priced_calls": 0}
    saved = [c.saved for c in costs if c.saved is not None]
    return {
        "usd": rounded_usd(math.fsum([c.usd for c in costs])),
        "usd_low": rounded_usd(math.fsum([c.low for c in costs])),
        "usd_high": rounded_usd(math.fsum([c.high for c in costs])),
        "saved_usd": rounded_usd(math.fsum(saved)) if len(saved) == len(costs) else None,
        "priced_calls": len(costs),
    }


def _total_savings(conversations: Sequence[Conversation]) -> dict[str, Any] | None:
    """What all would save with their findings fixed. A session is a conversation with those that it began. None where
    one of them is there in part only."""
    known = [c.savings for c in conversations if c.savings is not None]
    if not known or any(c.part for c in conversations):
        return None
    saved, spent = [s.usd for s in known if s.usd is not None], math.fsum(s.spent for s in known)
    usd = math.fsum(saved) if saved else None
    sessions = len(_sessions(conversations))
    each = usd / sessions if usd is not None and sessions else None
    return {
        "tokens": sum(s.tokens for s in known),
        "usd": rounded_usd(usd),
        "share": round(usd / spent, 4) if usd is not None and spent else None,
        "sessions": sessions,
        "usd_per_session": rounded_usd(each),
        "usd_per_1000_sessions": rounded_usd(1000 * each) if each is not None else None,
    }


def _sessions(conversations: Sequence[Conversation]) -> set[str]:
    """Those of which any part has savings in USD: without a price nobody knows what a session saves."""
    parents = {c.id: c.parent for c in conversations}
    out = set()
    for c in conversations:
        if c.savings is not None and c.savings.usd is not None:
            id_, seen = c.id, {c.id}
            while (above := parents.get(id_)) is not None and above in parents and above not in seen:
                id_ = above
                seen.add(id_)
            out.add(id_)
    return out


def cost_words(readings: Sequence[Reading], money: str) -> str:
    """What the cost rests on. ``money``: the sum, "" where no call has a cost: then why."""
    several = "aggregate_only"
    told = [
        r for r in readings if r.call.usage.input is not None and several not in r.call.completeness.reasons
    ]
    unpriced = [r for r in told if r.cost is None]
    if money:
        some = f" of {len(told) - len(unpriced):,} of {len(told):,} calls" if unpriced else ""
        return f"{money} at list price{some}"
    if unpriced:
        return "cost not known: no price of the model"
    sums = bool(readings) and all(several in r.call.completeness.reasons for r in readings)
    return f"cost not known: {'only sums of several calls' if sums else 'no usage reported'}"


def rounded_usd(value: float | None) -> float | None:
    """A hundred-millionth of a dollar is less than any token costs."""
    return round(value, 8) if value else value


def _sum(values: Iterable[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None
