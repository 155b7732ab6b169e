"""What Langfuse makes of spans: observations, as the download of a trace, the API and an export write them.

After packages/shared/src/server/otel/OtelIngestionProcessor.ts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from otel_ctx.model import LogRecord, Span
from tests.writers.stores import iso, traces

Json = dict[str, Any]
_OWN = "langfuse.observation."
_CONTENTS = (
    "langfuse.observation.input", "langfuse.observation.output", "langfuse.trace.input", "langfuse.trace.output",
    "ai.prompt.messages", "ai.prompt", "ai.response.text", "ai.response.toolCalls", "ai.response.object",
    "traceloop.entity.input", "traceloop.entity.output", "input.value", "output.value", "gen_ai.input.messages",
    "gen_ai.output.messages", "events", "all_messages_events", "pydantic_ai.all_messages", "final_result",
)  # fmt: skip
_BEGIN = ("gen_ai.prompt", "gen_ai.completion", "llm.input_messages", "llm.output_messages")
_EVENT = re.compile(r"gen_ai\.(?:(system|user|assistant|tool)\.message|choice)")
_CALLS = frozenset({"chat", "text_completion", "generate_content"})


def _observation(span: Span) -> Json:
    a = {k: v.hex() if isinstance(v, bytes) else v for k, v in span.attributes.items()}
    own = span.scope_name.startswith("langfuse-sdk")
    filtered = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in a.items()
        if key not in _CONTENTS and not key.startswith(_BEGIN)
    }
    given, answer = _contents(span, a)
    metadata = {
        **{k[len(_OWN) + 9 :]: _loaded(v) for k, v in a.items() if k.startswith(f"{_OWN}metadata.")},
        **({} if own else {"attributes": filtered}),
        "resourceAttributes": dict(span.resource),
        "scope": {"name": span.scope_name, "version": span.scope_version, "attributes": {}},
    }
    return {
        "id": span.span_id,
        "traceId": span.trace_id,
        "parentObservationId": span.parent_id or None,
        "type": _type(a),
        "name": a.get("gen_ai.tool.name") or span.name,
        "startTime": iso(span.start_unix_nano)[:23] + "Z",
        "endTime": iso(span.end_unix_nano)[:23] + "Z",
        "completionStartTime": _loaded(a.get(f"{_OWN}completion_start_time")),
        "model": a.get(f"{_OWN}model.name")
        or a.get("gen_ai.response.model")
        or a.get("gen_ai.request.model"),
        "modelParameters": _loaded(a.get(f"{_OWN}model.parameters")) or {},
        "input": _loaded(given),
        "output": _loaded(answer),
        "metadata": metadata,
        "level": a.get(f"{_OWN}level") or ("ERROR" if span.status_code == 2 else "DEFAULT"),
        "statusMessage": a.get(f"{_OWN}status_message") or span.status_message or None,
        "usageDetails": _loaded(a.get(f"{_OWN}usage_details")) or {},
    }


def _type(a: Json) -> str:
    if kind := a.get(f"{_OWN}type"):
        return str(kind).upper()
    if a.get("gen_ai.operation.name") in _CALLS or a.get("openinference.span.kind") == "LLM":
        return "GENERATION"
    return "GENERATION" if "gen_ai.request.model" in a else "SPAN"


def _contents(span: Span, a: Json) -> tuple[Any, Any]:
    if f"{_OWN}input" in a or f"{_OWN}output" in a:
        return a.get(f"{_OWN}input"), a.get(f"{_OWN}output")
    if any(_EVENT.fullmatch(e.name) for e in span.events):
        said = [
            {"role": match[1], **e.attributes}
            for e in span.events
            if (match := _EVENT.fullmatch(e.name)) and match[1]
        ]
        answers = [dict(e.attributes) for e in span.events if e.name == "gen_ai.choice"]
        return said or None, answers[0] if len(answers) == 1 else answers or None
    if span.scope_name == "ai":
        text, calls = a.get("ai.response.text"), a.get("ai.response.toolCalls")
        answer = (
            {"role": "assistant", "content": text, "tool_calls": calls} if text and calls else text or calls
        )
        return a.get("ai.prompt.messages") or a.get("ai.prompt"), answer
    if isinstance(events := _loaded(a.get("events")), list):
        said = [e for e in events if e.get("event.name") != "gen_ai.choice"]
        answer = next((e for e in events if e.get("event.name") == "gen_ai.choice"), None)
        return said or None, answer
    for names in (("traceloop.entity.input", "traceloop.entity.output"), ("input.value", "output.value")):
        if a.get(names[0]) or a.get(names[1]):
            return a.get(names[0]), a.get(names[1])
    for prefixes in (("gen_ai.prompt", "gen_ai.completion"), ("llm.input_messages", "llm.output_messages")):
        found = [_nested(a, prefix) for prefix in prefixes]
        if any(found):
            return found[0], found[1]
    return a.get("gen_ai.input.messages"), a.get("gen_ai.output.messages")


def _nested(a: Json, prefix: str) -> Any:
    if prefix in a:
        return a[prefix]
    root: Json = {}
    for key, value in a.items():
        if key.startswith(f"{prefix}."):
            node = root
            *path, last = key[len(prefix) + 1 :].split(".")
            for step in path:
                node = node.setdefault(step, {})
            node[last] = value
    return _listed(root) or None


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isdigit() for key in node):
        return [_listed(node[key]) for key in sorted(node, key=int)]
    return {key: _listed(item) for key, item in node.items()}


def _loaded(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _session(spans: Sequence[Span]) -> Any:
    return next((s.attributes["session.id"] for s in spans if "session.id" in s.attributes), None)


def trace(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """A download of the user interface for each trace."""
    documents = [
        {
            "trace": {"id": group[0].trace_id, "name": group[0].name, "sessionId": _session(group)},
            "observations": [_observation(span) for span in group],
        }
        for group in traces(spans)
    ]
    return "".join(json.dumps(document) + "\n" for document in documents).encode()


def observations(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    data = [_observation(span) for span in spans]
    return json.dumps({"data": data, "meta": {"page": 1, "totalPages": 1}}).encode()


def export(spans: Sequence[Span], logs: Sequence[LogRecord]) -> bytes:
    """An export of the table: a line each, nested values as texts."""
    rows = []
    for span in spans:
        row = _observation(span)
        for field in ("input", "output", "metadata"):
            if isinstance(row[field], (dict, list)):
                row[field] = json.dumps(row[field])
        rows.append(json.dumps(row) + "\n")
    return "".join(rows).encode()
