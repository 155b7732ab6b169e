"""Inputs that are still being written: when it is time to look again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_EVERY = 1.0  # seconds
_REST = 4  # times as long as the last look took: a large input must not keep a processor busy

State = dict[str, tuple[int, int, int]]


def changes(
    paths: Sequence[str],
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Yields at once, and again whenever a file of ``paths`` has grown, was replaced or is gone, or a folder has a new one."""
    seen: State | None = None
    while True:
        state, took = _state(paths), 0.0
        if state != seen:
            seen = state
            begun = clock()
            yield
            took = clock() - begun
        wait(max(_EVERY, _REST * took))


def _state(paths: Sequence[str]) -> State:
    """Size, time of change and identity of every file."""
    state: State = {}
    for path in map(Path, paths):
        for file in path.rglob("*") if path.is_dir() else (path,):
            try:
                found = file.stat()
            except OSError:
                continue  # gone, or not there yet
            state[str(file)] = (found.st_size, found.st_mtime_ns, found.st_ino)
    return state
