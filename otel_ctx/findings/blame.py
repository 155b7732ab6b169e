"""What a call's lost tokens are put down to: one cause for each, and nothing where nothing was lost."""

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
    """``tokens``: all that were lost; ``behind``: the cause of those behind the last marker, or of what was lost beside a
    compaction, and how many these are."""

    cause: str
    tokens: int
    evidence: Evidence
    behind: tuple[str, int] = ("", 0)

    @property
    def losses(self) -> tuple[tuple[str, int], ...]:
        """(cause, tokens): each lost token once."""
        if not self.tokens:
            return ()
        own = (self.cause, self.tokens - self.behind[1])
        return tuple(share for share in (own, self.behind) if share[0] and share[1])


NOTHING = Blame("", 0, "unknown")


def blame(step: Step, findings: Sequence[Finding]) -> Blame:
    access = step.reading.access
    of_text = [f for f in findings if f.kind in _OF_KIND]
    whole = _whole(step, of_text[0] if of_text else None)
    head = next((f for f in of_text if f.kind != "compaction"), None) if whole.cause == "compaction" else None
    if head is not None and whole.tokens:
        return whole._replace(behind=(_OF_KIND[head.kind], min(head.tokens, whole.tokens)))
    if access is None or not access.behind or not whole.tokens or whole.cause == access.behind_cause:
        return whole
    if access.behind >= whole.tokens:
        return Blame(access.behind_cause, whole.tokens, access.aside)
    return whole._replace(behind=(access.behind_cause, access.behind))


def _whole(step: Step, text: Finding | None) -> Blame:
    """``text``: what is first said of what became of it."""
    access = step.reading.access
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
