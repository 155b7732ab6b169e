"""``make bench``: the product against the floor in the same run, and how its cost grows with depth.

CPU time of this process, in milliseconds, the best of interleaved rounds: what is left when the machine was not busy with
something else. A ratio is what counts: it holds on any machine.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import floor
import live
import sessions

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import read
from otel_ctx.model import Analysis
from otel_ctx.outputs import report
from otel_ctx.tokens import Counter


def analyse(path: Path) -> bytes:
    """What ``otelctx analyze PATH --json -`` does after its start."""
    engine = Engine(Settings())
    files = []
    for batch in read([path]):
        files.append(report.Source(batch.source, batch.format, len(batch.spans), len(batch.logs)))
        engine.feed(batch.spans, batch.logs)
    return report.dumps(report.build(engine.close(), report.Inputs(tuple(files), ())))


def cpu_ms(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    end = time.process_time()
    gc.enable()
    return (end - start) * 1000


def against_floor(session: sessions.Session, folder: Path, rounds: int) -> None:
    path = folder / f"{session.name}.jsonl"
    path.write_bytes(b"".join(sessions.lines(session)))
    flat = folder / f"{session.name}_flat.jsonl"
    flat.write_bytes(b"".join(sessions.lines(session, flat=True)))
    counter = Counter()
    counter.count("warm", "o200k_base")

    def count(text: str) -> int:
        return counter.count(text, "o200k_base")[0]

    low: list[float] = []
    high: list[float] = []
    for _ in range(rounds):
        low.append(cpu_ms(lambda: floor.run(path.read_bytes(), count)))
        high.append(cpu_ms(lambda: analyse(path)))
    apart = [cpu_ms(lambda: analyse(flat)) for _ in range(max(2, rounds // 5))]
    print(
        f"{session.name:<12}{session.requests:>5} requests {sessions.segments(session):>7,} segments  "
        f"floor {min(low):7.1f} ms  product {min(high):7.1f} ms  ratio {min(high) / min(low):5.2f}  "
        f"(of medians {statistics.median(high) / statistics.median(low):.2f})   flat attributes {min(apart):7.1f} ms"
    )


def per_call(session: sessions.Session, first: int, calls: int) -> tuple[float, int]:
    """CPU milliseconds that each of ``calls`` calls from ``first`` on adds, and their depth in tokens.

    The first call of a window reads a history that it has not seen grow, and what is said at the end of a dump is said once
    a conversation: a window of that call alone costs as much, and is taken off."""
    took, judging, analysis = _window(session, first, calls)
    _, once, _ = _window(session, first + calls - 1, 1)
    return (
        statistics.median(took[1:]) + (judging - once) / (calls - 1),
        analysis.readings[calls // 2].tokens.counted,
    )


def _window(session: sessions.Session, first: int, calls: int) -> tuple[list[float], float, Analysis]:
    engine = Engine(Settings())
    took = []
    for i in range(first, first + calls):
        span = sessions.span(session, i)
        took.append(cpu_ms(lambda span=span: engine.feed([span])))
    analysis: list[Analysis] = []
    return took, cpu_ms(lambda: analysis.append(engine.close())), analysis[0]


def slope(requests: int, near: int, calls: int = 40) -> None:
    """The engine's cost of a call deep in a conversation against one near its beginning; messages as JSON strings."""
    session = sessions.deep(requests)
    per_call(session, near, calls)
    low, shallow = per_call(session, near, calls)
    high, depth = per_call(session, requests - calls, calls)
    print(
        f"{'deep':<12}a call at {shallow:,} tokens {low:.3f} ms, at {depth:,} tokens {high:.3f} ms  slope {high / low:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--deep", type=int, default=1000, help="requests of the deep conversation (about 1,000 tokens each)"
    )
    args = parser.parse_args()
    counter = Counter()
    counter.count("warm", "o200k_base")
    print(
        f"Python {platform.python_version()}, tokenizer {counter.engine}; CPU milliseconds, best of {args.rounds} rounds"
    )
    with tempfile.TemporaryDirectory() as folder:
        for session in (sessions.flagship24(), sessions.long300()):
            against_floor(session, Path(folder), args.rounds)
    slope(args.deep, 1)
    live.main()


if __name__ == "__main__":
    main()
