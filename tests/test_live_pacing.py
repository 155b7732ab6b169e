"""Work and rest, with a clock that moves when it is told to."""

from __future__ import annotations

import pytest

from otel_ctx.live.pacing import Pace


class Thread:
    def __init__(self) -> None:
        self.time = 5.0
        self.slept: list[float] = []

    def work(self, seconds: float) -> None:
        self.time += seconds

    def clock(self) -> float:
        return self.time


def pace(thread: Thread, duty: float, hurried: bool = False) -> Pace:
    return Pace(duty, lambda: hurried, thread.clock, thread.slept.append)


@pytest.mark.parametrize(("duty", "rest"), [(0.5, 0.004), (0.25, 0.012), (0.8, 0.001)])
def test_work_is_at_most_its_share(duty: float, rest: float) -> None:
    thread = Thread()
    p = pace(thread, duty)
    thread.work(0.004)
    p.rest()
    assert thread.slept == [pytest.approx(rest)]


def test_short_work_is_collected_until_a_slice_is_full() -> None:
    thread = Thread()
    p = pace(thread, 0.5)
    for _ in range(12):
        thread.work(0.0004)
        p.rest()
    assert thread.slept == [pytest.approx(0.0012)] * 4


def test_a_rest_is_never_long() -> None:
    thread = Thread()
    p = pace(thread, 0.01)
    thread.work(10)
    p.rest()
    assert thread.slept == [0.25]


def test_nobody_rests_while_somebody_waits() -> None:
    thread = Thread()
    p = pace(thread, 0.5, hurried=True)
    thread.work(1)
    p.rest()
    assert thread.slept == []


def test_no_rest_at_full_duty() -> None:
    thread = Thread()
    p = pace(thread, 1.0)
    thread.work(1)
    p.rest()
    assert thread.slept == []


def test_what_was_worked_is_known() -> None:
    thread = Thread()
    p = pace(thread, 0.5)
    thread.work(1)
    p.rest()
    thread.work(2)
    assert p.worked == 3
