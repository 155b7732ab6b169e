"""One call after the other -> what is said of each: its place, its figures, its findings.

Calls must come in the order of their starts: a figure depends on its own call and on those before it, nothing else.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from otel_ctx.cache import Simulator
from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.context import context_of
from otel_ctx.conversations import Placed, Threads, find_break, keeps_all, shared_segments
from otel_ctx.cost import cost_of
from otel_ctx.engine.evidence import Evidence
from otel_ctx.engine.settings import Settings
from otel_ctx.engine.texts import Texts
from otel_ctx.findings import CHECKS, Blame, Step, blame, unknown_cache_rule, unpriced_model
from otel_ctx.memo import Memo
from otel_ctx.model import (
    Band,
    Break,
    Call,
    Context,
    Conversation,
    Cost,
    Finding,
    Method,
    NotChecked,
    Reading,
    Said,
    Tokens,
    told_otherwise,
)
from otel_ctx.rules import Rules

_FACTOR_LOW, _FACTOR_HIGH = 0.7, 1.5
_BREAKS_KEPT = 8
_HISTORIES = 200_000  # of a dump


@dataclass(slots=True)
class _Thread:
    """What a conversation has shown so far."""

    number: int
    base: int | None = None  # tokens that it began with
    peak: int | None = None
    usages: array[int] = field(default_factory=lambda: array("q"))  # of the last turns, one each
    usages_to: int = 0  # the turn of the last of them
    breaks: tuple[Break, ...] = ()
    compactions: tuple[int, ...] = ()  # turns
    services: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    parent: str | None = None
    gaps: int = 0
    joined: bool = False
    last: Call | None = None
    context: Context | None = None  # of the last call whose depth is known


class Judge:
    """``most``: conversations that are remembered, the longest silent leaving first (None: all). ``behind``: a judge of
    the same calls, which comes to each of them later: what it knows of a conversation is not kept here once more."""

    def __init__(
        self,
        settings: Settings,
        rules: Rules,
        parents: Mapping[tuple[str, str], str],
        texts: Texts,
        most: int | None = None,
        behind: Judge | None = None,
    ) -> None:
        self._settings = settings
        self._rules = rules
        self._texts = texts
        self._placing = Threads(parents, texts.get, size=_HISTORIES if most is None else most + most // 5)
        self._threads: dict[str, _Thread] = {}
        self._evidence: Evidence = Evidence(texts.get, behind._evidence if behind is not None else None)
        self._factors = _Factors()
        self._cache: Simulator = Simulator(
            rules,
            _HISTORIES if most is None else most + most // 5,
            behind._cache if behind is not None else None,
            packs=most is not None,
        )
        self._calls: dict[str, list[str]] = {}  # of each conversation, where all are remembered
        self._behind = behind
        # Calls that ``behind`` has not come to -> their conversations and agents.
        self._ahead: Memo[str, tuple[str, str]] = Memo(_HISTORIES)
        self.most = most
        self._started = 0
        self.evicted = 0

    def judge(self, call: Call, conflicts: Sequence[str] = ()) -> Said:
        """``conflicts``: contradictions between the call's numbers and sums above it, in words."""
        placed = self._placing.place(self._evidence.of_lengths(call))
        placed = self._evidence.of_gaps(self._evidence.of_servers(placed))
        thread = self._thread(placed.conversation)
        placed = self._evidence.of_dropped(placed, thread.last)
        placed = self._evidence.of_reads(placed, thread.last)
        step = self._step(placed, thread, conflicts)
        results = [r for check in CHECKS for r in check(step)]
        found, left_out = [r for r in results if isinstance(r, Finding)], self._settings.leaves_out
        blamed = blame(step, found)
        losses = blamed.losses
        cost = cost_of(step.call, losses, self._rules)
        found += unknown_cache_rule(step, blamed.tokens)
        found += unpriced_model(step, cost)
        findings: tuple[Finding, ...] = ()
        ignored: tuple[str, ...] = ()
        if found:
            findings = tuple(_priced(f, blamed, cost) for f in found if not left_out(f))
            ignored = tuple(dict.fromkeys(f.kind for f in found if left_out(f)))
        reading = step.reading._replace(
            findings=tuple(dict.fromkeys([f.kind for f in findings])),
            cause=blamed.cause,
            wasted=blamed.tokens,
            losses=losses,
            evidence=blamed.evidence,
            cost=cost,
        )
        self._keep(thread, reading, placed)
        if found and any(f.kind == "compaction" for f in found):
            thread.compactions = (*thread.compactions, reading.turn)[-_BREAKS_KEPT:]
        unchecked = tuple([r for r in results if isinstance(r, NotChecked)]) if results else ()
        return Said(reading, findings, unchecked, ignored=ignored)

    def correct(self, was: Reading, call: Call, conflicts: Sequence[str] = ()) -> Reading | None:
        """``call`` once more, with more told of it: the calls after it see it so. None where it is too late."""
        thread = self._threads.get(was.conversation)
        last = thread.last if thread is not None else None
        if last is None or last.id != was.call.id or not self._placing.forget(was.call):
            return None
        self._factors.forget(was.call)
        if was.conversation == was.call.id:  # it stood alone
            del self._threads[was.conversation]
        return self.judge(call, conflicts).reading

    def caught_up(self, calls: Iterable[Call]) -> None:
        """The judge ``behind`` has come to ``calls``: what was kept here of their conversations until then may go."""
        for span in (span for call in calls for span in call.spans):
            id_ = f"{span.trace_id}:{span.span_id}"
            place = self._ahead.pop(id_)
            if place is not None:
                thread = self._threads.get(place[0])
                if thread is not None and thread.last is not None and thread.last.id == id_:
                    del self._threads[place[0]]
                self._cache.caught_up(place, id_)
        self._cache.caches.caught_up()

    def conversations(self) -> tuple[Conversation, ...]:
        """Those that are remembered, in the order of their first calls."""
        return tuple(
            _conversation(id_, t, self._calls.get(id_, ()))
            for id_, t in sorted(self._threads.items(), key=lambda item: item[1].number)
        )

    def bands(self) -> Mapping[tuple[str, Band], int]:
        """(service, band) -> how many of the conversations that are remembered stand there."""
        out: dict[tuple[str, Band], int] = {}
        behind = self._behind._threads if self._behind is not None else {}
        for t in (behind | self._threads).values():
            if t.context is not None:
                key = next(iter(t.services), ""), t.context.band
                out[key] = out.get(key, 0) + 1
        return out

    @property
    def mechanisms(self) -> dict[str, Mechanism]:
        """What was made of the rules, by model."""
        return self._cache.caches.mechanisms

    def __len__(self) -> int:
        return len(self._threads)

    def _thread(self, conversation: str) -> _Thread:
        thread = self._threads.pop(conversation, None)
        known = self._behind._threads.get(conversation) if self._behind is not None else None
        if thread is None and known is not None:
            thread = replace(known, usages=known.usages[:])
        elif thread is None:
            self._started += 1
            thread = _Thread(self._started)
        self._threads[conversation] = thread
        if self.most is not None and len(self._threads) > self.most:
            del self._threads[next(iter(self._threads))]
            self.evicted += 1
        return thread

    def _step(self, placed: Placed, thread: _Thread, conflicts: Sequence[str]) -> Step:
        call = placed.call
        tokens = self._factors.tokens(call)
        usage, method = _depth(call, tokens)
        before = thread.usages[: -1 if placed.turn == thread.usages_to else None]
        context = context_of(call, usage, method, before, self._rules, self._settings.limits)
        previous, old, shared, at = placed.previous, placed.compared, 0, None
        if previous is not None:
            alike = told_otherwise(previous, call)
            shared = shared_segments(previous.prompt, call.prompt, tools_alike=alike)
        if old is not None and not (old is previous and keeps_all(old.prompt, shared)):
            at = find_break(old, call, self._texts.get)
        if at is not None and tokens.factor != 1.0:
            at = replace(at, tokens=round(at.tokens * tokens.factor))
        reading = Reading(
            call=call,
            conversation=placed.conversation,
            turn=placed.turn,
            relation=placed.relation,
            previous=previous.id if previous is not None else None,
            shared=shared,
            context=context,
            tokens=tokens,
            break_=at,
            access=self._cache.step(
                call, placed.conversation, placed.relation, previous, old, shared, at, tokens
            ),
            gap=placed.gap,
            compared=old.id if old is not None else None,
        )
        return Step(
            reading,
            thread.last,
            old,
            thread.breaks,
            self._texts.get,
            conflicts,
            thread.context,
            self._rules,
            rule=self._rules.model(call.model, call.served_by),
            compactions=thread.compactions,
        )

    def _keep(self, thread: _Thread, reading: Reading, placed: Placed) -> None:
        call = reading.call
        if thread.last is None:
            thread.parent = placed.parent
            thread.joined = reading.relation == "joined"
        if self.most is None:
            self._calls.setdefault(reading.conversation, []).append(call.id)
        if self._behind is not None:
            self._ahead.put(call.id, (reading.conversation, call.agent))
        usage = reading.context.usage
        if usage is not None and call.status == "ok":
            thread.peak = max(thread.peak or 0, usage)
            if reading.turn == 1 and reading.relation == "new":
                thread.base = usage
            if reading.turn == thread.usages_to:
                del thread.usages[-1]
            thread.usages.append(usage)
            thread.usages_to = reading.turn
            del thread.usages[: -self._settings.limits.turns]
        if reading.break_ is not None:
            then = reading.break_.then
            own = (reading.break_,) if then is None else (reading.break_, then)
            thread.breaks = (*thread.breaks, *own)[-_BREAKS_KEPT:]
        if usage is not None or thread.context is None:
            thread.context = reading.context
        thread.gaps += reading.gap
        if call.service not in thread.services:
            thread.services = _with(thread.services, call.service)
        if call.agent not in thread.agents:
            thread.agents = _with(thread.agents, call.agent)
        if call.model not in thread.models:
            thread.models = _with(thread.models, call.model)
        thread.last = call


@lru_cache(1024)  # conversations have few different ones: each is held once
def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return (*names, name) if name else names


class _Factors:
    """Counted tokens -> the provider's, fitted on the calls seen so far whose prompt is known whole."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[int, int]] = {}

    def tokens(self, call: Call) -> Tokens:
        counted = call.prompt.counted
        reported = call.usage.input
        if not call.completeness.text_seen:
            return Tokens(0, None, None, "unmeasured")
        unaccounted = reported - counted if reported is not None else None
        served = unaccounted if "server_side" in call.completeness.reasons else None
        if call.prompt.exact:
            return Tokens(counted, unaccounted, served, "exact")
        known, given = self._add(call, 1)
        if known:
            return Tokens(counted, unaccounted, served, "calibrated", round(given / known, 4))
        return Tokens(counted, unaccounted, served, "estimated")

    def forget(self, call: Call) -> None:
        if not call.prompt.exact:
            self._add(call, -1)

    def _add(self, call: Call, times: int) -> tuple[int, int]:
        """The sums after it."""
        key, counted, reported = (call.model, call.service), call.prompt.counted, call.usage.input
        known, given = self._sums.get(key, (0, 0))
        full = call.completeness.status == "full"
        if full and reported and counted and _FACTOR_LOW <= reported / counted <= _FACTOR_HIGH:
            known, given = known + times * counted, given + times * reported
            self._sums[key] = known, given
        return known, given


def _depth(call: Call, tokens: Tokens) -> tuple[int | None, Method]:
    """Tokens in the window: the provider's own number, else what was counted of a prompt that was seen whole. A sum over
    several calls is no depth."""
    if "aggregate_only" in call.completeness.reasons:
        return None, "unmeasured"
    if call.usage.input is not None:
        return call.usage.input, "exact"
    if call.completeness.status == "full":
        return round(
            tokens.counted * tokens.factor
        ), tokens.method if tokens.method != "exact" else "estimated"
    return None, "unmeasured"


def _priced(finding: Finding, blamed: Blame, cost: Cost | None) -> Finding:
    """With its share of what the lost tokens cost."""
    if cost is None or cost.wasted is None or not blamed.tokens or not finding.tokens:
        return finding
    cause, tokens = next((own for own in blamed.losses if own[0] == finding.kind), ("", blamed.tokens))
    usd = cost.losses[cause] if cause else cost.wasted
    return replace(finding, usd=usd * min(1.0, finding.tokens / tokens))


def _conversation(id_: str, t: _Thread, calls: Sequence[str]) -> Conversation:
    context = t.context
    assert context is not None
    return Conversation(
        id=id_,
        parent=t.parent,
        calls=tuple(calls),
        services=t.services,
        agents=t.agents,
        models=t.models,
        usage_peak=t.peak,
        usage_last=t.usages[-1] if t.usages else None,
        limit=context.limit,
        headroom=context.headroom,
        headroom_turns=context.headroom_turns,
        band=context.band,
        gaps=t.gaps,
        joined=t.joined,
        saved_by_restarting=_saved(t, context.headroom_turns),
    )


def _saved(t: _Thread, turns: float | None) -> int | None:
    """Each turn that is left would send what has gathered since the first; a new conversation grows just so, without it."""
    if turns is None or t.base is None or not t.usages:
        return None
    return round(max(0, t.usages[-1] - t.base) * turns)
