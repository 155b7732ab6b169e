"""Frozen for the type checkers: all else is as Python's own frozen dataclasses have it."""

from __future__ import annotations

import pickle
from dataclasses import replace

from otel_ctx.model import EMPTY_CHAIN, Segment, Usage


def test_equal_ones_have_one_hash() -> None:
    one, other = Usage(input=3, conflicts=("a",)), Usage(input=3, conflicts=("a",))
    assert one == other
    assert {one, other} == {one}
    assert one != replace(one, input=4)


def test_those_without_equality_are_themselves_only() -> None:
    assert replace(EMPTY_CHAIN) != EMPTY_CHAIN
    assert len({EMPTY_CHAIN, replace(EMPTY_CHAIN)}) == 2


def test_they_have_no_other_attributes_and_can_be_stored() -> None:
    segment = Segment("user", "user", "", "messages[0].parts[0]", 1, 1, "exact", "00" * 16)
    assert not hasattr(segment, "__dict__")
    assert pickle.loads(pickle.dumps(segment)) == segment
