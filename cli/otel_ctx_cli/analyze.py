"""``otelctx analyze``: dumps in, the report out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from otel_ctx_cli.asking import Question, question_options
from otel_ctx_cli.main import Failure
from otel_ctx_cli.reading import no_collector, one_of
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, replace

if TYPE_CHECKING:
    from otel_ctx.model import Analysis, Finding
    from otel_ctx.reports import Report

# As in otel_ctx, which --help does not wait for.
_SEVERITIES = ("error", "warning", "info")
_KINDS = (
    "volatile_prefix", "prefix_changed", "moved_segment", "compaction", "tools_reordered", "tool_schema_key_order",
    "tools_changed", "window_exceeded", "headroom_low", "content_not_captured", "content_truncated",
    "attributes_dropped", "usage_missing", "usage_inconsistent", "double_instrumentation", "unknown_dialect",
    "model_switch", "ttl_expired", "ttl_lost", "parallel_miss", "no_cache_control", "below_minimum", "frozen_breakpoint",
    "missing_tail_breakpoint", "breakpoint_before_change", "lookback_exceeded", "parameters_changed",
    "server_side_rewrite_suspected", "provider_side_miss", "unexplained_miss", "unpriced_model",
    "evicted_content", "compaction_loop", "growth_spike", "duplicate_content", "dead_tool_schema", "ttl_overpaid",
    "unknown_cache_rule",
)  # fmt: skip
_GATE_MET = 1
_NAMED = 5  # models on one line of stderr


# ---- options


def kinds(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    if values:
        from otel_ctx.findings.kinds import KINDS

        for value in values:
            one_of(value.partition(":")[0], KINDS)
    return frozenset(values)


@click.command(
    short_help="Read dumps of spans and report what was found.",
    no_args_is_help=True,
    epilog=f"Kinds of findings, for --ignore: {', '.join(_KINDS)}.",
)
@question_options
@click.option(
    "--json", "json_path", metavar="FILE", type=click.Path(), help="Write the report as JSON; - is stdout."
)
@click.option(
    "--md",
    "md_path",
    metavar="FILE",
    type=click.Path(),
    help="Write a short summary in Markdown, for a pull request.",
)
@click.option(
    "--html",
    "html_path",
    metavar="FILE",
    type=click.Path(),
    help="Write the report as one interactive HTML page, too.",
)
@click.option(
    "--svg", "svg_path", metavar="FILE", type=click.Path(), help="Draw the costliest conversation, too."
)
@click.option(
    "--include-text",
    is_flag=True,
    help="Put the prompts' text into the JSON and the Markdown. Without it, none is there.",
)
@click.option("--redact", is_flag=True, help="Show no prompt text on the screen, nor in the HTML.")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 where a finding is at least this severe."
)
@click.option(
    "--ignore",
    metavar="KIND[:PATH]",
    multiple=True,
    callback=kinds,
    help="Leave findings of this kind out, at this path only or anywhere (kinds: below).",
)
@click.option(
    "--baseline",
    "baseline_path",
    metavar="FILE",
    type=click.Path(),
    help="A report (--json) whose findings are accepted, of the same service, agent and provider: --fail-on passes them.",
)
@click.option(
    "--watch", is_flag=True, help="Print the report anew whenever an input has changed, until Ctrl-C."
)
@click.option(
    "-v", "--verbose", count=True, help="Show all of every list, and each turn; twice: call ids too."
)
@version_option
@click.pass_context
def command(
    context: click.Context,
    question: Question,
    json_path: str | None,
    md_path: str | None,
    html_path: str | None,
    svg_path: str | None,
    include_text: bool,
    redact: bool,
    fail_on: str | None,
    ignore: frozenset[str],
    baseline_path: str | None,
    watch: bool,
    verbose: int,
) -> None:
    """Read dumps of OpenTelemetry spans and report what fills the context window, how soon it is full and where the
    prompt's prefix broke.

    PATH is a file, a folder, or - for standard input. The format is told from the content; .gz is unpacked.

    \b
    Examples:
      otelctx analyze dump.jsonl
      otelctx analyze traces.jsonl logs.jsonl --agent planner --turn 3-
      otelctx analyze dumps/ --json report.json --fail-on error
    """  # fmt: skip
    files = {"--json": json_path, "--md": md_path, "--html": html_path, "--svg": svg_path}
    if include_text and json_path is None and md_path is None:
        raise click.UsageError(
            "--include-text is about the JSON and the Markdown: it needs --json FILE or --md FILE."
        )
    if include_text and redact:
        raise click.UsageError("--include-text and --redact contradict each other.")
    if watch and (any(files.values()) or fail_on is not None or "-" in question.paths):
        raise click.UsageError(
            "--watch prints reports: it goes neither with files nor --fail-on nor standard input."
        )
    named = [path for path in files.values() if path is not None]
    if len(set(named)) < len(named):
        raise click.UsageError(f"{', '.join(files)}: one file cannot be two of these.")
    for option, path in files.items():
        check_target(path, question.paths, option)

    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.views.kinds import reconcile

    accepted = _accepted(baseline_path)
    settings = question.settings(ignore)
    if watch:
        _watch(
            question.paths,
            lambda: _print(
                question.narrowed(question.whole(settings), show_text=True), verbose, show_text=not redact
            ),
        )
        return
    whole = question.whole(settings)
    for words in _unused(whole.analysis, question.windows, question.models):
        click.echo(escape(words), err=True)
    report = question.narrowed(whole, show_text=True)  # each output keeps back what it must
    with no_collector():
        reconcile(report.calls)
        texts = {
            "--json": lambda: report.to_json(include_text=include_text),
            "--md": lambda: report.to_md(include_text=include_text),
            "--html": lambda: report.to_html(redact=redact, title=_title(question.paths)),
            "--svg": report.to_svg,
        }
        written = {path: texts[option]().encode() for option, path in files.items() if path is not None}
        if "-" in written:
            from otel_ctx_cli.terminal import write

            write(written.pop("-"))
        else:
            _print(report, verbose, show_text=not redact)
        for path, data in written.items():
            replace(Path(path), data)
    if fail_on is not None:
        _gate(context, report, fail_on, accepted)


def _title(paths: Sequence[str]) -> str:
    first = Path(paths[0]).name if paths[0] != "-" else "standard input"
    return first + (f" +{len(paths) - 1}" if len(paths) > 1 else "")


def _print(report: Report, verbose: int, *, show_text: bool) -> None:
    from otel_ctx.outputs.text import render
    from otel_ctx_cli.terminal import print_lines, width

    lines = render(report.analysis, report.inputs, width=width(), verbose=verbose, show_text=show_text)
    print_lines(lines)


def _watch(paths: Sequence[str], report: Callable[[], None]) -> None:
    """A report after each change. That there is nothing to read yet is no end of it."""
    from otel_ctx.errors import InputError, SettingError
    from otel_ctx.outputs.escape import escape
    from otel_ctx_cli.watch import changes

    try:
        for _ in changes(paths):
            click.clear()  # does nothing where stdout is no terminal
            try:
                report()
            except (InputError, SettingError) as error:
                click.echo(escape(str(error)), err=True)
    except KeyboardInterrupt:
        return


def _unused(analysis: Analysis, windows: Mapping[str, int], models: Mapping[str, str]) -> Iterator[str]:
    """What --limit and --model say of models that are not there: a slip of the pen, mostly."""
    if not (windows or models) or not analysis.readings:
        return
    from otel_ctx.rules import load

    used = dict.fromkeys(r.call.model for r in analysis.readings if r.call.model)
    real = set(map(load().standing_for(models).known, used))
    more = f" and {len(used) - _NAMED:,} more" if len(used) > _NAMED else ""
    there = f"there are: {', '.join(list(used)[:_NAMED])}{more}" if used else "no call names its model"
    for option, patterns, known in (("--limit", windows, {*used, *real}), ("--model", models, {*used})):
        for pattern in patterns:
            if not any(fnmatchcase(model, pattern) for model in known):
                yield f"{option} {pattern}: no call uses such a model; {there}"
    for name, model in models.items():
        if load().window(model) is None and not any(fnmatchcase(model, pattern) for pattern in windows):
            yield f"--model {name}={model}: {model} is not in the model table; --limit can tell its window"


# ---- the gate


_WHOSE = ("service", "agent", "provider")


def _places(report: Mapping[str, Any]) -> Iterator[frozenset[tuple[str | None, ...]]]:
    """Of each finding of a report what it is and where: one of another service, agent or provider is another one."""
    whose = {call["id"]: tuple(call[field] for field in _WHOSE) for call in report["calls"]}
    for f in report["findings"]:
        what = (f["kind"], f["title"], f["path"])
        yield frozenset((*what, *whose.get(call, ())) for call in f["calls"] or (None,))


def _accepted(path: str | None) -> frozenset[tuple[str | None, ...]] | None:
    """The findings of an earlier report. None: there is none."""
    if path is None:
        return None
    import json

    try:
        return frozenset().union(*_places(json.loads(Path(path).read_bytes())))
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or "is no report of otelctx analyze --json"
        raise click.BadParameter(f"{click.format_filename(path)}: {why}", param_hint="--baseline") from None


def _gate(
    context: click.Context,
    report: Report,
    fail_on: str,
    accepted: frozenset[tuple[str | None, ...]] | None,
) -> None:
    """1 where a finding is as severe as that; 2 where what was read is not all, and no verdict can rest on it."""
    skipped = report.inputs.skipped
    if skipped:
        where, why = skipped[0]
        more = f" and {len(skipped) - 1:,} more" if len(skipped) > 1 else ""
        _refuse(f"{where}: {why}{more}: skipped, and --fail-on does not judge half an input")
    if not report.calls:
        _refuse("no model call in this input: --fail-on has nothing to judge")
    known: Iterable[bool] = repeat(False)
    if accepted is not None:
        known = (places <= accepted for places in _places(report.to_dict()))
    passed: list[Finding] = []
    met: list[Finding] = []
    for f, is_known in zip(report.findings, known, strict=False):
        if _SEVERITIES.index(f.severity) <= _SEVERITIES.index(fail_on):
            (passed if is_known else met).append(f)
    if passed:
        click.echo(f"--baseline accepts {_kinds_of(passed)}", err=True)
    if met:
        click.echo(f"--fail-on {fail_on}: {_kinds_of(met)}", err=True)
        context.exit(_GATE_MET)


def _kinds_of(findings: Iterable[Finding]) -> str:
    counts = Counter(f.kind for f in findings)
    return ", ".join(kind if n == 1 else f"{kind} ({n:,})" for kind, n in counts.items())


def _refuse(why: str) -> None:
    from otel_ctx.outputs.escape import escape

    raise Failure(escape(why))
