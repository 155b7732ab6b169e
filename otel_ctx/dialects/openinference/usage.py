"""Token counts: OpenInference's own, the conventions' beside them, and the provider's where the response is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, number
from otel_ctx.dialects.openinference.wire import langchain_message
from otel_ctx.model import Span, UsageClaim
from otel_ctx.parts import completed, mapping, read_usage, structure

_ZEROS_OMITTED = frozenset(
    {"openinference.instrumentation.agno", "openinference.instrumentation.anthropic", "pydantic-ai"}
)
_CACHE_READ = ("llm.token_count.prompt_details.cache_read", "llm.token_count.prompt_details.cache_input")
_CACHE_WRITE = "llm.token_count.prompt_details.cache_write"


def usage_of(span: Span, response: Mapping[str, Any] | None) -> UsageClaim | None:
    a = span.attributes
    said = semconv.usage(a) or UsageClaim()
    read = number(a, *_CACHE_READ)
    write = number(a, _CACHE_WRITE)
    # who writes one detail leaves the other out because it is 0
    details = (read, write, said.cache_read, said.cache_write)
    zeros_omitted = any(d is not None for d in details) or span.scope_name in _ZEROS_OMITTED
    claim = said._replace(
        input=_or(number(a, "llm.token_count.prompt"), said.input),
        output=_or(number(a, "llm.token_count.completion"), said.output),
        # a converter writes 0 beside the number that it should have converted
        cache_read=read if not said.cache_read and read is not None else said.cache_read,
        cache_write=write if not said.cache_write and write is not None else said.cache_write,
        reasoning=_or(number(a, "llm.token_count.completion_details.reasoning"), said.reasoning),
        total=_or(number(a, "llm.token_count.total"), said.total),
        zeros_omitted=zeros_omitted,
    )
    raw = _raw_usage(a, response)
    if raw is not None:
        claim = completed(claim, raw, "the provider's usage in output.value")
    if claim.reasoning and claim.total and claim.input is not None and claim.output is not None:
        claim = claim._replace(
            output_excludes_reasoning=claim.total == claim.input + claim.output + claim.reasoning
        )
    return None if claim.input is None and claim.output is None and claim.total is None else claim


def _raw_usage(attributes: Mapping[str, Any], response: Mapping[str, Any] | None) -> UsageClaim | None:
    """The provider's own usage object, inside the response or the AI SDK's provider metadata."""
    found: Any = None
    if response is not None:
        found = first(response, "usage", "usageMetadata", "usage_metadata")
        if "generations" in response:
            said = mapping(langchain_message(response).get("response_metadata"))
            found = first(said, "usage", "token_usage")
    else:
        metadata = mapping(structure(attributes.get("ai.response.providerMetadata")))
        found = mapping(metadata.get("anthropic")).get("usage")
    return read_usage(found)


def _or(value: int | None, other: int | None) -> int | None:
    return other if value is None else value
