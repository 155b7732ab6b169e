"""The reader of what no other reader knows: shapes under any name, what is no call, what was answered, and numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx import dialects
from otel_ctx.dialects import generic, read
from otel_ctx.dialects.generic import names
from otel_ctx.engine import Engine
from otel_ctx.model import Event, Span, Telling, UsageClaim
from otel_ctx.outputs.report import Inputs, build
from tests.dialects import pairs, parts, span, texts

RULES = "You are the clerk of a shop. Be precise and kind."
LOOK = {"name": "look", "description": "Looks it up.", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": LOOK}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"id":1}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": RULES},
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
]
SAID = [
    ("system", RULES), ("user", "Where is it?"), ("tool_call", '{"id":1}'), ("tool_result", "shipped"),
]  # fmt: skip
ANSWER = "It is on its way."
USAGE = {
    "prompt_tokens": 90,
    "completion_tokens": 8,
    "total_tokens": 98,
    "prompt_tokens_details": {"cached_tokens": 64},
}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o-2024-08-06",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
    "usage": USAGE,
}
REQUEST = {"model": "gpt-4o", "messages": CHAT, "tools": [TOOL], "max_tokens": 500}


def told(attributes: Mapping[str, Any], *events: Event, **more: Any) -> Telling:
    said = generic.read(span(attributes, *events, **more))
    assert said is not None
    return said


def prompt(said: Telling) -> list[tuple[str, str]]:
    """Kind and text of each part, the system prompt first."""
    return [*pairs(said.system), *pairs(said.messages)]


def numbers(usage: UsageClaim | None) -> tuple[int | None, ...]:
    assert usage is not None
    return usage.input, usage.output, usage.cache_read, usage.cache_write


def dumped(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """As SDKs that know plain values only write them."""
    return {k: v if isinstance(v, (str, int, float)) else json.dumps(v) for k, v in attributes.items()}


def event(name: str, attributes: Mapping[str, Any]) -> Event:
    return Event(name, 1, attributes)


# ---- libraries as they write their spans

# MLflow 3: every attribute is JSON, a string too. https://mlflow.org/docs/latest/genai/concepts/span/
MLFLOW = {
    "mlflow.traceRequestId": '"tr-1"',
    "mlflow.spanType": '"CHAT_MODEL"',
    "mlflow.spanInputs": json.dumps(REQUEST),
    "mlflow.spanOutputs": json.dumps(COMPLETION),
    "mlflow.chat.tools": json.dumps([TOOL]),
    "mlflow.chat.tokenUsage": json.dumps({"input_tokens": 90, "output_tokens": 8, "total_tokens": 98}),
    "model": '"gpt-4o"',
}
# DSPy traced by MLflow: what LM.__call__ was given and returned, the answers as plain texts.
DSPY = {
    "mlflow.spanType": '"CHAT_MODEL"',
    "mlflow.spanInputs": json.dumps({"prompt": None, "messages": CHAT, "kwargs": {"max_tokens": 500}}),
    "mlflow.spanOutputs": json.dumps([ANSWER]),
    "model": '"openai/gpt-4o"',
}
# Genkit: https://github.com/genkit-ai/genkit, its own names for usage beside the provider's response.
GENKIT = {
    "genkit:type": "action",
    "genkit:metadata:subtype": "model",
    "genkit:name": "openai/gpt-4o",
    "genkit:input": json.dumps(
        {
            "messages": [
                {"role": "system", "content": [{"text": RULES}]},
                {"role": "user", "content": [{"text": "Where is it?"}]},
                {
                    "role": "model",
                    "content": [{"toolRequest": {"name": "look", "ref": "c1", "input": {"id": 1}}}],
                },
                {
                    "role": "tool",
                    "content": [{"toolResponse": {"name": "look", "ref": "c1", "output": "shipped"}}],
                },
            ],
            "tools": [{"name": "look", "description": "Looks it up.", "inputSchema": {"type": "object"}}],
            "config": {},
        }
    ),
    "genkit:output": json.dumps(
        {
            "message": {"role": "model", "content": [{"text": ANSWER}]},
            "finishReason": "stop",
            "usage": {"inputTokens": 90, "outputTokens": 8, "totalTokens": 98},
            "raw": COMPLETION,
        }
    ),
}
# Langtrace before it took the conventions' names: https://github.com/Scale3-Labs/langtrace-python-sdk
LANGTRACE = {
    "langtrace.service.type": "llm",
    "langtrace.service.name": "OpenAI",
    "llm.model": "gpt-4o",
    "llm.prompts": json.dumps(CHAT),
    "llm.function.prompts": json.dumps([TOOL]),
    "llm.responses": json.dumps([{"message": {"role": "assistant", "content": ANSWER}}]),
    "llm.token.counts": json.dumps({"input_tokens": 90, "output_tokens": 8, "total_tokens": 98}),
}
# Braintrust: https://github.com/braintrustdata/braintrust-sdk, choices as the output, a type in JSON.
BRAINTRUST = {
    "braintrust.span_attributes": json.dumps({"type": "llm"}),
    "braintrust.metadata": json.dumps({"model": "gpt-4o", "provider": "openai", "tools": [TOOL]}),
    "braintrust.input_json": json.dumps(CHAT),
    "braintrust.output_json": json.dumps(COMPLETION["choices"]),
    "braintrust.metrics": json.dumps(
        {"prompt_tokens": 90, "completion_tokens": 8, "tokens": 98, "prompt_cached_tokens": 64}
    ),
}
# Laminar: https://github.com/lmnr-ai/lmnr-python
LAMINAR = {
    "lmnr.span.type": "LLM",
    "lmnr.span.input": json.dumps(CHAT),
    "lmnr.span.output": json.dumps([{"role": "assistant", "content": ANSWER}]),
    "lmnr.association.properties.session_id": "s1",
    "llm.request.model": "gpt-4o",
    "tools": json.dumps([TOOL]),
    "llm.usage.input_tokens": 90,
    "llm.usage.output_tokens": 8,
}
# Values as OTLP nests them, and a list of items whose names count.
NESTED = {"op.kind": "llm", "acme.request": REQUEST, "acme.response": COMPLETION}
INDEXED = {
    "acme.span.kind": "model",
    "acme.model": "gpt-4o",
    "acme.prompt[0].role": "system",
    "acme.prompt[0].content": RULES,
    "acme.prompt[1].role": "user",
    "acme.prompt[1].content": "Where is it?",
    "acme.prompt[2].role": "assistant",
    "acme.prompt[2].tool_calls[0].id": "c1",
    "acme.prompt[2].tool_calls[0].function.name": "look",
    "acme.prompt[2].tool_calls[0].function.arguments": '{"id":1}',
    "acme.prompt[3].role": "tool",
    "acme.prompt[3].tool_call_id": "c1",
    "acme.prompt[3].content": "shipped",
    "acme.tools.0.name": "look",
    "acme.tools.0.description": "Looks it up.",
    "acme.tools.0.parameters": '{"type": "object"}',
    "acme.completion.0.role": "assistant",
    "acme.completion.0.content": ANSWER,
    "acme.tokens.prompt": 90,
    "acme.tokens.completion": 8,
}
# A dict that Python printed, as LiteLLM's raw spans have it: https://github.com/BerriAI/litellm
PRINTED = {
    "llm.openai.model": "gpt-4o",
    "llm.openai.messages": str(CHAT),
    "llm.openai.tools": str([TOOL]),
    "llm.openai.choices": str(COMPLETION["choices"]),
    "llm.openai.usage": str(USAGE),
}
LIBRARIES = {
    "MLflow": MLFLOW, "DSPy": DSPY, "Genkit": GENKIT, "Langtrace": LANGTRACE, "Braintrust": BRAINTRUST,
    "Laminar": LAMINAR, "nested": NESTED, "indexed": INDEXED, "printed": PRINTED,
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_that_nobody_knows(library: str) -> None:
    said = read(span(LIBRARIES[library]))

    assert said is not None
    assert (said.dialect, said.role) == ("generic", "call")
    assert prompt(said) == SAID
    assert texts(said.output) == [ANSWER]
    assert "guessed" in said.reasons
    assert said.guess


@pytest.mark.parametrize("library", LIBRARIES)
def test_its_tools_model_and_numbers(library: str) -> None:
    said = told(LIBRARIES[library])

    assert [p.name for p in parts(said.tools)] == ([] if library == "DSPy" else ["look"])
    assert "gpt-4o" in (said.request_model or said.response_model)
    if library != "DSPy":
        assert numbers(said.usage)[:2] == (90, 8)


def test_prompt_flow_has_its_payloads_in_events() -> None:
    # https://microsoft.github.io/promptflow/reference/trace-span-spec-reference.html
    attributes = {
        "framework": "promptflow",
        "span_type": "LLM",
        "llm.response.model": "gpt-4",
        "llm.usage.prompt_tokens": 90,
        "llm.usage.completion_tokens": 8,
        "__computed__.cumulative_token_count.prompt": 900,
    }
    spoken = {"role": "assistant", "content": ANSWER}

    said = told(
        attributes,
        event("promptflow.function.inputs", {"payload": json.dumps({"messages": CHAT, "model": "gpt-4"})}),
        event("promptflow.function.output", {"payload": json.dumps({**COMPLETION, "usage": None})}),
        event("promptflow.llm.generated_message", {"payload": json.dumps(spoken)}),
    )

    assert prompt(said) == SAID
    assert texts(said.output) == [ANSWER]
    assert numbers(said.usage)[:2] == (90, 8)


BODIES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "OpenAI Chat": (REQUEST, SAID),
    "OpenAI Responses": (
        {
            "model": "gpt-4.1",
            "instructions": RULES,
            "input": [{"role": "user", "content": "Where is it?"}],
            "tools": [{"type": "function", **LOOK}],
        },
        SAID[:2],
    ),
    "Anthropic": (
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 500,
            "system": [{"type": "text", "text": RULES}],
            "messages": [{"role": "user", "content": "Where is it?"}],
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        },
        SAID[:2],
    ),
    "Gemini": (
        {
            "model": "gemini-2.5-flash",
            "systemInstruction": {"parts": [{"text": RULES}]},
            "contents": [{"role": "user", "parts": [{"text": "Where is it?"}]}],
            "tools": [{"functionDeclarations": [LOOK]}],
        },
        SAID[:2],
    ),
    "Bedrock Converse": (
        {
            "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "system": [{"text": RULES}],
            "messages": [{"role": "user", "content": [{"text": "Where is it?"}]}],
            "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]},
        },
        SAID[:2],
    ),
}


@pytest.mark.parametrize("where", ["http.request.body", "acme.payload", "input.value", "request"])
@pytest.mark.parametrize("api", BODIES)
def test_a_request_body_under_any_key(api: str, where: str) -> None:
    body, expected = BODIES[api]

    said = told({where: json.dumps(body)})

    assert prompt(said) == expected
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert said.request_model == (body.get("model") or body["modelId"])


@pytest.mark.parametrize("wrapper", ["kwargs", "input", "data"])
def test_a_body_in_a_wrapper(wrapper: str) -> None:
    assert prompt(told({"call.inputs": json.dumps({"args": [], wrapper: REQUEST})})) == SAID


# ---- what is no call


KINDS = [
    "tool", "TOOL", "execute_tool", "retriever", "EMBEDDING", "rerank", "guardrail", "EVALUATOR", "parser",
    "knowledge-retrieval", "ai.toolCall", "moderation", "prompt",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key", ["openinference.span.kind", "mlflow.spanType", "acme.observation.type", "span_type"]
)
def test_who_says_that_it_is_something_else_is_no_call(key: str, kind: str) -> None:
    assert generic.read(span(dumped({**NESTED, key: kind, "op.kind": "LLM"}))) is None


@pytest.mark.parametrize("name", ["embeddings text-embedding-3-small", "tool.search", "ToolCall", "rerank"])
def test_a_span_that_says_nothing_but_its_name(name: str) -> None:
    attributes = dumped({"model": "x", "input": CHAT, "usage.prompt_tokens": 9})

    assert generic.read(replace(span(attributes), name=name)) is None
    assert generic.read(replace(span(attributes), name="POST /v1/x")) is not None


@pytest.mark.parametrize(
    "attributes",
    [
        {"http.request.method": "POST", "url.full": "https://api.openai.com/v1/chat/completions"},
        {"db.system": "postgresql", "db.operation.name": "SELECT", "db.query.text": "SELECT 1"},
        {"session.id": "s1", "thread.id": 7, "code.function": "chat"},
        {"input": json.dumps({"query": "shoes"}), "output": json.dumps([{"content": "a", "meta": {}}])},
        {
            "documents": json.dumps(
                [{"lc": 1, "id": ["langchain", "Document"], "kwargs": {"page_content": "a"}}]
            )
        },
        {"state.input": json.dumps({"messages": CHAT}), "state.output": json.dumps({"next": "end"})},
        {"gen_ai.request.model": "text-embedding-3-small", "input": "a", "usage.prompt_tokens": 3},
    ],
)
def test_a_span_without_a_call_is_none(attributes: dict[str, Any]) -> None:
    assert generic.read(span(attributes)) is None


def test_an_agent_sums_the_calls_below() -> None:
    attributes = {"acme.span.kind": "AGENT", "agent.name": "clerk", "session.id": "s1", "model": "gpt-4o"}
    said = told({**attributes, **dumped({"input": CHAT, "tools": [TOOL], "usage.input_tokens": 900})})

    assert (said.role, said.agent, said.conversation_hint) == ("aggregate", "clerk", "s1")
    assert (said.messages, said.output) == (None, None)
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert said.usage is not None
    assert said.usage.input == 900


def test_an_agents_bare_names_of_tools_are_no_definitions() -> None:
    said = told({"acme.span.kind": "agent", "acme.tools": '["look"]'})

    assert said.lost == {"tools"}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("CHAT_MODEL", "call"), ("llm", "call"), ("ai.generateText.doGenerate clerk-agent", "call"), ("chat", "call"),
        ("generation", "call"), ("text_completion", "call"), ("model_inference", "call"), ("LLMChain", "sum"),
        ("invoke_agent clerk", "sum"), ("WORKFLOW", "sum"), ("model_step", "sum"), ("execute_tool look", "other"),
        ("model_chunk", "other"), ("count_tokens", "other"), ("server", ""), ("span", ""), ("", ""),
    ],
)  # fmt: skip
def test_words_for_kinds(value: str, kind: str) -> None:
    assert names.kind_of(value) == kind


# ---- what was answered is no prompt


@pytest.mark.parametrize(
    "key", ["output.value", "llm.completions", "acme.response", "genOutputs", "result", "reply"]
)
def test_messages_on_the_answers_side(key: str) -> None:
    said = told({"model": "gpt-4o", key: json.dumps(CHAT), "usage.input_tokens": 9})

    assert said.messages is None
    assert "not_captured" in said.reasons


@pytest.mark.parametrize("key", ["messages", "input.messages"])
def test_an_answer_that_was_appended_is_cut_off(key: str) -> None:
    spoken = {"role": "assistant", "content": ANSWER}
    said = told({"model": "gpt-4o", **dumped({key: [*CHAT, spoken], "output": [spoken]})})

    assert prompt(said) == SAID
    assert texts(said.output) == [ANSWER]


def test_what_the_model_said_last_is_the_answer_where_nothing_says_otherwise() -> None:
    spoken = {"role": "assistant", "content": ANSWER}

    said = told({"model": "gpt-4o", "usage.input_tokens": 9, "messages": json.dumps([*CHAT, spoken])})
    asked = told({"model": "gpt-4o", "usage.input_tokens": 9, "input.messages": json.dumps([*CHAT, spoken])})

    assert (prompt(said), texts(said.output)) == (SAID, [ANSWER])
    assert prompt(asked) == [*SAID, ("assistant", ANSWER)]


def test_a_list_that_went_on_ends_before_the_answer() -> None:
    spoken = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    said = told({"model": "gpt-4o", **dumped({"input": CHAT, "output": [spoken]})})

    assert prompt(said) == SAID[:2]


def test_ids_that_come_again_end_nothing() -> None:
    """Google's libraries invent them: name and position."""
    again = {**CALL, "function": {"name": "look", "arguments": '{"id":2}'}}
    spoken = {"role": "assistant", "content": None, "tool_calls": [again]}

    assert prompt(told({"model": "g", **dumped({"input": CHAT, "output": [spoken]})})) == SAID


def test_a_response_repeats_the_request() -> None:
    """OpenAI's Responses: the tools and the instructions are those that were asked with."""
    response = {
        "id": "resp_1", "object": "response", "model": "gpt-4.1", "instructions": RULES,
        "tools": [{"type": "function", **LOOK}],
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}],
        "usage": {"input_tokens": 90, "output_tokens": 8, "input_tokens_details": {"cached_tokens": 64}},
    }  # fmt: skip
    said = told(dumped({"raw_input": [{"role": "user", "content": "Where is it?"}], "response": response}))

    assert prompt(said) == SAID[:2]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert (said.response_id, said.response_model) == ("resp_1", "gpt-4.1")
    assert numbers(said.usage) == (90, 8, 64, None)


def test_events_hold_a_message_each() -> None:
    said = told(
        {"model": "gpt-4o"},
        event("acme.message", {"role": "system", "content": RULES}),
        event("acme.message", {"role": "user", "content": "Where is it?"}),
        event("acme.completion", {"role": "assistant", "content": ANSWER}),
        event("exception", {"exception.message": "a user"}),
    )

    assert prompt(said) == SAID[:2]
    assert texts(said.output) == [ANSWER]


def test_a_system_prompt_of_its_own() -> None:
    asked = [{"role": "user", "content": "Where is it?"}]
    for key, held in (
        ("system_prompt", RULES),
        ("acme.system_instructions", [{"type": "text", "text": RULES}]),
    ):
        said = told({"model": "gpt-4o", "gen_ai.system": "openai", **dumped({"input": asked, key: held})})

        assert prompt(said) == SAID[:2]
        assert said.provider == "openai"


def test_plain_text_is_a_prompt_where_the_span_says_that_it_is_a_call() -> None:
    text = "Once upon a time there was a clerk."

    assert prompt(told({"span.kind": "LLM", "input.value": text, "output.value": "The end."})) == [
        ("user", text)
    ]
    assert generic.read(span({"model": "gpt-4o", "input.value": text})) is None


def test_tools_that_stand_as_messages() -> None:
    """Langfuse's handler of LangChain: each definition as the content of a tool's message, at the end."""
    listed = [*CHAT, {"role": "tool", "content": TOOL}]

    said = told({"model": "gpt-4o", "input": json.dumps(listed)})

    assert prompt(said) == SAID
    assert [p.name for p in parts(said.tools)] == ["look"]


# ---- which of several tellings


def test_the_fuller_telling_wins_and_the_rest_completes_it() -> None:
    """OpenInference over Bedrock: the messages alone in one, the system prompt in the other."""
    rest = CHAT[1:]
    said = told(
        {"model": "m", **dumped({"input.value": rest, "input.messages": CHAT, "last.input": rest[:1]})}
    )

    assert prompt(said) == SAID


def test_a_telling_without_the_calls_of_its_results_is_damaged() -> None:
    lossy = {"model": "gpt-4o", "messages": [CHAT[0], CHAT[1], {"role": "assistant", "content": ""}, CHAT[3]]}

    assert prompt(told(dumped({"input.value": lossy, "prompt.messages": CHAT}))) == SAID


# ---- what limits and masks took


def test_json_that_was_cut() -> None:
    whole = json.dumps(CHAT)
    said = told({"model": "gpt-4o", "input": whole[:-30], "tools": json.dumps([TOOL])[:-30]})

    assert said.reasons >= {"value_cut", "guessed"}
    assert said.lost >= {"messages", "tools"}
    assert prompt(said)[:3] == SAID[:3]


def test_indexed_messages_without_their_head() -> None:
    left = {k: v for k, v in INDEXED.items() if "prompt[0]" not in k and k != "acme.prompt[1].role"}
    said = told(left, dropped_attributes=3)

    assert said.lost >= {"head", "system"}
    assert "attributes_dropped" in said.reasons
    assert prompt(said) == SAID[1:]


def test_javascript_drops_the_newest() -> None:
    said = told(INDEXED, dropped_attributes=3, resource={"telemetry.sdk.language": "nodejs"})

    assert "messages" in said.lost


def test_a_hole_in_the_messages() -> None:
    said = told({k: v for k, v in INDEXED.items() if "prompt[2]" not in k})

    assert (said.reasons >= {"not_captured"}, "messages" in said.lost) == (True, True)


@pytest.mark.parametrize("mask", ["__REDACTED__", "***", "[Filtered]"])
def test_what_was_hidden_is_taken_from_nowhere(mask: str) -> None:
    said = told({**MLFLOW, "acme.prompt": mask})

    assert (said.messages, said.tools, said.system) == (None, None, None)
    assert "redacted" in said.reasons
    assert numbers(said.usage)[0] == 90


def test_tools_that_nobody_told_are_missing_ones() -> None:
    said = told(DSPY)

    assert said.lost == {"tools"}
    assert "schema_missing" in said.reasons


def test_a_history_on_the_server() -> None:
    body = {"model": "gpt-4.1", "input": "Where is it?", "previous_response_id": "resp_1"}
    said = told({"request": json.dumps(body)})

    assert said.previous_response_id == "resp_1"
    assert "head" in said.lost


# ---- numbers


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("gen_ai.usage.input_tokens", "input"), ("llm.token_count.prompt", "input"), ("ai.usage.promptTokens", "input"),
        ("promptTokenCount", "input"), ("usage.input", "input"), ("gen_ai.usage.output_tokens", "output"),
        ("candidatesTokenCount", "output"), ("llm.usage.total_tokens", "total"), ("thoughtsTokenCount", "reasoning"),
        ("gen_ai.usage.cache_read.input_tokens", "cache_read"), ("ai.usage.cachedInputTokens", "cache_read"),
        ("usage.prompt_tokens_details.cached_tokens", "cache_read"), ("prompt_cache_hit_tokens", "cache_read"),
        ("llm.token_count.prompt_details.cache_read", "cache_read"),
        ("gen_ai.usage.cache_creation.input_tokens", "cache_write"), ("cacheWriteInputTokens", "cache_write"),
        ("x.usage.cache_creation.ephemeral_1h_input_tokens", "cache_write_1h"),
        ("gen_ai.request.max_tokens", None), ("gen_ai.usage.cost", None), ("gen_ai.usage.audio.input_tokens", None),
        ("prompt_cache_miss_tokens", None), ("acme.aggregated_usage.input_tokens", None), ("http.request.size", None),
        ("pydantic_ai.cache.established_tokens", None), ("codex.turn.token_usage.input_tokens", None),
        ("completion_tokens_details.accepted_prediction_tokens", None), ("gen_ai.server.time_per_output_token", None),
    ],
)  # fmt: skip
def test_words_for_counts(name: str, count: str | None) -> None:
    assert names.count_of(names.words(name)) == count


def test_what_input_includes_is_left_open() -> None:
    attributes = {
        "model": "claude-x",
        "usage.input_tokens": 900,
        "usage.cache_read_tokens": 500,
        "usage.output_tokens": 8,
    }
    claim = told(attributes).usage

    assert claim == UsageClaim(input=900, output=8, cache_read=500, guessed=True)


def test_a_providers_own_usage_says_it() -> None:
    """MLflow over Anthropic: its own sum beside the response, which excludes cached tokens."""
    response = {
        "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": ANSWER}],
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 10, "output_tokens": 8},
    }  # fmt: skip
    claim = told({**MLFLOW, "mlflow.spanOutputs": json.dumps(response)}).usage

    assert claim is not None
    assert (claim.input, claim.cache_read, claim.cache_write, claim.semantics) == (20, 60, 10, "exclusive")


def test_a_providers_names_alone_say_nothing() -> None:
    """A framework's usage may have Anthropic's names and mean sums."""
    usage = {"input_tokens": 90, "cache_read_input_tokens": 60, "output_tokens": 8}
    claim = told({"model": "claude-x", "chat.tokenUsage": json.dumps(usage)}).usage

    assert claim == UsageClaim(input=90, output=8, cache_read=60, guessed=True)


def test_both_inputs_side_by_side() -> None:
    attributes = {"model": "m", "a.usage.input_tokens": 90, "input_tokens": 30, "cache_read_tokens": 60}
    claim = told(attributes).usage

    assert claim is not None
    assert (claim.input, claim.semantics) == (90, "inclusive")


def test_a_number_in_what_was_asked_is_no_count() -> None:
    held = {"query": "shoes", "tokens": 7, "limit": 3}

    assert told({"span.kind": "LLM", "input.value": json.dumps({**held, "messages": CHAT})}).usage is None
    assert generic.read(span({"model": "m", "input.value": json.dumps(held)})) is None


# ---- counted once


def spans(*made: tuple[str, str, Mapping[str, Any]]) -> list[Span]:
    """(id, parent, attributes) of spans of one trace, each inside the one before it in time."""
    return [
        Span("t" * 32, id_, parent, id_, 10 + n, 1_000 - n, attributes)
        for n, (id_, parent, attributes) in enumerate(made)
    ]


def calls(made: list[Span]) -> list[dict[str, Any]]:
    engine = Engine()
    engine.feed(made[::-1])
    found: list[dict[str, Any]] = build(engine.close(), Inputs((), ()), include_text=True)["calls"]
    return found


def roles(call: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(s["span_id"], s["role"]) for s in call["spans"]]


CHEAP = {"model": "gpt-4o", "input": json.dumps(CHAT), "usage.input_tokens": 70, "usage.output_tokens": 3}
AGAIN = {**CHEAP, "usage.input_tokens": 80}


def test_a_guess_gives_way_to_the_call_below_it() -> None:
    """A chain that repeats its model and its state, with numbers of its own."""
    chain = {"model": "gpt-4o", "state": json.dumps({"messages": CHAT[:2]}), "usage.input_tokens": 999}

    (call,) = calls(spans(("chain", "", chain), ("call", "chain", CHEAP)))

    assert roles(call) == [("call", "primary"), ("chain", "aggregate")]
    assert call["usage"]["input"] == 70


def test_a_wrapper_with_the_same_numbers_is_the_same_call() -> None:
    (call,) = calls(spans(("outer", "", CHEAP), ("inner", "outer", CHEAP)))

    assert sorted(role for _, role in roles(call)) == ["duplicate", "primary"]


def test_a_wrapper_of_two_calls_is_none() -> None:
    made = spans(("outer", "", CHEAP), ("one", "outer", CHEAP), ("two", "outer", AGAIN))

    assert sorted(roles(c)[0][0] for c in calls(made)) == ["one", "two"]


def test_numbers_inside_a_call_are_no_second_call() -> None:
    """AG2 records the usage once more on a span below the call's."""
    usage = {"usage.input_tokens": 70, "usage.output_tokens": 3}

    (call,) = calls(spans(("call", "", CHEAP), ("record_usage", "call", usage)))

    assert roles(call)[0] == ("call", "primary")


def test_the_http_span_below_completes_a_call_of_a_known_dialect() -> None:
    """A client that traces its request bodies, below the conventions' span, which has no content."""
    chat = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 8,
    }  # fmt: skip
    post = {"http.request.method": "POST", "http.request.body": json.dumps(REQUEST)}

    (call,) = calls(spans(("chat", "", chat), ("POST", "chat", post)))

    assert [s["kind"] for s in call["segments"]["new"]] == [
        "tools", "system", "user", "tool_call", "tool_result",
    ]  # fmt: skip
    assert call["usage"]["input"] == 90


def test_spring_ai_has_the_words_on_its_client_and_the_numbers_on_its_model() -> None:
    # https://docs.spring.io/spring-ai/reference/observability/
    client = {
        "gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai", "spring.ai.kind": "chat_client",
        "gen_ai.prompt": "Where is the parcel that I sent?", "spring.ai.chat.client.conversation.id": "c1",
    }  # fmt: skip
    model = {
        "gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.id": "chatcmpl-1", "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 3,
    }  # fmt: skip

    (call,) = calls(spans(("client", "", client), ("model", "client", model)))

    assert call["usage"]["input"] == 9
    assert [(s["kind"], s["text"]) for s in call["segments"]["new"]] == [("user", client["gen_ai.prompt"])]


def test_the_evidence_names_attributes_and_shows_no_value() -> None:
    (call,) = calls(spans(("call", "", {**LAMINAR, "where is it? " * 3 + ".input": json.dumps(CHAT * 2)})))

    assert call["guess"] == [
        "call: lmnr.span.type", "usage: llm.usage.input_tokens", "messages: (attribute)", "tools: tools",
    ]  # fmt: skip


# ---- words under a library's own names, beside figures under the conventions'

FIGURES = {
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.prompt_tokens": 90,
    "gen_ai.usage.completion_tokens": 8,
}
WORDS = {
    "langwatch.span.type": "llm",
    "langwatch.input": json.dumps({"type": "chat_messages", "value": CHAT}),
    "langwatch.output": json.dumps(
        {"type": "chat_messages", "value": [{"role": "assistant", "content": ANSWER}]}
    ),
    "langwatch.params": json.dumps({"tools": [TOOL]}),
}


def test_words_under_other_names_than_the_figures_are_found() -> None:
    said = read(span(FIGURES | WORDS))

    assert said is not None
    assert said.dialect == "genai"
    assert prompt(said) == SAID
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert texts(said.output) == [ANSWER]
    assert numbers(said.usage) == numbers(read_figures().usage)
    assert "guessed" in said.reasons
    assert said.guess == ("messages: langwatch.input", "tools: langwatch.params")


def read_figures() -> Telling:
    said = read(span(FIGURES))
    assert said is not None
    return said


def test_figures_alone_stay_figures() -> None:
    alone = read_figures()
    noted = read(span(FIGURES | {"app.note": json.dumps({"order": 7})}))

    assert noted == alone
    assert not alone.guess
    assert "guessed" not in alone.reasons


def test_words_under_the_conventions_names_need_no_guess() -> None:
    told_twice = read(span(FIGURES | WORDS | {"gen_ai.input.messages": json.dumps(CHAT)}))

    assert told_twice is not None
    assert prompt(told_twice) == SAID
    assert not told_twice.guess


def test_words_that_indexes_spell_beside_figures_and_tools() -> None:
    """traceAI's: OpenInference's lists under the conventions' names."""
    messages = {
        f"gen_ai.input.messages.{n}.message.{key}": value
        for n, message in enumerate(CHAT[:2])
        for key, value in message.items()
    }
    tools = {"gen_ai.tool.definitions": json.dumps([TOOL])}
    said = read(span(FIGURES | tools | messages | {"gen_ai.span.kind": "LLM"}))

    assert said is not None
    assert prompt(said) == SAID[:2]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert said.guess == ("messages: gen_ai.input.messages",)
    assert not said.lost


def test_how_a_process_was_started_is_no_prompt() -> None:
    """Some formats lay the attributes of the resource among those of the span."""
    call = {"gen_ai.operation.name": "llm_call", "gen_ai.request.model": "gemini-2.5-flash"}
    started = "node,gemini.js,-m,gemini-2.5-flash,-p,Please read the notes and then tell me all about them."
    said = dialects.read(span({**call, "process.command_args": started}))

    assert said is not None
    assert said.messages is None
