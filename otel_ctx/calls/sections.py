"""The sections of one prompt, each from who tells it: the span that tells most, the others, the agent above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from otel_ctx.calls.content import once
from otel_ctx.calls.told import Told
from otel_ctx.model import KIND_INDEX, Prompt, Reason, Section

_AGENTS = frozenset({"invoke_agent", "create_agent"})


def prompt_of(
    best: Told, rest: Sequence[Told], above: Sequence[Told]
) -> tuple[Prompt, frozenset[str], frozenset[Reason]]:
    """The prompt that ``best`` tells, with what only ``rest`` or the spans ``above`` (the nearest first) have of it;
    what of it is lost, and why."""
    lost, reasons = best.telling.lost, best.reasons
    agent = _agent(above) if above else None
    tools = best.tools
    if not tools:
        speaker = next(
            (t for t in rest if t.tools), agent if "tools" in lost or not best.messages.length else None
        )
        if speaker is not None and speaker.tools:
            tools = speaker.tools
            lost = lost - ({"tools"} - speaker.telling.lost)
            reasons = reasons - ({"schema_missing"} - speaker.reasons)
    system = once(best.system, best.messages)
    if not system and not best.messages.tokens_by_kind[KIND_INDEX["system"]]:
        speaker = next((t for t in rest if system_of(t)), agent if "system" in lost else None)
        if speaker is not None and system_of(speaker):
            system = system_of(speaker)
            lost = lost - ({"system"} - speaker.telling.lost)
    return Prompt(tools, system, best.messages), lost, reasons


def _agent(above: Sequence[Told]) -> Told | None:
    """The agent whose request it is. Some frameworks write down only once, there, what each of its requests has."""
    return next((a for a in above if a.telling.operation in _AGENTS), None)


def system_of(told: Told) -> Section:
    """The system prompt that a telling has, be it the first of its messages."""
    if told.system or not told.messages.tokens_by_kind[KIND_INDEX["system"]]:
        return told.system
    first = takewhile(lambda s: s.kind == "system", told.messages)
    return Section([replace(s, path=f"system[{n}]") for n, s in enumerate(first)])
