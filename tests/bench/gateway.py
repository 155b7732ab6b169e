"""The gateway: spans a second and core against the same hop without analysis and against a real Collector that passes on;
and its memory with 10,000 live conversations.

CPU time of the gateway's own process, as Linux tells it: the client and the receiver behind it run elsewhere, and what else
the machine does hardly counts. Of several rounds, each with all hops in turn, the best of each counts. The Collector is the
one of `make e2e`, where it was built, or what ``OTELCOL`` names. ``--only memory --minutes 30 --rate 200 --life 12`` is the
long run of the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parent.parent / "e2e/servers"))

from build import binary
from sessions import SECOND, WORDS

ROOT = Path(__file__).parent.parent.parent
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
ANY = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

# ---- traffic


class Traffic:
    """Conversations of which each call sends ``size`` bytes, ``new`` of them new; batches of about 2 MB. ``most``: turns of
    one; then another begins in its place. At the start they are as old as they come."""

    def __init__(
        self, size: int, new: int, conversations: int, turns: int = 2, most: int | None = None
    ) -> None:
        """``size`` is the middle of ``turns`` turns, which grow."""
        r = random.Random(size)
        self._r, self._new, self._most = r, new, most
        self._begin = max(size - new * turns // 2, 1)
        self._said = [self._first() for _ in range(conversations)]
        self._left = [r.randint(1, most) if most else 0 for _ in range(conversations)]
        self._at = 0
        self.per_batch = max(1, 2_000_000 // size)

    def _first(self) -> list[dict[str, Any]]:
        return [self._message("user", self._begin)]

    def _text(self, size: int) -> str:
        return " ".join(self._r.choices(WORDS, k=max(1, size // 7)))

    def _message(self, role: str, size: int) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": self._text(size)}]}

    def turn(self, now: int) -> Iterator[tuple[bytes, int]]:
        """The next call of each conversation, in batches: (request, spans). It starts at ``now``, or when the one before has
        ended."""
        now = self._at = max(now, self._at + 2 * SECOND)
        batch = ExportTraceServiceRequest()
        spans = None
        for n, said in enumerate(self._said):
            if self._most:
                if not self._left[n]:
                    said = self._said[n] = self._first()
                    self._left[n] = self._most
                self._left[n] -= 1
            if spans is None:
                group = batch.resource_spans.add()
                group.resource.attributes.add(key="service.name").value.string_value = "bench"
                scope = group.scope_spans.add()
                scope.scope.name = "opentelemetry.util.genai"
                spans = scope.spans
            said.append(self._message("user", self._new // 2))
            text = json.dumps(said)
            said.append(self._message("assistant", self._new // 2))
            span = spans.add(
                trace_id=self._r.randbytes(16), span_id=self._r.randbytes(8), name="chat gpt-4o", kind=3,
                start_time_unix_nano=now + n * 1000, end_time_unix_nano=now + n * 1000 + SECOND,
            )  # fmt: skip
            for key, value in (
                ("gen_ai.operation.name", "chat"), ("gen_ai.provider.name", "openai"), ("gen_ai.request.model", "gpt-4o"),
                ("gen_ai.input.messages", text),
            ):  # fmt: skip
                span.attributes.add(key=key).value.string_value = value
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = len(text) // 5
            if len(spans) == self.per_batch:
                yield batch.SerializeToString(), len(spans)
                batch, spans = ExportTraceServiceRequest(), None
        if spans:
            yield batch.SerializeToString(), len(spans)


# ---- processes


class Sink(grpc.GenericRpcHandler):
    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda body, context: b"")


def sink() -> None:
    """Takes everything: run as a process of its own."""
    server = grpc.server(futures.ThreadPoolExecutor(4), (Sink(),), options=ANY)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()


@contextmanager
def started(command: list[str], stream: str = "stderr") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and its first line."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")])}
    options: dict[str, Any] = {"stdin": subprocess.PIPE, **({stream: subprocess.PIPE} if stream else {})}
    with subprocess.Popen(command, text=True, env=environ, **options) as process:
        try:
            yield process, getattr(process, stream).readline() if stream else ""
        finally:
            process.terminate()


@contextmanager
def gateway(port: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [
        sys.executable,
        "-m",
        "otel_ctx_cli",
        "gateway",
        "--forward",
        f"127.0.0.1:{port}",
        "--http",
        "off",
    ]
    command += ["--grpc", "127.0.0.1:0", "--admin", "off", "--analysis-timeout", "60", *more]
    with started(command) as (process, line):
        yield process, line.split("grpc 127.0.0.1:")[1].split(";")[0]


@contextmanager
def collector(program: str | Path, port: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        at = probe.getsockname()[1]
    config = folder / "collector.yaml"
    config.write_text(
        f"receivers: {{otlp: {{protocols: {{grpc: {{endpoint: '127.0.0.1:{at}', max_recv_msg_size_mib: 64}}}}}}}}\n"
        f"exporters: {{otlp_grpc: {{endpoint: '127.0.0.1:{port}', compression: none, tls: {{insecure: true}}, "
        "sending_queue: {enabled: false}}}\n"
        "service: {telemetry: {metrics: {level: none}, logs: {level: error}}, "
        "pipelines: {traces: {receivers: [otlp], exporters: [otlp_grpc]}}}\n"
    )
    with started([str(program), "--config", str(config)], stream="") as (process, _):
        with grpc.insecure_channel(f"127.0.0.1:{at}") as channel:
            grpc.channel_ready_future(channel).result(60)
        yield process, str(at)


def cpu(process: subprocess.Popen[str]) -> float:
    """Seconds, of all its threads, to the nanosecond: clock_getcpuclockid(3)."""
    return time.clock_gettime((~process.pid << 3) | 2)


def memory(process: subprocess.Popen[str]) -> float:
    """Resident, in MB."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


# ---- speed


def per_core(process: subprocess.Popen[str], port: str, traffic: Traffic, turns: int) -> float:
    """Spans a second of CPU time."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", ANY) as channel:
        export = channel.unary_unary(EXPORT)
        then = time.time_ns() - 3600 * SECOND  # they settle at once: all that is done for a call is measured
        for body, _ in traffic.turn(then):  # what is known from then on is not new
            export(body, timeout=120)
        begun, sent = cpu(process), 0
        for _ in range(turns):
            for body, n in traffic.turn(then):
                export(body, timeout=120)
                sent += n
        return sent / (cpu(process) - begun)


def speed(port: str, folder: Path, rounds: int) -> None:
    program = os.environ.get("OTELCOL") or binary("otelcol")
    for size, new, conversations, turns in ((30_000, 600, 64, 20), (300_000, 2_000, 16, 10)):
        hops: dict[str, Callable[[], Any]] = {
            "hop without analysis": lambda: gateway(port, "--max-waiting-bytes", "0"),
            "gateway": lambda: gateway(port),
        }
        if program:
            hops["Collector"] = lambda: collector(program, port, folder)
        found = dict.fromkeys(hops, 0.0)
        for _ in range(rounds):
            for name, hop in hops.items():
                with hop() as (process, at):
                    traffic = Traffic(size, new, conversations, turns)
                    found[name] = max(found[name], per_core(process, at, traffic, turns))
        told = "  ".join(f"{name} {n:8,.0f}" for name, n in found.items())
        mb = found["gateway"] * size / 1e6
        print(f"gateway {size // 1000:>4} kB a span, spans/s/core:  {told}   ({mb:,.0f} MB/s)", flush=True)


# ---- memory


def held(port: str, conversations: int, minutes: float, turns: int, rate: float, life: int | None) -> None:
    """Resident memory over the idle process, while ``conversations`` go on: none ends, or each after ``life`` turns.
    ``rate``: spans a second at most."""
    metrics = f"127.0.0.1:{free_port()}"
    with (
        gateway(port, "--admin", metrics) as (process, at),
        grpc.insecure_channel(f"127.0.0.1:{at}", ANY) as channel,
    ):
        export = channel.unary_unary(EXPORT)
        idle = memory(process)
        traffic = Traffic(2_000, 120, conversations, most=life)
        if rate:
            traffic.per_batch = min(traffic.per_batch, 100)
        begun = time.monotonic()
        turn = sent = 0
        while turn < turns or time.monotonic() - begun < minutes * 60:
            turn += 1
            for body, n in traffic.turn(time.time_ns() - 40 * SECOND):
                export(body, timeout=120)
                sent += n
                if rate:
                    time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
            over = memory(process) - idle
            took = time.monotonic() - begun
            print(
                f"gateway {conversations:,} conversations, turn {turn}, {took:.0f} s: {over:,.0f} MB over {idle:,.0f}, "
                f"{sent:,} spans, {analysed(metrics):,} of them analysed, {cpu(process):.0f} s of CPU",
                flush=True,
            )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def analysed(admin: str) -> int:
    """Spans, by the gateway's own word."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return round(
        sum(
            float(n) for n in re.findall(r'otelctx_self_spans_total{[^}]*result="analysed"[^}]*} (\S+)', text)
        )
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0, help="so long the memory is watched")
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=6, help="turns of each conversation at least")
    parser.add_argument(
        "--rate", type=float, default=0, help="spans a second at most (0: as fast as it goes)"
    )
    parser.add_argument("--life", type=int, help="turns after which a conversation ends and another begins")
    parser.add_argument("--rounds", type=int, default=2, help="of the speed")
    parser.add_argument("--only", choices=("speed", "memory"))
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.sink:
        sink()
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        started([sys.executable, __file__, "--sink"], "stdout") as (_, port),
    ):
        if given.only != "memory":
            speed(port.strip(), Path(folder), given.rounds)
        if given.only != "speed":
            held(port.strip(), given.conversations, given.minutes, given.turns, given.rate, given.life)


if __name__ == "__main__":
    main()
