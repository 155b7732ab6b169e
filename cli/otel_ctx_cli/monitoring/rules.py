"""The alerts as others read them: rules of Prometheus (YAML and JSON), a PrometheusRule, alerts that Grafana manages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

from otel_ctx_cli.monitoring.alerts import GROUPS, RECORDS, Alert, Group, Record
from otel_ctx_cli.monitoring.panels import Json


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user has things. ``job``: a regular expression for the job label, empty for any. ``runbooks``: the
    address of docs/alerts.md. ``datasource``: the uid that Grafana's own alerts ask."""

    job: str = ""
    runbooks: str = "docs/alerts.md"
    datasource: str = "prometheus"


# ---- expressions

_METRIC = re.compile(r'(?<![\w:"])(otelctx_\w+)(\{)?')


def expression(rule: Record | Alert, place: Place) -> str:
    """What Prometheus evaluates."""
    if isinstance(rule, Record):
        return _for_job(rule.expr, place.job)
    value = f"(\n{indent(rule.expr, '  ')}\n)" if "\n" in rule.expr else rule.expr
    return _for_job(f"{value} {rule.condition}", place.job)


def _for_job(expr: str, job: str) -> str:
    """Only series of the job: a matcher at each metric."""
    if not job:
        return expr
    matcher = f"job=~{json.dumps(job)}"
    named = _METRIC.sub(lambda m: f"{m[1]}{{{matcher}{', ' if m[2] else '}'}", expr)
    return named.replace("({__name__", f"({{{matcher}, __name__")


def _inline(expr: str) -> str:
    """Without recording rules: their expressions in place, as subqueries where a range is asked of them."""
    for record in RECORDS:
        name = re.escape(record.name)
        expr = re.sub(rf"{name}\[(\w+)\]", lambda m, r=record: f"({r.expr})[{m[1]}:1m]", expr)  # type: ignore[misc]
        expr = re.sub(name, lambda _, r=record: f"({r.expr})", expr)  # type: ignore[misc]
    return re.sub(r"\s+", " ", expr).strip()


def _runbook(alert: Alert, place: Place) -> str:
    return f"{place.runbooks}#{alert.name.lower()}"


# ---- Prometheus


def prometheus(place: Place) -> Json:
    return {"groups": [_group(group, place) for group in GROUPS]}


def _group(group: Group, place: Place) -> Json:
    interval = {"interval": group.interval} if group.interval else {}
    return {"name": group.name, **interval, "rules": [_rule(rule, place) for rule in group.rules]}


def _rule(rule: Record | Alert, place: Place) -> Json:
    expr = expression(rule, place)
    if isinstance(rule, Record):
        return {"record": rule.name, "expr": expr}
    lasting = {} if rule.lasting == "0s" else {"for": rule.lasting}
    annotations = {
        "summary": rule.summary,
        "description": f"{rule.description} {rule.lookup}".strip(),
        "runbook_url": _runbook(rule, place),
        "__dashboardUid__": rule.board,
    }
    labels = {"severity": rule.severity}
    return {"alert": rule.name, "expr": expr, **lasting, "labels": labels, "annotations": annotations}


def prometheus_yaml(place: Place) -> str:
    return "\n".join(_yaml(prometheus(place)))


def prometheus_rule(place: Place) -> str:
    """For the Prometheus operator."""
    head = (
        "apiVersion: monitoring.coreos.com/v1\n"
        "kind: PrometheusRule\n"
        "metadata:\n"
        "  name: otelctx\n"
        "  labels:\n"
        "    app.kubernetes.io/name: otelctx\n"
        "    role: alert-rules\n"
        "spec:\n"
    )
    return head + indent(prometheus_yaml(place), "  ")


def _yaml(rules: Json) -> Iterator[str]:
    """Only the shape that rules have. A string in double quotes is JSON's and YAML's alike."""
    yield "groups:"
    for group in rules["groups"]:
        yield f"  - name: {group['name']}"
        if "interval" in group:
            yield f"    interval: {group['interval']}"
        yield "    rules:"
        for rule in group["rules"]:
            lead = "      - "
            for key, value in rule.items():
                yield from _field(lead, key, value)
                lead = "        "
    yield ""


def _field(lead: str, key: str, value: str | Json) -> Iterator[str]:
    inner = " " * (len(lead) + 2)
    if isinstance(value, dict):
        yield f"{lead}{key}:"
        for name, text in value.items():
            yield f"{inner}{name}: {_scalar(text)}"
    elif "\n" in value:
        yield f"{lead}{key}: |-"
        yield indent(value, inner)
    else:
        yield f"{lead}{key}: {_scalar(value)}"


def _scalar(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z][\w:./#-]*|\d+[smhd]", text)
    return text if plain and not text.endswith(":") else json.dumps(text, ensure_ascii=False)


# ---- Grafana

_FIRES = "is_number($A) || is_nan($A) || is_inf($A)"


def grafana(place: Place) -> Json:
    """Alerts that Grafana evaluates, where there is no rule evaluation of Prometheus to be had."""
    groups = []
    for group in GROUPS:
        alerts = [_managed(rule, place) for rule in group.rules if isinstance(rule, Alert)]
        if alerts:
            groups.append(
                {"orgId": 1, "name": group.name, "folder": "otel_ctx", "interval": "1m", "rules": alerts}
            )
    return {"apiVersion": 1, "groups": groups}


def _managed(alert: Alert, place: Place) -> Json:
    """Grafana fires on a value that is not 0, and a hit ratio of 0 is one: any result of the expression, which holds its
    own threshold, is made 1."""
    expr = _for_job(_inline(f"({alert.expr}) {alert.condition}"), place.job)
    query = {"refId": "A", "expr": expr, "instant": True, "range": False, "editorMode": "code"}
    any_result = {"refId": "B", "type": "math", "expression": _FIRES}
    above = {"evaluator": {"type": "gt", "params": [0]}}
    threshold = {"refId": "C", "type": "threshold", "expression": "B", "conditions": [above]}
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", alert.name.removeprefix("OtelCtx")).lower()
    return {
        "uid": f"otelctx-{words}",
        "title": alert.name,
        "condition": "C",
        "data": [
            {
                "refId": "A",
                "relativeTimeRange": {"from": 600, "to": 0},
                "datasourceUid": place.datasource,
                "model": query,
            },
            {"refId": "B", "datasourceUid": "__expr__", "model": any_result},
            {"refId": "C", "datasourceUid": "__expr__", "model": threshold},
        ],
        "for": alert.lasting,
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": _in_grafana(alert.description),
            "runbook_url": _runbook(alert, place),
            "__dashboardUid__": alert.board,
        },
        "isPaused": False,
    }


def _in_grafana(template: str) -> str:
    """There ``$value`` is a text of all queries' results."""
    piped = re.sub(r"\{\{ \$value \| (\w+) \}\}", r"{{ \1 $values.A.Value }}", template)
    return piped.replace("$value }}", "$values.A.Value }}")
