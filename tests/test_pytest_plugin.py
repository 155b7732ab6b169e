"""The fixture ``otelctx``: asserts on the spans of a test, and nothing where nobody asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider

from otel_ctx.errors import OtelCtxError, SettingError
from otel_ctx.live.testing import Recording
from tests.exported import chat, recording
from tests.provider_stub import ProviderStub

ROOT = Path(__file__).parent.parent
PLUGIN = "otel_ctx.live.pytest_plugin"


def run(folder: Path, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A pytest of its own, which knows no plugin but ours."""
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "OTEL"))},
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "cli"))),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **environment,
    }
    command = [
        sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", "-rA", "-c", os.devnull, "--rootdir", ".",
        *args,
    ]  # fmt: skip
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_example_runs() -> None:
    with ProviderStub() as provider:
        done = run(ROOT / "examples" / "pytest", OPENAI_API_KEY="x", OPENAI_BASE_URL=f"{provider.url}/v1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert len(provider.requests) == 6


def test_it_is_an_entry_point() -> None:
    project: Any = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"otelctx": PLUGIN}


def test_a_run_that_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    ours = {m for m in sys.modules if m.split('.')[0] in ('otel_ctx', 'opentelemetry', 'orjson', 'tiktoken')}\n"
        f"    assert ours == {{'otel_ctx', 'otel_ctx.live', '{PLUGIN}'}}\n"
    )
    done = run(tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_library_is_imported_as_it_is(tmp_path: Path) -> None:
    """pytest would compile it anew, as it does with every plugin's distribution."""
    (tmp_path / "marking.py").write_text(
        "import pytest\npytest.register_assert_rewrite('otel_ctx', 'marked')\n"
    )
    (tmp_path / "marked.py").write_text("")
    (tmp_path / "test_it.py").write_text(
        "import marked, otel_ctx.reports as reports\n"
        "def test_it():\n"
        "    assert 'Rewriting' in type(marked.__loader__).__name__\n"
        "    assert 'Rewriting' not in type(reports.__loader__).__name__\n"
    )
    path = os.pathsep.join((str(tmp_path), str(ROOT), str(ROOT / "cli")))
    done = run(tmp_path, "-p", "marking", PYTHONPATH=path)

    assert done.returncode == 0, done.stdout + done.stderr


def test_what_fails_is_told_without_a_traceback_of_ours(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from tests.exported import chat, recording\n"
        "def test_it(otelctx):\n"
        "    provider, _ = recording()\n"
        "    otelctx.attach(provider)\n"
        "    chat(provider, 1)\n"
        "    chat(provider, 2)\n"
        "    otelctx.check(max_context=15, max_growth=10, max_waste=0)\n"
        "def test_without_a_provider(otelctx):\n"
        "    otelctx.check(max_context=15)\n"
    )
    done = run(tmp_path)

    assert done.returncode == 1
    assert "FAIL  max-context 15: 20 tokens at turn 2 of" in done.stdout
    assert "max-growth" not in done.stdout.split("short test summary")[1]
    assert "live/testing.py:" not in done.stdout.split("test_without_a_provider")[0]
    assert "otelctx.attach(provider), before the agent runs" in done.stdout


# ---- the recording


def test_the_providers_are_restored() -> None:
    provider, memory = recording()
    logs = LoggerProvider(shutdown_on_exit=False)
    processors = provider._active_span_processor._span_processors
    heard = Recording().attach(provider, logs).attach(provider)
    assert len(provider._active_span_processor._span_processors) == len(processors) + 1
    chat(provider)
    heard.detach()
    heard.detach()
    chat(provider, 2)

    assert provider._active_span_processor._span_processors == processors
    assert logs._multi_log_record_processor._log_record_processors == ()
    assert len(heard.report.calls) == 1
    assert len(memory.get_finished_spans()) == 2


def test_processors_of_others_that_came_meanwhile_stay() -> None:
    provider, _ = recording()
    first, second = Recording().attach(provider), Recording()
    second.attach(provider)
    first.detach()
    chat(provider)

    assert len(second.report.calls) == 1
    with pytest.raises(OtelCtxError, match="no TracerProvider"):
        _ = first.report


def test_a_report_is_of_the_spans_so_far() -> None:
    provider, _ = recording()
    with Recording().attach(provider) as heard:
        chat(provider, 1)
        assert [len(heard.report.calls), heard.report is heard.report] == [1, True]
        chat(provider, 2)
        assert len(heard.report.calls) == 2
        heard.check(max_context=20, stable_prefix=True, strict=False)
        heard.clear()
        with pytest.raises(OtelCtxError, match="no span was ended"):
            heard.check(max_context=20)


def test_spans_that_tell_of_no_call_are_no_pass() -> None:
    provider, _ = recording()
    with Recording().attach(provider) as heard:
        provider.get_tracer("t").start_span("GET /").end()
        with pytest.raises(AssertionError, match="NOT CHECKED  max-context 20: no model call"):
            heard.check(max_context=20, strict=False)


def test_a_gate_that_is_none_is_named() -> None:
    provider, _ = recording()
    with Recording().attach(provider) as heard:
        chat(provider)
        with pytest.raises(SettingError, match="'max_contxt' is no gate: is max-context meant"):
            heard.check(max_contxt=20)
        with pytest.raises(OtelCtxError, match="no bound"):
            heard.check()


def test_what_is_no_provider_is_named() -> None:
    with pytest.raises(OtelCtxError, match="object is no TracerProvider"):
        Recording().attach(object())


def test_a_span_is_kept_while_others_end_on_other_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    provider = TracerProvider(shutdown_on_exit=False)
    with Recording().attach(provider) as heard, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: chat(provider, n % 5 + 1), range(40)))
        assert len(heard.report.calls) == 40
