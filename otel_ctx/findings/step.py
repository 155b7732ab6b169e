"""What a check may look at: one call, the call that it continues, and what was found before it in its conversation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from otel_ctx.frozen import frozen
from otel_ctx.model import Break, Call, Context, Finding, NotChecked, Reading, Segment
from otel_ctx.rules import Family, Rules, load


@frozen(frozen=True, slots=True, eq=False)
class Step:
    """``previous`` is the conversation's call before; ``compared`` the call whose prompt this one should
    have kept (None after a hand-off, or where there was none); ``breaks`` are the conversation's earlier breaks, oldest
    first; ``text`` gives a segment's text by its digest while it is kept; ``sum_conflicts`` are the contradictions between
    the call's numbers and the sums that agent spans above it write; ``before`` is how full the window was when that was
    last known; ``rules`` are those of the analysis, ``rule`` is the cache's, where one is known; ``compactions`` are the
    turns of the conversation at which its history was replaced before."""

    reading: Reading
    previous: Call | None
    compared: Call | None
    breaks: Sequence[Break]
    text: Callable[[str], str | None]
    sum_conflicts: Sequence[str] = field(default=())
    before: Context | None = None
    rules: Rules = field(default_factory=load)
    rule: Family | None = None
    compactions: Sequence[int] = ()

    @property
    def call(self) -> Call:
        return self.reading.call

    @property
    def minimum(self) -> int | None:
        return self.rule.min_cacheable_tokens if self.rule is not None else None

    @property
    def engine(self) -> str:
        return self.rule.engine if self.rule is not None else ""


_NAME = re.compile(r"[\w.:/@-]{1,64}")  # anything else may be more than a name


def named(tool: Segment) -> str:
    """``tools[2] (lookup)``"""
    return f"{tool.path} ({tool.name})" if _NAME.fullmatch(tool.name) else tool.path


Check = Callable[[Step], Iterator[Finding | NotChecked]]
"""Looks at one call; yields what it found there, or what it could not check and why."""


def rest_of(call: Call, at: Break) -> Sequence[Segment]:
    """The call's own segments from the break on; the other call may have lost sections that this one has."""
    segments = list(call.prompt)
    places = (i for i, s in enumerate(segments) if s is at.before or s is at.after)
    return segments[next(places, len(segments)) :]
