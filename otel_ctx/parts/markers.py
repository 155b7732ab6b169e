"""Prompt-cache markers as requests carry them: ``cache_control`` (Anthropic), ``cachePoint`` (Bedrock),
``cacheControl`` in the AI SDK's provider options."""

from __future__ import annotations

from typing import Any

from otel_ctx.parts.texts import loads

_PLACES = frozenset(
    {"cache_control", "cacheControl", "cachePoint", "providerOptions", "providerMetadata", "provider_options"}
)


def marker_of(block: dict[str, Any]) -> str:
    """ "5m" | "1h" | "default" (marked, no TTL said) | "" (not marked)."""
    if _PLACES.isdisjoint(block) and not _is_written_out(block):
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
    if not control and _is_written_out(block):
        try:
            control = loads(block["content"]).get("cachePoint")
        except (ValueError, AttributeError):
            control = True
    if not control:
        return ""
    ttl = control.get("ttl") if isinstance(control, dict) else None
    return str(ttl) if ttl in ("5m", "1h") else "default"


def is_cache_point(block: Any) -> bool:
    """A block that is a marker and nothing else: it marks what stands before it."""
    if not isinstance(block, dict):
        return False
    return (isinstance(block.get("cachePoint"), dict) and not block.get("text")) or _is_written_out(block)


def _is_written_out(block: dict[str, Any]) -> bool:
    """A cache point that an instrumentation took for content: a text part that holds its JSON."""
    text = block.get("content")
    return isinstance(text, str) and text.startswith('{"cachePoint":')
