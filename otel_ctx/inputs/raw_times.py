"""When a record of a log of requests was sent and answered: names and forms of times, and how long it took.

A number is a time only where it lies in this century: whoever logs durations often calls them times too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from otel_ctx.inputs.fields import nanoseconds

_STARTS = (
    "start_unix_nano", "start_time_unix_nano", "start_time", "startTime", "started_at", "startedAt", "startedDateTime",
    "request_time", "requestTime", "request_timestamp", "requested_at", "timestamp", "@timestamp", "time", "ts", "t",
    "datetime", "date", "created_at", "createdAt", "created", "logged_at", "log_time", "logging_time",
)  # fmt: skip
_NGINX = ("time_iso8601", "time_local", "msec")  # its log is written when the answer was sent
_ENDS = (
    "end_unix_nano", "end_time_unix_nano", "end_time", "endTime", "ended_at", "response_time", "responseTime",
    "response_timestamp", "completed_at", "finished_at", *_NGINX,
)  # fmt: skip
_DURATIONS = (
    ("duration_ns", 1), ("latency_ms", 10**6), ("duration_ms", 10**6), ("latencyMs", 10**6), ("durationMs", 10**6),
    ("elapsed_ms", 10**6), ("latency_s", 10**9), ("duration_s", 10**9), ("elapsed", 10**9), ("latency", 10**9),
    ("duration", 10**9),
)  # fmt: skip
_OF_NGINX = ("request_time", 10**9)  # beside its other variables; elsewhere the unit is not known
_OFTEN_DURATIONS = frozenset(("request_time", "requestTime", "response_time", "responseTime", "time", "t"))
_LONGEST_CALL = 86_400 * 10**9  # ns: a duration beyond that was meant in another unit
_EARLIEST, _LATEST = (
    int((datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 10**9
    for year in (2000, 2100)
)
_MONTHS = {m: n for n, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_WITH_MONTH = re.compile(  # of web servers, 30/Nov/2026:10:01:00 +0100, and of HTTP, Mon, 30 Nov 2026 10:01:00 GMT
    r"\[?(?:[a-z]{3}, )?(\d\d?)[/ -]([a-z]{3})[/ -](\d{4})[: ](\d\d:\d\d:\d\d(?:[.,]\d+)?) ?(?:GMT|(UTC|Z|[+-]\d\d:?\d\d))?\]?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HAS_CLOCK = re.compile(r"\d:\d\d")
UNREAD = (
    "a time that cannot be read, so the record keeps its place in the file: known are ISO 8601, 30/Nov/2026:10:01:00 +0100, "
    "Mon, 30 Nov 2026 10:01:00 GMT and numbers since 1970"
)

Json = Mapping[str, Any]


class Times(NamedTuple):
    """Nanoseconds, 0 unknown. ``unread``: none is known, but something stands where a time would."""

    start: int
    end: int
    unread: bool = False


def times_of(around: list[Json], answer: Any, *, lasts: bool = True) -> Times:
    """Of the nearest envelope that tells a time, else of the answer. ``lasts``: the record begins with the request; else it
    was written when that had been answered."""
    start = _nearest(around, _STARTS)
    end = _nearest(around, _ENDS)
    took = next((d for level in around if (d := _duration(level))), 0) if lasts else 0
    if start and not end:
        end = start + took
    elif end and not start:
        start = end - took
    elif not start and isinstance(answer, Mapping):
        start = end = _time(answer, ("created", "created_at"))
    return Times(start, end, not start and any(map(_says_something, around)))


def _nearest(around: list[Json], names: tuple[str, ...]) -> int:
    return next((t for level in around if (t := _time(level, names))), 0)


def _time(level: Json, names: tuple[str, ...]) -> int:
    return next((t for name in names if name in level and (t := moment(level[name]))), 0)


def moment(value: Any) -> int:
    """A point in time in nanoseconds since the epoch, 0 where it is none."""
    if isinstance(value, str) and (found := _WITH_MONTH.fullmatch(value.strip())):
        day, month, year, clock, zone = found.groups()
        number = _MONTHS.get(month.lower(), 0)
        value = f"{year}-{number:02}-{day:>02}T{clock}{zone or 'Z'}"
    found_at = nanoseconds(value)
    return found_at if _EARLIEST <= found_at < _LATEST else 0


def _says_something(level: Json) -> bool:
    for name in (*_STARTS, *_ENDS):
        value = level.get(name)
        if isinstance(value, str) and _HAS_CLOCK.search(value):
            return True
        if name not in _OFTEN_DURATIONS and isinstance(value, (int, float)) and value and value is not True:
            return True
    return False


def _duration(level: Json) -> int:
    names = (*_DURATIONS, _OF_NGINX) if any(name in level for name in _NGINX) else _DURATIONS
    for name, unit in names:
        value = level.get(name)
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 < value * unit < _LONGEST_CALL
        ):
            return round(value * unit)
    return 0
