"""Pydantic AI's and Logfire's spans, where they are more than the conventions' attributes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import pydantic
from otel_ctx.model import Part, Telling
from tests.dialects import pairs, parts, span

TEMPLATE = {"logfire.msg_template": "Chat Completion with {request_data[model]!r}"}
MODEL = {"gen_ai.request.model": "gpt-4o"}
CHAT = {"gen_ai.operation.name": "chat", **MODEL}
OURS = {**CHAT, "model_request_parameters": "{}"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SYSTEM = {"event.name": "gen_ai.system.message", "role": "system", "content": "Be kind."}
ASKED = {"event.name": "gen_ai.user.message", "role": "user", "content": "Where is it?"}
CALLED = {
    "event.name": "gen_ai.assistant.message",
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
FOUND = {"event.name": "gen_ai.tool.message", "role": "tool", "id": "c1", "content": "there", "name": "look"}
SAID = {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "There."}


def told(*attributes: Mapping[str, Any], **how: Any) -> Telling:
    written: dict[str, Any] = {}
    for some in attributes:
        for key, value in some.items():
            written[key] = json.dumps(value) if isinstance(value, (dict, list)) else value
    said = pydantic.read(span(written, **how))
    assert said is not None
    return said


# ---- lists of events


def test_the_choice_is_the_answer() -> None:
    choice = {
        "event.name": "gen_ai.choice",
        "index": 0,
        "message": {"role": "assistant", "content": "There."},
    }
    said = told(OURS, {"events": [SYSTEM, ASKED, CALLED, FOUND, SAID, choice], "gen_ai.response.id": "r1"})

    assert pairs(said.messages) == [
        ("system", "Be kind."),
        ("user", "Where is it?"),
        ("tool_call", "{}"),
        ("tool_result", "there"),
        ("assistant", "There."),
    ]
    assert pairs(said.output) == [("assistant", "There.")]
    assert (said.reasons, said.lost) == (frozenset(), frozenset())


def test_an_answer_that_was_appended_is_cut_off() -> None:
    events = {"events": [ASKED, CALLED, FOUND, CALLED, SAID]}

    answered = told(
        CHAT, TEMPLATE, {"request_data": {"model": "gpt-4o"}}, events, {"gen_ai.response.id": "r1"}
    )
    asked = told(CHAT, TEMPLATE, {"request_data": {"model": "gpt-4o"}}, events)

    assert [p.kind for p in parts(answered.messages)] == ["user", "tool_call", "tool_result"]
    assert [p.kind for p in parts(answered.output)] == ["tool_call", "assistant"]
    assert [p.kind for p in parts(asked.messages)] == [
        "user",
        "tool_call",
        "tool_result",
        "tool_call",
        "assistant",
    ]
    assert asked.output is None


def test_items_without_an_event_of_their_own() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    block = {"type": "input_text", "text": "Look here."}
    unknown = [
        {"event.name": "gen_ai.unknown", "role": "unknown", "content": "…", "data": d} for d in (item, block)
    ]

    said = told(OURS, {"events": [ASKED, *unknown]})

    assert pairs(said.messages) == [("user", "Where is it?"), ("thinking", "Hm."), ("user", "Look here.")]
    assert said.reasons == {"guessed"}


def _shown(part: Part) -> str:
    """Without the hash that stands for a medium's data."""
    return re.sub(r" ?[0-9a-f]{16}$", "", part.text)


def test_blocks_that_say_kind() -> None:
    blocks = [
        {"kind": "text", "text": "Look."},
        {"kind": "image-url", "url": "https://shop.example/jacket.png"},
        {"kind": "binary", "media_type": "image/png", "binary_content": "iVBORw0KGgo="},
    ]

    said = told(OURS, {"events": [{**ASKED, "content": blocks}]})

    assert [(p.kind, _shown(p), p.bytes) for p in parts(said.messages)] == [
        ("user", "Look.", -1),
        ("image", "", 31),
        ("image", "image/png", 12),
    ]


def test_events_that_were_cut() -> None:
    whole = json.dumps([SYSTEM, ASKED])
    said = told(OURS, {"events": whole[: whole.index("s it?")]})

    assert pairs(said.messages) == [("system", "Be kind."), ("user", "Where i")]
    assert (said.reasons, said.lost) == ({"value_cut"}, {"messages"})


def test_events_whose_content_is_switched_off() -> None:
    said = told(OURS, {"events": [{"event.name": "gen_ai.system.message", "role": "system"}]})

    assert said.messages is None
    assert (said.reasons, said.lost) == ({"not_captured"}, {"system", "messages"})


# ---- request bodies


def test_a_request_body() -> None:
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 99,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [{"role": "user", "content": "Where is it?"}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    }
    said = told(CHAT, TEMPLATE, {"request_data": body, "response_data": {"message": SAID}})

    assert [(p.text, p.cache_marker) for p in parts(said.system)] == [("Be kind.", "1h")]
    assert pairs(said.messages) == [("user", "Where is it?")]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert pairs(said.output) == [("assistant", "There.")]
    assert (said.reserve, said.reasons, said.lost) == (99, frozenset(), frozenset())


def test_a_body_says_more_than_the_conventions() -> None:
    messages = [{"role": "user", "content": "Where is it?"}]
    poorer = {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}]
    }

    both = told(
        CHAT, TEMPLATE, poorer, {"request_data": {"messages": messages, "cache_control": {"ttl": "1h"}}}
    )
    newer = told(CHAT, TEMPLATE, poorer, {"request_data": {"model": "gpt-4o"}})

    assert [p.cache_marker for p in parts(both.messages)] == ["1h"]
    assert pairs(newer.messages) == pairs(both.messages) == [("user", "Where is it?")]


def test_a_body_that_was_cut() -> None:
    whole = json.dumps({"messages": [{"role": "user", "content": "Where is it?"}], "tools": [TOOL]})
    said = told(CHAT, TEMPLATE, {"request_data": whole[: whole.index("s it?")]})

    assert pairs(said.messages) == [("user", "Where i")]
    assert {"value_cut"} <= said.reasons
    assert {"tools", "messages"} <= said.lost


def test_a_stream_leaves_its_text() -> None:
    body = {"request_data": {"messages": [{"role": "user", "content": "Where is it?"}]}}
    said = told(
        CHAT, TEMPLATE, body, {"response_data": {"combined_chunk_content": "There.", "chunk_count": 2}}
    )

    assert pairs(said.output) == [("assistant", "There.")]


@pytest.mark.parametrize("operation", ["embeddings", "generate_content"])
def test_what_is_no_chat_is_known_and_counts_for_nothing(operation: str) -> None:
    data = {"request_data": {"model": "x", "input": "Where is it?", "prompt": "Where is it?"}}
    said = told({"gen_ai.operation.name": operation}, MODEL, TEMPLATE, data)

    assert (said.role, said.messages, said.usage) == ("aggregate", None, None)


def test_an_answers_calls_are_unwrapped() -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": '{"input": {"a": 1}}'}}
    body = {"request_data": {"messages": [{"role": "user", "content": "Where is it?"}]}}

    said = told(
        CHAT, TEMPLATE, body, {"response_data": {"message": {"role": "assistant", "tool_calls": [call]}}}
    )

    assert pairs(said.output) == [("tool_call", '{"a":1}')]


# ---- the Agents SDK


def test_a_chat_request_of_the_agents_sdk() -> None:
    messages = [{"role": "user", "content": "Where is it?"}]
    answer = [{"role": "assistant", "content": "There."}]
    usage = {"input_tokens": 30, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 20}}
    said = told(MODEL, TEMPLATE, {"model_config": {}, "input": messages, "output": answer, "usage": usage,
                                  "request_data": {"messages": messages + answer}})  # fmt: skip

    assert pairs(said.messages) == [("user", "Where is it?")]
    assert pairs(said.output) == [("assistant", "There.")]
    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read) == (30, 20)
    assert (said.reasons, said.lost) == ({"schema_missing"}, {"tools"})


def test_a_responses_request_of_the_agents_sdk() -> None:
    response = {
        "id": "r1",
        "instructions": "Be kind.",
        "tools": [{"type": "function", "name": "look", "parameters": {}, "defer_loading": None}],
        "output": [{"type": "message", "role": "assistant", "content": "There."}],
        "previous_response_id": "r0",
        "max_output_tokens": 99,
    }
    raw = [{"role": "user", "content": "Where is it?"}]
    said = told(MODEL, TEMPLATE, {"raw_input": raw, "response": response, "events": [SYSTEM, ASKED, SAID]})

    assert pairs(said.system) == [("system", "Be kind.")]
    assert pairs(said.messages) == [("user", "Where is it?")]
    assert pairs(said.tools) == [("tools", '{"type":"function","name":"look","parameters":{}}')]
    assert pairs(said.output) == [("assistant", "There.")]
    assert (said.response_id, said.previous_response_id, said.reserve) == ("r1", "r0", 99)
    assert (said.reasons, said.lost) == ({"server_side"}, {"head"})


@pytest.mark.parametrize("name", ["raw_input", "input"])
def test_the_agents_sdk_without_sensitive_data(name: str) -> None:
    said = told(MODEL, TEMPLATE, {"model_config": {}, name: "null", "gen_ai.usage.input_tokens": 30})

    assert said.messages is None
    assert {"not_captured"} <= said.reasons
    assert said.lost == {"tools", "system", "messages"}


def test_sums_of_the_agents_sdk() -> None:
    usage = {"input_tokens": 30, "output_tokens": 5, "cached_input_tokens": 20, "cache_write_input_tokens": 0}
    turn = told(TEMPLATE, {"sdk_span_type": "turn", "agent_name": "support", "usage": usage})
    agent = told(TEMPLATE, {"name": "support", "handoffs": [], "output_type": "str"})
    root = told(TEMPLATE, {"agent_trace_id": "trace_1", "group_id": "th"})

    assert {t.role for t in (turn, agent, root)} == {"aggregate"}
    assert (turn.agent, agent.agent, root.conversation_hint) == ("support", "support", "th")
    assert turn.usage is not None
    assert (turn.usage.input, turn.usage.cache_read, turn.usage.semantics) == (30, 20, "inclusive")
    assert agent.usage is None
    assert pydantic.read(span({**TEMPLATE, "agent_trace_id": "trace_1"})) is None


# ---- Pydantic AI


def messages(*of: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"gen_ai.input.messages": [{"role": role, "parts": [part]} for role, part in of]}


TEXT = ("user", {"type": "text", "content": "Where is it?"})
RESULT = {"type": "tool_call_response", "id": "c1", "name": "look"}


def test_tools_that_only_the_parameters_tell() -> None:
    tool = {
        "name": "look",
        "description": "Looks.",
        "parameters_json_schema": {"type": "object"},
        "strict": None,
    }
    parameters = {"function_tools": [tool], "output_tools": [{**tool, "name": "end", "description": None}]}

    said = told(OURS, messages(TEXT), {"model_request_parameters": parameters})

    assert [p.text for p in parts(said.tools)] == [
        '{"type":"function","name":"look","description":"Looks.","parameters":{"type":"object"}}',
        '{"type":"function","name":"end","parameters":{"type":"object"}}',
    ]
    assert not said.lost


def test_skeletons_are_no_prompt() -> None:
    said = told(OURS, messages(("user", {"type": "text"})))

    assert (said.reasons, said.lost) == ({"not_captured"}, {"system", "messages"})


@pytest.mark.parametrize(
    ("provider", "result", "sent"),
    [
        ("gcp.gemini", "there", '{"return_value":"there"}'),
        ("google", '{"a": 1}', '{"return_value":"{\\"a\\": 1}"}'),
        ("google", {"a": 1}, '{"a":1}'),
        ("openai", "there", "there"),
    ],
)
def test_results_as_gemini_gets_them(provider: str, result: Any, sent: str) -> None:
    said = told(
        OURS, {"gen_ai.provider.name": provider}, messages(TEXT, ("user", {**RESULT, "result": result}))
    )

    assert pairs(said.messages)[-1] == ("tool_result", sent)


def test_breakpoints_by_position() -> None:
    content = messages(("system", {"type": "text", "content": "Be kind."}), TEXT)
    content |= {
        "gen_ai.tool.definitions": [TOOL, TOOL],
        "gen_ai.system_instructions": [{"type": "text", "content": "Hm."}],
    }
    places = [
        "tools[1]",
        "system[0]",
        "messages[0].content[0]",
        "messages[7].content[0]",
        "tools[9]",
        "elsewhere",
    ]

    said = told(OURS, content)
    marked = pydantic.read(
        span({**_written(content), **OURS, "pydantic_ai.cache.applied_breakpoints": places})
    )

    assert marked is not None
    assert [p.cache_marker for p in parts(marked.tools)] == ["", "default"]
    assert [p.cache_marker for p in parts(marked.system)] == ["default"]
    assert [p.cache_marker for p in parts(marked.messages)] == ["", "default"]
    for name in ("tools", "system", "messages"):
        assert pairs(getattr(said, name)) == pairs(getattr(marked, name))


def test_a_place_that_cannot_be_known_is_not_marked() -> None:
    content = _written(messages(TEXT, TEXT))  # one message or two, when they were sent?
    places = {"pydantic_ai.cache.applied_breakpoints": ["messages[0].content[0]"]}

    said = pydantic.read(span({**content, **OURS, **places}))

    assert said is not None
    assert [p.cache_marker for p in parts(said.messages)] == ["", ""]


def _written(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {k: json.dumps(v) for k, v in attributes.items()}


# ---- usage


@pytest.mark.parametrize(
    ("raw", "semantics"),
    [
        ({"input_tokens": 6, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4}, "inclusive"),
        ({"input_tokens": 30, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4}, "exclusive"),
        ({"prompt_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20}}, "inclusive"),
        ({"input_tokens": 99, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4}, ""),
    ],
)
def test_the_providers_usage_settles_what_input_includes(raw: dict[str, Any], semantics: str) -> None:
    said = told(OURS, messages(TEXT), {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.raw": raw})

    assert said.usage is not None
    assert (said.usage.input, said.usage.cache_read, said.usage.semantics) == (30, 20, semantics)


def test_the_providers_usage_has_the_split_by_ttl() -> None:
    creation = {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 1}
    raw = {
        "input_tokens": 6,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 4,
        "cache_creation": creation,
    }

    said = told(OURS, messages(TEXT), {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.raw": raw})

    assert said.usage is not None
    assert (said.usage.cache_write_5m, said.usage.cache_write_1h, said.usage.cache_read) == (3, 1, 0)


@pytest.mark.parametrize(
    "attributes",
    [
        CHAT,
        {**TEMPLATE, "n": 0},
        {**TEMPLATE, "request_data": '{"amount": 3}'},
        {**TEMPLATE, "request_data": "amount"},
        {"events": json.dumps([{"event.name": "click"}]), **MODEL},
        {"events": json.dumps([ASKED])},
        {"model_request_parameters": "{}", "gen_ai.operation.name": "invoke_agent"},
    ],
)
def test_what_is_not_this_dialect(attributes: dict[str, Any]) -> None:
    assert pydantic.read(span(attributes)) is None


_KEYS = st.sampled_from(
    [
        "events", "request_data", "response_data", "model_request_parameters", "gen_ai.input.messages",
        "gen_ai.tool.definitions", "gen_ai.system_instructions", "raw_input", "input", "output", "response", "usage",
        "gen_ai.usage.raw", "gen_ai.provider.name", "logfire.msg_template", "sdk_span_type", "gen_ai.response.id",
        "pydantic_ai.cache.applied_breakpoints",
    ]
)  # fmt: skip
_NAMES = st.sampled_from(
    ["event.name", "role", "content", "messages", "message", "parts", "result", "type", "kind", "data", "tool_calls",
     "function", "arguments", "tools", "function_tools", "name"]
)  # fmt: skip
_WORDS = st.sampled_from(
    [
        "gen_ai.user.message",
        "gen_ai.choice",
        "gen_ai.unknown",
        "assistant",
        "tool_call_response",
        "x",
        '{"input": 1}',
    ]
)
_JSON = st.recursive(
    st.none() | st.integers() | _WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_VALUES = (
    st.none()
    | st.integers()
    | st.sampled_from(["google", "turn", "[{", "messages[0].content[0]"])
    | st.lists(st.sampled_from(["tools[0]", "system[1]", "messages[0].content[0]"]), max_size=2)
    | _JSON.map(json.dumps)
)


@given(st.dictionaries(_KEYS, _VALUES), st.integers(0, 1))
def test_nothing_raises(attributes: dict[str, Any], dropped: int) -> None:
    said = pydantic.read(span({**CHAT, **attributes}, dropped_attributes=dropped))

    if said is not None:
        for raw in (said.tools, said.system, said.messages, said.output):
            parts(raw)
