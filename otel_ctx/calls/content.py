"""Content that came in log records -> the span that it belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from otel_ctx.calls.spanless import attach
from otel_ctx.calls.told import Extend, Told, content_of, equal_numbers, tells_a_request, was_open
from otel_ctx.model import (
    EMPTY_CHAIN,
    KIND_INDEX,
    NO_SECTION,
    Chain,
    Section,
    UsageClaim,
)


@dataclass(frozen=True, slots=True)
class Joined:
    """Spans with the content of their records; records whose span never came; pieces of prompts; and the span that each
    record was given to, by its id."""

    spans: list[Told]
    orphans: list[Told]
    pieces: list[Told]
    given: dict[Told, str]


def join_content(told: Sequence[Told], extend: Extend, traced: Container[str] = ()) -> Joined:
    """Log records to the span they belong to. A record that tells a call's figures too stands in for a span that
    never came; one that names no span, not in the services ``traced``: there are spans of all calls."""
    spans: dict[_Key, Told] = {}
    content: dict[_Key, list[Told]] = defaultdict(list)
    pieces: list[Told] = []
    for t in told:
        key = (t.telling.trace_id, t.telling.span_id)
        if t.telling.role == "piece":
            pieces.append(t)
        elif t.telling.role == "content":
            content[key].append(t)
        elif key not in spans or (spans[key].content, spans[key].telling.role == "call") < (
            t.content,
            t.telling.role == "call",
        ):
            spans[key] = t
    content = _to_calls_below(content, spans) if content else content
    spanless = [r for key in [*content] if _are_several(key, content[key], spans) for r in content.pop(key)]
    attach(spanless, content, spans, traced)
    given: dict[Told, str] = {}
    for key, records in content.items():
        records = _delivered_once(sorted(records, key=lambda t: t.telling.order))
        span = spans.get(key)
        if span is None:
            speaker = next((r for r in records if r.telling.usage is not None or r.telling.response_id), None)
            if speaker is None:
                continue
            started = min(r.telling.start_unix_nano for r in records)
            telling = speaker.telling._replace(
                role="call", start_unix_nano=started, trace_id=key[0], span_id=key[1]
            )
            span = replace(speaker, telling=telling, messages=EMPTY_CHAIN, answer=())
        spans[key] = _with_content(span, records, extend)
        given |= dict.fromkeys(content[key], spans[key].id)
    orphans = [t for t in told if t.telling.role == "content" and t not in given]
    pieces += [t for t in spans.values() if t.telling.role == "aggregate" and t.telling.thread]
    return Joined([*spans.values()], orphans, pieces, given)


def _are_several(key: _Key, records: list[Told], spans: Mapping[_Key, Told]) -> bool:
    """Do records name no span, or the one around several requests? Then each has to find its own."""
    if not key[1]:
        return True
    own = spans.get(key)
    if own is not None and own.telling.role == "call":
        return False
    numbers = [r for r in records if r.telling.usage is not None]
    return any(not equal_numbers(numbers[0], r) for r in numbers[1:])


_Key = tuple[str, str]  # trace id, span id


def _to_calls_below(
    content: Mapping[_Key, list[Told]], spans: Mapping[_Key, Told]
) -> defaultdict[_Key, list[Told]]:
    """The same records, those of a span that is no call given to the call right below it that was open at their time, where
    there is one and no other: some libraries log a request in the span around it."""
    calls: dict[_Key, list[Told]] = defaultdict(list)
    for t in spans.values():
        if t.telling.role == "call":
            calls[t.telling.trace_id, t.telling.parent_id].append(t)
    out: defaultdict[_Key, list[Told]] = defaultdict(list)
    for key, records in content.items():
        own = spans.get(key)
        below = calls[key] if own is None or own.telling.role != "call" else []
        meant = _meant(records, below) if below else {}
        for r in records:
            out[(key[0], meant[r].telling.span_id) if r in meant else key].append(r)
    return out


def _meant(records: list[Told], calls: list[Told]) -> dict[Told, Told]:
    """Of records of requests the one of ``calls`` that was open then, with equal numbers where several were. Where clocks
    differ, numbers tell: those of a call that was not open are of the first that no other record tells of, and what was
    written with them is of the same call."""
    by_output: dict[int | None, list[Told]] = defaultdict(list)
    for c in sorted(calls, key=lambda c: c.telling.start_unix_nano):
        if c.telling.usage is not None:
            by_output[c.telling.usage.output].append(c)
    meant: dict[Told, Told] = {}
    late: list[Told] = []
    for r in filter(tells_a_request, records):
        usage = r.telling.usage
        same = [c for c in by_output[usage.output] if equal_numbers(c, r)] if usage is not None else []
        fit = [c for c in calls if was_open(c.telling, r.telling)]
        if same and not any(c in same for c in fit):
            late.append(r)
            continue
        if len(fit) > 1:
            fit = [c for c in fit if c in same]
        if len(fit) == 1:
            meant[r] = fit[0]
    if not late:
        return meant
    taken = {c for r, c in meant.items() if r.telling.usage is not None}
    for r in sorted(late, key=lambda r: r.telling.order):
        usage = r.telling.usage
        free = (c for c in by_output[usage and usage.output] if c not in taken and equal_numbers(c, r))
        found = next(free, None)
        if found is not None:
            meant[r] = found
            taken.add(found)
    at = {r.telling.order: c for r, c in meant.items() if r.telling.usage is not None}
    beside = (r for r in records if tells_a_request(r) and r.telling.usage is None and r.telling.order in at)
    return meant | {r: at[r.telling.order] for r in beside}


def _delivered_once(records: list[Told]) -> list[Told]:
    """``records``, in order. Of one time there may be a whole history, in which messages come again; the same
    records all over again are a second delivery."""
    out: list[Told] = []
    for _, same_time in groupby(records, key=lambda t: t.telling.order):
        run = list(same_time)
        if len(run) > 1:
            contents = [content_of(t) for t in run]
            size = next(n for n in range(1, len(run) + 1) if contents == contents[:n] * (len(run) // n))
            run = run[:size]
        out += run
    return out


def _with_content(span: Told, records: list[Told], extend: Extend) -> Told:
    """``span`` with what its records hold. A section is taken from where it is whole, from the span where both are."""
    t = span.telling
    told = [span, *(r for r in records if tells_a_request(r))]
    single = [r for r in records if not tells_a_request(r)]
    if any(r.messages.length for r in single):
        told.append(_one_by_one(single, extend))
    messages = _whole(told, "messages", lambda x: x.messages.length)
    tools = _whole([span, *records], "tools", lambda x: len(x.tools))
    system = _whole([span, *records], "system", lambda x: len(x.system))
    answers = [r.answer for r in told if r.answer]
    answer = answers[0] if answers else tuple(s for r in single for s in r.answer)

    reasons = span.reasons.union(*(r.reasons for r in (*records, *told))) - {"not_captured", "logs_missing"}
    lost = t.lost.union(*(r.telling.lost for r in records))
    for section, speaker in (("messages", messages), ("tools", tools), ("system", system)):
        if speaker is not None:
            lost = lost - {section} | speaker.telling.lost & {section}
    if messages is not None:
        reasons |= messages.reasons & {"not_captured"}
        if messages is not span and not lost:
            reasons -= {"value_cut", "message_cut", "unparsable"}
    if tools is not None and "schema_missing" not in tools.reasons:
        reasons -= {"schema_missing"}
    if not any("guessed" in s.reasons for s in (span, messages, tools, system) if s is not None):
        reasons -= {"guessed"}  # what a record seemed to hold was told for sure elsewhere
    chain = messages.messages if messages is not None else span.messages
    said = {
        name: getattr(t, name)
        or next((v for r in records if (v := getattr(r.telling, name))), getattr(t, name))
        for name in (
            "reserve",
            "response_id",
            "previous_response_id",
            "conversation_hint",
            "request_model",
            "cut_by",
        )
    }
    usage = _claimed([c for c in (t.usage, *(r.telling.usage for r in records)) if c is not None])
    return replace(
        span,
        telling=t._replace(lost=lost, usage=usage, **said),
        tools=tools.tools if tools is not None else NO_SECTION,
        system=once(system.system, chain) if system is not None else NO_SECTION,
        messages=chain,
        answer=answer,
        reasons=reasons,
    )


def _claimed(claims: list[UsageClaim]) -> UsageClaim | None:
    """The first one's numbers, and those that only the others have."""
    if not claims:
        return None
    said: dict[str, Any] = {
        n: next((v for c in claims if (v := getattr(c, n)) is not None), None) for n in _COUNTS
    }
    return claims[0]._replace(**said)


_COUNTS = ("cache_read", "cache_write", "cache_write_1h", "cache_write_5m", "reasoning")


def _one_by_one(records: list[Told], extend: Extend) -> Told:
    """Records that hold a message each, as one that holds them all. One without its content leaves a hole."""
    hole = any("not_captured" in r.reasons for r in records)
    first = records[0]
    lost = frozenset({"messages"}) if hole else frozenset()
    lost = lost.union(*(r.telling.lost for r in records))
    return replace(
        first,
        telling=first.telling._replace(lost=lost),
        messages=extend(EMPTY_CHAIN, [r.messages for r in records if r.messages.length]),
        reasons=frozenset().union(*(r.reasons for r in records)),
    )


def _whole(told: Sequence[Told], section: str, size: Callable[[Told], int]) -> Told | None:
    """Who tells of a section best: whole before damaged, then the first; of the damaged ones the longest."""
    has = [t for t in told if size(t)]
    whole = next((t for t in has if section not in t.telling.lost), None)
    return whole or max(has, key=size, default=None)


def once(system: Section, messages: Chain) -> Section:
    """A system prompt that stands in the messages too is one system prompt."""
    if not system or not messages.tokens_by_kind[KIND_INDEX["system"]]:
        return system
    there = {s.digest for s in messages if s.kind == "system"}
    return Section([s for s in system if s.digest not in there])
