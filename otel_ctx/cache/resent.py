"""What of a prompt was sent once more: behind the place where it parts from the one before, and after the provider cut it."""

from __future__ import annotations

from collections.abc import Sequence

from otel_ctx.cache.path import Path
from otel_ctx.model import Break, Prompt, Segment

_SURE = 0.5  # of what is new: a prompt that is smaller by less may only have been counted wrong
_LEAST = 128
_NEARER = 1.5  # what was new is counted with another tokenizer, what is dropped in the provider's own tokens


def stays(at: Break, gone: Sequence[Segment], rest: Sequence[Segment]) -> bool:
    """Does the changed piece stand in the place of the old one? What follows it is the same then, or nothing did."""
    before, after = at.before, at.after
    if at.change != "modified" or before is None or after is None or before.kind != after.kind:
        return False
    if len(gone) < 2 or len(rest) < 2:
        return len(gone) < 2
    return gone[1].digest == rest[1].digest


def resent(old: Prompt, new: Prompt, path: Path, total: int, at: Break) -> int:
    """Tokens behind the break that had been sent and were sent again, the changed piece with them. ``path`` and ``total``
    are the old prompt's, with its places in the provider's tokens."""
    gone, rest = old.since(at.index), new.since(at.index)
    again = {s.digest for s in rest}
    ends, start = path.ends, at.index
    if len(ends) != start + len(gone) + 1:
        return 0  # the path of another prompt
    if start < len(path) and at.before is not None and at.char_offset and at.before.bytes:
        said = (ends[start + 1] - ends[start]) * min(1.0, at.char_offset / at.before.bytes)
    else:
        said = 0.0
    kept = stays(at, gone, rest)
    if all(s.digest in again or (kept and s is at.before) for s in gone):
        return total - ends[start] - round(said) - (_shrunk(at, ends[start + 1] - ends[start]) if kept else 0)
    size = sum(ends[start + i + 1] - ends[start + i] for i, s in enumerate(gone) if s.digest in again)
    if kept:
        own = ends[start + 1] - ends[start]
        size += max(0, own - _shrunk(at, own) - round(said))
    return size


def _shrunk(at: Break, size: int) -> int:
    """Tokens by which the changed piece is smaller than it was, of ``size``."""
    before, after = at.before, at.after
    if before is None or after is None or not before.tokens or after.tokens is None:
        return 0
    return round(size * max(0.0, 1 - after.tokens / before.tokens))


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
