"""Requests -> what is added to the spans in them. For one thread alone, and nothing raises out of it.

Each tenant has an analysis of its own; what was added to spans of late is remembered for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from otel_ctx.engine import LiveEngine
from otel_ctx.inputs.otlp_protobuf import attributes_of, is_event, log_of, span_of
from otel_ctx.live.analysis import Analysis, Engine, Key
from otel_ctx.live.enrichment import MARK
from otel_ctx.live.faults import survive
from otel_ctx.live.gateway import state
from otel_ctx.live.gateway.delivered import Delivered, key_of
from otel_ctx.live.gateway.wire import addition
from otel_ctx.live.instruments import Instruments
from otel_ctx.live.pacing import Pace
from otel_ctx.model import Band, LogRecord, Span

IDLE = 3600.0  # s after which a tenant may make room for another


class _Arrived(NamedTuple):
    proto: Any
    key: Key
    id: int  # as ``delivered`` knows it


@dataclass(slots=True, eq=False)
class _Fresh:
    """``taken``: the engine has been given it."""

    span: Span
    taken: bool = False


@dataclass(slots=True, eq=False)
class Tenant:
    analysis: Analysis
    used: float  # monotonic


class Tenants:
    """At most ``most``; one that is new finds no place while all others are in use."""

    def __init__(
        self, make: Callable[[], Analysis], most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make, self._most, self._clock = make, most, clock
        self._all: dict[str, Tenant] = {}

    def __iter__(self) -> Iterator[Analysis]:
        return (tenant.analysis for tenant in list(self._all.values()))

    def items(self) -> Iterator[tuple[str, Analysis]]:
        return ((name, tenant.analysis) for name, tenant in list(self._all.items()))

    def get(self, name: str) -> Analysis | None:
        tenant = self._all.get(name)
        if tenant is None:
            if len(self._all) >= self._most and not self._make_room():
                return None
            tenant = self._all[name] = Tenant(self._make(), self._clock())
        tenant.used = self._clock()
        return tenant.analysis

    def put(self, name: str, analysis: Analysis) -> None:
        self._all[name] = Tenant(analysis, self._clock())

    def _make_room(self) -> bool:
        name, oldest = min(self._all.items(), key=lambda item: item[1].used)
        if self._clock() - oldest.used < IDLE:
            return False
        oldest.analysis.drain()
        del self._all[name]
        return True


class Enricher:
    """``tenant_attribute``: of the resource, which names the tenant where no header has."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        instruments: Instruments,
        delivered: Delivered,
        tenant_attribute: str = "",
        tenants: int = 1,
    ) -> None:
        self._engine = engine
        self._instruments = instruments
        self.delivered = delivered
        self._attribute = tenant_attribute
        self.tenants = Tenants(partial(_analysis, engine, instruments), tenants)

    # ---- what arrives

    def traces(self, request: Any, tenant: str, enough: Callable[[], bool]) -> bool:
        """Add what is to be said to the spans in ``request``; whether there was anything. From where it is ``enough``
        on, spans are left as they are, and are not remembered."""
        changed = False
        for name, groups in self._by_tenant(request.resource_spans, tenant):
            try:
                changed = self._spans(name, groups, enough) or changed
            except BaseException as error:
                survive(error, "enriching a batch")
        return changed

    def logs(self, request: Any, tenant: str, enough: Callable[[], bool]) -> None:
        """Content may stand in log records: it is kept for the spans that it belongs to."""
        for name, groups in self._by_tenant(request.resource_logs, tenant):
            events = [event for group in groups for event in _events(group)]
            analysis = self.tenants.get(name) if events else None
            if analysis is not None:
                analysis.take({}, events, _pace(), enough)

    # ---- time

    def settle(self) -> None:
        for analysis in self.tenants:
            analysis.settle()

    def drain(self) -> None:
        for analysis in self.tenants:
            analysis.drain()

    # ---- over a restart

    def saved(self) -> bytes:
        """All that is known, as the content of a file."""
        engines = {
            name: analysis.engine
            for name, analysis in self.tenants.items()
            if isinstance(analysis.engine, LiveEngine)
        }
        outside = {
            f"{n}.{name}": thing
            for n, engine in enumerate(engines.values())
            for name, thing in engine.outside.items()
        }
        known = {
            "delivered": self.delivered.snapshot(),
            "counted": self._instruments.counted,
            "tenants": [(name, engine.state()) for name, engine in engines.items()],
        }
        return state.packed(known, outside)

    def load(self, content: bytes) -> None:
        """Go on from there. StateError where that cannot be."""
        outside = _Outside(self._engine)
        known, then = state.unpacked(content, lambda: outside)
        restored = []
        for n, (name, of_engine) in enumerate(known["tenants"]):
            engine = outside.engine(str(n))
            engine.restore(of_engine)
            restored.append((name, engine))
        self.delivered.restore(known["delivered"], time.time() - then)
        self._instruments.counted = known["counted"]
        for name, engine in restored:
            self.tenants.put(name, _analysis(_once(engine, self._engine), self._instruments))

    # ---- what there is to show; from any thread

    def bands(self) -> Mapping[tuple[str, Band], int]:
        total: dict[tuple[str, Band], int] = {}
        for analysis in self.tenants:
            for place, n in analysis.shown()[0].items():
                total[place] = total.get(place, 0) + n
        return total

    def tracked(self) -> int:
        return sum(analysis.shown()[1] for analysis in self.tenants)

    def sources(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys(source for analysis in self.tenants for source in analysis.sources))

    # ---- inside

    def _by_tenant(self, groups: Any, tenant: str) -> Iterator[tuple[str, list[Any]]]:
        if tenant or not self._attribute:
            yield tenant, list(groups)
            return
        found: dict[str, list[Any]] = {}
        for group in groups:
            named = (a.value.string_value for a in group.resource.attributes if a.key == self._attribute)
            found.setdefault(next(named, ""), []).append(group)
        yield from found.items()

    def _spans(self, tenant: str, groups: list[Any], enough: Callable[[], bool]) -> bool:
        analysis = self.tenants.get(tenant)
        if analysis is None:
            n = sum(len(scope.spans) for group in groups for scope in group.scope_spans)
            self._instruments.self_spans("dropped", n)
            return False
        changed = False
        arrived: list[_Arrived] = []
        fresh: dict[Key, _Fresh] = {}
        for proto, scope, resource in _protos(groups):
            at = _Arrived(
                proto,
                (proto.trace_id.hex(), proto.span_id.hex()),
                key_of(tenant, proto.trace_id, proto.span_id),
            )
            known = self.delivered.get(at.id)
            if known is not None:
                changed = self._add(proto, known) or changed
            else:
                span = self._read(proto, scope, resource)
                if span is not None and MARK in span.attributes:  # it comes from one of us
                    self._instruments.self_spans("duplicate")
                elif span is not None:
                    arrived.append(at)
                    fresh[at.key] = _Fresh(span)
        return self._analyse(analysis, arrived, fresh, enough) or changed

    def _analyse(
        self,
        analysis: Analysis,
        arrived: list[_Arrived],
        fresh: dict[Key, _Fresh],
        enough: Callable[[], bool],
    ) -> bool:
        if not fresh:
            return False
        found, _ = analysis.take(fresh, [], _pace(), enough)
        changed = False
        for at in arrived:
            if not fresh[at.key].taken:
                continue
            added = found.get(at.key)
            encoded = addition(added, at.proto.end_time_unix_nano) if added is not None else b""
            changed = self._add(at.proto, encoded) or changed
            self.delivered.put(at.id, encoded)
        return changed

    def _read(self, proto: Any, scope: Any, resource: dict[str, Any]) -> Span | None:
        try:
            return span_of(proto, scope.name, scope.version, resource)
        except BaseException as error:
            survive(error, "reading a span")
            self._instruments.self_spans("unreadable")
            return None

    @staticmethod
    def _add(proto: Any, added: bytes) -> bool:
        if added:
            proto.MergeFromString(added)
        return bool(added)


class _Outside(Mapping[str, object]):
    """Of engines that are made as a state asks for them: ``N.NAME`` is what ``NAME`` is to engine N."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engines: dict[str, LiveEngine] = {}
        self._found: dict[str, dict[str, object]] = {}

    def engine(self, number: str) -> LiveEngine:
        if number not in self._engines:
            made = self._make()
            if not isinstance(made, LiveEngine):
                raise state.StateError("it is of another engine")
            self._engines[number] = made
            self._found[number] = made.outside
        return self._engines[number]

    def __getitem__(self, place: str) -> object:
        number, _, name = place.partition(".")
        self.engine(number)
        return self._found[number][name]

    def __iter__(self) -> Iterator[str]:
        return (f"{n}.{name}" for n, found in self._found.items() for name in found)

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))


def _once(first: LiveEngine, then: Callable[[], Engine]) -> Callable[[], Engine]:
    """``first``, and new ones where it fails."""
    waiting: list[Engine] = [first]
    return lambda: waiting.pop() if waiting else then()


def _analysis(engine: Callable[[], Engine], instruments: Instruments) -> Analysis:
    return Analysis(engine, instruments, read_span=_taken, read_log=_log_record)


def _taken(fresh: _Fresh) -> Span:
    fresh.taken = True
    return fresh.span


def _protos(groups: list[Any]) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    for group in groups:
        resource = attributes_of(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield span, scope.scope, resource


def _events(group: Any) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Log records that may hold content: those with a name."""
    resource = attributes_of(group.resource.attributes)
    for scope in group.scope_logs:
        for record in scope.log_records:
            if is_event(record):
                yield record, scope.scope, resource


def _log_record(arrived: tuple[Any, Any, dict[str, Any]]) -> LogRecord:
    record, scope, resource = arrived
    return log_of(record, scope.name, scope.version, resource)


def _pace() -> Pace:
    """Nothing else runs on this thread: it never rests."""
    return Pace(1.0, lambda: True)
