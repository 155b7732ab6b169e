"""What the call left that is continued, where it is not the last one of its conversation."""

from __future__ import annotations

from dataclasses import replace

from otel_ctx.cache.caches import may_be_one, scope_of
from otel_ctx.cache.marks import marks_of
from otel_ctx.cache.past import Past
from otel_ctx.cache.run import Run
from otel_ctx.cache.settings import settings_of
from otel_ctx.cache.store import Entry


def continued(run: Run) -> Past | None:
    """The last call of the conversation counts where it is the one that is continued, and where its cache holds every beginning
    that it shares."""
    past, path, shelf, old = run.past, run.path, run.shelf, run.old
    if past is None or path is None or shelf is None or old is None or old.id == past.call_id:
        return past
    if old.status != "ok" or old.usage.input is None:
        return past
    everywhere = run.mech.style in ("prefix", "effort") and may_be_one(past.scope, run.scope)
    if everywhere and shelf.can_read(past.entry):
        return past
    visible = old.prompt.marked() if run.mech.style == "marked" else ()
    marks = marks_of(run.mech, old.usage, old.usage.input, visible, path, past.ttl)
    shared = min(run.kept, len(old.prompt), len(path))
    place, ttl = marks.places[-1] if marks.places else (shared, past.ttl)
    place = min(place, shared)
    entry, scope = shelf.at(place), run.scope
    if entry is None:
        ready, lifetime = old.first_token_unix_nano or old.end_unix_nano, run.mech.lifetime(ttl)
        entry = Entry(old.usage.input, old.start_unix_nano, ready, lifetime.least, lifetime.most)
        scope = scope_of(old, past.scope)
    return replace(
        past,
        call_id=old.id,
        scope=scope,
        total=old.usage.input,
        entry=entry,
        path=path,
        settings=settings_of(old, run.mech, run.caches.rules),
        images=run.images,
        unmarked=marks.none,
        refused=marks.refused,
        marker=marks.end,
        place=place,
        position=path.positions[place],
        ttl=ttl,
    )
