"""How a library has the end of a prompt marked for the cache. The table is ``marking.toml``.

A helper of the checks.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any

from otel_ctx.model import Call


@dataclass(frozen=True, slots=True)
class Marking:
    """A row: ``end`` says how, ``longer`` and ``shorter`` how a lifetime is asked for; ``own`` what to do where the library
    writes the prompt itself ("": it does not)."""

    scopes: tuple[str, ...]
    end: str
    source: str
    services: tuple[str, ...] = ()
    platform: str = ""
    longer: str = ""
    shorter: str = ""
    own: str = ""

    def fits(self, scope: str, service: str, platform: str) -> bool:
        if self.platform and self.platform != platform:
            return False
        return service in self.services or any(fnmatchcase(scope, pattern) for pattern in self.scopes)


@lru_cache(maxsize=1)
def table() -> tuple[Marking, ...]:
    """All rows, in the order in which they are tried."""
    rows = tomllib.loads(files(__package__).joinpath("marking.toml").read_text("utf-8"))["marking"]
    return tuple(Marking(**_row(row)) for row in rows)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def marking_of(call: Call) -> Marking:
    """That of the library that told of ``call``."""
    scope = call.scope if call.record == "span" else call.dialect
    return _marking(scope, call.service, call.served_by)


@lru_cache(maxsize=256)
def _marking(scope: str, service: str, platform: str) -> Marking:
    fitting = [row for row in table() if row.fits(scope, service, platform)]
    first, last = fitting[0], next(row for row in fitting if row.longer and row.shorter)
    return replace(first, longer=first.longer or last.longer, shorter=first.shorter or last.shorter)
