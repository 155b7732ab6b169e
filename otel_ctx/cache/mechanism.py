"""How a model's cache works, taken from its rule: the one place where a rule's fields become behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from otel_ctx.rules import Family
from otel_ctx.rules.rows import BY_HANDLE

Style = Literal["marked", "endings", "prefix", "effort"]
"""marked: entries stand at the request's markers. endings: at the end of the newest message. prefix: wherever two
prompts part, in steps. effort: as prefix, but nothing is promised."""

_STYLES: dict[str, Style] = {
    "breakpoint": "marked", "openai_breakpoint": "endings", "auto_rounded_prefix": "prefix", "block_hash": "prefix",
    "radix": "prefix", "slot_prefix": "prefix", "auto_units": "effort", "auto_best_effort": "effort",
}  # fmt: skip
_FAR = 1 << 30


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Seconds after the last use: ``least`` for certain, ``most`` at the outside (None: not published)."""

    least: int | None = None
    most: int | None = None


_UNPUBLISHED = Lifetime()


@dataclass(frozen=True)
class Mechanism:
    style: Style
    minimum: int
    step: int
    grain: int  # what is read is rounded down to it
    lookback: int
    lifetimes: dict[str, Lifetime]
    runs: bool = True  # a run of tool calls, or of results, is one position of the lookback
    drops_thinking: bool = False  # a user's new message takes out the thinking before it
    most_marks: int = _FAR  # of a request; more are not heeded
    within: frozenset[str] = frozenset()  # what is part of an unmarked prefix, settings of a request among it
    requires: str = ""  # what a request must carry for anything to be cached

    @cached_property
    def usual(self) -> Lifetime:
        """Of an entry whose lifetime was not asked for."""
        return next(iter(self.lifetimes.values()), _UNPUBLISHED)

    @cached_property
    def longest(self) -> int | None:
        """Seconds that any entry of the family may live."""
        known = [n for life in self.lifetimes.values() for n in (life.least, life.most) if n is not None]
        return max(known, default=None)

    def lifetime(self, name: str | None) -> Lifetime:
        """``name``: as a marker has it; None: one of them, it is not known which."""
        if name is None and len(self.lifetimes) > 1:
            return Lifetime(self.usual.least, self.longest)
        return self.lifetimes.get(name or "", self.usual)

    def readable(self, tokens: int, hidden: int | None = None) -> int:
        """What of a common prefix can be read. ``hidden``: tokens in front of it from which the steps are counted, known to
        a grain (None: not known)."""
        if hidden is None or self.step == self.grain:
            whole = tokens - tokens % self.step
        else:
            reached = tokens + hidden - self.grain + 1
            whole = reached - reached % self.step - hidden
        return whole if whole >= self.minimum else 0


def mechanism_of(family: Family) -> Mechanism:
    style = _STYLES[family.engine]
    requires = family.get("requires") or ""
    if requires:
        style = "effort"  # whether the request asked for it is not always on the span
    lifetimes = {
        name: Lifetime(least, most)
        for name, (least, most) in family.ttl_seconds.items()
        if style == "marked" or name != BY_HANDLE
    }
    within = {*(family.get("in_prefix") or ())}
    if style == "endings":
        within.add("tool_choice")
    within.update(family.get("routing") or ())  # another key, another server
    return Mechanism(
        style=style,
        minimum=family.min_cacheable_tokens or 0,
        step=family.breakpoint_interval_tokens or family.granularity_tokens or 1,
        grain=family.granularity_tokens or 1,
        lookback=family.lookback_positions or _FAR,
        lifetimes=lifetimes,
        runs=family.lookback_runs_collapse,
        drops_thinking=family.prior_thinking_kept is False,
        most_marks=family.max_breakpoints or _FAR,
        within=frozenset(within),
        requires=requires,
    )
