"""OpenLLMetry's indexed attributes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import openllmetry
from otel_ctx.model import Telling, UsageClaim
from tests.dialects import parts, span

PROMPT: dict[str, Any] = {
    "llm.request.type": "chat",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be kind.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "Where is it?",
}


def told(attributes: Mapping[str, Any], **more: Any) -> Telling:
    said = openllmetry.read(span(attributes, **more))
    assert said is not None
    return said


# ---- by hand


def test_messages_tools_and_answer() -> None:
    said = told(
        PROMPT
        | {
            "gen_ai.prompt.2.role": "assistant",
            "gen_ai.prompt.2.tool_calls.0.id": "c1",
            "gen_ai.prompt.2.tool_calls.0.name": "look",
            "gen_ai.prompt.2.tool_calls.0.arguments": '{"a": 1}',
            "gen_ai.prompt.3.role": "tool",
            "gen_ai.prompt.3.tool_call_id": "c1",
            "gen_ai.prompt.3.content": '{"found": true}',
            "llm.request.functions.0.description": "Looks.",
            "llm.request.functions.0.parameters": '{"type": "object"}',
            "llm.request.functions.0.name": "look",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "There.",
            "gen_ai.usage.prompt_tokens": 30,
            "gen_ai.usage.cache_read_input_tokens": 0,
        }
    )

    assert [(p.kind, p.text, p.call_id) for p in parts(said.messages)] == [
        ("system", "Be kind.", ""),
        ("user", "Where is it?", ""),
        ("tool_call", '{"a":1}', "c1"),
        ("tool_result", '{"found": true}', "c1"),
    ]
    assert [p.text for p in parts(said.tools)] == [
        '{"name":"look","description":"Looks.","parameters":{"type":"object"}}'
    ]
    assert [p.text for p in parts(said.output)] == ["There."]
    assert said.usage == UsageClaim(input=30, cache_read=0)
    assert not said.reasons


@pytest.mark.parametrize(
    ("prefix", "parameters"),
    [("gen_ai.request.functions", "parameters"), ("gen_ai.request.tools", "arguments")],
)
def test_agentops_names_of_tools(prefix: str, parameters: str) -> None:
    tool = {"id": "tool-0", "type": "function", "name": "look", parameters: '{"type": "object"}'}
    said = told(PROMPT | {f"{prefix}.0.{key}": value for key, value in tool.items()})

    assert [p.text for p in parts(said.tools)] == ['{"name":"look","parameters":{"type":"object"}}']
    assert not said.reasons


@pytest.mark.parametrize("null", ["None", "null"])
def test_a_null_beside_tool_calls_that_a_format_wrote_as_text(null: str) -> None:
    call = {"role": "assistant", "content": null, "tool_calls.0.name": "look", "tool_calls.0.arguments": "{}"}
    said = told(PROMPT | {f"gen_ai.prompt.9.{key}": value for key, value in call.items()})

    assert [p.kind for p in parts(said.messages)][-1] == "tool_call"
    assert null not in [p.text for p in parts(said.messages)]


def test_agentops_leaves_parts_of_anthropics_prompts_out() -> None:
    own = {"instrumentation.name": "agentops", "library.name": "anthropic"}
    said = told(PROMPT | own)

    assert said.lost == {"system", "messages"}
    assert said.reasons == {"not_captured"}
    assert not told(PROMPT | own | {"library.name": "openai"}).lost


def test_content_switched_off() -> None:
    said = told({"llm.request.type": "chat", "gen_ai.usage.input_tokens": 30})

    assert (said.reasons, said.lost) == ({"not_captured"}, {"tools", "system", "messages"})


def test_a_head_that_was_dropped_stays_a_hole() -> None:
    left = {
        "gen_ai.prompt.4.content": "It is lost.",  # its role is gone
        "gen_ai.prompt.5.role": "user",
        "gen_ai.prompt.5.content": "Oh.",
    }

    said = told(left, dropped_attributes=7)

    assert [(p.path, p.kind) for p in parts(said.messages)] == [
        ("messages[4].parts[0]", "assistant"),
        ("messages[5].parts[0]", "user"),
    ]
    assert said.reasons == {"attributes_dropped", "guessed"}
    assert said.lost == {"head", "system"}


def test_a_message_whose_image_could_not_be_written() -> None:
    said = told({k: v for k, v in PROMPT.items() if k != "gen_ai.prompt.1.content"})

    assert (said.reasons, said.lost) == ({"not_captured"}, {"messages"})


def test_tools_that_were_called_but_not_written() -> None:
    said = told(PROMPT | {"gen_ai.completion.0.tool_calls.0.name": "look"})

    assert (said.reasons, said.lost) == ({"schema_missing"}, {"tools"})


def test_only_bedrocks_text_without_a_type_is_a_block() -> None:
    text = '[{"text": "Hi"}]'
    as_bedrock = told(PROMPT | {"gen_ai.prompt.1.content": text, "gen_ai.system": "AWS"})
    as_openai = told(PROMPT | {"gen_ai.prompt.1.content": text, "gen_ai.system": "openai"})

    assert parts(as_bedrock.messages)[1].text == "Hi"
    assert parts(as_openai.messages)[1].text == text


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm.request.type": "embedding"},
        {"gen_ai.prompt": "one prompt"},
        {"gen_ai.prompt.name": "a template"},
        {"gen_ai.operation.name": "chat"},
        PROMPT | {"gen_ai.input.messages": "[]"},
    ],
)
def test_what_is_not_this_dialect(attributes: dict[str, Any]) -> None:
    assert openllmetry.read(span(attributes)) is None


_KEYS = st.sampled_from(
    [
        "llm.request.type", "gen_ai.system", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.prompt.0",
        "gen_ai.prompt.0.tool_calls.0", "gen_ai.prompt.0.tool_calls.0.name", "gen_ai.prompt.²",
        "gen_ai.prompt.9999999999.role", "gen_ai.completion.0.content",
        "llm.request.functions.0.name", "llm.request.functions.0.parameters",
    ]
)  # fmt: skip
_VALUES = st.none() | st.integers() | st.lists(st.integers(), max_size=2) | st.text(max_size=9) | st.sampled_from(
    ["aws", '[{"text": "media_resolution=None"}]', "[{", "[{}]", "media_resolution=None", "[1]"]
)  # fmt: skip


@given(st.dictionaries(_KEYS, _VALUES), st.integers(0, 1))
def test_nothing_raises(attributes: dict[str, Any], dropped: int) -> None:
    said = openllmetry.read(span(attributes, dropped_attributes=dropped))

    if said is not None:
        for raw in (said.tools, said.messages, said.output):
            parts(raw)


def test_converses_blocks_that_call_a_tool_tell_that_there_were_tools() -> None:
    """This instrumentation has no definitions of Converse's tools, and its calls stand inside the content only."""
    used = json.dumps([{"text": "I look."}, {"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}])
    asked = told(PROMPT | {"gen_ai.system": "AWS"})
    used_ = told(
        PROMPT
        | {"gen_ai.system": "AWS", "gen_ai.prompt.2.role": "assistant", "gen_ai.prompt.2.content": used}
    )
    assert (asked.reasons, asked.lost) == (frozenset(), frozenset())
    assert (used_.reasons, used_.lost) == ({"schema_missing"}, {"tools"})
