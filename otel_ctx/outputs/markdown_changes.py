"""Two dumps compared, in Markdown for a comment on a pull request; without prompt text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ctx.outputs.escape import escape
from otel_ctx.outputs.views.changes import Changes, rows
from otel_ctx.outputs.views.words import many

_MARKS: Mapping[str, str] = {
    "better": "🟢 better",
    "worse": "🔴 worse",
    "unseen": "🟡 not seen",
    "same": "",
    "": "",
}
_FINDINGS = 10


def render(found: Changes, names: tuple[str, str]) -> str:
    return "\n".join(_lines(found, names)) + "\n"


def _lines(found: Changes, names: tuple[str, str]) -> Iterator[str]:
    yield f"### Context window: {'something is worse' if found.worse else 'nothing is worse'}"
    yield ""
    yield f"| | {_code(names[0])} | {_code(names[1])} | |"
    yield "|---|--:|--:|---|"
    for f in found.figures:
        yield f"| {f.name} | {_shown(f.before, f.unit)} | {_shown(f.after, f.unit)} | {_MARKS[f.judged]} |"
    for name, unit, before, after in rows(found):
        yield f"| {name}, all calls | {_shown(before, unit)} | {_shown(after, unit)} | |"
    matched = sum(p.matched for p in found.pairs)
    yield ""
    if matched:
        counted = f"{many(found.same_calls, 'call')} in {many(matched, 'conversation')}"
        yield f"<sub>Per call and judged: the same turns, {counted}.</sub>"
    else:
        yield "<sub>No conversation of the one has a counterpart in the other: all calls are judged.</sub>"
    told = [f for f in found.findings if f.change != "kept"]
    if told:
        yield ""
    for one in told[:_FINDINGS]:
        place = f" at {_code(one.place)}" if one.place else ""
        lost = one.tokens[1] if one.change == "new" else one.tokens[0]
        yield f"- **{one.change}** {one.severity} {_code(one.kind)}{place}" + (
            f", {lost:,} tokens" if lost else ""
        )
    if len(told) > _FINDINGS:
        yield f"- … and {len(told) - _FINDINGS:,} more"


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "share":
        return f"{100 * value:.1f}%"
    if unit == "usd":
        return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"
    return f"{value:,.2f}" if unit == "number" else f"{value:,.0f}"


def _code(text: str) -> str:
    """In a code span, inside a table too. A grave accent would end it."""
    return f"`{escape(text).replace('`', 'ˋ').replace('|', '¦') or '–'}`"
