"""One call against the cache: what it could have read, what it read, and why not all."""

from __future__ import annotations

from typing import NamedTuple

from otel_ctx.cache.branch import continued
from otel_ctx.cache.cause import (
    NO_VERDICT,
    OF_THE_TAIL,
    THE_PROVIDERS,
    Verdict,
    missed_beside,
    unmarked_tail,
    verdict,
)
from otel_ctx.cache.facts import facts_of, too_short, unseen_in_front
from otel_ctx.cache.marks import marked_once, marks_of
from otel_ctx.cache.outcome import best_split, outcome_of, reported_split
from otel_ctx.cache.reach import behind_marker, expected_of, of_old, predict, stands_in_front
from otel_ctx.cache.resent import cleared
from otel_ctx.cache.run import Run
from otel_ctx.cache.slack import slack
from otel_ctx.cache.store import Entry
from otel_ctx.model import MODEL_KINDS, Access, Break, CacheTokens, Call, Evidence, Relation

_MORE_LEAST, _MORE = 128, 0.25  # so much more than a rule takes out was taken out by something else
_UNMEASURED = 0.2  # places of a prompt of which no call before says where they are
_SOON = 120  # seconds in which no cache that is in use forgets


class _Why(NamedTuple):
    """Why ``lost`` tokens were not read. ``behind``: those of them that have another cause, ``aside``."""

    lost: int
    verdict: Verdict = NO_VERDICT
    behind: int = 0
    aside: str = ""


_NOTHING = _Why(0)
_TOO_SHORT = _Why(0, Verdict(barrier="below_minimum", sure="predicted"))


def judge(
    run: Run, relation: Relation, previous: Call | None, old: Call | None, shared: int, at: Break | None
) -> Access:
    usage, mech = run.call.usage, run.mech
    _go_on(run, relation, previous, old, shared, at)
    could, entry = expected_of(run)
    last = run.left is run.past and relation != "repeats"
    if entry is not None and run.follows and last and not _beside(run, entry):
        # what is continued had been answered, whatever the clocks say
        run.caches.store.answered(entry, run.now)
    predicted, expected = predict(run), mech.readable(could, run.hidden)
    if at is not None and predicted is not None:  # what changed may have stood like that before
        expected = max(expected, predicted.read)
    actual = usage.cache_read if usage.cache_read is not None else predicted.read if predicted else None
    told = run.common is None or (run.past is not None and expected == run.past.total)
    spare = slack(mech, could, expected, actual, told=told, broken=at is not None, counted_from=run.hidden)
    if actual is not None:
        floor = actual
    else:
        floor = mech.readable(run.common, run.hidden) if run.common is not None else expected
    lost = expected - floor if expected - floor > spare else 0
    in_use = run.in_use or not (lost or (at is not None and run.untold))
    why = _why(run, lost if in_use else 0, expected, floor, spare, entry, predicted)
    further = 0
    if why.lost and at is not None and at.then is not None and run.common is not None:
        between = run.common + run.resent.between
        further = 0 if why.verdict.barrier else min(why.lost, expected - max(floor, between)) - why.behind
    otherwise = _otherwise(run, why.verdict)
    if why.lost and run.path is not None and otherwise == "server_side_rewrite_suspected" and not run.dropped:
        run.path.rewrite(run.path.nearest(floor))
    implied = usage.cache_implied and not run.caches.learned.has_told(run.call.service, run.scope)
    if run.follows and not why.lost and usage.cache_read is None and (_damaged(run) or run.untold):
        actual = None  # what was not seen may have changed, and what is not promised may not have been done
    if lost and at is None and run.both and not run.promised and actual == 0 and _is_soon(run, entry):
        run.caches.learned.missed(run.call.service, run.scope)
    return Access(
        predicted=predicted,
        reported=reported_split(usage, run.total),
        optimal=best_split(mech, run.total, max(expected, floor, predicted.read if predicted else 0)),
        outcome=outcome_of(mech, usage, run.total, expected, spare),
        expected=expected,
        actual=actual,
        simulated=usage.cache_read is None,
        lost=why.lost,
        barrier=why.verdict.barrier,
        otherwise=otherwise,
        sure="unknown" if otherwise == "unknown" else _sure(why.verdict, implied=implied),
        gap_seconds=entry.gap(run.now) if entry is not None else None,
        ttl_seconds=entry.least if entry is not None else None,
        ttl_most=entry.most if entry is not None else None,
        note=why.verdict.note,
        behind=why.behind,
        behind_cause=why.aside,
        further=max(0, further),
        minimum=mech.minimum,
        in_use=in_use,
        ruled=not lost or run.family is not None,
        implied=implied,
        promised=run.promised,
    )


def _is_soon(run: Run, entry: Entry | None) -> bool:
    return entry is not None and entry.is_ready(run.now) and entry.gap(run.now) < _SOON


def _go_on(
    run: Run, relation: Relation, previous: Call | None, old: Call | None, shared: int, at: Break | None
) -> None:
    """Follow the prompt from where the one before ended: what was kept of it, what was sent again, what was taken out."""
    past, run.relation, run.old, run.at = run.past, relation, old, at
    before, most = past.path if past is not None else None, None
    length = len(before) if before is not None else 0
    run.follows = past is not None and (old is not None or relation == "repeats")
    run.both = run.seen and before is not None
    on = run.both and run.follows
    if on and past is not None and before is not None:
        if at is not None:
            run.common = past.common(old, at)
        if run.common is not None:
            run.resent = past.again(old, run.call, at)
        if at is None and run.total < past.total:  # it was edited
            most = before.removable
    run.walk(previous, shared)
    path = run.path
    if on and past is not None and path is not None:
        dropped = run.dropped = path.dropped
        if run.common is not None:
            run.cleared = min(dropped, run.resent.tokens)
        elif run.kept < length:
            run.common = of_old(run, path)
            if old is not None and past.call_id != old.id:
                run.dropped = path.taken_out(old.prompt, run.tokens.factor)
        elif relation == "continues":
            new = run.call.prompt.since(run.kept)
            if path.asked > run.kept:
                new = [s for i, s in enumerate(new, run.kept) if i >= path.asked or s.kind != "thinking"]
            run.cleared = cleared(past.total, run.total, new, run.tokens.factor, dropped, most)
    ttl = past.ttl if past is not None else None
    run.marks = marks_of(run.mech, run.call.usage, run.total, run.visible, path, ttl)
    run.left = continued(run) if on else past


def _why(
    run: Run,
    lost: int,
    expected: int,
    floor: int,
    spare: int,
    entry: Entry | None,
    predicted: CacheTokens | None,
) -> _Why:
    if not lost:
        return _TOO_SHORT if too_short(run) else _NOTHING
    past, at, reported = run.past, run.at, run.call.usage.cache_read
    could = predicted.read if predicted is not None else None
    behind = behind_marker(run, expected, floor, spare) if run.both and run.follows else 0
    if run.dropped and could is not None and reported is not None and reported + spare < could:
        more = run.cleared - run.dropped > max(_MORE_LEAST, _MORE * run.dropped)
        run.dropped, run.elsewhere = 0, not more  # not even what stands in front of it was read
    by_rule = at is None and could is not None and could <= floor + spare
    reach = expected - (behind if behind < lost else 0)
    explained = _explained(run, entry, floor + spare)
    facts = facts_of(run, reach, spare, entry, explained=explained, by_rule=by_rule)
    judged, tail = verdict(facts), unmarked_tail(facts)
    if past is None and reported and not judged.barrier and lost <= _UNMEASURED * expected:
        return _TOO_SHORT if too_short(run) else _NOTHING  # it read another entry, or this one
    if behind >= lost:  # the marker alone is to blame
        judged, behind = tail, lost if at is not None else 0
    elif judged.otherwise in OF_THE_TAIL or tail.otherwise == judged.barrier:  # one reason for all of it
        behind = 0
    if behind:
        return _Why(lost, judged, behind, tail.otherwise)
    if could is not None and unseen_in_front(run):
        behind = min(lost, could - floor) if could - floor > spare else 0
        return _Why(lost, judged, behind, "unknown" if behind else "")
    if (
        could is not None
        and run.both
        and not run.cleared
        and _whole(run)
        and stands_in_front(run, could, spare)
    ):
        behind = min(lost, missed_beside(judged, at, could, floor))
        return _Why(lost, judged, behind, "provider_side_miss" if behind else "")
    return _Why(lost, judged)


def _explained(run: Run, entry: Entry | None, read: int) -> bool:
    """With the entry alive no more than ``read`` was left of it by a change in the text."""
    if run.at is None or not run.both or entry is None or entry.lives(run.now):
        return False
    rest = predict(run, may=True)
    return rest is not None and rest.read <= read


def _sure(judged: Verdict, *, implied: bool) -> Evidence:
    """What a count that is left out reports is an inference."""
    return "inferred" if implied and judged.sure == "reported" else judged.sure


def _otherwise(run: Run, judged: Verdict) -> str:
    if run.at is not None and run.both:
        marker = run.past.marker if run.past is not None else None
        once = run.mech.style == "marked" and marked_once(run.old, run.call, run.at, marker, run.common)
        return "breakpoint_before_change" if once else ""
    if judged.otherwise in THE_PROVIDERS and not _whole(run):
        return "unknown"  # what was not seen may have changed
    return judged.otherwise


def _whole(run: Run) -> bool:
    return all(c is None or c.completeness.status == "full" for c in (run.call, run.old))


def _damaged(run: Run) -> bool:
    return any(c.completeness.lost for c in (run.call, run.old) if c is not None)


def _beside(run: Run, entry: Entry) -> bool:
    """By the clocks the call before is still running, and nothing that the model wrote stands behind what was kept of it."""
    if not run.both or entry.is_ready(run.now):
        return False
    return not any(s.kind in MODEL_KINDS for s in run.call.prompt.since(run.kept))


def in_the_dark(run: Run, relation: Relation, access: Access) -> bool:
    """Neither its text nor an id says what it goes on from: what it could have read is not known, unless the rules
    keep nothing of its size or the provider says it."""
    return (
        relation == "new" and not run.seen and access.outcome != "ineligible" and access.sure != "confirmed"
    )
