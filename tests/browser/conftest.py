"""A real Chromium for the HTML report: ``$CHROMIUM``, else one on the PATH. Without any, these tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.window import Open, Opened

AXE = "4.10.3"
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "otelctx-tests"
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (e) => violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: neither $CHROMIUM nor on the PATH (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def axe() -> str:
    """The rules of axe-core, from npm into a folder outside the repository (MPL-2.0: it is not ours to ship)."""
    script = _CACHE / f"axe-{AXE}.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm to fetch axe-core with")
        _CACHE.mkdir(parents=True, exist_ok=True)
        try:
            subprocess.run(
                [npm, "pack", "--silent", f"axe-core@{AXE}"],
                cwd=_CACHE, check=True, capture_output=True, timeout=120,
            )  # fmt: skip
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"axe-core could not be fetched: {error}")
        with tarfile.open(_CACHE / f"axe-core-{AXE}.tgz") as packed:
            held = packed.extractfile("package/axe.min.js")
            assert held is not None
            script.write_bytes(held.read())
    return script.read_text("utf-8")


@pytest.fixture
def opened(chromium: Browser, tmp_path: Path) -> Iterator[Open]:
    """``opened(page_bytes, place="c=0")``: a window on that report."""
    contexts = []

    def open_(report: bytes, place: str = "", *, scripts: tuple[str, ...] = (), **options: Any) -> Opened:
        file = tmp_path / f"report{len(contexts)}.html"
        file.write_bytes(report)
        options.setdefault("viewport", {"width": 1400, "height": 900})
        options.setdefault("color_scheme", "light")
        context = chromium.new_context(reduced_motion="reduce", timezone_id="UTC", **options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        context.add_init_script(_WATCH)
        for script in scripts:
            context.add_init_script(script)
        page = context.new_page()
        one = Opened(page, file.as_uri())
        page.on("request", lambda r: one.requests.append(r.url))
        page.on("pageerror", lambda e: one.errors.append(str(e)))
        page.on("console", lambda m: one.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("dialog", lambda d: (one.errors.append(f"dialog {d.message}"), d.dismiss()))
        one.at(place)
        return one

    yield open_
    for context in contexts:
        context.close()
