"""LiteLLM's own spans: the request, and the raw one of the provider."""

from __future__ import annotations

from typing import Any

import pytest

from otel_ctx.dialects import litellm
from otel_ctx.model import Telling
from tests.dialects import pairs, span

USAGE = {
    "completion_tokens": 5,
    "prompt_tokens": 100,
    "total_tokens": 105,
    "prompt_tokens_details": {"cached_tokens": 80, "cache_creation_tokens": 7, "text_tokens": None},
}
CALL: dict[str, Any] = {
    "litellm.call_id": "11399e43",
    "llm.request.type": "completion",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 5,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Where?"}]}]',
}


def told(attributes: dict[str, Any], **more: Any) -> Telling:
    said = litellm.read(span(attributes, **more))
    assert said is not None
    return said


def test_the_cache_s_numbers_are_in_the_printed_usage() -> None:
    said = told({**CALL, "metadata.usage_object": repr(USAGE)})

    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read, said.usage.cache_write) == (100, 80, 7)
    assert pairs(said.messages) == [("user", "Where?")]


@pytest.mark.parametrize("printed", ["None", "{'completion_tokens': CompletionUsage()}", "{'a'", "{" * 9000])
def test_usage_that_cannot_be_read_leaves_the_other_numbers(printed: str) -> None:
    said = told({**CALL, "metadata.usage_object": printed})

    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read) == (100, None)


@pytest.mark.parametrize(
    ("id_", "kept"),
    [("chatcmpl-BxPq3", "chatcmpl-BxPq3"), ("chatcmpl-0b5a73d8-ddf8-425a-bee0-6213cdec422e", "")],
)
def test_an_id_of_litellm_s_own_is_no_response_s(id_: str, kept: str) -> None:
    assert told({**CALL, "gen_ai.response.id": id_}).response_id == kept


@pytest.mark.parametrize("kind", ["embedding", "aembedding", "rerank", "image_generation", ""])
def test_other_requests_are_not_read_here(kind: str) -> None:
    assert litellm.read(span({**CALL, "llm.request.type": kind})) is None


def test_the_raw_span_has_the_provider_s_request_as_python_prints_it() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": 'It\'s "here"?\n'}]}]
    content = [{"type": "text", "text": "Yes."}]
    raw = {
        "llm.anthropic.system": repr([{"type": "text", "text": "Be kind."}]),
        "llm.anthropic.messages": repr(messages),
        "llm.anthropic.tools": repr([{"name": "look", "input_schema": {"type": "object"}}]),
        "llm.anthropic.max_tokens": 64,
        "llm.anthropic.model": "claude-sonnet-4-5",
        "llm.anthropic.id": "msg_1",
        "llm.anthropic.content": repr(content),
        "llm.anthropic.usage": repr({"input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 2}),
    }
    said = told(raw, name="raw_gen_ai_request")

    assert pairs(said.system) == [("system", "Be kind.")]
    assert pairs(said.messages) == [("user", 'It\'s "here"?\n')]
    assert pairs(said.tools) == [("tools", '{"name":"look","input_schema":{"type":"object"}}')]
    assert pairs(said.output) == [("assistant", "Yes.")]
    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read, said.usage.semantics) == (3, 90, "exclusive")
    assert (said.provider, said.request_model, said.reserve, said.response_id) == (
        "anthropic",
        "claude-sonnet-4-5",
        64,
        "",
    )


def test_the_answer_of_other_apis() -> None:
    message = {
        "content": None,
        "role": "assistant",
        "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
    }
    chat = {"llm.openai.messages": "[]", "llm.openai.choices": repr([{"message": message}])}
    items = {
        "llm.openai.input": "'Where?'",
        "llm.openai.output": repr([{"role": "assistant", "content": "Yes."}]),
    }

    assert pairs(told(chat, name="raw_gen_ai_request").output) == [("tool_call", "{}")]
    assert pairs(told(items, name="raw_gen_ai_request").output) == [("assistant", "Yes.")]


@pytest.mark.parametrize("attributes", [{}, {"llm.openai.usage": "{}"}, {"llm.messages": "[]"}])
def test_a_raw_span_without_a_prompt_says_nothing(attributes: dict[str, Any]) -> None:
    assert litellm.read(span(attributes, name="raw_gen_ai_request")) is None
    assert litellm.read(span({**attributes, "llm.openai.messages": "[]"})) is None  # no such span
