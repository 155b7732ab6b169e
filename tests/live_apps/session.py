"""What every application of the live tests does: sessions with a model, and notes of what was seen on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from tests.live_apps.texts import USERS, system


class Agent(Protocol):
    """Has the conversation so far: ``call`` sends it and takes the answer in. ``system`` is that of the call at hand."""

    def ask(self, text: str) -> None: ...
    def call(self, system: str, stream: bool) -> None: ...
    async def call_async(self, system: str, stream: bool) -> None: ...
    def answer_tools(self) -> bool:
        """Give the results of the tools that the answer called; whether there were any."""


# Imported by name: a client takes seconds to import, and a process needs one of the two.
APIS = {
    "chat": ("tests.live_apps.openai_agents", "Chat"),
    "responses": ("tests.live_apps.openai_agents", "Responses"),
    "messages": ("tests.live_apps.anthropic_agents", "Messages"),
}


def agent_of(api: str, stub: str) -> Agent:
    module, name = APIS[api]
    return cast(Agent, getattr(import_module(module), name)(stub))


AROUND = ("turn", "session", "nothing")
MODES = (("sync", False), ("async", False), ("sync", True), ("async", True))  # of each turn; True: streaming


def session(
    agent: Agent, around: str, volatile: bool, runner: asyncio.Runner, flush: Callable[[], object]
) -> None:
    """Four turns of two calls. ``around``: a span around each ``turn``, around the whole ``session``, or ``nothing``.
    What has ended is sent after each turn, as it would be in a session that takes its time."""
    tracer = trace.get_tracer("app")
    number = 0
    with tracer.start_as_current_span("session") if around == "session" else nullcontext():
        for text, (kind, stream) in zip(USERS, MODES, strict=True):
            with tracer.start_as_current_span("turn") if around == "turn" else nullcontext():
                agent.ask(text)
                more = True
                while more:
                    prompt = system(number, volatile)
                    number += 1
                    if kind == "sync":
                        agent.call(prompt, stream)
                    else:
                        # in this context, where the span around is the current one
                        runner.run(agent.call_async(prompt, stream), context=copy_context())
                    more = agent.answer_tools()
            flush()
    flush()


def sessions(
    number: int, apis: tuple[str, ...], stub: str, runner: asyncio.Runner, flush: Callable[[], object]
) -> None:
    """Two; over three ways in each API has had each kind of span around it."""
    for n, volatile in ((number, False), (number + 1, True)):
        agent = agent_of(apis[n % len(apis)], stub)
        session(agent, AROUND[n % len(AROUND)], volatile, runner, flush)


class Witness(SpanProcessor):
    """Encodes each span when it ends: what is done to it later cannot be seen here."""

    def __init__(self) -> None:
        self.seen = ExportTraceServiceRequest()

    def on_end(self, span: ReadableSpan) -> None:
        self.seen.MergeFrom(encode_spans([span]))


def totals(reader: InMemoryMetricReader) -> list[list[Any]]:
    """[name, attributes, sum] of every counter and histogram."""
    data = reader.get_metrics_data()
    found = []
    for metric in (
        (m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics) if data else ()
    ):
        for point in metric.data.data_points:
            value = cast(Any, point).sum if hasattr(point, "sum") else cast(Any, point).value
            found.append([metric.name, dict(point.attributes or {}), value])
    return found


def note(folder: Path, way: str, witness: Witness, reader: InMemoryMetricReader) -> None:
    (folder / f"{way}.pb").write_bytes(witness.seen.SerializeToString())
    (folder / f"{way}.json").write_text(json.dumps(totals(reader)), "utf-8")
