"""The command ``otelctx``. A subcommand is a module with a click command named ``command``, and one line in COMMANDS.

Modules are imported when their command is run, and heavy ones only where they are needed: --help answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from otel_ctx_cli.version import version_option

COMMANDS: Mapping[str, str] = {
    "analyze": "otel_ctx_cli.analyze",
    "conversations": "otel_ctx_cli.conversations",
    "tokens": "otel_ctx_cli.tokens",
    "cache": "otel_ctx_cli.cache",
    "diff": "otel_ctx_cli.diff",
    "findings": "otel_ctx_cli.findings",
    "compare": "otel_ctx_cli.compare",
    "check": "otel_ctx_cli.check",
    "explain": "otel_ctx_cli.explain",
    "rules": "otel_ctx_cli.rules",
    "view": "otel_ctx_cli.view",
    "watch": "otel_ctx_cli.watching",
    "doctor": "otel_ctx_cli.doctor",
    "env": "otel_ctx_cli.env",
    "demo": "otel_ctx_cli.demo",
    "dashboards": "otel_ctx_cli.dashboards",
    "gateway": "otel_ctx_cli.gateway",
}

_INTERRUPTED = 130  # what shells report for Ctrl-C; 1 would say that a gate was met


class Failure(click.ClickException):
    """One line on stderr, and the exit code of what cannot be used."""

    exit_code = 2


@contextmanager
def _made_visible() -> Iterator[None]:
    """What a path or a value holds commands no terminal, whatever error it is quoted in."""
    try:
        yield
    except click.ClickException as error:
        from otel_ctx.outputs.escape import escape

        told = vars(error)
        told |= {name: escape(told[name]) for name in ("message", "ui_filename") if name in told}
        raise


class Commands(click.Group):
    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _made_visible():
            return super().make_context(*args, **more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and (args[0] == "-" or Path(args[0]).exists()):
            ctx.fail(
                f"No such command. To read a file: {ctx.command_path} analyze {click.format_filename(args[0])}"
            )
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, 3)
            if close:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(close)}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _made_visible():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (click.Abort, KeyboardInterrupt):
            ctx.exit(_INTERRUPTED)
        except Exception as error:
            _fail(error)


def _fail(error: Exception) -> NoReturn:
    """One line instead of a traceback: whoever runs this is in a hurry."""
    if os.environ.get("OTELCTX_DEBUG"):
        raise error
    from otel_ctx.errors import OtelCtxError
    from otel_ctx.outputs.escape import escape

    if isinstance(error, OtelCtxError):
        raise Failure(escape(str(error))) from None
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    raise Failure(f"{escape(told)} (a fault of otelctx itself; OTELCTX_DEBUG=1 shows where)") from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  otelctx demo
  otelctx analyze dump.jsonl
  otelctx conversations dump.jsonl --sort headroom

Exit codes: 0 fine, 1 a gate was met, 2 unusable input or arguments.
NO_COLOR and FORCE_COLOR do what they say; COLUMNS overrides the terminal's width.
Completion in bash: eval "$(_OTELCTX_COMPLETE=bash_source otelctx)"; zsh_source and fish_source likewise.""",
)
@version_option
def main() -> None:
    """What fills the context window of your agents, how soon it is full, and why the prompt cache missed: read from
    the OpenTelemetry GenAI spans that they already emit."""
