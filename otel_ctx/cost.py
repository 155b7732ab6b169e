"""What a call costs at list price, and what its lost tokens cost above a read. No price is no cost, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from otel_ctx.model import Call, Cost
from otel_ctx.rules import Family, Price, Rules
from otel_ctx.rules.names import normalise_model_id

_MILLION = 1_000_000
_SECOND = 1_000_000_000


def cost_of(call: Call, wasted: int, rules: Rules) -> Cost | None:
    """``wasted``: tokens that were billed again. None where the usage or the price is not known."""
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
    total = sum(parts.values())
    low = high = total
    if not known:
        high += write * (price_1h - price_write) / _MILLION
    if usage.cache_read is None:
        low -= fresh * (price_in - min(price_in, price_read)) / _MILLION
    written = min(wasted, write)
    each = writes / write if write else price_write
    lost = written * max(0.0, each - price_read) + (wasted - written) * max(0.0, price_in - price_read)
    saved = read * max(0.0, price_in - price_read) - max(0.0, writes - write * price_in)
    return Cost(
        usd=total,
        low=low,
        high=high,
        method=method,
        parts=parts,
        wasted=lost / _MILLION,
        saved=saved / _MILLION,
    )


def prices_of(
    call: Call, rules: Rules
) -> tuple[Mapping[str, float], Literal["table", "maker", "package"]] | None:
    """USD per million tokens by class, for a request of this size; and where they come from."""
    platform, tokens = call.platform or call.provider, call.usage.input or 0
    price = _table_price(rules, call.model, platform)
    if price is not None:
        return price.at(tokens), "maker" if price.elsewhere else "table"
    provider = rules.provider_of(platform, call.model)
    found = _package_price(
        normalise_model_id(call.model), provider, call.start_unix_nano // (86_400 * _SECOND)
    )
    if found is None:
        return None
    return _completed(found, rules.model(call.model, platform)).at(tokens), "package"


@lru_cache(maxsize=512)
def _table_price(rules: Rules, model: str, platform: str) -> Price | None:
    price = rules.price(model, platform)
    return _completed(price, rules.model(model, platform)) if price is not None else None


def _completed(price: Price, family: Family | None) -> Price:
    """With the classes that have no price of their own: the input's, times what the rule of the cache says."""
    if family is None:
        return price
    writes = family.write_multiplier
    times = {
        "cache_read": family.read_multiplier,
        "cache_write": next(iter(writes.values()), None),
        "cache_write_1h": writes.get("1h"),
    }

    def whole(usd: Mapping[str, float]) -> Mapping[str, float]:
        return {**{name: usd["input"] * n for name, n in times.items() if n is not None}, **usd}

    return replace(price, usd=whole(price.usd), tier=whole(price.tier) if price.tier else price.tier)


def lifetimes(call: Call, rules: Rules) -> tuple[int, float, float] | None:
    """Seconds that a cache entry lives which was written for the shorter time, and the USD per million tokens of a write
    for that and for the longer time. None where the model offers no choice, or no price is known."""
    family = rules.model(call.model, call.platform or call.provider)
    found = prices_of(call, rules)
    if family is None or found is None or len(family.ttl_seconds) < 2:
        return None
    usd, _ = found
    short = usd.get("cache_write", usd["input"])
    least = next(iter(family.ttl_seconds.values()))[0]
    return least, short, usd.get("cache_write_1h", short)


# ---- the prices of the package genai-prices (the extra ``prices``): imported when a model is not in the table

_PROVIDERS = {"mistral_ai": "mistral", "x_ai": "x-ai", "bedrock": "aws", "alibaba": "qwen", "zhipu": "zai"}
_CLASSES = {
    "input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok", "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}  # fmt: skip


@lru_cache(maxsize=512)
def _package_price(model: str, provider: str, day: int) -> Price | None:
    if not model:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    at = datetime.fromtimestamp(day * 86_400, UTC)
    try:
        where = _PROVIDERS.get(provider, provider) or None
        _, found = get_snapshot().find_provider_model(model, None, where, None)
        prices = found.get_prices(at)
    except (LookupError, AttributeError, ValueError):
        return None
    usd: dict[str, float] = {}
    tier: dict[str, float] = {}
    above: int | None = None
    for name, field in _CLASSES.items():
        value: Any = getattr(prices, field, None)
        if value is None:
            continue
        steps = getattr(value, "tiers", None)
        if steps:
            above = steps[0].start
            usd[name], tier[name] = float(value.base), float(steps[0].price)
        else:
            usd[name] = float(value)
    if "input" not in usd:
        return None
    date = at.date().isoformat()
    return Price(f"package/{model}", provider, model, usd, above, {**usd, **tier}, "documented", date)
