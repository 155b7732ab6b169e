"""Sequences recognised by digest: what begins alike is found, what differs anywhere is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.parts import Beginnings, pairs_written, values_written

# few values, close to each other in every way that bytes could confuse
TEXT = st.text(st.sampled_from('a\0"],\\ ÿé\ud800\U0001f600'), max_size=3)
LEAF = st.one_of(
    TEXT,
    st.sampled_from([None, True, False, 0, 1, -1, 1.0, 0.0, -0.0, float("nan"), 2**70, b"", b"a", b"\xff"]),
)
VALUE = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(TEXT, inner, max_size=3),
    ),
    max_leaves=6,
)
PAIR = st.tuples(TEXT, st.one_of(TEXT, TEXT, LEAF, st.lists(LEAF, max_size=2)))
VALUES = st.lists(VALUE, max_size=5)
PAIRS = st.lists(PAIR, max_size=5)


@given(VALUES, VALUES)
def test_only_equal_values_are_written_alike(a: list[Any], b: list[Any]) -> None:
    assert (bytes(values_written(a)) == bytes(values_written(b))) == (repr(a) == repr(b))


@given(PAIRS, PAIRS)
def test_only_equal_pairs_are_written_alike(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> None:
    assert (pairs_written(a) == pairs_written(b)) == (repr(a) == repr(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([("a", "b\0c"), ("d", "e")], [("a", "b"), ("c", "d\0e")]),
        ([("a", "1")], [("a", 1)]),
        ([("a", True)], [("a", 1)]),
        ([("a", "ÿ"), ("b", 1)], [("a", ""), ("b", 1)]),
        ([("a", "")], [("", "a")]),
    ],
)
def test_pairs_that_look_alike(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> None:
    assert pairs_written(a) != pairs_written(b)


@given(VALUES, VALUES)
def test_values_are_written_in_any_pieces(a: list[Any], b: list[Any]) -> None:
    assert bytes(values_written(a)) + bytes(values_written(b)) == bytes(values_written(a + b))


@given(PAIRS, PAIRS)
def test_pairs_are_written_in_any_pieces(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> None:
    assert pairs_written(a) + pairs_written(b) == pairs_written(a + b)


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=7), max_size=30))
def test_what_is_found_was_there(sequences: list[list[str]]) -> None:
    seen = Beginnings(1000, values_written)
    digests: dict[str, bytes] = {}

    for sequence in sequences:
        size, digest, whole = seen.of(sequence)

        assert digests.get("".join(sequence[:size]), b"") == digest
        assert whole not in {d for text, d in digests.items() if text != "".join(sequence)}
        if sequence:
            digests["".join(sequence)] = whole


@pytest.mark.parametrize("more", [1, 3, 200])
def test_a_sequence_that_grows_is_found_each_time(more: int) -> None:
    seen = Beginnings(1000, values_written)
    sequence = [f"message {i}" for i in range(7)]
    last = seen.of(sequence)
    assert last[:2] == (0, b"")

    for _ in range(5):
        known = len(sequence)
        sequence = sequence + [f"message {known + i}" for i in range(more)]
        size, digest, whole = seen.of(sequence)
        assert (size, digest) == (known, last.whole)
        last = seen.of(sequence)
        assert last == (len(sequence), whole, whole)


def test_the_longest_is_found_among_those_of_other_conversations() -> None:
    seen = Beginnings(1000, values_written)
    head = ["system", "hello"]
    mine, other = [*head, "a", "b"], [*head, "c", "b"]
    seen.of(head)
    digest = seen.of(mine).whole
    seen.of(other)  # as long, with the same end

    assert seen.of([*mine, "d"])[:2] in [(4, digest), (2, seen.of(head).whole)]
    assert seen.of([*mine, "d", "e"]).size == 5


@pytest.mark.parametrize("at", [0, 1, 5, 150, 298])
def test_one_other_item_anywhere_is_another_beginning(at: int) -> None:
    seen = Beginnings(1000, values_written)
    sequence = [f"message {i}" for i in range(300)]
    seen.of(sequence)
    changed = [*sequence, "and more"]
    changed[at] = "another"

    assert seen.of(changed)[:2] == (0, b"")


def test_other_readers_know_nothing_of_it() -> None:
    seen = Beginnings(1000, values_written)
    known = seen.of(["a", "b"], b"one")

    assert seen.of(["a", "b", "c"], b"other")[:2] == (0, b"")
    assert seen.of(["a", "b", "c"], b"one")[:2] == (2, known.whole)


@pytest.mark.parametrize("written", [values_written, pairs_written])
def test_what_is_no_plain_value_has_no_digest(written: Callable[[list[Any]], bytes]) -> None:
    seen = Beginnings(1000, written)

    assert seen.of([("key", object())]) == (0, b"", b"")
    assert len(seen) == 0


def test_memory_is_bounded() -> None:
    seen = Beginnings(10, values_written)

    for i in range(1000):
        seen.of(["head", i])
        seen.of([i, "head"])
        assert len(seen) <= 10
    assert seen.of([999, "head", "more"]).size == 2  # what came last is known
