"""What of a prompt was sent once more: behind the place where it parts from the one before, and after the provider cut it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from otel_ctx.cache.path import Path
from otel_ctx.model import Break, Prompt, Segment, replaced

_SURE = 0.5  # of what is new: a prompt that is smaller by less may only have been counted wrong
_LEAST = 128
_NEARER = 1.5  # what was new is counted with another tokenizer, what is dropped in the provider's own tokens


class Resent(NamedTuple):
    """Tokens behind a break that were sent once more. ``between``: those of them in front of the next change."""

    tokens: int = 0
    between: int = 0


NOTHING = Resent()


def resent(old: Prompt, new: Prompt, path: Path, total: int, at: Break) -> Resent:
    """What had been sent behind the break and was sent again, changed pieces at their place with it: it would have been read
    had none of them changed. ``path`` and ``total`` are the old prompt's, with its places in the provider's tokens."""
    gone, rest = old.since(at.index), new.since(at.index)
    ends, start = path.ends, at.index
    if len(ends) != start + len(gone) + 1:
        return NOTHING  # the path of another prompt
    again, changed = {s.digest for s in rest}, replaced(gone, rest)
    sizes = [
        _still(own, s, rest[changed[i]]) if i in changed else own if s.digest in again else 0
        for i, (s, own) in enumerate(zip(gone, _sizes(ends, start), strict=True))
    ]
    if sizes and sizes[0]:
        sizes[0] = max(0, sizes[0] - common_part(at, path))
    tokens = min(sum(sizes), total - ends[start])
    if at.then is None:
        return Resent(tokens, tokens)
    return Resent(tokens, sum(sizes[: at.then.index - start]) + common_part(at.then, path))


def common_part(at: Break, path: Path) -> int:
    """Tokens of the piece at the break in front of where it differs."""
    if at.index >= len(path) or at.before is None or not at.char_offset or not at.before.bytes:
        return 0
    size = path.ends[at.index + 1] - path.ends[at.index]
    return round(size * min(1.0, at.char_offset / at.before.bytes))


def _sizes(ends: Sequence[int], start: int) -> list[int]:
    return [ends[i + 1] - ends[i] for i in range(start, len(ends) - 1)]


def _still(size: int, before: Segment, after: Segment) -> int:
    """Tokens of a changed piece that may be smaller than it was, of ``size``."""
    if not before.tokens or after.tokens is None:
        return size
    return size - round(size * max(0.0, 1 - after.tokens / before.tokens))


def cleared(
    before: int,
    total: int,
    new: Sequence[Segment],
    factor: float,
    dropped: int = 0,
    most: int | None = None,
) -> int:
    """Tokens that are gone although the text says that all of the ``before`` was sent again with ``new`` behind it: the
    provider took them out. 0 where that is not certain. ``dropped``: about how many its rules take out; ``most``: how many
    of the ``before`` it takes out at most; what is missing beyond them is missing of new results."""
    counts = [s.tokens for s in new]
    if None in counts:
        return dropped
    added = round(sum(filter(None, counts)) * factor)
    gone = before + added - total
    if dropped:  # both are counted: the smaller of two counts is the nearer to the truth
        return gone if gone > 0 and _NEARER * added < dropped else dropped
    if gone <= max(_LEAST, _SURE * added):
        return 0
    results = sum(s.tokens or 0 for s in new if s.kind == "tool_result") * factor
    return most if most is not None and most < gone <= most + results else gone
