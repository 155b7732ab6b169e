"""Predicted against reported read tokens over a folder of dumps: ``python -m tests.predicted FOLDER``.

A row a provider and platform: calls with both numbers, those that agree to 64 tokens or 3 %, and the others by what stands
in the report of them. ``-v`` names the calls that disagree.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from otel_ctx.engine import Engine
from otel_ctx.errors import OtelCtxError
from otel_ctx.inputs import read
from otel_ctx.model import Reading
from otel_ctx.rules import Rules, load

FRAME, SHARE = 64, 0.03
DUMPS = ("traces.jsonl.gz", "logs.jsonl.gz")


def group(r: Reading, rules: Rules) -> str:
    """Why the two may differ, "" where they agree."""
    access, call = r.access, r.call
    assert access is not None
    assert access.predicted is not None
    assert access.reported is not None
    predicted, reported = access.predicted.read, access.reported.read
    if abs(predicted - reported) <= max(FRAME, SHARE * max(predicted, reported)):
        return ""
    family = rules.model(call.model, call.platform or call.provider)
    if family is not None and family.engine in ("auto_best_effort", "auto_units"):
        return "nothing is promised: an upper bound"
    if call.completeness.status != "full":
        reasons = ",".join(sorted(call.completeness.reasons))
        return f"not all was recorded ({reasons})"
    if r.relation in ("new", "forks", "joined"):
        return f"{r.relation}: an entry of another conversation"
    if any(s.kind == "image" for s in call.prompt.messages):
        return "images"
    if predicted > reported:
        return f"predicted more: {r.cause or 'no cause'}"
    return f"predicted less: {r.cause or 'no cause'}"


def readings(folder: Path) -> Iterator[tuple[str, Reading]]:
    for case in sorted(p for p in folder.iterdir() if p.is_dir()):
        paths = [case / name for name in DUMPS if (case / name).exists()]
        if not paths:
            continue
        engine = Engine()
        try:
            for batch in read(paths):
                engine.feed(batch.spans, batch.logs)
        except OtelCtxError:
            continue
        for r in engine.close().readings:
            yield case.name, r


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.predicted", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args(arguments)
    rules, out = load(), sys.stdout.write
    seen: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for case, r in readings(options.folder):
        who = f"{r.call.provider or '?'}/{r.call.platform or '?'}"
        seen[who] += 1
        if r.access is None or r.access.predicted is None or r.access.reported is None:
            continue
        why = group(r, rules)
        rows[who][why] += 1
        if why and options.verbose:
            out(
                f"{case} turn {r.turn} {r.call.model}: {r.access.predicted.read} against {r.access.reported.read}: {why}\n"
            )
    out(f"{'provider/platform':<32}{'calls':>7}{'both':>7}{'agree':>7}{'differ':>8}\n")
    for who in sorted(rows):
        both = rows[who].total()
        out(f"{who:<32}{seen[who]:>7}{both:>7}{rows[who]['']:>7}{both - rows[who]['']:>8}\n")
        for why, n in rows[who].most_common():
            if why:
                out(f"{'':<6}{n:>5}  {why}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
