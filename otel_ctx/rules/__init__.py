"""What providers, models and instrumentations do, as data: each value with its source, date and status.

The numbers stand in the TOML files beside this module. A user's own file (``load(override)``) has the same tables; its
rows replace those of the same id, and come before the others.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from otel_ctx.errors import RulesError
from otel_ctx.rules.checking import check
from otel_ctx.rules.names import normalise_model_id
from otel_ctx.rules.rows import (
    CacheCount,
    Encoding,
    Engine,
    Family,
    Fate,
    Invalidation,
    Price,
    RuleStatus,
    Source,
    UsageRule,
    Value,
)
from otel_ctx.rules.tables import TABLES, Rules

__all__ = [
    "CacheCount",
    "Encoding",
    "Engine",
    "Family",
    "Fate",
    "Invalidation",
    "Price",
    "RuleStatus",
    "Rules",
    "Source",
    "UsageRule",
    "Value",
    "check",
    "load",
    "normalise_model_id",
]


def load(override: bytes | str | None = None) -> Rules:
    """The rules, with a user's TOML over them. RulesError where that file does not hold together."""
    if override is None:
        return _default()
    try:
        given = tomllib.loads(override.decode() if isinstance(override, bytes) else override)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RulesError(f"override: {error}") from error
    tables: dict[str, Any] = {table: _table(table) for table in TABLES}
    overridden: set[tuple[str, str]] = set()
    for table, rows in given.items():
        if table not in TABLES:
            raise RulesError(f"override: {table}: no such table; there are {', '.join(TABLES)}")
        default = tables[table]
        if isinstance(default, dict):
            if not isinstance(rows, dict):
                raise RulesError(f"override: {table}: write [{table}.ID]")
            tables[table] = {**default, **rows}
            ids = set(rows)
        else:
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise RulesError(f"override: {table}: write [[{table}]]")
            ids = {str(row.get("id", "")) for row in rows}
            tables[table] = [*rows, *(row for row in default if row["id"] not in ids)]
        overridden.update((table, row_id) for row_id in ids)
    rules = Rules(tables.__getitem__, frozenset(overridden))
    problems = check(rules)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise RulesError(problems[0] + more)
    return rules


@lru_cache(maxsize=1)
def _default() -> Rules:
    return Rules(_table)


def _table(table: str) -> Any:
    found = _file(TABLES[table]).get(table)
    if found is None:
        raise RulesError(f"{TABLES[table]}: {table}: missing")
    return found


@lru_cache(maxsize=len(TABLES))
def _file(name: str) -> dict[str, Any]:
    """A file is parsed when one of its tables is first asked for: a look-up of windows needs no cache rules."""
    try:
        return tomllib.loads(files(__name__).joinpath(name).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RulesError(f"{name}: {error}") from error
