"""What a call's lost tokens are put down to: one cause for each call, and nothing where nothing was lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from otel_ctx.findings.step import Step
from otel_ctx.model import Evidence, Finding

_OF_KIND = {
    **{
        kind: kind
        for kind in (
            "compaction", "tools_reordered", "tool_schema_key_order", "volatile_prefix", "moved_segment", "tools_changed",
            "prefix_changed", "breakpoint_before_change",
        )
    },
    "evicted_content": "prefix_changed",
}  # fmt: skip
"""Finding kinds that say what became of the text, and the cause that each stands for."""


class Blame(NamedTuple):
    cause: str
    tokens: int
    evidence: Evidence


NOTHING = Blame("", 0, "unknown")


def blame(step: Step, findings: Sequence[Finding]) -> Blame:
    access = step.reading.access
    text = next((f for f in findings if f.kind in _OF_KIND), None)
    if access is None:
        return Blame(_OF_KIND[text.kind], 0, text.evidence) if text is not None else NOTHING
    if access.barrier:
        return Blame(access.barrier, access.lost, access.sure)
    if text is not None:
        return Blame(_OF_KIND[text.kind], access.lost, text.evidence)
    if not access.lost:
        return NOTHING
    if access.otherwise:
        return Blame(access.otherwise, access.lost, access.sure)
    if step.reading.break_ is not None and not access.simulated:
        return Blame("unknown", access.lost, "unknown")
    return NOTHING
