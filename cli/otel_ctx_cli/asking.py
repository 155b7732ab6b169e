"""What every command that reads dumps may be asked: which dumps, with which windows and rules, and which calls of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from otel_ctx_cli.reading import FORMATS, analysed, formats, no_collector, rules_option, rules_text

if TYPE_CHECKING:
    from otel_ctx.engine import Settings
    from otel_ctx.outputs.views.selection import Selection
    from otel_ctx.reports import Report

_UNITS = {"k": 1_000, "m": 1_000_000}


@dataclass(frozen=True)
class Question:
    """The values of the options below, checked as far as that is possible before anything was read."""

    paths: tuple[str, ...]
    format: str | None
    contents: tuple[str, ...]
    windows: Mapping[str, int]
    models: Mapping[str, str]
    rules_path: str | None
    selection: Selection

    def settings(self, ignore: frozenset[str] = frozenset()) -> Settings:
        from otel_ctx.context import Limits
        from otel_ctx.engine import Settings

        limits = Limits(windows=self.windows, models=self.models)
        return Settings(limits=limits, ignore=ignore, rules_override=rules_text(self.rules_path))

    def whole(self, settings: Settings | None = None) -> Report:
        """All calls of the dumps: what is selected may be numbered or compared within it."""
        from otel_ctx.reports import Report

        with no_collector():
            return Report(*analysed(self.paths, self.format, self.contents, settings or self.settings()))

    def narrowed(self, report: Report, *, show_text: bool = False) -> Report:
        """What is selected of it; ``show_text``: it goes where prompt text may be shown."""
        from otel_ctx.outputs.views.selection import select

        chosen = replace(report, analysis=select(report.analysis, self.selection))
        return chosen if show_text else chosen.held_back()

    def report(self, *, show_text: bool = False) -> Report:
        return self.narrowed(self.whole(), show_text=show_text)


def question_options(command: Callable[..., Any], paths: str = "PATH...") -> Callable[..., Any]:
    """All options of a question and its arguments, which help calls ``paths``, for a function that takes ``question``."""

    @wraps(command)
    def asked(
        *args: Any,
        paths: tuple[str, ...],
        format_: str | None,
        contents: tuple[str, ...],
        windows: Mapping[str, int],
        models: tuple[Mapping[str, str], tuple[str, ...]],
        rules_path: str | None,
        conversation: tuple[str, ...],
        agent: tuple[str, ...],
        turn: tuple[str, ...],
        trace: tuple[str, ...],
        service: tuple[str, ...],
        since: str,
        **more: Any,
    ) -> Any:
        from otel_ctx.outputs.views.selection import Selection

        names, wanted = models
        selection = Selection(conversation, agent, turn, trace, service, wanted, since)
        question = Question(paths, format_, contents, windows, names, rules_path, selection)
        return command(*args, question=question, **more)

    for option in reversed(_OPTIONS):
        asked = option(asked)
    return click.argument("paths", metavar=paths, nargs=-1, required=True, type=click.Path())(asked)


# ---- values


def windows(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> Mapping[str, int]:
    found = {}
    for value in values:
        model, tokens = _pair(value, "MODEL=TOKENS, as in gpt-x=128000 or 'claude-*=200k'")
        unit = _UNITS.get(tokens[-1].lower(), 1)
        digits = tokens[:-1] if unit > 1 else tokens
        try:
            found[model] = int(digits.replace(",", "")) * unit
        except ValueError:
            raise click.BadParameter(f"{tokens!r} is no number of tokens, as 128000 and 200k are.") from None
        if found[model] <= 0:
            raise click.BadParameter(f"a window of {tokens} tokens holds nothing.")
    return found


def _models(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """What names stand for, and which models are wanted."""
    pairs = (_pair(v, "NAME, or NAME=MODEL as in my-deployment=gpt-x") for v in values if "=" in v)
    return dict(pairs), tuple(v for v in values if "=" not in v)


def _pair(value: str, form: str) -> tuple[str, str]:
    # The last "=": names of deployments may hold one, tokens and models do not.
    name, _, said = value.rpartition("=")
    if not name.strip() or not said.strip():
        raise click.BadParameter(f"{value!r} is not {form}.")
    return name.strip(), said.strip()


def _turns(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if values:
        from otel_ctx.errors import SettingError
        from otel_ctx.outputs.views.selection import turns

        for value in values:
            try:
                turns(value)
            except SettingError as error:
                raise click.BadParameter(f"{error}.") from None
    return values


def _since(_: click.Context, __: click.Parameter, value: str) -> str:
    if value:
        from otel_ctx.errors import SettingError
        from otel_ctx.outputs.views.selection import since

        try:
            since(value, 0)
        except SettingError as error:
            raise click.BadParameter(f"{error}.") from None
    return value


def _several(*names: str, metavar: str, help: str) -> Callable[..., Any]:  # noqa: A002
    return click.option(*names, metavar=metavar, multiple=True, help=help)


_OPTIONS: Sequence[Callable[..., Any]] = (
    _several(
        "-c",
        "--conversation",
        metavar="WHICH",
        help="Only this one: its number in `otelctx conversations`, the beginning of its id, or a name.",
    ),
    _several("-a", "--agent", metavar="NAME", help="Only calls of this agent; * stands for anything."),
    click.option(
        "-t",
        "--turn",
        metavar="TURNS",
        multiple=True,
        callback=_turns,
        help="Only these turns of each conversation: 8, 3-8, 3- (to the last), -2 (the last two).",
    ),
    _several("--trace", metavar="ID", help="Only calls of this trace; the beginning of its id will do."),
    _several("--service", metavar="NAME", help="Only calls of this service; * stands for anything."),
    click.option(
        "--model",
        "models",
        metavar="NAME[=MODEL]",
        multiple=True,
        callback=_models,
        help="Only calls of this model; NAME=MODEL says what a deployment's name stands for instead.",
    ),
    click.option(
        "--since",
        metavar="TIME",
        default="",
        callback=_since,
        help="Only calls that started after it: 2026-11-30T12:00 (UTC), or 2h before the newest call.",
    ),
    click.option(
        "--limit",
        "windows",
        metavar="MODEL=TOKENS",
        multiple=True,
        callback=windows,
        help="Context window of a model; * stands for anything.",
    ),
    rules_option,
    click.option(
        "--format",
        "format_",
        metavar="NAME",
        callback=formats,
        help=f"The format of the input: {', '.join(FORMATS)}. [default: told by its content]",
    ),
    click.option(
        "--contents",
        metavar="FOLDER",
        multiple=True,
        type=click.Path(exists=True, file_okay=False),
        help="Where contents lie that records only refer to (uploads, raw bodies). The folders of the inputs are "
        "searched by themselves.",
    ),
)


# ---- what several commands have besides

json_option = click.option(
    "--json",
    "json_path",
    metavar="FILE",
    type=click.Path(),
    help="Write it as JSON; - is stdout, and then all.",
)
verbose_option = click.option("-v", "--verbose", count=True, help="Show all of every list.")
redact_option = click.option("--redact", is_flag=True, help="Show no prompt text.")
include_text_option = click.option(
    "--include-text", is_flag=True, help="Put the prompts' text into the JSON. Without it, none is there."
)
