"""LiteLLM's own callback: a span of the request as the application made it, and a raw one as the provider got it.

The first speaks the conventions but for the numbers of the cache, which only its printed usage has. Where the application
has a span of its own, LiteLLM writes on that: of several requests within it one is left, and only the raw spans tell of
each. They hold the provider's request and response as Python prints them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, of_span, text
from otel_ctx.model import Raw, Span, Telling, UsageClaim
from otel_ctx.parts import mapping, printed, read_body, read_usage

_CALL = "litellm.call_id"
_USAGE = "metadata.usage_object"
_KINDS = frozenset({"completion", "text_completion", "responses", "generate_content", "anthropic_messages"})
_RAW = "raw_gen_ai_request"
_PROVIDERS_PROMPT = re.compile(r"llm\.(\w+)\.(?:messages|contents|input|prompt)")
_PROMPT = (
    "messages", "contents", "input", "prompt", "system", "instructions", "system_instruction", "systemInstruction",
    "tools", "model", "max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig",
)  # fmt: skip
_ANSWER = ("choices", "content", "output", "candidates")
_OWN_ID = re.compile(r"chatcmpl-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # in place of the provider's
NEEDS = frozenset({_CALL, _RAW})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of LiteLLM's, or of another kind of request."""
    a = span.attributes
    if _CALL in a:
        return _request(span) if text(a, "llm.request.type").removeprefix("a") in _KINDS else None
    if span.name != _RAW:
        return None
    prompt = next((m for key in a if (m := _PROVIDERS_PROMPT.fullmatch(key))), None)
    return _raw(span, prompt[1]) if prompt is not None else None


def _request(span: Span) -> Telling:
    said = semconv.telling(span, "litellm", "call")
    known = read_usage(printed(span.attributes.get(_USAGE)))
    own = _OWN_ID.fullmatch(said.response_id)
    return said._replace(usage=_usage(said.usage, known), response_id="" if own else said.response_id)


def _usage(said: UsageClaim | None, known: UsageClaim | None) -> UsageClaim | None:
    if said is None or known is None:
        return said or known
    return said._replace(
        cache_read=said.cache_read if said.cache_read is not None else known.cache_read,
        cache_write=said.cache_write if said.cache_write is not None else known.cache_write,
        reasoning=said.reasoning if said.reasoning is not None else known.reasoning,
    )


def _raw(span: Span, provider: str) -> Telling:
    """The provider's own request and response. Their id is left out: that of the request's span may be another one."""
    a = span.attributes
    known = {k: a[f"llm.{provider}.{k}"] for k in (*_PROMPT, *_ANSWER) if f"llm.{provider}.{k}" in a}
    body = read_body({k: printed(v) for k, v in known.items() if k in _PROMPT})
    usage = read_usage(printed(first(a, f"llm.{provider}.usage", f"llm.{provider}.usageMetadata")))
    answer = _answer({k: printed(v) for k, v in known.items() if k in _ANSWER})
    return of_span(span, "litellm", "call")._replace(
        operation="chat",
        provider=provider,
        request_model=text(a, f"llm.{provider}.model"),
        usage=usage,
        reserve=body.reserve if body is not None else None,
        tools=body.tools if body is not None else None,
        system=body.system if body is not None else None,
        messages=body.messages if body is not None else None,
        output=Raw("messages", answer) if answer else None,
    )


def _answer(response: Mapping[str, Any]) -> list[Any]:
    choices = first(response, "choices", "candidates")
    if isinstance(choices, list):
        one = mapping(choices[0])
        return [m for m in (one.get("message") or one.get("content"),) if m]
    if isinstance(response.get("output"), list):
        return list(response["output"])
    content = response.get("content")
    return [{"role": "assistant", "content": content}] if content else []
