"""One call on its way through the cache: what is known of it, and where it stands on the path of its conversation."""

from __future__ import annotations

from collections.abc import Sequence

from otel_ctx.cache.caches import Caches, scope_of
from otel_ctx.cache.marks import NO_MARKS
from otel_ctx.cache.past import Past
from otel_ctx.cache.path import Path
from otel_ctx.cache.resent import NOTHING
from otel_ctx.cache.settings import losing, settings_of
from otel_ctx.cache.shelf import Shelf
from otel_ctx.cache.store import Entry
from otel_ctx.model import Break, Call, Relation, Tokens


class Run:
    """It is filled in from step to step: ``judge`` before ``left``."""

    def __init__(self, caches: Caches, call: Call, total: int, tokens: Tokens, past: Past | None) -> None:
        self.caches, self.call, self.total, self.tokens, self.past = caches, call, total, tokens, past
        self.now = caches.now = call.start_unix_nano or caches.now
        lost = call.completeness.lost
        self.seen = (
            call.completeness.status in ("full", "partial")
            and not lost & {"head", "messages"}
            and len(call.prompt) > 0
        )
        visible = call.prompt.marked() if self.seen else ()
        self.family = caches.rule(call, bool(visible))
        self.mech = caches.mechanism(self.family)
        self.visible: Sequence[tuple[int, str]] = visible if self.mech.style == "marked" else ()
        self.scope = scope_of(call, past.scope if past is not None else None)
        self.settings = settings_of(call, self.mech, caches.rules)
        self.hidden = caches.learned.hidden(call.usage, self.family, self.mech)
        self.path: Path | None = None
        self.shelf: Shelf | None = None
        self.images = 0
        self.marks = NO_MARKS
        self.entry: Entry | None = None
        # what it goes on from
        self.relation: Relation = "new"
        self.old: Call | None = None  # whose prompt it should have kept
        self.at: Break | None = None  # where it stopped agreeing with that
        self.follows = False  # it goes on from a call that was seen
        self.both = False  # and the text of both was
        self.kept = 0  # segments of the path before
        # tokens in front of the break, or of what is shared with another branch
        self.common: int | None = None
        self.resent = NOTHING
        self.left = past  # by the call that is continued
        self.cleared = 0  # tokens that the provider took out
        self.dropped = 0  # of thinking, by its rule
        self.elsewhere = False  # the loss has another reason
        self.supposing = False  # that the end of the system prompt is marked

    @property
    def in_use(self) -> bool:
        """Is any cache known to be in use: by a rule that asks for nothing, by what the request carries, or by usage? A rule
        that promises nothing is no word of it where reads are not reported, or calls that kept their prompt read nothing."""
        known, learned = self.family is not None and not self.mech.requires, self.caches.learned
        if known and self.promised:
            return True
        if any(name == self.mech.requires for name, _ in self.call.parameters):
            return True
        usage = self.call.usage
        if self._told or usage.cache_read or usage.cache_write:
            return True
        return known and not self.untold and not learned.is_idle(self.call.service, self.scope)

    @property
    def untold(self) -> bool:
        """Nothing is promised, and no call of the service has told what it read."""
        usage = self.call.usage
        silent = usage.cache_read is None or usage.cache_implied
        return not self.promised and silent and not self._told

    @property
    def promised(self) -> bool:
        """False: by its rule, what the cache keeps is as it pleases."""
        return self.family is None or self.mech.style != "effort" or bool(self.mech.requires)

    @property
    def _told(self) -> bool:
        scopes = {self.scope, self.past.scope if self.past is not None else self.scope}
        return any(self.caches.learned.has_told(self.call.service, scope) for scope in scopes)

    def walk(self, previous: Call | None, shared: int) -> None:
        """Follow the prompt."""
        if not self.seen:
            return
        past = self.past
        path = past.path if past is not None else None
        known: int | None = None
        if path is not None and past is not None and previous is not None and past.call_id == previous.id:
            known = min(shared, len(path))
        if path is None:
            path, known = Path(), 0
        lost, mech = self.call.completeness.lost, self.mech
        self.kept = path.follow(
            self.call.prompt,
            known,
            self.call.usage.input,
            self.tokens.factor,
            unseen="tools" in lost or "system" in lost,
            runs=mech.runs,
            drops=mech.drops_thinking,
            read=self.call.usage.cache_read,
        )
        own, rules = self.settings, self.caches.rules
        marked = own if mech.style == "marked" else ()
        tools, system = (
            (losing(marked, "tools", rules), losing(marked, "system", rules)) if marked else ((), ())
        )
        self.path, self.images = path, path.images
        self.shelf = Shelf(self.caches.store, mech, path, self.now, self.scope, own, tools, system)
