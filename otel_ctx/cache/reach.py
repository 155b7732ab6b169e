"""What a call could have read of the cache, and what the simulation says that it reads."""

from __future__ import annotations

from otel_ctx.cache.past import Past
from otel_ctx.cache.path import Path
from otel_ctx.cache.run import Run
from otel_ctx.cache.shelf import WALK
from otel_ctx.cache.store import Entry
from otel_ctx.model import CacheTokens

_TAIL_LEAST, _TAIL = 128, 0.02  # what stands behind a marker at the end: the frame of a message, a note
_GROWN = 0.9  # without text, a prompt that is smaller than this is another one


def of_old(run: Run, path: Path) -> int:
    """Tokens of what is shared with another branch, which the call that is continued had asked for: there is no entry
    between two markers."""
    if run.mech.style not in ("marked", "endings") or run.old is None:
        return path.ends[run.kept]
    common = path.ends[min(run.kept, len(run.old.prompt))]  # another branch may go on behind it
    return common if run.old.usage.input is None else min(common, run.old.usage.input)


def expected_of(run: Run) -> tuple[int, Entry | None]:
    """Tokens that were there to read, and the entry that held them."""
    past = run.left
    if past is not None and run.follows:
        if run.both:
            if run.common is None:
                return min(past.total - run.cleared, run.total), past.entry
            most = min(end_of(run, past), run.common + run.resent.tokens) - run.cleared
            return min(most, run.total), past.entry
        if run.call.usage.cache_read in past.ends[:-1]:
            return run.call.usage.cache_read or 0, None  # it goes on from a call before the last one
        if run.total >= _GROWN * past.total and run.relation != "compacted":
            return min(past.total, run.total), past.entry
        return 0, None
    if run.shelf is None or run.relation == "continues":
        return 0, None
    found = run.shelf.shared() or _supposed(run)
    if found is None:
        return 0, None
    end, entry = found
    if _writes_it(run, entry):
        return 0, None
    longest = run.mech.longest
    if longest is not None and entry.gap(run.now) > longest and run.relation != "forks":
        return 0, None  # nothing that is offered would have kept it: a cold start
    return end, entry


def _writes_it(run: Run, entry: Entry) -> bool:
    """Of equal first calls that run beside each other one is cold, and it need not be the one that began first: where that
    one has read what nobody wrote, this one, which read nothing, is the writer."""
    beside = run.past is None and run.call.usage.cache_read == 0 and not entry.is_ready(run.now)
    return beside and entry.place in run.caches.unwritten


def _supposed(run: Run) -> tuple[int, Entry] | None:
    """What another request on its way has not yet written at the end of the system prompt, where usage has shown of the
    service that it sets a marker there: on the spans there is none."""
    path, shelf, caches = run.path, run.shelf, run.caches
    if path is None or shelf is None or run.marks.shown or run.call.usage.cache_read:
        return None
    entry = shelf.supposed(caches.supposed) if (run.call.service, run.scope) in caches.learned.heads else None
    if entry is None or entry.is_ready(run.now):
        return None
    run.supposing = True
    return path.ends[path.head], entry


def end_of(run: Run, past: Past) -> int:
    """Up to where the prompt before could be cached: a few tokens behind its last marker are nobody's loss."""
    if past.marker is None or run.mech.style != "marked":
        return past.total
    few = past.total - past.marker <= max(_TAIL_LEAST, _TAIL * past.total)
    return min(past.marker, past.total) if few else past.total


def predict(run: Run, *, may: bool = False) -> CacheTokens | None:
    """``may``: as if each entry that may live did."""
    path, shelf, mech = run.path, run.shelf, run.mech
    if path is None or shelf is None or run.family is None:
        return None
    if mech.style == "marked" and not run.marks.asked:
        return None if run.marks.asked is None else CacheTokens(0, 0, run.total)
    if (
        run.follows
        and run.at is None
        and run.kept < path.head
        and run.call.completeness.lost & {"tools", "system"}
    ):
        return None  # a section that was cut is another one each time
    if mech.style in ("marked", "endings"):
        read = shelf.from_marks(run.marks, may)
        if run.cleared and run.at is None and run.past is not None:  # the entry holds what was taken out, too
            read = min(read, run.past.total - run.cleared)
        end = run.total if mech.style == "endings" else min(run.marks.end or 0, run.total)
        end = max(end, read) if end >= mech.minimum else read
        return CacheTokens(read, end - read, run.total - end)
    past, reach = run.past, 0
    same = past is not None and past.scope == run.scope and past.settings == run.settings
    if past is not None and same and shelf.can_read(past.entry, may):
        reach = path.ends[run.kept] if run.common is None else run.common
    on = run.follows and run.at is None and run.relation in ("continues", "repeats")
    reach = shelf.longest((path.head,) if on else range(min(len(path), WALK), 0, -1), reach, may)
    read = mech.readable(min(reach, run.total), run.hidden)
    return CacheTokens(read, 0, run.total - read)


def behind_marker(run: Run, expected: int, floor: int, spare: int) -> int:
    """Tokens behind the last marker of the call before: no entry ends there, whatever became of the text."""
    past = run.left
    if past is None or past.marker is None or run.mech.style != "marked":
        return 0
    reach, common = past.marker, run.common
    if common is not None and common < reach:  # what is gone stood in front of it
        reach = max(common, reach - max(0, end_of(run, past) - run.cleared - expected))
    reach = max(reach, floor)
    return expected - reach if expected - reach > spare else 0


def stands_in_front(run: Run, read: int, spare: int) -> bool:
    """Does the entry that the rules read, of ``read`` tokens, end in front of the break for certain? A cache that holds the
    longest beginning has one wherever two prompts part. Others have them where requests were marked: where that is known
    from counts only, the next place must be further away than these may be wrong."""
    path, mech = run.path, run.mech
    if mech.style == "prefix":
        return True
    if (
        mech.style != "marked"
        or path is None
        or not read
        or (run.common is not None and read > run.common + spare)
    ):
        return False
    place = path.nearest(read)
    return run.marks.shown or place + 1 >= len(path.ends) or path.ends[place + 1] - read > spare
