"""The provider's own word on its cache, wherever an instrumentation puts it.

A helper of the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects.parameters import ANSWERS
from otel_ctx.model import Diagnosis
from otel_ctx.parts import mapping, structure
from otel_ctx.parts.diagnoses import read_diagnosis, read_edits, read_reason

_METADATA = ("metadata", "agento11y.generation.metadata")
_SIGNS = ("cache_miss_reason", "prompt_cache_diagnostics", "applied_edits", "cache_diagnostics")
_AGENTO11Y = "agento11y.cache_diagnostics."
NAMES = frozenset((*_METADATA, *ANSWERS, f"{_AGENTO11Y}miss_reason"))
"""Of all attributes that it is read from."""


def of_attributes(attributes: Mapping[str, Any]) -> Diagnosis | None:
    if NAMES.isdisjoint(attributes):
        return None
    for keys, read in ((_METADATA, _of_metadata), (ANSWERS, read_diagnosis)):
        for key in keys:
            found = read(_signed(attributes[key])) if key in attributes else None
            if found is not None:
                return found
    return _of_agento11y(attributes)


def _signed(value: Any) -> Mapping[str, Any]:
    """Parsed, where there is something to be found."""
    if isinstance(value, str):
        return mapping(structure(value)) if any(sign in value for sign in _SIGNS) else {}
    return mapping(value)


def _of_metadata(metadata: Mapping[str, Any]) -> Diagnosis | None:
    return (
        read_reason(metadata.get("cache_miss_reason"))
        or _of_agento11y(metadata)
        or read_edits(metadata.get("context_management_applied_edits"))
    )


def _of_agento11y(values: Mapping[str, Any]) -> Diagnosis | None:
    reason, tokens = values.get(f"{_AGENTO11Y}miss_reason"), values.get(f"{_AGENTO11Y}missed_input_tokens")
    if not isinstance(reason, str) or not reason:
        return None
    return Diagnosis(reason, tokens if type(tokens) is int and tokens >= 0 else None)
