"""Logs of the requests themselves: bodies as a provider gets them, bare or in what a gateway, a batch file or a script put
round them, with the answer beside them, in a record of its own, or without.

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
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.inputs.raw_bodies import (
    DAMAGED_ANSWER,
    UnusableError,
    check,
    find,
    has_damaged_answer,
    has_damaged_request,
    holds_answer,
    holds_request,
    text_in,
    url_in,
    usage_in,
)
from otel_ctx.inputs.raw_pairs import EXPLICIT, Pairs, ids_of
from otel_ctx.inputs.raw_times import UNREAD, times_of
from otel_ctx.inputs.references import Answered
from otel_ctx.model import Span
from otel_ctx.parts import mapping, structure

NAME = "raw-requests"

_CONVERSATIONS = (
    "conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id",
)  # fmt: skip
_SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "x-session-id", "x-conversation-id")
_LISTS = (
    "requests",
    "calls",
    "records",
    "entries",
    "items",
    "logs",
    "exchanges",
    "data",
)  # of records, in one document
_UNANSWERED = ("expired", "canceled")  # results of Anthropic's batches
_PASSED_OVER = object()
_VENDORS = (bedrock_log.plain, litellm_log.plain)

Json = Mapping[str, Any]


def claims(value: Any) -> bool:
    """A request, or an answer of a batch, or a list of such under a name."""
    if not isinstance(value, dict):
        return False
    try:
        return (
            _tells_of_request(value)
            or _is_lone_answer(value)
            or has_damaged_request(_plain(value).record)
            or has_damaged_answer(value)
            or opened(value) is not None
        )
    except RecursionError:
        return False


def _is_lone_answer(value: Json) -> bool:
    """An answer whose request stands elsewhere, under the same id."""
    if isinstance(value.get("custom_id"), str):
        return holds_answer(value) or _has_failed(value)
    return _id([value]) is not None and holds_answer(value, surely=True)


def _tells_of_request(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    record, _, call, _ = _plain(value)
    return call or holds_request(record)


def _plain(record: dict[str, Any]) -> Plain:
    """``record``, or what it is where a vendor's log has put the request in a way of its own."""
    return next((p for of in _VENDORS if (p := of(record)) is not None), Plain(record))


def opened(value: Any) -> list[Any] | None:
    """The records that lie in one document: in a list, in the call that creates a batch, under the one name that says so.

    A HAR file has all that a browser did, so what is no request to a model is nothing that was lost."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if (entries := har.entries(value)) is not None:
        return [_PASSED_OVER if entry and _is_to_no_model(entry) else entry for entry in entries]
    events = cloudwatch.messages(value)
    if events is not None and any(_tells_of_request(structure(event)) for event in events):
        return events
    inside = [v for name in _LISTS if isinstance(v := value.get(name), list) and v]
    if len(inside) != 1:
        return None
    found = any(map(_tells_of_request, inside[0]))
    return inside[0] if found and not _tells_of_request(value) else None


def _is_to_no_model(entry: Json) -> bool:
    """Is it what a browser asks for beside? One to a model shows in what was asked, or in the answer."""
    answered = entry.get("method") == "POST" and holds_answer(entry, surely=True)
    return not (holds_request(entry) or has_damaged_request(entry) or answered)


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    """One record after the other. What is no request is named and passed over."""
    reader = _Reader(source, skipped)
    for item in items:
        span = reader.read(item)
        if span is not None:
            yield Records((span,))
    for span in reader.close():
        yield Records((span,))


class _Reader:
    """What the records of one file have to do with each other."""

    def __init__(self, source: str, skipped: list[Skipped]) -> None:
        self._source, self._skipped = source, skipped
        self._answered = Answered()
        self._pairs = Pairs("exchange.id")
        self._times_told = True

    def read(self, item: Item) -> Span | None:
        """None where the record is no request, or the answer to one in another record."""
        if item.value is _PASSED_OVER:
            return None
        try:
            return self._read(item)
        except (UnusableError, RecursionError) as error:
            why = str(error) if isinstance(error, UnusableError) else "nested too deeply"
            self._skipped.append(Skipped(item.where, why))
            return None

    def close(self) -> Iterator[Span]:
        return self._pairs.close(self._skipped)

    def _read(self, item: Item) -> Span | None:
        value = structure(item.value)
        if not isinstance(value, dict):
            raise UnusableError("no request: no JSON object")
        record, said, call, written = _plain(value)
        check("it", item.value)
        check("it", *written)
        found = find(record, told=call or _has_failed(record))
        body, around, answer = found.body, found.around, found.answer
        start, end, unread = times_of(around, answer, lasts=body is not None)
        if unread and self._times_told:
            self._times_told = False
            self._skipped.append(Skipped(item.where, UNREAD))
        if found.damaged:
            self._skipped.append(Skipped(item.where, DAMAGED_ANSWER))
        usage = next((u for level in around if (u := usage_in(level)) is not None), None)
        failure = _failure(around, found.status)
        span = exchange(
            self._source,
            item.record,
            item.where,
            start,
            end,
            **{
                "dialect": NAME,
                "request": self._answered.filled(body),
                "response": answer,
                "usage": usage,
                "failure": failure,
                "url": url_in(around),
                "model": text_in(around, ("model", "modelId", "model_id", "deployment")),
                "provider": text_in(around, ("provider", "vendor")),
                "conversation": text_in(around, _CONVERSATIONS) or _session(around),
                "id": _id(around),
                "ids": tuple(sorted(ids_of(around, answer if body is None else body))) or None,
                "agent": text_in(around, ("agent", "agent_name")),
                "tier": "batch" if _is_of_batch(record) else None,
                **said,
            },
        )
        self._answered.learn(answer)
        if call:
            return span
        if body is None:
            self._pairs.answer(ids_of(around, answer), span)
            return None
        if answer is None and usage is None and failure is None and not found.damaged:
            return self._pairs.ask(ids_of(around, body), span)
        return span


def _is_of_batch(record: Json) -> bool:
    """A line of a batch's request or of its answer, as OpenAI, Anthropic and those who copy them write it."""
    asked = "params" in record or {"url", "body"} <= record.keys()
    answer = mapping(record.get("response")) or mapping(record.get("result"))
    answered = "status_code" in answer or "type" in answer
    return isinstance(record.get("custom_id"), str) and (asked or answered)


def _has_failed(record: Json) -> bool:
    """Does a line of a batch's answers say why there is none?"""
    told = mapping(record.get("result")).get("type") in _UNANSWERED or isinstance(
        record.get("error"), Mapping
    )
    return isinstance(record.get("custom_id"), str) and told


def _failure(around: list[Json], status: int | None) -> tuple[str, str] | None:
    """Type and words of an error that the record itself tells."""
    error = next(
        (e for level in around if (e := structure(level.get("error") or level.get("exception")))), None
    )
    if isinstance(error, Mapping):
        kind, words = error.get("type") or error.get("code") or "error", error.get("message") or ""
        return str(kind), str(words)
    if isinstance(error, str) and error:
        return ("error", error)
    ends = (mapping(level.get("result")).get("type") for level in around)
    if (end := next((e for e in ends if e in _UNANSWERED), None)) is not None:
        return (str(end), "")
    return (str(status), "") if status is not None and status >= 400 else None


def _id(around: list[Json]) -> str | None:
    said = (level.get(name) for level in around for name in EXPLICIT)
    return next(
        (str(v) for v in said if isinstance(v, (str, int)) and not isinstance(v, bool) and v != ""), None
    )


def _session(around: list[Json]) -> str | None:
    for level in around:
        headers = level.get("headers")
        if isinstance(headers, Mapping):
            for name, value in headers.items():
                if str(name).lower() in _SESSION_HEADERS and isinstance(value, str) and value:
                    return value
    return None


FORMAT = StreamFormat(NAME, claims, read, opens=opened, strict=True)
