"""Monocle's spans: messages on events, a model among numbered entities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_ctx import dialects
from otel_ctx.dialects import monocle
from otel_ctx.model import Event, Telling
from tests.dialects import pairs, parts, span

CALL = json.dumps({"tool_function": "look", "tool_arguments": '{"id":1}'})
ASKED = [
    json.dumps({"system": "Be kind."}),
    json.dumps({"user": "Where is it?"}),
    json.dumps({"assistant": [CALL]}),
    json.dumps({"tool": "shipped"}),
]
SAID = [
    ("system", "Be kind."), ("user", "Where is it?"), ("tool_call", '{"id":1}'), ("tool_result", "shipped"),
]  # fmt: skip
ATTRIBUTES = {
    "monocle_apptrace.version": "0.8.15",
    "span.type": "inference",
    "span.subtype": "tool_call",
    "entity.1.type": "inference.openai",
    "entity.2.name": "gpt-4o-2024-08-06",
    "entity.2.type": "model.llm.gpt-4o-2024-08-06",
    "entity.3.name": "look",
    "entity.3.type": "tool.function",
    "entity.count": 3,
}
FIGURES = {"prompt_tokens": 90, "completion_tokens": 8, "total_tokens": 98, "cache_read_input_tokens": 64}


def told(asked: Any = ASKED, answered: Any = None, **changed: Any) -> Telling:
    events = [
        Event("data.input", 1, {"input": asked} if asked is not None else {}),
        Event("data.output", 2, {"response": answered} if answered is not None else {}),
        Event("metadata", 2, FIGURES),
    ]
    said = dialects.read(span(ATTRIBUTES | changed, *events))
    assert said is not None
    return said


def test_a_call() -> None:
    said = told(answered=json.dumps({"assistant": "It is on its way."}))

    assert (said.dialect, said.role, said.provider) == ("monocle", "call", "openai")
    assert said.request_model == "gpt-4o-2024-08-06"
    assert pairs(said.messages) == SAID
    assert pairs(said.output) == [("assistant", "It is on its way.")]
    assert said.usage is not None
    assert (said.usage.input, said.usage.output, said.usage.cache_read, said.usage.semantics) == (
        90,
        8,
        64,
        "",
    )
    assert (said.reasons, said.lost) == ({"schema_missing"}, {"tools"})


@pytest.mark.parametrize("role", ["assistant", "tools"])
def test_an_answer_that_calls_a_tool(role: str) -> None:
    call = {"tool_id": "c1", "tool_name": "look", "tool_arguments": {"id": 1}}
    (part,) = parts(told(answered=json.dumps({role: [call]})).output)

    assert (part.kind, part.name, part.text, part.call_id) == ("tool_call", "look", '{"id":1}', "c1")


def test_anthropics_blocks_stand_as_they_were_sent_and_its_system_prompt_does_not() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "shipped"}
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"id": 1}}
    asked = [
        json.dumps({"user": "Where is it?"}),
        json.dumps({"assistant": [use]}),
        json.dumps({"user": [result]}),
    ]
    said = told(asked, **{"entity.1.type": "inference.anthropic"})

    assert pairs(said.messages) == SAID[1:]
    assert said.lost == {"system", "tools"}
    assert said.usage is not None
    assert said.usage.semantics == "exclusive"


def test_one_text_is_the_users() -> None:
    assert pairs(told("Where is it?").messages) == [("user", "Where is it?")]


@pytest.mark.parametrize("asked", [None, [], ""])
def test_nothing_that_was_asked(asked: Any) -> None:
    said = told(asked)

    assert said.messages is None
    assert said.lost == {"tools", "system", "messages"}
    assert "not_captured" in said.reasons


@pytest.mark.parametrize("kind", ["workflow", "agentic.tool.invocation", "retrieval"])
def test_its_other_spans_are_no_calls_and_nobody_guesses(kind: str) -> None:
    other = span(ATTRIBUTES | {"span.type": kind}, Event("data.input", 1, {"input": ASKED}))

    assert dialects.read(other) is None


@pytest.mark.parametrize("count", ["many", -1, 10**12, None])
def test_a_count_that_is_none(count: Any) -> None:
    said = monocle.read(span(ATTRIBUTES | {"entity.count": count}))

    assert said is not None
    assert said.request_model == ("gpt-4o-2024-08-06" if count == 10**12 else "")
