"""``otelctx findings``: what is wrong, where, and the fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.asking import Question, include_text_option, json_option, question_options, redact_option
from otel_ctx_cli.reading import one_of
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell

if TYPE_CHECKING:
    from otel_ctx.model import Finding
    from otel_ctx.outputs.text import Line
    from otel_ctx.outputs.text.view import View

_SEVERITIES = ("error", "warning", "info")


def _kinds(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if values:
        from otel_ctx.findings.kinds import KINDS

        for value in values:
            if not any(fnmatchcase(kind, value) for kind in KINDS):
                one_of(value, sorted(KINDS))
    return values


@click.command(short_help="List what is wrong, where, and the fix.", no_args_is_help=True)
@question_options
@click.option(
    "-k",
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    callback=_kinds,
    help="Only findings of this kind; * stands for anything. `otelctx explain` lists them.",
)
@click.option(
    "--severity", type=click.Choice(_SEVERITIES), help="Only findings that are at least this severe."
)
@json_option
@include_text_option
@redact_option
@click.option("-v", "--verbose", count=True, help="Name every conversation and turn; twice: call ids too.")
@version_option
def command(
    question: Question,
    kinds: tuple[str, ...],
    severity: str | None,
    json_path: str | None,
    include_text: bool,
    redact: bool,
    verbose: int,
) -> None:
    """All findings, the most severe first: what it is, where it stands, which calls suffer from it, what it cost, and how
    it is mended. What could not be checked comes last.

    \b
    Examples:
      otelctx findings dump.jsonl
      otelctx findings dump.jsonl --kind 'tool*' --kind volatile_prefix
      otelctx findings dump.jsonl --severity warning --agent planner --json -
    """  # fmt: skip
    check_target(json_path, question.paths)
    if include_text and json_path is None:
        raise click.UsageError("--include-text is about the JSON: it needs --json FILE.")

    from otel_ctx.outputs import data
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.findings import ordered
    from otel_ctx.outputs.text.view import view
    from otel_ctx_cli.terminal import width

    report = question.report(show_text=include_text or not redact)
    least = _SEVERITIES.index(severity) if severity else len(_SEVERITIES)
    found = ordered([
        f
        for f in report.findings
        if _SEVERITIES.index(f.severity) <= least
        and (not kinds or any(fnmatchcase(f.kind, kind) for kind in kinds))
    ])  # fmt: skip
    shown = replace(report.analysis, findings=tuple(found))
    seen = view(shown, report.inputs, width(), verbose, not redact)
    tell(
        json_path,
        lambda: dumps(data.findings(found, report.analysis, include_text=include_text)),
        lambda: _lines(seen, filtered=len(found) < len(report.findings)),
    )


def _lines(view: View, *, filtered: bool) -> Iterator[Line]:
    from otel_ctx.outputs.text.findings import every, unseen
    from otel_ctx.outputs.text.layout import Run, fitted, line

    found: tuple[Finding, ...] = view.analysis.findings
    if not view.analysis.readings:
        yield line(Run("No model call in this input.", "notice"))
    elif not found:
        yield line("No such finding." if filtered else "Nothing found in what could be seen.")
    else:
        yield from every(view)
    yield from fitted(unseen(view), view.width)
