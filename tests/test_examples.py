"""The examples run, and what otel_ctx adds in them is what went over the wire."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import distribution
from importlib.util import find_spec
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.example_scripts import ROOT, SCRIPTS, run_example
from tests.provider_stub import Request

AGENTS = ["langgraph_agent.py", "openai_chat.py", "pydantic_ai_logfire.py"]
CLAUDE, COLLECTOR = "anthropic_messages.py", "collector_otlp.py"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(script: str) -> str:
    return (ROOT / "examples" / script).read_text("utf-8")


def printed(script: str) -> dict[str, Any]:
    """The attributes of the last call, as the script prints them; what is no Python literal is text."""
    found = [re.fullmatch(r"otelctx\.(\S+) = (.*)", line) for line in run_example(script).output]
    return {match[1]: literal(match[2]) for match in found if match}


def literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def sent(request: Request) -> int:
    """Tokens of a request's prompt, cached or not, as the provider said."""
    usage = request.usage
    if request.api == "chat":
        return int(usage["prompt_tokens"])
    return int(
        usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    )


def attributes(of: Any) -> dict[str, Any]:
    """Of an OTLP span or data point; no value here is a list or a map."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


# ---- what they print and send


@pytest.mark.parametrize("script", [*AGENTS, CLAUDE])
def test_the_last_call_is_told_as_it_went_over_the_wire(script: str) -> None:
    requests, told = run_example(script).requests, printed(script)
    segments = {name: n for name, n in told.items() if name.startswith("segments.")}

    assert {r.status for r in requests} == {200}
    assert told["call.role"] == "primary"
    assert told["provisional"] is False
    assert told["completeness"] == "full"
    assert (told["conversation.turn"], told["conversation.relation"]) == (len(requests), "continues")
    assert told["context.usage"] == sent(requests[-1]) == sum(segments.values())
    assert told["context.headroom"] == told["context.limit"] - sent(requests[-1]) - reserved(requests[-1])


def reserved(request: Request) -> int:
    return int(request.body.get("max_tokens", 0))


@pytest.mark.parametrize("script", AGENTS)
def test_an_agents_window_is_filled_by_what_its_tool_returned(script: str) -> None:
    requests, told = run_example(script).requests, printed(script)

    assert len(requests) == 4
    assert told["segments.tool_result.tokens"] > 0.9 * told["context.usage"]
    assert told["tokens.method"] == "exact"
    assert told["cache.read.reported"] == requests[-1].usage["prompt_tokens_details"]["cached_tokens"] > 0
    assert "findings" not in told


def test_the_mistake_is_named() -> None:
    run, told = run_example(CLAUDE), printed(CLAUDE)
    prompts = {r.body["system"][0]["text"] for r in run.requests}

    assert len(prompts) == len(run.requests) == 3
    assert (told["cache.break.path"], told["cache.break.kind"], told["cache.read.reported"]) == (
        "system[0]",
        "system",
        0,
    )
    before = run.requests[-2]
    assert before.usage["cache_creation_input_tokens"] <= told["cache.break.tokens"] <= sent(before)
    assert told["findings"] == ("volatile_prefix", "double_instrumentation")
    assert "system[0] holds a date and time that changes, from character 6 on." in run.output[-2]


def test_a_collector_gets_what_the_console_shows() -> None:
    run = run_example(COLLECTOR)
    spans = sorted(run.spans, key=lambda span: span.start_time_unix_nano)
    told = [attributes(span) for span in spans]

    assert [t["otelctx.context.usage"] for t in told] == [sent(r) for r in run.requests]
    assert [t["otelctx.completeness"] for t in told] == ["full"] * 3
    assert [link.span_id for span in spans for link in span.links] == [span.span_id for span in spans[:2]]
    assert run.output == [
        f"conversation.turn={n} context.usage={sent(request)}"
        f" context.headroom={t['otelctx.context.headroom']} provisional=False"
        for n, (request, t) in enumerate(zip(run.requests, told, strict=True), 1)
    ]


def test_a_collector_gets_the_metrics() -> None:
    run = run_example(COLLECTOR)
    last = {metric.name: metric for metric in run.metrics}
    calls = [p for p in last["otelctx.calls"].sum.data_points if p.as_int]
    (depth,) = (p for p in last["otelctx.context.tokens"].histogram.data_points if p.count)

    assert [(p.as_int, attributes(p)["content"]) for p in calls] == [(3, "full")]
    assert (depth.count, depth.sum) == (3, sum(map(sent, run.requests)))


# ---- as a user finds them


def test_each_script_is_tested_and_described() -> None:
    page = read("README.md")

    assert sorted([*AGENTS, CLAUDE, COLLECTOR]) == SCRIPTS
    assert [s for s in SCRIPTS if f"uv run examples/{s}" not in page] == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_line_that_adds_otel_ctx_stands_out(script: str) -> None:
    lines = read(script).splitlines()

    assert len(lines) <= 50
    assert [
        bool(re.search(r"ContextSpanProcessor\(\)|install\(\)", line)) for line in lines if "# <--" in line
    ] == [True]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_declares_what_it_imports(script: str) -> None:
    header = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", read(script), re.MULTILINE)
    assert header
    declared = tomllib.loads(re.sub(r"^# ?", "", header[1], flags=re.MULTILINE))
    wanted = [Requirement(entry) for entry in declared["dependencies"]]
    source = ROOT / "examples" / declared["tool"]["uv"]["sources"][PROJECT["name"]]["path"]

    assert declared["requires-python"] == PROJECT["requires-python"]
    assert source.resolve() == ROOT.resolve()
    assert all(w.specifier.contains(distribution(w.name).version) for w in wanted)
    files = "".join(distribution(name).read_text("RECORD") or "" for name in brought(wanted))
    assert [module for module in imported(script) if module not in files] == []


def brought(wanted: list[Requirement]) -> set[str]:
    """The distributions that are installed with ``wanted``."""
    found: set[str] = set()
    while wanted:
        name = wanted.pop().name
        if name not in found:
            found.add(name)
            asked = map(Requirement, distribution(name).requires or ())
            wanted += [a for a in asked if a.marker is None or a.marker.evaluate({"extra": ""})]
    return found


def imported(script: str) -> set[str]:
    """Of the modules that a script imports from, the files, as a distribution's RECORD has them."""
    nodes = list(ast.walk(ast.parse(read(script))))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    foreign = modules - sys.stdlib_module_names - {"otel_ctx"}
    origins = [spec.origin for module in foreign if (spec := find_spec(module)) and spec.origin]
    return {origin.partition("site-packages/")[2] for origin in origins}  # a namespace has no origin
