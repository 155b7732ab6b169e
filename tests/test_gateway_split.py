"""Several gateways: what stays together is counted as by one."""

from __future__ import annotations

import pytest

from tests import gateway_split as split


@pytest.fixture(scope="module")
def one() -> split.Outcome:
    return split.run(1, split.by_service, split.traffic())


@pytest.mark.parametrize("n", [2, 4])
def test_by_service_all_totals_are_those_of_one(n: int, one: split.Outcome) -> None:
    assert split.run(n, split.by_service, split.traffic()) == one


@pytest.mark.parametrize("n", [2, 4])
def test_by_conversation_all_but_the_cache_that_conversations_share(n: int, one: split.Outcome) -> None:
    parted = split.run(n, split.by_conversation, split.traffic())
    shared = {
        name
        for name in one.sums
        if "simulated" in name or "optimal" in name or "waste" in name or "findings" in name
    }
    assert (parted.relations, parted.links) == (one.relations, one.links)
    kept = one.sums.keys() - shared - {"otelctx_cache_calls_total"}
    assert {name: parted.sums[name] for name in kept} == {name: one.sums[name] for name in kept}


def test_round_robin_loses_what_comes_before(one: split.Outcome) -> None:
    parted = split.run(4, split.round_robin(), split.traffic())
    assert parted.sums["otelctx_calls_total"] == one.sums["otelctx_calls_total"]
    assert parted.relations["joined"] > 0
    assert parted.links < one.links
