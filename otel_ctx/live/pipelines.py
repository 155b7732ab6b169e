"""Where the exporters of a provider sit, and what waits in front of them.

The SDK has no public way from a provider to its exporters: processors are looked into by the names that SDKs since
1.30 have for them, and what has other names is left alone. Tried on the plain SDK, Logfire, Langfuse and Phoenix.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

_DEEPEST = 8  # wrappers around wrappers; more is a circle


@dataclass(frozen=True, slots=True)
class Queue:
    """Spans that wait for an exporter."""

    held: deque[ReadableSpan]
    capacity: int
    holder: object = None

    @property
    def closing(self) -> bool:
        """Whether somebody waits for the last of it to be sent."""
        return bool(getattr(self.holder, "_shutdown", False) or getattr(self.holder, "done", False))

    def __len__(self) -> int:
        return len(self.held)

    @property
    def pressure(self) -> float:
        """0 = empty, 1 = the next span pushes out another."""
        return len(self.held) / self.capacity

    def spans(self) -> list[ReadableSpan]:
        """The oldest first."""
        return list(self.held)[::-1]


_FULL = 0.9  # of a queue: what comes now may push out another
_SHARE = 0.25  # of the room there was that may be used up in a wait
_NARROW = 0.1


class Room:
    """What the spans behind a batch have left of their queue while that batch is waited for. A burst fills a queue in
    milliseconds, and the thread that waits is the one that empties it."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._before = len(queue)
        self._free = max(queue.capacity - self._before, 1)

    @property
    def used_up(self) -> bool:
        """Whether to wait any longer could cost a span."""
        return self._used >= _SHARE or self._queue.pressure >= _FULL

    @property
    def narrow(self) -> bool:
        """Whether the wait must be short."""
        return self._used >= _NARROW or self._queue.closing

    @property
    def _used(self) -> float:
        return (len(self._queue) - self._before) / self._free


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A place that holds an exporter. Without a queue, spans are exported on the thread that ends them."""

    owner: Any
    name: str
    queue: Queue | None

    @property
    def exporter(self) -> SpanExporter:
        return getattr(self.owner, self.name)  # type: ignore[no-any-return]  # a slot is only made where this holds

    def put(self, exporter: SpanExporter) -> None:
        setattr(self.owner, self.name, exporter)


def processors(of: object) -> Iterator[SpanProcessor]:
    """``of`` and every processor inside it, in order; each once."""
    yield from _inside(of, 0, set())


def _inside(of: object, depth: int, seen: set[int]) -> Iterator[SpanProcessor]:
    if id(of) in seen or depth > _DEEPEST or not isinstance(of, SpanProcessor):
        return
    seen.add(id(of))
    yield of
    for value in list(_fields(of).values()):
        for each in value if isinstance(value, (tuple, list)) else (value,):
            yield from _inside(each, depth + 1, seen)


def slot_of(processor: SpanProcessor) -> Slot | None:
    """Where ``processor`` itself holds an exporter."""
    inner = getattr(processor, "_batch_processor", None)
    if isinstance(getattr(inner, "_exporter", None), SpanExporter):
        return Slot(inner, "_exporter", _queue(inner, "_queue", "_max_queue_size"))
    # simple ones, and batching ones up to 1.33
    if isinstance(_fields(processor).get("span_exporter"), SpanExporter):
        return Slot(processor, "span_exporter", _queue(processor, "queue", "max_queue_size"))
    return None


def active_processor(provider: object) -> SpanProcessor | None:
    """What the provider calls for every span. A provider of a vendor may wrap the SDK's."""
    for holder in (provider, getattr(provider, "provider", None)):
        found = getattr(holder, "_active_span_processor", None)
        if isinstance(found, SpanProcessor):
            return found
    return None


def place_of(exporter: object) -> tuple[str, str] | None:
    """Host and service that the exporter sends to: the same pair is the same place. None where it does not say."""
    endpoint = getattr(exporter, "_endpoint", None) or getattr(exporter, "endpoint", None)
    if not isinstance(endpoint, str) or not endpoint:
        return None
    try:
        url = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        host, port = url.hostname or "", url.port
    except ValueError:
        return None
    local = {"127.0.0.1": "localhost", "::1": "localhost", "0.0.0.0": "localhost"}
    # A Collector listens for gRPC and for HTTP on these two: whoever sends to both, sends twice.
    service = "otlp" if port in (4317, 4318) else f"{port or ''}{url.path}"
    return local.get(host, host), service


def _queue(holder: object, name: str, capacity: str) -> Queue | None:
    held, most = getattr(holder, name, None), getattr(holder, capacity, None)
    return (
        Queue(held, most, holder) if isinstance(held, deque) and isinstance(most, int) and most > 0 else None
    )


def _fields(of: object) -> dict[str, Any]:
    return getattr(of, "__dict__", {})
