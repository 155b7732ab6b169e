"""What several records tell of one request -> one Call, counted once.

The same request is told by a framework's span, by the SDK's own span below it (Anthropic's traces itself by default), by a
second instrumentation, by log records that hold its content, and once more in the sums of agent and chain spans. Leaves
count; a parent's sum is a check.
"""

from otel_ctx.calls.completeness import accounted_for, has_hole, with_cut, without_server, without_tools
from otel_ctx.calls.fold import Folded, Made, by_start, fold
from otel_ctx.calls.groups import awaits_its_end, may_be_told_twice
from otel_ctx.calls.pieces import history_of
from otel_ctx.calls.told import Told, another_span, content_of, own_key, usage_of

__all__ = [
    "Folded",
    "Made",
    "Told",
    "accounted_for",
    "another_span",
    "awaits_its_end",
    "by_start",
    "content_of",
    "fold",
    "has_hole",
    "history_of",
    "may_be_told_twice",
    "own_key",
    "usage_of",
    "with_cut",
    "without_server",
    "without_tools",
]
