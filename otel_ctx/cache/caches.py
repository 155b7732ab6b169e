"""What all calls share: the rules, the entries that may stand in the caches, and what usage has taught of them."""

from __future__ import annotations

from functools import lru_cache
from sys import intern

from otel_ctx.cache.learned import Learned
from otel_ctx.cache.mechanism import Mechanism, mechanism_of
from otel_ctx.cache.store import Store
from otel_ctx.model import Call
from otel_ctx.rules import Family, Rules
from otel_ctx.rules.names import normalise_model_id

_KEEP_SECONDS = 86_400  # no published lifetime is longer
_MOST_UNWRITTEN = 4096  # only while the answers of calls that run beside each other are awaited
_UNKNOWN = Mechanism("effort", 0, 1, 1, 1 << 30, {})


class Caches:
    """``behind``: those of one that comes to the same calls later; what they have got is not kept here once more."""

    def __init__(self, rules: Rules, behind: Caches | None = None) -> None:
        self.rules = rules
        self.now = 0  # nanoseconds: the start of the last call that tells it
        self.learned = Learned()
        self.store: Store = Store(_KEEP_SECONDS, behind.store if behind is not None else None)
        self.supposed: Store = Store(  # entries of markers that no span shows
            _KEEP_SECONDS, behind.supposed if behind is not None else None
        )
        # places that a first call has read, of which no call is known to have written them
        self.unwritten: dict[int, None] = {}
        self.mechanisms: dict[str, Mechanism] = {}

    def caught_up(self) -> None:
        """Forget what those behind have got."""
        self.store.caught_up()
        self.supposed.caught_up()

    def wrote(self, place: int, known: bool) -> None:
        """A call has an entry there. ``known``: it wrote that, or who did is known."""
        self.unwritten.pop(place, None)
        if not known:
            self.unwritten[place] = None
            if len(self.unwritten) > _MOST_UNWRITTEN:
                del self.unwritten[next(iter(self.unwritten))]

    def unanswered(self, call: Call) -> bool:
        """A request in a log that keeps the answers of others, and has none of this one: most often the try before a retry."""
        if call.record != "request" or call.usage.input is not None or call.answer or call.response_id:
            return False
        return self.learned.has_told(call.service, scope_of(call))

    def rule(self, call: Call, marked: bool) -> Family | None:
        """``marked``: the request carries markers, and another rule may hold then."""
        family = self.rules.model(call.model, call.served_by)
        if family is not None and family.with_markers and marked:
            return self.rules.family(family.with_markers) or family
        return family

    def mechanism(self, family: Family | None) -> Mechanism:
        if family is None:
            return _UNKNOWN
        known = self.mechanisms.get(family.id)
        if known is None:
            known = self.mechanisms[family.id] = mechanism_of(family)
        return known


def scope_of(call: Call, before: str | None = None) -> str:
    """Whose cache it is: the provider's, and in it the model's. What the call does not tell of it is as it was ``before``."""
    provider, model = call.served_by, normalise_model_id(call.model)
    if before is not None and not (provider and model):
        was = before.partition("\0")
        provider, model = provider or was[0], model or was[2]
    return _scope(provider, model)


@lru_cache(maxsize=1024)
def _scope(provider: str, model: str) -> str:
    return intern(f"{provider}\0{model}")


def may_be_one(a: str, b: str) -> bool:
    """Of two scopes: what is not known of one is no other provider's and no other model's."""
    return a == b or all(
        x == y or not (x and y) for x, y in zip(a.partition("\0"), b.partition("\0"), strict=True)
    )
