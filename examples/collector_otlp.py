# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "otel-ctx",
#   "openai",
#   "opentelemetry-exporter-otlp-proto-http",
#   "opentelemetry-instrumentation-genai-openai",
# ]
# [tool.uv.sources]
# otel-ctx = { path = ".." }
# ///
"""Spans and metrics to a Collector, over OTLP. The OpenAI client is instrumented by OpenTelemetry's own package."""

import os

from openai import OpenAI
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

from otel_ctx import ContextSpanProcessor

SHOWN = ("conversation.turn", "context.usage", "context.headroom", "provisional")
console = ConsoleSpanExporter(  # beside the Collector: a line for each call
    formatter=lambda s: " ".join(f"{name}={s.attributes.get('otelctx.' + name)}" for name in SHOWN) + "\n"
)
metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))  # reads OTEL_EXPORTER_OTLP_ENDPOINT
provider.add_span_processor(SimpleSpanProcessor(console))
provider.add_span_processor(ContextSpanProcessor())  # <-- otel_ctx: this line is all
trace.set_tracer_provider(provider)
os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")
OpenAIInstrumentor().instrument()

client = OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL
messages = [{"role": "system", "content": "You are the support agent of a shop."}]
for question in ("Until when can I return a jacket?", "And a tent?", "Who pays for the parcel?"):
    messages.append({"role": "user", "content": question})
    stream = client.chat.completions.create(
        model="gpt-4.1-mini", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    answer = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    messages.append({"role": "assistant", "content": answer})
