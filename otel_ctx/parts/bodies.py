"""A provider's whole request body -> its tools, system prompt and messages, still unparsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from otel_ctx.model import Raw
from otel_ctx.parts.texts import mapping


@dataclass(frozen=True, slots=True)
class Body:
    """The parts of a request body that fill the window, as Raw values for ``read_*``."""

    tools: Raw | None
    system: Raw | None
    messages: Raw | None
    model: str
    previous_response_id: str
    reserve: int | None


def read_body(body: Mapping[str, Any]) -> Body | None:
    """``body``: Anthropic Messages, OpenAI Chat or Responses, Gemini generateContent, Bedrock Converse (or a
    framework's ``{"messages": [...]}``). None where nothing in it is a prompt."""
    config = _config(body)
    tools = body.get("tools") or mapping(body.get("toolConfig")).get("tools") or config.get("tools")
    system = _first(body, "system", "instructions", "systemInstruction", "system_instruction")
    if system is None:
        system = _first(config, "system_instruction", "systemInstruction")
    messages = _first(body, "messages", "input", "contents", "prompt")
    if messages is None and system is None:
        return None
    if isinstance(system, Mapping) and "parts" in system:
        system = system["parts"]
    return Body(
        tools=Raw("tools", tools) if tools else None,
        system=Raw("system", system) if system else None,
        messages=Raw("messages", messages) if messages else None,
        model=str(body.get("model") or body.get("modelId") or ""),
        previous_response_id=str(body.get("previous_response_id") or ""),
        reserve=reserve_of(body),
    )


def mark_the_end(messages: list[Any], control: Any) -> list[Any]:
    """``messages`` with Anthropic's automatic breakpoint, a request's own ``cache_control``, on the last block."""
    last = messages[-1] if messages else None
    if not isinstance(last, dict):
        return messages
    if isinstance(last.get("kwargs"), dict):  # LangChain's constructor
        return [*messages[:-1], {**last, "kwargs": {**last["kwargs"], "cache_control": control}}]
    return [*messages[:-1], {**last, "cache_control": control}]


def reserve_of(body: Mapping[str, Any]) -> int | None:
    """The output tokens that a request (or its parameters alone) reserves, under any provider's name."""
    config = _config(body)
    inference = mapping(body.get("inferenceConfig"))
    for source in (body, config, inference):
        for key in (
            "max_output_tokens",
            "max_completion_tokens",
            "max_tokens",
            "maxOutputTokens",
            "maxTokens",
        ):
            value = source.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _config(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gemini's parameters, under the names of its REST interface and of its SDKs."""
    return next(
        (v for k in ("config", "generationConfig", "generation_config") if (v := mapping(body.get(k)))), {}
    )


def _first(body: Mapping[str, Any], *keys: str) -> Any:
    return next((body[k] for k in keys if body.get(k) is not None), None)
