"""The prompt of a call out of the places that a span has it in, and what is known to be missing.

The order is: the words of the library that made the span (a processor only repeats them), the request body in
``input.value``, the flat attributes, the conventions' attributes that OpenInference adds itself. What the user hid is taken
from nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, indexed, text
from otel_ctx.dialects.openinference.indexed import (
    SYSTEM_ROLES,
    Flat,
    facts_of,
    inputs_of,
    read_pairs,
    role_of,
)
from otel_ctx.dialects.openinference.wire import Wire, messages_of
from otel_ctx.model import Reason, Span
from otel_ctx.parts import History, as_sent, mark_the_end, structure

CLIENT = 3  # OpenInference's own spans are INTERNAL: a CLIENT span was made by another library and rewritten
# SDKs that refuse the newest attributes; others drop the oldest
_NEWEST_DROPPED = frozenset({"nodejs", "webjs"})
_EMPTY_PARTS = ('{"type":"text"}', '{"type": "text"}')  # pydantic-ai without content


@dataclass(slots=True)
class Prompt:
    """What was found of the prompt so far, and what is known to be missing."""

    tools: Any = None
    system: Any = None
    messages: Any = None
    output: Any = None
    reasons: set[Reason] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def miss(self, reason: Reason, *sections: str) -> None:
        self.reasons.add(reason)
        self.lost.update(sections)


def prompt_of(span: Span, flat: Flat, wire: Wire, parameters: Mapping[str, Any]) -> Prompt:
    prompt = Prompt()
    missing: Reason = "attributes_dropped" if span.dropped_attributes else "not_captured"
    if wire.hidden:
        prompt.miss("redacted", "tools", "system", "messages")
    _from_the_library(span, prompt)
    own = prompt.messages is not None
    if not own:
        _messages(span, flat, wire, prompt)
    if prompt.tools is None and not wire.hidden:
        _tools(span, flat, wire, prompt)
    if prompt.output is None and flat.outputs:
        prompt.output = [m for m in indexed(flat.outputs)[0] if m]
    whole = "model" in wire.body and bool(wire.messages)
    if prompt.tools is None and "tools" not in prompt.lost and whole:
        prompt.tools = []  # a request as it was sent, with none
    elif prompt.tools is None and "tools" not in prompt.lost and _calls_tools(flat):
        prompt.miss("attributes_dropped" if span.dropped_attributes else "schema_missing", "tools")
    if prompt.messages is None and "messages" not in prompt.lost:
        prompt.miss(missing, "system", "messages")
        if prompt.tools is None:
            prompt.miss(missing, "tools")
    control = parameters.get("cache_control")
    if control and not own and isinstance(prompt.messages, (list, History)):
        messages = prompt.messages if isinstance(prompt.messages, list) else prompt.messages.every()
        prompt.messages = mark_the_end(messages, control)
    return prompt


def _calls_tools(flat: Flat) -> bool:
    return any(".tool_calls." in key for key in flat.outputs) or "calls" in flat.history.facts


def _from_the_library(span: Span, prompt: Prompt) -> None:
    """A span of another library (pydantic-ai, the AI SDK, OpenLLMetry) that a processor has painted over."""
    a = span.attributes
    if "ai.prompt.messages" in a:
        prompt.messages = messages_of(structure(a["ai.prompt.messages"]))
        prompt.tools = first(a, "ai.prompt.tools")
    elif span.kind == CLIENT or "gen_ai.system_instructions" in a:
        found, reasons, lost = semconv.contents(a)
        if "messages" in found:
            prompt.messages, prompt.reasons, prompt.lost = found["messages"].value, reasons, lost
            prompt.system = found["system"].value if "system" in found else None
            prompt.tools = found["tools"].value if "tools" in found else None
            prompt.output = found["output"].value if "output" in found else None
            if any(part in str(prompt.messages) for part in _EMPTY_PARTS):
                prompt.miss("not_captured", "system", "messages")


def _messages(span: Span, flat: Flat, wire: Wire, prompt: Prompt) -> None:
    """Messages and system prompt: out of the body where nothing was hidden, else out of the flat attributes."""
    if flat.masked or (wire.messages and not flat.has_inputs):
        # OPENINFERENCE_HIDE_INPUT_TEXT and _HIDE_INPUT_MESSAGES leave ``input.value`` whole: it is not asked
        prompt.miss("redacted", "system", "messages")
    elif wire.messages:
        prompt.messages, prompt.system = wire.messages, wire.system
        if wire.system is None and not any(map(_is_system, wire.messages)):
            prompt.system = _leading_system(flat)
            if prompt.system is None and not wire.body and span.dropped_attributes:
                prompt.miss("attributes_dropped", "system")
        return
    if flat.has_inputs:
        _flat_messages(span, flat, wire, prompt)
    elif not prompt.lost:
        found, reasons, lost = semconv.contents(span.attributes)
        if "messages" in found:
            prompt.messages = found["messages"].value
            prompt.reasons |= reasons
            prompt.lost |= lost
        else:
            prompt.messages = first(span.attributes, "llm.prompts")


def _is_system(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    if role_of(message) in SYSTEM_ROLES or message.get("type") == "system":
        return True
    ident = message.get("id")
    return "lc" in message and isinstance(ident, list) and ident[-1:] == ["SystemMessage"]


def _of_system(inputs: Mapping[str, Any]) -> Callable[[str], bool]:
    """Does a key belong to a message of the system's?"""
    return lambda key: str(inputs.get(f"{key.partition('.')[0]}.role")) in SYSTEM_ROLES


def _leading_system(flat: Flat) -> Any:
    """The system prompt that only the flat attributes have, as blocks."""
    if "system" not in flat.history.facts:
        return None
    inputs = inputs_of(flat.history.run.pairs)
    is_of_system = _of_system(inputs)
    blocks: list[Any] = []
    for message in indexed({key: value for key, value in inputs.items() if is_of_system(key)})[0]:
        if message:
            content = message.get("contents") or message.get("content")
            blocks += content if isinstance(content, list) else [content]
    return blocks or None


def _flat_messages(span: Span, flat: Flat, wire: Wire, prompt: Prompt) -> None:
    """The messages of the flat attributes by their index, and what limits have taken of them."""
    a = span.attributes
    told = flat.history
    start, headless, facts = told.start, told.headless, told.facts
    if "together" in facts and told.whole:
        prompt.messages = as_sent(indexed(inputs_of(told.run.pairs))[0])
    elif told.whole:
        prompt.messages = told.run.history(told.items, read_pairs)
    else:
        items, start, headless = _with_older(
            told.items, start, headless, structure(a.get("gen_ai.input.messages"))
        )
        prompt.messages, facts = items, facts_of(told.inputs, items)
    if headless:
        prompt.reasons.add("guessed")  # the role
    if "system" not in facts:
        prompt.system = first(a, "gen_ai.system_instructions")
    if span.dropped_attributes or start > 1:  # one may be missing by right: the place of instructions
        if text(span.resource, "telemetry.sdk.language") in _NEWEST_DROPPED or not flat.outputs:
            prompt.miss("attributes_dropped", "messages")
        if start or headless or "gap" in facts:
            prompt.miss("attributes_dropped", "head")
            if "system" not in facts:
                prompt.miss("attributes_dropped", "system")
    elif headless or "late" in facts:
        prompt.miss("not_captured", "messages")
    if not flat.masked:
        for fact, section in (("bare", "messages"), ("bare system", "system")):
            if fact in facts:
                prompt.miss("not_captured", section)
    if wire.cut:
        inputs = inputs_of(told.run.pairs)
        is_of_system = _of_system(inputs)
        for key, value in inputs.items():
            if _as_long(value, wire.cut):
                prompt.miss("value_cut", "system" if is_of_system(key) else "messages")


def _with_older(items: list[Any], start: int, headless: bool, said: Any) -> tuple[list[Any], int, bool]:
    """``items`` with older messages of the conventions' list in front, which OpenInference wrote before the limit took
    the last ones. That list has no indexes: it ends where the flat one ends."""
    whole = start + 1 if headless else start
    more = len(said) - (len(items) - whole) if isinstance(said, list) else 0
    if not 0 < more <= whole or not all(isinstance(m, dict) and m.get("role") for m in said[:more]):
        return items, start, headless
    return [*[None] * (whole - more), *said[:more], *items[whole:]], whole - more, False


def _as_long(value: Any, cut: str) -> bool:
    """Do both end at one length limit? JavaScript counts UTF-16 units."""
    return isinstance(value, str) and (len(value) == len(cut) or _units(value) == _units(cut))


def _units(value: str) -> int:
    return len(value.encode("utf-16-le", "replace"))


def _tools(span: Span, flat: Flat, wire: Wire, prompt: Prompt) -> None:
    """The definitions: as the body has them where they were not hidden, else the flat ones."""
    a = span.attributes
    if wire.tools:  # OPENINFERENCE_HIDE_LLM_TOOLS leaves them in the body, beside the messages that it shows
        prompt.tools = wire.tools
        return
    items, start, _ = indexed(flat.tools)
    if items:
        found = [_definition(item) for item in items if item]
        whole = [
            t for t in found if not (wire.cut and _as_long(t, wire.cut) and isinstance(structure(t), str))
        ]
        prompt.tools = whole
        if len(whole) < len(found):
            prompt.miss("value_cut", "tools")
        if start and span.dropped_attributes:
            prompt.miss("attributes_dropped", "tools")
    elif span.dropped_attributes:
        prompt.miss("attributes_dropped", "tools")
    else:
        prompt.tools = first(a, "gen_ai.tool.definitions")


def _definition(tool: Mapping[str, Any]) -> Any:
    """``tool.json_schema`` is the definition; where a name stands beside it, it is the parameters only."""
    schema = tool.get("json_schema")
    if not tool.get("name"):
        return schema
    schema = structure(schema)
    if isinstance(schema, dict) and ("name" in schema or "function" in schema):
        return schema
    definition = {k: tool[k] for k in ("name", "description") if tool.get(k)}
    return {**definition, "parameters": structure(tool.get("parameters")) if schema is None else schema}
