"""Batches small enough for a receiver: the default of OTLP/gRPC is 4 MiB, and what is over it is lost as a
whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from otel_ctx.live.enrichment import attributes_of

_SPAN = 400  # bytes of ids, name, times, and what the batch repeats
_VALUE = 16  # of a number, and around every value


def parts(spans: Sequence[ReadableSpan], limit: int) -> Iterator[Sequence[ReadableSpan]]:
    """``spans`` in their order, in parts of about ``limit`` bytes at most; a span that is larger has a part of
    its own."""
    part: list[ReadableSpan] = []
    size = 0
    for span in spans:
        own = _bytes_of_span(span)
        if part and size + own > limit:
            yield part
            part, size = [], 0
        part.append(span)
        size += own
    if part:
        yield part


def _bytes_of_span(span: ReadableSpan) -> int:
    inside = sum(_bytes(event.attributes) + _SPAN for event in span.events)
    inside += sum(_bytes(link.attributes) + _SPAN for link in span.links)
    return _SPAN + _bytes(attributes_of(span)) + inside


def _bytes(value: Any) -> int:
    """About what the value takes as protobuf."""
    if isinstance(value, str):
        # What is ASCII knows so itself: only other texts must be encoded to be measured.
        return _VALUE + (len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, bytes):
        return _VALUE + len(value)
    if isinstance(value, Mapping):
        return _VALUE + sum(_bytes(k) + _bytes(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return _VALUE + sum(map(_bytes, value))
    return _VALUE
