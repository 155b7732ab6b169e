"""Contents that come beside the spans, in log records or by a completion hook: they wait until their span has ended.

All contents of a span or none: half a prompt would be taken for a whole one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable

from otel_ctx.live.faults import survive
from otel_ctx.live.settings import name_once
from otel_ctx.model import LogRecord

Key = tuple[str, str]
"""Trace and span, as hex; empty where a record belongs to none."""
Read = Callable[[], LogRecord]

MOST = 20_000  # records that wait, of spans that have not ended
_TOO_MANY = "more log records wait for their spans than are kept: the contents of some calls are not analysed"


class Contents:
    """``put`` is for any thread and takes no lock; the others are for one thread at a time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._arrived: deque[tuple[Key, Read]] = deque()
        self._refused: deque[Key] = deque(maxlen=most)  # had no room
        # the span that began to wait first is first
        self._waiting: OrderedDict[Key, list[Read]] = OrderedDict()
        self._count = 0
        self._gone: OrderedDict[Key, None] = OrderedDict()  # spans of which something had no room

    def put(self, key: Key, read: Read) -> None:
        if len(self._arrived) < self._most:
            self._arrived.append((key, read))
        else:
            self._refused.append(key)

    def __bool__(self) -> bool:
        return bool(self._arrived or self._refused or self._waiting)

    def take(self, ended: Iterable[Key], before: Collection[Key] = ()) -> list[LogRecord]:
        """Those of the spans that have ``ended``, now or ``before``, and those of no span."""
        arrived = [self._arrived.popleft() for _ in range(len(self._arrived))]
        for key in [self._refused.popleft() for _ in range(len(self._refused))]:
            self._lose(key)
        out: list[LogRecord] = []
        for key, read in arrived:
            if not key[1] or key in before:
                out += _all([read])
            elif key not in self._gone:
                self._waiting.setdefault(key, []).append(read)
                self._count += 1
        for key in ended:
            reads = self._waiting.pop(key, [])
            self._count -= len(reads)
            out += _all(reads)
        while self._count > self._most:
            self._lose(next(iter(self._waiting)))
        return out

    def forget(self, keys: Iterable[Key]) -> None:
        """Of spans that nobody will ask for."""
        for key in keys:
            self._count -= len(self._waiting.pop(key, ()))

    def _lose(self, key: Key) -> None:
        name_once([_TOO_MANY])
        self.forget([key])
        self._gone[key] = None
        while len(self._gone) > self._most:
            self._gone.popitem(last=False)


def _all(reads: list[Read]) -> list[LogRecord]:
    try:
        return [read() for read in reads]
    except BaseException as error:
        survive(error, "reading a log record")
        return []
