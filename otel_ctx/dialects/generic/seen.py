"""All that was seen in a span, in no order: its attributes' values and what its events hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from otel_ctx.dialects import event_messages
from otel_ctx.dialects.fields import number
from otel_ctx.dialects.generic import names
from otel_ctx.dialects.generic.names import Count, Side, Words
from otel_ctx.dialects.generic.prompt import Held, Prompt, prompt_of
from otel_ctx.dialects.generic.values import Shape, Sight, Value, sights, spoken, values
from otel_ctx.model import Event
from otel_ctx.parts import Answer, Body, is_mask, is_message

_LONGEST_NAME = 128  # characters of a model's or a provider's name
_SHORTEST_SYSTEM = 20  # characters of a system prompt; what is shorter is a provider's name
_RUN_IDS = ("run-", "lc_run")  # LangChain's own, where it does not know the provider's


class Number(NamedTuple):
    """A count of tokens. ``nested``: it lies in JSON; ``name`` is the attribute's."""

    nested: bool
    path: Words
    name: str
    value: int


@dataclass(slots=True)
class Seen:
    prompts: list[Prompt] = field(default_factory=list)
    answers: list[list[Any]] = field(default_factory=list)
    responses: list[tuple[Value, Answer]] = field(default_factory=list)
    tools: list[Held] = field(default_factory=list)
    systems: list[Held] = field(default_factory=list)
    # one of them may be what was asked or answered
    texts: dict[Side, list[Held]] = field(default_factory=dict)
    usages: list[tuple[Value, Mapping[str, Any]]] = field(default_factory=list)
    counts: dict[Count, list[Number]] = field(default_factory=dict)
    reserve: int | None = None
    cuts: set[int] = field(default_factory=set)  # lengths at which values were cut
    masked: bool = False
    _names: dict[str, list[tuple[bool, Words, str]]] = field(default_factory=dict)

    def name(self, what: names.Named) -> str:
        """The value for ``what``: of those that do not lie in JSON, if there are any, that with the shortest name."""
        found = self._names.get(what, ())
        return min(found, key=lambda n: (n[0], len(n[1]), n), default=(False, (), ""))[2]

    def add_name(self, what: names.Named, path: Words, value: str, *, nested: bool) -> None:
        if value:
            self._names.setdefault(what, []).append((nested, path, value))


def look(held: Iterable[Value]) -> Seen:
    seen = Seen()
    _add(seen, held)
    return seen


def listen(seen: Seen, events: Iterable[Event]) -> None:
    """Add what the events hold: one message each, or values as attributes do."""
    held = [e for e in events if e.attributes and e.name != "exception"]
    asked, answered = spoken((e.name, None, e.attributes) for e in held)
    for event in held:
        if event_messages.is_message(event.name):
            continue
        within = names.words(event.name)
        if not is_message(event.attributes):
            _add(seen, values(event.attributes, within))
        elif names.side(within) == "answered":
            answered.append(dict(event.attributes))
        else:
            asked.append(dict(event.attributes))
    if asked:
        seen.prompts.append(prompt_of(asked, Value("events", ("events",), asked), ""))
    if answered:
        seen.answers.append(answered)


def _add(seen: Seen, held: Iterable[Value]) -> None:
    for value in held:
        if value.cut:
            seen.cuts.add(value.cut)
        for sight in sights(value):
            _ADD[sight.shape](seen, sight)


def _add_messages(seen: Seen, sight: Sight) -> None:
    side = names.side(sight.path)
    if side == "answered":
        seen.answers.append(sight.held)
    elif sight.held:
        seen.prompts.append(prompt_of(sight.held, sight.of, side))


def _add_request(seen: Seen, sight: Sight) -> None:
    body: Body = sight.held
    side = names.side(sight.path)
    if body.messages is not None and side != "answered":
        held = body.messages.value
        seen.prompts.append(prompt_of(held if isinstance(held, list) else [held], sight.of, side, body))
        seen.add_name("request", (*sight.path, "model"), body.model, nested=True)


def _add_response(seen: Seen, sight: Sight) -> None:
    answer: Answer = sight.held
    seen.responses.append((sight.of, answer))
    seen.answers.append(answer.messages)
    seen.add_name("response", (*sight.path, "model"), answer.model, nested=True)
    if not answer.id.startswith(_RUN_IDS):
        seen.add_name("id", (*sight.path, "id"), answer.id, nested=True)


def _add_tools(seen: Seen, sight: Sight) -> None:
    if names.side(sight.path) != "answered":
        seen.tools.append((sight.of, sight.held))


def _add_blocks(seen: Seen, sight: Sight) -> None:
    if names.side(sight.path) != "answered" and sight.held:
        seen.systems.append((sight.of, sight.held))


def _add_usage(seen: Seen, sight: Sight) -> None:
    seen.usages.append((sight.of, sight.held))


def _add_number(seen: Seen, sight: Sight) -> None:
    value = number({"": sight.held}, "")
    if value is None or value < 0:
        return
    above, nested = sight.of.path, sight.path != sight.of.path
    # "input.value" says of a number that lies in it nothing but whose it is
    path = sight.path if not nested or names.counts_tokens(above) else sight.path[len(above) :]
    count = names.count_of(path)
    if count is not None:
        found = Number(nested, path, sight.of.name, value)
        seen.counts.setdefault(count, []).append(found)
    elif value and names.tells_reserve(sight.path):
        seen.reserve = max(seen.reserve or 0, value)


def _add_text(seen: Seen, sight: Sight) -> None:
    path, held = sight.path, sight.held
    if not held:
        return
    side = names.side(path)
    if is_mask(held):
        seen.masked = seen.masked or side == "asked"
        return
    if names.tells_system(path) and len(held) >= _SHORTEST_SYSTEM and side != "answered":
        seen.systems.append((sight.of, held))
    elif path == sight.of.path and (said := names.tells_text(path)):
        seen.texts.setdefault(said, []).append((sight.of, held))
    if len(held) > _LONGEST_NAME or any(c.isspace() for c in held):
        return
    if held.isdecimal():
        _add_number(seen, sight)
    elif what := names.tells(path):
        seen.add_name(what, path, held, nested=path != sight.of.path)


_ADD: Mapping[Shape, Callable[[Seen, Sight], None]] = {
    "messages": _add_messages,
    "request": _add_request,
    "response": _add_response,
    "tools": _add_tools,
    "blocks": _add_blocks,
    "usage": _add_usage,
    "number": _add_number,
    "text": _add_text,
}
