"""install() and uninstall(): on a provider that somebody else has set up, and off it again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

import otel_ctx
from otel_ctx.live import analyzer as analysis
from otel_ctx.live import install as module
from otel_ctx.live.processor import ContextSpanProcessor
from tests.exported import chat


class Kept(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.shutdowns = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.shutdowns += 1

    @property
    def roles(self) -> list[object]:
        return [(s.attributes or {}).get("otelctx.call.role") for s in self.spans]


@pytest.fixture(autouse=True)
def fresh(live_afresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OTELCTX_TOKENIZER", "bytes")
    yield
    otel_ctx.uninstall()
    module._installed.clear()


def members(provider: TracerProvider) -> list[str]:
    return [type(p).__name__ for p in provider._active_span_processor._span_processors]


def test_on_and_on_again(provider: TracerProvider) -> None:
    one, two = Kept(), Kept()
    provider.add_span_processor(BatchSpanProcessor(one))
    assert [otel_ctx.install(provider) for _ in range(3)] == [True] * 3
    assert members(provider) == ["BatchSpanProcessor", "ContextSpanProcessor"]
    provider.add_span_processor(BatchSpanProcessor(two))
    chat(provider)
    chat(provider, 2)
    provider.force_flush()
    assert one.roles == two.roles == ["primary", "primary"]


def test_beside_a_processor_that_was_added_by_hand(provider: TracerProvider) -> None:
    kept = Kept()
    provider.add_span_processor(ContextSpanProcessor())
    provider.add_span_processor(BatchSpanProcessor(kept))
    assert otel_ctx.install(provider) is True
    assert members(provider) == ["ContextSpanProcessor", "BatchSpanProcessor"]
    chat(provider)
    provider.force_flush()
    assert kept.roles == ["primary"]


def test_off_and_on(provider: TracerProvider) -> None:
    batched, simple = Kept(), Kept()
    one, two = BatchSpanProcessor(batched), SimpleSpanProcessor(simple)
    provider.add_span_processor(one)
    provider.add_span_processor(two)
    otel_ctx.install(provider)
    chat(provider)
    otel_ctx.uninstall(provider)
    assert simple.roles == ["primary"], "what waited is sent"
    assert (one.span_exporter, two.span_exporter) == (batched, simple)
    assert members(provider) == ["BatchSpanProcessor", "SimpleSpanProcessor"]
    assert analysis._shared is None
    chat(provider, 2)
    assert simple.roles == ["primary", None], "at once, as before"
    assert (batched.shutdowns, simple.shutdowns) == (0, 0)
    otel_ctx.uninstall(provider)
    assert otel_ctx.install(provider) is True
    chat(provider, 3)
    provider.force_flush()
    assert simple.roles == ["primary", None, "primary"]
    assert batched.roles[-1] == "primary"


def test_off_everywhere(provider: TracerProvider) -> None:
    other = TracerProvider(shutdown_on_exit=False)
    for each in (provider, other):
        each.add_span_processor(BatchSpanProcessor(Kept()))
        otel_ctx.install(each)
    otel_ctx.uninstall()
    assert members(provider) == members(other) == ["BatchSpanProcessor"]
    other.shutdown()


def test_off_on_one_of_two(provider: TracerProvider) -> None:
    kept, other = Kept(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(kept))
    other.add_span_processor(BatchSpanProcessor(Kept()))
    otel_ctx.install(provider)
    otel_ctx.install(other)
    otel_ctx.uninstall(other)
    assert members(other) == ["BatchSpanProcessor"]
    chat(provider)
    provider.force_flush()
    assert kept.roles == ["primary"]
    other.shutdown()


def test_a_pipeline_that_somebody_made_stays(provider: TracerProvider) -> None:
    kept = Kept()
    provider.add_span_processor(ContextSpanProcessor(kept))
    assert otel_ctx.install(provider) is True
    otel_ctx.uninstall(provider)
    chat(provider)
    provider.force_flush()
    assert len(kept.spans) == 1


def test_without_an_argument_it_is_the_global_provider(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    assert otel_ctx.install() is True
    chat(provider)
    provider.force_flush()
    assert kept.roles == ["primary"]
    otel_ctx.uninstall()
    assert members(provider) == ["BatchSpanProcessor"]


def test_without_an_exporter_it_says_so_each_time(provider: TracerProvider) -> None:
    for turn in range(3):
        assert otel_ctx.install(provider) is False
        chat(provider, turn)
    provider.add_span_processor(BatchSpanProcessor(Kept()))
    assert otel_ctx.install(provider) is True


def test_before_the_sdk_is_set_up_it_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert otel_ctx.install(trace.NoOpTracerProvider()) is False
    assert "NoOpTracerProvider has no processors to add to" in caplog.text
    otel_ctx.uninstall(trace.NoOpTracerProvider())


def test_a_provider_around_the_sdks_which_cannot_be_hashed(provider: TracerProvider) -> None:
    @dataclass
    class Proxy(trace.TracerProvider):
        provider: TracerProvider

        def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
            return self.provider.get_tracer(*args, **kwargs)

        def add_span_processor(self, span_processor: SpanProcessor) -> None:
            self.provider.add_span_processor(span_processor)

    kept = Kept()
    proxy = Proxy(provider)
    provider.add_span_processor(BatchSpanProcessor(kept))
    assert otel_ctx.install(proxy) is True
    chat(proxy)
    provider.force_flush()
    assert kept.roles == ["primary"]
    otel_ctx.uninstall(proxy)
    assert members(provider) == ["BatchSpanProcessor"]


def test_a_provider_that_would_replace_its_own_processor() -> None:
    class Replacing(TracerProvider):
        """As Phoenix's."""

        def add_span_processor(
            self, *args: Any, replace_default_processor: bool = True, **kwargs: Any
        ) -> None:
            if replace_default_processor:
                self._active_span_processor._span_processors = ()
            super().add_span_processor(*args, **kwargs)

    provider, kept = Replacing(shutdown_on_exit=False), Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    assert otel_ctx.install(provider) is True
    chat(provider)
    provider.force_flush()
    assert kept.roles == ["primary"]
    provider.shutdown()


def test_disabled(provider: TracerProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCTX_DISABLED", "1")
    provider.add_span_processor(BatchSpanProcessor(Kept()))
    assert otel_ctx.install(provider) is False
    assert members(provider) == ["BatchSpanProcessor"]


def test_settings_reach_the_analysis(provider: TracerProvider) -> None:
    kept = Kept()
    provider.add_span_processor(BatchSpanProcessor(kept))
    otel_ctx.install(provider, windows={"gpt-4o": 1000}, duty="no number")
    chat(provider)
    provider.force_flush()
    assert (kept.spans[0].attributes or {})["otelctx.context.limit"] == 1000


def test_it_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(TracerProvider):
        def add_span_processor(self, span_processor: SpanProcessor) -> None:
            raise BaseException("a secret")

    provider = Bad(shutdown_on_exit=False)
    assert otel_ctx.install(provider) is False
    assert "installing failed with BaseException" in caplog.text
    assert "a secret" not in caplog.text
    not_a_provider: Any = 5
    assert otel_ctx.install(not_a_provider) is False
    otel_ctx.uninstall(not_a_provider)


VENDORS = {
    "phoenix": """
        from phoenix.otel import register
        provider = register(endpoint=url + "/v1/traces", protocol="http/protobuf", batch=False, verbose=False)
        """,
    "phoenix batch": """
        from phoenix.otel import register
        provider = register(endpoint=url + "/v1/traces", protocol="http/protobuf", batch=True, verbose=False)
        """,
    "logfire": """
        import logfire
        logfire.configure(send_to_logfire=True, token="pylf_v1_eu_x", console=False,
                          inspect_arguments=False, advanced=logfire.AdvancedOptions(base_url=url))
        """,
    "langfuse": """
        import os
        os.environ.update(LANGFUSE_PUBLIC_KEY="pk-lf-x", LANGFUSE_SECRET_KEY="sk-lf-x", LANGFUSE_BASE_URL=url)
        from langfuse import Langfuse
        client = Langfuse()
        """,
}
IN_VENDORS_PROCESS = """
import gzip, json, os, sys, textwrap, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
import otel_ctx

bodies = []
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/traces"):
            bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.end_headers()
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"project_name": "p", "project_url": "http://127.0.0.1"}')
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
exec(textwrap.dedent(sys.argv[1]))
if sys.argv[2] == "install":
    assert otel_ctx.install() is True
else:
    trace.get_tracer_provider().add_span_processor(otel_ctx.ContextSpanProcessor())
messages = []
for turn in range(3):
    messages.append({"role": "user", "parts": [{"type": "text", "content": f"question {turn}"}]})
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
                  "gen_ai.usage.input_tokens": 10, "gen_ai.input.messages": json.dumps(messages)}
    tracer = trace.get_tracer("opentelemetry.instrumentation.openai_v2")
    tracer.start_span("chat", attributes=attributes).end()
trace.get_tracer_provider().force_flush()
resources = [r for b in bodies for r in ExportTraceServiceRequest.FromString(b).resource_spans]
spans = [s for r in resources for p in r.scope_spans for s in p.spans]
keys = [{a.key: a.value.int_value for a in s.attributes} for s in spans if s.name == "chat"]
print([k.get("otelctx.conversation.turn") for k in keys])
sys.stdout.flush()
os._exit(0)
"""


# Not added by hand to Phoenix's provider: it takes its own exporter away, unless it is told
# replace_default_processor=False.
@pytest.mark.parametrize(
    ("vendor", "how"), [*((name, "install") for name in VENDORS), ("logfire", "add"), ("langfuse", "add")]
)
def test_on_a_vendors_provider(vendor: str, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_VENDORS_PROCESS, VENDORS[vendor], how],
        capture_output=True, text=True, check=False, timeout=100, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.stdout == "[1, 2, 3]\n", done.stderr
