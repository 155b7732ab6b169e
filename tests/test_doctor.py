"""``otelctx doctor``: what each library gives, what it withholds, and the switch that mends it in that version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from otel_ctx import analyze
from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import Store, read
from otel_ctx.model import Analysis, Library
from otel_ctx_cli.main import main

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(p.parent for p in CORPUS.glob("*/traces.jsonl.gz"))


# ---- the facts, by what real libraries wrote with known switches (``meta.json`` of the corpus)


class Fact(NamedTuple):
    """In the dumps of these cases this library withholds this; ``words`` stand in the sentence that mends it."""

    cases: str  # patterns
    scope: str
    version: str
    lost: str
    words: str


OI, OI_JS = "openinference.instrumentation.", "@arizeai/openinference-instrumentation-"
OTEL, OTEL_JS = "opentelemetry.instrumentation.", "@opentelemetry/instrumentation-openai"
V2 = f"{OTEL}openai_v2"
HANDLER = "opentelemetry.util.genai.handler"  # openai-v2 with gen_ai_latest_experimental
OLL, TL_JS = f"{OTEL}openai.v1", "@traceloop/instrumentation-"
SDK, SDK_JS = "com.anthropic.sdk.python", "com.anthropic.sdk.typescript"
AZURE, SIGIL = "azure.core.tracing.ext.opentelemetry_span", "github.com/grafana/sigil/sdks/python"
CLAUDE_CODE = "com.anthropic.claude_code.tracing"
STRANDS, WEAVE, ADK = "strands.telemetry.tracer", "weave.openai_agents", "gcp.vertex.agent"
COUNT, LENGTH = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"
OPT_IN = "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"

FACTS = (
    # contents
    Fact("otel-genai-openai-chat-true", f"{OTEL}genai.openai", "1.3b0", "content", OPT_IN),
    Fact("otel-genai-anthropic-off", f"{OTEL}genai.anthropic", "1.3b0", "content", OPT_IN),
    Fact("otel-google-genai-off", f"{OTEL}google_genai", "1.3b0", "content", OPT_IN),
    Fact("otel-openai-v2-chat-legacy-off", V2, "", "content", "CAPTURE_MESSAGE_CONTENT=true"),
    Fact("otel-openai-js-chat-nocontent", OTEL_JS, "0.21.0", "content", "CAPTURE_MESSAGE_CONTENT=true"),
    Fact(
        "anthropic-pysdk-native-default anthropic-sdk-default native-anthropic-sdk",
        SDK, "2.14.0", "content", "TRACES_CONTENT_MODE=content",
    ),
    Fact("anthropic-sdk-native", SDK_JS, "1.14.0", "content", "TRACES_CONTENT_MODE=content"),
    Fact("oll-openai-chat-off traceloop-sdk-chat-nocontent", OLL, "0.62.4", "content", "TRACELOOP_TRACE_CONTENT=true"),
    Fact("oll-openai-chat-media", OLL, "0.62.4", "content", "upload_base64_image=None"),
    Fact("oll053-openai-chat-off", OLL, "0.53.4", "content", "TRACELOOP_TRACE_CONTENT=true"),
    Fact("traceloop-openai-js-chat-nocontent", f"{TL_JS}openai", "0.27.0", "content", "traceContent: true"),
    Fact("pydantic-ai-chat-v5-nocontent", "pydantic-ai", "2.68.0", "content", "include_content=True"),
    Fact("oi-pydantic-ai-nocontent", "pydantic-ai", "2.31.1", "content", "include_content=True"),
    Fact("vercel-ai5-chat-nocontent", "ai", "", "content", "recordInputs"),
    Fact("vercel-ai7-chat-nocontent", "gen_ai", "", "content", "recordInputs"),
    Fact("agent-framework-chat-nocontent", "agent_framework", "1.23.0", "content", "ENABLE_SENSITIVE_DATA=true"),
    Fact("google-adk-gemini-default-* google-adk-litellm-default", ADK, "2.13.0", "content", OPT_IN),
    Fact("google-adk-gemini-nocontent", ADK, "2.13.0", "content", "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"),
    Fact("litellm-chat-nocontent", "litellm", "", "content", "CAPTURE_MESSAGE_CONTENT=NO_CONTENT"),
    Fact("agento11y-*-spans-full agento11y-*-metadata_only", SIGIL, "", "content", "AGENTO11Y_CONTENT_CAPTURE_MODE=full"),
    Fact("claude-code-nocontent", CLAUDE_CODE, "1.0.0", "content", "OTEL_LOG_RAW_API_BODIES=file:"),
    Fact(
        "claude-code-1h claude-code-compact claude-code-content-* claude-code-streamjson",
        CLAUDE_CODE, "1.0.0", "part", "transcript",
    ),
    Fact("claude-code-1h claude-code-content-* claude-code-streamjson", CLAUDE_CODE, "1.0.0", "tools", "transcript"),
    Fact("codex-*", "codex_exec", "", "content", "rollout"),
    Fact("gemini-cli-nocontent", "gemini-cli", "v1", "content", "telemetry.logPrompts"),
    Fact("mastra-*", "@mastra/otel-exporter", "1.4.0", "part", "the client that calls the model"),
    Fact("mastra-*", "@mastra/otel-exporter", "1.4.0", "tools", "names of tools only"),
    # some of them
    Fact("oll033-openai-chat-object", OLL, "0.33.12", "part", "plain dicts"),
    Fact("oll053-openai-chat-media oll053-openai-responses*", OLL, "0.53.4", "part", "Upgrade OpenLLMetry"),
    Fact("oll053-gemini", f"{OTEL}google_generativeai", "0.21.5", "part", "Upgrade OpenLLMetry"),
    Fact("oll053-gemini", f"{OTEL}google_generativeai", "0.21.5", "unreadable", "Upgrade OpenLLMetry"),
    Fact(
        "traceloop-openai-js-responses traceloop-sdk-js-responses traceloop-openai-js-responses-prev",
        f"{TL_JS}openai", "0.27.0", "part", "@arizeai/",
    ),
    Fact("weave-*", WEAVE, "", "part", "the client that calls the model"),
    Fact("azure-ai-projects-responses", AZURE, "1.0.0b13", "part", "the client that calls the model"),
    Fact("agento11y-responses-otel-full", SIGIL, "", "part", "the client that calls the model"),
    Fact("otel-openai-js-responses-prev", OTEL_JS, "0.21.0", "part", "nearer to the client"),
    Fact("oi-claude-agent-sdk", f"{OI}claude_agent_sdk", "0.1.22", "sum", "each call has a span"),
    # masks
    Fact("oi-openai-chat-hideinputs", f"{OI}openai", "0.1.66", "masked", "OPENINFERENCE_HIDE_INPUTS "),
    Fact("oi-openai-chat-hidemessages", f"{OI}openai", "0.1.66", "masked", "OPENINFERENCE_HIDE_INPUT_MESSAGES"),
    Fact("oi-openai-js-chat-nocontent", f"{OI_JS}openai", "4.2.7", "masked", "hideInputs"),
    Fact("strands-openai-redacted", STRANDS, "", "masked", "gen_ai_unredacted_attributes"),
    Fact("oi-openai-chat-hideimages oi-openai-chat-image-big", f"{OI}openai", "0.1.66", "media", "HIDE_INPUT_IMAGES"),
    Fact("pydantic-ai-chat-v5-image-nobinary", "pydantic-ai", "2.68.0", "media", "include_binary_content=True"),
    Fact("anthropic-pysdk-native-content-media anthropic-sdk-content-image", SDK, "2.14.0", "media", "never hold images"),
    Fact("anthropic-sdk-native-content-image", SDK_JS, "1.14.0", "media", "never hold images"),
    Fact("oll-bedrock-converse-media", f"{OTEL}bedrock", "0.62.4", "media", "no known switch"),
    Fact("oll-gemini-media", f"{OTEL}google_generativeai", "0.21.5", "media", "no known switch"),
    # tool definitions
    Fact(
        "anthropic-pysdk-native-content* anthropic-sdk-content* native-anthropic-sdk-*content",
        SDK, "2.14.0", "tools", "genai-anthropic",
    ),
    Fact("anthropic-sdk-native-content-*", SDK_JS, "1.14.0", "tools", "@arizeai/"),
    Fact("otel-openai-v2-chat-legacy-events*", V2, "", "tools", "opentelemetry-instrumentation-genai-openai"),
    Fact(
        "otel-openai-v2-chat-*only* otel-openai-v2-chat-spanandevent otel-openai-v2-chat-upload",
        HANDLER, "0.4b0", "tools", "genai-openai",
    ),
    Fact("otel-botocore-bedrock-converse*", f"{OTEL}botocore.bedrock-runtime", "0.66b2", "tools", "genai-bedrock"),
    Fact("otel-google-genai-07b2-legacy-events", f"{OTEL}google_genai", "0.7b2", "tools", "before 1.0"),
    Fact("otel-openai-js-chat otel-openai-js-chat-[bi]* otel-openai-js-responses*", OTEL_JS, "0.21.0", "tools", "@arizeai/"),
    Fact("oll-openai-chat-events", OLL, "0.62.4", "tools", "use_attributes"),
    Fact("oll-bedrock-converse-media", f"{OTEL}bedrock", "0.62.4", "tools", "InvokeModel"),
    Fact("traceloop-anthropic-js* traceloop-sdk-js-anthropic", f"{TL_JS}anthropic", "0.27.0", "tools", "@arizeai/"),
    Fact("traceloop-langchain-js-*", f"{TL_JS}langchain", "0.27.0", "tools", "@arizeai/"),
    Fact("traceloop-openai-js-responses* traceloop-sdk-js-responses", f"{TL_JS}openai", "0.27.0", "tools", "@arizeai/"),
    Fact("logfire-openai-agents-chat", "logfire.openai_agents", "5.4.0", "tools", "Responses model"),
    Fact("agent-framework-chat-v136", "agent_framework", "1.23.0", "tools", "OTEL_SEMCONV_STABILITY_OPT_IN unset"),
    Fact("strands-*-default strands-*-default-bust strands-*-default-cache", STRANDS, "", "tools", "gen_ai_tool_definitions"),
    Fact("weave-*", WEAVE, "", "tools", "never records tool definitions"),
    Fact("azure-ai-projects-responses", AZURE, "1.0.0b13", "tools", "never records tool definitions"),
    # limits
    Fact("oi-anthropic-12turns-limit128", f"{OI}anthropic", "3.1.0", "attributes", COUNT),
    Fact("oi-langgraph-16turns-limit128", f"{OI}langchain", "0.1.80", "attributes", COUNT),
    Fact("oi-openai-chat-16turns-limit128 oi-openai-chat-long-*limit128", f"{OI}openai", "0.1.66", "attributes", COUNT),
    Fact("oi-anthropic-js-limit128", f"{OI_JS}anthropic", "0.2.8", "attributes", COUNT),
    Fact("oi-openai-js-chat-limit128", f"{OI_JS}openai", "4.2.7", "attributes", COUNT),
    Fact("oll033-openai-chat-long-limit128", OLL, "0.33.12", "attributes", "upgrade OpenLLMetry"),
    Fact("oll053-openai-chat-long-limit128", OLL, "0.53.4", "attributes", "upgrade OpenLLMetry"),
    Fact("oi-openai-chat-valuelen", f"{OI}openai", "0.1.66", "cut", LENGTH),
    Fact("otel-genai-openai-chat-spanonly-valuelimit", f"{OTEL}genai.openai", "1.3b0", "cut", LENGTH),
    Fact("pydantic-ai-chat-v5-valuelen4096", "pydantic-ai", "2.68.0", "cut", LENGTH),
    Fact("vercel-ai5-chat-attrlen2048", "ai", "", "cut", LENGTH),
    Fact("anthropic-pysdk-native-content-limit anthropic-sdk-contentcap", SDK, "2.14.0", "cut", "TRACES_MAX_CONTENT_BYTES"),
    Fact("claude-code-rawbodies", CLAUDE_CODE, "1.0.0", "cut", "OTEL_LOG_RAW_API_BODIES=file:"),
    # token counts
    Fact("otel-genai-openai-chat-spanonly-stream-nousage", f"{OTEL}genai.openai", "1.3b0", "usage", "include_usage"),
    Fact("oll-openai-chat-stream-nousage", OLL, "0.62.4", "usage", "include_usage"),
    Fact("oll033-openai-chat-stream", OLL, "0.33.12", "usage", "Upgrade OpenLLMetry"),
    Fact("oll053-anthropic-stream", f"{OTEL}anthropic", "0.53.4", "usage", "Upgrade OpenLLMetry"),
    Fact("oll053-bedrock-converse", f"{OTEL}bedrock", "0.53.4", "usage", "Upgrade OpenLLMetry"),
    Fact("oll053-bedrock-converse", f"{OTEL}bedrock", "0.53.4", "tools", "Upgrade OpenLLMetry"),
    Fact("oi-openai-js-chat-stream", f"{OI_JS}openai", "4.2.7", "usage", "drops the usage of streamed calls"),
    Fact("traceloop-openai-js-*-stream", f"{TL_JS}openai", "0.27.0", "usage", "drops the usage of streamed calls"),
    Fact("otel-openai-v2-chat-legacy-*", V2, "", "cached", "opentelemetry-instrumentation-genai-openai"),
    Fact(
        "otel-openai-v2-chat-*only* otel-openai-v2-chat-spanandevent otel-openai-v2-chat-upload",
        HANDLER, "0.4b0", "cached", "genai-openai",
    ),
    Fact("otel-openai-js-*", OTEL_JS, "0.21.0", "cached", "@arizeai/"),
    Fact("otel-google-genai-07b2-*", f"{OTEL}google_genai", "0.7b2", "cached", "Upgrade"),
    Fact(
        "traceloop-openai-js-chat traceloop-openai-js-chat-nocontent traceloop-openai-js-responses "
        "traceloop-openai-js-responses-prev traceloop-sdk-js-chat traceloop-sdk-js-responses",
        f"{TL_JS}openai", "0.27.0", "cached", "@arizeai/",
    ),
    Fact("azure-ai-projects-responses", AZURE, "1.0.0b13", "cached", "cache_read"),
    Fact("vercel-ai5-chat vercel-ai5-chat-[bai]* oi-vercel-ai5-chat traceloop-sdk-js-vercel", "ai", "", "cached", "AI SDK 6"),
    Fact("oi-google-genai* oi-google-adk-double", f"{OI}google_genai", "1.4.14", "cached", "instrumentation-google-genai"),
    Fact("oll053-gemini", f"{OTEL}google_generativeai", "0.21.5", "cached", "OpenLLMetry"),
    Fact("google-adk-gemini-schema1", ADK, "2.13.0", "cached", "cache_read"),
    Fact("agentops-openai", "openai", "3.57.0", "cached", "cache_read"),
    Fact("langwatch-openai", "langwatch", "1.4.0", "cached", "cache_read"),
    Fact("traceai-openai", "traceai_openai", "0.1.0", "cached", "cache_read"),
    # of agents and of services beside them
    Fact("ag2-telemetry", f"{OTEL}ag2", "", "part", "the client that calls the model"),
    Fact("ag2-telemetry", f"{OTEL}ag2", "", "tools", "never records tool definitions"),
    Fact("monocle-*", "monocle_apptrace", "", "tools", "never records tool definitions"),
    Fact("monocle-anthropic", "monocle_apptrace", "", "part", "leaves Anthropic's system prompt out"),
    Fact("oi-smolagents", f"{OI}smolagents", "0.1.43", "cached", "cache_read"),
    # nothing to be mended
    Fact("otel-genai-openai-responses-spanonly-stateful", f"{OTEL}genai.openai", "1.3b0", "server", "Nothing needs"),
    Fact("oll-openai-responses-stateful", OLL, "0.62.4", "server", "Nothing needs"),
    Fact("oll053-openai-responses*", OLL, "0.53.4", "server", "Nothing needs"),
    Fact("otel-openai-js-responses-prev", OTEL_JS, "0.21.0", "server", "Nothing needs"),
    Fact("traceloop-openai-js-responses-prev", f"{TL_JS}openai", "0.27.0", "server", "Nothing needs"),
    Fact("azure-ai-projects-responses", AZURE, "1.0.0b13", "server", "Nothing needs"),
)  # fmt: skip


def facts_of(case: str) -> dict[tuple[str, str, str], str]:
    """(scope, version, what it withholds) -> words of the switch."""
    return {
        (f.scope, f.version, f.lost): f.words
        for f in FACTS
        if any(fnmatchcase(case, pattern) for pattern in f.cases.split())
    }


def analysed(folder: Path) -> Analysis:
    dumps = (folder / "traces.jsonl.gz", folder / "logs.jsonl.gz")
    engine = Engine(Settings(contents=Store([folder]).fetch))
    for batch in read(p for p in dumps if p.exists()):
        engine.feed(batch.spans, batch.logs)
    return engine.close()


def withheld(analysis: Analysis) -> Iterator[tuple[tuple[str, str, str], str]]:
    for library in analysis.libraries:
        for w in library.withholds:
            if w.lost != "double":
                yield (library.scope, library.version, w.lost), w.fix


@pytest.mark.parametrize("folder", CASES, ids=lambda p: p.name)
def test_what_was_lost_and_the_switch_that_mends_it(folder: Path) -> None:
    found, want = list(withheld(analysed(folder))), facts_of(folder.name)

    assert {key for key, _ in found} == set(want)
    for key, fix in found:
        assert want[key] in fix


def test_a_fact_has_its_case_here_or_there() -> None:
    """Patterns that nothing here fits are of captures that are kept elsewhere: but many are here."""
    here = [f for f in FACTS if any(fnmatchcase(p.name, c) for p in CASES for c in f.cases.split())]

    assert len(here) > len(FACTS) / 4


# ---- what they give


def library(case: str, scope: str) -> Library:
    (one,) = (x for x in analysed(CORPUS / case).libraries if x.scope == scope)
    return one


def test_what_a_library_gives() -> None:
    one = library("otel-genai-openai-chat-spanonly", f"{OTEL}genai.openai")

    assert (one.version, one.dialects, one.calls, one.again) == ("1.3b0", ("genai",), 8, 0)
    assert dict(one.gives) == dict.fromkeys(
        [
            "messages", "system prompt", "tool definitions", "answers", "input tokens", "output tokens", "cached tokens",
            "response ids",
        ],
        8,
    )  # fmt: skip


def test_what_lies_in_log_records_is_given_too() -> None:
    one = library("otel-genai-bedrock-converse-eventonly", f"{OTEL}genai.bedrock")

    assert {"messages", "tool definitions"} <= dict(one.gives).keys()
    assert one.withholds == ()


def test_a_second_word_on_the_same_calls_is_told_of_both() -> None:
    case = "both-otel-genai-anthropic+sdk-native-content"
    main_, second = library(case, f"{OTEL}genai.anthropic"), library(case, SDK)

    assert (main_.calls, main_.again, second.calls, second.again) == (8, 0, 0, 8)
    for one in (main_, second):
        (double,) = one.withholds
        assert (double.lost, double.calls) == ("double", 8)
        assert "ANTHROPIC_OPEN_TELEMETRY=false" in double.fix


# ---- the command


def doctor(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["doctor", *map(str, args)], env={"COLUMNS": "80"}, prog_name="otelctx")


def dump(case: str) -> Path:
    return CORPUS / case / "traces.jsonl.gz"


def test_the_report() -> None:
    result = doctor(dump("oi-openai-chat-hidemessages"))

    assert result.exit_code == 0
    assert "openinference.instrumentation.openai 0.1.66                              8 calls" in result.stdout
    assert "  gives      tool definitions · input tokens · output tokens · cached tokens" in result.stdout
    assert "  withholds  Message contents are masked (8 calls)" in result.stdout
    assert "Unset OPENINFERENCE_HIDE_INPUT_MESSAGES" in result.stdout
    assert result.stdout.endswith("1 library of 1 withholds something.\n")
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_conversations_that_may_be_one_are_told_so() -> None:
    """One session of eight calls, without text and without an id."""
    words = "8 calls could not be joined to any: without text or a conversation id"
    told = " ".join(doctor(dump("anthropic-sdk-default")).stdout.split())
    listed = CliRunner().invoke(main, ["conversations", str(dump("anthropic-sdk-default"))]).stdout

    assert words in told
    assert words in " ".join(listed.split())
    assert "joined" not in doctor(dump("otel-genai-openai-chat-spanonly")).stdout


def test_nothing_withheld_is_said() -> None:
    assert doctor(dump("otel-genai-openai-chat-spanonly")).stdout.endswith("Nothing is withheld.\n")


def test_as_data(tmp_path: Path) -> None:
    to_stdout = doctor(dump("anthropic-sdk-default"), "--json", "-")
    to_file = doctor(dump("anthropic-sdk-default"), "--json", tmp_path / "doctor.json")

    data: dict[str, Any] = json.loads(to_stdout.stdout)
    assert data == json.loads((tmp_path / "doctor.json").read_text("utf-8"))
    assert "withholds" in to_file.stdout
    assert data["schema"] == "otelctx.doctor/1"
    (one,) = data["libraries"]
    assert one["scope"] == SDK
    assert one["gives"]["input tokens"] == 8
    (lost,) = one["withholds"]
    assert (lost["lost"], lost["calls"]) == ("content", 8)
    assert data["input"]["files"][0]["spans"] == 8


def test_a_library_that_nobody_knows_is_named(tmp_path: Path) -> None:
    span = {
        "traceId": "1" * 32, "spanId": "2" * 16, "name": "ask", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [{"key": "llm.token_count.of_mine", "value": {"intValue": "9"}}],
    }  # fmt: skip
    scoped = {"scope": {"name": "home.made", "version": "1"}, "spans": [span]}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scoped]}]}), "utf-8")

    result = doctor(path)

    assert result.exit_code == 0
    assert "home.made" in result.stdout
    assert "not known here" in result.stdout
    assert "No model call" in result.stdout


@pytest.mark.parametrize(
    ("operation", "known"), [("execute_tool", True), ("tool_call", True), ("chat_of_mine", False)]
)
def test_a_tools_run_is_no_call_of_an_unknown_library(tmp_path: Path, operation: str, known: bool) -> None:
    told: dict[str, object] = {"gen_ai.operation.name": operation, "gen_ai.prompt": '{"order": 7}'}
    path = written(tmp_path / "dump.json", told, "home.made", "opentelemetry")

    assert analyze([path]).analysis.foreign == (() if known else (("home.made", 1),))


@pytest.mark.parametrize(("model", "gives"), [("gpt-5.1", True), ("nobodys-model", False)])
def test_what_is_given_is_what_the_calls_say(tmp_path: Path, model: str, gives: bool) -> None:
    """Whether an input under guessed names is with the cached tokens, only the provider's own API may tell."""
    values: dict[str, str | int] = {
        "llm.model": model, "llm.prompt_tokens": 9000, "llm.cached_tokens": 800, "llm.output_tokens": 7,
    }  # fmt: skip
    span = {
        "traceId": "1" * 32, "spanId": "2" * 16, "name": "ask", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [
            {"key": key, "value": {"intValue": value} if isinstance(value, int) else {"stringValue": value}}
            for key, value in values.items()
        ],
    }  # fmt: skip
    scoped = {"scope": {"name": "home.made", "version": "1"}, "spans": [span]}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scoped]}]}), "utf-8")
    found = analyze([path]).analysis
    (call,) = (r.call for r in found.readings)
    (library,) = found.libraries

    assert (call.usage.input is not None) == gives
    assert ("input tokens" in dict(library.gives)) == gives


@pytest.mark.parametrize(
    ("selector", "calls", "scopes"),
    [
        ("--service support-agent-js", 8, 1),
        ("--service larkspur-support", 24, 1),
        ("--conversation 1", 8, 1),
        ("--conversation 2 --turn 3-4", 2, 1),
        ("--trace 21fd34bb", 2, 1),
        ("--model claude*", 8, 1),
        ("--since 2026-01-01", 32, 2),
    ],
)
def test_it_is_asked_like_every_command(selector: str, calls: int, scopes: int) -> None:
    demo = CORPUS.parent.parent / "examples" / "support-agent.otlp.jsonl.gz"
    result = CliRunner().invoke(main, ["doctor", str(demo), *selector.split(), "--json", "-"])
    found = json.loads(result.stdout)["libraries"]

    assert (len(found), sum(library["calls"] for library in found)) == (scopes, calls)
    for library in found:
        assert all(n <= library["calls"] for n in library["gives"].values())
        assert all(w["calls"] <= library["calls"] for w in library["withholds"])


def test_an_agent_that_is_not_there_is_exit_code_2() -> None:
    run = CliRunner().invoke(
        main, ["doctor", str(CORPUS / "oi-anthropic" / "traces.jsonl.gz"), "--agent", "nobody"]
    )

    assert run.exit_code == 2
    assert "nobody" in run.stderr


def test_of_one_call_with_two_tellers_both_are_named() -> None:
    path = CORPUS / "both-otel-genai-anthropic+sdk-native-content" / "traces.jsonl.gz"
    run = CliRunner().invoke(main, ["doctor", str(path), "--turn", "2", "--json", "-"])
    found = json.loads(run.stdout)["libraries"]

    assert [(library["calls"], library["told_again"]) for library in found] in (
        [(1, 0), (0, 1)],
        [(0, 1), (1, 0)],
    )
    assert all(any(w["lost"] == "double" for w in library["withholds"]) for library in found)


def written(path: Path, attributes: dict[str, object], scope: str, sdk: str) -> Path:
    """A dump of one span, with texts and numbers for attributes."""
    values = [
        {"key": k, "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v}}
        for k, v in attributes.items()
    ]
    span = {
        "traceId": "1" * 32, "spanId": "2" * 16, "name": "ask", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": values,
    }  # fmt: skip
    resource = [
        {"key": f"telemetry.sdk.{key}", "value": {"stringValue": value}}
        for key, value in (("name", sdk), ("version", "4.16.0"))
    ]
    scoped = {"scope": {"name": scope} if scope else {}, "spans": [span]}
    path.write_text(
        json.dumps({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scoped]}]}),
        "utf-8",
    )
    return path


def test_a_library_that_names_agents_only(tmp_path: Path) -> None:
    named = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.system": "autogen",
    }
    path = written(tmp_path / "dump.json", named, "autogen-core", "opentelemetry")

    data = json.loads(doctor(path, "--json", "-").stdout)
    text = " ".join(doctor(path).stdout.split())

    (one,) = data["libraries"]
    (lost,) = one["withholds"]
    assert (lost["lost"], lost["calls"]) == ("sum", None)
    assert "openinference-instrumentation-autogen-agentchat" in lost["fix"]
    assert "Single calls are not recorded fix" in text
    assert "No model call" in text


def test_datadogs_tracer_has_no_scopes(tmp_path: Path) -> None:
    figures = {
        "gen_ai.operation.name": "llm",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 9,
    }
    data = json.loads(doctor(written(tmp_path / "dump.json", figures, "", "datadog"), "--json", "-").stdout)

    (one,) = data["libraries"]
    (lost,) = [w for w in one["withholds"] if w["lost"] == "content"]
    assert (one["scope"], one["version"]) == ("datadog", "4.16.0")
    assert "_llmobs" in lost["fix"]


def test_no_prompt_text_in_either() -> None:
    texts = [
        analysis.text(s.digest)
        for analysis in [analysed(CORPUS / "oi-anthropic")]
        for s in analysis.readings[0].call.prompt
    ]
    out = doctor(dump("oi-anthropic")).stdout + doctor(dump("oi-anthropic"), "--json", "-").stdout

    assert all(t and len(t) > 20 for t in texts)
    assert not any(t[:20] in out for t in texts if t)


def test_unusable_input_is_exit_code_2(tmp_path: Path) -> None:
    assert doctor(tmp_path / "absent").exit_code == 2
    assert doctor().exit_code == 2
