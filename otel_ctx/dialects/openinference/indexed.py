"""OpenInference's indexed attributes: ``llm.input_messages.N.*``, ``llm.output_messages.N.*``, ``llm.tools.N.*``.

Messages that an earlier span had too are known by their digest and not read again; what is to be known of them is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
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


@dataclass(slots=True)
class Flat:
    """The indexed attributes of a span, keys without their prefix. ``run`` holds those of the input messages;
    ``inputs`` has none that an earlier span had too, and ``items`` are the messages they spell, nested."""

    run: Run
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)
    start: int = 0  # the first message that is there
    headless: bool = False  # it has lost its role
    whole: bool = False  # nothing is missing before or of the first message
    facts: frozenset[str] = frozenset()  # of all messages: see facts_of
    of_openllmetry: bool = False

    @property
    def has_inputs(self) -> bool:
        return bool(self.inputs) or self.run.known.count > 0


def gather(attributes: Mapping[str, Any]) -> Flat:
    """All of them, in one pass; messages that came before are known by their digest."""
    run = Run(attributes, _INPUT, "openinference")
    flat = _sorted(run)
    if run.reaches_back(flat.inputs):
        flat = _sorted(run)
    older = run.known
    if older.count:
        flat.items, flat.whole = indexed_from(flat.inputs, older.count), True
    else:
        flat.items, flat.start, flat.headless = indexed(flat.inputs)
        flat.whole = bool(flat.items) and not flat.start and not flat.headless and "role" in flat.items[0]
    flat.facts |= older.facts | facts_of(flat.inputs, flat.items)
    if flat.whole:
        run.learn(older.count + len(flat.items), flat.facts)
    return flat


def _sorted(run: Run) -> Flat:
    flat = Flat(run)
    for key, value in chain(run.others, run.new):
        if not key.startswith("llm."):
            if key.startswith(_OTHERS_PROMPT) and key[len(_OTHERS_PROMPT) :][:1].isdecimal():
                flat.of_openllmetry = True
        elif key.startswith(_INPUT):
            if value == MASK and key.endswith(_HIDDEN_TEXTS):
                flat.facts = frozenset({"masked"})
        elif key.startswith(_OUTPUT):
            if value != MASK:
                flat.outputs[key[len(_OUTPUT) :].replace(".message.", ".", 1)] = value
        elif key.startswith(_TOOLS):
            flat.tools[key[len(_TOOLS) :].replace(".tool.", ".", 1)] = value
    flat.inputs = inputs_of(run.new)
    return flat


def facts_of(inputs: Mapping[str, Any], items: Sequence[Any]) -> frozenset[str]:
    """What is to be known of messages that are not read again: "system" (some are of that role), "gap" (one is
    missing), "late" (one has lost its first content part), "calls" (some call tools), "together" (neighbours were sent as
    one), "bare" and "bare system" (a role and no content). A text that was hidden makes "masked"."""
    facts = set()
    if None in items:
        facts.add("gap")
    if any(".tool_calls." in key for key in inputs):
        facts.add("calls")
    if _starts_late(inputs):
        facts.add("late")
    for message in items:
        system = role_of(message) in SYSTEM_ROLES
        if system:
            facts.add("system")
        if sent_together(role_of(message)):
            facts.add("together")
        if isinstance(message, dict) and message.keys() == {"role"} and role_of(message) != "assistant":
            facts.add("bare system" if system else "bare")
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
