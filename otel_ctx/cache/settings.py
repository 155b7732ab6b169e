"""Which settings of a request are part of what is cached: a change of them loses cached tokens."""

from __future__ import annotations

from typing import Literal

from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.model import Call
from otel_ctx.rules import Rules

Settings = tuple[tuple[str, str], ...]
"""(name, digest of the value)"""


def settings_of(call: Call, mech: Mechanism, rules: Rules) -> Settings:
    """By the rule of the model; of a marked prefix by the matrix of what invalidates what."""
    if not call.parameters:
        return ()
    if mech.style == "marked":
        return tuple(p for p in call.parameters if rules.invalidated_by(p[0]) is not None)
    return tuple(p for p in call.parameters if p[0] in mech.within)


def losing(settings: Settings, section: Literal["tools", "system"], rules: Rules) -> Settings:
    """Those of a marked prefix whose change loses ``section`` too. Where that depends on the model, it is kept."""
    found = ((p, rules.invalidated_by(p[0])) for p in settings)
    return tuple(p for p, row in found if row is not None and getattr(row, section) == "lost")


def changed(before: Settings, now: Settings) -> str:
    """What is another than it was, in words: names only."""
    old, new = dict(before), dict(now)
    names = sorted(n for n in old.keys() | new.keys() if old.get(n) != new.get(n))
    return f"{', '.join(names)} changed." if names else ""
