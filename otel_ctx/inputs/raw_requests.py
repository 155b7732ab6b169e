"""Logs of the requests themselves: bodies as a provider gets them, bare or in what a gateway, a batch file or a script put
round them, with the answer beside them or without.

A record is looked at by itself: one file may hold several providers and several envelopes. What stands in an envelope may
be JSON in a string. Known are the request bodies of Anthropic Messages, OpenAI Chat and Responses, Gemini
generateContent and Bedrock Converse (and InvokeModel, where the body is one of these), OpenAI's and Anthropic's batch
files; Bedrock's invocation logs, LiteLLM's own logs and HAR files are made into plain records first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_ctx.inputs import bedrock_log, cloudwatch, har, litellm_log
from otel_ctx.inputs.exchanges import Plain, exchange
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.inputs.references import Answered
from otel_ctx.model import Span
from otel_ctx.parts import structure

NAME = "raw-requests"

_REQUESTS = (
    "body", "params", "request", "request_body", "requestBody", "input", "payload", "data", "json",
)  # fmt: skip
_ANSWERS = (
    "response", "response_body", "responseBody", "result", "output", "answer", "completion", "body", "message",
)  # fmt: skip
_USAGES = ("usage", "usageMetadata", "usage_metadata")
_STARTS = (
    "start_unix_nano", "start_time_unix_nano", "start_time", "startTime", "started_at", "request_time", "request_timestamp",
    "requested_at", "timestamp", "@timestamp", "time", "ts", "datetime", "date", "created_at", "createdAt", "created",
)  # fmt: skip
_ENDS = (
    "end_unix_nano", "end_time_unix_nano", "end_time", "endTime", "ended_at", "response_time", "response_timestamp",
    "completed_at", "finished_at",
)  # fmt: skip
_DURATIONS = (
    ("duration_ns", 1), ("latency_ms", 10**6), ("duration_ms", 10**6), ("latencyMs", 10**6), ("durationMs", 10**6),
    ("elapsed_ms", 10**6), ("latency_s", 10**9), ("duration_s", 10**9), ("elapsed", 10**9), ("latency", 10**9),
    ("duration", 10**9),
)  # fmt: skip
_CONVERSATIONS = (
    "conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id",
)  # fmt: skip
_SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-conversation-id")
_IDS = ("custom_id", "request_id", "requestId", "req_id")
_VENDORS = (bedrock_log.plain, litellm_log.plain)
_NESTED = 4  # envelopes inside envelopes
_LONGEST_CALL = 86_400 * 10**9  # ns: a duration beyond that was meant in another unit

Json = Mapping[str, Any]


class _UnusableError(ValueError):
    """Says why a record holds no request; never what it holds."""


def claims(value: Any) -> bool:
    """A request, or an answer of a batch."""
    if not isinstance(value, dict):
        return False
    try:
        return _is_known(value) or _records_in(value) is not None
    except RecursionError:
        return False


def _is_known(value: dict[str, Any]) -> bool:
    record, _, call = _plain(value)
    return call or bool(_bodies(record, _NESTED)) or _is_batch_answer(record)


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    """One record after the other. What is no request is named and passed over."""
    answered = Answered()
    for item in items:
        several = _records_in(item.value)
        if several is not None:
            for number, value in enumerate(several, 1):
                if value is None:
                    continue
                record = f"{item.record}.{number}"
                yield from _read(
                    Item(record, f"{item.where}, request {number}", value), source, skipped, answered
                )
            continue
        yield from _read(item, source, skipped, answered)


def _read(item: Item, source: str, skipped: list[Skipped], answered: Answered) -> Iterator[Records]:
    try:
        span = _span(item, source, answered)
    except (_UnusableError, RecursionError) as error:
        why = str(error) if isinstance(error, _UnusableError) else "nested too deeply"
        skipped.append(Skipped(item.where, why))
    else:
        yield Records((span,))


def _span(item: Item, source: str, answered: Answered) -> Span:
    value = structure(item.value)
    if not isinstance(value, dict):
        raise _UnusableError("no request: no JSON object")
    record, said, call = _plain(value)
    bodies = _bodies(record, _NESTED)
    if len(bodies) > 1:
        raise _UnusableError("two request bodies in one record: it is not clear which was sent")
    body: Json | None = bodies[0][0] if bodies else None
    around: list[Json] = bodies[0][1] if bodies else [record]
    answer, status = _answer(record, body)
    if body is None and answer is None and not call:
        raise _UnusableError("no request body of a known shape")
    start, end = _times(around, answer)
    body = answered.filled(body)
    answered.learn(answer)
    return exchange(
        source,
        item.record,
        item.where,
        start,
        end,
        **{
            "dialect": NAME,
            "request": body,
            "response": answer,
            "usage": _first(record, _USAGES),
            "failure": _failure(record, status),
            "url": _text(around, ("url", "path", "endpoint", "uri", "request_url")),
            "model": _text(around, ("model", "modelId", "model_id", "deployment")),
            "provider": _text(around, ("provider", "vendor")),
            "conversation": _text(around, _CONVERSATIONS) or _session(around),
            "id": _text(around, _IDS),
            "agent": _text(around, ("agent", "agent_name")),
            "tier": "batch" if _is_of_batch(record) else None,
            **said,
        },
    )


def _plain(record: dict[str, Any]) -> Plain:
    """``record``, or what it is where a vendor's log has put the request in a way of its own."""
    return next((p for of in _VENDORS if (p := of(record)) is not None), Plain(record))


# ---- the request


def _bodies(record: Json, depth: int) -> list[tuple[Json, list[Json]]]:
    """The request bodies of a record, each with what it lay in, the innermost first. Equal ones are one."""
    found: list[tuple[Json, list[Json]]] = [(record, [record])] if _is_body(record) else []
    for key in _REQUESTS if depth else ():
        inner = structure(record.get(key))
        if isinstance(inner, Mapping) and inner is not record:
            for body, around in _bodies(inner, depth - 1):
                if all(body != known for known, _ in found):
                    found.append((body, [*around, record]))
    return found


def _is_body(value: Json) -> bool:
    """Has the value what a request must have? Answers have messages too, but not in these places."""
    messages = value.get("messages")
    if isinstance(messages, list):
        return any(isinstance(m, Mapping) and ("role" in m or "type" in m) for m in messages)
    contents = value.get("contents")
    if isinstance(contents, (list, Mapping)):
        first = contents[0] if isinstance(contents, list) and contents else contents
        return isinstance(first, Mapping) and "parts" in first
    if value.get("object") == "response":
        return False  # the answer of the Responses API repeats the request's parameters
    named = isinstance(value.get("model"), str)
    if isinstance(value.get("input"), (str, list)):
        return named
    return named and isinstance(value.get("prompt"), (str, dict)) and "choices" not in value


def _records_in(value: Any) -> list[Any] | None:
    """The records that one value holds, None in the place of those that are passed over; None where it is a record itself.

    A HAR file has all that a browser did, so what is no request to a model is nothing that was lost."""
    entries = har.entries(value)
    if entries is not None:
        return [e if _bodies(e, _NESTED) else None for e in entries]
    events = cloudwatch.messages(value)
    if events is not None and any(isinstance(e, dict) and _is_known(e) for e in events):
        return events
    return _requests_of(value)


def _requests_of(value: Any) -> list[Any] | None:
    """The requests of Anthropic's call that creates a batch of them."""
    requests = value.get("requests") if isinstance(value, dict) else None
    if (
        isinstance(requests, list)
        and requests
        and all(isinstance(r, dict) and "params" in r for r in requests)
    ):
        return requests
    return None


def _is_of_batch(value: Json) -> bool:
    """A line of a batch's request or of its answer, as OpenAI, Anthropic and those who copy them write it."""
    asked = "params" in value or {"url", "body"} <= value.keys()
    answer = _mapping(value.get("response")) or _mapping(value.get("result"))
    answered = "status_code" in answer or "type" in answer
    return isinstance(value.get("custom_id"), str) and (asked or answered)


def _is_batch_answer(value: Json) -> bool:
    return isinstance(value.get("custom_id"), str) and _answer(value, None)[0] is not None


# ---- the answer


def _answer(record: Json, body: Json | None) -> tuple[Any, int | None]:
    """The answer's body and the HTTP status, as far as the record has them."""
    found, status = None, _status(record)
    for key in _ANSWERS:
        value = structure(record.get(key))
        if value is None or value is body:
            continue
        if isinstance(value, Mapping):
            value, inner = _unwrapped(value, _NESTED)
            status = status if status is not None else inner
            if value is None or value is body or _is_body(value):
                continue
        elif not (isinstance(value, list) and key != "body") and not _is_stream(value):
            continue
        found = value
        break
    return found, status


def _unwrapped(value: Json, depth: int) -> tuple[Json | None, int | None]:
    """An answer out of what batches and gateways put round it: ``{"status_code", "body"}``, ``{"type", "message"}``."""
    status = _status(value)
    if _is_answer(value):
        return value, status
    for key in _ANSWERS if depth else ():
        inner = structure(value.get(key))
        if isinstance(inner, Mapping):
            found, code = _unwrapped(inner, depth - 1)
            if found is not None:
                return found, status if status is not None else code
    return (value if value.get("error") or _first(value, _USAGES) is not None else None), status


def _is_answer(value: Json) -> bool:
    return (
        any(isinstance(value.get(key), list) for key in ("choices", "candidates", "content", "output"))
        or isinstance(_mapping(value.get("output")).get("message"), Mapping)
        or (isinstance(value.get("usage"), Mapping) and isinstance(value.get("id"), str))
    )


def _is_stream(value: Any) -> bool:
    return isinstance(value, str) and "data:" in value[:1024]


def _status(value: Json) -> int | None:
    for key in ("status_code", "statusCode", "status"):
        code = value.get(key)
        if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600:
            return code
    return None


def _failure(record: Json, status: int | None) -> tuple[str, str] | None:
    """Type and words of an error that the record itself tells."""
    error = structure(record.get("error") or record.get("exception"))
    if isinstance(error, Mapping):
        kind, words = error.get("type") or error.get("code") or "error", error.get("message") or ""
        return str(kind), str(words)
    if isinstance(error, str) and error:
        return ("error", error)
    return (str(status), "") if status is not None and status >= 400 else None


# ---- round about


def _times(around: list[Json], answer: Any) -> tuple[int, int]:
    """Start and end in nanoseconds, 0 unknown: of the nearest envelope that tells a time, else of the answer."""
    start = next((t for level in around if (t := _time(level, _STARTS))), 0)
    end = next((t for level in around if (t := _time(level, _ENDS))), 0)
    if not start and not end and isinstance(answer, Mapping):
        end = _time(answer, ("created", "created_at"))
    if not end and start:
        end = start + next((d for level in around if (d := _duration(level))), 0)
    return start or end, end or start


def _time(level: Json, names: tuple[str, ...]) -> int:
    return next((t for name in names if (t := nanoseconds(level.get(name)))), 0)


def _duration(level: Json) -> int:
    for name, unit in _DURATIONS:
        value = level.get(name)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and 0 < value * unit < _LONGEST_CALL
        ):
            return int(value * unit)
    return 0


def _session(around: list[Json]) -> str | None:
    for level in around:
        headers = level.get("headers")
        if isinstance(headers, Mapping):
            for name, value in headers.items():
                if str(name).lower() in _SESSION_HEADERS and isinstance(value, str) and value:
                    return value
    return None


def _text(around: list[Json], names: tuple[str, ...]) -> str | None:
    return next(
        (v for level in around for name in names if isinstance(v := level.get(name), str) and v), None
    )


def _first(value: Json, names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if isinstance(value.get(name), Mapping)), None)


def _mapping(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


FORMAT = StreamFormat(NAME, claims, read, strict=True)
