# /// script
# requires-python = ">=3.11"
# dependencies = ["otel-ctx", "anthropic", "openinference-instrumentation-anthropic"]
# [tool.uv.sources]
# otel-ctx = { path = ".." }
# ///
"""Claude, instrumented by OpenInference. A mistake keeps the prompt cache cold, and otel_ctx says which."""

from datetime import UTC, datetime

from anthropic import Anthropic
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_ctx

exporter = InMemorySpanExporter()  # yours goes here; this one holds the spans, to print them below
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))
trace.set_tracer_provider(provider)
otel_ctx.install()  # <-- otel_ctx: this line is all
AnthropicInstrumentor().instrument()

RULES = "\n".join(f"{n}. Parcels of class {n} can be returned within 30 days." for n in range(1, 100))
client = Anthropic()  # reads ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL
messages = []
for question in ("Until when can I return a jacket?", "And a tent?", "Who pays for the parcel?"):
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    prompt = f"It is {now}. You are the support agent of a shop.\n{RULES}"  # the mistake
    messages.append({"role": "user", "content": question})
    answer = client.messages.create(
        model="claude-sonnet-5-5",
        max_tokens=500,
        system=[{"type": "text", "text": prompt, "cache_control": {"type": "ephemeral"}}],
        messages=messages,
    )
    messages.append({"role": "assistant", "content": answer.content})

provider.force_flush()
calls = [s for s in exporter.get_finished_spans() if s.attributes.get("otelctx.call.role") == "primary"]
for name, value in calls[-1].attributes.items():
    if name.startswith("otelctx."):
        print(name, "=", value)
for event in calls[-1].events:
    print(event.attributes["otelctx.finding.title"], "|", event.attributes["otelctx.finding.detail"])
