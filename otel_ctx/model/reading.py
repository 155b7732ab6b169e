"""What the engine says of one call: how full the window is, what the cache did, what it cost, what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from otel_ctx.frozen import frozen
from otel_ctx.model.call import Call
from otel_ctx.model.prompt import Segment
from otel_ctx.model.values import Band, Evidence, Kind, Method, Outcome, Relation, Severity


@frozen(frozen=True, slots=True)
class Context:
    """How full the window is at one call. ``usage`` is in tokens, cached ones included."""

    usage: int | None
    usage_method: Method
    limit: int | None
    limit_source: str  # setting | attribute | rules | observed | ""
    reserve: int
    utilization: float | None
    headroom: int | None
    headroom_turns: float | None
    growth: float | None  # tokens a turn, least squares over the last turns
    band: Band


@frozen(frozen=True, slots=True)
class Tokens:
    """``counted`` + ``unaccounted`` = the reported input. ``factor`` turns counted tokens into the provider's
    where the count is an estimate that usage has calibrated."""

    counted: int
    unaccounted: int | None
    server_side: int | None
    method: Method
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Break:
    """The first segment at which a call stops agreeing with the call that it continues. ``then``: the next one that stands
    changed at its place, behind the tools."""

    path: str
    kind: Kind
    change: Literal["modified", "added", "removed", "reordered"]
    tokens: int  # that stood after the break in the earlier call, and had to be read again
    char_offset: int | None
    index: int  # in the list of segments
    before: Segment | None
    after: Segment | None
    then: Break | None = None


class CacheTokens(NamedTuple):
    """A call's input by what the prompt cache does with it."""

    read: int
    write: int
    uncached: int


class Access(NamedTuple):
    """What the prompt cache did with a call, and what it could have done. Tokens are the provider's own.

    ``expected``: what the cache would have read had the prompt before been kept and well marked; ``actual``: what it
    read, by the provider's word or, ``simulated``, by the rules, None where these rest on text that was not seen;
    ``lost``: the difference where it means something.
    ``cause`` is what stood in the way whatever the text was, else what remains where the text did not change;
    ``sure``: how that is known."""

    predicted: CacheTokens | None
    reported: CacheTokens | None
    optimal: CacheTokens | None
    outcome: Outcome
    expected: int
    actual: int | None
    simulated: bool
    lost: int
    barrier: str  # a cause that no text could have helped: nothing else is to blame
    otherwise: str  # a cause that is to be named where the text does not say one
    sure: Evidence
    gap_seconds: float | None = None  # since the last use of what could have been read
    ttl_seconds: int | None = None  # that this lives for certain
    ttl_most: int | None = None  # and at the outside
    note: str = ""  # what the cause rests on, in words, without prompt text
    behind: int = 0  # of ``lost``: tokens behind the last marker of the call before, or in front of the break and unseen
    behind_cause: str = ""
    further: int = 0  # of ``lost`` and not ``behind``: tokens that the next change behind the break would have lost alone
    minimum: int = 0  # tokens of a prompt below which its rule keeps nothing
    in_use: bool = True  # False: something would have been lost if any cache were known to be in use
    ruled: bool = True  # False: more could have been read if its cache keeps that, and no rule of it is known
    implied: bool = (
        False  # that nothing was read is taken from a count that no call of its service has told yet
    )
    promised: bool = True  # False: by its rule, what the cache keeps is as it pleases

    @property
    def aside(self) -> Evidence:
        """How sure ``behind_cause`` is."""
        return "unknown" if self.behind_cause == "unknown" else "inferred"


@frozen(frozen=True, slots=True)
class Cost:
    """List price of one call in USD, between ``low`` and ``high`` where usage or prices leave a class of tokens open; ``usd``
    counts what is open as the dearer one that is usual. ``parts`` add up to it. ``wasted``: of the lost tokens, above
    the price of a read; ``saved``: what the cache saved; each None where it wants the price of a read and there is none."""

    usd: float
    low: float
    high: float
    method: Literal["table", "maker", "package"]
    parts: Mapping[str, float]  # input_uncached, cache_read, cache_write, output
    wasted: float | None
    saved: float | None
    losses: Mapping[str, float] = field(default_factory=dict)  # ``wasted`` by cause
    wasted_high: float | None = (
        None  # ``wasted`` at most, where usage does not say for how long tokens were written
    )


Lifetime = Literal["as_it_is", "shorter", "longer", "kept_alive"]
"""Of cache entries: as they were asked for; the usual one, where a longer one was in vain; a longer one that the provider
offers; as they were asked for, and renewed in pauses."""


@dataclass(frozen=True, slots=True)
class Savings:
    """What a conversation would save at list price with its findings fixed. ``tokens`` would be read from the cache instead of
    billed again; ``usd``: None where none of them has a price; ``spent``: USD that it cost; ``lifetime``: that is cheapest with
    its pauses, and ``ttl`` the provider's name of it where it is another one than was asked for."""

    tokens: int
    usd: float | None
    spent: float
    lifetime: Lifetime
    ttl: str = ""

    @property
    def share(self) -> float | None:
        """``usd`` of ``spent``; None where either is not known."""
        return self.usd / self.spent if self.usd is not None and self.spent else None


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    severity: Severity
    title: str
    detail: str  # never prompt text
    fix: str
    calls: tuple[str, ...]
    path: str = ""
    tokens: int = 0
    usd: float | None = None  # what these tokens cost above a read; None: no price is known
    evidence: Evidence = "predicted"
    excerpt: str = ""  # the characters themselves: shown only where text may be shown


@dataclass(frozen=True, slots=True)
class NotChecked:
    check: str
    why: str
    calls: tuple[str, ...]


class Reading(NamedTuple):
    """What the engine says of one call."""

    call: Call
    conversation: str  # id of the conversation's first call
    turn: int
    relation: Relation
    previous: str | None  # id of the call that it continues
    shared: int  # segments that it shares with ``previous`` from the start
    context: Context
    tokens: Tokens
    break_: Break | None
    findings: tuple[str, ...] = ()  # kinds
    access: Access | None = None  # None: nothing can be said of the cache
    # what cost most of the ``wasted`` tokens: a cause of the closed list, "" where nothing was lost
    cause: str = ""
    wasted: int = 0
    losses: tuple[tuple[str, int], ...] = ()  # (cause, tokens): each lost token once
    evidence: Evidence = "unknown"
    cost: Cost | None = None  # None: the model has no known price, or its usage was not reported
    gap: bool = False
    compared: str | None = None  # id of the call whose prompt it should have kept, and was held against
    provisional: bool = False  # more may still come: the parent is open, content may follow in log records

    @property
    def seen(self) -> bool:
        return self.call.completeness.text_seen

    @property
    def judged(self) -> bool:
        """Is it known what the cache gave, and whether that was less than it should? Only then ``wasted`` is a verdict, be it
        0. A loss that has no cause, of a prompt that was not seen whole, may be anybody's; where no rule of the cache is
        known, it need not be one."""
        access = self.access
        if access is None or access.actual is None or self.handed_over:
            return False
        return bool(self.wasted) or (access.ruled and not (access.lost and self.call.completeness.lost))

    @property
    def unruled(self) -> bool:
        """It read less than it could have, the text does not say why, and no rule of its model's cache is known."""
        return self.access is not None and not self.access.ruled and not self.wasted

    @property
    def handed_over(self) -> bool:
        """It goes on from another call, and looks like another agent's, which is not named: it was not held against any."""
        on = self.relation in ("continues", "rewrites", "compacted") and self.previous is not None
        return on and self.compared is None and not self.call.agent

    @property
    def unplaced(self) -> bool:
        """Nothing that was recorded says what the call goes on from: it need not be the first of anything."""
        cut = bool(self.call.completeness.lost & {"messages", "head"})
        return self.previous is None and (cut or not self.seen)


def wasted_tokens(readings: Sequence[Reading]) -> int | None:
    """Tokens billed again; None where what the cache gave is not known of any call that could lose something: one that
    goes on from another, where there is one; and where some read less than they could have, by no known rule."""
    total = sum(r.wasted for r in readings if r.judged)
    if not total and any(r.unruled for r in readings):
        return None
    following = [r for r in readings if r.previous is not None] or readings
    return total if total or any(r.judged for r in following) else None


@frozen(frozen=True, slots=True, eq=False)
class Said:
    """A reading with what was found at that call, as it is said at one moment: first when its span arrives
    (``reading.provisional`` where more may come), and once more when it is settled."""

    reading: Reading
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    again: bool = False  # another span tells of a call that was told before: nothing is to be counted
    usage_later: bool = False  # its usage is to be counted when it is settled, not when it is said first
    ignored: tuple[str, ...] = ()  # kinds that were found and left out, as the settings want it
