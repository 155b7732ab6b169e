"""Named, located problems, each with its cost and its fix.

A finding is one function that looks at one ``Step`` and one line here. What broke a prompt is told once: ``CAUSES`` are
asked in their order, the most specific first, and the first that speaks is heard.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.findings import prefix, quality, tools, window
from otel_ctx.findings.merge import gather
from otel_ctx.findings.quality import unknown_dialects
from otel_ctx.findings.step import Check, Step
from otel_ctx.findings.window import as_it_stands
from otel_ctx.model import Finding, NotChecked

CAUSES: tuple[Check, ...] = (
    prefix.compaction,
    prefix.doubtful,
    tools.tools_reordered,
    tools.tool_schema_key_order,
    prefix.volatile_prefix,
    prefix.moved_segment,
    tools.tools_changed,
    prefix.prefix_changed,
)


def cause(step: Step) -> Iterator[Finding | NotChecked]:
    """What the first of ``CAUSES`` that knows the break says of it."""
    for check in CAUSES:
        said = tuple(check(step))
        if said:
            yield from said
            return


CHECKS: tuple[Check, ...] = (
    prefix.not_seen,
    cause,
    window.window_exceeded,
    window.headroom_low,
    quality.content_not_captured,
    quality.content_truncated,
    quality.attributes_dropped,
    quality.usage_missing,
    quality.usage_inconsistent,
    quality.double_instrumentation,
)

__all__ = ["CAUSES", "CHECKS", "Check", "Step", "as_it_stands", "gather", "unknown_dialects"]
