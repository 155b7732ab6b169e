"""What the generic reader makes of real dumps where no other reader knows their library: the measure of what it can do for
libraries that were never seen. And that no reading hangs on the name of a scope, or on an order of attributes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from otel_ctx import dialects
from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import Store, read
from otel_ctx.model import Span
from otel_ctx.outputs.report import Inputs, build
from tests.alone import readers
from tests.fidelity import CASES, CORPUS, Case, compare, held, lines, wire_of

ENOUGH = 0.9  # of the pieces that a dump holds
SHARE = 0.75  # of the cases, at least

# What is there and that shapes alone do not give away.
BEYOND_SHAPES = {
    "claude-code-content-proto": "spans have what is new alone, as text with headings of its own",
    "gemini-cli-notraces": "there are no spans",
    "genkit-openai": "tools are sent without the descriptions that are recorded",
    "monocle-anthropic": "each message is JSON of one key, and the outcome of a call is its kind: tool_call",
    "monocle-openai": "each message is JSON of one key, and the outcome of a call is its kind: tool_call",
    "oi-smolagents": "the request for a last answer has no tools, the agent's span above it has some",
    "mastra-chat": "the prompt lies on other spans than the figures, in pieces",
    "traceloop-langchain-js-chat": "the tool calls stand on other spans, and none names its parent",
    "traceloop-openai-js-responses-stream": "the whole list of items is the text of one user message",
}


def analysed(name: str, change: Callable[[Span], Span] = lambda span: span) -> Any:
    folder = CORPUS / name
    dumps = [folder / n for n in ("traces.jsonl.gz", "logs.jsonl.gz") if (folder / n).exists()]
    engine = Engine(Settings(contents=Store([folder]).fetch))
    for batch in read(dumps):
        engine.feed([change(span) for span in batch.spans], batch.logs)
    return build(engine.close(), Inputs((), ()), include_text=True)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, logs = readers()
    monkeypatch.setattr(dialects, "READERS", spans)
    monkeypatch.setattr(dialects, "LOG_READERS", logs)


def scored(name: str) -> tuple[float, int]:
    """The share of the held pieces that were read, and how many pieces were never sent."""
    folder = CORPUS / name
    case = Case(
        lines(folder / "traces.jsonl.gz"), lines(folder / "logs.jsonl.gz"), wire_of(name), analysed(name)
    )
    differences = compare(case).values()
    lost = sum(len(d.lost) for d in differences)
    return 1 - lost / max(1, held(case)), sum(len(d.invented) for d in differences)


def _captured(name: str) -> bool:
    meta = json.loads((CORPUS / name / "meta.json").read_text("utf-8"))
    return meta.get("content_capture", "on") == "on"


CAPTURED = [name for name in CASES if _captured(name)]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", CAPTURED)
def test_the_generic_reader_alone(name: str) -> None:
    share, invented = scored(name)

    assert (share >= ENOUGH and not invented) == (name not in BEYOND_SHAPES), (share, invented)


def test_enough_of_the_cases_are_read() -> None:
    assert len(set(CAPTURED) - BEYOND_SHAPES.keys()) >= SHARE * len(CAPTURED) > 0


@pytest.mark.usefixtures("alone")
def test_a_guess_says_that_it_is_one_and_on_what_evidence() -> None:
    made = analysed("oi-anthropic")

    assert {c["dialect"] for c in made["calls"]} == {"generic"}
    assert all("guessed" in c["completeness"]["reasons"] for c in made["calls"])
    assert made["calls"][1]["guess"] == [
        "call: openinference.span.kind",
        "usage: output.value",
        "messages: input.value",
    ]


def test_what_a_dialect_vouches_for_is_no_guess() -> None:
    assert {str(c["guess"]) for c in analysed("oi-anthropic")["calls"]} == {"None"}


# ---- scopes and orders


# What only the name of a scope tells, and what follows from it: that a count which is not there is 0, since this library
# leaves out its zeros, and that two instrumentations tell of one call.
OF_SCOPES = ("scope", "scope_version", "spans", "usage", "cache", "waste", "cost", "findings")


def short(made: Any) -> Any:
    """A report without what scopes tell."""
    calls = [
        {k: v for k, v in call.items() if k not in OF_SCOPES}
        | {"usage": {k: v or None for k, v in call["usage"].items() if k != "semantics_evidence"}}
        | {"break": call["cache"]["break"]}
        for call in made["calls"]
    ]
    scopes = ("double_instrumentation", "usage_missing")
    found = [(f["kind"], f["calls"], f["path"]) for f in made["findings"] if f["kind"] not in scopes]
    return {"calls": calls, "conversations": made["conversations"], "findings": found}


def disguised(span: Span) -> Span:
    """Without the name of its scope, its attributes in another order than those of any other span."""
    items = list(span.attributes.items())
    random.Random(span.span_id).shuffle(items)
    return replace(span, attributes=dict(items), scope_name="", scope_version="")


@pytest.mark.parametrize("name", CASES)
def test_neither_a_scope_nor_an_order_of_attributes_is_needed(name: str) -> None:
    found, told = short(analysed(name, disguised)), short(analysed(name))
    for c, known in zip(found["conversations"], told["conversations"], strict=True):
        if c["savings"] is None:  # without zeros that only the scope tells, what was lost is not known
            known["savings"] = None
    assert found == told


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", CASES[::4])
def test_a_guess_needs_no_order_of_attributes(name: str) -> None:
    def shuffled(span: Span) -> Span:
        return replace(disguised(span), scope_name=span.scope_name, scope_version=span.scope_version)

    assert short(analysed(name, shuffled)) == short(analysed(name))


# ---- the wrapper


@pytest.mark.parametrize(("arguments", "dialect"), [((), "generic"), (("--without", "haystack"), "generic")])
def test_the_command_without_readers(arguments: tuple[str, ...], dialect: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    dump = CORPUS / "haystack" / "traces.jsonl.gz"
    script = Path(__file__).parent / "alone.py"

    subprocess.run(
        [sys.executable, script, *arguments, "analyze", dump, "--json", report],
        check=True,
        capture_output=True,
    )

    assert {c["dialect"] for c in json.loads(report.read_text("utf-8"))["calls"]} == {dialect}
