"""Every kind of finding that there is or will be. The list grows; nothing in it is renamed."""

from __future__ import annotations

KINDS: tuple[str, ...] = (
    "volatile_prefix", "tools_reordered", "tool_schema_key_order", "window_exceeded", "compaction_loop",
    "prefix_changed", "tools_changed", "moved_segment", "model_switch", "parameters_changed", "no_cache_control",
    "below_minimum", "breakpoint_before_change", "frozen_breakpoint", "lookback_exceeded", "missing_tail_breakpoint",
    "ttl_expired", "ttl_overpaid", "ttl_lost", "parallel_miss", "unexplained_miss", "server_side_rewrite_suspected",
    "headroom_low", "growth_spike", "content_truncated", "attributes_dropped", "usage_inconsistent",
    "double_instrumentation",
    "provider_side_miss", "duplicate_content", "dead_tool_schema", "evicted_content", "compaction",
    "content_not_captured", "usage_missing", "unpriced_model", "unknown_dialect",
)  # fmt: skip
