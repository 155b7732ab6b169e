"""Contents that records refer to: uploaded prompts, raw request and response bodies in files of their own.

A reference is what a stranger's dump says, so it is no more than a name to look for: in the folders that were given and
below them, in regular files that end in .json or .jsonl (packed with gzip or not), and up to a size. Nothing is fetched from
anywhere else, whatever the reference says.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from otel_ctx.parts import loads

_MAX_BYTES = 64 << 20  # of one content, unpacked
_MAX_REFERENCE = 4096  # characters
_DEEPEST = 16  # folders of a reference that are looked for
_FOLDERS = 256  # subfolders that are looked into
_KEPT = 8  # contents that are remembered: a body is asked for section by section, tools are asked for by every call
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters at least: one is a drive of Windows


class Store:
    """``folders``: where references may lead to, and below. ``used`` holds the files that were read."""

    def __init__(self, folders: Iterable[str | Path]) -> None:
        roots = dict.fromkeys(Path(folder).resolve() for folder in folders)
        self._roots = [root for root in roots if root != Path(root.anchor) and root.is_dir()]
        self._inside: dict[Path, list[Path]] = {}
        self._load = lru_cache(maxsize=_KEPT)(self._loaded)
        self.used: set[Path] = set()

    def fetch(self, reference: str) -> Any:
        """What ``reference`` leads to, parsed; None where that is nothing that may be read. A file of JSON lines is a list."""
        return self._load(reference)

    def _loaded(self, reference: str) -> Any:
        name = _path_of(reference)
        if not name or name[-1].removesuffix(".gz").rpartition(".")[2] not in ("json", "jsonl"):
            return None
        for root in self._roots:
            for candidate in self._candidates(root, name):
                file = _inside(root, candidate)
                value = _parsed(file) if file is not None else None
                if file is not None and value is not None:
                    self.used.add(file)
                    return value
        return None

    def _candidates(self, root: Path, name: tuple[str, ...]) -> Iterator[Path]:
        """Under the end of the path that it once had, the longest first; else under its name in a folder beside the dump."""
        ends = (root.joinpath(*name[start:]) for start in range(len(name)))
        moved = (folder / name[-1] for folder in self._subfolders(root))
        for path in (*ends, *moved):
            yield path
            yield path.with_name(path.name + ".gz")

    def _subfolders(self, root: Path) -> list[Path]:
        if root not in self._inside:
            try:
                folders = sorted(f for f in root.iterdir() if f.is_dir() and not f.name.startswith("."))
            except OSError:
                folders = []
            self._inside[root] = folders[:_FOLDERS]
        return self._inside[root]


def _path_of(reference: str) -> tuple[str, ...]:
    """The steps of the path, from the last hidden folder or step upwards on; () for what is no path on this machine."""
    if len(reference) > _MAX_REFERENCE or "\0" in reference:
        return ()
    path = reference
    if _SCHEME.match(reference):
        try:
            url = urlsplit(reference)
        except ValueError:
            return ()
        if url.scheme != "file" or url.netloc not in ("", "localhost"):
            return ()
        path = unquote(url.path)
    steps: list[str] = []
    for step in path.replace("\\", "/").split("/"):
        if step.startswith(".") and step != ".":
            steps.clear()
        elif step not in ("", ".") and "\0" not in step and ":" not in step:
            steps.append(step)
    return tuple(steps[-_DEEPEST:])


def _inside(root: Path, path: Path) -> Path | None:
    """The regular file that ``path`` is, where it truly lies below ``root``, links followed, and not in a hidden folder."""
    try:
        file = path.resolve(strict=True)
        below = file.relative_to(root)
        hidden = any(step.startswith(".") for step in below.parts)
        return file if file.is_file() and not hidden else None
    except (OSError, ValueError, RuntimeError):
        return None


def _parsed(file: Path) -> Any:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            return None
        text = data.decode("utf-8-sig")
        if ".jsonl" in file.suffixes[-2:]:
            return [loads(line) for line in text.split("\n") if line.strip()]
        return loads(text)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
