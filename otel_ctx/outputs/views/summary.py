"""Some calls in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_ctx.model import Reading, wasted_tokens


@dataclass(frozen=True, slots=True)
class Summary:
    """Some calls (a turn, a conversation, an agent, a dump) in tokens, and in USD at list price. None: nobody reports it."""

    label: str
    calls: int
    conversations: int
    models: tuple[str, ...]
    depth: int | None  # of the last call
    peak: int | None
    input: int | None
    cache_read: int | None
    cache_write: int | None
    output: int | None
    hit_ratio: float | None  # read from the cache, of the input of the calls that report it
    wasted: int | None  # None: what the cache gave is not known of any call
    usd: float | None
    usd_low: float | None  # and high: where not every number that the price hangs on was told
    usd_high: float | None
    wasted_usd: float | None
    breaks: int | None  # None: no call's text was seen
    predicted: bool = False  # what was wasted stands by the rules alone

    @property
    def usd_at_least(self) -> float | None:
        """Only where it is less than ``usd``, or that is not all."""
        return self.usd_low if self.usd_low != self.usd_high else None


def summary(label: str, readings: Sequence[Reading]) -> Summary:
    """``readings`` in the order of their starts."""
    depths = [r.context.usage for r in readings if r.context.usage is not None]
    told = [r.call.usage for r in readings if r.call.usage.input and r.call.usage.cache_read is not None]
    lost = [r.cost.wasted for r in readings if r.judged and r.cost is not None]
    priced_loss = [usd for usd in lost if usd is not None]
    priced = [r.cost for r in readings if r.cost is not None]
    return Summary(
        label=label,
        calls=len(readings),
        conversations=len({r.conversation for r in readings}),
        models=tuple(dict.fromkeys(r.call.model for r in readings if r.call.model)),
        depth=depths[-1] if depths else None,
        peak=max(depths, default=None),
        input=_sum(r.call.usage.input for r in readings),
        cache_read=_sum(r.call.usage.cache_read for r in readings),
        cache_write=_sum(r.call.usage.cache_write for r in readings),
        output=_sum(r.call.usage.output for r in readings),
        hit_ratio=sum(u.cache_read or 0 for u in told) / sum(u.input or 0 for u in told) if told else None,
        wasted=wasted_tokens(readings),
        usd=sum(c.usd for c in priced) if priced else None,
        usd_low=sum(c.low for c in priced) if priced else None,
        usd_high=sum(c.high for c in priced) if priced else None,
        wasted_usd=sum(priced_loss) if lost and len(priced_loss) == len(lost) else None,
        predicted=only_predicted(r for r in readings if r.wasted),
        breaks=_sum(int(r.break_ is not None) if r.seen else None for r in readings),
    )


def only_predicted(readings: Iterable[Reading]) -> bool:
    """Whether what these calls lost stands by the rules alone: no provider told what the cache gave."""
    return all(r.access is not None and r.access.simulated for r in readings)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
