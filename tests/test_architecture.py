"""The layers hold: no module knows what stands above it or beside it, and only `live` has a clock."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def test_every_contract_is_kept() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = pyproject["tool"]["importlinter"]["contracts"]

    run = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(contracts)} kept, 0 broken" in run.stdout


def test_no_state_is_read_that_nobody_writes() -> None:
    """An attribute that __init__ sets to a constant has another line that sets it."""
    begun: dict[str, list[str]] = {}
    written: dict[str, int] = {}
    for path in sorted((ROOT / "otel_ctx").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                written[node.attr] = written.get(node.attr, 0) + 1
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                for name in _constants(node):
                    begun.setdefault(name, []).append(str(path.relative_to(ROOT)))

    assert [(name, where) for name, where in begun.items() if written[name] <= len(where)] == []


def _constants(init: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(init):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            yield from (t.attr for t in targets if isinstance(t, ast.Attribute))
