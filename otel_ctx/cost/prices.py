"""List prices by class of token, for a request of a size and a day: from the table, else from a package."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from otel_ctx.model import Call
from otel_ctx.rules import Price, Rules
from otel_ctx.rules.names import normalise_model_id, priced_names
from otel_ctx.rules.rows import AS_LISTED, BY_HANDLE, Family, Rates, day_of, in_force, on_day

USUAL = ("", "standard")
"""Service tiers: nothing was said of any, or that it was the usual one."""

Method = Literal["table", "maker", "package"]
MILLION = 1_000_000
"""Tokens that a price is of."""
_HOUR = "1h"  # the longer lifetime that has a class of usage, and a price, of its own


def prices_of(call: Call, rules: Rules) -> tuple[tuple[Rates, ...], Method] | None:
    """The prices of a request of this size in its service tier at its time, then those that it may have had instead; and
    where they come from."""
    tokens = call.usage.input or 0
    prices, times, method = _prices_of(call, rules)
    if not prices:
        return None
    found = tuple([price.at(tokens) for price in prices])
    if call.service_tier not in USUAL:
        # what another than the maker takes for it, no list of the maker's tells
        price = prices[0]
        tier = None if price.elsewhere else rules.service_tier(call.service_tier, price.provider, price.model)
        if tier is None or tier.of(price, tokens) is None:
            return None
        found = tuple(rates for price in prices if (rates := tier.of(price, tokens)) is not None)
    if times is not AS_LISTED:
        found = tuple(rates.times(n) for n in times for rates in found)
    return found, method


def _prices_of(call: Call, rules: Rules) -> tuple[tuple[Price, ...], tuple[float, ...], Method]:
    platform, start = call.served_by, call.start_unix_nano
    rows, times = rules.charged_on(call.model, platform, day_of(start))
    prices = in_force(rows, start)
    if prices:
        return prices, times, "maker" if prices[0].elsewhere else "table"
    rows = package_prices(call.model, platform, start, rules)
    family = rules.model(call.model, platform) if rows else None
    return tuple(row.completed(family) for row in rows), AS_LISTED, "package"


class Term(NamedTuple):
    """A lifetime of cache entries that can be asked for: its name, the seconds that an entry lives at least, and USD per
    million tokens that are written for it."""

    name: str
    seconds: int
    write: float


def terms_of(call: Call, rules: Rules) -> tuple[Term, ...]:
    """The lifetimes that a model offers, the usual one first. None of them where no price is known."""
    family = rules.model(call.model, call.served_by)
    found = prices_of(call, rules)
    if family is None or found is None:
        return ()
    (rates, *_), _ = found
    offered = [(name, least) for name, (least, _) in family.ttl_seconds.items() if name != BY_HANDLE]
    return tuple(
        Term(name, least, rates.write if n == 0 else _write(name, rates, family))
        for n, (name, least) in enumerate(offered)
    )


def _write(name: str, rates: Rates, family: Family) -> float:
    """Of a longer lifetime: by its price, else by what the rule of the cache says. Never less than a usual one."""
    if name == _HOUR and rates.write_1h != rates.write:
        return rates.write_1h
    return max(rates.write, rates.fresh * family.write_multiplier.get(name, 0.0))


def lifetimes(call: Call, rules: Rules) -> tuple[int, float, float] | None:
    """Seconds that a cache entry lives which was written for the usual time, and the USD per million tokens of a write
    for that and for an hour. None where the model offers no choice of them, or no price is known."""
    usual, *others = terms_of(call, rules) or (None,)
    hour = next((term for term in others if term.name == _HOUR), None)
    return (usual.seconds, usual.write, hour.write) if usual is not None and hour is not None else None


# ---- the prices of the package genai-prices (the extra ``prices``): imported when a model is not in the table

_PROVIDERS = {"mistral_ai": "mistral", "x_ai": "x-ai", "bedrock": "aws", "alibaba": "qwen", "zhipu": "zai"}
_CLASSES = {
    "input": "input_mtok", "output": "output_mtok", "cache_read": "cache_read_mtok", "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}  # fmt: skip


def package_prices(model: str, platform: str, start_unix_nano: int, rules: Rules) -> tuple[Price, ...]:
    """What the package has of a model at a time; then what may hold instead."""
    rows = _package_rows(rules.known(model), rules.provider_of(platform, model))
    return in_force(on_day(rows, day_of(start_unix_nano), rules.as_of), start_unix_nano)


@lru_cache(maxsize=512)
def _package_rows(model: str, provider: str) -> tuple[Price, ...]:
    """What the package has of a model, in the order in which it asks: the last one first."""
    found = _package_model(model, provider)
    if found is None:
        return ()
    dated = found.prices if isinstance(found.prices, list) else ()
    if not dated:
        return _price(found.prices, model, provider)
    return tuple(
        replace(price, since=_since(row.constraint), hours=_hours(row.constraint))
        for row in reversed(dated)
        for price in _price(row.prices, model, provider)
    )


def _package_model(model: str, provider: str) -> Any:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    where = _PROVIDERS.get(provider, provider) or None
    for name in (model.rsplit("/", 1)[-1], *priced_names(model)) if model else ():
        try:
            return get_snapshot().find_provider_model(name, None, where, None)[1]
        except (LookupError, AttributeError, ValueError):
            continue
    return None


def _since(constraint: Any) -> str:
    day = getattr(constraint, "start_date", None)
    return day.isoformat() if day is not None else ""


def _hours(constraint: Any) -> tuple[tuple[int, int], ...]:
    """In UTC, as the package writes them."""
    start, end = (getattr(constraint, name, None) for name in ("start_time", "end_time"))
    if start is None or end is None:
        return ()
    return ((start.hour * 60 + start.minute, end.hour * 60 + end.minute),)


def _price(prices: Any, model: str, provider: str) -> tuple[Price, ...]:
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
        return ()
    name = normalise_model_id(model)
    return (Price(f"package/{name}", provider, name, usd, above, {**usd, **tier}, "documented", ""),)
