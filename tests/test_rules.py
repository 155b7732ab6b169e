"""The rule tables: their values, and the names that spans write for models and providers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from otel_ctx.cache.mechanism import mechanism_of
from otel_ctx.dialects.parameters import of_request
from otel_ctx.errors import RulesError
from otel_ctx.rules import Rules, check, load, normalise_model_id
from otel_ctx.rules.names import fit

RULES = load()

NORMALISED = {
    "claude-sonnet-4-5-20250929": "claude-sonnet-4-5",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929-v1%3A0": "claude-sonnet-4-5",
    "anthropic.claude-opus-4-6-v1": "claude-opus-4-6",
    "global.anthropic.claude-opus-4-5-20251101-v1:0": "claude-opus-4-5",
    "anthropic.claude-3-5-sonnet-20240620-v1:0:200k": "claude-3-5-sonnet",
    "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0": "claude-haiku-4-5",
    "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0": "nova-pro",
    "claude-opus-4@20250514": "claude-opus-4",
    "vertex_ai/claude-sonnet-4-5@20250929": "claude-sonnet-4-5",
    "claude-3.5-sonnet": "claude-3-5-sonnet",
    "Claude-Opus-4.7": "claude-opus-4-7",
    "claude-3-5-haiku-latest": "claude-3-5-haiku",
    "claude-opus-4-6[1m]": "claude-opus-4-6",
    "databricks-claude-sonnet-4": "claude-sonnet-4",
    "openai/gpt-4o-2024-08-06": "gpt-4o",
    "gpt-5.6-luna": "gpt-5.6-luna",
    "ft:gpt-4o-mini-2024-07-18:acme::abc123": "gpt-4o-mini",
    "openai:gpt-5.2": "gpt-5.2",
    "chatgpt-4o-latest": "chatgpt-4o",
    '"gpt-4o"': "gpt-4o",
    "models/gemini-2.5-flash": "gemini-2.5-flash",
    "google-gla:gemini-2.5-pro": "gemini-2.5-pro",
    "projects/p/locations/l/publishers/google/models/gemini-3.5-flash": "gemini-3.5-flash",
    "gemini-flash-latest": "gemini-flash",
    "openrouter/deepseek/deepseek-chat:free": "deepseek-chat",
    "deepseek-v4-pro": "deepseek-v4-pro",
    "deepseek-v3": "deepseek-v3",
    "openai.gpt-oss-120b-1:0": "gpt-oss-120b",
    "meta.llama3-1-70b-instruct-v1:0": "llama3-1-70b-instruct",
    "qwen3:32b": "qwen3:32b",
    "grok-4-0709": "grok-4-0709",
    "mistral-large-2512": "mistral-large-2512",
    "": "",
}

# platform as a span may tell it, model -> family, minimum, read multiplier
FAMILIES: list[tuple[str, str, str, int | None, float | None]] = [
    ("anthropic", "claude-opus-5-5", "anthropic/opus-5-5", 512, 0.05),
    ("anthropic", "claude-sonnet-5-5-20260928", "anthropic/sonnet-5-5", 512, 0.05),
    ("anthropic", "claude-haiku-5-5", "anthropic/haiku-5-5", 512, 0.1),
    ("anthropic", "claude-fable-5", "anthropic/fable-mythos-5", 512, 0.1),
    ("anthropic", "claude-fable-5-1", "anthropic/fable-mythos-5-1", 512, 0.025),
    ("anthropic", "claude-mythos-5-2", "anthropic/fable-mythos-5-2", 512, 0.025),
    ("anthropic", "claude-opus-5", "anthropic/opus-5", 512, 0.1),
    ("anthropic", "claude-opus-5-fast", "anthropic/opus-5", 512, 0.1),
    ("anthropic", "claude-sonnet-5", "anthropic/sonnet-5", 1024, 0.1),
    ("anthropic", "claude-opus-4-8", "anthropic/opus-4-8", 1024, 0.1),
    ("anthropic", "claude-opus-4-7-20260416", "anthropic/opus-4-7", 2048, 0.1),
    ("anthropic", "claude-mythos-preview", "anthropic/mythos-preview", 2048, 0.1),
    ("anthropic", "claude-opus-4-6", "anthropic/opus-4-6", 4096, 0.1),
    ("anthropic", "claude-opus-4-5-20251101", "anthropic/opus-4-5", 4096, 0.1),
    ("anthropic", "claude-haiku-4-5-20251001", "anthropic/haiku-4-5", 4096, 0.1),
    ("anthropic", "claude-sonnet-4-6", "anthropic/sonnet-4-6", 1024, 0.1),
    ("anthropic", "claude-sonnet-4-5-20250929", "anthropic/sonnet-4-5", 1024, 0.1),
    ("anthropic", "claude-4-5-sonnet", "anthropic/sonnet-4-5", 1024, 0.1),
    ("anthropic", "claude-opus-4-1-20250805", "anthropic/opus-4-1", 1024, 0.1),
    ("anthropic", "claude-opus-4-20250514", "anthropic/opus-4", 1024, 0.1),
    ("anthropic", "claude-opus-4-0", "anthropic/opus-4", 1024, 0.1),
    ("anthropic", "claude-sonnet-4-20250514", "anthropic/sonnet-4", 1024, 0.1),
    ("anthropic", "claude-3-7-sonnet-20250219", "anthropic/sonnet-3-7", 1024, 0.1),
    ("anthropic", "claude-3-5-sonnet-20241022", "anthropic/sonnet-3-5", 1024, 0.1),
    ("anthropic", "claude-3-5-haiku-latest", "anthropic/haiku-3-5", 2048, 0.1),
    ("anthropic", "claude-3-opus-20240229", "anthropic/opus-3", 1024, 0.1),
    ("anthropic", "claude-3-haiku-20240307", "anthropic/haiku-3", 2048, 0.12),
    ("gcp.vertex_ai", "claude-opus-4-7", "anthropic/opus-4-7", 2048, 0.1),
    ("azure.ai.inference", "claude-opus-4-7", "anthropic/opus-4-7", 2048, 0.1),
    ("", "vertex_ai/claude-sonnet-4-5@20250929", "anthropic/sonnet-4-5", 1024, 0.1),
    ("openrouter", "anthropic/claude-opus-4.7", "anthropic/opus-4-7", 2048, 0.1),
    ("aws.bedrock", "us.anthropic.claude-opus-5", "bedrock/claude-5-512", 512, 0.1),
    ("bedrock", "anthropic.claude-opus-5-5", "bedrock/claude-5-512", 512, 0.05),
    ("bedrock", "anthropic.claude-fable-5-1", "bedrock/claude-5-512", 512, 0.025),
    ("", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/claude-1024", 1024, 0.1),
    ("aws", "claude-sonnet-4-5-20250929-v1:0", "bedrock/claude-1024", 1024, 0.1),
    ("AWS", "anthropic.claude-3-7-sonnet-20250219-v1:0", "bedrock/claude-1024-5m", 1024, 0.1),
    ("aws.bedrock", "anthropic.claude-opus-4-7", "bedrock/claude-opus-4-7", 4096, 0.1),
    ("aws.bedrock", "anthropic.claude-opus-4-6-v1", "bedrock/claude-4096", 4096, 0.1),
    ("aws.bedrock", "us.anthropic.claude-opus-4-1-20250805-v1:0", "bedrock/claude-4-1024", 1024, 0.1),
    ("aws.bedrock", "us.anthropic.claude-3-5-haiku-20241022-v1:0", "bedrock/claude-haiku-3-5", 2048, 0.1),
    ("aws.bedrock", "amazon.nova-pro-v1:0", "bedrock/nova", 1024, 0.25),
    (
        "anthropic",
        "anthropic.claude-opus-4-7",
        "bedrock/claude-opus-4-7",
        4096,
        0.1,
    ),  # AnthropicBedrock's client
    ("openai", "gpt-5.6-sol", "openai/gpt-5.6+", 1024, 0.1),
    ("openai", "gpt-6-astra", "openai/gpt-5.6+", 1024, 0.1),
    ("openai", "gpt-6.1-sol", "openai/gpt-6.1", 1024, 0.05),
    ("azure.ai.openai", "gpt-5.5", "openai/gpt-5.5", 1024, 0.1),
    ("openai", "gpt-5.4-mini", "openai/gpt-5.4", 1024, 0.1),
    ("openai", "gpt-5-2025-08-07", "openai/gpt-5..5.3", 1024, 0.1),
    ("openai", "gpt-5.1-codex", "openai/gpt-5..5.3", 1024, 0.1),
    ("openai", "gpt-4.1-2025-04-14", "openai/gpt-4.1-o3", 1024, 0.25),
    ("openai", "o3", "openai/gpt-4.1-o3", 1024, 0.25),
    ("openai", "o3-mini", "openai/gpt-4o-o1", 1024, 0.5),
    ("OpenAI", "gpt-4o-mini-2024-07-18", "openai/gpt-4o-o1", 1024, 0.5),
    ("strands-agents", "openai/gpt-4o-2024-08-06", "openai/gpt-4o-o1", 1024, 0.5),
    ("gcp.gen_ai", "gemini-2.5-flash", "google/gemini-2.5", 2048, 0.1),
    ("google", "models/gemini-3.1-pro-preview", "google/gemini-3.x", 4096, 0.1),
    ("gemini", "gemini-3-flash-preview", "google/gemini-3-preview", 4096, 0.1),
    ("gcp.gemini", "gemini-4-argon", "google/gemini-4", 4096, 0.05),
    ("vertex_ai", "gemini-4-argon", "google/gemini-4-argon-vertex", 6144, 0.05),
    ("google", "gemini-2.0-flash-001", "google/gemini-2.0", None, 0.25),
    ("deepseek", "deepseek-v4-flash", "deepseek/v4", None, 0.02),
    ("deepseek", "deepseek-v4-pro", "deepseek/v4-pro", None, 0.033),
    ("openai", "deepseek-chat", "deepseek/v3", None, 0.26),
    ("xai", "grok-4.7", "x-ai/grok", None, 0.25),
    ("x_ai", "grok-4.3", "x-ai/grok-4.20-4.5", None, 0.16),
    ("mistral_ai", "mistral-large-4", "mistral", 64, 0.1),
    ("groq", "openai/gpt-oss-120b", "groq", None, 0.5),
    ("groq", "moonshotai/kimi-k2-instruct-0905", "groq", None, 0.5),
    ("moonshot", "kimi-k3.1-pro", "moonshot/kimi", None, 0.1),
    ("moonshotai", "kimi-k2-0905-preview", "moonshot/kimi-k2", None, 0.25),
    ("moonshotai", "kimi-k2.6", "moonshot/kimi-k2.5+", None, 0.17),
    ("dashscope", "qwen3-max", "alibaba/qwen-implicit", None, 0.2),
    ("zai", "glm-5.3", "zhipu/glm", 500, None),
    ("hosted_vllm", "Qwen/Qwen3-32B", "vllm", 16, None),
    ("sglang", "deepseek-ai/DeepSeek-V3", "sglang", 1, None),
    ("llama.cpp", "anything", "llama.cpp", 1, None),
]

NO_FAMILY = [
    ("", ""),
    ("", "my-model"),
    ("anthropic", "claude-opus-6"),  # a version that is not known yet is nobody's variant
    ("anthropic", "claude-opus-4-9"),
    ("openai", "gpt-5.9"),
    ("", "gpt-oss-120b"),  # open weights: anybody may serve them
    ("openai", "Qwen/Qwen3-32B"),
    ("together", "deepseek-ai/DeepSeek-V3"),
    ("ollama", "llama3.1:8b"),
    ("bedrock", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123"),
]

# provider on the span, model -> platform, provider
SERVED = {
    ("openai", "gpt-4o"): ("openai", "openai"),
    ("OpenAI", ""): ("openai", "openai"),
    ("openai.chat", "gpt-4o"): ("openai", "openai"),
    ("openai.responses", ""): ("openai", "openai"),
    ("fakeoai.chat", "gpt-4o"): ("openai", "openai"),
    ("Anthropic", ""): ("anthropic", "anthropic"),
    ("anthropic.messages", "claude-opus-5"): ("anthropic", "anthropic"),
    ("openai", "claude-sonnet-4-5"): ("anthropic", "anthropic"),
    ("openai", "grok-4.7"): ("x_ai", "x_ai"),
    ("openai", "llama-3.3-70b"): ("openai", "openai"),
    ("anthropic", "kimi-k3"): ("moonshotai", "moonshotai"),
    ("anthropic", "us.anthropic.claude-opus-4-7-v1:0"): ("bedrock", "bedrock"),
    ("AWS", "claude-sonnet-4-5-20250929-v1:0"): ("bedrock", "bedrock"),
    ("aws.bedrock", "anthropic.claude-opus-4-7"): ("bedrock", "bedrock"),
    ("amazon-bedrock", ""): ("bedrock", "bedrock"),
    ("gcp.gen_ai", "gemini-2.5-flash"): ("gemini-api", "google"),
    ("gcp.gemini", ""): ("gemini-api", "google"),
    ("Google", "gemini-2.5-flash"): ("gemini-api", "google"),
    ("gemini", "gemini-2.5-flash"): ("gemini-api", "google"),
    ("google.generative-ai", "gemini-2.5-pro"): ("gemini-api", "google"),
    ("google", "claude-opus-4-7"): ("vertex", "google"),
    ("gcp.vertex_ai", "gemini-2.5-pro"): ("vertex", "google"),
    ("google.vertex.chat", "gemini-2.5-pro"): ("vertex", "google"),
    ("vertex.anthropic.messages", "claude-opus-5"): ("vertex", "google"),
    ("gcp.vertex.agent", "gemini-2.5-flash"): ("gemini-api", "google"),
    ("az.ai.inference", "gpt-4o"): ("azure", "azure"),
    ("azure-openai.responses", "gpt-5.2"): ("azure", "azure"),
    ("microsoft.foundry", "gpt-4.1"): ("azure", "azure"),
    ("microsoft.agent_framework", "gpt-4o"): ("openai", "openai"),
    ("strands-agents", "claude-sonnet-4-5-20250929"): ("anthropic", "anthropic"),
    ("langchain", ""): ("", ""),
    ("", "bedrock/us-east-1/anthropic.claude-opus-4-7"): ("bedrock", "bedrock"),
    ("", "arn:aws:bedrock:us-east-1:1:inference-profile/abc"): ("bedrock", "bedrock"),
    ("", "claude-sonnet-4-5@20250929"): ("vertex", "google"),
    ("", "projects/p/locations/l/publishers/google/models/gemini-2.5-pro"): ("vertex", "google"),
    ("", "openrouter/anthropic/claude-opus-5"): ("openrouter", "openrouter"),
    ("", "groq/openai/gpt-oss-20b"): ("groq", "groq"),
    ("", "openai:gpt-5"): ("openai", "openai"),
    ("", "accounts/fireworks/models/deepseek-v3"): ("fireworks", "fireworks"),
    ("mistralai", "mistral-large-4"): ("mistral_ai", "mistral_ai"),
    ("x_ai", ""): ("x_ai", "x_ai"),
    ("xai.chat", ""): ("x_ai", "x_ai"),
    ("dashscope", "qwen-plus"): ("alibaba", "alibaba"),
    ("zhipuai", "glm-5.3"): ("zhipu", "zhipu"),
    ("ollama", "deepseek-r1:7b"): ("ollama", "ollama"),
    ("", "deepseek-ai/DeepSeek-V3"): ("", ""),
    ("", ""): ("", ""),
}

ENCODINGS = {
    "gpt-4o-2024-08-06": "o200k_base",
    "gpt-4.1-nano": "o200k_base",
    "gpt-5.6-luna": "o200k_base",
    "gpt-6.1-sol": "o200k_base",
    "o1-preview": "o200k_base",
    "gpt-4-turbo": "cl100k_base",
    "gpt-4-0613": "cl100k_base",
    "gpt-3.5-turbo-0125": "cl100k_base",
    "text-embedding-3-small": "cl100k_base",
    "openai/gpt-oss-120b": "gpt_oss",
    "claude-3-5-haiku-latest": "claude3",
    "claude-opus-4-20250514": "claude3",
    "claude-sonnet-4-5-20250929": "claude3",
    "us.anthropic.claude-opus-4-6-v1": "claude3",
    "claude-opus-4-7": "claude4.7",
    "claude-sonnet-5": "claude4.7",
    "claude-sonnet-5-5": "claude4.7",
    "claude-haiku-5-5": "claude4.7",
    "claude-mythos-5-2": "claude4.7",
    "claude-2.1": "",
    "gemini-2.0-flash": "gemma3",
    "gemini-2.5-pro": "gemma3",
    "gemini-3-pro-preview": "gemma3",
    "gemini-3.1-pro-preview": "gemma4",
    "gemini-3.5-flash": "gemma4",
    "gemini-4-argon": "gemma4",
    "deepseek-v4-pro": "deepseek_v3",
    "deepseek-ai/DeepSeek-V3.1": "deepseek_v3",
    "deepseek-r1-distill-llama-70b": "",
    "moonshotai/kimi-k2-instruct": "kimi_k2",
    "kimi-k3": "kimi_k2",
    "mistral-large-2512": "mistral_v3",
    "meta.llama3-1-70b-instruct-v1:0": "llama3",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3",
    "meta-llama/Llama-4-Scout": "",
    "Qwen/Qwen3-32B": "qwen3",
    "glm-4.6": "glm4",
    "my-model": "",
    "": "",
}

WINDOWS = {
    "claude-opus-4-7": 1_000_000,
    "us.anthropic.claude-opus-5-v1:0": 1_000_000,
    "claude-sonnet-4-5-20250929": 200_000,
    "claude-sonnet-4-5-20250929[1m]": 1_000_000,
    "claude-3-5-sonnet@20240620": 200_000,
    "claude-mythos-preview": None,
    "gpt-4o-2024-08-06": 128_000,
    "gpt-4o-realtime-preview-2024-12-17": 32_000,
    "gpt-4-0613": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4.1-mini": 1_000_000,
    "gpt-5-2025-08-07": 400_000,
    "gpt-5.1-codex": 400_000,
    "gpt-5.4": 1_050_000,
    "gpt-5.4-nano": 400_000,
    "gpt-5.9": None,
    "gpt-6-sol": 1_050_000,
    "o1-mini": 128_000,
    "o3": 200_000,
    "models/gemini-2.5-flash-preview-09-2025": 1_048_576,
    "gemini-2.5-flash-lite": 1_000_000,
    "grok-4-0709": 256_000,
    "grok-4-1-fast-reasoning": 2_000_000,
    "grok-build-0.1": 256_000,
    "deepseek-v4-flash": 1_000_000,
    "openai/gpt-oss-20b": 131_072,
    "kimi-k2-0905-preview": 262_144,
    "my-model": None,
    "": None,
}

# scope, version, provider -> row
USAGES = {
    ("com.anthropic.sdk.python", "2.14.0", "anthropic"): ("anthropic-sdk-python", True),
    ("com.anthropic.sdk.python", "2.14.0", "aws.bedrock"): ("anthropic-sdk-python", True),
    ("opentelemetry.instrumentation.genai.anthropic", "1.3b0", "anthropic"): ("otel-genai-anthropic", True),
    ("opentelemetry.instrumentation.anthropic", "0.62.4", "anthropic"): ("openllmetry-anthropic", True),
    ("opentelemetry.instrumentation.genai.bedrock", "1.3b0", "aws.bedrock"): ("otel-genai-bedrock", False),
    ("opentelemetry.instrumentation.botocore.bedrock-runtime", "0.66b2", ""): ("otel-botocore", False),
    ("opentelemetry.instrumentation.bedrock", "0.62.4", "AWS"): ("openllmetry-bedrock", False),
    ("opentelemetry.instrumentation.openai.v1", "0.62.4", "openai"): ("openllmetry-openai", True),
    ("opentelemetry.instrumentation.openai_v2", "", "openai"): ("otel-openai-v2", True),
    ("opentelemetry.instrumentation.openai_agents", "0.62.4", ""): ("openllmetry-openai-agents", True),
    ("opentelemetry.instrumentation.google_genai", "0.7b2", "gemini"): ("otel-google-genai-0", True),
    ("opentelemetry.instrumentation.google_genai", "1.3b0", "gemini"): ("otel-google-genai", True),
    ("opentelemetry.instrumentation.google_genai", "", "gemini"): ("otel-google-genai", True),
    ("openinference.instrumentation.agno", "1.0.15", "Anthropic"): ("openinference-agno-anthropic", False),
    ("openinference.instrumentation.agno", "1.0.15", "OpenAI"): ("openinference-agno", True),
    ("openinference.instrumentation.bedrock", "0.1.61", "aws"): ("openinference-bedrock", None),
    ("openinference.instrumentation.dspy", "0.1.48", "openai"): ("openinference", True),
    ("@arizeai/openinference-instrumentation-anthropic", "0.2.8", ""): ("openinference-js-anthropic", True),
    ("@traceloop/instrumentation-anthropic", "0.27.0", "anthropic"): ("traceloop-js-anthropic", False),
    ("@traceloop/instrumentation-langchain", "0.27.0", "anthropic"): (
        "traceloop-js-langchain-anthropic",
        False,
    ),
    ("@traceloop/instrumentation-langchain", "0.27.0", "openai"): ("traceloop-js-langchain", True),
    ("ai", "", "anthropic.messages"): ("vercel-ai-anthropic", None),
    ("ai", "", "openai.chat"): ("vercel-ai", True),
    ("openlit.instrumentation.anthropic", "1.45.0", "anthropic"): ("openlit-anthropic", False),
    ("openlit.instrumentation.openai", "1.45.0", "openai"): ("openlit", True),
    ("com.anthropic.claude-platform", "", "anthropic"): ("anthropic-platform", True),
    ("com.anthropic.claude_code.tracing", "1.0.0", "anthropic"): ("claude-code", True),
    ("opentelemetry.instrumentation.genai.openai", "1.3b0", "openai"): ("otel-genai-openai", True),
    ("opentelemetry.instrumentation.langchain", "0.62.4", "anthropic"): ("openllmetry-langchain", True),
    ("openinference.instrumentation.anthropic", "3.1.0", "anthropic"): ("openinference-anthropic", True),
    ("openinference.instrumentation.openai", "0.1.66", "openai"): ("openinference-openai", True),
    ("openinference.instrumentation.langchain", "0.1.80", "anthropic"): ("openinference-langchain", True),
    ("openlit.instrumentation.bedrock", "1.45.0", "aws.bedrock"): ("openlit-bedrock", False),
    ("openlit", "1.45.0", "openai"): ("openlit", True),
    ("pydantic-ai", "2.68.0", "anthropic"): ("pydantic-ai", True),
    ("logfire.anthropic", "5.4.0", "anthropic"): ("logfire", True),
    ("logfire.openai", "5.4.0", "openai"): ("logfire", True),
    ("strands.telemetry.tracer", "", "strands-agents"): ("strands", True),
    ("gen_ai", "", "anthropic"): ("vercel-ai-otel", True),
    ("xai_sdk.chat", "1.21.0", "xai"): ("xai-sdk", True),
    ("mistralai_sdk_tracer", "3.7.0", "mistral_ai"): ("mistral-sdk", True),
    ("gcp.vertex.agent", "2.13.0", "gcp.gemini"): ("google-adk", True),
    ("langfuse-sdk", "5.11.1", ""): ("langfuse-sdk", None),
    ("langfuse-export", "", ""): ("langfuse-export", False),
    ("claude-code-transcript", "", ""): ("claude-code-transcript", False),
}


@pytest.mark.parametrize(("written", "name"), NORMALISED.items())
def test_model_ids_are_normalised(written: str, name: str) -> None:
    assert normalise_model_id(written) == name
    assert normalise_model_id(name) == name


@pytest.mark.parametrize(("platform", "model", "family", "minimum", "read"), FAMILIES)
def test_models_have_their_family(
    platform: str, model: str, family: str, minimum: int | None, read: float | None
) -> None:
    found = RULES.model(model, platform)
    assert found is not None
    assert (found.id, found.min_cacheable_tokens, found.read_multiplier) == (family, minimum, read)


@pytest.mark.parametrize(("platform", "model"), NO_FAMILY)
def test_what_is_not_known_has_no_family(platform: str, model: str) -> None:
    assert RULES.model(model, platform) is None


@pytest.mark.parametrize(("asked", "answer"), SERVED.items())
def test_providers_by_any_spelling(asked: tuple[str, str], answer: tuple[str, str]) -> None:
    assert (RULES.platform_of(*asked), RULES.provider_of(*asked)) == answer


def test_canonical_names_stay() -> None:
    for platform in RULES.platforms.values():
        assert RULES.platform_of(platform.id) == platform.id


@pytest.mark.parametrize(("model", "encoding"), ENCODINGS.items())
def test_encodings(model: str, encoding: str) -> None:
    assert RULES.encoding_of(model) == encoding


def test_a_providers_new_model_has_its_makers_encoding() -> None:
    assert RULES.encoding_of("deepseek-next", "deepseek") == "deepseek_v3"
    assert RULES.encoding_of("something-else", "deepseek") == ""


@pytest.mark.parametrize(("model", "tokens"), WINDOWS.items())
def test_windows(model: str, tokens: int | None) -> None:
    found = RULES.window(model)
    assert (found.value if found else None) == tokens


def test_the_window_of_a_variant_is_inferred() -> None:
    named, variant = RULES.window("gpt-5.6-sol"), RULES.window("gpt-5.6-cyber")
    assert named is not None
    assert variant is not None
    assert (named.status, variant.status) == ("documented", "inferred")
    assert named.value == variant.value


@pytest.mark.parametrize(("asked", "answer"), USAGES.items())
def test_usage_rules(asked: tuple[str, str, str], answer: tuple[str, bool | None]) -> None:
    found = RULES.usage(*asked)
    assert found is not None
    assert (found.id, found.input_includes_cache) == answer


@pytest.mark.parametrize("scope", ["", "my.tracer", "opentelemetry.instrumentation.requests", "aiohttp"])
def test_unknown_scopes_have_no_usage_rule(scope: str) -> None:
    assert RULES.usage(scope) is None


def test_a_claude_family_in_full() -> None:
    family = RULES.model("claude-opus-4-7", "anthropic")
    assert family is not None
    assert family.engine == "breakpoint"
    assert family.max_breakpoints == 4
    assert family.granularity_tokens == 1
    assert family.lookback_positions == 20
    assert family.get("lookback_runs_collapse") == ("tool_use", "tool_result")
    assert family.ttl_seconds == {"5m": (300, None), "1h": (3600, None)}
    assert list(family.ttl_seconds) == ["5m", "1h"]  # the first is the default
    assert family.write_multiplier == {"5m": 1.25, "1h": 2.0}
    assert family.prior_thinking_kept is True
    assert family.get("tool_prompt_tokens") == (675, 804)
    minimum = family.values["min_cacheable_tokens"]
    assert (minimum.status, minimum.sources, minimum.date) == (
        "documented",
        ("anthropic-caching",),
        "2026-09",
    )


def test_openai_generations() -> None:
    rows: list[tuple[str, str, int | None, int | None, dict[str, Any], dict[str, Any]]] = [
        ("gpt-4o", "auto_rounded_prefix", 128, None, {"in_memory": (300, 3600)}, {"default": 1.0}),
        ("gpt-5.1", "auto_rounded_prefix", 128, None,
         {"in_memory": (300, 3600), "24h": (1800, 86400)}, {"default": 1.0}),
        ("gpt-5.5", "auto_rounded_prefix", 128, 2048, {"24h": (1800, 86400)}, {"default": 1.0}),
        ("gpt-6-sol", "openai_breakpoint", 1, None,
         {"30m": (1800, None), "12h": (43200, None)}, {"30m": 1.25, "12h": 2.0}),
    ]  # fmt: skip
    for model, engine, step, interval, ttls, writes in rows:
        family = RULES.model(model)
        assert family is not None
        assert family.engine == engine, model
        assert family.granularity_tokens == step, model
        assert family.breakpoint_interval_tokens == interval, model
        assert family.ttl_seconds == ttls, model
        assert family.write_multiplier == writes, model


def test_bedrock_takes_the_rest_from_anthropic_as_an_inference() -> None:
    family = RULES.model("anthropic.claude-fable-5-1", "aws.bedrock")
    assert family is not None
    assert family.read_multiplier == 0.025
    assert family.values["read_multiplier"].status == "inferred"
    assert family.values["min_cacheable_tokens"].status == "documented"
    assert family.get("lookback_runs_collapse") is None  # Bedrock's own: not known


def test_the_conflict_on_opus_4_7_is_told() -> None:
    family = RULES.model("anthropic.claude-opus-4-7", "bedrock")
    assert family is not None
    assert "2,048" in family.values["min_cacheable_tokens"].note


def test_markers_change_the_rule_of_qwen() -> None:
    implicit = RULES.model("qwen3-max", "alibaba")
    assert implicit is not None
    explicit = RULES.family(implicit.with_markers)
    assert explicit is not None
    assert (implicit.engine, explicit.engine) == ("auto_best_effort", "breakpoint")
    assert (explicit.min_cacheable_tokens, explicit.max_breakpoints) == (1024, 4)


def test_unknown_is_none_and_says_so() -> None:
    family = RULES.model("gemini-2.5-flash")
    assert family is not None
    assert family.granularity_tokens is None
    assert family.values["granularity_tokens"].status == "unknown"


def test_isolation_marker_and_invalidation() -> None:
    isolation = RULES.isolation("aws.bedrock")
    assert isolation is not None
    assert isolation.value == "organization"
    assert RULES.isolation("groq") is None
    markers = {name: RULES.marker(name) for name in ("aws.bedrock", "anthropic", "vertex", "openai", "")}
    assert markers == {"aws.bedrock": "cachePoint", "anthropic": "cache_control breakpoint",
                       "vertex": "", "openai": "", "": ""}  # fmt: skip
    change = RULES.invalidated_by("tool_choice")
    assert change is not None
    assert (change.tools, change.system, change.messages) == ("kept", "kept", "lost")
    assert RULES.invalidated_by("temperature") is None
    assert "5 min" in RULES.facts["anthropic/server-tool-breakpoint"].value


def test_settings_of_a_prefix_have_the_names_that_dialects_give_them() -> None:
    body = {"parallel_tool_calls": False, "reasoning": {"effort": "low"}, "prompt_cache_key": "a",
            "text": {"format": {"type": "json_object"}, "verbosity": "low"}}  # fmt: skip
    settings = {"parallel_tool_calls", "effort", "prompt_cache_key", "response_format", "verbosity"}
    assert settings <= {name for name, _ in of_request(body)}
    within = {model: mechanism_of(family).within for model in ("gpt-4o", "gpt-5.6", "grok-4", "claude-opus-5")
              if (family := RULES.model(model)) is not None}  # fmt: skip
    assert within["gpt-4o"] >= settings
    assert within["gpt-5.6"] & settings == settings - {"prompt_cache_key"}
    assert within["grok-4"] & settings == {"prompt_cache_key"}
    assert not within["claude-opus-5"]


def test_a_setting_that_asks_for_a_lifetime_is_data() -> None:
    family = RULES.model("gpt-4.1")
    assert family is not None
    asked_by = family.values["ttl_asked_by"]
    assert dict(asked_by.value) == {"24h": 'prompt_cache_retention "24h"'}
    assert (asked_by.status, asked_by.sources) == ("documented", ("openai-caching",))
    longer = RULES.model("gpt-5.6")
    assert longer is not None
    assert longer.get("ttl_asked_by").keys() == {"12h"} < longer.ttl_seconds.keys()
    bedrock = RULES.model("gpt-5.6", "bedrock")
    assert bedrock is not None
    assert not bedrock.get("ttl_asked_by")


def test_a_name_stands_for_variants_not_versions() -> None:
    assert fit("claude-opus-4", "claude-opus-4-fast")
    assert not fit("claude-opus-4", "claude-opus-4-8")
    assert not fit("gpt-5", "gpt-5.1")
    assert not fit("gpt-4", "gpt-4o")
    assert fit("gpt-oss", "gpt-oss-20b")
    assert fit("gpt-4", "gpt-4-0613")
    assert fit("claude-3-5-*", "claude-3-5-haiku") > fit("claude-*", "claude-3-5-haiku") > 0
    assert fit("gpt-5", "gpt-5") > fit("gpt-5*", "gpt-5") > 0


# ---- the tables as a whole


def test_the_tables_hold_together() -> None:
    assert check(RULES) == []


def test_every_value_has_source_date_and_status() -> None:
    values = [(f.id, name, value) for f in RULES.families for name, value in f.values.items()]
    assert len(values) > 900
    for family, name, value in values:
        assert value.sources, (family, name)
        assert re.fullmatch(r"20\d\d(-\d\d){0,2}", value.date), (family, name)
        assert value.status in ("documented", "inferred", "unknown"), (family, name)


def test_every_source_is_used_and_public() -> None:
    used = {s for f in RULES.families for v in f.values.values() for s in v.sources}
    used |= {s for u in RULES.usages for s in u.sources}
    used |= {s for w in RULES.windows for s in w.tokens.sources}
    for table in ("platform", "encoding", "fact", "price", "surcharge"):
        used |= {s for row in RULES.rows(table) for s in row["source"]}
    assert used == set(RULES.sources)
    for source in RULES.sources.values():
        assert not re.search(r"/work|/tmp|corpus|localhost", source.title)


@pytest.mark.parametrize("removed", ["source", "status"])
@pytest.mark.parametrize(
    "table", ["family", "window", "usage", "platform", "encoding", "invalidation", "fact"]
)
def test_check_fails_on_a_row_without_source_or_status(table: str, removed: str) -> None:
    def tables(name: str) -> Any:
        rows = RULES.rows(name)
        if name != table:
            return rows
        row = {**rows[-1], "id": "mine"}
        row.pop(removed)
        return [*rows, row]

    (problem,) = check(Rules(tables))
    assert f"{table} mine: row:" in problem
    assert removed in problem


def test_check_fails_on_a_source_without_a_date() -> None:
    def tables(name: str) -> Any:
        rows = RULES.rows(name)
        return {**rows, "nobody": {"title": "A page", "kind": "documentation"}} if name == "sources" else rows

    assert check(Rules(tables)) == ["sources.toml: sources nobody: date: missing"]


# ---- a user's own rows

OWN = """
[sources]
us = { title = "Our measurements", date = "2026-11-29", kind = "measurement" }

[[family]]
id = "ours/llama"
like = "openai"
provider = "ours"
platforms = ["vllm"]
match = ["our-llama"]
source = ["us"]
status = "inferred"
min_cacheable_tokens = 32
read_multiplier = 0.3

[[window]]
id = "ours"
tokens = 65_536
match = ["our-llama", "gpt-4o"]
source = ["us"]
status = "documented"

[[usage]]
id = "openllmetry-bedrock"
scope = "opentelemetry.instrumentation.bedrock"
includes_cache = true
source = ["us"]
status = "inferred"
"""


def test_own_rows_replace_and_add() -> None:
    own = load(OWN)
    family, window = own.model("our-llama", "vllm"), own.window("gpt-4o")
    usage = own.usage("opentelemetry.instrumentation.bedrock")
    assert family is not None
    assert window is not None
    assert usage is not None
    assert (family.id, family.min_cacheable_tokens, family.granularity_tokens) == ("ours/llama", 32, 128)
    assert family.values["min_cacheable_tokens"].date == "2026-11-29"
    assert (window.value, usage.input_includes_cache) == (65_536, True)
    assert RULES.model("claude-opus-5") == own.model("claude-opus-5")
    assert RULES.model("our-llama", "openai") is None
    assert load(OWN.encode()).window("gpt-4o") == window


BROKEN = {
    "": None,
    "x = ": "override: ",
    "[[familie]]\nid = 'a'": "override: familie: no such table",
    "[family]\nid = 'a'": "override: family: write [[family]]",
    "[[sources]]\nid = 'a'": "override: sources: write [sources.ID]",
    "[[window]]\ntokens = 5": "override: window (no id): row: no source",
    "[[window]]\nid = 'a'\ntokens = 5\nsource = ['nowhere']\nstatus = 'documented'": "source 'nowhere' is not among",
    "[[window]]\nid = 'a'\ntokens = 5\nsource = ['vllm']\nstatus = 'sure'": "override: window a: row: status 'sure'",
    "[[window]]\nid = 'a'\ntokens = '5'\nmatch = ['a']\nsource = ['vllm']\nstatus = 'inferred'":
        "override: window a: tokens: '5' is not a whole number, 0 or more",
    "[[window]]\nid = 'a'\ntokens = 5\nmatch = ['Claude-Opus-4.7']\nsource = ['vllm']\nstatus = 'inferred'":
        "override: window a: match: 'Claude-Opus-4.7' should be 'claude-opus-4-7'",
    "[[window]]\nid = 'a'\ntoken = 5\nsource = ['vllm']\nstatus = 'inferred'": "override: window a: token: no such",
    "[[family]]\nid = 'a'\nlike = 'nobody'": "override: family a: like: there is no group 'nobody'",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nread_multiplier = -1":
        "override: family a: read_multiplier: -1 is not a number, 0 or more",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nread_multiplier = { value = 1.0, status = 'unknown' }":
        "override: family a: read_multiplier: has a value, but its status is unknown",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nplatforms = ['moon']":
        "override: family a: min_cacheable_tokens: missing",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nmin_cacheable_tokens = 1\nplatforms = ['moon']":
        "override: family a: platforms: names no platform",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nengine = 'magic'\nmin_cacheable_tokens = 1":
        "override: family a: engine: 'magic' is none of breakpoint",
    "[[family]]\nid = 'a'\nlike = 'claude'\nmatch = ['a']\nmin_cacheable_tokens = 1\nwith_markers = 'b'":
        "override: family a: with_markers: no family 'b'",
    "[[usage]]\nid = 'a'\nscope = 's'\nproviders = ['moon']\nsource = ['vllm']\nstatus = 'inferred'":
        "override: usage a: providers: names no provider",
    "[sources.a]\ntitle = 't'\nkind = 'data'": "override: sources a: date: missing",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BROKEN.items())
def test_errors_of_own_rows_name_row_and_field(text: str, message: str | None) -> None:
    if message is None:
        assert load(text).window("gpt-4o") == RULES.window("gpt-4o")
        return
    with pytest.raises(RulesError) as error:
        load(text)
    assert message in str(error.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(RulesError, match="override: "):
        load(b"\xff\xfe")
