"""What the dialects say of real spans, each as it reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from otel_ctx import dialects
from otel_ctx.inputs.otlp_json import spans_of
from tests.dialects import row, tellings

if TYPE_CHECKING:
    from conftest import CorpusCase

DIALECTS = {
    "openinference": (
        "oi-anthropic",  # the request body with its cache markers
        "oi-anthropic-js",  # a system prompt that the flat attributes lack, results that overwrite each other
        "oi-agno-anthropic",  # the framework's own message dicts, no response id
        "oi-bedrock-converse-cache",  # a list of messages, a cache point as fourth tool
        "oi-google-genai",
        "oi-langgraph-anthropic-thinking",  # LangChain's constructors, CHAIN and AGENT spans with messages
        "oi-langchain-js-anthropic-stream",  # a tool call in pieces
        "oi-openai-agents-stream",  # a list of items, the system prompt in the flat attributes only
        "oi-openai-chat-hidemessages",
        "oi-openai-chat-long-genai-limit128",  # the head dropped, more of it in gen_ai.input.messages
        "oi-openai-chat-valuelen",
        "oi-pydantic-ai-anthropic",  # another library's spans, painted over
        "oi-vercel-ai7-anthropic-legacy",
        "autogen-oi-openai",  # AutoGen's tool results under a name of their own
        "oi-smolagents",  # neighbours of one role, which were sent as one message
    ),
    "openllmetry": (
        "oll033-openai-chat-stream",  # usage under its first names
        "oll053-anthropic",  # blocks as JSON text, with cache markers in tool results; calls twice
        "oll053-bedrock-converse",  # every content a list of Converse's blocks
        "oll053-gemini",  # calls and results as Python prints them
        "oll053-openai-chat-long-limit128",
        "oll053-openai-responses",  # no llm.request.type
        "oi-openllmetry-anthropic",  # rewritten by a converter to OpenInference
        "agentops-openai",  # other names for tools
    ),
    "vercel": (
        "vercel-ai4-anthropic-stream",  # cached counts in the metadata only
        "vercel-ai5-anthropic-stream",  # the provider's own usage beside the SDK's
        "vercel-ai5-chat-attrlen2048",  # every value cut
        "vercel-ai6-chat-stream",
    ),
    "vercel genai": ("traceloop-sdk-js-vercel",),  # parents and children renamed alike
    "genai": (
        "agent-framework-chat-noevents",  # tools on the agent's span alone
        "strands-openai-latest",  # a span event a section, tools on the agent's span
        "crewai-session",  # what lies deep in a value as Python prints it
        "vercel-ai7-anthropic-stream",  # the conventions' names; parts of which only the type is left
        "traceloop-openai-js-responses-stream",  # the list of input items as one user's text
        "ag2-telemetry",  # accounts of what was spent beside the requests
        "langwatch-openai",  # figures under the conventions' names, words under its own
        "traceai-openai",  # OpenInference's lists under the conventions' names
    ),
    "langfuse": (
        "langfuse-langchain",  # tools as messages at the end; exclusive buckets
        "langfuse-responses",
        "langfuse-chat-stream",  # when the first token came
        "langfuse-js-responses",  # instructions and tools in the metadata; exclusive buckets
        "langfuse3x-chat",  # the session on the root alone
    ),
    "langsmith": (
        "langsmith-langchain",  # LangChain's constructors; tools beside them; counts as Python prints them
        "langsmith-anthropic",  # a request body with cache markers; the SDK's own spans lie in other traces
        "langsmith-js-otel-responses",  # inputs written when the application has gone on with the same list
    ),
    "langgraph": (
        "traceloop-langchain-js-chat",  # each span a trace of its own; no tool calls on the request's span
    ),
    "haystack": ("haystack",),  # its own classes of messages and tools; figures in the replies
    "litellm": ("litellm-chat-default-parent",),  # one request's attributes on the application's span
    "adk": ("google-adk-gemini-schema1",),  # the request as JSON, its figures once more on a span below
    "monocle": (
        "monocle-openai",  # prompts on events, a message one key
        "monocle-anthropic",  # the SDK's own spans below
    ),
    "generic": ("genkit-openai", "mlflow-anthropic"),  # nobody knows them
    "mastra": ("mastra-chat",),  # the prompt in pieces, on the spans of a run, its steps and tools
    "claude_code": ("claude-code-content-proto",),  # the prompt in pieces, on spans and events
    "codex": ("codex-nocontent",),  # figures on three spans of one request
    "gemini_cli": ("gemini-cli-notraces",),  # answers in records that name no span
    "pydantic": (
        "pydantic-ai-1x-chat-v1-attributes",  # an events list, with the answer as gen_ai.choice
        "pydantic-ai-anthropic-v5-cache1h",  # breakpoints by position
        "pydantic-ai-google-v5",  # results that were sent in a wrapper
        "pydantic-ai-chat-v5-nocontent",  # skeletons
        "logfire-anthropic-v1",  # a request body with cache markers
        "logfire-responses-v1",  # an events list with the answer appended
        "logfire-chat-v2-stream",  # two spans a request
        "logfire-openai-agents-chat",  # no tools, cached tokens in the SDK's usage only
        "logfire-openai-agents-responses",
    ),
}
CASES = [(of, name) for of, names in DIALECTS.items() for name in names]


@pytest.mark.parametrize(("of", "name"), CASES)
def test_reading(
    of: str,
    name: str,
    corpus_case: Callable[[str], CorpusCase],
    golden: Callable[[str, object], None],
) -> None:
    golden(f"corpus/{name}/tellings.json.gz", [row(t) for t in tellings(corpus_case(name), *of.split())])


@pytest.mark.parametrize(("of", "name"), CASES)
def test_the_scope_is_not_needed(of: str, name: str, corpus_case: Callable[[str], CorpusCase]) -> None:
    case = corpus_case(name)

    named = [t._replace(scope="", scope_version="") for t in tellings(case, *of.split())]

    assert named
    assert list(tellings(case, *of.split(), hidden=True)) == named


@pytest.mark.parametrize("name", sorted({name for _, name in CASES}))
def test_who_tells_something_of_a_span_is_asked(name: str, corpus_case: Callable[[str], CorpusCase]) -> None:
    """Readers are chosen by words; none that would have had something to say is left out."""
    for request in corpus_case(name).traces:
        for span in spans_of(request, ""):
            chosen = dialects._readers_of(span)
            for reader in dialects.NEEDS:
                assert reader in chosen or reader(span) is None
