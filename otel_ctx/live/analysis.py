"""One engine and what is counted of it: spans in, what is to be added to each out.

Not for two threads at once. Nothing raises out of it but what means to end the thread or the process.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from otel_ctx.inputs.sdk import span_of
from otel_ctx.live.enrichment import Enrichment, enrichment, span_context
from otel_ctx.live.faults import survive
from otel_ctx.live.instruments import Instruments
from otel_ctx.model import Band, LogRecord, Said, Span, SpanRef

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

Key = tuple[str, str]
"""Trace and span, as hex."""

_SOURCES = 100
_RETRIES = 8  # where the engine fails, and nothing says on what
_FAILURES = 3  # such cases in a row: then it is replaced


class Engine(Protocol):
    late: int

    def feed(self, spans: Iterator[Span], logs: Iterator[LogRecord]) -> list[Said]: ...
    def advance(self, now_unix_nano: int) -> list[Said]: ...
    def drain(self) -> list[Said]: ...
    def bands(self) -> Mapping[tuple[str, Band], int]: ...
    @property
    def failing(self) -> Sequence[SpanRef]: ...
    @property
    def conversations(self) -> int: ...
    @property
    def evicted(self) -> int: ...


class Pacing(Protocol):
    """``worked``: seconds of work so far."""

    @property
    def worked(self) -> float: ...
    def rest(self) -> None: ...


class Analysis:
    """``make`` makes the engine, when the first span comes: not in the application's start. ``read_span`` and
    ``read_log`` turn what arrives into records: in the application spans are the SDK's objects, log records were read
    when they were heard."""

    def __init__(
        self,
        make: Callable[[], Engine],
        instruments: Instruments,
        read_span: Callable[[Any], Span] = span_of,
        read_log: Callable[[Any], LogRecord] = lambda record: record,
    ) -> None:
        self._make = make
        self._instruments = instruments
        self._read_span, self._read_log = read_span, read_log
        self._engine: Engine | None = None
        self._failures: Counter[str] = Counter()
        self._evicted = 0
        self._sources: dict[tuple[str, str], None] = {}
        self._resource: object = None

    @property
    def sources(self) -> list[tuple[str, str]]:
        """(service, version) that spans came from."""
        return list(self._sources)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._make()
            self._evicted = self._engine.evicted
        return self._engine

    def shown(self) -> tuple[Mapping[tuple[str, Band], int], int]:
        """Conversations by service and band, and how many are remembered."""
        engine = self._engine
        return (engine.bands(), engine.conversations) if engine is not None else ({}, 0)

    def take(
        self,
        fresh: Mapping[Key, Any],
        records: Sequence[Any],
        pace: Pacing,
        enough: Callable[[], bool],
    ) -> tuple[dict[Key, Enrichment], bool]:
        """What is to be added to spans that were not seen before, and whether anything was said of a call. From where
        it is ``enough`` on, spans are left as they are."""
        found: dict[Key, Enrichment] = {}
        outcomes = dict.fromkeys(fresh, "dropped")
        said: list[Said] = []
        late = 0
        arriving = _Arriving(fresh, self._read_span, outcomes, pace, enough)
        try:
            engine = self.engine
            late = engine.late
            logs = (log for record in records if (log := self._log_record(record)) is not None)
            said = self._feed(engine, arriving, logs)
            late = engine.late - late
        except BaseException as error:
            survive(error, "analysing a batch")
        for each in said:
            self._heard(each, fresh, outcomes, found)
        try:
            if fresh:
                self._count(outcomes, late, pace.worked / len(fresh))
            self._note(arriving.resources)
        except BaseException as error:
            survive(error, "counting a batch", "some of its spans are not counted")
        return found, bool(said)

    def settle(self) -> None:
        """Count what has settled by now."""
        engine = self._engine
        if engine is not None:
            self._record_settled(lambda: engine.advance(time.time_ns()))

    def drain(self) -> None:
        """Settle everything."""
        if self._engine is not None:
            self._record_settled(self._engine.drain)

    # ---- inside

    def _feed(self, engine: Engine, arriving: _Arriving, logs: Iterator[LogRecord]) -> list[Said]:
        """What the engine says. A span or a call that it fails on is left out, and the others go on."""
        failures = 0
        while failures < _RETRIES:
            try:
                said = engine.feed(iter(arriving), logs)
            except BaseException as error:
                survive(error, "analysing spans")
                failures += not arriving.blame([(at.trace_id, at.span_id) for at in engine.failing])
            else:
                self._failures["feed"] = 0
                return said
        arriving.give_up()
        self._failed("feed")
        return []

    def _log_record(self, record: Any) -> LogRecord | None:
        try:
            return self._read_log(record)
        except BaseException as error:
            survive(error, "reading a log record")
            return None

    def _heard(
        self,
        said: Said,
        fresh: Mapping[Key, Any],
        outcomes: dict[Key, str],
        found: dict[Key, Enrichment],
    ) -> None:
        call = said.reading.call
        try:
            for at in call.spans:
                key = (at.trace_id, at.span_id)
                if key in fresh:
                    found[key] = enrichment(said, at.role)
                    outcomes[key] = "analysed" if at.role == "primary" else "duplicate"
        except BaseException as error:
            survive(error, "telling what was found")
        if not said.again:
            self._record(said, first=True)

    def _record(self, said: Said, first: bool) -> None:
        try:
            self._instruments.record(said, _context(said), first=first)
            for reason in said.reading.call.completeness.reasons if first else ():
                self._instruments.content_lost(reason)
        except BaseException as error:
            survive(error, "recording metrics", "some are missing")

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

    def _note(self, resources: Sequence[Mapping[str, Any]]) -> None:
        """The services that spans come from; in an application nearly always one, with one resource for all spans."""
        for resource in resources:
            if resource is not self._resource:
                self._resource = resource
                source = tuple(str(resource.get(key, "")) for key in ("service.name", "service.version"))
                if len(self._sources) < _SOURCES:
                    self._sources[source[0], source[1]] = None
                self._instruments.expect(source[0])
        if self._engine is not None and self._engine.evicted > self._evicted:
            self._instruments.evicted(early=True, n=self._engine.evicted - self._evicted)
            self._evicted = self._engine.evicted

    def _record_settled(self, settle: Callable[[], list[Said]]) -> None:
        """A call that the engine fails on is left out, and the others go on."""
        for _ in range(_RETRIES):
            try:
                settled = settle()
            except BaseException as error:
                survive(error, "settling", "some of what was still open is not counted")
                continue
            self._failures["settle"] = 0
            for said in settled:
                self._record(said, first=False)
            return
        self._failed("settle")

    def _failed(self, at: str) -> None:
        """An engine that fails again and again, whatever it is given, is replaced: conversations begin anew, as
        after a start."""
        self._failures[at] += 1
        if self._failures[at] >= _FAILURES:
            self._engine = None
            self._failures.clear()


class _Arriving:
    """Spans on their way into the engine, one by one: between two of them the thread rests, and the rest of the
    batch stays behind when it is enough. What becomes of each is written into ``outcomes``."""

    def __init__(
        self,
        spans: Mapping[Key, Any],
        read: Callable[[Any], Span],
        outcomes: dict[Key, str],
        pace: Pacing,
        enough: Callable[[], bool],
    ) -> None:
        self._waiting = list(spans.items())[::-1]
        self._read = read
        self.resources: list[Mapping[str, Any]] = []  # of the spans, each once where they stand together
        self._outcomes, self._pace, self._enough = outcomes, pace, enough
        self._inside: Key | None = None

    def blame(self, call: Sequence[Key]) -> bool:
        """The engine has failed: on the spans of a ``call``, else on the one that it was given last, else on
        none that can be told, which is False."""
        inside, self._inside = self._inside, None
        spans = [key for key in call if self._outcomes.get(key, "failed") != "failed"]
        if inside is not None and not spans:
            spans = [inside]
        for key in spans:
            self._outcomes[key] = "failed"
        return bool(spans)

    def give_up(self) -> None:
        """The engine fails whatever it is given."""
        for key, outcome in self._outcomes.items():
            if outcome == "not_genai":  # it was told of, and nothing was said
                self._outcomes[key] = "failed"

    def __iter__(self) -> Iterator[Span]:
        while self._waiting:
            if self._enough():
                self._waiting.clear()
                return
            key, span = self._waiting.pop()
            try:
                told = self._read(span)
            except BaseException as error:
                survive(error, "reading a span")
                self._outcomes[key] = "unreadable"
                continue
            self._outcomes[key] = "not_genai"
            if not self.resources or told.resource is not self.resources[-1]:
                self.resources.append(told.resource)
            self._inside = key
            yield told
            self._inside = None
            self._pace.rest()


def _context(said: Said) -> SpanContext | None:
    """Of the call's primary span, for exemplars."""
    trace_id, _, span_id = said.reading.call.id.partition(":")
    try:
        return span_context(trace_id, span_id)
    except ValueError:
        return None
