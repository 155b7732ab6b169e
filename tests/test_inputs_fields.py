"""Ids, times, numbers and enums as dumps write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.inputs.fields import MalformedError, int_of, nanoseconds, span_kind, status_code, time_of

SECOND = 10**9
DAY = 86_400 * SECOND


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-02T00:00:00.000000001Z", DAY + 1),
        ("1970-01-02T00:00:00.0000000019Z", DAY + 1),
        ("1970-01-02 00:00:00.5", DAY + SECOND // 2),
        ("1970-01-02T01:00:00.25+01:00", DAY + SECOND // 4),
        ("1970-01-02T01:00:00+0100", DAY),
        ("1970-01-02T01:00:00+01", DAY),
        ("1970-01-02T00:00Z", DAY),
        ("1970-01-02T00:00:00 UTC", DAY),
        ("2262-04-12T00:00:00Z", 9_223_372_800 * SECOND),
        ("2554-01-01T00:00:00Z", 18_429_292_800 * SECOND),
        (1_796_011_107, 1_796_011_107 * SECOND),
        (1_796_011_107.5, 1_796_011_107 * SECOND + SECOND // 2),
        (1_796_011_107_053, 1_796_011_107_053 * 10**6),
        (1_796_011_107_053_001, 1_796_011_107_053_001 * 10**3),
        (1_796_011_107_053_001_002, 1_796_011_107_053_001_002),
        ("1796011107053001002", 1_796_011_107_053_001_002),
        ("1796011107.5", 1_796_011_107 * SECOND + SECOND // 2),
        (2**64 - 1, 2**64 - 1),
    ],
)
def test_points_in_time(value: Any, expected: int) -> None:
    assert nanoseconds(value) == time_of({"t": value}, "t") == expected


@pytest.mark.parametrize(
    "value",
    [
        "yesterday", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z",
        "2026-11-30", "nan", "1e400.0", -1, 2**64, float("nan"), float("inf"), True, [], {}
    ],
)  # fmt: skip
def test_what_is_no_time(value: Any) -> None:
    assert nanoseconds(value) == 0
    with pytest.raises(MalformedError, match=r"^t is no time$"):
        time_of({"t": value}, "t")


@given(st.text() | st.floats() | st.integers())
def test_no_value_makes_it_fail(value: Any) -> None:
    assert 0 <= nanoseconds(value) < 2**64


def test_no_time_is_zero() -> None:
    assert time_of({}, "t") == time_of({"t": None}, "t") == time_of({"t": ""}, "t") == 0


@pytest.mark.parametrize(
    "name", ["CLIENT", "client", "SPAN_KIND_CLIENT", "SpanKind.CLIENT", 3, "3", "Client"]
)
def test_a_kind_in_every_spelling(name: Any) -> None:
    assert span_kind(name) == 3


@pytest.mark.parametrize("value", [None, "", "nonsense", 2.5, [], -1, 2**40, "²"])
def test_an_unknown_kind(value: Any) -> None:
    assert span_kind(value) == 0


@pytest.mark.parametrize("name", ["ERROR", "Error", "STATUS_CODE_ERROR", "StatusCode.ERROR", 2])
def test_a_status_in_every_spelling(name: Any) -> None:
    assert status_code(name) == 2


@pytest.mark.parametrize("value", ["x", -1, 2**64, float("nan"), float("inf"), [], "9" * 5000])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(MalformedError, match=r"^n is no "):
        int_of({"n": value}, "n")


def test_a_number_in_another_unit() -> None:
    assert int_of({"n": 5}, "n", 1000) == int_of({"n": "5"}, "n", 1000) == 5000
    assert int_of({"n": 476.85}, "n", 1000) == 476_850
