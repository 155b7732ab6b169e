"""The exporter that stands before another: what it passes on is a copy with what was found."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from otel_ctx.live.analyzer import Analyzer, shared
from otel_ctx.live.batches import parts
from otel_ctx.live.enrichment import enriched
from otel_ctx.live.faults import survive
from otel_ctx.live.pipelines import Queue, active_processor, processors, slot_of
from otel_ctx.live.settings import LiveSettings, live_settings

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

_DEFERRED_MS = 200.0  # until a span that was ended under a SimpleSpanProcessor is sent


class ContextSpanExporter(SpanExporter):
    """Passes spans on to ``exporter``, those of model calls as copies with ``otelctx.*`` attributes, events and a
    link.

    For a BatchSpanProcessor: the analysis runs on the thread that exports. ``options`` are the fields of
    LiveSettings. ``queue``: what waits behind the batch that is exported; None: it is looked for on the global
    provider. Whatever fails here, the span goes out as it came; an exception of ``exporter`` itself is the
    caller's, as without us.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        settings: LiveSettings | None = None,
        meter_provider: MeterProvider | None = None,
        analyzer: Analyzer | None = None,
        queue: Queue | None = None,
        **options: Any,
    ) -> None:
        chosen = live_settings(settings, options)
        self.exporter = exporter
        self._queue = queue
        self._max_batch_bytes = chosen.max_batch_bytes
        self._released = False
        self._analyzer = None if chosen.disabled else analyzer or shared(chosen, meter_provider)
        if self._analyzer is not None:
            self._analyzer.opened(self)

    @property
    def queue(self) -> Queue | None:
        if self._queue is None:
            self._queue = _queue_of(self)
        return self._queue

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._analyzer is None or self._released:
            return self.exporter.export(spans)
        return self._send(self._parts(self._copies(spans, self._analyzer)), self._analyzer)

    def release(self) -> None:
        """The exporter is given back: what comes passes through, and a shutdown does not reach it any more."""
        self._released = True
        if self._analyzer is not None:
            self._analyzer.closed(self)

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        if self._released:
            return
        try:
            if _takes(self.exporter.shutdown, "timeout_millis"):
                self.exporter.shutdown(timeout_millis=timeout_millis)  # type: ignore[call-arg]  # OTLP's have it
            else:
                self.exporter.shutdown()
        finally:
            if self._analyzer is not None:
                self._analyzer.closed(self)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        flush = getattr(self.exporter, "force_flush", None)
        flushed = flush(timeout_millis) if flush is not None else True
        return True if flushed is None else bool(flushed)

    def __getattr__(self, name: str) -> Any:
        """Vendors ask their exporters for more than the interface has."""
        if name == "exporter":  # not there yet: while it is being made, or copied
            raise AttributeError(name)
        return getattr(self.exporter, name)

    def _copies(self, spans: Sequence[ReadableSpan], analyzer: Analyzer) -> Sequence[ReadableSpan]:
        out = []
        for span, added in zip(spans, analyzer.enrich(spans, self.queue), strict=True):
            copy = span
            if added is not None:
                try:
                    copy = enriched(span, added)
                except BaseException as error:
                    survive(error, "enriching a span")
            out.append(copy)
        return out

    def _parts(self, spans: Sequence[ReadableSpan]) -> Sequence[Sequence[ReadableSpan]]:
        try:
            return list(parts(spans, self._max_batch_bytes))
        except BaseException as error:
            survive(error, "dividing a batch")
            return [spans]

    def _send(self, batches: Sequence[Sequence[ReadableSpan]], analyzer: Analyzer) -> SpanExportResult:
        """All parts are tried. One failure is the failure of all, and the first exception is raised at the end."""
        result, first = SpanExportResult.SUCCESS, None
        for batch in batches:
            try:
                sent = self.exporter.export(batch)
            except Exception as error:
                first = first or error
                sent = SpanExportResult.FAILURE
            if sent is not SpanExportResult.SUCCESS:
                result = SpanExportResult.FAILURE
            analyzer.exported(sent is SpanExportResult.SUCCESS)
        if first is not None:
            raise first
        return result


class DeferredExporter(SpanExporter):
    """Stands behind a SimpleSpanProcessor, which exports on the thread that ends the span: the spans wait in a
    queue of ours, and a thread of ours sends them. When the queue is full, a span goes out at once and as it is, as
    it would have without us: none is lost but those of the last 200 ms of a process that is killed."""

    def __init__(self, exporter: ContextSpanExporter) -> None:
        self.exporter = exporter.exporter
        self._enriching = exporter
        self._batches = BatchSpanProcessor(exporter, schedule_delay_millis=_DEFERRED_MS)
        self._released = False
        self._queue = queue_before(self._batches, exporter)
        self._process = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._process != os.getpid():
            self._process = os.getpid()
            _at_a_childs_end(self, partial(_flush, ref(self)))
        result = SpanExportResult.SUCCESS
        for span in spans:
            if self._released or (self._queue is not None and len(self._queue) >= self._queue.capacity):
                result = self.exporter.export((span,))
            else:
                self._batches.on_end(span)
        return result

    def release(self) -> None:
        """Send what waits; the exporter itself goes on, behind the SimpleSpanProcessor as before."""
        self._batches.force_flush()
        self._released = True
        self._enriching.release()
        self.shutdown()

    def shutdown(self) -> None:
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        flushed = self._batches.force_flush(timeout_millis)
        try:
            return self.exporter.force_flush(timeout_millis) is not False and flushed
        except Exception as error:  # a SimpleSpanProcessor would not have called it
            survive(error, "flushing an exporter", "its spans have been given to it")
            return flushed

    def __getattr__(self, name: str) -> Any:
        if name == "exporter":
            raise AttributeError(name)
        return getattr(self.exporter, name)


def _at_a_childs_end(exporter: DeferredExporter, call: Callable[[], None]) -> None:
    """A child of multiprocessing ends without exit handlers, but runs handlers of its own."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(exporter, call, exitpriority=1)


def _flush(of: ReferenceType[DeferredExporter]) -> None:
    exporter = of()
    if exporter is not None:
        exporter._batches.force_flush()


def queue_before(processor: SpanProcessor, exporter: ContextSpanExporter) -> Queue | None:
    """What waits in ``processor`` for ``exporter``, which is told."""
    slot = slot_of(processor)
    if slot is not None and slot.queue is not None:
        exporter._queue = slot.queue
    return exporter._queue


def _queue_of(exporter: ContextSpanExporter) -> Queue | None:
    """For an exporter that somebody put into a pipeline by hand."""
    try:
        slots = map(slot_of, processors(active_processor(trace.get_tracer_provider())))
        return next((slot.queue for slot in slots if slot is not None and slot.exporter is exporter), None)
    except BaseException as error:
        survive(error, "looking for a queue")
        return None


def _takes(method: Any, name: str) -> bool:
    try:
        return name in inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False
