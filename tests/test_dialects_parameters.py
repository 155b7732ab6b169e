"""Settings of a request that are part of what a provider caches: found where instrumentations put them, never shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_ctx.dialects.fields import milliseconds, number
from otel_ctx.dialects.parameters import of_attributes, of_request


def names(attributes: dict[str, Any]) -> list[str]:
    return [name for name, _ in of_attributes(attributes)]


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"gen_ai.request.tool_choice": "required"}, ["tool_choice"]),
        ({"llm.request.reasoning_effort": "high"}, ["effort"]),
        ({"anthropic.thinking.type": "enabled", "anthropic.thinking.budget_tokens": 2048}, ["thinking", "thinking_budget"]),
        ({"llm.invocation_parameters": json.dumps({"tool_choice": {"type": "any"}, "max_tokens": 5})}, ["tool_choice"]),
        ({"langfuse.observation.model.parameters": {"response_format": {"type": "json_object"}}}, ["response_format"]),
        ({"llm.invocation_parameters": "{not json"}, []),
        ({"gen_ai.request.temperature": 0.5}, []),
    ],
)  # fmt: skip
def test_where_they_stand(attributes: dict[str, Any], found: list[str]) -> None:
    assert names(attributes) == found


@pytest.mark.parametrize(
    "body",
    [
        {"tool_choice": "auto"},
        {"tool_choice": {"type": "auto"}},
        {"parallel_tool_calls": True},
        {"thinking": {"type": "disabled"}},
        {},
    ],
)  # fmt: skip
def test_a_default_that_is_written_out_is_no_change(body: dict[str, Any]) -> None:
    assert of_request(body) == ()


def test_the_same_value_is_the_same_wherever_it_stands() -> None:
    body = {"thinking": {"type": "enabled", "budget_tokens": 1024}}

    assert of_request(body) == of_attributes({"llm.invocation_parameters": json.dumps(body)})
    assert of_request(body) != of_request({"thinking": {"type": "enabled", "budget_tokens": 2048}})


def test_no_value_is_shown() -> None:
    schema = {"type": "json_schema", "json_schema": {"description": "the customer's secret"}}

    assert "secret" not in repr(of_request({"response_format": schema}))


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning": {"effort": "high", "summary": "auto"}}, "effort"),
        ({"text": {"verbosity": "low"}}, {"text": {"format": {"type": "text"}, "verbosity": "high"}}, "verbosity"),
        ({"text": {"format": {"type": "text"}}}, {"text": {"format": {"type": "json_object"}}}, "response_format"),
        ({"toolConfig": {"toolChoice": {"auto": {}}}}, {"toolConfig": {"toolChoice": {"any": {}}}}, "tool_choice"),
        ({}, {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 2048}}}, "thinking"),
    ],
)  # fmt: skip
def test_what_a_body_holds_inside_of_another_setting(
    before: dict[str, Any], after: dict[str, Any], found: str
) -> None:
    """OpenAI's Responses keep effort and format one level down, Bedrock's Converse the choice of tools."""
    changed = set(of_request(before)) ^ set(of_request(after))

    assert found in {name for name, _ in changed}
    assert {name for name, _ in changed} <= {
        found,
        "thinking",
    }  # all of ``reasoning`` is a thinking setting too


@pytest.mark.parametrize(
    ("value", "count"),
    [(1500, 1500), (1500.0, 1500), ("1500", 1500), (1.5, None), ("1.5", None), (float("nan"), None), (1e300, None),
     (True, None)],
)  # fmt: skip
def test_a_number_is_a_whole_one(value: Any, count: int | None) -> None:
    assert number({"of tokens": value}, "of tokens") == count


@pytest.mark.parametrize(
    ("value", "took"),
    [(900, 900_000_000), ("900", 900_000_000), (0.5, 500_000), (None, 0), (1e300, 0), ("?", 0)],
)
def test_a_duration_may_have_a_fraction(value: Any, took: int) -> None:
    assert milliseconds({"duration_ms": value}, "duration_ms") == took
