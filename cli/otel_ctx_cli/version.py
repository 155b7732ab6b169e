"""The option -V."""

from __future__ import annotations

import click


def _show(context: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("otel-ctx")
    except PackageNotFoundError:  # run out of a checkout
        number = "(not installed)"
    click.echo(f"otelctx {number}")
    context.exit()


version_option = click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show,
    help="Show the version and exit.",
)
