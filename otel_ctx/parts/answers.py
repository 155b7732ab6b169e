"""A provider's answer -> the model's messages and what the answer says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from otel_ctx.model import Diagnosis
from otel_ctx.parts.diagnoses import read_diagnosis
from otel_ctx.parts.texts import mapping, structure
from otel_ctx.parts.tiers import read_tier

_OF_THE_CACHE = ("diagnostics", "prompt_cache_diagnostics", "context_management")
_EVENT_HOLDS = ("message", "response", "metadata")  # what an event of a stream wraps
_DONE = "[DONE]"
_BEGUN = frozenset(("message_start", "response.created", "chat.completion.chunk"))
_LAST = frozenset(
    ("message_delta", "message_stop", "response.completed", "response.incomplete", "response.failed")
)
_FINISHED = (
    "finish_reason", "finishReason", "stop_reason", "stopReason", "messageStop", "done",
    "amazon-bedrock-invocationMetrics",
)  # fmt: skip
_GROWING = frozenset(  # numbers of a usage that grow while the answer is written
    (
        "output_tokens", "completion_tokens", "total_tokens", "output_tokens_details", "completion_tokens_details",
        "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount", "outputTokens", "totalTokens",
    )
)  # fmt: skip


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
        value = _whole(value)
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
    return stream_events(text) if "data:" in text[:1024] else structure(text)


def stream_events(text: str) -> list[Any]:
    """Server-sent events: what each holds, as text where that is no JSON."""
    return [structure(line[5:].strip()) for line in text.splitlines() if line.startswith("data:")]


def _whole(events: Iterable[Any]) -> Mapping[str, Any] | None:
    """What the events of a stream add up to. Later numbers win; the pieces of the text are not put together, but an
    event that holds the whole answer is. What was answered up to a cut is no number of the whole answer."""
    whole: dict[str, Any] = {}
    usage: dict[str, Any] = {}
    ended = False
    for event in events:
        ended = ended or _is_end(event)
        if not isinstance(event, Mapping):
            continue
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
        whole["usage"] = usage if ended else {k: v for k, v in usage.items() if k not in _GROWING}
    return whole or None


def breaks_off(events: Iterable[Any]) -> bool:
    """Are they those of a stream that always says its end, or an error, and does not?"""
    begun = False
    for event in events:
        if _is_end(event) or (
            isinstance(event, Mapping) and (event.get("error") or event.get("type") == "error")
        ):
            return False
        begun = begun or (
            isinstance(event, Mapping) and not _BEGUN.isdisjoint((event.get("type"), event.get("object")))
        )
    return begun


def _is_end(event: Any) -> bool:
    """Does the event say that the answer has ended, in any provider's words?"""
    if not isinstance(event, Mapping):
        return bool(event == _DONE)
    if event.get("type") in _LAST or any(event.get(key) for key in _FINISHED):
        return True
    if event.get("object") == "response" or mapping(event.get("metadata")).get("usage"):
        return True
    choices = event.get("choices", event.get("candidates"))
    if choices == [] and event.get("usage"):
        return True  # OpenAI's last chunk
    return isinstance(choices, list) and any(
        isinstance(choice, Mapping) and any(choice.get(key) for key in _FINISHED) for choice in choices
    )


def _text(values: Mapping[str, Any], *keys: str) -> str:
    return next((str(values[k]) for k in keys if values.get(k) not in (None, "")), "")
