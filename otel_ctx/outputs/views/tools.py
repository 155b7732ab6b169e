"""The tools that a conversation sends with each request, what they cost, and how often they were called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from otel_ctx.model import Conversation, Reading


@dataclass(frozen=True, slots=True)
class Tool:
    """As the last request that has tools defines it. ``requests``: how many sent a tool of this name; ``called``: times, as
    the answers and the histories tell (None: neither was seen)."""

    name: str
    path: str
    tokens: int | None
    requests: int
    called: int | None


def tools(conversation: Conversation, readings: Mapping[str, Reading]) -> tuple[Tool, ...]:
    """The costliest first. ``readings``: by call id."""
    calls = [readings[call] for call in conversation.calls if call in readings]
    last = next((r for r in reversed(calls) if r.call.prompt.tools), None)
    if last is None:
        return ()
    sent: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for r in calls:
        sent.update({s.name for s in r.call.prompt.tools})
        answered.update(s.name for s in r.call.answer if s.kind == "tool_call")
    told = Counter(s.name for s in calls[-1].call.prompt.messages if s.kind == "tool_call")
    seen = bool(len(calls[-1].call.prompt.messages)) or any(r.call.answer for r in calls)
    listed = [
        Tool(
            s.name,
            s.path,
            None if s.tokens is None else round(s.tokens * last.tokens.factor),
            sent[s.name],
            max(answered[s.name], told[s.name]) if seen else None,
        )
        for s in last.call.prompt.tools
    ]
    return tuple(sorted(listed, key=lambda t: (-(t.tokens or 0), t.path)))
