"""Log records that name no span -> the call that they tell of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from otel_ctx.calls.told import TICK_NS, Told, content_of, equal_numbers, own_key, tells_a_request, was_open

_Key = tuple[str, str]  # trace id, span id
_NEAR_NS = 1_000_000_000  # between two records of one event, where their numbers are equal
_AT_ONCE_NS = 50_000_000  # between two records of one answer
_LONGEST_NS = 3_600_000_000_000  # no request lasts longer
_LOOKED_AT = 64


def attach(
    spanless: Sequence[Told],
    content: dict[_Key, list[Told]],
    spans: Mapping[_Key, Told],
    traced: Container[str],
) -> None:
    """Put each record that names no span into ``content``, with the call that it tells of: by its conversation and time, or
    by equal numbers. Where no span tells of that, the record stands for it, with that of the request before it."""
    if not spanless:
        return
    calls = _by_start(t for t in spans.values() if t.telling.role == "call")
    requests = _by_start(
        r for key, records in content.items() if key not in spans for r in records if tells_a_request(r)
    )
    keys = {t: (t.telling.trace_id, t.telling.span_id) for t in (*calls, *requests)}
    told: list[Told] = []  # of answers that no span tells of
    answered: set[_Key] = set()
    for t in sorted(spanless, key=lambda t: (t.telling.usage is None, t.telling.order, content_of(t))):
        open_then = _open_then(t, calls)
        call = _meant(t, open_then) if open_then else _same_answer(t, told)
        if call is None and not open_then and t.telling.usage is not None and t.telling.service not in traced:
            request = _unanswered(t, requests, answered)
            keys[t] = keys[request] if request is not None else own_key(t)
            answered.add(keys[t])
            told.append(t)
            call = t
        if call is not None:
            content[keys[call]].append(t)


def _by_start(told: Iterable[Told]) -> list[Told]:
    return sorted(told, key=lambda t: (t.telling.start_unix_nano, t.id))


def _before(record: Told, told: list[Told]) -> Iterator[Told]:
    """The last of ``told`` that began before a record, the latest first."""
    until = record.telling.order + _NEAR_NS
    end = bisect_right(told, until, key=lambda t: t.telling.start_unix_nano)
    for t in reversed(told[max(0, end - _LOOKED_AT) : end]):
        if record.telling.order - t.telling.start_unix_nano > _LONGEST_NS:
            return
        yield t


def _same_answer(record: Told, told: list[Told]) -> Told | None:
    """The one of ``told`` that tells of the same answer: written at once, and with equal numbers where there are any."""
    end = bisect_right(told, record.telling.order + _AT_ONCE_NS, key=lambda t: t.telling.order)
    return next(
        (
            t
            for t in reversed(told[max(0, end - _LOOKED_AT) : end])
            if _one_conversation(t, record)
            and record.telling.order - t.telling.order <= _AT_ONCE_NS
            and (record.telling.usage is None or equal_numbers(t, record))
        ),
        None,
    )


def _open_then(record: Told, calls: list[Told]) -> list[Told]:
    """Those of ``calls`` that were open when the record was written: of its conversation, or with its numbers."""
    return [
        t
        for t in _before(record, calls)
        if t.telling.service == record.telling.service
        and (
            (_one_conversation(t, record) and was_open(t.telling, record.telling, TICK_NS))
            or (
                not t.telling.conversation_hint
                and equal_numbers(t, record)
                and was_open(t.telling, record.telling, _NEAR_NS)
            )
        )
    ]


def _meant(record: Told, calls: list[Told]) -> Told | None:
    """The only one, or the only one with equal numbers; else nobody is given what may be another's."""
    same = calls if len(calls) == 1 else [t for t in calls if equal_numbers(t, record)]
    return same[0] if len(same) == 1 else None


def _unanswered(record: Told, requests: list[Told], answered: Container[_Key]) -> Told | None:
    """The request that a record answers: the last before it in its conversation that has no answer."""
    return next(
        (
            t
            for t in _before(record, requests)
            if _one_conversation(t, record)
            and (t.telling.trace_id, t.telling.span_id) not in answered
            and record.telling.start_unix_nano - _NEAR_NS <= t.telling.start_unix_nano <= record.telling.order
        ),
        None,
    )


def _one_conversation(a: Told, b: Told) -> bool:
    return bool(a.telling.conversation_hint) and a.telling.conversation_hint == b.telling.conversation_hint
