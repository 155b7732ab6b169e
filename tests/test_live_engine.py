"""The live engine: said at once, settled once, and settled figures equal to a dump's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ctx.engine import Engine, LiveEngine
from otel_ctx.inputs import Batch, read
from otel_ctx.model import Reading, Said

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(p.name for p in CORPUS.iterdir() if (p / "traces.jsonl.gz").exists()) if CORPUS.exists() else []
SECOND = 1_000_000_000


def batches(case: str) -> Iterator[Batch]:
    yield from read([p for p in (CORPUS / case / "traces.jsonl.gz", CORPUS / case / "logs.jsonl.gz") if p.exists()])


def offline(case: str) -> list[Reading]:
    engine = Engine()
    for b in batches(case):
        engine.feed(b.spans, b.logs)
    return list(engine.close().readings)


def live(case: str) -> tuple[list[Said], list[Said]]:
    engine = LiveEngine()
    first: list[Said] = []
    settled: list[Said] = []
    for b in batches(case):
        first += engine.feed(b.spans, b.logs)
        ends = [s.end_unix_nano for s in b.spans]
        if ends:
            settled += engine.advance(max(ends) + SECOND)
    settled += engine.drain()
    return first, settled


def figures(r: Reading) -> tuple[object, ...]:
    """What must not depend on when it was said; spans may have been told of in another order."""
    c = r.call
    return (
        c.id, c.model, c.usage, c.completeness, r.conversation, r.turn, r.relation, r.previous, r.context, r.tokens,
        r.break_, r.findings, r.gap, [s.digest for s in c.prompt],
    )  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_settled_figures_are_those_of_a_dump(case: str) -> None:
    _, settled = live(case)
    assert [figures(s.reading) for s in settled] == [figures(r) for r in offline(case)]


@pytest.mark.parametrize("case", CASES)
def test_every_call_is_said_once_and_settles_once(case: str) -> None:
    first, settled = live(case)
    said = [s.reading.call.id for s in first if not s.again]
    assert len(said) == len(set(said))
    ids = [s.reading.call.id for s in settled]
    assert len(ids) == len(set(ids))
