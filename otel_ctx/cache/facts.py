"""The facts of a call that did not read what it could have read, for the verdict on why."""

from __future__ import annotations

from otel_ctx.cache.caches import may_be_one
from otel_ctx.cache.cause import NEAR, Facts
from otel_ctx.cache.past import Past
from otel_ctx.cache.run import Run
from otel_ctx.cache.settings import changed
from otel_ctx.cache.store import Entry


def facts_of(
    run: Run, expected: int, spare: int, entry: Entry | None, *, explained: bool, by_rule: bool
) -> Facts:
    """``by_rule``: no more was to be read than was."""
    past, marks, path = run.left if run.follows else None, run.marks, run.path
    position = path.positions[marks.places[-1][0]] if path is not None and marks.places else 0
    before, stayed = past.position if past is not None else 0, False
    if past is not None and path is not None and path is past.path and past.place < len(path.positions):
        before = path.positions[past.place]  # of this prompt: thinking that was taken out has none
        stayed = bool(marks.places) and marks.places[-1][0] == past.place
        if not marks.shown and marks.end is not None:  # its place was taken from usage: it is as near as that
            stayed = stayed or abs(path.ends[past.place] - marks.end) <= spare
    in_front = by_rule and bool(marks.places) and past is not None and marks.places[-1][0] < past.place
    implied, learned = run.call.usage.cache_implied, run.caches.learned
    return Facts(
        now=run.now,
        mechanism=run.mech,
        seen=run.both or (past is None and run.seen),
        reported=run.call.usage.cache_read is not None,
        proven=not implied or learned.has_told(run.call.service, run.scope),
        dropped=run.dropped,
        shrunk=past is not None and _known(run) and (run.total < past.total or run.cleared > 0),
        expected=expected,
        slack=spare,
        same_model=past is None or may_be_one(past.scope, run.scope),
        entry=entry,
        supposed=run.supposing,
        outlived=_outlived(run),
        asked=marks.asked,
        shown=marks.shown,
        shortest=too_short(run),
        longer_before=_had_longer(run, entry),
        marker=marks.end,
        last_marker=past.marker if past is not None else None,
        stayed=stayed,
        beyond_head=_beyond_head(run, past),
        distance=position - before if past is not None else 0,
        parameters=_changed(run, past),
        explained=explained,
        known=_known_before(run, past, entry),
        unmarked_before=past is not None and past.unmarked,
        refused_before=past is not None and past.refused,
        in_front=in_front,
    )


def _known(run: Run) -> bool:
    """May what the provider took out be the reason? Not if less was read than stands in front of it, unless it has put
    other text there before."""
    return not run.elsewhere or (run.path is not None and run.path.rewritten)


def _known_before(run: Run, past: Past | None, entry: Entry | None) -> bool:
    """Are the times of both calls known, and of the one before its usage and where it was marked?"""
    timed = entry is None or entry.least is not None or run.mech.usual.least is None
    if not run.call.start_unix_nano or not timed:
        return False
    if past is None:
        return True
    marked = run.mech.style != "marked" or past.marker is not None
    return marked and (run.old is None or run.old.usage.input is not None)


def unseen_in_front(run: Run) -> bool:
    """Do tools or system prompt stand unseen in front of the break? What was lost of them is not the break's."""
    unseen = run.call.completeness.lost & {"tools", "system"}
    return run.at is not None and bool(unseen) and run.at.kind not in unseen


def too_short(run: Run) -> bool:
    """Something was marked, and it is too short to be cached: by its count, or, near the minimum, by the provider's word that
    nothing was written."""
    if not run.visible or run.marks.end is None:
        return False
    return run.marks.end < run.mech.minimum * (NEAR if run.marks.asked is False else 1)


def _outlived(run: Run) -> bool:
    """Was an entry read that ends among the messages? Those behind it were asked for together with it or later."""
    path, read = run.path, run.call.usage.cache_read or 0
    return path is not None and path.nearest(read) > path.head


def _beyond_head(run: Run, past: Past | None) -> bool:
    """Without text, a marker that never moved may stand at the end of the system prompt."""
    path, places = run.path, run.marks.places
    if path is None:
        return past is not None and past.moved
    return not places or places[-1][0] > path.head


def _changed(run: Run, past: Past | None) -> str:
    """What of the settings is another than in the call before, in words."""
    if past is None:
        return ""
    words = changed(past.settings, run.settings)
    if run.mech.style == "marked" and past.images != run.images and run.path is past.path:
        words = f"{words} An image was added or taken away.".strip()
    return words


def _had_longer(run: Run, entry: Entry | None) -> bool:
    """The service asked for a lifetime before that would have kept the entry, and no longer does."""
    if entry is None or entry.least is None:
        return False
    asked = run.caches.learned.lifetimes(run.call.service, run.scope)
    longer = [run.mech.lifetime(name).least or 0 for name in asked]
    return any(n > entry.least and entry.gap(run.now) <= n for n in longer)
