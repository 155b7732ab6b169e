"""Content that came in log records -> the span that it belongs to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby

from otel_ctx.calls.told import Extend, Told
from otel_ctx.model import (
    EMPTY_CHAIN,
    KIND_INDEX,
    Chain,
    Segment,
    Telling,
)


def join_content(told: Sequence[Told], extend: Extend) -> tuple[list[Told], list[Told]]:
    """Log records to the span they belong to. A record that tells a call's figures too stands in for a span that
    never came."""
    spans: dict[tuple[str, str], Told] = {}
    content: dict[tuple[str, str], list[Told]] = defaultdict(list)
    orphans: list[Told] = []
    for t in told:
        key = (t.telling.trace_id, t.telling.span_id)
        if t.telling.role == "content":
            if t.telling.span_id:
                content[key].append(t)
            else:
                orphans.append(t)
        elif key not in spans or (spans[key].content, spans[key].telling.role == "call") < (
            t.content,
            t.telling.role == "call",
        ):
            spans[key] = t
    for key, records in _to_calls_below(content, spans).items():
        records = _delivered_once(sorted(records, key=lambda t: t.telling.order))
        span = spans.get(key)
        if span is None:
            speaker = next((r for r in records if r.telling.usage is not None or r.telling.response_id), None)
            if speaker is None:
                orphans += records
                continue
            started = min(r.telling.start_unix_nano for r in records)
            telling = replace(speaker.telling, role="call", start_unix_nano=started)
            span = replace(speaker, telling=telling, messages=EMPTY_CHAIN, answer=())
        spans[key] = _with_content(span, records, extend)
    return list(spans.values()), orphans


_Key = tuple[str, str]  # trace id, span id


def _to_calls_below(content: Mapping[_Key, list[Told]], spans: Mapping[_Key, Told]) -> dict[_Key, list[Told]]:
    """The same records, those of a span that is no call given to the call right below it that was open at their time, where
    there is one and no other: some libraries log a request in the span around it."""
    calls: dict[_Key, list[Told]] = defaultdict(list)
    for t in spans.values():
        if t.telling.role == "call":
            calls[t.telling.trace_id, t.telling.parent_id].append(t)
    out: dict[_Key, list[Told]] = defaultdict(list)
    for key, records in content.items():
        own = spans.get(key)
        below = calls[key] if own is None or own.telling.role != "call" else []
        for r in records:
            fit = [c for c in below if _was_open(c.telling, r.telling)] if _tells_a_request(r) else []
            out[(key[0], fit[0].telling.span_id) if len(fit) == 1 else key].append(r)
    return out


def _was_open(call: Telling, record: Telling) -> bool:
    return call.start_unix_nano <= record.start_unix_nano <= call.end_unix_nano


def content_of(told: Told) -> str:
    """A name of what a record holds; the ids of tool calls tell results apart that are the same text."""
    segments = (*told.tools, *told.system, *told.messages, *told.answer)
    return blake2b(
        "".join(f"{s.digest}{s.call_id}\0" for s in segments).encode("utf-8", "replace"), digest_size=16
    ).hexdigest()


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
    told = [span, *(r for r in records if _tells_a_request(r))]
    single = [r for r in records if not _tells_a_request(r)]
    if any(r.messages.length for r in single):
        told.append(_one_by_one(single, extend))
    messages = _whole(told, "messages", lambda x: x.messages.length)
    tools = _whole([span, *records], "tools", lambda x: len(x.tools))
    system = _whole([span, *records], "system", lambda x: len(x.system))
    answer = span.answer or tuple(s for r in records for s in r.answer)

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
    chain = messages.messages if messages is not None else span.messages
    said = {
        name: getattr(t, name)
        or next((v for r in records if (v := getattr(r.telling, name))), getattr(t, name))
        for name in ("usage", "reserve", "response_id", "previous_response_id")
    }
    return replace(
        span,
        telling=replace(t, lost=lost, **said),
        tools=tools.tools if tools is not None else (),
        system=once(system.system, chain) if system is not None else (),
        messages=chain,
        answer=answer,
        reasons=reasons,
    )


def _tells_a_request(record: Told) -> bool:
    """One record for a whole request, and not one for each message: only such a one says whose request it is."""
    t = record.telling
    return bool(t.operation or t.request_model or t.response_model or t.response_id or t.usage)


def _one_by_one(records: list[Told], extend: Extend) -> Told:
    """Records that hold a message each, as one that holds them all. One without its content leaves a hole."""
    hole = any("not_captured" in r.reasons for r in records)
    first = records[0]
    lost = frozenset({"messages"}) if hole else frozenset()
    lost = lost.union(*(r.telling.lost for r in records))
    return replace(
        first,
        telling=replace(first.telling, lost=lost),
        messages=extend(EMPTY_CHAIN, [r.messages for r in records if r.messages.length]),
        reasons=frozenset().union(*(r.reasons for r in records)),
    )


def _whole(told: Sequence[Told], section: str, size: Callable[[Told], int]) -> Told | None:
    """Who tells of a section best: whole before damaged, then the first; of the damaged ones the longest."""
    has = [t for t in told if size(t)]
    whole = next((t for t in has if section not in t.telling.lost), None)
    return whole or max(has, key=size, default=None)


def once(system: tuple[Segment, ...], messages: Chain) -> tuple[Segment, ...]:
    """A system prompt that stands in the messages too is one system prompt."""
    if not system or not messages.tokens_by_kind[KIND_INDEX["system"]]:
        return system
    there = {s.digest for s in messages if s.kind == "system"}
    return tuple(s for s in system if s.digest not in there)
