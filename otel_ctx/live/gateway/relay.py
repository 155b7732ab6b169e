"""One request: held while there is room, analysed, sent on, answered as the first downstream answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from otel_ctx.live.faults import survive
from otel_ctx.live.gateway.answers import EXHAUSTED, FAULT, Answer, later
from otel_ctx.live.gateway.counters import Counters
from otel_ctx.live.gateway.desk import Desk
from otel_ctx.live.gateway.downstream import Downstream
from otel_ctx.live.gateway.forwards import Forward
from otel_ctx.live.gateway.seldom import Seldom
from otel_ctx.live.gateway.signals import METRICS, Signal
from otel_ctx.live.gateway.wire import parts
from otel_ctx.live.instruments import Instruments

_log = logging.getLogger("otel_ctx")
CLOSING = "the gateway is shutting down"
_DAMAGED = "otel_ctx: a %s request holds text that is not UTF-8: it goes on as it is, read with U+FFFD (told once a minute)"
_REFUSED = "otel_ctx: a %s request was refused: %s (told once a minute)"
_BESIDE = 0.25  # share of the room that a downstream whose answer does not count may hold


class Room:
    """Bytes of requests that are held at once."""

    def __init__(self, most: int, counters: Counters) -> None:
        self._most, self._counters = most, counters
        self.held = 0

    def take(self, size: int) -> bool:
        if self.held + size > self._most:
            return False
        self.held += size
        self._counters.in_flight.set(self.held)
        return True

    def give(self, size: int) -> None:
        self.held -= size
        self._counters.in_flight.set(self.held)


class Target:
    """A downstream and what is told of it."""

    def __init__(self, to: Forward, sender: Downstream, room: int) -> None:
        self.to, self.sender, self.room = to, sender, room
        self.held = 0
        self.said = ""  # the last trouble, so that it is logged when it begins and when it ends


class Relay:
    """The first of ``targets`` decides the answer. ``room`` is taken by who receives, and given back here."""

    def __init__(
        self,
        targets: Sequence[tuple[Forward, Downstream]],
        desk: Desk,
        room: Room,
        most: int,
        instruments: Instruments,
        counters: Counters,
    ) -> None:
        self._targets = [Target(to, sender, round(most * _BESIDE)) for to, sender in targets]
        self._desk, self.room = desk, room
        self._instruments, self._counters = instruments, counters
        self._seldom = Seldom()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    async def deliver(self, signal: Signal, body: bytes, request: Any, tenant: str, held: int) -> Answer:
        """``request``: the body, parsed (of metrics None). ``held``: what of the room it has taken. Goes on when who sent
        it has gone: what was taken in is delivered."""
        if self.closed:
            self.room.give(held)
            return self.answered(signal, later(CLOSING))
        task = self._begin(self._deliver(signal, body, request, tenant, held))
        return self._counted(signal, await asyncio.shield(task))

    def answered(self, signal: Signal, answer: Answer) -> Answer:
        """What the gateway itself has to say, in words of its own: they may be logged."""
        if not answer.ok and not answer.again and self._seldom.due(answer.message):
            _log.warning(_REFUSED, signal.name, answer.message)
        return self._counted(signal, answer)

    async def finish(self) -> None:
        """Until all that was taken in is answered and sent everywhere."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        for target in self._targets:
            await target.sender.close()

    # ---- inside

    def _counted(self, signal: Signal, answer: Answer) -> Answer:
        self._counters.requests.labels(
            signal.name, "accepted" if answer.ok else "retry" if answer.again else "refused"
        ).inc()
        return answer

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _deliver(self, signal: Signal, body: bytes, request: Any, tenant: str, held: int) -> Answer:
        try:
            enriched = await self._enriched(signal, body, request, tenant)
            del request
            first, *others = self._targets
            for target in others:
                self._beside(target, signal, enriched, body)
            return await self._send_either(first, signal, enriched, body)
        except Exception as error:
            survive(error, "delivering a request", "its sender is asked to send it again")
            return later(FAULT)
        finally:
            self.room.give(held)

    async def _enriched(self, signal: Signal, body: bytes, request: Any, tenant: str) -> bytes:
        """``body`` with what is added; itself where that is nothing."""
        if signal is METRICS:
            return body
        if not signal.is_text(request):
            self._counters.damaged.labels(signal.name).inc()
            if self._seldom.due(_DAMAGED):
                _log.warning(_DAMAGED, signal.name)
        try:
            return await self._desk.enrich(signal, request, len(body), tenant) or body
        except Exception as error:
            survive(error, "having a request analysed")
            return body

    def _beside(self, target: Target, signal: Signal, enriched: bytes, body: bytes) -> None:
        size = len(enriched)
        if target.held + size > target.room:
            self._count(target, "full")
            return
        target.held += size
        task = self._begin(self._send_either(target, signal, enriched, body))
        task.add_done_callback(lambda _: self._left(target, size))

    @staticmethod
    def _left(target: Target, size: int) -> None:
        target.held -= size

    async def _send_either(self, target: Target, signal: Signal, enriched: bytes, body: bytes) -> Answer:
        """What is too large with what is ours goes on as it came."""
        answer = await self._send(target, signal, enriched)
        if enriched is not body and answer.code == EXHAUSTED and not answer.again:
            answer = await self._send(target, signal, body)
        return answer

    async def _send(self, target: Target, signal: Signal, body: bytes) -> Answer:
        most = target.to.max_request_bytes
        if not most or len(body) <= most:
            return await self._send_one(target, signal, body)
        # What is larger than the receiver takes goes in several requests, and counts as one: all of it has arrived, or
        # it is to come again.
        partial = Answer()
        for part in parts(signal, signal.parse(body), most):
            answer = await self._send_one(target, signal, part)
            if not answer.ok:
                return answer
            partial = _both(signal, partial, answer)
        return partial

    async def _send_one(self, target: Target, signal: Signal, body: bytes) -> Answer:
        try:
            answer = await target.sender.send(signal, body)
        except Exception as error:
            survive(error, "sending a request on", "its sender is asked to send it again")
            answer = later(FAULT)
        if answer.ok:
            lost = _lost(signal, answer)
            if lost is None:  # receivers have been seen to answer with something of their own
                answer = Answer()
            self._count(target, "partial" if lost else "accepted")
        else:
            self._count(target, "retry" if answer.again else "refused")
        self._tell(target, answer)
        return answer

    def _count(self, target: Target, result: str) -> None:
        self._counters.exports.labels(target.to.name, result).inc()
        self._instruments.exports(result in ("accepted", "partial"))

    def _tell(self, target: Target, answer: Answer) -> None:
        """Its words may hold what was sent: the code is told."""
        said = "" if answer.ok else answer.name
        if said != target.said:
            if said:
                _log.warning("otel_ctx: %s does not accept what is sent to it (%s)", target.to.name, said)
            else:
                _log.warning("otel_ctx: %s accepts again", target.to.name)
            target.said = said


def _lost(signal: Signal, answer: Answer) -> int | None:
    """Records that a partial success says were not taken; None where the answer is no response of the signal."""
    try:
        return int(getattr(signal.response.FromString(answer.body).partial_success, signal.refused))
    except DecodeError:
        return None


def _both(signal: Signal, a: Answer, b: Answer) -> Answer:
    """Two partial successes as one."""
    if not a.body or not b.body:
        return a if a.body else b
    one, two = signal.response.FromString(a.body), signal.response.FromString(b.body)
    n = getattr(one.partial_success, signal.refused) + getattr(two.partial_success, signal.refused)
    setattr(two.partial_success, signal.refused, n)
    two.partial_success.error_message = two.partial_success.error_message or one.partial_success.error_message
    return Answer(body=two.SerializeToString())
