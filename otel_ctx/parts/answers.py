"""A provider's answer -> the model's messages and what the answer says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from otel_ctx.model import Diagnosis
from otel_ctx.parts.diagnoses import read_diagnosis
from otel_ctx.parts.texts import structure
from otel_ctx.parts.tiers import read_tier

_OF_THE_CACHE = ("diagnostics", "prompt_cache_diagnostics", "context_management")
_EVENT_HOLDS = ("message", "response", "metadata")  # what an event of a stream wraps


@dataclass(frozen=True, slots=True)
class Answer:
    """``messages`` are unparsed, as ``read_messages`` takes them. ``error`` is the type of an error and ``words`` what it
    says, "" where it is none. ``usage`` is as it was sent, for ``read_usage``; ``tier`` is the service tier."""

    messages: list[Any]
    id: str = ""
    model: str = ""
    usage: Any = None
    error: str = ""
    words: str = ""
    tier: str = ""
    diagnosis: Diagnosis | None = None


def read_answer(value: Any) -> Answer | None:
    """``value``: the body that OpenAI (Chat, Responses), Anthropic, Gemini or Bedrock Converse answers with, its JSON, the
    events of a stream, as a list or as server-sent events, or an error. None where it is none of these."""
    value = _events(value) if isinstance(value, str) else value
    if isinstance(value, list):
        value = _whole(v for v in value if isinstance(v, Mapping))
    if not isinstance(value, Mapping):
        return None
    error, words = _error(value)
    usage = next((value[k] for k in ("usage", "usageMetadata", "usage_metadata") if value.get(k)), None)
    answer = Answer(
        messages=spoken(value),
        id=_text(value, "id", "responseId", "response_id"),
        model=_text(value, "model", "modelVersion", "model_version"),
        usage=usage,
        error=error,
        words=words,
        tier=read_tier(value, usage),
        diagnosis=read_diagnosis(value),
    )
    return answer if answer.messages or usage or error or answer.id else None


def spoken(answer: Mapping[str, Any]) -> list[Any]:
    """The model's words: of several choices the first, which is what an application goes on with."""
    for key in ("choices", "candidates"):
        choices = answer.get(key)
        if isinstance(choices, list):
            first = choices[0] if choices and isinstance(choices[0], Mapping) else {}
            said = first.get("message") or first.get("content")
            return [said] if isinstance(said, Mapping) else []
    output = answer.get("output")
    if isinstance(output, list):
        return output
    if isinstance(output, Mapping):
        return [output["message"]] if isinstance(output.get("message"), Mapping) else []
    content = answer.get("content")
    return [{"role": "assistant", "content": content}] if isinstance(content, (list, str)) and content else []


def _error(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The type of an error and its words. Some gateways make the error a text."""
    error = structure(answer.get("error"))
    if isinstance(error, str) and error:
        return "error", error
    if not isinstance(error, Mapping):
        return "", ""
    return _text(error, "type", "code", "status") or "error", _text(error, "message", "code")


def _events(text: str) -> Any:
    """Server-sent events, else whatever the JSON holds."""
    if "data:" not in text[:1024]:
        return structure(text)
    lines = (line[5:].strip() for line in text.splitlines() if line.startswith("data:"))
    return [structure(line) for line in lines]


def _whole(events: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What the events of a stream add up to. Later numbers win; the pieces of the text are not put together, but an
    event that holds the whole answer is."""
    whole: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    for event in events:
        for part in (event, *(event[k] for k in _EVENT_HOLDS if isinstance(event.get(k), Mapping))):
            for key in (
                "id",
                "responseId",
                "model",
                "modelVersion",
                "service_tier",
                "serviceTier",
                "error",
                *_OF_THE_CACHE,
            ):
                if part.get(key):
                    whole[key] = part[key]
            if isinstance(part.get("output"), list) and part["output"]:
                whole["output"] = part["output"]
            for key in ("usage", "usageMetadata"):
                numbers = part.get(key)
                if isinstance(numbers, Mapping):
                    usage.update((k, v) for k, v in numbers.items() if v is not None)
    if usage:
        whole["usage"] = usage
    return whole or None


def _text(values: Mapping[str, Any], *keys: str) -> str:
    return next((str(values[k]) for k in keys if values.get(k) not in (None, "")), "")
