"""LangSmith's OpenTelemetry mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx import dialects
from otel_ctx.dialects import langsmith
from otel_ctx.model import Telling, UsageClaim
from tests.dialects import pairs, parts, span

USAGE = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 5, "gen_ai.usage.total_tokens": 35}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Where is it?"}],
    "tools": [TOOL],
}


def told(prompt: Any = None, more: Mapping[str, Any] | None = None, **how: Any) -> Telling:
    attributes = {"langsmith.span.kind": "llm", "gen_ai.operation.name": "chat", **(more or {})}
    if prompt is not None:
        attributes["gen_ai.prompt"] = prompt if isinstance(prompt, str) else json.dumps(prompt)
    said = langsmith.read(span(attributes, **how))
    assert said is not None
    return said


# ---- by hand


def test_a_request_body() -> None:
    said = told(BODY | {"instructions": "Be kind.", "max_tokens": 99}, USAGE)

    assert pairs(said.system) == [("system", "Be kind.")]
    assert pairs(said.messages) == [("user", "Where is it?")]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert (said.reserve, said.reasons, said.lost) == (99, frozenset(), frozenset())


def test_a_body_without_tools_had_none_but_langchains_messages_may_have_had_some() -> None:
    messages = [[{"lc": 1, "id": ["HumanMessage"], "kwargs": {"content": "Where is it?"}}]]

    body = told({k: v for k, v in BODY.items() if k != "tools"})
    bare = told({"messages": messages})
    beside = told({"messages": messages}, {"gen_ai.tool.definitions": json.dumps([TOOL])})

    assert (body.reasons, body.lost) == (frozenset(), frozenset())
    assert (bare.reasons, bare.lost) == ({"schema_missing"}, {"tools"})
    assert [p.name for p in parts(beside.tools)] == ["look"]
    assert pairs(beside.messages) == [("user", "Where is it?")]
    assert not beside.lost


def test_hidden_inputs_are_no_prompt() -> None:
    said = told({}, USAGE)

    assert said.messages is None
    assert (said.reasons, said.lost) == ({"redacted"}, {"tools", "system", "messages"})


def test_hidden_inputs_leave_the_tools() -> None:
    said = told({}, {"gen_ai.tool.definitions": json.dumps([TOOL])})

    assert [p.name for p in parts(said.tools)] == ["look"]
    assert said.lost == {"system", "messages"}


@pytest.mark.parametrize(("dropped", "reason"), [(0, "not_captured"), (3, "attributes_dropped")])
def test_no_inputs_at_all(dropped: int, reason: str) -> None:
    assert told(None, USAGE, dropped_attributes=dropped).reasons == {reason}


def test_inputs_that_were_cut_keep_their_beginning() -> None:
    whole = json.dumps(BODY)
    said = told(whole[: whole.index("s it?")])

    assert pairs(said.messages) == [("user", "Where i")]
    assert (said.reasons, said.lost) == ({"value_cut"}, {"tools", "system", "messages"})


def test_anothers_inputs() -> None:
    assert told({"question": "Where is it?"}).reasons == {"unparsable"}


def test_a_plain_text_model() -> None:
    assert pairs(told({"prompts": ["Once upon"]}).messages) == [("user", "Once upon")]


@pytest.mark.parametrize(
    ("outputs", "answer", "response_id"),
    [
        ({"id": "r1", "choices": [{"message": {"role": "assistant", "content": "There."}}]}, "There.", "r1"),
        ({"id": "r2", "content": "There.", "tool_calls": []}, "There.", "r2"),
        (
            {"id": "r3", "output": [{"type": "message", "role": "assistant", "content": "There."}]},
            "There.",
            "r3",
        ),
        (
            {
                "generations": [
                    [
                        {
                            "message": {
                                "lc": 1,
                                "id": ["AIMessage"],
                                "kwargs": {"content": "There.", "response_metadata": {"id": "r4"}},
                            }
                        }
                    ]
                ]
            },
            "There.",
            "r4",
        ),
        ({"generations": [[{"text": "There."}]]}, "There.", ""),
    ],
)
def test_answers(outputs: dict[str, Any], answer: str, response_id: str) -> None:
    said = told(BODY, {"gen_ai.completion": json.dumps(outputs)})

    assert [p.text for p in parts(said.output)] == [answer]
    assert said.response_id == response_id


def test_a_prompt_ends_before_its_own_answer() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    earlier = {**call, "id": "fc_0", "call_id": "c0"}
    asked = [{"role": "user", "content": "Where is it?"}, earlier]
    later = [call, {"type": "function_call_output", "call_id": "c1", "output": "There."}]
    outputs = {"gen_ai.completion": json.dumps({"output": [call]})}

    said = told({"model": "gpt-4o", "input": [*asked, *later]}, outputs)
    clean = told({"model": "gpt-4o", "input": asked}, outputs)

    assert pairs(said.messages) == pairs(clean.messages) == [("user", "Where is it?"), ("tool_call", "{}")]


@pytest.mark.parametrize("details", ["{'cache_read': 20}", '{"cache_read": 20}'])
def test_details_in_any_writing(details: str) -> None:
    usage = told(BODY, {**USAGE, "gen_ai.usage.input_token_details": details}).usage

    assert usage == UsageClaim(input=30, output=5, cache_read=20, total=35, zeros_omitted=True)


@pytest.mark.parametrize("details", ["{'a': __import__('os')}", "{" * 9000, "{'a'", ""])
def test_details_that_are_none(details: str) -> None:
    usage = told(BODY, {**USAGE, "gen_ai.usage.input_token_details": details}).usage

    assert usage == UsageClaim(input=30, output=5, total=35)


def test_usage_metadata_have_the_split_by_ttl() -> None:
    details = {"cache_creation": 0, "ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 2}
    metadata = {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35, "input_token_details": details}

    usage = told(BODY, {"langsmith.metadata.usage_metadata": json.dumps(metadata)}).usage

    assert usage is not None
    assert (usage.input, usage.cache_write_5m, usage.cache_write_1h) == (30, 10, 2)


def test_an_automatic_breakpoint_stands_at_the_end() -> None:
    said = told(BODY | {"cache_control": {"type": "ephemeral"}})

    assert [p.cache_marker for p in parts(said.messages)] == ["default"]


def test_history_on_the_server() -> None:
    said = told(BODY | {"previous_response_id": "r0"})

    assert (said.previous_response_id, said.reasons, said.lost) == ("r0", {"server_side"}, {"head"})


def test_the_thread_is_the_conversation_and_the_project_is_not() -> None:
    said = told(BODY, {"langsmith.metadata.thread_id": "th", "langsmith.trace.session_name": "default"})

    assert said.conversation_hint == "th"
    assert told(BODY, {"langsmith.trace.session_name": "default"}).conversation_hint == ""


def test_a_template_is_no_chat() -> None:
    attributes = {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat", "gen_ai.prompt": "{}"}

    said = dialects.read(span(attributes))

    assert said is not None
    assert said.role == "aggregate"


@pytest.mark.parametrize("kind", ["chain", "parser"])
def test_a_step_tells_of_a_conversation_or_nothing(kind: str) -> None:
    attributes = {"langsmith.span.kind": kind, "gen_ai.prompt": json.dumps(BODY), "gen_ai.completion": "{}"}
    said = langsmith.read(span({**attributes, "langsmith.metadata.session_id": "th"}))

    assert langsmith.read(span(attributes)) is None
    assert said is not None
    assert (said.role, said.conversation_hint, said.messages) == ("aggregate", "th", None)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.prompt": json.dumps(BODY)},
        {"langsmith.span.kind": "tool", "gen_ai.prompt": "{}", "langsmith.metadata.thread_id": "th"},
        {"langsmith.span.kind": "embedding", "gen_ai.prompt": "{}"},
        {"langsmith.span.kind": "LLM", "gen_ai.input.messages": "[]"},
    ],
)
def test_what_is_not_this_dialect(attributes: dict[str, Any]) -> None:
    assert langsmith.read(span(attributes)) is None


_KEYS = st.sampled_from(
    [
        "langsmith.span.kind", "gen_ai.prompt", "gen_ai.completion", "gen_ai.usage.input_tokens",
        "gen_ai.usage.input_token_details", "langsmith.metadata.usage_metadata", "gen_ai.tool.definitions",
        "langsmith.metadata.thread_id",
    ]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["messages", "output", "id", "content", "kwargs"]), inner)
    ),
    max_leaves=8,
)
_ITEMS = st.lists(
    st.dictionaries(st.sampled_from(["id", "content", "tool_calls", "type", "role"]), _JSON, max_size=3)
)
_WRITTEN = _JSON.map(json.dumps) | st.sampled_from(["output", "messages", "generations", "prompts"]).flatmap(
    lambda key: _ITEMS.map(lambda items: json.dumps({key: items}))
)
_VALUES = st.none() | st.integers() | st.text(max_size=9) | _WRITTEN


@given(st.dictionaries(_KEYS, _VALUES), st.integers(0, 1))
def test_nothing_raises(attributes: dict[str, Any], dropped: int) -> None:
    said = langsmith.read(span({"langsmith.span.kind": "llm", **attributes}, dropped_attributes=dropped))

    if said is not None:
        for raw in (said.tools, said.system, said.messages, said.output):
            parts(raw)
