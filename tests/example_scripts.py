"""The scripts of examples/, run as a user runs them, but against a provider and a Collector on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.otlp_receiver import OtlpReceiver
from tests.provider_stub import ProviderStub, Request

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


@dataclass(frozen=True, slots=True)
class Run:
    """What a script printed, what it asked the provider for, and what the Collector got."""

    output: Sequence[str]
    requests: Sequence[Request]
    spans: Sequence[Any]
    metrics: Sequence[Any]


@cache
def run_example(script: str) -> Run:
    """Once in a process. Raises AssertionError where the script fails or complains."""
    with ProviderStub() as provider, OtlpReceiver() as collector, tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "PYDANTIC_DISABLE_PLUGINS": "logfire-plugin",  # as in tests/conftest.py
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli"))),
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": provider.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        }
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return Run(done.stdout.splitlines(), provider.requests, collector.spans(), collector.metrics())
