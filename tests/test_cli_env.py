"""``otelctx env``: what is active, and why; nothing secret."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otel_ctx.live.configured import ConfiguredSpanExporter
from otel_ctx.live.environment import Environment, look
from otel_ctx.live.instrumentations import table
from otel_ctx_cli.main import main

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
HOOK = "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"
OUT = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS"
GENAI, V2 = "opentelemetry-instrumentation-genai-openai", "opentelemetry-instrumentation-openai-v2"


class Fake(Distribution):
    """An installed package, without files."""

    def __init__(self, name: str, version: str, points: str = "", wants: Sequence[str] = ()) -> None:
        wanted = "".join(f"Requires-Dist: {each}; extra == 'instruments'\n" for each in wants)
        self._files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wanted}",
            "entry_points.txt": points,
        }

    def __repr__(self) -> str:
        return str(self.metadata["Name"])

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: Any) -> Any:
        return Path(path)


OURS = Fake("otel-ctx", "0.1.0", """
[opentelemetry_instrumentor]
otelctx = otel_ctx.live.instrumentor:ContextInstrumentor
[opentelemetry_traces_exporter]
otelctx = otel_ctx.live.configured:ConfiguredSpanExporter
[opentelemetry_genai_completion_hook]
otelctx = otel_ctx.live.completion_hook:ContextCompletionHook
""")  # fmt: skip
LOADER = Fake("opentelemetry-instrumentation", "0.66b2")
DISTRO = Fake(
    "opentelemetry-distro",
    "0.66b2",
    "[opentelemetry_configurator]\nc = d:C\n[opentelemetry_distro]\nd = d:D\n",
)
UTIL = Fake("opentelemetry-util-genai", "1.3b0")
OTLP = Fake(
    "opentelemetry-exporter-otlp-proto-grpc",
    "1.45.2",
    "[opentelemetry_traces_exporter]\notlp_proto_grpc = g:E\n",
)
OPENAI = Fake("openai", "3.57.0")
SDK = Fake("opentelemetry-sdk", "1.45.2", "[opentelemetry_traces_exporter]\nconsole = s:E\n")
HTTP = Fake("an-exporter", "1.45.2", "[opentelemetry_traces_exporter]\notlp_proto_http = h:E\n")
CONFIGURATION = Fake("opentelemetry-configuration", "0.66b2")


def instrumentation(name: str, version: str = "1.3b0", *wants: str) -> Fake:
    client = name.rpartition("-")[2] if not name.endswith("-v2") else "openai"
    point = "json:JSONDecoder"  # something that can be loaded
    return Fake(name, version, f"[opentelemetry_instrumentor]\n{client} = {point}\n", wants or (client,))


ALL = (OURS, LOADER, DISTRO, UTIL, OTLP, OPENAI, instrumentation(GENAI))


def ways(seen: Environment) -> dict[str, bool]:
    return {way.name: way.active for way in seen.ways}


def why(seen: Environment, name: str) -> str:
    return next(way.why for way in seen.ways if way.name == name)


# ---- ways in


def test_with_all_installed_and_nothing_set() -> None:
    seen = look({}, ALL)

    assert ways(seen) == {
        "instrumentor": True, "exporter": False, "configuration file": False, "completion hook": False
    }  # fmt: skip
    assert seen.loads == ("otelctx (otel-ctx 0.1.0)", f"openai ({GENAI} 1.3b0)")
    assert seen.problems == ()


@pytest.mark.parametrize(
    ("environ", "installed", "way", "active", "because"),
    [
        ({}, ALL[1:], "instrumentor", False, "entry point is not found"),
        ({}, (OURS, DISTRO), "instrumentor", False, "opentelemetry-instrumentation is not installed"),
        ({}, (OURS, LOADER), "instrumentor", False, "no configurator"),
        ({OUT: "flask, otelctx"}, ALL, "instrumentor", False, OUT),
        ({OUT: "*"}, ALL, "instrumentor", False, OUT),
        ({"OTELCTX_DISABLED": "1"}, ALL, "instrumentor", False, "OTELCTX_DISABLED=1"),
        ({"OTEL_SDK_DISABLED": "true"}, ALL, "exporter", False, "OTEL_SDK_DISABLED=true"),
        ({"OTEL_TRACES_EXPORTER": "console, otelctx"}, ALL, "exporter", True, "before otlp_proto_grpc"),
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, (*ALL, HTTP), "exporter", True,
         "before otlp_proto_http"),
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTELCTX_EXPORTER": "console"}, (*ALL, SDK), "exporter", True,
         "before console"),
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTELCTX_EXPORTER": "nonsense"}, ALL, "exporter", True,
         "before otlp_proto_grpc"),
        ({"OTEL_TRACES_EXPORTER": "otelctx"}, (OURS, LOADER), "exporter", False, "no span is sent"),
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTEL_CONFIG_FILE": "x"}, ALL, "exporter", False, "is not read"),
        ({"OTEL_CONFIG_FILE": "x"}, ALL, "instrumentor", False, "opentelemetry-configuration is not installed"),
        ({"OTEL_CONFIG_FILE": "/nowhere"}, (*ALL, CONFIGURATION), "instrumentor", False, "cannot be read"),
        ({"OTEL_TRACES_EXPORTER": "otelctx"}, ALL[1:], "exporter", False, "entry point is not found"),
        ({HOOK: "otelctx"}, ALL, "completion hook", True, HOOK),
        ({HOOK: "upload"}, ALL, "completion hook", False, "is upload"),
        ({HOOK: "otelctx"}, (OURS,), "completion hook", False, "opentelemetry-util-genai is not installed"),
        ({"OTEL_CONFIG_FILE": "otel.yaml"}, ALL, "configuration file", False, "opentelemetry-configuration is not installed"),
    ],
    ids=str,
)  # fmt: skip
def test_a_way_is_active_or_not_and_it_says_why(
    environ: Mapping[str, str], installed: Sequence[Fake], way: str, active: bool, because: str
) -> None:
    seen = look(environ, installed)

    assert ways(seen)[way] is active
    assert because in why(seen, way)


@pytest.mark.parametrize(
    ("text", "active"),
    [
        ("instrumentation/development:\n  python:\n    otelctx: {}\n", True),
        ("exporter: {otelctx: {}}\n", True),
        ("# otelctx: {}\n", False),
        ("endpoint: http://otelctx/\n", False),
        (None, False),
    ],
)
def test_a_configuration_file(text: str | None, active: bool, tmp_path: Path) -> None:
    file = tmp_path / "otel.yaml"
    if text is not None:
        file.write_text(text)
    seen = look({"OTEL_CONFIG_FILE": str(file)}, (*ALL, Fake("opentelemetry-configuration", "0.66b2")))

    assert ways(seen)["configuration file"] is active


# ---- instrumentations


@pytest.mark.parametrize(
    ("package", "version", "environ", "contents", "fixed"),
    [
        (GENAI, "1.3b0", {}, "nothing", True),
        (GENAI, "1.3b0", {CONTENT: "true"}, "nothing", True),
        (GENAI, "1.3b0", {CONTENT: "SPAN_ONLY"}, "spans", False),
        (GENAI, "1.3b0", {CONTENT: "event_only"}, "log records", False),
        (GENAI, "1.3b0", {CONTENT: "no_content", HOOK: "otelctx"}, "the completion hook", False),
        (GENAI, "1.3b0", {CONTENT: "span_only", HOOK: "otelctx"}, "spans", False),
        (V2, "2.3b0", {CONTENT: "true"}, "log records", False),
        (V2, "2.3b0", {CONTENT: "span_only"}, "nothing", True),
        (V2, "2.4b0", {CONTENT: "span_only"}, "spans", False),
        ("openinference-instrumentation-openai", "0.1.66", {}, "spans", False),
        ("openinference-instrumentation-openai", "0.1.66", {"OPENINFERENCE_HIDE_INPUT_TEXT": "true"}, "nothing", True),
        ("openinference-instrumentation-openai", "0.1.66",
         {"OPENINFERENCE_HIDE_INPUTS": "false", "OPENINFERENCE_HIDE_INPUT_TEXT": "true"}, "nothing", True),
        ("opentelemetry-instrumentation-openai", "0.62.4", {}, "spans", False),
        ("opentelemetry-instrumentation-openai", "0.62.4", {"TRACELOOP_TRACE_CONTENT": "false"}, "nothing", True),
        ("anthropic", "2.14.0", {}, "nothing", True),
        ("anthropic", "2.14.0", {"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content"}, "spans", False),
    ],
    ids=str,
)  # fmt: skip
def test_where_contents_go(
    package: str, version: str, environ: Mapping[str, str], contents: str, fixed: bool
) -> None:
    (found,) = look(environ, (OPENAI, instrumentation(package, version))).instrumentations

    assert (found.contents, bool(found.fix)) == (contents, fixed)
    assert not fixed or "=" in found.fix or "Unset" in found.fix


def test_a_client_that_traces_itself() -> None:
    assert look({}, (Fake("anthropic", "1.16.0"),)).instrumentations == ()
    (found,) = look({"ANTHROPIC_OPEN_TELEMETRY": "False"}, (Fake("anthropic", "2.14.0"),)).instrumentations
    assert (found.loads, found.why) == (False, "ANTHROPIC_OPEN_TELEMETRY=false")


@pytest.mark.parametrize(
    ("environ", "wants", "because"),
    [
        ({}, ("cohere",), "cohere is not installed"),
        ({}, ("openai<3",), "openai 3.57.0 is installed, it wants openai<3"),
        ({OUT: "openai"}, ("openai",), OUT),
        ({}, ("openai>=1.26",), ""),
    ],
    ids=str,
)
def test_what_is_not_loaded_says_why(environ: Mapping[str, str], wants: Sequence[str], because: str) -> None:
    seen = look(environ, (OPENAI, OURS, instrumentation(GENAI, "1.3b0", *wants)))
    (found,) = seen.instrumentations

    assert found.loads is (because == "")
    assert found.why.startswith(because)
    assert bool(found.why) == bool(because)
    assert (f"openai ({GENAI} 1.3b0)" in seen.loads) is found.loads


def test_what_cannot_be_imported_is_not_active() -> None:
    """As a package is that wants a module which its client's newer versions no longer have."""
    gone = Fake(V2, "2.3b0", "[opentelemetry_instrumentor]\nopenai = not_there.at_all:I\n", ("openai",))
    seen = look({}, (OPENAI, gone))
    (found,) = seen.instrumentations

    assert found.loads is False
    assert found.why == "it cannot be imported: ModuleNotFoundError: No module named 'not_there'"
    assert not any(V2 in name for name in seen.loads)


def test_two_of_one_client_are_a_problem() -> None:
    two = (OPENAI, instrumentation(GENAI), instrumentation(V2, "2.3b0"))

    (problem,) = look({}, two).problems
    assert problem.startswith(f"openai is instrumented 2 times: by {GENAI}, {V2}. ")
    assert look({OUT: "openai"}, two).problems == ()


def test_each_row_of_the_table_is_of_use() -> None:
    places = {"spans", "log records", "spans and log records", "nothing"}
    for row in table():
        assert row.source
        assert {row.unset, row.other, *row.values.values()} <= places
        assert all(value == value.lower() for value in row.values)


# ---- other problems


@pytest.mark.parametrize(
    ("environ", "installed", "problem"),
    [
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTELCTX_EXPORTER": "zipkin"}, ALL,
         "OTELCTX_EXPORTER names no exporter that is installed: otlp_proto_grpc is taken"),
        ({"OTEL_TRACES_EXPORTER": "otelctx"}, (OURS, LOADER), "no span is sent: the exporter otlp_proto_grpc"),
        ({"OTEL_TRACES_EXPORTER": "otelctx", "OTEL_CONFIG_FILE": __file__}, (*ALL, CONFIGURATION), "is not read"),
        ({"OTEL_CONFIG_FILE": "x"}, ALL, "nothing is traced: OTEL_CONFIG_FILE is set, and opentelemetry-configuration"),
        ({"OTEL_CONFIG_FILE": "/nowhere"}, (*ALL, CONFIGURATION), "nothing is traced: OTEL_CONFIG_FILE cannot be read"),
        ({"OTEL_TRACES_EXPORTER": "otelctx,otlp"}, ALL, "sent twice: OTEL_TRACES_EXPORTER names otlp beside otelctx"),
        ({"OTEL_TRACES_EXPORTER": "otlp_proto_http, otelctx"}, ALL, "each span is sent twice"),
        ({"OTEL_TRACES_EXPORTER": "otelctx,console", "OTELCTX_EXPORTER": "console"}, (*ALL, SDK), "sent twice"),
        ({HOOK: "otelctx"}, ALL[:-1], "no instrumentation here calls a hook"),
        ({}, (*ALL, Fake("vendor-distro", "1", "[opentelemetry_distro]\nv = v:D\n")), "several distros"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_set_in_vain(environ: Mapping[str, str], installed: Sequence[Fake], problem: str) -> None:
    problems = look(environ, installed).problems

    assert [problem in each for each in problems] == [True]


def test_an_exporter_that_sends_twice_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTELCTX_EXPORTER", "console")
    for named, times in (("otelctx", 0), ("console,otelctx", 1), ("console,otelctx", 1)):
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", named)
        ConfiguredSpanExporter().shutdown()
        assert caplog.text.count("each span is sent twice") == times


def test_exporters_that_send_elsewhere_are_no_problem() -> None:
    for environ in ({"OTEL_TRACES_EXPORTER": "otelctx,console"}, {"OTEL_TRACES_EXPORTER": "otlp,console"},
                    {"OTEL_TRACES_EXPORTER": "otelctx", "OTELCTX_EXPORTER": "otlp"}):  # fmt: skip
        assert look(environ, (*ALL, SDK)).problems == ()


# ---- variables


SECRETS = {
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic s3cret,s3cret,x-key=s3cret==",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://user:s3cret@collector:4318/v1?token=s3cret",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "user:s3cret@collector",
    "OTELCTX_APIKEY": "s3cret",
    "OPENAI_API_KEY": "s3cret",
    "OTEL_RESOURCE_ATTRIBUTES": "password=s3cret",
}


def test_no_secret_is_shown() -> None:
    seen = look(SECRETS, ALL)

    assert "s3cret" not in json.dumps(seen.data())
    assert {v.name: v.value for v in seen.variables} == {
        "OTEL_EXPORTER_OTLP_HEADERS": "***",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://***@collector:4318/v1?***",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "***",
        "OTELCTX_APIKEY": "***",
    }


def test_a_value_that_is_not_used_says_why() -> None:
    seen = look(
        {"OTELCTX_DUTY": "banana", "OTELCTX_EXPORTER": "otelctx", "OTELCTX_MODE": "sync", "OTELCTX_X": "1"},
        ALL,
    )

    wrong = {v.name: v.wrong for v in seen.variables}
    assert wrong["OTELCTX_DUTY"] == "it must be a share from 0.01 to 1"
    assert wrong["OTELCTX_EXPORTER"].startswith("it must be one exporter that is installed")
    assert wrong["OTELCTX_MODE"] == ""
    assert wrong["OTELCTX_X"] == "there is no such variable"


# ---- the command


def invoke(*arguments: str, **env: str) -> str:
    result = CliRunner().invoke(main, ["env", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1", **env})
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_in_this_environment() -> None:
    out = invoke(OTELCTX_DUTY="banana", OTEL_EXPORTER_OTLP_HEADERS="a=s3cret")

    assert out.splitlines()[0] == "Ways in"
    assert f"  {GENAI} " in out
    assert "not used: it must be a share from 0.01 to 1" in out
    assert "openai is instrumented 4 times" in " ".join(out.split())
    assert "s3cret" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_same_as_data() -> None:
    data = json.loads(invoke("--json", **{CONTENT: "event_only"}))

    assert data["schema"] == "otelctx.env/1"
    assert {way["name"] for way in data["ways"]} == set(ways(look({}, ALL)))
    (genai,) = (i for i in data["instrumentations"] if i["package"] == GENAI)
    assert (genai["contents"], genai["because"]) == ("log records", f"{CONTENT}=event_only")
