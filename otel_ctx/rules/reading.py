"""Rows read from TOML and checked on the way; each error names the table, the row and the field."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from otel_ctx.errors import RulesError
from otel_ctx.rules.names import version_of
from otel_ctx.rules.rows import (
    CACHE_COUNTS,
    ENCODINGS,
    ENGINES,
    FATES,
    PRICED,
    STATUSES,
    EncodingRow,
    Family,
    Group,
    Invalidation,
    Platform,
    Price,
    Row,
    ServiceTier,
    Source,
    Surcharge,
    UsageRule,
    Value,
    Window,
)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(_is_text(v) for v in value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _are_words(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(v) for v in value.values())


def _is_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_number(v) for v in value.values())


def _is_prices(value: Any) -> bool:
    return _is_numbers(value) and "input" in value and value.keys() <= set(PRICED)


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(_is_count(v) for v in value)
        and value[0] <= value[1]
    )


def _is_ttls(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_count(v) or _is_pair(v) for v in value.values())


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"20\d\d(-\d\d){0,2}", value) is not None


def _is_day(value: Any) -> bool:
    form = r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def _are_hours(value: Any) -> bool:
    """Of the UTC day, as "01:00-04:00" or over midnight "16:30-00:30"."""
    return _is_texts(value) and all(
        re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", v) for v in value
    )


FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "min_cacheable_tokens": _is_count, "granularity_tokens": _is_count, "breakpoint_interval_tokens": _is_count,
    "max_breakpoints": _is_count, "automatic_breakpoint": _is_bool, "implicit_breakpoint": _is_text,
    "markers_not_on": _is_texts, "lookback_positions": _is_count, "lookback_runs_collapse": _is_texts,
    "serialization_order": _is_texts, "ttl_seconds": _is_ttls, "ttl_clock": _is_text, "ttl_refresh_on_read": _is_bool,
    "ttl_asked_by": _are_words, "ttl_order": _is_text, "entry_available": _is_text, "write_multiplier": _is_numbers,
    "read_multiplier": _is_number, "below_minimum": _is_text, "prior_thinking_kept": _is_bool,
    "storage_usd_per_mtok_hour": _is_numbers, "long_context": _is_numbers, "tool_prompt_tokens": _is_pair,
    "in_prefix": _is_texts, "routing": _is_texts, "requires": _is_text, "hash": _is_text,
    "usage_input_includes_cache": _is_bool,
}  # fmt: skip
_WANTED: Mapping[Callable[[Any], bool], str] = {
    _is_count: "a whole number, 0 or more", _is_number: "a number, 0 or more", _is_text: "a text",
    _is_texts: "a list of texts", _is_bool: "true or false", _is_numbers: "a table of numbers, 0 or more",
    _are_words: "a table of texts",
    _is_pair: "two whole numbers, the smaller first", _is_ttls: "a table of seconds: whole numbers, or pairs of them",
    _is_date: "YYYY, YYYY-MM or YYYY-MM-DD", _is_day: "YYYY-MM-DD", _are_hours: 'a list of "HH:MM-HH:MM", in UTC',
}  # fmt: skip
"""What is wanted, by the test for it."""


def _why(value: Any, test: Callable[[Any], bool]) -> str:
    """Why a value is no good."""
    if test is _is_prices and isinstance(value, dict):
        for name, usd in value.items():
            if name not in PRICED:
                return f"{name!r} is no class of token: there are {', '.join(PRICED)}"
            if not _is_number(usd):
                return f"{name}: {usd!r} is no price: {_WANTED[_is_number]}"
        return "input is missing"
    wanted = _WANTED.get(test)
    return f"{value!r} is not {wanted}" if wanted else f"{value!r} cannot be used here"


REQUIRED = (
    "min_cacheable_tokens", "granularity_tokens", "max_breakpoints", "lookback_positions", "ttl_seconds",
    "ttl_refresh_on_read", "entry_available", "write_multiplier", "read_multiplier", "usage_input_includes_cache",
)  # fmt: skip
_ANNOTATIONS = {"value", "source", "status", "date", "note"}
_ROW_FIELDS = ("id", "source", "status", "date", "note")
_FAMILY_FIELDS = (
    *_ROW_FIELDS, "like", "rest_from", "with_markers", "provider", "platforms", "match", "engine",
)  # fmt: skip


class Reader:
    """One row, read field by field. ``where`` names its file, table and id in errors."""

    def __init__(self, where: str, row: Any, sources: Mapping[str, Source]) -> None:
        self.where = where
        if not isinstance(row, dict):
            raise RulesError(f"{where}: not a table")
        self.row: Row = row
        self._sources = sources

    def fail(self, field: str, why: str) -> RulesError:
        return RulesError(f"{self.where}: {field}: {why}")

    def over(self, fields: Row) -> Reader:
        """The same row, with fields of its group where it has none of its own."""
        return Reader(self.where, {**fields, **self.row}, self._sources)

    def only(self, *allowed: str) -> None:
        for field in sorted(self.row.keys() - set(allowed)):
            near = get_close_matches(field, allowed, 1)
            meant = f", is {near[0]} meant? There are" if near else "; there are"
            raise self.fail(field, f"no such field{meant} {', '.join(dict.fromkeys(allowed))}")

    def take(self, field: str, test: Callable[[Any], bool], default: Any = None) -> Any:
        if field not in self.row:
            if default is None:
                raise self.fail(field, "missing")
            return default
        if not test(self.row[field]):
            raise self.fail(field, _why(self.row[field], test))
        return self.row[field]

    def text(self, field: str, default: str | None = None) -> str:
        return str(self.take(field, _is_text, default))

    def flag(self, field: str) -> bool:
        return bool(self.take(field, _is_bool, False))

    def texts(self, field: str, *, needed: bool = False) -> tuple[str, ...]:
        found = tuple(self.take(field, _is_texts, None if needed else ()))
        if needed and not found:
            raise self.fail(field, "empty")
        return found

    def one_of(self, field: str, allowed: tuple[str, ...], default: str | None = None) -> Any:
        found = self.take(field, lambda v: True, default)
        if found not in (*allowed, default):
            raise self.fail(field, f"{found!r} is none of {', '.join(filter(None, allowed))}")
        return found

    def row_id(self) -> str:
        """The row's id; a row also has a source, a date and a status of its own."""
        self.value("row", {}, _is_text)
        return self.text("id")

    def value(self, field: str, raw: Any, test: Callable[[Any], bool]) -> Value:
        """A plain value takes source, date and status from its row; the date is that of the newest source."""
        annotated = isinstance(raw, dict) and raw.keys() <= _ANNOTATIONS
        own: Row = raw if annotated else {"value": raw}
        sources = own.get("source", self.row.get("source"))
        if not _is_texts(sources) or not sources:
            raise self.fail(field, "no source")
        for source in sources:
            if source not in self._sources:
                raise self.fail(field, f"source {source!r} is not among the sources")
        status = own.get("status", self.row.get("status"))
        if status not in STATUSES:
            raise self.fail(field, f"status {status!r} is none of {', '.join(STATUSES)}")
        date = own.get("date", self.row.get("date")) or max(self._sources[s].date for s in sources)
        if not _is_date(date):
            raise self.fail(field, f"date {date!r} is not YYYY, YYYY-MM or YYYY-MM-DD")
        value, note = own.get("value"), own.get("note", self.row.get("note", ""))
        if value is not None and not test(value):
            raise self.fail(field, _why(value, test))
        if value is not None and status == "unknown":
            raise self.fail(field, "has a value, but its status is unknown")
        if not isinstance(note, str):
            raise self.fail(field, "the note is no text")
        return Value(_frozen(value), status, tuple(sources), date, note)


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return MappingProxyType({k: _frozen(v) for k, v in value.items()})
    return value


# ---- one function a table


def read_source(name: str, read: Reader) -> Source:
    read.only("title", "date", "kind")
    return Source(name, read.text("title"), read.take("date", _is_date), read.text("kind"))


def _values(read: Reader) -> dict[str, Value]:
    return {
        field: read.value(field, raw, FIELDS[field]) for field, raw in read.row.items() if field in FIELDS
    }


def read_group(read: Reader) -> Group:
    read.only(*_FAMILY_FIELDS, *FIELDS)
    read.value("row", {}, _is_text)
    return Group({k: v for k, v in read.row.items() if k not in FIELDS}, MappingProxyType(_values(read)))


def read_family(read: Reader, groups: Mapping[str, Group]) -> Family:
    read.only(*_FAMILY_FIELDS, *FIELDS)
    like = read.text("like", "")
    if like and like not in groups:
        raise read.fail("like", f"there is no group {like!r}")
    shared: Mapping[str, Value] = {}
    if like:
        shared = groups[like].values
        read = read.over(groups[like].fields)
    own_id, rest_from = read.row_id(), read.text("rest_from", "")
    values = {**shared, **_values(read)}
    missing = [field for field in REQUIRED if field not in values]
    if missing and not rest_from:
        raise read.fail(", ".join(missing), "missing")
    return Family(
        id=own_id,
        provider=read.text("provider"),
        platforms=read.texts("platforms", needed=True),
        match=read.texts("match", needed=True),
        engine=read.one_of("engine", ENGINES),
        values=MappingProxyType(values),
        with_markers=read.text("with_markers", ""),
        rest_from=rest_from,
    )


def read_platform(read: Reader) -> Platform:
    read.only(*_ROW_FIELDS, "provider", "names", "makes", "spoken", "serves", "otherwise", "passes", "isolation",
              "marker", "encoding")  # fmt: skip
    own_id = read.row_id()

    def said(field: str) -> Value | None:
        raw = read.row.get(field)
        return None if raw is None else read.value(field, raw, _is_text)

    return Platform(
        id=own_id,
        provider=read.text("provider", own_id),
        names=read.texts("names", needed=True),
        makes=read.texts("makes"),
        spoken=read.flag("spoken"),
        serves=read.texts("serves"),
        otherwise=read.text("otherwise", ""),
        passes=read.flag("passes"),
        isolation=said("isolation"),
        marker=said("marker"),
        encoding=read.one_of("encoding", ENCODINGS, ""),
    )


def read_window(read: Reader) -> Window:
    read.only(*_ROW_FIELDS, "tokens", "match", "suffix")
    own_id, suffix = read.row_id(), read.text("suffix", "")
    tokens = read.value("tokens", read.take("tokens", _is_count), _is_count)
    return Window(own_id, read.texts("match", needed=not suffix), suffix, tokens)


def read_price(read: Reader) -> Price:
    read.only(
        *_ROW_FIELDS, "provider", "model", "usd", "above", "tier", "from", "hours", "weekdays", "some_days"
    )
    own_id = read.row_id()
    value = read.value("usd", read.take("usd", _is_prices), _is_prices)
    tier = read.take("tier", _is_prices, {})
    above = read.take("above", _is_count) if tier else None
    return Price(
        id=own_id,
        provider=read.text("provider"),
        model=read.text("model"),
        usd=value.value,
        above=above,
        tier=MappingProxyType(dict(tier)),
        status=value.status,
        date=value.date,
        since=read.take("from", _is_day, ""),
        hours=tuple(map(_minutes, read.take("hours", _are_hours, []))),
        weekdays=read.flag("weekdays"),
        some_days=read.flag("some_days"),
    )


def _minutes(hours: str) -> tuple[int, int]:
    start, end = (int(at[:2]) * 60 + int(at[3:]) for at in hours.split("-"))
    return start, end


def read_surcharge(read: Reader) -> Surcharge:
    read.only(*_ROW_FIELDS, "platform", "times", "models")
    return Surcharge(
        id=read.row_id(),
        platform=read.text("platform"),
        times=float(read.take("times", _is_number)),
        models=read.texts("models", needed=True),
    )


def read_service_tier(read: Reader) -> ServiceTier:
    read.only(*_ROW_FIELDS, "provider", "names", "models", "times", "classes", "short")
    return ServiceTier(
        id=read.row_id(),
        provider=read.text("provider"),
        names=read.texts("names", needed=True),
        models=read.texts("models"),
        times=float(read.take("times", _is_number)),
        classes=tuple(
            read.take("classes", lambda v: _is_texts(v) and "input" in v and set(v) <= set(PRICED), PRICED)
        ),
        short=read.flag("short"),
    )


def read_encoding(read: Reader) -> EncodingRow:
    read.only(*_ROW_FIELDS, "name", "match")
    own_id = read.row_id()
    name = read.one_of("name" if "name" in read.row else "id", ENCODINGS)
    return EncodingRow(own_id, name, read.texts("match", needed=True))


def read_usage(read: Reader) -> UsageRule:
    read.only(*_ROW_FIELDS, "scope", "below", "providers", "input", "cache", "includes_cache", "zeros_omitted",
              "not_recorded", "may_lose_cache", "output_excludes_reasoning")  # fmt: skip
    own_id = read.row_id()
    meaning = read.value("includes_cache", read.row.get("includes_cache", {}), _is_bool)
    word = {True: "inclusive", False: "exclusive", None: "not decided by the scope"}[meaning.value]
    not_recorded = read.take("not_recorded", lambda v: _is_texts(v) and set(v) <= set(CACHE_COUNTS), ())
    return UsageRule(
        id=own_id,
        scope=read.text("scope"),
        input_includes_cache=meaning.value,
        evidence=f"rule {own_id}: {word} ({meaning.status}, {meaning.date}: {', '.join(meaning.sources)})",
        status=meaning.status,
        sources=meaning.sources,
        date=meaning.date,
        providers=read.texts("providers"),
        below=version_of(read.text("below", "")),
        zeros_omitted=read.flag("zeros_omitted"),
        not_recorded=tuple(not_recorded),
        may_lose_cache=read.flag("may_lose_cache"),
        output_excludes_reasoning=read.flag("output_excludes_reasoning"),
        input=read.text("input", ""),
        cache=read.texts("cache"),
        note=read.text("note", ""),
    )


def read_invalidation(read: Reader) -> Invalidation:
    read.only(*_ROW_FIELDS, "changes", "tools", "system", "messages")
    own_id, changes = read.row_id(), read.texts("changes", needed=True)
    return Invalidation(own_id, changes, read.one_of("tools", FATES), read.one_of("system", FATES),
                        read.one_of("messages", FATES))  # fmt: skip


def read_fact(read: Reader) -> Value:
    read.only(*_ROW_FIELDS, "text")
    read.row_id()
    return read.value("text", read.take("text", _is_text), _is_text)
