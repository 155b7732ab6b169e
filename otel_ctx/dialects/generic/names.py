"""What the name of an attribute says, whatever library chose it: read word by word, never looked up.

``gen_ai.usage.cache_read.input_tokens``, ``ai.usage.cachedInputTokens`` and
``prompt_tokens_details.cached_tokens`` all hold the words that make them a count of cached tokens read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Words = tuple[str, ...]
Side = Literal["asked", "answered", ""]
Kind = Literal["call", "sum", "other", ""]
Count = Literal[
    "input", "output", "cache_read", "cache_write", "cache_write_1h", "cache_write_5m", "reasoning", "total"
]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]*")
_LONGEST = 256  # characters of a name; what is longer is content that became a key


def words(name: str) -> Words:
    """``llm.spanInputs`` -> ``("llm", "span", "inputs")``."""
    return _words(name) if len(name) <= _LONGEST else ()


@lru_cache(maxsize=8192)
def _words(name: str) -> Words:
    return tuple(word.lower() for word in _WORD.findall(name))


# ---- which side of a call a value stands on

_ASKED = frozenset({
    "input", "inputs", "prompt", "prompts", "request", "query", "question", "args", "arguments", "kwargs", "history",
})  # fmt: skip
_ANSWERED = frozenset({
    "output", "outputs", "response", "completion", "answer", "answers", "result", "results", "reply", "replies",
    "choice", "choices", "candidates", "returned", "return",
})  # fmt: skip
# of a resource, or of HTTP
_SURROUNDINGS = frozenset({"process", "host", "os", "container", "k8s", "cloud", "url"})
# of an API's name unless they end it
_APIS = frozenset({"responses", "completions", "generation", "generations"})


@lru_cache(maxsize=8192)
def side(path: Words) -> Side:
    """The last word that says it decides: ``openai.responses.input`` was asked."""
    if path and path[0] in _SURROUNDINGS:
        return ""
    if path and path[-1] in _APIS:
        return "answered"
    for word in reversed(path):
        if word in _ASKED:
            return "asked"
        if word in _ANSWERED:
            return "answered"
    return ""


# ---- what kind of operation a span says it is

_KIND_ENDS = frozenset({"type", "subtype", "category"})
_OF_WHAT = frozenset(
    {
        "span",
        "operation",
        "observation",
        "request",
        "run",
        "event",
        "node",
        "entity",
        "metadata",
        "attributes",
    }
)
_KIND_PAIRS = frozenset({("operation", "name"), ("operation", "id"), ("event", "name")})
_NO_KIND = frozenset(
    {"error", "exception", "tool", "message", "content", "db", "rpc", "http", "messaging", "faas"}
)
_OTHERS = frozenset({
    "tool", "tools", "function", "retriever", "retrieval", "retrieve", "embedding", "embeddings", "embed", "rerank",
    "reranker", "reranking", "guardrail", "guardrails", "evaluator", "evaluation", "eval", "score", "parser", "parse",
    "memory", "moderation", "speech", "transcription", "image", "audio", "video", "batch", "tokens", "tokenize", "chunk",
    "vector", "search", "database", "http", "prompt", "template", "event", "reduce", "handoff", "mcp", "plan",
    "index", "fetch", "upload", "download",
})  # fmt: skip
_SUMS = frozenset({
    "agent", "chain", "workflow", "crew", "graph", "pipeline", "step", "run", "session", "turn", "task", "flow", "node",
    "team", "conversation", "loop", "cycle", "invocation", "interaction", "orchestrator", "root",
})  # fmt: skip
_CALLS = frozenset({
    "llm", "chat", "completion", "completions", "generation", "generate", "inference", "model", "stream", "responses",
    "messages", "converse",
})  # fmt: skip


@lru_cache(maxsize=8192)
def tells_kind(name: Words) -> bool:
    """Does an attribute of this name say what kind of operation its span is?"""
    if not name or not _NO_KIND.isdisjoint(name):
        return False
    if name[-1] in _KIND_ENDS:
        return len(name) == 1 or name[-2] in _OF_WHAT
    return name[-1] in ("kind", "operation") or name[-2:] in _KIND_PAIRS


@lru_cache(maxsize=1024)
def kind_of(value: str) -> Kind:
    """What a word for a kind of operation means: ``CHAT_MODEL`` and ``ai.generateText.doGenerate`` a call, ``LLMChain``
    a sum of calls, ``execute_tool`` neither."""
    operation, _, name = value.partition(" ")  # whose operation it is may follow: "invoke_agent support"
    said = frozenset(words(operation))
    if name and not said & (_OTHERS | _SUMS | _CALLS):
        said = frozenset(words(name))
    if said & _OTHERS:
        return "other"
    if said & _SUMS:
        return "sum"
    return "call" if said & _CALLS else ""


# ---- counts

_MODAL = frozenset({"audio", "image", "video", "text", "modality"})
_NO_COUNT = frozenset({
    "max", "maximum", "limit", "cost", "costs", "price", "usd", "budget", "rate", "per", "time", "latency", "accepted",
    "rejected", "prediction", "remaining", "aggregated", "aggregate", "cumulative", "accumulated", "threshold", "percent",
    "ratio", "bytes", "chars", "length", "id", "type", "requests", "detail", "average", "avg", "delta", "miss", "server",
    "compaction", "tool", "turn", "session", "run", "task",
})  # fmt: skip
_WRITTEN = frozenset({"write", "writes", "written", "creation", "create", "created", "stored"})
_READ = frozenset({"read", "reads", "hit", "hits"})
_THOUGHT = frozenset({"reasoning", "thoughts", "thought", "thinking"})
_IN = frozenset({"input", "prompt"})
_OUT = frozenset({"output", "completion", "candidates", "generated", "response"})


@lru_cache(maxsize=8192)
def count_of(path: Words) -> Count | None:
    """What a number counts, by the words of its name and of what it lies in; None where it is no count of tokens."""
    if not counts_tokens(path):
        return None
    near = frozenset(path[-6:])
    if near & _NO_COUNT or frozenset(_after_usage(path)) & _MODAL:
        return None
    if "ephemeral" in near:
        return "cache_write_1h" if "1h" in near else "cache_write_5m" if "5m" in near else None
    if near & {"cache", "cached"}:
        if not near & _WRITTEN:
            return (
                "cache_read" if "cached" in near or near & _READ or path[-2:] == ("cache", "input") else None
            )
        return "cache_write_1h" if "1h" in near else "cache_write_5m" if "5m" in near else "cache_write"
    if near & _THOUGHT:
        return "reasoning"
    if path[-2:] != ("usage", "details") and "details" in path and path[-1] in ("tokens", "token"):
        return None
    for word in reversed(path):
        if word == "total":
            return "total"
        if word in _OUT:
            return "output"
        if word in _IN:
            return "input"
    return None


def counts_tokens(path: Words) -> bool:
    return "token" in path or "tokens" in path or "usage" in path


def _after_usage(path: Words) -> Words:
    """``gen_ai.usage.text.input_tokens`` counts one modality; a text completion's usage counts all."""
    at = max((i for i, word in enumerate(path) if word == "usage"), default=len(path) - 5)
    return path[at + 1 :]


# ---- who and what


Named = Literal["request", "response", "provider", "conversation", "agent", "id", "previous", ""]


@lru_cache(maxsize=8192)
def tells(name: Words) -> Named:
    """What short text of this name is: a model's name in the ``request`` or the ``response``, the ``id`` of the response or
    of the ``previous`` one, or the name of a provider, a conversation, an agent."""
    end = name[-2:]
    if name[-1:] == ("model",) or end in (("model", "name"), ("model", "id")):
        if not {"embedding", "device", "host"}.isdisjoint(name):
            return ""
        return "response" if "response" in name else "request"
    if name[-1:] == ("provider",) or end in (("provider", "name"), ("ai", "system"), ("llm", "system")):
        return "provider"
    if end in (("conversation", "id"), ("session", "id"), ("thread", "id"), ("chat", "id")):
        return "conversation" if name != ("thread", "id") else ""  # the operating system's
    if end == ("agent", "name"):
        return "agent"
    if end == ("response", "id"):
        return "previous" if "previous" in name else "id"
    return ""


@lru_cache(maxsize=8192)
def tells_system(name: Words) -> bool:
    """Does an attribute of this name hold a system prompt? (Where it is text: ``gen_ai.system`` is a provider.)"""
    return name[-1:] in (("system",), ("instructions",)) or name[-2:] in (
        ("system", "prompt"), ("system", "message"), ("system", "instruction"), ("developer", "message"),
    )  # fmt: skip


@lru_cache(maxsize=8192)
def tells_tools(name: Words) -> bool:
    """Does a value of this name hold the tools on offer?"""
    return bool(frozenset(name[-2:]) & {"tools", "tool", "functions", "function", "definitions"})


@lru_cache(maxsize=8192)
def tells_reserve(path: Words) -> bool:
    """Is a number of this name the output that the request reserves, in tokens?"""
    end = frozenset(path[-4:])
    return (
        "max" in end and bool(end & {"token", "tokens"}) and not end & {"input", "prompt", "context", "total"}
    )


_NO_CALL = frozenset({
    "embed", "embedding", "embeddings", "rerank", "reranker", "reranking", "tool", "retriever", "retrieval", "moderation",
})  # fmt: skip


@lru_cache(maxsize=2048)
def is_no_call(name: str) -> bool:
    """Does the name of a span or of a model say that it is no call of a conversation?"""
    return not _NO_CALL.isdisjoint(words(name))


_TEXTS = _ASKED | _ANSWERED | _APIS | {"value", "text", "content", "message", "messages"}


@lru_cache(maxsize=8192)
def tells_text(name: Words) -> Side:
    """The side of the call whose plain text an attribute of this name may be."""
    return side(name) if name and name[-1] in _TEXTS else ""


@lru_cache(maxsize=8192)
def says_something(name: Words) -> bool:
    """May a plain value of this name be of any use? Most attributes of most spans are of none."""
    return bool(
        tells(name) or tells_text(name) or tells_system(name) or count_of(name) or tells_reserve(name)
    )
