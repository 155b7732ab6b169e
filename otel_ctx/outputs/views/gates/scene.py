"""What the judges of gates look at, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ctx.model import Analysis, Conversation, NotChecked, Reading
from otel_ctx.outputs.views.selection import label

NOTHING_FOLLOWS = "no call goes on from another: there is nothing to compare"


@dataclass(frozen=True, slots=True)
class Found:
    failed: str = ""
    unknown: str = ""
    passed: str = ""
    value: float | None = None
    calls: tuple[str, ...] = ()


class Scene:
    def __init__(self, whole: Analysis, chosen: Analysis) -> None:
        self.whole, self.chosen = whole, chosen
        self.readings: Sequence[Reading] = chosen.readings
        self.by_id: Mapping[str, Reading] = {r.call.id: r for r in whole.readings}
        self.conversations: Mapping[str, Conversation] = {c.id: c for c in whole.conversations}

    def pairs(self) -> Iterator[tuple[Reading, Reading]]:
        """Each call that goes on from another, behind it."""
        for r in self.readings:
            before = self.by_id.get(r.previous or "")
            if before is not None and r.relation != "repeats":
                yield before, r

    def compared(self) -> list[Reading]:
        """Those whose prompt was held against that of an earlier call. A fork's is not, nor an agent's first."""
        return [r for r in self.readings if r.compared is not None]

    def unplaced(self) -> list[Reading]:
        """Calls that stand alone only because nothing of them says what they go on from."""
        return [r for r in self.readings if r.unplaced]

    def at(self, r: Reading) -> str:
        return f"turn {r.turn:,} of {label(self.conversations[r.conversation])}"

    def left_out(self, kinds: Sequence[str]) -> list[str]:
        """Of these kinds those that were found and are ignored."""
        return [kind for kind, _ in self.whole.ignored if kind in kinds]

    def unchecked(self, *checks: str) -> tuple[list[str], str]:
        """Calls for which one of ``checks`` was not possible, and the first reason."""
        chosen = {r.call.id for r in self.readings}
        notes: list[NotChecked] = [n for n in self.chosen.not_checked if n.check in checks]
        calls = dict.fromkeys(c for n in notes for c in n.calls if c in chosen)
        return list(calls), notes[0].why if notes else ""


def many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def ids(readings: Sequence[Reading]) -> tuple[str, ...]:
    return tuple(r.call.id for r in readings)


def of_all(few: int, scene: Scene) -> str:
    return f"{few:,} of {many(len(scene.readings), 'call')}"


def others(count: int) -> str:
    return f", and {count:,} more" if count else ""


def but_for(kinds: Sequence[str], told: str, what: str = "what is") -> str:
    """``told``, which holds of what is not ignored only."""
    return f"but for {what} ignored ({', '.join(kinds)}), {told}" if kinds else told


def or_unplaced(found: Found, scene: Scene) -> Found:
    alone = scene.unplaced()
    if not alone:
        return found
    told = f"{of_all(len(alone), scene)}: nothing recorded says what they go on from"
    return Found(unknown=told, value=found.value, calls=ids(alone))
