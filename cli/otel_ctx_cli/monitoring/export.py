"""The files that are made from the boards and alerts, by their path below the folder of an export."""

from __future__ import annotations

import json
from collections.abc import Mapping

from otel_ctx_cli.monitoring.boards import BOARDS
from otel_ctx_cli.monitoring.dashboard import Choices, model
from otel_ctx_cli.monitoring.panels import Json
from otel_ctx_cli.monitoring.rules import Place, grafana, prometheus, prometheus_rule, prometheus_yaml

_MADE = "# Made by `otelctx dashboards export`; a change here is lost with the next one.\n"


def files(choices: Choices, place: Place, traces: str = "jaeger") -> Mapping[str, bytes]:
    """``traces``: the uid of the data source that an exemplar's trace is opened in."""
    boards = {board.uid: model(board, choices) for board in BOARDS}
    rules = prometheus_yaml(place)
    return {
        **{f"grafana/dashboards/{uid}.json": _json(board) for uid, board in boards.items()},
        "grafana/provisioning/dashboards/otelctx.yaml": (_MADE + _PROVIDER).encode(),
        "grafana/provisioning/datasources/otelctx.yaml": (
            _MADE + _datasources(choices.datasource or place.datasource, traces)
        ).encode(),
        "grafana/alerts/otelctx.json": _json(grafana(place)),
        "prometheus/otelctx.rules.yml": (_MADE + rules).encode(),
        "kubernetes/prometheusrule.yaml": (_MADE + prometheus_rule(place)).encode(),
        "mixin/mixin.libsonnet": _mixin(list(boards)).encode(),
        "mixin/otelctx.rules.json": _json(prometheus(place)),
    }


def _json(value: Json) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


_PROVIDER = """\
apiVersion: 1
providers:
  - name: otelctx
    folder: otel_ctx
    type: file
    disableDeletion: true
    allowUiUpdates: false
    updateIntervalSeconds: 60
    options:
      path: /etc/grafana/dashboards/otelctx
"""


def _datasources(prometheus_uid: str, traces: str) -> str:
    """A trace of an exemplar opens in the data source ``traces``: Jaeger here, Tempo where that is named."""
    tempo = "tempo" in traces.lower()
    kind, port = ("tempo", 3200) if tempo else ("jaeger", 16686)
    return f"""\
apiVersion: 1
datasources:
  - name: Prometheus
    uid: {json.dumps(prometheus_uid)}
    type: prometheus
    access: proxy
    url: http://prometheus:9090
    isDefault: true
    jsonData:
      httpMethod: POST
      timeInterval: 15s # the scrape interval; $__rate_interval is four times this
      exemplarTraceIdDestinations:
        - name: trace_id # the label that otel_ctx and OpenTelemetry write
          datasourceUid: {json.dumps(traces)}
          urlDisplayLabel: Open the trace
  - name: {kind.capitalize()}
    uid: {json.dumps(traces)}
    type: {kind}
    access: proxy
    url: http://{kind}:{port}
"""


def _mixin(uids: list[str]) -> str:
    boards = "\n".join(
        f"    '{uid}.json': tagged(import '../grafana/dashboards/{uid}.json')," for uid in uids
    )
    return f"""\
// Made by `otelctx dashboards export`: the dashboards and rules as a monitoring mixin.
//   jsonnet -m out -e '(import "mixin.libsonnet").grafanaDashboards'
local rules = import 'otelctx.rules.json';  // std.parseYaml of jsonnet 0.18 aborts on block scalars
local only(field) = {{
  groups: [
    g {{ rules: [r for r in g.rules if std.objectHas(r, field)] }}
    for g in rules.groups
    if std.length([r for r in g.rules if std.objectHas(r, field)]) > 0
  ],
}};
{{
  _config:: {{ dashboardTags: ['otelctx', 'genai'] }},
  local tagged(dashboard) = dashboard {{ tags: $._config.dashboardTags }},
  grafanaDashboards+:: {{
{boards}
  }},
  prometheusAlerts+:: only('alert'),
  prometheusRules+:: only('record'),
}}
"""
