"""What a call leaves: entries in the cache, and to the next call of its conversation."""

from __future__ import annotations

from dataclasses import replace

from otel_ctx.cache.caches import Caches
from otel_ctx.cache.marks import marks_of
from otel_ctx.cache.mechanism import Lifetime
from otel_ctx.cache.past import Past
from otel_ctx.cache.path import Path
from otel_ctx.cache.run import Run
from otel_ctx.cache.shelf import WALK
from otel_ctx.cache.store import Entry
from otel_ctx.model import Call, Tokens

_MOST_ENDS = 16  # agents that run under one name


def left(run: Run) -> Past:
    call, path, places = run.call, run.path, run.marks.places
    ready = call.first_token_unix_nano or call.end_unix_nano
    run.caches.learned.saw(call.usage, call.service, run.scope, run.family, run.mech)
    ttl = places[-1][1] if places else None
    lifetime = _lifetime(run, ttl)
    if call.status == "ok" and path is not None and not run.marks.none and not run.marks.refused:
        _write(run, path, ready, lifetime)
    return _past(run, ready, lifetime)


def left_by(old: Call, sibling: Past, caches: Caches, tokens: Tokens) -> Past | None:
    """What ``old`` left, where a call that ran beside it came later: their prompts begin alike. None: it cannot be told."""
    if sibling.path is None or old.usage.input is None:
        return None
    now, path = caches.now, sibling.path.packed().opened()
    run = Run(caches, old, old.usage.input, tokens, replace(sibling, path=path))
    caches.now = now
    run.walk(None, 0)
    if run.path is None or run.shelf is None:
        return None  # its prompt was not seen
    run.marks = marks_of(run.mech, old.usage, run.total, run.visible, run.path, sibling.ttl)
    place, ttl = run.marks.places[-1] if run.marks.places else (len(run.path), None)
    run.entry = run.shelf.at(place)
    return _past(run, old.first_token_unix_nano or old.end_unix_nano, _lifetime(run, ttl))


def _past(run: Run, ready: int, lifetime: Lifetime) -> Past:
    path, past, places = run.path, run.past, run.marks.places
    ttl = places[-1][1] if places else None
    marker, place, entry = run.marks.end, places[-1][0] if places else 0, run.entry
    if run.marks.none and run.shelf is not None and path is not None:
        place = run.shelf.before(len(path))
        marker, entry = (path.ends[place], run.shelf.at(place)) if place else (0, None)
    return Past(
        call_id=run.call.id,
        scope=run.scope,
        total=run.total,
        entry=entry or Entry(run.total, run.now, ready, lifetime.least, lifetime.most),
        path=path,
        settings=run.settings,
        images=run.images,
        marker=marker,
        place=place,
        moved=_moved(run),
        position=path.positions[place] if path is not None else 0,
        ttl=ttl or (past.ttl if past is not None else None),
        unmarked=run.marks.none,
        refused=run.marks.refused,
        ends=_ends(run),
    )


def _ends(run: Run) -> tuple[int, ...]:
    """With this prompt's, and without the one that it has gone on from: each has one successor."""
    if run.seen or run.total < run.mech.minimum:
        return ()
    read = run.call.usage.cache_read
    before = run.past.ends if run.past is not None else ()
    if run.marks.none:
        return before
    end = run.marks.end if run.mech.style == "marked" else run.mech.readable(run.total, run.hidden)
    return (*(e for e in before if e != read), end or run.total)[-_MOST_ENDS:]


def _moved(run: Run) -> bool:
    """Has the last marker ever stood at another place in this conversation?"""
    past, end = run.past, run.marks.end
    if past is None:
        return False
    return past.moved or (past.marker is not None and end is not None and end != past.marker)


def _lifetime(run: Run, ttl: str | None) -> Lifetime:
    if not run.call.start_unix_nano:
        return Lifetime(None, None)  # nobody knows since when
    return run.mech.lifetime(ttl)


def _write(run: Run, path: Path, ready: int, lifetime: Lifetime) -> None:
    """``lifetime``: that of the last place."""
    mech, marks = run.mech, run.marks
    if mech.style == "marked":
        read = run.call.usage.cache_read
        if read:  # an entry that nobody told of shows itself, and any is renewed
            _put(run, path.nearest(read), ready, _lifetime(run, run.past.ttl if run.past else None))
        for place, ttl in marks.places:
            _put(run, place, ready, _lifetime(run, ttl))
        if marks.asked and not marks.shown and run.shelf is not None:
            run.shelf.suppose(run.caches.supposed, ready, _lifetime(run, None))
            if _marks_head(run):
                run.caches.learned.heads.add((run.call.service, run.scope))
        if marks.places and marks.places[-1][1]:
            run.caches.learned.lifetimes(run.call.service, run.scope).add(marks.places[-1][1])
        return
    length = len(path)
    places = {path.head, length} if mech.style != "endings" else {length}
    if run.past is None:
        places |= set(range(1, min(length, WALK) + 1)) if mech.style != "endings" else {path.head}
    for place in sorted(places):
        _put(run, place, ready, lifetime)


def _marks_head(run: Run) -> bool:
    """Does usage show a marker at the end of the system prompt: a read that ended there, or a change of lifetimes?"""
    path, usage = run.path, run.call.usage
    if path is None or not path.head:
        return False
    read, write, hour = usage.cache_read or 0, usage.cache_write or 0, usage.cache_write_1h or 0
    places = [read] if read else []
    places += [read + hour] if 0 < hour < write else []
    return any(path.nearest(place) == path.head for place in places)


def _put(run: Run, place: int, ready: int, lifetime: Lifetime) -> None:
    if run.shelf is None:
        return
    known = run.past is not None or not _only_read(run, place)
    entry = run.shelf.put(place, ready, lifetime)
    if entry is None:
        return
    run.entry = entry
    if entry.place is not None and (not known or run.caches.unwritten):
        run.caches.wrote(entry.place, known)


def _only_read(run: Run, place: int) -> bool:
    """Has this call, the first of its conversation, read what nothing on record had written there?"""
    path, shelf, read = run.path, run.shelf, run.call.usage.cache_read
    if not read or path is None or shelf is None or run.mech.readable(path.ends[place], run.hidden) > read:
        return False
    entry = shelf.at(place)
    return entry is None or not entry.lives(run.now) or entry.place in run.caches.unwritten
