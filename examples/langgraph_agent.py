# /// script
# requires-python = ">=3.11"
# dependencies = ["otel-ctx", "langchain", "langchain-openai", "langgraph", "openinference-instrumentation-langchain"]
# [tool.uv.sources]
# otel-ctx = { path = ".." }
# ///
"""A LangGraph agent with a tool and a memory, instrumented by OpenInference."""

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_ctx import ContextSpanProcessor

exporter = InMemorySpanExporter()  # yours goes here; this one holds the spans, to print them below
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))
provider.add_span_processor(ContextSpanProcessor())  # <-- otel_ctx: this line is all
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def search_docs(query: str) -> str:
    """Search the help centre."""
    return "\n".join(f"Section {n}: parcels of class {n} can be returned within 30 days." for n in range(99))


agent = create_agent(
    ChatOpenAI(model="gpt-4.1-mini"),  # reads OPENAI_API_KEY and OPENAI_BASE_URL
    tools=[search_docs],
    system_prompt="You are the support agent of a shop. Search before you answer.",
    checkpointer=InMemorySaver(),
)
for question in ("Until when can I return a jacket?", "Who pays for the parcel?"):
    agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "customer-17"}})

provider.force_flush()
calls = [s for s in exporter.get_finished_spans() if s.attributes.get("otelctx.call.role") == "primary"]
for name, value in calls[-1].attributes.items():
    if name.startswith("otelctx."):
        print(name, "=", value)
