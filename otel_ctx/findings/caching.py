"""Why the provider's cache did not read what stood there unchanged: models, times, markers, settings, or the provider.

The simulation (``otel_ctx.cache``) says which; here it gets its words. Each cause is one table of ``caching.toml``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from otel_ctx.findings.loss import in_front
from otel_ctx.findings.marking import Marking, marking_of
from otel_ctx.findings.step import Step
from otel_ctx.findings.switches import switch_of
from otel_ctx.model import Access, Finding, Severity


@dataclass(frozen=True, slots=True)
class _Words:
    severity: Severity
    title: str
    detail: str
    fix: str


_CONFIRMED = "confirmed."
_UNPROMISED = "unpromised."  # where no lifetime is published
_BEFORE = "before."  # where this request was marked, and the one before was not
_BESIDE = "beside."  # where a change has another share of the loss
_OPEN = "open."  # where an entry may live so long
_SECTIONS = {
    "tools_changed": ("tools",), "system_changed": ("system",), "messages_changed": ("messages",),
    "input_changed": ("system", "messages"),
}  # fmt: skip
"""Where the prompt changed, by the provider's word."""
_NAMES = {"unknown": "unexplained_miss"}


@cache
def _said() -> Mapping[str, _Words]:
    text = files("otel_ctx.findings").joinpath("caching.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    apart = {
        f"{how}{cause}": words
        for how in (_CONFIRMED, _UNPROMISED, _BEFORE, _BESIDE, _OPEN)
        for cause, words in tables.pop(how[:-1]).items()
    }
    return {cause: _Words(**words) for cause, words in {**tables, **apart}.items()}


# ---- the provider's own word


def is_confirmed(step: Step) -> bool:
    access = step.reading.access
    return access is not None and access.sure == "confirmed"


def agrees(step: Step, found: Finding) -> bool:
    """Does what was found in the text lie where the provider says that the prompt changed?"""
    access, at = step.reading.access, step.reading.break_
    if access is None or at is None:
        return False
    if access.otherwise == "compaction":
        return found.kind in ("compaction", "evicted_content")
    section = at.kind if at.kind in ("tools", "system") else "messages"
    return section in _SECTIONS.get(access.note, ())


def confirmed(step: Step) -> Iterator[Finding]:
    access = step.reading.access
    if access is not None:
        yield _finding(step, access, access.otherwise, _CONFIRMED)


# ---- what was worked out


def barrier(step: Step) -> Iterator[Finding]:
    """What no text could have helped."""
    access = step.reading.access
    if access is not None and access.barrier:
        yield _finding(step, access, access.barrier)


def breakpoint_before_change(step: Step) -> Iterator[Finding]:
    """The breakpoint stood behind text that is sent once only, so that no entry holds what came before it."""
    access = step.reading.access
    if access is None or access.otherwise != "breakpoint_before_change":
        return
    marking = marking_of(step.call)
    yield Finding(
        kind="breakpoint_before_change",
        severity="warning",
        title="A cache breakpoint stands behind text that changes",
        detail="The entry was written with text that the next request no longer has: nothing of it can be read.",
        fix=f"{marking.end}." if marking.own else _IN_FRONT,
        calls=(step.call.id,),
        path=step.reading.break_.path if step.reading.break_ is not None else "",
        tokens=access.lost - access.behind,
        evidence="inferred" if not step.call.prompt.marked() else "reported",
    )


def remaining(step: Step) -> Iterator[Finding]:
    """What is to blame where the text did not change, or cannot say."""
    access = step.reading.access
    if access is None or not access.lost or access.barrier:
        return
    cause = access.otherwise or (
        "unknown" if step.reading.break_ is not None and not access.simulated else ""
    )
    if cause in _said():
        yield _finding(step, access, cause)


def behind(step: Step) -> Iterator[Finding]:
    """Beside what broke the prefix: what stood behind the last marker would have been lost in any case, and what stood
    unseen in front of the break was lost for a reason of its own."""
    access = step.reading.access
    if access is not None and access.behind:
        there = (access.actual or 0) + access.behind
        own = access._replace(lost=access.behind, expected=there, behind=0, sure=access.aside)
        how = _BESIDE if f"{_BESIDE}{access.behind_cause}" in _said() else ""
        yield _finding(step, own, access.behind_cause, how)


def _finding(step: Step, access: Access, cause: str, how: str = "") -> Finding:
    """``how``: which of the words, where a cause has several."""
    if not how and f"{_UNPROMISED}{cause}" in _said() and access.ttl_seconds is None and not _lifetimes(step):
        how = _UNPROMISED
    usage = step.call.usage
    if not how and f"{_BEFORE}{cause}" in _said() and (usage.cache_read or usage.cache_write):
        how = _BEFORE
    if not how and f"{_OPEN}{cause}" in _said() and (access.gap_seconds or 0) <= (access.ttl_most or 0):
        how = _OPEN
    words, call = _said()[f"{how}{cause}"], step.call
    before = step.previous
    rule, marking = step.minimum, marking_of(call)
    values = {
        "model": call.model,
        "model_before": before.model if before is not None else "another",
        "gap": _span(access.gap_seconds),
        "ttl": _spans(access.ttl_seconds, access.ttl_most),
        "minimum": f"{rule:,}" if rule else "?",
        "lookback": str((step.rule.lookback_positions if step.rule is not None else None) or "?"),
        "note": access.note,
        "actual": f"{access.actual or 0:,}",
        "expected": f"{access.expected:,}",
        "before": f"{before.usage.input:,}" if before is not None and before.usage.input else "?",
        "total": f"{call.usage.input:,}" if call.usage.input else "?",
        "switch": _switch(step),
        "longer": _longer(step, access),
        "hour": marking.longer,
        "end": marking.end,
        "top": _top(step, marking),
        "routing": _routing(step),
        "both": _both(step, access, cause),
    }
    return Finding(
        kind=_NAMES.get(cause, cause),
        severity=words.severity,
        title=words.title,
        detail=words.detail.format(**values),
        fix=f"{marking.end}.{values['both']}"
        if marking.own and cause in _MARKED
        else f"{words.fix.format(**values)}{values['both'] if cause in _BARRIERS else ''}",
        calls=(call.id,),
        tokens=access.lost - access.behind,
        evidence=access.sure,
    )


_BOTH = " The prompt changes in front of it, too, as another finding says: mend both."
_DEARER = " A breakpoint alone costs more, as each request then writes what none can read."
_BARRIERS = ("ttl_expired", "ttl_lost", "model_switch")
_HALF = 0.5


def _both(step: Step, access: Access, cause: str) -> str:
    """Where the text has changed as well, what brings nothing back alone; with a blank in front, empty elsewhere."""
    if cause not in (*_BARRIERS, "no_cache_control") or not _changes_in_front(step, access):
        return ""
    fees = step.rule.write_multiplier.values() if step.rule is not None else ()
    return f"{_BOTH}{_DEARER if cause == 'no_cache_control' and any(n > 1 for n in fees) else ''}"


def _changes_in_front(step: Step, access: Access) -> bool:
    """Would less than half of what was lost be read if nothing but the markers were set?"""
    old, at = step.compared, step.reading.break_
    if old is None or at is None:
        return False
    return in_front(old, at) * step.reading.tokens.factor < _HALF * access.lost


_IN_FRONT = (
    "Set the breakpoint on the last block that will be sent again unchanged, in front of what changes."
)

_MARKED = (
    "no_cache_control",
    "frozen_breakpoint",
    "missing_tail_breakpoint",
    "below_minimum",
    "lookback_exceeded",
)
"""Causes that are mended at the markers."""


_KEY = "prompt_cache_key"  # the usual name, where no rule has another


def _routing(step: Step) -> str:
    """What keeps requests at one server, with a blank in front; empty where nothing of a request does."""
    names = step.rule.get("routing") if step.rule is not None else None
    if names == ():
        return ""
    return f" A stable {' or '.join(names or (_KEY,))} helps where the provider has one."


def _longer(step: Step, access: Access) -> str:
    """A lifetime that would have bridged the pause and how to ask for it, with a blank behind; or that there is none."""
    lifetimes = _lifetimes(step)
    if not lifetimes:
        return "Where such pauses are usual, ask for a longer lifetime if the provider offers one. "
    asked_by = (step.rule.get("ttl_asked_by") if step.rule is not None else None) or {}
    had, gap = access.ttl_seconds or 0, access.gap_seconds or 0
    for name, (least, most) in lifetimes.items():
        at_marker = marking_of(step.call).longer if (step.engine, name) == ("breakpoint", "1h") else None
        how = at_marker or asked_by.get(name)
        if how and least > had and gap < (most or least):
            unsure = (
                "" if gap < least else f": it may bridge them, as an entry then lives {_spans(least, most)}"
            )
            return f"Where such pauses are usual, ask for the longer lifetime ({how}){unsure}. "
    return "No lifetime that is offered bridges such a pause. "


def _top(step: Step, marking: Marking) -> str:
    """That the provider marks the end by itself, where it does and nothing but its own API stands before it."""
    automatic = step.rule is not None and step.rule.get("automatic_breakpoint")
    plain = marking.scopes == ("*",) and not marking.platform
    return ", or set cache_control at the top level of the request" if automatic and plain else ""


def _lifetimes(step: Step) -> Mapping[str, tuple[int, int | None]]:
    return step.rule.ttl_seconds if step.rule is not None else {}


def _switch(step: Step) -> str:
    call = step.call
    if not call.completeness.text_seen:
        return switch_of("content", call)
    if "value_cut" in call.completeness.reasons:
        return switch_of("format" if call.cut_by else "cut", call)
    if call.completeness.lost == {"tools"}:
        return switch_of("tools", call)
    return switch_of("part", call)


def _spans(least: float | None, most: float | None) -> str:
    """From the one to the other: "5 to 60 min"."""
    low, high = _span(least), _span(most)
    if least is None or most is None or low == high:
        return low
    return f"{low.removesuffix(high[high.index(' ') :])} to {high}"


def _span(seconds: float | None) -> str:
    """A time in words: "42 s", "7 min", "3.5 h", "24 h"."""
    if seconds is None:
        return "an unknown time"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{round(seconds / 3600, 1):g} h"
