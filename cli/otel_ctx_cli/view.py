"""``otelctx view``: the HTML report of dumps, made and opened."""

from __future__ import annotations

from pathlib import Path

import click

from otel_ctx_cli.asking import Question, question_options
from otel_ctx_cli.reading import no_collector
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import replace, writable


@click.command(short_help="Make the HTML report and open it.", no_args_is_help=True)
@question_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(),
    help="Write the page there. [default: a temporary file]",
)
@click.option("--no-open", is_flag=True, help="Print the file's name and leave the browser closed.")
@click.option("--redact", is_flag=True, help="Put no prompt text into the page.")
@version_option
def command(question: Question, output: str | None, no_open: bool, redact: bool) -> None:
    """Make the HTML report of dumps and open it in the browser: one file, that asks nothing of any network.

    PATH is a file, a folder, or - for standard input. Prompt texts are in the page unless --redact is given.
    """
    if output is not None:
        writable(Path(output), question.paths, "-o")
    report = question.report(show_text=not redact)
    with no_collector():
        data = report.to_html(redact=redact, title=named(question.paths)).encode()
    path = Path(output) if output is not None else _temporary()
    replace(path, data)
    click.echo(click.format_filename(path))
    if not no_open:
        click.launch(path.absolute().as_uri())


def named(paths: tuple[str, ...]) -> str:
    """What the page is of, for its title."""
    first = Path(paths[0]).name if paths[0] != "-" else "standard input"
    return first + (f" +{len(paths) - 1}" if len(paths) > 1 else "")


def _temporary() -> Path:
    """A file that only this user can read: prompts are in it. It stays, since the browser reads it when it likes."""
    import os
    import tempfile

    handle, name = tempfile.mkstemp(prefix="otelctx-", suffix=".html")
    os.close(handle)
    return Path(name)
