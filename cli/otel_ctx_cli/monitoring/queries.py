"""PromQL that several panels need. A panel's query holds to the variables of its dashboard."""

from __future__ import annotations

JOB = 'job=~"$job"'
SERVICE = f'{JOB}, source_service=~"$service"'
SOURCE = f'{SERVICE}, gen_ai_provider_name=~"$provider", gen_ai_request_model=~"$model"'

NOW = "$__rate_interval"  # the last minutes, at each step of a chart
RANGE = "$__range"  # all that is shown, as one number
STEP = "$__interval"  # one bar of a chart


def rate(metric: str, by: str = "", *, where: str = SOURCE, window: str = NOW) -> str:
    """What a counter gains a second, summed up."""
    return f"{_sum(by)}(rate({metric}{{{where}}}[{window}]))"


def increase(metric: str, by: str = "", *, where: str = SOURCE, window: str = RANGE) -> str:
    """What a counter gained, summed up."""
    return f"{_sum(by)}(increase({metric}{{{where}}}[{window}]))"


def share(part: str, whole: str) -> str:
    """Nothing, rather than NaN, where there was nothing to have a share of."""
    return f"{part} / ({whole} > 0)"


def hit_ratio(basis: str, by: str = "", *, window: str = NOW) -> str:
    """Input tokens read from the cache, of those whose fate is known. ``basis``: reported, simulated or optimal."""
    metric = f"otelctx_cache_{basis}_tokens_total"
    gained = increase if window == RANGE else rate
    read = gained(metric, by, where=f'{SOURCE}, state="read"', window=window)
    return share(read, gained(metric, by, where=f'{SOURCE}, state!="unknown"', window=window))


def quantile(q: float, histogram: str, by: str = "", *, where: str = SOURCE, window: str = NOW) -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(f'{histogram}_bucket', labels, where=where, window=window)})"


def _sum(by: str) -> str:
    return f"sum by ({by}) " if by else "sum"
