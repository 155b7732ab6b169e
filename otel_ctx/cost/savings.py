"""What a conversation would have cost with its findings fixed: all that was lost and can be kept is read, the end of every
request is written, and entries live as long as the pauses that were really made want it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otel_ctx.cost.prices import MILLION, Term, prices_of, terms_of
from otel_ctx.model import NOT_OURS, Lifetime, Reading, Savings, wasted_tokens
from otel_ctx.rules import Rules

_OF_TIME = ("ttl_expired", "ttl_lost")
_OF_MARKERS = ("no_cache_control", "missing_tail_breakpoint", "frozen_breakpoint", "breakpoint_before_change")
_PICO = 12  # digits behind which sums of floats differ by chance


class _Choice(NamedTuple):
    """``ttl``: the name of the lifetime that every write asks for, "" as it did."""

    lifetime: Lifetime
    ttl: str = ""


def savings_of(readings: Sequence[Reading], rules: Rules, overpaid: bool = False) -> Savings | None:
    """``readings``: of one conversation; ``overpaid``: it paid for a longer lifetime and did not need it. None where no
    call has a price, or what the cache gave is not known of any."""
    priced = [r for r in readings if r.cost is not None]
    if all(r.access is None for r in priced) or (wasted_tokens(readings) is None and not overpaid):
        return None
    marked = any(cause in _OF_MARKERS for r in priced for cause, _ in r.losses)
    choices = tuple(_choices(priced, rules, overpaid))
    saved = {c: math.fsum(_saved(r, rules, c, marked) for r in priced) for c in choices}
    best = max(choices, key=lambda c: round(saved[c], _PICO))  # the first of those that save as much
    lost = [r for r in readings if r.losses]
    unread = any(r.cost is not None and r.cost.wasted is None for r in lost)  # a read has no price
    known = not unread and (not lost or overpaid or any(r.cost is not None for r in lost))
    return Savings(
        tokens=sum(_kept(r, rules, best) for r in lost),
        usd=max(0.0, saved[best]) if known else None,
        spent=math.fsum(r.cost.usd for r in priced if r.cost is not None),
        lifetime=best.lifetime,
        ttl=best.ttl,
    )


def _choices(priced: Sequence[Reading], rules: Rules, overpaid: bool) -> Iterator[_Choice]:
    yield _Choice("as_it_is")
    if overpaid:
        yield from dict.fromkeys(
            _Choice("shorter", term.name) for r in priced for term in terms_of(r.call, rules)[:1]
        )
    timely = [r for r in priced if any(cause in _OF_TIME for cause, _ in r.losses)]
    yield from dict.fromkeys(
        _Choice("longer", term.name) for r in timely for term in terms_of(r.call, rules)[1:]
    )
    if timely:
        yield _Choice("kept_alive")


def _asked(r: Reading, rules: Rules, choice: _Choice) -> Term | None:
    """The lifetime that is asked for at this call. None: what was."""
    return next((term for term in terms_of(r.call, rules) if term.name == choice.ttl), None)


def _kept(r: Reading, rules: Rules, choice: _Choice) -> int:
    """Lost tokens that would have been read."""
    return sum(
        n
        for cause, n in r.losses
        if cause not in NOT_OURS and (cause not in _OF_TIME or _bridged(r, rules, choice))
    )


def _bridged(r: Reading, rules: Rules, choice: _Choice) -> bool:
    """Whether an entry lives through the pause before this call."""
    if choice.lifetime == "kept_alive":
        return _requests(r, rules) is not None
    asked = _asked(r, rules, choice)
    gap = r.access.gap_seconds if r.access is not None else None
    return asked is not None and gap is not None and gap <= asked.seconds


def _requests(r: Reading, rules: Rules) -> int | None:
    """How many it takes to keep an entry alive in the pause before this call: one whenever it might end. None where it is
    not known how long it lives."""
    access = r.access
    if access is None or access.gap_seconds is None:
        return None
    usual = next(iter(terms_of(r.call, rules)), None)
    seconds = access.ttl_seconds or (usual.seconds if usual is not None else 0)
    if not seconds:
        return None
    ended = any(cause in _OF_TIME for cause, _ in r.losses)
    return max(int(ended), math.floor(access.gap_seconds / seconds))


def _saved(r: Reading, rules: Rules, choice: _Choice, marked: bool) -> float:
    """USD that the fixes save at this call. Below 0 where they only cost: what is read later must be written first."""
    access, usage = r.access, r.call.usage
    kept = _kept(r, rules, choice)
    if r.cost is None or not (kept or marked or choice.lifetime != "as_it_is"):
        return 0.0
    found = prices_of(r.call, rules)
    if found is None:
        return 0.0
    (rates, *_), _ = found
    parts, asked = r.cost.parts, _asked(r, rules, choice)
    total, read, write = usage.input or 0, usage.cache_read or 0, usage.cache_write or 0
    dear = rates.write
    if asked is not None:
        dear = asked.write
    elif write:
        dear = parts["cache_write"] * MILLION / write  # by the lifetimes that were asked for
    best_read = min(total, read + kept)
    writes = access is not None and access.optimal is not None and access.optimal.write > 0
    rest = total - best_read
    unseen = usage.cache_write is None and asked is not None
    written = rest if writes and (marked or kept or unseen) else min(write, rest)
    cost = best_read * rates.read + written * dear + (rest - written) * rates.fresh
    if choice.lifetime == "kept_alive" and access is not None:
        cost += (_requests(r, rules) or 0) * access.expected * rates.read
    return parts["input_uncached"] + parts["cache_read"] + parts["cache_write"] - cost / MILLION
