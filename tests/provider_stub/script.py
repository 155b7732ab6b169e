"""What the model says, decided by the last message alone: a session can be foretold.

A user's message gets tool calls, if tools are offered: to those that it names, or else to the first (to the first two
at once where it says "both"). A tool's result, "no tools" in the message, or no tools at all get a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.provider_stub.interface import Call, Json, Prompt, Tool

THOUGHT = "I should look at what was asked, compare it with what the tools returned, and answer briefly."
ANSWERS = (
    "Unworn items can be returned within 30 days of delivery; the money goes back the way it came, within a week.",
    "The order has left the warehouse and is out for delivery; the carrier expects it at the door before six today.",
    "Yes. An exchange for another size is free of charge, and the first parcel need not be back before the second leaves.",
    "Done: the return is open and its label is in your mailbox. Drop the parcel at any counter before Friday.",
)


def calls(prompt: Prompt) -> tuple[Call, ...]:
    if prompt.role != "user" or "no tools" in prompt.text:
        return ()
    named = [tool for tool in prompt.tools if re.search(rf"\b{re.escape(tool.name)}\b", prompt.text)]
    chosen = named or prompt.tools[: 2 if "both" in prompt.text else 1]
    return tuple(Call(tool.name, arguments(tool, prompt.text)) for tool in chosen)


def answer(prompt: Prompt) -> str:
    return ANSWERS[prompt.turn % len(ANSWERS)]


def arguments(tool: Tool, text: str) -> dict[str, Any]:
    """The required arguments, valid for the schema as far as simple schemas go."""
    properties: Json = tool.schema.get("properties", {})
    required = tool.schema.get("required", ())
    return {name: _value(schema, text) for name, schema in properties.items() if name in required}


def _value(schema: Json, text: str) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    # Gemini writes its types in capitals.
    kind = str(schema.get("type", "string")).lower()
    simple: Mapping[str, Any] = {"integer": 3, "number": 2.5, "boolean": True, "array": [], "null": None}
    if kind == "object":
        return arguments(Tool("", schema), text)
    return simple.get(kind, " ".join(text.split())[:60])
