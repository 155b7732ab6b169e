"""Claude Code's spans and log events: figures of each request, and of its prompt the pieces that it was told to record.

A request's span has no prompt. With detailed tracing it has what is new in it, and names system prompt and tools by hashes
whose contents come once a process, as log events. Otherwise the user's words, the model's and the calls of tools are told
by the interaction's span and by events, one by one; what tools gave back is not as it was sent, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import milliseconds, number, of_record, text
from otel_ctx.model import LogRecord, Raw, Span, Telling, UsageClaim
from otel_ctx.parts import mapping, read_usage, structure

_CALL, _INTERACTION = "llm_request", "interaction"
_SEQUENCE = "event.sequence"  # on each of its events
_SUMS_UP = "compact"
_CONVERSES = ("sdk", "repl_main_thread", _SUMS_UP, "agent")  # query sources whose prompt is the conversation
_NEW = re.compile(r"(?:\A|\n\n---\n\n)\[(USER|TOOL RESULT: ([^\]\n]*))\]\n")
_SECTIONS = frozenset({"tools", "system", "messages"})
NEEDS = frozenset({"span.type"})


# ---- spans


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of Claude Code's, or one of a tool.

    Before they had the conventions' names (2.1.114 has not), its numbers were those of the API, beside the cached ones."""
    kind = text(span.attributes, "span.type") if "session.id" in span.attributes else ""
    if kind == _CALL:
        return _call(span)
    return _interaction(span) if kind == _INTERACTION else None


def _call(span: Span) -> Telling:
    a = span.attributes
    said = semconv.telling(span, "claude_code", "call")
    session = said.conversation_hint or text(a, "session.id")
    new = _new_messages(text(a, "new_context"))
    answer = text(a, "response.model_output")
    return said._replace(
        operation="chat",
        provider="anthropic",
        request_model=said.request_model or text(a, "model"),
        conversation_hint=session,
        usage=said.usage or _usage(a),
        messages=Raw("messages", new) if new else None,
        output=Raw("messages", [{"role": "assistant", "content": answer}]) if answer else None,
        reasons=frozenset({"not_captured"}),
        lost=_SECTIONS,
        thread=session if _converses(a) else "",
        sums_up=text(a, "query_source", "query_source_safe") == _SUMS_UP,
        news="added" if new else "",
        names=_names(a),
    )


def _interaction(span: Span) -> Telling:
    said = semconv.telling(span, "claude_code", "aggregate")
    return said._replace(
        messages=_asked(text(span.attributes, "user_prompt")),
        thread=said.conversation_hint,
        news="added",
        request_id=span.span_id,
    )


def _converses(attributes: Any) -> bool:
    """Requests for a title and the like have a prompt of their own."""
    source = text(attributes, "query_source", "query_source_safe")
    return not source or source.startswith(_CONVERSES)


def _new_messages(context: str) -> list[dict[str, Any]]:
    """``[USER]`` and ``[TOOL RESULT: id]``, each with what follows it."""
    heads = list(_NEW.finditer(context))
    found: list[dict[str, Any]] = []
    for n, head in enumerate(heads, 1):
        end = heads[n].start() if n < len(heads) else len(context)
        message = {"role": "user", "content": context[head.end() : end]}
        if head[2] is not None:
            message |= {"role": "tool", "tool_call_id": head[2]}
        found.append(message)
    return found


def _names(attributes: Any) -> tuple[tuple[str, str], ...]:
    tools = structure(attributes.get("tools"))
    hashes = [text(mapping(t), "hash") for t in tools] if isinstance(tools, list) else []
    system = text(attributes, "system_prompt_hash")
    return (*(("tools", h) for h in hashes), *((("system", system),) if system else ()))


def _usage(attributes: Any) -> UsageClaim | None:
    """The API's numbers under names of their own."""
    counts = {
        "input_tokens": number(attributes, "input_tokens"),
        "output_tokens": number(attributes, "output_tokens"),
        "cache_read_input_tokens": number(attributes, "cache_read_tokens"),
        "cache_creation_input_tokens": number(attributes, "cache_creation_tokens"),
        "cache_creation": {
            "ephemeral_5m_input_tokens": number(attributes, "cache_creation_5m_tokens"),
            "ephemeral_1h_input_tokens": number(attributes, "cache_creation_1h_tokens"),
        },
    }
    return read_usage(counts) if counts["input_tokens"] is not None else None


# ---- log events


def read_log(record: LogRecord) -> Telling | None:
    """What an event holds of a request or of the session; None where it holds nothing of either."""
    a = record.attributes
    event = text(a, "event.name") or record.name.rpartition(".")[2]
    read = _EVENTS.get(event) if _SEQUENCE in a and "session.id" in a else None
    return read(record) if read is not None else None


def _request(record: LogRecord) -> Telling:
    a = record.attributes
    took = milliseconds(a, "duration_ms")
    return _telling(
        record,
        "content",
        start_unix_nano=record.time_unix_nano - took,
        request_model=text(a, "model"),
        usage=_usage(a),
        reasons=frozenset({"not_captured"}),
        lost=_SECTIONS,
    )


def _answer(record: LogRecord) -> Telling:
    a = record.attributes
    answer = {"role": "assistant", "content": text(a, "response")}
    return _telling(record, "content", request_model=text(a, "model"), output=Raw("messages", [answer]))


def _prompt(record: LogRecord) -> Telling:
    asked = _asked(text(record.attributes, "prompt"))
    name = record.span_id or text(record.attributes, "prompt.id")
    return _telling(record, "piece", messages=asked, news="added", request_id=name)


def _asked(words: str) -> Raw | None:
    return Raw("messages", [{"role": "user", "content": words}]) if words else None


def _tool_call(record: LogRecord) -> Telling | None:
    a = record.attributes
    if "tool_input" not in a:
        return None
    call = {"id": text(a, "tool_use_id"), "name": text(a, "tool_name"), "arguments": a["tool_input"]}
    message = {"role": "assistant", "tool_calls": [call]}
    return _telling(
        record, "piece", messages=Raw("messages", [message]), news="added", request_id=text(a, "tool_use_id")
    )


def _compaction(record: LogRecord) -> Telling | None:
    """From here on a summary stands for what was said."""
    if text(record.attributes, "success") == "false":
        return None
    return _telling(record, "piece", news="all", compacted=True)


def _system(record: LogRecord) -> Telling:
    """The blocks of the system prompt, joined by blank lines: the first ones are single lines."""
    a = record.attributes
    blocks = text(a, "system_prompt").split("\n\n", 2)
    while len(blocks) > 1 and any("\n" in b for b in blocks[:-1]):
        blocks[-2:] = ["\n\n".join(blocks[-2:])]
    system = Raw("system", [{"type": "text", "text": b} for b in blocks])
    return _telling(
        record, "piece", thread="", system=system, names=(("system", text(a, "system_prompt_hash")),)
    )


def _tool(record: LogRecord) -> Telling:
    a = record.attributes
    tools = Raw("tools", [text(a, "tool")])
    return _telling(record, "piece", thread="", tools=tools, names=(("tools", text(a, "tool_hash")),))


_EVENTS: dict[str, Callable[[LogRecord], Telling | None]] = {
    "api_request": _request,
    "assistant_response": _answer,
    "user_prompt": _prompt,
    "tool_result": _tool_call,
    "compaction": _compaction,
    "system_prompt": _system,
    "tool": _tool,
}


def _telling(record: LogRecord, role: Any, **more: Any) -> Telling:
    a = record.attributes
    session = text(a, "agent_id", "session.id")
    if role == "piece":
        more = {"order": number(a, _SEQUENCE) or 0, **more}
    known = {
        "provider": "anthropic",
        "conversation_hint": session,
        "thread": session if _converses(a) else "",
    }
    return of_record(record, "claude_code", role, **{**known, **more})
