"""Spans and log records out of bytes: real ones of the corpus, edited, and some that nobody ever wrote.

The canary is put into every value that may hold a prompt. It has spaces, so it is never taken for a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from otel_ctx.inputs import read
from otel_ctx.model import Event, Link, LogRecord, Span

T = TypeVar("T")

CORPUS = Path(__file__).parents[1] / "corpus"
CANARY = "zq canary zq "
ODD = "\x1b[2J\x1b]0;t\x07 \u202e\x00\x9b31m\r\b\ud800 \U0001f642"

# What holds prompts, one of each dialect: (where it stands, what a span of that dialect has beside it).
_BESIDE: dict[str, dict[str, Any]] = {
    "gen_ai.input.messages": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"},
    "gen_ai.output.messages": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"},
    "gen_ai.system_instructions": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini"},
    "gen_ai.tool.definitions": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "aws.bedrock"},
    "gen_ai.input.messages ": {"gen_ai.operation.name": "chat"},
    "input.value": {"openinference.span.kind": "LLM", "input.mime_type": "application/json"},
    "output.value": {"openinference.span.kind": "LLM", "llm.provider": "openai"},
    "llm.input_messages": {"openinference.span.kind": "LLM"},
    "llm.tools.0.tool.json_schema": {"openinference.span.kind": "LLM"},
    "gen_ai.prompt.0.content": {"llm.request.type": "chat", "gen_ai.prompt.0.role": "user"},
    "gen_ai.prompt.0.tool_calls.0.arguments": {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "assistant",
    },
    "llm.request.functions.0.parameters": {"llm.request.type": "chat", "llm.request.functions.0.name": "f"},
    "gen_ai.prompt": {"langsmith.span.kind": "llm"},
    "gen_ai.completion": {"langsmith.span.kind": "llm"},
    "langfuse.observation.input": {"langfuse.observation.type": "generation"},
    "langfuse.observation.output": {"langfuse.observation.type": "generation"},
    "ai.prompt.messages": {"ai.operationId": "ai.generateText.doGenerate"},
    "ai.prompt.tools": {"ai.operationId": "ai.streamText.doStream"},
    "ai.response.toolCalls": {"ai.operationId": "ai.generateText.doGenerate"},
    "request_data": {"logfire.span_type": "span"},
    "response_data": {"logfire.span_type": "span"},
    "all_messages_events": {"logfire.msg": "chat"},
    "events": {"gen_ai.system": "openai"},
    "request_body": {"session.id": "s"},
    "traceloop.entity.input": {"traceloop.span.kind": "workflow"},
    "haystack.component.input": {"haystack.component.type": "OpenAIChatGenerator"},
    "gcp.vertex.agent.llm_request": {"gen_ai.system": "gcp.vertex.agent"},
    "llm_request": {"gen_ai.system": "litellm"},
    "prompt": {"gen_ai.system": "x"},
}
HOLDERS = tuple(_BESIDE)

# What the report shows as it is: names of models, services, agents, libraries. No prompt stands there.
_SHOWN = re.compile(
    r"model|provider|system$|service|agent|session|conversation|thread|user|scope|operation|span\.?kind|type$|name$|id$|"
    r"error|exception|status|role|environment|version|reason|region|host|finish|language|label|tag|mime|url|server|tier|"
    r"^gen_ai\.response\.id$|deployment|platform|kind|library|metadata",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    r"messages|instructions|definitions|input\.value|output\.value|content|prompt|completion|arguments|\.text$|"
    r"observation\.(input|output)|request_data|response_data|entity\.(input|output)|body|llm_request|toolCalls|tools",
    re.IGNORECASE,
)


def planted(value: Any) -> Any:
    """``value`` with the canary in every text, what is known by a fixed word (roles, types) left as it is."""
    if isinstance(value, str):
        return CANARY + value
    if isinstance(value, list):
        return [planted(item) for item in value]
    if isinstance(value, dict):
        return {
            k: v if isinstance(v, str) and (k in _WORDS or "model" in k.lower()) else planted(v)
            for k, v in value.items()
        }
    return value


_WORDS = frozenset(
    "role type kind name id model modelId model_name mime_type media_type mimeType tool_call_id call_id toolCallId toolName "
    "status finish_reason finishReason stop_reason modality provider object tool_use_id response_id "
    "previous_response_id conversation prompt_cache_key service_tier run_type event ttl".split()
)


class Choices:
    """Decisions taken from bytes, one after the other; 0 where they have run out."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def byte(self) -> int:
        if not self._data:
            return 0
        value = self._data[0]
        self._data = self._data[1:]
        return value

    def below(self, most: int) -> int:
        return (self.byte() << 8 | self.byte()) % most if most > 256 else self.byte() % most

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def take(self, size: int) -> bytes:
        part, self._data = self._data[:size], self._data[size:]
        return bytes(part)

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def __bool__(self) -> bool:
        return bool(self._data)

    def text(self) -> str:
        return self.take(self.byte() % 40).decode("utf-8", "surrogateescape")

    def span(self, holder: str) -> dict[str, Any]:
        """The fields of a span of the dialect that has ``holder``."""
        numbers = {"gen_ai.request.model": "gpt-4.1", "gen_ai.usage.input_tokens": 100}
        return {
            "trace_id": "1" * 32,
            "parent_id": "",
            "name": "chat",
            "start_unix_nano": 10**18,
            "end_unix_nano": 10**18 + 1,
            "attributes": {**_BESIDE[holder], **numbers},
        }

    def value(self, depth: int = 3) -> Any:
        """Of any shape that an attribute can have, or that a broken dump gives it."""
        kind = self.below(16)
        if kind < 3:
            return self.text()
        if kind == 3:
            return self.one(
                (0, 1, -1, 2**31, 2**63 - 1, 2**64, 10**30, -(10**30), 0.0, 1e308, float("nan"), float("inf"))
            )
        if kind == 4:
            return int.from_bytes(self.take(self.below(10)), "big", signed=True)
        if kind == 5:
            return self.one(
                (True, False, None, "", [], {}, b"", " ", "null", "[]", "{}", "[[]]", '[{"role":1}]', "0")
            )
        if kind == 6:
            return self.take(self.below(20))
        if kind == 7:
            return self.one(
                ("[" * 2000, '{"a":' * 500, "9" * 5000, ODD, "é" * 3000, "…", '[{"role":"user","content":')
            )
        if kind == 8:
            return self.one(real_values())
        if depth == 0:
            return self.text()
        if kind < 12:
            return [self.value(depth - 1) for _ in range(self.below(4))]
        if kind < 15:
            return {str(self.one(inner_keys())): self.value(depth - 1) for _ in range(self.below(6))}
        return json.dumps(_plain(self.value(depth - 1)))

    def key(self) -> str:
        kind = self.byte()
        if kind < 8:
            return self.text()
        key = self.one(attribute_keys())
        return (
            re.sub(r"\.\d+\b", lambda _: f".{self.one((0, 1, 2, 7, 128, 10**9, -1))}", key)
            if kind < 64
            else key
        )


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


# ---- real ones


_LARGEST = 12_000  # characters of a span that is used


@cache
def real() -> tuple[tuple[Span | LogRecord, ...], ...]:
    """Of each case the first records that are small; the smallest, where none is."""
    cases = []
    for folder in sorted(path for path in CORPUS.iterdir() if path.is_dir()):
        files = [folder / name for name in ("traces.jsonl.gz", "logs.jsonl.gz") if (folder / name).exists()]
        sized = [(len(repr(r)), r) for batch in read(files) for r in (*batch.spans, *batch.logs)]
        small = [record for size, record in sized if size < _LARGEST][:8]
        cases.append(tuple(small or [min(sized, key=lambda pair: pair[0])[1]]))
    return tuple(cases)


@cache
def attribute_keys() -> tuple[str, ...]:
    keys: set[str] = {key for beside in _BESIDE.values() for key in beside} | set(HOLDERS)
    for case in real():
        for record in case:
            keys.update(record.attributes)
            if isinstance(record, Span):
                keys.update(key for event in record.events for key in event.attributes)
    return tuple(sorted(keys))


@cache
def real_values() -> tuple[Any, ...]:
    seen = {repr(v): v for case in real() for r in case for v in r.attributes.values() if len(repr(v)) < 1500}
    return tuple(seen[key] for key in sorted(seen))


@cache
def inner_keys() -> tuple[str, ...]:
    """Keys of the JSON inside attributes."""
    found = {
        key
        for value in real_values()
        if isinstance(value, str)
        for key in re.findall(r'"(\w{1,30})":', value)
    }
    return tuple(
        sorted(found | _WORDS | {"content", "parts", "text", "input", "output", "tools", "messages"})
    )


# ---- edited ones


def edited(choices: Choices) -> tuple[list[Span], list[LogRecord]]:
    """One to three groups of records of real cases, with up to a few edits each."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for _ in range(1 + choices.below(3)):
        for record in choices.one(real())[: 1 + choices.below(8)]:
            attributes = _hidden(record.attributes)
            for _ in range(choices.below(4)):
                _edit(attributes, choices)
            if isinstance(record, LogRecord):
                logs.append(_odd(replace(record, body=_covered(record.body), attributes=attributes), choices))
            else:
                events = tuple(replace(e, attributes=_hidden(e.attributes, True)) for e in record.events)
                if choices.byte() > 200:
                    said = {choices.key(): planted(choices.value()) for _ in range(choices.below(4))}
                    events = (*events, Event(choices.one(_EVENTS), choices.one(_TIMES), said))
                spans.append(_odd(replace(record, attributes=attributes, events=events), choices))
    return spans, logs


_EVENTS = (
    "gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "gen_ai.client.inference.operation.details",
    "exception", "", "x",
)  # fmt: skip
_TIMES = (0, 1, 10**18, 2**63 - 1, 2**64 - 1)
_IDS = ("", "1" * 16, "2" * 16, "0" * 16, "x")


def _hidden(attributes: Any, everything: bool = False) -> dict[str, Any]:
    """With the canary in what holds prompts."""
    return {
        key: _covered(value) if _HOLDS.search(key) and (everything or not _SHOWN.search(key)) else value
        for key, value in attributes.items()
    }


def _covered(value: Any) -> Any:
    """The canary inside the JSON of a text, else in front of it."""
    if not isinstance(value, str):
        return planted(value)
    try:
        return json.dumps(planted(json.loads(value)))
    except (ValueError, RecursionError):
        return CANARY + value


def _edit(attributes: dict[str, Any], choices: Choices) -> None:
    how = choices.below(4)
    if how == 0 and attributes:
        del attributes[choices.one(sorted(attributes))]
        return
    key = choices.one(sorted(attributes)) if how == 1 and attributes else choices.key()
    value = choices.value()
    attributes[key] = value if _SHOWN.search(key) else _covered(value)


def _odd(record: T, choices: Choices) -> T:
    """With some fields that are odd, seldom."""
    how = choices.byte()
    if how < 200:
        return record
    if isinstance(record, LogRecord):
        return replace(
            record, span_id=choices.one(_IDS), body=_covered(choices.value()), name=choices.one(_EVENTS)
        )
    changes: dict[str, Any] = {
        "span_id": choices.one(_IDS),
        "parent_id": choices.one(_IDS),
        "start_unix_nano": choices.one(_TIMES),
        "end_unix_nano": choices.one(_TIMES),
        "links": (Link("1" * 32, choices.one(_IDS)),),
        "scope_name": choices.text(),
        "scope_version": choices.text(),
        "kind": choices.byte(),
        "name": choices.text(),
        "status_code": choices.byte(),
        "status_message": CANARY + choices.text(),
        "dropped_attributes": choices.byte(),
        "resource": {"service.name": choices.value(1)},
    }
    wanted = [f.name for f in fields(Span) if f.name in changes]
    mask = choices.below(1 << 13)
    return replace(record, **{name: changes[name] for n, name in enumerate(wanted) if mask >> n & 1})  # type: ignore[type-var]
