"""The thread that analyses, and what waits in front of it: never longer than the budget, never more than there is room for.

What does not get its turn goes on as it came, and is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from otel_ctx.live.faults import survive
from otel_ctx.live.gateway.counters import Counters
from otel_ctx.live.gateway.damaged import carry
from otel_ctx.live.gateway.enricher import Enricher
from otel_ctx.live.gateway.signals import LOGS, TRACES, Signal
from otel_ctx.live.instruments import Instruments
from otel_ctx.live.settings import name_once

_SOFT = 0.8  # share of the budget after which no further span is begun
TICK = 5.0  # s between looks at what has settled
_BEHIND = "spans come faster than they are analysed: some go on as they are"


class _Job:
    """``begun``: monotonic seconds; 0 while it waits."""

    def __init__(self, until: float, spans: int) -> None:
        self._until, self.spans = until, spans
        self.left = False
        self.begun = 0.0

    def enough(self) -> bool:
        return self.left or time.monotonic() > self._until


class Desk:
    """``budget``: s that a request may wait for its analysis; ``room``: bytes of requests that may wait at once."""

    def __init__(
        self, enricher: Enricher, instruments: Instruments, counters: Counters, budget: float, room: int
    ) -> None:
        self._enricher, self._instruments, self._counters = enricher, instruments, counters
        self._budget, self._room = budget, room
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="otelctx-analysis")
        self._waiting = self._waiting_spans = 0
        self._doing: _Job | None = None

    @property
    def queue(self) -> tuple[int, int]:
        """Spans that wait, and as many as may: as many as of their size there is room for."""
        size = self._waiting / self._waiting_spans if self._waiting_spans else 30_000
        return self._waiting_spans, max(1, round(self._room / max(size, 1)))

    async def enrich(self, signal: Signal, request: Any, size: int, tenant: str) -> bytes | None:
        """The request's bytes with what is added; None where it goes on as it came."""
        job = _Job(time.monotonic() + _SOFT * self._budget, signal.count(request))
        if self._waiting + size > self._room or self._is_stuck():
            self._pass(signal, job.spans)
            return None
        work = self._thread.submit(self._work, job, signal, request, tenant)
        self._waiting += size
        self._waiting_spans += job.spans
        work.add_done_callback(partial(self._call_soon, asyncio.get_running_loop(), size, job.spans))
        result = asyncio.wrap_future(work)
        done, _ = await asyncio.wait({result}, timeout=self._budget)
        if done:
            return result.result()
        job.left = True
        if work.cancel():
            self._pass(signal, job.spans)
        else:
            self._counters.late_batches.inc()
        return None

    async def run(self, work: Callable[[], Any]) -> Any:
        """``work`` on the thread, after what waits there."""
        return await asyncio.wrap_future(self._thread.submit(work))

    async def settle(self) -> None:
        await self.run(partial(self._safely, self._enricher.settle))

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    # ---- inside

    def _work(self, job: _Job, signal: Signal, request: Any, tenant: str) -> bytes | None:
        if job.enough():  # its time went by while it waited
            self._pass(signal, job.spans)
            return None
        job.begun = time.monotonic()
        self._doing = job
        try:
            read = signal.readable(request)
            if signal is LOGS:
                self._enricher.logs(read, tenant, job.enough)
                return None
            changed = self._enricher.traces(read, tenant, job.enough)
            self._enricher.settle()
            if not changed or job.left:
                return None
            if read is not request:
                carry(read, request)
            encoded: bytes = request.SerializeToString()
            return encoded
        except BaseException as error:
            survive(error, "analysing a request")
            return None
        finally:
            self._doing = None

    def _call_soon(
        self, loop: asyncio.AbstractEventLoop, size: int, spans: int, work: Future[bytes | None]
    ) -> None:
        try:
            loop.call_soon_threadsafe(self._went, size, spans)
        except RuntimeError:  # the loop has ended
            self._went(size, spans)

    def _went(self, size: int, spans: int) -> None:
        self._waiting -= size
        self._waiting_spans -= spans

    def _is_stuck(self) -> bool:
        """One that takes longer than any may wait: who came now would wait in vain."""
        doing = self._doing
        return doing is not None and time.monotonic() - doing.begun > self._budget

    def _pass(self, signal: Signal, spans: int) -> None:
        name_once([_BEHIND])
        if signal is TRACES:
            self._instruments.self_spans("dropped", spans)

    @staticmethod
    def _safely(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            survive(error, "settling", "some of what was still open is not counted")
