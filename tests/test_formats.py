"""One trace in all its clothes gives one report; what a format has lost for good, the report says.

The traces are those of the corpus, the clothes those of ``tests/writers``.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.inputs import Batch, read
from otel_ctx.model import LogRecord, Span
from otel_ctx.outputs.report import Inputs, build
from tests.fidelity import CORPUS
from tests.writers import WRITERS, Writer

IN_SPANS = (
    "langfuse-responses",
    "oi-anthropic",
    "oll053-anthropic",
    "otel-genai-openai-chat-spanonly",
    "vercel-ai7-anthropic-stream",
)
IN_LOGS = ("otel-genai-openai-chat-eventonly", "otel-openai-v2-chat-legacy-events")

CUTS = "js-console"  # texts after 10,000 characters
NO_GEN_AI = "phoenix-dataframe-parquet"  # no table holds that column
OF_GEN_AI = ("oll053-anthropic", "otel-genai-openai-chat-spanonly", "vercel-ai7-anthropic-stream")


@dataclass(frozen=True)
class Told:
    """What a report says of a dump that does not hang on its clothes: by call id, and of all."""

    calls: dict[str, dict[str, Any]]
    conversations: list[dict[str, Any]]
    findings: set[tuple[str, str]]
    formats: set[str]
    skipped: list[Any]


def told(batches: Iterable[Batch]) -> Told:
    engine = Engine()
    formats, skipped = set(), []
    for batch in batches:
        engine.feed(batch.spans, batch.logs)
        formats.add(batch.format)
        skipped += batch.skipped
    report = build(engine.close(), Inputs((), ()))
    calls = {call["id"]: call for call in report["calls"]}
    for call in report["calls"]:
        segments = call["segments"]
        if isinstance(segments, dict):
            before = calls[segments["from"]]["segments"][: segments["same"]] if segments["from"] else []
            segments = [*before, *segments["new"]]
        call["segments"] = segments
        del call["usage"]["semantics_evidence"]
    findings = {(f["kind"], f["fix"]) for f in report["findings"]}
    return Told(calls, report["conversations"], findings, formats, skipped)


@cache
def records(case: str) -> tuple[tuple[Span, ...], tuple[LogRecord, ...]]:
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for name in ("traces.jsonl.gz", "logs.jsonl.gz"):
        if (CORPUS / case / name).exists():
            for batch in read([CORPUS / case / name]):
                spans += batch.spans
                logs += batch.logs
    return tuple(spans), tuple(logs)


@cache
def as_it_is(case: str, logs: bool) -> Told:
    spans, records_ = records(case)
    return told([Batch("corpus", "", spans, records_ if logs else ())])


def through(writer: Writer, spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> Told:
    data = writer.write(spans, logs)
    return told(read(["-"], stdin=io.BytesIO(data)))


FIELDS = (
    "segments",
    "conversation",
    "turn",
    "relation",
    "previous",
    "context",
    "tokens",
    "model",
    "provider",
    "status",
)


def assert_same(got: Told, wanted: Told, writer: Writer) -> None:
    assert got.calls.keys() == wanted.calls.keys()
    for id_, call in wanted.calls.items():
        mine = got.calls[id_]
        for field in FIELDS:
            assert mine[field] == call[field], f"{field} of {id_}"
        for count, value in call["usage"].items():
            # that an absent count is a zero, or never recorded, only the scope tells
            unknown = {0, None} if not writer.scopes and value in (0, None) else {value}
            assert mine["usage"][count] in unknown, f"{count} of {id_}"
    peaks = [
        {k: c[k] for k in ("id", "calls", "usage_peak", "headroom", "band")} for c in wanted.conversations
    ]
    assert [{k: c[k] for k in peaks[0]} for c in got.conversations] == peaks


@pytest.mark.parametrize("case", IN_SPANS)
@pytest.mark.parametrize("name", [name for name in WRITERS if name != CUTS])
def test_one_trace_in_all_its_clothes_gives_one_report(name: str, case: str) -> None:
    if name == NO_GEN_AI and case in OF_GEN_AI:
        pytest.skip("such a table does not hold this dialect")
    writer = WRITERS[name]
    got = through(writer, records(case)[0])
    assert got.formats <= {writer.format, "otlp-json+flat"}
    assert not got.skipped
    assert_same(got, as_it_is(case, False), writer)


@pytest.mark.parametrize("case", IN_LOGS)
@pytest.mark.parametrize("name", [name for name in WRITERS if WRITERS[name].logs and name != CUTS])
def test_log_records_come_back_too(name: str, case: str) -> None:
    writer = WRITERS[name]
    got = through(writer, *records(case))
    assert (got.formats, got.skipped) == ({writer.format}, [])
    assert_same(got, as_it_is(case, True), writer)


# ---- what a format has lost for good


@pytest.mark.parametrize("case", [*IN_SPANS, *IN_LOGS])
def test_the_javascript_console_cuts_and_says_so(case: str) -> None:
    got, wanted = through(WRITERS[CUTS], *records(case)), as_it_is(case, True)
    cut = 0
    assert got.calls.keys() == wanted.calls.keys()
    for id_, call in wanted.calls.items():
        mine = got.calls[id_]
        assert {k: v for k, v in mine["usage"].items() if v is not None} == {
            k: v for k, v in call["usage"].items() if v is not None
        }
        if mine["completeness"] != call["completeness"]:
            cut += 1
            assert mine["completeness"]["status"] in ("partial", "usage_only")
            assert "value_cut" in mine["completeness"]["reasons"]
        else:
            assert mine["segments"] == call["segments"]
        assert mine["relation"] != "repeats" or call["relation"] == "repeats"
    fixes = [fix for kind, fix in got.findings if kind == "content_truncated"]
    assert bool(fixes) == bool(cut) == (case != "oll053-anthropic"), "that one has nothing so long"
    assert all("console exporter" in fix for fix in fixes)


NESTED = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.definitions",
    "gen_ai.system_instructions",
)


@cache
def nested() -> tuple[Span, ...]:
    """A trace whose messages are nested values, no JSON."""
    return tuple(
        replace(
            span,
            attributes={k: json.loads(v) if k in NESTED else v for k, v in span.attributes.items()},
        )
        for span in records("otel-genai-openai-chat-spanonly")[0]
    )


@pytest.mark.parametrize(
    "name", [n for n in WRITERS if n not in (CUTS, NO_GEN_AI, "datadog", "zipkin-python", "zipkin-js")]
)
def test_nested_values_give_the_same_report(name: str) -> None:
    got = through(WRITERS[name], nested())
    assert_same(got, as_it_is("otel-genai-openai-chat-spanonly", False), WRITERS[name])


@pytest.mark.parametrize(
    ("name", "word"), [(CUTS, "console"), ("zipkin-python", "Zipkin"), ("zipkin-js", "Zipkin")]
)
def test_nested_values_that_a_format_cannot_hold_are_missed(name: str, word: str) -> None:
    got = through(WRITERS[name], nested())
    assert len(got.calls) == len(as_it_is("otel-genai-openai-chat-spanonly", False).calls)
    for call in got.calls.values():
        assert call["completeness"]["status"] == "usage_only"
        assert call["completeness"]["reasons"][:1] == ["value_cut"]
        assert call["context"]["usage"], "the numbers are there"
    ((kind, fix),) = [f for f in got.findings if f[0] in ("content_truncated", "content_not_captured")]
    assert kind == "content_truncated"
    assert word in fix


def test_messages_in_events_are_missed_where_zipkin_has_only_their_names() -> None:
    got = through(WRITERS["zipkin-js"], records("strands-openai-default")[0])
    assert got.calls
    assert all(
        call["completeness"]
        == {"status": "usage_only", "reasons": ["value_cut"], "lost": ["messages", "system", "tools"]}
        for call in got.calls.values()
    )


@pytest.mark.parametrize(
    "name",
    ["python-console", "js-console", "jaeger-v1", "datadog", "flat-table", "phoenix", "phoenix-dataframe"],
)
def test_a_span_at_the_limit_of_attributes_is_not_taken_for_whole(name: str) -> None:
    """These formats do not tell how many attributes were dropped."""
    case = "oi-anthropic-12turns-limit128"
    got, wanted = through(WRITERS[name], records(case)[0]), as_it_is(case, False)
    damaged = [
        id_ for id_, call in wanted.calls.items() if "attributes_dropped" in call["completeness"]["reasons"]
    ]
    assert damaged
    for id_ in damaged:
        assert "attributes_dropped" in got.calls[id_]["completeness"]["reasons"]


BREAKPOINTS = "pydantic-ai-anthropic-v5-cache1h"  # in an attribute that is a list


@pytest.mark.parametrize(
    "name", ["jaeger-v1", "zipkin-python", "zipkin-js", "zipkin-collector", "flat-table", "langfuse-trace"]
)
def test_a_list_that_became_a_text_is_a_list(name: str) -> None:
    got, wanted = through(WRITERS[name], records(BREAKPOINTS)[0]), as_it_is(BREAKPOINTS, False)
    marked = [[s["path"] for s in c["segments"] if s["cache_marker"]] for c in wanted.calls.values()]
    assert ["tools[2]", "system[0]", "messages[0].parts[0]"] in marked
    for id_, call in wanted.calls.items():
        assert got.calls[id_]["segments"] == call["segments"]


@pytest.mark.parametrize("name", ["langfuse-trace", "langfuse-observations", "langfuse-export"])
def test_a_system_prompt_that_langfuse_left_out_is_missed(name: str) -> None:
    """OpenInference has Bedrock's messages as the input, and what lies beside them in flat attributes only."""
    case = "oi-bedrock-converse-cache"
    got, wanted = through(WRITERS[name], records(case)[0]), as_it_is(case, False)
    assert got.calls.keys() == wanted.calls.keys()
    for id_, call in got.calls.items():
        assert "system" in {s["kind"] for s in wanted.calls[id_]["segments"]}
        assert call["completeness"] == {"status": "partial", "reasons": ["value_cut"], "lost": ["system"]}
    ((_, fix),) = [f for f in got.findings if f[0] == "content_truncated"]
    assert "Langfuse keeps one input" in fix


def test_a_list_of_messages_that_has_the_system_prompt_is_whole() -> None:
    got = through(WRITERS["langfuse-trace"], records("oi-vercel-ai7-anthropic-legacy")[0])
    assert [call["completeness"]["status"] for call in got.calls.values()] == ["full"] * 8


# ---- every case


HIDDEN = "oi-openai-chat-hidemessages"  # in Langfuse nothing tells that the user wanted them hidden


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(path.name for path in CORPUS.iterdir() if path.is_dir()))
@pytest.mark.parametrize("name", [name for name in WRITERS if name != NO_GEN_AI])
def test_no_format_makes_a_call_whole_that_is_not(name: str, case: str) -> None:
    writer = WRITERS[name]
    spans, logs = records(case)
    got = through(writer, spans, logs if writer.logs else ())
    wanted = as_it_is(case, writer.logs)
    for id_, call in got.calls.items():
        if call["completeness"]["status"] != "full" or id_ not in wanted.calls:
            continue
        if writer.format == "langfuse" and case == HIDDEN:
            continue
        assert call["segments"] == wanted.calls[id_]["segments"]
