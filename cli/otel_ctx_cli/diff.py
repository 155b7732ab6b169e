"""``otelctx diff``: one prompt against another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.asking import (
    Question,
    include_text_option,
    json_option,
    question_options,
    redact_option,
    verbose_option,
)
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, tell

if TYPE_CHECKING:
    from otel_ctx.outputs.views.sides import Side

Text = Callable[[str], str | None]


@click.command(short_help="Set one prompt against another, segment by segment.", no_args_is_help=True)
@partial(question_options, paths="PATH... [OLD NEW]")
@json_option
@include_text_option
@redact_option
@verbose_option
@version_option
def command(
    question: Question, json_path: str | None, include_text: bool, redact: bool, verbose: int
) -> None:
    """What became of a prompt: segments added, evicted, moved and changed, down to the characters; and the tokens of each
    kind, old and new.

    PATH... ends with the two sides, OLD and NEW. A side is CONVERSATION:TURN, where a conversation is its number in
    `otelctx conversations`, the beginning of its id, or its service or agent; :TURN where there is one conversation only;
    -1 is its last turn. Without a turn it is a whole conversation or agent: their numbers, and the last prompts of both.
    Two PATHs and no side: the one dump against the other. One PATH and no side: the last two turns.

    \b
    Examples:
      otelctx diff dump.jsonl :7 :8
      otelctx diff dump.jsonl 1:-1 2:-1
      otelctx diff dump.jsonl planner writer
      otelctx diff before.jsonl after.jsonl --conversation checkout
    """  # fmt: skip
    paths, sides = _split(question.paths)
    check_target(json_path, paths)
    if include_text and json_path is None:
        raise click.UsageError("--include-text is about the JSON: it needs --json FILE.")

    from otel_ctx.outputs import data
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.diff import diff
    from otel_ctx.outputs.views.sides import difference
    from otel_ctx_cli.terminal import width

    shows = include_text or not redact
    old, new, text = _sides(replace(question, paths=paths), sides, shows)
    found = difference(old, new, text, show_text=shows)
    tell(
        json_path,
        lambda: dumps(data.diff(found, include_text=include_text)),
        lambda: diff(found, text, width=width(), verbose=verbose, show_text=not redact),
    )


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dumps, and what is compared in them: two that end the line and are no files."""
    ends = 0
    while ends < len(words) and not _is_path(words[-1 - ends]):
        ends += 1
    paths, sides = tuple(words[: len(words) - ends]), tuple(words[len(words) - ends :])
    missing = next((p for p in paths if not _is_path(p)), None)
    if missing is not None:
        raise click.UsageError(
            f"{click.format_filename(missing)}: there is no such file; OLD and NEW come last."
        )
    if not paths:
        raise click.UsageError(f"{click.format_filename(words[0])}: there is no such file.")
    if len(sides) not in (0, 2):
        told = ", ".join(map(click.format_filename, sides))
        raise click.UsageError(f"two sides are compared, here {len(sides)} of them: {told}. As in :7 :8.")
    if not sides and len(paths) > 2:
        raise click.UsageError("which sides? Of several files OLD and NEW come last, as in :7 :8.")
    return paths, sides


def _is_path(word: str) -> bool:
    return word == "-" or Path(word).exists()


def _sides(question: Question, sides: Sequence[str], show_text: bool) -> tuple[Side, Side, Text]:
    from otel_ctx.outputs.views.sides import last_two, side, whole

    if not sides and len(question.paths) == 2:
        old, new = (replace(question, paths=(path,)).report(show_text=show_text) for path in question.paths)

        def text(digest: str) -> str | None:
            found = new.text(digest)
            return found if found is not None else old.text(digest)

        names = [Path(path).name for path in question.paths]
        return whole(old.analysis, names[0]), whole(new.analysis, names[1]), text
    everything = question.whole()
    chosen = question.narrowed(everything, show_text=show_text).analysis
    if not sides:
        return *last_two(chosen), everything.text
    old_side, new_side = (side(chosen, given, everything.analysis) for given in sides)
    return old_side, new_side, everything.text
