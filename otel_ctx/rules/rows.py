"""The rows of the rule tables: what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, cast, get_args

RuleStatus = Literal["documented", "inferred", "unknown"]
Engine = Literal[
    "breakpoint", "openai_breakpoint", "auto_rounded_prefix", "auto_units", "auto_best_effort", "block_hash", "radix",
    "slot_prefix",
]  # fmt: skip
Encoding = Literal[
    "o200k_base", "cl100k_base", "gpt_oss", "claude3", "claude4.7", "gemma3", "gemma4", "deepseek_v3", "kimi_k2",
    "mistral_v3", "llama3", "qwen3", "glm4", "",
]  # fmt: skip
Fate = Literal["kept", "lost", "model"]
CacheCount = Literal["cache_read", "cache_write"]

STATUSES: tuple[RuleStatus, ...] = get_args(RuleStatus)
ENGINES: tuple[Engine, ...] = get_args(Engine)
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
FATES: tuple[Fate, ...] = get_args(Fate)
CACHE_COUNTS: tuple[CacheCount, ...] = get_args(CacheCount)

_DAY_MINUTES = 1440
_MINUTE_NANOS = 60_000_000_000
_THURSDAY, _SATURDAY = 3, 5  # days of the week, from Monday; 1970 began on a Thursday
_EPOCH = date(1970, 1, 1).toordinal()

BY_HANDLE = "explicit"
"""A lifetime of caches that are made by hand and named in the request."""

PRICED = ("input", "output", "cache_read", "cache_write", "cache_write_1h")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    id: str
    title: str
    date: str
    kind: str


@dataclass(frozen=True, slots=True)
class Value:
    """One number or word of a provider. ``value`` is None where it is unknown, or known not to exist."""

    value: Any
    status: RuleStatus
    sources: tuple[str, ...]
    date: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """The cache rules of models that share them on some platforms. Tokens and seconds; multipliers are of the base
    input price. A property is None where the value is unknown; ``values`` has each with its source."""

    id: str
    provider: str
    platforms: tuple[str, ...]
    match: tuple[str, ...]
    engine: Engine
    values: Mapping[str, Value]
    with_markers: str = ""  # id of the family that holds instead where the request carries cache markers
    rest_from: str = ""  # platform from which the same model takes what is not said here

    def get(self, field: str) -> Any:
        found = self.values.get(field)
        return found.value if found else None

    @property
    def min_cacheable_tokens(self) -> int | None:
        return cast("int | None", self.get("min_cacheable_tokens"))

    @property
    def usage_input_includes_cache(self) -> bool | None:
        return cast("bool | None", self.get("usage_input_includes_cache"))

    @property
    def granularity_tokens(self) -> int | None:
        return cast("int | None", self.get("granularity_tokens"))

    @property
    def breakpoint_interval_tokens(self) -> int | None:
        return cast("int | None", self.get("breakpoint_interval_tokens"))

    @property
    def max_breakpoints(self) -> int | None:
        return cast("int | None", self.get("max_breakpoints"))

    @property
    def lookback_positions(self) -> int | None:
        return cast("int | None", self.get("lookback_positions"))

    @property
    def ttl_seconds(self) -> Mapping[str, tuple[int, int | None]]:
        """By the TTL's name: seconds at least, seconds at most (None: not said). The first is the default."""
        found: Mapping[str, int | tuple[int, int]] = self.get("ttl_seconds") or {}
        return {
            name: (ttl, None) if isinstance(ttl, int) else (ttl[0], ttl[1]) for name, ttl in found.items()
        }

    @property
    def write_multiplier(self) -> Mapping[str, float]:
        """By the TTL's name, or under "default"."""
        return cast("Mapping[str, float]", self.get("write_multiplier") or {})

    @property
    def read_multiplier(self) -> float | None:
        return cast("float | None", self.get("read_multiplier"))

    @property
    def lookback_runs_collapse(self) -> bool:
        """Is a run of tool calls, or of results, one position? Not where no page says so."""
        return bool(self.get("lookback_runs_collapse"))

    @property
    def prior_thinking_kept(self) -> bool | None:
        return cast("bool | None", self.get("prior_thinking_kept"))


@dataclass(frozen=True, slots=True)
class Group:
    """What families share: values with the group's own sources, and row fields for those that do not say them."""

    fields: Row
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class UsageRule:
    """What a dialect's usage numbers mean. ``input_includes_cache`` is None where the scope alone does not say."""

    id: str
    scope: str
    input_includes_cache: bool | None
    evidence: str
    status: RuleStatus
    sources: tuple[str, ...]
    date: str
    providers: tuple[str, ...] = ()
    below: tuple[int, ...] = ()
    zeros_omitted: bool = False
    not_recorded: tuple[CacheCount, ...] = ()
    may_lose_cache: bool = False
    output_excludes_reasoning: bool = False
    input: str = ""
    cache: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    id: str
    provider: str
    names: tuple[str, ...]
    makes: tuple[str, ...]
    spoken: bool
    serves: tuple[str, ...]
    otherwise: str
    passes: bool
    isolation: Value | None
    marker: Value | None
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class Window:
    id: str
    match: tuple[str, ...]
    suffix: str
    tokens: Value


class Rates(NamedTuple):
    """USD per million tokens. A class of the cache without a price (``unpriced``) costs what fresh input does; a write for
    longer, what a usual one does. ``least`` and ``most``: of a token that was not read, be it written or not."""

    fresh: float
    read: float
    write: float
    write_1h: float
    output: float
    least: float
    most: float
    unpriced: tuple[str, ...] = ()

    @classmethod
    def of(cls, usd: Mapping[str, float]) -> Rates:
        fresh = usd["input"]
        write = usd.get("cache_write", fresh)
        unread = [fresh, *(usd[name] for name in usd if name.startswith("cache_write"))]
        return cls(
            fresh,
            usd.get("cache_read", fresh),
            write,
            usd.get("cache_write_1h", write),
            usd.get("output", 0.0),
            min(unread),
            max(unread),
            tuple(name for name in CACHE_COUNTS if name not in usd),
        )

    def times(self, n: float) -> Rates:
        return Rates._make((*(usd * n for usd in self[:-1]), self.unpriced))


@dataclass(frozen=True)
class Price:
    """USD per million tokens by class of token (``PRICED``); ``tier`` holds for a whole request of more than ``above``
    input tokens. ``since``: the first day (UTC) it holds on, "" as far back as the model was sold; ``hours``: of the day, in
    minutes (UTC), empty all day; ``weekdays``: not on Saturdays and Sundays; ``some_days``: nor on days that no table has
    (public holidays): then those hours cost what the others do. ``elsewhere``: it is the maker's price, and another one
    serves the call."""

    id: str
    provider: str
    model: str
    usd: Mapping[str, float]
    above: int | None
    tier: Mapping[str, float]
    status: RuleStatus
    date: str
    since: str = ""
    hours: tuple[tuple[int, int], ...] = ()
    weekdays: bool = False
    some_days: bool = False
    elsewhere: bool = False

    @cached_property
    def _usual(self) -> Rates:
        return Rates.of(self.usd)

    @cached_property
    def _long(self) -> Rates:
        return Rates.of(self.tier)

    def is_long(self, tokens: int) -> bool:
        return self.above is not None and tokens > self.above

    def at(self, tokens: int) -> Rates:
        """Those of a request with so many input tokens."""
        return self._long if self.is_long(tokens) else self._usual

    def completed(self, family: Family | None) -> Price:
        """With the classes that have no price of their own: the input's, times what the rule of the cache says. Writes for
        another than the usual time are classes, too."""
        if family is None:
            return self
        first, *others = family.write_multiplier.items() or [("", None)]
        times = {
            "cache_read": family.read_multiplier,
            "cache_write": first[1],
            **{f"cache_write_{ttl}": n for ttl, n in others},
        }

        def whole(usd: Mapping[str, float]) -> Mapping[str, float]:
            return {**{name: usd["input"] * n for name, n in times.items() if n is not None}, **usd}

        return replace(self, usd=whole(self.usd), tier=whole(self.tier) if self.tier else self.tier)

    def holds(self, minute: int) -> bool:
        """Whether at that minute since 1970, on a day when it has begun."""
        day, of_day = divmod(minute, _DAY_MINUTES)
        if self.weekdays and (day + _THURSDAY) % 7 >= _SATURDAY:
            return False
        return not self.hours or any(
            start <= of_day < end if start < end else of_day >= start or of_day < end
            for start, end in self.hours
        )


def day_of(start_unix_nano: int) -> str:
    """The day in UTC, YYYY-MM-DD; "" where the time is not known."""
    return _iso(start_unix_nano // (_DAY_MINUTES * _MINUTE_NANOS)) if start_unix_nano else ""


@lru_cache(maxsize=64)
def _iso(day: int) -> str:
    ordinal = _EPOCH + day
    return date.fromordinal(ordinal).isoformat() if 0 < ordinal <= date.max.toordinal() else ""


def on_day(rows: tuple[Price, ...], day: str, as_of: str) -> tuple[Price, ...]:
    """Of all prices of a model, the newest first, those of a day: of some hours, then of the others. Of a day that is not
    known (""): all, and first the newest that had begun on the day ``as_of``, when the tables were written."""
    if len(rows) == 1 and not (day and rows[0].since):
        return rows
    begun = tuple(row for row in rows if row.since <= (day or as_of))
    whole = next((n for n, row in enumerate(begun) if not row.hours), len(begun))
    if day:
        return begun[: whole + 1]
    newest = begun[whole : whole + 1]
    return (*newest, *(row for row in rows if row not in newest))


def in_force(rows: tuple[Price, ...], start_unix_nano: int) -> tuple[Price, ...]:
    """Of a day's rows (``on_day``) the one that holds at that time; after it those that may hold instead."""
    if not rows or not rows[0].hours:
        return rows
    held = tuple(row for row in rows if row.holds(start_unix_nano // _MINUTE_NANOS))
    return held if held and held[0].some_days else held[:1]


AS_LISTED = (1.0,)
"""What a list price is multiplied with where nothing is taken on top of it."""


@dataclass(frozen=True, slots=True)
class Surcharge:
    """What a platform takes for a request that stays in one region or geography, as a multiple of the price of one that is
    served anywhere; ``models``: whose."""

    id: str
    platform: str
    times: float
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServiceTier:
    """Prices of requests that are not served as usual (in a batch, with priority), as multiples of the usual ones.
    ``models``: whose, empty for all of the provider; ``classes``: of token, those whose price is published; ``short``: not
    sold where the prices of the price's ``tier`` would hold."""

    id: str
    provider: str
    names: tuple[str, ...]
    models: tuple[str, ...]
    times: float
    classes: tuple[str, ...]
    short: bool

    def of(self, price: Price, tokens: int) -> Rates | None:
        long = price.is_long(tokens)
        if self.short and long:
            return None
        usd = price.tier if long else price.usd
        return Rates.of({name: usd[name] * self.times for name in usd if name.startswith(self.classes)})


@dataclass(frozen=True, slots=True)
class EncodingRow:
    id: str
    name: Encoding
    match: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Invalidation:
    """What of a cached prefix a change leaves: "kept", "lost", or "model" where it depends on the model."""

    id: str
    changes: tuple[str, ...]
    tools: Fate
    system: Fate
    messages: Fate
