"""A verdict for each gate that is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from otel_ctx.model import Analysis
from otel_ctx.outputs.views.gates.bounds import Gates
from otel_ctx.outputs.views.gates.cache import max_waste, max_waste_usd, min_hit_ratio
from otel_ctx.outputs.views.gates.depth import max_context, max_growth, max_growth_percent, max_percent
from otel_ctx.outputs.views.gates.scene import Found, Scene, many
from otel_ctx.outputs.views.gates.text import no_dead_schemas, no_eviction, stable_prefix

Result = Literal["pass", "fail", "not_checked"]
_NO_CALL = "no model call in this input"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``told``: the evidence in words, without prompt text. ``value``: what is held against ``bound``, where it is one
    number and known. ``calls``: those that fail; of a gate that was not checked, those that could not be judged."""

    gate: str
    bound: float | None  # None: the gate is a switch
    result: Result
    told: str
    value: float | None
    calls: tuple[str, ...]


def judge(whole: Analysis, chosen: Analysis, gates: Gates, unread: int = 0) -> tuple[Verdict, ...]:
    """A verdict for each gate that is asked, on the calls of ``chosen``, which is ``whole`` or a part of it. ``unread``:
    records of the input that could not be read."""
    scene = Scene(whole, chosen)
    out = []
    for gate in gates.asked():
        bound = getattr(gates, gate)
        found = _JUDGES[gate](scene, bound) if scene.readings else Found(unknown=_NO_CALL)
        if unread and not found.failed and not found.unknown:
            found = Found(unknown=f"{many(unread, 'record')} of the input could not be read")
        out.append(
            Verdict(
                gate,
                None if bound is True else float(bound),
                "fail" if found.failed else "not_checked" if found.unknown else "pass",
                found.failed or found.unknown or found.passed,
                found.value,
                found.calls,
            )
        )
    return tuple(out)


_JUDGES: Mapping[str, Callable[[Scene, Any], Found]] = {
    "max_context": max_context,
    "max_percent": max_percent,
    "max_growth": max_growth,
    "max_growth_percent": max_growth_percent,
    "stable_prefix": stable_prefix,
    "no_eviction": no_eviction,
    "no_dead_schemas": no_dead_schemas,
    "min_hit_ratio": min_hit_ratio,
    "max_waste": max_waste,
    "max_waste_usd": max_waste_usd,
}
