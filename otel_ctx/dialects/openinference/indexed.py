"""OpenInference's indexed attributes: ``llm.input_messages.N.*``, ``llm.output_messages.N.*``, ``llm.tools.N.*``.

Messages that an earlier span had too are known by their digest and not read again; what is to be known of them is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from otel_ctx.dialects.fields import indexed, indexed_from
from otel_ctx.dialects.flat import Run, reaches_below
from otel_ctx.parts import sent_together

MASK = "__REDACTED__"
_HIDDEN_TEXTS = (".message.content", ".message_content.text")
_INPUT = "llm.input_messages."
_OUTPUT = "llm.output_messages."
_TOOLS = "llm.tools."
_OTHERS_PROMPT = "gen_ai.prompt."  # OpenLLMetry's span, rewritten by a converter
SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True)
class Flat:
    """The indexed attributes of a span, keys without their prefix. Those of the input messages are not read until somebody
    asks for ``history``: mostly the request's body tells the same."""

    attributes: Mapping[str, Any]
    outputs: Mapping[str, Any]
    tools: Mapping[str, Any]
    has_inputs: bool
    masked: bool  # the text of an input message was hidden
    of_openllmetry: bool

    @cached_property
    def history(self) -> Indexed:
        return _indexed(self.attributes)


@dataclass(frozen=True, slots=True)
class Indexed:
    """The input messages. ``run`` holds their attributes; ``inputs`` has none that an earlier span had too, and ``items``
    are the messages they spell, nested."""

    run: Run
    inputs: Mapping[str, Any]
    items: list[Any]
    start: int  # the first message that is there
    headless: bool  # it has lost its role
    whole: bool  # nothing is missing before or of the first message
    facts: frozenset[str]  # of all messages: see facts_of


def gather(attributes: Mapping[str, Any]) -> Flat:
    """All of them, in one pass."""
    outputs: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    has_inputs = masked = of_openllmetry = False
    for key, value in attributes.items():
        if key.startswith(_INPUT):  # nearly all of a long prompt's
            if value == MASK and key.endswith(_HIDDEN_TEXTS):
                masked = True
            else:
                has_inputs = True
        elif key.startswith(_OUTPUT):
            if value != MASK:
                outputs[key[len(_OUTPUT) :].replace(".message.", ".", 1)] = value
        elif key.startswith(_TOOLS):
            tools[key[len(_TOOLS) :].replace(".tool.", ".", 1)] = value
        elif key.startswith(_OTHERS_PROMPT) and key[len(_OTHERS_PROMPT) :][:1].isdecimal():
            of_openllmetry = True
    return Flat(attributes, outputs, tools, has_inputs, masked, of_openllmetry)


def _indexed(attributes: Mapping[str, Any]) -> Indexed:
    """Messages that came before are known by their digest."""
    run = Run(attributes, _INPUT, "openinference")
    inputs = inputs_of(run.new)
    if run.reaches_back(inputs):
        inputs = inputs_of(run.new)
    older = run.known
    if older.count:
        items, start, headless, whole = indexed_from(inputs, older.count), 0, False, True
    else:
        items, start, headless = indexed(inputs)
        whole = bool(items) and not start and not headless and "role" in items[0]
    facts = older.facts | facts_of(inputs, items)
    if whole:
        run.learn(older.count + len(items), facts)
    return Indexed(run, inputs, items, start, headless, whole, facts)


def facts_of(inputs: Mapping[str, Any], items: Sequence[Any]) -> frozenset[str]:
    """What is to be known of messages that are not read again: "system" (some are of that role), "gap" (one is
    missing), "late" (one has lost its first content part), "calls" (some call tools), "together" (neighbours were sent as
    one), "bare" and "bare system" (a role and no content)."""
    facts = set()
    if None in items:
        facts.add("gap")
    if any(".tool_calls." in key for key in inputs):
        facts.add("calls")
    if _starts_late(inputs):
        facts.add("late")
    roles = [role_of(message) for message in items]
    named = set(roles)
    if named & SYSTEM_ROLES:
        facts.add("system")
    if any(map(sent_together, named)):
        facts.add("together")
    for message, role in zip(items, roles, strict=True):
        if role != "assistant" and isinstance(message, dict) and message.keys() == {"role"}:
            facts.add("bare system" if role in SYSTEM_ROLES else "bare")
    return frozenset(facts)


def _starts_late(inputs: Iterable[str]) -> bool:
    """Is the first content part of a message missing? So are LangChain's thinking blocks and OpenAI's audio."""
    parts = [key.split(".", 3) for key in inputs if ".contents." in key]
    return bool({p[0] for p in parts} - {p[0] for p in parts if p[2] == "0"})


def inputs_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """What ``pairs`` hold of the input messages, keys without their prefix. A mask is never text."""
    size = len(_INPUT)
    return {
        key[size:].replace(".message.", ".", 1): value
        for key, value in pairs
        if key.startswith(_INPUT) and not (value == MASK and key.endswith(_HIDDEN_TEXTS))
    }


def read_pairs(pairs: list[tuple[str, Any]], start: int) -> list[Any] | None:
    inputs = inputs_of(pairs)
    return None if reaches_below(start, inputs) else indexed_from(inputs, start)


def role_of(message: Any) -> str:
    return str(message.get("role") or "") if isinstance(message, dict) else ""
