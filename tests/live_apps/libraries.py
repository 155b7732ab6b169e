"""Each library under test: the environment that makes it record contents, how it is switched on, what it sees.

Imports are inside: a process has one library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

GENAI_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True)
class Library:
    start: Callable[[], None]
    apis: tuple[str, ...]  # those of the sessions of which it records the calls
    environment: Mapping[str, str] = field(default_factory=dict)


def _openllmetry_openai() -> None:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()


def _openllmetry_anthropic() -> None:
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()


def _openai_v2() -> None:
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()


def _genai_openai() -> None:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()


def _genai_anthropic() -> None:
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()


def _openinference_openai() -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()


def _openinference_anthropic() -> None:
    from openinference.instrumentation.anthropic import AnthropicInstrumentor

    AnthropicInstrumentor().instrument()


def _two_at_once() -> None:
    _openllmetry_openai()
    _openinference_openai()


def _nothing() -> None:
    """Anthropic's client traces itself."""


LIBRARIES = {
    "openllmetry-openai": Library(_openllmetry_openai, ("chat", "responses")),
    "openai-v2": Library(_openai_v2, ("chat",), {GENAI_CONTENT: "true"}),
    "genai-openai": Library(_genai_openai, ("chat", "responses"), {GENAI_CONTENT: "span_only"}),
    "openinference-openai": Library(_openinference_openai, ("chat", "responses")),
    "openllmetry+openinference-openai": Library(_two_at_once, ("chat", "responses")),
    "openllmetry-anthropic": Library(_openllmetry_anthropic, ("messages",)),
    "genai-anthropic": Library(_genai_anthropic, ("messages",), {GENAI_CONTENT: "span_only"}),
    "openinference-anthropic": Library(_openinference_anthropic, ("messages",)),
    "anthropic": Library(
        _nothing, ("messages",), {"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content"}
    ),
}
