"""What usage has taught of a provider's cache so far, by service and by rule."""

from __future__ import annotations

from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.model import Usage
from otel_ctx.rules import Family


class Learned:
    """``scope``: whose cache it is: a model at a platform."""

    def __init__(self) -> None:
        self._telling: set[tuple[str, str]] = set()
        self._idle: set[tuple[str, str]] = set()
        self._lifetimes: dict[tuple[str, str], set[str]] = {}
        self._hidden: dict[str, int] = {}
        self.heads: set[tuple[str, str]] = set()
        """Services of which usage has shown that they mark the end of the system prompt."""

    def has_told(self, service: str, scope: str) -> bool:
        """Has any call of the service reported what the cache did?"""
        return (service, scope) in self._telling

    def is_idle(self, service: str, scope: str) -> bool:
        """Did calls read nothing that could have read all, and none anything?"""
        return (service, scope) in self._idle and not self.has_told(service, scope)

    def missed(self, service: str, scope: str) -> None:
        """A call soon after the one before, whose prompt it kept, read nothing."""
        self._idle.add((service, scope))

    def lifetimes(self, service: str, scope: str) -> set[str]:
        """The lifetimes that the service asked for so far, for what stands before its last markers."""
        return self._lifetimes.setdefault((service, scope), set())

    def hidden(self, usage: Usage, family: Family | None, mech: Mechanism) -> int | None:
        """Tokens of the provider's in front of a prompt, where breakpoints are counted from theirs: known of what was read,
        by this call or an earlier one, to one interval."""
        if family is None or mech.step <= mech.grain:
            return None
        return -usage.cache_read % mech.step if usage.cache_read else self._hidden.get(family.id)

    def saw(self, usage: Usage, service: str, scope: str, family: Family | None, mech: Mechanism) -> None:
        if usage.cache_read or usage.cache_write:
            self._telling.add((service, scope))
        if usage.cache_read and family is not None and mech.step > mech.grain:
            self._hidden[family.id] = -usage.cache_read % mech.step
