"""A usage object as a provider's API (or LangChain) answers with it -> token numbers and what ``input`` includes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.model import UsageClaim
from otel_ctx.parts.texts import mapping


def read_usage(usage: Any) -> UsageClaim | None:
    """``usage``: of OpenAI Chat or Responses, Anthropic Messages, Gemini, Bedrock Converse, or LangChain's
    ``usage_metadata``.

    None where it is none of them, or where nothing in it tells whether the input includes cached tokens."""
    if not isinstance(usage, Mapping):
        return None
    return next((claim for read in _SHAPES if (claim := read(usage)) is not None), None)


def read_plain_usage(usage: Any) -> UsageClaim | None:
    """Of the same shapes the plainest, ``input_tokens`` and ``output_tokens`` alone: no cached tokens are told."""
    if not isinstance(usage, Mapping):
        return None
    given, taken = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    if given is None and taken is None:
        return None
    return UsageClaim(input=given, output=taken, total=_count(usage, "total_tokens"))


def completed(claim: UsageClaim, own: UsageClaim, evidence: str) -> UsageClaim:
    """``claim`` with what only the provider's ``own`` numbers tell: zeros, TTLs, and (by ``evidence``) what ``input``
    includes, where the two agree on it."""
    full = filled(claim._replace(input=_or(claim.input, own.input), total=_or(claim.total, own.total)), own)
    if full.semantics or own.input is None or full.input is None:
        return full
    cached = (own.cache_read or 0) + (own.cache_write or 0)
    if claim.input is None or (cached and claim.input == own.input):
        return full._replace(semantics=own.semantics, semantics_evidence=evidence)
    if cached and own.semantics == "exclusive" and claim.input == own.input + cached:
        return full._replace(semantics="inclusive", semantics_evidence=evidence)
    return full


def filled(claim: UsageClaim, own: UsageClaim) -> UsageClaim:
    """``claim`` with ``own`` counts of the answer and of the cache where it has none: what ``input`` means stays."""
    return claim._replace(
        output=_or(claim.output, own.output),
        cache_read=_or(claim.cache_read, own.cache_read),
        cache_write=_or(claim.cache_write, own.cache_write),
        cache_write_1h=_or(claim.cache_write_1h, own.cache_write_1h),
        cache_write_5m=_or(claim.cache_write_5m, own.cache_write_5m),
        reasoning=_or(claim.reasoning, own.reasoning),
    )


def _or(value: int | None, other: int | None) -> int | None:
    return other if value is None else value


def _openai_chat(usage: Mapping[str, Any]) -> UsageClaim | None:
    if "prompt_tokens" not in usage:
        return None
    details = mapping(usage.get("prompt_tokens_details"))
    return UsageClaim(
        input=_count(usage, "prompt_tokens"),
        output=_count(usage, "completion_tokens"),
        cache_read=_known(
            _count(details, "cached_tokens"),
            _count(usage, "cache_read_input_tokens", "prompt_cache_hit_tokens"),  # the latter DeepSeek's
        ),
        cache_write=_known(
            _count(details, "cache_write_tokens", "cache_creation_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        ),
        reasoning=_count(mapping(usage.get("completion_tokens_details")), "reasoning_tokens"),
        total=_count(usage, "total_tokens"),
        semantics="inclusive",
    )


def _openai_responses(usage: Mapping[str, Any]) -> UsageClaim | None:
    if "input_tokens_details" not in usage:
        return None
    details = mapping(usage.get("input_tokens_details"))
    return UsageClaim(
        input=_count(usage, "input_tokens"),
        output=_count(usage, "output_tokens"),
        cache_read=_count(details, "cached_tokens"),
        cache_write=_count(details, "cache_write_tokens"),
        reasoning=_count(mapping(usage.get("output_tokens_details")), "reasoning_tokens"),
        total=_count(usage, "total_tokens"),
        semantics="inclusive",
    )


def _anthropic(usage: Mapping[str, Any]) -> UsageClaim | None:
    if "cache_read_input_tokens" not in usage and "cache_creation_input_tokens" not in usage:
        return None
    creation = mapping(usage.get("cache_creation"))
    return UsageClaim(
        input=_count(usage, "input_tokens"),
        output=_count(usage, "output_tokens"),
        cache_read=_count(usage, "cache_read_input_tokens"),
        cache_write=_count(usage, "cache_creation_input_tokens"),
        cache_write_1h=_count(creation, "ephemeral_1h_input_tokens"),
        cache_write_5m=_count(creation, "ephemeral_5m_input_tokens"),
        semantics="exclusive",
    )


def _gemini(usage: Mapping[str, Any]) -> UsageClaim | None:
    if "promptTokenCount" not in usage and "prompt_token_count" not in usage:
        return None
    answer = _count(usage, "candidatesTokenCount", "candidates_token_count")
    thoughts = _count(usage, "thoughtsTokenCount", "thoughts_token_count")
    return UsageClaim(
        input=_count(usage, "promptTokenCount", "prompt_token_count"),
        output=None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0),
        cache_read=_count(usage, "cachedContentTokenCount", "cached_content_token_count"),
        reasoning=thoughts,
        total=_count(usage, "totalTokenCount", "total_token_count"),
        semantics="inclusive",
    )


def _converse(usage: Mapping[str, Any]) -> UsageClaim | None:
    """Bedrock leaves the cache counts out where the model or the request caches nothing."""
    if "inputTokens" not in usage:
        return None
    return UsageClaim(
        input=_count(usage, "inputTokens"),
        output=_count(usage, "outputTokens"),
        cache_read=_count(usage, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_write=_count(usage, "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        total=_count(usage, "totalTokens"),
        semantics="exclusive",
        zeros_omitted=True,
    )


def _langchain(usage: Mapping[str, Any]) -> UsageClaim | None:
    """LangChain defines ``input_tokens`` as the sum of all kinds; not every integration keeps to it, so the meaning is
    left open. It leaves ``cache_creation`` 0 or out beside the split by TTL, and counts that are 0."""
    if "input_token_details" not in usage:
        return None
    details = mapping(usage.get("input_token_details"))
    return UsageClaim(
        input=_count(usage, "input_tokens"),
        output=_count(usage, "output_tokens"),
        cache_read=_count(details, "cache_read"),
        cache_write=_count(details, "cache_creation"),
        cache_write_1h=_count(details, "ephemeral_1h_input_tokens"),
        cache_write_5m=_count(details, "ephemeral_5m_input_tokens"),
        reasoning=_count(mapping(usage.get("output_token_details")), "reasoning"),
        total=_count(usage, "total_tokens"),
        zeros_omitted=bool(details),
    )


def _known(*counts: int | None) -> int | None:
    return next((c for c in counts if c is not None), None)


_SHAPES = (_openai_chat, _openai_responses, _anthropic, _gemini, _converse, _langchain)


def _count(usage: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = usage.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                count = int(value)
            except (ValueError, OverflowError):  # NaN, Infinity
                continue
            # OTLP's integers; more than that is no count of anything
            if count == value and abs(count) < 2**63:
                return count
    return None
