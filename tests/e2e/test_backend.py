"""Behind the gateway: traces with findings are kept, and no text is."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_ctx import read
from otel_ctx.model import Span
from tests.e2e.servers.build import have
from tests.e2e.stack import Stack, free_port, until
from tests.monitoring import CONFIG

pytestmark = pytest.mark.servers

TEXT = dict.fromkeys(
    (
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.prompt",
        "gen_ai.prompt.0.content",
        "gen_ai.completion.0.content",
        "gen_ai.tool.call.arguments",
        "llm.input_messages.0.message.content",
        "llm.output_messages.0.message.content",
        "llm.tools.0.tool.json_schema",
        "llm.invocation_parameters",
        "input.value",
        "output.value",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "ai.prompt.messages",
        "ai.response.text",
        "request_data",
        "response_data",
        "all_messages_events",
        "langfuse.observation.input",
        "langfuse.observation.output",
    ),
    "what the user said",
)
FIGURES = {
    "gen_ai.usage.input_tokens": 5,
    "gen_ai.request.model": "gpt-4.1",
    "llm.token_count.prompt": 5,
    "otelctx.context.usage": 5,
    "input.mime_type": "text/plain",
}
_TRACES = 40


def test_findings_are_kept_and_text_is_not(tmp_path: Path) -> None:
    otlp, health, out = free_port(), free_port(), tmp_path / "kept.jsonl"
    with Stack(tmp_path) as stack:
        over = {
            "extensions": {"health_check": {"endpoint": f"127.0.0.1:{health}"}},
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{otlp}"}}}},
            "processors": {"tail_sampling": {"decision_wait": "1s"}},
            "exporters": {"file": {"path": str(out), "flush_interval": "200ms"}},
            "service": {
                "extensions": ["health_check"],
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"exporters": ["file"]}},
            },
        }
        files = [CONFIG / "collector/backend.yaml", stack.file("over.yaml", over)]
        command = [have("otelcol"), *(f"--config={file}" for file in files)]
        environment = {"BACKEND_OTLP_GRPC": "127.0.0.1:1"}
        stack.start("backend", command, f"http://127.0.0.1:{health}/", environment)

        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(
            SimpleSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{otlp}", insecure=True))
        )
        tracer = provider.get_tracer("app")
        for n in range(_TRACES):
            for name, findings in (("found", ["volatile_prefix"]), ("fine", [])):
                with tracer.start_as_current_span(f"{name} {n}") as span:
                    span.set_attributes({**TEXT, **FIGURES, "otelctx.findings": findings})
                    span.add_event("gen_ai.content.prompt", {"gen_ai.prompt": "what the user said"})
        provider.shutdown()

        def kept() -> list[Span]:
            return (
                [s for batch in read([out]) for s in batch.spans]
                if out.exists() and out.stat().st_size
                else []
            )

        until(
            lambda: len({s.name for s in kept() if s.name.startswith("found")}) == _TRACES,
            "all with findings",
        )
        spans = kept()
    fine = [span for span in spans if span.name.startswith("fine")]
    assert len(fine) < _TRACES / 2, "a tenth of the others, by their trace ids"
    assert len(spans) - len(fine) == _TRACES
    for span in spans:
        assert FIGURES.keys() <= span.attributes.keys()
        assert not TEXT.keys() & span.attributes.keys()
        assert "user said" not in str(span)
