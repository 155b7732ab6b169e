"""The conversations that are nearest their limit: for gauges of their own, which are asked for."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from otel_ctx.model import Said
from otel_ctx.outputs.metrics import UNKNOWN

_KEPT = 20  # times as many as are shown: those that shrink again make room for others
_QUIET = 900.0  # s after which a conversation is shown no more


class Nearest:
    """``most`` are shown. Any thread may ask."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, tuple[float, float, str, dict[str, float]]] = OrderedDict()

    def note(self, said: Said) -> None:
        r = said.reading
        c = r.context
        if c.utilization is None:
            return
        figures = {
            "otelctx.conversation.context.tokens": c.usage,
            "otelctx.conversation.headroom.tokens": c.headroom,
            "otelctx.conversation.headroom.turns": c.headroom_turns,
        }
        known = {name: float(value) for name, value in figures.items() if value is not None}
        with self._lock:
            self._seen.pop(r.conversation, None)
            self._seen[r.conversation] = (c.utilization, self._clock(), r.call.service or UNKNOWN, known)
            while len(self._seen) > self._most * _KEPT:
                self._seen.popitem(last=False)

    def points(self) -> Mapping[str, list[tuple[str, str, float]]]:
        """By metric: (service, conversation, value)."""
        since = self._clock() - _QUIET
        with self._lock:
            live = [(id_, *seen) for id_, seen in self._seen.items() if seen[1] >= since]
        live.sort(key=lambda item: item[1], reverse=True)
        found: dict[str, list[tuple[str, str, float]]] = {}
        for id_, _, _, service, figures in live[: self._most]:
            for name, value in figures.items():
                found.setdefault(name, []).append((service, id_, value))
        return found
