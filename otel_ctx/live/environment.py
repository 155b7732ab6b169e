"""What of us, and of the instrumentations that we read, is active in an environment, and why.

Values are shown only of variables that are known here, and never what may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from otel_ctx.live.configured import (
    DEFAULT,
    OWN_NAME,
    VARIABLE,
    entry_point_of,
    exporters,
    sent_twice,
    wrong_name,
)
from otel_ctx.live.instrumentations import (
    DISABLED,
    GROUP,
    HOOK,
    Instrumentation,
    conflicts,
    disabled,
    instrumentations,
    normal,
)
from otel_ctx.live.settings import PREFIX, LiveSettings, resolve
from otel_ctx.live.urls import HIDDEN, without_secrets

SCHEMA = "otelctx.env/1"
_HOOKS, _EXPORTERS = "opentelemetry_genai_completion_hook", "opentelemetry_traces_exporter"
_OURS = {
    GROUP: "opentelemetry-instrument adds otel_ctx to the provider",
    _EXPORTERS: "OTEL_TRACES_EXPORTER=otelctx works",
    _HOOKS: f"{HOOK}=otelctx works",
}
_CONFIGURATION = "opentelemetry-configuration"

# Variables that change what is exported or recorded of calls, and what each does.
_DOES = {
    "OTEL_SDK_DISABLED": "true: no telemetry at all",
    "OTEL_SERVICE_NAME": "the service in all figures",
    "OTEL_TRACES_EXPORTER": "where spans go; none: nowhere",
    "OTEL_METRICS_EXPORTER": "where metrics go, ours too; none: nowhere",
    "OTEL_LOGS_EXPORTER": "where log records go; their contents are analysed whatever it says",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "the receiver",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "the receiver of spans",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "the receiver of metrics",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc or http/protobuf",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "the same, for spans",
    "OTEL_EXPORTER_OTLP_HEADERS": "sent with each request",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "sent with spans",
    "OTEL_CONFIG_FILE": "sets up OpenTelemetry; the exporters' variables are then not read",
    "OTEL_PYTHON_DISTRO": "which distro opentelemetry-instrument takes",
    "OTEL_PYTHON_CONFIGURATOR": "which configurator opentelemetry-instrument takes",
    DISABLED: "instrumentors that are not loaded",
    "OTEL_TRACES_SAMPLER": "of calls that are not sampled nothing is known",
    "OTEL_TRACES_SAMPLER_ARG": "the share that is sampled",
    "OTEL_ATTRIBUTE_COUNT_LIMIT": "spans lose attributes beyond it, prompts too",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "spans lose attributes beyond it, prompts too",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "cuts prompts; cut prompts get no verdict on the cache",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "cuts prompts; cut prompts get no verdict on the cache",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "which conventions older instrumentations follow",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "contents: span_only, event_only, span_and_event, no_content",
    "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "whether calls are told in log records too",
    HOOK: "who is given the contents of each call",
    "TRACELOOP_TRACE_CONTENT": "contents on spans of OpenLLMetry",
    "OPENINFERENCE_HIDE_INPUTS": "takes prompts off spans of OpenInference",
    "OPENINFERENCE_HIDE_INPUT_MESSAGES": "takes messages off spans of OpenInference",
    "OPENINFERENCE_HIDE_INPUT_TEXT": "takes texts off spans of OpenInference",
    "ANTHROPIC_OPEN_TELEMETRY": "false: Anthropic's client does not trace itself",
    "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content: Anthropic's client records prompts",
}


@dataclass(frozen=True, slots=True)
class Way:
    """A way in. ``why`` it is active or not."""

    name: str
    active: bool
    why: str


@dataclass(frozen=True, slots=True)
class Variable:
    """``wrong``: why its value is not used."""

    name: str
    value: str
    does: str
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    ways: tuple[Way, ...]
    loads: tuple[str, ...]
    """Names of all instrumentors that opentelemetry-instrument would load, with their packages."""
    entry_points: Mapping[str, bool]
    instrumentations: tuple[Instrumentation, ...]
    variables: tuple[Variable, ...]
    problems: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


def look(environ: Mapping[str, str], distributions: Iterable[Distribution]) -> Environment:
    """``distributions``: in the order of the path; the first of a name is the one that counts."""
    installed: dict[str, Distribution] = {}
    for each in distributions:
        name = each.metadata["Name"]
        if name:
            installed.setdefault(normal(name), each)
    points = {(p.group, p.name): owner for owner, d in installed.items() for p in d.entry_points}
    found = {group: (group, OWN_NAME) in points for group in _OURS}
    known = instrumentations(installed, environ)
    return Environment(
        ways=tuple(_ways(environ, installed, points, found)),
        loads=tuple(_loads(environ, installed, known)),
        entry_points=found,
        instrumentations=known,
        variables=tuple(_variables(environ)),
        problems=tuple(_problems(environ, installed, points, found, known)),
    )


# ---- ways in

_Points = Mapping[tuple[str, str], str]


def _ways(
    environ: Mapping[str, str],
    installed: Mapping[str, Distribution],
    points: _Points,
    found: Mapping[str, bool],
) -> Iterable[Way]:
    off = _switched_off(environ)
    yield _way(
        "instrumentor",
        off or _no_instrumentor(environ, installed, found) or _no_set_up(environ, installed),
        "opentelemetry-instrument loads it",
    )
    yield _way(
        "exporter",
        off or _missing(found, _EXPORTERS) or _no_exporter(environ, points),
        f"OTEL_TRACES_EXPORTER=otelctx, before {_behind(environ, points)}",
    )
    yield _config_file(environ, installed, off)
    hook = environ.get(HOOK, "").strip()
    why = "" if hook == OWN_NAME else f"{HOOK} is {hook or 'not set'}"
    if not why and "opentelemetry-util-genai" not in installed:
        why = "opentelemetry-util-genai is not installed"
    yield _way("completion hook", off or _missing(found, _HOOKS) or why, f"{HOOK}=otelctx")


def _way(name: str, not_: str, because: str) -> Way:
    return Way(name, not not_, not_ or because)


def _switched_off(environ: Mapping[str, str]) -> str:
    if resolve({}, environ)[0].disabled:
        return f"{PREFIX}DISABLED={environ[PREFIX + 'DISABLED']}"
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED=true"
    return ""


def _missing(found: Mapping[str, bool], group: str) -> str:
    return "" if found[group] else "the entry point is not found: install otel-ctx into this environment"


def _no_instrumentor(
    environ: Mapping[str, str], installed: Mapping[str, Distribution], found: Mapping[str, bool]
) -> str:
    if not found[GROUP]:
        return _missing(found, GROUP)
    if "opentelemetry-instrumentation" not in installed:
        return "opentelemetry-instrumentation is not installed (pip install opentelemetry-distro)"
    if not any(p.group == "opentelemetry_configurator" for d in installed.values() for p in d.entry_points):
        return "nothing sets up an SDK: there is no configurator (pip install opentelemetry-distro)"
    out = disabled(environ)
    return f"{DISABLED}={environ[DISABLED]}" if out & {"*", OWN_NAME} else ""


def _no_exporter(environ: Mapping[str, str], points: _Points) -> str:
    if OWN_NAME not in exporters(environ):
        return "OTEL_TRACES_EXPORTER does not name otelctx"
    if environ.get("OTEL_CONFIG_FILE"):
        return "OTEL_TRACES_EXPORTER is not read: OTEL_CONFIG_FILE sets up OpenTelemetry"
    behind = _behind(environ, points)
    return (
        "" if (_EXPORTERS, behind) in points else f"no span is sent: the exporter {behind} is not installed"
    )


def _behind(environ: Mapping[str, str], points: _Points) -> str:
    """The exporter behind otelctx: a name that is none of those installed is not used."""
    name = environ.get(VARIABLE, "").strip()
    known = name != OWN_NAME and (_EXPORTERS, name) in points
    return entry_point_of(name if known else DEFAULT, environ)


def _no_set_up(environ: Mapping[str, str], installed: Mapping[str, Distribution]) -> str:
    """Why ``OTEL_CONFIG_FILE`` keeps the SDK from being set up: it raises, and does not go on without the file."""
    path = environ.get("OTEL_CONFIG_FILE", "")
    if not path:
        return ""
    if _CONFIGURATION not in installed:
        return f"OTEL_CONFIG_FILE is set, and {_CONFIGURATION} is not installed"
    try:
        Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        return f"OTEL_CONFIG_FILE cannot be read ({type(error).__name__})"
    return ""


def _config_file(environ: Mapping[str, str], installed: Mapping[str, Distribution], off: str) -> Way:
    path, name = environ.get("OTEL_CONFIG_FILE", "").strip(), "configuration file"
    if off or not path:
        return Way(name, False, off or "OTEL_CONFIG_FILE is not set")
    if why := _no_set_up(environ, installed):
        return Way(name, False, why)
    if not re.search(r"^[^#\n]*\botelctx\b\s*:", Path(path).read_text("utf-8"), re.MULTILINE):
        return Way(name, False, "OTEL_CONFIG_FILE does not name otelctx")
    return Way(name, True, "OTEL_CONFIG_FILE names otelctx")


def _loads(
    environ: Mapping[str, str], installed: Mapping[str, Distribution], known: Iterable[Instrumentation]
) -> Iterable[str]:
    out = disabled(environ)
    not_ = {each.package for each in known if not each.loads}
    for package, distribution in installed.items():
        for point in distribution.entry_points:
            if point.group == GROUP and package not in not_ and not out & {"*", point.name}:
                yield f"{point.name} ({package} {distribution.version})"


# ---- variables


def _variables(environ: Mapping[str, str]) -> Iterable[Variable]:
    settings = {PREFIX + f.name.upper(): f.metadata["allowed"] for f in fields(LiveSettings)}
    wrong = {line.partition("=")[0]: line.partition(" is not used: ")[2] for line in resolve({}, environ)[1]}
    for name in sorted(environ):
        value = environ[name]
        if not value.strip():
            continue
        if name in settings:
            yield Variable(name, value, settings[name], wrong.get(name, ""))
        elif name == VARIABLE:
            yield Variable(name, value, "the exporter behind otelctx", wrong_name(value.strip()) or "")
        elif name in _DOES:
            yield Variable(name, _shown(name, value), _DOES[name])
        elif name.startswith(PREFIX) and name != PREFIX + "DEBUG":
            yield Variable(name, HIDDEN, "", "there is no such variable")


def _shown(name: str, value: str) -> str:
    if name.endswith("HEADERS"):
        return HIDDEN  # a value may hold what looks like another pair's name
    return without_secrets(value) if name.endswith("ENDPOINT") else value


# ---- problems


def _problems(
    environ: Mapping[str, str],
    installed: Mapping[str, Distribution],
    points: _Points,
    found: Mapping[str, bool],
    known: tuple[Instrumentation, ...],
) -> Iterable[str]:
    for client, packages, fix in conflicts(known):
        yield f"{client} is instrumented {len(packages)} times: by {', '.join(packages)}. {fix}"
    for kind in ("distro", "configurator"):
        names = [
            p.name for d in installed.values() for p in d.entry_points if p.group == f"opentelemetry_{kind}"
        ]
        if len(names) > 1 and not environ.get(f"OTEL_PYTHON_{kind.upper()}"):
            chooses = f"OTEL_PYTHON_{kind.upper()}"
            yield f"several {kind}s are installed ({', '.join(names)}), one is taken by chance: {chooses} names it"
    if why := _no_set_up(environ, installed):
        yield f"nothing is traced: {why}"
    if OWN_NAME in exporters(environ) and found[_EXPORTERS]:
        behind, name = _behind(environ, points), environ.get(VARIABLE, "").strip()
        if name and entry_point_of(name, environ) != behind:
            yield f"{VARIABLE} names no exporter that is installed: {behind} is taken in its place"
        if why := _no_exporter(environ, points) or sent_twice(behind, environ):
            yield why
    if environ.get(HOOK, "").strip() == OWN_NAME and not any(each.hook and each.loads for each in known):
        yield f"{HOOK} is set, and no instrumentation here calls a hook"
