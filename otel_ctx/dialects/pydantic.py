"""Pydantic AI (``InstrumentationSettings`` versions 1 to 6) and Logfire's own integrations: OpenAI and Anthropic
(versions 1 and 2) and the OpenAI Agents SDK.

Their newer versions speak the conventions. What is read here is what those do not have: lists of events in an attribute
``events``, whole request bodies in ``request_data``, the requests of the Agents SDK, cache breakpoints by position.
Where an answer was appended to its prompt, it is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from otel_ctx.dialects import event_messages, semconv
from otel_ctx.dialects.fields import first, number, text
from otel_ctx.model import Raw, Span, Telling, UsageClaim
from otel_ctx.parts import filled, mark_the_end, read_body, read_usage, structure, unpack

_EVENTS = "events"
_REQUEST = "request_data"
_PARAMETERS = "model_request_parameters"
_BREAKPOINTS = "pydantic_ai.cache.applied_breakpoints"
_TEMPLATE = "logfire.msg_template"  # on each of Logfire's spans
_SPAN_TYPE = "logfire.span_type"
_OF_AGENTS = ("raw_input", "model_settings", "model_config")  # on a request of the Agents SDK
_SUMS = frozenset({"turn", "task"})  # sdk_span_type
_NO_CHAT = frozenset({"embeddings", "generate_content"})  # the second is Logfire's name for making images
_UNKNOWN = "gen_ai.unknown"  # an item that an events list has no event for
_SKELETONS = ('{"type":"text"}', '{"type": "text"}')  # content is switched off
_GOOGLE = re.compile(r"google|gcp|gemini|vertex")
_PLACE = re.compile(r"(system|tools|messages)\[(\d+)\](?:\.content\[(\d+)\])?")
NEEDS = frozenset({_TEMPLATE, _EVENTS, _PARAMETERS})


@dataclass(slots=True)
class _Content:
    """A request's content where the conventions' attributes do not hold it."""

    messages: Any
    system: Any = None
    tools: Any = None
    output: Any = None
    tools_recorded: bool = True  # would tools be here if there were any?
    cut: bool = False
    guessed: bool = False
    previous: str = ""
    reserve: int | None = None
    response: Mapping[str, Any] = field(default_factory=dict)


def is_pending(span: Span) -> bool:
    """Logfire sends a copy of each span, of whatever library, when it begins: under an id of its own, with the span itself
    as its parent."""
    return span.attributes.get(_SPAN_TYPE) == "pending_span"


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of theirs, or one that ``genai`` reads as well."""
    a = span.attributes
    if _TEMPLATE in a:
        if "gen_ai.request.model" in a and any(name in a for name in _OF_AGENTS):
            return _call(span, _of_agents(a))
        if _REQUEST in a:
            return _provider_call(span)
        summed = _sum_of_agents(span)
        if summed is not None:
            return summed
    if "gen_ai.request.model" in a and _has_events(a.get(_EVENTS)):
        return _call(span, _of_events(a))
    if _PARAMETERS in a and text(a, "gen_ai.operation.name") == "chat":
        return _pydantic_call(span)
    return None


def _provider_call(span: Span) -> Telling | None:
    """A request of a wrapped OpenAI or Anthropic client."""
    a = span.attributes
    operation = text(a, "gen_ai.operation.name")
    if operation in _NO_CHAT:
        return _sum(span)  # known, and no prompt of a conversation
    if _has_events(a.get(_EVENTS)):
        return _call(span, _of_events(a))
    body, cut = unpack(a[_REQUEST])
    if not isinstance(body, Mapping):
        return None
    if "messages" in body or (operation == "text_completion" and "prompt" in body):
        return _call(span, _of_body(a, body, cut))
    return _call(span, None) if operation or any(name in a for name in semconv.INPUT) else None


def _pydantic_call(span: Span) -> Telling:
    said = _call(span, None)
    if said.messages is None:
        return said
    if isinstance(said.messages.value, str) and any(s in said.messages.value for s in _SKELETONS):
        return said._replace(reasons=said.reasons | {"not_captured"}, lost=said.lost | {"system", "messages"})
    if _GOOGLE.search(said.provider):
        said = _with_wrapped_results(said)
    places = structure(first(span.attributes, _BREAKPOINTS))
    if isinstance(places, str):
        places = places.split(",")  # as Zipkin's tags hold a list, which JavaScript wrote
    return _with_markers(said, places) if isinstance(places, (list, tuple)) else said


def _sum(span: Span) -> Telling:
    """Who, where and when, and the usage."""
    said = semconv.telling(span, "pydantic", "aggregate", zeros_omitted=True)
    return said._replace(
        tools=None, system=None, messages=None, output=None, reasons=frozenset(), lost=frozenset()
    )


def _call(span: Span, own: _Content | None) -> Telling:
    """The request of ``span``; its content is ``own``, or what the conventions' attributes hold."""
    a = span.attributes
    said = semconv.telling(span, "pydantic", "call", writes_tools=True, zeros_omitted=True)
    said = said._replace(operation=said.operation or "chat", usage=_usage(a, said.usage))
    reasons, lost = set(said.reasons), set(said.lost)
    tools = said.tools or _declared(a.get(_PARAMETERS))
    if tools is not None and said.tools is None:
        lost.discard("tools")
    if own is None:
        return said._replace(tools=tools, reasons=frozenset(reasons), lost=frozenset(lost))
    if own.tools:
        tools = Raw("tools", own.tools)
        reasons.discard("schema_missing")
    lost -= {"system", "messages"}
    if tools is not None or own.tools_recorded:
        lost.discard("tools")
    else:
        reasons.add("schema_missing")
        lost.add("tools")
    if own.messages:
        if not lost:
            reasons.discard("attributes_dropped")
    else:
        reasons.add("not_captured")
        lost.update(("system", "messages"))
    if own.cut:
        reasons.add("value_cut")
        lost.add("messages")
    if own.guessed:
        reasons.add("guessed")
    if own.previous:
        reasons.add("server_side")
        lost.add("head")
    return said._replace(
        response_id=said.response_id or text(own.response, "id"),
        response_model=said.response_model or text(own.response, "model"),
        previous_response_id=said.previous_response_id or own.previous,
        reserve=said.reserve or own.reserve,
        tools=tools,
        system=Raw("system", own.system) if own.system else None,
        messages=Raw("messages", own.messages) if own.messages else None,
        output=Raw("messages", own.output) if own.output else said.output,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


# ---- request bodies


def _of_body(attributes: Mapping[str, Any], body: Mapping[str, Any], cut: bool) -> _Content | None:
    read = read_body(body)
    if read is None:
        return None
    answer = structure(attributes.get("response_data"))
    messages = read.messages.value if read.messages is not None else None
    if isinstance(messages, list) and body.get("cache_control"):
        messages = mark_the_end(messages, body["cache_control"])
    return _Content(
        messages=messages,
        system=read.system.value if read.system is not None else None,
        tools=read.tools.value if read.tools is not None else None,
        output=_spoken(answer) if isinstance(answer, Mapping) else None,
        tools_recorded=not cut,
        cut=cut,
        previous=read.previous_response_id,
        reserve=read.reserve,
    )


def _spoken(response: Mapping[str, Any]) -> list[Any] | None:
    """The message of ``response_data``; a stream's is its text alone."""
    message = response.get("message")
    if isinstance(message, Mapping):
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message = {**message, "tool_calls": [_call_of(c) for c in calls]}
        return [message]
    said = response.get("combined_chunk_content") or response.get("text")
    return [{"role": "assistant", "content": said}] if isinstance(said, str) else None


def _call_of(call: Any) -> Any:
    """A tool call; what Anthropic's has are its arguments in a wrapper ``{"input": …}``, once more as JSON."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    arguments = structure(function.get("arguments"))
    if isinstance(arguments, Mapping) and arguments.keys() == {"input"} and "type" not in call:
        return {**call, "function": {**function, "arguments": arguments["input"]}}
    return call


# ---- lists of events


def _has_events(value: Any) -> bool:
    return isinstance(value, str) and value[:2] == "[{" and '"event.name"' in value and '"gen_ai.' in value


def _of_events(attributes: Mapping[str, Any]) -> _Content:
    """The prompt and, at its end, the answer: as ``gen_ai.choice``, or (Responses) as the assistant messages after the
    last one of another role."""
    events, cut = unpack(attributes[_EVENTS])
    events = [e for e in events if isinstance(e, Mapping)] if isinstance(events, list) else []
    end = len(events)
    if not cut and _is_answered(attributes) and not any(_name(e) == "gen_ai.choice" for e in events):
        while end and events[end - 1].get("role") == "assistant":
            end -= 1
    messages: list[Any] = []
    answers: list[Any] = []
    guessed = False
    for i, event in enumerate(events):
        name = _name(event)
        message = _message(name, event)
        if message is None:
            continue
        if i >= end or event_messages.is_answer(name):
            answers.append(message)
        else:
            messages.append(message)
            guessed = guessed or (name == _UNKNOWN and event.get("role") in (None, "unknown"))
    return _Content(messages=messages, output=answers, cut=cut, guessed=guessed)


def _is_answered(attributes: Mapping[str, Any]) -> bool:
    return bool(text(attributes, "gen_ai.response.id", "gen_ai.usage.output_tokens"))


def _name(event: Mapping[str, Any]) -> str:
    return str(event.get("event.name") or "")


def _message(name: str, event: Mapping[str, Any]) -> dict[str, Any] | None:
    body = {k: v for k, v in event.items() if k != "event.name"}
    if name == _UNKNOWN:  # an item of the Responses API, or a block of one
        item = body.get("data")
        role = body.get("role")
        return {"role": "user" if role in (None, "unknown") else role, "content": [item]} if item else None
    if not event_messages.is_message(name):
        return None
    message = event_messages.message(name, body, {})
    if not isinstance(message, dict):
        return None
    if isinstance(message.get("content"), list):
        message["content"] = [_typed(b) for b in message["content"]]
    return message


def _typed(block: Any) -> Any:
    """Pydantic AI's blocks say ``kind`` for ``type``."""
    if isinstance(block, Mapping) and "kind" in block and "type" not in block:
        return {"type": block["kind"], **{k: v for k, v in block.items() if k != "kind"}}
    return block


# ---- the Agents SDK


def _of_agents(attributes: Mapping[str, Any]) -> _Content:
    """A Responses request as the SDK has it, tools and instructions as the response repeats them; or a Chat request,
    whose tools are nowhere. (``request_data`` and ``events`` have the answer appended.)"""
    if "raw_input" not in attributes:
        return _Content(
            messages=_sent(attributes.get("input")),
            output=structure(attributes.get("output")),
            tools_recorded=False,
        )
    response = structure(attributes.get("response"))
    response = response if isinstance(response, Mapping) else {}
    items = response.get("output")
    tools = response.get("tools")
    return _Content(
        messages=_sent(attributes["raw_input"]),
        system=response.get("instructions"),
        tools=[_as_sent(t) for t in tools] if isinstance(tools, list) else None,
        output=items if isinstance(items, list) else None,
        tools_recorded=bool(response),
        previous=text(response, "previous_response_id"),
        reserve=number(response, "max_output_tokens"),
        response=response,
    )


def _sent(messages: Any) -> Any:
    """``messages`` as they are, None where sensitive data are switched off."""
    return None if messages in ("null", "[]") else messages


def _as_sent(tool: Any) -> Any:
    """A definition without the settings that the response adds as null."""
    return {k: v for k, v in tool.items() if v is not None} if isinstance(tool, Mapping) else tool


def _sum_of_agents(span: Span) -> Telling | None:
    """A run, a turn, an agent: whose calls those below are."""
    a = span.attributes
    if "agent_trace_id" in a:
        thread = text(a, "group_id")
        return _sum(span)._replace(conversation_hint=thread) if thread else None
    if text(a, "sdk_span_type") in _SUMS:
        return _sum(span)._replace(agent=text(a, "agent_name"), usage=_usage(a, None))
    if "handoffs" in a and "output_type" in a:
        return _sum(span)._replace(agent=text(a, "name"))
    return None


# ---- Pydantic AI


def _declared(parameters: Any) -> Raw | None:
    """The tools among the request's parameters, for versions that do not write ``gen_ai.tool.definitions``."""
    parameters = structure(parameters)
    if not isinstance(parameters, Mapping):
        return None
    tools: list[Any] = []
    for name in ("function_tools", "output_tools"):
        declared = parameters.get(name)
        for tool in declared if isinstance(declared, list) else ():
            if isinstance(tool, Mapping) and tool.get("name"):
                description = {"description": tool["description"]} if tool.get("description") else {}
                schema = {"parameters": tool.get("parameters_json_schema")}
                tools.append({"type": "function", "name": tool["name"], **description, **schema})
    return Raw("tools", tools) if tools else None


def _with_wrapped_results(said: Telling) -> Telling:
    """Gemini's results are objects: what is none is sent as ``{"return_value": …}``, but recorded bare."""
    messages = structure(said.messages.value) if said.messages is not None else None
    if not isinstance(messages, list):
        return said
    return said._replace(messages=Raw("messages", [_wrapped(m) for m in messages]))


def _wrapped(message: Any) -> Any:
    parts = message.get("parts") if isinstance(message, Mapping) else None
    if not isinstance(parts, list) or not any(map(_is_bare_result, parts)):
        return message
    return {
        **message,
        "parts": [{**p, "result": {"return_value": p["result"]}} if _is_bare_result(p) else p for p in parts],
    }


def _is_bare_result(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and part.get("type") == "tool_call_response"
        and "result" in part
        and not isinstance(part["result"], Mapping)
    )


def _with_markers(said: Telling, places: list[Any] | tuple[Any, ...]) -> Telling:
    """``said`` with the breakpoints that Pydantic AI set, at their places in the request. Their TTL is not told."""
    sections: dict[str, Any] = {}
    for name in ("tools", "system", "messages"):
        raw: Raw | None = getattr(said, name)
        sections[name] = structure(raw.value) if raw is not None else None
    spoken = _spoken_messages(sections["messages"])
    for place in places:
        found = _PLACE.fullmatch(str(place))
        if found is None:
            continue
        name, index, inner = found[1], int(found[2]), int(found[3] or 0)
        if name != "messages":
            _mark(sections[name], index)
        elif index < len(spoken):
            _mark(spoken[index]["parts"], inner)
    raws = {name: Raw(name, value) for name, value in sections.items() if isinstance(value, list)}
    return said._replace(
        tools=raws.get("tools", said.tools),
        system=raws.get("system", said.system),
        messages=raws.get("messages", said.messages),
    )


def _spoken_messages(messages: Any) -> list[dict[str, Any]]:
    """The messages as the request counts them: without system messages. None where two of one side follow each other:
    whether they were sent as one is not known."""
    if not isinstance(messages, list):
        return []
    spoken = [m for m in messages if isinstance(m, dict) and m.get("role") != "system"]
    sides = [m.get("role") == "assistant" for m in spoken]
    alternate = all(a != b for a, b in pairwise(sides))
    return spoken if alternate and all(isinstance(m.get("parts"), list) for m in spoken) else []


def _mark(blocks: Any, index: int) -> None:
    if isinstance(blocks, list) and index < len(blocks) and isinstance(blocks[index], dict):
        blocks[index] = {**blocks[index], "cache_control": {"type": "ephemeral"}}


# ---- usage


def _usage(attributes: Mapping[str, Any], said: UsageClaim | None) -> UsageClaim | None:
    """``said`` with what only the provider's own usage tells: zeros, the split by TTL, what the Agents SDK's Chat spans
    have nowhere else."""
    raw = read_usage(structure(first(attributes, "gen_ai.usage.raw", "usage")))
    if raw is None:
        flat = structure(attributes.get("usage"))
        return said if said is not None or not isinstance(flat, Mapping) else _flat(flat)
    if said is None:
        return raw
    claim = filled(said, raw)
    cached = (raw.cache_read or 0) + (raw.cache_write or 0)
    if claim.semantics or not cached or claim.input is None or raw.input is None:
        return claim
    if claim.input == raw.input + (cached if raw.semantics == "exclusive" else 0):
        return claim._replace(semantics="inclusive", semantics_evidence="the provider's usage beside it")
    if claim.input == raw.input:
        return claim._replace(semantics=raw.semantics, semantics_evidence="the provider's usage beside it")
    return claim


def _flat(usage: Mapping[str, Any]) -> UsageClaim | None:
    """The Agents SDK's sums over a turn or a task."""
    if "input_tokens" not in usage:
        return None
    return UsageClaim(
        input=number(usage, "input_tokens"),
        output=number(usage, "output_tokens"),
        cache_read=number(usage, "cached_input_tokens"),
        cache_write=number(usage, "cache_write_input_tokens"),
        total=number(usage, "total_tokens"),
        semantics="inclusive",
        semantics_evidence="the SDK sums Responses' and Chat's usage, which include cached tokens",
    )
