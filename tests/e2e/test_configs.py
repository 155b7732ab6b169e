"""The shipped files, read by the programs that they are for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from otel_ctx_cli.monitoring import rules
from otel_ctx_cli.monitoring.alerts import ALERTS, GROUPS, Group
from tests.e2e.servers.build import have
from tests.monitoring import BOARDS, CONFIG

pytestmark = pytest.mark.servers

_ENVIRONMENT = {
    "BACKEND_OTLP_GRPC": "127.0.0.1:4317",
    "GRAFANA_OTLP_ENDPOINT": "https://otlp.example/otlp",
    "GRAFANA_OTLP_BASIC": "eDp5",
}
BALANCED = sorted((CONFIG / "collector").glob("agent-by-*.yaml"))
WHOLE = [path for path in sorted((CONFIG / "collector").glob("*.yaml")) if path not in BALANCED]
WHOLE.append(CONFIG / "compose/collector.yaml")


def run(command: Sequence[str | Path], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(c) for c in command], cwd=folder, env={**os.environ, **_ENVIRONMENT}, capture_output=True, text=True, check=False
    )  # fmt: skip


def said(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    return done.returncode, done.stdout + done.stderr


# ---- the Collector


@pytest.mark.parametrize("path", WHOLE, ids=lambda p: p.name)
def test_the_collector_takes_the_file(path: Path) -> None:
    assert said(run([have("otelcol"), "validate", f"--config={path}"])) == (0, "")


def stand_in(path: Path) -> dict[str, Any]:
    """The file with an exporter of the Collector's own in the place of the load-balancing one, which is no module that
    could be built here: with its protocol, queue and retries, and its address."""
    config: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    balanced = config["exporters"].pop("loadbalancing")
    config["exporters"]["otlp_grpc"] = {
        **balanced["protocol"]["otlp"],
        "endpoint": "gateway:4327",
        "sending_queue": balanced["sending_queue"],
        "retry_on_failure": balanced["retry_on_failure"],
    }
    for pipeline in config["service"]["pipelines"].values():
        pipeline["exporters"] = ["otlp_grpc"]
    return config


@pytest.mark.parametrize("path", BALANCED, ids=lambda p: p.name)
def test_the_collector_takes_the_files_with_load_balancing_but_for_that(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(stand_in(path)), "utf-8")

    assert said(run([have("otelcol"), "validate", f"--config={file}"])) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("max_size: 3500000", "max_sise: 3500000"),
        ("sampling_percentage: 10", "sampling_percent: 10"),
        ("delete_matching_keys(attributes", "delete_matching(attributes"),
        ("processors: [memory_limiter, tail", "processors: [memory, tail"),
    ],
)
def test_the_collector_sees_a_mistake(right: str, wrong: str, tmp_path: Path) -> None:
    text = (CONFIG / "collector/backend.yaml").read_text("utf-8")
    assert right in text
    file = tmp_path / "config.yaml"
    file.write_text(text.replace(right, wrong, 1), "utf-8")

    assert run([have("otelcol"), "validate", f"--config={file}"]).returncode != 0


# ---- Prometheus


def promtool(folder: Path, *arguments: str) -> tuple[int, str]:
    return said(run([have("promtool"), *arguments], folder))


def test_prometheus_takes_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "prometheus"
    shutil.copytree(CONFIG / "prometheus", folder)
    code, words = promtool(folder, "check", "config", "prometheus.yml")
    assert code == 0, words
    assert "SUCCESS: 19 rules found" in words

    shutil.copy(CONFIG / "compose/prometheus.yml", folder / "compose.yml")
    code, words = promtool(folder, "check", "config", "compose.yml")
    assert code == 0, words


def test_the_rules_pass_their_tests() -> None:
    code, words = promtool(CONFIG / "prometheus", "test", "rules", "otelctx.tests.yml")

    assert code == 0, words


_THERE_OR_NOT = ("OtelCtxAbsent", "OtelCtxSeriesOverflow")  # whose values are never 0
MUTANTS = [
    *((alert.name, "condition") for alert in ALERTS),
    *((alert.name, "lasting") for alert in ALERTS if alert.lasting != "0s"),
    *((alert.name, "always") for alert in ALERTS if alert.name not in _THERE_OR_NOT),
]


def mutant(name: str, kind: str) -> tuple[Group, ...]:
    """The groups with one alert that never fires, fires a day too late, or whatever its value is."""
    changes = {
        "condition": {"condition": "> Inf"},
        "lasting": {"lasting": "1d"},
        "always": {"condition": ">= 0", "lasting": "0s"},
    }[kind]
    return tuple(
        replace(group, rules=tuple(replace(r, **changes) if r.name == name else r for r in group.rules))  # type: ignore[arg-type]
        for group in GROUPS
    )


@pytest.mark.parametrize(("name", "kind"), MUTANTS)
def test_the_rules_tests_notice_a_wrong_rule(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "GROUPS", mutant(name, kind))
    (tmp_path / "otelctx.rules.yml").write_text(rules.prometheus_yaml(rules.Place()), "utf-8")
    tests = yaml.safe_load((CONFIG / "prometheus/otelctx.tests.yml").read_text("utf-8"))
    tests["tests"] = [case for case in tests["tests"] if f'{name}"' in str(case) or f"{name}'" in str(case)]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests), "utf-8")

    code, words = promtool(tmp_path, "test", "rules", "tests.yml")
    assert (code, "FAILED" in words) == (1, True), words


def test_the_rules_of_the_operator_and_of_grafana_are_prometheus_too(tmp_path: Path) -> None:
    """Grafana's alerts ask what Prometheus understands, each in one expression."""
    spec = yaml.safe_load((CONFIG / "kubernetes/prometheusrule.yaml").read_text("utf-8"))["spec"]
    made = json.loads((CONFIG / "grafana/alerts/otelctx.json").read_bytes())
    asked = [rule["data"][0]["model"]["expr"] for group in made["groups"] for rule in group["rules"]]
    as_records = [{"record": f"a:{n}", "expr": expr} for n, expr in enumerate(asked)]
    for name, value in (
        ("operator.yml", spec),
        ("grafana.yml", {"groups": [{"name": "a", "rules": as_records}]}),
    ):
        (tmp_path / name).write_text(yaml.safe_dump(value), "utf-8")
        code, words = promtool(tmp_path, "check", "rules", name)
        assert code == 0, words
        assert re.search(r"SUCCESS: \d+ rules found", words)


def test_alertmanager_takes_its_file() -> None:
    code, words = said(run([have("amtool"), "check-config", CONFIG / "prometheus/alertmanager.yml"]))

    assert code == 0, words


def test_the_mixin_compiles_to_the_same() -> None:
    done = run([have("jsonnet"), CONFIG / "mixin/mixin.libsonnet"])
    assert done.returncode == 0, done.stderr
    shown = run([
        have("jsonnet"), "-e",
        f'local m = import "{CONFIG}/mixin/mixin.libsonnet"; [m.grafanaDashboards, m.prometheusAlerts, m.prometheusRules]',
    ])  # fmt: skip
    boards, alerts, records = json.loads(shown.stdout)

    assert boards == {f"{uid}.json": board for uid, board in BOARDS.items()}
    made = yaml.safe_load((CONFIG / "prometheus/otelctx.rules.yml").read_text("utf-8"))
    both = [rule for group in made["groups"] for rule in group["rules"]]
    assert [r for g in alerts["groups"] for r in g["rules"]] == [r for r in both if "alert" in r]
    assert [r for g in records["groups"] for r in g["rules"]] == [r for r in both if "record" in r]
