"""The engine of a process: spans in, what is to be added to each out, metrics on the way.

All exporters of a process share one, so that a span that goes to two places is analysed once and counted once.
Whoever calls it is a thread that exports: never the application's, unless it asked for that or flushes.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from weakref import ReferenceType, WeakSet, ref

from otel_ctx.inputs.sdk import log_record_of, span_of
from otel_ctx.live.enrichment import Enrichment, enrichment, span_context
from otel_ctx.live.faults import survive
from otel_ctx.live.instruments import Instruments
from otel_ctx.live.pacing import Pace
from otel_ctx.live.settings import LiveSettings, name_once
from otel_ctx.model import Band, LogRecord, Said, Span

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

    from otel_ctx.live.pipelines import Queue

Key = tuple[str, str]

_HURRY, _FULL = 0.5, 0.9  # of a queue: from here on nobody rests, from here on spans go out as they are
_TICK = 5.0  # s between looks at what has settled, while no span comes
_WATCHED = 40.0  # s after the last call: all have settled by then
_LOGS_WAITING = 2048
_SOURCES = 100
_LEAST_BUDGET = 2.0  # s for a batch: the first one loads tables and a vocabulary
_FORK_WAIT = 10.0  # s that a fork may be held up: the first batch imports the engine and loads its tables
_EXIT_BUDGET = 5.0  # s for what waits at exit
_FAILURES = 3  # of the engine as a whole, in a row: then it is replaced


class Exporting(Protocol):
    """What sends spans on, as far as it is known here. ``queue``: what waits in front of it, where that can be
    told."""

    @property
    def queue(self) -> Queue | None: ...


class _Engine(Protocol):
    late: int

    def feed(self, spans: Iterator[Span], logs: Sequence[LogRecord]) -> list[Said]: ...
    def advance(self, now_unix_nano: int) -> list[Said]: ...
    def drain(self) -> list[Said]: ...
    def bands(self) -> Mapping[tuple[str, Band], int]: ...
    @property
    def conversations(self) -> int: ...
    @property
    def evicted(self) -> int: ...


_DEFAULT = LiveSettings()


class Analyzer:
    """Nothing raises out of it but what means to end the thread or the process. ``engine`` makes the engine,
    when the first span comes: not in the application's start."""

    def __init__(
        self,
        settings: LiveSettings = _DEFAULT,
        meter_provider: MeterProvider | None = None,
        engine: Callable[[], _Engine] | None = None,
    ) -> None:
        self.settings = settings
        self.meter_provider = meter_provider
        self._make = engine or partial(_engine, settings)
        self._exporters: WeakSet[Exporting] = WeakSet()
        self._instruments = Instruments(
            meter_provider,
            conversations=lambda: self._shown()[0],
            sources=lambda: list(self._sources),
            queue=self._queued,
            tracked=lambda: self._shown()[1],
        )
        self._on_exit = partial(_call, ref(self), "finish")
        self._watches_exit = False
        _before_exit(partial(_call, ref(self), "look_ahead"))
        self.begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=partial(_call, ref(self), "hold"),
                after_in_parent=partial(_call, ref(self), "let_go"),
                after_in_child=partial(_call, ref(self), "begin"),
            )

    def begin(self) -> None:
        """As in a process that has seen nothing. A forked child begins so too: the parent settles what it has
        begun, the lock may be held by a thread that is not there, and the engine may be in the middle of
        something."""
        self._lock = threading.Lock()
        self._engine: _Engine | None = None
        self._failures: Counter[str] = Counter()
        self._evicted = 0
        self._results: OrderedDict[Key, Enrichment | None] = OrderedDict()
        self._records: deque[ReadableLogRecord] = deque(maxlen=_LOGS_WAITING)
        self._exports: deque[bool] = deque(maxlen=_LOGS_WAITING)
        self._impatient: set[int] = set()
        self._forking: set[int] = set()
        self._finishing = False
        self._timer: threading.Timer | None = None
        self._watched_until = 0.0
        self._bands: Mapping[tuple[str, Band], int] = {}
        self._tracked = 0
        self._sources: dict[tuple[str, str], None] = {}
        self._resource: object = None

    # ---- what exporters ask

    def enrich(self, spans: Sequence[ReadableSpan], queue: Queue | None = None) -> list[Enrichment | None]:
        """What is to be added to each of ``spans``; None where nothing is. ``queue``: what waits behind them."""
        keys = [_key(span) for span in spans]
        with _Turn(self):
            self.watch_exit()
            fresh = {
                key: span
                for key, span in zip(keys, spans, strict=True)
                if key is not None and key not in self._results
            }
            try:
                if fresh or self._records:
                    self._analyse(fresh, queue)
                self._settle()
            except BaseException as error:
                survive(error, "analysing a batch")
            found = [self._results.get(key) if key is not None else None for key in keys]
            unreadable = keys.count(None)
            if unreadable:
                self._instruments.self_spans("unreadable", unreadable)
            while len(self._results) > self.settings.remembered_spans:
                self._results.popitem(last=False)
        return found

    def hear(self, records: Sequence[ReadableLogRecord]) -> None:
        """Log records, for the spans to come or to settle: kept, and read when spans are. Costs the caller
        nothing."""
        self._records.extend(records)

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
        with _Turn(self):
            try:
                if self._records:
                    self._analyse({}, None)
                self._settle()
                if self._engine is not None:
                    self._record_settled(self._engine.drain())
            except BaseException as error:
                survive(error, "settling")

    def watch_exit(self) -> None:
        """At exit the MeterProvider shuts down before the exporters are drained, and what is recorded then is
        lost. Exit handlers run in the reverse order of their registration: this one registers when spans
        begin to come, which is after the set-up."""
        if not self._watches_exit:
            self._watches_exit = True
            atexit.register(self._on_exit)

    def hold(self) -> None:
        """Before a fork: let a batch that is under analysis come to its end, for a while. Locks deep inside, of
        caches and of native code, would stay locked in the child for ever."""
        me = threading.get_ident()
        self._impatient.add(me)
        if self._lock.acquire(timeout=_FORK_WAIT):
            self._forking.add(me)
        self._impatient.discard(me)

    def let_go(self) -> None:
        """After a fork, in the parent."""
        me = threading.get_ident()
        if me in self._forking:
            self._forking.discard(me)
            self._lock.release()

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
        timer = self._timer
        if timer is not None:
            timer.cancel()

    # ---- inside, with the lock held

    def _analyse(self, fresh: Mapping[Key, ReadableSpan], queue: Queue | None) -> None:
        engine = self._engine
        if engine is None:
            engine = self._engine = self._make()
            self._evicted = 0
        late = engine.late
        patient = not self._finishing and threading.current_thread().name.startswith("OtelBatch")
        pace = Pace(
            self.settings.duty,
            lambda: (
                not patient
                or self._finishing
                or bool(self._impatient)
                or (queue is not None and (queue.closing or queue.pressure >= _HURRY))
            ),
        )
        outcomes = dict.fromkeys(fresh, "dropped")
        logs = [
            record for record in (self._log_record() for _ in range(len(self._records))) if record is not None
        ]
        said = self._feed(engine, _Arriving(fresh, outcomes, pace, self._budget(len(fresh)), queue), logs)
        for each in said:
            self._heard(each, fresh, outcomes)
        for key in fresh:
            self._results.setdefault(key, None)
        if fresh:
            self._count(outcomes, engine.late - late, pace.worked / len(fresh))
        self._note(fresh)
        if said:
            self._watch()

    def _feed(self, engine: _Engine, arriving: _Arriving, logs: Sequence[LogRecord]) -> list[Said]:
        """What the engine says. A span that it fails on is left out, and the others go on."""
        while True:
            try:
                said = engine.feed(iter(arriving), logs)
            except BaseException as error:
                survive(error, "analysing spans")
                blamed = arriving.blame()
                if not blamed:
                    self._failed("feed")
                if arriving.done and not blamed:
                    return []
            else:
                self._failures["feed"] = 0
                return said

    def _heard(self, said: Said, fresh: Mapping[Key, ReadableSpan], outcomes: dict[Key, str]) -> None:
        call = said.reading.call
        try:
            for at in call.spans:
                key = (at.trace_id, at.span_id)
                if key in fresh:
                    self._results[key] = enrichment(said, at.role)
                    outcomes[key] = "analysed" if at.role == "primary" else "duplicate"
            if not said.again:
                self._instruments.record(said, _context(said), first=True)
                for reason in call.completeness.reasons:
                    self._instruments.content_lost(reason)
        except BaseException as error:
            survive(error, "telling what was found")

    def _count(self, outcomes: Mapping[Key, str], late: int, seconds: float) -> None:
        counts = Counter(outcomes.values())
        moved = min(late, counts["duplicate"])  # what tells of a call that has settled
        counts["late"] += moved
        counts["duplicate"] -= moved
        for result, n in counts.items():
            if n:
                self._instruments.self_spans(result, n)
        for _ in range(counts["analysed"]):
            self._instruments.processing(seconds)

    def _note(self, fresh: Mapping[Key, ReadableSpan]) -> None:
        """The services that spans come from; nearly always one, with one resource for all spans."""
        for span in fresh.values():
            if span.resource is not self._resource:
                self._resource = span.resource
                source = tuple(
                    str(span.resource.attributes.get(key, "")) for key in ("service.name", "service.version")
                )
                if len(self._sources) < _SOURCES:
                    self._sources[source[0], source[1]] = None
                self._instruments.expect(source[0])
        if self._engine is not None and self._engine.evicted > self._evicted:
            self._instruments.evicted(early=True, n=self._engine.evicted - self._evicted)
            self._evicted = self._engine.evicted

    def _settle(self) -> None:
        while self._exports:
            self._instruments.exports(self._exports.popleft())
        if self._engine is None:
            return
        try:
            self._record_settled(self._engine.advance(time.time_ns()))
            self._failures["settle"] = 0
        except BaseException as error:
            survive(error, "settling")
            self._failed("settle")

    def _record_settled(self, settled: Sequence[Said]) -> None:
        for said in settled:
            self._instruments.record(said, _context(said), first=False)

    def _failed(self, at: str) -> None:
        """An engine that fails again and again, whatever it is given, is replaced: conversations begin anew, as
        after a start."""
        self._failures[at] += 1
        if self._failures[at] >= _FAILURES:
            self._engine = None
            self._failures.clear()

    def _log_record(self) -> LogRecord | None:
        try:
            return log_record_of(self._records.popleft())
        except BaseException as error:
            survive(error, "reading a log record")
            return None

    def _budget(self, spans: int) -> float:
        budget = max(self.settings.span_budget_ms / 1000 * spans, _LEAST_BUDGET)
        return min(budget, _EXIT_BUDGET) if self._finishing else budget

    # ---- time, while no span comes

    def _watch(self) -> None:
        self._watched_until = time.monotonic() + _WATCHED
        if self._timer is None and not self._finishing:
            self._start_timer()

    def _start_timer(self) -> None:
        timer = threading.Timer(_TICK, _call, [ref(self), "tick"])
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # an interpreter that is shutting down starts no thread
            return
        self._timer = timer

    def tick(self) -> None:
        """Settle what is due, and look again while something may be open."""
        with _Turn(self):
            self._settle()
            self._timer = None
            if time.monotonic() < self._watched_until and not self._finishing:
                self._start_timer()

    # ---- gauges: asked on a thread that must not wait

    def _shown(self) -> tuple[Mapping[tuple[str, Band], int], int]:
        if self._lock.acquire(blocking=False):
            try:
                if self._engine is not None:
                    self._bands, self._tracked = self._engine.bands(), self._engine.conversations
            finally:
                self._lock.release()
        return self._bands, self._tracked

    def _queued(self) -> tuple[int, int]:
        queues = [e.queue for e in list(self._exporters) if e.queue is not None]
        return sum(map(len, queues)), sum(q.capacity for q in queues)


class _Turn:
    """The lock. Who waits for it on a thread of the application is known, so that nobody rests meanwhile."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._taken = analyzer._lock  # the one that is given back, should a fork put another in its place

    def __enter__(self) -> None:
        impatient = self._analyzer._impatient
        if self._taken.acquire(blocking=False):
            return
        me = threading.get_ident()
        if not threading.current_thread().name.startswith("OtelBatch"):
            impatient.add(me)
        try:
            self._taken.acquire()
        finally:
            impatient.discard(me)

    def __exit__(self, *_: object) -> None:
        self._taken.release()


class _Arriving:
    """Spans on their way into the engine, one by one: between two of them the thread rests, and the rest of the
    batch stays behind when the time is up or the queue is full. What becomes of each is written into
    ``outcomes``."""

    def __init__(
        self,
        spans: Mapping[Key, ReadableSpan],
        outcomes: dict[Key, str],
        pace: Pace,
        budget: float,
        queue: Queue | None,
    ) -> None:
        self._waiting = deque(spans.items())
        self._outcomes, self._pace, self._budget, self._queue = outcomes, pace, budget, queue
        self._inside: Key | None = None

    @property
    def done(self) -> bool:
        return not self._waiting

    def blame(self) -> bool:
        """The engine has failed: whether it was on one span, which is then known as failed."""
        if self._inside is None:
            for key, outcome in self._outcomes.items():
                if outcome == "not_genai":  # it was told of, and nothing was said
                    self._outcomes[key] = "failed"
            return False
        self._outcomes[self._inside] = "failed"
        self._inside = None
        return True

    def __iter__(self) -> Iterator[Span]:
        while self._waiting:
            if self._pace.worked > self._budget or (
                self._queue is not None and self._queue.pressure >= _FULL
            ):
                self._waiting.clear()
                name_once(["spans come faster than they are analysed: some go out as they are"])
                return
            key, span = self._waiting.popleft()
            try:
                told = span_of(span)
            except BaseException as error:
                survive(error, "reading a span")
                self._outcomes[key] = "unreadable"
                continue
            self._outcomes[key] = "not_genai"
            self._inside = key
            yield told
            self._inside = None
            self._pace.rest()


def _engine(settings: LiveSettings) -> _Engine:
    from otel_ctx.engine import LiveEngine  # with all stages and tables: not in the application's start

    return LiveEngine(settings.engine(), settings.conversations)


def _key(span: ReadableSpan) -> Key | None:
    try:
        context = span.context
        return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context is not None else None
    except BaseException as error:
        survive(error, "reading a span's ids")
        return None


def _context(said: Said) -> SpanContext | None:
    """Of the call's primary span, for exemplars."""
    trace_id, _, span_id = said.reading.call.id.partition(":")
    try:
        return span_context(trace_id, span_id)
    except ValueError:
        return None


# ---- called by the interpreter, which must not keep an analyzer alive


def _call(of: ReferenceType[Analyzer], name: str) -> None:
    analyzer = of()
    if analyzer is not None:
        getattr(analyzer, name)()


def _before_exit(call: Callable[[], None]) -> None:
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
