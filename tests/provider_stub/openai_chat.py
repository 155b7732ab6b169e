"""OpenAI's Chat Completions. https://platform.openai.com/docs/api-reference/chat"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.provider_stub.interface import (
    Answer,
    Block,
    Json,
    Prompt,
    Tool,
    compact,
    halves,
    server_sent,
    text_of,
)

ERRORS = {
    429: ("rate_limit_error", "rate_limit_exceeded"),
    400: ("invalid_request_error", None),
    404: ("invalid_request_error", None),
}


def openai_error(status: int, message: str) -> tuple[dict[str, str], Json]:
    kind, code = ERRORS.get(status, ("server_error", None))
    return {"retry-after": "0"}, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def offered(body: Json) -> bool:
    return body.get("tool_choice") != "none"


class Chat:
    name = "chat"
    automatic = True
    error = staticmethod(openai_error)

    def serves(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def streams(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def prompt(self, path: str, body: Json) -> Prompt:
        tools = body.get("tools") or []
        messages = body["messages"]
        blocks = [Block(compact(tool)) for tool in tools]
        blocks += [Block(_message_text(message)) for message in messages]
        last = messages[-1]
        role = {"tool": "tool", "function": "tool", "assistant": "assistant"}.get(last["role"], "user")
        return Prompt(
            model=body["model"],
            blocks=tuple(blocks),
            role=role,  # type: ignore[arg-type]
            text=text_of(last.get("content")),
            turn=sum(m["role"] == "assistant" and not m.get("tool_calls") for m in messages),
            tools=tuple(
                Tool(tool["function"]["name"], tool["function"].get("parameters") or {})
                for tool in tools
                if tool["type"] == "function" and offered(body)
            ),
            thinks=body.get("reasoning_effort") not in (None, "none"),
        )

    def response(self, answer: Answer, body: Json) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{answer.id}_{n}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": compact(call.arguments)},
                }
                for n, call in enumerate(answer.calls)
            ]
        usage = answer.usage
        return {
            "id": f"chatcmpl-{answer.id}",
            "object": "chat.completion",
            "created": answer.created,
            "model": answer.model,
            "system_fingerprint": "fp_stub",
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "logprobs": None,
                    "finish_reason": "tool_calls" if answer.calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": usage.input,
                "completion_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
                "prompt_tokens_details": {"cached_tokens": usage.read, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
            },
        }

    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return server_sent(_chunks(response, wants_usage))


def _message_text(message: Json) -> str:
    calls = [compact(call["function"]) for call in message.get("tool_calls") or [] if "function" in call]
    return "\n".join([message["role"], text_of(message.get("content")), *calls])


def _chunks(response: Json, wants_usage: bool) -> Iterator[Json | str]:
    head = {key: response[key] for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    (choice,) = response["choices"]
    message = choice["message"]

    def chunk(delta: Json, finish_reason: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    yield chunk({"role": "assistant", "content": None if message["content"] is None else ""})
    for piece in halves(message["content"] or ""):
        if piece:
            yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield chunk(
            {
                "tool_calls": [
                    {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
                ]
            }
        )
        for piece in halves(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if wants_usage:
        yield {**head, "choices": [], "usage": response["usage"]}
    yield "[DONE]"
