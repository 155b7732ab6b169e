"""Part of an analysis: which calls, what is left of conversations and findings, and what is said where there are none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import otel_ctx
from otel_ctx.errors import SettingError
from otel_ctx.model import Analysis
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.outputs.views.selection import Selection, mark, narrowed, select, since, turns
from otel_ctx.outputs.views.sides import difference, last_two, side, whole

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "support-agent.otlp.jsonl.gz"
JS, DESK = (
    "21fd34bb02cf6931a532e10cbc089837:059e6a39dce84eca",
    "f5b1d124282262ee4a71b4da20004836:e4fcfdcdfca4c544",
)


@cache
def analysis() -> Analysis:
    return otel_ctx.analyze(DEMO).analysis


def chosen(**wanted: Any) -> list[tuple[str, int]]:
    """(service, turn) of the calls."""
    found = select(analysis(), Selection(**wanted))
    return [(r.call.service, r.turn) for r in found.readings]


ALL_JS = [("support-agent-js", turn) for turn in range(1, 9)]
ALL_DESK = [("larkspur-support", turn) for turn in range(1, 25)]


@pytest.mark.parametrize(
    ("wanted", "calls"),
    [
        ({}, ALL_JS + ALL_DESK),
        ({"conversation": ("1",)}, ALL_JS),
        ({"conversation": (JS,)}, ALL_JS),
        ({"conversation": ("#f5b1d124:e4fc",)}, ALL_DESK),
        ({"conversation": ("f5b1d124",)}, ALL_DESK),
        ({"conversation": ("larkspur-*",)}, ALL_DESK),
        ({"conversation": ("1", "2")}, ALL_JS + ALL_DESK),
        ({"service": ("support*",)}, ALL_JS),
        ({"service": ("SUPPORT-AGENT-JS",)}, ALL_JS),
        ({"model": ("gpt-*",), "turn": ("3-4",)}, ALL_DESK[2:4]),
        ({"turn": ("8",)}, [ALL_JS[7], ALL_DESK[7]]),
        ({"turn": ("1", "-1")}, [ALL_JS[0], ALL_JS[7], ALL_DESK[0], ALL_DESK[23]]),
        ({"turn": ("23-",)}, ALL_DESK[22:]),
        ({"turn": ("2..3",), "conversation": ("1",)}, ALL_JS[1:3]),
        ({"trace": ("F5B1D124",)}, ALL_DESK),
        ({"since": "2026-11-30T04:00"}, ALL_DESK),
        ({"since": "2026-11-30T05:00+01:00"}, ALL_DESK),
        ({"since": "0s"}, ALL_DESK[-1:]),
    ],
)
def test_which_calls(wanted: dict[str, Any], calls: list[tuple[str, int]]) -> None:
    assert chosen(**wanted) == calls


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            {"conversation": ("support-agnt",)},
            "no conversation 'support-agnt'; the nearest are 1 (support-agent-js",
        ),
        (
            {"conversation": ("99",)},
            "no conversation '99'; there are 1 (support-agent-js #21fd34bb:059e), 2 (larkspur",
        ),
        ({"service": ("nobody",)}, "service 'nobody': no call; there are support-agent-js, larkspur-support"),
        ({"service": ("larkspur-suport",)}, "there are larkspur-support and 1 more"),
        ({"agent": ("x",)}, "agent 'x': no call; none names its agent"),
        (
            {"model": ("claude-*",), "service": ("lark*",)},
            "model 'claude-*': no call; there are gpt-4o-2024-08-06",
        ),
        ({"turn": ("99",)}, "turn 99: no call; the last turn is 24"),
        ({"turn": ("x",)}, "turn 'x' is none"),
        ({"turn": ("5-3",)}, "turn '5-3': the last comes before the first"),
        ({"trace": ("ffff",)}, "trace 'ffff': no call"),
        ({"since": "yesterday"}, "since 'yesterday' is no time"),
        ({"since": "99999999999999h"}, "since '99999999999999h' is longer than 100 years"),
        ({"since": "9" * 400 + "s"}, "is longer than 100 years"),
        ({"since": "2027-01-01"}, "since 2027-01-01: no call; the newest started 2026-11-30T04:"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as raised:
        select(analysis(), Selection(**wanted))

    assert words in str(raised.value)


def test_a_conversation_is_narrowed_to_its_calls() -> None:
    (part,) = select(analysis(), Selection(conversation=("2",), turn=("3-5",))).conversations
    (all_of_it,) = select(analysis(), Selection(conversation=("2",))).conversations

    assert (len(part.calls), part.usage_last, part.usage_peak, part.headroom) == (3, 3_727, 3_727, 124_273)
    assert all_of_it is analysis().conversations[1]


def test_a_finding_keeps_what_the_selected_calls_lost() -> None:
    found = select(analysis(), Selection(turn=("2-3",))).findings
    (volatile,) = [f for f in found if f.kind == "volatile_prefix"]
    (dead,) = [f for f in found if f.kind == "dead_tool_schema"]
    lost = {r.turn: r.wasted for r in analysis().readings if r.call.service == "support-agent-js"}

    assert len(volatile.calls) == 2
    assert volatile.tokens == lost[2] + lost[3] == 1_893 + 2_575
    assert volatile.usd is not None
    assert "7 calls, of which 2 are selected" in volatile.detail
    assert (len(dead.calls), dead.tokens, dead.usd) == (2, 0, None)  # its share of them is not known


def test_what_concerns_other_calls_only_is_gone() -> None:
    part = select(analysis(), Selection(service=("larkspur-support",)))

    assert "volatile_prefix" not in {f.kind for f in part.findings}
    assert not part.not_checked


@given(st.sets(st.integers(0, 31), min_size=1))
def test_any_part_is_a_sound_report(numbers: set[int]) -> None:
    part = narrowed(analysis(), [r for n, r in enumerate(analysis().readings) if n in numbers])
    report = build(part, Inputs((), ()))
    ids = {call["id"] for call in report["calls"]}

    assert len(ids) == len(numbers)
    assert sorted(i for c in report["conversations"] for i in c["calls"]) == sorted(ids)
    assert all(set(f["calls"]) <= ids and f["calls"] for f in report["findings"])
    assert all(set(n["calls"]) <= ids and n["calls"] for n in report["not_checked"])
    assert report["totals"]["waste"]["tokens"] == sum(
        c["waste"]["tokens"] for c in report["calls"] if c["waste"]
    )


@pytest.mark.parametrize(
    ("given_", "span"),
    [("8", (8, 8)), ("3-8", (3, 8)), ("3-", (3, None)), ("3..", (3, None)), ("-2", (-2, None))],
)
def test_turns(given_: str, span: tuple[int, int | None]) -> None:
    assert turns(given_) == span


def test_times() -> None:
    newest = 1_800_000_000_000_000_000
    assert since("90s", newest) == newest - 90_000_000_000
    assert since("1.5h", newest) == newest - 5_400_000_000_000
    assert since("2027-01-15T08:00:00", newest) == since("2027-01-15T10:00:00+02:00", newest) == newest


# ---- sides


@pytest.mark.parametrize(
    ("given_", "turns_"),
    [
        ("1:3", [3]),
        ("2:-1", [24]),
        (f"{JS}:2", [2]),
        ("#f5b1d124:e4fc:7", [7]),
        ("support-agent-js:8", [8]),
        ("larkspur*", list(range(1, 25))),
        (DESK, list(range(1, 25))),
    ],
)
def test_a_side(given_: str, turns_: list[int]) -> None:
    found = side(analysis(), given_)

    assert [r.turn for r in found.readings] == turns_
    assert found.shown is found.readings[-1]


def test_a_mark_whose_end_is_all_digits_is_no_turn() -> None:
    one = analysis().conversations[0]
    odd = replace(one, id="abcd1234" * 4 + ":1234567812345678")
    readings = tuple(
        r._replace(conversation=odd.id) if r.conversation == one.id else r for r in analysis().readings
    )
    digits = replace(analysis(), conversations=(odd, analysis().conversations[1]), readings=readings)

    assert len(side(digits, "#abcd1234:1234").readings) == 8
    assert [r.turn for r in side(digits, "#abcd1234:1234:5").readings] == [5]


@pytest.mark.parametrize(
    ("id_", "shown"),
    [
        (JS, "#21fd34bb:059e"),
        ("1ac071f1-4926-4c9f-bea8-59c3c5fd175f:msg_01XFDUDYJgAACzvnptvvoYEL", "#1ac071f1:oYEL"),
        ("1ac071f1-4926-4c9f-bea8-59c3c5fd175f:resp_0002_1300", "#1ac071f1:1300"),
        ("/var/log/requests.jsonl.gz:1", "#/log/requests.jsonl.gz:1"),
        ("a.json:12", "#a.json:12"),
    ],
)
def test_a_mark_tells_a_conversation_from_its_neighbours_and_finds_it(id_: str, shown: str) -> None:
    """What begins alike in every id (``msg_``, the folder of a file) is no mark."""
    one, other = analysis().conversations
    readings = tuple(
        r._replace(conversation=id_) if r.conversation == one.id else r for r in analysis().readings
    )
    named = replace(analysis(), conversations=(replace(one, id=id_), other), readings=readings)

    assert mark(id_) == shown
    assert len(select(named, Selection(conversation=(shown,))).readings) == 8
    assert len(side(named, shown).readings) == 8
    assert [r.turn for r in side(named, f"{shown}:5").readings] == [5]


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        (":7", "turn 7 of which of these 2 conversations? 1 (support-agent-js #21fd34bb:059e), 2 (larkspur"),
        ("1:9", "has no such turn; its last is 8"),
        ("1:0", "turns count from 1"),
        ("1:-9", "has no such turn; its last is 8"),
        ("nobody", "no conversation 'nobody'"),
    ],
)
def test_a_side_that_is_none(given_: str, words: str) -> None:
    with pytest.raises(SettingError) as raised:
        side(analysis(), given_)

    assert words in str(raised.value)


def test_numbers_are_those_of_the_whole() -> None:
    part = select(analysis(), Selection(service=("larkspur-support",)))

    assert [r.turn for r in side(part, "2:5", analysis()).readings] == [5]
    with pytest.raises(SettingError, match="nothing of it is selected"):
        side(part, "1:5", analysis())


def test_the_last_two_turns_of_the_only_conversation() -> None:
    old, new = last_two(select(analysis(), Selection(conversation=("1",))))

    assert (old.shown.turn, new.shown.turn) == (7, 8)
    with pytest.raises(SettingError, match="There are 2 conversations"):
        last_two(analysis())
    with pytest.raises(SettingError, match="has one turn"):
        last_two(select(analysis(), Selection(conversation=("1",), turn=("1",))))


def test_a_conversation_against_another_in_numbers() -> None:
    found = difference(side(analysis(), "1"), whole(analysis(), "all"), analysis().text)

    assert [s.calls for s in found.summaries] == [8, 32]
    assert [s.wasted for s in found.summaries] == [24_009, 24_009]
    assert (found.prompts.old.turn, found.prompts.new.turn) == (8, 24)


@pytest.mark.parametrize(
    ("wanted", "of_each", "in_all"),
    [
        ({"turn": ("6",)}, [False, False], False),
        ({"conversation": ("2",), "turn": ("-4",)}, [False], False),
        ({"conversation": ("1",)}, [True], True),
        ({"turn": ("1-8",)}, [True, False], False),
        ({}, [True, True], True),
    ],
    ids=["a turn of each", "the last turns", "a whole conversation", "one whole, one in part", "all"],
)
def test_savings_are_those_of_whole_conversations(
    wanted: dict[str, Any], of_each: list[bool], in_all: bool
) -> None:
    """The cheapest lifetime, and what has to be written for it, are chosen for all calls: of some of them nobody knows them."""
    found = select(analysis(), Selection(**wanted))
    told = build(found, Inputs((), ()))

    assert [c["savings"] is not None for c in told["conversations"]] == of_each
    assert (told["totals"]["savings"] is not None) == in_all
    for mine, c in zip(told["conversations"], found.conversations, strict=True):
        everything = next(w for w in analysis().conversations if w.id == c.id)
        assert mine["savings"] is None or mine["savings"]["usd"] == pytest.approx(everything.savings.usd)  # type: ignore[union-attr]
