"""Named, located problems, each with its cost and its fix.

A finding is one function that looks at one ``Step`` and one line here. What broke a prompt is told once: ``CAUSES`` are
asked in their order, the most specific first, and the first that speaks is heard; of a further change, ``FURTHER`` are. What
no text could have helped is told beside it, and takes the loss; what remains is asked last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from otel_ctx.findings import caching, compaction, compared, prefix, quality, tools, window
from otel_ctx.findings.blame import Blame, blame
from otel_ctx.findings.gaps import Gap, gaps
from otel_ctx.findings.hindsight import hindsight
from otel_ctx.findings.loss import as_implied, costless
from otel_ctx.findings.merge import gather, ranked
from otel_ctx.findings.quality import unknown_cache_rule, unknown_dialects, unpaired, unpriced_model
from otel_ctx.findings.step import Check, Step
from otel_ctx.findings.switches import Lost, fix_for, fix_for_double, switch_of
from otel_ctx.findings.window import as_it_stands
from otel_ctx.model import Finding, NotChecked

CAUSES: tuple[Check, ...] = (
    compaction.compaction,
    compared.doubtful,
    tools.tools_reordered,
    tools.tool_schema_key_order,
    prefix.volatile_prefix,
    caching.breakpoint_before_change,
    prefix.evicted_content,
    prefix.moved_segment,
    tools.tools_changed,
    prefix.prefix_changed,
)
FURTHER: tuple[Check, ...] = (compared.doubtful, prefix.volatile_prefix, prefix.prefix_changed)


def cause(step: Step) -> Iterator[Finding | NotChecked]:
    """Why the call did not read what it could have read."""
    yield from (as_implied(step, f) if isinstance(f, Finding) else f for f in _cause(step))


def _cause(step: Step) -> Iterator[Finding | NotChecked]:
    """What the first of ``CAUSES`` that knows the break says of it; and what else kept the cache from being read."""
    if caching.is_confirmed(step):
        yield from _confirmed(step)
        return
    yield from caching.barrier(step)
    named = False
    broken = step.reading.break_ is not None or step.reading.relation == "compacted"
    for check in CAUSES if broken else ():
        said = tuple(check(step))
        if said:
            further = tuple(_further(step, said[0])) if check is not compaction.compaction else ()
            found = (*(_without(f, further) for f in said), *further)
            yield from (costless(step, f) if isinstance(f, Finding) else f for f in found)
            named = any(isinstance(s, Finding) for s in said)
            if check is compaction.compaction and compaction.in_the_head(step):
                yield from _beside(step, said)
            break
    if not named:
        yield from caching.remaining(step)


def _beside(step: Step, said: Sequence[Finding | NotChecked]) -> Iterator[Finding | NotChecked]:
    """What broke tools or system prompt when the history gave way to a summary: it lost what the summary left."""
    rest = (tuple(check(step)) for check in CAUSES if check is not compaction.compaction)
    kept = sum(f.tokens for f in said if isinstance(f, Finding))
    for found in next((found for found in rest if found), ()):
        yield replace(found, tokens=max(0, found.tokens - kept)) if isinstance(found, Finding) else found


def _further(step: Step, first: Finding | NotChecked) -> Iterator[Finding]:
    """What changed behind the first break, too: it lost what mending the first alone would not bring back."""
    at, access = step.reading.break_, step.reading.access
    if at is None or at.then is None or access is None or not isinstance(first, Finding):
        return
    own = access._replace(lost=access.further, behind=0)
    behind = replace(step, reading=step.reading._replace(break_=at.then, access=own))
    said = next((found for check in FURTHER if (found := tuple(check(behind)))), ())
    yield from (f for f in said if isinstance(f, Finding))


def _without(found: Finding | NotChecked, further: Sequence[Finding]) -> Finding | NotChecked:
    """Less what ``further`` lost of it."""
    if not further or not isinstance(found, Finding):
        return found
    return replace(found, tokens=max(0, found.tokens - sum(f.tokens for f in further)))


def _confirmed(step: Step) -> Iterator[Finding]:
    """The provider has said what it was: what is found in the text stands where it is the same, else its word does."""
    said = (found for check in CAUSES for found in check(step) if isinstance(found, Finding))
    first = next(said, None)
    if first is not None and caching.agrees(step, first):
        yield replace(first, evidence="confirmed")
    else:
        yield from caching.confirmed(step)


CHECKS: tuple[Check, ...] = (
    compared.not_seen,
    cause,
    caching.behind,
    window.window_exceeded,
    window.headroom_low,
    window.growth_spike,
    compaction.compaction_loop,
    quality.unrecorded,
    quality.cached_missing,
    quality.usage_inconsistent,
    quality.double_instrumentation,
)

__all__ = [
    "CAUSES",
    "CHECKS",
    "Blame",
    "Check",
    "Gap",
    "Lost",
    "Step",
    "as_it_stands",
    "blame",
    "fix_for",
    "fix_for_double",
    "gaps",
    "gather",
    "hindsight",
    "ranked",
    "switch_of",
    "unknown_cache_rule",
    "unknown_dialects",
    "unpaired",
    "unpriced_model",
]
