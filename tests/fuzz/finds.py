"""Finds on disk: the input, what it did, and whether that is known already."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

from tests.fuzz.targets import Find, run


class Finds:
    """One of a kind is kept: the same exception from the same lines of ours, or the same rule."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def tried(self, target: str, data: bytes) -> None:
        """Run ``target``; what it finds is written down, and nothing is raised."""
        try:
            run(target, data)
        except Exception as error:
            self._keep(target, data, error)

    def _keep(self, target: str, data: bytes, error: Exception) -> None:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "otel_ctx" in f.filename]
        where = [f"{Path(f.filename).name}:{f.name}" for f in frames[-3:]]
        rule = str(error).partition(":")[0] if isinstance(error, Find) else ""
        kind = hashlib.sha256(repr((target, type(error).__name__, rule, where)).encode()).hexdigest()[:12]
        path = self._folder / f"{target}-{kind}"
        if not path.exists():
            path.write_bytes(data)
            told = "".join(traceback.format_exception(error))
            path.with_suffix(".txt").write_text(told, "utf-8", "backslashreplace")
            print(
                f"FIND {path}: {type(error).__name__}: {error!s:.200}".encode(
                    errors="backslashreplace"
                ).decode(),
                flush=True,
            )
