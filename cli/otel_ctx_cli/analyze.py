"""``otelctx analyze``: dumps in, the report out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.main import Failure
from otel_ctx_cli.reading import analysed, input_options, no_collector, one_of, rules_option, rules_text
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import replace, writable

if TYPE_CHECKING:
    from otel_ctx.model import Analysis, Finding
    from otel_ctx.outputs.report import Inputs

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
)  # fmt: skip
_GATE_MET = 1
_NAMED = 5  # models on one line of stderr
_UNITS = {"k": 1_000, "m": 1_000_000}


# ---- options


def _kinds(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    if values:
        from otel_ctx.findings.kinds import KINDS

        for value in values:
            one_of(value.partition(":")[0], KINDS)
    return frozenset(values)


def _windows(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, int]:
    windows = {}
    for value in values:
        model, tokens = _pair(value, "MODEL=TOKENS, as in gpt-x=128000 or 'claude-*=200k'")
        unit = _UNITS.get(tokens[-1].lower(), 1)
        digits = tokens[:-1] if unit > 1 else tokens
        try:
            windows[model] = int(digits.replace(",", "")) * unit
        except ValueError:
            raise click.BadParameter(f"{tokens!r} is no number of tokens, as 128000 and 200k are.") from None
        if windows[model] <= 0:
            raise click.BadParameter(f"a window of {tokens} tokens holds nothing.")
    return windows


def _models(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str]:
    return dict(_pair(value, "NAME=MODEL, as in my-deployment=gpt-x") for value in values)


def _pair(value: str, form: str) -> tuple[str, str]:
    # The last "=": names of deployments may hold one, tokens and models do not.
    name, _, said = value.rpartition("=")
    if not name.strip() or not said.strip():
        raise click.BadParameter(f"{value!r} is not {form}.")
    return name.strip(), said.strip()


@click.command(
    short_help="Read dumps of spans and report what was found.",
    no_args_is_help=True,
    epilog=f"Kinds of findings, for --ignore: {', '.join(_KINDS)}.",
)
@input_options
@click.option(
    "--json", "json_path", metavar="FILE", type=click.Path(), help="Write the report as JSON; - is stdout."
)
@click.option(
    "--include-text", is_flag=True, help="Put the prompts' text into the JSON. Without it, none is there."
)
@click.option(
    "--html", "html_path", metavar="FILE", type=click.Path(), help="Write the report as one HTML page, too."
)
@click.option(
    "--svg", "svg_path", metavar="FILE", type=click.Path(), help="Draw the costliest conversation, too."
)
@click.option("--redact", is_flag=True, help="Show no prompt text, on the screen and in the HTML.")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 where a finding is at least this severe."
)
@click.option(
    "--ignore",
    metavar="KIND[:PATH]",
    multiple=True,
    callback=_kinds,
    help="Leave findings of this kind out, at this path only or anywhere (kinds: below).",
)
@click.option(
    "--limit",
    "windows",
    metavar="MODEL=TOKENS",
    multiple=True,
    callback=_windows,
    help="Context window of a model; * stands for anything.",
)
@click.option(
    "--model",
    "models",
    metavar="NAME=MODEL",
    multiple=True,
    callback=_models,
    help="The model behind a deployment's name.",
)
@rules_option
@click.option(
    "--baseline",
    "baseline_path",
    metavar="FILE",
    type=click.Path(),
    help="A report (--json) whose findings are accepted: --fail-on passes them.",
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
    paths: tuple[str, ...],
    json_path: str | None,
    html_path: str | None,
    svg_path: str | None,
    include_text: bool,
    redact: bool,
    format_: str | None,
    contents: tuple[str, ...],
    fail_on: str | None,
    ignore: frozenset[str],
    windows: Mapping[str, int],
    models: Mapping[str, str],
    rules_path: str | None,
    baseline_path: str | None,
    watch: bool,
    verbose: int,
) -> None:
    """Read dumps of OpenTelemetry spans and report what fills the context window, how soon it is full and where the
    prompt's prefix broke.

    PATH is a file, a folder, or - for standard input. The format is told from the content; .gz is unpacked.
    """  # fmt: skip
    if include_text and json_path is None:
        raise click.UsageError("--include-text is about the JSON: it needs --json FILE.")
    if include_text and redact:
        raise click.UsageError("--include-text and --redact contradict each other.")
    files = {"--json": json_path, "--html": html_path, "--svg": svg_path}
    if watch and (any(files.values()) or fail_on is not None or "-" in paths):
        raise click.UsageError(
            "--watch prints reports: it goes neither with files (--json, --html, --svg) nor --fail-on nor standard input."
        )
    for option, path in files.items():
        if path is not None and (path, option) != ("-", "--json"):
            writable(Path(path), paths, option)

    from otel_ctx.context import Limits
    from otel_ctx.engine import Settings
    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.report import build, dumps, reconcile

    accepted = _accepted(baseline_path)
    settings = Settings(
        limits=Limits(windows=windows, models=models), ignore=ignore, rules_override=rules_text(rules_path)
    )
    if watch:
        _watch(
            paths,
            lambda: _print(*analysed(paths, format_, contents, settings), verbose, show_text=not redact),
        )
        return
    with no_collector():
        analysis, inputs = analysed(paths, format_, contents, settings)
        reconcile(analysis.readings)
        for words in _unused(analysis, windows, models):
            click.echo(escape(words), err=True)
        if json_path is not None:
            data = dumps(build(analysis, inputs, include_text=include_text))
        if json_path == "-":
            from otel_ctx_cli.terminal import write

            write(data)
        else:
            if json_path is not None:
                replace(Path(json_path), data)
            _print(analysis, inputs, verbose, show_text=not redact)
        _pages(analysis, inputs, paths, html_path, svg_path, redact)
    if fail_on is not None:
        _gate(context, analysis, inputs, fail_on, accepted)


def _print(analysis: Analysis, inputs: Inputs, verbose: int, *, show_text: bool) -> None:
    from otel_ctx.outputs.text import render
    from otel_ctx_cli.terminal import print_lines, width

    print_lines(render(analysis, inputs, width=width(), verbose=verbose, show_text=show_text))


def _pages(
    analysis: Analysis,
    inputs: Inputs,
    paths: tuple[str, ...],
    html_path: str | None,
    svg_path: str | None,
    redact: bool,
) -> None:
    if html_path is not None:
        from otel_ctx.outputs.html import render
        from otel_ctx_cli.view import named

        replace(Path(html_path), render(analysis, inputs, redact=redact, title=named(paths)))
    if svg_path is not None:
        from otel_ctx.outputs.svg import draw

        replace(Path(svg_path), draw(analysis))


def _watch(paths: Sequence[str], report: Callable[[], None]) -> None:
    """A report after each change. That there is nothing to read yet is no end of it."""
    from otel_ctx.errors import InputError
    from otel_ctx.outputs.escape import escape
    from otel_ctx_cli.watch import changes

    try:
        for _ in changes(paths):
            click.clear()  # does nothing where stdout is no terminal
            try:
                report()
            except InputError as error:
                click.echo(escape(str(error)), err=True)
    except KeyboardInterrupt:
        return


def _unused(analysis: Analysis, windows: Mapping[str, int], models: Mapping[str, str]) -> Iterator[str]:
    """What --limit and --model say of models that are not there: a slip of the pen, mostly."""
    if not (windows or models) or not analysis.readings:
        return
    from otel_ctx.context import Limits, known_model
    from otel_ctx.rules import load

    used = dict.fromkeys(r.call.model for r in analysis.readings if r.call.model)
    real = {known_model(model, Limits(models=models)) for model in used}
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


def _accepted(path: str | None) -> frozenset[tuple[str, str, str]]:
    """The findings of an earlier report: (kind, title, path)."""
    if path is None:
        return frozenset()
    import json

    try:
        report = json.loads(Path(path).read_bytes())
        return frozenset((f["kind"], f["title"], f["path"] or "") for f in report["findings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or "is no report of otelctx analyze --json"
        raise click.BadParameter(f"{click.format_filename(path)}: {why}", param_hint="--baseline") from None


def _gate(
    context: click.Context,
    analysis: Analysis,
    inputs: Inputs,
    fail_on: str,
    accepted: frozenset[tuple[str, str, str]],
) -> None:
    """1 where a finding is as severe as that; 2 where what was read is not all, and no verdict can rest on it."""
    if inputs.skipped:
        where, why = inputs.skipped[0]
        more = f" and {len(inputs.skipped) - 1:,} more" if len(inputs.skipped) > 1 else ""
        _refuse(f"{where}: {why}{more}: skipped, and --fail-on does not judge half an input")
    if not analysis.readings:
        _refuse("no model call in this input: --fail-on has nothing to judge")
    met: list[Finding] = [
        f
        for f in analysis.findings
        if _SEVERITIES.index(f.severity) <= _SEVERITIES.index(fail_on)
        and (f.kind, f.title, f.path) not in accepted
    ]
    if met:
        kinds = ", ".join(dict.fromkeys(f.kind for f in met))
        click.echo(f"--fail-on {fail_on}: {kinds}", err=True)
        context.exit(_GATE_MET)


def _refuse(why: str) -> None:
    from otel_ctx.outputs.escape import escape

    raise Failure(escape(why))
