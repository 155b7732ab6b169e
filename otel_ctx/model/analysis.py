"""What is said of many calls: their conversations, their libraries, and everything together."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from otel_ctx.model.reading import Finding, NotChecked, Reading, Savings
from otel_ctx.model.values import Band


@dataclass(frozen=True, slots=True, eq=False)
class Conversation:
    id: str
    parent: str | None
    calls: tuple[str, ...]
    services: tuple[str, ...]
    agents: tuple[str, ...]
    models: tuple[str, ...]
    usage_peak: int | None
    usage_last: int | None
    limit: int | None
    headroom: int | None
    headroom_turns: float | None
    band: Band
    gaps: int
    joined: bool
    # tokens that the turns left would not send again after a fresh start
    saved_by_restarting: int | None = None
    savings: Savings | None = None  # None: not known before the end of a dump, no price is, or ``part``
    part: bool = False  # of its calls, some were not selected


@dataclass(frozen=True, slots=True)
class Withheld:
    """Something that a library did not record of ``calls`` of its calls; None: nobody knows how many there were. ``lost`` is a
    word of the table of switches."""

    lost: str
    title: str
    calls: int | None
    fix: str


@dataclass(frozen=True, slots=True)
class Library:
    """What one instrumentation, in one version, wrote of model calls.

    ``calls``: how many it is the main teller of; ``again``: of how many another one is; ``sums``: its spans that sum calls up.
    ``gives``: what, and how many of its records hold it (a call's content may lie in several)."""

    scope: str
    version: str
    dialects: tuple[str, ...]
    calls: int
    again: int
    sums: int
    gives: tuple[tuple[str, int], ...]
    withholds: tuple[Withheld, ...]


def _none_of(_: Container[str]) -> tuple[Library, ...]:
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Everything that was said. ``text`` gives a segment's text by digest while it is kept."""

    readings: tuple[Reading, ...]
    conversations: tuple[Conversation, ...]
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    spans: int
    log_records: int
    orphans: int  # content records whose span never came
    unassigned_bytes: int
    # scopes that look like a model's telemetry but that no dialect knows
    foreign: tuple[tuple[str, int], ...]
    text: Callable[[str], str | None]
    ignored: tuple[tuple[str, int], ...] = ()  # (kind, calls) of findings that the settings leave out
    libraries: tuple[Library, ...] = ()
    # the same of some calls, by their ids
    libraries_of: Callable[[Container[str]], tuple[Library, ...]] = _none_of
