"""The table of metrics on the app's MeterProvider."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial, wraps
from typing import Concatenate, ParamSpec
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

from opentelemetry import metrics as otel
from opentelemetry import trace
from opentelemetry.context import Context

from otel_ctx.model import Band, Said
from otel_ctx.outputs import metrics
from otel_ctx.outputs.metrics import (
    METRICS,
    MODEL,
    OTHER,
    PROVIDER,
    SERVICE,
    UNKNOWN,
    VALUES,
    VERSION,
    Caps,
    Metric,
)

_log = logging.getLogger(__name__)

METER = "otel_ctx"  # without a version: it is a label of every series, and a release would break them off

_FINDINGS_KEPT = 50_000  # (conversation, kind) pairs that are known to be counted
_LARGEST = frozenset({"otelctx.context.window.tokens", "otelctx.source.info", "otelctx.self.rulebook.age"})
"""Gauges of which several engines in one process give the largest; of the others, the sum."""

_Point = tuple[int | float, dict[str, str]]
_Record = Callable[[int | float, dict[str, str], Context], None]
_P = ParamSpec("_P")


def _harmless(
    call: Callable[Concatenate[Instruments, _P], None],
) -> Callable[Concatenate[Instruments, _P], None]:
    """Metrics are never worth an exception in the app."""

    @wraps(call)
    def guarded(self: Instruments, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            call(self, *args, **kwargs)
        except Exception as error:
            _log.debug("metrics were not recorded: %s", type(error).__name__)

    return guarded


class Instruments:
    """Counters, histograms and gauges on ``meter_provider`` (None: the global one, also when the app sets it later).
    What the gauges show is asked for when metrics are collected; without its callable a gauge shows nothing:

    ``conversations``: conversations now, by (service, band); ``sources``: (service, version) of late;
    ``queue``: (spans waiting, spans that may wait); ``tracked``: conversations in memory; ``rulebook_age``: seconds
    (None: that of the own tables).
    """

    def __init__(
        self,
        meter_provider: otel.MeterProvider | None = None,
        *,
        caps: Caps | None = None,
        conversations: Callable[[], Mapping[tuple[str, Band], int]] | None = None,
        sources: Callable[[], Iterable[tuple[str, str]]] | None = None,
        queue: Callable[[], tuple[int, int]] | None = None,
        tracked: Callable[[], int] | None = None,
        rulebook_age: Callable[[], float] | None = None,
    ) -> None:
        self._given = meter_provider
        self._caps = caps or Caps()
        self._conversations = conversations
        self._sources = sources
        self._queue = queue
        self._tracked = tracked
        self._rulebook_age = rulebook_age or _rulebook_age
        self.lock = threading.Lock()
        self._bound: otel.MeterProvider | None = None
        self._board: _Board | None = None
        self._histograms: dict[str, _Record] = {}
        self._zeroed: set[tuple[str, ...]] = set()
        self._counted: dict[tuple[str, str], None] = {}
        self._windows: dict[tuple[str, str], int] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_renew, ref(self)))
        self._bind()

    # ---- what happened

    @_harmless
    def record(self, said: Said, span_context: trace.SpanContext | None, first: bool) -> None:
        """A call was said for the first time, or has settled. ``span_context``: its primary span, which becomes the
        exemplar."""
        if not self._bind():
            return
        source = metrics.source_of(said.reading)
        self._expect(source)
        context = Context()
        if span_context is not None:
            context = trace.set_span_in_context(trace.NonRecordingSpan(span_context), context)
        for name, value, attributes in metrics.records(said, first=first):
            if name != "otelctx.findings" or self._is_new(said.reading.conversation, attributes["kind"]):
                self._add(name, value, attributes, context)
        limit = said.reading.context.limit
        if limit is not None and said.reading.call.model:
            with self.lock:
                place = self._caps.fit(source)
                if place[MODEL] != OTHER:
                    self._windows[place[PROVIDER], place[MODEL]] = limit

    @_harmless
    def expect(self, service: str) -> None:
        """Calls of this service are to come: its counters stand at 0 before the first of them."""
        if self._bind():
            self._expect({SERVICE: service or UNKNOWN})

    @_harmless
    def self_spans(self, result: str, n: int = 1) -> None:
        """``result``: analysed | duplicate | not_genai | unreadable | failed | late | dropped."""
        self._own("otelctx.self.spans", n, {"result": result})

    @_harmless
    def content_lost(self, loss: str) -> None:
        """``loss``: a reason of incompleteness; those that mean no damage are not counted."""
        if loss in VALUES["loss"]:
            self._own("otelctx.self.content.lost", 1, {"loss": loss})

    @_harmless
    def processing(self, seconds: float) -> None:
        self._own("otelctx.self.processing.duration", seconds, {})

    @_harmless
    def exports(self, success: bool) -> None:
        self._own("otelctx.self.exports", 1, {"success": _truth(success)})

    @_harmless
    def evicted(self, early: bool, n: int = 1) -> None:
        """Conversations were let go: ``early`` for their number, else for their age."""
        self._own("otelctx.self.conversations.evicted", n, {"early": _truth(early)})

    @_harmless
    def close(self) -> None:
        """The gauges show nothing of this any more. What was counted stays counted."""
        if self._board is not None:
            self._board.members.discard(self)

    @property
    def counted(self) -> list[tuple[str, str]]:
        """(conversation, kind of finding) that were counted, the oldest first: what outlives a restart."""
        with self.lock:
            return list(self._counted)

    @counted.setter
    def counted(self, pairs: Iterable[tuple[str, str]]) -> None:
        with self.lock:
            self._counted = dict.fromkeys(pairs)

    # ---- what is so, at the moment of a collection

    def observe(self, name: str) -> Iterator[_Point]:
        """The points of gauge ``name``."""
        if name == "otelctx.conversations" and self._conversations is not None:
            yield from self._by_band(self._conversations())
        elif name == "otelctx.source.info" and self._sources is not None:
            for service, version in self._sources():
                yield 1, self._fit({SERVICE: service or UNKNOWN, VERSION: version or UNKNOWN})
        elif name == "otelctx.context.window.tokens":
            with self.lock:
                windows = list(self._windows.items())
            for (provider, model), limit in windows:
                yield limit, {PROVIDER: provider, MODEL: model}
        elif name == "otelctx.self.queue.size" and self._queue is not None:
            yield self._queue()[0], {}
        elif name == "otelctx.self.queue.capacity" and self._queue is not None:
            yield self._queue()[1], {}
        elif name == "otelctx.self.conversations.tracked" and self._tracked is not None:
            yield self._tracked(), {}
        elif name == "otelctx.self.rulebook.age":
            yield self._rulebook_age(), {}

    def _by_band(self, counts: Mapping[tuple[str, Band], int]) -> Iterator[_Point]:
        """Every band of every service that was seen, at 0 where no conversation stands in it."""
        with self.lock:
            services = {place[0] for place in self._zeroed if place}
        for service in services:
            for band in VALUES["headroom"]:
                yield 0, {SERVICE: service, "headroom": band}
        for (name, band), n in counts.items():
            yield n, self._fit({SERVICE: name or UNKNOWN, "headroom": band})

    # ---- inside

    def _bind(self) -> bool:
        """Take the instruments of the provider that is in force; whether there is one."""
        provider = self._given if self._given is not None else otel.get_meter_provider()
        if provider is self._bound:
            return True
        if _is_stand_in(provider):
            return False
        meter = provider.get_meter(METER)
        histograms = {m.name: _recorder(meter, m) for m in _fed("histogram")}
        board = _board_of(provider, meter)
        board.members.add(self)
        with self.lock:
            self._board, self._histograms, self._bound = board, histograms, provider
            self._zeroed.clear()
        self._zero()
        return True

    def _own(self, name: str, value: int | float, attributes: dict[str, str]) -> None:
        if self._bind():
            self._add(name, value, attributes, Context())

    def _add(self, name: str, value: int | float, attributes: dict[str, str], context: Context) -> None:
        record = self._histograms.get(name)
        if record is not None:
            record(value, self._fit(attributes), context)
        elif self._board is not None:
            self._board.add(name, value, self._fit(attributes))

    def _fit(self, attributes: Mapping[str, str]) -> dict[str, str]:
        with self.lock:
            return self._caps.fit(attributes)

    def _expect(self, source: Mapping[str, str]) -> None:
        """Counters at 0 for a service, and for its model where that is told, when they are first seen."""
        place = tuple(self._fit(source).values())
        self._zero(place[0])
        if MODEL in source:
            self._zero(*place)

    def _zero(self, *place: str) -> None:
        """``place`` is bounded already."""
        with self.lock:
            if place in self._zeroed:
                return
            self._zeroed.add(place)
        for name, attributes in metrics.zeros(*place):
            if self._board is not None:
                self._board.add(name, 0, attributes)

    def _is_new(self, conversation: str, kind: str) -> bool:
        """Whether the kind was not yet counted in the conversation. The oldest are forgotten."""
        with self.lock:
            if (conversation, kind) in self._counted:
                return False
            self._counted[conversation, kind] = None
            if len(self._counted) > _FINDINGS_KEPT:
                del self._counted[next(iter(self._counted))]
            return True


def _renew(of: ReferenceType[Instruments]) -> None:
    """In a forked child the thread that held the lock is not there to give it back."""
    instruments = of()
    if instruments is not None:
        instruments.lock = threading.Lock()


class _Board:
    """The instruments of one provider, for all engines that report there. An SDK keeps the callbacks of the first
    registration for good: whoever comes later, after an uninstall too, must be asked through these.

    Counters are summed up here and shown then, too: an SDK takes 15 us to add a number, and a call adds twenty."""

    def __init__(self, provider: otel.MeterProvider, meter: otel.Meter) -> None:
        self.members: WeakSet[Instruments] = WeakSet()
        self._provider = ref(provider)
        self._lock = threading.Lock()
        self._sums: dict[str, dict[tuple[str, ...], int | float]] = {m.name: {} for m in _fed("counter")}
        for m in _fed("counter"):
            meter.create_observable_counter(m.name, [partial(self._totals, m)], m.unit, m.description)
        for m in _fed("gauge"):
            meter.create_observable_gauge(m.name, [partial(self._points, m.name)], m.unit, m.description)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_begin_anew, ref(self)))

    def add(self, name: str, value: int | float, attributes: Mapping[str, str]) -> None:
        key = tuple(attributes[k] for k in METRICS[name].keys)
        sums = self._sums[name]
        with self._lock:
            sums[key] = sums.get(key, 0) + max(value, 0)

    def begin_anew(self) -> None:
        """In a forked child, whose lock may be held by a thread that is not there. What the parent has counted the
        parent reports; only who is sent differences must not see a sum fall."""
        self._lock = threading.Lock()
        if not _sends_differences(self._provider()):
            for sums in self._sums.values():
                sums.update(dict.fromkeys(sums, 0))

    def _totals(self, metric: Metric, options: otel.CallbackOptions) -> Iterable[otel.Observation]:
        with self._lock:
            sums = list(self._sums[metric.name].items())
        return [otel.Observation(total, dict(zip(metric.keys, key, strict=True))) for key, total in sums]

    def _points(self, name: str, options: otel.CallbackOptions) -> Iterable[otel.Observation]:
        points: dict[tuple[tuple[str, str], ...], int | float] = {}
        for member in list(self.members):
            try:
                observed = list(member.observe(name))
            except Exception as error:
                _log.debug("%s was not observed: %s", name, type(error).__name__)
                continue
            for value, attributes in observed:
                key = tuple(attributes.items())
                known = points.get(key, 0)
                points[key] = max(known, value) if name in _LARGEST else known + value
        return [otel.Observation(value, dict(key)) for key, value in points.items()]


_BOARDS: WeakKeyDictionary[otel.MeterProvider, _Board] = WeakKeyDictionary()


def _board_of(provider: otel.MeterProvider, meter: otel.Meter) -> _Board:
    try:
        board = _BOARDS.get(provider)
        if board is None:
            board = _BOARDS[provider] = _Board(provider, meter)
    except TypeError:  # a provider that cannot be a key
        board = _Board(provider, meter)
    return board


def _begin_anew(of: ReferenceType[_Board]) -> None:
    board = of()
    if board is not None:
        board.begin_anew()


def _sends_differences(provider: object) -> bool:
    """Whether a reader of the SDK's provider turns totals into differences; the SDK has no public name for that."""
    kinds = (
        temporality
        for reader in getattr(provider, "_metric_readers", ())
        for temporality in getattr(reader, "_instrument_class_temporality", {}).values()
    )
    return any(getattr(kind, "name", "") == "DELTA" for kind in kinds)


def _is_stand_in(provider: otel.MeterProvider) -> bool:
    """Whether the app has set no provider yet. What the API's stand-in is given until then is lost, zeros too; the API
    has no public name for it."""
    return type(provider).__name__ == "_ProxyMeterProvider"


def _fed(*kinds: str) -> Iterator[Metric]:
    return (m for m in METRICS.values() if m.kind in kinds and m.name in metrics.FED)


def _recorder(meter: otel.Meter, m: Metric) -> _Record:
    return meter.create_histogram(
        m.name, m.unit, m.description, explicit_bucket_boundaries_advisory=m.buckets
    ).record


def _rulebook_age() -> float:
    """Seconds since the newest source of the own tables; of a date without day, since the first of its month."""
    return max(time.time() - _rulebook_time(), 0.0)


@cache
def _rulebook_time() -> float:
    from otel_ctx.rules import load

    newest = max(source.date for source in load().sources.values())
    day = newest + "0000-01-01"[len(newest) :]
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()


def _truth(value: bool) -> str:
    return "true" if value else "false"  # exporters spell booleans differently
