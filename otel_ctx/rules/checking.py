"""Whether the tables hold together: each row readable, with source, date and status, and naming only what exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any

from otel_ctx.errors import RulesError
from otel_ctx.rules.names import normalise_model_id
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
from otel_ctx.rules.tables import Rules


def check(rules: Rules) -> list[str]:
    """All that is wrong, each naming file, row and field; an empty list if nothing is."""
    problems: list[str] = []

    def tried(read: Callable[[Reader], Any], table: str, row_id: str, row: Any) -> None:
        try:
            read(rules.reader(table, row_id, row))
        except RulesError as error:
            problems.append(str(error))

    # The other tables stand on these two: without them each of their rows would be reported.
    for name, row in rules.rows("sources").items():
        tried(partial(read_source, name), "sources", name, row)
    if problems:
        return problems
    for name, row in rules.rows("group").items():
        tried(read_group, "group", name, row)
    if problems:
        return problems

    readers: dict[str, Callable[[Reader], Any]] = {
        "family": partial(read_family, groups=rules.groups),
        "encoding": read_encoding,
        "window": read_window,
        "price": read_price,
        "service_tier": read_service_tier,
        "surcharge": read_surcharge,
        "usage": read_usage,
        "platform": read_platform,
        "invalidation": read_invalidation,
        "fact": read_fact,
    }
    for table, read in readers.items():
        seen: Counter[str] = Counter()
        for row in rules.rows(table):
            row_id = str(row.get("id", ""))
            seen[row_id] += 1
            if seen[row_id] == 2:
                problems.append(f"{rules.file_of(table, row_id)}: {table} {row_id}: id: stands there twice")
            tried(read, table, row_id, row)
    return problems or _references(rules)


def _references(rules: Rules) -> list[str]:
    problems = []

    def expect(good: bool, table: str, row: str, field: str, why: str) -> None:
        if not good:
            problems.append(f"{rules.file_of(table, row)}: {table} {row}: {field}: {why}")

    platforms, families = rules.platforms, {f.id for f in rules.families}
    for family in rules.families:
        named = {*family.platforms, family.rest_from} - {""}
        expect(
            named <= platforms.keys(), "family", family.id, "platforms", "names no platform of providers.toml"
        )
        marked = family.with_markers
        expect(not marked or marked in families, "family", family.id, "with_markers", f"no family {marked!r}")
        expect(
            family.rest_from not in family.platforms, "family", family.id, "rest_from", "is its own platform"
        )
    for platform in platforms.values():
        rest = platform.otherwise
        expect(bool(rest) == bool(platform.serves), "platform", platform.id, "otherwise", "goes with serves")
        expect(not rest or rest in platforms, "platform", platform.id, "otherwise", f"no platform {rest!r}")
    for surcharge in rules.surcharges:
        there = surcharge.platform in platforms
        expect(there, "surcharge", surcharge.id, "platform", "is no platform of providers.toml")
    known = {*platforms, *(p.provider for p in platforms.values())}
    for rule in rules.usages:
        expect(
            known >= {*rule.providers}, "usage", rule.id, "providers", "names no provider of providers.toml"
        )

    for price in (price for rows in rules.prices.values() for price in rows):
        clocked = bool(price.hours) or not (price.weekdays or price.some_days)
        expect(clocked, "price", price.id, "hours", "missing: weekdays and some_days are said of hours")

    for table in ("price", "service_tier"):
        for row in rules.rows(table):
            provider = row["provider"]
            near = get_close_matches(provider, known, 1)
            meant = f", is {near[0]} meant? There are" if near else "; there are"
            why = f"no provider {provider!r}{meant} {', '.join(sorted(known))}"
            expect(provider in known, table, row["id"], "provider", why)

    # Names are compared after normalising: another spelling would never match.
    patterns = [("family", f.id, f.match) for f in rules.families]
    patterns += [("window", w.id, w.match) for w in rules.windows]
    patterns += [("encoding", e.id, e.match) for e in rules.encodings]
    for table, row_id, match in patterns:
        for name in (pattern.removesuffix("*") for pattern in match):
            normal = normalise_model_id(name)
            expect(name == normal, table, row_id, "match", f"{name!r} should be {normal!r}")
    return problems
