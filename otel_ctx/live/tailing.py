"""Dumps that are still being written -> what stands in them now.

OTLP as JSON, a request a line, is followed: only what is new is read and judged. A transcript, a log of requests, a compressed
or a pretty-printed file makes sense as a whole only, and is read again as a whole when it has changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from otel_ctx.engine import LiveEngine, Settings
from otel_ctx.errors import InputError
from otel_ctx.inputs import Batch, read
from otel_ctx.model import LogRecord, Span
from otel_ctx.outputs.views.board import Board
from otel_ctx.reports import report_of

_FOLLOWED = "otlp-json"
_MOST = 64 << 20  # bytes of a file that are followed at once


@dataclass(slots=True)
class _File:
    inode: int
    size: int  # bytes that were read
    changed: int


class Following:
    """Files and folders. ``board`` stands for what was read; ``note`` says what is odd."""

    def __init__(
        self,
        paths: Sequence[str],
        settings: Settings,
        *,
        format_: str | None = None,
        contents: Sequence[str] = (),
    ) -> None:
        self._paths, self._settings, self._format, self._contents = paths, settings, format_, contents
        self._files: dict[str, _File] = {}
        follows = not contents and format_ in (None, _FOLLOWED)
        self._engine = LiveEngine(settings) if follows else None
        self.board = Board()
        self.note = ""

    @property
    def follows(self) -> bool:
        """Whether only what is new is read."""
        return self._engine is not None

    def look(self) -> bool:
        """Read what is new. Whether there was any, or something has settled."""
        found = dict(self._stats())
        changed = [path for path, stat in found.items() if self._is_new(path, stat)]
        gone = [path for path in self._files if path not in found]
        if not found:
            self.note = f"waiting for {', '.join(self._paths)}"
        if self._engine is not None and not gone:
            new = list(self._new(changed, found))
            batches = [batch for batch in new if batch is not None]
            if len(batches) == len(new):
                return self._feed(self._engine, batches)
        if not changed and not gone:
            return False
        self._whole(found)
        return True

    def _stats(self) -> Iterator[tuple[str, os.stat_result]]:
        for given in map(Path, self._paths):
            for path in sorted(given.rglob("*")) if given.is_dir() else (given,):
                try:
                    stat = path.stat()
                except OSError:
                    continue  # gone, or not there yet
                hidden = any(part.startswith(".") for part in path.relative_to(given).parts)
                if path.is_file() and not hidden:
                    yield str(path), stat

    def _is_new(self, path: str, stat: os.stat_result) -> bool:
        known = self._files.get(path)
        return (
            known is None
            or (stat.st_ino, stat.st_mtime_ns) != (known.inode, known.changed)
            or (stat.st_size != known.size)
        )

    # ---- what is new

    def _new(self, changed: Sequence[str], found: dict[str, os.stat_result]) -> Iterator[Batch | None]:
        """None where a file cannot be followed."""
        for path in changed:
            stat = found[path]
            known = self._files.get(path)
            rotated = known is None or known.inode != stat.st_ino or stat.st_size < known.size
            start = 0 if known is None or rotated else known.size
            try:
                with Path(path).open("rb") as stream:
                    stream.seek(start)
                    data = stream.read(_MOST)
            except OSError:
                continue
            data = data[: data.rfind(b"\n") + 1]  # the rest is still being written
            if data and not all(_is_a_request(each) for each in data.splitlines()):
                yield None
                return
            if data:
                try:
                    yield from read(["-"], format=_FOLLOWED, stdin=BytesIO(data))
                except InputError as error:
                    self.note = f"{path}: {error.why}"
            # What was not read to its end is looked at again: its size is not the file's.
            self._files[path] = _File(stat.st_ino, start + len(data), stat.st_mtime_ns)

    def _feed(self, engine: LiveEngine, batches: Sequence[Batch]) -> bool:
        spans = [s for b in batches for s in b.spans]
        logs = [r for b in batches for r in b.logs]
        skipped = [s for b in batches for s in b.skipped]
        if skipped:
            self.note = f"{skipped[-1].why}"
        return hear(engine, self.board, spans, logs)

    # ---- all of it

    def _whole(self, found: dict[str, os.stat_result]) -> None:
        self._engine = None
        for path, stat in found.items():
            self._files[path] = _File(stat.st_ino, stat.st_size, stat.st_mtime_ns)
        for path in [p for p in self._files if p not in found]:
            del self._files[path]
        there = [p for p in self._paths if Path(p).exists()]
        if not there:
            return
        try:
            report = report_of(there, self._settings, format_=self._format, contents=self._contents)
        except InputError as error:
            self.note = str(error)
            return
        skipped = report.inputs.skipped
        self.note = f"{skipped[-1][0]}: {skipped[-1][1]}" if skipped else ""
        self.board.replace(report.calls)


def _is_a_request(text: bytes) -> bool:
    text = text.strip()
    return not text or (text.startswith(b"{") and text.endswith(b"}") and b'"resource' in text[:4096])


def hear(engine: LiveEngine, board: Board, spans: Sequence[Span], logs: Sequence[LogRecord]) -> bool:
    """What ``engine`` says of new records, and of what has settled by now, onto ``board``. Whether it said anything."""
    said = engine.feed(spans, logs) if spans or logs else []
    board.hear(said, settled=False)
    settled = engine.advance(time.time_ns())
    board.hear(settled, settled=True)
    return bool(said or settled)
