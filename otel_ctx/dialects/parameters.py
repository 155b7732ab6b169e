"""The settings of a request that are part of what a provider caches, wherever an instrumentation puts them.

A helper of the dialects. Values are compared, never shown: each is a short digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import xxhash

from otel_ctx.parts import compact, loads, read_tier, structure

Parameters = tuple[tuple[str, str], ...]
"""(name, digest of the value), sorted; a value that is the provider's default is left out."""

_NAMES = {
    "tool_choice": "tool_choice", "toolChoice": "tool_choice",
    "parallel_tool_calls": "parallel_tool_calls", "disable_parallel_tool_use": "disable_parallel_tool_use",
    "thinking": "thinking", "thinking_type": "thinking", "thinkingConfig": "thinking", "thinking_config": "thinking",
    "thinking.type": "thinking", "thinking.budget_tokens": "thinking_budget", "reasoning": "thinking",
    "reasoning_effort": "effort", "reasoning.effort": "effort", "effort": "effort", "reasoningEffort": "effort",
    "output_config": "effort", "response_format": "response_format", "responseFormat": "response_format",
    "text": "response_format", "text.format": "response_format", "response_schema": "response_format",
    "verbosity": "verbosity", "speed": "speed",
    "prompt_cache_key": "prompt_cache_key", "promptCacheKey": "prompt_cache_key",
}  # fmt: skip
_PREFIXES = (
    "gen_ai.request.",
    "gen_ai.openai.request.",
    "gen_ai.anthropic.request.",
    "llm.request.",
    "llm.",
    "anthropic.",
)
_KEYS = {f"{prefix}{name}": known for prefix in _PREFIXES for name, known in _NAMES.items() if name != "text"}
_INSIDE = (
    "llm.invocation_parameters", "langsmith.metadata.ls_invocation_params", "gen_ai.request.parameters",
    "langfuse.observation.model.parameters",
)  # fmt: skip
_SETTINGS = frozenset((*_KEYS, *_INSIDE))
_HOLDERS = ("toolConfig", "additionalModelRequestFields")  # of Bedrock's Converse
_DEFAULTS = {("tool_choice", '{"auto":{}}'), ("tool_choice", "auto"),
             ("tool_choice", '{"type":"auto"}'), ("parallel_tool_calls", "true"),
             ("disable_parallel_tool_use", "false"), ("thinking", '{"type":"disabled"}'), ("thinking", "disabled"),
             ("response_format", '{"type":"text"}'), ("response_format", '{"format":{"type":"text"}}')}  # fmt: skip


def of_attributes(attributes: Mapping[str, Any]) -> Parameters:
    """Those that stand in a span's attributes, one by one or in a JSON object of them."""
    found: dict[str, str] = {}
    if _SETTINGS.isdisjoint(attributes):
        return ()
    for key in _INSIDE:
        value = attributes.get(key)
        if isinstance(value, str):
            found.update(_parsed(value))
        elif isinstance(value, Mapping):
            found.update(of_request(value))
    for key in sorted(_KEYS.keys() & attributes.keys()):
        _put(found, _KEYS[key], attributes[key])
    return tuple(sorted(found.items()))


ANSWERS = ("output.value", "response_data", "langfuse.observation.output")
"""Where a dialect has the answer's body, as JSON."""

_ANSWERED = (
    "openai.response.service_tier", "gen_ai.openai.response.service_tier", "anthropic.response.service_tier",
    "gen_ai.anthropic.response.service_tier", "gen_ai.response.service_tier",
)  # fmt: skip
_ASKED = (
    "openai.request.service_tier", "gen_ai.openai.request.service_tier", "gen_ai.request.service_tier",
    "llm.request.service_tier",
)  # fmt: skip
_TIER = frozenset((*_ANSWERED, *_ASKED, *_INSIDE, *ANSWERS))
NAMES = _SETTINGS | _TIER
"""Of all attributes that settings or a tier are read from."""

_USAGES = ("usage", "usageMetadata", "usage_metadata")
_NAMED = re.compile("service_?tier|traffic_?type", re.IGNORECASE)


def tier_of(attributes: Mapping[str, Any]) -> str:
    """The service tier, "" where none is told."""
    if _TIER.isdisjoint(attributes):
        return ""
    bodies = [told for key in ANSWERS for told in _answered(attributes.get(key))]
    found = read_tier(
        *(attributes.get(name) for name in _ANSWERED), *bodies, *(attributes.get(name) for name in _ASKED)
    )
    if found:
        return found
    held = (attributes.get(key) for key in _INSIDE)
    return read_tier(*(structure(v) for v in held if not isinstance(v, str) or "service_tier" in v))


def _answered(value: Any) -> tuple[Any, ...]:
    """A provider's answer (a model's own JSON has no usage) and its usage, where they may tell a tier."""
    if isinstance(value, str) and not _NAMED.search(value):
        return ()
    body = structure(value)
    if not isinstance(body, Mapping) or not any(name in body for name in _USAGES):
        return ()
    return (body, *(body.get(name) for name in _USAGES))


def of_request(body: Mapping[str, Any]) -> Parameters:
    """Those of a request's own body, or of the arguments that made it."""
    found: dict[str, str] = {}
    for holder in _HOLDERS:
        inner = body.get(holder)
        if isinstance(inner, Mapping):
            found.update(of_request(inner))
    for name, known in _NAMES.items():
        if name in body:
            _put(found, known, body[name])
    reasoning, text = body.get("reasoning"), body.get("text")  # of OpenAI's Responses
    if isinstance(reasoning, Mapping):
        _put(found, "effort", reasoning.get("effort"))
    if isinstance(text, Mapping) and text.keys() & {"format", "verbosity"}:
        found.pop("response_format", None)
        _put(found, "response_format", text.get("format"))
        _put(found, "verbosity", text.get("verbosity"))
    return tuple(sorted(found.items()))


@lru_cache(maxsize=256)
def _parsed(text: str) -> Parameters:
    try:
        body = loads(text)
    except ValueError:
        return ()
    return of_request(body) if isinstance(body, dict) else ()


def _put(found: dict[str, str], name: str, value: Any) -> None:
    text = value if isinstance(value, str) else compact(value)
    if value is None or text == "" or (name, text) in _DEFAULTS:
        return
    if name == "response_format" and isinstance(value, str) and value in ("text", "json"):
        return  # OpenTelemetry's gen_ai.output.type is no setting of the request
    found[name] = xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass"))
