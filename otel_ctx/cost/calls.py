"""What a call costs at list price, and what its lost tokens cost above a read. No price is no cost, never zero."""

from __future__ import annotations

from collections.abc import Sequence

from otel_ctx.cost.prices import USUAL, prices_of
from otel_ctx.model import Call, Cost
from otel_ctx.rules import Rules

_MILLION = 1_000_000


def cost_of(call: Call, losses: Sequence[tuple[str, int]], rules: Rules) -> Cost | None:
    """``losses``: (cause, tokens) that were billed again, in the order of the prompt: those that were written stand before
    those that were not. None where the usage or the price is not known."""
    usage = call.usage
    if usage.input is None or "aggregate_only" in call.completeness.reasons:
        return None
    found = prices_of(call, rules)
    if found is None:
        return None
    usd, method = found
    read, write = usage.cache_read or 0, usage.cache_write or 0
    fresh = max(0, usage.input - read - write)
    price_in = usd["input"]
    price_read = usd.get("cache_read", price_in)
    price_write = usd.get("cache_write", price_in)
    price_1h = usd.get("cache_write_1h", price_write)
    long = usage.cache_write_1h
    known = long is not None or price_1h == price_write or not write
    writes = (write - (long or 0)) * price_write + (long or 0) * price_1h
    output = (usage.output or 0) * usd.get("output", 0.0)
    parts = {
        "input_uncached": fresh * price_in / _MILLION,
        "cache_read": read * price_read / _MILLION,
        "cache_write": writes / _MILLION,
        "output": output / _MILLION,
    }
    low = high = total = sum(parts.values())
    if not known:
        high += write * (price_1h - price_write) / _MILLION
    if usage.cache_read is None:
        low -= fresh * (price_in - min(price_in, price_read)) / _MILLION
    if call.service_tier not in USUAL:
        # a price that is not published may be anything up to that of fresh input
        low -= sum(parts[name] for name in ("cache_read", "cache_write") if name not in usd)
    each = writes / write if write else price_write
    rest = write
    by_cause: dict[str, float] = {}
    for cause, tokens in losses:
        written = min(tokens, rest)
        rest -= written
        dear, plain = max(0.0, each - price_read), max(0.0, price_in - price_read)
        by_cause[cause] = (written * dear + (tokens - written) * plain) / _MILLION
    saved = read * max(0.0, price_in - price_read) - max(0.0, writes - write * price_in)
    return Cost(
        usd=total,
        low=low,
        high=high,
        method=method,
        parts=parts,
        wasted=sum(by_cause.values()),
        saved=saved / _MILLION,
        losses=by_cause,
    )
