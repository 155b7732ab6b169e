"""One prompt out of the several tellings of it that a span may hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_ctx.dialects import event_messages
from otel_ctx.dialects.generic.names import Side
from otel_ctx.dialects.generic.values import Value
from otel_ctx.model import MODEL_KINDS, Part
from otel_ctx.parts import Body, as_sent, definitions_in, read_message

Held = tuple[Value, Any]
"""Something, and the value of the span that it stands in."""

_MUCH = 0.8  # of the longest telling: one that is as long tells as much


@dataclass(frozen=True, slots=True)
class Prompt:
    """A telling of a prompt. ``parts`` are those of each message."""

    messages: list[Any]
    parts: list[list[Part]]
    of: Value
    side: Side
    body: Body | None
    tools: list[Any] | None

    @property
    def system(self) -> Any:
        """The system prompt that stands beside the messages in the body of the request."""
        return self.body.system.value if self.body is not None and self.body.system is not None else None

    @property
    def has_system(self) -> bool:
        return self.system is not None or any(p.kind == "system" for parts in self.parts for p in parts)

    @property
    def size(self) -> int:
        """Characters; a system prompt can be taken from elsewhere and does not count."""
        return sum(len(p.text) for parts in self.parts for p in parts if p.kind != "system")

    @property
    def lacks_calls(self) -> bool:
        """Are there more results of tools than calls of them?"""
        kinds = Counter(p.kind for parts in self.parts for p in parts)
        return kinds["tool_result"] > kinds["tool_call"]


def prompt_of(messages: list[Any], of: Value, side: Side, body: Body | None = None) -> Prompt:
    messages = as_sent([_with_blocks(m) for m in messages])
    tools = body.tools.value if body is not None and body.tools is not None else None
    end = len(messages)
    while end and _is_definition(messages[end - 1]):  # some append each tool as a message of its own
        end -= 1
    if end < len(messages) and not tools:
        tools, messages = [m["content"] for m in messages[end:]], messages[:end]
    return Prompt(messages, [read_message(m, 0) for m in messages], of, side, body, tools)


def _with_blocks(message: Any) -> Any:
    """``message`` with its content opened where it is a list of blocks that was written as a string."""
    content = message.get("content") if isinstance(message, dict) else None
    opened = event_messages.blocks(content)
    return message if opened is content else {**message, "content": opened}


def _is_definition(message: Any) -> bool:
    content = message.get("content") if isinstance(message, Mapping) else None
    return isinstance(content, Mapping) and definitions_in([content]) is not None


def best(prompts: Sequence[Prompt]) -> Prompt | None:
    """Of the tellings that say most, one that is not damaged, rather the body of a request than a list, and rather that
    than what an index spells."""
    most = max((p.size for p in prompts), default=0)
    return min((p for p in prompts if p.size >= _MUCH * most), key=_damage, default=None)


def _damage(prompt: Prompt) -> tuple[Any, ...]:
    of = prompt.of
    return (
        bool(of.cut), of.headless, None in prompt.messages, prompt.lacks_calls, prompt.side != "asked",
        prompt.body is None, of.flat, -prompt.size, len(of.path), of.path,
    )  # fmt: skip


def without_answer(prompt: Prompt, answer: list[Any]) -> tuple[list[Any], list[Any]]:
    """The messages without the call's own answer, and that answer. Some append it to the messages, some write the messages
    down when the application has gone on with them.

    It is known by its ids, or by its words at the end. Where the span has no answer beside them, and does not say that
    they were asked, what the model said last is taken for it."""
    own = {mark for message in answer for mark in _marks(message)}
    size = len(prompt.messages)
    end = next((n for n, m in enumerate(prompt.messages) if not own.isdisjoint(_marks(m))), size)
    said = {_words(part) for message in answer for part in read_message(message, 0)}
    guess = not said and prompt.side != "asked"
    while end and (spoken := prompt.parts[end - 1]) and all(p.kind in MODEL_KINDS for p in spoken):
        if not guess and not said.issuperset(map(_words, spoken)):
            break
        end -= 1
    return prompt.messages[:end], answer or prompt.messages[end:]


def _marks(message: Any) -> Iterator[tuple[str, ...]]:
    """What names an answer for good: the id of the message, and those of its tool calls beside what they say, since some
    frameworks invent ids that come again."""
    if isinstance(message, Mapping) and isinstance(message.get("id"), str) and message["id"]:
        yield ("", message["id"])
    for part in read_message(message, 0):
        if part.kind == "tool_call" and part.call_id:
            yield (part.call_id, *_words(part))


def _words(part: Part) -> tuple[str, str, str]:
    return part.kind, part.name, part.text


def best_tools(prompt: Prompt, beside: Sequence[Held]) -> tuple[Value | None, Any]:
    """The tools of the request, else the best that stand beside it. And where they stand, unless that is the prompt's own
    place."""
    return (None, prompt.tools) if prompt.tools else best_definitions(beside)


def best_definitions(beside: Sequence[Held]) -> tuple[Value | None, Any]:
    """The longest list of tools that has definitions, else the longest of bare names, and where it stands."""
    whole = [found for found in beside if are_definitions(found[1])]
    return max(whole or beside, key=lambda f: (len(f[1]), not f[0].flat, f[0].path), default=(None, []))


def are_definitions(tools: list[Any]) -> bool:
    """There are some, and they are no bare names."""
    return bool(tools) and all(isinstance(t, Mapping) for t in tools)


def best_system(prompt: Prompt, beside: Sequence[Held], others: Sequence[Prompt]) -> tuple[Value | None, Any]:
    """The system prompt that stands beside the messages; where none does, that of another telling of the prompt. And where
    it stands, unless that is the prompt's own place."""
    if prompt.has_system:
        return None, prompt.system
    if beside:
        return longest(beside)
    for other in sorted((p for p in others if p.has_system), key=_damage):
        leading = [p.text for parts in other.parts for p in parts if p.kind == "system"]
        return other.of, other.system if other.system is not None else leading
    return None, None


def longest(held: Sequence[Held]) -> tuple[Value | None, Any]:
    return max(held, key=lambda found: (size_of(found[1]), found[0].path), default=(None, None))


def size_of(value: Any) -> int:
    """Characters of text in ``value``."""
    return sum(lengths(value))


def lengths(value: Any) -> Iterator[int]:
    """Of each text in ``value``."""
    if isinstance(value, str):
        yield len(value)
    elif isinstance(value, Mapping):
        yield from (n for v in value.values() for n in lengths(v))
    elif isinstance(value, (list, tuple)):
        yield from (n for v in value for n in lengths(v))
