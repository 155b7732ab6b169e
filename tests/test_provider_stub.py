"""The provider stub: its answers as real clients read them, its usage numbers by the documented rules, its log."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from tests.fidelity import wire_pieces
from tests.provider_stub import ProviderStub, script

SYSTEM = "You are the support agent of a shop. " + " ".join(
    f"Rule {n}: be kind and precise." for n in range(200)
)
SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer"},
        "sort": {"enum": ["new", "old"]},
    },
    "required": ["query", "sort"],
}
NAMES = ("search_docs", "get_order", "issue_refund")
BOTH = "Please check both, the policy and my order."
CALLED = {"query": BOTH, "sort": "new"}


@pytest.fixture
def stub() -> Iterator[ProviderStub]:
    with ProviderStub() as running:
        yield running


@pytest.fixture
def client(stub: ProviderStub) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stub.url}/v1", api_key="x") as made:
        yield made


def post(stub: ProviderStub, path: str, body: Any) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(stub.url).netloc)
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


# ---- one request a provider: the body, where it goes, and how its answer is read

CHAT = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": BOTH}],
    "tools": [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in NAMES],
}
RESPONSES = {
    "model": "gpt-4.1", "instructions": SYSTEM, "input": [{"role": "user", "content": BOTH}],
    "tools": [{"type": "function", "name": n, "parameters": SCHEMA} for n in NAMES],
}  # fmt: skip
ANTHROPIC = {
    "model": "claude-sonnet-4-5", "max_tokens": 100,
    "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": BOTH, "cache_control": {"type": "ephemeral"}}]}],
    "tools": [{"name": n, "input_schema": SCHEMA} for n in NAMES],
}  # fmt: skip
GEMINI = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [{"role": "user", "parts": [{"text": BOTH}]}],
    "tools": [{"functionDeclarations": [{"name": n, "parameters_json_schema": SCHEMA} for n in NAMES]}],
}
BEDROCK = {
    "system": [{"text": SYSTEM}, {"cachePoint": {"type": "default"}}],
    "messages": [{"role": "user", "content": [{"text": BOTH}]}],
    "toolConfig": {"tools": [{"toolSpec": {"name": n, "inputSchema": {"json": SCHEMA}}} for n in NAMES]},
}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CHAT),
    "responses": ("/v1/responses", RESPONSES),
    "anthropic": ("/v1/messages", ANTHROPIC),
    "gemini": ("/v1beta/models/gemini-2.5-flash:generateContent", GEMINI),
    "bedrock": ("/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse", BEDROCK),
}


def calls(api: str, response: dict[str, Any]) -> list[tuple[str, Any]]:
    """Name and arguments of the tool calls of an answer."""
    match api:
        case "chat":
            made = [c["function"] for c in response["choices"][0]["message"].get("tool_calls", ())]
            return [(c["name"], json.loads(c["arguments"])) for c in made]
        case "responses":
            made = [item for item in response["output"] if item["type"] == "function_call"]
            return [(c["name"], json.loads(c["arguments"])) for c in made]
        case "anthropic":
            return [(c["name"], c["input"]) for c in response["content"] if c["type"] == "tool_use"]
        case "gemini":
            parts = response["candidates"][0]["content"]["parts"]
            return [
                (p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p
            ]
        case _:
            parts = response["output"]["message"]["content"]
            return [(p["toolUse"]["name"], p["toolUse"]["input"]) for p in parts if "toolUse" in p]


@pytest.mark.parametrize("api", BODIES)
def test_both_tools_at_once(stub: ProviderStub, api: str) -> None:
    path, body = BODIES[api]
    status, data = post(stub, path, body)
    response = json.loads(data)
    (request,) = stub.requests
    assert calls(api, response) == [("search_docs", CALLED), ("get_order", CALLED)]
    assert (status, request.status, request.api) == (200, 200, api)
    assert (request.body, request.response) == (body, response)
    assert request.usage == (response.get("usage") or response["usageMetadata"])
    assert request.start_unix_nano < request.end_unix_nano


@pytest.mark.parametrize("api", BODIES)
def test_its_log_is_what_the_comparison_with_the_wire_reads(stub: ProviderStub, api: str) -> None:
    path, body = BODIES[api]
    post(stub, path, body)
    kinds = [piece.kind for piece in wire_pieces(asdict(stub.requests[0]))]
    assert kinds == ["tools"] * 3 + ["system", "user"]


@pytest.mark.parametrize("api", BODIES)
def test_an_error_on_demand_and_a_malformed_request(stub: ProviderStub, api: str) -> None:
    path, body = BODIES[api]
    stub.fail_next(429, 400)
    assert [post(stub, path, body)[0] for _ in range(3)] == [429, 400, 200]
    assert post(stub, path, b"{")[0] == post(stub, path, {"model": "x"})[0] == post(stub, path, [])[0] == 400
    assert [request.status for request in stub.requests] == [429, 400, 200, 400, 400, 400]
    assert post(stub, "/v2/other", body)[0] == 404


# ---- usage


def test_an_automatic_cache_reads_steps_of_128_from_1024(client: openai.OpenAI) -> None:
    def read(*texts: str) -> tuple[int, int]:
        messages: Any = [{"role": "user", "content": text} for text in texts]
        usage = client.chat.completions.create(model="gpt-4o", messages=messages).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0

    long, short = " word" * 1500, " word" * 900
    total, cached = read(long)
    assert (1500 < total < 1520, cached) == (True, 0)
    assert read(long) == (total, 1408), "eleven steps"
    assert read(long, "more")[1] == 1408
    assert read(" word" * 1200 + " other" * 300)[1] == 1152, "it parts inside a message"
    assert read("x" + long)[1] == 0
    assert [read(short)[1] for _ in range(2)] == [0, 0]


def anthropic_usage(stub: ProviderStub, body: dict[str, Any]) -> tuple[int, int, int, int]:
    """Uncached, read, written for five minutes, written for an hour."""
    usage = json.loads(post(stub, "/v1/messages", body)[1])["usage"]
    written = usage["cache_creation"]
    assert usage["cache_creation_input_tokens"] == sum(written.values())
    five, hour = written["ephemeral_5m_input_tokens"], written["ephemeral_1h_input_tokens"]
    return usage["input_tokens"], usage["cache_read_input_tokens"], five, hour


def test_an_explicit_cache_writes_and_reads_at_its_markers(stub: ProviderStub) -> None:
    first = anthropic_usage(stub, ANTHROPIC)
    assert first[1] == 0
    assert first[3] > 1024 > first[2] > 0, "the system prompt for an hour, the rest for five minutes"
    assert anthropic_usage(stub, ANTHROPIC) == (first[0], first[2] + first[3], 0, 0)
    other = {**ANTHROPIC, "messages": [{"role": "user", "content": "Another question"}]}
    assert anthropic_usage(stub, other)[1:] == (first[3], 0, 0), "up to the marker that both have"
    unmarked = {**other, "system": SYSTEM}
    assert anthropic_usage(stub, unmarked)[1:] == (0, 0, 0), "without a marker nothing is read"
    small = {**ANTHROPIC, "system": "short", "tools": []}
    assert anthropic_usage(stub, small)[1:] == (0, 0, 0), "too small"
    automatic = {**other, "cache_control": {"type": "ephemeral"}}
    assert anthropic_usage(stub, automatic)[1] == first[3]
    assert anthropic_usage(stub, automatic)[1] > first[3]


def test_bedrock_marks_with_a_block_of_its_own(stub: ProviderStub) -> None:
    path, body = BODIES["bedrock"]
    first, second = (json.loads(post(stub, path, body)[1])["usage"] for _ in range(2))
    assert first["cacheWriteInputTokens"] == second["cacheReadInputTokens"] > 1024
    assert (first["cacheReadInputTokens"], second["cacheWriteInputTokens"]) == (0, 0)
    assert first["inputTokens"] == second["inputTokens"] > 0


# ---- a session, and streams, as OpenAI's client reads them


def test_a_session_of_chat_completions(stub: ProviderStub, client: openai.OpenAI) -> None:
    messages: list[Any] = list(CHAT["messages"])
    spoken = []
    for user in (None, "And get_order once more?"):
        messages += [{"role": "user", "content": user}] if user else []
        for _ in range(2):
            completion = client.chat.completions.create(
                model="gpt-4o", messages=messages, tools=CHAT["tools"]
            )
            message = completion.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            messages += [
                {"role": "tool", "tool_call_id": c.id, "content": "42"} for c in message.tool_calls or ()
            ]
            spoken.append(message.content or [c.function.name for c in message.tool_calls or ()])
    assert spoken == [["search_docs", "get_order"], script.ANSWERS[0], ["get_order"], script.ANSWERS[1]]
    assert len({request.response["id"] for request in stub.requests}) == 4


@pytest.mark.parametrize("text", [BOTH, "Hello, no tools please"])
def test_a_streamed_completion_is_the_plain_one(stub: ProviderStub, client: openai.OpenAI, text: str) -> None:
    asked: Any = {**CHAT, "messages": [{"role": "user", "content": text}]}
    with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    plain = client.chat.completions.create(**asked)
    assert [r.body.get("stream", False) for r in stub.requests] == [True, False]
    assert streamed.choices[0].finish_reason == plain.choices[0].finish_reason
    assert streamed.choices[0].message.content == plain.choices[0].message.content
    (said, repeated) = (
        calls("chat", json.loads(c.model_dump_json(exclude_none=True))) for c in (streamed, plain)
    )
    assert said == repeated
    assert streamed.usage == plain.usage
    chunks = client.chat.completions.create(**asked, stream=True)
    assert all(chunk.usage is None for chunk in chunks), "nobody asked for it"


def test_a_session_of_responses_with_its_history_on_the_server(
    stub: ProviderStub, client: openai.OpenAI
) -> None:
    asked: Any = {**RESPONSES, "reasoning": {"effort": "low"}}
    with client.responses.stream(**asked) as stream:
        first = stream.get_final_response()
    assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
    results: Any = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "42"}
        for item in first.output
        if item.type == "function_call"
    ]
    asked |= {"input": results, "previous_response_id": first.id}
    second = client.responses.create(**asked)
    assert second.output_text == script.ANSWERS[0]
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens
    assert first.usage.output_tokens_details.reasoning_tokens > 0
    assert second.usage.input_tokens_details.cached_tokens >= 1024
    with pytest.raises(openai.BadRequestError, match="malformed request"):
        client.responses.create(**{**asked, "previous_response_id": "resp_unknown"})


def test_an_item_that_is_referred_to_counts_as_what_it_stands_for(
    stub: ProviderStub, client: openai.OpenAI
) -> None:
    first = client.responses.create(**RESPONSES)
    results: Any = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "42"} for item in first.output
    ]
    said: Any = RESPONSES["input"]
    sent = client.responses.create(**{**RESPONSES, "input": [*said, *first.output, *results]})
    named: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
    referred = client.responses.create(**{**RESPONSES, "input": [*said, *named, *results]})

    assert sent.usage is not None
    assert referred.usage is not None
    assert referred.usage.input_tokens == sent.usage.input_tokens
    assert referred.output_text == sent.output_text
    unknown: Any = [{"type": "item_reference", "id": "msg_unknown"}]
    with pytest.raises(openai.BadRequestError, match="malformed request"):
        client.responses.create(**{**RESPONSES, "input": [*said, *unknown]})


def test_a_client_tries_again(stub: ProviderStub, client: openai.OpenAI) -> None:
    stub.fail_next(429)
    asked: Any = CHAT
    assert client.chat.completions.create(**asked).choices[0].finish_reason == "tool_calls"
    assert [request.status for request in stub.requests] == [429, 200]
