"""A thread of ours that works for threads of the application: they wait for it, but never longer than they can.

It begins with the first task and ends when there is nothing to look after, so that a process without model calls, or
one that has become quiet, has no thread of ours.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable

_LOOK = 0.002  # s between looks at whether one can still wait
_PATIENCE = 10.0  # s without a step: it hangs, and nobody waits for it any more
_FORK_WAIT = 10.0  # s that a fork may be held up: the first batch imports the engine and loads its tables


class Task:
    """``work`` is called once, on the worker's thread. ``eager``: it is wanted at once, by a thread of the
    application or at exit; an exporting thread has time."""

    def __init__(self, work: Callable[[], None], eager: bool) -> None:
        self.work, self.eager = work, eager
        self.done = threading.Event()
        self.error: BaseException | None = None


class Worker:
    """``idle`` is called every ``every`` seconds in which nothing is to do; where it says False, the thread ends."""

    def __init__(self, idle: Callable[[], bool], every: Callable[[], float]) -> None:
        self._idle, self._every = idle, every
        self.renew()

    def renew(self) -> None:
        """As if nothing had been asked for: in a forked child the thread is not there, and what it held is held."""
        self._pid = os.getpid()
        self._busy = threading.Lock()  # held while something is done
        self._changed = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._doing: Task | None = None
        self._thread: threading.Thread | None = None
        self._eager = threading.Event()  # nobody may rest
        self._holding: set[int] = set()
        self._held: set[int] = set()
        self._steps = 0
        self._hangs = False
        self._closed = False

    @property
    def is_of_this_process(self) -> bool:
        """A fork that Python does not know of runs no handlers."""
        return self._pid == os.getpid()

    # ---- for threads that want something

    def do(self, task: Task, may_wait: Callable[[], bool] = lambda: True) -> bool:
        """Whether ``task`` was begun. Returns when it is done, or as soon as one must not wait any more. Raises what
        the task did not survive."""
        if threading.current_thread() is self._thread:
            return False  # it asks itself
        with self._changed:
            if self._hangs:
                return False
            self._tasks.append(task)
            self._look_at_who_waits()
            alone = not self._start()
            self._changed.notify()
        if alone:
            self._work_here()
        begun = self._wait(task, may_wait)
        if task.error is not None:
            raise task.error
        return begun

    def stop(self) -> None:
        """The thread ends after what it does now; what comes later is done on the thread that wants it."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._eager.set()
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_PATIENCE)

    # ---- for a fork

    def hold(self) -> None:
        """Before a fork: let what is being done come to its end, for a while. Locks deep inside, of caches and of
        native code, would stay locked in the child for ever."""
        me = threading.get_ident()
        with self._changed:
            self._holding.add(me)
            self._eager.set()
        if self._busy.acquire(timeout=_FORK_WAIT):
            self._held.add(me)

    def let_go(self) -> None:
        """After a fork, in the parent."""
        me = threading.get_ident()
        if me in self._held:
            self._held.discard(me)
            self._busy.release()
        with self._changed:
            self._holding.discard(me)
            self._look_at_who_waits()

    # ---- for the task that is being done

    @property
    def hurried(self) -> bool:
        return self._eager.is_set()

    def step(self) -> None:
        """It goes on."""
        self._steps += 1
        self._hangs = False

    def rest(self, seconds: float) -> None:
        """Let others work, until one of them is waiting."""
        self._eager.wait(seconds)

    # ---- inside

    def _wait(self, task: Task, may_wait: Callable[[], bool]) -> bool:
        steps, since = self._steps, time.monotonic()
        while not task.done.wait(_LOOK):
            if self._steps != steps:
                steps, since = self._steps, time.monotonic()
            stuck = time.monotonic() - since > _PATIENCE
            if stuck or not may_wait():
                return self._leave(task, stuck)
        return True

    def _leave(self, task: Task, stuck: bool) -> bool:
        with self._changed:
            self._hangs = self._hangs or stuck
            if task in self._tasks:
                self._tasks.remove(task)
                self._look_at_who_waits()
                return False
            return True

    def _start(self) -> bool:
        """Whether there is a thread. An interpreter that is shutting down starts none."""
        if self._thread is None and not self._closed:
            thread = threading.Thread(target=self._run, name="otel_ctx", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return self._thread is not None

    def _run(self) -> None:
        try:
            while self._goes_on():
                pass
        finally:
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _goes_on(self) -> bool:
        with self._changed:
            if not self._tasks and not self._closed:
                self._changed.wait(self._every())
            waits = bool(self._tasks)
            if not waits and self._closed:
                self._thread = None
                return False
        if waits:
            self._next()
            return True
        with self._busy:
            anything = self._idle()
        with self._changed:
            if not anything and not self._tasks:
                self._thread = None
            return self._thread is not None

    def _work_here(self) -> None:
        while self._tasks:
            self._next()

    def _next(self) -> None:
        with self._busy:
            with self._changed:
                if not self._tasks:
                    return
                task = self._doing = self._tasks.popleft()
            try:
                task.work()
            # of a task that survives everything else: it means to stop its caller
            except BaseException as error:
                task.error = error
            self.step()
            with self._changed:
                self._doing = None
                self._look_at_who_waits()
            task.done.set()

    def _look_at_who_waits(self) -> None:
        waiting = (*self._tasks, self._doing) if self._doing is not None else self._tasks
        if self._holding or self._closed or any(task.eager for task in waiting):
            self._eager.set()
        else:
            self._eager.clear()
