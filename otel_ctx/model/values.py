"""The closed value sets: the vocabulary of reports, span attributes and metric labels alike."""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "tools", "system", "user", "assistant", "tool_call", "tool_result", "image", "file", "thinking"
]
KINDS: tuple[Kind, ...] = (
    "tools", "system", "user", "assistant", "tool_call", "tool_result", "image", "file", "thinking",
)  # fmt: skip

MODEL_KINDS: tuple[Kind, ...] = ("assistant", "tool_call", "thinking")
"""What the model itself wrote."""

Status = Literal["full", "partial", "usage_only", "none"]
Reason = Literal[
    "attributes_dropped", "value_cut", "message_cut", "redacted", "not_captured", "logs_missing",
    "reference_missing", "server_side", "media_placeholder", "aggregate_only", "schema_missing",
    "unparsable", "guessed", "late",
]  # fmt: skip
Method = Literal["exact", "calibrated", "estimated", "unmeasured"]
Evidence = Literal["confirmed", "reported", "predicted", "inferred", "unknown"]
Severity = Literal["error", "warning", "info"]
Band = Literal["ok", "low", "critical", "exceeded", "unknown"]
Relation = Literal["new", "continues", "rewrites", "compacted", "forks", "repeats", "joined"]
Role = Literal["primary", "duplicate", "aggregate"]
Record = Literal["span", "request", "transcript"]
"""What tells of a call: a span (or its log records), a line of a log of requests, a coding agent's transcript."""
Outcome = Literal["hit", "partial", "miss", "cold", "ineligible", "not_reported"]

NOT_OURS = ("provider_side_miss", "unknown")
"""Causes of which nobody knows what would help."""

SECOND = 1_000_000_000
"""In the nanoseconds of spans."""

METHODS: tuple[Method, ...] = ("exact", "calibrated", "estimated", "unmeasured")
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
