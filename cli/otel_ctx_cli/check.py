"""``otelctx check``: bounds that a dump must keep, for CI."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import click

from otel_ctx_cli.analyze import kinds
from otel_ctx_cli.asking import Question, json_option, question_options
from otel_ctx_cli.project import Project, project
from otel_ctx_cli.version import version_option
from otel_ctx_cli.writing import check_target, replace, tell

_FAILED = 1


class Number(click.ParamType):
    """0 or more; ``60_000``, ``60,000`` and ``60k`` where it counts tokens."""

    def __init__(self, whole: bool, name: str) -> None:
        self.whole, self.name = whole, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:
        text = str(value).replace(",", "").replace("_", "").strip().lower()
        unit = {"k": 1_000, "m": 1_000_000}.get(text[-1:], 1) if self.whole else 1
        try:
            number = float(text[:-1] if unit > 1 else text.removesuffix("%").removeprefix("$")) * unit
        except ValueError:
            self.fail(f"{value!r} is no number.", param, ctx)
        if not 0 <= number < math.inf or (self.whole and number != int(number)):
            self.fail(
                f"{value!r} is no bound: it is 0 or more{', whole tokens' if self.whole else ''}.", param, ctx
            )
        return int(number) if self.whole else number


class Ratio(click.ParamType):
    name = "ratio"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            ratio = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"{value!r} is no ratio, as 0.6 and 60% are.", param, ctx)
        if not 0 <= ratio <= 1:
            self.fail(f"{value!r} is no ratio: it lies between 0 and 1, as 0.6 and 60% do.", param, ctx)
        return ratio


def _number(option: str, help_: str, *, whole: bool, metavar: str) -> Callable[..., Any]:
    return click.option(option, metavar=metavar, type=Number(whole, metavar), help=help_)


_GATES: tuple[Callable[..., Any], ...] = (
    _number("--max-context", "No call's input is larger, cached tokens included.", whole=True, metavar="TOKENS"),
    _number("--max-percent", "No call fills more of its window.", whole=False, metavar="PERCENT"),
    _number("--max-growth", "No turn adds more to the one before.", whole=True, metavar="TOKENS"),
    _number("--max-growth-percent", "No turn adds more, in percent of the one before.", whole=False, metavar="PERCENT"),
    click.option(
        "--stable-prefix/--allow-unstable-prefix",
        default=None,
        help="Every prompt goes on from the one before, unchanged.",
    ),
    click.option(
        "--no-eviction/--allow-eviction",
        default=None,
        help="Nothing that was sent is left out later, nor replaced by a summary.",
    ),
    click.option(
        "--no-dead-schemas/--allow-dead-schemas", default=None, help="Every tool that is sent is called, or spoken of."
    ),
    click.option(
        "--min-hit-ratio",
        metavar="RATIO",
        type=Ratio(),
        help="At least so much of all input comes from the cache: 0.6 or 60%.",
    ),
    _number("--max-waste", "No more tokens are billed again, all calls together.", whole=True, metavar="TOKENS"),
    _number("--max-waste-usd", "The same in USD, at list price.", whole=False, metavar="USD"),
)  # fmt: skip


def _gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_GATES):
        command = option(command)
    return command


@click.command(
    short_help="Hold a dump against bounds, for CI: PASS or FAIL, exit 0 or 1.", no_args_is_help=True
)
@question_options
@_gate_options
@click.option(
    "--strict/--lenient",
    default=None,
    help="What could not be checked fails, or is let through. [default: strict]",
)
@click.option(
    "--ignore",
    metavar="KIND[:PATH]",
    multiple=True,
    callback=kinds,
    help="Findings of this kind do not count, at this path only or anywhere.",
)
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="The TOML with the table [tool.otelctx.check]. [default: the next pyproject.toml upward that has one]",
)
@click.option("--no-config", is_flag=True, help="Ask only what is asked here.")
@click.option(
    "--junit", "junit_path", metavar="FILE", type=click.Path(), help="Write the verdicts as JUnit XML, too."
)
@json_option
@version_option
@click.pass_context
def command(
    context: click.Context,
    question: Question,
    strict: bool | None,
    ignore: frozenset[str],
    config_path: str | None,
    no_config: bool,
    junit_path: str | None,
    json_path: str | None,
    **flags: Any,
) -> None:
    """Hold a dump against bounds: a line for each, PASS, FAIL or NOT CHECKED, with the turn and the conversation that are
    the evidence.

    What was not seen is never a pass. A bound that could not be checked on every call fails too, unless --lenient; without
    any model call all fail. The table [tool.otelctx.check] of pyproject.toml may ask the same, by the same names without
    the dashes in front; options win over it.

    Exit codes: 0 all hold; 1 one does not; 2 unusable input or arguments, no bound among them.

    \b
    Examples:
      otelctx check dump.jsonl --max-context 60k --stable-prefix
      otelctx check dump.jsonl --max-percent 50 --min-hit-ratio 60% --junit check.xml
      otelctx check dumps/ --agent planner --max-waste-usd 0.05 --lenient
    """  # fmt: skip
    if no_config and config_path is not None:
        raise click.UsageError("--config and --no-config contradict each other.")
    if junit_path is not None and junit_path == json_path:
        raise click.UsageError("--junit, --json: one file cannot be two of these.")
    for option, path in (("--json", json_path), ("--junit", junit_path)):
        check_target(path, question.paths, option)
    own = Project() if no_config else project(config_path)
    gates = own.with_flags(flags)
    if not gates.asked():
        where = f" in {own.source}" if own.source else ""
        raise click.UsageError(f"no bound was given{where}: as --max-context 60k, or --stable-prefix.")
    question = changed(question, windows={**own.limits, **question.windows})

    from otel_ctx.outputs import data, junit
    from otel_ctx.outputs.report import dumps
    from otel_ctx.outputs.text.gates import verdicts
    from otel_ctx.outputs.views.gates import judge
    from otel_ctx_cli.terminal import width, write

    whole = question.whole(question.settings(own.ignore | ignore))
    chosen = question.narrowed(whole) if whole.calls else whole
    found = judge(whole.analysis, chosen.analysis, gates, len(whole.inputs.skipped))
    strict = next((s for s in (strict, own.strict) if s is not None), True) or not chosen.calls
    passed = not any(v.result == "fail" or (strict and v.result == "not_checked") for v in found)
    if junit_path is not None:
        told = junit.render(found, strict)
        write(told) if junit_path == "-" else replace(Path(junit_path), told)
    if junit_path != "-":
        tell(
            json_path,
            lambda: dumps(data.check(found, chosen.analysis, strict=strict, passed=passed)),
            lambda: verdicts(found, strict, width()),
        )
    if not passed:
        context.exit(_FAILED)
