"""Log lines of what senders do: one of each kind a minute at most, so that none of them can fill the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_PAUSE = 60.0  # s
_MOST = 100  # kinds that are kept apart


class Seldom(logging.Filter):
    """As a filter of a logger: of its warnings and errors, by what stands before the values are put in."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, float] = {}

    def due(self, kind: str) -> bool:
        now = self._clock()
        if now - self._told.get(kind, -_PAUSE) < _PAUSE or (
            kind not in self._told and len(self._told) >= _MOST
        ):
            return False
        self._told[kind] = now
        return True

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING or self.due(str(record.msg))
