"""Where a call asked for cache entries: by the markers on its span, else by what usage says was read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from otel_ctx.cache.mechanism import Mechanism
from otel_ctx.cache.path import Path
from otel_ctx.model import MODEL_KINDS, Break, Call, Usage

_BEHIND, _SHARE = 128, 0.02  # of the prompt, what may stand behind a marker at its end


@dataclass(frozen=True, slots=True)
class Marks:
    """``places``: the number of segments before each marker, and its lifetime (None: not known). ``asked``: was anything
    marked? None: nothing tells. ``shown``: the markers themselves are on the span. ``end``: place in tokens of the last."""

    places: tuple[tuple[int, str | None], ...] = ()
    asked: bool | None = None
    shown: bool = False
    end: int | None = None

    @property
    def none(self) -> bool:
        """Nothing was marked, as far as usage tells."""
        return self.asked is False and not self.shown

    @property
    def refused(self) -> bool:
        """It was marked, and nothing was written: too short."""
        return self.asked is False and self.shown


NO_MARKS = Marks()


def marks_of(
    mech: Mechanism,
    usage: Usage,
    total: int,
    visible: Sequence[tuple[int, str]],
    path: Path | None,
    lifetime_before: str | None,
) -> Marks:
    """``visible``: (index of the segment, lifetime) of those on the span; ``lifetime_before``: that the last marker of the
    call before asked for."""
    if mech.style == "endings":
        return Marks(asked=True)
    if mech.style != "marked":
        return NO_MARKS
    # what was written stands behind what was read: where that is not told, its place is not known
    end = usage.cache_read + (usage.cache_write or 0) if usage.cache_read is not None else 0
    place = path.nearest(end) if path is not None and end else 0
    if visible and path is not None:
        usual = next(iter(mech.lifetimes), None)
        places = tuple((i + 1, usual if m == "default" else m) for i, m in visible[-mech.most_marks :])
        # the automatic one, at the end
        if place > places[-1][0] and total - end <= max(_BEHIND, _SHARE * total):
            places += ((place, _lifetime(usage, lifetime_before)),)
        # nothing was written: too short, by the provider's count
        refused = usage.cache_read == 0 and usage.cache_write == 0 and not usage.cache_implied
        end = end or path.ends[places[-1][0]]
        return Marks(places, end >= mech.minimum and not refused, True, end)
    if usage.cache_read is None:
        return NO_MARKS
    if not end:
        return Marks(asked=False if total >= mech.minimum else None)
    return Marks(((place, _lifetime(usage, lifetime_before)),) if place else (), True, False, end)


def _lifetime(usage: Usage, before: str | None) -> str | None:
    if usage.cache_write and usage.cache_write_1h is not None:
        return "1h" if usage.cache_write_1h >= usage.cache_write else "5m"  # the shorter one stands last
    return None if usage.cache_write else before


def marked_once(old: Call | None, call: Call, at: Break, marker: int | None, common: int | None) -> bool:
    """Did the last marker of ``old`` stand behind text that is sent once only: a note at the end of the newest message, say?
    ``marker``: its place in tokens; ``common``: tokens up to the break."""
    if old is None or marker is None or (common is not None and marker <= common):
        return False
    tail = old.prompt.since(at.index)
    again = {s.digest for s in call.prompt.since(at.index)}
    return not any(s.kind in MODEL_KINDS or s.digest in again for s in tail)
