"""The rule tables, built when they are first asked, and the look-ups in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from otel_ctx.rules.names import (
    endpoint_of,
    fit,
    is_bedrock_id,
    normalise_model_id,
    path_of,
    priced_names,
    spelling,
    version_of,
)
from otel_ctx.rules.reading import (
    Reader,
    read_encoding,
    read_fact,
    read_family,
    read_group,
    read_invalidation,
    read_platform,
    read_price,
    read_service_tier,
    read_source,
    read_surcharge,
    read_usage,
    read_window,
)
from otel_ctx.rules.rows import (
    AS_LISTED,
    Encoding,
    EncodingRow,
    Family,
    Group,
    Invalidation,
    Platform,
    Price,
    ServiceTier,
    Source,
    Surcharge,
    UsageRule,
    Value,
    Window,
    day_of,
    in_force,
    on_day,
)

# Which file has which table.
TABLES: Mapping[str, str] = {
    "family": "models.toml", "group": "models.toml", "encoding": "models.toml", "window": "windows.toml",
    "usage": "usage.toml", "price": "prices.toml", "service_tier": "prices.toml", "surcharge": "prices.toml",
    "platform": "providers.toml", "invalidation": "providers.toml",
    "fact": "providers.toml",
    "sources": "sources.toml",
}  # fmt: skip

Matched = TypeVar("Matched", Window, EncodingRow)


class Rules:
    """All rule tables, read only. Each is built when it is first asked; an error in it is a RulesError."""

    def __init__(
        self,
        tables: Callable[[str], Any],
        overridden: frozenset[tuple[str, str]] = frozenset(),
        models: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``tables(name)`` gives a table as ``rows`` has it.
        ``overridden`` names (table, id) of the rows that are the user's, for error messages; ``models``: as
        ``standing_for`` takes them."""
        self._tables = tables
        self._overridden = overridden
        self._models = models
        self._model = lru_cache(maxsize=512)(self._find_model)
        self._usage = lru_cache(maxsize=512)(self._find_usage)
        self._platform = lru_cache(maxsize=512)(self._find_platform)
        self._window = lru_cache(maxsize=512)(self._find_window)
        self._encoding = lru_cache(maxsize=512)(self._find_encoding)
        self._prices = lru_cache(maxsize=512)(self._find_prices)
        self._charged = lru_cache(maxsize=512)(self._find_charged)

    def rows(self, table: str) -> Any:
        """A table as TOML has it: rows by id for "group" and "sources", else a list of rows."""
        return self._tables(table)

    def file_of(self, table: str, row_id: str) -> str:
        return "override" if (table, row_id) in self._overridden else TABLES[table]

    def reader(self, table: str, row_id: str, row: Any) -> Reader:
        where = f"{self.file_of(table, row_id)}: {table} {row_id or '(no id)'}"
        return Reader(where, row, {} if table == "sources" else self.sources)

    def _readers(self, table: str) -> Iterator[Reader]:
        return (self.reader(table, str(row.get("id", "")), row) for row in self._tables(table))

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        return {name: read_source(name, self.reader("sources", name, row))
                for name, row in self._tables("sources").items()}  # fmt: skip

    @cached_property
    def as_of(self) -> str:
        """The date of the newest source: YYYY-MM-DD, its end left out where it is not known."""
        return max(source.date for source in self.sources.values())

    @cached_property
    def groups(self) -> Mapping[str, Group]:
        return {
            name: read_group(self.reader("group", name, row)) for name, row in self._tables("group").items()
        }

    @cached_property
    def families(self) -> tuple[Family, ...]:
        return tuple(read_family(read, self.groups) for read in self._readers("family"))

    @cached_property
    def _heads(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...], Reader], ...]:
        """Platforms and names of each family: the values are read for the families that are met."""
        heads = []
        for read in self._readers("family"):
            fields = self.groups[read.row["like"]].fields if "like" in read.row else {}
            heads.append(
                (tuple(read.row.get("platforms") or fields["platforms"]), tuple(read.row["match"]), read)
            )
        return tuple(heads)

    @cached_property
    def platforms(self) -> Mapping[str, Platform]:
        return {row.id: row for row in map(read_platform, self._readers("platform"))}

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        return tuple(map(read_window, self._readers("window")))

    @cached_property
    def encodings(self) -> tuple[EncodingRow, ...]:
        return tuple(map(read_encoding, self._readers("encoding")))

    @cached_property
    def usages(self) -> tuple[UsageRule, ...]:
        return tuple(map(read_usage, self._readers("usage")))

    @cached_property
    def prices(self) -> Mapping[tuple[str, str], tuple[Price, ...]]:
        """By provider and model (``priced_names``): a user's own first, then the newest, of one day those of some hours."""
        rows = [read_price(read) for read in self._readers("price")]
        rows.sort(key=lambda row: not row.hours)
        rows.sort(key=lambda row: row.since, reverse=True)
        rows.sort(key=lambda row: not self._is_own(row))
        found: dict[tuple[str, str], tuple[Price, ...]] = {}
        for row in rows:
            pair = (row.provider, row.model)
            before = found.get(pair, ())
            # Behind one that always holds there is nothing more to find.
            if all(other.since or other.hours for other in before):
                found[pair] = (*before, row)
        return found

    def _is_own(self, price: Price) -> bool:
        return ("price", price.id) in self._overridden

    def _is_own_family(self, read: Reader) -> bool:
        return ("family", str(read.row["id"])) in self._overridden

    @cached_property
    def surcharges(self) -> tuple[Surcharge, ...]:
        return tuple(map(read_surcharge, self._readers("surcharge")))

    @cached_property
    def service_tiers(self) -> tuple[ServiceTier, ...]:
        return tuple(map(read_service_tier, self._readers("service_tier")))

    @cached_property
    def invalidations(self) -> tuple[Invalidation, ...]:
        return tuple(map(read_invalidation, self._readers("invalidation")))

    @cached_property
    def facts(self) -> Mapping[str, Value]:
        """Sentences of the documentation that reports may quote, by id."""
        return {read.row["id"]: read_fact(read) for read in self._readers("fact")}

    @cached_property
    def _spellings(self) -> Mapping[str, Platform]:
        return {spelling(name): p for p in self.platforms.values() for name in (*p.names, p.id)}

    # ---- questions

    def standing_for(self, models: Mapping[str, str]) -> Rules:
        """The same rules, in which names that fit a pattern (``*`` allowed) of ``models`` stand for the model it maps to:
        those of deployments, inference profiles or self-hosted models."""
        return Rules(self._tables, self._overridden, models) if models else self

    def known(self, model: str) -> str:
        """The model that a name stands for."""
        return next((real for pattern, real in self._models.items() if fnmatchcase(model, pattern)), model)

    def model(self, model: str, platform: str = "") -> Family | None:
        """The cache rules of a model where it is served. ``platform`` may be any spelling of one; left out, the
        model's id must tell. None: no rule is known."""
        return self._model(model, platform)

    def family(self, family_id: str) -> Family | None:
        return next((f for f in self.families if f.id == family_id), None)

    def window(self, model: str) -> Value | None:
        """The context window in tokens. It is the model's, whoever serves it."""
        return self._window(model)

    def price(self, model: str, platform: str = "", start_unix_nano: int = 0) -> Price | None:
        """The list price of a model where it is served, else that of its maker, at a time; 0: not known, the newest.
        None: not known."""
        return next(
            iter(in_force(self.prices_on(model, platform, day_of(start_unix_nano)), start_unix_nano)), None
        )

    def prices_on(self, model: str, platform: str = "", day: str = "") -> tuple[Price, ...]:
        """As ``on_day``: the prices of a day. Empty: none is known."""
        return on_day(self._prices(model, platform), day, self.as_of)

    def charged_on(self, model: str, platform: str, day: str) -> tuple[tuple[Price, ...], tuple[float, ...]]:
        """A day's prices with all classes, and what they are multiplied with where the model was served."""
        return self._charged(model, platform, day)

    def surcharge(self, price: Price, model: str, platform: str) -> tuple[float, ...]:
        """What that list price is multiplied with where the model was served; more than one where that is not said. What a
        user's own row says is what it costs."""
        served = self._platform(platform, model)
        for row in self.surcharges:
            if served is not None and row.platform == served.id and price.model in row.models:
                if self._is_own(price):
                    break
                endpoint = endpoint_of(model)
                return (row.times,) if endpoint == "regional" else AS_LISTED if endpoint else (1.0, row.times)
        return AS_LISTED

    def service_tier(self, name: str, provider: str, model: str) -> ServiceTier | None:
        """What a request in the tier ``name`` costs at ``provider``; ``model`` is normalised. None: not known."""
        return next(
            (
                row
                for row in self.service_tiers
                if name in row.names and row.provider == provider and (not row.models or model in row.models)
            ),
            None,
        )

    def usage(self, scope: str, scope_version: str = "", provider: str = "") -> UsageRule | None:
        """What the numbers of an instrumentation scope mean: the longest scope pattern wins, then a row for the
        provider, then one for the version."""
        return self._usage(scope, scope_version, provider)

    def own_platforms(self, model: str) -> tuple[str, ...]:
        """For which platforms a user's own rows say how the model is cached."""
        if not self._overridden:
            return ()
        name = normalise_model_id(self.known(model)) if model else ""
        own = (head[:2] for head in self._heads if self._is_own_family(head[2]))
        return tuple(dict.fromkeys(p for at, match in own if any(fit(m, name) for m in match) for p in at))

    def own_providers(self, model: str) -> tuple[str, ...]:
        """Of which providers a user's own rows say what the model costs."""
        if not self._overridden:
            return ()
        names = priced_names(self.known(model))
        rows = (row for found in self.prices.values() for row in found if self._is_own(row))
        return tuple(dict.fromkeys(row.provider for row in rows if row.model in names))

    def platform_of(self, provider: str, model: str = "") -> str:
        """Who serves the call, "" unknown: by the provider's name on the span, else by the model's id."""
        found = self._platform(provider, model)
        return found.id if found else ""

    def provider_of(self, provider: str, model: str = "") -> str:
        """As ``platform_of``, by the provider's name: "google" for both "gemini-api" and "vertex"."""
        found = self._platform(provider, model)
        return found.provider if found else ""

    def encoding_of(self, model: str, provider: str = "") -> Encoding:
        """The tokenizer family of a model, "" unknown."""
        return self._encoding(model, provider)

    def isolation(self, platform: str) -> Value | None:
        """Who shares a cache on a platform."""
        found = self._platform(platform, "")
        return found.isolation if found else None

    def marker(self, platform: str) -> str:
        """What marks a prefix for the cache in requests to a platform, whatever the model; "" if that hangs on the model."""
        found = self._platform(platform, "")
        return str(found.marker.value) if found and found.marker else ""

    def invalidated_by(self, change: str) -> Invalidation | None:
        """What of an explicitly marked prefix a change leaves."""
        return next((row for row in self.invalidations if change in row.changes), None)

    # ---- how they are answered

    def _find_model(self, model: str, platform: str) -> Family | None:
        model = self.known(model)
        served = self._platform(platform, model)
        if served is not None and served.passes:
            served = self._maker(model)
        return self._best_family(normalise_model_id(model), served.id) if served else None

    def _find_prices(self, model: str, platform: str) -> tuple[Price, ...]:
        model = self.known(model)
        served, maker, names = self._platform(platform, model), self._maker(model), priced_names(model)
        for at in (served, maker):
            for provider in (at.id, at.provider) if at is not None else ():
                for name in names:
                    found = self.prices.get((provider, name))
                    if found is not None:
                        own = served is None or at is served
                        return found if own else tuple(replace(price, elsewhere=True) for price in found)
        return ()

    def _find_charged(
        self, model: str, platform: str, day: str
    ) -> tuple[tuple[Price, ...], tuple[float, ...]]:
        rows = self.prices_on(model, platform, day)
        if not rows:
            return (), AS_LISTED
        family = self.model(model, platform)
        return tuple(row.completed(family) for row in rows), self.surcharge(rows[0], model, platform)

    def _find_window(self, model: str) -> Value | None:
        model = self.known(model)
        raw = model.strip().lower()
        for row in self.windows:
            if row.suffix and raw.endswith(row.suffix):
                return row.tokens
        name = normalise_model_id(model)
        best = _best(name, self.windows)
        if best is None or name in best.match or ("window", best.id) in self._overridden:
            return best.tokens if best else None
        return replace(best.tokens, status="inferred")

    def _find_encoding(self, model: str, provider: str) -> Encoding:
        model = self.known(model)
        best = _best(normalise_model_id(model), self.encodings)
        if best:
            return best.name
        served = self._platform(provider, model)
        own = served is not None and any(fit(pattern, normalise_model_id(model)) for pattern in served.makes)
        return served.encoding if served is not None and own else ""

    def _best_family(self, name: str, platform: str) -> Family | None:
        """The row with the fewest platforms, then the longest name, then the first."""
        best: tuple[int, int, Reader] | None = None
        for platforms, match, read in self._heads:
            if platform not in platforms:
                continue
            closeness = max(fit(pattern, name) for pattern in match)
            if closeness and (best is None or (-len(platforms), closeness) > best[:2]):
                best = (-len(platforms), closeness, read)
        if best is None:
            return None
        family = read_family(best[2], self.groups)
        rest = self._best_family(name, family.rest_from) if family.rest_from else None
        if rest is None:
            return family
        elsewhere = {field: replace(value, status="inferred") for field, value in rest.values.items()}
        return replace(family, values=MappingProxyType({**elsewhere, **family.values}))

    def _find_usage(self, scope: str, scope_version: str, provider: str) -> UsageRule | None:
        platform = self._platform(provider, "")
        who = {platform.id, platform.provider} if platform else set()
        version = version_of(scope_version)
        best, rank = None, (0, False, False)
        for rule in self.usages:
            stem = rule.scope.rstrip("*")
            fits = scope.startswith(stem) if rule.scope.endswith("*") else scope == stem
            if not fits or (rule.providers and who.isdisjoint(rule.providers)):
                continue
            if rule.below and not (version and version < rule.below):
                continue
            here = (2 * len(stem) + (stem == rule.scope), bool(rule.providers), bool(rule.below))
            if here > rank:
                best, rank = rule, here
        return best

    def _find_platform(self, provider: str, model: str) -> Platform | None:
        model = self.known(model)
        named = self._named(provider)
        if named is None:
            return self._by_id(model) or self._own_platform(model)
        if named.spoken and model:
            # A client of that API may talk to anybody who speaks it.
            if is_bedrock_id(model):
                return self.platforms.get("bedrock", named)
            maker = self._maker(model)
            return maker if maker is named else self._own_platform(model) or maker or named
        if named.serves and model and not any(fit(p, normalise_model_id(model)) for p in named.serves):
            return self.platforms.get(named.otherwise, named)
        return named

    def _own_platform(self, model: str) -> Platform | None:
        """Who serves it by a user's own rows."""
        providers = (p for p in self.platforms.values() if p.provider in self.own_providers(model))
        names = self.own_platforms(model)
        return self.platforms.get(names[0]) if names else next(providers, None)

    def _named(self, provider: str) -> Platform | None:
        """The platform that a spelling names: "openai.chat" is "openai"; a framework's name is nobody's."""
        name = spelling(provider)
        while name:
            if name in self._spellings:
                return self._spellings[name]
            name = name.rpartition(".")[0]
        return None

    def _by_id(self, model: str) -> Platform | None:
        """The platform that the shape of a model's id tells, else its maker."""
        if not model:
            return None
        path = path_of(model)
        for part in path:
            if part == "publishers":  # projects/P/locations/L/publishers/google/models/M
                return self.platforms.get("vertex")
            if spelling(part) in self._spellings:
                return self._spellings[spelling(part)]
        if is_bedrock_id(model):
            return self.platforms.get("bedrock")
        if "@" in model and normalise_model_id(model).startswith("claude"):
            return self.platforms.get("vertex")
        return self._maker(model)

    def _maker(self, model: str) -> Platform | None:
        """Who makes and serves it. Open weights ("Qwen/Qwen3-32B") may be served by anybody."""
        path = path_of(model)
        if path and path[-1] != "models" and spelling(path[-1]) not in self._spellings:
            return None
        if path and any(c.isupper() for c in model.rpartition("/")[2]):
            return None
        name = normalise_model_id(model)
        best, rank = None, 0
        for platform in self.platforms.values():
            closeness = max((fit(pattern, name) for pattern in platform.makes), default=0)
            if closeness > rank:
                best, rank = platform, closeness
        return best


def _best(name: str, rows: Iterable[Matched]) -> Matched | None:
    best, rank = None, 0
    for row in rows:
        closeness = max((fit(pattern, name) for pattern in row.match), default=0)
        if closeness > rank:
            best, rank = row, closeness
    return best
