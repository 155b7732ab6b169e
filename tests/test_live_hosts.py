"""Faults of ours and of others, in an application that runs once without us and once with us: 0 exceptions in it, 0
spans lost that it keeps without us, 0 counted twice."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult

from otel_ctx.engine import LiveEngine
from otel_ctx.live import worker
from otel_ctx.model import LogRecord, Said, Span
from tests.hosts import SETTINGS, Host, Process, Receiver, assert_no_harm

pytestmark = pytest.mark.usefixtures("live_afresh")


class Panic(BaseException):
    """As native code raises it."""


def both(run: Callable[[bool], Host]) -> tuple[Host, Host]:
    plain, ours = run(False), run(True)
    for host in (plain, ours):
        host.close()
    return plain, ours


# ---- our own faults


class Crashing(LiveEngine):
    """``error`` at every third time that ``at`` is reached."""

    def __init__(self, at: str, error: BaseException) -> None:
        super().__init__(SETTINGS.engine())
        self.at, self.error, self.reached = at, error, 0

    def _reach(self, at: str) -> None:
        if at == self.at:
            self.reached += 1
            if self.reached % 3 == 0:
                raise self.error

    def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
        self._reach("start")
        said = super().feed(self._each(spans), logs)
        self._reach("end")
        return said

    def _each(self, spans: Iterable[Span]) -> Iterator[Span]:
        for span in spans:
            self._reach("span")
            yield span

    def advance(self, now_unix_nano: int) -> list[Said]:
        self._reach("settle")
        return super().advance(now_unix_nano)

    def drain(self) -> list[Said]:
        self._reach("settle")
        return super().drain()


@pytest.mark.parametrize("at", ["start", "span", "end", "settle"])
@pytest.mark.parametrize("error", [ValueError(), Panic(), MemoryError()], ids=lambda e: type(e).__name__)
def test_an_engine_that_crashes(at: str, error: BaseException) -> None:
    def run(with_us: bool) -> Host:
        host = Host(with_us, engine=lambda: Crashing(at, error))
        for n in range(40):
            host.chat(f"chat-{n}")
            host.other(f"other-{n}")
            if n % 4 == 0:
                host.provider.force_flush()
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert len(ours.receivers[0].spans) == 80
    assert ours.count("otelctx.calls") > 0, "and it goes on"


def test_an_engine_that_cannot_be_made() -> None:
    def fail() -> Any:
        raise Panic

    def run(with_us: bool) -> Host:
        host = Host(with_us, engine=fail)
        for n in range(20):
            host.chat(f"chat-{n}")
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert len(ours.receivers[0].spans) == 20


def test_an_engine_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PATIENCE", 0.01)
    go_on = threading.Event()

    class Hanging(LiveEngine):
        def feed(self, spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Said]:
            go_on.wait(60)
            return super().feed(spans, logs)

    def run(with_us: bool) -> Host:
        host = Host(with_us, engine=lambda: Hanging(SETTINGS.engine()))
        for n in range(60):
            host.chat(f"chat-{n}")
            if n % 20 == 0:
                host.provider.force_flush()
        host.provider.force_flush()
        return host

    plain, ours = run(False), run(True)
    assert len(ours.receivers[0].spans) == 60, "sent while it hangs"
    go_on.set()
    plain.close()
    ours.close()
    assert_no_harm(plain, ours)


# ---- of exporters


@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
@pytest.mark.parametrize("way", ["fails", "raises", "sometimes"])
def test_an_exporter_that_fails(way: str, processor: Any, caplog: pytest.LogCaptureFixture) -> None:
    def receiver() -> Receiver:
        batches = iter(range(1000))

        def answer() -> SpanExportResult:
            if way == "raises" or (way == "sometimes" and next(batches) % 2):
                raise RuntimeError("no route")
            return SpanExportResult.FAILURE

        return Receiver(answer)

    def run(with_us: bool) -> Host:
        host = Host(with_us, receiver(), processor=processor)
        for n in range(30):
            host.chat(f"chat-{n}")
            if n % 10 == 0:
                host.attempt(host.provider.force_flush)
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert ours.count("otelctx.calls") == 30, "what is measured does not hang on whether it is sent"


def test_an_exporter_that_is_slow_until_the_queue_is_full() -> None:
    """It holds the first batch until all spans are made: the queue keeps the newest 32 of them."""

    def run(with_us: bool) -> Host:
        held, go_on = threading.Event(), threading.Event()

        def answer() -> SpanExportResult:
            held.set()
            assert go_on.wait(60)
            return SpanExportResult.SUCCESS

        host = Host(
            with_us,
            Receiver(answer),
            processor=lambda r: BatchSpanProcessor(r, max_queue_size=32, max_export_batch_size=8),
        )
        for n in range(8):
            host.chat(f"first-{n}")
        assert held.wait(60)
        for n in range(200):
            host.chat(f"chat-{n}")
        go_on.set()
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert len(plain.receivers[0].spans) == 40


def test_two_exporters_of_which_one_fails() -> None:
    def fail() -> SpanExportResult:
        raise RuntimeError("no route")

    def run(with_us: bool) -> Host:
        host = Host(with_us, Receiver(), Receiver(fail))
        for n in range(50):
            host.chat(f"chat-{n}")
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert ours.count("otelctx.calls") == 50
    assert ours.count("otelctx.self.spans") == 50, "and analysed once"


# ---- bursts


@pytest.mark.parametrize("kind", ["chat", "other"])
def test_a_burst_larger_than_the_queue(kind: str) -> None:
    """The exporting thread keeps up without us; it must not wait long for the analysis, least of all for the first. On a
    busy machine it may come too late by itself: the SDK's own queue drops, in one run and not in the next."""

    def run(with_us: bool) -> Host:
        host = Host(with_us)
        for n in range(5000):
            getattr(host, kind)(f"{kind}-{n}")
        return host

    for _ in range(3):
        plain, ours = both(run)
        if not any(a.names - b.names for a, b in zip(plain.receivers, ours.receivers, strict=True)):
            break
    assert_no_harm(plain, ours)


def test_while_the_engine_is_made_spans_are_sent() -> None:
    made = threading.Event()

    def make() -> LiveEngine:
        assert made.wait(60)
        return LiveEngine(SETTINGS.engine())

    def run(with_us: bool) -> Host:
        host = Host(with_us, engine=make)
        for n in range(5000):
            host.chat(f"chat-{n}")
            if n > 1024 and n % 512 == 0:
                host.receivers[0].wait_for(n - 1024)
        made.set()
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert len(ours.receivers[0].spans) == 5000


def test_asyncio_and_threads_together() -> None:
    def run(with_us: bool) -> Host:
        host = Host(with_us, Receiver(), Receiver())

        def work(thread: int) -> None:
            for n in range(60):
                host.chat(f"thread-{thread}-{n}")

        async def task(number: int) -> None:
            for n in range(20):
                host.chat(f"task-{number}-{n}")
                await asyncio.sleep(0)

        async def tasks() -> None:
            await asyncio.gather(*(task(n) for n in range(15)))

        threads = [threading.Thread(target=work, args=[n]) for n in range(5)]
        threads.append(threading.Thread(target=lambda: host.attempt(host.provider.force_flush)))
        for thread in threads:
            thread.start()
        asyncio.run(tasks())
        for thread in threads:
            thread.join()
        return host

    plain, ours = both(run)
    assert_no_harm(plain, ours)
    assert len(ours.receivers[0].spans) == len(ours.receivers[1].spans) == 600
    assert ours.count("otelctx.calls") == 600


# ---- exit

EXITS = {
    "at the end": "",
    "by sys.exit": "sys.exit(3)",
    "by an exception": "raise RuntimeError('the application itself')",
    "by a signal that is handled": "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getpid(), 15)",
    "of a thread that goes on": "threading.Thread(target=lambda: (time.sleep(0.2), chat('late'))).start()",
}
PIPELINES = {
    "beside": "add(BatchSpanProcessor(Spans())); add(otel_ctx.ContextSpanProcessor())",
    "before a simple one": "add(otel_ctx.ContextSpanProcessor()); add(SimpleSpanProcessor(Spans()))",
    "own": "add(otel_ctx.ContextSpanProcessor(Spans()))",
    "installed": "add(BatchSpanProcessor(Spans())); otel_ctx.install()",
    "wrapped": "add(BatchSpanProcessor(otel_ctx.ContextSpanExporter(Spans())))",
}


def processes(script: str) -> tuple[Process, Process]:
    plain, ours = Process(script, False), Process(script, True)
    assert ours.stderr == plain.stderr, "nothing is said, and no exception is new"
    assert ours.code == plain.code
    return plain, ours


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_an_exit_without_a_flush_saves_spans_and_metrics(pipeline: str) -> None:
    ours = Process(f"{PIPELINES[pipeline]}\nmeters()\nchat('one')\nchat('two')", True)
    assert (ours.code, ours.stderr) == (0, "")
    assert ours.spans == {("parent", "one"): 1, ("parent", "two"): 1}
    assert (ours.shown, ours.calls) == (2, 2)
    assert ours.tokens > 0, "all have settled"


@pytest.mark.parametrize("way", EXITS)
def test_every_way_out(way: str) -> None:
    plain, ours = processes(
        f"meters(); add(BatchSpanProcessor(Spans())); install(); chat('one')\n{EXITS[way]}"
    )
    assert ours.spans == plain.spans
    assert ours.spans["parent", "one"] == 1
    assert ours.calls == ours.shown == len(plain.names)


# ---- fork

fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@fork
@pytest.mark.parametrize("kind", ["Batch", "Simple"])
def test_workers_that_are_forked_after_the_set_up(kind: str) -> None:
    plain, ours = processes(f"""
        meters()
        add({kind}SpanProcessor(Spans()))
        install()
        chat("before")
        for worker in range(2):
            pid = os.fork()
            if pid == 0:
                chat(f"worker-{{worker}}")
                sys.exit(0)
            os.waitpid(pid, 0)
        chat("after")
    """)
    assert ours.names == plain.names == {"before": 1, "worker-0": 1, "worker-1": 1, "after": 1}
    assert ours.calls == ours.shown == 4


@fork
@pytest.mark.parametrize("kind", ["Batch", "Simple"])
def test_forks_while_other_threads_make_spans(kind: str) -> None:
    plain, ours = processes(f"""
        meters()
        add({kind}SpanProcessor(Spans()))
        install()
        def work(thread):
            for n in range(100):
                chat(f"thread-{{thread}}-{{n}}")
        threads = [threading.Thread(target=work, args=[n]) for n in range(3)]
        for thread in threads: thread.start()
        for child in range(8):
            pid = os.fork()
            if pid == 0:
                for n in range(5): chat(f"child-{{child}}-{{n}}")
                provider.force_flush()
                os._exit(0)
            _, status = os.waitpid(pid, 0)
            assert status == 0
        for thread in threads: thread.join()
    """)
    assert plain.names == ours.names
    assert len(ours.names) == 340
    assert set(ours.names.values()) == {1}
    assert ours.shown == 340
    assert ours.calls == 300, "of the parent: the children end before their metrics are due"


@fork
def test_children_of_multiprocessing_which_run_no_exit_handlers() -> None:
    plain, ours = processes("""
        import multiprocessing
        add(SimpleSpanProcessor(Spans()))
        install()
        def child(n):
            chat(f"child-{n}")
        if __name__ == "__main__":
            chat("parent")
            context = multiprocessing.get_context("fork")
            children = [context.Process(target=child, args=[n]) for n in range(3)]
            for each in children: each.start()
            for each in children: each.join()
            with context.Pool(1) as pool:
                pool.map(child, [3, 4])
                pool.close()
                pool.join()
    """)
    assert ours.names == plain.names
    assert len(plain.names) == 6


@fork
def test_a_fork_that_python_does_not_know_of() -> None:
    """As servers written in C do it: no handler runs in the child."""
    plain, ours = processes("""
        import ctypes
        meters()
        add(BatchSpanProcessor(Spans()))
        install()
        chat("before")
        provider.force_flush()
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            chat("child")
            provider.force_flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        chat("after")
    """)
    assert ours.names == plain.names == {"before": 1, "child": 1, "after": 1}
    assert ours.shown == 3


@fork
def test_a_server_that_forks_its_workers_and_replaces_one_that_was_killed() -> None:
    """As gunicorn with preload: the master sets up and forks, workers end by SIGTERM, one by SIGKILL."""
    plain, ours = processes("""
        meters()
        add(BatchSpanProcessor(Spans()))
        install()

        def worker(name, spans):
            pid = os.fork()
            if pid: return pid
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            for n in range(spans): chat(f"{name}-{n}")
            provider.force_flush()
            chat(f"{name}-last")  # still in the queue when the signal comes
            os.write(ready, b".")
            while True: signal.pause()

        waiting, ready = os.pipe()
        chat("master")
        provider.force_flush()  # what it has counted, the workers do not count again
        one, two = worker("one", 30), worker("two", 30)
        for _ in range(2): os.read(waiting, 1)
        os.kill(one, signal.SIGKILL)
        os.waitpid(one, 0)
        three = worker("three", 30)
        os.read(waiting, 1)
        for pid in (two, three):
            os.kill(pid, signal.SIGTERM)
            assert os.waitpid(pid, 0)[1] == 0
    """)
    assert plain.names == ours.names
    assert len(ours.names) == 1 + 30 + 31 + 31, (
        "what was in the queue of the one that was killed is gone either way"
    )
    assert set(ours.names.values()) == {1}
    assert ours.shown == len(ours.names)
    assert ours.calls == 1 + 31 + 31
