"""``make fuzz``: every target in turn, for so many seconds together; exits with 1 where anything was found.

    python -m tests.fuzz.run --seconds 600 --workers 2
    python -m tests.fuzz.run --replay .fuzz/finds/sniffed-0123456789ab

What was learnt stays in ``.fuzz`` and is where the next run starts. A find lies in ``.fuzz/finds``, beside what it did.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.targets import TARGETS, run

SLICE = 300  # seconds of one process: each begins with all that is known, and that takes a while
_COUNT = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def fuzz(target: str, seconds: int, folder: Path, engine: str) -> tuple[str, int]:
    """One slice; how many inputs were run."""
    log = folder / f"{target}-{time.time_ns()}.log"
    arguments = [
        target, "--seconds", str(seconds), "--folder", str(folder), "--engine", engine,
        "--seed", str(random.randrange(1, 1 << 31)),
    ]  # fmt: skip
    with log.open("wb") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.worker", *arguments], stdout=out, stderr=out, check=False
        )
    said = log.read_text("utf-8", "replace")
    for line in said.splitlines():
        if line.startswith("FIND "):
            print(line, flush=True)
    if ended.returncode:
        print(f"FIND {target}: the process ended with {ended.returncode}, see {log}", flush=True)
    else:
        log.unlink()
    return target, sum(map(int, _COUNT.findall(said)))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=600, help="of wall time, together")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--target", choices=tuple(TARGETS), action="append", help="[default: all]")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"))
    parser.add_argument(
        "--engine", choices=("atheris", "hypothesis"), help="[default: atheris, if it is installed]"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FIND", help="run one input again, and raise what it raises"
    )
    given = parser.parse_args()
    if given.replay:
        run(given.replay.name.partition("-")[0], given.replay.read_bytes())
        print("nothing is wrong with it any more")
        return 0

    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    targets = given.target or list(TARGETS)
    given.folder.mkdir(parents=True, exist_ok=True)
    known = {path.name for path in (given.folder / "finds").glob("*")}
    slices = max(1, round(given.seconds * given.workers / SLICE / len(targets)))
    seconds = max(1, given.seconds * given.workers // (slices * len(targets)))
    print(
        f"{engine} on Python {sys.version.split()[0]}: {len(targets)} targets, {given.seconds} s, {given.workers} at once"
    )
    counts = dict.fromkeys(targets, 0)
    with ThreadPoolExecutor(given.workers) as pool:
        jobs = [pool.submit(fuzz, t, seconds, given.folder, engine) for _ in range(slices) for t in targets]
        for job in jobs:
            target, count = job.result()
            counts[target] += count
            print(f"{time.strftime('%H:%M:%S')}  {target:<10}{counts[target]:>12,} inputs", flush=True)
    found = sorted(path.name for path in (given.folder / "finds").glob("*") if path.name not in known)
    print(f"{sum(counts.values()):,} inputs, {len(found)} files of finds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
