"""LangGraph's nodes as OpenLLMetry's JavaScript package writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from otel_ctx.dialects import langgraph
from otel_ctx.model import Telling
from tests.dialects import pairs, span

ASKED = {"lc": 1, "type": "constructor", "id": ["messages", "HumanMessage"], "kwargs": {"content": "Where?"}}


def answer(cls: str = "AIMessage", **kwargs: Any) -> dict[str, Any]:
    called = [{"name": "look", "args": {"q": 1}, "id": "c1", "type": "tool_call"}]
    said = {"id": "run-7", "content": "", "tool_calls": called, **kwargs}
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", cls], "kwargs": said}


def read(state: Any, update: Any, kind: str = "workflow", **more: Any) -> Telling | None:
    written = {"traceloop.entity.input": json.dumps(state), "traceloop.entity.output": json.dumps(update)}
    return langgraph.read(span({"traceloop.span.kind": kind, **written}, **more))


def told(update: Any, **more: Any) -> Telling:
    said = read({"messages": [ASKED]}, update, **more)
    assert said is not None
    return said


@pytest.mark.parametrize(
    "update",
    [
        {"output": [{"lg_name": "Command", "update": {"messages": [answer()]}, "goto": []}]},
        {"messages": [answer()]},
        {"messages": [answer("AIMessageChunk")]},
    ],
)
def test_the_model_s_node_has_the_history_and_the_answer(update: Mapping[str, Any]) -> None:
    said = told(update)

    assert (said.role, said.response_id) == ("call", "")
    assert pairs(said.messages) == [("user", "Where?")]
    assert pairs(said.output) == [("tool_call", '{"q":1}')]
    assert (said.lost, said.reasons) == ({"tools", "system"}, {"schema_missing"})


def test_the_provider_s_own_numbers_are_taken_before_langchain_s() -> None:
    own = {
        "input_tokens": 20,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 80,
        "output_tokens": 3,
    }
    sums = {"input_tokens": 100, "output_tokens": 3, "input_token_details": {"cache_read": 80}}
    metadata = {"id": "msg_1", "model_provider": "anthropic", "model": "claude-sonnet-4-5", "usage": own}
    raw = told({"messages": [answer(response_metadata=metadata, usage_metadata=sums)]})
    summed = told({"messages": [answer(usage_metadata=sums)]})

    assert (raw.response_id, raw.provider, raw.response_model) == ("msg_1", "anthropic", "claude-sonnet-4-5")
    assert raw.usage is not None
    assert (raw.usage.input, raw.usage.cache_read, raw.usage.semantics) == (20, 80, "exclusive")
    assert summed.usage is not None
    assert (summed.usage.input, summed.usage.cache_read, summed.usage.semantics) == (100, 80, "inclusive")


def test_an_id_that_langchain_made_up_is_no_response_s() -> None:
    assert told({"messages": [answer(id="chatcmpl-1")]}).response_id == "chatcmpl-1"
    assert told({"messages": [answer(id="run-1")]}).response_id == ""


@pytest.mark.parametrize(
    ("state", "update", "kind"),
    [
        ({"messages": [ASKED]}, {"messages": [ASKED, answer()]}, "workflow"),  # the graph: its whole state
        ({"messages": [ASKED]}, {"messages": [ASKED]}, "workflow"),
        ({"messages": [ASKED, answer()]}, {"output": "__end__"}, "workflow"),  # an edge
        ({"messages": [ASKED, answer()]}, {"messages": [answer("ToolMessage")]}, "workflow"),
        ({"args": ["AIMessage"]}, answer(), "tool"),
        ({"question": "AIMessage?"}, {"messages": [answer()]}, "workflow"),
        ([], {"messages": "AIMessage"}, "workflow"),
        ({"messages": [ASKED]}, {"messages": [{"id": ["AIMessage"], "kwargs": "AIMessage"}]}, "workflow"),
    ],
)
def test_other_steps_are_no_calls(state: Any, update: Any, kind: str) -> None:
    assert read(state, update, kind) is None


def test_a_cut_state_tells_nothing() -> None:
    whole = json.dumps({"messages": [answer()]})
    attributes = {"traceloop.span.kind": "workflow", "traceloop.entity.input": '{"messages": [{"lc'}

    assert langgraph.read(span({**attributes, "traceloop.entity.output": whole})) is None
