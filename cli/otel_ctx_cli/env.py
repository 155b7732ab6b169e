"""``otelctx env``: what is active in this environment, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from otel_ctx_cli.version import version_option

if TYPE_CHECKING:
    from otel_ctx.live.environment import Environment
    from otel_ctx.live.instrumentations import Instrumentation
    from otel_ctx.outputs.text.layout import Line, Style


@click.command(short_help="Say what is active in this environment, and why.")
@click.option("--json", "as_json", is_flag=True, help="Write it as JSON.")
@version_option
def command(as_json: bool) -> None:
    """Say what of otel_ctx is active in this environment, and why: entry points, variables, the instrumentations that
    are installed and where each records the contents of calls. Run it as your app is run: with the same Python and the
    same variables. No secret is shown."""  # fmt: skip
    import json
    from importlib.metadata import distributions

    from otel_ctx.live.environment import look
    from otel_ctx_cli.terminal import print_lines, width, write

    seen = look(os.environ, distributions())
    if as_json:
        write((json.dumps(seen.data(), indent=2) + "\n").encode())
        return
    print_lines(_lines(seen, width()))


def _lines(seen: Environment, width: int) -> Iterator[Line]:
    from otel_ctx.outputs.text.layout import BLANK, Run, line

    yield line(Run("Ways in", "title"))
    for way in seen.ways:
        yield from _told(way.name, "active" if way.active else "not active", way.why, width, way.active)
    yield BLANK
    yield line(Run("Instrumentations", "title"))
    if not seen.instrumentations:
        yield line("  none of a model client is installed")
    for each in seen.instrumentations:
        yield from _instrumentation(each, width)
    yield BLANK
    yield line(Run("opentelemetry-instrument would load", "title"))
    for name in seen.loads or ("nothing",):
        yield line(f"  {name}")
    if seen.variables:
        yield BLANK
        yield line(Run("Variables", "title"))
    for variable in seen.variables:
        yield from _wrapped(f"{variable.name}={variable.value}", width, 2, "strong")
        if variable.does:
            yield from _wrapped(variable.does, width, 4, "dim")
        if variable.wrong:
            yield from _wrapped(f"not used: {variable.wrong}", width, 4, "alarm")
    if seen.problems:
        yield BLANK
        yield line(Run("Problems", "title"))
    for problem in seen.problems:
        yield from _wrapped(problem, width, 2, "notice")


def _instrumentation(each: Instrumentation, width: int) -> Iterator[Line]:
    yield from _told(
        f"{each.package} {each.version}",
        "active" if each.loads else "not loaded",
        each.why,
        width,
        each.loads,
    )
    if not each.loads:
        return
    style: Style = "notice" if each.contents == "nothing" else ""
    yield from _wrapped(f"contents go to {each.contents}: {each.because}", width, 4, style)
    if each.withholds:
        yield from _wrapped(f"never recorded: {', '.join(each.withholds)}", width, 4)
    if each.fix:
        yield from _wrapped(each.fix, width, 4, lead="fix   ")


def _told(name: str, state: str, why: str, width: int, good: bool) -> Iterator[Line]:
    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.text.layout import Run, line

    yield line("  ", Run(escape(name), "strong"), "  ", Run(state, "good" if good else "dim"))
    if why:
        yield from _wrapped(why, width, 4, "dim")


def _wrapped(text: str, width: int, indent: int, style: Style = "", lead: str = "") -> Iterator[Line]:
    from otel_ctx.outputs.escape import escape
    from otel_ctx.outputs.text.layout import paragraph

    yield from paragraph(escape(text), width, indent, style, lead)
