"""The service tier that a request was billed as, by the words of any provider.

Source: the APIs' references. ``service_tier`` of OpenAI's and Groq's answers and of Anthropic's usage, ``serviceTier`` of
Bedrock Converse and of Gemini's usage metadata, ``trafficType`` of Vertex AI's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES = ("service_tier", "serviceTier", "traffic_type", "trafficType")
_NAME = re.compile(r"[a-z][a-z_-]{0,31}")  # a name and no text
_STANDARD = frozenset({"default", "standard", "on_demand"})
# of a request: it may become any
_TELLS_NOTHING = frozenset({"", "auto", "standard_only", "traffic_type_unspecified"})


def read_tier(*told: Any) -> str:
    """``told``: answers, usages, requests, or a tier itself, the surest first; "" where none tells."""
    return next((tier for value in told if (tier := _tier(value))), "")


def _tier(value: Any) -> str:
    if isinstance(value, Mapping):
        named = next((value[name] for name in _NAMES if value.get(name)), None)
        named = named.get("type") if isinstance(named, Mapping) else named
        tier = _tier(named) if isinstance(named, str) else ""
        # Anthropic's fast mode has prices of its own and is no tier by name
        return "fast" if value.get("speed") == "fast" and tier in ("", "standard") else tier
    if not isinstance(value, str):
        return ""
    name = value.strip().lower()
    if name in _TELLS_NOTHING:
        return ""
    if name in _STANDARD:
        return "standard"
    return name.removeprefix("on_demand_") if _NAME.fullmatch(name) else "other"
