"""``otelctx dashboards``: Grafana dashboards, alerts and what brings them in, for the user's own names."""

from __future__ import annotations

import re
from pathlib import Path

import click

from otel_ctx_cli.main import Failure
from otel_ctx_cli.version import version_option


@click.group(short_help="Grafana dashboards and Prometheus alerts for the metrics.", no_args_is_help=True)
@version_option
def command() -> None:
    """Dashboards and alerts for the metrics that otel_ctx gives in the app and in the gateway."""


def _regex(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is no regular expression: {error}.") from None
    return value


def _uid(_: click.Context, __: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,40}", value):
        raise click.BadParameter(
            f"{value!r} is no uid of Grafana's: letters, digits, - and _, 40 at the most."
        )
    return value


@command.command(short_help="Write them into a folder.", no_args_is_help=True)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--datasource",
    metavar="UID",
    default="",
    callback=_uid,
    help="Grafana's uid of your Prometheus data source (default: Grafana's default one).",
)
@click.option(
    "--traces",
    metavar="UID",
    default="jaeger",
    show_default=True,
    callback=_uid,
    help="Grafana's uid of the Jaeger or Tempo data source that exemplars open in.",
)
@click.option(
    "--job",
    metavar="REGEX",
    default="",
    callback=_regex,
    help="The job label of the scraped processes (default: any).",
)
@click.option(
    "--runbooks",
    metavar="URL",
    default="docs/alerts.md",
    help="Where your copy of docs/alerts.md is, for the alerts' links.",
)
@click.option(
    "--importable", is_flag=True, help="Dashboards for Grafana's import dialog, not for provisioning."
)
@click.option("--force", is_flag=True, help="Write over files that are there and differ.")
def export(
    folder: Path, datasource: str, traces: str, job: str, runbooks: str, importable: bool, force: bool
) -> None:
    """Write the dashboards, the rules and alerts, and the files that provision them, into DIR.

    \b
      grafana/dashboards/       five dashboards, Grafana 10.4 and newer
      grafana/provisioning/     data sources and the folder of the dashboards
      grafana/alerts/           the alerts, for a Grafana that evaluates them itself
      prometheus/               recording rules and alerts
      kubernetes/, mixin/       the same for the Prometheus operator, and as a mixin
    """
    from otel_ctx_cli.monitoring.dashboard import Choices
    from otel_ctx_cli.monitoring.export import files
    from otel_ctx_cli.monitoring.rules import Place
    from otel_ctx_cli.writing import replace

    made = files(
        Choices(datasource, job, importable),
        Place(job, runbooks, datasource or "prometheus"),
        traces,
    )
    other = [name for name, data in made.items() if _differs(folder / name, data)]
    if other and not force:
        shown = click.format_filename(folder / other[0])
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        raise Failure(f"{shown}{more} would be overwritten; --force does that")
    for name, data in made.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Failure(
                f"{click.format_filename(path.parent)}: {(error.strerror or str(error)).lower()}"
            ) from None
        replace(path, data)
    click.echo(f"{len(made)} files in {click.format_filename(folder)}")


def _differs(path: Path, data: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != data)
