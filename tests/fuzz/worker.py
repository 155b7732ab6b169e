"""One target for some seconds, in a process of its own: by atheris where that is installed, else by hypothesis."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
import warnings
from pathlib import Path

LIMIT = 4096  # MiB of the process; libFuzzer ends it there, and that is a find
HANG = 120  # seconds of one input


def by_atheris(target: str, seconds: int, folder: Path, seed: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["otel_ctx"]):
        import otel_ctx

        for module in pkgutil.walk_packages(otel_ctx.__path__, "otel_ctx."):
            if not module.name.startswith("otel_ctx.live"):
                importlib.import_module(module.name)
    from tests.fuzz import seeds
    from tests.fuzz.finds import Finds

    start, grown = folder / "seeds" / target, folder / "corpus" / target
    for made in (start, grown, folder / "finds"):
        made.mkdir(parents=True, exist_ok=True)
    for n, seed_ in enumerate(seeds.seeds(target)):
        (start / f"{n:04}").write_bytes(seed_)
    words = folder / f"{target}.dict"
    words.write_text(seeds.as_dictionary(seeds.dictionary()))
    finds = Finds(folder / "finds")
    options = {
        "max_total_time": seconds, "max_len": seeds.LONGEST, "dict": words, "seed": seed, "timeout": HANG,
        "report_slow_units": HANG, "rss_limit_mb": LIMIT, "artifact_prefix": f"{folder / 'finds'}/{target}-",
        "print_final_stats": 1, "verbosity": 0,
    }  # fmt: skip
    for seed_ in seeds.seeds(target)[:20]:  # what is loaded once is no cost of the input that comes first
        finds.tried(target, seed_)
    atheris.Setup(
        [sys.argv[0], *(f"-{k}={v}" for k, v in options.items()), str(grown), str(start)],
        lambda data: finds.tried(target, data),
    )
    atheris.Fuzz()


def by_hypothesis(target: str, seconds: int, folder: Path, seed: int) -> None:
    """Mutations of the seeds, without a look at what they reach."""
    import hypothesis
    from hypothesis import strategies as st

    from tests.fuzz import seeds
    from tests.fuzz.finds import Finds

    finds = Finds(folder / "finds")
    bits = st.binary(max_size=20) | st.sampled_from(seeds.dictionary())
    edits = st.lists(st.tuples(st.integers(0, seeds.LONGEST), st.integers(0, 30), bits), max_size=6)
    started = st.sampled_from(seeds.seeds(target))
    end, count = time.monotonic() + seconds, 0

    @hypothesis.settings(
        max_examples=200, deadline=None, database=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(started | st.binary(max_size=2000), edits)
    def one(data: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        nonlocal count
        if time.monotonic() >= end:
            return
        count += 1
        for at, length, put in edits:
            at %= len(data) + 1
            data = data[:at] + put + data[at + length :]
        finds.tried(target, data)

    while time.monotonic() < end:
        hypothesis.seed(seed)(one)()
        seed += 1
    print(f"stat::number_of_executed_units: {count}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--engine", choices=("atheris", "hypothesis"), required=True)
    given = parser.parse_args()
    warnings.simplefilter("error")
    (by_atheris if given.engine == "atheris" else by_hypothesis)(
        given.target, given.seconds, given.folder, given.seed
    )


if __name__ == "__main__":
    main()
