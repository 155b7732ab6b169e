"""The gateway's /metrics: the table that the in-app part has, in the form that Prometheus reads, and no prompt text."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from otel_ctx.inputs.otlp_json import spans_of
from otel_ctx.outputs.metrics import TABLE, VALUES, label_sets, prometheus_name
from tests.gateway_rig import GatewayRig, HttpDownstream, ask, chat, ours, plain, request
from tests.prompt_runs import TEXT, runs, strings

CORPUS = Path(__file__).parent / "corpus"
SOURCES = Path(__file__).parent.parent / "otel_ctx"
OPEN_METRICS = {"accept": "application/openmetrics-text; version=1.0.0"}


@pytest.fixture
def down() -> Iterator[HttpDownstream]:
    with HttpDownstream() as downstream:
        yield downstream


def scraped(rig: GatewayRig) -> dict[str, Any]:
    answer = ask("GET", f"{rig.admin}/metrics", headers=OPEN_METRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    return {family.name: family for family in openmetrics(answer.text)}


def test_the_whole_table_is_there(down: HttpDownstream) -> None:
    with GatewayRig(down.url, top_conversations=5) as rig:
        rig.post("/v1/traces", request(*(chat(c, t) for t in range(4) for c in range(2))))
        rig.settled()
        families = scraped(rig)
        for metric in TABLE:
            name = prometheus_name(metric)
            family = families[name.removesuffix("_total") if metric.kind == "counter" else name]
            assert (family.type, family.documentation) == (metric.kind, metric.description), metric.name
            for sample in family.samples:
                labels = set(sample.labels) - {"le"}
                assert labels == {key.replace(".", "_") for key in metric.keys}, metric.name
        filled = {name for name, family in families.items() if family.samples}
        never = {prometheus_name(m).removesuffix("_total") for m in TABLE} - filled
        assert not never


def test_closed_values_stand_at_zero_from_the_start(down: HttpDownstream) -> None:
    with GatewayRig(down.url) as rig:
        counted = rig.metrics()
        assert set(counted["otelctx_self_spans_total"]) == {(v,) for v in VALUES["result"]}
        assert set(counted["otelctx_self_exports_total"]) == {("true",), ("false",)}
        assert not any(counted["otelctx_self_spans_total"].values())
        assert counted["otelctx_self_processing_duration_seconds_count"][()] == 0
        assert counted["otelctx_self_queue_capacity"][()] > 0
        rig.post("/v1/traces", request(plain(1, "shop")))
        findings = rig.metrics()["otelctx_findings_total"]
        table = next(m for m in TABLE if m.name == "otelctx.findings")
        assert len(findings) == len(list(label_sets(table)))
        assert not any(findings.values())


def test_exemplars_point_to_the_spans(down: HttpDownstream) -> None:
    with GatewayRig(down.url) as rig:
        span = chat(1, 0)
        rig.post("/v1/traces", request(span))
        found = [s.exemplar for s in scraped(rig)["otelctx_context_tokens"].samples if s.exemplar]
        assert [e.labels for e in found] == [{"trace_id": span.trace_id, "span_id": span.span_id}]
        assert found[0].value == 100


def test_who_asks_for_plain_text_gets_it(down: HttpDownstream) -> None:
    with GatewayRig(down.url) as rig:
        rig.post("/v1/traces", request(chat(1, 0)))
        answer = ask("GET", f"{rig.admin}/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert "# {" not in answer.text
        assert "_created" not in answer.text


def test_health_and_readiness(down: HttpDownstream) -> None:
    with GatewayRig(down.url) as rig:
        for path in ("/healthz", "/readyz"):
            assert ask("GET", rig.admin + path).status_code == 200
        rig.gateway.ready = False
        assert ask("GET", rig.admin + "/readyz").status_code == 503
        assert ask("GET", rig.admin + "/healthz").status_code == 200
        assert ask("POST", f"{rig.admin}/v1/traces").status_code == 404


def test_conversations_nearest_their_limit_are_shown_where_asked_for(down: HttpDownstream) -> None:
    with GatewayRig(down.url, top_conversations=2) as rig:
        rig.post("/v1/traces", request(*(chat(c, t) for c in range(4) for t in range(c + 1))))
        shown = rig.metrics()["otelctx_conversation_context_tokens"]
        by_depth = {
            ours(s)["otelctx.conversation.id"]: ours(s)["otelctx.context.usage"] for s in down.spans()
        }
        deepest = sorted(by_depth.items(), key=lambda item: item[1])[-2:]
        assert {labels[0]: value for labels, value in shown.items()} == dict(deepest)
    with GatewayRig(down.url) as rig:
        rig.post("/v1/traces", request(chat(1, 0)))
        assert "otelctx_conversation_context_tokens" not in rig.metrics()


# ---- privacy


NAMES = [
    "otel-genai-openai-chat-spanonly", "otel-genai-openai-chat-eventonly", "oi-anthropic-bust",
    "oll053-openai-chat-long-limit128",
    "langfuse-langchain", "agent-framework-chat-nocontent", "oi-openai-chat-hidemessages", "oi-openai-chat-valuelen",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_prompt_text_where_it_was_not_before(
    down: HttpDownstream, name: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Content on, off, hidden, cut, and in log records."""
    caplog.set_level(logging.DEBUG, logger="otel_ctx")
    documents = [json.loads(line) for path in (CORPUS / name).glob("*.jsonl.gz") for line in lines(path)]
    words = words_of(documents)
    with GatewayRig(down.url, state_dir=str(tmp_path), top_conversations=10) as rig:
        for document in documents:
            if "resourceLogs" in document:
                assert (
                    rig.post("/v1/logs", json.dumps(document).encode(), "application/json").status_code == 200
                )
        for document in documents:
            if "resourceSpans" in document:
                rig.post("/v1/traces", request(*spans_of(document, "")))
        rig.settled()
        text = ask("GET", f"{rig.admin}/metrics", headers=OPEN_METRICS).text
    enriched = 0
    for span in down.spans():
        added = [s for value in ours(span).values() for s in strings(plain_of(value))]
        added += [
            a.value.string_value for e in span.events if e.name == "otelctx.finding" for a in e.attributes
        ]
        enriched += bool(added)
        assert not leaked(words, "\n".join(added))
    assert enriched
    assert not leaked(words, text)
    assert not leaked(words, caplog.text)


OWN = "".join(path.read_text() for path in sorted(SOURCES.rglob("*.py")))


def leaked(words: set[str], text: str) -> set[str]:
    return {run for run in words & runs(text) if run not in OWN}


def lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt") as file:
        yield from file


def words_of(value: Any) -> set[str]:
    """Runs of what reads as text, without those of names."""
    said = {s for s in strings(value) if len(s) >= TEXT and " " in s}  # each turn says again what was said
    return {r for s in said for r in runs(s) if " " in r.strip()}


def plain_of(value: Any) -> Any:
    return [v.string_value for v in value.values] if hasattr(value, "values") else value


def test_log_requests_are_forwarded_as_they_came(down: HttpDownstream) -> None:
    body = ExportLogsServiceRequest()
    record = body.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "a line of a log"
    with GatewayRig(down.url) as rig:
        rig.post("/v1/logs", body.SerializeToString())
        assert down.of("logs") == [body.SerializeToString()]
