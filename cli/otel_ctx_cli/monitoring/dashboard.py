"""A dashboard around its panels: the variables, the marks of alerts and deploys, the links to the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from otel_ctx_cli.monitoring.panels import DATASOURCE, Json, Panel, Row, lay_out

TAGS = ["otelctx", "genai"]


@dataclass(frozen=True, slots=True)
class Board:
    """``uid`` is its address in Grafana and never changes. ``by_source``: whether service, provider and model can be
    chosen."""

    uid: str
    title: str
    description: str
    rows: tuple[Row | Panel, ...]
    by_source: bool = True


@dataclass(frozen=True, slots=True)
class Choices:
    """What is chosen when a dashboard is opened. ``job`` is a regular expression, as Prometheus anchors it.
    ``importable``: with the inputs that Grafana's import dialog asks for; files that are provisioned must not have
    them."""

    datasource: str = ""
    job: str = ""
    importable: bool = False


def model(board: Board, choices: Choices) -> Json:
    """Grafana's classic model. No numeric id: Grafana gives it."""
    inputs: Json = {}
    if choices.importable:
        inputs = {"__inputs": [_INPUT], "__requires": _REQUIRES}
    return {
        **inputs,
        "uid": board.uid,
        "title": f"otel_ctx / {board.title}",
        "description": board.description,
        "tags": TAGS,
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "weekStart": "",
        "links": [_LINKS],
        "annotations": {"list": list(_annotations(board))},
        "templating": {"list": list(_variables(board, choices))},
        "panels": lay_out(board.rows),
    }


_INPUT = {
    "name": "DS_PROMETHEUS",
    "label": "Prometheus",
    "description": "Where the metrics of otel_ctx are",
    "type": "datasource",
    "pluginId": "prometheus",
    "pluginName": "Prometheus",
}
_REQUIRES = [
    {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.4.0"},
    {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
]
_LINKS = {
    "title": "otel_ctx dashboards",
    "type": "dashboards",
    "tags": ["otelctx"],
    "asDropdown": True,
    "keepTime": True,
    "includeVars": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "",
    "url": "",
}

# ---- marks

_VERSIONS = (
    'sum by (source_service, source_version) (otelctx_source_info{job=~"$job", source_service=~"$service"}'
)


def _annotations(board: Board) -> Iterable[Json]:
    yield {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }
    firing = 'ALERTS{alertname=~"OtelCtx.+", alertstate="firing"}'
    yield _annotation("Alerts of otel_ctx", "red", firing, "{{alertname}}", "{{source_service}} {{severity}}")
    if board.by_source:
        new = f"{_VERSIONS}) unless {_VERSIONS} offset 5m)"
        yield _annotation("New service versions", "blue", new, "{{source_service}} {{source_version}}")


def _annotation(name: str, colour: str, expr: str, title: str, text: str = "") -> Json:
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": expr,
        "titleFormat": title,
        "textFormat": text,
        "step": "60s",
        "useValueForTime": False,
    }


# ---- variables


def _variables(board: Board, choices: Choices) -> Iterable[Json]:
    yield _datasource(choices)
    known = "otelctx_calls_total" if board.by_source else "otelctx_self_spans_total"
    yield _query("job", "Job", known, "job", chosen=choices.job)
    if board.by_source:
        within = 'job=~"$job"'
        for name, title, label in (
            ("service", "Service", "source_service"),
            ("provider", "Provider", "gen_ai_provider_name"),
            ("model", "Model", "gen_ai_request_model"),
        ):
            yield _query(name, title, f"{known}{{{within}}}", label)
            within += f', {label}=~"${name}"'


def _datasource(choices: Choices) -> Json:
    uid = "${DS_PROMETHEUS}" if choices.importable else choices.datasource or "default"
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "current": {"text": uid, "value": uid},
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def _query(name: str, title: str, series: str, label: str, chosen: str = "") -> Json:
    """All is ``.*``, not ``.+``: it also matches where the label is missing."""
    current = {"selected": True, "text": [chosen or "All"], "value": [chosen or "$__all"]}
    query = f"label_values({series}, {label})"
    return {
        "type": "query",
        "name": name,
        "label": title,
        "datasource": DATASOURCE,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": current,
        "hide": 0,
        "options": [],
        "regex": "",
        "skipUrlSync": False,
    }
