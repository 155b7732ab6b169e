"""``otelctx doctor``: what the instrumentations in a dump give and withhold, and the switches that mend it."""

from __future__ import annotations

from pathlib import Path

import click

from otel_ctx_cli.reading import analysed, input_options, no_collector
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import replace, writable


@click.command(short_help="Say what the instrumentations withhold, and how to mend it.", no_args_is_help=True)
@input_options
@click.option(
    "--json",
    "json_path",
    metavar="FILE",
    type=click.Path(),
    help="Write it as JSON; - is stdout, and then all.",
)
@version_option
def command(
    paths: tuple[str, ...], format_: str | None, contents: tuple[str, ...], json_path: str | None
) -> None:
    """Read dumps of OpenTelemetry spans and say, for each library and version in them, what it records of the calls to
    models, what it withholds, and the exact switch that mends it.

    PATH is a file, a folder, or - for standard input.
    """  # fmt: skip
    if json_path not in (None, "-"):
        writable(Path(str(json_path)), paths)

    from otel_ctx.engine import Settings
    from otel_ctx.outputs.doctor import build
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.doctor import render
    from otel_ctx_cli.terminal import print_lines, width, write

    with no_collector():
        analysis, inputs = analysed(paths, format_, contents, Settings())
    if json_path == "-":
        write(dumps(build(analysis, inputs)))
        return
    if json_path is not None:
        replace(Path(json_path), dumps(build(analysis, inputs)))
    print_lines(render(analysis, inputs, width=width()))
