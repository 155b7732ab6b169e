"""``install()``: the processor on a provider that is already set up, whoever set it up."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from opentelemetry import trace

from otel_ctx.live import analyzer as analysis
from otel_ctx.live.faults import survive
from otel_ctx.live.log_records import stop_listening
from otel_ctx.live.pipelines import active_processor, processors
from otel_ctx.live.processor import ContextSpanProcessor
from otel_ctx.live.settings import LiveSettings, live_settings, name_once

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_installed: list[ReferenceType[object]] = []  # what the providers call, of those that install() was given


def install(
    provider: TracerProvider | None = None,
    *,
    settings: LiveSettings | None = None,
    meter_provider: MeterProvider | None = None,
    **options: Any,
) -> bool:
    """Enrich what the exporters of ``provider`` (None: the global one) send; also those that are added to it later.
    Contents that come in log records are heard at the global LoggerProvider, and never sent by us.

    To be called when the provider is set up; again does no harm. True where spans will be enriched. Never raises.
    ``options`` are the fields of LiveSettings.
    """
    try:
        return _install(
            provider or trace.get_tracer_provider(), live_settings(settings, options), meter_provider
        )
    except BaseException as error:
        survive(error, "installing")
        return False


def uninstall(provider: TracerProvider | None = None) -> None:
    """Undo ``install`` on ``provider``, or on every provider: exporters are as they were. Never raises."""
    try:
        known = [around for each in _installed if (around := each()) is not None]
        chosen = known if provider is None else []
        for around in (*chosen, active_processor(provider or trace.get_tracer_provider())):
            _uninstall(around)
        _installed[:] = [ref(around) for around in known if _added(around)]
        if not _installed:
            stop_listening()
            analysis.release()
    except BaseException as error:
        survive(error, "uninstalling")


def _install(provider: TracerProvider, settings: LiveSettings, meter_provider: MeterProvider | None) -> bool:
    if settings.disabled:
        return False
    around = active_processor(provider)
    if around is None:
        name_once(
            [f"{type(provider).__name__} has no processors to add to: call install() after the SDK is set up"]
        )
        return False
    there = _added(around)
    if there:
        processor = there[0]
    else:
        processor = ContextSpanProcessor(settings=settings, meter_provider=meter_provider, hears=True)
        add: Any = provider.add_span_processor  # type: ignore[attr-defined]  # of the SDK's, and of vendors' proxies
        # Phoenix would take its own exporter away for the first processor that is added.
        keep = {"replace_default_processor": False}
        add(processor, **(keep if keep.keys() <= inspect.signature(add).parameters.keys() else {}))
    processor.look(around)
    if all(each() is not around for each in _installed):
        _installed.append(ref(around))
    return processor.enriches


def _added(around: object) -> list[ContextSpanProcessor]:
    """Not those with an exporter of their own: they are pipelines, and somebody put them there."""
    return [p for p in processors(around) if isinstance(p, ContextSpanProcessor) and p.wraps]


def _uninstall(around: object) -> None:
    for processor in _added(around):
        _take_out(around, processor)
        processor.detach()


def _take_out(around: object, processor: ContextSpanProcessor) -> None:
    """Out of the provider's own list; where it stands deeper it stays, and does nothing."""
    members = getattr(around, "_span_processors", None)
    if isinstance(members, tuple) and processor in members:
        with getattr(around, "_lock", None) or nullcontext():
            around._span_processors = tuple(p for p in members if p is not processor)  # type: ignore[attr-defined]
