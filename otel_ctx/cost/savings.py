"""What a conversation would have cost with its findings fixed: all that was lost and can be kept is read, the end of every
request is written, and entries live as long as the pauses that were really made want it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from otel_ctx.cost.prices import MILLION, lifetimes, prices_of
from otel_ctx.model import Lifetime, Reading, Savings, wasted_tokens
from otel_ctx.rules import Rules

_NOT_OURS = ("provider_side_miss", "unknown")  # nobody knows what would help
_OF_TIME = ("ttl_expired", "ttl_lost")
_OF_MARKERS = ("no_cache_control", "missing_tail_breakpoint", "frozen_breakpoint", "breakpoint_before_change")


def savings_of(readings: Sequence[Reading], rules: Rules, overpaid: float = 0.0) -> Savings | None:
    """``readings``: of one conversation; ``overpaid``: USD for lifetimes in vain. None where no call has a price, or
    what the cache gave is not known of any."""
    priced = [r for r in readings if r.cost is not None]
    if wasted_tokens(priced) is None and not (priced and overpaid):
        return None
    spent = math.fsum(r.cost.usd for r in priced if r.cost is not None)
    choices: tuple[Lifetime, ...] = ("as_it_is",)
    lost = [r for r in readings if r.losses]
    causes = {cause for r in lost if r.cost is not None for cause, _ in r.losses}
    if not causes.isdisjoint(_OF_TIME):
        choices += ("longer", "kept_alive")
    marked = not causes.isdisjoint(_OF_MARKERS)
    saved = {c: sum(_saved(r, rules, c, marked) for r in priced) for c in choices}
    best = max(choices, key=lambda c: (saved[c], c == "as_it_is"))
    known = not lost or overpaid > 0 or any(r.cost is not None for r in lost)
    return Savings(
        tokens=sum(_kept(r, rules, best) for r in lost),
        usd=min(spent, max(0.0, saved[best]) + overpaid) if known else None,
        spent=spent,
        lifetime=best,
    )


def _kept(r: Reading, rules: Rules, lifetime: Lifetime) -> int:
    """Lost tokens that would have been read."""
    if not r.losses:
        return 0
    longest = math.inf
    if lifetime == "as_it_is":
        longest = 0.0
    elif lifetime == "longer":
        family = rules.model(r.call.model, r.call.served_by)
        longest = (
            max((least for least, _ in family.ttl_seconds.values()), default=0) if family is not None else 0
        )
    gap = (r.access.gap_seconds if r.access is not None else None) or 0.0
    return sum(
        n for cause, n in r.losses if cause not in _NOT_OURS and (cause not in _OF_TIME or gap <= longest)
    )


def _saved(r: Reading, rules: Rules, lifetime: Lifetime, marked: bool) -> float:
    """USD that the fixes save at this call. Below 0 where they only cost: what is read later must be written first."""
    access, usage = r.access, r.call.usage
    kept = _kept(r, rules, lifetime)
    if access is None or r.cost is None or not (kept or marked or lifetime != "as_it_is"):
        return 0.0
    found = prices_of(r.call, rules)
    if found is None:
        return 0.0
    (rates, *_), _ = found
    dear = rates.write
    terms = lifetimes(r.call, rules)
    if lifetime == "longer" and terms is not None:
        dear = terms[2]
    total, read, write = usage.input or 0, usage.cache_read or 0, usage.cache_write or 0
    parts = r.cost.parts
    if write and lifetime != "longer":
        dear = parts["cache_write"] * MILLION / write  # by the lifetimes that were asked for
    best_read = min(total, read + kept)
    writes = access.optimal is not None and access.optimal.write > 0
    rest = total - best_read
    written = rest if writes and (marked or kept) else min(write, rest)
    cost = best_read * rates.read + written * dear + (rest - written) * rates.fresh
    if lifetime == "kept_alive" and terms is not None and access.gap_seconds:
        cost += math.floor(access.gap_seconds / terms[0]) * access.expected * rates.read
    return parts["input_uncached"] + parts["cache_read"] + parts["cache_write"] - cost / MILLION
