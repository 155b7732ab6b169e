"""A session like the published example: 24 turns of a coding agent up to about 79,000 tokens, with the time in its system
prompt, tools in another order after each restart, and one marker, behind the system prompt."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.oracle.provider import Usage, layouts, simulate
from tests.oracle.sessions import PROVIDERS, Block, Call, Maker, Policy, Session, World, mark

TURNS, SEED, RESTART = 24, 98, 6  # a restart after so many turns
_TOOLS, _SYSTEM, _RESULT = 12, 1900, 2690  # words
_CLOCK = "Current time: 2026-11-30T09:{:02d}:00Z\n"


def example(*, timestamp: bool = True, unstable: bool = True, tail: bool = False) -> Session:
    """Its faults, each of which can be mended."""
    rng = Random(SEED)
    provider = next(p for p in PROVIDERS if p.model == "claude-sonnet-4-5-20250929")
    world = World(provider, 1.0, 300.0, 0, 0, 4, developer_end=False, thinking_keeps_head=True)
    maker = Maker(rng, provider)
    tools = tuple(maker.tool(f"tool_{i}") for i in range(_TOOLS))
    system = maker.system(_SYSTEM)
    orders = [tools, *(tuple(rng.sample(tools, len(tools))) for _ in range(TURNS // RESTART))]
    said: tuple[Block, ...] = (maker.user(250),)
    calls = []
    for turn in range(TURNS):
        answer = maker.answer(tools, 1)
        start = 1_796_000_000.0 + 60 * turn
        head = (
            *(orders[turn // RESTART] if unstable else tools),
            replace(system, text=_CLOCK.format(turn) + system.text) if timestamp else system,
        )
        calls.append(Call(0, turn, provider.model, head + said, answer, start, start + 2, start + 10))
        said += answer + maker.results(answer, (_RESULT - 200, _RESULT + 200))
    policy = Policy(("system", "tail") if tail else ("system",))
    return mark(Session(SEED, world, policy, tuple(calls)))


def usage(session: Session) -> list[Usage]:
    return simulate(session, layouts(session))
