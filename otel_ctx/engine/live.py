"""Calls as they arrive: what is known is said at once, and once more when nothing can be added.

Two judges see each call once: the first when its span arrives, the other when it settles, in the order of the starts, so that
settled figures are those of a dump of the same records. Time comes from the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from otel_ctx.calls import Folded, Made, Told, awaits_its_end, by_start, fold, history_of, own_key
from otel_ctx.engine.intake import Intake, Key
from otel_ctx.engine.judge import Judge
from otel_ctx.engine.packed import Packing
from otel_ctx.engine.settings import Settings
from otel_ctx.engine.spans import RecentParents, RecentSpans
from otel_ctx.engine.waiting import Waiting
from otel_ctx.memo import Memo
from otel_ctx.model import Band, Call, LogRecord, Said, Span, SpanRef

# a batch processor holds spans back for 5 s: one that ended earlier may arrive later
GRACE_NS = 6_000_000_000
SETTLE_NS = 30_000_000_000  # a call settles this long after its end, if its parent has not come before
PIECES_NS = 3_600_000_000_000  # so long a session that is put together from pieces may pause
_SPANS = 174_762  # spans whose parents are known: two generations that each fill a dict
_ABOVE = 87_380  # spans that are known to stand above a call
_OPEN = 131_072  # spans of calls that wait: many more than can come in the time that one waits
_REMEMBERED = 4096
_MADE_ANEW = ("_settings", "_made", "_packing")
_DEFAULT = Settings(text_cap=16 * 1024 * 1024)


class LiveEngine:
    """``most``: conversations that are remembered. Not for two threads at once."""

    def __init__(self, settings: Settings = _DEFAULT, most: int = 10_000) -> None:
        self._settings = settings
        self._told: Waiting[Key] = Waiting()
        self._intake = Intake(settings, self._told, RecentParents(_SPANS), RecentSpans(_ABOVE))
        self._settled = self._judge(most)
        self._at_first = self._judge(most, self._settled)
        # by "TRACE:SPAN" of every span that tells of a call; until it settles
        self._open: Memo[str, Said] = Memo(_OPEN)
        self._said: Memo[str, Said] = Memo(_REMEMBERED)  # the same of those that have settled
        # the same and response ids, of calls that have settled -> a key of _said
        self._done: Memo[str, str] = Memo(_REMEMBERED)
        self._made = Made()
        self._packing = Packing()
        self._now = 0
        # Kept where a record or a call fails, and the next feed or advance goes on behind it.
        self._new: list[Told] = []  # not said yet
        self._tried: set[str] = set()  # calls of these that were said, or failed
        self._out: list[Said] = []  # not handed out yet
        self._at: Call | None = None
        self._changed = False  # since calls were last settled
        self._due = 0  # when the next call settles for its age
        # A span's times may be of a clock that is wrong, and ours may be set: what waits, waits by what has passed here.
        self._last = self._passed = self._looked = 0
        self._unstamped: list[str] = []
        self._heard: dict[str, int] = {}  # id of what was told -> ``_passed`` at the first look after it came
        self.late = 0

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
        """What is said of the calls that these records tell of. A call that was told before, and of which another span
        tells now, is said ``again``: its figures are those of the first time."""
        self._at = None
        for span in spans:
            self._take(self._intake.span(span))
        for record in logs:
            self._take(self._intake.log(record))
        if self._new:
            self._changed = True
            self._late()
            self._say_new()
            self._new = []
            self._tried.clear()
        return self._taken()

    def _take(self, told: Told | None) -> None:
        if told is not None:
            self._new.append(told)
            self._unstamped.append(told.id)

    def advance(self, now_unix_nano: int) -> list[Said]:
        """What has settled by ``now``: nothing more can come of it, or it is too late to wait."""
        self._now = max(self._now, now_unix_nano)
        if self._last:
            self._passed += min(max(now_unix_nano - self._last, 0), SETTLE_NS)
        self._last = now_unix_nano
        self._heard.update(dict.fromkeys(self._unstamped, self._passed))
        self._unstamped.clear()
        early = now_unix_nano < self._due and self._passed - self._looked < SETTLE_NS
        if not self._told or (not self._changed and early):
            return []
        self._looked = self._passed
        return self._settle(lambda call: self._ripe(call, now_unix_nano))

    def drain(self) -> list[Said]:
        """Settle everything."""
        return self._settle(lambda call: True)

    @property
    def failing(self) -> tuple[SpanRef, ...]:
        """The spans of the call that the last feed failed on; none where it was on none alone."""
        return self._at.spans if self._at is not None else ()

    def bands(self) -> Mapping[tuple[str, Band], int]:
        """(service, band) -> conversations that stand there."""
        return self._at_first.bands()

    @property
    def conversations(self) -> int:
        return len(self._settled)

    @property
    def evicted(self) -> int:
        return self._settled.evicted

    # ---- over a restart

    def state(self) -> dict[str, object]:
        """What it knows, the live objects themselves: to be written at once. References to ``outside`` are not followed."""
        return {name: value for name, value in vars(self).items() if name not in _MADE_ANEW}

    def restore(self, state: Mapping[str, object]) -> None:
        """Go on from a state that was written, where its references lead to ``outside`` of this engine."""
        most = self._settled.most
        for name, value in state.items():
            setattr(self, name, value)
        self._intake.encodings.clear()
        for judge in (self._at_first, self._settled):
            judge.most = most
            judge.mechanisms.clear()

    @property
    def outside(self) -> dict[str, object]:
        """What is no part of the state: settings and tables, the texts of prompts, and memos that are made anew."""
        intake, settings = self._intake, self._settings
        found = {
            "settings": settings,
            "limits": settings.limits,
            "rules": intake.rules,
            "texts": intake.texts,
            "assembler": intake.assembler,
        }
        return found if settings.contents is None else found | {"contents": settings.contents}

    # ---- at first

    def _judge(self, most: int, behind: Judge | None = None) -> Judge:
        intake = self._intake
        return Judge(self._settings, intake.rules, intake.parents, intake.texts, most, behind)

    def _fold(self, told: list[Told]) -> Folded:
        intake = self._intake
        return fold(
            told,
            intake.parents,
            intake.rules,
            intake.joined,
            intake.above,
            intake.traced,
            whole=False,
            made=self._made,
            elsewhere=self._told.sums_like(told),
        )

    def _around(self, fresh: list[Told]) -> list[Told]:
        """What may have to do with ``fresh``; where that is not known, what was told of requests at the same time, in the
        same traces or still without an answer: more than that cannot be the same call."""
        if self._told.is_local:
            return self._told.near(fresh)
        start = min(t.telling.start_unix_nano for t in fresh)
        end = max(t.telling.end_unix_nano for t in fresh)
        traces = {t.telling.trace_id for t in fresh}
        return [
            t
            for t in self._told.values()
            if t.telling.trace_id in traces
            or awaits_its_end(t)
            or (t.telling.start_unix_nano <= end and t.telling.end_unix_nano >= start)
        ]

    def _say_new(self) -> None:
        fresh = [t for t in self._new if self._tells_a_call(t)]
        if not fresh:
            return
        newest = max(t.telling.end_unix_nano for t in fresh)
        self._now = max(self._now, min(newest, self._last + SETTLE_NS) if self._last else newest)
        folded = self._fold(self._around(fresh))
        ids = {t.id for t in fresh if t.telling.role != "content"}
        told = {folded.call_of(t) for t in fresh}
        for call in folded.calls:
            refs = {f"{s.trace_id}:{s.span_id}" for s in call.spans}
            if (ids & refs or call.id in told) and call.id not in self._tried:
                self._tried.add(call.id)
                self._at = call
                self._out.append(self._say(call, folded))
                self._at = None

    def _tells_a_call(self, told: Told) -> bool:
        """A span of one or of several; a record with figures, where no span will come."""
        said = told.telling
        if said.role == "content":
            return said.usage is not None and said.service not in self._intake.traced
        return said.role != "piece"

    def _say(self, call: Call, folded: Folded) -> Said:
        conflicts = tuple(folded.conflicts.get(call.id, ()))
        known = self._said_of(call)
        if known is None:
            provisional = not self._complete(call) or call.id in folded.threads  # pieces may come
            said = self._at_first.judge(call, conflicts)
            said = replace(
                said,
                reading=said.reading._replace(provisional=provisional),
                usage_later=_usage_may_come(call),
            )
        else:
            known = self._corrected(known, call, conflicts)
            was = known.reading.call
            spans = tuple(s if s.role == "aggregate" else _role_beside(was.id, s) for s in call.spans)
            said = replace(known, again=True, reading=known.reading._replace(call=replace(was, spans=spans)))
        for ref in _own(call):
            self._open.put(ref, said)
        return said

    def _corrected(self, known: Said, call: Call, conflicts: Iterable[str]) -> Said:
        """Where more is told by a later span: too late for the figures of the call, and not for the
        conversation that later calls are found to continue."""
        was = known.reading
        if _seen(was.call) >= _seen(call):
            return known
        now = self._at_first.correct(was, call, tuple(conflicts))
        if now is None:
            return known
        told = replace(call, id=was.call.id)  # the figures have left on the span of this id
        return replace(known, reading=was._replace(call=told, conversation=now.conversation))

    def _said_of(self, call: Call) -> Said | None:
        known = (self._open.get(ref) or self._said.get(ref) for ref in _own(call))
        return next((said for said in known if said is not None), None)

    # ---- settling

    def _ripe(self, call: Call, now: int) -> bool:
        age = now - call.end_unix_nano
        heard = max((self._heard.get(ref, self._passed) for ref in _own(call)), default=self._passed)
        if self._passed - heard >= SETTLE_NS:
            return True
        return age >= SETTLE_NS or (age >= GRACE_NS and self._complete(call))

    def _complete(self, call: Call) -> bool:
        """Is nothing known to be missing? Its parent has arrived; a call whose content was not seen waits for log records,
        one without an end for the end of its stream."""
        if not call.completeness.text_seen and "redacted" not in call.completeness.reasons:
            return False
        if call.status == "ok" and call.usage.input is None and call.usage.output is None:
            return False
        return not call.parent_id or (call.trace_id, call.parent_id) in self._intake.parents

    def _settle(self, ripe: Callable[[Call], bool]) -> list[Said]:
        """Close calls in the order of their starts, up to the first that waits: those that started later wait for it, as a
        figure depends on what came before. Of what was told only what may start earlier than that one is looked at."""
        popped: list[Told] = []
        seen: dict[Told, None] = {}
        calls: list[tuple[tuple[Any, ...], Call, Folded]] = []  # a heap
        closed: dict[str, Call] = {}
        folds: list[tuple[list[Told], Folded]] = []
        histories: list[Told] = []
        try:
            while True:
                while (start := self._told.first_start()) is not None and (
                    not calls or start <= calls[0][1].start_unix_nano
                ):
                    first = self._told.pop_first()
                    popped.append(first)
                    if first in seen:
                        continue
                    near = self._told.near([first])
                    seen |= dict.fromkeys(near)
                    folded = self._fold(near)
                    folds.append((near, folded))
                    for call in folded.calls:
                        heappush(calls, (by_start(call), call, folded))
                if not calls:
                    break
                _, call, folded = calls[0]
                if not ripe(call):
                    waits = GRACE_NS if self._now - call.end_unix_nano < GRACE_NS else SETTLE_NS
                    self._due = call.end_unix_nano + waits
                    break
                heappop(calls)
                closed[call.id] = call
                if call.id in folded.threads:
                    histories.append(history_of(call, folded.threads[call.id]))
                self._settle_one(call, folded.conflicts.get(call.id, ()))
        finally:
            self._at_first.caught_up(closed.values())
            gone = [
                t for near, folded in folds for t in near if folded.call_of(t) in closed or self._stale(t)
            ]
            self._told.forget(gone)
            self._told.put_back(popped)
            for history in histories:
                self._intake.go_on_from(history)
            self._made.forget(gone)
            for t in gone:
                if not self._told.has_span(t):
                    self._heard.pop(t.id, None)
        self._changed = False
        return self._taken()

    def _settle_one(self, call: Call, conflicts: Iterable[str]) -> None:
        self._close(call)
        at_first = self._said_of(call)
        settled = self._settled.judge(call, tuple(conflicts))
        self._packing.pack(call.prompt.messages)
        self._out.append(replace(settled, usage_later=at_first is not None and at_first.usage_later))

    def _close(self, call: Call) -> None:
        for ref in _own(call):
            self._done.put(ref, call.id)
            said = self._open.pop(ref)
            if said is not None:
                self._said.put(ref, said)
        if call.response_id:
            self._done.put(call.response_id, call.id)

    def _late(self) -> None:
        """What tells of a call that has settled already adds nothing: it is counted, and its span learns whose it is."""
        late = {
            _ref(t): t
            for t in self._new
            if t.telling.role != "piece" and (_ref(t) in self._done or t.telling.response_id in self._done)
        }
        if not late:
            return
        self.late += len(late)
        gone = [t for t in self._new if t.telling.role != "piece" and _ref(t) in late]
        self._new = [t for t in self._new if _ref(t) not in late]
        self._told.forget(gone)
        for ref, t in late.items():
            call_id = self._done.get(ref) or self._done.get(t.telling.response_id)
            known = self._said.get(call_id or "")
            self._done.put(ref, call_id or "")
            if known is not None and t.telling.role != "content":
                span = SpanRef(t.telling.trace_id, t.telling.span_id, "duplicate", t.telling.scope)
                call = replace(known.reading.call, spans=(*known.reading.call.spans, span))
                self._out.append(replace(known, again=True, reading=known.reading._replace(call=call)))

    def _taken(self) -> list[Said]:
        out, self._out = self._out, []
        return out

    def _stale(self, told: Told) -> bool:
        """A sum, content whose span never came, or a piece of a prompt, that nothing waits for any more."""
        t = told.telling
        if t.role == "call" or t.names:
            return False
        end = t.end_unix_nano or t.order
        return self._now - end >= (PIECES_NS if t.thread else SETTLE_NS)


def _ref(told: Told) -> str:
    """What ``done`` knows a span or a record by."""
    return told.id if told.telling.span_id else ":".join(own_key(told))


def _seen(call: Call) -> int:
    """How much of what places a call and the calls after it: content, usage, agent."""
    return call.completeness.text_seen + (call.usage.input is not None) + bool(call.agent)


def _own(call: Call) -> list[str]:
    """ "TRACE:SPAN" of the spans that tell of this call alone: a sum above it tells of others too."""
    return [f"{s.trace_id}:{s.span_id}" for s in call.spans if s.role != "aggregate"]


def _role_beside(primary: str, span: SpanRef) -> SpanRef:
    """Figures that have left on one span do not leave on a second, though it may tell more."""
    return replace(span, role="primary" if f"{span.trace_id}:{span.span_id}" == primary else "duplicate")


def _usage_may_come(call: Call) -> bool:
    """Of a sum, that of its calls, which are counted themselves; of a stream, on the span that tells of its end."""
    usage = call.usage
    return "aggregate_only" in call.completeness.reasons or (usage.input is None and usage.output is None)
