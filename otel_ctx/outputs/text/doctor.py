"""What each library in a dump gives and withholds, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ctx.model import Analysis, Library, Withheld
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.report import Inputs
from otel_ctx.outputs.text.layout import (
    BLANK,
    DOT,
    Line,
    Run,
    clip_middle,
    facts,
    fit,
    line,
    many,
    paragraph,
)
from otel_ctx.outputs.views.listing import not_joined

MIN_WIDTH = 40
_GIVES, _WITHHOLDS, _DOUBLE = "gives", "withholds", "double"
_INDENT = 2 + len(_WITHHOLDS) + 2


def render(analysis: Analysis, inputs: Inputs, *, width: int = 80) -> Iterator[Line]:
    """One block a library, and a last line that says whether anything is to be mended."""
    width = max(width, MIN_WIDTH)
    told = (*_head(analysis, inputs, width), *_libraries(analysis, width), *_apart(analysis, width))
    for one in (*told, *_verdict(analysis)):
        yield fit(one, width)


def _head(analysis: Analysis, inputs: Inputs, width: int) -> Iterator[Line]:
    items = [many(inputs.telemetry, "file"), many(analysis.spans, "record")]
    if analysis.log_records:
        items.append(many(analysis.log_records, "log record"))
    items += [many(len(analysis.readings), "call"), _counted(len(analysis.libraries))]
    yield from facts(items, width, 0, "strong")


def _libraries(analysis: Analysis, width: int) -> Iterator[Line]:
    for library in analysis.libraries:
        yield BLANK
        note = DOT.join(_roles(library))
        name = clip_middle(_name(library), max(width - cells(note) - 2, MIN_WIDTH // 2))
        gap = max(width - cells(name) - cells(note), 2)
        yield line(Run(name, "title"), " " * gap, Run(note, "dim"))
        yield from _labelled(_GIVES, facts(_given(library), width, _INDENT))
        for withheld in library.withholds:
            yield from _withheld(withheld, width)
    for scope, spans in analysis.foreign:
        yield BLANK
        yield line(Run(escape(scope), "title"))
        words = f"{many(spans, 'span')} that look like calls to a model, of a library that is not known here"
        yield from paragraph(words, width, 2, "notice")


def _name(library: Library) -> str:
    name = f"{library.scope} {library.version}".strip()
    return escape(name or f"(no scope: {', '.join(library.dialects)})")


def _roles(library: Library) -> Iterator[str]:
    told = library.calls or library.again or library.sums
    if library.calls or not (told or library.gives):
        yield many(library.calls, "call")
    if library.gives and not told:
        yield "adds to the calls of others"  # log records beside spans, say
    if library.again:
        yield f"{many(library.again, 'call')} that another tells of too"
    if library.sums and not library.calls:
        yield many(library.sums, "sum")


def _given(library: Library) -> list[str]:
    """What it gives; of what only some of its calls have, of how many."""
    calls = library.calls + library.again
    return [f"{what} ({n:,} of {calls:,})" if n < calls else what for what, n in library.gives] or ["nothing"]


def _withheld(withheld: Withheld, width: int) -> Iterator[Line]:
    title = escape(withheld.title)
    if withheld.calls:
        title = f"{title} ({many(withheld.calls, 'call')})"
    label = _DOUBLE if withheld.lost == _DOUBLE else _WITHHOLDS
    yield from _labelled(label, paragraph(title, width, _INDENT, "notice"))
    yield from paragraph(escape(withheld.fix), width, _INDENT, "", "fix   ")


def _labelled(label: str, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines, which are indented, with ``label`` in front of the first."""
    for i, one in enumerate(lines):
        yield line(Run(f"  {label:<{_INDENT - 2}}", "dim"), *one[1:]) if i == 0 else one


def _apart(analysis: Analysis, width: int) -> Iterator[Line]:
    words = not_joined(analysis.readings)
    if words:
        yield BLANK
        yield from paragraph(words, width, 0, "notice")


def _verdict(analysis: Analysis) -> Iterator[Line]:
    yield BLANK
    if not analysis.readings:
        yield line(Run("No model call in this input.", "notice"))
        return
    lacking = sum(any(w.lost != _DOUBLE for w in library.withholds) for library in analysis.libraries)
    if lacking:
        verb = "withholds" if lacking == 1 else "withhold"
        yield line(f"{_counted(lacking)} of {len(analysis.libraries):,} {verb} something.")
    else:
        yield line(Run("Nothing is withheld.", "good"))


def _counted(libraries: int) -> str:
    return f"{libraries:,} {'library' if libraries == 1 else 'libraries'}"
