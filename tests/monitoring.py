"""What the dashboards and alerts ask, taken apart: every query with the place where it stands, and its selectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from otel_ctx_cli.monitoring.alerts import ALERTS, RECORDS

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "collector_config"
BOARDS = {
    path.stem: json.loads(path.read_bytes())
    for path in sorted((CONFIG / "grafana/dashboards").glob("*.json"))
}


class Query(NamedTuple):
    where: str
    expr: str
    instant: bool = True


class Matcher(NamedTuple):
    label: str
    operator: str
    value: str


class Selector(NamedTuple):
    metric: str  # empty where the name is matched by a label
    matchers: tuple[Matcher, ...]


def panel_queries() -> Iterator[Query]:
    for uid, board in BOARDS.items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                where = f"{uid}: {panel['title']} {target['refId']}"
                yield Query(where, target["expr"], target["instant"])


def annotation_queries() -> Iterator[Query]:
    for uid, board in BOARDS.items():
        for annotation in board["annotations"]["list"]:
            if "expr" in annotation:
                yield Query(f"{uid}: {annotation['name']}", annotation["expr"], instant=False)


def variable_queries() -> Iterator[Query]:
    for uid, board in BOARDS.items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                series, label = variable_parts(variable)
                yield Query(f"{uid}: ${variable['name']}", f"count by ({label}) ({series})")


def variable_parts(variable: dict[str, Any]) -> tuple[str, str]:
    """The series, and the label whose values are asked for."""
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
    assert match, variable
    return match[1], match[2]


def rule_queries() -> Iterator[Query]:
    """Of the alerts their values, without the condition, and what their texts ask once more."""
    for record in RECORDS:
        yield Query(record.name, record.expr)
    for alert in ALERTS:
        yield Query(alert.name, alert.expr)
        if "otelctx" in alert.condition:
            yield Query(f"{alert.name}, condition", f"vector(0) {alert.condition}")
        for asked in re.findall(r'query (?:\(printf )?"([^"]+)"', alert.lookup):
            yield Query(f"{alert.name}, text", asked.replace("%q", '"shop"'))


def all_queries() -> Iterator[Query]:
    yield from panel_queries()
    yield from annotation_queries()
    yield from variable_queries()
    yield from rule_queries()


# ---- PromQL, as far as these queries go

_STRING = r'"(?:[^"\\]|\\.)*"'
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)?\{{((?:[^{{}}\"]|{_STRING})*)\}}")
_MATCHER = re.compile(rf"(\w+)\s*(=~|!~|!=|=)\s*({_STRING})")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring) \(([\w, ]*)\)")


def selectors(expr: str) -> list[Selector]:
    """Those in braces, and the metrics without any."""
    found = []
    for name, inside in _SELECTOR.findall(expr):
        matchers = tuple(
            Matcher(label, op, json.loads(value)) for label, op, value in _MATCHER.findall(inside)
        )
        found.append(Selector(name, matchers))
    bare = re.sub(_STRING, "", _SELECTOR.sub(" ", expr))
    bare = _GROUPED.sub(" ", bare)
    found += [Selector(name, ()) for name in re.findall(r"\b(?:otelctx[_:]|ALERTS)[\w:]*", bare)]
    return found


def grouped(expr: str) -> set[str]:
    """The labels that a query groups by."""
    return {label for labels in _GROUPED.findall(expr) for label in re.findall(r"\w+", labels)}


def filled(expr: str, *, rate: str, range_: str, step: str) -> str:
    """With everything chosen in the dashboard, and the windows that Grafana would put in."""
    expr = expr.replace("$__rate_interval", rate).replace("$__range", range_).replace("$__interval", step)
    return re.sub(r"\$(?:job|service|provider|model)\b", ".*", expr)
