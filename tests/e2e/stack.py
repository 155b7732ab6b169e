"""Real servers on free ports of 127.0.0.1, each a process that ends with its ``with`` block.

``with Stack(folder) as stack: jaeger = stack.jaeger() …``. What a server says goes into ``folder``; one that does not
come up, or dies, fails with its last lines.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.e2e.servers.build import JS_AGENT, have
from tests.monitoring import CONFIG, ROOT

_PATIENCE = 60.0  # seconds for a server to come up, or for what is to happen


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def until(true: Callable[[], Any], what: str, patience: float = _PATIENCE) -> Any:
    """What ``true`` gives when it is true at last; fails after ``patience`` seconds, and says for what it waited."""
    end = time.monotonic() + patience
    while True:
        got = true()
        if got:
            return got
        assert time.monotonic() < end, f"waited in vain for {what}; last: {got!r}"
        time.sleep(0.25)


def get(url: str, **query: Any) -> Any:
    """The JSON, or text, of an answer; None where there is none (yet)."""
    full = f"{url}?{urllib.parse.urlencode(query, doseq=True)}" if query else url
    try:
        with urllib.request.urlopen(full, timeout=30) as answer:
            body = answer.read().decode()
    except urllib.error.HTTPError as error:
        body = error.read().decode()
    except OSError:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status < 300)
    except OSError:
        return False


class Running:
    """A process of ours and nobody else's."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name, self._log = name, log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT
            )

    def wait_until_ready(self, url: str) -> None:
        def ready() -> bool:
            assert self._process.poll() is None, f"{self.name} ended\n{self.tail()}"
            return _answers(url)

        until(ready, f"{self.name} at {url}\n{self.tail()}")

    def tail(self) -> str:
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-15:])

    def finish(self, patience: float = 300.0) -> None:
        """Until it ends by itself, and well."""
        assert self._process.wait(patience) == 0, f"{self.name}\n{self.tail()}"

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Stack:
    """Starts servers, and ends them in the other order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        ready: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> Running:
        running = Running(name, [str(c) for c in command], self.folder / f"{name}.log", environment or {})
        self._running.callback(running.stop)
        if ready:
            running.wait_until_ready(ready)
        return running

    def file(self, name: str, value: Any) -> Path:
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else yaml.safe_dump(value), "utf-8")
        return path

    # ---- the servers

    def jaeger(self) -> Jaeger:
        otlp, query, health = free_port(), free_port(), free_port()
        config = {
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query", "healthcheckv2"],
                "pipelines": {
                    "traces": {
                        "receivers": ["otlp"],
                        "processors": [],
                        "exporters": ["jaeger_storage_exporter"],
                    }
                },
                "telemetry": {"metrics": {"level": "none"}},
            },
            "extensions": {
                "healthcheckv2": {"use_v2": True, "http": {"endpoint": f"127.0.0.1:{health}"}},
                "jaeger_query": {
                    "storage": {"traces": "memory"},
                    "http": {"endpoint": f"127.0.0.1:{query}"},
                    "grpc": {"endpoint": f"127.0.0.1:{free_port()}"},
                },
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 100_000}}}},
            },
            "receivers": {
                "otlp": {
                    "protocols": {"grpc": {"endpoint": f"127.0.0.1:{otlp}", "max_recv_msg_size_mib": 64}}
                }
            },
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
        }
        file = self.file("jaeger.yaml", config)
        self.start("jaeger", [have("jaeger"), "--config", file], f"http://127.0.0.1:{health}/status")
        return Jaeger(otlp, f"http://127.0.0.1:{query}")

    def collector(self, *, jaeger: int, gateway: int | None = None, enriched: int = 0) -> Collector:
        """The shipped ``around.yaml`` itself; a second file over it has the ports, a dump beside, and less patience.
        Without a gateway what comes from the apps goes to Jaeger."""
        grpc, http, metrics, health = free_port(), free_port(), free_port(), free_port()
        dump = self.folder / "dump.jsonl"
        local = "127.0.0.1:{}".format
        onward = "otlp_grpc/jaeger" if gateway is None else "otlp_grpc/gateway"
        soon = {"sending_queue": {"batch": {"flush_timeout": "200ms"}}}
        over = {
            "extensions": {
                "health_check": {"endpoint": local(health)},
                "file_storage/queue": {"directory": str(self.folder / "queue")},
            },
            "receivers": {
                "otlp/apps": {
                    "protocols": {"grpc": {"endpoint": local(grpc)}, "http": {"endpoint": local(http)}}
                },
                "otlp/enriched": {"protocols": {"grpc": {"endpoint": local(enriched or free_port())}}},
            },
            "exporters": {
                "file": {"path": str(dump), "flush_interval": "200ms"},
                "otlp_grpc/gateway": {"endpoint": local(gateway or free_port()), **soon},
                "otlp_grpc/jaeger": {"endpoint": local(jaeger), **soon},
                "prometheus": {"endpoint": local(metrics)},
            },
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces/in": {"exporters": [onward, "file"]}},
            },
        }
        files = [CONFIG / "collector/around.yaml", self.file("collector.yaml", over)]
        command = [have("otelcol"), *(f"--config={file}" for file in files)]
        self.start("collector", command, f"http://127.0.0.1:{health}/")
        return Collector(grpc, http, metrics, dump)

    def gateway(self, forward: int) -> Gateway:
        grpc, http, admin = free_port(), free_port(), free_port()
        command = [
            sys.executable, "-W", "error", "-m", "otel_ctx_cli", "gateway",
            "--grpc", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}", "--admin", f"127.0.0.1:{admin}",
            "--forward", f"grpc://127.0.0.1:{forward}", "--top-conversations", "20",
        ]  # fmt: skip
        self.start("gateway", command, f"http://127.0.0.1:{admin}/readyz", PYTHON)
        return Gateway(grpc, http, admin)

    def through_the_gateway(self) -> tuple[Jaeger, Gateway, Collector]:
        """Apps send to the Collector, which sends through the gateway and on to Jaeger."""
        jaeger, enriched = self.jaeger(), free_port()
        gateway = self.gateway(forward=enriched)
        return jaeger, gateway, self.collector(jaeger=jaeger.otlp, gateway=gateway.grpc, enriched=enriched)

    def prometheus(
        self, jobs: Mapping[str, int], rules: str = "", alertmanager: int | None = None
    ) -> Prometheus:
        """``jobs``: name -> port; an app's own labels win, as in the shipped file. ``rules``: the text of a rules file."""
        port = free_port()
        self.file("rules.yml", rules or "groups: []")
        managers = (
            [] if alertmanager is None else [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]
        )
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "alerting": {"alertmanagers": managers},
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": job == "collector",
                    "static_configs": [{"targets": [f"127.0.0.1:{at}"]}],
                }
                for job, at in jobs.items()
            ],
        }
        command = [
            have("prometheus"),
            f"--config.file={self.file('prometheus.yml', config)}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
        ]
        self.start("prometheus", command, f"http://127.0.0.1:{port}/-/ready")
        return Prometheus(f"http://127.0.0.1:{port}")

    def alertmanager(self) -> Alertmanager:
        """The shipped file, but sooner."""
        port = free_port()
        config = yaml.safe_load((CONFIG / "prometheus/alertmanager.yml").read_text("utf-8"))
        config["route"] |= {"group_wait": "1s", "group_interval": "1s"}
        command = [
            have("alertmanager"),
            f"--config.file={self.file('alertmanager.yml', config)}",
            f"--storage.path={self.folder / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        self.start("alertmanager", command, f"http://127.0.0.1:{port}/-/ready")
        return Alertmanager(port, f"http://127.0.0.1:{port}")

    def agent(self, name: str, stub: str, otlp: int, *options: str, version: str = "1.0.0") -> Running:
        """`tests.e2e.agent`, sending to a Collector."""
        environment = {
            **PYTHON,
            "OTEL_SERVICE_NAME": "shop",
            "OTEL_RESOURCE_ATTRIBUTES": f"service.version={version},service.instance.id={name}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp}",
            "OPENAI_API_KEY": "x",
            "ANTHROPIC_API_KEY": "x",
        }
        return self.start(
            name, [sys.executable, "-m", "tests.e2e.agent", stub, *options], environment=environment
        )

    def js_agent(self, name: str, stub: str, otlp_http: int, scene: Mapping[str, Any]) -> Running:
        """`js_agent/agent.mjs`, sending to a Collector. From a copy beside the packages: node looks for them there."""
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(JS_AGENT / "agent.mjs", folder)
        (folder / "node_modules").symlink_to(have("node_modules"))
        (folder / "scene.json").write_text(json.dumps(scene), "utf-8")
        environment = {
            "OTEL_SERVICE_NAME": "shop-js",
            "OTEL_RESOURCE_ATTRIBUTES": f"service.instance.id={name}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp_http}",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        command = ["node", folder / "agent.mjs", stub, folder / "scene.json"]
        return self.start(name, command, environment=environment)


PYTHON = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli")))}

# ---- what they are asked


@dataclass(frozen=True, slots=True)
class Collector:
    grpc: int
    http: int
    metrics: int  # its prometheus exporter
    dump: Path  # of the spans as they came from the apps


@dataclass(frozen=True, slots=True)
class Gateway:
    grpc: int
    http: int
    admin: int


@dataclass(frozen=True, slots=True)
class Jaeger:
    otlp: int
    url: str

    def spans(self, trace_id: str) -> list[dict[str, Any]] | None:
        """Of a trace; None where there is none."""
        answer = get(f"{self.url}/api/traces/{trace_id}")
        found = (answer or {}).get("data") if isinstance(answer, dict) else None
        return found[0]["spans"] if found else None


@dataclass(frozen=True, slots=True)
class Alertmanager:
    port: int
    url: str

    def firing(self) -> dict[tuple[str, str], dict[str, Any]]:
        """(alert, service) -> the alert."""
        alerts = get(f"{self.url}/api/v2/alerts") or []
        return {(a["labels"]["alertname"], a["labels"].get("source_service", "")): a for a in alerts}


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def query(self, expr: str, at: float | None = None) -> list[dict[str, Any]]:
        return self._ask("query", query=expr, **({} if at is None else {"time": at}))

    def query_range(self, expr: str, start: float, end: float, step: int) -> list[dict[str, Any]]:
        return self._ask("query_range", query=expr, start=start, end=end, step=step)

    def exemplars(self, expr: str, start: float, end: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = get(
            f"{self.url}/api/v1/query_exemplars", query=expr, start=start, end=end
        )["data"]
        return found

    def value(self, expr: str) -> float:
        """Of a query with one number for an answer; 0 where there is none."""
        found = self.query(expr)
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else 0.0

    def by(self, metric: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The sums of a metric by labels, without those that are 0."""
        found = self.query(f"sum by ({', '.join(labels)}) ({metric}) > 0")
        return {tuple(s["metric"].get(n, "") for n in labels): float(s["value"][1]) for s in found}

    def _ask(self, path: str, **query: Any) -> list[dict[str, Any]]:
        answer = get(f"{self.url}/api/v1/{path}", **query)
        assert isinstance(answer, dict), answer
        assert answer.get("status") == "success", f"{query}: {answer.get('error')}"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found
