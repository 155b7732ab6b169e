"""Dumps -> the analysis, for every command that reads them: the options, the progress, the garbage collector."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from otel_ctx.engine import Settings
    from otel_ctx.inputs import Batch
    from otel_ctx.model import Analysis
    from otel_ctx.outputs.report import Inputs

FORMATS = (
    "otlp-json", "otlp-protobuf", "python-console", "js-console", "js-json", "jaeger", "zipkin", "phoenix", "phoenix-dataframe",
    "langfuse", "datadog", "claude-code", "codex", "gemini-cli", "opencode", "raw-requests",
)  # fmt: skip  # as in otel_ctx, which --help does not wait for


# ---- what a command that reads may be given


def formats(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from otel_ctx.inputs import format_names

        one_of(value, format_names())
    return value


def one_of(value: str, known: Sequence[str], option: str | None = None) -> None:
    """``option``: where click does not know whose value it is."""
    if value not in known:
        raise click.BadParameter(f"{value!r} is not known. It can be: {', '.join(known)}.", param_hint=option)


# ---- reading


@contextmanager
def no_collector() -> Iterator[None]:
    """The garbage collector would look at every value of a dump again and again: it costs more than the work itself."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def analysed(
    paths: Sequence[str], format_: str | None, contents: Sequence[str], settings: Settings
) -> tuple[Analysis, Inputs]:
    """What ``paths`` hold. References are followed into their folders and into those of ``contents``."""
    from otel_ctx.reports import report_of

    report = report_of(
        paths,
        settings,
        format_=format_,
        contents=contents,
        stdin=sys.stdin.buffer,
        through=lambda batches: _shown(batches, paths),
    )
    return report.analysis, report.inputs


_PATIENCE = 1.0  # seconds without a sign of life
_EVERY = 0.2


def _shown(batches: Iterator[Batch], paths: Sequence[str]) -> Iterator[Batch]:
    """The same batches, with a bar on stderr, where that takes long and a person waits."""
    if not _watched():
        yield from batches
        return
    from otel_ctx.inputs import total_size

    total = total_size(paths)
    next_time = monotonic() + _PATIENCE
    records, shown = 0, False
    source, before, here = "", 0, 0  # bytes of the files before this one, and of this one
    try:
        for batch in batches:
            yield batch
            records += len(batch.spans) + len(batch.logs)
            if batch.source != source:
                source, before, here = batch.source, before + here, 0
            here = max(here, batch.position or 0)
            now = monotonic()
            if now >= next_time:
                next_time, shown = now + _EVERY, True
                _status(f"{_bar(before + here, total)}{records:,} records read, in {Path(source).name}")
    finally:
        if shown:
            _status("")


_WIDTH = 20  # characters of the bar


def _bar(done: int, total: int | None) -> str:
    """How much is done; nothing of what has no known end."""
    if not total or not done:
        return ""
    share = min(1.0, done / total)
    filled = round(share * _WIDTH)
    return f"[{'#' * filled}{'-' * (_WIDTH - filled)}] {share:4.0%}  "


def _watched() -> bool:
    return sys.stderr.isatty()


def _status(text: str) -> None:
    from otel_ctx.outputs.escape import escape
    from otel_ctx_cli.terminal import width

    click.echo("\r\x1b[K" + escape(text)[: width() - 1], nl=False, err=True, color=True)


def rules_text(path: str | None) -> str | None:
    """The user's own rules; None where there are none. A file that cannot be used is told by its name."""
    if not path:
        return None
    from otel_ctx.errors import RulesError
    from otel_ctx.rules import load

    try:
        text = Path(path).read_text("utf-8")
        load(text)
        return text
    except (OSError, UnicodeDecodeError, RulesError) as error:
        why = getattr(error, "strerror", None) or str(error).removeprefix("override: ")
        raise click.BadParameter(f"{click.format_filename(path)}: {why}", param_hint="--rules") from None


rules_option = click.option(
    "--rules",
    "rules_path",
    metavar="FILE",
    type=click.Path(),
    envvar="OTELCTX_RULES",
    help="TOML with windows, prices and cache rules of your own, over the others.",
)
