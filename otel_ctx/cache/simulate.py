"""Each call against the cache of its provider, in the order of their starts, on their own clock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from otel_ctx.cache.cause import Facts, Verdict, verdict
from otel_ctx.cache.mechanism import Lifetime, Mechanism, mechanism_of
from otel_ctx.cache.path import Path
from otel_ctx.cache.resent import cleared, resent
from otel_ctx.cache.store import Entry, Store
from otel_ctx.model import KIND_INDEX, Access, Break, CacheTokens, Call, Outcome, Relation, Tokens
from otel_ctx.rules import Family, Rules
from otel_ctx.rules.names import normalise_model_id

_KEEP_SECONDS = 86_400  # no published lifetime is longer
_WALK = 256  # boundaries of a new prompt at which an entry is looked for
_LEAST_SLACK, _SLACK = 128, 0.02  # providers add tokens of their own, and places are shared out
_EFFORT_SLACK = 0.25
_BROKEN_SLACK, _BROKEN = 32, 0.005
_TOLD_SLACK = 64  # tokens behind the last marker, and of the frame around a message
_GROWN = 0.9  # without text, a prompt that is smaller than this is another one
_IMAGE = KIND_INDEX["image"]
_ONLY_SEEN = ("provider_side_miss", "server_side_rewrite_suspected")
_WITHIN = {
    "parallel_tool_calls": "parallel_tool_calls", "text.format": "response_format", "reasoning.effort": "effort",
    "verbosity": "verbosity",
}  # fmt: skip
_UNKNOWN = Mechanism("effort", 0, 1, 1, 1 << 30, {})


@dataclass(slots=True, eq=False)
class _Past:
    """What the last call of a conversation left."""

    call_id: str
    scope: str
    total: int
    entry: Entry | None
    path: Path | None
    settings: tuple[tuple[str, str], ...] = ()  # that are part of the cached prefix
    images: int = 0
    marker: int | None = None  # place in tokens
    position: int = 0
    ttl: str | None = None


@dataclass(frozen=True, slots=True)
class _Marks:
    """Where a call asked for entries: the number of segments before each, and its lifetime (None: not known)."""

    places: tuple[tuple[int, str | None], ...]
    asked: bool | None
    shown: bool
    end: int | None  # place in tokens of the last


_NO_MARKS = _Marks((), None, False, None)


class Simulator:
    """Bounded: ``most`` conversations are remembered, the longest silent leaving first."""

    def __init__(self, rules: Rules, most: int) -> None:
        self._rules = rules
        self._most = most
        self._store = Store(_KEEP_SECONDS)
        self._pasts: OrderedDict[tuple[str, str], _Past] = OrderedDict()
        self._mechanisms: dict[str, Mechanism] = {}
        self._lifetimes: dict[tuple[str, str], set[str]] = {}
        self._telling: set[tuple[str, str]] = set()
        self._hidden: dict[str, int] = {}

    def step(
        self,
        call: Call,
        conversation: str,
        relation: Relation,
        previous: Call | None,
        old: Call | None,
        shared: int,
        at: Break | None,
        tokens: Tokens,
    ) -> Access | None:
        """``old``: the call whose prompt this one should have kept; ``shared``: segments kept of ``previous``; ``at``: where
        it stopped agreeing with ``old``. None: nothing can be said, the call's size is not known."""
        usage, full = call.usage, call.completeness.status == "full"
        total = (
            usage.input
            if usage.input is not None
            else round(tokens.counted * tokens.factor)
            if full
            else None
        )
        if total is None or "aggregate_only" in call.completeness.reasons:
            return None
        if call.status != "ok" and usage.input is None:
            return None  # refused: nothing was read and nothing written
        place = conversation, call.agent
        past = self._pasts.pop(place, None)
        run = _Run(self, call, total, tokens, past)
        access = run.judge(relation, previous, old, shared, at)
        self._pasts[place] = run.left()
        if len(self._pasts) > self._most:
            self._pasts.popitem(last=False)
        return access

    # ---- what a run asks for

    def has_told(self, call: Call, scope: str) -> bool:
        """Has any call of the service reported what the cache did?"""
        return (call.service, scope) in self._telling

    def told(self, call: Call, scope: str) -> None:
        if call.usage.cache_read or call.usage.cache_write:
            self._telling.add((call.service, scope))

    def asked_lifetimes(self, call: Call, scope: str) -> set[str]:
        """The lifetimes that the service asked for so far, for what stands before its last markers."""
        return self._lifetimes.setdefault((call.service, scope), set())

    def hidden(self, family: Family | None) -> int | None:
        """Tokens of the provider's in front of a prompt, where breakpoints are counted from theirs: known of what was read,
        to one interval."""
        return self._hidden.get(family.id) if family is not None else None

    def read(self, family: Family | None, mech: Mechanism, tokens: int) -> None:
        if family is not None and mech.step > mech.grain:
            self._hidden[family.id] = -tokens % mech.step

    @property
    def store(self) -> Store:
        return self._store

    def rule(self, call: Call) -> Family | None:
        return self._rules.model(call.model, call.platform or call.provider)

    def marked_rule(self, family: Family) -> Family:
        """What holds instead where the request carries markers."""
        return self._rules.family(family.with_markers) or family

    def settings(self, call: Call, family: Family | None, mech: Mechanism) -> tuple[tuple[str, str], ...]:
        """The request's settings that a change of which loses cached tokens, by the family's rule."""
        if family is None or not call.parameters:
            return ()
        if mech.style == "marked":
            return tuple(p for p in call.parameters if self._rules.invalidated_by(p[0]) is not None)
        within = {_WITHIN[name] for name in family.get("in_prefix") or () if name in _WITHIN}
        if mech.style == "endings":
            within.add("tool_choice")
        return tuple(p for p in call.parameters if p[0] in within)

    def mechanism(self, family: Family | None) -> Mechanism:
        if family is None:
            return _UNKNOWN
        known = self._mechanisms.get(family.id)
        if known is None:
            known = self._mechanisms[family.id] = mechanism_of(family)
        return known


class _Run:
    """One call."""

    def __init__(self, sim: Simulator, call: Call, total: int, tokens: Tokens, past: _Past | None) -> None:
        self.store, self.call, self.total, self.tokens, self.past = sim.store, call, total, tokens, past
        self.sim = sim
        lost = call.completeness.lost
        self.seen = (
            call.completeness.status in ("full", "partial")
            and not lost & {"head", "messages"}
            and len(call.prompt) > 0
        )
        self.family = sim.rule(call)
        marks = self.family is not None and (self.family.with_markers or self.family.engine == "breakpoint")
        self.visible: Sequence[tuple[int, str]] = call.prompt.marked() if self.seen and marks else ()
        if self.family is not None and self.family.with_markers and self.visible:
            self.family = sim.marked_rule(self.family)
        self.mech = sim.mechanism(self.family)
        self.scope = f"{call.platform or call.provider}\0{normalise_model_id(call.model)}"
        self.settings = sim.settings(call, self.family, self.mech)
        self.images = 0
        self.now = call.start_unix_nano
        self.path: Path | None = None
        self.marks = _NO_MARKS
        self.entry: Entry | None = None
        self.cleared = 0  # tokens that the provider took out
        self.hidden = sim.hidden(self.family)

    # ---- the question

    def judge(
        self, relation: Relation, previous: Call | None, old: Call | None, shared: int, at: Break | None
    ) -> Access:
        past, usage = self.past, self.call.usage
        follows = past is not None and (old is not None or relation == "repeats")
        both = self.seen and past is not None and past.path is not None
        length = len(past.path) if past is not None and past.path is not None else 0
        common = self._common(old, at) if both and follows else None
        again = self._resent(old, at) if common is not None else 0
        kept = self._walk(previous, shared)
        if self.path is not None:
            self.images = self.path.kinds.count(_IMAGE)
        if both and follows and common is None and kept < length and self.path is not None:
            common = self._of_old(self.path.ends[kept], old)
        elif both and follows and common is None and past is not None and relation == "continues":
            new = self.call.prompt.since(kept)
            self.cleared = cleared(past.total, self.total, new, self.tokens.factor)
        self.marks = self._asked()
        reported = _reported(usage.cache_read, usage.cache_write, self.total)
        expected, entry = self._expected(follows, both, common, again, relation)
        if entry is not None and follows and relation != "repeats":
            entry.ready = min(
                entry.ready, self.now
            )  # what is continued had been answered, whatever the clocks say
        predicted = self._predict(relation, follows, common, kept)
        could, expected = expected, self.mech.readable(expected, self.hidden)
        actual = usage.cache_read if usage.cache_read is not None else predicted.read if predicted else None
        simulated = usage.cache_read is None
        told = common is None or expected == (past.total if past is not None else None)
        slack = self._slack(could, expected, actual, told, at is not None)
        floor = (
            actual
            if actual is not None
            else self.mech.readable(common, self.hidden)
            if common is not None
            else expected
        )
        lost = expected - floor if expected - floor > slack else 0
        judged = self._verdict(follows, both, expected, slack, entry) if lost else Verdict()
        if not lost and self._too_short():
            judged = Verdict(barrier="below_minimum", sure="predicted")
        optimal = max(expected, floor)
        otherwise = self._otherwise(judged, both, old, at, common)
        return Access(
            predicted=predicted,
            reported=reported,
            optimal=self._split(optimal),
            outcome=self._outcome(expected, actual, slack),
            expected=expected,
            actual=actual,
            simulated=simulated,
            lost=lost,
            barrier=judged.barrier,
            otherwise=otherwise,
            sure="unknown" if otherwise == "unknown" else judged.sure,
            gap_seconds=entry.gap(self.now) if entry is not None else None,
            ttl_seconds=entry.least if entry is not None else None,
            note=judged.note,
        )

    def _split(self, read: int) -> CacheTokens:
        writes = self.mech.style in ("marked", "endings")
        rest = self.total - read
        return CacheTokens(read, rest if writes else 0, 0 if writes else rest)

    def _otherwise(
        self, judged: Verdict, both: bool, old: Call | None, at: Break | None, common: int | None
    ) -> str:
        if at is not None and both:
            return self._behind(at, old, common)
        whole = self.call.completeness.status == "full" and (old is None or old.completeness.status == "full")
        if judged.otherwise in _ONLY_SEEN and not whole:
            return "unknown"  # what was not seen may have changed
        return judged.otherwise

    def _slack(self, could: int, expected: int, actual: int | None, told: bool, broken: bool) -> int:
        """Tokens that may be missing without a reason. ``could``: what was there to read before rounding; ``told``: usage
        says it, to the token; ``broken``: the texts part, so that a small loss has its reason."""
        mech = self.mech
        if mech.style == "effort":
            return round(max(2 * _LEAST_SLACK, _EFFORT_SLACK * expected))
        if mech.style in ("marked", "endings"):
            if broken:
                return round(max(_BROKEN_SLACK, _BROKEN * expected))
            return _TOLD_SLACK if told else round(max(_TOLD_SLACK, _SLACK * expected))
        step = mech.step
        if self.hidden is not None or could - (actual or 0) > step:
            step = mech.grain  # wherever the steps begin, one more would have been reached
        return max(_LEAST_SLACK, step) if told else round(max(_LEAST_SLACK, step, _SLACK * expected))

    def _of_old(self, common: int, old: Call | None) -> int:
        """Of what is shared with another branch, what the call that is continued had asked for: there is no entry between
        two markers."""
        before = old.usage.input if old is not None else None
        if self.mech.style in ("marked", "endings") and before is not None:
            return min(common, before)
        return common

    def _walk(self, previous: Call | None, shared: int) -> int:
        """Follow the prompt; how many segments of the path before were kept."""
        if not self.seen:
            return 0
        past = self.past
        path = past.path if past is not None else None
        known = (
            shared
            if path is not None and past is not None and previous is not None and past.call_id == previous.id
            else None
        )
        self.path = path if path is not None else Path()
        if known is not None:
            known = min(known, len(self.path))
        lost = self.call.completeness.lost
        reported = self.call.usage.input
        return self.path.follow(
            self.call.prompt,
            known if path is not None else 0,
            reported,
            self.tokens.factor,
            "tools" in lost or "system" in lost,
        )

    # ---- what could have been read

    def _common(self, old: Call | None, at: Break | None) -> int | None:
        """Tokens up to the break, by the path of the call before; None where nothing broke, or that was not ``old``."""
        past = self.past
        path = past.path if past is not None else None
        if at is None or path is None or past is None or old is None or past.call_id != old.id:
            return None
        i = min(at.index, len(path))
        end = path.ends[i]
        if i < len(path) and at.before is not None and at.char_offset and at.before.bytes:
            end += round((path.ends[i + 1] - end) * min(1.0, at.char_offset / at.before.bytes))
        return end

    def _resent(self, old: Call | None, at: Break | None) -> int:
        past = self.past
        if old is None or at is None or past is None or past.path is None:
            return 0
        return resent(old.prompt, self.call.prompt, past.path, past.total, at)

    def _expected(
        self, follows: bool, both: bool, common: int | None, again: int, relation: Relation
    ) -> tuple[int, Entry | None]:
        past = self.past
        if past is not None and follows:
            if both:
                if common is None:
                    return min(past.total - self.cleared, self.total), past.entry
                return min(past.total, self.total, common + again), past.entry
            if self.total >= _GROWN * past.total:
                return min(past.total, self.total), past.entry
            return 0, None
        if self.path is None or relation in ("joined", "continues"):
            return 0, None
        found = self._shared_entry()
        if found is None:
            return 0, None
        end, entry = found
        longest = self.mech.longest
        if longest is not None and entry.gap(self.now) > longest:
            return 0, None  # nothing that is offered would have kept it: a cold start
        return end, entry

    def _shared_entry(self) -> tuple[int, Entry] | None:
        """The longest beginning of this prompt that any other conversation has cached, alive and ready or not."""
        path = self.path
        assert path is not None
        for i in range(min(len(path), _WALK), 0, -1):
            entry = self.store.get(self._scope_at(i), path.keys[i])
            if entry is not None and path.ends[i] >= self.mech.minimum:
                if i == path.head and self.mech.style == "endings":
                    return None  # it is looked for there; that one was written there is not said
                return path.ends[i], entry
        return None

    # ---- the markers

    def _asked(self) -> _Marks:
        style, usage, path = self.mech.style, self.call.usage, self.path
        if style == "endings":
            return _Marks((), True, False, None)
        if style != "marked":
            return _NO_MARKS
        told = usage.cache_read is not None or usage.cache_write is not None
        end = (usage.cache_read or 0) + (usage.cache_write or 0)
        place = path.nearest(end) if path is not None and end else 0
        if self.visible and path is not None:
            usual = next(iter(self.mech.lifetimes), None)
            places = tuple((i + 1, usual if m == "default" else m) for i, m in self.visible)
            if place > places[-1][0]:  # the automatic one, at the end
                places += ((place, self._lifetime_name()),)
            end = end or path.ends[places[-1][0]]
            return _Marks(places, end >= self.mech.minimum, True, end)
        if not told:
            return _NO_MARKS
        if not end:
            return _Marks((), False if self.total >= self.mech.minimum else None, False, None)
        return _Marks(((place, self._lifetime_name()),) if place else (), True, False, end)

    def _lifetime_name(self) -> str | None:
        usage = self.call.usage
        if usage.cache_write and usage.cache_write_1h is not None:
            return "1h" if usage.cache_write_1h >= usage.cache_write else "5m"  # the shorter one stands last
        return self.past.ttl if self.past is not None and not usage.cache_write else None

    def _too_short(self) -> bool:
        """Something was marked, and it is too short to be cached."""
        return bool(self.visible) and self.marks.end is not None and self.marks.end < self.mech.minimum

    # ---- the simulation

    def _predict(
        self, relation: Relation, follows: bool, common: int | None, kept: int
    ) -> CacheTokens | None:
        path, mech = self.path, self.mech
        if path is None or self.family is None:
            return None
        if mech.style == "marked" and self.marks.asked is None:
            return None
        if mech.style in ("marked", "endings"):
            read = self._from_marks(path)
            end = self.total if mech.style == "endings" else min(self.marks.end or 0, self.total)
            end = max(end, read) if end >= mech.minimum else read
            return CacheTokens(read, end - read, self.total - end)
        reach = 0
        past = self.past
        same = past is not None and past.scope == self.scope and past.settings == self.settings
        if past is not None and same and self._readable(past.entry):
            reach = path.ends[kept] if common is None else common
        for i in self._candidates(path, relation, follows):
            if path.ends[i] <= reach:
                break
            entry = self.store.get(self._scope_at(i), path.keys[i])
            if self._readable(entry):
                reach = path.ends[i]
                break
        read = mech.readable(min(reach, self.total), self.hidden)
        return CacheTokens(read, 0, self.total - read)

    def _scope_at(self, place: int) -> str:
        """Who can read an entry there: what the settings of a request lose does not lie in one place with what they keep."""
        path = self.path
        if self.mech.style == "marked" and path is not None:
            if place <= path.head:
                return self.scope
            return (
                f"{self.scope}\0{self.settings}\0{self.images}"
                if self.settings or self.images
                else self.scope
            )
        return f"{self.scope}\0{self.settings}" if self.settings else self.scope

    def _readable(self, entry: Entry | None) -> bool:
        return entry is not None and entry.lives(self.now) and entry.is_ready(self.now)

    def _candidates(self, path: Path, relation: Relation, follows: bool) -> Sequence[int]:
        if follows and relation in ("continues", "repeats"):
            return (path.head,)
        return range(min(len(path), _WALK), 0, -1)

    def _from_marks(self, path: Path) -> int:
        places = [i for i, _ in self.marks.places] or ([len(path)] if self.mech.style == "endings" else [])
        for place in (*reversed(places), path.head):
            for i in range(min(place, len(path)), 0, -1):
                if (
                    path.positions[place] - path.positions[i] >= self.mech.lookback
                    or path.ends[i] < self.mech.minimum
                ):
                    break
                entry = self.store.get(self._scope_at(i), path.keys[i])
                if self._readable(entry):
                    return path.ends[i]
        return 0

    # ---- why not

    def _verdict(self, follows: bool, both: bool, expected: int, slack: int, entry: Entry | None) -> Verdict:
        past, marks, path = self.past if follows else None, self.marks, self.path
        position = path.positions[marks.places[-1][0]] if path is not None and marks.places else 0
        return verdict(
            Facts(
                now=self.now,
                mechanism=self.mech,
                seen=both or (past is None and self.seen),
                reported=self.call.usage.cache_read is not None,
                proven=not self.call.usage.cache_implied or self.sim.has_told(self.call, self.scope),
                shrunk=past is not None and (self.total < past.total or self.cleared > 0),
                expected=expected,
                slack=slack,
                same_model=past is None or past.scope == self.scope,
                entry=entry,
                asked=marks.asked,
                shown=marks.shown,
                shortest=self._too_short(),
                longer_before=self._had_longer(entry),
                marker=marks.end,
                last_marker=past.marker if past is not None else None,
                beyond_head=path is None or not marks.places or marks.places[-1][0] > path.head,
                distance=position - past.position if past is not None else 0,
                parameters=self._changed(past),
            )
        )

    def _changed(self, past: _Past | None) -> str:
        """What of the settings is another than in the call before, in words: names only."""
        if past is None:
            return ""
        before, now = dict(past.settings), dict(self.settings)
        names = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
        words = [f"{', '.join(names)} changed."] if names else []
        if self.mech.style == "marked" and past.images != self.images and self.path is past.path:
            words.append("An image was added or taken away.")
        return " ".join(words)

    def _had_longer(self, entry: Entry | None) -> bool:
        """The service asked for a lifetime before that would have kept the entry, and no longer does."""
        if entry is None or entry.least is None:
            return False
        asked = self.sim.asked_lifetimes(self.call, self.scope)
        longer = [self.mech.lifetime(name).least or 0 for name in asked]
        return any(n > entry.least and entry.gap(self.now) <= n for n in longer)

    def _behind(self, at: Break, old: Call | None, common: int | None) -> str:
        """The marker stood behind text that is sent once only: a note at the end of the newest message, say."""
        past = self.past
        if old is None or past is None or past.marker is None or self.mech.style != "marked":
            return ""
        if common is not None and past.marker <= common:
            return ""
        tail = old.prompt.since(at.index)
        again = {s.digest for s in self.call.prompt.since(at.index)}
        newest = not any(s.kind in ("assistant", "tool_call", "thinking") or s.digest in again for s in tail)
        return "breakpoint_before_change" if newest else ""

    def _outcome(self, expected: int, actual: int | None, slack: int) -> Outcome:
        usage = self.call.usage
        if usage.cache_read is None:
            return "not_reported"
        if self.total < self.mech.minimum and not usage.cache_read:
            return "ineligible"
        if not expected:
            return "hit" if usage.cache_read else "cold"
        if usage.cache_read + slack >= expected:
            return "hit"
        return "partial" if usage.cache_read else "miss"

    # ---- what it leaves

    def left(self) -> _Past:
        call, path, past, places = self.call, self.path, self.past, self.marks.places
        ready = call.first_token_unix_nano or call.end_unix_nano
        self.sim.told(call, self.scope)
        if call.usage.cache_read:
            self.sim.read(self.family, self.mech, call.usage.cache_read)
        if call.status == "ok":
            self._write(ready)
        ttl = places[-1][1] if places else None
        entry = self.entry or Entry(self.total, self.now, ready, *_seconds(self._lifetime(ttl)))
        position = path.positions[places[-1][0]] if path is not None and places else 0
        ttl = ttl or (past.ttl if past is not None else None)
        return _Past(
            call.id,
            self.scope,
            self.total,
            entry,
            path,
            self.settings,
            self.images,
            self.marks.end,
            position,
            ttl,
        )

    def _lifetime(self, ttl: str | None) -> Lifetime:
        return self.mech.lifetime(ttl) if self.mech.style == "marked" else self.mech.usual

    def _write(self, ready: int) -> None:
        path, mech = self.path, self.mech
        if path is None:
            return
        usage = self.call.usage
        if mech.style == "marked":
            read = usage.cache_read
            if read and not self.marks.shown:  # an entry that nobody told of shows itself
                self._use(
                    path, path.nearest(read), ready, mech.lifetime(self.past.ttl if self.past else None)
                )
            for place, ttl in self.marks.places:
                self._use(path, place, ready, mech.lifetime(ttl))
            if self.marks.places and self.marks.places[-1][1]:
                self.sim.asked_lifetimes(self.call, self.scope).add(self.marks.places[-1][1])
            return
        lifetime = mech.usual
        places = {path.head, len(path)} if mech.style != "endings" else {len(path)}
        if self.past is None:
            places |= set(range(1, min(len(path), _WALK) + 1)) if mech.style != "endings" else {path.head}
        for place in sorted(places):
            self._use(path, place, ready, lifetime)

    def _use(self, path: Path, place: int, ready: int, lifetime: Lifetime) -> None:
        if place and path.ends[place] >= self.mech.minimum:
            entry = Entry(path.ends[place], self.now, ready, *_seconds(lifetime))
            self.store.use(self._scope_at(place), path.keys[place], entry)
            self.entry = entry


def _seconds(lifetime: Lifetime) -> tuple[int | None, int | None]:
    return lifetime.least, lifetime.most


def _reported(read: int | None, write: int | None, total: int) -> CacheTokens | None:
    if read is None and write is None:
        return None
    return CacheTokens(read or 0, write or 0, max(0, total - (read or 0) - (write or 0)))
