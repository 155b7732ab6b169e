"""Gemini CLI's sessions: ``~/.gemini/tmp/*/chats/session-*.json`` and, since 0.5x, ``.jsonl``.

A row with an id is a message; one that comes again has more of it. ``$set`` sets fields of the session, at a resume all its
messages at once. Messages of one role in a row go over the wire as one. System prompt and tools are not in the file, and
after a resume the client sends results of tools more often than the file has them.
Observed: 0.61.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_ctx.inputs.exchanges import exchange, told_at_the_end
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.model import Span

NAME = "gemini-cli"

Json = Mapping[str, Any]


def claims(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("sessionId"), str) and "projectHash" in value


def owns(value: Any) -> bool:
    """A session, a message of it, or what changes it (``$set``)."""
    if not isinstance(value, dict):
        return False
    message = isinstance(value.get("id"), str) and isinstance(value.get("type"), str)
    return message or claims(value) or any(key.startswith("$") for key in value)


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    return told_at_the_end(_Session(source), items, source, skipped, owns)


class _Session:
    """The messages as they stand, and for each answer the messages that stood before it."""

    def __init__(self, source: str) -> None:
        self._id = source
        self._messages: dict[str, Json] = {}
        self._answers: dict[tuple[str, str], tuple[str, list[Json], int, bool]] = {}
        self._resumed = False
        self._rows: dict[tuple[str, str], Json] = {}
        self._time = 0

    def take(self, row: Json, where: str) -> None:
        fields = row.get("$set") if isinstance(row.get("$set"), dict) else row
        assert isinstance(fields, Mapping)
        if isinstance(fields.get("sessionId"), str):
            self._id = fields["sessionId"]
        if isinstance(fields.get("messages"), list):
            self._resumed = self._resumed or any(_is_answer(message) for message in fields["messages"])
            self._messages.clear()
            for message in fields["messages"]:
                if isinstance(message, dict):
                    self._message(message, where)
        elif isinstance(row.get("id"), str):
            self._message(row, where)

    def _message(self, row: Json, where: str) -> None:
        id_ = row.get("id")
        key = (self._id, id_ if isinstance(id_, str) else "")
        if _is_answer(row) and isinstance(row.get("tokens"), dict):
            if key not in self._answers:
                self._answers[key] = where, list(self._messages.values()), self._time, self._resumed
            self._rows[key] = row
        self._messages[key[1]] = row
        self._time = nanoseconds(row.get("timestamp")) or self._time

    def spans(self) -> Iterator[Span]:
        for (session, id_), (where, before, asked, resumed) in self._answers.items():
            row = self._rows[session, id_]
            end = nanoseconds(row.get("timestamp"))
            model = row.get("model") if isinstance(row.get("model"), str) else ""
            yield exchange(
                session,
                id_,
                where,
                asked or end,
                end,
                dialect=NAME,
                request={"model": model, "contents": _contents(before)},
                response={
                    "modelVersion": model,
                    "candidates": [{"content": {"role": "model", "parts": _parts(row)}}],
                    "usageMetadata": _usage(row["tokens"]),
                },
                provider="gcp.gemini",
                conversation=session,
                lost=("messages", "system", "tools") if resumed else ("system", "tools"),
                reasons=("not_captured",),
            )


def _is_answer(message: Any) -> bool:
    return isinstance(message, dict) and message.get("type") == "gemini"


def _contents(messages: list[Json]) -> list[dict[str, Any]]:
    """Messages as the API takes them: those of one role that follow each other are one."""
    contents: list[dict[str, Any]] = []
    for message in messages:
        role = {"user": "user", "gemini": "model"}.get(str(message.get("type")))
        if role is None:
            continue  # what the client tells its user
        parts = _parts(message)
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


def _parts(message: Json) -> list[Any]:
    content = message.get("content")
    parts = list(content) if isinstance(content, list) else [{"text": content}] if content else []
    called = [_call_id(part) for part in parts]  # ids may be of any type
    calls = message.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and call.get("id") not in called:
            said = {"id": call.get("id"), "name": call.get("name"), "args": call.get("args")}
            parts.append({"functionCall": said})
    return parts


def _call_id(part: Any) -> Any:
    call = part.get("functionCall") if isinstance(part, dict) else None
    return call.get("id") if isinstance(call, dict) else None


def _usage(tokens: Json) -> dict[str, Any]:
    """As the API writes it."""
    return {
        "promptTokenCount": tokens.get("input"),
        "candidatesTokenCount": tokens.get("output"),
        "thoughtsTokenCount": tokens.get("thoughts"),
        "cachedContentTokenCount": tokens.get("cached"),
        "totalTokenCount": tokens.get("total"),
    }


FORMAT = StreamFormat(NAME, claims, read, owns=owns)
