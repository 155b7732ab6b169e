"""The switch that mends a loss of data, by instrumentation scope and version. The table is ``switches.toml``.

A helper of the checks.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, get_args

from otel_ctx.model import Call

Lost = Literal[
    "content", "part", "masked", "tools", "logs", "reference", "unreadable", "server", "sum", "media", "cut", "attributes",
    "usage", "cached", "double", "format",
]  # fmt: skip
"""What was lost: all message contents, some of them, contents behind a mask, tool definitions, log records, stored contents,
contents that cannot be read, histories on a server, single calls of which there is a sum, the data of media, the end of a
value, whole attributes, token numbers, those of the cache; ``double``: nothing, but a call is told twice; ``format``: values
that the dump's format cuts, whose name stands in the place of the scope."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A row: ``fix`` mends ``lost`` for scopes that fit ``scopes`` (``*`` allowed), ``since`` <= v < ``below``, in one of
    ``dialects`` (where the scope's version does not tell the package's), where all of ``sections`` are lost."""

    lost: Lost
    scopes: tuple[str, ...]
    fix: str
    source: str
    since: str = ""
    below: str = ""
    dialects: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()

    def fits(
        self, scope: str, version: str, dialect: str = "", sections: frozenset[str] = frozenset()
    ) -> bool:
        if not any(fnmatchcase(scope, pattern) for pattern in self.scopes):
            return False
        if (self.dialects and dialect not in self.dialects) or not sections.issuperset(self.sections):
            return False
        if not self.since and not self.below:
            return True
        v = _numbers(version)
        if not v:
            return False  # a row that hangs on the version says nothing of an unknown one
        return not (self.since and v < _numbers(self.since)) and not (
            self.below and v >= _numbers(self.below)
        )


@lru_cache(maxsize=1)
def table() -> tuple[Switch, ...]:
    """All rows, in the order in which they are tried. ValueError where the table does not hold together."""
    rows = tomllib.loads(files(__package__).joinpath("switches.toml").read_text("utf-8"))["switch"]
    switches = tuple(Switch(**_row(row)) for row in rows)
    for lost in get_args(Lost):
        if not any(s.lost == lost and "*" in s.scopes for s in switches):
            raise ValueError(f"switches.toml: no row for every scope that mends {lost!r}")
    return switches


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


@lru_cache(maxsize=1024)
def fix_for(
    lost: Lost, scope: str, version: str = "", dialect: str = "", sections: frozenset[str] = frozenset()
) -> str:
    """The sentence that says how to mend it in this library."""
    return next(s.fix for s in table() if s.lost == lost and s.fits(scope, version, dialect, sections))


def switch_of(lost: Lost, call: Call) -> str:
    """The same, for the library that told of ``call``; of a log or a transcript it is the format."""
    if lost == "format":
        return fix_for(lost, call.cut_by)
    scope = call.scope if call.record == "span" else call.dialect
    return fix_for(lost, scope, call.scope_version, call.dialect, call.completeness.lost)


def fix_for_double(scopes: tuple[str, ...]) -> str:
    """Which of several instrumentations of one call can be switched off, and how: the first row that fits one."""
    return next(s.fix for s in table() if s.lost == "double" and any(s.fits(scope, "") for scope in scopes))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])
