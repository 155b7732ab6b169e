"""Dumps as real exporters and stores wrote them: each is known by its content, alone and mixed in one folder.

``data/dumps`` holds the same small trace (an agent, its tool, a call that went well and one that failed) from Python in
every format, one from JavaScript, and a few from the stores' own fixtures; only the paths in stack traces were renamed.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from otel_ctx.errors import InputError
from otel_ctx.inputs import Skipped, read
from otel_ctx.model import Span
from tests.conftest import CorpusCase
from tests.dumps import skipped, spans
from tests.writers import WRITERS

DUMPS = Path(__file__).parent / "data" / "dumps"
PYTHON, JAVASCRIPT = "2edf27ecaa098c9eaf2262e5dd376e5a", "3af7f5b79034e8b20b15c943eb771ae0"

FORMATS = {
    "collector-file.json-gzip.jsonl.gz": ("otlp-json+gzip", 4),
    "collector-file.json-zstd-legacy.bin": ("otlp-json+zstd+collector-file", 4),
    "collector-file.json-zstd-native.zst": ("otlp-json+zstd", 4),
    "collector-file.proto-zstd-legacy.bin": ("otlp-protobuf+zstd+collector-file", 4),
    "collector-file.proto.bin": ("otlp-protobuf+collector-file", 4),
    "datadog-logwriter.jsonl": ("datadog", 1),
    "jaeger-api-v1.fixture.json": ("jaeger", 1),
    "jaeger-api-v3.fixture.json": ("otlp-json+jaeger-v3", 1),
    "js-console-exporter.txt": ("js-console", 2),
    "js-json.log": ("js-json", 2),
    "otlp-http-body.js.json": ("otlp-json", 2),
    "otlp-http-body.js.pb": ("otlp-protobuf", 2),
    "otlp-http-body.python.json": ("otlp-json", 4),
    "otlp-http-body.python.pb": ("otlp-protobuf", 4),
    "otlp-http-body.python.pb.gz": ("otlp-protobuf+gzip", 4),
    "otlp-json-file.python.jsonl": ("otlp-json", 4),
    "otlp-request.binpb": ("otlp-protobuf", 4),
    "phoenix-spans-dataframe.jsonl": ("phoenix-dataframe", 5),
    "phoenix-spans-dataframe.parquet": ("phoenix-dataframe+parquet", 5),
    "phoenix-spans-dataframe.records.json": ("phoenix-dataframe", 5),
    "phoenix-v1-spans-otlpv1.json": ("phoenix", 5),
    "phoenix-v1-spans.json": ("phoenix", 5),
    "protobuf-messagetojson-base64ids.json": ("otlp-json", 4),
    "protobuf-messagetojson-enumints.json": ("otlp-json", 4),
    "protobuf-messagetojson-snakecase.json": ("otlp-json", 4),
    "python-console-exporter.txt": ("python-console", 4),
    "python-span-to_json-oneline.jsonl": ("python-console", 4),
    "tempo-api-v1.derived.json": ("otlp-json+tempo", 4),
    "tempo-api-v2.derived.json": ("otlp-json+tempo", 4),
    "zipkin-v2.js.json": ("zipkin", 2),
    "zipkin-v2.python.json": ("zipkin", 4),
}
NO_SPANS = "phoenix-v1-traces.json"
WHY = "a list of traces, without the attributes of their spans: take /v1/projects/…/spans"


def data(name: str) -> bytes:
    return gzip.decompress((DUMPS / f"{name}.gz").read_bytes())


def found(name: str) -> list[Span]:
    return spans(read(["-"], stdin=io.BytesIO(data(name))))


def test_no_dump_is_forgotten() -> None:
    assert {path.name.removesuffix(".gz") for path in DUMPS.iterdir()} == {*FORMATS, NO_SPANS}


@pytest.mark.parametrize("name", FORMATS)
def test_each_is_known_by_its_content(name: str) -> None:
    batches = list(read(["-"], stdin=io.BytesIO(data(name))))
    assert ({b.format for b in batches}, len(spans(batches))) == ({FORMATS[name][0]}, FORMATS[name][1])
    assert not skipped(batches)


def test_what_holds_no_attributes_is_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match=f"^<stdin>: {WHY}$"):
        found(NO_SPANS)


def test_mixed_in_one_folder(tmp_path: Path) -> None:
    for number, name in enumerate((*FORMATS, NO_SPANS)):
        (tmp_path / f"{number:02}").write_bytes(data(name))
    batches = list(read([tmp_path]))
    assert {b.source.rpartition("/")[2]: b.format for b in batches if b.spans} == {
        f"{number:02}": format_ for number, (format_, _) in enumerate(FORMATS.values())
    }
    assert skipped(batches) == [Skipped(str(tmp_path / f"{len(FORMATS):02}"), WHY)]


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in FORMATS
        if "js" not in name.split(".")
        and not name.startswith(("datadog", "jaeger", "js-", "phoenix-spans-dataframe"))
    ],
)
def test_the_same_trace_is_in_them_all(name: str) -> None:
    trace = {span.span_id: span for span in found(name) if span.trace_id == PYTHON}
    agent, chat, failed = (trace[i] for i in ("179f4b0ba214d848", "9302563fe345fadf", "acf6fdbd3f71b173"))
    assert (agent.name, agent.parent_id) == ("invoke_agent trip", "")
    assert (chat.parent_id, failed.parent_id) == (agent.span_id, agent.span_id)
    assert abs(chat.start_unix_nano - 1_796_011_121_491_212_000) < 2_000
    assert abs(chat.end_unix_nano - 1_796_011_121_491_632_000) < 2_000
    assert int(chat.attributes["gen_ai.usage.input_tokens"]) == 1200
    assert "Z\\u00fcrich? \\u6771\\u4eac" in chat.attributes["gen_ai.input.messages"]
    assert (chat.status_code, failed.status_code) == (0, 2)
    assert "boom" in failed.status_message
    (event,) = failed.events
    assert (event.name, event.attributes["exception.type"]) == ("exception", "TimeoutError")
    if "phoenix" not in name:
        assert chat.kind == 3
        assert chat.resource["service.name"] == "sample-agent"
    if "phoenix" not in name and "console" not in name and "to_json" not in name:
        assert (chat.scope_name, chat.scope_version) == ("opentelemetry.util.genai.handler", "1.3b0")


@pytest.mark.parametrize(
    "name", ["js-console-exporter.txt", "otlp-http-body.js.json", "otlp-http-body.js.pb", "zipkin-v2.js.json"]
)
def test_the_trace_from_javascript(name: str) -> None:
    chat, agent = found(name)
    assert (chat.trace_id, chat.parent_id, agent.parent_id) == (JAVASCRIPT, agent.span_id, "")
    assert chat.kind == 3
    assert (chat.status_code, chat.status_message) == (2, "boom")
    assert int(chat.attributes["gen_ai.usage.input_tokens"]) == 1200
    assert "Zürich 東京" in chat.attributes["gen_ai.input.messages"]
    assert [event.name for event in chat.events] == ["ev", "exception"]
    assert abs(chat.end_unix_nano - chat.start_unix_nano - 476_850) < 1_000


def test_rows_of_a_dataframe() -> None:
    for name in (
        "phoenix-spans-dataframe.jsonl",
        "phoenix-spans-dataframe.records.json",
        "phoenix-spans-dataframe.parquet",
    ):
        first = found(name)[0]
        assert (first.trace_id, first.span_id) == ("cc6e678609dd348f3f9d70bed5957e0e", "b9eaf52f5c427b0f")
        assert abs(first.start_unix_nano - 1_796_011_220_960_318_000) < 1_000_000
        assert first.attributes == {
            "openinference.span.kind": "LLM",
            "llm.model_name": "gpt-x",
            "llm.token_count.prompt": 10,
            "llm.token_count.prompt_details.cache_read": 4,
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "hi",
            "llm.input_messages.1.message.role": "assistant",
            "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "f",
            "input.mime_type": "application/json",
            "input.value": '{"a":1}',
            "metadata": {"k": "v"},
        }


def test_datadog_spreads_an_id_over_two_places() -> None:
    (span,) = found("datadog-logwriter.jsonl")
    assert (span.trace_id, span.span_id, span.parent_id) == (
        "6b0cf6d9000000006d6718101bca3acd",
        "5a686e3d94839128",
        "",
    )
    assert (span.name, span.kind, span.resource) == ("chat gpt-x", 1, {"service.name": "s"})
    assert span.attributes["gen_ai.usage.input_tokens"] == 12
    assert (span.start_unix_nano, span.end_unix_nano - span.start_unix_nano) == (
        1_796_011_737_017_312_229,
        104_135,
    )


def test_jaegers_own_fixture() -> None:
    (span,) = found("jaeger-api-v1.fixture.json")
    assert (span.parent_id, span.name, span.kind) == ("909541b92cf05311", "okey-dokey-0", 2)
    assert (span.scope_name, span.resource) == ("telemetrygen", {"service.name": "telemetrygen"})
    assert (span.start_unix_nano, span.end_unix_nano) == (
        1_706_678_909_209_712_000,
        1_706_678_909_209_835_000,
    )


# ---- files that are still written to


ONE_DOCUMENT = {  # cut anywhere, nothing of them is left
    "jaeger-v1", "tempo-v1", "tempo-v2", "phoenix", "phoenix-otlpv1", "phoenix-dataframe", "phoenix-dataframe-parquet",
    "langfuse-observations", "zipkin-python", "zipkin-js", "zipkin-collector", "otlp-json-list", "tempo-cli",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - ONE_DOCUMENT))
def test_a_dump_that_ends_in_the_middle_is_read_up_to_there_and_says_so(
    name: str, corpus_case: Callable[[str], CorpusCase]
) -> None:
    whole = spans(read(corpus_case("oi-anthropic-12turns-limit128").files[:1]))
    packed = WRITERS[name].write(whole, ())
    batches = list(read(["-"], stdin=io.BytesIO(packed[: len(packed) * 9 // 10])))
    kept = [span.span_id for span in spans(batches)]
    assert 0 < len(kept) < len(whole)
    assert set(kept) < {span.span_id for span in whole}
    assert [note for note in skipped(batches) if "cut off" in note.why]


def test_the_objects_of_the_javascript_sdk() -> None:
    """What was met before in an object is ``[Circular]``: a link to the parent here."""
    (batch, _, last) = read(["-"], stdin=io.BytesIO(data("js-json.log")))
    (child,) = batch.spans
    assert (child.name, child.kind, child.scope_name, child.scope_version) == (
        "llm_call",
        3,
        "gemini-cli",
        "v1",
    )
    assert child.parent_id != child.span_id
    assert (child.status_code, child.status_message) == (2, "boom")
    assert child.end_unix_nano - child.start_unix_nano == 317_472
    assert child.attributes["a.list"] == ["x", "y"]
    assert child.resource == {"service.name": "gemini-cli"}
    assert [(e.name, e.attributes) for e in child.events] == [("ev", {"a": 1})]
    assert child.links == ()
    (record,) = last.logs
    assert (record.name, record.body, record.span_id) == ("x", "API response", child.parent_id)
    assert record.attributes["input_token_count"] == 5


@pytest.mark.parametrize(
    "old",
    [
        {"spanContext": {"traceId": "1" * 32, "spanId": "2" * 16}, "parentSpanId": "3" * 16, "startTime": [5, 7],
         "endTime": [6, 0], "instrumentationLibrary": {"name": "lib"}, "resource": {"attributes": {"a": "b"}}, "kind": 2},
        {"_spanContext": {"traceId": "1" * 32, "spanId": "2" * 16}, "parentSpanId": "3" * 16, "startTime": [5, 7],
         "endTime": [6, 0], "instrumentationScope": {"name": "lib"}, "resource": {"_attributes": {"a": "b"}}, "kind": 2},
    ],
)  # fmt: skip
def test_the_objects_of_older_javascript_sdks(old: dict[str, object]) -> None:
    (span,) = spans(read(["-"], stdin=io.BytesIO(json.dumps(old).encode())))
    assert (span.parent_id, span.scope_name, span.resource) == ("3" * 16, "lib", {"a": "b"})
    assert (span.start_unix_nano, span.end_unix_nano, span.kind) == (5_000_000_007, 6_000_000_000, 3)


@pytest.mark.parametrize(
    "attributes", [None, {"gen_ai.usage.input_tokens": 7}, [{"key": "n", "value": {"intValue": "1"}}]]
)
def test_attributes_that_stand_beside_the_fields_of_a_span(attributes: object) -> None:
    flat = {
        "trace_id": "1" * 32, "span_id": "2" * 16, "start_time": "2026-11-30T10:01:00Z", "name": "chat m",
        "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5, "gen_ai.response.id": None,
        "gen_ai.response.finish_reasons": ["stop"], "service.name": "shop", "events.name": [], "attributes": attributes,
    }  # fmt: skip
    (batch,) = read(["-"], stdin=io.BytesIO(json.dumps(flat).encode()))
    (span,) = batch.spans
    tokens = 7 if isinstance(attributes, dict) else 5
    assert batch.format == "otlp-json+flat"
    assert span.attributes["gen_ai.operation.name"] == "chat"
    assert span.attributes["gen_ai.usage.input_tokens"] == tokens
    assert span.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert span.attributes.get("n") == (1 if isinstance(attributes, list) else None)
    assert not {"gen_ai.response.id", "events.name"} & span.attributes.keys()
    assert (span.resource["service.name"], span.dropped_attributes) == ("shop", 0)
