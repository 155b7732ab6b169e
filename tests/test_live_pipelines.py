"""Exporters in their places, of today's SDK and of those before it."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_ctx.live.pipelines import Queue, Room, active_processor, place_of, processors, slot_of


def test_the_slot_of_a_batch_processor() -> None:
    exporter, other = InMemorySpanExporter(), InMemorySpanExporter()
    processor = BatchSpanProcessor(exporter, max_queue_size=600)
    slot = slot_of(processor)
    assert slot is not None
    assert slot.exporter is exporter
    assert slot.queue is not None
    assert (slot.queue.capacity, len(slot.queue), slot.queue.closing) == (600, 0, False)
    slot.put(other)
    assert processor.span_exporter is other
    processor.shutdown()  # type: ignore[no-untyped-call]
    assert slot.queue.closing


def test_the_slot_of_a_simple_processor() -> None:
    exporter, other = InMemorySpanExporter(), InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    slot = slot_of(processor)
    assert slot is not None
    assert (slot.exporter, slot.queue) == (exporter, None)
    slot.put(other)
    assert processor.span_exporter is other


def test_the_slot_of_a_batch_processor_of_older_sdks() -> None:
    class Older(SpanProcessor):
        def __init__(self) -> None:
            self.span_exporter = InMemorySpanExporter()
            self.queue: deque[Any] = deque(maxlen=5)
            self.max_queue_size = 5
            self.done = False

    slot = slot_of(Older())
    assert slot is not None
    assert slot.queue is not None
    assert (slot.queue.capacity, slot.queue.closing) == (5, False)


@pytest.mark.parametrize(
    "fields", [{}, {"span_exporter": 5}, {"_batch_processor": SimpleNamespace(_exporter=None)}]
)
def test_what_has_other_names_has_no_slot(fields: dict[str, Any]) -> None:
    processor = SpanProcessor()
    processor.__dict__.update(fields)
    assert slot_of(processor) is None


def test_a_queue_gives_the_oldest_first() -> None:
    spans: Any = [1, 2, 3]
    held: deque[Any] = deque(maxlen=4)
    for span in spans:
        held.appendleft(span)  # as the SDK does
    queue = Queue(held, 4)
    assert queue.spans() == spans
    assert (len(queue), queue.pressure) == (3, 0.75)
    assert len(held) == 3


def test_processors_are_found_once_wherever_they_are() -> None:
    leaf, other = SpanProcessor(), SpanProcessor()
    around, circle = SpanProcessor(), SpanProcessor()
    around.__dict__.update(inner=leaf, more=[other, leaf, 5], back=circle)
    circle.__dict__.update(back=around)
    assert list(processors(around)) == [around, leaf, other, circle]
    assert list(processors(None)) == []


def test_a_chain_without_end_ends() -> None:
    first = last = SpanProcessor()
    for _ in range(100):
        inner = SpanProcessor()
        last.__dict__["inner"] = inner
        last = inner
    assert len(list(processors(first))) < 20


def test_the_processor_that_a_provider_calls() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    found = active_processor(provider)
    assert isinstance(found, SynchronousMultiSpanProcessor)
    assert active_processor(SimpleNamespace(provider=provider)) is found
    assert active_processor(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("http://localhost:4318/v1/traces", ("localhost", "otlp")),
        ("127.0.0.1:4317", ("localhost", "otlp")),
        ("http://[::1]:4317", ("localhost", "otlp")),
        ("https://api.example/otel/v1/traces", ("api.example", "/otel/v1/traces")),
        ("https://api.example:8443/v1/traces", ("api.example", "8443/v1/traces")),
        ("http://host:port/", None),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_the_place_that_an_exporter_sends_to(endpoint: Any, place: Any) -> None:
    assert place_of(SimpleNamespace(_endpoint=endpoint)) == place
    assert place_of(SimpleNamespace(endpoint=endpoint)) == place


@pytest.mark.parametrize(
    ("before", "comes", "narrow", "used_up"),
    [
        (0, 0, False, False),
        (0, 9, False, False),
        (0, 10, True, False),
        (0, 24, True, False),
        (0, 25, True, True),
        (80, 1, False, False),  # a full queue that nobody adds to can wait
        (80, 5, True, True),
        (90, 0, False, True),
        (100, 0, False, True),
    ],
)
def test_how_long_one_may_wait_before_a_queue(before: int, comes: int, narrow: bool, used_up: bool) -> None:
    held: deque[Any] = deque(range(before), 100)
    room = Room(Queue(held, 100))
    held.extend(range(comes))
    assert (room.narrow, room.used_up) == (narrow, used_up)


def test_who_closes_waits() -> None:
    assert Room(Queue(deque(), 100, SimpleNamespace(_shutdown=True))).narrow
