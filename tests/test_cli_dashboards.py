"""`otelctx dashboards export`: files for the user's own names, and nobody's file lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from otel_ctx_cli.main import main
from tests.monitoring import CONFIG, selectors


def export(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["dashboards", "export", str(folder), *options])


def exported(folder: Path, *options: str) -> Path:
    result = export(folder, *options)
    assert result.exit_code == 0, result.output
    return folder


def boards(folder: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_bytes()) for path in sorted((folder / "grafana/dashboards").iterdir())]
    assert len(found) == 5
    return found


def variable(board: dict[str, Any], name: str) -> Any:
    return next(v["current"]["value"] for v in board["templating"]["list"] if v["name"] == name)


def test_by_default_it_writes_what_collector_config_has(tmp_path: Path) -> None:
    folder = exported(tmp_path / "new" / "place")

    made = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert len(made) == 12
    for name in made:
        assert (folder / name).read_bytes() == (CONFIG / name).read_bytes()


def test_again_does_no_harm_and_other_files_stay(tmp_path: Path) -> None:
    exported(tmp_path)
    mine = tmp_path / "grafana/dashboards/otelctx-cache.json"
    mine.write_text("mine", "utf-8")
    (tmp_path / "notes.txt").write_text("mine too", "utf-8")

    refused = export(tmp_path, "--job", "x")
    assert refused.exit_code == 2
    assert "would be overwritten; --force does that" in refused.output
    assert mine.read_text("utf-8") == "mine"

    mine.unlink()
    exported(tmp_path)
    exported(tmp_path, "--job", "x", "--force")
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine too"


def test_the_users_names_are_everywhere(tmp_path: Path) -> None:
    job = 'gate"way|agents.*'
    folder = exported(
        tmp_path,
        "--datasource",
        "mimir",
        "--traces",
        "my-tempo",
        "--job",
        job,
        "--runbooks",
        "https://wiki/alerts",
    )

    for board in boards(folder):
        assert variable(board, "datasource") == "mimir"
        assert variable(board, "job") == [job]
    rules = yaml.safe_load((folder / "prometheus/otelctx.rules.yml").read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            for metric, matchers in selectors(rule["expr"]):
                own = not metric.startswith("otelctx:")
                assert (("job", "=~", job) in matchers) == own, rule["expr"]
            if "alert" in rule:
                assert rule["annotations"]["runbook_url"] == f"https://wiki/alerts#{rule['alert'].lower()}"
    alerts = json.loads((folder / "grafana/alerts/otelctx.json").read_bytes())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            assert rule["data"][0]["datasourceUid"] == "mimir"
            asked = rule["data"][0]["model"]["expr"]
            assert all(("job", "=~", job) in s.matchers for s in selectors(asked)), asked
    sources = yaml.safe_load((folder / "grafana/provisioning/datasources/otelctx.yaml").read_text("utf-8"))
    prometheus, traces = sources["datasources"]
    assert prometheus["uid"] == "mimir"
    assert (traces["uid"], traces["type"]) == ("my-tempo", "tempo")
    assert prometheus["jsonData"]["exemplarTraceIdDestinations"][0]["datasourceUid"] == "my-tempo"


def test_files_to_import_ask_for_the_data_source(tmp_path: Path) -> None:
    for board in boards(exported(tmp_path, "--importable")):
        (asked,) = board["__inputs"]
        assert variable(board, "datasource") == f"${{{asked['name']}}}"
        assert asked["pluginId"] == "prometheus"
        assert {need["type"] for need in board["__requires"]} == {"grafana", "datasource"}
        assert "id" not in board


@pytest.mark.parametrize(
    "options", [["--job", "("], ["--datasource", "my prometheus"], ["--traces", "a" * 41]], ids=lambda o: o[0]
)
def test_a_name_that_cannot_be_used_is_refused(options: list[str], tmp_path: Path) -> None:
    result = export(tmp_path / "out", *options)

    assert result.exit_code == 2
    assert options[0] in result.output
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "grafana").write_text("a file", "utf-8")

    result = export(tmp_path)
    assert result.exit_code == 2
    assert "grafana" in result.output
    assert "Traceback" not in result.output
