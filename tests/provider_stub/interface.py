"""What every API of the stub has in common: a request as a Prompt, an Answer, and how to say it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Json = Mapping[str, Any]
Ttl = Literal["5m", "1h"]


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    schema: Json  # JSON Schema of its arguments


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a prompt: its text as it is counted, and the cache marker at its end."""

    text: str
    marker: Ttl | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request, whatever its API."""

    model: str
    blocks: tuple[Block, ...]  # tools, system, messages: the order of the provider's prefix
    role: Literal["user", "tool", "assistant"]  # of the last message
    text: str  # of the last message
    turn: int  # answers in plain text so far
    tools: tuple[Tool, ...] = ()
    thinks: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. ``input`` has all of the prompt, ``write`` both lifetimes, ``output`` the thinking too."""

    input: int
    read: int
    write: int
    write_1h: int
    output: int
    reasoning: int

    @property
    def uncached(self) -> int:
        return self.input - self.read - self.write


@dataclass(frozen=True, slots=True)
class Answer:
    id: str  # unique among all stubs
    model: str
    created: int  # s
    text: str  # empty beside calls, but where the provider's models like to talk
    calls: tuple[Call, ...]
    thought: str
    usage: Usage


class Api(Protocol):
    """One API. ``automatic``: its cache needs no markers. Each reads a body leniently, as clients write it."""

    name: str
    automatic: bool

    def serves(self, path: str) -> bool: ...
    def streams(self, path: str, body: Json) -> bool: ...
    def prompt(self, path: str, body: Json) -> Prompt:
        """KeyError, TypeError, ValueError: the body is none of this API."""

    def response(self, answer: Answer, body: Json) -> dict[str, Any]: ...
    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        """Content type and what is written; the response in pieces."""

    def error(self, status: int, message: str) -> tuple[dict[str, str], Json]:
        """Headers and body."""


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def halves(text: str) -> tuple[str, str]:
    """Two pieces, so that a stream has something to join."""
    middle = len(text) // 2
    return text[:middle], text[middle:]


def server_sent(events: Iterable[Json | str], named: bool = False) -> tuple[str, Iterator[bytes]]:
    """Server-sent events; ``named`` ones say their ``type`` beside the data."""

    def lines() -> Iterator[bytes]:
        for event in events:
            data = event if isinstance(event, str) else compact(event)
            name = f"event: {event['type']}\n" if named and not isinstance(event, str) else ""
            yield f"{name}data: {data}\n\n".encode()

    return "text/event-stream", lines()


def text_of(content: Any) -> str:
    """All text of a content value of any API: a string, a part, a list of parts; of what has none, its JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(text_of, content))
    for key in ("text", "content", "output", "thinking"):
        if content.get(key) is not None:
            return text_of(content[key])
    return compact(content)
