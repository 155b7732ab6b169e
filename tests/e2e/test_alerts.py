"""A deploy puts the time into the system prompt; the right alerts fire in Alertmanager, and end after the rollback.

The rules are the shipped ones with every length of time divided by 60, the servers real.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from otel_ctx_cli.monitoring.rules import Place, prometheus_yaml
from tests.e2e.stack import Alertmanager, Prometheus, Stack, until
from tests.provider_stub import ProviderStub

pytestmark = pytest.mark.servers

_FASTER = 60
_UNITS = {"s": 1, "m": 60, "h": 3600}
_LENGTH = re.compile(
    r"(?<=\[)(\d+)([smh])(?=\])|(?<=offset )(\d+)([smh])|(?<=for: )(\d+)([smh])|(?<=interval: )(\d+)([smh])"
)
_THE_BREAK = {"OtelCtxCacheHitRatioCollapsed", "OtelCtxPrefixBrokenEveryTurn"}
_ITS_PRICE = {"OtelCtxWasteHigh", "OtelCtxWasteShareHigh"}  # at this pace a break is dear
_SCENARIO = ("--no-turns", "--apis", "chat", "--pause", "0.15")


def faster(text: str) -> str:
    """A window is never under five scrapes."""

    def shorter(match: re.Match[str]) -> str:
        number, unit = (each for each in match.groups() if each is not None)
        least = 5 if match.string[match.start() - 1] == "[" else 1
        return f"{max(int(number) * _UNITS[unit] // _FASTER, least)}s"

    return _LENGTH.sub(shorter, text)


def test_lengths_of_time_are_divided() -> None:
    assert faster("rate(x[15m]) offset 30m") == "rate(x[15s]) offset 30s"
    assert faster("for: 10m") == "for: 10s"
    assert faster("x[6h] y[1m]") == "x[360s] y[5s]"
    assert faster("interval: 1m and ratio_rate15m") == "interval: 1s and ratio_rate15m"


def firing(alertmanager: Alertmanager) -> set[str]:
    return {name for name, _ in alertmanager.firing()}


def ever_fired(prometheus: Prometheus, since: float) -> set[str]:
    window = int(time.time() - since) + 1
    found = prometheus.query(
        f'count by (alertname) (count_over_time(ALERTS{{alertstate="firing"}}[{window}s]))'
    )
    return {each["metric"]["alertname"] for each in found}


def test_a_bad_deploy_is_told_of_until_it_is_rolled_back(tmp_path: Path, record_property: Any) -> None:
    start = time.time()
    with ProviderStub() as stub, Stack(tmp_path) as stack:
        _, gateway, collector = stack.through_the_gateway()
        alertmanager = stack.alertmanager()
        prometheus = stack.prometheus(
            {"otelctx": gateway.admin}, faster(prometheus_yaml(Place())), alertmanager.port
        )

        clean = stack.agent("v1", stub.url, collector.grpc, *_SCENARIO, version="1.0.0")
        calls = "sum(otelctx_cache_calls_total)"
        until(lambda: prometheus.value(calls) > 0, "the first settled call", 120)
        time.sleep(75)  # the windows' whole length, and the past that they are compared with
        assert prometheus.value("otelctx:calls:increase15m") >= 20, "too slow to be judged"
        assert prometheus.value("otelctx:cache_hit_reported:ratio_rate15m") > 0.6
        assert ever_fired(prometheus, start) == set(), "in the clean scenario none fires"
        assert firing(alertmanager) == set()
        clean.stop()

        deploy = time.time()
        deployed = stack.agent("v2", stub.url, collector.grpc, *_SCENARIO, "--volatile", version="1.1.0")
        until(lambda: firing(alertmanager) >= _THE_BREAK, f"{_THE_BREAK} in Alertmanager", 180)
        alerts = alertmanager.firing()
        record_property("seconds until both fired", round(time.time() - deploy))
        told = alerts["OtelCtxPrefixBrokenEveryTurn", "shop"]["annotations"]["description"]
        assert "volatile_prefix in system" in told
        fell = alerts["OtelCtxCacheHitRatioCollapsed", "shop"]["annotations"]["description"]
        assert "1.1.0" in fell
        deployed.stop()

        rollback = time.time()
        rolled_back = stack.agent("v3", stub.url, collector.grpc, *_SCENARIO, version="1.0.0")
        until(lambda: not firing(alertmanager) & _THE_BREAK, "the alerts to end", 180)
        record_property("seconds until both ended", round(time.time() - rollback))
        rolled_back.stop()
        assert _THE_BREAK <= ever_fired(prometheus, start) <= _THE_BREAK | _ITS_PRICE
