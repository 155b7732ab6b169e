"""A thread of ours: one thing after another, waited for no longer than one can."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otel_ctx.live import worker as module
from otel_ctx.live.worker import Task, Worker


class Job(Task):
    """Goes on when it is told to."""

    def __init__(self, eager: bool = False, then: Callable[[], None] = lambda: None) -> None:
        super().__init__(self._work, eager)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.then = then
        self.thread = ""

    def _work(self) -> None:
        self.thread = threading.current_thread().name
        self.begun.set()
        assert self.go_on.wait(20)
        self.then()


def ready(eager: bool = False, then: Callable[[], None] = lambda: None) -> Job:
    job = Job(eager, then)
    job.go_on.set()
    return job


@pytest.fixture
def looks() -> list[bool]:
    """What it says when it has nothing to do, the next one first; then that there is nothing more."""
    return [True] * 1000


@pytest.fixture
def worker(looks: list[bool]) -> Iterator[Worker]:
    made = Worker(lambda: bool(looks) and looks.pop(), lambda: 20)
    yield made
    made.stop()


def ask(worker: Worker, job: Job, **more: Any) -> tuple[threading.Thread, list[bool]]:
    """``job`` is wanted on another thread: the thread, and what it hears."""
    said: list[bool] = []
    thread = threading.Thread(target=lambda: said.append(worker.do(job, **more)))
    thread.start()
    return thread, said


def test_what_is_wanted_is_done_on_a_thread_of_its_own(worker: Worker) -> None:
    job = ready()
    assert worker.do(job) is True
    assert job.done.is_set()
    assert job.thread == "otel_ctx"


def test_one_after_another_in_their_order(worker: Worker) -> None:
    order: list[int] = []
    jobs = [Job(then=lambda n=n: order.append(n)) for n in range(5)]  # type: ignore[misc]
    threads = []
    for job in jobs:
        threads.append(ask(worker, job)[0])
        while job not in worker._tasks and not job.begun.is_set():
            pass
    for job in jobs:
        job.go_on.set()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_who_must_not_wait_leaves_and_it_is_done_all_the_same(worker: Worker) -> None:
    job = Job()
    assert worker.do(job, lambda: not job.begun.is_set()) is True, "it was begun"
    assert not job.done.is_set()
    job.go_on.set()
    assert job.done.wait(20)


def test_what_is_left_before_it_was_begun_is_not_done(worker: Worker) -> None:
    first, second = Job(), ready()
    thread, _ = ask(worker, first)
    assert first.begun.wait(20)
    assert worker.do(second, lambda: False) is False
    first.go_on.set()
    thread.join()
    worker.do(ready())
    assert not second.begun.is_set()


def test_what_hangs_is_not_waited_for_until_it_moves(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    hangs = Job()
    assert worker.do(hangs) is True
    assert not hangs.done.is_set()
    assert [worker.do(ready()) for _ in range(3)] == [False] * 3
    assert not worker._tasks, "nothing piles up"
    hangs.go_on.set()
    assert hangs.done.wait(20)
    monkeypatch.setattr(module, "_PATIENCE", 20)
    assert worker.do(ready()) is True


def test_what_goes_on_does_not_hang(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10_000))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock) * module._PATIENCE)
    looked = 0
    job = Job()

    def step() -> bool:
        nonlocal looked
        looked += 1
        worker.step()
        if looked == 5:
            job.go_on.set()
        return True

    assert worker.do(job, step) is True
    assert job.done.is_set()


def test_what_means_to_stop_reaches_who_asked(worker: Worker) -> None:
    def stop() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        worker.do(ready(then=stop))
    assert worker.do(ready()) is True


def test_a_task_that_asks_for_another_gets_none(worker: Worker) -> None:
    said: list[bool] = []
    worker.do(ready(then=lambda: said.append(worker.do(ready()))))
    assert said == [False]


# ---- rest


def test_nobody_rests_while_something_is_eager(worker: Worker) -> None:
    rested: list[bool] = []
    patient = Job(then=lambda: rested.append(worker.hurried))
    eager = ready(eager=True, then=lambda: rested.append(worker.hurried))
    after = ready(then=lambda: rested.append(worker.hurried))
    one, _ = ask(worker, patient)
    assert patient.begun.wait(20)
    assert not worker.hurried
    two, _ = ask(worker, eager)
    assert worker._eager.wait(20), "who rests is woken"
    three, _ = ask(worker, after)
    patient.go_on.set()
    for thread in (one, two, three):
        thread.join()
    assert rested == [True, True, False]


# ---- its life


def test_the_thread_ends_when_there_is_nothing_to_look_after_and_begins_anew(looks: list[bool]) -> None:
    looks[:] = [False, True, True]
    worker = Worker(lambda: looks.pop(), lambda: 0)
    assert worker.do(ready()) is True
    thread = worker._thread
    if thread is not None:
        thread.join(20)
    assert (worker._thread, looks) == (None, [])
    looks[:] = [False]
    assert worker.do(ready()) is True
    worker.stop()


def test_after_the_end_tasks_are_done_where_they_are_wanted(worker: Worker) -> None:
    worker.do(ready())
    worker.stop()
    assert worker._thread is None
    job = ready()
    assert worker.do(job) is True
    assert job.thread == threading.current_thread().name


def test_where_no_thread_can_be_started_it_is_done_here(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", no)
    job = ready()
    assert worker.do(job) is True
    assert job.thread == threading.current_thread().name


def test_a_thread_that_dies_is_replaced(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def die() -> bool:
        raise ValueError

    dying = Worker(die, lambda: 0)
    dying.do(ready())
    thread = dying._thread
    if thread is not None:
        thread.join(20)
    assert dying.do(ready()) is True
    dying.stop()


# ---- fork

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_for_what_is_being_done_and_the_child_begins_anew(worker: Worker) -> None:
    job = Job()
    thread, _ = ask(worker, job)
    assert job.begun.wait(20)
    threading.Thread(target=lambda: (worker._eager.wait(20), job.go_on.set())).start()
    worker.hold()
    done = job.done.is_set()
    child = os.fork()
    if child == 0:
        result = 1
        try:
            worker.renew()
            result = 0 if worker.do(ready()) else 2
        finally:
            os._exit(result)
    worker.let_go()
    thread.join()
    assert done
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not worker.hurried
    assert worker.do(ready()) is True


def test_a_fork_is_not_held_up_for_ever(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORK_WAIT", 0.01)
    job = Job()
    thread, said = ask(worker, job)
    assert job.begun.wait(20)
    worker.hold()
    worker.let_go()
    job.go_on.set()
    thread.join()
    assert said == [True]
