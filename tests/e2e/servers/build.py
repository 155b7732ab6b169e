"""Has what the end-to-end tests run: `python tests/e2e/servers/build.py` prints its folder.

The Collector, Jaeger and Alertmanager are built from their Go modules (`otelcol/` …: about two, eight and two minutes of CPU,
once); Prometheus, promtool and jsonnet are unpacked from Debian's packages, never installed, or taken from the PATH; where
Node is, npm installs what `js_agent/package-lock.json` says. All goes into `$OTELCTX_E2E_CACHE` (default
`~/.cache/otelctx-e2e`), under a name made of the sources: a second run does nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SOURCES = Path(__file__).parent
JS_AGENT = SOURCES.parent / "js_agent"
CACHE = Path(os.environ.get("OTELCTX_E2E_CACHE") or Path.home() / ".cache" / "otelctx-e2e")

MODULES = {  # the folder of the Go module, and the package in it
    "otelcol": ("otelcol", "."),
    "jaeger": ("jaeger", "github.com/jaegertracing/jaeger/cmd/jaeger"),
    "alertmanager": ("alertmanager", "github.com/prometheus/alertmanager/cmd/alertmanager"),
    "amtool": ("alertmanager", "github.com/prometheus/alertmanager/cmd/amtool"),
}
PACKAGES = "node_modules"
DEBIAN = {"prometheus": "prometheus", "promtool": "prometheus", "jsonnet": "jsonnet"}  # the package of each
_LOCKED = ("package.json", "package-lock.json")
_NODE = 20


def without_node() -> str:
    """Why no JavaScript can be run here; "" where it can."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        return f"no {' and no '.join(missing)} here: the JavaScript agent needs Node 20 or newer"
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    major = int(said.removeprefix("v").partition(".")[0])
    return f"node {said} is too old: the JavaScript agent needs 20 or newer" if major < _NODE else ""


def binary(name: str) -> Path | None:
    """Where it is, or None: it was not built yet."""
    if name == PACKAGES:
        path = _packages() / PACKAGES
        return path if path.exists() else None
    if name in MODULES:
        path = _built(name)
        return path if path.exists() else None
    unpacked = _debian_folder(DEBIAN[name]) / "usr/bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    return Path(found) if found else None


def have(name: str) -> Path:
    """Where it is; built, installed or unpacked first if need be. Raises where that fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _only_one(DEBIAN.get(name, name)):
        known = binary(name)
        if known is None:
            make = _install if name == PACKAGES else _build if name in MODULES else _unpack
            make(DEBIAN.get(name, name))
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


def _install(name: str) -> None:
    """What the lock says, and no package's script is run."""
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        sys.stderr.write("installing the packages of the JavaScript agent (once)\n")
        made = Path(scratch) / "made"
        made.mkdir()
        for file in _LOCKED:
            shutil.copy(JS_AGENT / file, made)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=made, check=True, stdout=sys.stderr)
        made.rename(_packages())


def _debian_folder(package: str) -> Path:
    return CACHE / f"debian-{package}"


def _built(name: str) -> Path:
    return _named(name, sorted((SOURCES / MODULES[name][0]).iterdir()))


def _packages() -> Path:
    return _named("js-agent", [JS_AGENT / file for file in _LOCKED])


def _named(name: str, sources: Sequence[Path]) -> Path:
    digest = hashlib.sha256()
    for path in sources:
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
    if reason := without_node():
        sys.stderr.write(f"{reason}\n")
    else:
        try:
            have(PACKAGES)
        except subprocess.CalledProcessError:  # the servers are there: all other tests can run
            sys.stderr.write(
                "the packages of the JavaScript agent could not be installed: its tests will fail\n"
            )
    sys.stdout.write(f"{CACHE}\n")


if __name__ == "__main__":
    main()
