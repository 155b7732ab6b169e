"""Why a prompt stopped agreeing with the one before it: text that changed, moved or was replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile

from otel_ctx.findings.loss import UNSEEN, known_by_hash, loss_of, too_short
from otel_ctx.findings.step import Step
from otel_ctx.findings.switches import Lost, switch_of
from otel_ctx.findings.volatile import Difference, excerpt, recognise
from otel_ctx.model import Break, Call, Finding, NotChecked, Reason, Segment, told_otherwise
from otel_ctx.parts import is_mask, loads, masked_at
from otel_ctx.parts.texts import adds_summary, is_summary, says_summary

_DRIFT = 32  # characters by which a place moves when values in front of it, or its own beginning, change
_SUMMARY_TOKENS = 40  # less is a placeholder
_LOOP, _LOOP_TURNS = 3, 12  # so many compactions in so many turns are a loop
_REPLACED = 4  # segments that a summary replaces, at least
_CUT_MARK = re.compile(
    r"\s*(?:\.\.\.|…)?\s*(?:[\[(<]?\s*(?:truncated|cut off|clipped)\b.{0,60})?\s*", re.I | re.S
)
_INTO_MARK = 4  # characters of a mark that a text which goes on may share with it: a dot, a bracket
_CUT_TAIL = 96  # characters at the end of a text that was cut which may be the mark of the cut
_SLOW = (
    "a date",
    "a number",
    "a counter",
)  # what may change once in a while; a clock time, an id or a hash does not
_HELD = 3
_NOTHING: tuple[Segment, ...] = ()

_ANOTHERS = (
    "the system prompt is another one than before: a change, or another agent's, and no agent is named"
)

_WHY: dict[Reason, tuple[str, Lost | None]] = {
    "attributes_dropped": ("the span lost attributes to its limit", "attributes"),
    "value_cut": ("a value was cut at its length limit", "cut"),
    "message_cut": ("messages were cut when they were recorded", "cut"),
    "redacted": ("contents are masked", "masked"),
    "logs_missing": ("the contents are in log records that were not given", "logs"),
    "reference_missing": ("the contents are stored elsewhere and were not given", "reference"),
    "server_side": ("the history is kept on the provider's server", None),
    "aggregate_only": ("only a sum over several calls is recorded", None),
    "not_captured": ("contents were not recorded", "content"),
    "unparsable": ("the recorded contents could not be read", None),
    "late": ("contents came too late", None),
}
"""Why text was not seen, in words, and which switch mends it. The first that applies is named."""


# ---- what could not be compared


def not_seen(step: Step) -> Iterator[NotChecked]:
    """Says once what of the prompt could not be compared, and why."""
    call, old = step.call, step.compared
    mine, at = call.completeness, step.reading.break_
    if at is not None and known_by_hash(at):
        return
    if mine.status in ("usage_only", "none"):
        yield NotChecked("prefix_changed", _why(call), (call.id,))
        return
    if old is None:
        if step.reading.handed_over:
            yield NotChecked("prefix_changed", _ANOTHERS, (call.id,))
        return
    if old.completeness.status in ("usage_only", "none"):
        yield NotChecked("prefix_changed", f"of the call before: {_why(old)}", (call.id,))
        return
    lost = mine.lost | old.completeness.lost
    damaged = call if mine.lost or mine.status == "partial" else old
    if told_otherwise(old, call):
        yield NotChecked("tools_changed", "two libraries tell of the tools, each in its own way", (call.id,))
    if "tools" in lost:
        whose = call if "tools" in mine.lost else old
        yield NotChecked("tools_changed", _why_tools(whose), (call.id,))
    hidden = lost & {"system", "messages", "head"}
    unsure = not lost and any(r in _WHY for c in (call, old) for r in c.completeness.reasons)
    if (hidden or unsure) and (at is None or "system" in lost):
        yield NotChecked("prefix_changed", _why(damaged), (call.id,))


def _why(call: Call) -> str:
    reasons = call.completeness.reasons
    words, lost = next((_WHY[r] for r in _WHY if r in reasons), ("part of the prompt was not seen", None))
    if lost == "content" and call.completeness.status == "partial":
        words, lost = "part of the prompt was not recorded", "part"
    if lost == "cut" and call.cut_by:
        words, lost = "the format of the dump keeps only a part of it", "format"
    return f"{words}. {switch_of(lost, call)}" if lost else words


def _why_tools(call: Call) -> str:
    """Tools may be missing for a reason of their own, or for that of all contents."""
    reasons = call.completeness.reasons
    for reason in ("attributes_dropped", "value_cut", "redacted", "reference_missing"):
        if reason in reasons and "schema_missing" not in reasons:
            return _why(call)
    return f"tool definitions were not recorded. {switch_of('tools', call)}"


def doubtful(step: Step) -> Iterator[NotChecked]:
    """A difference that proves nothing: a mask, text restored from an answer, or a cache that read past it."""
    at, id_ = step.reading.break_, step.call.id
    if at is None:
        return
    sides = [s for s in (at.before, at.after) if s is not None]
    check = "tools_changed" if at.kind == "tools" else "prefix_changed"
    if any(is_mask(step.text(s.digest) or "") for s in sides):
        fix = switch_of("masked", step.call)
        yield NotChecked(check, f"contents are masked. {fix}", (id_,))
    elif any(s.method == "unmeasured" and s.kind == "thinking" for s in sides):
        yield NotChecked(check, "the text that differs was not recorded", (id_,))
    elif _at_a_mask(step, at):
        fix = switch_of("masked", step.call)
        yield NotChecked(check, f"words are masked where the texts differ. {fix}", (id_,))
    elif _at_a_cut(step, at):
        yield NotChecked(check, "the text differs where it was cut when it was recorded", (id_,))
    elif any(s.inferred for s in sides):
        yield NotChecked(check, "the text that differs was restored from an earlier answer", (id_,))
    elif loss_of(step, at).denied:
        yield NotChecked(
            check,
            "the provider read more from its cache than the recorded text allows: it may not be what was sent",
            (id_,),
        )


def _at_a_mask(step: Step, at: Break) -> bool:
    """One of the texts has a mask where they differ, so that what stood there is not known."""
    if at.change != "modified" or at.char_offset is None:
        return False
    before, after = ((step.text(s.digest) or "") if s is not None else "" for s in (at.before, at.after))
    return masked_at(before, after, at.char_offset)


def _at_a_cut(step: Step, at: Break) -> bool:
    """A text goes on where the other ends in a mark of a cut; or values were cut, and the difference lies where such a cut
    would: at the end of a text, or in the last one."""
    texts = [step.text(s.digest) or "" for s in (at.before, at.after) if s is not None]
    if at.change == "modified" and at.char_offset is not None and len(texts) == 2:
        shorter = min(texts, key=len)
        starts = range(at.char_offset, max(0, at.char_offset - _INTO_MARK), -1)
        if shorter[at.char_offset :].strip() and any(_CUT_MARK.fullmatch(shorter, i) for i in starts):
            return True
    calls = [c for c in (step.call, step.compared) if c is not None]
    if not any({"value_cut", "message_cut"} & set(c.completeness.reasons) for c in calls):
        return False
    if any(at.index == len(c.prompt) - 1 for c in calls):
        return True
    sides = [s for s in (at.before, at.after) if s is not None]
    return at.char_offset is not None and any(
        len(step.text(s.digest) or "") - at.char_offset <= _CUT_TAIL for s in sides
    )


# ---- causes, the most specific first (the order stands in ``otel_ctx.findings``)


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
    start = adds_summary(before, after)
    if start is None or after[at.char_offset : start].strip():  # what differs first is something else
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
    a, b = _histories(old, step.call) if _is_head(at) else (_rest(old, at), _rest(step.call, at))
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


def volatile_prefix(step: Step) -> Iterator[Finding]:
    """A value that changes at the same place from call to call, wherever it stands."""
    at = step.reading.break_
    if at is None or at.change != "modified" or at.before is None or at.after is None:
        return
    found = _difference(step, at)
    if found is None:
        return
    again = _differed_before(step, at) and not _another_tool(at)
    what = found.what or ("a value of no known class" if again else "")
    if not what or (what in _SLOW and _held_before(step, at)):
        return
    loss = loss_of(step, at)
    harmless = too_short(step, loss)
    yield Finding(
        kind="volatile_prefix",
        severity="info" if harmless else "error",
        title=f"{_holder(at)} contains a value that changes between requests",
        detail=f"{at.path} holds {what} that changes, from character {found.start} on.{harmless}",
        fix=f"{_advice(at)} {_behind(step)}",
        calls=(step.call.id,),
        path=at.path,
        tokens=loss.tokens,
        evidence=loss.evidence,
        excerpt=_excerpt(step, at, found),
    )


def _another_tool(at: Break) -> bool:
    """Another tool stands there: nothing in it changed, it was exchanged."""
    return (
        at.kind == "tools"
        and at.before is not None
        and at.after is not None
        and at.before.name != at.after.name
    )


def evicted_content(step: Step) -> Iterator[Finding]:
    """Old content that is gone from the front or the middle; what came after it is still there."""
    at = step.reading.break_
    if at is None or at.kind == "tools" or not at.path.startswith("messages"):
        return
    if at.change != "removed" and not _answers(step, at.after):
        return
    if at.before is not None and any(s.digest == at.before.digest for s in _rest(step.call, at)):
        return  # it has moved
    loss = loss_of(step, at)
    yield Finding(
        kind="evicted_content",
        severity="info",
        title="Content that had been sent was left out",
        detail=f"What stood at {_old_path(at)} in the request before is gone.",
        fix=(
            "Each cut makes the provider read all that follows it anew: cut seldom and much at once, and from the end of "
            f"the prompt where that can be. {_behind(step)}"
        ),
        calls=(step.call.id,),
        path=at.path,
        tokens=loss.tokens,
        evidence=loss.evidence,
    )


def moved_segment(step: Step) -> Iterator[Finding]:
    """Content that is still there, at another place."""
    at, old = step.reading.break_, step.compared
    if at is None or old is None or at.kind == "tools":
        return
    if at.change != "reordered" and not _slid_back(step.call, old, at):
        return
    loss = loss_of(step, at)
    yield Finding(
        kind="moved_segment",
        severity="warning",
        title="Content moved to another place in the prompt",
        detail=f"What stood at {_old_path(at)} in the request before stands further back now.",
        fix=f"Leave what was sent where it is; reminders belong into the newest message only. {_behind(step)}",
        calls=(step.call.id,),
        path=at.path,
        tokens=loss.tokens,
        evidence=loss.evidence,
    )


def prefix_changed(step: Step) -> Iterator[Finding]:
    """What is left: text that was sent before is different, gone, or has something new in front of it."""
    at = step.reading.break_
    if at is None or at.kind == "tools":
        return
    loss = loss_of(step, at)
    found = _difference(step, at)
    title, detail = _change(step, at, found)
    yield Finding(
        kind="prefix_changed",
        severity="warning",
        title=title,
        detail=detail,
        fix=f"Send again what was sent, unchanged, and add what is new at the end. {_behind(step)}",
        calls=(step.call.id,),
        path=at.path,
        tokens=loss.tokens,
        evidence=loss.evidence,
        excerpt=_excerpt(step, at, found) if found is not None else "",
    )


# ---- what differs


def _difference(step: Step, at: Break) -> Difference | None:
    """What differs at the break; None where it is no change of one text, or the texts are not kept."""
    if at.before is None or at.after is None or at.char_offset is None:
        return None
    before, after = step.text(at.before.digest), step.text(at.after.digest)
    return recognise(before, after, at.char_offset) if before is not None and after is not None else None


def _excerpt(step: Step, at: Break, found: Difference) -> str:
    before, after = (step.text(s.digest) if s is not None else None for s in (at.before, at.after))
    return excerpt(before, after, found) if before is not None and after is not None else ""


def _held_before(step: Step, at: Break) -> bool:
    """Did the place hold for several requests and change for the first time now? Then it changes now and then."""
    return step.reading.turn > _HELD and not any(b.path == at.path for b in step.breaks)


def _differed_before(step: Step, at: Break) -> bool:
    """Did this place change already, and not back and forth between texts that were there before?"""
    here = [b for b in step.breaks if b.path == at.path and b.change == "modified"]
    seen = {s.digest for b in here for s in (b.before, b.after) if s is not None}
    if at.after is None or at.char_offset is None or at.after.digest in seen:
        return False
    return any(b.char_offset is not None and abs(b.char_offset - at.char_offset) <= _DRIFT for b in here)


def _slid_back(call: Call, old: Call, at: Break) -> bool:
    """A block that is kept behind the newest turn: the model's last answer now stands in front of it."""
    if at.change != "added" or at.before is None:
        return False
    rest = _rest(call, at)
    place = next((i for i, s in enumerate(rest) if s.digest == at.before.digest), 0)
    answers = {s.digest for s in old.answer}
    return any(s.digest in answers or s.kind in ("assistant", "tool_call") for s in rest[:place])


def _rest(call: Call, at: Break) -> Sequence[Segment]:
    """The call's own segments from the break on; the other call may have lost sections that this one has."""
    segments = list(call.prompt)
    places = (i for i, s in enumerate(segments) if s is at.before or s is at.after)
    return segments[next(places, len(segments)) :]


def _change(step: Step, at: Break, found: Difference | None) -> tuple[str, str]:
    if at.change == "added":
        return (
            "New content was put in front of what had been sent",
            f"{at.path} is new; what stood there in the request before follows behind it.",
        )
    if at.change == "removed":
        return "Content that had been sent was left out", f"What stood at {_old_path(at)} is gone."
    title = f"{_holder(at)} changed"
    if known_by_hash(at):
        return title, f"{UNSEEN} The text itself was not given."
    if found is None:
        return title, f"{at.path} is not what it was in the request before."
    same = " The values are the same, only written differently." if _same_json(step, at) else ""
    return title, f"{at.path} differs from the request before, from character {found.start} on.{same}"


def _answers(step: Step, segment: Segment | None) -> bool:
    """Is it the answer to the request before? Then what stood in its place was dropped, not changed."""
    answer = step.compared.answer if step.compared is not None else ()
    return segment is not None and any(s.digest == segment.digest for s in answer)


def _old_path(at: Break) -> str:
    return at.before.path if at.before is not None else at.path


def _same_json(step: Step, at: Break) -> bool:
    texts = [step.text(s.digest) or "" for s in (at.before, at.after) if s is not None]
    if any(t[:1] not in ("{", "[") for t in texts):
        return False
    try:
        before, after = (loads(t) for t in texts)
    except ValueError:
        return False
    return bool(before == after)


# ---- words


_HOLDERS = {
    "tools": "A tool's definition", "system": "System prompt", "user": "An earlier user message",
    "assistant": "An earlier answer", "tool_call": "An earlier tool call", "tool_result": "An earlier tool result",
    "image": "An earlier image", "file": "An earlier file", "thinking": "Earlier thinking",
}  # fmt: skip


def _holder(at: Break) -> str:
    if at.kind == "system" and at.path.startswith("messages[") and not at.path.startswith("messages[0]"):
        return "A system message"
    return _HOLDERS[at.kind]


def _advice(at: Break) -> str:
    """A value that is put into the newest message of each call, and taken out of it again, changes there as well."""
    if at.kind not in ("tools", "system"):
        return "Write the value once, when the message is new, and send that message again as it was."
    holder = "tool's definition" if at.kind == "tools" else "system prompt"
    return (
        f"Take the value out of the {holder}. Where the model needs it, write it once into a user message, when that is "
        "new, and send that message again as it was."
    )


_BREAKPOINTS = ("anthropic", "bedrock", "aws", "claude-platform-aws")


def _behind(step: Step) -> str:
    """What a change costs with this provider, and where changing text may stand."""
    provider, platform = step.call.provider.lower(), step.call.platform.lower()
    by_rule = (
        step.engine == "breakpoint"
    )  # what serves the model says it, not whose platform it is: Claude on Vertex AI
    if not step.engine:
        by_rule = provider in _BREAKPOINTS or platform in _BREAKPOINTS
    if by_rule and "bedrock" in (provider, platform):
        return "Whatever changes must stand behind the last cachePoint: all that follows it is read again."
    if by_rule:
        return "Whatever changes must stand behind the last cache_control breakpoint: all after it is read again."
    if provider:
        return "This provider caches the longest unchanged beginning by itself: all after a change is read again."
    return "Prompt caches hold an unchanged beginning only: all that follows a change is read again."


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' if n != 1 else ''}"
