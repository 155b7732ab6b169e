"""OpenInference's flat attributes: what real spans tell, what masks and limits take, what stays hidden."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import openinference
from otel_ctx.model import Event, Raw, Span, Telling
from tests.dialects import parts, texts

MASK = "__REDACTED__"
BODY: dict[str, Any] = {
    "model": "m-1",
    "max_tokens": 77,
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Where is it?"},
    ],
}
FLAT: dict[str, Any] = {
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be kind.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.content": "Where is it?",
    "llm.tools.0.tool.json_schema": json.dumps(BODY["tools"][0]),
}
USAGE: dict[str, Any] = {"llm.token_count.prompt": 100, "llm.token_count.completion": 5}
ANSWER: dict[str, Any] = {"llm.output_messages.0.message.role": "assistant"}


def span(attributes: Mapping[str, Any], **more: Any) -> Span:
    return Span(
        "t", "s", "p", "llm", 1, 2, {"openinference.span.kind": "LLM", **attributes}, **{"kind": 1, **more}
    )


def told(*groups: Mapping[str, Any], **more: Any) -> Telling:
    said = openinference.read(span({k: v for group in groups for k, v in group.items()}, **more))
    assert said is not None
    return said


def value_of(body: Any) -> dict[str, Any]:
    return {"input.value": json.dumps(body), "input.mime_type": "application/json"}


def everything(telling: Telling) -> str:
    """All text that a telling hands over."""
    return "\n".join(t for raw in (telling.tools, telling.system, telling.messages) for t in texts(raw))


# ---- which spans are calls


@pytest.mark.parametrize("model", ["llm.model_name", "llm.system", "llm.provider"])
def test_a_call_that_failed_with_nothing_recorded_is_a_call(model: str) -> None:
    failed = told({model: "anthropic"}, status_code=2, status_message="TimeoutError: boom")

    assert (failed.role, failed.status, failed.usage) == ("call", "error", None)
    assert openinference.read(span({model: "anthropic"})) is None  # a step around a call
    assert openinference.read(span({}, status_code=2)) is None


def test_only_llm_spans_are_calls() -> None:
    calls = {**FLAT, **USAGE}

    assert told(calls).role == "call"
    assert told(calls, {"openinference.span.kind": "AGENT"}).role == "aggregate"
    assert told(calls, {"openinference.span.kind": "CHAIN"}).messages is None
    for kind in ("TOOL", "RETRIEVER", "EMBEDDING"):
        assert openinference.read(span({**calls, "openinference.span.kind": kind})) is None
    assert openinference.read(span({"openinference.span.kind": "CHAIN", "input.value": "{}"})) is None


def test_a_span_without_messages_and_tokens_is_no_call() -> None:
    """llama-index's prepare step and the AI SDK's step are LLM spans too."""
    reprs = value_of({"chat_history": ["ChatMessage(role=<MessageRole.USER: 'user'>)"], "tools": ["<Tool>"]})

    assert openinference.read(span({"llm.model_name": "m", **reprs})) is None
    assert openinference.read(span({"gen_ai.operation.name": "agent_step"})) is None


def test_a_failed_call_is_a_call() -> None:
    said = told(FLAT, status_code=2, status_message="boom")

    assert (said.role, said.status, said.usage) == ("call", "error", None)


def test_spans_of_other_dialects_are_left_to_them() -> None:
    assert openinference.read(span({"gen_ai.prompt.3.role": "user", **FLAT, **USAGE})) is None
    assert openinference.read(span({"llm.request.type": "chat", **USAGE})) is None
    assert openinference.read(span({"gen_ai.request.model": "m", **USAGE}, kind=3)) is None
    assert openinference.read(Span("t", "s", "", "n", 1, 2, {"gen_ai.request.model": "m"})) is None


# ---- which source is taken


def test_the_request_body_wins() -> None:
    said = told(value_of(BODY), FLAT, USAGE)

    assert said.messages == Raw("messages", BODY["messages"])
    assert said.tools == Raw("tools", BODY["tools"])
    assert (said.request_model, said.reserve, said.system) == ("m-1", 77, None)
    assert not said.reasons


def test_the_flat_attributes_say_what_the_body_lacks() -> None:
    """Bedrock's and the agents SDK's value is the list of messages alone."""
    said = told(value_of([{"role": "user", "content": [{"text": "Where is it?"}]}]), FLAT, USAGE)

    assert texts(said.system) == ["Be kind."]
    assert texts(said.messages) == ["Where is it?"]
    assert [p.name for p in parts(said.tools)] == ["look"]


def test_a_system_prompt_in_parts() -> None:
    contents = {
        "llm.input_messages.0.message.contents.0.message_content.type": "text",
        "llm.input_messages.0.message.contents.0.message_content.text": "Be kind.",
    }
    flat = {k: v for k, v in FLAT.items() if k != "llm.input_messages.0.message.content"}

    assert texts(told(value_of([{"role": "user", "content": "Hi"}]), flat, contents, USAGE).system) == [
        "Be kind."
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"messages": ["ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[])"]},
        {"messages": [{"role": "tool-response", "content": "Observation"}]},
        {"messages": [{"role": ["user"], "content": "x"}]},
        "user: Where is it?",
        17,
    ],
)
def test_what_is_no_request_is_not_taken(value: Any) -> None:
    said = told({"input.value": json.dumps(value) if isinstance(value, dict) else value}, FLAT, USAGE)

    assert texts(said.messages) == ["Be kind.", "Where is it?"]


def test_langchain_messages_have_their_tools_elsewhere() -> None:
    human = {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi"}}
    said = told(
        value_of({"messages": [[human]]}),
        FLAT,
        USAGE,
        {
            "llm.invocation_parameters": json.dumps(
                {"max_tokens": 9, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
            ),
            "metadata": json.dumps({"lc_agent_name": "support", "thread_id": "thread-1"}),
        },
    )

    assert [(p.kind, p.text, p.cache_marker) for p in parts(said.messages)] == [("user", "Hi", "1h")]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert (said.agent, said.conversation_hint, said.reserve) == ("support", "thread-1", 9)
    assert texts(said.system) == ["Be kind."]


def test_the_automatic_breakpoint_stands_on_the_last_flat_message() -> None:
    parameters = {
        "llm.invocation_parameters": json.dumps({"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    }
    read = parts(told(FLAT, parameters, USAGE).messages)
    assert [p.cache_marker for p in read] == [*[""] * (len(read) - 1), "1h"]


def test_the_automatic_breakpoint_stands_on_the_last_block() -> None:
    said = told(value_of({**BODY, "cache_control": {"type": "ephemeral"}}), FLAT, USAGE)

    assert [p.cache_marker for p in parts(said.messages)] == ["", "default"]


def test_another_librarys_span_keeps_its_own_words() -> None:
    """Two tool results are one message in pydantic-ai's flat attributes."""
    own = {
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Own words"}]}]',
        "gen_ai.system_instructions": '[{"type":"text","content":"Own system"}]',
        "gen_ai.tool.definitions": '[{"type":"function","name":"own"}]',
        "gen_ai.usage.cache_read.input_tokens": 60,
    }
    said = told(own, FLAT, USAGE, {"input.value": "Where is it?"}, kind=3)

    assert everything(said) == '{"type":"function","name":"own"}\nOwn system\nOwn words'
    assert said.usage is not None
    assert said.usage.cache_read == 60


def test_content_switched_off_in_another_library() -> None:
    own = {"gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text"}]}]'}

    said = told(own, USAGE, {"llm.input_messages.0.message.role": "user"}, kind=3)

    assert said.reasons == {"not_captured"}


def test_three_keys_make_a_definition() -> None:
    three = {
        "llm.tools.0.tool.name": "look",
        "llm.tools.0.tool.description": "Looks.",
        "llm.tools.0.tool.json_schema": '{"type":"object"}',
    }

    assert texts(told(three, USAGE).tools) == [
        '{"name":"look","description":"Looks.","parameters":{"type":"object"}}'
    ]


def test_calls_of_tools_that_were_never_defined() -> None:
    call = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look"}
    untooled = {k: v for k, v in FLAT.items() if "tools" not in k}

    assert told(untooled, call, USAGE).lost == {"tools"}
    assert not told(value_of({**BODY, "tools": []}), untooled, call, USAGE).lost  # the body had none


# ---- what was hidden


def test_hidden_inputs() -> None:
    said = told(
        {"input.value": MASK, "llm.invocation_parameters": json.dumps({"tools": BODY["tools"]})}, USAGE
    )

    assert (said.tools, said.system, said.messages) == (None, None, None)
    assert (said.reasons, said.lost) == ({"redacted"}, {"tools", "system", "messages"})
    assert said.usage is not None


def test_hidden_messages_are_not_taken_from_the_body() -> None:
    tools = {k: v for k, v in FLAT.items() if "tools" in k}

    said = told(value_of(BODY), tools, USAGE)

    assert (said.messages, said.system) == (None, None)
    assert "Where is it?" not in everything(said)
    assert (said.reasons, said.lost) == ({"redacted"}, {"system", "messages"})
    assert said.tools is not None


def test_hidden_text_is_no_text_and_is_not_taken_from_the_body() -> None:
    masked = {k: MASK if k.endswith(".content") else v for k, v in FLAT.items()}
    call = {
        "llm.input_messages.2.message.role": "assistant",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "look",
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": "{}",
    }

    said = told(value_of(BODY), masked, call, USAGE)

    assert [(p.path, p.kind) for p in parts(said.messages)] == [("messages[2].parts[0]", "tool_call")]
    assert "redacted" in said.reasons
    assert not any(word in everything(said) for word in (MASK, "Where", "kind"))


def test_tools_that_only_the_body_shows_are_read_there() -> None:
    """OPENINFERENCE_HIDE_LLM_TOOLS takes the flat attributes out and leaves the request body as it is."""
    untooled = {k: v for k, v in FLAT.items() if "tools" not in k}

    said = told(value_of(BODY), untooled, USAGE)

    assert said.tools is not None
    assert (said.reasons, said.lost) == (frozenset(), frozenset())


def test_hidden_images_hide_no_text() -> None:
    image = {
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.contents.0.message_content.type": "image",
        "llm.input_messages.2.message.contents.0.message_content.image.image.url": MASK,
    }

    assert not told(value_of(BODY), FLAT, image, USAGE).reasons


# ---- what limits took


def test_the_oldest_attributes_dropped() -> None:
    """Python's SDK: no body, no tools, no system prompt, half a message; the index stays the wire's."""
    left = {
        "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": "{}",  # its name is gone
        "llm.input_messages.2.message.tool_calls.1.tool_call.function.name": "look",
        "llm.input_messages.2.message.tool_calls.1.tool_call.function.arguments": "{}",
        "llm.input_messages.3.message.role": "tool",
        "llm.input_messages.3.message.content": "found",
    }

    said = told(left, ANSWER, USAGE, dropped_attributes=9)

    assert [(p.path, p.kind, p.role, p.name) for p in parts(said.messages)] == [
        ("messages[2].parts[0]", "tool_call", "assistant", "look"),
        ("messages[3].parts[0]", "tool_result", "tool", ""),
    ]
    assert said.reasons == {"attributes_dropped", "guessed"}
    assert said.lost == {"head", "system", "tools"}


def test_older_messages_in_the_conventions_list() -> None:
    flat = {
        f"llm.input_messages.{i}.message.{k}": v
        for i in (4, 5)
        for k, v in (("role", "user"), ("content", f"m{i}"))
    }
    dual = [{"role": "user", "parts": [{"type": "text", "content": f"m{i}"}]} for i in (3, 4, 5)]

    said = told(flat, {"gen_ai.input.messages": json.dumps(dual)}, ANSWER, USAGE, dropped_attributes=9)

    assert [(p.path[:11], p.text) for p in parts(said.messages)] == [
        ("messages[3]", "m3"),
        ("messages[4]", "m4"),
        ("messages[5]", "m5"),
    ]


def test_the_newest_attributes_dropped() -> None:
    """JavaScript's SDK: the body, which was set first, is whole; else the last messages are gone."""
    node = {"resource": {"telemetry.sdk.language": "nodejs"}, "dropped_attributes": 40}
    head = {k: v for k, v in FLAT.items() if ".0." in k and "tools" not in k}

    whole = told(value_of(BODY), head, **node)
    cut = told(head, **node)

    assert whole.messages is not None
    assert whole.tools is not None
    assert (whole.reasons, whole.lost) == ({"attributes_dropped"}, set())  # usage
    assert cut.lost == {"messages", "tools"}


def test_a_start_at_one_is_no_loss_where_nothing_was_dropped() -> None:
    """The Responses API without instructions."""
    flat = {k.replace(".0.", ".1."): v for k, v in FLAT.items() if ".0.message" in k}

    assert not told(flat, USAGE).reasons


def test_a_value_limit() -> None:
    """The beginning is kept; what is as long as the cut body was cut too."""
    body = json.dumps(BODY)[:40]
    flat = {
        **FLAT,
        "llm.input_messages.0.message.content": "k" * 40,
        "llm.tools.1.tool.json_schema": '{"name":"' + "n" * 31,
    }

    said = told({"input.value": body}, flat, USAGE)

    assert texts(said.messages) == ["k" * 40, "Where is it?"]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert (said.reasons, said.lost) == ({"value_cut"}, {"system", "tools"})


def test_a_body_that_alone_was_cut_is_no_loss() -> None:
    said = told({"input.value": json.dumps(BODY)[:40]}, FLAT, USAGE)

    assert not said.reasons
    assert texts(said.messages) == ["Be kind.", "Where is it?"]


def test_a_first_part_that_is_missing() -> None:
    """LangChain leaves thinking out and keeps the number."""
    flat = {
        "llm.input_messages.0.message.role": "assistant",
        "llm.input_messages.0.message.contents.1.message_content.type": "text",
        "llm.input_messages.0.message.contents.1.message_content.text": "So.",
    }

    assert told(flat, USAGE).lost == {"messages"}


# ---- numbers and names


def test_a_zero_of_a_converter() -> None:
    usage = told(
        USAGE, {"llm.token_count.prompt_details.cache_read": 0, "gen_ai.usage.cache_read.input_tokens": 60}
    ).usage

    assert usage is not None
    assert usage.cache_read == 60


def test_the_providers_usage_tells_ttl_zeros_and_meaning() -> None:
    response = {
        "id": "msg_1",
        "model": "m-1",
        "content": [],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 30,
            "output_tokens": 5,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 70,
            "cache_creation": {"ephemeral_1h_input_tokens": 50, "ephemeral_5m_input_tokens": 20},
        },
    }

    said = told(FLAT, USAGE, {"output.value": json.dumps(response)})

    assert said.usage is not None
    assert (said.usage.cache_read, said.usage.cache_write) == (0, 70)
    assert (said.usage.cache_write_1h, said.usage.cache_write_5m) == (50, 20)
    assert said.usage.semantics == "inclusive"
    assert (said.response_id, said.response_model) == ("msg_1", "m-1")
    alone = told(FLAT, {"output.value": json.dumps(response)}).usage
    assert alone is not None
    assert (alone.input, alone.semantics) == (30, "exclusive")
    uncounted = told(FLAT, {"llm.token_count.prompt": 30, "output.value": json.dumps(response)}).usage
    assert uncounted is not None
    assert uncounted.semantics == "exclusive"


def test_an_answer_that_is_json_is_no_response() -> None:
    assert told(FLAT, USAGE, {"output.value": '{"id": "A-1042", "state": "lost"}'}).response_id == ""


def test_absent_details_are_unknown() -> None:
    usage = told(FLAT, USAGE).usage

    assert usage is not None
    assert (usage.cache_read, usage.zeros_omitted, usage.semantics) == (None, False, "")


def test_names() -> None:
    said = told(
        FLAT,
        USAGE,
        {
            "llm.model_name": "anthropic/claude",
            "llm.provider": "aws",
            "llm.system": "anthropic",
            "session.id": "s-1",
            "agent.name": "support",
            "graph.node.id": "model",
            "llm.invocation_parameters": json.dumps(
                {"previous_response_id": "resp_1", "context_window": 128000}
            ),
        },
        events=[Event("First Token Stream Event", 2, {})],
    )

    assert (said.request_model, said.provider, said.conversation_hint) == ("anthropic/claude", "aws", "s-1")
    assert (said.agent, said.previous_response_id, said.limit) == ("support", "resp_1", 128000)
    assert said.lost == {"head"}
    assert said.first_token_unix_nano == 2


# ---- anything may come

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    [
        "input.value", "output.value", "metadata", "llm.invocation_parameters", "llm.prompts", "gen_ai.input.messages",
        "ai.prompt.messages", "ai.response.providerMetadata", "llm.token_count.prompt", "llm.tools.0.tool.name",
        "llm.tools.0.tool.json_schema", "llm.tools.²", "llm.input_messages.0", "llm.input_messages.x.y",
        "llm.input_messages.0.message.role", "llm.input_messages.0.message.content",
        "llm.input_messages.99999999999999.message.role", "llm.input_messages.1.message.contents.1",
        "llm.input_messages.1.message.contents.0.tool_call", "llm.output_messages.0.message.tool_calls",
    ]
)  # fmt: skip


@given(st.dictionaries(_KEYS, _VALUES | _VALUES.map(json.dumps)), st.integers(0, 2), st.sampled_from([1, 3]))
def test_nothing_raises(attributes: dict[str, Any], dropped: int, kind: int) -> None:
    said = openinference.read(span(attributes, dropped_attributes=dropped, kind=kind))

    if said is not None:
        for raw in (said.tools, said.system, said.messages, said.output):
            parts(raw)
