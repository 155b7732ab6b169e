"""OpenInference (Arize): flat ``llm.*`` attributes and ``input.value``, over every framework, in Python and JavaScript.

Where a section (tools, system, messages) stands in several places, the order is: the words of the library that made
the span (a processor only repeats them), the request body in ``input.value``, the flat attributes, the conventions'
attributes that OpenInference adds itself. What the user hid is taken from nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, indexed, indexed_from, number, of_span, text
from otel_ctx.dialects.flat import Run, reaches_below
from otel_ctx.dialects.parameters import of_request
from otel_ctx.model import Raw, Reason, Span, Telling, UsageClaim
from otel_ctx.parts import History, mapping, mark_the_end, read_body, read_usage, reserve_of, structure

MASK = "__REDACTED__"
_HIDDEN_TEXTS = (".message.content", ".message_content.text")

_INPUT = "llm.input_messages."
_OUTPUT = "llm.output_messages."
_TOOLS = "llm.tools."
_SUMS = frozenset({"AGENT", "CHAIN", "UNKNOWN"})  # kinds of spans that repeat or sum the calls below them
_CLIENT = 3  # OpenInference's own spans are INTERNAL: a CLIENT span was made by another library and rewritten
_NEWEST_DROPPED = frozenset(
    {"nodejs", "webjs"}
)  # SDKs that refuse the newest attributes; others drop the oldest
_OTHERS_PROMPT = "gen_ai.prompt."  # OpenLLMetry's span, rewritten by a converter
_SYSTEM_ROLES = frozenset({"system", "developer"})
_WIRE_ROLES = _SYSTEM_ROLES | {"user", "assistant", "tool", "function", "model"}
_ZEROS_OMITTED = frozenset(
    {"openinference.instrumentation.agno", "openinference.instrumentation.anthropic", "pydantic-ai"}
)
_EMPTY_PARTS = ('{"type":"text"}', '{"type": "text"}')  # pydantic-ai without content
_CACHE_READ = ("llm.token_count.prompt_details.cache_read", "llm.token_count.prompt_details.cache_input")
_CACHE_WRITE = "llm.token_count.prompt_details.cache_write"
_THREADS = ("session_id", "conversation_id", "thread_id", "sessionId", "threadId")
_RESPONSES = (
    {"choices"}, {"candidates"}, {"generations"}, {"output", "object"}, {"content", "stop_reason"}, {"usage", "model"},
)  # fmt: skip


@dataclass(slots=True)
class _Flat:
    """The indexed attributes of a span, keys without their prefix. ``run`` holds those of the input messages;
    ``inputs`` has none that an earlier span had too, and ``items`` are the messages they spell, nested."""

    run: Run
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    start: int = 0  # the first message that is there
    headless: bool = False  # it has lost its role
    whole: bool = False  # nothing is missing before or of the first message
    facts: frozenset[str] = frozenset()  # of all messages: see _facts
    of_openllmetry: bool = False

    @property
    def has_inputs(self) -> bool:
        return bool(self.inputs) or self.run.known.count > 0


@dataclass(slots=True)
class _Prompt:
    """What was found of the prompt so far, and what is known to be missing."""

    tools: Any = None
    system: Any = None
    messages: Any = None
    output: Any = None
    reasons: set[Reason] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def miss(self, reason: Reason, *sections: str) -> None:
        self.reasons.add(reason)
        self.lost.update(sections)


def read(span: Span) -> Telling | None:
    a = span.attributes
    kind = a.get("openinference.span.kind")
    if kind is None and "llm.token_count.prompt" not in a and "llm.model_name" not in a:
        return None
    flat = _gather(a)
    if flat.of_openllmetry or "llm.request.type" in a:
        return None
    kind = str(kind or "LLM").upper()
    if kind in _SUMS:
        return _aggregate(span, flat)
    if kind != "LLM" or _only_marked(span, flat):
        return None
    return _call(span, flat)


def _only_marked(span: Span, flat: _Flat) -> bool:
    """A span of another dialect that a processor has given a kind and token counts, and nothing else."""
    return (
        span.kind == _CLIENT
        and "input.value" not in span.attributes
        and not flat.has_inputs
        and not flat.outputs
    )


def _call(span: Span, flat: _Flat) -> Telling | None:
    a = span.attributes
    response = _response(a.get("output.value"))
    usage = _usage(span, response)
    wire = _wire(a.get("input.value"))
    parameters = _parameters(a, wire)
    prompt = _read_prompt(span, flat, wire, parameters)
    if usage is None and not (prompt.messages or prompt.output or "redacted" in prompt.reasons):
        return None  # a step around a call, not a call
    if usage is None and span.dropped_attributes:
        prompt.reasons.add("attributes_dropped")
    previous = str(parameters.get("previous_response_id") or "")
    if previous:
        prompt.miss("server_side", "head")
    reserve = reserve_of(parameters) or number(a, *semconv.RESERVE) or 0
    said = response or {}
    return replace(
        _who(span, parameters),
        role="call",
        operation=text(a, "gen_ai.operation.name") or "chat",
        response_model=text(a, "llm.response.model_name", "gen_ai.response.model")
        or text(said, "model", "model_version", "modelVersion"),
        response_id=text(a, "gen_ai.response.id", "ai.response.id") or _response_id(said),
        previous_response_id=previous,
        usage=usage,
        reserve=reserve if reserve > 0 else None,
        limit=number(parameters, "context_window"),
        parameters=of_request(parameters),
        tools=Raw("tools", prompt.tools) if prompt.tools else None,
        system=Raw("system", prompt.system) if prompt.system else None,
        messages=Raw("messages", prompt.messages) if prompt.messages else None,
        output=Raw("messages", prompt.output) if prompt.output else None,
        reasons=frozenset(prompt.reasons),
        lost=frozenset(prompt.lost),
    )


def _aggregate(span: Span, flat: _Flat) -> Telling | None:
    """An agent's or a chain's span: its numbers are sums or repetitions, its messages an excerpt."""
    usage = _usage(span, None)
    if usage is None and not (flat.has_inputs or flat.outputs or "gen_ai.input.messages" in span.attributes):
        return None
    return replace(_who(span, {}), usage=usage)


def _who(span: Span, parameters: Mapping[str, Any]) -> Telling:
    """Who, where and when, as an aggregate without content."""
    a = span.attributes
    metadata = structure(a.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    return of_span(
        span,
        "openinference",
        "aggregate",
        first_token_unix_nano=semconv.first_token(span),
        agent=(
            text(a, "agent.name", *semconv.AGENT)
            or text(metadata, "lc_agent_name")
            or text(a, "graph.node.id")
        ),
        operation=text(a, "gen_ai.operation.name"),
        provider=text(a, "llm.provider", "llm.system", *semconv.PROVIDER),
        request_model=(
            text(a, "llm.request.model_name", "gen_ai.request.model")
            or text(parameters, "model")
            or text(a, "llm.model_name")
        ),
        conversation_hint=(
            text(a, "session.id", *semconv.CONVERSATION)
            or text(metadata, *_THREADS)
            or text(a, *(f"metadata.{name}" for name in _THREADS))
        ),
    )


def _gather(attributes: Mapping[str, Any]) -> _Flat:
    """All of them, in one pass; messages that came before are known by their digest."""
    run = Run(attributes, _INPUT, "openinference")
    flat = _sorted(run)
    if run.reaches_back(flat.inputs):
        flat = _sorted(run)
    older = run.known
    if older.count:
        flat.items, flat.whole = indexed_from(flat.inputs, older.count), True
    else:
        flat.items, flat.start, flat.headless = indexed(flat.inputs)
        flat.whole = bool(flat.items) and not flat.start and not flat.headless and "role" in flat.items[0]
    flat.facts |= older.facts | _facts(flat.inputs, flat.items)
    if flat.whole:
        run.learn(older.count + len(flat.items), flat.facts)
    return flat


def _sorted(run: Run) -> _Flat:
    flat = _Flat(run)
    for key, value in chain(run.others, run.new):
        if not key.startswith("llm."):
            if key.startswith(_OTHERS_PROMPT) and key[len(_OTHERS_PROMPT) :][:1].isdecimal():
                flat.of_openllmetry = True
        elif key.startswith(_INPUT):
            if value == MASK and key.endswith(_HIDDEN_TEXTS):
                flat.facts = frozenset({"masked"})
        elif key.startswith(_OUTPUT):
            if value != MASK:
                flat.outputs[key[len(_OUTPUT) :].replace(".message.", ".", 1)] = value
        elif key.startswith(_TOOLS):
            flat.tools[key[len(_TOOLS) :].replace(".tool.", ".", 1)] = value
    flat.inputs = _inputs(run.new)
    return flat


def _facts(inputs: Mapping[str, Any], items: Sequence[Any]) -> frozenset[str]:
    """What is to be known of messages that are not read again: "system" (some are of that role), "gap" (one is
    missing), "late" (one has lost its first content part), "calls" (some call tools), "bare" and "bare system" (a role
    and no content). A text that was hidden makes "masked"."""
    facts = set()
    if None in items:
        facts.add("gap")
    if any(".tool_calls." in key for key in inputs):
        facts.add("calls")
    if _starts_late(inputs):
        facts.add("late")
    for message in items:
        system = _role(message) in _SYSTEM_ROLES
        if system:
            facts.add("system")
        if isinstance(message, dict) and message.keys() == {"role"} and _role(message) != "assistant":
            facts.add("bare system" if system else "bare")
    return frozenset(facts)


def _inputs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What ``pairs`` hold of the input messages, keys without their prefix. A mask is never text."""
    size = len(_INPUT)
    return {
        key[size:].replace(".message.", ".", 1): value
        for key, value in pairs
        if key.startswith(_INPUT) and not (value == MASK and key.endswith(_HIDDEN_TEXTS))
    }


def _read(pairs: list[tuple[str, Any]], start: int) -> list[Any] | None:
    inputs = _inputs(pairs)
    return None if reaches_below(start, inputs) else indexed_from(inputs, start)


# ---- what ``input.value`` and ``output.value`` hold


@dataclass(frozen=True, slots=True)
class _Wire:
    """``input.value``: a provider's request body, or the list of its messages alone, or neither."""

    body: Mapping[str, Any] = field(default_factory=dict)
    tools: Any = None
    system: Any = None
    messages: Any = None
    hidden: bool = False
    cut: str = ""  # JSON that was cut at its end, as it came


def _wire(value: Any) -> _Wire:
    if value == MASK:
        return _Wire(hidden=True)
    parsed = structure(value)
    if isinstance(parsed, list):
        return _Wire(messages=_messages_of(parsed))
    if isinstance(parsed, str) and parsed[:1] in ("{", "["):
        return _Wire(cut=parsed)
    read = read_body(parsed) if isinstance(parsed, dict) else None
    if read is None:
        return _Wire(body=mapping(parsed))
    messages = read.messages.value if read.messages else None
    tools = read.tools.value if read.tools else None
    return _Wire(
        body=parsed,
        tools=tools if isinstance(tools, list) and all(isinstance(t, dict) for t in tools) else None,
        system=read.system.value if read.system else None,
        messages=messages if isinstance(messages, str) and "model" in parsed else _messages_of(messages),
    )


def _messages_of(value: Any) -> Any:
    """``value`` where it is a list of messages as a provider has them (LangChain: the first of a batch), else None.
    Lists of Python reprs and of a framework's own roles (llama-index, smolagents) are none."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list) and value and all(map(_is_message, value)):
        return value
    return None


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or {"role", "type", "lc", "parts", "content"}.isdisjoint(value):
        return False
    return value.get("role") is None or _role(value) in _WIRE_ROLES


def _role(message: Any) -> str:
    return str(message.get("role") or "") if isinstance(message, dict) else ""


def _response(value: Any) -> Mapping[str, Any] | None:
    """``output.value`` where it is a provider's response (an answer may be JSON itself)."""
    parsed = structure(value)
    if isinstance(parsed, dict) and any(keys <= parsed.keys() for keys in _RESPONSES):
        return parsed
    return None


def _parameters(attributes: Mapping[str, Any], wire: _Wire) -> Mapping[str, Any]:
    """The request's parameters: the body, where it is a whole one, else ``llm.invocation_parameters``."""
    if isinstance(wire.body.get("model"), str):
        return wire.body
    return {**mapping(structure(attributes.get("llm.invocation_parameters"))), **wire.body}


def _langchain(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """``kwargs`` of the first message of LangChain's ``generations``."""
    generations = response.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    return mapping(mapping(mapping(generations).get("message")).get("kwargs"))


def _response_id(response: Mapping[str, Any]) -> str:
    if "generations" not in response:
        return text(response, "id", "responseId", "response_id")
    kwargs = _langchain(response)
    own = text(kwargs, "id")
    return text(mapping(kwargs.get("response_metadata")), "id") or (
        "" if own.startswith(("lc_run", "run-")) else own
    )


# ---- the prompt


def _read_prompt(span: Span, flat: _Flat, wire: _Wire, parameters: Mapping[str, Any]) -> _Prompt:
    prompt = _Prompt()
    missing: Reason = "attributes_dropped" if span.dropped_attributes else "not_captured"
    if wire.hidden:
        prompt.miss("redacted", "tools", "system", "messages")
    _from_the_library(span, prompt)
    own = prompt.messages is not None
    if not own:
        _messages(span, flat, wire, prompt)
    if prompt.tools is None and not wire.hidden:
        _tools(span, flat, wire, prompt)
    if prompt.output is None and flat.outputs:
        prompt.output = [m for m in indexed(flat.outputs)[0] if m]
    whole = "model" in wire.body and bool(wire.messages)
    calls = "calls" in flat.facts or any(".tool_calls." in key for key in flat.outputs)
    if prompt.tools is None and "tools" not in prompt.lost and not whole and calls:
        prompt.miss("attributes_dropped" if span.dropped_attributes else "schema_missing", "tools")
    if prompt.messages is None and "messages" not in prompt.lost:
        prompt.miss(missing, "system", "messages")
        if prompt.tools is None:
            prompt.miss(missing, "tools")
    control = parameters.get("cache_control")
    if control and not own and isinstance(prompt.messages, (list, History)):
        messages = prompt.messages if isinstance(prompt.messages, list) else prompt.messages.every()
        prompt.messages = mark_the_end(messages, control)
    return prompt


def _from_the_library(span: Span, prompt: _Prompt) -> None:
    """A span of another library (pydantic-ai, the AI SDK, OpenLLMetry) that a processor has painted over."""
    a = span.attributes
    if "ai.prompt.messages" in a:
        prompt.messages = _messages_of(structure(a["ai.prompt.messages"]))
        prompt.tools = first(a, "ai.prompt.tools")
    elif span.kind == _CLIENT or "gen_ai.system_instructions" in a:
        found, reasons, lost = semconv.contents(a)
        if "messages" in found:
            prompt.messages, prompt.reasons, prompt.lost = found["messages"].value, reasons, lost
            prompt.system = found["system"].value if "system" in found else None
            prompt.tools = found["tools"].value if "tools" in found else None
            prompt.output = found["output"].value if "output" in found else None
            if any(part in str(prompt.messages) for part in _EMPTY_PARTS):
                prompt.miss("not_captured", "system", "messages")


def _messages(span: Span, flat: _Flat, wire: _Wire, prompt: _Prompt) -> None:
    """Messages and system prompt: out of the body where nothing was hidden, else out of the flat attributes."""
    if "masked" in flat.facts or (wire.messages and not flat.has_inputs):
        # OPENINFERENCE_HIDE_INPUT_TEXT and _HIDE_INPUT_MESSAGES leave ``input.value`` whole: it is not asked
        prompt.miss("redacted", "system", "messages")
    elif wire.messages:
        prompt.messages, prompt.system = wire.messages, wire.system
        if wire.system is None and not any(map(_is_system, wire.messages)):
            prompt.system = _leading_system(flat)
            if prompt.system is None and not wire.body and span.dropped_attributes:
                prompt.miss("attributes_dropped", "system")
        return
    if flat.has_inputs:
        _flat_messages(span, flat, wire, prompt)
    elif not prompt.lost:
        found, reasons, lost = semconv.contents(span.attributes)
        if "messages" in found:
            prompt.messages = found["messages"].value
            prompt.reasons |= reasons
            prompt.lost |= lost
        else:
            prompt.messages = first(span.attributes, "llm.prompts")


def _is_system(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    if _role(message) in _SYSTEM_ROLES or message.get("type") == "system":
        return True
    ident = message.get("id")
    return "lc" in message and isinstance(ident, list) and ident[-1:] == ["SystemMessage"]


def _of_system(inputs: Mapping[str, Any]) -> Callable[[str], bool]:
    """Does a key belong to a message of the system's?"""
    return lambda key: str(inputs.get(f"{key.partition('.')[0]}.role")) in _SYSTEM_ROLES


def _leading_system(flat: _Flat) -> Any:
    """The system prompt that only the flat attributes have, as blocks."""
    if "system" not in flat.facts:
        return None
    inputs = _inputs(flat.run.pairs)
    is_of_system = _of_system(inputs)
    blocks: list[Any] = []
    for message in indexed({key: value for key, value in inputs.items() if is_of_system(key)})[0]:
        if message:
            content = message.get("contents") or message.get("content")
            blocks += content if isinstance(content, list) else [content]
    return blocks or None


def _flat_messages(span: Span, flat: _Flat, wire: _Wire, prompt: _Prompt) -> None:
    """The messages of the flat attributes by their index, and what limits have taken of them."""
    a = span.attributes
    start, headless, facts = flat.start, flat.headless, flat.facts
    if flat.whole:
        prompt.messages = flat.run.history(flat.items, _read)
    else:
        items, start, headless = _with_older(
            flat.items, start, headless, structure(a.get("gen_ai.input.messages"))
        )
        prompt.messages, facts = items, _facts(flat.inputs, items) | (facts & {"masked"})
    if headless:
        prompt.reasons.add("guessed")  # the role
    if "system" not in facts:
        prompt.system = first(a, "gen_ai.system_instructions")
    if span.dropped_attributes or start > 1:  # one may be missing by right: the place of instructions
        if text(span.resource, "telemetry.sdk.language") in _NEWEST_DROPPED or not flat.outputs:
            prompt.miss("attributes_dropped", "messages")
        if start or headless or "gap" in facts:
            prompt.miss("attributes_dropped", "head")
            if "system" not in facts:
                prompt.miss("attributes_dropped", "system")
    elif headless or "late" in facts:
        prompt.miss("not_captured", "messages")
    if "masked" not in facts:
        for fact, section in (("bare", "messages"), ("bare system", "system")):
            if fact in facts:
                prompt.miss("not_captured", section)
    if wire.cut:
        inputs = _inputs(flat.run.pairs)
        is_of_system = _of_system(inputs)
        for key, value in inputs.items():
            if _as_long(value, wire.cut):
                prompt.miss("value_cut", "system" if is_of_system(key) else "messages")


def _with_older(items: list[Any], start: int, headless: bool, said: Any) -> tuple[list[Any], int, bool]:
    """``items`` with older messages of the conventions' list in front, which OpenInference wrote before the limit took
    the last ones. That list has no indexes: it ends where the flat one ends."""
    whole = start + 1 if headless else start
    more = len(said) - (len(items) - whole) if isinstance(said, list) else 0
    if not 0 < more <= whole or not all(isinstance(m, dict) and m.get("role") for m in said[:more]):
        return items, start, headless
    return [*[None] * (whole - more), *said[:more], *items[whole:]], whole - more, False


def _starts_late(inputs: Iterable[str]) -> bool:
    """Is the first content part of a message missing? So are LangChain's thinking blocks and OpenAI's audio."""
    parts = [key.split(".", 3) for key in inputs if ".contents." in key]
    return bool({p[0] for p in parts} - {p[0] for p in parts if p[2] == "0"})


def _as_long(value: Any, cut: str) -> bool:
    """Do both end at one length limit? JavaScript counts UTF-16 units."""
    return isinstance(value, str) and (len(value) == len(cut) or _units(value) == _units(cut))


def _units(value: str) -> int:
    return len(value.encode("utf-16-le", "replace"))


def _tools(span: Span, flat: _Flat, wire: _Wire, prompt: _Prompt) -> None:
    """The definitions: as the body has them where they were not hidden, else the flat ones."""
    a = span.attributes
    if wire.tools:  # OPENINFERENCE_HIDE_LLM_TOOLS leaves them in the body, beside the messages that it shows
        prompt.tools = wire.tools
        return
    items, start, _ = indexed(flat.tools)
    if items:
        found = [_definition(item) for item in items if item]
        whole = [
            t for t in found if not (wire.cut and _as_long(t, wire.cut) and isinstance(structure(t), str))
        ]
        prompt.tools = whole
        if len(whole) < len(found):
            prompt.miss("value_cut", "tools")
        if start and span.dropped_attributes:
            prompt.miss("attributes_dropped", "tools")
    elif span.dropped_attributes:
        prompt.miss("attributes_dropped", "tools")
    else:
        prompt.tools = first(a, "gen_ai.tool.definitions")


def _definition(tool: Mapping[str, Any]) -> Any:
    """``tool.json_schema`` is the definition; where a name stands beside it, it is the parameters only."""
    schema = tool.get("json_schema")
    if not tool.get("name"):
        return schema
    schema = structure(schema)
    if isinstance(schema, dict) and ("name" in schema or "function" in schema):
        return schema
    definition = {k: tool[k] for k in ("name", "description") if tool.get(k)}
    return {**definition, "parameters": structure(tool.get("parameters")) if schema is None else schema}


# ---- usage


def _usage(span: Span, response: Mapping[str, Any] | None) -> UsageClaim | None:
    a = span.attributes
    said = semconv.usage(a) or UsageClaim()
    read = number(a, *_CACHE_READ)
    write = number(a, _CACHE_WRITE)
    # who writes one detail leaves the other out because it is 0
    details = (read, write, said.cache_read, said.cache_write)
    zeros_omitted = any(d is not None for d in details) or span.scope_name in _ZEROS_OMITTED
    claim = replace(
        said,
        input=_or(number(a, "llm.token_count.prompt"), said.input),
        output=_or(number(a, "llm.token_count.completion"), said.output),
        # a converter writes 0 beside the number that it should have converted
        cache_read=read if not said.cache_read and read is not None else said.cache_read,
        cache_write=write if not said.cache_write and write is not None else said.cache_write,
        reasoning=_or(number(a, "llm.token_count.completion_details.reasoning"), said.reasoning),
        total=_or(number(a, "llm.token_count.total"), said.total),
        zeros_omitted=zeros_omitted,
    )
    raw = _raw_usage(a, response)
    if raw is not None:
        claim = _completed(claim, raw)
    if claim.reasoning and claim.total and claim.input is not None and claim.output is not None:
        claim = replace(
            claim, output_excludes_reasoning=claim.total == claim.input + claim.output + claim.reasoning
        )
    return None if claim.input is None and claim.output is None and claim.total is None else claim


def _completed(claim: UsageClaim, raw: UsageClaim) -> UsageClaim:
    """``claim`` with what only the provider's own numbers tell: zeros, TTLs, and what ``input`` includes."""
    full = UsageClaim(
        input=_or(claim.input, raw.input),
        output=_or(claim.output, raw.output),
        cache_read=_or(claim.cache_read, raw.cache_read),
        cache_write=_or(claim.cache_write, raw.cache_write),
        cache_write_1h=_or(claim.cache_write_1h, raw.cache_write_1h),
        cache_write_5m=_or(claim.cache_write_5m, raw.cache_write_5m),
        reasoning=_or(claim.reasoning, raw.reasoning),
        total=_or(claim.total, raw.total),
        semantics=claim.semantics,
        semantics_evidence=claim.semantics_evidence,
        zeros_omitted=claim.zeros_omitted,
    )
    if full.semantics or raw.input is None or full.input is None:
        return full
    settled = replace(full, semantics_evidence="the provider's usage in output.value")
    cached = (raw.cache_read or 0) + (raw.cache_write or 0)
    if claim.input is None or (cached and claim.input == raw.input):
        return replace(settled, semantics=raw.semantics)
    if cached and raw.semantics == "exclusive" and claim.input == raw.input + cached:
        return replace(settled, semantics="inclusive")
    return full


def _raw_usage(attributes: Mapping[str, Any], response: Mapping[str, Any] | None) -> UsageClaim | None:
    """The provider's own usage object, inside the response or the AI SDK's provider metadata."""
    found: Any = None
    if response is not None:
        found = first(response, "usage", "usageMetadata", "usage_metadata")
        if "generations" in response:
            said = mapping(_langchain(response).get("response_metadata"))
            found = first(said, "usage", "token_usage")
    else:
        metadata = mapping(structure(attributes.get("ai.response.providerMetadata")))
        found = mapping(metadata.get("anthropic")).get("usage")
    return read_usage(found)


def _or(value: int | None, other: int | None) -> int | None:
    return other if value is None else value
