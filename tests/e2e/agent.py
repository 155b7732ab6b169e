"""A support agent on real clients under real instrumentations: ``python -m tests.e2e.agent STUB [--sessions N] …``.

STUB is the address of `tests.provider_stub`. Where spans and metrics go, and under what name, is told by OTEL_* variables, as
for any app. Each session asks four questions, of which one calls two tools at once, plainly and in streams, by turns
through Chat Completions, Responses and Messages. Without --sessions it never stops: the sample agent of the compose file.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import time
from contextlib import nullcontext
from contextvars import copy_context
from datetime import UTC, datetime

os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_only")

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.live_apps.session import APIS, MODES, Agent, agent_of
from tests.live_apps.texts import SYSTEM, USERS


def started(options: argparse.Namespace) -> None:
    """What an app does to be seen. With --in-process the analysis runs here, else wherever the spans go."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=200))
    trace.set_tracer_provider(provider)
    if options.in_process:
        import otel_ctx

        reader = PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=1000)
        metrics.set_meter_provider(MeterProvider([reader]))
        assert otel_ctx.install(provider)
    OpenAIInstrumentor().instrument()
    AnthropicInstrumentor().instrument()


def prompt(volatile: bool) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return f"Current time: {now}\n{SYSTEM}" if volatile else SYSTEM


def session(agent: Agent, options: argparse.Namespace, runner: asyncio.Runner) -> None:
    tracer = trace.get_tracer("support-agent")
    for text, (kind, stream) in zip(USERS, MODES, strict=True):
        with tracer.start_as_current_span("turn") if options.turns else nullcontext():
            agent.ask(text)
            more = True
            while more:
                system = prompt(options.volatile)
                if kind == "sync":
                    agent.call(system, stream)
                else:
                    runner.run(agent.call_async(system, stream), context=copy_context())
                time.sleep(options.pause)
                more = agent.answer_tools()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.agent")
    parser.add_argument("stub", help="http://HOST:PORT of the provider")
    parser.add_argument("--sessions", type=int, help="stop after so many")
    parser.add_argument("--seconds", type=float, help="begin no session after so long")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds after each call")
    parser.add_argument("--apis", nargs="+", choices=APIS, default=list(APIS))
    parser.add_argument("--volatile", action="store_true", help="the time stands in the system prompt")
    parser.add_argument("--in-process", action="store_true", help="with otel_ctx in the app")
    parser.add_argument(
        "--no-turns", dest="turns", action="store_false", help="without a span around each turn"
    )
    options = parser.parse_args()
    started(options)
    end = time.monotonic() + options.seconds if options.seconds is not None else None
    with asyncio.Runner() as runner:
        for number in itertools.count() if options.sessions is None else range(options.sessions):
            if end is not None and time.monotonic() > end:
                break
            session(agent_of(options.apis[number % len(options.apis)], options.stub), options, runner)


if __name__ == "__main__":
    main()
