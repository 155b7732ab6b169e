"""The processor that a user adds to a TracerProvider.

``on_start`` compares one tuple with the one seen last: that is how it learns of the provider that it was added to,
and of processors that are added after it. ``on_end`` does nothing but what a BatchSpanProcessor does, an enqueue,
and that only where it has an exporter of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_ctx.live.analyzer import Analyzer, shared
from otel_ctx.live.exporter import ContextSpanExporter, DeferredExporter, queue_before
from otel_ctx.live.faults import survive
from otel_ctx.live.log_records import listen
from otel_ctx.live.pipelines import Slot, place_of, processors, slot_of
from otel_ctx.live.settings import LiveSettings, live_settings, name_once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider

_NEVER = object()
_NO_EXPORTER = (
    "no exporter was found on this TracerProvider: there are metrics but no enriched spans "
    "(phoenix.otel takes its own exporter away when a processor is added; otel_ctx.install() keeps it)"
)
_SENT_TWICE = (
    "spans are sent twice: {} of another processor sends to where the exporter of a ContextSpanProcessor sends; "
    "add ContextSpanProcessor() without an exporter instead"
)
_looking = threading.Lock()  # two threads that start spans must not wrap the same exporter twice


class ContextSpanProcessor(SpanProcessor):
    """Enriches the spans of model calls.

    Without ``exporter``, beside others on a provider: their exporters are wrapped, so that what they send is
    enriched and nothing is sent twice; before or after them, now or later. With ``exporter``: a pipeline of its
    own, as a BatchSpanProcessor with that exporter is. ``options`` are the fields of LiveSettings.

    Behind a SimpleSpanProcessor the analysis would run on the application's thread, and the first long prompt stop
    its event loop: there the exporter is given its spans by a thread of ours, about 200 ms later (``mode="sync"``
    leaves it on the application's thread). What is held in memory for a test is looked at at once, and so is
    enriched at once.

    ``hears``: also take contents from the log records of the global LoggerProvider, as ``install()`` does.
    """

    def __init__(
        self,
        exporter: SpanExporter | None = None,
        *,
        settings: LiveSettings | None = None,
        meter_provider: MeterProvider | None = None,
        analyzer: Analyzer | None = None,
        hears: bool = False,
        **options: Any,
    ) -> None:
        self._settings = live_settings(settings, options)
        self._hears = hears
        self._analyzer = (
            None if self._settings.disabled else analyzer or shared(self._settings, meter_provider)
        )
        self._seen: dict[int, object] = {}
        self._wrapped: list[tuple[Slot, ContextSpanExporter | DeferredExporter]] = []
        self._own: BatchSpanProcessor | None = None
        self._sends = exporter
        self.enriches = exporter is not None
        """Whether an exporter is known that sends enriched spans."""
        if exporter is not None:
            self._own = self._pipeline(exporter)

    # ---- what the SDK calls

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        around = getattr(span, "_span_processor", None)
        if self._seen.get(id(around), _NEVER) is not getattr(around, "_span_processors", None):
            # First: what is added meanwhile makes another tuple, and is found the next time.
            self._seen[id(around)] = getattr(around, "_span_processors", None)
            if self._analyzer is not None:
                self._analyzer.watch_exit()
            self.look(around)

    def on_end(self, span: ReadableSpan) -> None:
        own = self._own
        if own is not None:
            own.on_end(span)

    def shutdown(self) -> None:
        if self._own is not None:
            self._own.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """A SimpleSpanProcessor flushes nothing: what waits behind one is flushed here."""
        waiting: list[BatchSpanProcessor | DeferredExporter] = [] if self._own is None else [self._own]
        waiting += [wrapper for _, wrapper in self._wrapped if isinstance(wrapper, DeferredExporter)]
        flushed = True
        for each in waiting:
            flushed = each.force_flush(timeout_millis) and flushed
        return flushed

    # ---- the exporters around it

    @property
    def wraps(self) -> bool:
        """Whether it enriches what others send, rather than sending itself or doing nothing any more."""
        return self._sends is None and self._analyzer is not None

    def look(self, around: object) -> None:
        """Wrap the exporters under ``around``, the processor that the provider calls, which are not wrapped yet."""
        if self._analyzer is None or not isinstance(around, SpanProcessor):
            return
        if self._hears:
            listen(self._analyzer)
        try:
            own = {id(p) for p in processors(self)}  # a pipeline of ours is no other's
            with _looking:
                slots = [
                    slot for p in processors(around) if id(p) not in own and (slot := slot_of(p)) is not None
                ]
                if self._sends is not None:
                    self._warn_of_doubles(self._sends, slots)
                else:
                    self._wrap(slots)
        except BaseException as error:
            survive(error, "looking for exporters")

    def detach(self) -> None:
        """Give the exporters back as they were; what waits is sent first."""
        self._analyzer = None
        with _looking:
            wrapped, self._wrapped = self._wrapped, []
            own, self._own = self._own, None
        for slot, wrapper in wrapped:
            if slot.exporter is wrapper:
                slot.put(wrapper.exporter)
            wrapper.release()
        if own is not None:
            own.shutdown()  # type: ignore[no-untyped-call]

    def _wrap(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if not isinstance(slot.exporter, (ContextSpanExporter, DeferredExporter)):
                wrapper = self._wrapper(slot)
                slot.put(wrapper)
                self._wrapped.append((slot, wrapper))
        if slots:
            self.enriches, self._own = True, None
        elif self._own is None:
            name_once([_NO_EXPORTER])
            self._own = self._pipeline(_Nowhere())

    def _wrapper(self, slot: Slot) -> ContextSpanExporter | DeferredExporter:
        wrapper = ContextSpanExporter(
            slot.exporter, settings=self._settings, analyzer=self._analyzer, queue=slot.queue
        )
        batching = hasattr(slot.owner, "_queue") or hasattr(slot.owner, "queue")
        if batching or self._settings.mode == "sync" or isinstance(slot.exporter, InMemorySpanExporter):
            return wrapper
        return DeferredExporter(wrapper)

    def _pipeline(self, exporter: SpanExporter) -> BatchSpanProcessor:
        enriching = ContextSpanExporter(exporter, settings=self._settings, analyzer=self._analyzer)
        own = BatchSpanProcessor(enriching)
        queue_before(own, enriching)
        return own

    def _warn_of_doubles(self, exporter: SpanExporter, slots: Sequence[Slot]) -> None:
        for slot in slots:
            other = slot.exporter
            place = place_of(exporter)
            if other is exporter or (place is not None and place == place_of(other)):
                name_once([_SENT_TWICE.format(type(other).__name__)])


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def _renew_lock() -> None:
    global _looking
    _looking = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
