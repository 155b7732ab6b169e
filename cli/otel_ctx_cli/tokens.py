"""``otelctx tokens``: what fills the window."""

from __future__ import annotations

import click

from otel_ctx_cli.asking import Question, json_option, question_options, verbose_option
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell


@click.command(short_help="What fills the window: by turn, kind, tool and agent.", no_args_is_help=True)
@question_options
@json_option
@verbose_option
@version_option
def command(question: Question, json_path: str | None, verbose: int) -> None:
    """What fills the context window: a bar for each turn, what it is made of at the last turn by kind of segment and by
    tool, and what each agent has sent. The deepest conversations first.

    No prompt text is shown, only its sizes, places and the names of tools.

    \b
    Examples:
      otelctx tokens dump.jsonl
      otelctx tokens dump.jsonl --conversation 2 --turn -5
      otelctx tokens dump.jsonl --agent planner --json tokens.json
    """  # fmt: skip
    check_target(json_path, question.paths)

    from otel_ctx.outputs import data
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.tokens import tokens
    from otel_ctx.outputs.text.view import view
    from otel_ctx.outputs.views.tokens import agents, window
    from otel_ctx_cli.terminal import wide

    report = question.report()
    seen = view(report.analysis, report.inputs, wide(), verbose, False)
    deepest = sorted(report.conversations, key=lambda c: -(c.usage_last or 0))
    windows = [window(c, seen.readings) for c in deepest]
    senders = agents(report.calls)
    tell(json_path, lambda: dumps(data.tokens(windows, senders)), lambda: tokens(seen, windows, senders))
