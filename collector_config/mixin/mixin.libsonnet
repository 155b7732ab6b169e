// Made by `otelctx dashboards export`: the dashboards and rules as a monitoring mixin.
//   jsonnet -m out -e '(import "mixin.libsonnet").grafanaDashboards'
local rules = import 'otelctx.rules.json';  // std.parseYaml of jsonnet 0.18 aborts on block scalars
local only(field) = {
  groups: [
    g { rules: [r for r in g.rules if std.objectHas(r, field)] }
    for g in rules.groups
    if std.length([r for r in g.rules if std.objectHas(r, field)]) > 0
  ],
};
{
  _config:: { dashboardTags: ['otelctx', 'genai'] },
  local tagged(dashboard) = dashboard { tags: $._config.dashboardTags },
  grafanaDashboards+:: {
    'otelctx-overview.json': tagged(import '../grafana/dashboards/otelctx-overview.json'),
    'otelctx-cache.json': tagged(import '../grafana/dashboards/otelctx-cache.json'),
    'otelctx-waste.json': tagged(import '../grafana/dashboards/otelctx-waste.json'),
    'otelctx-conversation.json': tagged(import '../grafana/dashboards/otelctx-conversation.json'),
    'otelctx-self.json': tagged(import '../grafana/dashboards/otelctx-self.json'),
  },
  prometheusAlerts+:: only('alert'),
  prometheusRules+:: only('record'),
}
