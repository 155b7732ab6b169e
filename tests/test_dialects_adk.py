"""Google's ADK in its first layout."""

from __future__ import annotations

import json
from typing import Any

from otel_ctx.dialects import adk
from otel_ctx.model import Telling
from tests.dialects import pairs, span

CONFIG = {
    "system_instruction": "Be kind.",
    "max_output_tokens": 64,
    "tools": [{"function_declarations": [{"name": "look", "parameters_json_schema": {"type": "object"}}]}],
}
REQUEST = {
    "model": "gemini-2.5-flash",
    "config": CONFIG,
    "contents": [{"role": "user", "parts": [{"text": "Where?"}]}],
}
USAGE = {
    "prompt_token_count": 100,
    "cached_content_token_count": 80,
    "candidates_token_count": 5,
    "thoughts_token_count": 2,
}
ANSWER = {"role": "model", "parts": [{"function_call": {"name": "look", "args": {"q": 1}}}]}


def told(request: str, response: Any = None, **more: Any) -> Telling:
    attributes = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gcp.vertex.agent.session_id": "s1",
        "gcp.vertex.agent.llm_request": request,
        "gcp.vertex.agent.llm_response": json.dumps(response or {}),
    }
    said = adk.read(span(attributes, **more))
    assert said is not None
    return said


def test_the_whole_request_and_the_response() -> None:
    said = told(json.dumps(REQUEST), {"content": ANSWER, "usage_metadata": USAGE, "model_version": "m-2"})

    assert pairs(said.system) == [("system", "Be kind.")]
    assert pairs(said.messages) == [("user", "Where?")]
    assert pairs(said.tools) == [("tools", '{"name":"look","parameters_json_schema":{"type":"object"}}')]
    assert pairs(said.output) == [("tool_call", '{"q":1}')]
    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read, said.usage.output) == (100, 80, 7)
    assert (said.provider, said.response_model, said.conversation_hint, said.reserve) == ("", "m-2", "s1", 64)
    assert not said.lost


def test_without_content_the_request_is_empty() -> None:
    said = told("{}")

    assert (said.role, said.reasons) == ("call", {"not_captured"})
    assert said.lost == {"tools", "system", "messages"}


def test_a_request_that_was_cut_says_so() -> None:
    said = told(json.dumps(REQUEST)[:-20])

    assert (said.reasons, said.lost) == ({"value_cut"}, {"messages"})


def test_a_tool_s_empty_request_is_no_call() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gcp.vertex.agent.llm_request": "{}"}

    assert adk.read(span(tool)) is None
    assert adk.read(span({"gen_ai.request.model": "gemini-2.5-flash"})) is None
