"""The analysis of a process, for all its exporters: a span that goes to two places is analysed once and counted once.

It runs on a thread of its own. Exporters wait for it only as long as the spans behind theirs have room to wait:
whatever happens here, a span is sent, if need be as it came.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import ReferenceType, WeakSet, ref

from otel_ctx.live.analysis import Analysis, Engine, Key
from otel_ctx.live.contents import Contents
from otel_ctx.live.enrichment import Enrichment
from otel_ctx.live.faults import survive
from otel_ctx.live.instruments import Instruments
from otel_ctx.live.pacing import Pace
from otel_ctx.live.pipelines import Room
from otel_ctx.live.settings import LiveSettings, name_once
from otel_ctx.live.worker import Task, Worker
from otel_ctx.model import Band, LogRecord

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan

    from otel_ctx.live.pipelines import Queue

_TICK = 5.0  # s between looks at what has settled, while no span comes
_WATCHED = 40.0  # s after the last call: all have settled by then
_WAITING = 2048  # batches of which something is to be counted
_LEAST_BUDGET = 2.0  # s for a batch: the first one loads tables and a vocabulary
_EXIT_BUDGET = 5.0  # s for what waits at exit
_TOO_FAST = "spans come faster than they are analysed: some go out as they are"


class Exporting(Protocol):
    """What sends spans on, as far as it is known here. ``queue``: what waits in front of it, where that can be
    told."""

    @property
    def queue(self) -> Queue | None: ...


_DEFAULT = LiveSettings()


class Analyzer:
    """Nothing raises out of it but what means to end the thread or the process. ``engine`` makes the engine,
    when the first span comes: not in the application's start."""

    def __init__(
        self,
        settings: LiveSettings = _DEFAULT,
        meter_provider: MeterProvider | None = None,
        engine: Callable[[], Engine] | None = None,
    ) -> None:
        self.settings = settings
        self.meter_provider = meter_provider
        self._make = engine or partial(_engine, settings)
        self._exporters: WeakSet[Exporting] = WeakSet()
        self._instruments = Instruments(
            meter_provider,
            conversations=lambda: self._shown[0],
            sources=lambda: self._analysis.sources,
            queue=self._queued,
            tracked=lambda: self._shown[1],
        )
        self._worker = Worker(partial(_call, ref(self), "tick"), lambda: _TICK)
        self._on_exit = partial(_call, ref(self), "finish")
        self._watches_exit = False
        _before_exit(partial(_call, ref(self), "look_ahead"))
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=partial(_call, ref(self), "hold"),
                after_in_parent=partial(_call, ref(self), "let_go"),
                after_in_child=partial(_call, ref(self), "begin"),
            )

    def begin(self) -> None:
        """As in a process that has seen nothing. A forked child begins so: the parent settles what it has begun, the
        thread is not there, and the engine may be in the middle of something."""
        self._worker.renew()
        self._begin()

    def _begin(self) -> None:
        self._analysis = Analysis(self._make, self._instruments)
        self._results: OrderedDict[Key, Enrichment | None] = OrderedDict()
        self._contents = Contents()
        self._exports: deque[bool] = deque(maxlen=_WAITING)
        self._passed: deque[_Batch] = deque(maxlen=_WAITING)
        self._finishing = False
        self._watched_until = 0.0
        self._shown: tuple[Mapping[tuple[str, Band], int], int] = ({}, 0)

    # ---- what exporters ask

    def enrich(self, spans: Sequence[ReadableSpan], queue: Queue | None = None) -> list[Enrichment | None]:
        """What is to be added to each of ``spans``; None where nothing is. ``queue``: what waits behind them."""
        if not self._worker.is_of_this_process:
            self.begin()
        self.watch_exit()
        keys = [_key(span) for span in spans]
        batch = _Batch(keys, spans, queue)
        eager = self._finishing or not threading.current_thread().name.startswith("OtelBatch")
        if not self._worker.do(Task(partial(self._analyse, batch), eager), batch.may_wait):
            self._passed.append(batch)
        batch.left = True
        if batch.found is None:
            name_once([_TOO_FAST])
            return [None] * len(keys)
        return [batch.found.get(key) if key is not None else None for key in keys]

    def hear(self, key: Key, read: Callable[[], LogRecord]) -> None:
        """A record with contents of the span ``key``, for when that has ended: ``read`` is called on our thread. Costs
        the caller an append."""
        if not self._worker.is_of_this_process:
            self.begin()
        self._contents.put(key, read)

    def opened(self, exporter: Exporting) -> None:
        self._exporters.add(exporter)

    def exported(self, success: bool) -> None:
        """Counted with the next batch: recording takes locks of the SDK, which no fork may meet in the middle."""
        self._exports.append(success)

    def closed(self, exporter: Exporting) -> None:
        """``exporter`` sends nothing more. After the last one nothing can come that would add to a call."""
        self._exporters.discard(exporter)
        if not self._exporters:
            self.drain()

    def drain(self) -> None:
        """Settle everything."""
        self._worker.do(Task(self._drain, eager=True))

    # ---- exit and fork

    def watch_exit(self) -> None:
        """At exit the MeterProvider shuts down before the exporters are drained, and what is recorded then is
        lost. Exit handlers run in the reverse order of their registration: this one registers when spans
        begin to come, which is after the set-up."""
        if not self._watches_exit:
            self._watches_exit = True
            atexit.register(self._on_exit)

    def look_ahead(self) -> None:
        """Analyse and settle what still waits in front of the exporters, which send it as ever."""
        for exporter in list(self._exporters):
            queue = exporter.queue
            if queue is not None:
                self.enrich(queue.spans())
        self.drain()

    def finish(self) -> None:
        self._finishing = True
        self.look_ahead()

    def discard(self) -> None:
        """Settle everything, and be asked no more."""
        self.drain()
        atexit.unregister(self._on_exit)
        self._instruments.close()
        self._worker.stop()

    def hold(self) -> None:
        """Before a fork."""
        self._worker.hold()

    def let_go(self) -> None:
        """After a fork, in the parent."""
        self._worker.let_go()

    # ---- on the worker's thread

    def tick(self) -> bool:
        """Settle what is due; whether to look again."""
        self._count()
        self._take({}, None)
        self._analysis.settle()
        self._shown = self._analysis.shown()
        return time.monotonic() < self._watched_until and not self._finishing

    def _analyse(self, batch: _Batch) -> None:
        self._count()
        if batch.unreadable:
            self._instruments.self_spans("unreadable", batch.unreadable)
        fresh = {key: span for key, span in batch.spans.items() if key not in self._results}
        if fresh or self._contents:
            self._take(fresh, batch)
        self._analysis.settle()
        self._shown = self._analysis.shown()
        batch.found = {key: self._results.get(key) for key in batch.spans}
        self._forget()

    def _take(self, fresh: Mapping[Key, ReadableSpan], batch: _Batch | None) -> None:
        room = batch.room if batch is not None else None
        pace = Pace(
            self.settings.duty,
            lambda: self._worker.hurried or (room is not None and room.narrow),
            sleep=self._worker.rest,
        )
        budget = max(self.settings.span_budget_ms / 1000 * len(fresh), _LEAST_BUDGET)
        if self._finishing:
            budget = min(budget, _EXIT_BUDGET)

        def enough() -> bool:
            self._worker.step()
            left = batch is not None and (batch.left or not batch.may_wait())
            if left or pace.worked > budget:
                name_once([_TOO_FAST])
                return True
            return False

        logs = self._contents.take(fresh, self._results)
        if not fresh and not logs:
            return
        found, calls = self._analysis.take(fresh, logs, pace, enough)
        for key in fresh:
            self._results[key] = found.get(key)
        if calls:
            self._watched_until = time.monotonic() + _WATCHED

    def _drain(self) -> None:
        self._count()
        self._take({}, None)
        self._analysis.settle()
        self._analysis.drain()
        self._shown = self._analysis.shown()

    def _count(self) -> None:
        """What was noted on other threads."""
        while self._exports:
            self._instruments.exports(self._exports.popleft())
        while self._passed:
            batch = self._passed.popleft()
            new = [key for key in batch.spans if key not in self._results]
            self._results.update(dict.fromkeys(new))
            self._contents.forget(new)
            self._instruments.self_spans("dropped", len(new))
        self._forget()

    def _forget(self) -> None:
        while len(self._results) > self.settings.remembered_spans:
            self._results.popitem(last=False)

    def _queued(self) -> tuple[int, int]:
        queues = [e.queue for e in list(self._exporters) if e.queue is not None]
        return sum(map(len, queues)), sum(q.capacity for q in queues)


class _Batch:
    """Spans that somebody wants to send. ``left``: nobody waits for them any more; ``found``: what is to be added,
    when they have been looked at."""

    def __init__(
        self, keys: Sequence[Key | None], spans: Sequence[ReadableSpan], queue: Queue | None
    ) -> None:
        self.spans = {key: span for key, span in zip(keys, spans, strict=True) if key is not None}
        self.unreadable = keys.count(None)
        self.room = Room(queue) if queue is not None else None
        self.found: dict[Key, Enrichment | None] | None = None
        self.left = False

    def may_wait(self) -> bool:
        return self.room is None or not self.room.used_up


def _engine(settings: LiveSettings) -> Engine:
    from otel_ctx.engine import LiveEngine  # with all stages and tables: not in the application's start

    return LiveEngine(settings.engine(), settings.conversations)


def _key(span: ReadableSpan) -> Key | None:
    try:
        context = span.context
        return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context is not None else None
    except BaseException as error:
        survive(error, "reading a span's ids")
        return None


# ---- called by the interpreter, which must not keep an analyzer alive


def _call(of: ReferenceType[Analyzer], name: str) -> bool:
    analyzer = of()
    return bool(getattr(analyzer, name)()) if analyzer is not None else False


def _before_exit(call: Callable[[], object]) -> None:
    """When the main thread has ended, before all exit handlers: an application that is over before its first
    batch is exported has its metrics so, whatever was registered in which order. Other threads may go on; for
    what they do there is ``watch_exit``."""
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        with suppress(RuntimeError):  # it is too late
            register(call)


# ---- the one of the process

_shared: Analyzer | None = None
_shared_lock = threading.Lock()


def shared(settings: LiveSettings, meter_provider: MeterProvider | None) -> Analyzer:
    """The analyzer of this process: made by the first who asks, with the settings of the first who asks."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Analyzer(settings, meter_provider)
        elif settings != _shared.settings or meter_provider not in (None, _shared.meter_provider):
            name_once(
                ["one process has one analysis: the settings of the first exporter or processor hold for all"]
            )
        return _shared


def release() -> None:
    """Settle everything and forget it."""
    global _shared
    with _shared_lock:
        analyzer, _shared = _shared, None
    if analyzer is not None:
        analyzer.discard()


def _renew_lock() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
