"""Panels of Grafana's classic dashboard model (schema 39: Grafana 10.4 and newer; 13 turns it into its own by itself)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

Json = dict[str, Any]
Steps = Sequence[tuple[str, float | None]]  # colours, each from a value on

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # columns of Grafana's grid

ANY_IS_BAD: Steps = (("green", None), ("red", 1))


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str = "__auto"
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    title: str


@dataclass(frozen=True, slots=True)
class Panel:
    """``unit`` is one of Grafana's. ``steps`` colour a number, or are lines in a chart. ``columns`` of a table: the
    name and unit of each query's value. ``interval``: the least width of a bar or step."""

    kind: Literal["stat", "timeseries", "table", "bargauge", "heatmap"]
    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 12
    height: int = 8
    steps: Steps = ()
    least: float | None = None
    most: float | None = None
    stack: Literal["", "normal", "percent"] = ""
    bars: bool = False
    interval: str = ""
    colours: Mapping[str, str] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    ascending: bool = False


def stat(
    title: str,
    description: str,
    expr: str,
    unit: str = "short",
    *,
    steps: Steps = (),
    width: int = 4,
    height: int = 4,
) -> Panel:
    """One number for all that is shown."""
    return Panel("stat", title, description, (Query(expr),), unit, width, height, steps)


def chart(title: str, description: str, *queries: Query, unit: str = "short", **more: Any) -> Panel:
    return replace(Panel("timeseries", title, description, queries, unit), **more)


def table(title: str, description: str, columns: Mapping[tuple[str, str], str], **more: Any) -> Panel:
    """``columns``: (name, unit) of each, and its query. Sorted by the first."""
    queries = tuple(Query(expr) for expr in columns.values())
    return replace(Panel("table", title, description, queries), columns=tuple(columns), **more)


def lay_out(rows: Iterable[Row | Panel]) -> list[Json]:
    """From left to right, a new line where one is full."""
    placed: list[Json] = []
    x = y = tallest = 0
    for number, each in enumerate(rows, 1):
        width, height = (WIDTH, 1) if isinstance(each, Row) else (each.width, each.height)
        if x + width > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        place = {"h": height, "w": width, "x": x, "y": y}
        placed.append(
            {"id": number, "gridPos": place, **(_row(each) if isinstance(each, Row) else _panel(each))}
        )
        x, tallest = x + width, max(tallest, height)
    return placed


def _row(row: Row) -> Json:
    return {"type": "row", "title": row.title, "collapsed": False, "panels": []}


def _panel(panel: Panel) -> Json:
    drawn = _DRAWN[panel.kind](panel)
    out: Json = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(panel, query, chr(ord("A") + n)) for n, query in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": _defaults(panel, drawn.pop("custom", None)),
            "overrides": drawn.pop("overrides", []),
        },
        **drawn,
    }
    if panel.interval:
        out["interval"] = panel.interval
    return out


def _target(panel: Panel, query: Query, ref: str) -> Json:
    at_once = panel.kind in ("stat", "table", "bargauge")
    target: Json = {
        "refId": ref,
        "datasource": DATASOURCE,
        "expr": query.expr,
        "editorMode": "code",
        "range": not at_once,
        "instant": at_once,
        "legendFormat": query.legend,
    }
    if panel.kind in ("table", "heatmap"):
        target["format"] = panel.kind
    if query.exemplars:
        target["exemplar"] = True
    if panel.interval:
        target["interval"] = panel.interval
    return target


def _defaults(panel: Panel, custom: Json | None) -> Json:
    steps = [{"color": colour, "value": value} for colour, value in panel.steps or (("green", None),)]
    defaults: Json = {
        "unit": panel.unit,
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
        "mappings": [],
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if panel.least is not None:
        defaults["min"] = panel.least
    if panel.most is not None:
        defaults["max"] = panel.most
    if custom is not None:
        defaults["custom"] = custom
    return defaults


# ---- what is particular to a kind

_LAST: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}


def _stat(panel: Panel) -> Json:
    options = {
        "reduceOptions": _LAST,
        "colorMode": "value" if panel.steps else "none",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
        "wideLayout": True,
    }
    return {"options": options}


def _chart(panel: Panel) -> Json:
    filled = 30 if panel.stack else 80 if panel.bars else 8
    custom = {
        "drawStyle": "bars" if panel.bars else "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": filled,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": panel.stack or "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
        "axisPlacement": "auto",
        "axisSoftMin": 0,
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    coloured = (panel.colours or {}).items()
    overrides = [_override(n, "color", {"mode": "fixed", "fixedColor": c}) for n, c in coloured]
    return {"custom": custom, "options": options, "overrides": overrides}


def _bars(panel: Panel) -> Json:
    options = {
        "displayMode": "basic",
        "orientation": "horizontal",
        "reduceOptions": _LAST,
        "showUnfilled": True,
        "valueMode": "color",
    }
    return {"options": options}


def _heatmap(panel: Panel) -> Json:
    colour = {
        "mode": "scheme",
        "scheme": "Blues",
        "steps": 64,
        "exponent": 0.5,
        "fill": "dark-blue",
        "scale": "exponential",
        "reverse": False,
    }
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": colour,
        "yAxis": {"unit": panel.unit, "axisPlacement": "left"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": False},
        "rowsFrame": {"layout": "auto"},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
    }
    return {"options": options}


def _table(panel: Panel) -> Json:
    """The values of several queries, merged by their labels, under names for people."""
    several = len(panel.columns) > 1
    named = {
        f"Value #{chr(ord('A') + n)}" if several else "Value": name
        for n, (name, _) in enumerate(panel.columns)
    }
    labels = {"source_service": "Service", "gen_ai_request_model": "Model"}
    organize = {
        "excludeByName": {"Time": True, "__name__": True, "job": True, "instance": True},
        "indexByName": {},
        "renameByName": named | labels,
    }
    merge = [{"id": "merge", "options": {}}] if several else []
    options = {
        "showHeader": True,
        "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""},
        "sortBy": [{"displayName": panel.columns[0][0], "desc": not panel.ascending}],
    }
    return {
        "options": options,
        "overrides": [_column(name, unit) for name, unit in panel.columns],
        "transformations": [*merge, {"id": "organize", "options": organize}],
    }


def _column(name: str, unit: str) -> Json:
    override = _override(name, "unit", unit)
    if unit == "percentunit":
        gauge = {"type": "gauge", "mode": "basic"}
        override["properties"].append({"id": "custom.cellOptions", "value": gauge})
    return override


def _override(name: str, id_: str, value: Any) -> Json:
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": id_, "value": value}]}


_DRAWN = {"stat": _stat, "timeseries": _chart, "table": _table, "bargauge": _bars, "heatmap": _heatmap}
