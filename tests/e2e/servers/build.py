"""Has the servers that the end-to-end tests run: `python tests/e2e/servers/build.py` prints their folder.

The Collector and Jaeger are built from their Go modules (`otelcol/`, `jaeger/`: about two and eight minutes of CPU, once);
Prometheus, Alertmanager, promtool and jsonnet are taken from the PATH, or unpacked from Debian's packages, never
installed. All goes into `$OTELCTX_E2E_CACHE` (default `~/.cache/otelctx-e2e`), under a name made of the sources: a second
run does nothing.
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

PACKAGES = {"otelcol": ".", "jaeger": "github.com/jaegertracing/jaeger/cmd/jaeger"}
DEBIAN = {  # the package, and the program's name in it
    "prometheus": ("prometheus", "prometheus"),
    "promtool": ("prometheus", "promtool"),
    "alertmanager": ("prometheus-alertmanager", "prometheus-alertmanager"),
    "amtool": ("prometheus-alertmanager", "amtool"),
    "jsonnet": ("jsonnet", "jsonnet"),
}


def binary(name: str) -> Path | None:
    """Where the server is, or None: it was not built yet."""
    if name in PACKAGES:
        path = CACHE / f"{name}-{_digest(SOURCES / name)}"
        return path if path.exists() else None
    package, program = DEBIAN[name]
    unpacked = _debian_folder(package) / "usr/bin" / program
    found = str(unpacked) if unpacked.exists() else shutil.which(name) or shutil.which(program)
    return Path(found) if found else None


def have(name: str) -> Path:
    """Where the server is; built or unpacked first if need be. Raises where that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one(name if name in PACKAGES else DEBIAN[name][0]):
        known = binary(name)
        if known is None:
            _build(name) if name in PACKAGES else _unpack(DEBIAN[name][0])
            known = binary(name)
    if known is None:
        raise FileNotFoundError(f"{name} could not be had")
    return known


def _build(name: str) -> None:
    """From a copy: `go build` may touch go.sum, and the sources name the result."""
    target = CACHE / f"{name}-{_digest(SOURCES / name)}"
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        copy = shutil.copytree(SOURCES / name, Path(scratch) / name)
        sys.stderr.write(f"building {name} (once)\n")
        command = [
            "go",
            "build",
            "-mod=readonly",
            "-trimpath",
            "-ldflags=-s -w",
            "-o",
            "../built",
            PACKAGES[name],
        ]
        subprocess.run(command, cwd=copy, check=True, env={**os.environ, "CGO_ENABLED": "0"})
        (Path(scratch) / "built").rename(target)


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


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Two test runs at once build it once."""
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    for name in (*PACKAGES, *DEBIAN):
        have(name)
    sys.stdout.write(f"{CACHE}\n")


if __name__ == "__main__":
    main()
