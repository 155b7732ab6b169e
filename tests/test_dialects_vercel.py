"""The AI SDK's spans, and what other JavaScript packages make of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import genai, semconv, vercel
from otel_ctx.model import Event, Raw, Telling
from otel_ctx.parts import loads, read_messages, read_tools
from tests.dialects import parts, span

CALL: dict[str, Any] = {
    "ai.operationId": "ai.streamText.doStream",
    "ai.model.provider": "openai.chat",
    "ai.model.id": "gpt-4o",
}
SYSTEM = '{"role":"system","content":"Be kind."}'
USER = '{"role":"user","content":[{"type":"text","text":"Where is it?"}]}'


def told(attributes: Mapping[str, Any], *events: Event, **more: Any) -> Telling:
    said = vercel.read(span({**CALL, **attributes}, *events, **more))
    assert said is not None
    return said


# ---- which spans tell of a call


@pytest.mark.parametrize(
    ("operation", "role"),
    [
        ("ai.generateText.doGenerate", "call"),
        ("ai.streamText.doStream", "call"),
        ("ai.generateObject.doGenerate", "call"),
        ("ai.streamObject.doStream", "call"),
        ("ai.generateText", "aggregate"),
        ("ai.streamObject", "aggregate"),
        ("ai.toolCall", None),
        ("ai.embed", None),
        ("ai.embed.doEmbed", None),
        ("", None),
    ],
)
def test_the_operation_decides(operation: str, role: str | None) -> None:
    # as a rewriter leaves parents and children, and with all that makes a call of the conventions
    conventions = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.input.messages": "[]",
    }
    seen = span(conventions | {"ai.operationId": operation})

    said = vercel.read(seen)

    assert (said.role if said else None) == role
    assert genai.read(seen) is None
    assert genai.read(span(conventions)) is not None


def test_who_where_and_when() -> None:
    said = told(
        {
            "ai.telemetry.functionId": "support",
            "ai.response.model": "gpt-4o-2024-08-06",
            "ai.response.id": "r1",
            "ai.settings.maxOutputTokens": 512,
            "ai.prompt.messages": f"[{USER}]",
        },
        Event("ai.stream.firstChunk", 4_000, {}),
        resource={"service.name": "shop"},
    )

    assert (said.agent, said.service, said.provider) == ("support", "shop", "openai.chat")
    assert (said.request_model, said.response_model, said.response_id) == (
        "gpt-4o",
        "gpt-4o-2024-08-06",
        "r1",
    )
    assert (said.reserve, said.first_token_unix_nano, said.status) == (512, 4_000, "ok")


@pytest.mark.parametrize(
    "key",
    [
        "ai.telemetry.metadata.sessionId",
        "ai.telemetry.metadata.conversation_id",
        "ai.settings.context.threadId",
        "session.id",
        "gen_ai.conversation.id",
    ],
)
def test_the_conversation_by_any_of_its_names(key: str) -> None:
    assert told({key: "c1", "ai.telemetry.metadata.userId": "u"}).conversation_hint == "c1"


def test_a_failure_keeps_no_prompt() -> None:
    said = told({}, status_code=2, status_message="prompt is too long: Where is it?")

    assert (said.status, said.error) == ("error", "context_length_exceeded")


# ---- content


def test_prompt_tools_and_answer() -> None:
    tool = '{"type":"function","name":"look","inputSchema":{"type":"object"}}'
    said = told(
        {
            "ai.prompt.messages": f"[{SYSTEM},{USER}]",
            "ai.prompt.tools": [tool],
            "ai.response.reasoning": "hm",
            "ai.response.text": "One moment.",
            "ai.response.toolCalls": '[{"toolCallId":"c1","toolName":"look","input":"{\\"a\\":1}"}]',
        }
    )

    assert said.messages == Raw(
        "messages", f"[{SYSTEM},{USER}]"
    )  # as it came, for whoever knows its beginning
    assert [(p.kind, p.text) for p in parts(said.messages)] == [
        ("system", "Be kind."),
        ("user", "Where is it?"),
    ]
    assert [(p.kind, p.name) for p in parts(said.tools)] == [("tools", "look")]
    assert [(p.kind, p.name, p.text) for p in parts(said.output)] == [
        ("thinking", "", "hm"),
        ("assistant", "", "One moment."),
        ("tool_call", "look", '{"a":1}'),
    ]
    assert not said.reasons
    assert not said.lost


def test_an_object_is_an_answer() -> None:
    assert [p.text for p in parts(told({"ai.response.object": '{"a":1}'}).output)] == ['{"a":1}']


def test_a_request_without_tools_lost_none() -> None:
    said = told({"ai.prompt.messages": f"[{USER}]"})

    assert (said.tools, said.lost) == (None, frozenset())


@pytest.mark.parametrize(
    ("attributes", "dropped", "reasons", "lost"),
    [
        ({}, 0, {"not_captured"}, {"tools", "system", "messages"}),
        ({}, 3, {"attributes_dropped"}, {"tools", "system", "messages"}),
        ({"ai.prompt.messages": f"[{USER}]"}, 3, {"attributes_dropped"}, {"tools"}),
        ({"ai.prompt.messages": "[REDACTED]"}, 0, {"redacted"}, {"system", "messages"}),
        ({"ai.prompt.messages": f"[{SYSTEM},{USER[:-9]}"}, 0, {"value_cut"}, {"messages"}),
        ({"ai.prompt.messages": f"[{SYSTEM[:-9]}"}, 0, {"value_cut"}, {"system", "messages"}),
    ],
)
def test_what_is_missing_is_said(
    attributes: dict[str, Any], dropped: int, reasons: set[str], lost: set[str]
) -> None:
    said = told(attributes, dropped_attributes=dropped)

    assert (said.reasons, said.lost) == (reasons, lost)


def test_definitions_are_cut_one_by_one() -> None:
    tool = '{"type":"function","name":"look","description":"Looks."}'
    said = told(
        {"ai.prompt.messages": f"[{USER}]", "ai.prompt.tools": [tool, tool.replace("look", "find")[:-4], "{"]}
    )

    assert [p.name for p in parts(said.tools)][:2] == ["look", "find"]
    assert (said.reasons, said.lost) == ({"value_cut"}, {"tools"})


def test_a_rewriter_has_moved_the_content() -> None:
    message = '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]'
    said = told({"gen_ai.input.messages": message, "gen_ai.tool.definitions": "[]"})

    assert said.messages == Raw("messages", message)
    assert not said.lost


# ---- usage

RAW = {
    "input_tokens": 5,
    "cache_read_input_tokens": 70,
    "cache_creation_input_tokens": 20,
    "output_tokens": 2,
}
OLD_ANTHROPIC = {"cacheCreationInputTokens": 20, "cacheReadInputTokens": 70}


@pytest.mark.parametrize(
    ("attributes", "metadata", "expected"),
    [
        # 4: the metadata alone have cached counts
        (
            {"ai.usage.promptTokens": 95, "ai.model.provider": "anthropic.messages"},
            {"anthropic": OLD_ANTHROPIC},
            (95, 70, 20, "exclusive"),
        ),
        ({"ai.usage.promptTokens": 95}, {"openai": {"cachedPromptTokens": 70}}, (95, 70, None, "inclusive")),
        # 5
        (
            {"ai.usage.inputTokens": 5, "ai.model.provider": "anthropic.messages"},
            {"anthropic": {"usage": RAW}},
            (5, 70, 20, "exclusive"),
        ),
        (
            {"ai.usage.inputTokens": 5, "ai.model.provider": "amazon-bedrock"},
            {"bedrock": {"usage": {"cacheReadInputTokens": 70, "cacheWriteInputTokens": 20}}},
            (5, 70, 20, "exclusive"),
        ),
        (
            {"ai.usage.inputTokens": 95, "ai.model.provider": "google.generative-ai"},
            {"google": {"usageMetadata": {"promptTokenCount": 95, "cachedContentTokenCount": 70}}},
            (95, 70, None, "inclusive"),
        ),
        # 6: the details, else Anthropic's own numbers, else the version
        (
            {
                "ai.usage.inputTokens": 95,
                "ai.usage.inputTokenDetails.cacheReadTokens": 70,
                "ai.usage.inputTokenDetails.cacheWriteTokens": 20,
                "ai.model.provider": "anthropic.messages",
            },
            {},
            (95, 70, 20, "inclusive"),
        ),
        (
            {"ai.usage.inputTokens": 95, "ai.model.provider": "anthropic.messages"},
            {"anthropic": {"usage": RAW}},
            (95, 70, 20, "inclusive"),
        ),
        (
            {
                "ai.usage.inputTokens": 95,
                "ai.model.provider": "anthropic.messages",
                "ai.request.headers.user-agent": "shop/1.0 ai/6.0.326",
            },
            {},
            (95, None, None, "inclusive"),
        ),
        # a rewriter's names, and another library's version
        (
            {
                "gen_ai.usage.input_tokens": 95,
                "gen_ai.usage.cache_read.input_tokens": 70,
                "ai.sdk.version": "5.0.277",
                "ai.request.headers.user-agent": "openai/6.1",
                "ai.model.provider": "anthropic.messages",
            },
            {},
            (95, 70, None, "exclusive"),
        ),
    ],
)
def test_whether_the_input_includes_the_cached_tokens(
    attributes: dict[str, Any], metadata: dict[str, Any], expected: tuple[int, int | None, int | None, str]
) -> None:
    usage = told(attributes | {"ai.response.providerMetadata": json.dumps(metadata)}).usage

    assert usage is not None
    assert (usage.input, usage.cache_read, usage.cache_write, usage.semantics) == expected
    assert usage.semantics_evidence


def test_the_split_by_ttl() -> None:
    raw = RAW | {"cache_creation": {"ephemeral_5m_input_tokens": 12, "ephemeral_1h_input_tokens": 8}}
    usage = told(
        {
            "ai.usage.inputTokens": 5,
            "ai.response.providerMetadata": json.dumps({"anthropic": {"usage": raw}}),
        }
    ).usage

    assert usage is not None
    assert (usage.cache_write_5m, usage.cache_write_1h) == (12, 8)


def test_no_part_of_the_input_is_left_over() -> None:
    details = {"ai.usage.inputTokens": 95, "ai.usage.inputTokenDetails.noCacheTokens": 25}
    whole = told(details | {"ai.usage.inputTokenDetails.cacheReadTokens": 70}).usage
    rest = told(details).usage

    assert whole is not None
    assert rest is not None
    assert whole.zeros_omitted
    assert not rest.zeros_omitted


def test_a_parent_has_no_input_that_cannot_be_summed() -> None:
    numbers = {"ai.usage.promptTokens": 5, "ai.usage.completionTokens": 2}
    parent = {"ai.operationId": "ai.streamText", "ai.response.providerMetadata": '{"anthropic":{}}'}
    openai = vercel.read(span(CALL | numbers | parent))
    anthropic = vercel.read(span(CALL | numbers | parent | {"ai.model.provider": "anthropic.messages"}))

    assert openai is not None
    assert openai.usage is not None
    assert openai.usage.input == 5
    assert anthropic is not None
    assert anthropic.usage is not None
    assert (anthropic.usage.input, anthropic.usage.output) == (None, 2)


def test_no_numbers_are_no_usage() -> None:
    assert told({"ai.response.providerMetadata": '{"anthropic":'}).usage is None


# ---- messages as other JavaScript packages write them


def _as_text(items: str, **more: Any) -> Any:
    message = [{"role": "user", "parts": [{"type": "text", "content": items}]}]
    return _in_the_conventions(json.dumps(message, separators=(",", ":")), **more)


def _in_the_conventions(messages: str, **more: Any) -> Any:
    said = genai.read(
        span(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": messages,
                "gen_ai.tool.definitions": "[{}]",
                **more,
            }
        )
    )
    assert said is not None
    assert said.messages is not None
    assert said.lost == ({"system"} if said.messages.value != messages else set())  # the instructions
    return said.messages.value


ITEMS = (
    '[{"role":"user","content":"hi"},'
    '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},'
    '{"type":"function_call_output","call_id":"c","output":"r"}]'
)


def test_the_items_of_a_request_are_its_messages() -> None:
    assert _as_text(ITEMS) == ITEMS
    assert _as_text(ITEMS, **{"gen_ai.response.id": "resp_1"}) == ITEMS
    assert [p.kind for p in read_messages(ITEMS)[0]] == ["user", "tool_call", "tool_result"]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (ITEMS, {"gen_ai.response.id": "chatcmpl-1"}),  # a judge asks about a conversation
        ('[{"city":"Oslo"},{"role":"user","content":"hi"}]', {}),
        ('[{"role":"thief","content":"hi"}]', {}),
        ('[{"role":["user"],"content":"hi"}]', {}),
        (ITEMS[:-1], {}),
        ("[{", {}),
    ],
)
def test_a_text_that_only_looks_like_items(text: str, more: dict[str, Any]) -> None:
    assert read_messages(_as_text(text, **more))[0][0].text == text


@pytest.mark.parametrize("end", [',"parts":5}]', ',"parts":[5]}]', "},{}]"])
def test_items_are_the_only_text_of_the_only_message(end: str) -> None:
    messages = (
        '[{"role":"user","parts":[{"type":"text","content":"[{\\"role\\":\\"user\\",\\"content\\":1}]"}]'
        + end
    )

    assert loads(messages)
    assert _in_the_conventions(messages) == messages


def test_blocks_of_which_nothing_is_left_are_no_parts() -> None:
    kept = {"type": "text", "content": "hi"}
    empty = [
        {"type": "custom"},
        {"type": "custom", "kind": "openai.compaction"},
        {"type": "tool_approval_response", "approval_id": "a", "approved": True},
    ]

    parts_read, _ = read_messages([{"role": "assistant", "parts": [*empty, kept]}])

    assert [p.text for p in parts_read] == ["hi"]


@pytest.mark.parametrize(("role", "count"), [("assistant", 0), ("user", 1), ("tool", 1)])
def test_an_empty_list_is_the_content_of_an_answer_that_calls_tools(role: str, count: int) -> None:
    message = {"role": role, "parts": [{"type": "text", "content": "[]"}]}

    assert len(read_messages([message])[0]) == count


@pytest.mark.parametrize(
    ("options", "marker"),
    [
        ({"anthropic": {"cacheControl": {"type": "ephemeral", "ttl": "1h"}}}, "1h"),
        ({"bedrock": {"cachePoint": {"type": "default"}}}, "default"),
        ({"openai": {"store": True}, "anthropic": None}, ""),
    ],
)
def test_cache_markers_in_the_options_of_a_provider(options: dict[str, Any], marker: str) -> None:
    text = {"type": "text", "text": "hi"}
    for where in ("providerOptions", "providerMetadata"):
        on_message, _ = read_messages([{"role": "user", "content": [text], where: options}])
        on_block, _ = read_messages([{"role": "user", "content": [text | {where: options}]}])
        on_tool = read_tools([{"type": "function", "name": "f", where: options}])

        assert [p.cache_marker for p in (*on_message, *on_block, *on_tool)] == [marker] * 3
        assert not marker or where not in on_tool[0].text


# ---- anything at all

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["[", "{", '[{"role":', "[REDACTED]", '{"anthropic":{"usage":{}}}', '{"google":[]}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_names = st.sampled_from(
    [
        "ai.prompt.messages",
        "ai.prompt.tools",
        "ai.response.text",
        "ai.response.toolCalls",
        "ai.response.providerMetadata",
        "ai.usage.inputTokens",
        "ai.usage.inputTokenDetails.noCacheTokens",
        "ai.model.provider",
        "ai.request.headers.user-agent",
        "ai.sdk.version",
        *semconv.INPUT,
        *semconv.CONVERSATION,
    ]
)


@given(st.dictionaries(_names, _values, max_size=8), st.sampled_from(["ai.streamText", "x.doStream", "x"]))
def test_no_span_is_too_odd(attributes: dict[str, Any], operation: str) -> None:
    said = vercel.read(span({**attributes, "ai.operationId": operation}))

    assert said is None or said.trace_id == "t"
