"""Why a prompt stopped agreeing with the one before it: text that changed, moved or was replaced."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.findings.loss import UNSEEN, known_by_hash, loss_of, too_short
from otel_ctx.findings.marking import marking_of
from otel_ctx.findings.step import Step, rest_of
from otel_ctx.findings.volatile import Difference, excerpt, recognise
from otel_ctx.model import Break, Call, Finding, Segment
from otel_ctx.parts import loads

_DRIFT = 32  # characters by which a place moves when values in front of it, or its own beginning, change
# What may change once in a while; a clock time, an id or a hash does not.
_SLOW = ("a date", "a number", "a counter")
_HELD = 3


# ---- causes, the most specific first (the order stands in ``otel_ctx.findings``)


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
        fix=marking_of(step.call).own or f"{_advice(at)} {_behind(step)}",
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
    if at.before is not None and any(s.digest == at.before.digest for s in rest_of(step.call, at)):
        return  # it has moved
    loss = loss_of(step, at)
    yield Finding(
        kind="evicted_content",
        severity="info",
        title="Content that had been sent was left out",
        detail=f"What stood at {_old_path(at)} in the request before is gone.",
        fix=marking_of(step.call).own
        or (
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
        fix=marking_of(step.call).own
        or f"Leave what was sent where it is; reminders belong into the newest message only. {_behind(step)}",
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
        fix=marking_of(step.call).own
        or f"Send again what was sent, unchanged, and add what is new at the end. {_behind(step)}",
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
    rest = rest_of(call, at)
    place = next((i for i, s in enumerate(rest) if s.digest == at.before.digest), 0)
    answers = {s.digest for s in old.answer}
    return any(s.digest in answers or s.kind in ("assistant", "tool_call") for s in rest[:place])


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


def _behind(step: Step) -> str:
    """What a change costs with this provider, and where changing text may stand."""
    call, rules = step.call, step.rules
    if step.rule is None:
        marker = rules.marker(call.platform) or rules.marker(call.provider)
    else:  # what serves the model says it, not whose platform it is: Claude on Vertex AI
        marker = rules.marker(step.rule.provider) or "marker" if step.engine == "breakpoint" else ""
    if marker:
        rest = "all that follows it" if marker == "cachePoint" else "all after it"
        return f"Whatever changes must stand behind the last {marker}: {rest} is billed again."
    if call.provider:
        return "This provider caches the longest unchanged beginning by itself: all after a change is billed again."
    return "Prompt caches hold an unchanged beginning only: all that follows a change is billed again."
