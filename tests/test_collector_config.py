"""What is in collector_config/, without any server: it is what the command writes, and asks for what there is."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from otel_ctx.live.gateway.config import config_of
from otel_ctx.live.gateway.config_file import read_file
from otel_ctx.outputs.metrics import METRICS, TABLE, VALUES, Metric, prometheus_name
from otel_ctx_cli.monitoring.alerts import ALERTS, GROUPS, RECORDS
from otel_ctx_cli.monitoring.boards import BOARDS as TABLED
from otel_ctx_cli.monitoring.dashboard import Choices
from otel_ctx_cli.monitoring.export import files
from otel_ctx_cli.monitoring.rules import Place
from tests.monitoring import (
    BOARDS,
    CONFIG,
    ROOT,
    Query,
    all_queries,
    grouped,
    panel_queries,
    rule_queries,
    selectors,
    variable_parts,
)

QUERIES = list(all_queries())

# ---- made by the command


def test_the_files_are_those_that_the_command_writes(request: pytest.FixtureRequest) -> None:
    made = files(Choices(), Place())
    if request.config.getoption("--update"):
        for name, data in made.items():
            (CONFIG / name).write_bytes(data)

    assert {name: (CONFIG / name).read_bytes() for name in made} == dict(made)
    folders = {
        CONFIG / Path(name).parent for name in made if not name.startswith(("prometheus/", "kubernetes/"))
    }
    there = {path for folder in folders for path in folder.iterdir() if path.is_file()}
    assert there == {CONFIG / name for name in made if (CONFIG / name).parent in folders}


# ---- every name in a query is one of the metrics'


class Series:
    """A metric of the table as Prometheus has it: its name, and its labels with their values (None: any)."""

    def __init__(self, metric: Metric) -> None:
        name = prometheus_name(metric)
        histogram = metric.kind == "histogram"
        self.names = {f"{name}_bucket", f"{name}_count", f"{name}_sum"} if histogram else {name}
        self.labels: dict[str, tuple[str, ...] | None] = {
            key.replace(".", "_"): VALUES.get(key) for key in metric.keys
        }
        self.labels |= {"job": None, "instance": None}
        if histogram:
            spelt = (words for b in metric.buckets for words in (str(b), f"{b:g}"))
            self.labels["le"] = (*spelt, "+Inf")


SERIES = {name: series for m in TABLE for series in [Series(m)] for name in series.names}
_SEVERITIES = tuple({alert.severity for alert in ALERTS})


def labels_of(metric: str) -> Mapping[str, tuple[str, ...] | None]:
    """Raises KeyError where there is no such metric."""
    if metric == "ALERTS":
        alerts = tuple(alert.name for alert in ALERTS)
        return {
            "alertname": alerts,
            "alertstate": ("firing", "pending"),
            "severity": _SEVERITIES,
            "source_service": None,
        }
    if metric in {record.name for record in RECORDS}:
        return {"job": None, "source_service": None}
    if not metric:  # any metric of ours, by its name, in the SDK's overflow
        return {"__name__": tuple(SERIES), "otel_metric_overflow": ("true",), "job": None}
    return SERIES[metric].labels


def wrong_names(query: Query) -> Iterator[str]:
    known: set[str] = set()
    for metric, matchers in selectors(query.expr):
        try:
            labels = labels_of(metric)
        except KeyError:
            yield f"no metric {metric}"
            continue
        known |= labels.keys()
        for label, operator, value in matchers:
            if label not in labels:
                yield f"{metric} has no label {label}"
                continue
            values = labels[label]
            words = value.split("|") if operator in ("=~", "!~") else [value]
            for word in words if values is not None else ():
                matching = word if operator in ("=~", "!~") else re.escape(word)
                if not any(re.fullmatch(matching, v) for v in values or ()):
                    yield f"{metric} never has {label} {word!r}"
    yield from (f"nothing in it has a label {label}" for label in grouped(query.expr) - known)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.where)
def test_every_name_in_a_query_is_known(query: Query) -> None:
    assert selectors(query.expr)
    assert not list(wrong_names(query))


@pytest.mark.parametrize(
    ("expr", "why"),
    [
        ("otelctx_call_total", "no metric"),
        ('otelctx_calls_total{contents="full"}', "no label contents"),
        ('otelctx_calls_total{content="redacted"}', "never has"),
        ('otelctx_cache_breaks_total{break_cause!~"compaction|volatile_value"}', "volatile_value"),
        ("sum by (category) (otelctx_calls_total)", "label category"),
        ('otelctx_context_headroom_turns_bucket{le="4"}', "never has le"),
        ("otelctx:cache_hit:ratio_rate15m", "no metric"),
        ('ALERTS{alertname="OtelCtxGone"}', "never has"),
    ],
)
def test_a_wrong_name_is_seen(expr: str, why: str) -> None:
    assert why in " ".join(wrong_names(Query("", expr)))


def test_every_metric_has_a_place() -> None:
    asked = {s.metric for q in QUERIES for s in selectors(q.expr)}

    assert [m.name for m in TABLE if not Series(m).names & asked] == []


def test_the_table_has_the_34_metrics_under_names_that_every_path_spells_alike() -> None:
    assert len(METRICS) == 34
    for m in TABLE:
        last = m.name.rsplit(".", 1)[1]
        assert m.unit in ("", "s", "1") or re.fullmatch(r"\{\w+\}", m.unit)
        assert "total" not in m.name.split(".")
        assert m.unit != "1" or last == "ratio"  # a translator adds _ratio only where it is not there
        assert all("." not in key or key.startswith("gen_ai.") for key in m.keys)


# ---- dashboards

_UNITS = {"short", "percentunit", "currencyUSD", "s", "ops", "reqps", "cpm"}


def lint(board: dict[str, Any]) -> Iterator[str]:
    """Rules of Grafana's dashboard-linter, and some faults that it does not see."""
    ids = [panel["id"] for panel in board["panels"]]
    if len(set(ids)) < len(ids) or not all(ids):
        yield "panel ids are not unique"
    if "id" in board or "__inputs" in board:
        yield "cannot be provisioned"
    variables = {v["name"]: v for v in board["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        if cells & taken or place["x"] + place["w"] > 24:
            yield f"{panel['title']}: lies over another"
        taken |= cells
        if panel["type"] != "row":
            yield from (f"{panel['title']}: {fault}" for fault in _panel_faults(panel, variables))


def _panel_faults(panel: dict[str, Any], variables: Mapping[str, Any]) -> Iterator[str]:
    if not panel["description"].endswith("."):
        yield "no description"
    if panel["fieldConfig"]["defaults"]["unit"] not in _UNITS:
        yield "unit"
    refs = [target["refId"] for target in panel["targets"]]
    if not refs or len(set(refs)) < len(refs):
        yield "refIds"
    for target in panel["targets"]:
        expr = target["expr"]
        if target["datasource"] != {"type": "prometheus", "uid": "${datasource}"}:
            yield "a data source of its own"
        for function, window in re.findall(r"\b(rate|increase)\([^][]*\[([^\]]+)\]", expr):
            allowed = (
                ("$__range", "$__interval") if function == "increase" else ("$__rate_interval", "$__range")
            )
            if window not in allowed:
                yield f"{function} over {window}"
        if re.search(r"_total\{[^}]*\}(?!\[)", expr):
            yield "a counter without rate"
        if 'job=~"$job"' not in expr:
            yield "does not hold to the job"
        unknown = set(re.findall(r"\$(?!__)(\w+)", expr)) - variables.keys()
        if unknown:
            yield f"no variable {unknown}"
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        series = grouped(expr) or {key for s in selectors(expr) for key in labels_of(s.metric)}
        if legend - series:
            yield f"the legend names {legend - series}"


@pytest.mark.parametrize("uid", BOARDS)
def test_dashboards_hold_to_the_rules(uid: str) -> None:
    board = BOARDS[uid]

    assert not list(lint(board))
    assert board["uid"] == uid
    assert len(uid) <= 40
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["refresh"] == 2
            series, label = variable_parts(variable)
            assert label in labels_of(selectors(series)[0].metric)


def test_five_dashboards_and_no_two_of_one_address() -> None:
    assert [board.uid for board in TABLED] == [
        "otelctx-overview", "otelctx-cache", "otelctx-waste", "otelctx-conversation", "otelctx-self",
    ]  # fmt: skip
    assert set(BOARDS) == {board.uid for board in TABLED}
    assert len(list(panel_queries())) > 60


def differences(ours: Any, read: Any, path: str = "") -> Iterator[str]:
    """What a reader of Grafana's own schema lost or changed. Empty values may go."""
    if isinstance(ours, dict) and isinstance(read, dict):
        for key, value in ours.items():
            if key in read:
                yield from differences(value, read[key], f"{path}.{key}")
            elif value not in (None, [], {}, False, ""):
                yield f"{path}.{key} lost"
    elif isinstance(ours, list) and isinstance(read, list):
        if len(ours) != len(read):
            yield f"{path} has another length"
        for one, other in zip(ours, read, strict=False):
            yield from differences(one, other, f"{path}[]")
    elif ours != read:
        yield f"{path}: {ours!r} became {read!r}"


def through_the_sdk(board: dict[str, Any]) -> Any:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    with warnings.catch_warnings():  # it prefers the model of Grafana 13; ours is for older ones too
        warnings.simplefilter("ignore", DeprecationWarning)
        from grafana_foundation_sdk.models.dashboard import Dashboard
    register_default_plugins()
    return json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))


@pytest.mark.parametrize("uid", BOARDS)
def test_dashboards_pass_through_grafanas_models_unchanged(uid: str) -> None:
    assert not list(differences(BOARDS[uid], through_the_sdk(BOARDS[uid])))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("panels", 1, "targets", 0, "legendFormt"), "x"),
        (("panels", 1, "options", "reduceOption"), {"calcs": ["last"]}),
        (("panels", 1, "fieldConfig", "defaults", "untis"), "s"),
        (("templating", "list", 1, "includeAl"), True),
        (("schemaVersions",), 39),
    ],
)
def test_a_misspelt_field_does_not_pass(path: tuple[Any, ...], wrong: Any) -> None:
    board = json.loads(json.dumps(BOARDS["otelctx-overview"]))
    place = board
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong

    assert list(differences(board, through_the_sdk(board)))


# ---- alerts

RULES = yaml.safe_load((CONFIG / "prometheus/otelctx.rules.yml").read_text("utf-8"))


def test_fifteen_alerts_each_with_a_runbook_and_a_dashboard() -> None:
    page = (ROOT / "docs/alerts.md").read_text("utf-8")
    sections = re.findall(r"^## (OtelCtx\w+)$", page, re.MULTILINE)

    assert sections == [alert.name for alert in ALERTS]
    assert len(ALERTS) == 15
    assert {alert.board for alert in ALERTS} <= BOARDS.keys()
    for alert in ALERTS:
        text = page.split(f"## {alert.name}\n", 1)[1].split("\n## ", 1)[0]
        assert f"`{alert.severity}`" in text
        assert "**Means**" in text
        assert "**Do**" in text


def test_our_yaml_says_what_our_json_says() -> None:
    assert json.loads((CONFIG / "mixin/otelctx.rules.json").read_bytes()) == RULES
    assert yaml.safe_load((CONFIG / "kubernetes/prometheusrule.yaml").read_text("utf-8"))["spec"] == RULES


def test_every_alert_is_tested_by_promtool() -> None:
    cases = (CONFIG / "prometheus/otelctx.tests.yml").read_text("utf-8")

    assert [
        alert.name for alert in ALERTS if f'{alert.name}"' not in cases and f"{alert.name}\n" not in cases
    ] == []


def test_rules_that_need_another_rule_stand_behind_it() -> None:
    known: set[str] = set()
    for group in GROUPS:
        for rule in group.rules:
            asked = {
                s.metric for q in rule_queries() if q.where.startswith(rule.name) for s in selectors(q.expr)
            }
            assert {name for name in asked if ":" in name} <= known
            known.add(rule.name)


def test_alerts_of_grafana_need_no_recording_rule() -> None:
    made = json.loads((CONFIG / "grafana/alerts/otelctx.json").read_bytes())
    alerts = [rule for group in made["groups"] for rule in group["rules"]]

    assert [rule["title"] for rule in alerts] == [alert.name for alert in ALERTS]
    assert len({rule["uid"] for rule in alerts}) == 15
    for rule in alerts:
        assert "otelctx:" not in rule["data"][0]["model"]["expr"]
        assert not list(wrong_names(Query("", rule["data"][0]["model"]["expr"])))
        assert "query" not in rule["annotations"]["description"]
        assert "$value " not in rule["annotations"]["description"]


# ---- YAML for others


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        gzip.decompress((ROOT / f"tests/data/{name}.schema.json.gz").read_bytes())
    )
    return found


def documents(path: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((CONFIG / path).read_text("utf-8")))


KUBERNETES = schema("kubernetes")
MANIFESTS = [
    document
    for path in sorted((CONFIG / "kubernetes").glob("*.yaml"))
    for document in documents(f"kubernetes/{path.name}")
]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: m["kind"])
def test_kubernetes_manifests_pass_the_published_schemas(manifest: dict[str, Any]) -> None:
    kind = {**KUBERNETES["kinds"][manifest["kind"]], "$defs": KUBERNETES["$defs"]}

    jsonschema.Draft202012Validator(kind).validate(manifest)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(kind).validate({**manifest, "spec": 5, "data": 5})


def test_the_compose_file_passes_the_published_schema() -> None:
    (compose,) = documents("compose/compose.yaml")

    jsonschema.Draft201909Validator(schema("compose")).validate(compose)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft201909Validator(schema("compose")).validate({"services": {"app": {"imgae": "x"}}})


def test_what_the_compose_file_mounts_and_builds_is_there() -> None:
    (compose,) = documents("compose/compose.yaml")
    folder = CONFIG / "compose"
    dockerfile = (folder / "Dockerfile").read_text("utf-8")
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (folder / source).exists(), volume
        if "build" in service:
            assert f" AS {service['build']['target']}\n" in dockerfile
            assert (folder / service["build"]["context"]).resolve() == ROOT
    for copied in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split()), copied


def test_the_sample_agent_needs_nothing_but_what_its_image_has(tmp_path: Path) -> None:
    dockerfile = (CONFIG / "compose/Dockerfile").read_text("utf-8").split(" AS app\n")[1]
    for source, target in re.findall(r"^COPY (\S+) (\S+)$", dockerfile, re.MULTILINE):
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        (tmp_path / target).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / source, tmp_path / target)
    for module in dict.fromkeys(re.findall(r"python -m ([\w.]+)", dockerfile)):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], cwd=tmp_path,
            env={name: os.environ[name] for name in ("PATH", "PYDANTIC_DISABLE_PLUGINS")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        used = re.findall(rf"{re.escape(module)} .*?(--\w+)", dockerfile)
        assert all(flag in done.stdout for flag in used)


def test_containers_find_each_other() -> None:
    (compose,) = documents("compose/compose.yaml")
    texts = [
        (CONFIG / "compose" / name).read_text("utf-8")
        for name in ("collector.yaml", "gateway.yaml", "prometheus.yml")
    ]
    texts += [json.dumps(compose["services"]["app"])]
    named = {host for text in texts for host in re.findall(r"(?<![\w.-])([a-z]+):\d{4,5}\b", text)} - {
        "http",
        "localhost",
    }

    assert named == {"gateway", "jaeger", "collector"}
    assert named <= compose["services"].keys()


COLLECTORS = {
    path.name: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((CONFIG / "collector").glob("*.yaml"))
}
COLLECTORS["compose"] = documents("compose/collector.yaml")[0]


@pytest.mark.parametrize("name", COLLECTORS)
def test_collector_files_are_whole(name: str) -> None:
    """Everything that is defined is used, and the other way round; large messages pass; the limiter comes first."""
    config = COLLECTORS[name]
    pipelines = config["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {part for pipeline in pipelines for part in pipeline[kind]} == set(config[kind])
    assert set(config["service"].get("extensions", ())) == set(config.get("extensions", ()))
    for pipeline in pipelines:
        assert pipeline["processors"][0] == "memory_limiter"
    for receiver in config["receivers"].values():
        assert receiver["protocols"]["grpc"]["max_recv_msg_size_mib"] >= 64
    for exporter, settings in config["exporters"].items():
        if exporter.startswith("otlp"):
            assert settings["sending_queue"]["batch"]["sizer"] == "bytes"
            assert settings["sending_queue"]["batch"]["max_size"] < 4 << 20


def test_sampling_and_removal_of_text_stand_behind_the_gateway() -> None:
    """Nothing that takes spans or text away stands where spans are sent to a gateway."""
    away = ("tail_sampling", "probabilistic_sampler", "filter", "redaction", "transform", "attributes")
    for name, config in COLLECTORS.items():
        for pipeline in config["service"]["pipelines"].values():
            towards = any("gateway" in e or e == "loadbalancing" for e in pipeline["exporters"])
            if towards:
                assert not any(p.startswith(away) for p in pipeline["processors"]), name
    backend = COLLECTORS["backend.yaml"]["service"]["pipelines"]["traces"]["processors"]
    assert backend.index("tail_sampling") < backend.index("transform/drop_text")


def test_the_kinds_of_load_balancing_differ_in_the_key_alone() -> None:
    by_service, by_conversation = (
        COLLECTORS[f"agent-by-{what}.yaml"]["exporters"]["loadbalancing"]
        for what in ("service", "conversation")
    )

    assert by_service.pop("routing_key") == "service"
    assert by_conversation.pop("routing_key") == "attributes"
    assert by_conversation.pop("routing_attributes") == ["service.name", "gen_ai.conversation.id"]
    assert by_service == by_conversation
    assert by_service.keys() == {"protocol", "resolver", "sending_queue", "retry_on_failure"}
    assert by_service["resolver"] == {"k8s": {"service": "otelctx-headless.observability", "ports": [4327]}}


def test_the_ports_of_the_manifests_are_those_of_the_gateways_file() -> None:
    by_kind = {m["kind"]: m for m in MANIFESTS}
    config = yaml.safe_load(by_kind["ConfigMap"]["data"]["gateway.yaml"])
    container = by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]
    listening = {int(config[name].rsplit(":", 1)[1]) for name in ("grpc", "http", "admin")}

    assert {p["containerPort"] for p in container["ports"]} == listening
    assert {p["port"] for p in by_kind["Service"]["spec"]["ports"]} == listening
    names = {p["name"] for p in container["ports"]}
    assert {by_kind["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["port"]} <= names
    assert {container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} <= names


def test_the_gateway_takes_its_files(tmp_path: Path) -> None:
    inside = tmp_path / "kubernetes.yaml"
    inside.write_text(next(m for m in MANIFESTS if m["kind"] == "ConfigMap")["data"]["gateway.yaml"], "utf-8")
    for path in (CONFIG / "compose/gateway.yaml", inside):
        config = config_of(read_file(str(path)), {})
        assert [str(a) for a in (config.grpc, config.http, config.admin)] == [
            "0.0.0.0:4327", "0.0.0.0:4328", "0.0.0.0:9464",
        ]  # fmt: skip
        assert config.state_dir == "/var/lib/otelctx"


def test_exemplars_open_in_the_data_source_that_is_provisioned() -> None:
    made = yaml.safe_load((CONFIG / "grafana/provisioning/datasources/otelctx.yaml").read_text("utf-8"))
    prometheus, traces = made["datasources"]
    (link,) = prometheus["jsonData"]["exemplarTraceIdDestinations"]

    assert (link["name"], link["datasourceUid"]) == ("trace_id", traces["uid"])
    scraped = documents("compose/prometheus.yml")[0]["global"]["scrape_interval"]
    assert prometheus["jsonData"]["timeInterval"] == scraped
    with_exemplars = [
        q for b in BOARDS.values() for p in b["panels"] for q in p.get("targets", ()) if q.get("exemplar")
    ]
    assert len(with_exemplars) >= 4
    assert all("_bucket{" in q["expr"] for q in with_exemplars)


def test_rows_do_not_hide_panels() -> None:
    for board in BOARDS.values():
        rows = [p["gridPos"]["y"] for p in board["panels"] if p["type"] == "row"]
        assert all(a < b for a, b in pairwise(rows))
