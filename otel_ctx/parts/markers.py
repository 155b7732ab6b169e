"""Prompt-cache markers as requests carry them: ``cache_control`` (Anthropic), ``cachePoint`` (Bedrock),
``cacheControl`` in the AI SDK's provider options."""

from __future__ import annotations

from typing import Any

from otel_ctx.parts.texts import loads

PLACES = frozenset(
    {"cache_control", "cacheControl", "cachePoint", "providerOptions", "providerMetadata", "provider_options"}
)


def marker_of(block: dict[str, Any]) -> str:
    """ "5m" | "1h" | "default" (marked, no TTL said) | "" (not marked)."""
    if PLACES.isdisjoint(block):
        return ""
    control = block.get("cache_control") or block.get("cacheControl") or block.get("cachePoint")
    if control is None:
        for options in (
            block.get("providerOptions"),
            block.get("providerMetadata"),
            block.get("provider_options"),
        ):
            if not isinstance(options, dict):
                continue
            for own in (options.get("anthropic"), options.get("bedrock")):
                if isinstance(own, dict) and not control:
                    control = own.get("cacheControl") or own.get("cache_control") or own.get("cachePoint")
    return _ttl(control)


def cache_point(block: Any) -> str | None:
    """The marker that is all of a block: it marks what stands before it. None where the block is anything else."""
    if not isinstance(block, dict):
        return None
    if "cachePoint" in block and isinstance(block["cachePoint"], dict) and not block.get("text"):
        return marker_of(block)
    text = block.get("content")
    if not isinstance(text, str) or not text.startswith(_WRITTEN_OUT):
        return None
    try:
        return marker_of(block) or _ttl(loads(text).get("cachePoint"))
    except (ValueError, AttributeError):
        return "default"


# One that an instrumentation took for content: a text part that holds its JSON.
_WRITTEN_OUT = '{"cachePoint":'


def _ttl(control: Any) -> str:
    if not control:
        return ""
    ttl = control.get("ttl") if isinstance(control, dict) else None
    return str(ttl) if ttl in ("5m", "1h") else "default"
