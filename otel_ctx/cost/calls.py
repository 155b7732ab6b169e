"""What a call costs at list price, and what its lost tokens cost above a read. No price is no cost, never zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from otel_ctx.cost.prices import USUAL, Usd, prices_of
from otel_ctx.model import Call, Cost, Usage
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
    (usd, *others), method = found
    parts = _parts(usage, usd)
    total = sum(parts.values())
    low, high = _bounds(call, usd, parts, total, rules)
    for other in others:
        its = _parts(usage, other)
        least, most = _bounds(call, other, its, sum(its.values()), rules)
        low, high = min(low, least), max(high, most)
    price_in = usd["input"]
    price_read = usd.get("cache_read", price_in)
    price_write = usd.get("cache_write", price_in)
    read, write = usage.cache_read or 0, usage.cache_write or 0
    writes = parts["cache_write"] * _MILLION
    each = writes / write if write else price_write
    rest = write
    by_cause: dict[str, float] = {}
    for cause, tokens in losses:
        written = min(tokens, rest)
        rest -= written
        dear, plain = max(0.0, each - price_read), max(0.0, price_in - price_read)
        lost = (written * dear + (tokens - written) * plain) / _MILLION
        by_cause[cause] = by_cause.get(cause, 0.0) + lost
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


def _parts(usage: Usage, usd: Usd) -> dict[str, float]:
    read, write, long = usage.cache_read or 0, usage.cache_write or 0, usage.cache_write_1h or 0
    price_in = usd["input"]
    price_write = usd.get("cache_write", price_in)
    return {
        "input_uncached": max(0, (usage.input or 0) - read - write) * price_in / _MILLION,
        "cache_read": read * usd.get("cache_read", price_in) / _MILLION,
        "cache_write": ((write - long) * price_write + long * usd.get("cache_write_1h", price_write))
        / _MILLION,
        "output": (usage.output or 0) * usd.get("output", 0.0) / _MILLION,
    }


def _bounds(
    call: Call, usd: Usd, parts: Mapping[str, float], total: float, rules: Rules
) -> tuple[float, float]:
    """The least and the most that these tokens cost at these prices: usage may leave open which of them were read, which
    were written, and for how long."""
    usage = call.usage
    low = high = total
    if call.service_tier not in USUAL:
        # a price that is not published may be anything up to that of fresh input
        low -= sum(parts[name] for name in ("cache_read", "cache_write") if name not in usd)
    price_in = usd["input"]
    price_write = usd.get("cache_write", price_in)
    if usage.cache_write and usage.cache_write_1h is None:
        long = usage.cache_write * (usd.get("cache_write_1h", price_write) - price_write) / _MILLION
        low, high = low + min(0.0, long), high + max(0.0, long)
    if usage.cache_read is not None and usage.cache_write is not None:
        return low, high
    may_be = [price_in]
    if usage.cache_read is None:
        may_be.append(usd.get("cache_read", price_in))
    if usage.cache_write is None:
        may_be += [usd[name] for name in usd if name.startswith("cache_write")]
    least, most = min(may_be), max(may_be)
    if least != most and not _too_short(call, rules):
        fresh = max(0, (usage.input or 0) - (usage.cache_read or 0) - (usage.cache_write or 0))
        low, high = low - fresh * (price_in - least) / _MILLION, high + fresh * (most - price_in) / _MILLION
    return low, high


def _too_short(call: Call, rules: Rules) -> bool:
    """Whether the provider says that it caches no prompt of that length."""
    family = rules.model(call.model, call.platform or call.provider)
    if family is None or family.min_cacheable_tokens is None:
        return False
    said = family.values["min_cacheable_tokens"].status == "documented"
    return said and (call.usage.input or 0) < family.min_cacheable_tokens
