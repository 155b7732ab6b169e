"""Haystack's own spans."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_ctx.dialects import haystack
from otel_ctx.model import Telling
from tests.dialects import pairs, parts, span

TOOL = {
    "type": "haystack.tools.tool.Tool",
    "data": {"name": "look", "description": "d", "function": "m.look"},
}
ASKED = {"role": "user", "meta": {}, "name": None, "content": [{"text": "Where?"}]}
META = {"model": "gpt-4o", "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}


def reply(**call: Any) -> dict[str, Any]:
    return {"role": "assistant", "meta": META, "name": None, "content": [call]}


def told(prefix: str, given: Any, returned: Any, **more: Any) -> Telling:
    written = {f"{prefix}.input": json.dumps(given), f"{prefix}.output": json.dumps(returned)}
    said = haystack.read(span({**written, **more}))
    assert said is not None
    return said


def step(given: Any, returned: Any) -> Telling:
    return told("haystack.agent.step.llm", given, returned)


def test_a_step_holds_messages_tools_and_in_its_reply_the_figures() -> None:
    origin = {"tool_name": "look", "arguments": {"q": 1}, "id": "c1"}
    thought = {"reasoning": {"reasoning_text": "Hm.", "extra": {}}}
    called = {"role": "assistant", "content": [thought, {"tool_call": origin}]}
    found = {
        "role": "tool",
        "content": [{"tool_call_result": {"result": "there", "origin": origin, "error": False}}],
    }
    said = step({"messages": [ASKED, called, found], "tools": [TOOL]}, {"replies": [reply(text="There.")]})

    assert (said.role, said.response_model, said.reasons) == ("call", "gpt-4o", frozenset())
    assert [(p.kind, p.name, p.text, p.call_id) for p in parts(said.messages)] == [
        ("user", "", "Where?", ""),
        ("thinking", "", "Hm.", ""),
        ("tool_call", "look", '{"q":1}', "c1"),
        ("tool_result", "look", "there", "c1"),
    ]
    assert pairs(said.tools) == [("tools", '{"name":"look","description":"d"}')]
    assert pairs(said.output) == [("assistant", "There.")]
    assert said.usage is not None
    assert (said.usage.input, said.usage.output) == (9, 3)


def test_a_set_of_tools_holds_its_own() -> None:
    tools = {"type": "haystack.tools.toolset.Toolset", "data": {"tools": [TOOL, TOOL]}}

    assert [p.name for p in parts(step({"messages": [ASKED], "tools": tools}, {}).tools)] == ["look", "look"]


def test_a_generator_in_a_pipeline() -> None:
    kind = {"haystack.component.type": "OpenAIGenerator"}
    said = told("haystack.component", {"prompt": "Where?"}, {"replies": ["There."], "meta": [META]}, **kind)

    assert pairs(said.messages) == [("user", "Where?")]
    assert said.usage is not None
    assert said.usage.input == 9
    assert said.lost == {"tools"}  # those that it was made with are no input


@pytest.mark.parametrize("kind", ["PromptBuilder", "InMemoryBM25Retriever", ""])
def test_other_components_are_no_calls(kind: str) -> None:
    assert haystack.read(span({"haystack.component.type": kind, "haystack.component.input": "{}"})) is None


def test_without_content_a_request_is_known_by_its_name() -> None:
    said = haystack.read(span({}, name="haystack.agent.step.llm"))

    assert said is not None
    assert (said.reasons, said.lost) == ({"not_captured"}, {"tools", "system", "messages"})


def test_a_value_that_was_cut_says_so() -> None:
    written = json.dumps({"messages": [ASKED, ASKED]})[:-30]
    said = haystack.read(span({"haystack.agent.step.llm.input": written}))

    assert said is not None
    assert (said.reasons, said.lost) == ({"value_cut"}, {"tools", "messages"})
    assert pairs(said.messages)[0] == ("user", "Where?")
