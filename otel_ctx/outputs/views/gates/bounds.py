"""What may be asked of an analysis: the gates and their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from otel_ctx.errors import SettingError


@dataclass(frozen=True, slots=True)
class Gates:
    """None and False: not asked. ``max_percent`` and ``max_growth_percent`` in percent; ``min_hit_ratio`` from 0 to 1."""

    max_context: int | None = None  # tokens at any call
    max_percent: float | None = None  # of the window, at any call
    max_growth: int | None = None  # tokens from one turn to the next
    max_growth_percent: float | None = None  # of the turn before
    stable_prefix: bool = False
    no_eviction: bool = False
    no_dead_schemas: bool = False
    min_hit_ratio: float | None = None  # of all input, read from the cache
    max_waste: int | None = None  # tokens billed again, all calls together
    max_waste_usd: float | None = None

    def asked(self) -> tuple[str, ...]:
        """Names. A bound of 0 is one."""
        values = ((f.name, getattr(self, f.name)) for f in fields(self))
        return tuple(name for name, value in values if value is not None and value is not False)


def gates_of(given: Mapping[str, Any]) -> Gates:
    """Raises SettingError, which names what is wrong and what there is. Names may be written with dashes."""
    known = {f.name: f for f in fields(Gates)}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f": is {_dashed(near[0])} meant?" if near else "."
            raise SettingError(f"{key!r} is no gate{meant} There are {_dashed(', '.join(known))}")
        values[name] = _value(key, value, known[name].default, str(known[name].type))
    return Gates(**values)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _value(key: str, value: Any, default: Any, type_: str) -> Any:
    if value is None:
        return default
    if default is False:
        if not isinstance(value, bool):
            raise SettingError(f"{key}: {value!r} is neither true nor false")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(f"{key}: {value!r} is no number")
    if not 0 <= value < float("inf"):
        raise SettingError(f"{key}: {value} is no bound: it is 0 or more")
    if type_.startswith("int") and value != int(value):
        raise SettingError(f"{key}: {value} is no whole number of tokens")
    if key.replace("-", "_") == "min_hit_ratio" and value > 1:
        raise SettingError(f"{key}: {value:g} is no ratio: it lies between 0 and 1, as 0.6 does")
    return int(value) if type_.startswith("int") else float(value)
