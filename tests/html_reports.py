"""Analyses and pages for the tests of the HTML report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import read
from otel_ctx.model import Analysis, Span
from otel_ctx.outputs.report import Inputs, Source

DUMP = Path(__file__).parent.parent / "examples" / "support-agent.otlp.jsonl.gz"
INPUTS = Inputs((Source(DUMP.name, "otlp-json", 90, 0),), ())
SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
_BLOCK = re.compile(rb'<script type="application/json" id="(\w+)">(.*?)</script>', re.DOTALL)


@cache
def support_agent() -> Analysis:
    """A real dump: two conversations of 8 and 24 turns, the first with a prefix that changes each time."""
    return analysed([str(DUMP)])


def analysed(paths: Sequence[str]) -> Analysis:
    engine = Engine(Settings())
    for batch in read(paths):
        engine.feed(batch.spans, batch.logs)
    return engine.close()


def judged(spans: Sequence[Span] | Iterator[Span]) -> Analysis:
    engine = Engine()
    engine.feed(spans)
    return engine.close()


def part(analysis: Analysis, turns: range) -> Analysis:
    """Some turns of each conversation, as a selection leaves them."""
    kept = tuple(r for r in analysis.readings if r.turn in turns)
    ids = {r.call.id for r in kept}
    conversations = [
        replace(c, calls=tuple(id_ for id_ in c.calls if id_ in ids)) for c in analysis.conversations
    ]
    return replace(analysis, readings=kept, conversations=tuple(c for c in conversations if c.calls))


def blocks(page: bytes) -> dict[str, Any]:
    """The data blocks of a page by their ids."""
    return {id_.decode(): json.loads(data) for id_, data in _BLOCK.findall(page)}


def chat(id_: int, messages: Sequence[dict[str, Any]] | None, *, trace: int = 1, **attributes: Any) -> Span:
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 900 + id_,
        "gen_ai.usage.output_tokens": 9,
        **attributes,
    }
    if messages is not None:
        known["gen_ai.input.messages"] = json.dumps(messages)
    start = BASE + id_ * 10 * SECOND
    return Span(
        f"{trace:032x}", f"{id_:016x}", "", "chat", start, start + SECOND,
        {k: v for k, v in known.items() if v is not None}, kind=3,
        scope_name="opentelemetry.instrumentation.genai.openai", scope_version="1.3b0",
        resource={"service.name": attributes.get("service", "shop")},
    )  # fmt: skip


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def usage_only(calls: int, turns: int = 25) -> Iterator[Span]:
    """Calls that tell their token counts and a conversation id, and no content."""
    for i in range(calls):
        yield chat(
            i + 1,
            None,
            trace=i // turns + 1,
            service=f"service-{i // turns % 7}",
            **{
                "gen_ai.conversation.id": f"conversation {i // turns}",
                "gen_ai.usage.cache_read.input_tokens": 0 if i % 9 == 3 else 512,
            },
        )
