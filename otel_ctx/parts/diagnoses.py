"""What a provider's answer says of its own prompt cache: why it was missed, or what was taken out of the prompt.

Anthropic: ``diagnostics.cache_miss_reason`` and ``context_management.applied_edits``; OpenAI: ``prompt_cache_diagnostics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.model import Diagnosis

EDITED = "context_edited"  # our word for edits that Anthropic applied; the others are the providers' own


def read_diagnosis(answer: Any) -> Diagnosis | None:
    """``answer``: the body of a response. None where it says nothing, or that nothing was missed."""
    if not isinstance(answer, Mapping):
        return None
    diagnostics = answer.get("diagnostics")
    if isinstance(diagnostics, Mapping):
        found = read_reason(diagnostics.get("cache_miss_reason"))
        if found is not None:
            return found
    told = answer.get("prompt_cache_diagnostics")
    if isinstance(told, Mapping) and told.get("type") == "cache_miss" and isinstance(told.get("reason"), str):
        return Diagnosis(told["reason"], _count(told.get("cache_missed_tokens")))
    edits = answer.get("context_management")
    return read_edits(edits.get("applied_edits")) if isinstance(edits, Mapping) else None


def read_reason(reason: Any) -> Diagnosis | None:
    """Anthropic's ``cache_miss_reason``."""
    if not isinstance(reason, Mapping) or not isinstance(reason.get("type"), str):
        return None
    return Diagnosis(reason["type"], _count(reason.get("cache_missed_input_tokens")))


def read_edits(edits: Any) -> Diagnosis | None:
    """Anthropic's ``applied_edits``: what they took out is gone; how much of the cache that cost is not said."""
    if isinstance(edits, list) and any(isinstance(e, Mapping) and e.get("type") for e in edits):
        return Diagnosis(EDITED)
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
