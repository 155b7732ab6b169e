"""Each call against the cache of its provider, in the order of their starts, on their own clock."""

from __future__ import annotations

from collections import OrderedDict

from otel_ctx.cache.caches import Caches, may_be_one
from otel_ctx.cache.confirmed import confirm
from otel_ctx.cache.judging import in_the_dark, judge
from otel_ctx.cache.leave import left, left_by
from otel_ctx.cache.past import Past
from otel_ctx.cache.run import Run
from otel_ctx.model import Access, Break, Call, Relation, Tokens
from otel_ctx.rules import Rules


class Simulator:
    """Bounded: ``most`` conversations are remembered, the longest silent leaving first. ``behind``: comes to the same calls
    later, and what it knows is not kept here once more. ``packs``: prompts wait packed, as in a live session many do."""

    def __init__(self, rules: Rules, most: int, behind: Simulator | None = None, packs: bool = True) -> None:
        self.caches: Caches = Caches(rules, behind.caches if behind is not None else None)
        self._most = most
        self._behind = behind
        self._packs = packs
        self._pasts: OrderedDict[tuple[str, str], Past] = OrderedDict()

    def step(
        self,
        call: Call,
        conversation: str,
        relation: Relation,
        previous: Call | None,
        old: Call | None,
        shared: int,
        at: Break | None,
        tokens: Tokens,
    ) -> Access | None:
        """``old``: the call whose prompt this one should have kept; ``shared``: segments kept of ``previous``; ``at``: where
        it stopped agreeing with ``old``. None: nothing can be said: the call's size is not known,
        or neither its text nor what it goes on from."""
        usage, full = call.usage, call.completeness.status == "full"
        total = (
            usage.input
            if usage.input is not None
            else round(tokens.counted * tokens.factor)
            if full
            else None
        )
        if total is None or "aggregate_only" in call.completeness.reasons:
            return None
        if call.status != "ok" and usage.input is None:
            return None  # refused: nothing was read and nothing written
        if self.caches.unanswered(call):
            return None  # nobody says that it was served: the same
        place = conversation, call.agent
        known = self._pasts.pop(place, None) or self._past_behind(place)
        past = known.opened() if known is not None and self._packs else known
        if at is not None and old is not None and past is not None and past.call_id != old.id:
            past = left_by(old, past, self.caches, tokens) or past  # calls that ran beside it came later
        run = Run(self.caches, call, total, tokens, past)
        same_model = past is None or may_be_one(past.scope, run.scope)
        access = confirm(judge(run, relation, previous, old, shared, at), call.diagnosis, total, same_model)
        self._pasts[place] = left(run).at_rest() if self._packs else left(run)
        if len(self._pasts) > self._most:
            self._pasts.popitem(last=False)
        return None if in_the_dark(run, relation, access) else access

    def _past_behind(self, place: tuple[str, str]) -> Past | None:
        return self._behind._pasts.get(place) if self._behind is not None else None

    def caught_up(self, place: tuple[str, str], call_id: str) -> None:
        """The one ``behind`` has come to this call of a conversation and an agent."""
        past = self._pasts.get(place)
        if past is not None and past.call_id == call_id:
            del self._pasts[place]
