"""Gemini's generateContent. https://ai.google.dev/api/generate-content"""

from __future__ import annotations

import re
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

_PATH = re.compile(r"/models/([^/]+):(generateContent|streamGenerateContent)$")
ERRORS = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class Gemini:
    name = "gemini"
    automatic = True

    def serves(self, path: str) -> bool:
        return bool(_PATH.search(path))

    def streams(self, path: str, body: Json) -> bool:
        return path.endswith(":streamGenerateContent")

    def prompt(self, path: str, body: Json) -> Prompt:
        found = _PATH.search(path)
        if not found:
            raise ValueError(path)
        declared = [f for tool in body.get("tools") or [] for f in _field(tool, "function_declarations")]
        contents = [(content.get("role", "user"), content["parts"]) for content in body["contents"]]
        blocks = [Block(compact(declaration)) for declaration in declared]
        if system := _field(body, "system_instruction"):
            blocks.append(Block(text_of(system["parts"])))
        blocks += [Block(role + compact(parts)) for role, parts in contents]
        role, parts = contents[-1]
        answers_tool = any("functionResponse" in part for part in parts)
        return Prompt(
            model=found[1],
            blocks=tuple(blocks),
            role="tool" if answers_tool else "assistant" if role == "model" else "user",
            text=text_of([part for part in parts if "text" in part]),
            turn=sum(
                role == "model" and not any("functionCall" in part for part in parts)
                for role, parts in contents
            ),
            tools=tuple(
                Tool(f["name"], _field(f, "parameters_json_schema") or f.get("parameters") or {})
                for f in declared
            ),
            thinks=bool(
                _field(_field(_field(body, "generation_config"), "thinking_config"), "include_thoughts")
            ),
        )

    def response(self, answer: Answer, body: Json) -> dict[str, Any]:
        parts: list[dict[str, Any]] = [{"text": answer.thought, "thought": True}] if answer.thought else []
        parts += [{"text": answer.text}] if answer.text else []
        parts += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in answer.calls]
        usage = answer.usage
        counts: dict[str, Any] = {
            "promptTokenCount": usage.input,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "totalTokenCount": usage.input + usage.output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
        }
        if usage.reasoning:
            counts["thoughtsTokenCount"] = usage.reasoning
        if usage.read:  # as Gemini has it: nothing where nothing was read
            counts["cachedContentTokenCount"] = usage.read
            counts["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": usage.read}]
        return {
            "candidates": [
                {"content": {"parts": parts, "role": "model"}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": counts,
            "modelVersion": answer.model,
            "responseId": answer.id,
        }

    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        return server_sent(_chunks(response))

    def error(self, status: int, message: str) -> tuple[dict[str, str], Json]:
        error = {"code": status, "message": message, "status": ERRORS.get(status, "INTERNAL")}
        return {}, {"error": error}


def _field(value: Json, name: str) -> Any:
    """Protocol buffers as JSON may be spelled both ways, and the client mixes them. {} where there is none."""
    first, *others = name.split("_")
    return value.get(name) or value.get(first + "".join(map(str.title, others))) or {}


def _chunks(response: Json) -> Iterator[Json]:
    """The text in two chunks; all else, and the usage of the whole, with the second."""
    (candidate,) = response["candidates"]
    *rest, last = candidate["content"]["parts"]
    head = {key: response[key] for key in ("modelVersion", "responseId")}
    first, second = halves(last.get("text", ""))
    if first:
        opened = {"content": {"parts": [*rest, {**last, "text": first}], "role": "model"}, "index": 0}
        yield {**head, "candidates": [opened]}
        rest, last = [], {**last, "text": second}
    closed = {**candidate, "content": {"parts": [*rest, last], "role": "model"}}
    yield {**response, "candidates": [closed]}
