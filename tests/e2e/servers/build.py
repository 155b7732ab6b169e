"""Has the servers that the end-to-end tests run: `python tests/e2e/servers/build.py` prints their folder.

The Collector, Jaeger and Alertmanager are built from their Go modules (`otelcol/` …: about two, eight and two minutes of CPU,
once); Prometheus, promtool and jsonnet are unpacked from Debian's packages, never installed, or taken from the PATH. All goes
into `$OTELCTX_E2E_CACHE` (default `~/.cache/otelctx-e2e`), under a name made of the sources: a second run does nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
CACHE = Path(os.environ.get("OTELCTX_E2E_CACHE") or Path.home() / ".cache" / "otelctx-e2e")

MODULES = {  # the folder of the Go module, and the package in it
    "otelcol": ("otelcol", "."),
    "jaeger": ("jaeger", "github.com/jaegertracing/jaeger/cmd/jaeger"),
    "alertmanager": ("alertmanager", "github.com/prometheus/alertmanager/cmd/alertmanager"),
    "amtool": ("alertmanager", "github.com/prometheus/alertmanager/cmd/amtool"),
}
DEBIAN = {"prometheus": "prometheus", "promtool": "prometheus", "jsonnet": "jsonnet"}  # the package of each


def binary(name: str) -> Path | None:
    """Where the server is, or None: it was not built yet."""
    if name in MODULES:
        path = _built(name)
        return path if path.exists() else None
    unpacked = _debian_folder(DEBIAN[name]) / "usr/bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    return Path(found) if found else None


def have(name: str) -> Path:
    """Where the server is; built or unpacked first if need be. Raises where that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one(name if name in MODULES else DEBIAN[name]):
        known = binary(name)
        if known is None:
            _build(name) if name in MODULES else _unpack(DEBIAN[name])
            known = binary(name)
    if known is None:
        raise FileNotFoundError(f"{name} could not be had")
    return known


def _build(name: str) -> None:
    """From a copy: `go build` may touch go.sum, and the sources name the result."""
    module, package = MODULES[name]
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        copy = shutil.copytree(SOURCES / module, Path(scratch) / module)
        sys.stderr.write(f"building {name} (once)\n")
        command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", "../built", package]
        subprocess.run(command, cwd=copy, check=True, env={**os.environ, "CGO_ENABLED": "0"})
        (Path(scratch) / "built").rename(_built(name))


def _unpack(package: str) -> None:
    """Without installing: that would start the server, on all addresses."""
    target = _debian_folder(package)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        sys.stderr.write(f"unpacking {package} (once)\n")
        subprocess.run(["apt-get", "download", "-qq", package], cwd=scratch, check=True)
        (deb,) = Path(scratch).glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", str(deb), "root"], cwd=scratch, check=True)
        (Path(scratch) / "root").rename(target)


def _debian_folder(package: str) -> Path:
    return CACHE / f"debian-{package}"


def _built(name: str) -> Path:
    digest = hashlib.sha256()
    for path in sorted((SOURCES / MODULES[name][0]).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return CACHE / f"{name}-{digest.hexdigest()[:12]}"


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Two test runs at once build it once."""
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    for name in (*MODULES, *DEBIAN):
        have(name)
    sys.stdout.write(f"{CACHE}\n")


if __name__ == "__main__":
    main()
