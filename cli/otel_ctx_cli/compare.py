"""``otelctx compare``: what a change did, by the dumps before and after it."""

from __future__ import annotations

from dataclasses import replace as changed
from functools import partial
from math import isnan
from pathlib import Path

import click

from otel_ctx_cli.asking import Question, json_option, question_options, verbose_option
from otel_ctx_cli.main import Failure
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, replace, tell

_WORSE = 1


def _a_number(_: click.Context, __: click.Parameter, value: float) -> float:
    if isnan(value):  # no range refuses it: every comparison with it is false
        raise click.BadParameter("nan is no number of percent.")
    return value


@click.command(
    short_help="Two dumps: what a change did to depth, cache, waste and cost.", no_args_is_help=True
)
@partial(question_options, paths="BEFORE AFTER")
@json_option
@click.option(
    "--md",
    "md_path",
    metavar="FILE",
    type=click.Path(),
    help="Write it as Markdown, for a pull request; - is stdout.",
)
@click.option("--fail-on", type=click.Choice(("worse",)), help="Exit with 1 where something is worse.")
@click.option(
    "--tolerance",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    callback=_a_number,
    default=1.0,
    show_default=True,
    help="Differences up to it are none.",
)
@verbose_option
@version_option
@click.pass_context
def command(
    context: click.Context,
    question: Question,
    json_path: str | None,
    md_path: str | None,
    fail_on: str | None,
    tolerance: float,
    verbose: int,
) -> None:
    """What a change did, by a dump before and one after it: depth, what came from the cache, what was billed again, what it
    cost; which findings are new, gone and kept.

    Conversations are matched by their id; else by service and agent, those that begin with the same words first. Judged are
    the turns that both sides of a pair have, per call, so that a longer run is not a worse one. What was known before and is
    not seen any more counts as worse.

    \b
    Examples:
      otelctx compare before.jsonl after.jsonl
      otelctx compare main.jsonl branch.jsonl --fail-on worse --md comment.md
      otelctx compare monday/ tuesday/ --agent planner --json -
    """  # fmt: skip
    if len(question.paths) != 2:
        raise click.UsageError(f"two dumps are compared, BEFORE and AFTER; here are {len(question.paths)}.")
    if question.paths == ("-", "-"):
        raise click.UsageError("standard input can be one of the two.")
    if json_path is not None and json_path == md_path:
        raise click.UsageError("--json, --md: one file cannot be two of these.")
    check_target(json_path, question.paths)
    check_target(md_path, question.paths, "--md")

    from otel_ctx.outputs import data, markdown_changes
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.changes import changes as lines
    from otel_ctx.outputs.views.changes import changes
    from otel_ctx_cli.terminal import width, write

    before, after = (changed(question, paths=(path,)).whole() for path in question.paths)
    for report, path in zip((before, after), question.paths, strict=True):
        if not report.calls:
            raise Failure(f"{click.format_filename(path)}: no model call in it.")
        if fail_on and report.inputs.skipped:
            where, why = report.inputs.skipped[0]
            raise Failure(f"{where}: {why}: skipped, and --fail-on does not judge half an input.")
    sides = question.narrowed(before), question.narrowed(after)
    found = changes(sides[0].analysis, sides[1].analysis, tolerance / 100)
    names = Path(question.paths[0]).name, Path(question.paths[1]).name
    if names[0] == names[1]:
        names = question.paths[0], question.paths[1]
    if md_path is not None:
        told = markdown_changes.render(found, names).encode()
        write(told) if md_path == "-" else replace(Path(md_path), told)
    if md_path != "-":
        tell(json_path, lambda: dumps(data.changes(found)), lambda: lines(found, names, width(), verbose))
    if fail_on and found.worse:
        click.echo(f"--fail-on {fail_on}: {'; '.join(found.worse)}", err=True)
        context.exit(_WORSE)
