"""``otelctx gateway``: OTLP in, enriched, OTLP out."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from otel_ctx.errors import SettingError
from otel_ctx_cli.main import Failure

_NEEDS = "the gateway needs packages that are not installed: pip install '.[gateway]' in a clone of otel-ctx"


class _Command(click.Command):
    """With a flag for each setting, from the one table of them: made when they are asked for, and not in ``otelctx --help``."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        own = super().get_params(ctx)
        return [*own[:-1], *_flags(), own[-1]]  # --help last


def _flags() -> Iterator[click.Option]:
    from otel_ctx.live.gateway.config import settings

    for name, field in settings().items():
        flag = f"--{name.replace('_', '-')}"
        text = field.metadata.get("help") or f"As OTELCTX_{name.upper()}: {field.metadata['allowed']}."
        if field.default is False:
            yield click.Option([flag], is_flag=True, default=None, help=text)
        else:
            many = name == "forward"
            yield click.Option([flag], metavar="URL" if many else "VALUE", multiple=many, help=text)


@click.command(cls=_Command)
@click.option(
    "--config", "file", type=click.Path(dir_okay=False), help="YAML file with the same names as keys."
)
@click.option("--check", is_flag=True, help="Say what would run, and do not run it.")
def command(file: str | None, check: bool, **flags: Any) -> None:
    """Receive OTLP, add what the analysis says to the spans of model calls, and send it on.

    Stands between an application or a Collector and a Collector or a tracing backend. The token of senders is read from
    --token-file or the environment variable OTELCTX_GATEWAY_TOKEN.
    """
    try:
        from otel_ctx.live.gateway.config import config_of, described
        from otel_ctx.live.gateway.config_file import Given, read_file

        given = read_file(file) if file else {}
        given |= {
            name: Given(list(value) if isinstance(value, tuple) else value, f"--{name.replace('_', '-')}")
            for name, value in flags.items()
            if value not in (None, ())
        }
        config = config_of(given, os.environ)
        if check:
            click.echo(described(config))
            return
        import asyncio

        from otel_ctx.live.gateway.run import run
    except SettingError as error:
        raise Failure(str(error)) from None
    except ImportError:
        raise Failure(_NEEDS) from None
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("otel_ctx").setLevel(logging.INFO)
    try:
        asyncio.run(run(config))
    except (OSError, SettingError) as error:
        raise Failure(str(error)) from None
