"""What of a prompt could not be compared with the one before it, and differences that prove nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otel_ctx.findings.loss import known_by_hash, loss_of
from otel_ctx.findings.step import Step
from otel_ctx.findings.switches import Lost, switch_of
from otel_ctx.model import Break, Call, NotChecked, Reason, told_otherwise
from otel_ctx.parts import is_mask, masked_at

_CUT_MARK = re.compile(
    r"\s*(?:\.\.\.|…)?\s*(?:[\[(<]?\s*(?:truncated|cut off|clipped)\b.{0,60})?\s*", re.I | re.S
)
_INTO_MARK = 4  # characters of a mark that a text which goes on may share with it: a dot, a bracket
_CUT_TAIL = 96  # characters at the end of a text that was cut which may be the mark of the cut

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


def not_seen(step: Step) -> Iterator[NotChecked]:
    """Says once what of the prompt could not be compared, and why."""
    call, old = step.call, step.compared
    mine, at = call.completeness, step.reading.break_
    if at is not None and known_by_hash(at):
        return
    if not mine.text_seen:
        yield NotChecked("prefix_changed", _why(call), (call.id,))
        return
    if old is None:
        if step.reading.handed_over:
            yield NotChecked("prefix_changed", _ANOTHERS, (call.id,))
        return
    if not old.completeness.text_seen:
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
    unsure = not lost and any(r in _WHY for r in (*mine.reasons, *old.completeness.reasons))
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
