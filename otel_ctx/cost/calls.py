"""What a call costs at list price, and what its lost tokens cost above a read. No price is no cost, never zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from otel_ctx.cost.prices import MILLION, prices_of
from otel_ctx.model import Call, Cost, Usage
from otel_ctx.rules import Rules
from otel_ctx.rules.rows import Rates


def cost_of(call: Call, losses: Sequence[tuple[str, int]], rules: Rules) -> Cost | None:
    """``losses``: (cause, tokens) that were billed again, in the order of the prompt: those that were written stand before
    those that were not. None where the usage or the price is not known."""
    usage = call.usage
    if usage.input is None or "aggregate_only" in call.completeness.reasons:
        return None
    found = prices_of(call, rules)
    if found is None:
        return None
    (rates, *others), method = found
    parts = _parts(usage, rates)
    total = sum(parts.values())
    low, high = _bounds(call, rates, parts, total, rules)
    for other in others:
        its = _parts(usage, other)
        least, most = _bounds(call, other, its, sum(its.values()), rules)
        low, high = min(low, least), max(high, most)
    read, write = usage.cache_read or 0, usage.cache_write or 0
    writes = parts["cache_write"] * MILLION
    plain = max(0.0, rates.fresh - rates.read)
    by_cause: dict[str, float] = {}
    longest = 0.0  # what the lost tokens cost more if all was written for the longer time
    unread = "cache_read" in rates.unpriced
    if losses and not unread:
        dear = max(0.0, (writes / write if write else rates.write) - rates.read)
        rest = write
        for cause, tokens in losses:
            written = min(tokens, rest)
            rest -= written
            if usage.cache_write_1h is None:
                longest += written * max(0.0, rates.write_1h - rates.write) / MILLION
            lost = (written * dear + (tokens - written) * plain) / MILLION
            by_cause[cause] = by_cause.get(cause, 0.0) + lost
    saved = (read * plain - max(0.0, writes - write * rates.fresh)) / MILLION
    return Cost(
        usd=total,
        low=low,
        high=high,
        method=method,
        parts=parts,
        wasted=None if losses and unread else sum(by_cause.values()),
        saved=None if any(parts[name] for name in rates.unpriced) else saved,
        losses=by_cause,
        wasted_high=None if losses and unread else sum(by_cause.values()) + longest,
    )


def _parts(usage: Usage, rates: Rates) -> dict[str, float]:
    read, write, long = usage.cache_read or 0, usage.cache_write or 0, usage.cache_write_1h or 0
    return {
        "input_uncached": max(0, (usage.input or 0) - read - write) * rates.fresh / MILLION,
        "cache_read": read * rates.read / MILLION,
        "cache_write": ((write - long) * rates.write + long * rates.write_1h) / MILLION,
        "output": (usage.output or 0) * rates.output / MILLION,
    }


def _bounds(
    call: Call, rates: Rates, parts: Mapping[str, float], total: float, rules: Rules
) -> tuple[float, float]:
    """The least and the most that these tokens cost at these prices: usage may leave open which of them were read, which
    were written, and for how long."""
    usage = call.usage
    low = high = total
    # a price that nobody tells may be anything up to that of fresh input
    low -= sum(parts[name] for name in rates.unpriced)
    if usage.cache_write and usage.cache_write_1h is None:
        long = usage.cache_write * (rates.write_1h - rates.write) / MILLION
        low, high = low + min(0.0, long), high + max(0.0, long)
    if usage.cache_read is not None and usage.cache_write is not None:
        return low, high
    least = most = rates.fresh
    if usage.cache_write is None:
        least, most = rates.least, rates.most
    if usage.cache_read is None:
        least, most = min(least, rates.read), max(most, rates.read)
    if least != most and not _too_short(call, rules):
        fresh = max(0, (usage.input or 0) - (usage.cache_read or 0) - (usage.cache_write or 0))
        low, high = (
            low - fresh * (rates.fresh - least) / MILLION,
            high + fresh * (most - rates.fresh) / MILLION,
        )
    return low, high


def _too_short(call: Call, rules: Rules) -> bool:
    """Whether the provider says that it caches no prompt of that length."""
    family = rules.model(call.model, call.served_by)
    if family is None or family.min_cacheable_tokens is None:
        return False
    said = family.values["min_cacheable_tokens"].status == "documented"
    return said and (call.usage.input or 0) < family.min_cacheable_tokens
