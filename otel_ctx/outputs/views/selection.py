"""Part of an analysis: some conversations, agents, turns, traces, services, models, or what is new.

Several values of one selector are alternatives; several selectors all hold. ``*`` and ``?`` stand for anything, as in the
names of files. What cannot be met raises SettingError, which says what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase

from otel_ctx.errors import SettingError
from otel_ctx.model import SECOND, Analysis, Conversation, Finding, Reading

_NAMED = 5  # of what there is, in a message
_TRACE = re.compile(r"[0-9a-f]{32}")
_SESSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHORTEST = 4  # characters of an id that are enough
_OF_ONE_CALL = ("duplicate_content",)  # kinds whose tokens are those of each call
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST = 100 * 366 * 86_400  # seconds; a longer time before the newest call is a slip of the keyboard


@dataclass(frozen=True, slots=True)
class Selection:
    """``conversation``: its number (from 1, in the order of their starts), the beginning of its id, or its service or agent;
    ``turn``: ``8``, ``3-8``, ``3-``, ``-1`` (the last, of each conversation); ``trace``: the beginning of an id;
    ``since``: a time (ISO 8601, UTC where it names no zone) or how long before the newest call (``90s``, ``2h``, ``1d``)."""

    conversation: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    turn: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    since: str = ""

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))


def select(analysis: Analysis, selection: Selection) -> Analysis:
    """The calls that ``selection`` names, their conversations narrowed to them, and the findings that concern them.

    A finding that concerns other calls too keeps only what the selected ones lost, where that is known call by call."""
    if not selection:
        return analysis
    chosen = list(analysis.readings)
    for name, keep in _filters(analysis, selection):
        kept = [r for r in chosen if keep(r)]
        if chosen and not kept:
            raise SettingError(_nothing(name, getattr(selection, name), chosen))
        chosen = kept
    return narrowed(analysis, chosen)


def narrowed(analysis: Analysis, chosen: Sequence[Reading]) -> Analysis:
    """``analysis`` as if it had no calls but ``chosen``; what was read and not understood stays what it was."""
    if len(chosen) == len(analysis.readings):
        return analysis
    by_id = {r.call.id: r for r in chosen}
    conversations = (_of(c, [by_id[i] for i in c.calls if i in by_id]) for c in analysis.conversations)
    found = (_found(f, [by_id[i] for i in f.calls if i in by_id]) for f in analysis.findings)
    unchecked = (replace(n, calls=tuple(i for i in n.calls if i in by_id)) for n in analysis.not_checked)
    return replace(
        analysis,
        readings=tuple(chosen),
        conversations=tuple(c for c in conversations if c.calls),
        findings=tuple(f for f in found if f.calls),
        not_checked=tuple(n for n in unchecked if n.calls),
        libraries=analysis.libraries_of(by_id),
    )


def _of(whole: Conversation, readings: Sequence[Reading]) -> Conversation:
    if len(readings) in (0, len(whole.calls)):
        return replace(whole, calls=()) if not readings else whole
    depths = [r.context.usage for r in readings if r.context.usage is not None]
    last = readings[-1].context
    ends_as_before = readings[-1].call.id == whole.calls[-1]
    return replace(
        whole,
        calls=tuple(r.call.id for r in readings),
        services=_names(r.call.service for r in readings),
        agents=_names(r.call.agent for r in readings),
        models=_names(r.call.model for r in readings),
        usage_peak=max(depths, default=None),
        usage_last=depths[-1] if depths else None,
        limit=last.limit,
        headroom=last.headroom,
        headroom_turns=last.headroom_turns,
        band=last.band,
        gaps=sum(r.gap for r in readings),
        saved_by_restarting=whole.saved_by_restarting if ends_as_before else None,
        savings=None,  # the cheapest lifetime and what is written anew are those of all its calls
        part=True,
    )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, names)))


def _found(whole: Finding, readings: Sequence[Reading]) -> Finding:
    if len(readings) == len(whole.calls):
        return whole
    suffering = [r for r in readings if r.cause == whole.kind and r.wasted]
    priced = [r.cost.wasted for r in suffering if r.cost is not None and r.cost.wasted is not None]
    return replace(
        whole,
        calls=tuple(r.call.id for r in readings),
        tokens=whole.tokens if whole.kind in _OF_ONE_CALL else sum(r.wasted for r in suffering),
        usd=sum(priced) if priced else None,
        detail=f"{whole.detail} (All of that concerns {len(whole.calls):,} calls, of which {len(readings):,} are selected.)",
    )


# ---- which calls

Keep = Callable[[Reading], bool]


def _filters(analysis: Analysis, selection: Selection) -> Iterable[tuple[str, Keep]]:
    if selection.conversation:
        ids = {c.id for given in selection.conversation for c in conversations_named(analysis, given)}
        yield "conversation", lambda r: r.conversation in ids
    if selection.agent:
        yield "agent", lambda r: _matches(r.call.agent, selection.agent)
    if selection.service:
        yield "service", lambda r: _matches(r.call.service, selection.service)
    if selection.model:
        yield "model", lambda r: _matches(r.call.model, selection.model)
    if selection.trace:
        traces = tuple(t.lower() for t in selection.trace)
        yield "trace", lambda r: any(s.trace_id.startswith(traces) for s in r.call.spans)
    if selection.turn:
        spans = [turns(given) for given in selection.turn]
        ends: dict[str, int] = {}
        for r in analysis.readings:
            ends[r.conversation] = max(r.turn, ends.get(r.conversation, 0))
        yield "turn", lambda r: any(_within(r.turn, span, ends[r.conversation]) for span in spans)
    if selection.since:
        start = since(selection.since, max((r.call.start_unix_nano for r in analysis.readings), default=0))
        yield "since", lambda r: r.call.start_unix_nano >= start


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


def conversations_named(analysis: Analysis, given: str) -> list[Conversation]:
    """Those that ``given`` may mean, one at least. Raises SettingError where there is none."""
    every = analysis.conversations
    if given.isdecimal() and 0 < int(given) <= len(every):
        return [every[int(given) - 1]]
    wanted = given.removeprefix("#")
    found = []
    if len(wanted) >= _SHORTEST:
        found = [c for c in every if _begins(c.id, wanted)]
    if not found:
        found = [c for c in every if mark(c.id) == f"#{wanted}"]
    if not found:
        found = [c for c in every if any(_matches(n, (given,)) for n in (*c.services, *c.agents))]
    if not found:
        raise SettingError(f"no conversation {given!r}; {_nearest(every, given)}")
    return found


def _begins(id_: str, wanted: str) -> bool:
    trace, _, span = wanted.partition(":")
    if id_.startswith(wanted) or id_.endswith(f"/{wanted}"):
        return True
    own_trace, _, own_span = id_.partition(":")
    return bool(span) and own_trace.startswith(trace) and own_span.startswith(span)


def _nearest(every: Sequence[Conversation], given: str) -> str:
    """What there is, the likest first: numbers, ids and names."""
    told = {f"{n} ({label(c)})": c for n, c in enumerate(every, 1)}
    if not told:
        return "there is none at all"
    names = {name: t for t, c in told.items() for name in (c.id, *c.services, *c.agents)}
    close = get_close_matches(given, names, _NAMED, 0.4)
    near = list(dict.fromkeys(names[name] for name in close)) or list(told)[:_NAMED]
    more = len(told) - len(near)
    rest = f" and {more:,} more, which `otelctx conversations` lists" if more else ""
    return f"{'the nearest are' if close else 'there are'} {', '.join(near)}{rest}"


def label(conversation: Conversation) -> str:
    """Its names, and its mark."""
    return " ".join((*conversation.services[:1], *conversation.agents[:1], mark(conversation.id)))


def mark(id_: str) -> str:
    """Of a conversation's id enough to tell it from its neighbours and to ask for it: the beginnings of trace and span; of
    a session the beginning, of a response in it the end, for all begin with the same letters; of a file the end."""
    first, _, second = id_.partition(":")
    if second and _TRACE.fullmatch(first):
        return f"#{first[:8]}:{second[:4]}"
    if second and _SESSION.fullmatch(first):
        return f"#{first[:8]}:{second[-4:]}"
    return f"#{id_[-24:]}"


def turns(given: str) -> tuple[int, int | None]:
    """``8``, ``3-8``, ``3-``, ``-8`` (the last eight). Counted from the end where the first is negative."""
    match = re.fullmatch(r"(\d+)(?:(-|\.\.)(\d*))?|-(\d+)", given.strip())
    if match is None or given.strip() in ("0", "-0"):
        raise SettingError(f"turn {given!r} is none: 8, 3-8, 3- (to the last) and -2 (the last two) are")
    first, to, last, end = match.groups()
    if end:
        return -int(end), None
    low, high = int(first), int(last) if last else None
    if not to:
        high = low
    if high is not None and high < low:
        raise SettingError(f"turn {given!r}: the last comes before the first")
    return low, high


def _within(turn: int, span: tuple[int, int | None], last: int) -> bool:
    low, high = span
    if low < 0:
        return turn > last + low
    return low <= turn and (high is None or turn <= high)


def since(given: str, newest: int) -> int:
    """The time in ns. ``newest``: of the newest call, from which durations are counted back."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", given.strip())
    if match:
        seconds = float(match[1]) * _UNITS[match[2]]
        if seconds > _LONGEST:
            raise SettingError(f"since {given!r} is longer than 100 years: no call is that old")
        return newest - round(seconds * SECOND)
    try:
        at = datetime.fromisoformat(given.strip())
    except ValueError:
        raise SettingError(
            f"since {given!r} is no time: 2026-11-30T12:00 is one, 2h (before the newest call) another"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * SECOND)


# ---- nothing

_VALUES: dict[str, Callable[[Reading], str]] = {
    "agent": lambda r: r.call.agent,
    "service": lambda r: r.call.service,
    "model": lambda r: r.call.model,
    "trace": lambda r: r.call.trace_id,
    "turn": lambda r: str(r.turn),
}


def _nothing(name: str, given: Sequence[str] | str, before: Sequence[Reading]) -> str:
    """What the selectors before it have left, the likest first."""
    wanted = given if isinstance(given, str) else ", ".join(given)
    if name == "since":
        newest = max(r.call.start_unix_nano for r in before)
        at = datetime.fromtimestamp(newest // SECOND, UTC)
        return f"since {wanted}: no call; the newest started {at:%Y-%m-%dT%H:%M:%S}Z"
    if name not in _VALUES:
        return f"{name} {wanted!r}: no call"
    if name == "turn":
        return f"turn {wanted}: no call; the last turn is {max(r.turn for r in before):,}"
    known = list(dict.fromkeys(filter(None, map(_VALUES[name], before))))
    if not known:
        return f"{name} {wanted!r}: no call; none names its {name}"
    near = get_close_matches(wanted, known, _NAMED, 0.4) or known[:_NAMED]
    more = f" and {len(known) - len(near):,} more" if len(known) > len(near) else ""
    return f"{name} {wanted!r}: no call; there are {', '.join(near)}{more}"
