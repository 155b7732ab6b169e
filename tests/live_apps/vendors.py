"""An application that a vendor's library has set up: ``python -m tests.live_apps.vendors VENDOR STUB RECEIVER FOLDER``.

The vendor's own exporter sends to RECEIVER, by the paths of its service. FOLDER gets the same as from ``app``, for each
way in that there is on a provider which somebody else has made.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import otel_ctx
from tests.live_apps.session import Witness, note, sessions


def _logfire(receiver: str) -> Any:
    import logfire

    logfire.configure(
        send_to_logfire=True, token="pylf_v1_eu_x", service_name="shop", console=False, inspect_arguments=False,
        advanced=logfire.AdvancedOptions(base_url=receiver),
    )  # fmt: skip
    return logfire


def logfire_openai(receiver: str) -> None:
    _logfire(receiver).instrument_openai()


def logfire_anthropic(receiver: str) -> None:
    _logfire(receiver).instrument_anthropic()


def langfuse_openai(receiver: str) -> None:
    os.environ |= {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-x",
        "LANGFUSE_SECRET_KEY": "sk-lf-x",
        "LANGFUSE_BASE_URL": receiver,
    }
    import langfuse.openai  # patches OpenAI's client

    langfuse.Langfuse()


VENDORS: dict[str, tuple[Callable[[str], None], tuple[str, ...]]] = {
    "logfire-openai": (logfire_openai, ("chat", "responses")),
    "logfire-anthropic": (logfire_anthropic, ("messages",)),
    "langfuse-openai": (langfuse_openai, ("chat", "responses")),
}


def alone(provider: Any, receiver: str, meters: MeterProvider) -> None:
    """Without us: what the vendor itself does to spans."""


def installed(provider: Any, receiver: str, meters: MeterProvider) -> None:
    assert otel_ctx.install(meter_provider=meters)


def beside(provider: Any, receiver: str, meters: MeterProvider) -> None:
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(meter_provider=meters))


def pipeline(provider: Any, receiver: str, meters: MeterProvider) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{receiver}/own")
    provider.add_span_processor(otel_ctx.ContextSpanProcessor(exporter, meter_provider=meters))


def main(vendor: str, stub: str, receiver: str, folder: Path) -> None:
    start, apis = VENDORS[vendor]
    start(receiver)
    provider: Any = trace.get_tracer_provider()
    with asyncio.Runner() as runner:
        # The last cannot be taken off again.
        for way in (alone, installed, beside, pipeline):
            reader, witness = InMemoryMetricReader(), Witness()
            provider.add_span_processor(witness)
            way(provider, receiver, MeterProvider([reader]))
            sessions(0, apis, stub, runner, provider.force_flush)
            otel_ctx.uninstall()  # settles what is open, and the analysis of the process begins anew
            note(folder, way.__name__, witness, reader)


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]))
