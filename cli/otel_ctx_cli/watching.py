"""``otelctx watch``: the conversations of a running agent, as they grow."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.asking import windows
from otel_ctx_cli.reading import FORMATS, formats, no_collector, rules_option, rules_text
from otel_ctx_cli.version import version_option

if TYPE_CHECKING:
    from otel_ctx.engine import Settings
    from otel_ctx_cli.screen import Source

_DEFAULT = "127.0.0.1:4318"
_EVERY = 0.5  # seconds between two looks
_REST = 4  # times as long as the last look took: a large input must not keep a processor busy


@click.command(short_help="Watch a running agent: depth, turns left, the last break.", no_args_is_help=True)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@click.option(
    "--otlp",
    "place",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=_DEFAULT,
    help=f"Listen for OTLP over HTTP instead, on this machine only. [default: {_DEFAULT}]",
)
@click.option("--plain", is_flag=True, help="A line for each call, as where stdout is no terminal.")
@click.option(
    "--limit",
    "limits",
    metavar="MODEL=TOKENS",
    multiple=True,
    callback=windows,
    help="Context window of a model; * stands for anything.",
)
@rules_option
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    callback=formats,
    help=f"The format of the input: {', '.join(FORMATS)}. [default: told by its content]",
)
@click.option(
    "--contents",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="Where contents lie that records only refer to (uploads, raw bodies).",
)
@version_option
def command(
    paths: tuple[str, ...],
    place: str | None,
    plain: bool,
    limits: Mapping[str, int],
    rules_path: str | None,
    format_: str | None,
    contents: tuple[str, ...],
) -> None:
    """The conversations of a dump, a folder or a transcript that is still being written, or of spans that are sent here: how
    full each window is, how many turns are left, what was billed again and where the prompt last broke. The newest first;
    q or Ctrl-C ends it. Where stdout is no terminal, or rich is not installed (pip install '.[watch]' in a clone of otel-ctx),
    a line for each call.

    A file of OTLP/JSON, a request a line, is followed: what is new is read and nothing else. Any other format makes sense as
    a whole only; then all is read again after each change, and a large input less often.

    \b
    Examples:
      otelctx watch traces.jsonl
      otelctx watch ~/.claude/projects/my-project/
      otelctx watch --otlp
      OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 python agent.py
    """  # fmt: skip
    if bool(paths) == (place is not None):
        raise click.UsageError("what is to be watched? A PATH, or --otlp: one of the two.")
    if "-" in paths:
        raise click.UsageError("standard input has no later: otelctx analyze - reads it.")
    if place is not None and (format_ or contents):
        raise click.UsageError("--format and --contents are about files: they do not go with --otlp.")

    from otel_ctx.context import Limits
    from otel_ctx.engine import Settings

    settings = Settings(
        text_cap=24 << 20, limits=Limits(windows=limits), rules_override=rules_text(rules_path)
    )
    with suppress(KeyboardInterrupt), _source(paths, place, settings, format_, contents) as (source, name):
        if plain or not _full_screen():
            _lines(source, name)
        else:
            from otel_ctx_cli.screen import show

            show(source, name, looks(source))


@contextmanager
def _source(
    paths: tuple[str, ...],
    place: str | None,
    settings: Settings,
    format_: str | None,
    contents: tuple[str, ...],
) -> Iterator[tuple[Source, str]]:
    if place is None:
        from otel_ctx.live.tailing import Following

        followed = Following(paths, settings, format_=format_, contents=contents)
        yield followed, ", ".join(paths)
        return
    from otel_ctx.live.listening import Listening

    heard = Listening(place, settings)
    try:
        yield heard, heard.url
    finally:
        heard.close()


def looks(source: Source) -> Iterator[tuple[bool, float]]:
    """One look each: whether there was something new, and how many seconds until the next."""
    while True:
        begun = time.monotonic()
        with no_collector():
            new = source.look()
        yield new, max(_EVERY, _REST * (time.monotonic() - begun))


def _full_screen() -> bool:
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _lines(source: Source, name: str) -> None:
    """A line for each call, in the order in which they are heard of."""
    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.text.board import call
    from otel_ctx_cli.terminal import print_lines

    click.echo(f"watching {escape(name)}", err=True)
    noted = ""
    for _, rest in looks(source):
        fresh, source.board.fresh = source.board.fresh, []
        if fresh and not print_lines(call(r) for r in fresh):
            return
        if source.note != noted:
            noted = source.note
            if noted:
                click.echo(escape(noted), err=True)
        time.sleep(rest)
