"""Bedrock's Converse and ConverseStream.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from tests.provider_stub.interface import Answer, Block, Json, Prompt, Tool, compact, halves, text_of

_PATH = re.compile(r"/model/(.+)/converse(-stream)?$")
ERRORS = {400: "ValidationException", 404: "ResourceNotFoundException", 429: "ThrottlingException"}


class Converse:
    name = "bedrock"
    automatic = False

    def serves(self, path: str) -> bool:
        return bool(_PATH.search(path))

    def streams(self, path: str, body: Json) -> bool:
        return path.endswith("-stream")

    def prompt(self, path: str, body: Json) -> Prompt:
        found = _PATH.search(path)
        if not found:
            raise ValueError(path)
        tools = (body.get("toolConfig") or {}).get("tools") or []
        messages = [(message["role"], message["content"]) for message in body["messages"]]
        blocks = _blocks("", [*tools, *(body.get("system") or [])])
        for role, parts in messages:
            blocks += _blocks(role, parts)
        role, parts = messages[-1]
        thinking = (body.get("additionalModelRequestFields") or {}).get("thinking") or {}
        return Prompt(
            model=unquote(found[1]),
            blocks=tuple(blocks),
            role="tool" if any("toolResult" in part for part in parts) else role,
            text=text_of([part for part in parts if "text" in part]),
            turn=sum(
                role == "assistant" and not any("toolUse" in part for part in parts)
                for role, parts in messages
            ),
            tools=tuple(
                Tool(tool["toolSpec"]["name"], tool["toolSpec"]["inputSchema"]["json"])
                for tool in tools
                if "toolSpec" in tool
            ),
            thinks=thinking.get("type", "disabled") != "disabled",
        )

    def response(self, answer: Answer, body: Json) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if answer.thought:
            reasoning = {"text": answer.thought, "signature": f"sig{answer.id}"}
            content.append({"reasoningContent": {"reasoningText": reasoning}})
        content.append({"text": answer.text or "Let me look that up."})
        content += [
            {"toolUse": {"toolUseId": f"tooluse_{answer.id}_{n}", "name": call.name, "input": call.arguments}}
            for n, call in enumerate(answer.calls)
        ]
        usage = answer.usage
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use" if answer.calls else "end_turn",
            "usage": {
                "inputTokens": usage.uncached,
                "outputTokens": usage.output,
                "totalTokens": usage.input + usage.output,
                "cacheReadInputTokens": usage.read,
                "cacheWriteInputTokens": usage.write,
            },
            "metrics": {"latencyMs": 1},
        }

    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        return "application/vnd.amazon.eventstream", (_frame(*event) for event in _events(response))

    def error(self, status: int, message: str) -> tuple[dict[str, str], Json]:
        return {"x-amzn-errortype": ERRORS.get(status, "InternalServerException")}, {"message": message}


def _blocks(role: str, parts: list[Json]) -> list[Block]:
    """A cachePoint stands behind what it marks."""
    blocks: list[Block] = []
    for part in parts:
        if "cachePoint" not in part:
            blocks.append(Block(role + compact(part)))
        elif blocks:
            blocks[-1] = Block(blocks[-1].text, part["cachePoint"].get("ttl", "5m"))
    return blocks


def _events(response: Json) -> Iterator[tuple[str, Json]]:
    yield "messageStart", {"role": "assistant"}
    for index, part in enumerate(response["output"]["message"]["content"]):
        place = {"contentBlockIndex": index}
        if "toolUse" in part:
            use = part["toolUse"]
            opened = {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}
            yield "contentBlockStart", {**place, "start": opened}
            deltas: list[Json] = [{"toolUse": {"input": piece}} for piece in halves(compact(use["input"]))]
        elif "text" in part:
            deltas = [{"text": piece} for piece in halves(part["text"])]
        else:
            reasoning = part["reasoningContent"]["reasoningText"]
            deltas = [{"reasoningContent": {key: reasoning[key]}} for key in ("text", "signature")]
        for delta in deltas:
            yield "contentBlockDelta", {**place, "delta": delta}
        yield "contentBlockStop", place
    yield "messageStop", {"stopReason": response["stopReason"]}
    yield "metadata", {"usage": response["usage"], "metrics": response["metrics"]}


def _frame(event: str, payload: Json) -> bytes:
    """One message of the vnd.amazon.eventstream encoding: lengths, headers and payload, each part with its CRC."""
    fields = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack(f">B{len(name)}sBH{len(value)}s", len(name), name.encode(), 7, len(value), value.encode())
        for name, value in fields.items()
    )
    data = compact(payload).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(data), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + data
    return message + struct.pack(">I", zlib.crc32(message))
