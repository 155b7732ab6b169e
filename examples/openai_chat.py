# /// script
# requires-python = ">=3.11"
# dependencies = ["otel-ctx", "openai", "opentelemetry-instrumentation-openai"]
# [tool.uv.sources]
# otel-ctx = { path = ".." }
# ///
"""A support agent with a tool on the OpenAI client, instrumented by OpenLLMetry."""

import json

from openai import OpenAI
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_ctx import ContextSpanProcessor

exporter = InMemorySpanExporter()  # yours goes here; this one holds the spans, to print them below
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))
provider.add_span_processor(ContextSpanProcessor())  # <-- otel_ctx: this line is all
OpenAIInstrumentor().instrument(tracer_provider=provider)

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
SEARCH = {"name": "search_docs", "description": "Search the help centre.", "parameters": QUERY}
TOOLS = [{"type": "function", "function": SEARCH}]


def search_docs(query: str) -> str:
    return "\n".join(f"Section {n}: parcels of class {n} can be returned within 30 days." for n in range(99))


client = OpenAI()  # reads OPENAI_API_KEY and OPENAI_BASE_URL
messages = [{"role": "system", "content": "You are the support agent of a shop. Search before you answer."}]
for question in ("Until when can I return a jacket?", "Who pays for the parcel?"):
    messages.append({"role": "user", "content": question})
    while messages[-1]["role"] != "assistant":
        answer = client.chat.completions.create(model="gpt-4.1-mini", messages=messages, tools=TOOLS)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            found = search_docs(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})

provider.force_flush()
calls = [s for s in exporter.get_finished_spans() if s.attributes.get("otelctx.call.role") == "primary"]
for name, value in calls[-1].attributes.items():
    if name.startswith("otelctx."):
        print(name, "=", value)
