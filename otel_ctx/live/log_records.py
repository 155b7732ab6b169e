"""Contents in log records: heard where a LoggerProvider emits them, whether or not anybody exports them."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

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
# Vendors' providers may be dataclasses, which have no hash: they are known by being the same object.
_listening: list[tuple[ReferenceType[object], ContextLogRecordProcessor]] = []
_adding = threading.Lock()  # heard twice, a message would be there twice


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
        with _adding:
            there = _listener(around, analyzer)
        there.analyzer = analyzer
        return True
    except BaseException as error:
        survive(error, "looking for log records")
        return False


def _listener(around: Any, analyzer: Analyzer) -> ContextLogRecordProcessor:
    there = next((processor for known, processor in _listening if known() is around), None)
    if there is None:
        there = ContextLogRecordProcessor(analyzer=analyzer)
        _listening.append((ref(around), there))
        around.add_log_record_processor(there)
    return there


def stop_listening() -> None:
    """Undo ``listen``, everywhere. A processor that cannot be taken out stays, and does nothing."""
    stays = []
    for provider, processor in _listening:
        processor.analyzer = None
        around: Any = getattr(provider(), "_multi_log_record_processor", None)
        members = getattr(around, "_log_record_processors", None)
        if isinstance(members, tuple) and processor in members:
            with getattr(around, "_lock", None) or nullcontext():
                around._log_record_processors = tuple(p for p in members if p is not processor)
        elif provider() is not None:
            stays.append((provider, processor))
    _listening[:] = stays


def _is_content(record: Any) -> bool:
    name = getattr(record, "event_name", None) or (record.attributes or {}).get("event.name")
    return isinstance(name, str) and name.startswith(_OURS)


def _renew_lock() -> None:
    global _adding
    _adding = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
