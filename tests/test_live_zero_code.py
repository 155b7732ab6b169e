"""What needs no code, each way in a process of its own: the examples of examples/zero_code under the real loader, the
real SDK and real instrumentations."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.otlp_receiver import OtlpReceiver
from tests.provider_stub import ProviderStub
from tests.zero_code import GENAI, SCRIPTS, Run, ahead, attributes, environment, installed, start

WAYS = ("instrument.sh", "initialize.sh", "exporter.sh", "config_file.sh", "hook.sh", "log_records.sh")
# Without us: the ways that record contents in the same place make the same spans.
PLAIN = {"hook.sh": "no_content", "log_records.sh": "event_only"}
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SDKS_OWN = "OTEL_CONFIG_FILE is set; ignoring configurator kwargs: ['auto_instrumentation_version']\n"
V2 = "opentelemetry-instrumentation-openai-v2"
OPENINFERENCE = "openinference-instrumentation-openai"
RUN = 12  # characters


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A script of the examples, once in a process of the tests."""
    return cache(lambda script: start(script, tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The agent under OpenTelemetry alone, with contents recorded there."""
    return cache(lambda where: agent(tmp_path_factory.mktemp("plain"), {CONTENT: where}, ours=False))


def agent(folder: Path, more: Mapping[str, str], app: Path = SCRIPTS / "agent.py", **options: Any) -> Run:
    script = folder / "run.sh"
    script.write_text(f"exec opentelemetry-instrument python {app}\n", "utf-8")
    return start(script, folder, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", **more}, **options)


def shown(span: Any) -> tuple[str, frozenset[tuple[str, str]]]:
    """A span as its instrumentation made it: what is ours, and what is new in each run, left out."""
    kept = {
        (key, str(value))
        for key, value in attributes(span).items()
        if not key.startswith("otelctx.") and key not in ("gen_ai.response.id", "server.port")
    }
    return span.name, frozenset(kept)


def figures(call: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a call, but for ids."""
    return {k: v for k, v in call.items() if k.startswith("otelctx.") and not k.endswith(".id")}


@pytest.mark.parametrize("way", WAYS)
def test_each_way(way: str, run: Callable[[str], Run], plain: Callable[[str], Run]) -> None:
    ours, without = run(way), plain(PLAIN.get(way, "span_only"))
    sent = [request.usage["prompt_tokens"] for request in ours.requests]

    # The app: no exception, not a line.
    assert (ours.code, ours.errors) == (0, SDKS_OWN if way == "config_file.sh" else "")
    assert ours.output == "".join(f"{tokens} tokens sent\n" for tokens in sent)
    # Each call is told whole, exactly, and once.
    assert [a["otelctx.context.usage"] for a in ours.calls] == sent
    assert [a["otelctx.conversation.turn"] for a in ours.calls] == [1, 2, 3]
    assert {a["otelctx.completeness"] for a in ours.calls} == {"full"}
    assert {a["otelctx.tokens.method"] for a in ours.calls} == {"exact"}
    assert {a["otelctx.provisional"] for a in ours.calls} == {False}
    assert ours.metric("otelctx.calls") == 3
    # No span is lost, doubled or changed.
    assert len(without.spans) == 3
    assert Counter(map(shown, ours.spans)) == Counter(map(shown, without.spans))
    assert len({span.span_id for span in ours.spans}) == 3
    assert not any(figures(attributes(span)) for span in without.spans)
    # No text of a prompt where it was not.
    assert_private(ours)
    if way in PLAIN:
        assert found(prompts(ours), "".join(everything(ours))) == set()


def test_two_ways_say_the_same(run: Callable[[str], Run]) -> None:
    assert list(map(figures, run("hook.sh").calls)) == list(map(figures, run("log_records.sh").calls))


def test_each_script_is_tested_and_described() -> None:
    page = (SCRIPTS.parent / "README.md").read_text("utf-8")
    scripts = {path.name for path in SCRIPTS.glob("*.sh")}

    assert scripts == {*WAYS, "prefork.sh"}
    assert [name for name in sorted(scripts) if f"(zero_code/{name})" not in page] == []


# ---- no text of a prompt


def prompts(told: Run) -> set[str]:
    """Runs of what went over the wire, to the provider and back."""
    texts = [str(m["content"]) for r in told.requests for m in r.body["messages"]]
    return {text[i : i + RUN] for text in texts for i in range(len(text) - RUN + 1)}


def found(runs: set[str], text: str) -> set[str]:
    return {each for each in runs if each in text}


def everything(told: Run) -> list[str]:
    """All that left the process, as text."""
    return [*told.collector.texts(), told.output, told.errors]


def assert_private(told: Run) -> None:
    """What is ours has no text of a prompt: attributes, events, metrics, lines."""
    runs = prompts(told)
    assert len(runs) > 100
    own = [
        *(f"{k}={v}" for span in told.spans for k, v in attributes(span).items() if k.startswith("otelctx.")),
        *(str(event) for span in told.spans for event in span.events),
        *map(str, told.collector.metrics()),
        told.output,
        told.errors,
    ]
    assert found(runs, "\n".join(own)) == set()


def test_masked_contents_stay_masked(tmp_path: Path) -> None:
    told = agent(
        tmp_path,
        {"OPENINFERENCE_HIDE_INPUTS": "true", "OPENINFERENCE_HIDE_OUTPUTS": "true"},
        only=(OPENINFERENCE,),
    )

    assert (told.code, told.errors) == (0, "")
    assert {a["otelctx.completeness"] for a in map(attributes, told.spans)} == {"usage_only"}
    assert found(prompts(told), "".join(everything(told))) == set()


# ---- other combinations


def test_the_exporter_alone_from_a_file(tmp_path: Path) -> None:
    told = agent(tmp_path, {
        "OTEL_CONFIG_FILE": str(SCRIPTS / "otel-exporter.yaml"), CONTENT: "span_only",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "otelctx",
    })  # fmt: skip

    assert (told.code, told.errors) == (0, SDKS_OWN)
    assert [a["otelctx.conversation.turn"] for a in told.calls] == [1, 2, 3]
    assert len(told.spans) == 3


FIRST = """
from importlib.metadata import entry_points
print(next(iter(entry_points(group="opentelemetry_instrumentor"))).name)
import runpy
runpy.run_path("AGENT")
"""


@pytest.mark.parametrize("first", ["openai", "otelctx"])
def test_in_whatever_order_instrumentors_are_loaded(first: str, tmp_path: Path) -> None:
    if first == "openai":
        ahead(tmp_path / "ahead", GENAI)
    app = tmp_path / "app.py"
    app.write_text(FIRST.replace("AGENT", str(SCRIPTS / "agent.py")))
    told = agent(tmp_path, {CONTENT: "span_only"}, app, path=[tmp_path / "ahead"])

    assert told.output.splitlines()[0] == first
    assert [a["otelctx.conversation.turn"] for a in told.calls] == [1, 2, 3]
    assert len(told.spans) == 3


EVERYTHING = """
import otel_ctx
otel_ctx.install()
from opentelemetry import trace
trace.get_tracer_provider().add_span_processor(otel_ctx.ContextSpanProcessor())
import runpy
runpy.run_path("AGENT")
otel_ctx.install()
"""


def test_what_is_switched_on_in_every_way_counts_once(tmp_path: Path, run: Callable[[str], Run]) -> None:
    app = tmp_path / "app.py"
    app.write_text(EVERYTHING.replace("AGENT", str(SCRIPTS / "agent.py")))
    told = agent(tmp_path, {
        "OTEL_TRACES_EXPORTER": "otelctx", "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "otelctx",
        "OTEL_SERVICE_NAME": "shop", CONTENT: "span_and_event",
    }, app)  # fmt: skip
    once = run("instrument.sh")

    assert (told.code, told.errors) == (0, "")
    assert len(told.spans) == 3
    assert list(map(figures, told.calls)) == list(map(figures, once.calls))
    for name in ("otelctx.calls", "otelctx.context.segment.tokens", "otelctx.self.spans"):
        assert told.metric(name) == once.metric(name), name


def test_messages_as_log_records_of_their_own(tmp_path: Path) -> None:
    """That package records no tools, so that a call cannot be told whole; all of its messages are."""
    told = agent(tmp_path, {CONTENT: "true"}, only=(V2,))

    assert (told.code, told.errors) == (0, "")
    assert len(told.collector.log_records()) == (2 + 1) + (4 + 1) + (6 + 1)
    assert [a["otelctx.conversation.turn"] for a in told.calls] == [1, 2, 3]
    assert [a["otelctx.completeness.reasons"] for a in told.calls] == [["schema_missing"]] * 3
    assert all("otelctx.segments.user.tokens" in a for a in told.calls)
    assert_private(told)


# ---- what is wrong or missing


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"OTELCTX_EXPORTER": "jaeger"}, "OTELCTX_EXPORTER='jaeger' is not used: it must be one exporter that is installed"),
        ({"OTELCTX_EXPORTER": "otelctx"}, "OTELCTX_EXPORTER='otelctx' is not used"),
        ({"OTELCTX_EXPORTER": "otlp,console"}, "OTELCTX_EXPORTER='otlp,console' is not used"),
        ({"OTELCTX_DUTY": "banana"}, "OTELCTX_DUTY='banana' is not used: it must be a share from 0.01 to 1"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_is_one_line_and_the_rest_works(
    more: Mapping[str, str], line: str, tmp_path: Path
) -> None:
    told = agent(tmp_path, {"OTEL_TRACES_EXPORTER": "otelctx", CONTENT: "span_only", **more})

    assert told.code == 0
    assert [line in each for each in told.errors.splitlines()] == [True]
    assert len(told.output.splitlines()) == 3
    assert [a["otelctx.conversation.turn"] for a in told.calls] == [1, 2, 3]


def test_an_exporter_that_is_not_installed(tmp_path: Path) -> None:
    """OpenTelemetry would not set up anything then; here the metrics are still there."""
    told = agent(tmp_path, {
        "OTEL_TRACES_EXPORTER": "otelctx", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json", CONTENT: "span_only",
    })  # fmt: skip

    assert told.code == 0
    assert told.errors == (
        "otel_ctx: no span is sent: the exporter otlp_json_http is not installed "
        "(package opentelemetry-exporter-otlp-json-http)\n"
    )
    assert (len(told.spans), told.metric("otelctx.calls")) == (0, 3)


def test_without_an_sdk_that_is_set_up(tmp_path: Path) -> None:
    told = agent(tmp_path, {CONTENT: "span_only"}, hidden=("opentelemetry-distro",))

    assert told.code == 0
    assert told.errors == (
        "otel_ctx: ProxyTracerProvider has no processors to add to: call install() after the SDK is set up\n"
    )
    assert (len(told.output.splitlines()), len(told.spans)) == (3, 0)


def test_without_a_receiver(tmp_path: Path) -> None:
    nowhere = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        CONTENT: "span_only",
    }
    told = agent(tmp_path, nowhere)

    assert told.code == 0
    assert len(told.output.splitlines()) == 3
    assert "otel_ctx" not in told.errors.replace("/otel_ctx/", ""), "what the exporter itself says is its own"
    assert found(prompts(told), told.errors) == set()


@pytest.mark.parametrize("off", [{"OTELCTX_DISABLED": "1"}, {"OTEL_SDK_DISABLED": "true"}], ids=str)
def test_switched_off(off: Mapping[str, str], tmp_path: Path) -> None:
    told = agent(tmp_path, {
        "OTEL_TRACES_EXPORTER": "otelctx", "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK": "otelctx", CONTENT: "span_only", **off
    })  # fmt: skip

    assert (told.code, told.errors) == (0, "")
    assert len(told.spans) == (0 if "OTEL_SDK_DISABLED" in off else 3)
    assert not any(figures(attributes(span)) for span in told.spans)
    assert told.metric("otelctx.calls") == 0


def test_the_sdk_still_has_no_processors_by_name_in_a_file(tmp_path: Path) -> None:
    """docs/zero-code.md says so."""
    file = tmp_path / "otel.yaml"
    file.write_text('file_format: "1.0"\ntracer_provider:\n  processors:\n    - otelctx: {}\n')
    told = agent(tmp_path, {"OTEL_CONFIG_FILE": str(file)})

    assert told.code == 0
    assert "No processor type specified in span processor config" in told.errors


# ---- a server that forks


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_a_server_that_forks_its_workers(tmp_path: Path) -> None:
    installed(tmp_path / "site")
    port, answers = _free_port(), []
    with ProviderStub() as provider, OtlpReceiver() as collector:
        env = environment(tmp_path / "site", provider.url, collector.url, {"PORT": str(port)})
        server = subprocess.Popen(
            ["sh", SCRIPTS / "prefork.sh"],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for n in range(12):
                answers.append(_get(f"http://127.0.0.1:{port}/?q=question+number+{n}"))
        finally:
            server.send_signal(signal.SIGTERM)
            _, errors = server.communicate(timeout=60)
        told = Run(server.returncode, "", errors, provider.requests, collector)

    assert told.code == 0, errors
    assert "otel_ctx" not in errors
    assert "Traceback" not in errors
    assert len(answers) == len(told.requests) == len(told.calls) == 12
    assert len({span.span_id for span in told.spans}) == len(told.spans) == 12
    assert [a["otelctx.context.usage"] for a in told.calls] == [
        r.usage["prompt_tokens"] for r in told.requests
    ]
    assert {a["otelctx.completeness"] for a in told.calls} == {"full"}
    assert told.metric("otelctx.calls") == 12


def _get(url: str) -> int:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return int(answer.status)
        except ConnectionError:
            pass
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionError):
                raise
        time.sleep(0.1)
    raise AssertionError("it does not answer")
