"""Parts of a batch: all spans, in order, none too large that could be smaller."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext

from otel_ctx.live.batches import parts

RESOURCE = Resource({"service.name": "shop"})
SCOPE = InstrumentationScope("scope", "1")


def span(attributes: dict[str, Any], events: Any = (), links: Any = ()) -> ReadableSpan:
    return ReadableSpan(
        "chat", SpanContext(1, 2, is_remote=False), resource=RESOURCE, attributes=attributes, events=events,
        links=links, start_time=1, end_time=2, instrumentation_scope=SCOPE,
    )  # fmt: skip


@given(st.lists(st.integers(0, 5000)), st.integers(1000, 20_000))
def test_all_spans_in_their_order(sizes: list[int], limit: int) -> None:
    spans = [span({"text": "x" * size}) for size in sizes]
    divided = list(parts(spans, limit))
    assert [s for part in divided for s in part] == spans
    assert all(divided)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 30_000,
        "é" * 15_000,
        "語" * 10_000,
        ["word"] * 2000,
        b"\x00" * 30_000,
        {"a": {"b": "x" * 30_000}},
        [1.5] * 2000,
    ],
    ids=["ascii", "latin", "cjk", "list", "bytes", "map", "numbers"],
)
def test_no_part_is_larger_than_the_limit_when_it_is_encoded(value: Any) -> None:
    limit = 100_000
    spans = [span({"value": value}) for _ in range(20)]
    divided = list(parts(spans, limit))
    assert len(divided) > 1
    assert all(encode_spans(part).ByteSize() <= limit for part in divided)


def test_events_and_links_count() -> None:
    text = {"text": "x" * 30_000}
    context = SpanContext(1, 2, is_remote=False)
    with_events = [span({}, events=(Event("e", text),)) for _ in range(10)]
    with_links = [span({}, links=(Link(context, text),)) for _ in range(10)]
    assert [len(part) for part in parts(with_events, 100_000)] == [3, 3, 3, 1]
    assert [len(part) for part in parts(with_links, 100_000)] == [3, 3, 3, 1]


def test_a_span_that_is_too_large_goes_alone() -> None:
    small, large = span({}), span({"text": "x" * 50_000})
    assert list(parts([small, large, small, small], 10_000)) == [[small], [large], [small, small]]


def test_text_that_is_no_utf8() -> None:
    assert [len(part) for part in parts([span({"text": "\ud800" * 4000})] * 2, 20_000)] == [1, 1]


def test_nothing_has_no_part() -> None:
    assert list(parts([], 10_000)) == []
