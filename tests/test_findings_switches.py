"""The table of switches: it holds together, and it names the right one."""

from __future__ import annotations

from typing import get_args

import pytest

from otel_ctx.findings.switches import Lost, fix_for, fix_for_double, table


def test_every_row_is_whole() -> None:
    for row in table():
        assert row.lost in get_args(Lost)
        assert row.scopes
        assert all(row.scopes)
        assert row.fix.endswith(".")
        assert row.source.split(":")[0] in ("capture", "package", "documentation", "specification")


@pytest.mark.parametrize("lost", get_args(Lost))
def test_every_loss_has_a_fix_for_a_library_that_nobody_knows(lost: Lost) -> None:
    assert fix_for(lost, "com.example.unknown", "")
    assert fix_for(lost, "", "")


@pytest.mark.parametrize(
    ("lost", "scope", "version", "words"),
    [
        (
            "content",
            "opentelemetry.instrumentation.genai.openai",
            "1.3b0",
            "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
        ),
        ("content", "opentelemetry.util.genai.handler", "1.3b0", "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("content", "opentelemetry.util.genai.handler", "0.4b0", "gen_ai_latest_experimental"),
        ("content", "opentelemetry.instrumentation.google_genai", "0.7b2", "gen_ai_latest_experimental"),
        ("content", "opentelemetry.instrumentation.openai_v2", "", "CAPTURE_MESSAGE_CONTENT=true"),
        ("content", "opentelemetry.instrumentation.openai.v1", "0.62.4", "TRACELOOP_TRACE_CONTENT=true"),
        ("content", "com.anthropic.sdk.python", "2.14.0", "TRACES_CONTENT_MODE=content"),
        ("content", "openinference.instrumentation.openai", "0.1.66", "OPENINFERENCE_HIDE_INPUTS"),
        ("content", "agent_framework", "1.23.0", "ENABLE_SENSITIVE_DATA=true"),
        ("masked", "openinference.instrumentation.openai", "0.1.66", "OPENINFERENCE_HIDE_"),
        ("tools", "com.anthropic.sdk.typescript", "1.14.0", "never hold tool definitions"),
        ("tools", "opentelemetry.util.genai.handler", "0.4b0", "opentelemetry-instrumentation-genai-openai"),
        ("cut", "anything", "1", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
        ("cut", "com.anthropic.sdk.python", "2.14.0", "MAX_CONTENT_BYTES"),
        (
            "attributes",
            "openinference.instrumentation.langchain",
            "0.1.80",
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        ),
        ("attributes", "opentelemetry.instrumentation.openai.v1", "0.53.4", "upgrade OpenLLMetry"),
        ("usage", "opentelemetry.instrumentation.genai.openai", "1.3b0", "include_usage"),
        ("logs", "opentelemetry.instrumentation.botocore.bedrock-runtime", "0.66b2", "export the logs"),
    ],
)
def test_the_switch_of_that_library_and_version(lost: Lost, scope: str, version: str, words: str) -> None:
    assert words in fix_for(lost, scope, version)


def test_an_old_value_is_not_recommended_where_it_is_refused() -> None:
    assert "CONTENT=true" not in fix_for("content", "opentelemetry.instrumentation.genai.openai", "1.3b0")


def test_the_instrumentation_that_comes_by_itself_is_the_one_to_switch_off() -> None:
    assert "ANTHROPIC_OPEN_TELEMETRY=false" in fix_for_double(("com.anthropic.sdk.python", "pydantic-ai"))
    assert "DISABLED_INSTRUMENTATIONS=langchain" in fix_for_double(
        ("openinference.instrumentation.openai", "opentelemetry.instrumentation.openai.v1")
    )
