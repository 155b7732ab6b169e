"""Two prompts side by side: every segment told once, texts that join again, nothing said of what was not seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.model import Completeness, Reading, Segment, Usage
from otel_ctx.outputs.views.align import aligned, rising
from otel_ctx.outputs.views.compare import Comparison, compare
from otel_ctx.outputs.views.edits import Edit, common_end, common_start, edits, excerpt
from otel_ctx.outputs.views.summary import summary
from tests.test_text import Builder

# ---- alignment


@given(st.lists(st.integers(0, 6)), st.lists(st.integers(0, 6)))
def test_pairs_are_equal_and_rise(a: list[int], b: list[int]) -> None:
    pairs = aligned(a, b)

    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in pairwise(pairs))


@given(st.lists(st.integers(), unique=True), st.sets(st.integers(0, 30)), st.lists(st.integers(100, 200)))
def test_of_unique_items_all_that_stayed_is_found(a: list[int], dropped: set[int], more: list[int]) -> None:
    a = [x if x < 100 else x + 101 for x in a]
    b = [x for i, x in enumerate(a) if i not in dropped] + more

    assert [a[i] for i, _ in aligned(a, b)] == [x for i, x in enumerate(a) if i not in dropped]


@given(st.permutations(range(7)))
def test_the_longest_rising_chain(order: list[int]) -> None:
    pairs = list(enumerate(order))

    def longest(n: int, above: int) -> int:
        if n == len(order):
            return 0
        skip = longest(n + 1, above)
        return max(skip, 1 + longest(n + 1, order[n])) if order[n] > above else skip

    chain = rising(pairs)
    assert set(chain) <= set(pairs)
    assert chain == sorted(chain)
    assert [j for _, j in chain] == sorted(j for _, j in chain)
    assert len(chain) == longest(0, -1)


def test_repetition_costs_no_more_than_its_length() -> None:
    """Worst cases of common differs: nothing unique, and two orders of much the same."""
    seen = Counting()
    a = [seen.item(i % 2) for i in range(20_000)]
    b = [seen.item((i + 1) // 2 % 2) for i in range(20_000)]
    aligned(a, b)

    assert seen.looks < 100 * 40_000


class Counting:
    """Items that count how often one is compared."""

    def __init__(self) -> None:
        self.looks = 0

    def item(self, value: int) -> Any:
        owner = self

        class Item:
            def __eq__(self, other: object) -> bool:
                owner.looks += 1
                return value == other.value  # type: ignore[attr-defined,no-any-return]

            def __hash__(self) -> int:
                return value

            value: int

        one = Item()
        one.value = value
        return one


# ---- characters

TEXTS = st.text(alphabet="ab 01.\n_é", max_size=60)


@given(TEXTS, TEXTS)
def test_edits_join_to_both_texts(old: str, new: str) -> None:
    parts = edits(old, new)

    assert "".join(p.text for p in parts if p.op != "added") == old
    assert "".join(p.text for p in parts if p.op != "removed") == new
    assert all(p.text for p in parts)
    assert all(x.op != y.op for x, y in pairwise(parts))
    for p in parts:
        assert (new if p.op == "added" else old)[p.start : p.start + len(p.text)] == p.text


@given(TEXTS, TEXTS)
def test_common_ends(a: str, b: str) -> None:
    n = common_start(a, b)
    assert a[:n] == b[:n]
    assert a[n : n + 1] != b[n : n + 1] or not (a[n:] and b[n:])
    m = common_end(a, b, n)
    assert a[len(a) - m :] == b[len(b) - m :]
    assert m <= min(len(a), len(b)) - n


def test_words_are_not_cut() -> None:
    assert edits("at 04:00:10.", "at 04:00:15.") == (
        Edit("same", "at 04:00:", 0),
        Edit("removed", "10", 9),
        Edit("added", "15", 9),
        Edit("same", ".", 11),
    )
    assert [p.op for p in edits("x", "x")] == ["same"]
    assert edits("", "") == ()


def test_where_words_have_no_blanks_a_character_is_one() -> None:
    assert [p.text for p in edits("今は12時です。", "今は13時です。") if p.op != "same"] == ["12", "13"]
    assert [p.text for p in edits("長い文章", "長い夜の章") if p.op != "same"] == ["文", "夜の"]


def test_a_blank_between_two_changed_words_is_part_of_the_change() -> None:
    assert [(p.op, p.text) for p in edits("one red fox ran", "one grey wolf ran")] == [
        ("same", "one "),
        ("removed", "red fox"),
        ("added", "grey wolf"),
        ("same", " ran"),
    ]


def test_a_short_run_between_two_changes_is_part_of_the_change() -> None:
    assert [p.text for p in edits("at 20:10:10.798578.", "at 20:10:11.109292.") if p.op != "same"] == [
        "10.798578",
        "11.109292",
    ]
    kept = edits("one, and, two", "1, and, 2")
    assert [p.text for p in kept] == ["one", "1", ", and, ", "two", "2"]


def test_very_long_texts_are_one_change_between_their_common_ends() -> None:
    old, new = "a" + "b " * 90_000 + "c z", "a" + "d " * 90_000 + "c z"

    assert [p.op for p in edits(old, new)] == ["removed", "added", "same"]


def test_an_excerpt_keeps_the_changes_and_says_what_it_leaves_out() -> None:
    parts = edits("x" * 99 + " one " + "y" * 99 + " two", "x" * 99 + " 1 " + "y" * 99 + " 2")
    short = excerpt(parts, 10)

    assert [p.op for p in short] == [p.op for p in parts]
    assert [len(p.text) for p in short if p.op == "same"] == [10, 20]
    assert sum(p.left_out + len(p.text) for p in short) == sum(len(p.text) for p in parts)


# ---- prompts


def pair(
    old: Sequence[Segment], new: Sequence[Segment], build: Builder, *, lost: frozenset[str] = frozenset()
) -> Comparison:
    first = build.call("t:1", segments=old, usage=Usage(input=100))
    more = {"completeness": Completeness("partial", ("value_cut",), lost)} if lost else {}
    second = build.call("t:2", segments=new, usage=Usage(input=120), turn=2, **more)
    return compare(first, second, build.texts.get)


def told(comparison: Comparison) -> list[tuple[str, str]]:
    return [(row.change, (row.after or row.before).path) for row in comparison.rows]  # type: ignore[union-attr]


def test_added_evicted_and_changed() -> None:
    b = Builder()
    system = b.segment("system", "system[0]", "It is 10:00. You help.", 6)
    later = b.segment("system", "system[0]", "It is 10:05. You help.", 6)
    hello = b.segment("user", "messages[0]", "hello", 1)
    result = b.segment("tool_result", "messages[1]", "rows of a table", 4)
    thanks = b.segment("user", "messages[2]", "thanks", 1)
    moved_up = b.segment("user", "messages[1]", "thanks", 1)
    found = pair([system, hello, result, thanks], [later, hello, moved_up], b)

    assert told(found) == [
        ("changed", "system[0]"),
        ("same", "messages[0]"),
        ("evicted", "messages[1]"),
        ("same", "messages[1]"),
    ]
    row = found.of("changed")[0]
    assert row.char_offset == 10
    assert [(p.op, p.text) for p in row.edits or ()][1:3] == [("removed", "00"), ("added", "05")]
    assert (found.tokens("evicted"), found.tokens("added"), found.prefix) == (4, 0, 0)


def test_tools_in_another_order_have_moved() -> None:
    b = Builder()
    tools = [b.segment("tools", f"tools[{i}]", f"definition {i}", 5, name) for i, name in enumerate("abc")]
    found = pair(tools, [tools[2], tools[0], tools[1]], b)

    assert sorted(change for change, _ in told(found)) == ["moved", "same", "same"]
    assert found.tokens("moved") == 5
    assert found.prefix == 0


def test_a_tool_is_the_same_one_by_its_name() -> None:
    b = Builder()
    old = [
        b.segment("tools", "tools[0]", "x: reads", 5, "a"),
        b.segment("tools", "tools[1]", "y: writes", 5, "b"),
    ]
    new = [
        b.segment("tools", "tools[0]", "wholly new words", 5, "b"),
        b.segment("tools", "tools[1]", "else", 5, "c"),
    ]

    assert told(pair(old, new, b)) == [
        ("evicted", "tools[0]"),
        ("changed", "tools[0]"),
        ("added", "tools[1]"),
    ]


def test_a_history_that_became_a_summary_is_not_taken_for_an_edit() -> None:
    b = Builder()
    old = [
        b.segment("user", f"messages[{i}]", f"question {i} about ships and rivers {i}", 5) for i in range(4)
    ]
    new = [b.segment("user", "messages[0]", "Earlier: talk on boats.", 5), old[3]]

    assert [c for c, _ in told(pair(old, new, b))] == ["evicted", "evicted", "evicted", "added", "same"]


def test_what_one_has_lost_is_not_said_to_be_gone() -> None:
    b = Builder()
    tools = [b.segment("tools", "tools[0]", "definition", 5, "a")]
    user = [b.segment("user", "messages[0]", "hello", 1)]
    found = pair([*tools, *user], user, b, lost=frozenset({"tools"}))

    assert told(found) == [("same", "messages[0]")]
    assert found.unseen == ("tools",)


@pytest.mark.parametrize("lost", ["messages", "head"])
def test_a_history_that_was_not_seen_whole_is_not_compared(lost: str) -> None:
    b = Builder()
    old = [b.segment("system", "system[0]", "You help.", 5), b.segment("user", "messages[0]", "hello", 1)]
    found = pair(old, old[:1], b, lost=frozenset({lost}))

    assert told(found) == [("same", "system[0]")]
    assert found.unseen == ("messages",)


def test_without_texts_only_the_place_is_told() -> None:
    b = Builder()
    first = b.call("t:1", segments=[b.segment("system", "system[0]", "secret 1", 2)])
    second = b.call("t:2", segments=[b.segment("system", "system[0]", "secret 2", 2)], turn=2)
    found = compare(first, second, b.texts.get, show_text=False)

    assert (found.rows[0].char_offset, found.rows[0].edits) == (7, None)
    assert "secret" not in repr([(row.change, row.char_offset, row.edits) for row in found.rows])


WORDS = st.lists(st.sampled_from(["a b c d", "a b c e", "x", "y z", "q"]), max_size=9)


@given(WORDS, WORDS)
def test_every_segment_is_told_once(old: list[str], new: list[str]) -> None:
    b = Builder()
    first = [b.segment("user", f"messages[{i}]", text, 1) for i, text in enumerate(old)]
    second = [b.segment("user", f"messages[{i}]", text, 1) for i, text in enumerate(new)]
    found = pair(first, second, b)

    assert sorted(r.before.path for r in found.rows if r.before) == sorted(s.path for s in first)
    assert [r.after for r in found.rows if r.after] == second
    assert all((r.change == "added") == (r.before is None) for r in found.rows)
    assert all((r.change == "evicted") == (r.after is None) for r in found.rows)
    alike = [
        r.before is not None and r.after is not None and r.before.digest == r.after.digest for r in found.rows
    ]
    assert alike == [r.change in ("same", "moved") for r in found.rows]
    shared = next(
        (n for n, (x, y) in enumerate(zip(old, new, strict=False)) if x != y), min(len(old), len(new))
    )
    assert found.prefix == shared


# ---- in numbers


def test_a_summary_leaves_unknown_what_nobody_reports() -> None:
    b = Builder()
    told_ = b.call("t:1", usage=Usage(input=100, cache_read=25), context={"usage": 100})
    silent = b.call("t:2", turn=2, conversation="t:1", context={"usage": None})
    readings: list[Reading] = [told_, silent]

    assert summary("all", readings).hit_ratio == 0.25
    assert (summary("all", readings).depth, summary("all", readings).usd) == (100, None)
    assert (summary("b", [silent]).hit_ratio, summary("b", [silent]).input) == (None, None)
