"""One call's way to the entries: which it may read, which it finds, which it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_ctx.cache.marks import Marks
from otel_ctx.cache.mechanism import Lifetime, Mechanism
from otel_ctx.cache.path import Path
from otel_ctx.cache.settings import Settings
from otel_ctx.cache.store import Entry, Store

WALK = 256  # boundaries of a new prompt at which an entry is looked for


class Shelf:
    """``scope``: whose cache it is; ``settings``: those of the request that are part of what is cached, of its ``tools``, of
    its ``system`` prompt, of all."""

    def __init__(
        self,
        store: Store,
        mech: Mechanism,
        path: Path,
        now: int,
        scope: str,
        settings: Settings,
        tools: Settings = (),
        system: Settings = (),
    ) -> None:
        self._store, self._mech, self._path, self._now = store, mech, path, now
        marked = mech.style == "marked"
        self._tools_end, self._head_end = (path.tools, path.head) if marked else (0, 0)
        self._tools = f"{scope}\0{tools}" if tools else scope
        self._head = f"{scope}\0{system}" if system else scope
        self._all = f"{scope}\0{settings}" if settings else scope
        if marked and path.images:  # one that comes or goes anywhere loses all messages
            self._all = f"{scope}\0{settings}\0{path.images}"

    def _scope_at(self, place: int) -> str:
        """What the settings of a request lose does not lie in one place with what they keep."""
        if place > self._head_end:
            return self._all
        return self._head if place > self._tools_end else self._tools

    def at(self, place: int) -> Entry | None:
        return self._store.get(self._scope_at(place), self._path.keys[place])

    def can_read(self, entry: Entry | None, may: bool = False) -> bool:
        """``may``: it is enough that the entry may live."""
        if entry is None or not entry.is_ready(self._now):
            return False
        return entry.lives(self._now) or (may and not entry.is_dead(self._now))

    def longest(self, places: Iterable[int], above: int, may: bool = False) -> int:
        """Tokens of the first of ``places`` (the longest first) that can be read, or ``above`` where that is more."""
        for i in places:
            if self._path.ends[i] <= above:
                break
            if self.can_read(self.at(i), may):
                return self._path.ends[i]
        return above

    def from_marks(self, marks: Marks, may: bool = False) -> int:
        """Tokens that are found looking back from each marker, the last one first, and from the end of the system prompt."""
        path = self._path
        places: Sequence[int] = [i for i, _ in marks.places]
        if self._mech.style == "endings" and not places:
            places = [len(path)]
        for place in (*reversed(places), path.head):
            found = self.before(place, may)
            if found:
                return path.ends[found]
        return 0

    def before(self, place: int, may: bool = False) -> int:
        """Where the entry ends that is found looking back from a marker at ``place``; 0 where there is none."""
        path, mech = self._path, self._mech
        for i in range(min(place, len(path)), 0, -1):
            far = path.positions[place] - path.positions[i] >= mech.lookback
            if far or path.ends[i] < mech.minimum:
                break
            if self.can_read(self.at(i), may):
                return i
        return 0

    def shared(self) -> tuple[int, Entry] | None:
        """The longest beginning of this prompt that any other conversation has cached, alive and ready or not."""
        path, mech = self._path, self._mech
        for i in range(min(len(path), WALK), 0, -1):
            entry = self.at(i)
            if entry is not None and path.ends[i] >= mech.minimum:
                if i == path.head and mech.style == "endings":
                    return None  # it is looked for there; that one was written there is not said
                return path.ends[i], entry
        return None

    def supposed(self, supposed: Store) -> Entry | None:
        """Of ``supposed``, what stands at the end of the system prompt."""
        return supposed.get(self._head, self._path.keys[self._path.head])

    def suppose(self, supposed: Store, ready: int, lifetime: Lifetime) -> None:
        """Where markers are not shown, one may stand at the end of the system prompt."""
        head = self._path.head
        if head and self._path.ends[head] >= self._mech.minimum:
            entry = Entry(self._path.ends[head], self._now, ready, lifetime.least, lifetime.most)
            supposed.use(self._head, self._path.keys[head], entry)

    def put(self, place: int, ready: int, lifetime: Lifetime) -> Entry | None:
        """An entry is written there, or read and so renewed. None: too short for one."""
        tokens = self._path.ends[place]
        if not place or tokens < self._mech.minimum:
            return None
        entry = Entry(tokens, self._now, ready, lifetime.least, lifetime.most)
        self._store.use(self._scope_at(place), self._path.keys[place], entry)
        return entry
