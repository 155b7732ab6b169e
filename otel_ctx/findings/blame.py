"""What a call's lost tokens are put down to: one cause for each, and nothing where nothing was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


class Share(NamedTuple):
    """What one cause lost of the tokens."""

    cause: str
    tokens: int
    evidence: Evidence


class Blame(NamedTuple):
    """``tokens``: all that were lost; ``beside``: what other causes than the first one lost of them."""

    cause: str
    tokens: int
    evidence: Evidence
    beside: tuple[Share, ...] = ()

    @property
    def losses(self) -> tuple[tuple[str, int], ...]:
        """(cause, tokens): each lost token once."""
        if not self.tokens:
            return ()
        own = self.cause, self.tokens - sum(s.tokens for s in self.beside)
        return tuple(share for share in (own, *(s[:2] for s in self.beside)) if share[0] and share[1])


NOTHING = Blame("", 0, "unknown")


def blame(step: Step, findings: Sequence[Finding]) -> Blame:
    of_text = [f for f in findings if f.kind in _OF_KIND]
    whole = _whole(step, of_text[0] if of_text else None)
    if not whole.tokens:
        return whole
    left, beside = whole.tokens, list[Share]()
    for cause, tokens, evidence in _others(step, of_text[1:]):
        if cause and cause != whole.cause and min(tokens, left):
            beside.append(Share(cause, min(tokens, left), evidence))
            left -= beside[-1].tokens
    if left or not beside:
        return whole._replace(beside=tuple(beside))
    first, *rest = beside  # of what was lost nothing is the first cause's own
    return Blame(first.cause, whole.tokens, first.evidence, tuple(rest))


def _others(step: Step, of_text: Sequence[Finding]) -> Iterator[Share]:
    """Beside the first cause: other changes of the text, then what stood behind the last marker or unseen."""
    access = step.reading.access
    for f in of_text:
        yield Share(_OF_KIND[f.kind], f.tokens, f.evidence)
    if access is not None:
        yield Share(access.behind_cause, access.behind, access.aside)


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
