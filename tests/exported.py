"""Spans as an application's SDK finishes them."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def recording(**given: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider, and where its finished spans are kept; ``given``: to the provider."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(**given, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider, memory


def chat(provider: Any, turns: int = 1, name: str = "chat") -> None:
    """A call of that many questions, each repeating those before; of an app that has no answers."""
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": f"question {n}"}]} for n in range(turns)
    ]
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 10 * turns, "gen_ai.input.messages": json.dumps(messages),
    }  # fmt: skip
    provider.get_tracer("t").start_span(name, attributes=attributes).end()
