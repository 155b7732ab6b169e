"""What Phoenix answers with: spans of its REST API in two forms, and its span dataframe.

It nests attributes by the dots in their names, adds OpenInference's words to spans of the GenAI conventions, and
flattens all that again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_ctx.model import LogRecord, Span
from tests.writers.stores import CODES, iso

Json = dict[str, Any]
_KIND = "openinference.span.kind"
_KINDS = {
    "chat": "LLM",
    "text_completion": "LLM",
    "generate_content": "LLM",
    "execute_tool": "TOOL",
    "invoke_agent": "AGENT",
}
_LISTS = ("llm.input_messages", "llm.output_messages", "llm.tools")
_INNER = {"message", "tool_call", "message_content", "tool"}


def _ingested(span: Span) -> Json:
    """The attributes as they lie in Phoenix, flat again: an index counts what is there."""
    attributes = dict(span.attributes)
    if "metadata" in attributes:
        attributes["metadata"] = json.loads(attributes["metadata"])
    root: Json = {}
    for key, value in _flat("", {**_openinference(attributes), **attributes}):
        _put(root, key.split("."), value)
    return dict(_flat("", _listed(root)))


def _openinference(a: Mapping[str, Any]) -> Json:
    """The part of phoenix/trace/gen_ai/conversion.py that concerns prompts and usage."""
    if not any(key.startswith("gen_ai.") for key in a):
        return {}
    made: Json = {}
    operation = a.get("gen_ai.operation.name")
    kind = _KINDS.get(operation) if operation else "LLM" if a.get("gen_ai.request.model") else None
    if kind:
        made[_KIND] = kind
    provider = a.get("gen_ai.provider.name") or a.get("gen_ai.system")
    pairs = (
        ("llm.provider", provider),
        ("llm.system", provider),
        ("llm.model_name", a.get("gen_ai.request.model")),
        ("session.id", a.get("gen_ai.conversation.id")),
        ("llm.token_count.prompt", a.get("gen_ai.usage.input_tokens")),
        ("llm.token_count.completion", a.get("gen_ai.usage.output_tokens")),
        ("llm.token_count.prompt_details.cache_read", a.get("gen_ai.usage.cache_read.input_tokens")),
    )
    made |= {key: value for key, value in pairs if value is not None}
    messages = [{"role": "system", "parts": s}] if (s := _loaded(a.get("gen_ai.system_instructions"))) else []
    messages += _loaded(a.get("gen_ai.input.messages")) or []
    for name, listed in (("input", messages), ("output", _loaded(a.get("gen_ai.output.messages")) or [])):
        for i, message in enumerate(listed):
            made[f"llm.{name}_messages.{i}.message.role"] = message.get("role")
            texts = [
                p.get("content")
                for p in message.get("parts") or []
                if isinstance(p, dict) and p.get("type") == "text"
            ]
            if texts:
                made[f"llm.{name}_messages.{i}.message.content"] = texts[0]
    for i, tool in enumerate(_loaded(a.get("gen_ai.tool.definitions")) or []):
        made[f"llm.tools.{i}.tool.json_schema"] = json.dumps({"type": "function", "function": tool})
    if a.get("gen_ai.response.id"):
        made["output.value"] = json.dumps({"id": a["gen_ai.response.id"]})
        made["output.mime_type"] = "application/json"
    return made


def _loaded(value: Any) -> Any:
    """Phoenix leaves out what it cannot parse."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _flat(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(f"{key}.{name}" if key else name, item)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for i, item in enumerate(value):
            yield from _flat(f"{key}.{i}", item)
    elif value is not None:
        yield key, value.hex() if isinstance(value, bytes) else value


def _micro(nanos: int) -> str:
    return iso(nanos)[:26] + "+00:00"


def spans(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    data = []
    for span in spans:
        attributes = dict(_flat("", _ingested(span)))
        data.append(
            {
                "id": "U3Bhbjo1",
                "name": span.name,
                "context": {"trace_id": span.trace_id, "span_id": span.span_id},
                "span_kind": attributes.pop(_KIND, "UNKNOWN"),
                "parent_id": span.parent_id or None,
                "start_time": _micro(span.start_unix_nano),
                "end_time": _micro(span.end_unix_nano),
                "status_code": CODES[span.status_code],
                "status_message": span.status_message,
                "attributes": attributes,
                "events": _events(span),
            }
        )
    return json.dumps({"data": data, "next_cursor": None}).encode()


def _events(span: Span) -> list[Json]:
    return [
        {"name": e.name, "timestamp": _micro(e.time_unix_nano), "attributes": dict(_flat("", e.attributes))}
        for e in span.events
    ]


_NULLS = dict.fromkeys(
    ("array_value", "bool_value", "bytes_value", "double_value", "int_value", "kvlist_value", "string_value")
)


def _any(value: Any) -> Json:
    if isinstance(value, bool):
        return {**_NULLS, "bool_value": value}
    if isinstance(value, int):
        return {**_NULLS, "int_value": value}
    if isinstance(value, float):
        return {**_NULLS, "double_value": value}
    if isinstance(value, list):
        return {**_NULLS, "array_value": {"values": [_any(item) for item in value]}}
    return {**_NULLS, "string_value": value}


def _pairs(attributes: Mapping[str, Any]) -> list[Json]:
    return [{"key": key, "value": _any(value)} for key, value in attributes.items()]


def otlpv1(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    data = [
        {
            "attributes": _pairs(dict(_flat("", _ingested(span)))),
            "dropped_attributes_count": None,
            "dropped_events_count": None,
            "dropped_links_count": None,
            "end_time_unix_nano": span.end_unix_nano,
            "events": [
                {
                    "name": e.name,
                    "time_unix_nano": e.time_unix_nano,
                    "attributes": _pairs(dict(_flat("", e.attributes))),
                    "dropped_attributes_count": None,
                }
                for e in span.events
            ]
            or None,
            "flags": None,
            "kind": "SPAN_KIND_INTERNAL",
            "links": None,
            "name": span.name,
            "parent_span_id": span.parent_id or None,
            "span_id": span.span_id,
            "start_time_unix_nano": span.start_unix_nano,
            "status": {"code": span.status_code, "message": span.status_message or None},
            "trace_id": span.trace_id,
            "trace_state": None,
        }
        for span in spans
    ]
    return json.dumps({"data": data, "next_cursor": None}).encode()


# ---- the dataframe


def _columns(attributes: Mapping[str, Any]) -> Json:
    """OpenInference's names are columns, their lists hold objects; everything else is nested below its first word."""
    columns: Json = {}
    for key, value in _flat("", attributes):
        prefix = next((p for p in _LISTS if key.startswith(f"{p}.")), "")
        if prefix:
            _put_column(columns.setdefault(prefix, {}), key[len(prefix) + 1 :].split("."), value)
        elif key.split(".")[0] in (
            "llm",
            "input",
            "output",
            "openinference",
            "session",
            "user",
            "tag",
            "tool",
            "agent",
            "graph",
        ):
            columns[key] = value
        else:
            first, _, rest = key.partition(".")
            if not rest:
                columns[first] = value
            else:
                _put(columns.setdefault(first, {}), rest.split("."), value)
    return {key: _listed(value) for key, value in columns.items()}


def _put_column(node: Any, steps: list[str], value: Any) -> None:
    *path, _ = steps
    if path and path[0].isdigit() and len(steps) > 1 and steps[1] in _INNER and len(steps) > 2:
        # message.role stays one key
        node = node.setdefault(path[0], {})
        rest = steps[2:]
        nested = next((i for i, step in enumerate(rest) if step.isdigit()), None)
        if nested is None:
            node[".".join(steps[1:])] = value
        else:
            _put_column(node.setdefault(".".join([steps[1], *rest[:nested]]), {}), rest[nested:], value)
        return
    _put(node, steps, value)


def _put(node: Any, steps: list[str], value: Any) -> None:
    *path, last = steps
    for at, step in enumerate(path):
        if step in node and not isinstance(node[step], dict):
            node[".".join(steps[at:])] = value  # a value and what stands below its name
            return
        node = node.setdefault(step, {})
    if isinstance(node.get(last), dict):
        below = node.pop(last)
        node |= {f"{last}.{key}": item for key, item in below.items()}
    node[last] = value


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isdigit() and isinstance(item, dict) for key, item in node.items()):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(item) for key, item in node.items()}


def _rows(spans: Sequence[Span]) -> list[Json]:
    rows = [
        {
            "name": span.name,
            "span_kind": _ingested(span).get(_KIND, "UNKNOWN"),
            "parent_id": span.parent_id or None,
            "start_time": iso(span.start_unix_nano)[:23] + "Z",
            "end_time": iso(span.end_unix_nano)[:23] + "Z",
            "status_code": CODES[span.status_code],
            "status_message": span.status_message,
            "events": _events(span),
            "context.span_id": span.span_id,
            "context.trace_id": span.trace_id,
            **{f"attributes.{key}": value for key, value in _columns(_ingested(span)).items()},
        }
        for span in spans
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    gaps = {n for n in names if any(row.get(n) is None for row in rows)}
    return [{name: _column(row.get(name), name in gaps) for name in names} for row in rows]


def _column(value: Any, gaps: bool) -> Any:
    """A column of numbers with gaps is one of floats."""
    return float(value) if gaps and isinstance(value, int) and not isinstance(value, bool) else value


def frame_records(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    return json.dumps(_rows(spans)).encode()


def frame_lines(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """``to_json(lines=True)`` without ``date_format``: times are milliseconds."""
    rows = _rows(spans)
    for row, span in zip(rows, spans, strict=True):
        row["start_time"], row["end_time"] = span.start_unix_nano // 10**6, span.end_unix_nano // 10**6
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def frame_parquet(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """Without the column ``attributes.gen_ai``, whose mixture of types no table can hold."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [_shown({k: v for k, v in row.items() if k != "attributes.gen_ai"}) for row in _rows(spans)]
    for row, span in zip(rows, spans, strict=True):
        row["start_time"], row["end_time"] = (
            pa.scalar(at // 1000 * 1000, pa.timestamp("ns", "UTC"))
            for at in (span.start_unix_nano, span.end_unix_nano)
        )
    out = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def _shown(value: Any) -> Any:
    """Parquet has no object without fields."""
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()} or None
    return [_shown(item) for item in value] if isinstance(value, list) else value
