"""The whole pipeline on real dumps: what is said of each, and the laws that hold for all.

``corpus/<case>/reading.json`` is the report in short: one line a segment, calls by number (#1 started first), no texts.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SdkEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from otel_ctx.engine import Engine
from otel_ctx.inputs import read
from otel_ctx.inputs.sdk import log_record_of, span_of
from otel_ctx.model import LogRecord, Span
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.outputs.text import plain, render
from tests.fidelity import CASES, CORPUS, lines, wire_of, wire_pieces

Report = dict[str, Any]


@dataclass(frozen=True)
class Dump:
    spans: tuple[Span, ...]
    logs: tuple[LogRecord, ...]


@cache
def dump_of(case: str) -> Dump:
    names = ("traces.jsonl.gz", "logs.jsonl.gz")
    return _dump(read(CORPUS / case / name for name in names if (CORPUS / case / name).exists()))


def _dump(batches: Iterable[Any]) -> Dump:
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for batch in batches:
        assert not batch.skipped
        spans += batch.spans
        logs += batch.logs
    return Dump(tuple(spans), tuple(logs))


def report_of(dump: Dump, *, include_text: bool = True) -> Report:
    engine = Engine()
    engine.feed(dump.spans, dump.logs)
    return build(engine.close(), Inputs((), ()), include_text=include_text)


@cache
def report(case: str) -> Report:
    return report_of(dump_of(case))


# ---- what is said


@pytest.mark.parametrize("case", CASES)
def test_reading(case: str, golden: Callable[[str, object], None]) -> None:
    golden(f"corpus/{case}/reading.json", in_short(report(case)))


def in_short(whole: Report) -> Report:
    """What a reviewer has to see of a report, one line a fact."""
    number = {call["id"]: f"#{n}" for n, call in enumerate(whole["calls"], 1)}

    def several(ids: Iterable[str]) -> str:
        return " ".join(number[i] for i in ids)

    return {
        "calls": [_call(call, number) for call in whole["calls"]],
        "conversations": [
            _line(
                several(c["calls"]),
                c["parent"] and f"parent {number[c['parent']]}",
                f"peak {c['usage_peak']} of {c['limit']}",
                c["band"],
                c["joined"] and "joined",
                c["gaps"] and f"gaps {c['gaps']}",
            )
            for c in whole["conversations"]
        ],
        "findings": [
            _line(
                f["severity"],
                f["kind"],
                f["path"],
                f"{f['tokens']} tokens",
                f["evidence"],
                several(f["calls"]),
            )
            for f in whole["findings"]
        ],
        "not_checked": [_line(n["check"], several(n["calls"])) for n in whole["not_checked"]],
    }


def _line(*facts: Any) -> str:
    return ", ".join(str(fact) for fact in facts if fact)


def _call(call: Mapping[str, Any], number: Mapping[str, str]) -> Report:
    usage, segments, at = call["usage"], call["segments"], call["cache"]["break"]
    place = f"turn {call['turn']} of {number[call['conversation']]}"
    before = number[call["previous"]] if call["previous"] else ""
    facts = {
        "call": _line(f"{number[call['id']]} {call['dialect']}", call["model"], call["status"]),
        "spans": _line(*sorted(s["role"] for s in call["spans"])),
        "seen": _line(call["completeness"]["status"], *call["completeness"]["reasons"]),
        "usage": _line(
            *(f"{k} {usage[k]}" for k in ("input", "cache_read", "cache_write", "output")), usage["semantics"]
        ),
        "place": _line(place, f"{call['relation']} {before}".strip(), call["gap"] and "gap"),
        "break": at
        and _line(
            f"{at['path']} {at['kind']} {at['change']}",
            f"{at['tokens']} tokens",
            f"character {at['char_offset']}",
        ),
        "findings": _line(*call["findings"]),
        "segments": [
            *([f"the first {segments['same']} of {number[segments['from']]}"] if segments["same"] else []),
            *(_segment(s) for s in segments["new"]),
        ],
    }
    return {name: fact for name, fact in facts.items() if fact}


def _segment(segment: Mapping[str, Any]) -> str:
    marks = [f"marked {segment['cache_marker']}"] if segment["cache_marker"] else []
    if segment.get("inferred"):
        marks.append("inferred")
    return " ".join((segment["path"], segment["kind"], f"{segment['tokens']}", segment["method"], *marks))


# ---- laws


@pytest.mark.parametrize("case", CASES)
def test_no_prompt_text_unless_it_is_asked_for(case: str) -> None:
    """Not one run of characters of what went over the wire, be it a message, a description or an argument."""
    engine = Engine()
    engine.feed(dump_of(case).spans, dump_of(case).logs)
    analysis = engine.close()
    without = build(analysis, Inputs((), ()))
    shown = [plain(line) for line in render(analysis, Inputs((), ()), show_text=False)]

    models = "|".join(re.escape(call["model"]) for call in without["calls"])  # a prompt may name its own
    texts = (re.sub(models, "", t) for request in wire_of(case) for t in prompt_texts(request))
    private = runs_of(texts)

    assert private
    assert not private & runs_of(strings_of(without))
    assert not private & runs_of(["\n".join(shown), " ".join(" ".join(shown).split())])


_RUN = 21


def runs_of(texts: Iterable[str]) -> set[str]:
    return {t[i : i + _RUN] for t in set(texts) for i in range(len(t) - _RUN + 1)}


def prompt_texts(request: Mapping[str, Any]) -> Iterator[str]:
    """All texts in a prompt, in its JSON too; the names that a report may tell (of models, of tools) are no such."""
    for piece in wire_pieces(request):
        if piece.kind == "tools":
            yield piece.content.partition(": ")[2]
        elif piece.content[:1] == "{" or piece.kind == "tool_call":
            yield from strings_of(json.loads(piece.content[piece.content.index("{") :]))
        else:
            yield piece.content


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=4)
@given(chance=st.randoms(use_true_random=False))
def test_order_and_chunks_do_not_matter(case: str, chance: Random) -> None:
    records = _shuffled(dump_of(case), chance)
    engine = Engine()
    while records:
        size = chance.choice((1, 2, 7, 1000))
        chunk, records = records[:size], records[size:]
        engine.feed([r for r in chunk if isinstance(r, Span)], [r for r in chunk if isinstance(r, LogRecord)])

    assert build(engine.close(), Inputs((), ()), include_text=True) == report(case)


def _shuffled(dump: Dump, chance: Random) -> list[Span | LogRecord]:
    """All records in any order, but that the log records of one span at one time stay in theirs: a library that counts
    in milliseconds leaves nothing else that says which message came first."""
    queues: dict[Any, list[Span | LogRecord]] = {}
    for span in dump.spans:
        queues[span.span_id] = [span]
    for record in dump.logs:
        queues.setdefault((record.span_id, record.time_unix_nano), []).append(record)
    order = [key for key, queue in queues.items() for _ in queue]
    chance.shuffle(order)
    taken = {key: iter(queue) for key, queue in queues.items()}
    return [next(taken[key]) for key in order]


@pytest.mark.parametrize("case", CASES)
def test_what_is_sent_twice_is_told_once(case: str) -> None:
    engine = Engine()
    for _ in range(2):
        engine.feed(dump_of(case).spans, dump_of(case).logs)

    assert build(engine.close(), Inputs((), ()), include_text=True) == report(case)


@pytest.mark.parametrize("case", CASES)
def test_protobuf_tells_the_same(case: str) -> None:
    streams = []
    for name, message in (
        ("traces.jsonl.gz", ExportTraceServiceRequest),
        ("logs.jsonl.gz", ExportLogsServiceRequest),
    ):
        if (CORPUS / case / name).exists():
            requests = [ParseDict(_base64_ids(line), message()) for line in lines(CORPUS / case / name)]
            streams.append(b"".join(r.SerializeToString() for r in requests))
    batches = (b for s in streams for b in read(["-"], format="otlp-protobuf", stdin=io.BytesIO(s)))

    assert report_of(_dump(batches)) == report(case)


def _base64_ids(value: Any) -> Any:
    """OTLP/JSON writes ids as hex; protobuf's own JSON, which parses it here, wants base64."""
    if isinstance(value, list):
        return [_base64_ids(v) for v in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        k: base64.b64encode(bytes.fromhex(v)).decode() if k in ids else _base64_ids(v)
        for k, v in value.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_the_sdks_own_objects_tell_the_same(case: str) -> None:
    dump = dump_of(case)
    same = Dump(
        tuple(span_of(sdk_span(s)) for s in dump.spans),
        tuple(log_record_of(sdk_log_record(r)) for r in dump.logs),
    )

    assert report_of(same) == report(case)


def sdk_span(span: Span) -> ReadableSpan:
    attributes = BoundedAttributes(attributes=dict(span.attributes))
    attributes.dropped = span.dropped_attributes
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=Resource(span.resource),
        attributes=attributes,
        events=tuple(SdkEvent(e.name, dict(e.attributes), e.time_unix_nano) for e in span.events),
        kind=SpanKind(max(span.kind - 1, 0)),
        status=Status(StatusCode(span.status_code), span.status_message or None),
        start_time=span.start_unix_nano,
        end_time=span.end_unix_nano,
        instrumentation_scope=InstrumentationScope(span.scope_name, span.scope_version),
    )


def sdk_log_record(record: LogRecord) -> ReadableLogRecord:
    return ReadableLogRecord(
        ApiLogRecord(
            timestamp=record.time_unix_nano,
            context=set_span_in_context(NonRecordingSpan(_context(record.trace_id, record.span_id))),
            body=record.body,
            attributes=dict(record.attributes),
            event_name=record.name,
        ),
        Resource(record.resource),
        InstrumentationScope(record.scope_name, record.scope_version),
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id or "0", 16), int(span_id or "0", 16), is_remote=False)


@pytest.mark.parametrize("case", CASES)
def test_the_scopes_name_is_not_needed(case: str) -> None:
    dump = dump_of(case)
    hidden = Dump(
        tuple(replace(s, scope_name="", scope_version="") for s in dump.spans),
        tuple(replace(r, scope_name="", scope_version="") for r in dump.logs),
    )

    assert _by_attributes(report_of(hidden)) == _by_attributes(report(case))


def _by_attributes(whole: Report) -> Report:
    """In short, but for what only the scope tells: that two libraries recorded one call, and whether one that gives no
    number of cached tokens means none (what a finding rests on hangs on that, and whether they are missing)."""
    told = ("double_instrumentation", "usage_missing")
    return in_short(
        {
            **whole,
            "calls": [
                {
                    **call,
                    "findings": [kind for kind in call["findings"] if kind not in told],
                    "usage": {k: v or None for k, v in call["usage"].items()},
                }
                for call in whole["calls"]
            ],
            "findings": [{**f, "evidence": None} for f in whole["findings"] if f["kind"] not in told],
        }
    )
