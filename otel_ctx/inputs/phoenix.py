"""Phoenix: spans of its REST API (``/v1/projects/…/spans`` and ``…/otlpv1``) and rows of its span dataframe, as JSON or out
of a table.

Source: phoenix 20's insertion and API code. Phoenix nests attributes by the dots in their names and flattens them again, in
the API with indices, in a dataframe down to columns; nulls in a row belong to other rows. To a span of the GenAI
conventions it adds its own words for the same things (``llm.*``): they are taken off, where the span
had none itself. Scope, resource and links are lost, times are cut to microseconds or milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from otel_ctx.inputs.fields import (
    ODD,
    dict_of,
    events_of,
    ids_of,
    list_of,
    note,
    status_code,
    text_of,
    time_of,
)
from otel_ctx.inputs.interface import JsonFormat, Records, Skipped
from otel_ctx.model import Span

_TRACES = "a list of traces, without the attributes of their spans: take /v1/projects/…/spans"
_ID, _TRACE = "context.span_id", "context.trace_id"
_COLUMN = "attributes."
_KIND = "openinference.span.kind"
# Attributes that hold nested values in the GenAI conventions, and JSON in OpenInference: nested again.
_NESTED = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
)
_JSON = ("metadata",)
_LIMIT = 128  # attributes of a span, where nobody sets another
_COUNTED = ("llm.input_messages.", "gen_ai.prompt.")  # in indices
# What Phoenix makes of gen_ai attributes.
_MADE = (
    "llm.provider", "llm.system", "llm.model_name", "llm.invocation_parameters", "llm.finish_reason", "output.value",
    "output.mime_type",
)  # fmt: skip
_MADE_BELOW = ("llm.token_count.", "llm.input_messages.", "llm.output_messages.", "llm.tools.")


def _is_span(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    return (
        ("span_kind" in document and isinstance(document.get("context"), dict))
        or _is_trace(document)
        or _is_otlp(document)
    )


def _is_trace(document: dict[str, Any]) -> bool:
    return "project_id" in document and "trace_id" in document


def _is_otlp(document: dict[str, Any]) -> bool:
    """OTLP's names in snake case, and each value with all the types that it has not."""
    pairs = document.get("attributes")
    if (
        not isinstance(pairs, list)
        or not pairs
        or "span_id" not in document
        or not isinstance(pairs[0], dict)
    ):
        return False
    value = pairs[0].get("value")
    return isinstance(value, dict) and {"string_value", "array_value", "kvlist_value"} <= value.keys()


def _is_row(document: Any) -> bool:
    return isinstance(document, dict) and (_ID in document or _TRACE in document)


def _decode_span(document: Any, where: str, skipped: list[Skipped]) -> Records:
    if _is_trace(document):
        skipped.append(Skipped(where, _TRACES))
        return Records()
    try:
        if _is_otlp(document):
            return Records([_otlp_span(document, where)])
        context = document["context"]
        attributes = dict(_flat("", dict_of(document, "attributes")))
        return Records([_span(document, context, attributes, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


def _decode_row(document: Any, where: str, skipped: list[Skipped]) -> Records:
    try:
        ids = {"trace_id": document.get(_TRACE), "span_id": document.get(_ID)}
        columns = ((key[len(_COLUMN) :], value) for key, value in document.items() if key.startswith(_COLUMN))
        attributes = {k: v for key, value in columns for k, v in _flat(key, value)}
        return Records([_span(document, ids, attributes, where)])
    except ODD as error:
        note(skipped, where, "", error)
        return Records()


def _span(
    span: Mapping[str, Any], context: Mapping[str, Any], attributes: dict[str, Any], where: str
) -> Span:
    trace_id, span_id, parent_id = ids_of(
        {**context, "parent_id": span.get("parent_id")}, "trace_id", "span_id", "parent_id"
    )
    kind = text_of(span, "span_kind")
    if kind and kind != "UNKNOWN":
        attributes.setdefault(_KIND, kind)
    _take_off(attributes)
    if len(attributes) == _LIMIT:
        attributes = {_later(key): value for key, value in attributes.items()}
    for prefix in (*_NESTED, *_JSON):
        _nest(attributes, prefix)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=text_of(span, "name"),
        start_unix_nano=time_of(span, "start_time"),
        end_unix_nano=time_of(span, "end_time"),
        attributes=attributes,
        events=events_of(span),
        status_code=status_code(span.get("status_code")),
        status_message=text_of(span, "status_message"),
        where=where,
    )


def _otlp_span(span: Mapping[str, Any], where: str) -> Span:
    status = dict_of(span, "status")
    plain = {
        "name": span.get("name"),
        "parent_id": span.get("parent_span_id"),
        "start_time": span.get("start_time_unix_nano"),
        "end_time": span.get("end_time_unix_nano"),
        "status_code": status.get("code"),
        "status_message": status.get("message"),
        "events": [
            {
                "name": e.get("name"),
                "timestamp": e.get("time_unix_nano"),
                "attributes": _values(e.get("attributes")),
            }
            for e in list_of(span.get("events"))
        ],
    }
    return _span(plain, span, _values(span.get("attributes")), where)


def _values(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value")) for pair in list_of(pairs)}


def _value(value: Any) -> Any:
    held = next((v for v in value.values() if v is not None), None) if value else None
    return [_value(item) for item in list_of(held.get("values"))] if isinstance(held, dict) else held


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes that ``value`` was made of. What is missing in a row is null or NaN."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}" if key else name, inner)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _flat(f"{key}.{i}", item)
    elif isinstance(value, float) and value.is_integer():
        yield key, int(value)  # a column with gaps is one of floats
    elif value is not None and not (isinstance(value, float) and math.isnan(value)):
        yield key, value


def _take_off(attributes: dict[str, Any]) -> None:
    """The words of OpenInference, where Phoenix itself has made them out of the GenAI conventions'. A library of
    OpenInference that writes both has recorded its input."""
    if "input.value" in attributes or not any(key.startswith("gen_ai.") for key in attributes):
        return
    for key in [key for key in attributes if key in _MADE or key.startswith(_MADE_BELOW) or key == _KIND]:
        del attributes[key]


def _later(key: str) -> str:
    """Phoenix counts what is left from 0 again. Of a span that is full to its limit, the first message is not the first."""
    for prefix in _COUNTED:
        if key.startswith(prefix):
            index, dot, rest = key[len(prefix) :].partition(".")
            if _is_index(index):
                return f"{prefix}{int(index) + 1}{dot}{rest}"
    return key


def _nest(attributes: dict[str, Any], prefix: str) -> None:
    """Put what stands below ``prefix`` back into one nested value."""
    size = len(prefix) + 1
    below = [
        key
        for key in attributes
        if key.startswith(f"{prefix}.") and (_is_index(key[size:].partition(".")[0]) or prefix in _JSON)
    ]
    if not below or prefix in attributes:
        return
    root: dict[str, Any] = {}
    for key in below:
        *steps, last = key[size:].split(".")
        node = root
        for step in steps:
            if not isinstance(node.get(step), dict):
                node[step] = {}
            node = node[step]
        node[last] = attributes.pop(key)
    attributes[prefix] = _listed(root)


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if all(map(_is_index, node)):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(value) for key, value in node.items()}


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 7


SPANS = JsonFormat("phoenix", _is_span, _decode_span)
ROWS = JsonFormat("phoenix-dataframe", _is_row, _decode_row)
