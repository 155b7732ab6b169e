"""OpenLLMetry up to 0.53: one attribute a message, ``gen_ai.prompt.N.*``, ``gen_ai.completion.N.*``,
``llm.request.functions.N.*``. Later versions write the conventions' JSON instead.

A converter to OpenInference leaves these attributes as they are and adds poorer ones, so they are read here too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import indexed, indexed_from, number, of_span, text
from otel_ctx.dialects.flat import Run, reaches_below
from otel_ctx.model import Raw, Reason, Span, Telling
from otel_ctx.parts import History, structure

_PROMPT = "gen_ai.prompt."
_COMPLETION = "gen_ai.completion."
_TOOLS = "llm.request.functions."
# AgentOps, which began as a copy of these packages, has names of its own for tools: OpenAI's, and Anthropic's
_AGENTOPS_TOOLS = ("gen_ai.request.functions.", "gen_ai.request.tools.")
_PREFIXES = (_PROMPT, _COMPLETION, _TOOLS, *_AGENTOPS_TOOLS)
_NO_CONVERSATION = frozenset({"embedding", "rerank"})  # values of llm.request.type
_BLOCK_LISTS = frozenset({"aws", "bedrock", "aws.bedrock"})  # content is always a list of Converse's blocks
_CALLS = frozenset({"toolUse", "toolResult"})
_PYTHON_PART = "media_resolution="  # how Python's repr() of a google-genai part begins
_MEDIA = ("file_data=FileData(", "inline_data=Blob(")  # of such a part its type can still be read
_NO_TEXT = ("None", "null")  # a null, where a format keeps texts only
_DEFINITION = ("name", "description", "parameters", "input_schema")  # in the order of the providers' requests
NEEDS = frozenset({"llm.request.type", *(f"{prefix}*" for prefix in _PREFIXES)})


@dataclass(slots=True)
class _Flat:
    """The indexed attributes of a span, keys without their prefix. ``run`` holds those of the prompt; ``prompt`` has
    none that an earlier span had too."""

    run: Run
    prompt: dict[str, Any] = field(default_factory=dict)
    completion: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)

    @property
    def has_prompt(self) -> bool:
        return bool(self.prompt) or self.run.known.count > 0


def read(span: Span) -> Telling | None:
    a = span.attributes
    request_type = text(a, "llm.request.type")
    if request_type in _NO_CONVERSATION or "gen_ai.input.messages" in a or "litellm.call_id" in a:
        return None  # LiteLLM has both forms: the conventions' one says more
    if not (request_type or any(key.startswith(_PREFIXES) for key in a)):
        return None
    flat = _indexed(span)
    if not (request_type or flat.has_prompt or flat.completion or flat.tools):
        return None
    reasons: set[Reason] = set()
    lost: set[str] = set()
    messages, calls = _prompt(flat, span, reasons, lost)
    tools = _definitions(flat.tools, span, reasons, lost)
    if not messages:
        reasons.add("attributes_dropped" if span.dropped_attributes else "not_captured")
        lost.update(("tools", "system", "messages"))
    elif text(a, "instrumentation.name") == "agentops" and text(a, "library.name") == "anthropic":
        # no system prompt; tool calls left out, their results as words of its own
        reasons.add("not_captured")
        lost.update(("system", "messages"))
    elif not tools and calls:
        reasons.add("attributes_dropped" if span.dropped_attributes else "schema_missing")
        lost.add("tools")
    reserve = number(a, *semconv.RESERVE)
    answer, _, _ = indexed(flat.completion)
    return of_span(
        span,
        "openllmetry",
        "call",
        first_token_unix_nano=semconv.first_token(span),
        agent=text(a, *semconv.AGENT),
        operation="chat",
        provider=text(a, *semconv.PROVIDER),
        request_model=text(a, *semconv.REQUEST_MODEL),
        response_model=text(a, *semconv.RESPONSE_MODEL),
        response_id=text(a, "gen_ai.response.id"),
        previous_response_id=text(a, *semconv.PREVIOUS_RESPONSE),
        conversation_hint=text(a, *semconv.CONVERSATION),
        usage=semconv.usage(a),
        reserve=reserve if reserve is not None and reserve > 0 else None,
        stateless=request_type in ("chat", "completion"),  # of the Responses API it says nothing
        tools=Raw("tools", tools) if tools else None,
        messages=Raw("messages", messages) if messages else None,
        output=Raw("messages", answer) if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _indexed(span: Span) -> _Flat:
    blocks = text(span.attributes, *semconv.PROVIDER).lower() in _BLOCK_LISTS
    run = Run(span.attributes, _PROMPT, "openllmetry, lists of blocks" if blocks else "openllmetry")
    flat = _sorted(run)
    return _sorted(run) if run.reaches_back(flat.prompt) else flat


def _sorted(run: Run) -> _Flat:
    flat = _Flat(run)
    targets = dict(zip(_PREFIXES, (flat.prompt, flat.completion, *[flat.tools] * 3), strict=True))
    for key, value in chain(run.others, run.new):
        if key.startswith(_PREFIXES):
            for prefix, target in targets.items():
                if key.startswith(prefix):
                    rest = key[len(prefix) :]
                    if rest[:1].isdigit():
                        target[rest] = value
                    break
    return flat


def _prompt(
    flat: _Flat, span: Span, reasons: set[Reason], lost: set[str]
) -> tuple[History | list[Any], bool]:
    """The messages by their index, and whether they or the answer call tools; what the attribute limit took from their
    head is said and stays a hole."""
    older, blocks = flat.run.known, text(span.attributes, *semconv.PROVIDER).lower() in _BLOCK_LISTS
    first, damaged = 0, False
    if older.count:
        messages = indexed_from(flat.prompt, older.count)
    else:
        messages, first, damaged = indexed(flat.prompt)
    facts = older.facts | _opened(messages, blocks)
    if any(".tool_calls." in key for key in flat.prompt):
        facts |= {"calls"}
    calls = "calls" in facts or any(".tool_calls." in key for key in flat.completion)
    if damaged or first:
        reasons.add("attributes_dropped")
        lost.update(("head", "system"))
    if damaged:
        reasons.add("guessed")  # the role of the first message
    for fact in ("not_captured", "unparsable"):
        if fact in facts:
            reasons.add(fact)
            lost.add("messages")
    if not older.count and (damaged or first or not messages or "role" not in messages[0]):
        return messages, calls
    flat.run.learn(older.count + len(messages), facts)
    return flat.run.history(messages, partial(_read, blocks)), calls


def _read(blocks: bool, pairs: list[tuple[str, Any]], start: int) -> list[Any] | None:
    keys = ((key[len(_PROMPT) :], value) for key, value in pairs if key.startswith(_PROMPT))
    prompt = {key: value for key, value in keys if key[:1].isdigit()}
    if reaches_below(start, prompt):
        return None
    messages = indexed_from(prompt, start)
    _opened(messages, blocks)
    return messages


def _opened(messages: list[Any], blocks: bool) -> frozenset[str]:
    """Contents that were written out are parsed in place. -> "not_captured", "unparsable" where a part is missing,
    "calls" where a block calls a tool."""
    facts = set()
    for message in messages:
        if message is None:
            continue
        content = message.get("content")
        if content is None and message.get("role") == "user":  # images could not be written
            facts.add("not_captured")
        elif content in _NO_TEXT and "tool_calls" in message:
            del message["content"]
            continue
        if blocks and isinstance(content, str) and content[:2] == "[{":
            message["content"] = opened = structure(content)
            if isinstance(opened, list) and any(
                isinstance(b, dict) and not _CALLS.isdisjoint(b) for b in opened
            ):
                facts.add("calls")
        elif isinstance(content, str) and _PYTHON_PART in content:
            whole = structure(content)
            kept = [b for b in whole if not _is_repr(b)] if isinstance(whole, list) else []
            if len(kept) < len(whole):
                message["content"] = kept
                facts.add("unparsable")
    return frozenset(facts)


def _is_repr(block: Any) -> bool:
    """A tool call or result that Gemini's instrumentation printed instead of serialising it."""
    written = block.get("text") if isinstance(block, dict) else None
    return (
        isinstance(written, str)
        and written.startswith(_PYTHON_PART)
        and not any(m in written for m in _MEDIA)
    )


def _definitions(flat: dict[str, Any], span: Span, reasons: set[Reason], lost: set[str]) -> list[Any]:
    tools, first, _ = indexed(flat)
    if first and span.dropped_attributes:
        reasons.add("attributes_dropped")
        lost.add("tools")
    found: list[Any] = []
    for tool in tools:
        if tool is not None and tool.get("name"):
            tool = {**tool, "parameters": tool.get("parameters", tool.get("arguments"))}  # AgentOps' word
            found.append({k: structure(tool[k]) for k in _DEFINITION if tool.get(k) not in (None, "")})
    return found
