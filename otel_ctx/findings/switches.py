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
from typing import Literal, get_args

Lost = Literal[
    "content", "part", "masked", "tools", "logs", "reference", "cut", "attributes", "usage", "double"
]
"""What was lost: all message contents, some of them, contents behind a mask, tool definitions, log records, stored
contents, the end of a value, whole attributes, token numbers; ``double``: nothing, but a call is told twice."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A row: ``fix`` mends ``lost`` for scopes that fit ``scopes`` (``*`` allowed), ``since`` <= v < ``below``."""

    lost: Lost
    scopes: tuple[str, ...]
    fix: str
    source: str
    since: str = ""
    below: str = ""

    def fits(self, scope: str, version: str) -> bool:
        if not any(fnmatchcase(scope, pattern) for pattern in self.scopes):
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
    switches = tuple(Switch(**{**row, "scopes": tuple(row["scopes"])}) for row in rows)
    for lost in get_args(Lost):
        if not any(s.lost == lost and "*" in s.scopes for s in switches):
            raise ValueError(f"switches.toml: no row for every scope that mends {lost!r}")
    return switches


@lru_cache(maxsize=1024)
def fix_for(lost: Lost, scope: str, version: str = "") -> str:
    """The sentence that says how to mend it in this library."""
    return next(s.fix for s in table() if s.lost == lost and s.fits(scope, version))


def fix_for_double(scopes: tuple[str, ...]) -> str:
    """Which of several instrumentations of one call can be switched off, and how: the first row that fits one."""
    return next(s.fix for s in table() if s.lost == "double" and any(s.fits(scope, "") for scope in scopes))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])
