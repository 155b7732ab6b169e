"""What fills the window: by kind over the turns, by tool, by agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ctx.model import KINDS, Conversation, Reading, Segment
from otel_ctx.outputs.views.kinds import by_kind
from otel_ctx.outputs.views.summary import Summary, summary

COLUMNS: tuple[str, ...] = (*KINDS, "other")


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """``kinds`` as the provider counts them, so far as that is known; empty where the prompt was not seen."""

    call: str
    turn: int
    usage: int | None
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ToolTokens:
    """One tool in one prompt. ``definition``: of its schema, None where none was seen; ``calls``: how often it was called;
    ``arguments`` and ``results``: what these calls take in the window."""

    name: str
    definition: int | None
    calls: int
    arguments: int
    results: int

    @property
    def total(self) -> int:
        return (self.definition or 0) + self.arguments + self.results


@dataclass(frozen=True, slots=True)
class Window:
    """A conversation's window over its turns, and at the last one whose prompt was seen."""

    conversation: str
    turns: tuple[TurnTokens, ...]
    last: str | None  # call id
    tools: tuple[ToolTokens, ...]  # the largest first
    limit: int | None


@dataclass(frozen=True, slots=True)
class AgentTokens:
    """``service`` and ``agent`` are "" where nobody says them."""

    service: str
    agent: str
    summary: Summary


def window(conversation: Conversation, readings: Mapping[str, Reading]) -> Window:
    """``readings``: by call id."""
    calls = [readings[call] for call in conversation.calls if call in readings]
    seen = [r for r in calls if r.call.completeness.status in ("full", "partial")]
    return Window(
        conversation.id,
        tuple(TurnTokens(r.call.id, r.turn, r.context.usage, _kinds(r)) for r in calls),
        seen[-1].call.id if seen else None,
        tools(seen[-1]) if seen else (),
        conversation.limit,
    )


def _kinds(r: Reading) -> Mapping[str, int]:
    return by_kind(r) if r.call.completeness.status in ("full", "partial") else {}


def tools(r: Reading) -> tuple[ToolTokens, ...]:
    """A result belongs to the tool that its call id says, else to the one that it names itself."""
    factor = r.tokens.factor
    sums: dict[str, list[int]] = {}
    definitions: dict[str, int] = {}
    by_id: dict[str, str] = {}
    for s in r.call.prompt:
        size = round((s.tokens or 0) * factor)
        if s.kind == "tools":
            definitions[s.name] = definitions.get(s.name, 0) + size
        elif s.kind == "tool_call":
            entry = sums.setdefault(s.name, [0, 0, 0])
            entry[0] += 1
            entry[1] += size
            if s.call_id:
                by_id[s.call_id] = s.name
        elif s.kind == "tool_result":
            sums.setdefault(_owner(s, by_id), [0, 0, 0])[2] += size
    known = [
        ToolTokens(name, definitions.get(name), *sums.get(name, (0, 0, 0)))
        for name in dict.fromkeys((*definitions, *sums))
    ]
    return tuple(sorted(known, key=lambda t: (-t.total, t.name)))


def _owner(s: Segment, by_id: Mapping[str, str]) -> str:
    return by_id.get(s.call_id) or s.name


def agents(readings: Sequence[Reading]) -> tuple[AgentTokens, ...]:
    """Whoever sent most first."""
    groups: dict[tuple[str, str], list[Reading]] = {}
    for r in readings:
        groups.setdefault((r.call.service, r.call.agent), []).append(r)
    found = [
        AgentTokens(*who, summary(" › ".join(filter(None, who)), calls)) for who, calls in groups.items()
    ]
    return tuple(sorted(found, key=lambda a: (-(a.summary.input or 0), a.service, a.agent)))
