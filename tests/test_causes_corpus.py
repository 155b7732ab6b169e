"""The causes of real dumps: what was built into each session is what the report names, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.inputs import read
from otel_ctx.outputs.report import Inputs, build

CORPUS = Path(__file__).parent / "corpus"

CAUSES = {
    # a clock in the system prompt: each of the seven calls that continue another
    "anthropic-sdk-content-bust": {("volatile_prefix", "reported"): 7},
    "oi-anthropic-bust": {("volatile_prefix", "reported"): 7},
    "oi-google-genai-bust": {("volatile_prefix", "predicted"): 7},  # of a cache that promises nothing
    "vercel-ai7-anthropic-bust": {("volatile_prefix", "reported"): 3},
    # three requests at once: two come before the first has written
    "oll-openai-chat-parallel": {("parallel_miss", "reported"): 2},
    # an hour's lifetime, thinking that was kept, tools, parallel tool calls: nothing is lost
    "oi-anthropic-1h": {},
    "oi-anthropic": {},
    "oi-langgraph-anthropic-thinking": {},
    "native-anthropic-sdk-thinking-content": {},
    "anthropic-sdk-native-content-thinking": {},
    "oi-bedrock-converse-cache": {
        ("missing_tail_breakpoint", "reported"): 1
    },  # only tools' results are marked: 75 tokens
    "logfire-openai-agents-chat": {},
    # history on the server, contents off, limits: no cause that was not seen
    "anthropic-sdk-default": {},
    "oi-anthropic-12turns-limit128": {},
    "agent-framework-chat-nocontent": {},
    "codex-nocontent": {},
}


def analysed(case: Path) -> dict[str, Any]:
    engine = Engine()
    paths = [p for p in (case / "traces.jsonl.gz", case / "logs.jsonl.gz") if p.exists()]
    for batch in read(paths):
        engine.feed(batch.spans, batch.logs)
    return build(engine.close(), Inputs((), ()))


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause(name: str) -> None:
    calls = analysed(CORPUS / name)["calls"]
    named = Counter((c["cache"]["cause"], c["cache"]["evidence"]) for c in calls if c["cache"]["cause"])

    assert calls
    assert named == CAUSES[name]


def test_two_causes_of_one_loss() -> None:
    """The clock loses what the one marker covers, behind tools and system prompt; the rest was never marked."""
    waste = analysed(CORPUS / "vercel-ai7-anthropic-bust")["totals"]["waste"]["by_cause"]

    assert set(waste) == {"volatile_prefix", "missing_tail_breakpoint"}


@pytest.mark.parametrize("case", sorted(p.name for p in CORPUS.iterdir() if (p / "traces.jsonl.gz").exists()))
def test_no_cause_without_evidence(case: str) -> None:
    """Where the text was not seen, what is said rests on usage and times; what was not seen is never called unchanged."""
    said = analysed(CORPUS / case)
    for c in said["calls"]:
        cause, evidence = c["cache"]["cause"], c["cache"]["evidence"]
        assert (cause is None) == (evidence is None)
        if c["completeness"]["status"] in ("usage_only", "none"):
            assert evidence in (None, "inferred", "unknown", "confirmed")
        if c["completeness"]["status"] != "full":
            assert cause != "provider_side_miss"
