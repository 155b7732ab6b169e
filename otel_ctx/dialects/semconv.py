"""The names that the GenAI semantic conventions have given things, all generations of them, and the telling they make.

A helper of the dialects, no dialect of its own: it decides nothing about whose span it is.
Source of the names: the conventions up to 1.44 and after their move to a repository of their own, and captured spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import xxhash

from otel_ctx.dialects import event_messages
from otel_ctx.dialects.fields import Names, amount, first, in_order, listed, number, of_span, text, unflatten
from otel_ctx.memo import Memo
from otel_ctx.model import Raw, Reason, Span, Stored, Telling, Unseen, UsageClaim
from otel_ctx.parts import ITEM_TYPES, is_mask, structure

INPUT = ("gen_ai.input.messages",)
OUTPUT = ("gen_ai.output.messages",)
SYSTEM = ("gen_ai.system_instructions",)
TOOLS = ("gen_ai.tool.definitions", "gen_ai.request.tools")
PROVIDER = ("gen_ai.provider.name", "gen_ai.system")
OPERATION = ("gen_ai.operation.name", "llm.request.type")
REQUEST_MODEL = ("gen_ai.request.model", "llm.request.model")
RESPONSE_MODEL = ("gen_ai.response.model", "llm.response.model")
_THREADS = (
    "conversationId", "conversation_id", "threadId", "thread_id", "chatId", "chat_id", "sessionId", "session_id",
)  # fmt: skip
AGENT = ("gen_ai.agent.name", "traceloop.association.properties.lc_agent_name", "agent_name")
CONVERSATION = (
    "gen_ai.conversation.id",
    "traceloop.association.properties.thread_id",
    "gen_ai.thread.id",  # a bare thread.id is the operating system's
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.session_id",
    "session.id",
    # the AI SDK passes on what the application calls it
    *(f"{where}{name}" for name in _THREADS for where in ("ai.telemetry.metadata.", "ai.settings.context.")),
)
PREVIOUS_RESPONSE = (
    "gen_ai.request.previous_response.id",
    "gen_ai.request.previous_response_id",
    "gen_ai.openai.request.previous_response_id",
    "openai.request.previous_response_id",
    "llm.request.previous_response_id",
)
RESERVE = (
    "gen_ai.request.max_tokens",
    "gen_ai.request.max_output_tokens",
    "gen_ai.request.max_completion_tokens",
    "llm.request.max_tokens",
)

_SAID = Names(  # fields of a telling that are text
    {
        "agent": AGENT,
        "operation": OPERATION,
        "provider": PROVIDER,
        "request_model": REQUEST_MODEL,
        "response_model": RESPONSE_MODEL,
        "response_id": ("gen_ai.response.id",),
        "previous_response_id": PREVIOUS_RESPONSE,
        "conversation_hint": CONVERSATION,
    }
)

_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
)
_TOTAL_TOKENS = ("gen_ai.usage.total_tokens", "llm.usage.total_tokens")
_CACHE_READ = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cache_read_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.cached_tokens",
    "gen_ai.usage.cached_prompt_text_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
)
_CACHE_WRITE = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
)
_CACHE_WRITE_1H = (
    "anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
    "gen_ai.usage.cache_creation.ephemeral_1h_input_tokens",
    "gen_ai.usage.cache_creation_ephemeral_1h_input_tokens",
    "gen_ai.usage.ephemeral_1h_input_tokens",
)
_CACHE_WRITE_5M = tuple(name.replace("_1h_", "_5m_") for name in _CACHE_WRITE_1H)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.reasoning_output_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
    "gen_ai.usage.details.thoughts_tokens",
)
_COUNTS = Names(  # of a claim
    {
        "input": _INPUT_TOKENS,
        "output": _OUTPUT_TOKENS,
        "cache_read": _CACHE_READ,
        "cache_write": _CACHE_WRITE,
        "cache_write_1h": _CACHE_WRITE_1H,
        "cache_write_5m": _CACHE_WRITE_5M,
        "reasoning": _REASONING,
        "total": _TOTAL_TOKENS,
    }
)
_DETAILS = frozenset({"cache_write_1h", "cache_write_5m", "reasoning"})  # alone they are no usage

_UNTIL_FIRST_TOKEN = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.response.time_to_first_token",
    "gen_ai.server.time_to_first_token",
)
_CHUNK_EVENTS = frozenset(
    {
        "gen_ai.content.completion.chunk",
        "llm.content.completion.chunk",
        "gen_ai.first_token",
        "first_token",
        "First Token Stream Event",
        "ai.stream.firstChunk",
    }
)

# Packages that record tool definitions whenever the request has some: none recorded, none sent.
_WRITE_TOOLS = (
    "opentelemetry.instrumentation.genai.",
    "opentelemetry.instrumentation.google_genai",
    "opentelemetry.instrumentation.google_generativeai",
    "opentelemetry.instrumentation.openai.v1",
    "opentelemetry.instrumentation.anthropic",
    "opentelemetry.instrumentation.langchain",
    "opentelemetry.instrumentation.litellm",
    "opentelemetry.util.genai.",
)
# Packages that leave a cache count of zero out.
_OMIT_ZEROS = (
    "opentelemetry.instrumentation.genai.",
    "opentelemetry.instrumentation.google_genai",
    "opentelemetry.instrumentation.google_generativeai",
    "opentelemetry.util.genai.",
)
# Below 1.0 these two of them had neither tool definitions in every mode nor cache counts.
_YOUNG = ("opentelemetry.util.genai.", "opentelemetry.instrumentation.google_genai")


@lru_cache(256)
def writes_tools(scope: str, version: str) -> bool:
    """Does the absence of tool definitions mean that the request had none?"""
    return scope.startswith(_WRITE_TOOLS) and not _is_young(scope, version)


@lru_cache(256)
def omits_zeros(scope: str, version: str) -> bool:
    """Does the absence of a cache count mean 0?"""
    return scope.startswith(_OMIT_ZEROS) and not _is_young(scope, version)


def _is_young(scope: str, version: str) -> bool:
    return version.startswith("0.") and scope.startswith(_YOUNG)


def telling(
    span: Span,
    dialect: str,
    role: Literal["call", "aggregate"],
    *,
    writes_tools: bool = False,
    zeros_omitted: bool = False,
) -> Telling:
    """What the conventions' attributes and events of ``span`` tell.

    ``writes_tools``: this instrumentation records tool definitions whenever the request has some, so that their absence
    means that there were none."""
    a = span.attributes
    content, reasons, lost = contents(a, span)
    said = {field: text(a, *names) for field, names in _SAID.of(a).items()}
    if said.get("previous_response_id"):
        reasons.add("server_side")
        lost.add("head")
    if (role == "call" or "tools" in content) and schemas_missing(content, writes_tools):
        reasons.add("schema_missing")
        lost.add("tools")
    reserve = number(a, *RESERVE)
    return of_span(
        span,
        dialect,
        role,
        first_token_unix_nano=first_token(span),
        usage=usage(a, zeros_omitted),
        reserve=reserve if reserve is not None and reserve > 0 else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
        **said,
        **content,
    )


def usage(attributes: Mapping[str, Any], zeros_omitted: bool = False) -> UsageClaim | None:
    """The token numbers under whatever name; None where there are none at all."""
    names = _COUNTS.of(attributes)
    claim: dict[str, Any] = {
        count: read for count, keys in names.items() if (read := number(attributes, *keys)) is not None
    }
    if _DETAILS.issuperset(claim):
        return None
    if len(claim) < len(names):
        no_input = "" if "input" in claim else _unreadable(attributes, "input", names)
        no_read = "" if "cache_read" in claim else _unreadable(attributes, "cache_read", names)
        claim.update(unreadable=no_input or no_read, damaged=bool(no_read))
    if attributes.get("gen_ai.token.semantics") == "inclusive":
        claim.update(semantics="inclusive", semantics_evidence="attribute gen_ai.token.semantics")
    return UsageClaim(zeros_omitted=zeros_omitted, **claim)


_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "an integer beyond 64 bits",
    str: "text",
    list: "a list",
    tuple: "a list",
}


def _unreadable(attributes: Mapping[str, Any], count: str, names: Mapping[str, tuple[str, ...]]) -> str:
    """Why the ``count`` that stands there is no number, in words; never what it holds, which may be text."""
    words = count.replace("_", " ")
    for name in names.get(count, ()):
        value = attributes.get(name)
        if isinstance(value, float):
            return f"{words} {value:g} cannot be read as a number of tokens"
        if value is not None:
            return f"{words} is recorded as {_TYPES.get(type(value), 'an object')}, not as a number of tokens"
    return ""


# ---- content


def contents(
    attributes: Mapping[str, Any], span: Span | None = None
) -> tuple[dict[str, Raw], set[Reason], set[str]]:
    """Tools, system, messages and output as they arrived, why something is missing, and what.

    ``attributes`` are a span's or a log record's; where a span has no messages there, its events are looked at."""
    found: dict[str, Raw] = {}
    reasons: set[Reason] = set()
    lost: set[str] = set()
    _collect(attributes, found, reasons, lost)
    if span is not None and "messages" not in found and span.events:
        _from_events(span, found, reasons, lost)
    if len(found) < len(_SECTIONS):
        if "tools" not in found and f"{_FUNCTIONS}0.name" in attributes:
            found["tools"] = Raw("tools", _functions(attributes))
        for section, names in _REFERENCES.of(attributes).items():
            reference = text(attributes, *names)
            if reference and section not in found and section not in lost:
                found[section] = Raw(_SHAPES[section], Stored(reference))
    if span is not None and span.dropped_attributes:
        reasons.add("attributes_dropped")
        lost.update({"tools", "system", "messages"} - found.keys())
    return found, reasons, lost


def schemas_missing(content: Mapping[str, Raw], writes_tools: bool) -> bool:
    """Are tool definitions known to be absent or empty, though there is content?"""
    tools = content.get("tools")
    if tools is None:
        return "messages" in content and not writes_tools
    return _without_schemas(tools.value)


_SECTIONS = {"tools": TOOLS, "system": SYSTEM, "messages": INPUT, "output": OUTPUT}
_CONTENT = Names(_SECTIONS)
_SHAPES = {"tools": "tools", "system": "system", "messages": "messages", "output": "messages"}
_REFERENCES = Names(
    {
        section: tuple(f"{name}{ref}" for name in names for ref in ("_ref", ".ref"))
        for section, names in _SECTIONS.items()
    }
)
_FUNCTIONS = "llm.request.functions."
_TEXT_OF_ITEMS = '[{"role":"user","parts":[{"type":"text","content":"[{\\"'
_RESPONSE_ID = "resp_"
_ITEM_ROLES = frozenset({"system", "developer", "user", "assistant"})


def _collect(
    attributes: Mapping[str, Any], found: dict[str, Raw], reasons: set[Reason], lost: set[str]
) -> None:
    for section, names in _CONTENT.of(attributes).items():
        value = first(attributes, *names)
        if value is None or section in found:
            continue
        if isinstance(value, str):
            if is_mask(value):
                if section != "output":  # what is hidden of an answer is no loss of the prompt
                    reasons.add("redacted")
                    lost.add(section)
                continue
            if _is_cut(value) and section != "output":
                reasons.add("value_cut")
                lost.add(section)
        if section == "messages":
            items = _items(value, attributes)
            if items is not value:
                value = items
                lost.add("system")  # who writes it so leaves the instructions out
        found[section] = Raw(_SHAPES[section], value)


def _items(value: Any, attributes: Mapping[str, Any]) -> Any:
    """The ``input`` list of OpenAI's Responses API, which OpenLLMetry's JavaScript package makes the text of one user
    message: that list, still JSON. Anything else as it is."""
    if not isinstance(value, str) or not value.startswith(_TEXT_OF_ITEMS):
        return value
    if not (text(attributes, "gen_ai.response.id") or _RESPONSE_ID).startswith(_RESPONSE_ID):
        return value  # another API: somebody asks about a conversation
    message = _only(structure(value))
    part = _only(message.get("parts")) if isinstance(message, Mapping) else None
    inner = part.get("content") if isinstance(part, Mapping) else None
    items = structure(inner)
    return inner if isinstance(items, list) and all(map(_is_item, items)) else value


def _only(values: Any) -> Any:
    return values[0] if isinstance(values, list) and len(values) == 1 else None


def _is_item(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return text(value, "type") in ITEM_TYPES or ("content" in value and text(value, "role") in _ITEM_ROLES)


def _functions(attributes: Mapping[str, Any]) -> list[Any]:
    """LiteLLM's tool definitions: one attribute a field, the schema as JSON."""
    found = listed(unflatten(attributes, _FUNCTIONS))
    return [
        {k: structure(v) if k == "parameters" else v for k, v in in_order(f).items()}
        for f in found
        if isinstance(f, Mapping)
    ]


def _from_events(span: Span, found: dict[str, Raw], reasons: set[Reason], lost: set[str]) -> None:
    messages: list[Any] = []
    answers: list[Any] = []
    provider = text(span.attributes, *PROVIDER)
    details = damaged = False
    for event in span.events:
        if event.name == event_messages.DETAILS:
            details = True
            damaged |= bool(event.dropped_attributes)
            _collect(event.attributes, found, reasons, lost)
        elif event_messages.is_message(event.name):
            damaged |= bool(event.dropped_attributes)
            if event_messages.is_copy(event.name, event.attributes, provider):
                continue
            message = event_messages.message(event.name, None, event.attributes)
            kept = answers if event_messages.is_answer(event.name) else messages
            if isinstance(message, list):
                kept.extend(message)
            elif message is not None:
                kept.append(message)
    if messages and "messages" not in found:
        found["messages"] = Raw("messages", messages)
        if span.dropped_events:  # the SDK keeps the newest
            lost.add("head")
        if damaged:
            lost.add("messages")
    elif details and (span.dropped_events or damaged):
        lost.update({"tools", "system", "messages"} - found.keys())
    if lost and (span.dropped_events or damaged):
        reasons.add("attributes_dropped")
    if answers and "output" not in found:
        found["output"] = Raw("messages", answers)


def _is_cut(value: str) -> bool:
    """JSON that stops in the middle. A look at both ends only: whoever parses it finds the rest."""
    return not value.endswith(_ENDS) and value.startswith(_BEGINS) and not value.rstrip().endswith(_ENDS)


_BEGINS, _ENDS = ("[{", '{"', '["'), ("]", "}")


def _without_schemas(tools: Any) -> bool:
    """Some instrumentations write ``"parameters": null`` for every tool, or only the tools' names."""
    if isinstance(tools, str):
        # and no definitions that are texts of JSON
        names = tools[:2] == '["' and tools[2:3] not in ("[", "{")
        return names or _has_null(tools)
    if isinstance(tools, (list, tuple)) and not isinstance(tools, (Stored, Unseen)):
        return any(
            t[:1] != "{" if isinstance(t, str) else isinstance(t, Mapping) and t.get("parameters", 0) is None
            for t in tools
        )
    return False


# by digest: calls have the same tools, and to search them takes ten times as long
_NULLS: Memo[int, bool] = Memo(1024)


def _has_null(tools: str) -> bool:
    digest = xxhash.xxh3_64_intdigest(tools.encode("utf-8", "surrogatepass"))
    found = _NULLS.get(digest)
    if found is None:
        found = '"parameters":null' in tools or '"parameters": null' in tools
        _NULLS.put(digest, found)
    return found


# ---- time


_LATEST = 2**64 - 1  # nanoseconds that OTLP can tell


def first_token(span: Span) -> int | None:
    """When the first part of the answer arrived: by attribute, else by the first event of a chunk."""
    for key in filter(span.attributes.__contains__, _UNTIL_FIRST_TOKEN):
        value = amount(span.attributes, key)
        length = span.end_unix_nano - span.start_unix_nano
        if value is not None and value > 0:
            for scale in (1e9, 1e6):  # seconds by the conventions; some write milliseconds
                if value * scale <= max(length, 0) + 1e6:
                    return min(span.start_unix_nano + int(value * scale), _LATEST)
    for event in span.events:
        if event.name in _CHUNK_EVENTS:
            return event.time_unix_nano
    return None
