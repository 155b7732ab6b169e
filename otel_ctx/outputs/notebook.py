"""A report in a notebook's cell: a few tables of plain HTML, no script, no prompt text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape as html_escape

from otel_ctx.model import SEVERITIES, Analysis
from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.views.listing import listing
from otel_ctx.outputs.views.names import held_back
from otel_ctx.outputs.views.summary import summary
from otel_ctx.outputs.views.words import many, percent

_CONVERSATIONS = 20
_FINDINGS = 20
_RIGHT = ' style="text-align:right"'
_LEFT = ' style="text-align:left"'


def render(analysis: Analysis) -> str:
    """A fragment for ``_repr_html_``."""
    return "".join(_parts(held_back(analysis)))


def _parts(analysis: Analysis) -> Iterator[str]:
    if not analysis.readings:
        yield "<p>No model call in this input.</p>"
        return
    s = summary("", analysis.readings)
    facts = [many(s.calls, "call"), many(s.conversations, "conversation"), f"{_number(s.input)} tokens in"]
    if s.hit_ratio is not None:
        facts.append(f"{_text(percent(s.hit_ratio, 1))} cached")
    if s.wasted:
        facts.append(f"<b>{s.wasted:,} tokens billed again</b>")
    yield f"<p>{' · '.join(facts)}</p>"
    entries = listing(analysis)
    rows = [
        (
            str(e.number),
            _text(
                " › ".join((*e.conversation.services[:1], *e.conversation.agents[:1]))
                or e.conversation.id[:8]
            ),
            _text(", ".join(e.conversation.models[:2]) or "–"),
            f"{e.summary.calls:,}",
            _number(e.summary.depth),
            "–" if e.utilization is None else _text(percent(e.utilization, 1)),
            _number(None if e.conversation.headroom_turns is None else int(e.conversation.headroom_turns)),
            _number(e.summary.wasted),
        )
        for e in entries[:_CONVERSATIONS]
    ]
    names = ("#", "conversation", "model", "turns", "depth", "full", "turns left", "billed again")
    yield from _table(names, rows, left={1, 2})
    yield from _more(len(entries) - _CONVERSATIONS, "conversation")
    found = sorted(
        analysis.findings, key=lambda f: (SEVERITIES.index(f.severity), -(f.usd or 0.0), -f.tokens)
    )
    if found:
        rows_ = [
            (f.severity, _text(f.title), _text(f.path or "–"), f"{f.tokens:,}", _text(f.fix))
            for f in found[:_FINDINGS]
        ]
        yield from _table(("severity", "finding", "where", "tokens", "fix"), rows_, left={0, 1, 2, 4})
        yield from _more(len(found) - _FINDINGS, "finding")


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], left: set[int]) -> Iterator[str]:
    style = [_LEFT if i in left else _RIGHT for i in range(len(names))]
    yield "<table><thead><tr>"
    yield "".join(f"<th{at}>{name}</th>" for name, at in zip(names, style, strict=True))
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td{at}>{cell}</td>" for cell, at in zip(row, style, strict=True)) + "</tr>"
    yield "</tbody></table>"


def _more(hidden: int, what: str) -> Iterator[str]:
    if hidden > 0:
        yield f"<p>… and {hidden:,} more {what}{'' if hidden == 1 else 's'}</p>"


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _text(text: str) -> str:
    return html_escape(escape(text))
