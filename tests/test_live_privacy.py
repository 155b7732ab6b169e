"""No text of a prompt where it was not before: not in an attribute, an event, a metric or a line of a log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode

from otel_ctx.inputs import read
from otel_ctx.live.analyzer import Analyzer
from otel_ctx.live.exporter import ContextSpanExporter
from otel_ctx.live.settings import LiveSettings
from otel_ctx.model import Span
from tests.prompt_runs import TEXT, runs, strings

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(p.name for p in CORPUS.iterdir() if (p / "traces.jsonl.gz").exists())


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


def sdk_span(s: Span) -> ReadableSpan:
    def context(span_id: str) -> SpanContext:
        return SpanContext(int(s.trace_id, 16), int(span_id, 16), is_remote=False)

    return ReadableSpan(
        s.name,
        context(s.span_id),
        context(s.parent_id) if s.parent_id else None,
        Resource(dict(s.resource)),
        dict(s.attributes),
        [Event(e.name, dict(e.attributes), e.time_unix_nano) for e in s.events],
        [
            Link(SpanContext(int(link.trace_id, 16), int(link.span_id, 16), is_remote=False))
            for link in s.links
        ],
        SpanKind(max(s.kind - 1, 0)),
        status=Status(StatusCode(s.status_code)),
        start_time=s.start_unix_nano,
        end_time=s.end_unix_nano,
        instrumentation_scope=InstrumentationScope(s.scope_name or "s", s.scope_version),
    )


def found(span: ReadableSpan) -> list[str]:
    return [
        *strings(dict(span.attributes or {})),
        *(s for e in span.events for s in strings(dict(e.attributes or {}))),
    ]


def union(texts: Iterable[str]) -> set[str]:
    return set().union(*map(runs, texts))


def added(before: ReadableSpan, after: ReadableSpan) -> list[str]:
    attributes = {k: v for k, v in (after.attributes or {}).items() if k not in (before.attributes or {})}
    events = after.events[len(before.events) :]
    links = after.links[len(before.links) :]
    return [
        *strings(attributes),
        *attributes,
        *(e.name for e in events),
        *(s for e in events for s in strings(dict(e.attributes or {}))),
        *(s for link in links for s in strings(dict(link.attributes or {}))),
    ]


def exported_metrics(reader: InMemoryMetricReader) -> list[str]:
    data = reader.get_metrics_data()
    return [
        text
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        for text in (metric.name, *strings(dict(point.attributes or {})), *map(str, point.exemplars))
    ]


@pytest.mark.parametrize("case", CASES)
def test_no_run_of_a_prompt_appears_where_it_was_not(case: str, caplog: pytest.LogCaptureFixture) -> None:
    files = [p for p in (CORPUS / case / "traces.jsonl.gz",) if p.exists()]
    spans = [sdk_span(s) for batch in read(files) for s in batch.spans]
    reader, kept = InMemoryMetricReader(), Kept()
    with caplog.at_level(logging.DEBUG):
        analyzer = Analyzer(LiveSettings(tokenizer="bytes"), MeterProvider([reader], shutdown_on_exit=False))
        exporter = ContextSpanExporter(kept, analyzer=analyzer)
        for start in range(0, len(spans), 5):
            exporter.export(spans[start : start + 5])
        analyzer.drain()
        metrics = exported_metrics(reader)
        analyzer.discard()
    everything = {text for span in spans for text in found(span)}  # each turn says again what was said
    # A text may name a model, a tool or a library: a name is a value of its own, and short.
    names = {t for t in everything if len(t) < TEXT}
    names |= {span.instrumentation_scope.name for span in spans if span.instrumentation_scope}
    prompts = union(t for t in everything if len(t) >= TEXT) - union(names)
    assert sum(len(s.attributes or {}) for s in kept.spans) > sum(len(s.attributes or {}) for s in spans)
    for before, after in zip(spans, kept.spans, strict=True):
        for text in added(before, after):
            told = runs(text) & prompts
            assert not told or told <= union(found(before)), text
    for text in (*metrics, *(r.getMessage() for r in caplog.records)):
        assert runs(text) & prompts == set(), text
