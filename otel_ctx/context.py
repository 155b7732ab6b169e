"""How full the window is, how fast it fills, and where its limit comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from operator import lt, mul

from otel_ctx.model import Band, Call, Context, Method
from otel_ctx.rules import Rules, Value

_MIN_POINTS = 3  # turns before a growth is a growth
_DROP = 0.9  # of the turn before: with less, part of the history was taken out
AT_LEAST = 0.7  # of an estimate: a call that went well did not exceed its window


@dataclass(frozen=True, slots=True)
class Bands:
    """Below ``low_turns`` or from ``low_share`` on the headroom is low; below ``critical_turns`` or from
    ``critical_share`` on it is critical."""

    low_turns: float = 20
    critical_turns: float = 5
    low_share: float = 0.8
    critical_share: float = 0.95


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user says of windows. ``windows``: model pattern (``*`` allowed) -> tokens. ``models``: as
    ``Rules.standing_for`` takes them."""

    windows: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    bands: Bands = Bands()
    # agents at a keyboard are stopped by hand, in time
    transcript_bands: Bands = Bands(low_turns=60, critical_turns=20)
    turns: int = 20  # turns that the growth is fitted over


def limit_of(call: Call, usage: int | None, rules: Rules, limits: Limits) -> tuple[int | None, str]:
    """The window in tokens and where that comes from: setting > attribute > rules > observed. A successful call that was
    larger than the table's window proves a larger one, whose size is then the next that the provider sells."""
    real = rules.known(call.model) if limits.windows else ""
    for pattern, tokens in limits.windows.items():
        if fnmatchcase(call.model, pattern) or fnmatchcase(real, pattern):
            return tokens, "setting"
    if call.limit:
        return call.limit, "attribute"
    window = rules.window(call.model)
    if window is None or not window.value:
        return None, ""
    if usage is not None and usage > window.value and call.status == "ok":
        larger = _next_window(window, usage, rules)
        return (larger, "observed") if larger is not None else (None, "")
    return window.value, "rules"


def _next_window(window: Value, usage: int, rules: Rules) -> int | None:
    """The smallest window of the same maker that holds ``usage``."""
    maker = next((w.id.split("/")[0] for w in rules.windows if w.tokens is window), None)
    sold = [w.tokens.value for w in rules.windows if w.id.split("/")[0] == maker and w.tokens.value]
    return min((n for n in sold if n >= usage), default=None)


def growth_of(usages: Sequence[int]) -> float | None:
    """Tokens a turn, least squares over ``usages`` (one a turn, oldest first); None below three points. What a compaction
    took away says nothing of how fast the window fills: since the last such drop, or where that is too short a time, over
    all with each drop left out."""
    falls = any(map(lt, usages[1:], usages))  # most windows only fill
    drops = [i for i in range(1, len(usages)) if usages[i] < _DROP * usages[i - 1]] if falls else ()
    if drops:
        since = usages[drops[-1] :]
        usages = since if len(since) >= _MIN_POINTS else _joined(usages, drops)
    if len(usages) < _MIN_POINTS:
        return None
    return round(float(sum(map(mul, _weights(len(usages)), usages))), 2)


def _joined(usages: Sequence[int], drops: Sequence[int]) -> list[int]:
    """As if what came after each drop had gone on from where it was before."""
    joined, raised = [usages[0]], 0
    for i in range(1, len(usages)):
        if i in drops:
            raised += usages[i - 1] - usages[i]
        else:
            joined.append(usages[i] + raised)
    return joined


@cache
def _weights(n: int) -> tuple[float, ...]:
    """What each of ``n`` values, one a turn, adds to the slope."""
    mean = (n - 1) / 2
    spread = sum((x - mean) ** 2 for x in range(n))
    return tuple((x - mean) / spread for x in range(n))


def context_of(
    call: Call, usage: int | None, method: Method, before: Sequence[int], rules: Rules, limits: Limits
) -> Context:
    """``usage``: tokens in the window at this call; ``before``: the same of the conversation's earlier turns."""
    sure = method == "exact" or call.status != "ok"
    least = usage if usage is None or sure else round(usage * AT_LEAST)
    limit, source = limit_of(call, least, rules, limits)
    reserve = call.reserve or 0
    if limit and reserve >= limit:
        reserve = 0  # no answer can be as long as the window: this is no limit, and keeps nothing free
    growth = growth_of((*before, usage)[-limits.turns :]) if usage is not None else None
    if usage is None or not limit:
        return Context(usage, method, limit, source, reserve, None, None, None, growth, "unknown")
    headroom = limit - usage - reserve
    turns = round(max(headroom, 0) / growth, 1) if growth is not None and growth > 0 else None
    share = usage / limit
    bands = limits.transcript_bands if call.record == "transcript" else limits.bands
    return Context(
        usage,
        method,
        limit,
        source,
        reserve,
        round(share, 4),
        headroom,
        turns,
        growth,
        _band(share if sure else min(share, 1.0), headroom, turns, bands),
    )


def _band(share: float, headroom: int, turns: float | None, bands: Bands) -> Band:
    if share > 1:
        return "exceeded"
    if headroom <= 0 or share >= bands.critical_share or (turns is not None and turns < bands.critical_turns):
        return "critical"
    if share >= bands.low_share or (turns is not None and turns < bands.low_turns):
        return "low"
    return "ok"
