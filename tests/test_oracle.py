"""The causes that the report names, against sessions whose faults are known because they were built in."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle import mutations
from tests.oracle.provider import layouts, simulate
from tests.oracle.score import Result, plan, result, table
from tests.oracle.sessions import PROVIDERS

SESSIONS, SEED = 240, 7
RIGHT, RIGHT_TOKENS = 0.7, 0.7


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [result(*job) for job in plan(SESSIONS, SEED)]


def test_the_causes_are_those_that_were_built_in(results: list[Result]) -> None:
    right = sum(r.right_cause for r in results) / len(results)
    assert right >= RIGHT, table(results)


def test_the_lost_tokens_are_those_that_were_lost(results: list[Result]) -> None:
    right = sum(r.right_tokens for r in results) / len(results)
    assert right >= RIGHT_TOKENS, table(results)


def test_waste_is_the_sum_of_its_causes_and_never_negative(results: list[Result]) -> None:
    assert [(r.seed, r.mutation, r.problems) for r in results if not r.sound] == []


def test_the_sessions_are_of_every_kind(results: list[Result]) -> None:
    """A fault that is never made, or never costs anything, would prove nothing."""
    lost = Counter[str]()
    for r in results:
        lost[r.mutation] += r.lost
    assert {m for m in mutations.names() if lost[m] > 0} >= set(mutations.names()) - {"below_minimum"}
    assert len({r.provider for r in results}) == len(PROVIDERS)
    assert {r.dialect for r in results} == {"genai", "marked", "openinference", "textless"}


def test_the_same_seed_makes_the_same_session() -> None:
    one, two = mutations.case(SEED, "compaction"), mutations.case(SEED, "compaction")
    assert one == two
    assert simulate(one.sent, layouts(one.sent)) == simulate(two.sent, layouts(two.sent))
