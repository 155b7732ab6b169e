"""Anthropic's Messages. https://docs.anthropic.com/en/api/messages"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.provider_stub.interface import (
    Answer,
    Block,
    Json,
    Prompt,
    Tool,
    Ttl,
    compact,
    halves,
    server_sent,
    text_of,
)

ERRORS = {
    400: "invalid_request_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class Messages:
    name = "anthropic"
    automatic = False

    def serves(self, path: str) -> bool:
        return path.endswith("/messages")

    def streams(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def prompt(self, path: str, body: Json) -> Prompt:
        tools, system = body.get("tools") or [], _parts(body.get("system"))
        messages = [(message["role"], _parts(message["content"])) for message in body["messages"]]
        blocks = [_block("", part) for part in [*tools, *system]]
        blocks += [_block(role, part) for role, parts in messages for part in parts]
        if body.get("cache_control"):  # automatic caching: a marker at the end
            blocks[-1] = replace(blocks[-1], marker=_marker(body))
        role, parts = messages[-1]
        answers_tool = any(part["type"] == "tool_result" for part in parts)
        chosen = (body.get("tool_choice") or {}).get("type") != "none"
        return Prompt(
            model=body["model"],
            blocks=tuple(blocks),
            role="tool" if answers_tool else role,
            text=text_of([part for part in parts if part["type"] == "text"]),
            turn=sum(
                role == "assistant" and not any(part["type"] == "tool_use" for part in parts)
                for role, parts in messages
            ),
            tools=tuple(
                Tool(tool["name"], tool["input_schema"])
                for tool in tools
                if chosen and "input_schema" in tool
            ),
            thinks=(body.get("thinking") or {}).get("type", "disabled") != "disabled",
        )

    def response(self, answer: Answer, body: Json) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.thought:
            content.append({"type": "thinking", "thinking": answer.thought, "signature": f"sig{answer.id}"})
        content.append({"type": "text", "text": answer.text or "Let me look that up."})
        content += [
            {"type": "tool_use", "id": f"toolu_{answer.id}_{n}", "name": call.name, "input": call.arguments}
            for n, call in enumerate(answer.calls)
        ]
        usage = answer.usage
        return {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "model": answer.model,
            "content": content,
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.uncached,
                "cache_creation_input_tokens": usage.write,
                "cache_read_input_tokens": usage.read,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": usage.write - usage.write_1h,
                    "ephemeral_1h_input_tokens": usage.write_1h,
                },
                "output_tokens": usage.output,
                "service_tier": "standard",
            },
        }

    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        return server_sent(_events(response), named=True)

    def error(self, status: int, message: str) -> tuple[dict[str, str], Json]:
        error = {"type": ERRORS.get(status, "api_error"), "message": message}
        return {"retry-after": "0"}, {"type": "error", "error": error}


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def _marker(part: Json) -> Ttl | None:
    control = part.get("cache_control")
    return control.get("ttl", "5m") if control else None


def _block(role: str, part: Json) -> Block:
    text = compact({key: value for key, value in part.items() if key != "cache_control"})
    return Block(role + text, _marker(part))


def _events(response: Json) -> Iterator[Json]:
    usage = response["usage"]
    begun = {**response, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, part in enumerate(response["content"]):
        opened, deltas = _opened(part)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _opened(part: Json) -> tuple[Json, list[Json]]:
    """A part as a stream begins it, and what fills it."""
    if part["type"] == "text":
        return {**part, "text": ""}, [{"type": "text_delta", "text": piece} for piece in halves(part["text"])]
    if part["type"] == "thinking":
        signature = {"type": "signature_delta", "signature": part["signature"]}
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in halves(part["thinking"])]
        return {**part, "thinking": "", "signature": ""}, [*pieces, signature]
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(compact(part["input"]))]
    return {**part, "input": {}}, pieces
