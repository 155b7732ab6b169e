"""The instrumentations of model clients that are installed, and where each records contents in an environment. The
table is ``instrumentations.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.metadata import Distribution
from importlib.resources import files
from typing import Any

from otel_ctx.findings.switches import fix_for, fix_for_double

GROUP = "opentelemetry_instrumentor"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
HOOK = "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"
NOTHING = "nothing"
_TO_US = "the completion hook"


@dataclass(frozen=True, slots=True)
class Instrumentation:
    """One package. ``loads``: whether opentelemetry-instrument starts it, or it needs nobody to; ``why`` not.
    ``contents``: where they go; ``because`` of which variable; ``fix`` where they go nowhere."""

    package: str
    version: str
    scope: str
    client: str
    loads: bool
    why: str
    contents: str
    because: str
    fix: str
    hook: bool
    withholds: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    packages: tuple[str, ...]
    scope: str
    variables: tuple[str, ...]
    values: Mapping[str, str]
    unset: str
    other: str
    source: str
    since: str = ""
    below: str = ""
    hook: bool = False
    own: bool = False
    off: tuple[str, ...] = ()
    withholds: tuple[str, ...] = field(default=())

    def fits(self, package: str, version: str) -> bool:
        if not any(fnmatchcase(package, pattern) for pattern in self.packages):
            return False
        v = _numbers(version)
        return not (self.since and v < _numbers(self.since)) and not (
            self.below and v >= _numbers(self.below)
        )


@lru_cache(maxsize=1)
def table() -> tuple[_Row, ...]:
    rows = tomllib.loads(files(__package__).joinpath("instrumentations.toml").read_text("utf-8"))[
        "instrumentation"
    ]
    return tuple(_Row(**_row(row)) for row in rows)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def instrumentations(
    installed: Mapping[str, Distribution], environ: Mapping[str, str]
) -> tuple[Instrumentation, ...]:
    """``installed``: distributions by their names, in lower case with ``-``."""
    found = []
    for package, distribution in sorted(installed.items()):
        row = next((row for row in table() if row.fits(package, distribution.version)), None)
        if row is not None:
            found.append(_instrumentation(row, package, distribution, installed, environ))
    return tuple(found)


def conflicts(found: Iterable[Instrumentation]) -> list[tuple[str, tuple[str, ...], str]]:
    """(client, packages, what to do) where several tell of the same calls."""
    by_client: dict[str, list[Instrumentation]] = {}
    for each in found:
        if each.loads and each.client:
            by_client.setdefault(each.client, []).append(each)
    return [
        (client, tuple(e.package for e in several), fix_for_double(tuple(e.scope for e in several)))
        for client, several in sorted(by_client.items())
        if len(several) > 1
    ]


def disabled(environ: Mapping[str, str]) -> frozenset[str]:
    """Names of instrumentors that are not to be loaded; ``*``: none is."""
    return frozenset(name.strip() for name in environ.get(DISABLED, "").split(",") if name.strip())


def _instrumentation(
    row: _Row,
    package: str,
    distribution: Distribution,
    installed: Mapping[str, Distribution],
    environ: Mapping[str, str],
) -> Instrumentation:
    prefix = next(p for p in row.packages if fnmatchcase(package, p)).rstrip("*")
    name = package.removeprefix(prefix or package) or package.rpartition("instrumentation-")[2]
    scope = row.scope.format(name=name.replace("-", "_"))
    names = tuple(point.name for point in distribution.entry_points if point.group == GROUP)
    client = package if row.own else _client(distribution)
    why = _off(row, environ) if row.own else _unloaded(names, client, distribution, installed, environ)
    if not why and not row.own:
        why = _broken(distribution)
    contents, because = _contents(row, environ)
    if contents == NOTHING and row.hook and environ.get(HOOK, "").strip() == "otelctx":
        contents, because = _TO_US, f"{HOOK}=otelctx"
    return Instrumentation(
        package=package, version=distribution.version, scope=scope, client=client, loads=not why, why=why,
        contents=contents, because=because, hook=row.hook, withholds=row.withholds, names=names,
        fix=fix_for("content", scope, distribution.version) if contents == NOTHING else "",
    )  # fmt: skip


def _contents(row: _Row, environ: Mapping[str, str]) -> tuple[str, str]:
    given = [(v, environ[v].strip()) for v in row.variables if environ.get(v, "").strip()]
    for variable, value in given:
        if value.lower() in row.values:
            return row.values[value.lower()], f"{variable}={value}"
    if given:
        variable, value = given[0]
        return row.other, f"{variable}={value}" + (
            "" if row.other == row.unset == "spans" else ", which it does not know"
        )
    return row.unset, f"{row.variables[0]} is not set"


def _off(row: _Row, environ: Mapping[str, str]) -> str:
    if len(row.off) == 2 and environ.get(row.off[0], "").strip().lower() == row.off[1]:
        return f"{row.off[0]}={row.off[1]}"
    return ""


def _unloaded(
    names: tuple[str, ...],
    client: str,
    distribution: Distribution,
    installed: Mapping[str, Distribution],
    environ: Mapping[str, str],
) -> str:
    """Why opentelemetry-instrument does not start it."""
    out = disabled(environ)
    if not names:
        return "it has no entry point"
    if "*" in out or out.issuperset(names):
        return f"{DISABLED}={environ[DISABLED].strip()}"
    wanted = [_asked(text) for text in distribution.requires or () if "instruments" in text]
    for name, text in wanted:
        if name not in installed:
            return f"{name} is not installed"
        if not _allowed(text, installed[name].version):
            return f"{name} {installed[name].version} is installed, it wants {text.partition(';')[0].strip()}"
    return ""


def _broken(distribution: Distribution) -> str:
    """Why its entry points cannot be loaded, which opentelemetry-instrument does too. A package may break in any way."""
    for point in distribution.entry_points:
        if point.group == GROUP:
            try:
                point.load()
            except Exception as error:
                return f"it cannot be imported: {type(error).__name__}: {error}"
    return ""


def _client(distribution: Distribution) -> str:
    return next((_asked(text)[0] for text in distribution.requires or () if "instruments" in text), "")


def _asked(requirement: str) -> tuple[str, str]:
    found = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    return (normal(found[1]) if found else ""), requirement


def _allowed(requirement: str, version: str) -> bool:
    try:  # opentelemetry-instrumentation brings it along
        from packaging.requirements import Requirement

        return Requirement(requirement).specifier.contains(version, prereleases=True)
    except Exception:
        return True


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])
