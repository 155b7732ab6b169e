"""Contents in log records: heard where a LoggerProvider emits them, whether or not anybody exports them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry._logs import get_logger_provider
from opentelemetry.sdk._logs import LogRecordProcessor

from otel_ctx.inputs.sdk import log_record_of
from otel_ctx.live.analyzer import Analyzer, shared
from otel_ctx.live.faults import survive
from otel_ctx.live.settings import LiveSettings, live_settings

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.sdk._logs import ReadWriteLogRecord

_OURS = "gen_ai."  # what the names of events begin with that hold contents
_SAMPLED = 1
_listening: WeakKeyDictionary[LoggerProvider, ContextLogRecordProcessor] = WeakKeyDictionary()


class ContextLogRecordProcessor(LogRecordProcessor):
    """Takes note of records that hold prompts and answers, for the spans that they belong to. Nothing of a record is
    changed or sent; records of other kinds are not kept. ``options`` are the fields of LiveSettings."""

    def __init__(
        self, *, settings: LiveSettings | None = None, analyzer: Analyzer | None = None, **options: Any
    ) -> None:
        chosen = live_settings(settings, options)
        self.analyzer = None if chosen.disabled else analyzer or shared(chosen, None)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        analyzer = self.analyzer
        if analyzer is None:
            return
        try:
            emitted: Any = log_record  # read by its names, as one that is exported is
            record = emitted.log_record
            if not _is_content(record):
                return
            if record.trace_id and not int(record.trace_flags or 0) & _SAMPLED:
                return  # no span will come
            key = (f"{record.trace_id or 0:032x}", f"{record.span_id:016x}" if record.span_id else "")
            analyzer.hear(key, partial(log_record_of, emitted))
        except BaseException as error:
            survive(error, "taking a log record")

    def enabled(self, *, event_name: str | None = None, **_: Any) -> bool:
        """Nobody needs to make other records for us."""
        return self.analyzer is not None and (event_name is None or event_name.startswith(_OURS))

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def listen(analyzer: Analyzer, provider: LoggerProvider | None = None) -> bool:
    """Hear what ``provider`` emits (None: the global one), once however often this is called; whether it does. A
    provider that is set up later is found by the next call. Never raises."""
    try:
        around: Any = provider or get_logger_provider()
        if not hasattr(around, "add_log_record_processor"):
            return False
        there = _listening.get(around)
        if there is None:
            there = _listening[around] = ContextLogRecordProcessor(analyzer=analyzer)
            around.add_log_record_processor(there)
        there.analyzer = analyzer
        return True
    except BaseException as error:
        survive(error, "looking for log records")
        return False


def stop_listening() -> None:
    """Undo ``listen``, everywhere. A processor that cannot be taken out stays, and does nothing."""
    for provider, processor in list(_listening.items()):
        processor.analyzer = None
        around: Any = getattr(provider, "_multi_log_record_processor", None)
        members = getattr(around, "_log_record_processors", None)
        if isinstance(members, tuple) and processor in members:
            with getattr(around, "_lock", None) or nullcontext():
                around._log_record_processors = tuple(p for p in members if p is not processor)
            del _listening[provider]


def _is_content(record: Any) -> bool:
    name = getattr(record, "event_name", None) or (record.attributes or {}).get("event.name")
    return isinstance(name, str) and name.startswith(_OURS)
