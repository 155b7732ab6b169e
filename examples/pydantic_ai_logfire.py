# /// script
# requires-python = ">=3.11"
# dependencies = ["otel-ctx", "logfire", "pydantic-ai-slim[openai]"]
# [tool.uv.sources]
# otel-ctx = { path = ".." }
# ///
"""A pydantic-ai agent with a tool, traced by Logfire."""

import logfire
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent

import otel_ctx

exporter = InMemorySpanExporter()  # beside Logfire's own: it holds the spans, to print them below
logfire.configure(
    send_to_logfire="if-token-present",
    console=False,
    additional_span_processors=[BatchSpanProcessor(exporter)],
)
logfire.instrument_pydantic_ai()
otel_ctx.install()  # <-- otel_ctx: this line is all

agent = Agent(
    "openai-chat:gpt-4.1-mini",  # reads OPENAI_API_KEY and OPENAI_BASE_URL
    instructions="You are the support agent of a shop. Search before you answer.",
)


@agent.tool_plain
def search_docs(query: str) -> str:
    """Search the help centre."""
    return "\n".join(f"Section {n}: parcels of class {n} can be returned within 30 days." for n in range(99))


history = []
for question in ("Until when can I return a jacket?", "Who pays for the parcel?"):
    history = agent.run_sync(question, message_history=history).all_messages()

logfire.force_flush()
calls = [s for s in exporter.get_finished_spans() if s.attributes.get("otelctx.call.role") == "primary"]
for name, value in calls[-1].attributes.items():
    if name.startswith("otelctx."):
        print(name, "=", value)
