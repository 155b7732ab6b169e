"""The prefix of a conversation: after every segment a key of all that stands before, and a place in tokens.

Places are the provider's own tokens: the reported input says where each prompt ended, and what lies between two such
ends is shared out by our counts. So a place in tokens, as usage tells it, is a place in the segments.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import xxhash

from otel_ctx.model import KIND_INDEX, Prompt, Segment

_SEED = 0
_HIDDEN = 1.5  # a prompt this much larger than what was counted has something in front that was not recorded
_RUNS = (KIND_INDEX["tool_call"], KIND_INDEX["tool_result"])  # a run of one of them is one position


@dataclass(slots=True, eq=False)
class Path:
    """All by the number of segments that stand before: ``keys[0]`` and ``ends[0]`` are those of nothing (``ends[0]`` is
    what the provider put in front, or what was not recorded there)."""

    keys: array[int] = field(default_factory=lambda: array("Q", (_SEED,)))
    ends: array[int] = field(default_factory=lambda: array("q", (0,)))
    positions: array[int] = field(default_factory=lambda: array("L", (0,)))
    kinds: bytearray = field(default_factory=bytearray)
    head: int = 0  # how many of the segments are tools and system prompt

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def total(self) -> int:
        return self.ends[-1]

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
        self, prompt: Prompt, shared: int | None, total: int | None, factor: float, unseen: bool
    ) -> int:
        """Become the path of ``prompt``, of which ``shared`` segments stand here already (None: find out). ``total`` is the
        reported input; ``factor`` turns counts into the provider's tokens; ``unseen``: a section was not recorded.
        Returns how many segments were kept."""
        if shared is None:
            shared = self._shared(prompt)
        del (
            self.keys[shared + 1 :],
            self.ends[shared + 1 :],
            self.positions[shared + 1 :],
            self.kinds[shared:],
        )
        new = prompt.since(shared)
        key, position = self.keys[-1], self.positions[-1]
        last = self.kinds[-1] if self.kinds else -1
        for s in new:
            key = _next(key, s)
            kind = KIND_INDEX[s.kind]
            position += not (kind == last and kind in _RUNS)
            last = kind
            self.keys.append(key)
            self.positions.append(position)
            self.kinds.append(kind)
        self.head = len(prompt.tools) + len(prompt.system)
        system = KIND_INDEX["system"]
        while self.head < len(self.kinds) and self.kinds[self.head] == system:
            self.head += 1
        self._measure(new, total, factor, unseen)
        return shared

    def _shared(self, prompt: Prompt) -> int:
        key, n = _SEED, 0
        for s in prompt:
            key = _next(key, s)
            if n + 1 >= len(self.keys) or self.keys[n + 1] != key:
                break
            n += 1
        return n

    def _measure(self, new: Sequence[Segment], total: int | None, factor: float, unseen: bool) -> None:
        counts = [s.tokens or 0 for s in new]
        counted, base = sum(counts) * factor, self.ends[-1]
        media = [i for i, s in enumerate(new) if s.tokens is None]
        rest = counted if total is None else float(total - base)
        if (
            total is not None
            and not len(self.ends) - 1
            and (unseen or rest > _HIDDEN * counted)
            and not media
        ):
            self.ends[0] = base = max(0, round(rest - counted))
            rest = float(total - base)
        sizes = [c * factor for c in counts]
        if media and rest > counted:
            for i in media:
                sizes[i] = (rest - counted) / len(media)
        elif counted and rest > 0:
            sizes = [size * rest / counted for size in sizes]
        at = float(base)
        for size in sizes:
            at += size
            self.ends.append(round(at))
        if (
            total is not None and rest <= 0 and new and self.ends[-1]
        ):  # what stood before was taken for too large
            scale = total / self.ends[-1]
            self.ends = array("q", (round(end * scale) for end in self.ends))
        elif total is not None:
            self.ends[-1] = max(total, self.ends[-2] if len(self.ends) > 1 else 0)


def _next(key: int, segment: Segment) -> int:
    return xxhash.xxh3_64_intdigest(segment.digest.encode(), key)
