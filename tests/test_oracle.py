"""The causes that the report names, against sessions whose faults are known because they were built in."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.oracle import mutations
from tests.oracle.provider import layouts, simulate
from tests.oracle.score import Result, plan, result, table
from tests.oracle.sessions import PROVIDERS

SESSIONS, SEED, LONGEST = 500, 7, 12  # `python -m tests.oracle.score` takes more, and longer ones
RIGHT, RIGHT_TOKENS = 0.99, 0.99


PART = 50
PARTS = range(SESSIONS // PART)


@cache
def part(number: int) -> tuple[Result, ...]:
    return tuple(result(*job, LONGEST) for job in plan(SESSIONS, SEED)[number * PART : (number + 1) * PART])


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [r for number in PARTS for r in part(number)]


@pytest.mark.parametrize("number", PARTS)
def test_waste_is_the_sum_of_its_causes_and_never_negative(number: int) -> None:
    assert [(r.seed, r.mutation, r.problems) for r in part(number) if not r.sound] == []


def test_the_causes_are_those_that_were_built_in(results: list[Result]) -> None:
    right = sum(r.right_cause for r in results) / len(results)
    assert right >= RIGHT, table(results)


def test_the_lost_tokens_are_those_that_were_lost(results: list[Result]) -> None:
    right = sum(r.right_tokens for r in results) / len(results)
    assert right >= RIGHT_TOKENS, table(results)


def test_the_sessions_are_of_every_kind(results: list[Result]) -> None:
    """A fault that is never made, or never costs anything, would prove nothing."""
    lost = Counter[str]()
    for r in results:
        lost[r.mutation] += r.lost
    assert {m for m in mutations.names() if lost[m] > 0} >= set(mutations.names()) - {"below_minimum"}
    assert len({r.provider for r in results}) == len(PROVIDERS)
    assert {r.dialect for r in results} == {"genai", "marked", "openinference", "textless"}


@pytest.mark.parametrize(
    ("seed", "mutation"),
    [
        (61000237, "frozen_breakpoint"),  # a marker that stays, where its place is only counted
        (77000154, "frozen_breakpoint"),
        (61000370, "none"),  # thinking that goes on each branch of a fork
        (61000452, "server_side_rewrite"),  # thinking taken out of a prompt that the provider had rewritten
        (41000031, "server_side_rewrite"),
        (61000164, "volatile_time_system"),  # thinking taken out behind a break
        (61000374, "volatile_uuid_tool"),
        (61000913, "volatile_counter_tool"),
        (1000206, "volatile_time_system"),
        (77000374, "volatile_uuid_tool"),
        (43000089, "none"),  # a fork that nothing on the spans tells from the call that it forks from
        (1000021, "compaction"),  # the same: no message is left, and no conversation has a name
        (77000073, "lookback_exceeded"),  # two reasons, each of them enough
    ],
)
def test_sessions_that_are_hard_to_judge(seed: int, mutation: str) -> None:
    assert result(seed, mutation).problems == []


def test_the_same_seed_makes_the_same_session() -> None:
    one, two = mutations.case(SEED, "compaction"), mutations.case(SEED, "compaction")
    assert one == two
    assert simulate(one.sent, layouts(one.sent)) == simulate(two.sent, layouts(two.sent))
