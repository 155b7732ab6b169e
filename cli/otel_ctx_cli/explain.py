"""``otelctx explain KIND``: what a finding means, how it is found and how sure it is."""

from __future__ import annotations

import click

from otel_ctx_cli.version import version_option

_CAUSES = {"unknown": "unexplained_miss"}  # causes of waste whose finding has another name


def _known(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        from otel_ctx.findings.kinds import KINDS

        value = _CAUSES.get(value, value)
        if value not in KINDS:
            raise click.BadParameter(f"{value!r} is no kind of finding; otelctx explain lists them all.")
    return value


@click.command(short_help="What a finding means, how it is found and how sure it is.")
@click.argument("kind", required=False, callback=_known)
@version_option
def command(kind: str | None) -> None:
    """What a finding means, how it is found and how sure that is. Without KIND: the list of all kinds."""
    from otel_ctx.findings.kinds import explanations
    from otel_ctx.outputs.text.layout import BLANK, Run, line, paragraph
    from otel_ctx_cli.terminal import print_lines, width

    known, columns = explanations(), width()
    if kind is None:
        room = max(map(len, known)) + 2
        lines = []
        for name, told in known.items():
            first = told.means.partition(". ")[0].rstrip(".") + "."
            wrapped = list(paragraph(first, columns, room))
            lines += [line(Run(f"{name:<{room}}", "strong"), *wrapped[0][1:]), *wrapped[1:]]
        print_lines(lines)
        return
    told = known[kind]
    print_lines(
        [
            line(Run(kind, "title"), f"  {told.severity}"),
            *paragraph(told.means, columns, 2),
            BLANK,
            *paragraph(told.found, columns, 2, "", "how it is found   "),
            BLANK,
            *paragraph(told.sure, columns, 2, "", "how sure it is    "),
        ]
    )
