"""The table ``[tool.otelctx.check]`` of a project's pyproject.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_ctx_cli.main import Failure

if TYPE_CHECKING:
    from otel_ctx.outputs.views.gates import Gates

_FILE = "pyproject.toml"


@dataclass(frozen=True)
class Project:
    """What the project asks of every check; ``gates`` by their names there."""

    source: str = ""
    gates: Mapping[str, Any] = field(default_factory=dict)
    strict: bool | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  # model -> window in tokens
    ignore: frozenset[str] = frozenset()

    def with_flags(self, flags: Mapping[str, Any]) -> Gates:
        """``flags`` win. Raises Failure, which names the file and the key."""
        from otel_ctx.errors import SettingError
        from otel_ctx.outputs.views.gates import gates_of

        own = {key.replace("-", "_"): value for key, value in self.gates.items()}
        try:
            gates_of(self.gates)
        except SettingError as error:
            raise Failure(f"{self.source}: {error}") from None
        return gates_of({**own, **{k: v for k, v in flags.items() if v is not None}})


def project(path: str | None) -> Project:
    """Of the file ``path``, else of the next pyproject.toml from the working folder upward that has the table."""
    if path is not None:
        found = _table(Path(path))
        if found is None:
            raise Failure(f"{path}: there is no table [tool.otelctx.check]")
        return found
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / _FILE
        if file.is_file() and (found := _table(file)) is not None:
            return found
    return Project()


def _table(path: Path) -> Project | None:
    import tomllib  # --help does not wait for it

    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise Failure(f"{path}: {why}") from None
    table: Any = document
    for name in ("tool", "otelctx"):
        table = table.get(name, {}) if isinstance(table, dict) else {}
    unknown = [key for key in table if key != "check"] if isinstance(table, dict) else []
    if unknown:
        raise Failure(f"{path}: [tool.otelctx] has no table {unknown[0]!r}; there is check")
    if not isinstance(table, dict) or "check" not in table:
        return None
    table = table["check"]
    if not isinstance(table, dict):
        raise Failure(f"{path}: tool.otelctx.check is no table")
    return _read(f"{path}: [tool.otelctx.check]", dict(table))


def _read(source: str, table: dict[str, Any]) -> Project:
    strict = table.pop("strict", None)
    if strict is not None and not isinstance(strict, bool):
        raise Failure(f"{source}: strict: {strict!r} is neither true nor false")
    limits = table.pop("limits", {})
    if not isinstance(limits, dict) or not all(type(v) is int and v > 0 for v in limits.values()):
        raise Failure(f'{source}: limits is a table of tokens by model, as {{ "gpt-x" = 128000 }}')
    ignore = table.pop("ignore", [])
    if not isinstance(ignore, list) or not all(isinstance(kind, str) for kind in ignore):
        raise Failure(f'{source}: ignore is a list of kinds of findings, as ["compaction"]')
    from otel_ctx.findings.kinds import KINDS

    unknown = [kind for kind in ignore if kind.partition(":")[0] not in KINDS]
    if unknown:
        raise Failure(f"{source}: ignore: {unknown[0]!r} is no kind of finding; otelctx explain lists them")
    return Project(source, table, strict, limits, frozenset(ignore))
