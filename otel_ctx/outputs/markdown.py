"""A summary in Markdown for a comment on a pull request: short, and without prompt text unless it is asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from otel_ctx.model import SEVERITIES, Analysis, Finding
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.views.listing import Entry, listing
from otel_ctx.outputs.views.names import held_back
from otel_ctx.outputs.views.selection import mark
from otel_ctx.outputs.views.summary import only_predicted
from otel_ctx.outputs.views.totals import cost_words, totals
from otel_ctx.outputs.views.words import many, percent

_CONVERSATIONS = 10
_FINDINGS = 10
_MARKS = {"error": "🔴", "warning": "🟡", "info": "🔵"}


def render(analysis: Analysis, inputs: Inputs, *, include_text: bool = False) -> str:
    """GitHub's Markdown. Names out of telemetry stand in code, where they mean nothing else."""
    if not include_text:
        analysis = held_back(analysis)
    parts = [
        _head(analysis, inputs),
        _findings(analysis, include_text),
        _conversations(analysis),
        _unseen(analysis),
    ]
    return "\n\n".join("\n".join(lines) for part in parts if (lines := list(part))) + "\n"


def _head(analysis: Analysis, inputs: Inputs) -> Iterator[str]:
    sums = totals(analysis.readings, analysis.conversations)
    found = Counter(f.severity for f in analysis.findings)
    words = [f"{found[s]:,} {s}{'' if found[s] == 1 or s == 'info' else 's'}" for s in SEVERITIES if found[s]]
    yield f"### Context window: {' · '.join(words) or 'nothing found'}"
    if not analysis.readings:
        yield ""
        yield "No model call in this input."
        return
    usage, cost, waste = sums["usage"], sums["cost"], sums["waste"]
    facts = [f"{many(sums['calls'], 'call')} in {many(sums['conversations'], 'conversation')}"]
    if usage["input"] is not None:
        read = usage["cache_read"]
        share = (
            f", {_plain(percent(read, usage['input']))} cached" if read is not None and usage["input"] else ""
        )
        facts.append(f"{usage['input']:,} tokens in{share}")
    if waste["tokens"]:
        lost = "" if waste["usd"] is None else f" ({_usd(waste['usd'])})"
        predicted = " (predicted)" if only_predicted(r for r in analysis.readings if r.losses) else ""
        facts.append(f"**{waste['tokens']:,} tokens billed again**{lost}{predicted}")
    if cost["usd"] is not None:
        low, high = _usd(cost["usd_low"]), _usd(cost["usd_high"])
        facts.append(cost_words(analysis.readings, high if low == high else f"{low} to {high}"))
    yield ""
    yield " · ".join(facts)
    if inputs.skipped:
        yield ""
        yield f"{many(len(inputs.skipped), 'record')} of the input could not be read."


def _usd(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def _findings(analysis: Analysis, include_text: bool) -> Iterator[str]:
    found = sorted(
        analysis.findings, key=lambda f: (SEVERITIES.index(f.severity), -(f.usd or 0.0), -f.tokens)
    )
    for finding in found[:_FINDINGS]:
        yield from _finding(finding, include_text)
    if len(found) > _FINDINGS:
        yield f"- … and {len(found) - _FINDINGS:,} more"


def _finding(f: Finding, include_text: bool) -> Iterator[str]:
    about = [_code(f.kind)] + ([_code(f.path)] if f.path else [])
    if f.tokens:
        about.append(f"{f.tokens:,} tokens" + (f", {_usd(f.usd)}" if f.usd else ""))
    about.append(many(len(f.calls), "call"))
    yield f"- {_MARKS[f.severity]} **{_plain(f.title)}** ({', '.join(about)})"
    if f.severity == "info":
        return
    yield f"  {_plain(f.detail)}"
    if include_text and f.excerpt:
        yield f"  Seen: {_code(f.excerpt)}"
    if f.fix:
        yield f"  **Fix:** {_plain(f.fix)}"


def _conversations(analysis: Analysis) -> Iterator[str]:
    entries = listing(analysis)
    if not entries:
        return
    yield "| # | conversation | model | turns | depth | full | turns left | cached | billed again |"
    yield "|--:|---|---|--:|--:|--:|--:|--:|--:|"
    for entry in entries[:_CONVERSATIONS]:
        yield _row(entry)
    if len(entries) > _CONVERSATIONS:
        yield ""
        yield f"… and {len(entries) - _CONVERSATIONS:,} more"


def _row(e: Entry) -> str:
    c, s = e.conversation, e.summary
    name = " › ".join((*c.services[:1], *c.agents[:1])) or mark(c.id)
    cells: Sequence[str] = (
        str(e.number),
        _code(name),
        _code(", ".join(c.models[:2])) if c.models else "–",
        f"{s.calls:,}",
        _number(s.depth),
        "–" if e.utilization is None else _plain(percent(e.utilization, 1)),
        "–" if c.headroom_turns is None else f"{int(c.headroom_turns):,}",
        "–" if s.hit_ratio is None else _plain(percent(s.hit_ratio, 1)),
        _number(s.wasted),
    )
    return f"| {' | '.join(cells)} |"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _unseen(analysis: Analysis) -> Iterator[str]:
    """A short report must not look more certain than a long one."""
    counts = Counter(r.call.completeness.status for r in analysis.readings)
    hidden = {s: n for s, n in counts.items() if s != "full"}
    if hidden:
        told = ", ".join(f"{n:,} {s.replace('_', ' ')}" for s, n in sorted(hidden.items()))
        whole = f"of {many(len(analysis.readings), 'call')} {told}"
        yield f"<sub>Not all was seen: {whole}. What could not be checked is in the whole report.</sub>"


def _plain(text: str) -> str:
    """Text that no Markdown, HTML, mention or reference is made of."""
    out = re.sub(r"([\\`*_{}\[\]<>|~#@&!])", r"\\\1", escape(text))
    return out.replace("://", ":\\//")


def _code(text: str) -> str:
    """In a code span, inside a table too. A grave accent would end it."""
    shown = escape(text).replace("`", "ˋ").replace("|", "¦")
    return f"`{shown}`" if shown.strip() else "`–`"
