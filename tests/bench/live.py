"""The live part against its peers, each in the same run as the peer: what a span costs the application's thread, what a
call costs the worker, how late an event loop gets, what ten thousand conversations take in memory.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

sys.path.insert(0, str(Path(__file__).parent))

from sessions import SECOND, START, WORDS

from otel_ctx.engine import LiveEngine
from otel_ctx.live.analyzer import Analyzer
from otel_ctx.live.exporter import ContextSpanExporter
from otel_ctx.live.processor import ContextSpanProcessor
from otel_ctx.model import Span
from otel_ctx.tokens import Counter

Message = dict[str, Any]


class Null(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Agent:
    """Makes conversations of an agent: one system prompt and eight tools for all of them, texts of their own."""

    def __init__(self, seed: int) -> None:
        self._r = random.Random(seed)
        self.tools = json.dumps([
            {"type": "function", "name": f"tool_{n}", "description": self.text(30),
             "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
            for n in range(8)
        ])  # fmt: skip
        self.system = json.dumps([{"type": "text", "content": self.text(300)}])
        self._counter = Counter()
        self._counts: dict[str, int] = {}
        self._fixed = self._tokens({"content": self.tools}) + self._tokens({"content": self.system})

    def speak_as(self, seed: int) -> None:
        """Make the texts of ``seed`` from here on; tools and system prompt stay."""
        self._r = random.Random(seed)
        self._counts.clear()

    def text(self, words: int) -> str:
        return " ".join(self._r.choices(WORDS, k=words)) + f" {self._r.getrandbits(40):x}"

    def question(self, words: int = 30) -> Message:
        return {"role": "user", "parts": [{"type": "text", "content": self.text(words)}]}

    def turn(self, words: int = 60) -> list[Message]:
        """An answer with a tool call, and the result."""
        call_id = f"call_{self._r.getrandbits(40):x}"
        call = {"type": "tool_call", "id": call_id, "name": "tool_1", "arguments": {"path": self.text(3)}}
        return [
            {"role": "assistant", "parts": [{"type": "text", "content": self.text(words // 3)}, call]},
            {"role": "user", "parts": [{"type": "tool_call_response", "id": call_id, "response": self.text(words)}]},
        ]  # fmt: skip

    def _tokens(self, part: dict[str, Any]) -> int:
        text = str(part.get("content") or part.get("response") or part.get("arguments"))
        if text not in self._counts:
            self._counts[text] = self._counter.count(text, "o200k_base")[0] + 4
        return self._counts[text]

    def attributes(self, messages: list[Message], answer: Message) -> dict[str, Any]:
        tokens = self._fixed + sum(self._tokens(part) for message in messages for part in message["parts"])
        return {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4.1",
            "gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 50,
            "gen_ai.tool.definitions": self.tools, "gen_ai.system_instructions": self.system,
            "gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": json.dumps([answer]),
        }  # fmt: skip


def finished(attributes: list[dict[str, Any]]) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("bench")
    for each in attributes:
        tracer.start_span("chat gpt-4.1", attributes=each).end()
    return list(memory.get_finished_spans())


# ---- the application's thread


def on_the_applications_thread(rounds: int, spans: int = 5000) -> None:
    """Microseconds of CPU of that thread from a span's start to its end, in a provider with a BatchSpanProcessor that
    does not get to export, without us and with us."""
    agent = Agent(1)
    attributes = agent.attributes([agent.question()], agent.turn()[0])

    def provider(ours: bool) -> tuple[TracerProvider, BatchSpanProcessor]:
        made = TracerProvider(shutdown_on_exit=False)
        batch = BatchSpanProcessor(
            Null(), 2 * spans, schedule_delay_millis=1e9, max_export_batch_size=2 * spans
        )
        made.add_span_processor(batch)
        if ours:
            made.add_span_processor(ContextSpanProcessor(analyzer=Analyzer()))
        return made, batch

    def cost(made: TracerProvider, batch: BatchSpanProcessor) -> tuple[float, float]:
        tracer = made.get_tracer("bench")
        begun = [tracer.start_span("chat", attributes=attributes) for _ in range(spans)]
        start = time.thread_time()
        for span in begun:
            span.end()
        end = time.thread_time()
        batch._batch_processor._queue.clear()
        for _ in range(spans):
            tracer.start_span("chat", attributes=attributes).end()
        whole = time.thread_time() - end
        batch._batch_processor._queue.clear()
        return (end - start) / spans * 1e6, whole / spans * 1e6

    pair = provider(False), provider(True)
    ends: tuple[list[float], list[float]] = ([], [])
    wholes: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for which in (0, 1):
            with no_collection():
                end, whole = cost(*pair[which])
            ends[which].append(end)
            wholes[which].append(whole)
    plain, ours = (min(e) for e in ends)
    whole_plain, whole_ours = (min(w) for w in wholes)
    print(
        f"{'span.end()':<24}BatchSpanProcessor {plain:6.2f} us   with us {ours:6.2f} us   added {ours - plain:+.2f} us "
        f"(start to end {whole_ours - whole_plain:+.2f} us)"
    )


# ---- the worker


def a_call_of_sixty_messages(rounds: int, conversations: int = 24) -> None:
    """Microseconds of CPU of all threads for one call whose prompt has 60 messages: with everything that is said and
    counted of it, enriched and settled."""
    peer = _peer()
    ours: list[float] = []
    fresh: list[float] = []
    theirs: list[float] = []
    for seed in range(rounds):
        agent = Agent(seed)
        steps: list[list[dict[str, Any]]] = [[], [], []]
        for _ in range(conversations):
            messages = [agent.question()]
            while len(messages) < 62:
                more = agent.turn()
                if len(messages) >= 56:
                    steps[(len(messages) - 57) // 2].append(agent.attributes(messages, more[0]))
                messages += more
        spans = [finished(step) for step in steps]
        if peer is not None:
            copies = [_copy(span) for span in spans[-1]]
            theirs.append(
                cpu_us(lambda copies=copies: [peer.on_end(span) for span in copies]) / conversations
            )
        ours.append(_exported(spans[:-1], spans[-1]) / conversations)
        fresh.append(_exported([], spans[-1]) / conversations)
    against = f"OpenInferenceSpanProcessor {min(theirs):6.0f} us   ratio {min(ours) / min(theirs):.2f}" if theirs else (
        "OpenInferenceSpanProcessor is not installed"
    )  # fmt: skip
    print(
        f"{'a call, 60 messages':<24}one that goes on {min(ours):6.0f} us   one never seen {min(fresh):6.0f} us   {against}"
    )


def _exported(before: list[list[ReadableSpan]], spans: list[ReadableSpan]) -> float:
    analyzer = Analyzer(meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))
    exporter = ContextSpanExporter(Null(), analyzer=analyzer)
    warm = Agent(-1)
    exporter.export(finished([warm.attributes([warm.question()], warm.turn()[0])]))
    for batch in before:
        exporter.export(batch)
        analyzer.drain()

    def work() -> None:
        exporter.export(spans)
        analyzer.drain()

    took = cpu_us(work)
    analyzer.discard()
    return took


def _copy(span: ReadableSpan) -> ReadableSpan:
    return ReadableSpan(span.name, span.context, attributes=dict(span.attributes or {}))


def _peer() -> SpanProcessor | None:
    try:
        from openinference.instrumentation.openllmetry import OpenInferenceSpanProcessor
    except ImportError:
        return None
    made: SpanProcessor = OpenInferenceSpanProcessor()
    return made


# ---- an event loop


def an_event_loop(rounds: int, seconds: float = 4.0, rate: int = 20, size: int = 300_000) -> None:
    """Milliseconds by which an event loop wakes too late, 95th percentile, while ``rate`` calls a second end whose
    prompts have ``size`` characters, each grown out of an earlier one; sent by OTLP, without us and with us."""
    with receiver() as url:
        late: dict[str, list[float]] = {"idle": [], "plain": [], "ours": []}
        calls = _large_calls(int(rounds * 2 * seconds * rate) + rate, size)
        analyzer = Analyzer(meter_provider=MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))
        for _ in range(rounds):
            for name, times in late.items():
                provider = TracerProvider(shutdown_on_exit=False)
                provider.add_span_processor(
                    BatchSpanProcessor(OTLPSpanExporter(url), schedule_delay_millis=1000)
                )
                if name == "ours":
                    provider.add_span_processor(ContextSpanProcessor(analyzer=analyzer))
                ending = iter(()) if name == "idle" else calls
                times.append(asyncio.run(_lateness(provider, ending, seconds, rate)))
                provider.shutdown()
        analyzer.discard()
    idle, plain, ours = (min(times) for times in late.values())
    added = min(b - a for a, b in zip(late["plain"], late["ours"], strict=True))
    print(
        f"{'event loop, p95':<24}idle {idle:6.2f} ms   BatchSpanProcessor and OTLP {plain:6.2f} ms   with us {ours:6.2f} ms   "
        f"added {ours - plain:+.2f} ms (least of a round {added:+.2f})"
    )


def _large_calls(number: int, size: int) -> Iterator[dict[str, Any]]:
    agent = Agent(7)
    conversations = [
        [agent.question(), *(m for _ in range(size // 8_000) for m in agent.turn(800))] for _ in range(5)
    ]
    made = []
    for n in range(number):
        messages = conversations[n % len(conversations)]
        answer, result = agent.turn(200)
        made.append(agent.attributes(messages, answer))
        messages += [answer, result]
    return iter(made)


async def _lateness(
    provider: TracerProvider, calls: Iterator[dict[str, Any]], seconds: float, rate: int
) -> float:
    tracer = provider.get_tracer("bench")
    late: list[float] = []
    end = time.perf_counter() + seconds
    due = 0.0
    while (now := time.perf_counter()) < end:
        if now >= due and (attributes := next(calls, None)) is not None:
            tracer.start_span("chat", attributes=attributes).end()
            due = now + 1 / rate
        start = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - start - 0.001) * 1000)
    return statistics.quantiles(late, n=20)[-1]


@contextmanager
def receiver() -> Iterator[str]:
    """A place that takes OTLP over HTTP, in a process of its own: it must not take the interpreter of this one."""
    process = subprocess.Popen(
        [sys.executable, __file__, "receiver"], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def _receive() -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
    server.serve_forever()


# ---- memory


def memory() -> None:
    """In a process of its own: what was there before would be counted."""
    subprocess.run([sys.executable, __file__, "memory"], check=True)


def _memory(conversations: int = 10_000, turns: int = 4) -> None:
    agent = Agent(3)
    engine = LiveEngine()
    engine.feed([_span(agent, 1, [agent.question()], agent.turn()[0])])
    engine.drain()
    gc.collect()
    before = _resident()
    for turn in range(turns):
        for number in range(conversations):
            # the same words in every turn: what is sent again need not be kept here
            agent.speak_as(number)
            messages = [agent.question(), *(m for _ in range(turn) for m in agent.turn())]
            span = _span(agent, 2 + turn * conversations + number, messages, agent.turn()[0])
            engine.feed([span])
            if number % 50 == 0:
                engine.advance(span.end_unix_nano)
    engine.drain()
    gc.collect()
    after = _resident()
    print(
        f"{'memory':<24}{engine.conversations:,} conversations of {turns} turns {after - before:6.0f} MB"
        f"   {(after - before) * 1e6 / engine.conversations / 1024:.1f} KiB each"
    )


def _span(agent: Agent, number: int, messages: list[Message], answer: Message) -> Span:
    start = START + number * SECOND // 50
    return Span(
        f"{number:032x}", f"{number:016x}", "", "chat", start, start + SECOND // 100,
        agent.attributes(messages, answer), 3, resource={"service.name": "bench"},
    )  # fmt: skip


def _resident() -> float:
    """Megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


# ---- measuring


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cpu_us(work: Callable[[], object]) -> float:
    with no_collection():
        start = time.process_time()
        work()
        return (time.process_time() - start) * 1e6


def main() -> None:
    on_the_applications_thread(rounds=7)
    a_call_of_sixty_messages(rounds=7)
    an_event_loop(rounds=3)
    memory()


if __name__ == "__main__":
    {"receiver": _receive, "memory": _memory}.get(sys.argv[-1], main)()
