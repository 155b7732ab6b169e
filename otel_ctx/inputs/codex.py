"""Codex' rollouts: ``~/.codex/sessions/…/rollout-*.jsonl``.

Items of the Responses API (``response_item``) are the history as it goes over the wire; what the model is told before it and
its tools are not in the file. A ``token_usage_record`` closes each request; before there were such, ``token_count`` did, which
comes again after a record and with every change of a rate limit. A fork begins with a copy of its parent's rows, their
times rewritten: a record names the thread that it is from, a ``token_count`` follows its parent's ``session_meta``.
Observed: 0.171; the older rows as others tell of them (ccusage#897, CodexBar#627).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_ctx.inputs.exchanges import exchange, told
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.model import Span
from otel_ctx.parts import Link, Linked, linked

NAME = "codex"

_ROWS = frozenset({
    "session_meta", "response_item", "event_msg", "turn_context", "token_usage_record", "compacted", "world_state",
})  # fmt: skip
_OF_THE_MODEL = frozenset({
    "function_call", "custom_tool_call", "local_shell_call", "reasoning", "web_search_call", "tool_search_call",
})  # fmt: skip

Json = Mapping[str, Any]


def claims(value: Any) -> bool:
    return owns(value) and value["type"] in _ROWS


def owns(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("payload"), dict)
        and isinstance(value.get("type"), str)
    )


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    return told(_spans(items, source, skipped), source)


def _spans(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Span]:
    rollout = _Rollout(source)
    for item in items:
        row = item.value
        if not isinstance(row, dict) or not isinstance(row.get("payload"), dict):
            skipped.append(Skipped(item.where, "no row of a rollout"))
            continue
        span = rollout.take(row, item.where)
        if span is not None:
            yield span


class _Rollout:
    """What a file has said so far. A request begins with the items before the model's first new one."""

    def __init__(self, source: str) -> None:
        self._session = source
        self._model = self._provider = ""
        self._window: Any = None
        self._items: Link | None = None
        self._sent: Link | None = None  # items of the request whose answer is coming
        self._answer: list[Json] = []  # the model's items since then
        self._begun = self._time = 0
        self._counted = ""  # the sum that the last request brought the thread to
        self._compacted = False
        self._sure = True  # nothing was taken out of the history

    def take(self, row: Json, where: str) -> Span | None:
        payload, kind = row["payload"], row.get("type")
        time = nanoseconds(row.get("timestamp"))
        span = None
        match kind:
            case "session_meta":
                self._session = _text(payload, "id") or self._session
                self._provider = _text(payload, "model_provider")
                self._counted = ""
            case "turn_context":
                self._model = _text(payload, "model") or self._model
            case "response_item":
                self._item(payload)
            case "compacted":
                history = payload.get("replacement_history")
                summary = [{"type": "message", "role": "user", "content": _text(payload, "message")}]
                self._items = None
                for item in history if isinstance(history, list) else summary:
                    self._items = linked(self._items, item)
                self._compacted, self._answer = True, []
            case "token_usage_record":
                thread = _text(payload, "thread_id") or self._session
                sums = payload.get("thread_token_usage")
                span = self._answered(
                    thread, _text(payload, "response_id"), payload.get("usage"), sums, time, where
                )
            case "event_msg":
                span = self._event(payload, time, where)
        self._time = time or self._time
        return span

    def _event(self, payload: Json, time: int, where: str) -> Span | None:
        match payload.get("type"):
            case "token_count" if isinstance(info := payload.get("info"), dict):
                self._window = info.get("model_context_window") or self._window
                sums = info.get("total_token_usage")
                if info.get("last_token_usage") and _sum(sums) != self._counted:
                    return self._answered(self._session, "", info["last_token_usage"], sums, time, where)
            case "task_started":
                self._window = payload.get("model_context_window") or self._window
            case "thread_rolled_back":
                self._sure = False
        return None

    def _item(self, item: Json) -> None:
        if _text(item, "type") in _OF_THE_MODEL or item.get("role") == "assistant":
            if not self._answer:
                self._sent, self._begun = self._items, self._time
            self._answer.append(item)
        self._items = linked(self._items, item)

    def _answered(
        self, thread: str, response: str, usage: Any, sums: Any, time: int, where: str
    ) -> Span | None:
        """The request that these numbers close. Numbers without an id are known by the sum that they lead to."""
        self._counted = _sum(sums)
        if not isinstance(usage, dict):
            return None
        sent = self._sent if self._answer else self._items
        span = exchange(
            thread,
            response or self._counted or where,
            where,
            self._begun or time,
            time,
            dialect=NAME,
            request={"model": self._model, "input": Linked(sent)},
            response={"id": response, "model": self._model, "output": self._answer, "usage": _usage(usage)},
            provider=self._provider,
            conversation=thread,
            limit=self._window,
            lost=("system", "tools") if self._sure else ("messages", "system", "tools"),
            reasons=("not_captured",),
            compacted=self._compacted or None,
        )
        self._answer, self._begun, self._compacted = [], 0, False
        return span


def _usage(usage: Json) -> dict[str, Any]:
    """As the Responses API writes it."""
    return {
        "input_tokens": usage.get("input_tokens"),
        "input_tokens_details": {
            "cached_tokens": usage.get("cached_input_tokens"),
            "cache_write_tokens": usage.get("cache_write_input_tokens"),
        },
        "output_tokens": usage.get("output_tokens"),
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_output_tokens")},
        "total_tokens": usage.get("total_tokens"),
    }


def _sum(sums: Any) -> str:
    """A name of the numbers that a thread has come to: they only grow."""
    if not isinstance(sums, dict):
        return ""
    return "+".join(str(sums.get(key)) for key in ("input_tokens", "output_tokens"))


def _text(row: Json, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


FORMAT = StreamFormat(NAME, claims, read, owns=owns)
