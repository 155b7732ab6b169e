"""List prices by class of token, for a request of a size and a day: from the table, else from a package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from otel_ctx.model import Call
from otel_ctx.rules import Family, Price, Rules
from otel_ctx.rules.names import normalise_model_id

USUAL = ("", "standard")
"""Service tiers: nothing was said of any, or that it was the usual one."""

_SECOND = 1_000_000_000


def prices_of(
    call: Call, rules: Rules
) -> tuple[Mapping[str, float], Literal["table", "maker", "package"]] | None:
    """USD per million tokens by class, for a request of this size in its service tier; and where they come from. A class
    whose price in that tier is not published is left out."""
    tokens = call.usage.input or 0
    price, method = _price_of(call, rules)
    if price is None:
        return None
    if call.service_tier in USUAL:
        return price.at(tokens), method
    # what another than the maker takes for it, no list of the maker's tells
    tier = None if price.elsewhere else rules.service_tier(call.service_tier, price.provider, price.model)
    found = tier.of(price, tokens) if tier is not None else None
    return (found, method) if found is not None else None


def _price_of(call: Call, rules: Rules) -> tuple[Price | None, Literal["table", "maker", "package"]]:
    platform = call.platform or call.provider
    price = _table_price(rules, call.model, platform)
    if price is not None:
        return price, "maker" if price.elsewhere else "table"
    found = package_price(call.model, platform, call.start_unix_nano, rules)
    return _completed(found, rules.model(call.model, platform)) if found is not None else None, "package"


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


def package_price(model: str, platform: str, unix_nano: int, rules: Rules) -> Price | None:
    """What the package has of a model at a time."""
    name, provider = normalise_model_id(rules.known(model)), rules.provider_of(platform, model)
    return _package_price(name, provider, unix_nano // (86_400 * _SECOND))


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
