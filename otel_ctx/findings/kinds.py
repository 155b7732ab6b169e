"""Every kind of finding that there is or will be. The list grows; nothing in it is renamed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from otel_ctx.model import Severity

KINDS: tuple[str, ...] = (
    "volatile_prefix", "tools_reordered", "tool_schema_key_order", "window_exceeded", "compaction_loop",
    "prefix_changed", "tools_changed", "moved_segment", "model_switch", "parameters_changed", "no_cache_control",
    "below_minimum", "breakpoint_before_change", "frozen_breakpoint", "lookback_exceeded", "missing_tail_breakpoint",
    "ttl_expired", "ttl_overpaid", "ttl_lost", "parallel_miss", "unexplained_miss", "server_side_rewrite_suspected",
    "headroom_low", "growth_spike", "content_truncated", "attributes_dropped", "usage_inconsistent",
    "double_instrumentation",
    "provider_side_miss", "duplicate_content", "dead_tool_schema", "evicted_content", "compaction",
    "content_not_captured", "usage_missing", "unpriced_model", "unknown_cache_rule",
    "unknown_dialect",
)  # fmt: skip

_ERRORS = frozenset(KINDS[: KINDS.index("prefix_changed")])
_INFOS = frozenset(KINDS[KINDS.index("provider_side_miss") :])


def severity_of(kind: str) -> Severity:
    """What a finding of the kind has, if nobody grades it otherwise."""
    return "error" if kind in _ERRORS else "info" if kind in _INFOS else "warning"


@dataclass(frozen=True, slots=True)
class Explanation:
    severity: Severity
    means: str
    found: str
    sure: str


@cache
def explanations() -> Mapping[str, Explanation]:
    """By kind, in the order of ``KINDS``."""
    told = tomllib.loads(files("otel_ctx.findings").joinpath("explain.toml").read_text("utf-8"))
    return {kind: Explanation(severity_of(kind), **told[kind]) for kind in KINDS}
