"""Settings: keyword before variable before default; a wrong one is named and changes nothing else."""

from __future__ import annotations

import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from otel_ctx.live import settings as module
from otel_ctx.live.settings import LiveSettings, live_settings, resolve


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_named", set())


def test_the_default_is_what_the_fields_say() -> None:
    assert resolve({}, {}) == (LiveSettings(), [])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("disabled", "1", True),
        ("disabled", "No", False),
        ("mode", "SYNC", "sync"),
        ("duty", "0.25", 0.25),
        ("span_budget_ms", "20", 20.0),
        ("max_batch_bytes", "1000000", 1_000_000),
        ("remembered_spans", "10", 10),
        ("conversations", "7", 7),
        ("kept_characters", "0", 0),
        ("tokenizer", "bytes", "bytes"),
        ("ignore", "growth_spike, compaction", frozenset({"growth_spike", "compaction"})),
        ("windows", "my-model=200k,other=1m,a=b=5", {"my-model": 200_000, "other": 1_000_000, "a=b": 5}),
        ("models", "deployment=gpt-4o", {"deployment": "gpt-4o"}),
    ],
)
def test_a_variable_and_a_keyword_mean_the_same(name: str, text: str, value: Any) -> None:
    by_variable, wrong = resolve({}, {f"OTELCTX_{name.upper()}": text})
    assert (getattr(by_variable, name), wrong) == (value, [])
    assert resolve({name: value}, {}) == (by_variable, [])
    assert by_variable == LiveSettings(**{name: value}), "nothing else has changed"


def test_a_keyword_is_before_a_variable() -> None:
    assert resolve({"duty": 0.75}, {"OTELCTX_DUTY": "0.25"})[0].duty == 0.75


def test_an_empty_variable_is_none() -> None:
    assert resolve({}, {"OTELCTX_DUTY": " "}) == (LiveSettings(), [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("disabled", "maybe"),
        ("mode", "fast"),
        ("duty", "0"),
        ("duty", "nan"),
        ("duty", "half"),
        ("span_budget_ms", "-1"),
        ("max_batch_bytes", "10"),
        ("remembered_spans", "0"),
        ("conversations", "many"),
        ("tokenizer", "abacus"),
        ("ignore", "everything"),
        ("windows", "my-model"),
        ("windows", "my-model=0"),
        ("windows", "my-model="),
        ("models", "=gpt-4o"),
        ("rules", "no/such/file.toml"),
    ],
)
def test_a_wrong_value_is_named_and_the_default_is_used(name: str, text: str) -> None:
    for options, environ, place in (
        ({}, {f"OTELCTX_{name.upper()}": text}, f"OTELCTX_{name.upper()}="),
        ({name: text}, {}, f"{name}="),
    ):
        found, wrong = resolve(options, environ)
        assert found == LiveSettings()
        assert len(wrong) == 1
        assert wrong[0].startswith(place)
        assert "must be" in wrong[0]


@pytest.mark.parametrize(
    "value", [None, object(), [], {"a": object()}, b"\xff", 10**400, True], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize("name", [f.name for f in fields(LiveSettings)])
def test_no_value_raises(name: str, value: Any) -> None:
    found, _ = resolve({name: value}, {})
    assert isinstance(found, LiveSettings)


def test_a_wrong_keyword_falls_back_to_the_variable() -> None:
    found, wrong = resolve({"duty": 5}, {"OTELCTX_DUTY": "0.25"})
    assert (found.duty, len(wrong)) == (0.25, 1)


def test_an_unknown_keyword_is_named() -> None:
    found, wrong = resolve({"dutty": 0.5}, {})
    assert found == LiveSettings()
    assert wrong[0].startswith("dutty: there is no such setting")


def test_what_is_wrong_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTELCTX_DUTY", "x" * 500)
    with caplog.at_level(logging.WARNING, "otel_ctx"):
        assert live_settings(None, {}).duty == 0.5
        assert live_settings(None, {}).duty == 0.5
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "OTELCTX_DUTY='xxx" in caplog.text
    assert "x" * 100 not in caplog.text


def test_given_settings_are_before_variables_and_after_keywords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTELCTX_DUTY", "0.25")
    monkeypatch.setenv("OTELCTX_CONVERSATIONS", "3")
    found = live_settings(LiveSettings(duty=0.75, conversations=4), {"conversations": 5})
    assert (found.duty, found.conversations) == (0.75, 5)


def test_the_engines_settings(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("")
    given, wrong = resolve(
        {
            "kept_characters": 9,
            "windows": {"m": 5},
            "models": {"d": "m"},
            "ignore": ["compaction"],
            "tokenizer": "bytes",
            "rules": str(rules),
        },
        {},
    )
    engine = given.engine()
    assert wrong == []
    assert (engine.limits.windows, engine.limits.models) == ({"m": 5}, {"d": "m"})
    assert (engine.ignore, engine.tokenizer, engine.rules_override) == (
        frozenset({"compaction"}),
        "bytes",
        "",
    )
    assert engine.text_cap == 9
