"""Mastra's exporter: a run of an agent, its steps, in each step a request, and tools beside them.

The request's span has the figures, its answer's words alone and no prompt. What the agent was asked stands whole on the
run, what a step answered on the step, what a tool gave back on the tool's span; the step's own prompt has placeholders for
tool calls and results. Put together, they are the prompt where the step has the same words. Tools are bare names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import of_span, text
from otel_ctx.model import Raw, Span, Telling
from otel_ctx.parts import compact, mapping, structure

_TYPE = "mastra.span.type"
_RUN = "mastra.metadata.runId"
_TOO_DEEP = "[MaxDepth]"  # what the exporter puts in place of values deep in others
_PLACEHOLDER = re.compile(r"\[tool(?:-result)?: [^\]\n]*\]")
NEEDS = frozenset({_TYPE})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of Mastra's, or of no request."""
    reader = _READERS.get(text(span.attributes, _TYPE))
    return reader(span) if reader is not None else None


def _request(span: Span) -> Telling:
    said = semconv.telling(span, "mastra", "call")
    return said._replace(
        **_UNSEEN, provider=said.provider.partition(".")[0], thread=text(span.attributes, _RUN)
    )


def _step(span: Span) -> Telling:
    """The step around one request: its words, and its answer with the tool calls."""
    a = span.attributes
    given = structure(a.get("mastra.model_step.input"))
    messages = [_without_placeholder(m) for m in given] if isinstance(given, list) else []
    answer = _answer(mapping(structure(a.get("mastra.model_step.output"))))
    return of_span(span, "mastra", "call")._replace(
        **_UNSEEN,
        operation="chat",
        conversation_hint=text(a, *semconv.CONVERSATION),
        messages=Raw("messages", messages) if messages else None,
        output=Raw("messages", [answer]) if answer else None,
        thread=text(a, _RUN),
    )


def _run(span: Span) -> Telling:
    a = span.attributes
    said = semconv.telling(span, "mastra", "aggregate")
    written = a.get("mastra.agent_run.input")
    asked, lost = structure(written), said.lost
    if isinstance(written, str) and _TOO_DEEP in written and isinstance(asked, list):
        asked = [_without_what_lies_too_deep(m) for m in asked]
        lost |= {"messages"}
    messages = Raw("messages", asked) if asked else None
    return said._replace(messages=messages, lost=lost, thread=text(a, _RUN), news="all")


def _tool(span: Span) -> Telling | None:
    a = span.attributes
    if "gen_ai.tool.call.result" not in a:
        return None
    result = {
        "role": "tool",
        "tool_call_id": text(a, "gen_ai.tool.call.id"),
        "content": a["gen_ai.tool.call.result"],
    }
    return of_span(span, "mastra", "piece")._replace(
        messages=Raw("messages", [result]),
        thread=text(a, _RUN),
        news="added",
    )


_READERS = {"model_inference": _request, "model_step": _step, "agent_run": _run, "tool_call": _tool}
_UNSEEN: Any = {
    "reasons": frozenset({"not_captured", "schema_missing"}),
    "lost": frozenset({"tools", "system", "messages"}),
}


def _without_placeholder(message: Any) -> Any:
    said = mapping(message)
    content = said.get("content")
    if not isinstance(content, str) or said.get("role") not in ("assistant", "tool"):
        return message
    return {**said, "content": _PLACEHOLDER.sub("", content)}


def _without_what_lies_too_deep(message: Any) -> Any:
    said = mapping(message)
    if not isinstance(said.get("content"), list):
        return message
    return {**said, "content": [b for b in said["content"] if _TOO_DEEP not in compact(b)]}


def _answer(output: Mapping[str, Any]) -> dict[str, Any] | None:
    calls = [mapping(c) for c in output.get("toolCalls") or ()]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": output["text"]}] if output.get("text") else []
    blocks += [{**c, "type": "tool-call"} for c in calls]
    return {"role": "assistant", "content": blocks} if blocks else None
