"""Langfuse: the download of a trace, and observations as its API and its exports write them.

Source: langfuse's OpenTelemetry ingestion and public API. A span of Langfuse's own SDK becomes an observation whose fields
are its attributes. Of any other span Langfuse keeps the attributes as texts in the metadata, but those that hold its
input and output: they are the fields ``input`` and ``output``, and go back to where that span had them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    SPAN_ID,
    TRACE_ID,
    MalformedError,
    id_of_text,
    note,
    text_of,
    time_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Cut, Event, Span

_TYPES = frozenset("GENERATION SPAN EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split())
_TRACES = "a list of traces, without their observations: take /api/public/observations"
_OWN = "langfuse.observation."
_FIELDS = (
    ("input", "input"),
    ("output", "output"),
    ("model.name", "model"),
    ("model.name", "providedModelName"),
    ("model.parameters", "modelParameters"),
    ("usage_details", "usage"),
    ("usage_details", "usageDetails"),
    ("completion_start_time", "completionStartTime"),
    ("level", "level"),
    ("status_message", "statusMessage"),
)
_OF_A_MESSAGE = re.compile(r"messages\.\d+\.").search
_BESIDE = frozenset({"attributes", "resourceAttributes", "scope"})  # in the metadata, of the span itself
_AI_SDK = "ai"  # its scope
# Of OpenInference's flat messages the one that the input does not repeat.
_LEFT_OUT = "llm.input_messages.system"


def _is_observation(document: dict[str, Any]) -> bool:
    kind = document.get("type")
    return "traceId" in document and (
        "parentObservationId" in document or (isinstance(kind, str) and kind in _TYPES)
    )


def claims(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    return _is_observation(document) or isinstance(_observations(document), list)


def decode(document: Any, where: str, skipped: list[Skipped]) -> Records:
    if _is_observation(document):
        return Records(list(_spans([document], {}, "", where, skipped)))
    trace = document["trace"] if isinstance(document.get("trace"), dict) else document
    found = _observations(document)
    if any(isinstance(item, str) for item in found):
        skipped.append(Skipped(where, _TRACES))
        return Records()
    return Records(list(_spans(found, trace, "observations", where, skipped)))


def _observations(document: dict[str, Any]) -> Any:
    found = document.get("observations")
    trace = document.get("trace")
    return trace.get("observations") if not found and isinstance(trace, dict) else found


def _spans(
    observations: list[Any], trace: Mapping[str, Any], path: str, where: str, skipped: list[Skipped]
) -> Iterator[Span]:
    for i, observation in enumerate(observations):
        try:
            span = _span(observation, trace, where)
        except ODD as error:
            note(skipped, where, f"{path}[{i}]" if path else "", error)
        else:
            yield span


def _span(observation: dict[str, Any], trace: Mapping[str, Any], where: str) -> Span:
    trace_id = _id(observation.get("traceId") or trace.get("id"), TRACE_ID)
    span_id = _id(observation.get("id"), SPAN_ID)
    if not (trace_id and span_id):
        raise MalformedError("no traceId" if not trace_id else "no id")
    metadata = _mapping(observation.get("metadata"))
    scope = _mapping(metadata.get("scope"))
    attributes = _mapping(metadata.get("attributes"))
    events = _put_back(attributes, observation, text_of(scope, "name")) if attributes else None
    if events is None:
        attributes.update(_own(observation, metadata))
    if session := observation.get("sessionId") or trace.get("sessionId"):
        attributes.setdefault("session.id", session)
    failed = observation.get("level") == "ERROR"
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(observation.get("parentObservationId"), SPAN_ID),
        name=text_of(observation, "name"),
        start_unix_nano=time_of(observation, "startTime"),
        end_unix_nano=time_of(observation, "endTime"),
        attributes=attributes,
        events=events or (),
        scope_name=text_of(scope, "name"),
        scope_version=text_of(scope, "version"),
        resource=_mapping(metadata.get("resourceAttributes")),
        status_code=2 if failed else 0,
        status_message=text_of(observation, "statusMessage"),
        cut=_cut(attributes),
        where=where,
    )


def _id(value: Any, size: int) -> str:
    """OpenTelemetry's; any other name (older SDKs: a UUID, or the application's own) by a hash of it."""
    try:
        return id_of_text(value, size)
    except ValueError:
        if not isinstance(value, str):
            raise
        return blake2b(value.encode(errors="replace"), digest_size=size).hexdigest()


def _own(observation: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that Langfuse's SDK makes these fields of."""
    attributes = {f"{_OWN}type": text_of(observation, "type").lower()}
    for name, field in _FIELDS:
        if observation.get(field) not in (None, "", {}):
            attributes[_OWN + name] = observation[field]
    for name, value in metadata.items():
        if name not in _BESIDE:
            attributes[f"{_OWN}metadata.{name}"] = value
    return attributes


def _put_back(
    attributes: dict[str, Any], observation: Mapping[str, Any], scope: str
) -> tuple[Event, ...] | None:
    """Give a span of another library its input and output back: the events that held them, mostly none. None where it
    is not known where they came from."""
    given, answer = _parsed(observation.get("input")), _parsed(observation.get("output"))
    if given is None and answer is None:
        return ()
    said = given if given is not None else answer
    if scope == _AI_SDK:
        names = ("ai.prompt.messages" if _is_list(given) else "ai.prompt", "ai.response.text")
        if isinstance(answer, dict) and "tool_calls" in answer:
            attributes["ai.response.toolCalls"] = answer["tool_calls"]
            answer = answer.get("content")
    elif "openinference.span.kind" in attributes:
        if _have(said, "message"):
            _spread(attributes, "llm.input_messages", given)
            _spread(attributes, "llm.output_messages", answer)
            return ()
        if given is not None:
            # there were flat ones too, which Langfuse has left out: without any, they would have been hidden on purpose
            attributes["llm.input_messages.0.message.role"] = "user"
        names = ("input.value", "output.value")
    elif any(key.startswith("langsmith.") for key in attributes):
        names = ("gen_ai.prompt", "gen_ai.completion")
    elif _have(given, "event.name"):
        given, names = [*given, *([answer] if isinstance(answer, dict) else ())], ("events", "")
    elif _have(said, "parts"):
        names = ("gen_ai.input.messages", "gen_ai.output.messages")
    elif isinstance(given, str) and any(map(_OF_A_MESSAGE, attributes)):
        names = ("input.value", "output.value")  # a text of what these say whole
    elif not _have(given, "role") or not any(key.startswith("gen_ai.") for key in attributes):
        return None
    elif "llm.request.type" in attributes or any(key.startswith("traceloop.") for key in attributes):
        _spread(attributes, "gen_ai.prompt", given)
        _spread(attributes, "gen_ai.completion", answer)
        return ()
    else:
        answers = answer if isinstance(answer, list) else [answer]
        return (
            *(_event(f"gen_ai.{message.get('role')}.message", message) for message in given),
            *(_event("gen_ai.choice", a) for a in answers if isinstance(a, dict)),
        )
    for name, value in zip(names, (given, answer), strict=True):
        if name and value is not None:
            attributes[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ()


def _cut(attributes: Mapping[str, Any]) -> Cut | None:
    """An OpenInference input that is a list of messages and no whole request (Bedrock's) has the system prompt beside it,
    in the flat messages: they are gone."""
    given = attributes.get("input.value")
    if "openinference.span.kind" not in attributes or not _have(_parsed(given), "role"):
        return None
    roles = {m.get("role") for m in _parsed(given)} if isinstance(_parsed(given), list) else set()
    return None if roles & {"system", "developer"} else Cut("langfuse", frozenset({_LEFT_OUT}))


def _event(name: str, message: Mapping[str, Any]) -> Event:
    return Event(
        name, 0, {key: value for key, value in message.items() if key != "role" and value is not None}
    )


def _is_list(value: Any) -> bool:
    """A list, or a text of one that was cut."""
    return isinstance(value, list) or (isinstance(value, str) and value[:1] == "[")


def _have(messages: Any, key: str) -> bool:
    """Is it a list of objects, the first with this key? Of a text that was cut: does it look so?"""
    if isinstance(messages, str):
        return _is_list(messages) and f'"{key}"' in messages
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(message, dict) for message in messages)
        and key in messages[0]
    )


def _spread(attributes: dict[str, Any], prefix: str, value: Any) -> None:
    """Nested values as attributes with indices."""
    if isinstance(value, (dict, list)) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _spread(attributes, f"{prefix}.{key}", inner)
    elif value is not None:
        attributes[prefix] = value


def _parsed(value: Any) -> Any:
    """A text of JSON as what it holds; the API has parsed it already, an export has not."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _mapping(value: Any) -> dict[str, Any]:
    found = _parsed(value)
    return dict(found) if isinstance(found, dict) else {}


FORMAT = JsonFormat("langfuse", claims, decode)
