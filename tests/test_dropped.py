"""What a span has lost is unknown: never 0, never another model, never other tools."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.inputs.otlp_json import spans_of
from otel_ctx.model import Analysis, Finding, UsageClaim
from otel_ctx.outputs.views.gates import Gates, judge
from otel_ctx.parts import is_cut, read_tools
from otel_ctx.rules import load
from otel_ctx.usage import decide

CORPUS = Path(__file__).parent / "corpus"
RULES = load()

Attributes = dict[str, Any]
Change = Callable[[int, Attributes], None]
"""Changes the attributes of the span that tells of call ``n``, counted from 1 in the order of time; what it takes away counts
as dropped."""


def damaged(case: str, change: Change) -> Analysis:
    """The analysis of a dump after that."""
    with gzip.open(CORPUS / case / "traces.jsonl.gz") as lines:
        requests = [json.loads(line) for line in lines]
    spans = [s for r in requests for rs in r["resourceSpans"] for ss in rs["scopeSpans"] for s in ss["spans"]]
    calls = [s for s in spans if any("model" in a["key"] for a in s.get("attributes", ()))]
    for n, span in enumerate(sorted(calls, key=lambda s: int(s["startTimeUnixNano"])), 1):
        found = {a["key"]: a["value"] for a in span["attributes"]}
        was = len(found)
        change(n, found)
        span["attributes"] = [{"key": key, "value": value} for key, value in found.items()]
        span["droppedAttributesCount"] = was - len(found)
    engine = Engine()
    for request in requests:
        engine.feed(spans_of(request, ""))
    return engine.close()


def without(*names: str, of: int) -> Change:
    """Call ``of`` loses the attributes that have one of ``names`` in theirs."""

    def change(n: int, found: Attributes) -> None:
        for key in [k for k in found if n == of and any(name in k for name in names)]:
            del found[key]

    return change


def setting(name: str, value: Attributes, of: int) -> Change:
    """Call ``of`` has ``value`` in the attributes that have ``name`` in theirs."""

    def change(n: int, found: Attributes) -> None:
        found.update({k: value for k in found if n == of and name in k})

    return change


def told(analysis: Analysis, *kinds: str) -> list[Finding]:
    return [f for f in analysis.findings if f.kind in kinds]


def losses(analysis: Analysis) -> int:
    return sum(r.wasted for r in analysis.readings)


# ---- counts of the cache

READ_OF = {
    "oll053-anthropic": "cache_read",
    "otel-google-genai-spanonly-cached": "cache",
}


@pytest.mark.parametrize("case", READ_OF)
def test_a_dropped_count_of_the_cache_is_not_zero(case: str) -> None:
    whole = damaged(case, lambda n, found: None)
    found = damaged(case, without(READ_OF[case], of=4))

    assert whole.readings[3].call.usage.cache_read
    assert [r.call.usage.cache_read is None for r in found.readings] == [n == 3 for n in range(8)]
    assert found.readings[3].call.usage.input == whole.readings[3].call.usage.input
    assert (losses(found), losses(whole)) == (0, 0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"intValue": "-5"}, "cache read -5 is negative."),
        ({"intValue": str(10**11)}, "cache read 100,000,000,000 is more than any model can have."),
        ({"stringValue": "n/a"}, "cache read is recorded as text, not as a number of tokens."),
    ],
)
def test_a_count_that_cannot_be_read_is_told_and_not_believed(value: Attributes, words: str) -> None:
    found = damaged("oll053-anthropic", setting("cache_read", value, of=4))

    assert found.readings[3].call.usage.cache_read is None
    assert [f.detail for f in told(found, "usage_inconsistent")] == [words]
    assert losses(found) == 0


def test_an_input_without_the_cached_tokens_is_not_known_where_these_are_lost() -> None:
    rule = RULES.usage("opentelemetry.instrumentation.genai.bedrock", "1.3b0", "")
    claim = UsageClaim(input=12, cache_write=0, output=40)

    assert decide(claim, rule).input == 12
    assert decide(claim._replace(damaged=True), rule).input is None


def test_a_hit_ratio_is_the_least_that_it_can_be() -> None:
    found = damaged("oll053-anthropic", without("cache_read", of=4))

    def result(bound: float) -> tuple[str, str]:
        (verdict,) = judge(found, found, Gates(min_hit_ratio=bound))
        return verdict.result, verdict.told

    assert result(0.72) == ("pass", "at least 72.9% of 29,139 tokens came from the cache")
    assert result(0.80)[0] == "not_checked"


def test_a_call_is_counted_once_among_those_that_do_not_say() -> None:
    found = damaged("oll053-anthropic", setting("cache_read", {"intValue": "-5"}, of=4))
    (verdict,) = judge(found, found, Gates(min_hit_ratio=0.8))

    assert verdict.calls == (found.readings[3].call.id,)


# ---- models


@pytest.mark.parametrize("names", [("model",), ("model", "gen_ai.system", "provider"), ("model", "cache")])
@pytest.mark.parametrize("n", [1, 4, 8])
def test_a_model_that_is_not_told_is_no_other_model(names: tuple[str, ...], n: int) -> None:
    found = damaged("oll053-anthropic", without(*names, of=n))

    assert [r.call.model == "" for r in found.readings] == [i == n for i in range(1, 9)]
    assert not told(found, "model_switch")
    assert losses(found) == 0


def test_a_change_is_to_blame_though_every_second_model_is_not_told() -> None:
    def change(n: int, found: Attributes) -> None:
        without("model", of=n if n % 2 == 0 else 0)(n, found)

    whole = damaged("oi-openai-chat-bust", lambda n, found: None)
    found = damaged("oi-openai-chat-bust", change)

    assert told(whole, "volatile_prefix")
    assert [f.kind for f in told(found, "volatile_prefix", "model_switch")] == ["volatile_prefix"]


def test_another_model_beside_one_that_is_not_told_is_another() -> None:
    def change(n: int, found: Attributes) -> None:
        without("model", of=4)(n, found)
        if n > 4:
            setting("request.model", {"stringValue": "claude-opus-4-1"}, of=n)(n, found)
            setting("response.model", {"stringValue": "claude-opus-4-1"}, of=n)(n, found)
        if n == 5:
            setting("cache_read", {"intValue": "0"}, of=5)(n, found)

    found = damaged("oll053-anthropic", change)

    assert [f.tokens > 0 for f in told(found, "model_switch")] == [True]
    assert found.readings[4].wasted


# ---- tools


def test_a_schema_that_stops_in_the_middle_is_cut_and_no_other_schema() -> None:
    def change(n: int, found: Attributes) -> None:
        keys = [k for k in found if n == 4 and "input_schema" in k]
        found.update({k: {"stringValue": found[k]["stringValue"][:83]} for k in keys})

    found = damaged("oll053-anthropic", change)
    seen = [(r.call.completeness.status, r.call.completeness.reasons) for r in found.readings]

    assert seen[3] == ("partial", ("value_cut",))
    assert "tools" in found.readings[3].call.completeness.lost
    assert {status for status, _ in [*seen[:3], *seen[4:]]} == {"full"}
    assert not told(found, "tools_changed")
    assert [r.break_ for r in found.readings] == [None] * 8


SCHEMA = '{"type":"object","properties":{"query":{"type":"string"}}}'


@pytest.mark.parametrize(
    ("tool", "cut"),
    [
        ({"name": "f", "parameters": SCHEMA}, False),
        ({"name": "f", "parameters": SCHEMA[:30]}, True),
        ({"name": "f", "input_schema": SCHEMA[:-1]}, True),
        ({"type": "function", "function": {"name": "f", "parameters": SCHEMA[:9]}}, True),
        ({"name": "f", "description": "{braces} and no schema"}, False),
        (json.dumps({"name": "f", "parameters": SCHEMA}), False),
        (json.dumps({"name": "f", "parameters": SCHEMA})[:40], True),
        ("search_docs", False),
    ],
)
def test_which_definitions_are_cut(tool: Any, cut: bool) -> None:
    assert [is_cut(part) for part in read_tools([tool])] == [cut]


FUNCTIONS = "llm.request.functions."
TAKEN = {
    "the last two": (f"{FUNCTIONS}1", f"{FUNCTIONS}2"),
    "a description": (f"{FUNCTIONS}0.desc",),
    "a schema": (f"{FUNCTIONS}2.input",),
}


@pytest.mark.parametrize("of", [1, 4, 8])
@pytest.mark.parametrize("more", [(), ("usage",), ("cache_read",)])
@pytest.mark.parametrize("taken", TAKEN)
def test_tools_of_which_attributes_were_dropped_are_no_other_tools(
    taken: str, more: tuple[str, ...], of: int
) -> None:
    found = damaged("oll053-anthropic", without(*TAKEN[taken], *more, of=of))
    call = found.readings[of - 1].call

    assert not told(found, "tools_changed")
    assert [r.break_ for r in found.readings] == [None] * 8
    assert losses(found) == 0
    if of > 1:  # nothing stands before the first that would show it
        assert call.completeness.status == "partial"
        assert call.completeness.reasons == ("attributes_dropped",)
        assert call.completeness.lost == {"tools"}


def test_tools_that_stay_dropped_stay_unknown() -> None:
    def change(n: int, found: Attributes) -> None:
        if n > 3:
            without(f"{FUNCTIONS}2", of=n)(n, found)

    found = damaged("oll053-anthropic", change)

    assert [r.call.completeness.status for r in found.readings] == ["full"] * 3 + ["partial"] * 5


def test_tools_that_changed_are_named_where_nothing_was_dropped() -> None:
    def change(n: int, found: Attributes) -> None:
        if n == 4:
            found[f"{FUNCTIONS}0.description"] = {"stringValue": "Something else."}
            setting("cache_read", {"intValue": "0"}, of=4)(n, found)

    found = damaged("oll053-anthropic", change)

    assert found.readings[3].break_ is not None
    assert [f.path for f in told(found, "tools_changed")][:1] == ["tools[0]"]


def test_a_cache_that_was_read_to_the_end_of_the_prompt_before_disproves_other_tools() -> None:
    """As where two libraries tell of a run, and the span of one is lost."""

    def change(n: int, found: Attributes) -> None:
        if n == 4:
            found[f"{FUNCTIONS}0.description"] = {"stringValue": "The same, in the words of another library."}

    found = damaged("oll053-anthropic", change)

    assert not told(found, "tools_changed")
    assert [r.break_ for r in found.readings] == [None] * 8
