"""What Jaeger holds, laid beside what the analysis of the Collector's own dump of the same run says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from otel_ctx import Engine, read
from otel_ctx.model import Reading, Span
from otel_ctx.outputs.attributes import EVENT
from tests.e2e.stack import Jaeger, until
from tests.said import said_of

Found = dict[tuple[str, str], dict[str, Any]]
"""(trace id, span id) -> the span as Jaeger shows it."""
_PROVISIONAL = "otelctx.provisional"


def read_dump(path: Path) -> list[Span]:
    return [span for batch in read([path]) for span in batch.spans]


def analysed(spans: list[Span]) -> tuple[Reading, ...]:
    engine = Engine()
    engine.feed(spans)
    return engine.close().readings


def in_jaeger(jaeger: Jaeger, spans: list[Span]) -> Found:
    """All of ``spans``, as soon as they are there; and nothing else is in their traces."""
    wanted = {(s.trace_id, s.span_id) for s in spans}
    found: Found = {}

    def all_there() -> bool:
        for trace_id in {t for t, s in wanted if (t, s) not in found}:
            found.update(((trace_id, s["spanID"]), s) for s in jaeger.spans(trace_id) or ())
        return found.keys() >= wanted

    until(all_there, f"{len(wanted)} spans in Jaeger")
    assert found.keys() == wanted
    return found


def tags(span: dict[str, Any]) -> dict[str, Any]:
    """Ours. Jaeger shows an array as its JSON."""
    out = {}
    for tag in span["tags"]:
        if tag["key"].startswith("otelctx."):
            value = tag["value"]
            is_array = tag["type"] == "string" and str(value).startswith("[")
            assert tag["key"] not in out, f"{tag['key']} is there twice"
            out[tag["key"]] = tuple(json.loads(value)) if is_array else value
    return out


def links(span: dict[str, Any]) -> list[tuple[str, str]]:
    return [(r["traceID"], r["spanID"]) for r in span["references"] if r["refType"] == "FOLLOWS_FROM"]


def check(found: Found, readings: Sequence[Reading]) -> set[str]:
    """Every call is on its spans as the dump says: attributes, findings' events, link. But for calls of which a span had
    to leave before all was known of them, and which say so: those of them that differ."""
    wrong = {r.call.id: faults for r in readings if (faults := list(_differing(r, found)))}
    hasty = early(found, readings)
    assert {call: faults for call, faults in wrong.items() if call not in hasty} == {}
    for reading in readings:
        of_call = [tags(found[ref.trace_id, ref.span_id]) for ref in reading.call.spans]
        assert all("otelctx.call.role" in each for each in of_call)
        assert sum("otelctx.context.usage" in each for each in of_call) == 1, "one span has the figures"
    return set(wrong)


def check_others(found: Found, readings: Sequence[Reading]) -> None:
    """Spans that tell of no call are as they were, and there are some."""
    calls = {(ref.trace_id, ref.span_id) for r in readings for ref in r.call.spans}
    others = [span for key, span in found.items() if key not in calls]
    assert others
    assert all(not tags(span) and not any(_is_ours(log) for log in span["logs"]) for span in others)


def early(found: Found, readings: Sequence[Reading]) -> set[str]:
    """Calls of which a span left as provisional."""
    return {
        reading.call.id
        for reading in readings
        if any(tags(found[ref.trace_id, ref.span_id]).get(_PROVISIONAL) for ref in reading.call.spans)
    }


def _differing(reading: Reading, found: Found) -> Iterator[tuple[Any, ...]]:
    for ref in reading.call.spans:
        figures, kinds, to = said_of(reading, ref.role)
        span = found[ref.trace_id, ref.span_id]
        got = tags(span)
        for each in (got, figures):
            each.pop(_PROVISIONAL, None)
        events = [_fields(log) for log in span["logs"] if _is_ours(log)]
        told = tuple(dict.fromkeys(e["otelctx.finding.kind"] for e in events))
        if not _alike(got, figures):
            yield "attributes", got, figures
        if told != kinds:
            yield "events", told, kinds
        if links(span) != to:
            yield "links", links(span), to


def _fields(log: dict[str, Any]) -> dict[str, Any]:
    return {f["key"]: f["value"] for f in log["fields"]}


def _is_ours(log: dict[str, Any]) -> bool:
    return bool(_fields(log).get("event") == EVENT)


def _alike(got: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return got.keys() == wanted.keys() and all(
        got[k] == (pytest.approx(v) if isinstance(v, float) else v) for k, v in wanted.items()
    )
