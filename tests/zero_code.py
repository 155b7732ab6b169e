"""The scripts of examples/zero_code, run as a user runs them, against a provider and a Collector on loopback.

A script finds our entry points as pyproject.toml declares them, and of the instrumentations of one client only one: the
environment of the tests has several, which would tell of each call several times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

from tests.otlp_receiver import OtlpReceiver
from tests.provider_stub import ProviderStub, Request

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "examples" / "zero_code"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GENAI = "opentelemetry-instrumentation-genai-openai"
INSTRUMENTORS = "opentelemetry_instrumentor"


def installed(
    folder: Path, only: Collection[str] = (GENAI,), ours: bool = True, hidden: Collection[str] = ()
) -> None:
    """Write into ``folder`` what makes Python see the entry points of this checkout (unless not ``ours``), and of the
    instrumentations ``only`` those that are named: earlier on the path, a distribution hides one of the same name."""
    points = PROJECT["entry-points"] if ours else {}
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in points.items()
    )
    _distribution(folder, PROJECT["name"], PROJECT["version"], text)
    for known in distributions():
        name = known.metadata["Name"]
        if name == PROJECT["name"] or name in only:
            continue
        if name in hidden or any(point.group == INSTRUMENTORS for point in known.entry_points):
            _distribution(folder, name, known.version, "")


def ahead(folder: Path, name: str) -> None:
    """Write into ``folder`` the entry points of the distribution ``name``: with it first on the path, they are loaded
    before all others."""
    known = distribution(name)
    _distribution(folder, name, known.version, known.read_text("entry_points.txt") or "")


def _distribution(folder: Path, name: str, version: str, entry_points: str) -> None:
    info = folder / f"{re.sub('[-.]+', '_', name)}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    (info / "entry_points.txt").write_text(entry_points, "utf-8")


def environment(folder: Path, stub: str, collector: str, more: Mapping[str, str]) -> dict[str, str]:
    """``folder`` is what ``installed`` has filled."""
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(folder),
        "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin",  # as in tests/conftest.py
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT), str(ROOT / "cli"))),
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": f"{stub}/v1",
        "ANTHROPIC_API_KEY": "x",
        "ANTHROPIC_BASE_URL": stub,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        "OTELCTX_TOKENIZER": "tiktoken",
        **more,
    }


@dataclass(frozen=True)
class Run:
    """What a process said, and what arrived."""

    code: int
    output: str
    errors: str
    requests: Sequence[Request]
    collector: OtlpReceiver

    @property
    def spans(self) -> list[Any]:
        return sorted(self.collector.spans(), key=lambda span: span.start_time_unix_nano)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The attributes of each span that a model call has, in the order of their starts."""
        return [a for a in map(attributes, self.spans) if "gen_ai.request.model" in a]

    def metric(self, name: str) -> int:
        """The sum of a counter over its series, as last exported by each process."""
        last: dict[Any, int] = {}
        for resource, metric in resource_metrics(self.collector):
            if metric.name == name:
                for point in metric.sum.data_points:
                    last[resource, point.start_time_unix_nano, str(point.attributes)] = point.as_int
        return sum(last.values())


def attributes(of: Any) -> dict[str, Any]:
    return {a.key: plain(a.value) for a in of.attributes}


def plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [plain(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: plain(each.value) for each in value.kvlist_value.values}
    return getattr(value, kind)


def resource_metrics(collector: OtlpReceiver) -> Iterator[tuple[str, Any]]:
    for request in collector.metric_requests():
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    yield str(resource.resource), metric


def start(
    script: str | Path,
    folder: Path,
    more: Mapping[str, str] | None = None,
    *,
    path: Sequence[Path] = (),
    **distributions: Any,
) -> Run:
    """Run ``script`` of examples/zero_code, or another one, to its end. ``path`` comes before all; ``distributions`` are
    the options of ``installed``."""
    site = folder / "site"
    installed(site, **distributions)
    with ProviderStub() as provider, OtlpReceiver() as collector:
        env = environment(site, provider.url, collector.url, more or {})
        env["PYTHONPATH"] = os.pathsep.join([*map(str, path), env["PYTHONPATH"]])
        done = subprocess.run(
            ["sh", SCRIPTS / script],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr, provider.requests, collector)
