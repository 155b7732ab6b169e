"""The prefix of a conversation: after every segment a key of all that stands before, and a place in tokens.

Places are the provider's own tokens: the reported input says where each prompt ended, and what lies between two such
ends is shared out by our counts. So a place in tokens, as usage tells it, is a place in the segments.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import xxhash

from otel_ctx.model import KIND_INDEX, Prompt, Segment

_SEED = 0
_FRAME = 64  # tokens around a message
_COUNTED_TO = 0.25  # counts of another tokenizer are as near as that
_SHARED_TO = 1.05  # and places that were shared out
_HIDDEN = 1.5  # a prompt this much larger than what was counted has something in front that was not recorded
_RUNS = (KIND_INDEX["tool_call"], KIND_INDEX["tool_result"])  # a run of one of them may be one position
_STAYS = 24  # tokens of a result that was cleared: the id of its call, and a note
_RESULT, _THINKING = KIND_INDEX["tool_result"], KIND_INDEX["thinking"]
_IMAGE, _SYSTEM = KIND_INDEX["image"], KIND_INDEX["system"]


@dataclass(slots=True, eq=False)
class Path:
    """All by the number of segments that stand before: ``keys[0]`` and ``ends[0]`` are those of nothing (``ends[0]`` is
    what the provider put in front, or what was not recorded there)."""

    keys: array[int] = field(default_factory=lambda: array("Q", (_SEED,)))
    ends: array[int] = field(default_factory=lambda: array("q", (0,)))
    positions: array[int] = field(default_factory=lambda: array("I", (0,)))
    kinds: bytearray = field(default_factory=bytearray)
    names: array[int] = field(default_factory=lambda: array("Q"))  # of the segments themselves
    tools: int = 0
    head: int = 0  # how many of the segments are tools and system prompt
    thought: int | None = None  # the first segment of thinking that still stands before the model
    asked: int = 0  # thinking that stands before this place no longer does
    dropped: int = 0  # tokens of thinking that stood there before this prompt, and no longer do
    rewritten: bool = False  # the provider has taken out more than its rule says

    def __len__(self) -> int:
        return len(self.kinds)

    def packed(self) -> PackedPath:
        data = b"".join((self.keys, self.ends, self.names, self.positions, self.kinds))
        return PackedPath(data, self.tools, self.head, self.thought, self.asked, self.dropped, self.rewritten)

    @property
    def total(self) -> int:
        return self.ends[-1]

    @property
    def images(self) -> int:
        return self.kinds.count(_IMAGE)

    @property
    def removable(self) -> int:
        """Tokens of what providers take out of a history: results of tools but for what stays in their place, and thinking."""
        ends = self.ends
        return sum(
            max(0, ends[i + 1] - ends[i] - (_STAYS if kind == _RESULT else 0))
            for i, kind in enumerate(self.kinds)
            if kind in (_RESULT, _THINKING)
        )

    def nearest(self, tokens: int) -> int:
        """How many segments end nearest to a place in tokens."""
        ends = self.ends
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if ends[middle] < tokens:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low and tokens - ends[low - 1] < ends[low] - tokens else low

    def follow(
        self,
        prompt: Prompt,
        shared: int | None,
        total: int | None,
        factor: float,
        *,
        unseen: bool = False,
        runs: bool = True,
        drops: bool = False,
        read: int | None = None,
    ) -> int:
        """Become the path of ``prompt``, of which ``shared`` segments stand here already (None: find out). ``total`` is the
        reported input; ``factor`` turns counts into the provider's tokens; ``unseen``: a section was not recorded; ``runs``:
        a run of calls or of results is one position; ``drops``: a user's new message takes out the thinking before it, by the
        rule; ``read``: the reported tokens that came from the cache. Returns how many segments were kept."""
        if shared is None:
            shared = self._shared(prompt, drops)
        kept, new = shared, prompt.since(shared)
        self.asked, self.dropped = self._asked(new, shared, total, factor, read) if drops else (0, 0)
        asked, thought = self.asked, self.thought
        if thought is not None and thought >= shared:
            thought = None
        if asked and thought is not None:
            kept, new, thought = thought, prompt.since(thought), None
        before = self._cut(kept) if kept < len(self.kinds) else {}
        key, position = self.keys[-1], self.positions[-1]
        last = self.kinds[-1] if self.kinds else -1
        counts: list[int] = []
        known: list[int | None] = []
        media: list[int] = []
        for i, s in enumerate(new, kept):
            kind, digest = KIND_INDEX[s.kind], s.digest.encode()
            name = xxhash.xxh3_64_intdigest(digest, _SEED)
            tokens: int | None = 0
            was: int | None = None
            if kind != _THINKING or i >= asked:
                key = xxhash.xxh3_64_intdigest(digest, key)
                position += not (runs and kind == last and kind in _RUNS)
                last = kind
                if kind == _THINKING and thought is None:
                    thought = i
                tokens, was = s.tokens, before.get(name)
                if tokens is None and was is None:
                    media.append(len(counts))
            counts.append(tokens or 0)
            known.append(was)
            self.keys.append(key)
            self.positions.append(position)
            self.kinds.append(kind)
            self.names.append(name)
        self.thought, self.tools = thought, len(prompt.tools)
        self.head = self.tools + len(prompt.system)
        while self.head < len(self.kinds) and self.kinds[self.head] == _SYSTEM:
            self.head += 1
        self._measure(counts, known, media, total, factor, unseen)
        return shared

    def _cut(self, kept: int) -> dict[int, int]:
        """Forget the segments from ``kept`` on: their sizes by their names."""
        ends = self.ends
        sizes = {self.names[i]: ends[i + 1] - ends[i] for i in range(kept, len(self.kinds))}
        del self.names[kept:], self.kinds[kept:]
        del self.keys[kept + 1 :], self.ends[kept + 1 :], self.positions[kept + 1 :]
        return sizes

    def _asked(
        self, new: Sequence[Segment], shared: int, total: int | None, factor: float, read: int | None
    ) -> tuple[int, int]:
        """The place of the user's new message, before which no thinking stands (0: it still does), and the tokens of what
        was taken out there."""
        asked = max((i for i, s in enumerate(new, shared) if s.kind == "user"), default=0)
        standing = self._thinking() if asked else []
        if standing and sum(s.kind == "thinking" for i, s in enumerate(new, shared) if i >= asked) >= len(
            standing
        ):
            return asked, 0
        if asked and self._still(standing, new, shared, asked, total, factor, read):
            return 0, 0
        return asked, sum(self.ends[i + 1] - self.ends[i] for i in standing)

    def _thinking(self) -> list[int]:
        """The segments of thinking that still stand before the model."""
        if self.thought is None:
            return []
        return [i for i in range(self.thought, len(self.kinds)) if self.kinds[i] == _THINKING]

    def taken_out(self, old: Prompt, factor: float) -> int:
        """Tokens of thinking that stood before the model in ``old``, the prompt of another branch, and do not in this one."""
        asked = _last_asked(old)
        gone = (s.tokens or 0 for i, s in enumerate(old) if s.kind == "thinking" and asked <= i < self.asked)
        return round(sum(gone) * factor)

    def rewrite(self, place: int) -> None:
        """The provider put something else among the messages behind ``place`` than was sent: what was cached of that is not
        found again."""
        self.rewritten = True
        for i in range(max(place, self.head) + 1, len(self.keys)):
            self.keys[i] = xxhash.xxh3_64_intdigest(b"rewritten", self.keys[i])

    def _still(
        self,
        standing: Sequence[int],
        new: Sequence[Segment],
        shared: int,
        asked: int,
        total: int | None,
        factor: float,
        read: int | None,
    ) -> bool:
        """Does usage say that the thinking still stands there, whatever the rule says? ``asked``: the place of the user's
        new message."""
        inside = [i for i in standing if i < shared]
        was = {self.names[i]: self.ends[i + 1] - self.ends[i] for i in range(shared, len(self.kinds))}
        measured = [was.get(_next(_SEED, s)) for s in new]  # 0: it was taken out before
        if total is not None and all(
            s.tokens is not None or n is not None for s, n in zip(new, measured, strict=True)
        ):
            before = sum(self.ends[i + 1] - self.ends[i] for i in inside)
            after = counted = known = 0.0
            for i, (s, n) in enumerate(zip(new, measured, strict=True), shared):
                size = (s.tokens or 0) * factor if n is None else n
                if s.kind == "thinking" and i < asked:
                    after += size
                elif n is None:
                    counted += size
                else:
                    known += size
            if before + after > _COUNTED_TO * counted + (_SHARED_TO - 1) * known:
                return total - self.ends[shared] - counted - known > (after - before) / 2
        return bool(inside) and read is not None and read > _SHARED_TO * self.ends[inside[0]] + _FRAME

    def _shared(self, prompt: Prompt, drops: bool) -> int:
        """Thinking that no longer stood here must not stand in ``prompt`` either."""
        asked, n = _last_asked(prompt) if drops else 0, 0
        for s in prompt:
            if n >= len(self.names) or self.names[n] != _next(_SEED, s):
                break
            if self.kinds[n] == _THINKING and self.keys[n + 1] == self.keys[n] and n >= asked:
                break
            n += 1
        return n

    def _measure(
        self,
        counts: Sequence[int],
        known: Sequence[int | None],
        media: Sequence[int],
        total: int | None,
        factor: float,
        unseen: bool,
    ) -> None:
        """``counts``: our own; ``known``: sizes of those that stood in the prompt before, too; ``media``: those without."""
        counted, base = sum(counts) * factor, self.ends[-1]
        rest = counted if total is None else float(total - base)
        first = len(self.ends) == 1
        if total is not None and first and (unseen or rest > _HIDDEN * counted) and not media:
            self.ends[0] = base = max(0, round(rest - counted))
            rest = float(total - base)
        sizes = [c * factor if was is None else float(was) for c, was in zip(counts, known, strict=True)]
        again = float(sum(filter(None, known)))
        own = sum(sizes) - again
        if media and rest > own + again:
            for i in media:
                sizes[i] = (rest - own - again) / len(media)
        elif own and again and own / 2 < rest - again < 2 * own:
            sizes = [
                size if was is not None else size * (rest - again) / own
                for size, was in zip(sizes, known, strict=True)
            ]
        elif own + again and rest > 0:
            sizes = [size * rest / (own + again) for size in sizes]
        at = float(base)
        for size in sizes:
            at += size
            self.ends.append(round(at))
        # what stood before was taken for too large
        if total is not None and rest <= 0 and counts and self.ends[-1]:
            scale = total / self.ends[-1]
            self.ends = array("q", (round(end * scale) for end in self.ends))
        elif total is not None:
            self.ends[-1] = max(total, self.ends[-2] if len(self.ends) > 1 else 0)


class PackedPath(NamedTuple):
    """A path between two calls: in a third of the memory, as arrays have room to grow."""

    data: bytes  # its arrays: each has an item for each segment, and all but names and kinds one more
    tools: int
    head: int
    thought: int | None
    asked: int
    dropped: int
    rewritten: bool

    def opened(self) -> Path:
        """A path of its own."""
        path = Path(array("Q"), array("q"), array("I"), bytearray(), array("Q"), *self[1:])
        arrays = (path.keys, path.ends, path.names, path.positions)
        first = sum(a.itemsize for a in arrays if a is not path.names)
        n = (len(self.data) - first) // (1 + sum(a.itemsize for a in arrays))
        at = 0
        for a in arrays:
            end = at + a.itemsize * (n + (a is not path.names))
            a.frombytes(self.data[at:end])
            at = end
        path.kinds += self.data[at:]
        return path


def _last_asked(prompt: Prompt) -> int:
    """The place of the user's newest message."""
    return max((i for i, s in enumerate(prompt) if s.kind == "user"), default=0)


def _next(key: int, segment: Segment) -> int:
    return xxhash.xxh3_64_intdigest(segment.digest.encode(), key)
