"""``otelctx cache``: the prompt's prefix turn by turn."""

from __future__ import annotations

import click

from otel_ctx_cli.asking import Question, json_option, question_options, verbose_option
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell


@click.command(short_help="The prefix turn by turn: read, written, lost, and why.", no_args_is_help=True)
@question_options
@json_option
@verbose_option
@version_option
def command(question: Question, json_path: str | None, verbose: int) -> None:
    """The prompt cache, turn by turn: a bar as long as the prompt, with what was read from the cache, what was written,
    what was lost and where the prefix broke; and the tokens read as the rules predict, as the provider reports and as an
    unbroken, well-marked prefix would give. The conversations that lost most first.

    `otelctx explain CAUSE` says what a cause means. No prompt text is shown.

    \b
    Examples:
      otelctx cache dump.jsonl
      otelctx cache dump.jsonl --conversation 1 -v
      otelctx cache dump.jsonl --model 'claude-*' --json cache.json
    """  # fmt: skip
    check_target(json_path, question.paths)

    from otel_ctx.outputs import data
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.prefix import prefixes
    from otel_ctx.outputs.text.view import view
    from otel_ctx_cli.terminal import wide

    report = question.report()
    seen = view(report.analysis, report.inputs, wide(), verbose, False)
    lost: dict[str, int] = {}
    for r in report.calls:
        lost[r.conversation] = lost.get(r.conversation, 0) + r.wasted
    ordered = sorted(report.conversations, key=lambda c: (-lost.get(c.id, 0), -(c.usage_last or 0)))
    tell(json_path, lambda: dumps(data.cache(ordered, seen.readings)), lambda: prefixes(seen, ordered))
