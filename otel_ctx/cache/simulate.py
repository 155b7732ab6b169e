"""Each call against the cache of its provider, in the order of their starts, on their own clock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from sys import intern

from otel_ctx.cache.cause import OF_THE_TAIL, Facts, Verdict, missed_beside, unmarked_tail, verdict
from otel_ctx.cache.confirmed import confirm
from otel_ctx.cache.learned import Learned
from otel_ctx.cache.marks import NO_MARKS, marked_once, marks_of
from otel_ctx.cache.mechanism import Lifetime, Mechanism, mechanism_of
from otel_ctx.cache.outcome import best_split, outcome_of, reported_split
from otel_ctx.cache.past import Past
from otel_ctx.cache.path import Path
from otel_ctx.cache.resent import cleared
from otel_ctx.cache.settings import changed, losing, settings_of
from otel_ctx.cache.shelf import WALK, Shelf
from otel_ctx.cache.slack import slack
from otel_ctx.cache.store import Entry, Store
from otel_ctx.model import Access, Break, CacheTokens, Call, Relation, Tokens
from otel_ctx.rules import Family, Rules
from otel_ctx.rules.names import normalise_model_id

_KEEP_SECONDS = 86_400  # no published lifetime is longer
_TAIL_LEAST, _TAIL = 128, 0.02  # what stands behind a marker at the end: the frame of a message, a note
_MORE = 0.25  # so much more than a rule takes out was taken out by something else
_UNMEASURED = 0.2  # places of a prompt of which no call before says where they are
_GROWN = 0.9  # without text, a prompt that is smaller than this is another one
_ONLY_SEEN = ("provider_side_miss", "server_side_rewrite_suspected")
_UNKNOWN = Mechanism("effort", 0, 1, 1, 1 << 30, {})


class Simulator:
    """Bounded: ``most`` conversations are remembered, the longest silent leaving first. ``behind``: comes to the same calls
    later, and what it knows is not kept here once more."""

    def __init__(self, rules: Rules, most: int, behind: Simulator | None = None) -> None:
        self.rules = rules
        self.learned = Learned()
        self.store: Store = Store(_KEEP_SECONDS, behind.store if behind is not None else None)
        self.supposed: Store = Store(  # entries of markers that no span shows
            _KEEP_SECONDS, behind.supposed if behind is not None else None
        )
        self._most = most
        self._behind = behind
        self._pasts: OrderedDict[tuple[str, str], Past] = OrderedDict()
        self.mechanisms: dict[str, Mechanism] = {}

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
        it stopped agreeing with ``old``. None: nothing can be said: the call's size is not known,
        or neither its text nor what it goes on from."""
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
        if self._unanswered(call):
            return None  # nobody says that it was served: the same
        place = conversation, call.agent
        past = self._pasts.pop(place, None) or self._past_behind(place)
        run = _Run(self, call, total, tokens, past)
        same_model = past is None or past.scope == run.scope
        access = confirm(run.judge(relation, previous, old, shared, at), call.diagnosis, total, same_model)
        self._pasts[place] = run.left()
        if len(self._pasts) > self._most:
            self._pasts.popitem(last=False)
        return None if run.in_the_dark(relation, access) else access

    def _past_behind(self, place: tuple[str, str]) -> Past | None:
        past = self._behind._pasts.get(place) if self._behind is not None else None
        return past.copied() if past is not None else None

    def caught_up(self, place: tuple[str, str], call_id: str) -> None:
        """The one ``behind`` has come to this call of a conversation and an agent."""
        past = self._pasts.get(place)
        if past is not None and past.call_id == call_id:
            del self._pasts[place]

    def _unanswered(self, call: Call) -> bool:
        """A request in a log that keeps the answers of others, and has none of this one: most often the try before a retry."""
        if call.record != "request" or call.usage.input is not None or call.answer or call.response_id:
            return False
        return self.learned.has_told(call.service, _scope(call))

    def rule(self, call: Call, marked: bool) -> Family | None:
        """``marked``: the request carries markers, and another rule may hold then."""
        family = self.rules.model(call.model, call.platform or call.provider)
        if family is not None and family.with_markers and marked:
            return self.rules.family(family.with_markers) or family
        return family

    def mechanism(self, family: Family | None) -> Mechanism:
        if family is None:
            return _UNKNOWN
        known = self.mechanisms.get(family.id)
        if known is None:
            known = self.mechanisms[family.id] = mechanism_of(family)
        return known


def _scope(call: Call) -> str:
    """Whose cache it is."""
    return intern(f"{call.platform or call.provider}\0{normalise_model_id(call.model)}")


class _Run:
    """One call."""

    def __init__(self, sim: Simulator, call: Call, total: int, tokens: Tokens, past: Past | None) -> None:
        self.sim, self.call, self.total, self.tokens, self.past = sim, call, total, tokens, past
        self.now = call.start_unix_nano
        lost = call.completeness.lost
        self.seen = (
            call.completeness.status in ("full", "partial")
            and not lost & {"head", "messages"}
            and len(call.prompt) > 0
        )
        visible = call.prompt.marked() if self.seen else ()
        self.family = sim.rule(call, bool(visible))
        self.mech = sim.mechanism(self.family)
        self.visible: Sequence[tuple[int, str]] = visible if self.mech.style == "marked" else ()
        self.scope = _scope(call)
        self.settings = settings_of(call, self.family, self.mech, sim.rules)
        self.hidden = sim.learned.hidden(call.usage, self.family, self.mech)
        self.path: Path | None = None
        self.shelf: Shelf | None = None
        self.images = 0
        self.marks = NO_MARKS
        self.entry: Entry | None = None
        self.cleared = 0  # tokens that the provider took out
        self.dropped = 0  # of thinking, by its rule
        self.elsewhere = False  # the loss has another reason
        self.supposing = False  # that the end of the system prompt is marked

    def in_the_dark(self, relation: Relation, access: Access) -> bool:
        """Neither its text nor an id says what it goes on from: what it could have read is not known, unless the rules
        keep nothing of its size or the provider says it."""
        return (
            relation == "new"
            and not self.seen
            and access.outcome != "ineligible"
            and access.sure != "confirmed"
        )

    # ---- the question

    def judge(
        self, relation: Relation, previous: Call | None, old: Call | None, shared: int, at: Break | None
    ) -> Access:
        past, usage = self.past, self.call.usage
        follows = past is not None and (old is not None or relation == "repeats")
        both = self.seen and past is not None and past.path is not None
        length = len(past.path) if past is not None and past.path is not None else 0
        common = past.common(old, at) if past is not None and both and follows else None
        again = past.again(old, self.call, at) if past is not None and common is not None else 0
        edited = both and follows and at is None and past is not None and self.total < past.total
        most = past.path.removable if edited and past is not None and past.path is not None else None
        kept = self._walk(previous, shared)
        dropped = self.dropped = self.path.dropped if self.path is not None and both and follows else 0
        if both and follows and common is not None:
            self.cleared = min(dropped, again)
        elif both and follows and kept < length and self.path is not None:
            common = self._of_old(self.path.ends[kept], old)
        elif both and follows and past is not None and relation == "continues":
            asked = self.path.asked if self.path is not None else 0
            new = [
                s
                for i, s in enumerate(self.call.prompt.since(kept), kept)
                if i >= asked or s.kind != "thinking"
            ]
            self.cleared = cleared(past.total, self.total, new, self.tokens.factor, dropped, most)
        ttl = past.ttl if past is not None else None
        self.marks = marks_of(self.mech, usage, self.total, self.visible, self.path, ttl)
        expected, entry = self._expected(follows, both, common, again, relation)
        if entry is not None and follows and relation != "repeats":
            # what is continued had been answered, whatever the clocks say
            self.sim.store.answered(entry, self.now)
        predicted = self._predict(relation, follows, at, common, kept)
        could, expected = expected, self.mech.readable(expected, self.hidden)
        actual = usage.cache_read if usage.cache_read is not None else predicted.read if predicted else None
        told = common is None or (past is not None and expected == past.total)
        spare = slack(
            self.mech, could, expected, actual, told=told, broken=at is not None, counted_from=self.hidden
        )
        if actual is not None:
            floor = actual
        else:
            floor = self.mech.readable(common, self.hidden) if common is not None else expected
        lost = expected - floor if expected - floor > spare else 0
        behind = self._behind_marker(expected, floor, spare, common) if lost and both and follows else 0
        if self.dropped and predicted is not None and (actual or 0) + spare < predicted.read:
            more = self.cleared - self.dropped > max(_TAIL_LEAST, _MORE * self.dropped)
            self.dropped, self.elsewhere = 0, not more  # not even what stands in front of it was read
        judged, tail = Verdict(), Verdict()
        if lost:
            facts = self._facts(follows, both, expected - (behind if behind < lost else 0), spare, entry)
            judged, tail = verdict(facts), unmarked_tail(facts)
            if past is None and usage.cache_read and not judged.barrier and lost <= _UNMEASURED * expected:
                lost, judged = 0, Verdict()  # it read another entry, or this one
            elif behind >= lost:  # the marker alone is to blame
                judged, behind = tail, lost if at is not None else 0
            elif judged.otherwise in OF_THE_TAIL:  # one reason for all of it
                behind = 0
        if not lost and self._too_short():
            judged = Verdict(barrier="below_minimum", sure="predicted")
        aside = "" if not behind else tail.otherwise
        if lost and not behind and predicted is not None and self._unseen_in_front(at):
            behind = min(lost, predicted.read - floor) if predicted.read - floor > spare else 0
            aside = "unknown" if behind else ""
        elif lost and not behind and predicted is not None and both and not self.cleared and self._whole(old):
            behind = min(lost, missed_beside(judged, at, predicted.read, floor, self.mech.style))
            aside = "provider_side_miss" if behind else ""
        otherwise = self._otherwise(judged, both, old, at, common)
        return Access(
            predicted=predicted,
            reported=reported_split(usage, self.total),
            optimal=best_split(self.mech, self.total, max(expected, floor)),
            outcome=outcome_of(self.mech, usage, self.total, expected, spare),
            expected=expected,
            actual=actual,
            simulated=usage.cache_read is None,
            lost=lost,
            barrier=judged.barrier,
            otherwise=otherwise,
            sure="unknown" if otherwise == "unknown" else judged.sure,
            gap_seconds=entry.gap(self.now) if entry is not None else None,
            ttl_seconds=entry.least if entry is not None else None,
            note=judged.note,
            behind=behind,
            behind_cause=aside,
            minimum=self.mech.minimum,
        )

    def _walk(self, previous: Call | None, shared: int) -> int:
        """Follow the prompt; how many segments of the path before were kept."""
        if not self.seen:
            return 0
        past = self.past
        path = past.path if past is not None else None
        known: int | None = None
        if path is not None and past is not None and previous is not None and past.call_id == previous.id:
            known = min(shared, len(path))
        if path is None:
            path, known = Path(), 0
        lost, mech = self.call.completeness.lost, self.mech
        kept = path.follow(
            self.call.prompt,
            known,
            self.call.usage.input,
            self.tokens.factor,
            unseen="tools" in lost or "system" in lost,
            runs=mech.runs,
            drops=mech.drops_thinking,
            read=self.call.usage.cache_read,
        )
        own, rules = self.settings, self.sim.rules
        marked = own if mech.style == "marked" else ()
        tools, system = losing(marked, "tools", rules), losing(marked, "system", rules)
        self.path, self.images = path, path.images
        self.shelf = Shelf(self.sim.store, mech, path, self.now, self.scope, own, tools, system)
        return kept

    # ---- what could have been read

    def _of_old(self, common: int, old: Call | None) -> int:
        """Of what is shared with another branch, what the call that is continued had asked for: there is no entry between
        two markers."""
        before = old.usage.input if old is not None else None
        if self.mech.style in ("marked", "endings") and before is not None:
            return min(common, before)
        return common

    def _expected(
        self, follows: bool, both: bool, common: int | None, again: int, relation: Relation
    ) -> tuple[int, Entry | None]:
        past = self.past
        if past is not None and follows:
            if both:
                if common is None:
                    return min(past.total - self.cleared, self.total), past.entry
                most = min(self._end_of(past), common + again) - self.cleared
                return min(most, self.total), past.entry
            if self.total >= _GROWN * past.total and relation != "compacted":
                return min(past.total, self.total), past.entry
            return 0, None
        if self.shelf is None or relation == "continues":
            return 0, None
        found = self.shelf.shared() or self._supposed()
        if found is None:
            return 0, None
        end, entry = found
        longest = self.mech.longest
        if longest is not None and entry.gap(self.now) > longest and relation != "forks":
            return 0, None  # nothing that is offered would have kept it: a cold start
        return end, entry

    def _supposed(self) -> tuple[int, Entry] | None:
        """What another request on its way has not yet written at the end of the system prompt, where usage has shown of the
        service that it sets a marker there: on the spans there is none."""
        path, shelf, sim = self.path, self.shelf, self.sim
        if path is None or shelf is None or self.marks.shown or self.call.usage.cache_read:
            return None
        entry = shelf.supposed(sim.supposed) if (self.call.service, self.scope) in sim.learned.heads else None
        if entry is None or entry.is_ready(self.now):
            return None
        self.supposing = True
        return path.ends[path.head], entry

    def _marks_head(self) -> bool:
        """Does usage show a marker at the end of the system prompt: a read that ended there, or a change of lifetimes?"""
        path, usage = self.path, self.call.usage
        if path is None or not path.head:
            return False
        read, write, hour = usage.cache_read or 0, usage.cache_write or 0, usage.cache_write_1h or 0
        places = [read] if read else []
        places += [read + hour] if 0 < hour < write else []
        return any(path.nearest(place) == path.head for place in places)

    def _end_of(self, past: Past) -> int:
        """Up to where the prompt before could be cached: a few tokens behind its last marker are nobody's loss."""
        if past.marker is None or self.mech.style != "marked":
            return past.total
        few = past.total - past.marker <= max(_TAIL_LEAST, _TAIL * past.total)
        return min(past.marker, past.total) if few else past.total

    # ---- the simulation

    def _predict(
        self, relation: Relation, follows: bool, at: Break | None, common: int | None, kept: int
    ) -> CacheTokens | None:
        path, shelf, mech = self.path, self.shelf, self.mech
        if path is None or shelf is None or self.family is None:
            return None
        if mech.style == "marked" and self.marks.asked is None:
            return None
        if follows and at is None and kept < path.head and self.call.completeness.lost & {"tools", "system"}:
            return None  # a section that was cut is another one each time
        if mech.style in ("marked", "endings"):
            read = shelf.from_marks(self.marks)
            end = self.total if mech.style == "endings" else min(self.marks.end or 0, self.total)
            end = max(end, read) if end >= mech.minimum else read
            return CacheTokens(read, end - read, self.total - end)
        past, reach = self.past, 0
        same = past is not None and past.scope == self.scope and past.settings == self.settings
        if past is not None and same and shelf.can_read(past.entry):
            reach = path.ends[kept] if common is None else common
        on = follows and at is None and relation in ("continues", "repeats")
        reach = shelf.longest((path.head,) if on else range(min(len(path), WALK), 0, -1), above=reach)
        read = mech.readable(min(reach, self.total), self.hidden)
        return CacheTokens(read, 0, self.total - read)

    # ---- why not

    def _unseen_in_front(self, at: Break | None) -> bool:
        """Do tools or system prompt stand unseen in front of the break? What was lost of them is not the break's."""
        unseen = self.call.completeness.lost & {"tools", "system"}
        return at is not None and bool(unseen) and at.kind not in unseen

    def _behind_marker(self, expected: int, floor: int, spare: int, common: int | None) -> int:
        """Tokens behind the last marker of the call before: no entry ends there, whatever became of the text."""
        past = self.past
        if past is None or past.marker is None or self.mech.style != "marked":
            return 0
        reach = past.marker
        if common is not None and common < reach:  # what is gone stood in front of it
            reach = max(common, reach - max(0, self._end_of(past) - self.cleared - expected))
        reach = max(reach, floor)
        return expected - reach if expected - reach > spare else 0

    def _facts(self, follows: bool, both: bool, expected: int, spare: int, entry: Entry | None) -> Facts:
        past, marks, path = self.past if follows else None, self.marks, self.path
        position = path.positions[marks.places[-1][0]] if path is not None and marks.places else 0
        before, stayed = past.position if past is not None else 0, False
        if past is not None and path is not None and path is past.path and past.place < len(path.positions):
            before = path.positions[past.place]  # of this prompt: thinking that was taken out has none
            stayed = bool(marks.places) and marks.places[-1][0] == past.place
        implied, learned = self.call.usage.cache_implied, self.sim.learned
        return Facts(
            now=self.now,
            mechanism=self.mech,
            seen=both or (past is None and self.seen),
            reported=self.call.usage.cache_read is not None,
            proven=not implied or learned.has_told(self.call.service, self.scope),
            dropped=self.dropped,
            shrunk=past is not None and not self.elsewhere and (self.total < past.total or self.cleared > 0),
            expected=expected,
            slack=spare,
            same_model=past is None or past.scope == self.scope,
            entry=entry,
            supposed=self.supposing,
            outlived=self._outlived(),
            asked=marks.asked,
            shown=marks.shown,
            shortest=self._too_short(),
            longer_before=self._had_longer(entry),
            marker=marks.end,
            last_marker=past.marker if past is not None else None,
            stayed=stayed,
            beyond_head=self._beyond_head(past),
            distance=position - before if past is not None else 0,
            parameters=self._changed(past),
        )

    def _outlived(self) -> bool:
        """Was an entry read that ends among the messages? Those behind it were asked for together with it or later."""
        path, read = self.path, self.call.usage.cache_read or 0
        return path is not None and path.nearest(read) > path.head

    def _beyond_head(self, past: Past | None) -> bool:
        """Without text, a marker that never moved may stand at the end of the system prompt."""
        path, places = self.path, self.marks.places
        if path is None:
            return past is not None and past.moved
        return not places or places[-1][0] > path.head

    def _moved(self) -> bool:
        """Has the last marker ever stood at another place in this conversation?"""
        past, end = self.past, self.marks.end
        if past is None:
            return False
        return past.moved or (past.marker is not None and end is not None and end != past.marker)

    def _too_short(self) -> bool:
        """Something was marked, and it is too short to be cached."""
        return bool(self.visible) and self.marks.end is not None and self.marks.end < self.mech.minimum

    def _changed(self, past: Past | None) -> str:
        """What of the settings is another than in the call before, in words."""
        if past is None:
            return ""
        words = changed(past.settings, self.settings)
        if self.mech.style == "marked" and past.images != self.images and self.path is past.path:
            words = f"{words} An image was added or taken away.".strip()
        return words

    def _had_longer(self, entry: Entry | None) -> bool:
        """The service asked for a lifetime before that would have kept the entry, and no longer does."""
        if entry is None or entry.least is None:
            return False
        asked = self.sim.learned.lifetimes(self.call.service, self.scope)
        longer = [self.mech.lifetime(name).least or 0 for name in asked]
        return any(n > entry.least and entry.gap(self.now) <= n for n in longer)

    def _otherwise(
        self, judged: Verdict, both: bool, old: Call | None, at: Break | None, common: int | None
    ) -> str:
        if at is not None and both:
            marker = self.past.marker if self.past is not None else None
            once = self.mech.style == "marked" and marked_once(old, self.call, at, marker, common)
            return "breakpoint_before_change" if once else ""
        if judged.otherwise in _ONLY_SEEN and not self._whole(old):
            return "unknown"  # what was not seen may have changed
        return judged.otherwise

    def _whole(self, old: Call | None) -> bool:
        return all(c is None or c.completeness.status == "full" for c in (self.call, old))

    # ---- what it leaves

    def left(self) -> Past:
        call, path, past, places = self.call, self.path, self.past, self.marks.places
        ready = call.first_token_unix_nano or call.end_unix_nano
        self.sim.learned.saw(call.usage, call.service, self.scope, self.family, self.mech)
        if call.status == "ok":
            self._write(ready)
        ttl = places[-1][1] if places else None
        lifetime = self._lifetime(ttl)
        return Past(
            call_id=call.id,
            scope=self.scope,
            total=self.total,
            entry=self.entry or Entry(self.total, self.now, ready, lifetime.least, lifetime.most),
            path=path,
            settings=self.settings,
            images=self.images,
            marker=self.marks.end,
            place=places[-1][0] if places else 0,
            moved=self._moved(),
            position=path.positions[places[-1][0]] if path is not None and places else 0,
            ttl=ttl or (past.ttl if past is not None else None),
        )

    def _lifetime(self, ttl: str | None) -> Lifetime:
        return self.mech.lifetime(ttl) if self.mech.style == "marked" else self.mech.usual

    def _write(self, ready: int) -> None:
        path, mech, marks = self.path, self.mech, self.marks
        if path is None:
            return
        if mech.style == "marked":
            read = self.call.usage.cache_read
            if read and not marks.shown:  # an entry that nobody told of shows itself
                self._put(path.nearest(read), ready, self.past.ttl if self.past else None)
            for place, ttl in marks.places:
                self._put(place, ready, ttl)
            if marks.asked and not marks.shown and self.shelf is not None:
                self.shelf.suppose(self.sim.supposed, ready, self._lifetime(None))
                if self._marks_head():
                    self.sim.learned.heads.add((self.call.service, self.scope))
            if marks.places and marks.places[-1][1]:
                self.sim.learned.lifetimes(self.call.service, self.scope).add(marks.places[-1][1])
            return
        places = {path.head, len(path)} if mech.style != "endings" else {len(path)}
        if self.past is None:
            places |= set(range(1, min(len(path), WALK) + 1)) if mech.style != "endings" else {path.head}
        for place in sorted(places):
            self._put(place, ready, None)

    def _put(self, place: int, ready: int, ttl: str | None) -> None:
        if self.shelf is not None:
            self.entry = self.shelf.put(place, ready, self._lifetime(ttl)) or self.entry
