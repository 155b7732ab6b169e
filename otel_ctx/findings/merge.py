"""The findings of single calls -> what is told: each cause once, with all the calls that suffer from it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from otel_ctx.model import SEVERITIES, Evidence, Finding, NotChecked, Reading

_DRIFT = 32  # characters by which one place may differ between two breaks
_EVIDENCE: tuple[Evidence, ...] = ("confirmed", "reported", "predicted", "inferred", "unknown")
_ONE_TEXT = ("prefix_changed", "tools_changed")
_ONE_HABIT = ("tools_reordered", "tool_schema_key_order")  # whichever tool it begins with, the same mends it
_WALKING = ("moved_segment", "breakpoint_before_change", "evicted_content", "prefix_changed")
_PLACES = 3  # in messages, of one of these: as many are a habit whose place walks on with the conversation
_STATE = "headroom_low"  # of which only the newest counts

_Key = tuple[str, ...]
_Place = tuple[str, str, str]


def gather(
    found: Sequence[tuple[Finding | NotChecked, Reading]],
    readings: Sequence[Reading] = (),
) -> tuple[tuple[Finding, ...], tuple[NotChecked, ...]]:
    """``found``: what the checks said, in the order of the calls; ``readings``: all of these.

    The same kind, title and path in the same service and agent is one finding, over all conversations: tools in another
    order are, wherever they begin, and so is what walks through the messages; how full the window is, is one for each
    conversation, as it stands at last. A change whose place turns out to hold a value that changes every time is part of
    that. The first call of a conversation is not among those that were not checked: nothing stands before it. The worst
    come first, then those that cost most."""
    volatile = _volatile_places(found)
    followed = {r.conversation for r in readings if r.turn > 1}
    groups: dict[_Key, list[Finding]] = defaultdict(list)
    unchecked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for said, reading in found:
        if isinstance(said, NotChecked):
            # A call that stands alone may continue one that nothing tells of; the first of several does not.
            if reading.relation == "new" and reading.conversation in followed:
                continue
            unchecked[(said.check, said.why)].extend(said.calls)
        elif said.kind == _STATE:
            groups[(said.kind, reading.conversation)].append(said)
        else:
            groups[_folded(said, reading, volatile) or _key(said, reading)].append(said)
    merged = [_merged(key, group) for key, group in _walked(groups).items()]
    return ranked(merged), tuple(
        NotChecked(check, why, tuple(dict.fromkeys(calls)))
        for (check, why), calls in sorted(unchecked.items())
    )


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, then those that cost most."""
    return tuple(
        sorted(
            findings,
            key=lambda f: (SEVERITIES.index(f.severity), -f.tokens, f.kind, f.title, f.path, f.calls),
        )
    )


def _key(f: Finding, reading: Reading) -> _Key:
    """Where no place in the prompt is meant, the agent says nothing, but another fix is another matter."""
    call = reading.call
    path = "" if f.kind in _ONE_HABIT else f.path
    return (f.kind, f.title, path, call.service, *((call.agent,) if f.path else ("", f.fix)))


def _walked(groups: Mapping[_Key, list[Finding]]) -> dict[_Key, list[Finding]]:
    """A reminder that is always put last stands further on in each call: one cause all the same."""
    places: dict[_Key, list[_Key]] = defaultdict(list)
    for key in groups:
        if key[0] in _WALKING and key[2].startswith("messages["):
            places[(*key[:2], "", *key[3:])].append(key)
    joined = {key: keys[0] for keys in places.values() if len(keys) >= _PLACES for key in keys}
    told: dict[_Key, list[Finding]] = defaultdict(list)
    for key, group in groups.items():
        told[joined.get(key, key)].extend(group)
    return told


def _place(f: Finding, reading: Reading) -> tuple[_Place, int | None]:
    at = reading.break_
    if at is not None and at.path != f.path:
        at = at.then
    path, offset = (at.path, at.char_offset) if at is not None and at.change == "modified" else ("", None)
    return (reading.call.service, reading.call.agent, path), offset


def _volatile_places(
    found: Sequence[tuple[Finding | NotChecked, Reading]],
) -> dict[_Place, list[tuple[int, _Key]]]:
    places: dict[_Place, list[tuple[int, _Key]]] = defaultdict(list)
    for said, reading in found:
        if isinstance(said, Finding) and said.kind == "volatile_prefix":
            place, offset = _place(said, reading)
            if offset is not None:
                places[place].append((offset, _key(said, reading)))
    return places


def _folded(f: Finding, reading: Reading, volatile: dict[_Place, list[tuple[int, _Key]]]) -> _Key | None:
    if f.kind not in _ONE_TEXT:
        return None
    place, offset = _place(f, reading)
    if offset is None:
        return None
    return next((key for known, key in volatile.get(place, ()) if abs(known - offset) <= _DRIFT), None)


def _merged(key: _Key, group: list[Finding]) -> Finding:
    own = [f for f in group if f.kind == key[0]]
    worst = min((f.severity for f in own), key=SEVERITIES.index)
    first = own[-1] if key[0] == _STATE else next(f for f in own if f.severity == worst)
    calls = tuple(dict.fromkeys(c for f in group for c in f.calls))
    detail = first.detail
    if key[0] != _STATE and any(f.detail != detail for f in own[1:]):
        detail = f"{detail} (The first of {len(calls):,} calls.)"
    losses = sorted(f.tokens for f in group if f.tokens)
    if losses:
        span = f"{losses[0]:,}" if losses[0] == losses[-1] else f"{losses[0]:,} to {losses[-1]:,}"
        each = f" in each of {len(losses):,} calls" if len(losses) > 1 else ""
        if len(losses) < len(calls):
            each = f" {'each ' if len(losses) > 1 else ''}in {len(losses):,} of {len(calls):,} calls"
        detail = f"{detail} Billed again: {span} tokens{each}."
    return Finding(
        kind=first.kind,
        severity=worst,
        title=first.title,
        detail=detail,
        fix=first.fix,
        calls=calls,
        path=first.path,
        tokens=sum(losses),
        usd=math.fsum(f.usd for f in group if f.usd is not None)
        if any(f.usd is not None for f in group)
        else None,
        evidence=min((f.evidence for f in own), key=_EVIDENCE.index),
        excerpt=next((f.excerpt for f in own if f.excerpt), ""),
    )
