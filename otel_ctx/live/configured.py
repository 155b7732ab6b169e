"""The exporter that is named instead of another: ``OTEL_TRACES_EXPORTER=otelctx``, or ``otelctx:`` in a configuration
file. What it passes spans on to is named too: ``OTELCTX_EXPORTER=otlp``.

Whatever is wrong with the names, the application starts: one line says it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_ctx.live.exporter import ContextSpanExporter
from otel_ctx.live.faults import survive
from otel_ctx.live.log_records import listen
from otel_ctx.live.settings import name_once

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

VARIABLE = "OTELCTX_EXPORTER"
GROUP = "opentelemetry_traces_exporter"
OWN_NAME, DEFAULT = "otelctx", "otlp"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http", "http/json": "otlp_json_http"}
_PACKAGES = {
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
    "otlp_json_http": "opentelemetry-exporter-otlp-json-http",
}


class ConfiguredSpanExporter(ContextSpanExporter):
    """``exporter``: the name of another exporter, or a mapping of its name to its options, as a configuration file has
    it; None: ``OTELCTX_EXPORTER``, else OTLP. ``options`` are the fields of LiveSettings."""

    def __init__(self, exporter: str | Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(_downstream(exporter), **options)
        if exporter is None:
            behind = entry_point_of(_chosen(None), os.environ)
            name_once(filter(None, [sent_twice(behind, os.environ)]))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._analyzer is not None:
            listen(self._analyzer)
        return super().export(spans)


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE


def entry_point_of(name: str, environ: Mapping[str, str]) -> str:
    """What ``name`` is called among the installed exporters: ``otlp`` stands for one of several, by its protocol."""
    if name != DEFAULT:
        return name
    said = next((environ[v].strip() for v in _PROTOCOLS if environ.get(v, "").strip()), "grpc")
    return _OTLP.get(said, name)


def sent_twice(behind: str, environ: Mapping[str, str]) -> str:
    """A sentence where ``OTEL_TRACES_EXPORTER`` also names what is ``behind`` otelctx; those of OTLP send to one place."""
    others = [name for name in exporters(environ) if name != OWN_NAME]
    known = set(_PACKAGES) if behind in _PACKAGES else {behind}
    twice = [name for name in others if entry_point_of(name, environ) in known]
    if not twice or OWN_NAME not in exporters(environ) or environ.get("OTEL_CONFIG_FILE"):
        return ""
    return (
        f"each span is sent twice: OTEL_TRACES_EXPORTER names {twice[0]} beside otelctx, and otelctx passes spans on to "
        f"{behind} itself. Set OTEL_TRACES_EXPORTER=otelctx"
    )


def exporters(environ: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in environ.get("OTEL_TRACES_EXPORTER", "").split(",")]


def wrong_name(name: str) -> str | None:
    """Why ``name`` cannot be the exporter behind this one; None where it can."""
    known = {point.name for point in entry_points(group=GROUP)} - {OWN_NAME}
    if name in known or name == DEFAULT:
        return None
    return f"it must be one exporter that is installed: {', '.join(sorted({DEFAULT, *known}))}"


def _downstream(given: str | Mapping[str, Any] | None) -> SpanExporter:
    try:
        if isinstance(given, Mapping):
            return _from_file(given)
        return _named(_chosen(given))
    except BaseException as error:
        survive(error, "making the exporter behind otelctx")
    return _Nowhere()


def _chosen(given: str | None) -> str:
    for place, value in (("exporter", given), (VARIABLE, os.environ.get(VARIABLE))):
        name = str(value).strip() if value is not None else ""
        if not name:
            continue
        why = wrong_name(name)
        if why is None:
            return name
        name_once([f"{place}={name!r} is not used: {why}"])
    return DEFAULT


def _named(name: str) -> SpanExporter:
    wanted = entry_point_of(name, os.environ)
    point = next(iter(entry_points(group=GROUP, name=wanted)), None)
    if point is None:
        name_once(
            [
                f"no span is sent: the exporter {wanted} is not installed (package {_PACKAGES.get(wanted, '?')})"
            ]
        )
        return _Nowhere()
    try:
        exporter: SpanExporter = point.load()()
        return exporter
    except Exception as error:
        # Its message is about settings, none of which holds a prompt; but it may hold a header.
        name_once([f"no span is sent: the exporter {wanted} cannot be made ({type(error).__name__})"])
        return _Nowhere()


def _from_file(options: Mapping[str, Any]) -> SpanExporter:
    """As the SDK makes an exporter from the same lines elsewhere in the file. It has no public function for that."""
    try:
        from opentelemetry.configuration._conversion import _dict_to_dataclass
        from opentelemetry.configuration._tracer_provider import _create_span_exporter
        from opentelemetry.configuration.models import SpanExporter as Model

        made: SpanExporter = _create_span_exporter(_dict_to_dataclass(options, Model))
        return made
    except Exception as error:
        name = ", ".join(map(str, options))
        name_once(
            [f"no span is sent: the exporter {name} cannot be made from the file ({type(error).__name__})"]
        )
        return _Nowhere()
