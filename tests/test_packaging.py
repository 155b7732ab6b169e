"""What is installed: two packages with all their data, nothing else; and the lock fits what pyproject.toml asks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGES = {"otel_ctx": ROOT / "otel_ctx", "otel_ctx_cli": ROOT / "cli" / "otel_ctx_cli"}
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT: dict[str, Any] = PYPROJECT["project"]


def build(target: str, source: Path, out: Path) -> Path:
    """Build with the locked backend, in this environment: no network, nothing written into the source."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    run = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def read(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [member for member in archive.namelist() if member.endswith(f".dist-info/{name}")]
        return archive.read(member).decode()


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: Path) -> None:
    top = {name.split("/")[0] for name in names(wheel)}

    assert top == {"otel_ctx", "otel_ctx_cli", f"otel_ctx-{PROJECT['version']}.dist-info"}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    # An entry of .gitignore that is too wide takes files out of the wheel without a word.
    source = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert {name for name in names(wheel) if ".dist-info/" not in name} == source
    assert {"otel_ctx/py.typed", "otel_ctx/rules/providers.toml", "otel_ctx/rules/models.toml"} <= source


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    metadata = read(wheel, "METADATA")

    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "Apache License" in read(wheel, "licenses/LICENSE")
    assert "otelctx = otel_ctx_cli.main:main" in read(wheel, "entry_points.txt")


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    for folder in ("sdist", "source", "wheel"):
        (tmp_path / folder).mkdir()
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()

    assert names(build("wheel", source, tmp_path / "wheel")) == names(wheel)


def test_the_installed_version_is_that_of_pyproject() -> None:
    assert version("otel-ctx") == PROJECT["version"]


# ---- the lock


def locked(name: str) -> dict[str, str]:
    """Package -> pinned version; fails on a line that is not pinned and hashed."""
    text = (ROOT / "requirements" / name).read_text("utf-8")
    found = {}
    for entry in re.split(r"\n(?=\S)", text):
        if entry.startswith("#"):
            continue
        pin = re.match(r"([a-z0-9-]+)==(\S+)", entry)
        assert pin, f"{name}: not pinned: {entry}"
        assert "--hash=sha256:" in entry, f"{name}: no hash: {pin[0]}"
        found[pin[1]] = pin[2]
    return found


@pytest.mark.parametrize("name", ["core.txt", "dev.txt", "bench.txt", "fuzz.txt"])
def test_the_lock_names_no_index(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text("utf-8")

    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^    --hash=.*$", "", text, flags=re.MULTILINE), re.MULTILINE)


def test_the_lock_of_the_javascript_agent_pins_every_file_and_names_no_index() -> None:
    folder = ROOT / "tests/e2e/js_agent"
    lock = json.loads((folder / "package-lock.json").read_bytes())["packages"]
    asked = json.loads((folder / "package.json").read_bytes())["dependencies"]

    root = lock.pop("")
    assert root["dependencies"] == asked
    assert {name: lock[f"node_modules/{name}"]["version"] for name in asked} == asked
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in lock.values())


def test_the_locks_agree() -> None:
    core, dev = locked("core.txt"), locked("dev.txt")

    assert {name: dev.get(name) for name in core} == core


def requirements(entries: list[Any]) -> list[Requirement]:
    own = canonicalize_name(PROJECT["name"])
    found = [Requirement(entry) for entry in entries if isinstance(entry, str)]
    return [requirement for requirement in found if canonicalize_name(requirement.name) != own]


def unmet(wanted: list[Requirement], pins: dict[str, str]) -> list[str]:
    return [
        f"{requirement} (locked: {pins.get(canonicalize_name(requirement.name))})"
        for requirement in wanted
        if not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"))
    ]


def test_the_lock_fits_the_declared_dependencies() -> None:
    extras, groups = PROJECT["optional-dependencies"], dict(PYPROJECT["dependency-groups"])
    build_system = PYPROJECT["build-system"]["requires"]
    core = requirements([*PROJECT["dependencies"], *extras["fast"], *groups["build"], *build_system])
    # not the extra ``claude``: the golden files hold the fitted model's counts, on every Python
    tested = [entries for name, entries in extras.items() if name != "claude"]
    bench, fuzz = requirements(groups.pop("bench")), requirements(groups.pop("fuzz"))
    dev = requirements([entry for entries in [*tested, *groups.values()] for entry in entries])

    assert unmet(core, locked("core.txt")) == []
    assert unmet(dev, locked("dev.txt")) == []
    assert unmet(bench, locked("bench.txt")) == []
    # one for Python 3.11, one for those after it
    pins = re.findall(
        r"^atheris==(\S+)", (ROOT / "requirements" / "fuzz.txt").read_text("utf-8"), re.MULTILINE
    )
    assert [unmet([wanted], {"atheris": pin}) for wanted, pin in zip(fuzz, pins, strict=True)] == [[], []]


def test_every_runtime_dependency_is_justified_in_agents_md() -> None:
    agents = (ROOT / "AGENTS.md").read_text("utf-8")
    justified = set(re.findall(r"^\| `([a-z-]+)` \|", agents, re.MULTILINE))

    assert justified == {requirement.name for requirement in requirements(PROJECT["dependencies"])}


# ---- entry points


def test_the_wheel_says_what_others_may_load(wheel: Path) -> None:
    """And no distro or configurator: the first that is found is taken, and it would be ours instead of the user's."""
    groups = re.findall(r"^\[(.+)\]$", read(wheel, "entry_points.txt"), re.MULTILINE)

    assert set(groups) == {
        "console_scripts",
        "opentelemetry_genai_completion_hook",
        "opentelemetry_instrumentor",
        "opentelemetry_traces_exporter",
        "pytest11",
    }


# pytest takes a module; tests/test_pytest_plugin.py loads that.
@pytest.mark.parametrize("group", [g for g in PROJECT["entry-points"] if g != "pytest11"])
def test_an_entry_point_loads_without_the_package_that_asks_for_it(group: str) -> None:
    (value,) = PROJECT["entry-points"][group].values()
    module, _, name = value.partition(":")
    code = (
        f"import sys, {module} as m; assert callable(m.{name}); "
        "print([n for n in sys.modules if n.startswith(('opentelemetry.instrumentation', 'opentelemetry.util.genai'))])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert (run.stdout, run.stderr) == ("[]\n", "")
