"""Vercel's AI SDK 4 to 6, and 7 with its legacy spans: ``ai.*`` attributes beside a few of ``gen_ai.*``.

One ``….doGenerate`` or ``….doStream`` span is one request. The span above it, ``ai.generateText`` and the like, repeats
its steps: the last one's usage or the sum of all. Only ``ai.operationId`` tells them apart where another SDK
(Traceloop's) has renamed both and moved their content to the conventions' attributes. AI SDK 7's own spans speak the
conventions and are read as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, number, of_span, text
from otel_ctx.model import Raw, Reason, Span, Telling, UsageClaim
from otel_ctx.parts import is_mask, mapping, read_usage, salvage, structure

_CALLS = (".doGenerate", ".doStream")
_SUMS = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
_PROMPT = "ai.prompt.messages"
_RESERVE = ("gen_ai.request.max_tokens", "ai.settings.maxOutputTokens", "ai.settings.maxTokens")

_INPUT = ("ai.usage.inputTokens", "ai.usage.promptTokens", "gen_ai.usage.input_tokens")
_OUTPUT = ("ai.usage.outputTokens", "ai.usage.completionTokens", "gen_ai.usage.output_tokens")
_TOTAL = ("ai.usage.totalTokens", "gen_ai.usage.total_tokens")
_DETAILS = "ai.usage.inputTokenDetails."
_READ = (f"{_DETAILS}cacheReadTokens", "ai.usage.cachedInputTokens", "gen_ai.usage.cache_read.input_tokens")
_WRITE = (f"{_DETAILS}cacheWriteTokens", "gen_ai.usage.cache_creation.input_tokens")
_REASONING = ("ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens")
# In the metadata of a response, by provider: its API's whole usage, and single counts (some in an object of their own).
_RAW_USAGE = {"anthropic": "usage", "google": "usageMetadata", "vertex": "usageMetadata"}
_READ_OF = {
    "openai": "cachedPromptTokens",
    "azure": "cachedPromptTokens",
    "anthropic": "cacheReadInputTokens",
    "bedrock": "cacheReadInputTokens",
    "deepseek": "promptCacheHitTokens",
}
_WRITE_OF = {"anthropic": "cacheCreationInputTokens", "bedrock": "cacheWriteInputTokens"}
_REASONING_OF = {"openai": "reasoningTokens", "azure": "reasoningTokens"}
_EXCLUSIVE = ("anthropic", "bedrock")  # in the provider's name: APIs that count no cached tokens as input
_FIRST_INCLUSIVE = 6
_FROM_PROVIDER = "before version 6 the AI SDK passes the provider's number on"
_FROM_RAW = "the provider's usage in ai.response.providerMetadata"
_SAID_VERSION = re.compile(r"(?:^| )ai/(\d{1,3})\.")
NEEDS = frozenset({"ai.operationId"})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it tells of none."""
    a = span.attributes
    operation = text(a, "ai.operationId")
    if operation.endswith(_CALLS):
        return _call(span)
    if operation in _SUMS:
        return _who(span)._replace(usage=_usage(a, "aggregate"))
    return None


def _call(span: Span) -> Telling:
    a = span.attributes
    reserve = number(a, *_RESERVE)
    content, reasons, lost = _content(span)
    return _who(span)._replace(
        role="call",
        response_model=text(a, *semconv.RESPONSE_MODEL, "ai.response.model"),
        response_id=text(a, "gen_ai.response.id", "ai.response.id"),
        usage=_usage(a, "call"),
        reserve=reserve if reserve is not None and reserve > 0 else None,
        tools=content.get("tools"),
        system=content.get("system"),
        messages=content.get("messages"),
        output=content.get("output"),
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _who(span: Span) -> Telling:
    """Who, where and when, as an aggregate without content."""
    a = span.attributes
    return of_span(
        span,
        "vercel",
        "aggregate",
        first_token_unix_nano=semconv.first_token(span),
        agent=text(a, *semconv.AGENT, "ai.telemetry.functionId"),
        operation="chat",
        provider=_provider(a),
        request_model=text(a, *semconv.REQUEST_MODEL, "ai.model.id"),
        conversation_hint=text(a, *semconv.CONVERSATION),
    )


def _provider(attributes: Mapping[str, Any]) -> str:
    return text(attributes, "ai.model.provider", *semconv.PROVIDER)


# ---- content


def _content(span: Span) -> tuple[dict[str, Raw], set[Reason], set[str]]:
    """The content as the SDK wrote it, else as a rewriter left it, and what is missing of it and why."""
    if _PROMPT in span.attributes:
        found, reasons, lost = _prompt(span)
    else:
        found, reasons, lost = semconv.contents(span.attributes, span)
        if "messages" not in found and not reasons:
            reasons.add("not_captured")
            lost.update(("tools", "system", "messages"))
    answer = _answer(span.attributes)
    if answer is not None:
        found["output"] = Raw("messages", [answer])
    return found, reasons, lost


def _prompt(span: Span) -> tuple[dict[str, Raw], set[Reason], set[str]]:
    a = span.attributes
    found: dict[str, Raw] = {}
    reasons: set[Reason] = set()
    lost: set[str] = set()
    messages = a[_PROMPT]
    if isinstance(messages, str) and is_mask(messages):
        reasons.add("redacted")
        lost.update(("system", "messages"))
    else:
        found["messages"] = Raw("messages", messages)
        if isinstance(messages, str) and messages[-1:] != "]":
            reasons.add("value_cut")
            lost.update(("messages",) if '},{"role":' in messages else ("system", "messages"))
    tools = first(a, "ai.prompt.tools")
    if tools is not None:
        found["tools"] = Raw("tools", _definitions(tools, reasons, lost))
    elif span.dropped_attributes:
        reasons.add("attributes_dropped")
        lost.add("tools")
    return found, reasons, lost


def _definitions(tools: Any, reasons: set[Reason], lost: set[str]) -> Any:
    """The list of definitions, each a JSON string that a length limit may have cut for itself."""
    if not isinstance(tools, (list, tuple)) or all(_is_whole(t) for t in tools):
        return tools
    reasons.add("value_cut")
    lost.add("tools")
    kept: list[Any] = []
    for tool in tools:
        try:
            kept.append(tool if _is_whole(tool) else salvage(tool))
        except ValueError:
            continue
    return kept


def _is_whole(tool: Any) -> bool:
    return not isinstance(tool, str) or tool[:1] != "{" or tool[-1:] == "}"


def _answer(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer as one message of the SDK's own parts; None where there is nothing of it."""
    blocks: list[dict[str, Any]] = []
    reasoning = text(attributes, "ai.response.reasoning")
    if reasoning:
        blocks.append({"type": "reasoning", "text": reasoning})
    words = text(attributes, "ai.response.text", "ai.response.object")
    if words:
        blocks.append({"type": "text", "text": words})
    calls = structure(attributes.get("ai.response.toolCalls"))
    if isinstance(calls, list):
        blocks += [{**call, "type": "tool-call"} for call in calls if isinstance(call, dict)]
    return {"role": "assistant", "content": blocks} if blocks else None


# ---- usage


def _usage(attributes: Mapping[str, Any], role: Literal["call", "aggregate"]) -> UsageClaim | None:
    a = attributes
    # a parent's metadata are those of its last step, and no part of its sums
    metadata = mapping(structure(a.get("ai.response.providerMetadata"))) if role == "call" else {}
    raw = _raw_usage(metadata)
    claim = UsageClaim(
        input=number(a, *_INPUT),
        output=number(a, *_OUTPUT),
        cache_read=_known(number(a, *_READ), raw.cache_read, _count(metadata, _READ_OF)),
        cache_write=_known(number(a, *_WRITE), raw.cache_write, _count(metadata, _WRITE_OF)),
        cache_write_1h=raw.cache_write_1h,
        cache_write_5m=raw.cache_write_5m,
        reasoning=_known(number(a, *_REASONING), raw.reasoning, _count(metadata, _REASONING_OF)),
        total=number(a, *_TOTAL),
    )
    if all(n is None for n in (claim.input, claim.output, claim.total)):
        return None
    semantics, evidence = _semantics(a, claim, raw)
    claim = claim._replace(
        semantics=semantics, semantics_evidence=evidence, zeros_omitted=_is_accounted_for(a, claim)
    )
    if role == "aggregate" and semantics == "exclusive":
        return claim._replace(input=None, total=None)  # with no word on what was written to the cache
    return claim


def _semantics(
    attributes: Mapping[str, Any], claim: UsageClaim, raw: UsageClaim
) -> tuple[Literal["inclusive", "exclusive"], str]:
    """AI SDK 6 made ``inputTokens`` include the cached ones; before, the provider's number was passed on."""
    if any(key.startswith(_DETAILS) for key in attributes):
        return "inclusive", "ai.usage.inputTokenDetails: AI SDK 6 or later"
    cached = (raw.cache_read or 0) + (raw.cache_write or 0)
    if raw.semantics and raw.input is not None and cached:
        if claim.input == raw.input:
            return raw.semantics, _FROM_RAW
        if raw.semantics == "exclusive" and claim.input == raw.input + cached:
            return "inclusive", _FROM_RAW
    version = _version(attributes)
    if version is not None and version >= _FIRST_INCLUSIVE:
        return "inclusive", f"AI SDK {version}"
    exclusive = any(name in _provider(attributes) for name in _EXCLUSIVE)
    return "exclusive" if exclusive else "inclusive", _FROM_PROVIDER


def _version(attributes: Mapping[str, Any]) -> int | None:
    """The SDK's major version, where a span says it."""
    said = _SAID_VERSION.search(text(attributes, "ai.request.headers.user-agent"))
    major = said[1] if said else text(attributes, "ai.sdk.version").partition(".")[0]
    return int(major) if major.isdecimal() else None


def _is_accounted_for(attributes: Mapping[str, Any], claim: UsageClaim) -> bool:
    """Do the parts of the input that are told make up the whole? Then the part that is not told is 0."""
    uncached = number(attributes, f"{_DETAILS}noCacheTokens")
    return uncached is not None and claim.input == uncached + (claim.cache_read or 0) + (
        claim.cache_write or 0
    )


def _raw_usage(metadata: Mapping[str, Any]) -> UsageClaim:
    for provider, name in _RAW_USAGE.items():
        found = read_usage(mapping(metadata.get(provider)).get(name))
        if found is not None:
            return found
    return UsageClaim()


def _count(metadata: Mapping[str, Any], names: Mapping[str, str]) -> int | None:
    for provider, name in names.items():
        own = mapping(metadata.get(provider))
        found = _known(number(own, name), number(mapping(own.get("usage")), name))
        if found is not None:
            return found
    return None


def _known(*counts: int | None) -> int | None:
    return next((c for c in counts if c is not None), None)
