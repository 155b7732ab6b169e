"""What the values of a span are: each by its shape, with the words of the names that lead to it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from otel_ctx.dialects import event_messages
from otel_ctx.dialects.fields import indexed, leading
from otel_ctx.dialects.generic import names
from otel_ctx.dialects.generic.names import Words
from otel_ctx.parts import (
    definitions_in,
    is_message,
    loads,
    messages_in,
    printed,
    request_in,
    response_in,
    salvage,
    usages_in,
)

Shape = Literal["messages", "request", "response", "tools", "blocks", "usage", "text", "number"]

_INDEX = re.compile(r"\.(\d{1,6})(?=\.|$)")
_BRACKETS = re.compile(r"\[(\d{1,6})\]")
_DEPTH = 4  # of wrappers round what is looked for
_WIDTH = 8  # items of a list that are looked into
_LONGEST_REPR = 1 << 18  # characters of Python literals: reading them is slow
_OPENERS = ("{", "[", '"')
_PRINTED = re.compile(r"[\[({]\s*(?:\{\s*)?'")  # how a list or dict begins that Python printed


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a span, opened where it was JSON.

    ``name`` is an attribute's, without numbers; ``cut``: the length at which it was cut, else 0. Of indexed attributes:
    ``start`` is the first index that is there, ``headless`` says that this item has lost its role."""

    name: str
    path: Words
    held: Any
    cut: int = 0
    flat: bool = False
    start: int = 0
    headless: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """Something of a known shape inside ``of``, where the words ``path`` lead to it. ``held`` is a list (messages,
    tools, content blocks), a ``Body`` (request), an ``Answer`` (response), a mapping (usage), a str or a number."""

    shape: Shape
    path: Words
    held: Any
    of: Value


def values(attributes: Mapping[str, Any], within: Words = ()) -> Iterator[Value]:
    """The attributes of a span, or of an event whose name says ``within``: one value for all that an index spells."""
    lists: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, value in attributes.items():
        name = _BRACKETS.sub(r".\1", key) if "[" in key else key
        at = _INDEX.search(name)
        if at is not None:
            lists[name[: at.start()]][name[at.start() + 1 :]] = value
            continue
        path = (*within, *names.words(key))
        if is_plain(value):
            if names.says_something(path):
                yield Value(key, path, value)
        else:
            held, cut = opened(value)
            yield Value(key, path, held, cut)
    for name, spelled in lists.items():
        flat = dict(sorted(spelled.items(), key=_place))
        items, start, headless = indexed(_unwrapped(flat))
        whole = {int(key): opened(value)[0] for key, value in flat.items() if "." not in key}
        if whole:
            items, start, headless = [whole[n] for n in sorted(whole)], min(whole), False
        yield Value(name, (*within, *names.words(name)), items, 0, True, start, headless)


def is_plain(value: Any) -> bool:
    """A number or nothing, or text that is no JSON."""
    if isinstance(value, str):
        return value[:1] not in _OPENERS
    return isinstance(value, (int, float)) or not isinstance(value, (Mapping, list, tuple))


def _place(item: tuple[str, Any]) -> tuple[int, str]:
    return leading(item[0].rpartition(".")[2]), item[0]


def _unwrapped(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    """``3.message.role`` -> ``3.role``, where all keys have the one wrapper."""
    wrappers = {key.split(".", 2)[1] if key.count(".") > 1 else "" for key in flat}
    if len(wrappers) > 1 or not wrappers <= {"message", "tool"}:
        return flat
    return {
        f"{number}.{rest}": value for key, value in flat.items() for number, _, rest in [key.split(".", 2)]
    }


def opened(value: Any) -> tuple[Any, int]:
    """``value``, or what it holds where it is a string of JSON, of a JSON string or of Python's literals; and the length
    at which such a string was cut, else 0."""
    if not isinstance(value, str):
        return value, 0
    first = value[:1]
    if first == '"' and value[-1:] == '"':
        try:
            inner = loads(value)
        except ValueError:
            return value, 0
        return opened(inner) if isinstance(inner, str) and inner[:1] in ("{", "[") else (inner, 0)
    if first not in ("{", "["):
        return value, 0
    try:
        return loads(value), 0
    except ValueError:
        pass
    try:
        if _PRINTED.match(value):
            return (printed(value) if len(value) <= _LONGEST_REPR else value), 0
        return salvage(value), len(value)
    except (ValueError, RecursionError):
        return value, 0


def sights(value: Value) -> Iterator[Sight]:
    """What is to be seen in ``value``, in no order that means anything."""
    for shape, path, held in _walk(value.held, value.path, _DEPTH):
        yield Sight(shape, path, held, value)


def _walk(held: Any, path: Words, depth: int) -> Iterator[tuple[Shape, Words, Any]]:
    if isinstance(held, str):
        yield "text", path, held
    elif isinstance(held, (int, float)) and not isinstance(held, bool):
        yield "number", path, held
    elif isinstance(held, Mapping):
        yield from _of_mapping(held, path, depth)
    elif isinstance(held, (list, tuple)) and held:
        yield from _of_list(held, path, depth)


def _of_list(held: Any, path: Words, depth: int) -> Iterator[tuple[Shape, Words, Any]]:
    if any(isinstance(item, Mapping) and "event.name" in item for item in held):
        asked, answered = spoken((str(e.get("event.name")), e, {}) for e in held if isinstance(e, Mapping))
        yield "messages", path, asked
        yield "messages", (*path, "output"), answered
        return
    tools = definitions_in(held, named=names.tells_tools(path))
    messages = messages_in(held) if tools is None else None
    if tools is not None:
        yield "tools", path, tools
    elif messages is not None:
        yield "messages", path, messages
    elif names.tells_system(path) and all(map(_is_block, held)):
        yield "blocks", path, list(held)
    elif depth:
        for item in held[:_WIDTH]:
            yield from _walk(opened(item)[0], path, depth - 1)


def _is_block(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, Mapping) and ("text" in item or "content" in item))


def _of_mapping(held: Mapping[str, Any], path: Words, depth: int) -> Iterator[tuple[Shape, Words, Any]]:
    asked = names.side(path) == "asked"
    response = None if asked else response_in(held)
    request = request_in(held) if response is None else None  # a response may repeat what was asked
    if response is not None:
        yield "response", path, response
        yield from _beside(held, path)
        return
    if request is not None:
        yield "request", path, request
        return
    if is_message(held):
        yield "messages", path, [held]
        return
    if names.tells_tools(path):
        tools = definitions_in(held, named=True)
        if tools is not None:
            yield "tools", path, tools
            return
    if path and ("usage" in path[-3:] or "token" in path[-3:] or "tokens" in path[-3:]):
        yield "usage", path, held
    if depth:
        for key, value in held.items():
            yield from _walk(opened(value)[0], (*path, *names.words(str(key))), depth - 1)


def _beside(held: Mapping[str, Any], path: Words) -> Iterator[tuple[Shape, Words, Any]]:
    """What a response has besides: numbers, and what it repeats of its request (OpenAI's Responses do)."""
    for _, usage in islice(usages_in(held), 1):
        yield from _walk(usage, (*path, "usage"), 2)
    tools = definitions_in(held.get("tools"), named=True)
    if tools:
        yield "tools", (*path, "input", "tools"), tools
    if isinstance(held.get("instructions"), str):
        yield "text", (*path, "input", "instructions"), held["instructions"]


def spoken(events: Iterable[tuple[str, Any, Mapping[str, Any]]]) -> tuple[list[Any], list[Any]]:
    """Messages and answers of events that hold one each: (name, body, attributes)."""
    asked: list[Any] = []
    answered: list[Any] = []
    for name, body, attributes in events:
        if not event_messages.is_message(name):
            continue
        if isinstance(body, Mapping):
            body = {k: v for k, v in body.items() if k != "event.name"}
        message = event_messages.message(name, body, attributes)
        kept = answered if event_messages.is_answer(name) else asked
        if isinstance(message, list):
            kept += message
        elif message is not None:
            kept.append(message)
    return asked, answered
