"""A dump of 2 GB through the command: time, peak of memory, and how much of it is reading the JSON alone.

    python tests/bench/huge.py --gigabytes 2 --folder /tmp

The spans are those of ``tests/corpus``, each time of other traces, other conversations and a later hour. The file is removed
afterwards. ``--bar`` shows what a person sees at a terminal while it runs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parents[1] / "corpus"
HOUR = 3_600_000_000_000  # nanoseconds
_ID = re.compile(rb'"(traceId|spanId|parentSpanId)": ?"([0-9a-f]+)"')
_TIME = re.compile(rb'"(startTimeUnixNano|endTimeUnixNano|timeUnixNano|observedTimeUnixNano)": ?"(\d+)"')
# the provider's own id of an answer: equal ones are one call
_ANSWER = re.compile(rb"\b((?:msg|resp|chatcmpl|gen)[_-])(\w+)")

ORJSON = """
import sys, time, orjson
start, size = time.process_time(), 0
with open(sys.argv[1], "rb", 1 << 22) as lines:
    for line in lines:
        size += len(line)
        orjson.loads(line)
print(time.process_time() - start)
"""


def requests() -> list[bytes]:
    """The export requests of every case, one a line."""
    found = []
    for path in sorted(CORPUS.glob("*/*s.jsonl.gz")):
        if path.name in ("traces.jsonl.gz", "logs.jsonl.gz"):
            found += gzip.decompress(path.read_bytes()).splitlines()
    return found


def moved(line: bytes, round_: int) -> bytes:
    """The same request in another hour, of other traces."""
    mark = str(round_).encode()

    def other_id(match: re.Match[bytes]) -> bytes:
        name, old = match.groups()
        return b'"%s":"%s"' % (
            name,
            hashlib.blake2b(mark + old, digest_size=len(old) // 2).hexdigest().encode(),
        )

    line = _ID.sub(other_id, line)
    line = _TIME.sub(lambda m: b'"%s":"%d"' % (m[1], int(m[2]) + round_ * HOUR if int(m[2]) else 0), line)
    return _ANSWER.sub(rb"\g<1>\g<2>r" + mark, line)


def write(path: Path, size: int) -> tuple[int, int]:
    """Bytes and lines written."""
    lines, done, count = requests(), 0, 0
    with path.open("wb") as out:
        for round_ in range(1, 1 << 30):
            for line in lines:
                data = moved(line, round_) + b"\n"
                out.write(data)
                done, count = done + len(data), count + 1
                if done >= size:
                    return done, count
    raise AssertionError


def timed(command: list[str], terminal: bool) -> tuple[float, float, int, str, str]:
    """Wall seconds, CPU seconds, peak bytes, what came on stderr and on stdout; with ``terminal`` stderr is one."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        read, write = pty.openpty() if terminal else os.pipe()
        child = subprocess.Popen(command, stdout=out, stderr=write)
        os.close(write)
        shown = b"".join(_until_closed(read))
        out.seek(0)
        printed = out.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}: {shown.decode(errors='replace')[-2000:]}")
    unit = 1 if sys.platform == "darwin" else 1024
    took = time.monotonic() - start
    return (
        took,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * unit,
        shown.decode(errors="replace"),
        printed.decode(errors="replace"),
    )


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(descriptor, 1 << 16)
        except OSError:  # the other side is gone
            return
        if not data:
            return
        yield data


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--bar", action="store_true", help="show some of the states of the progress bar")
    given = parser.parse_args()
    path = given.folder / f"huge-{os.getpid()}.otlp.jsonl"
    try:
        size, lines = write(path, int(given.gigabytes * 1e9))
        print(f"{size / 1e9:.2f} GB, {lines:,} export requests", flush=True)
        alone = float(
            subprocess.run([sys.executable, "-c", ORJSON, path], capture_output=True, check=True).stdout
        )
        print(f"orjson alone over its lines  {alone:7.1f} s CPU  {size / 1e6 / alone:6.1f} MB/s", flush=True)
        wall, cpu, peak, said, report = timed(
            [sys.executable, "-m", "otel_ctx_cli", "analyze", str(path)], given.bar
        )
        print(
            f"otelctx analyze              {cpu:7.1f} s CPU  {size / 1e6 / cpu:6.1f} MB/s  {wall:.1f} s wall"
        )
        print(f"peak {peak / (1 << 20):,.0f} MiB; {cpu / alone:.2f} times orjson")
        states = [state for state in re.split(r"\r?\x1b\[K|\r", said) if "records read" in state]
        for state in states[:: max(1, len(states) // 8)]:
            print(f"  {state.strip()}")
        print("\n".join(report.splitlines()[:2]))
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
