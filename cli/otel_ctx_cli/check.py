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


_UNITS = {"k": 1_000, "m": 1_000_000}


def _tokens(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """``60_000``, ``60,000`` and ``60k``."""
    if value is None:
        return None
    text = value.replace(",", "").replace("_", "").strip().lower()
    unit = _UNITS.get(text[-1:], 1)
    number = _parsed(value, text[:-1] if unit > 1 else text) * unit
    if number != int(number):
        raise click.BadParameter(f"{value!r} is no whole number of tokens.")
    return int(number)


def _amount(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    return None if value is None else _parsed(value, value.strip().removesuffix("%").removeprefix("$"))


def _ratio(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    text = value.strip()
    ratio = _parsed(value, text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if ratio > 1:
        raise click.BadParameter(f"{value!r} is no ratio: it lies between 0 and 1, as 0.6 and 60% do.")
    return ratio


def _parsed(given: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise click.BadParameter(f"{given!r} is no number.") from None
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"{given!r} is no bound: it is 0 or more.")
    return number


def _number(option: str, metavar: str, callback: Callable[..., Any], help_: str) -> Callable[..., Any]:
    return click.option(option, metavar=metavar, callback=callback, help=help_)


_GATES: tuple[Callable[..., Any], ...] = (
    _number("--max-context", "TOKENS", _tokens, "No call's input is larger, cached tokens included."),
    _number("--max-percent", "PERCENT", _amount, "No call fills more of its window."),
    _number("--max-growth", "TOKENS", _tokens, "No turn adds more to the one before."),
    _number("--max-growth-percent", "PERCENT", _amount, "No turn adds more, in percent of the one before."),
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
        "--no-dead-schemas/--allow-dead-schemas",
        default=None,
        help="Every tool that is sent is called, or spoken of.",
    ),
    _number(
        "--min-hit-ratio", "RATIO", _ratio, "At least so much of all input comes from the cache: 0.6 or 60%."
    ),
    _number("--max-waste", "TOKENS", _tokens, "No more tokens are billed again, all calls together."),
    _number("--max-waste-usd", "USD", _amount, "The same in USD, at list price."),
)


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
    /,
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
    whole = whole.held_back()
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
