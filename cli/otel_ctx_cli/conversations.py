"""``otelctx conversations``: a line each."""

from __future__ import annotations

import click

from otel_ctx_cli.asking import Question, json_option, question_options
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell

_ORDERS = ("urgency", "start", "turns", "depth", "headroom", "waste", "cost")  # as in otel_ctx


@click.command(short_help="List the conversations: depth, turns left, what was lost.", no_args_is_help=True)
@question_options
@click.option(
    "--sort",
    "order",
    type=click.Choice(_ORDERS),
    default="urgency",
    show_default=True,
    help="What comes first: the most urgent, the latest, the longest, the deepest, the fullest, the costliest.",
)
@json_option
@version_option
def command(question: Question, order: str, json_path: str | None) -> None:
    """The conversations of a dump, a line each: who, how many turns, how deep, how full, how many turns are left, how
    much came from the cache, how many tokens were billed again.

    The number in front is what --conversation and `otelctx diff` take. Columns give way to the terminal's width.

    \b
    Examples:
      otelctx conversations dump.jsonl
      otelctx conversations dump.jsonl --sort headroom --service checkout
      otelctx conversations dump.jsonl --since 1h --json -
    """  # fmt: skip
    check_target(json_path, question.paths)

    from otel_ctx.outputs import data
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.listing import listing as lines
    from otel_ctx.outputs.text.view import view
    from otel_ctx.outputs.views.listing import listing, numbering
    from otel_ctx_cli.terminal import wide

    whole = question.whole()
    numbers = numbering(whole.analysis)
    report = question.narrowed(whole)
    entries = listing(report.analysis, order, numbers)  # type: ignore[arg-type]  # a choice of click's
    seen = view(report.analysis, report.inputs, wide(), 0, False)
    tell(json_path, lambda: dumps(data.conversations(entries)), lambda: lines(seen, entries, numbers))
