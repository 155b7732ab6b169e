"""History that gave way to a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from otel_ctx.findings.loss import loss_of
from otel_ctx.findings.step import Step, rest_of
from otel_ctx.model import Break, Call, Finding, Segment
from otel_ctx.parts.texts import adds_summary, is_summary, says_summary

_SUMMARY_TOKENS = 40  # less is a placeholder
_LOOP, _LOOP_TURNS = 3, 12  # so many compactions in so many turns are a loop
_REPLACED = 4  # segments that a summary replaces, at least
_NOTHING: tuple[Segment, ...] = ()


def compaction_loop(step: Step) -> Iterator[Finding]:
    """The window fills again right after each compaction."""
    turns = (*step.compactions, step.reading.turn)
    if len(turns) < _LOOP or turns[-1] - turns[-_LOOP] > _LOOP_TURNS or not any(compaction(step)):
        return
    yield Finding(
        kind="compaction_loop",
        severity="error",
        title="The conversation is compacted again and again",
        detail=f"{len(turns)} compactions, the last {_LOOP} within {turns[-1] - turns[-_LOOP]} turns.",
        fix="Let each compaction keep less, raise the size at which it starts, or make the tools' results shorter.",
        calls=(step.call.id,),
    )


def compaction(step: Step) -> Iterator[Finding]:
    """History that was replaced by a summary: the whole of it, or its older part."""
    old, at = step.compared, step.reading.break_
    if old is None:
        return
    if step.reading.relation == "compacted":
        gone, tail = old.prompt.messages.length, _NOTHING
    else:
        found = _summarised(step, old)
        if found is None:
            return
        gone, tail = found
    loss = loss_of(step, at) if at is not None else None
    lost = loss.tokens if loss is not None else 0
    if step.reading.access is None or in_the_head(step):  # what was not kept is no loss of the summary's
        lost = min(lost, round(sum(s.tokens or 0 for s in tail) * step.reading.tokens.factor))
    before, after = (c.usage.input for c in (old, step.call))
    sizes = f" The prompt went from {before:,} to {after:,} tokens." if before and after else ""
    first = step.call.prompt.messages.first
    here = at.path if at is not None else ""
    yield Finding(
        kind="compaction",
        severity="info",
        title="History was replaced by a summary",
        detail=f"{_count(gone, 'part')} of the history gave way to a summary.{sizes}",
        fix=(
            "Nothing, where it was meant. Each compaction makes the provider read the summary and what follows it "
            "anew: compact seldom, and leave tools and system prompt as they are."
        ),
        calls=(step.call.id,),
        path=first.path if in_the_head(step) and first is not None else here,
        tokens=lost,
        evidence=loss.evidence if loss is not None else "predicted",
    )


def in_the_head(step: Step) -> bool:
    """Do the prompts part in tools or system prompt already, and not by a summary that was put there?"""
    at = step.reading.break_
    return at is not None and _is_head(at) and not _in_system(step, at)


def _is_head(at: Break) -> bool:
    return at.kind == "tools" or (at.kind == "system" and at.path.startswith(("system", "messages[0]")))


def _in_system(step: Step, at: Break) -> int:
    """Tokens of a summary with which the system prompt goes on where the prompts part, 0 where there is none."""
    if at.after is None or at.after.kind != "system":
        return 0
    after, tokens = step.text(at.after.digest) or "", at.after.tokens or 0
    if at.change == "added":
        return tokens if is_summary(after) else 0
    before = step.text(at.before.digest) if at.before is not None else None
    if before is None or at.char_offset is None:
        return 0
    start = adds_summary(before, after, until=at.char_offset)  # else what differs first is something else
    if start is None:
        return 0
    return round(tokens * (1 - start / len(after)))


def _summarised(step: Step, old: Call) -> tuple[int, tuple[Segment, ...]] | None:
    """How many segments gave way to a few new ones, and the old ones that were kept behind them."""
    at = step.reading.break_
    if at is None:
        return None
    a: Sequence[Segment]
    b: Sequence[Segment]
    if not _is_head(at) and at.change == "reordered":
        return None
    a, b = _histories(old, step.call) if _is_head(at) else (rest_of(old, at), rest_of(step.call, at))
    places = {s.digest: i for i, s in reversed(list(enumerate(a)))}
    new = next((i for i, s in enumerate(b) if s.digest in places), None)
    apart = _in_system(step, at) if _is_head(at) else 0
    if new is None or not (apart or new) or new > 3:
        return None
    if any(s.kind not in ("system", "user", "assistant") for s in b[:new]):
        return None
    gone = places[b[new].digest]
    size, was = (sum(s.tokens or 0 for s in part) for part in (b[:new], a[:gone]))
    size += apart
    named = apart or any(says_summary(step.text(s.digest)) for s in b[:new])
    if gone < 1 or size < _SUMMARY_TOKENS:
        return None
    if not named and (gone < _REPLACED or size > was / 2):
        return None
    return gone, tuple(s for s in b[new:] if s.digest in places)


def _histories(old: Call, call: Call) -> tuple[Sequence[Segment], Sequence[Segment]]:
    """The messages of both behind the system prompt, from the first that differs on."""
    a, b = (list(dropwhile(lambda s: s.kind == "system", c.prompt.messages)) for c in (old, call))
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x.digest != y.digest), len(a))
    return a[same:], b[same:]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' if n != 1 else ''}"
