"""How many tokens may be missing without a reason."""

from __future__ import annotations

from otel_ctx.cache.mechanism import Mechanism

_LEAST, _SHARE = 128, 0.03  # providers add tokens of their own, and places are shared out
_EFFORT = 0.25
_BROKEN_LEAST, _BROKEN = 32, 0.005
_TOLD = 64  # tokens behind the last marker, and of the frame around a message


def slack(
    mech: Mechanism,
    could: int,
    expected: int,
    actual: int | None,
    *,
    told: bool,
    broken: bool,
    counted_from: int | None,
) -> int:
    """``could``: what was there to read before rounding; ``told``: usage says it, to the token; ``broken``: the texts part,
    so that a small loss has its reason; ``counted_from``: where steps begin (None: not known)."""
    if mech.style == "effort":
        return round(max(2 * _LEAST, 0 if broken else _EFFORT * expected))
    if mech.style in ("marked", "endings"):
        if broken:
            return round(max(_BROKEN_LEAST, _BROKEN * expected))
        return _TOLD if told else round(max(_TOLD, _SHARE * expected))
    step = mech.step
    if counted_from is not None or could - (actual or 0) > step:
        step = mech.grain  # wherever the steps begin, one more would have been reached
    return max(_LEAST, step) if told or broken else round(max(_LEAST, step, _SHARE * expected))
