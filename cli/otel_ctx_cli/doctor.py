"""``otelctx doctor``: what the instrumentations in a dump give and withhold, and the switches that mend it."""

from __future__ import annotations

import click

from otel_ctx_cli.asking import Question, json_option, question_options
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell


@click.command(short_help="Say what the instrumentations withhold, and how to mend it.", no_args_is_help=True)
@question_options
@json_option
@version_option
def command(question: Question, json_path: str | None) -> None:
    """Read dumps of OpenTelemetry spans and say, for each library and version in them, what it records of the calls to
    models, what it withholds, and the exact switch that mends it.

    PATH is a file, a folder, or - for standard input.

    \b
    Examples:
      otelctx doctor dump.jsonl
      otelctx doctor dump.jsonl --service checkout --since 1h
    """  # fmt: skip
    check_target(json_path, question.paths)

    from otel_ctx.outputs.doctor import build
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.doctor import render
    from otel_ctx_cli.terminal import width

    report = question.report()
    analysis, inputs = report.analysis, report.inputs
    tell(json_path, lambda: dumps(build(analysis, inputs)), lambda: render(analysis, inputs, width=width()))
