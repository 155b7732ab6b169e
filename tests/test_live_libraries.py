"""Real clients under real instrumentations, by each way in, up to a receiver.

``tests/live_apps`` has the applications, each a process of its own, for instrumentations patch what they find. What
arrived is laid beside what a processor saw before any exporter: apart from ours nothing differs, and what is said of a
call is what the analysis of a dump of the same spans says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from otel_ctx import Engine, read
from otel_ctx.model import Reading, Span
from otel_ctx.outputs.attributes import EVENT
from tests.live_apps.libraries import LIBRARIES
from tests.live_apps.vendors import VENDORS
from tests.otlp_receiver import OtlpReceiver
from tests.provider_stub import ProviderStub
from tests.said import Ours, counted, said_of

ROOT = Path(__file__).parent.parent
WAYS = ("before", "after", "simple", "pipeline", "installed", "wrapped")
SENDS_TO = {"logfire": "/v1/traces", "langfuse": "/api/public/otel/v1/traces"}
SESSIONS, CALLS = 2, 8  # of a way in, and of a session
PROVISIONAL = "otelctx.provisional"


@pytest.fixture(scope="module")
def stub() -> Iterator[ProviderStub]:
    with ProviderStub() as running:
        yield running


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


# ---- spans, as they are sent


@dataclass(frozen=True)
class Sent:
    """A span with where it came from."""

    span: ProtoSpan
    resource: bytes
    scope: bytes


def sent(requests: list[ExportTraceServiceRequest]) -> list[Sent]:
    return [
        Sent(span, resource.resource.SerializeToString(), scope.scope.SerializeToString())
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def without_ours(enriched: ProtoSpan, plain: ProtoSpan) -> ProtoSpan:
    """``enriched`` as it was, if we only added to it."""
    span = ProtoSpan()
    span.CopyFrom(enriched)
    del span.attributes[:], span.events[:], span.links[len(plain.links) :]
    span.attributes.extend(a for a in enriched.attributes if not a.key.startswith("otelctx."))
    span.events.extend(e for e in enriched.events if e.name != EVENT)
    return span


def changed(arrived: Sent, plain: Sent) -> list[str]:
    """Attributes that differ; or else that something does."""
    span = without_ours(arrived.span, plain.span)
    if Sent(span, arrived.resource, arrived.scope) == plain:
        return []
    before, after = ({a.key: a.value.SerializeToString() for a in s.attributes} for s in (plain.span, span))
    keys = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    return sorted(keys) or ["no attribute"]


def ours(enriched: ProtoSpan, plain: ProtoSpan) -> Ours:
    added = {a.key: value(a.value) for a in enriched.attributes if a.key.startswith("otelctx.")}
    events = [{a.key: a.value.string_value for a in e.attributes} for e in enriched.events if e.name == EVENT]
    kinds = tuple(dict.fromkeys(event["otelctx.finding.kind"] for event in events))
    links = [(at.trace_id.hex(), at.span_id.hex()) for at in enriched.links[len(plain.links) :]]
    return added, kinds, links


def value(any_value: Any) -> Any:
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return tuple(value(each) for each in any_value.array_value.values)
    return getattr(any_value, kind)


# ---- one way in


@dataclass(frozen=True)
class Way:
    """What one way in has sent, what was there before any exporter, and what was counted."""

    plain: dict[bytes, Sent]
    arrived: list[Sent]
    spans: list[Span]
    readings: tuple[Reading, ...]
    metrics: Mapping[tuple[str, str], float]

    def changes(self) -> list[str]:
        """Spans that were lost or doubled, and those of which more differs than what is ours."""
        arrived: dict[bytes, list[Sent]] = {each: [] for each in self.plain}
        for each in self.arrived:
            arrived[each.span.span_id].append(each)
        return sorted(
            f"{plain.span.name}: {change}"
            for span_id, plain in self.plain.items()
            for change in ([f"{len(arrived[span_id])} times"] if len(arrived[span_id]) != 1 else ())
            or changed(arrived[span_id][0], plain)
        )

    def enriched(self) -> dict[tuple[str, str], Ours]:
        return {
            (each.span.trace_id.hex(), each.span.span_id.hex()): ours(
                each.span, self.plain[each.span.span_id].span
            )
            for each in self.arrived
        }

    def expected(self) -> dict[tuple[str, str], Ours]:
        """What a dump says of the spans that tell of a call."""
        return {
            (ref.trace_id, ref.span_id): said_of(reading, ref.role)
            for reading in self.readings
            for ref in reading.call.spans
        }

    def calls(self) -> Iterator[tuple[bool, bool]]:
        """Of each call of the dump: whether one of its spans left as provisional, and whether each carries what the
        dump says."""
        arrived, expected = self.enriched(), self.expected()
        for reading in self.readings:
            spans = [(ref.trace_id, ref.span_id) for ref in reading.call.spans if ref.role != "aggregate"]
            provisional = any(arrived[span][0].get(PROVISIONAL) for span in spans if span in arrived)
            same = all(settled(arrived[span]) == settled(expected[span]) for span in spans if span in arrived)
            yield provisional, same

    def uncounted(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Metrics whose totals are not those of the calls in the dump: both."""
        wanted = counted(self.spans)
        return {
            key: (self.metrics.get(key, 0), total)
            for key, total in wanted.items()
            if self.metrics.get(key, 0) != pytest.approx(total)
        }


def settled(said: Ours) -> Ours:
    figures, kinds, links = said
    return {key: each for key, each in figures.items() if key != PROVISIONAL}, kinds, links


def way_of(name: str, requests: list[ExportTraceServiceRequest], folder: Path) -> Way:
    seen = folder / f"{name}.pb"
    plain = {
        each.span.span_id: each for each in sent([ExportTraceServiceRequest.FromString(seen.read_bytes())])
    }
    engine = Engine()
    spans = [span for batch in read([seen]) for span in batch.spans]
    engine.feed(spans)
    metrics = {
        (metric, json.dumps(labels, sort_keys=True)): total
        for metric, labels, total in json.loads((folder / f"{name}.json").read_text("utf-8"))
    }
    arrived = [each for each in sent(requests) if each.span.span_id in plain]
    return Way(plain, arrived, spans, engine.close().readings, metrics)


def run(module: str, arguments: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *arguments],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "otel_ctx" not in done.stderr, done.stderr


def check(way: Way, calls: int, stub: ProviderStub) -> str:
    """What holds for every way in; the share of the calls that left as provisional, and of these of what differs."""
    told = list(way.calls())
    assert len(told) == calls
    assert (False, False) not in told, "said, not as provisional, and not what the dump says"
    figured = [figures for figures, _, _ in way.enriched().values() if PROVISIONAL in figures]
    assert len(figured) == calls, "one span of each carries the figures"
    early = told.count((True, False))
    late = (
        {"otelctx.calls", "otelctx.context.headroom.turns"} if early else set()
    )  # counted when it is said first
    assert {metric: each for metric, each in way.uncounted().items() if metric[0] not in late} == {}
    for call in (reading.call for reading in way.readings):
        (request,) = (
            request
            for request in stub.requests
            if call.start_unix_nano <= request.start_unix_nano <= call.end_unix_nano
        )
        size, cached = used(request.usage)
        assert (call.usage.input, call.usage.cache_read) in ((size, cached), (size, None))
    return f"{sum(provisional for provisional, _ in told)} of {calls}, {early} differ"


def used(usage: Mapping[str, Any]) -> tuple[int, int]:
    """Input, with what was cached, and what was read: as the provider answered."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    if details is not None:
        return usage.get("prompt_tokens") or usage["input_tokens"], details["cached_tokens"]
    read = usage["cache_read_input_tokens"]
    return usage["input_tokens"] + read + usage["cache_creation_input_tokens"], read


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_by_each_way_in(
    library: str, stub: ProviderStub, receiver: OtlpReceiver, tmp_path: Path, record_property: Any
) -> None:
    chosen = LIBRARIES[library]
    arguments = [library, stub.url, f"{receiver.url}/{library}", str(tmp_path)]
    run("tests.live_apps.app", arguments, chosen.environment)
    for name in WAYS:
        way = way_of(name, receiver.traces(f"/{library}/{name}"), tmp_path)
        assert way.changes() == []
        record_property(f"provisional, {name}", check(way, SESSIONS * CALLS, stub))


@pytest.mark.parametrize("vendor", VENDORS)
def test_on_the_provider_of_a_vendor(
    vendor: str, stub: ProviderStub, receiver: OtlpReceiver, tmp_path: Path, record_property: Any
) -> None:
    run("tests.live_apps.vendors", [vendor, stub.url, receiver.url, str(tmp_path)], {})
    own = SENDS_TO[vendor.partition("-")[0]]
    by_itself = way_of("alone", receiver.traces(own), tmp_path).changes()
    for name, path in (("installed", own), ("beside", own), ("pipeline", "/own")):
        way = way_of(name, receiver.traces(path), tmp_path)
        assert way.changes() == ([] if path == "/own" else by_itself)
        record_property(f"provisional, {name}", check(way, SESSIONS * CALLS, stub))
    assert way_of("pipeline", receiver.traces(own), tmp_path).changes() == by_itself
