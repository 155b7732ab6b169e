"""One call against the cache: what it could have read, what it read, and why not all."""

from __future__ import annotations

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
from otel_ctx.cache.reach import behind_marker, expected_of, of_old, predict
from otel_ctx.cache.resent import NOTHING, cleared
from otel_ctx.cache.run import Run
from otel_ctx.cache.slack import slack
from otel_ctx.cache.store import Entry
from otel_ctx.model import Access, Break, Call, Relation

_MORE_LEAST, _MORE = 128, 0.25  # so much more than a rule takes out was taken out by something else
_UNMEASURED = 0.2  # places of a prompt of which no call before says where they are


def judge(
    run: Run, relation: Relation, previous: Call | None, old: Call | None, shared: int, at: Break | None
) -> Access:
    past, usage = run.past, run.call.usage
    before = past.path if past is not None else None
    follows = past is not None and (old is not None or relation == "repeats")
    both = run.seen and before is not None
    length = len(before) if before is not None else 0
    common = past.common(old, at) if past is not None and at is not None and both and follows else None
    resent = past.again(old, run.call, at) if past is not None and common is not None else NOTHING
    again = resent.tokens
    edited = both and follows and at is None and past is not None and run.total < past.total
    most = before.removable if edited and before is not None else None
    kept = run.walk(previous, shared)
    dropped = run.dropped = run.path.dropped if run.path is not None and both and follows else 0
    if common is not None:
        run.cleared = min(dropped, again)
    elif both and follows and kept < length and run.path is not None:
        common = of_old(run, run.path, kept, old)
        if old is not None and past is not None and past.call_id != old.id:
            run.dropped = run.path.taken_out(old.prompt, run.tokens.factor)
    elif both and follows and past is not None and relation == "continues":
        asked = run.path.asked if run.path is not None else 0
        new = run.call.prompt.since(kept)
        if asked > kept:
            new = [s for i, s in enumerate(new, kept) if i >= asked or s.kind != "thinking"]
        run.cleared = cleared(past.total, run.total, new, run.tokens.factor, dropped, most)
    ttl = past.ttl if past is not None else None
    run.marks = marks_of(run.mech, usage, run.total, run.visible, run.path, ttl)
    run.left = continued(run, old, kept) if both and follows else past
    expected, entry = expected_of(run, follows, both, common, again, relation)
    last = run.left is past and relation != "repeats"
    if entry is not None and follows and last and not (both and _beside(run, entry, kept)):
        # what is continued had been answered, whatever the clocks say
        run.caches.store.answered(entry, run.now)
    predicted = predict(run, relation, follows, at, common, kept)
    could, expected = expected, run.mech.readable(expected, run.hidden)
    if at is not None and predicted is not None:  # what changed may have stood like that before
        expected = max(expected, predicted.read)
    actual = usage.cache_read if usage.cache_read is not None else predicted.read if predicted else None
    told = common is None or (past is not None and expected == past.total)
    spare = slack(
        run.mech, could, expected, actual, told=told, broken=at is not None, counted_from=run.hidden
    )
    if actual is not None:
        floor = actual
    else:
        floor = run.mech.readable(common, run.hidden) if common is not None else expected
    lost = expected - floor if expected - floor > spare else 0
    in_use = not lost or run.in_use
    lost = lost if in_use else 0
    behind = behind_marker(run, expected, floor, spare, common) if lost and both and follows else 0
    if run.dropped and predicted is not None and (actual or 0) + spare < predicted.read:
        more = run.cleared - run.dropped > max(_MORE_LEAST, _MORE * run.dropped)
        run.dropped, run.elsewhere = 0, not more  # not even what stands in front of it was read
    judged = tail = NO_VERDICT
    if lost:
        explained = False
        if at is not None and both and entry is not None and not entry.lives(run.now):
            rest = predict(run, relation, follows, at, common, kept, may=True)
            explained = rest is not None and rest.read <= floor + spare
        by_rule = at is None and predicted is not None and predicted.read <= floor + spare
        reach = expected - (behind if behind < lost else 0)
        facts = facts_of(run, follows, both, old, reach, spare, entry, explained, by_rule)
        judged, tail = verdict(facts), unmarked_tail(facts)
        if past is None and usage.cache_read and not judged.barrier and lost <= _UNMEASURED * expected:
            lost, judged = 0, NO_VERDICT  # it read another entry, or this one
        elif behind >= lost:  # the marker alone is to blame
            judged, behind = tail, lost if at is not None else 0
        elif judged.otherwise in OF_THE_TAIL or tail.otherwise == judged.barrier:  # one reason for all of it
            behind = 0
    if not lost and too_short(run):
        judged = Verdict(barrier="below_minimum", sure="predicted")
    aside = "" if not behind else tail.otherwise
    if lost and not behind and predicted is not None and unseen_in_front(run, at):
        behind = min(lost, predicted.read - floor) if predicted.read - floor > spare else 0
        aside = "unknown" if behind else ""
    elif lost and not behind and predicted is not None and both and not run.cleared and _whole(run, old):
        behind = min(lost, missed_beside(judged, at, predicted.read, floor, run.mech.style))
        aside = "provider_side_miss" if behind else ""
    further = 0
    if lost and at is not None and at.then is not None and common is not None and not judged.barrier:
        further = min(lost, expected - max(floor, common + resent.between)) - behind
    otherwise = _otherwise(run, judged, both, old, at, common)
    if lost and run.path is not None and otherwise == "server_side_rewrite_suspected" and not run.dropped:
        run.path.rewrite(run.path.nearest(floor))
    if follows and not lost and usage.cache_read is None and _damaged(run, old):
        actual = None  # what was not seen may have changed
    return Access(
        predicted=predicted,
        reported=reported_split(usage, run.total),
        optimal=best_split(run.mech, run.total, max(expected, floor, predicted.read if predicted else 0)),
        outcome=outcome_of(run.mech, usage, run.total, expected, spare),
        expected=expected,
        actual=actual,
        simulated=usage.cache_read is None,
        lost=lost,
        barrier=judged.barrier,
        otherwise=otherwise,
        sure="unknown" if otherwise == "unknown" else judged.sure,
        gap_seconds=entry.gap(run.now) if entry is not None else None,
        ttl_seconds=entry.least if entry is not None else None,
        note=judged.note,
        behind=behind,
        behind_cause=aside,
        further=max(0, further),
        minimum=run.mech.minimum,
        in_use=in_use,
    )


def _otherwise(
    run: Run, judged: Verdict, both: bool, old: Call | None, at: Break | None, common: int | None
) -> str:
    if at is not None and both:
        marker = run.past.marker if run.past is not None else None
        once = run.mech.style == "marked" and marked_once(old, run.call, at, marker, common)
        return "breakpoint_before_change" if once else ""
    if judged.otherwise in THE_PROVIDERS and not _whole(run, old):
        return "unknown"  # what was not seen may have changed
    return judged.otherwise


def _whole(run: Run, old: Call | None) -> bool:
    return all(c is None or c.completeness.status == "full" for c in (run.call, old))


def _damaged(run: Run, old: Call | None) -> bool:
    return any(c.completeness.lost for c in (run.call, old) if c is not None)


def _beside(run: Run, entry: Entry, kept: int) -> bool:
    """By the clocks the call before is still running, and nothing that the model wrote stands behind what was kept of it."""
    if entry.is_ready(run.now):
        return False
    return not any(s.kind in ("assistant", "tool_call", "thinking") for s in run.call.prompt.since(kept))


def in_the_dark(run: Run, relation: Relation, access: Access) -> bool:
    """Neither its text nor an id says what it goes on from: what it could have read is not known, unless the rules
    keep nothing of its size or the provider says it."""
    return (
        relation == "new" and not run.seen and access.outcome != "ineligible" and access.sure != "confirmed"
    )
