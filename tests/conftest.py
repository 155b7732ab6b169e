"""What every test file may use: the corpus, golden files and how hypothesis behaves."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:  # heavy, and few files need them
    from opentelemetry.sdk.trace import TracerProvider

    from otel_ctx.live.analyzer import Analyzer

TESTS = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))

# What logfire plugs into pydantic would be imported, for half a second, with each client of a provider: here, and in the
# processes that tests start. Who does not use logfire has not got it.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "logfire-plugin")

# A slow machine is no failure. In CI the examples are the same each time, so that a red run can be run again.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if IN_CI else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite golden files with what the code says now")


def pytest_configure(config: pytest.Config) -> None:
    if IN_CI and config.getoption("--update"):
        raise pytest.UsageError("--update would make every golden test pass: not in CI")


# ---- the corpus


@dataclass(frozen=True)
class CorpusCase:
    """One folder of tests/corpus: what an instrumentation library wrote, request by request."""

    name: str
    folder: Path
    traces: list[dict[str, Any]]  # OTLP/JSON ExportTraceServiceRequests, in the order of export
    logs: list[dict[str, Any]]  # OTLP/JSON ExportLogsServiceRequests; empty where there are none
    meta: dict[str, Any]

    @property
    def files(self) -> list[Path]:
        """The dumps as a user would name them to `otelctx analyze`."""
        names = ("traces.jsonl.gz", "logs.jsonl.gz")
        return [self.folder / name for name in names if (self.folder / name).exists()]


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


@pytest.fixture(scope="session")
def corpus_case() -> Callable[[str], CorpusCase]:
    """``corpus_case("oi-openai")`` reads that folder of tests/corpus."""

    def read(name: str) -> CorpusCase:
        folder = TESTS / "corpus" / name
        if not folder.is_dir():
            raise FileNotFoundError(f"no corpus case {name!r}: {folder} is not there")
        meta = folder / "meta.json"
        return CorpusCase(
            name=name,
            folder=folder,
            traces=_json_lines(folder / "traces.jsonl.gz"),
            logs=_json_lines(folder / "logs.jsonl.gz"),
            meta=json.loads(meta.read_text("utf-8")) if meta.exists() else {},
        )

    return read


# ---- dumps


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a file into an empty working folder, so that names in messages are short."""
    monkeypatch.chdir(tmp_path)

    def write_(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    return write_


# ---- the live part


@pytest.fixture
def live_afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is told, named or shared yet, and nothing stays."""
    from otel_ctx.live import analyzer, faults, settings

    monkeypatch.setattr(settings, "_named", set())
    monkeypatch.setattr(faults, "_told", set())
    yield
    analyzer.release()


@pytest.fixture
def analyzer() -> Iterator[Analyzer]:
    from otel_ctx.live.analyzer import Analyzer
    from otel_ctx.live.settings import LiveSettings

    made = Analyzer(LiveSettings(tokenizer="bytes"))
    yield made
    made.discard()


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    from opentelemetry.sdk.trace import TracerProvider

    made = TracerProvider(shutdown_on_exit=False)
    yield made
    made.shutdown()


# ---- golden files


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """``golden("corpus/oi-openai/report.json", report)`` compares with that file under tests/.

    A ``.json`` file takes any JSON value, every other one a string; a further ``.gz`` packs it. With ``--update``
    the file is written instead of compared: read the diff before committing it.
    """
    update = bool(request.config.getoption("--update"))

    def check(name: str, actual: object) -> None:
        path = TESTS / name
        packed = path.suffix == ".gz"
        if Path(name.removesuffix(".gz")).suffix == ".json":
            text = json.dumps(actual, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True) + "\n"
        elif isinstance(actual, str):
            text = actual
        else:
            raise TypeError(f"{name}: only a .json golden takes a {type(actual).__name__}")
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            data = text.encode()
            # No time in the gzip header: the same text is the same file.
            path.write_bytes(gzip.compress(data, mtime=0) if packed else data)
            return
        if not path.exists():
            pytest.fail(f"no golden file tests/{name}: pytest --update writes it")
        stored = path.read_bytes()
        expected = (gzip.decompress(stored) if packed else stored).decode()
        assert text == expected, f"tests/{name} differs; if the new text is right: pytest --update"

    return check
