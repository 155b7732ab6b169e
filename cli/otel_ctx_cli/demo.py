"""``otelctx demo``: a tour on two recordings that come with the package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.main import Failure
from otel_ctx_cli.version import version_option

if TYPE_CHECKING:
    from otel_ctx.outputs.text import Line
    from otel_ctx.reports import Report

_NAMES = ("broken.jsonl.gz", "mended.jsonl.gz")


@click.command(short_help="A tour on a recording that comes with otelctx.")
@click.option(
    "--keep",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="Put the two recordings there, to go on with. Files that are there stay what they are.",
)
@version_option
def command(folder: str | None) -> None:
    """A tour in five steps: which conversation needs help, why its prompt cache missed, which characters did that, what it
    cost, and whether the mended one is better.

    The two recordings are of one and the same support agent, eight calls to Claude each, as OpenInference's instrumentation
    of the Anthropic client wrote them: once with the time in its system prompt, once without. Nothing is sent anywhere.

    \b
    Examples:
      otelctx demo
      otelctx demo --keep tour && otelctx analyze tour/broken.jsonl.gz
    """  # fmt: skip
    from otel_ctx_cli.terminal import print_lines

    recordings = {name: (files("otel_ctx_cli") / "tour" / name).read_bytes() for name in _NAMES}
    if folder is not None:
        _keep(Path(folder), recordings)
    broken, mended = (_report(name, data) for name, data in recordings.items())
    print_lines(_tour(broken, mended, folder))


def _keep(folder: Path, recordings: dict[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in recordings.items():
            with (folder / name).open("xb") as stream:
                stream.write(data)
    except FileExistsError as error:
        raise Failure(f"{click.format_filename(error.filename)} is there already.") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Failure(f"{click.format_filename(folder)}: cannot be written: {why}") from None


def _report(name: str, data: bytes) -> Report:
    """As of a file of that name."""
    from io import BytesIO

    from otel_ctx.engine import Settings
    from otel_ctx.reports import report_of

    report = report_of(["-"], Settings(), stdin=BytesIO(data))
    named = tuple(replace(source, path=name) for source in report.inputs.files)
    return replace(report, inputs=replace(report.inputs, files=named))


def _tour(broken: Report, mended: Report, folder: str | None) -> Iterator[Line]:
    from otel_ctx.outputs.text.diff import diff, summaries
    from otel_ctx.outputs.text.findings import every
    from otel_ctx.outputs.text.layout import BLANK, paragraph
    from otel_ctx.outputs.text.listing import listing as conversations
    from otel_ctx.outputs.text.prefix import prefixes
    from otel_ctx.outputs.text.view import view
    from otel_ctx.outputs.views.listing import listing, numbering
    from otel_ctx.outputs.views.sides import difference, side, whole
    from otel_ctx_cli.terminal import width

    columns, (before, after) = width(), _NAMES
    numbers = numbering(broken.analysis)
    seen = view(broken.analysis, broken.inputs, columns, 0, True)

    yield from paragraph(
        "A support agent called Claude eight times. Its spans, as an instrumentation wrote them, are all there is.",
        columns,
        0,
    )
    yield from _step(1, "Which conversation needs help?", f"conversations {before}", columns)
    yield from conversations(seen, listing(broken.analysis), numbers)

    yield from _step(2, "Nothing came from the cache. Why?", f"cache {before} --turn -4", columns)
    late = broken.select(turn="-4")
    lines = prefixes(view(late.analysis, late.inputs, columns, 0, True), late.conversations)
    yield from dropwhile(lambda line: line == BLANK, lines)

    yield from _step(3, "Which characters are that?", f"diff {before} :1 :2", columns)
    sides = side(broken.analysis, ":1"), side(broken.analysis, ":2")
    yield from diff(difference(*sides, broken.text), broken.text, width=columns)

    yield from _step(4, "How is it mended?", f"findings {before} --severity error", columns)
    errors = tuple(f for f in broken.findings if f.severity == "error")
    worst = replace(broken.analysis, findings=errors)
    yield from every(view(worst, broken.inputs, columns, 0, True))

    yield from _step(5, "Did that help?", f"diff {before} {after}", columns)
    found = difference(whole(broken.analysis, before), whole(mended.analysis, after), mended.text)
    yield from dropwhile(lambda line: line == BLANK, summaries(found, columns))
    yield BLANK
    yield from _on(folder, columns)


def _step(number: int, question: str, command_: str, columns: int) -> Iterator[Line]:
    from otel_ctx.outputs.text.layout import BLANK, Run, line

    yield BLANK
    yield line(Run("─" * columns, "dim"))
    yield line(Run(f"{number}  {question}", "strong"))
    yield line(Run(f"   $ otelctx {command_}", "chart"))
    yield BLANK


def _on(folder: str | None, columns: int) -> Iterator[Line]:
    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.text.layout import Run, line, paragraph

    where = escape(folder) if folder is not None else ""
    yield line(Run("─" * columns, "dim"))
    yield from paragraph("Now with a dump of your own: otelctx analyze DUMP.", columns, 0, "strong")
    told = (
        f"The two recordings are in {where}."
        if where
        else "otelctx demo --keep FOLDER gives you these two recordings."
    )
    yield from paragraph(f"{told} otelctx doctor DUMP says what your instrumentation leaves out.", columns, 0)
