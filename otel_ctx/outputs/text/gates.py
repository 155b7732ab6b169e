"""``otelctx check``: a line for each gate, with the evidence under it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.text.layout import BLANK, Line, Run, Style, facts, line, paragraph
from otel_ctx.outputs.views.gates import Result, Verdict

WORDS: Mapping[Result, str] = {"pass": "PASS", "fail": "FAIL", "not_checked": "NOT CHECKED"}
_STYLES: Mapping[Result, Style] = {"pass": "good", "fail": "alarm", "not_checked": "notice"}
_COUNTED: Sequence[tuple[Result, str]] = (
    ("fail", "failed"),
    ("not_checked", "not checked"),
    ("pass", "passed"),
)


def verdicts(found: Sequence[Verdict], strict: bool, width: int) -> Iterator[Line]:
    room = max(len(WORDS[v.result]) for v in found) + 2
    for v in found:
        yield line(Run(f"{WORDS[v.result]:<{room}}", _STYLES[v.result]), Run(asked(v), "strong"))
        yield from paragraph(escape(v.told), width, room)
    yield BLANK
    counts = {result: sum(v.result == result for v in found) for result, _ in _COUNTED}
    words = [f"{counts[result]} {word}" for result, word in _COUNTED if counts[result]]
    yield from facts(words, width, 0)
    if counts["not_checked"] and strict:
        yield from paragraph("What was not checked fails: --lenient lets it through.", width, 0, "dim")


def asked(v: Verdict) -> str:
    """The gate as its option is written."""
    name = v.gate.replace("_", "-")
    return name if v.bound is None else f"{name} {shown(v.bound)}"


def shown(bound: float) -> str:
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:,g}"
