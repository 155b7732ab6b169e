"""Langfuse's own observations, Python 3 to 5 and JavaScript: ``langfuse.observation.*``, values as JSON.

A generation's input is a request's messages and tools as the wrapped OpenAI client got them, the list of messages that
the LangChain handler makes (tools at its end), or whatever an application handed over. Other observations, and spans
of other instrumentations that go through Langfuse's exporter, are no requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import number, of_span, text
from otel_ctx.model import Raw, Reason, Span, Telling, UsageClaim
from otel_ctx.parts import is_mask, read_body, read_usage, reserve_of, structure, unpack

_TYPE = "langfuse.observation.type"
_INPUT = "langfuse.observation.input"
_USAGE = "langfuse.observation.usage_details"
_MODEL = "langfuse.observation.model.name"
_METADATA = "langfuse.observation.metadata."
_SUMS = frozenset({"span", "agent", "chain"})
_OF_TOOLS = frozenset({"tools", "functions"})
_BESIDE = (
    ("instructions", "system"),
    ("tools", "tools"),
)  # of Responses, in JavaScript's metadata: -> section
_SESSION = ("session.id", "langfuse.session.id", "langfuse.trace.session_id")
_THREADS = ("thread_id", "session_id", "conversation_id")
_FAILED = 2  # OTLP's status code
_TOOL_ITEMS = frozenset({"function_call", "function_call_output"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MASK = re.compile(r"\*{3,}|<fully masked due to failed mask function>|<masking failed>")
_LONGEST_MASK = 64

_READ = ("input_cache_read", "input_cached_tokens", "input_cache_read_tokens", "cache_read_input_tokens")
_WRITE = (
    "input_cache_creation",
    "input_cache_write_tokens",
    "input_cache_creation_tokens",
    "cache_creation_input_tokens",
)
_WRITE_1H = ("input_ephemeral_1h_input_tokens",)
_WRITE_5M = ("input_ephemeral_5m_input_tokens",)
_CACHED = frozenset((*_READ, *_WRITE, *_WRITE_1H, *_WRITE_5M))
NEEDS = frozenset({_TYPE})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is no observation, or one that no model answered."""
    a = span.attributes
    kind = text(a, _TYPE).lower()
    if kind == "generation" and (_INPUT in a or not any(name in a for name in semconv.INPUT)):
        return _call(span)
    if kind in _SUMS:
        said = _telling(span, "aggregate")
        return said if said.usage is not None or said.conversation_hint or said.agent else None
    return None


def _call(span: Span) -> Telling:
    a = span.attributes
    reasons: set[Reason] = set()
    lost: set[str] = set()
    found: dict[str, Any] = {}
    value, cut = unpack(a.get(_INPUT))
    if value in (None, "", "null"):
        reasons.add("attributes_dropped" if span.dropped_attributes else "not_captured")
    elif _is_mask(value):
        reasons.add("redacted")
    else:
        found = _sections(value)
        if "messages" not in found:
            reasons.add("unparsable")  # whatever the application handed over: no messages
    for name, section in _BESIDE:
        said = a.get(f"{_METADATA}{name}")
        if said and section not in found and not _is_mask(said):
            found[section] = _plain(said) if section == "system" else said
    if "messages" not in found:
        lost.update({"tools", "system", "messages"} - found.keys())
    elif cut:
        reasons.add("value_cut")
        lost.update({"tools", "system", "messages"} - found.keys() | {"messages"})
        if isinstance(value, Mapping) and next(reversed(value), "") in _OF_TOOLS:
            lost.add("tools")
    messages = found.get("messages")
    if not found.get("tools") and isinstance(messages, list) and any(map(_is_of_a_tool, messages)):
        reasons.add("schema_missing")
        lost.add("tools")
    if isinstance(messages, list) and any(map(_is_hidden, messages)):
        reasons.add("redacted")
        lost.add("messages")
        found["messages"] = [None if _is_hidden(m) else m for m in messages]
    previous = _plain(a.get(f"{_METADATA}previous_response_id"))
    if previous:
        reasons.add("server_side")
        lost.add("head")
    answer = structure(a.get("langfuse.observation.output"))
    output = None if answer in (None, "", [], {}) or _is_mask(answer) else _spoken(answer)
    return _telling(
        span,
        "call",
        previous_response_id=previous,
        tools=Raw("tools", found["tools"]) if found.get("tools") else None,
        system=Raw("system", found["system"]) if found.get("system") else None,
        messages=Raw("messages", found["messages"]) if found.get("messages") else None,
        output=Raw("messages", output) if output is not None else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _telling(span: Span, role: Literal["call", "aggregate"], **more: Any) -> Telling:
    a = span.attributes
    if text(a, "langfuse.observation.level") == "ERROR":  # its own status, beside OpenTelemetry's
        words = span.status_message or text(a, "langfuse.observation.status_message")
        span = replace(span, status_code=_FAILED, status_message=words)
    return of_span(
        span,
        "langfuse",
        role,
        first_token_unix_nano=_time(a.get("langfuse.observation.completion_start_time")),
        agent=_plain(a.get(f"{_METADATA}lc_agent_name")),
        operation="chat" if role == "call" else text(a, _TYPE),
        provider=_plain(a.get(f"{_METADATA}ls_provider")),
        request_model=text(a, _MODEL),
        conversation_hint=text(a, *_SESSION)
        or next((said for t in _THREADS if (said := _plain(a.get(f"{_METADATA}{t}")))), ""),
        usage=_usage(structure(a.get(_USAGE))),
        reserve=_reserve(structure(a.get("langfuse.observation.model.parameters"))),
        **more,
    )


def _plain(value: Any) -> str:
    """Metadata are JSON, so a string has quotes; the JavaScript SDK leaves plain strings plain."""
    if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"' and "\n" not in value:
        unquoted = structure(f"[{value}]")
        if isinstance(unquoted, list):
            return str(unquoted[0])
    return value if isinstance(value, str) and value != "null" else ""


def _time(value: Any) -> int | None:
    try:
        moment = datetime.fromisoformat(_plain(value))
    except ValueError:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000 if moment.tzinfo is not None else None


def _reserve(parameters: Any) -> int | None:
    """``max_tokens`` is the text "Infinity" or "inf" where the request sets none."""
    if not isinstance(parameters, Mapping):
        return None
    return reserve_of({k: number(parameters, k) for k in parameters})


# ---- the prompt


def _sections(value: Any) -> dict[str, Any]:
    """Tools, system and messages of an input."""
    if isinstance(value, str):
        return {"messages": value} if value else {}
    if isinstance(value, list):
        return _listed(value)
    if not isinstance(value, Mapping):
        return {}
    if "role" in value:
        return {"messages": [value]}
    body = read_body(value)
    if body is None:
        return {}
    sections = (("tools", body.tools), ("system", body.system), ("messages", body.messages))
    found = {name: raw.value for name, raw in sections if raw is not None}
    if "tools" not in found and value.get("functions"):
        found["tools"] = value["functions"]
    if isinstance(found.get("messages"), list):
        found = {**_listed(found["messages"]), **{k: v for k, v in found.items() if k != "messages"}}
    return found


def _listed(messages: list[Any]) -> dict[str, Any]:
    """A list of messages; the LangChain handler appends each tool's definition as the content of a tool's message."""
    end = len(messages)
    while end and _is_definition(messages[end - 1]):
        end -= 1
    found: dict[str, Any] = {"messages": messages[:end]} if end else {}
    if end < len(messages):
        found["tools"] = [m["content"] for m in messages[end:]]
    return found


def _is_definition(message: Any) -> bool:
    return (
        isinstance(message, Mapping)
        and message.get("role") == "tool"
        and isinstance(message.get("content"), Mapping)
        and "tool_call_id" not in message
    )


def _is_of_a_tool(message: Any) -> bool:
    return isinstance(message, Mapping) and bool(
        message.get("tool_calls") or message.get("role") == "tool" or str(message.get("type")) in _TOOL_ITEMS
    )


def _is_mask(value: Any) -> bool:
    """Does an application's mask function, or Langfuse where it failed, stand in place of a text?"""
    if not isinstance(value, str) or len(value) > _LONGEST_MASK:
        return False
    return is_mask(value) or _MASK.fullmatch(value.strip('"')) is not None


def _is_hidden(message: Any) -> bool:
    if not isinstance(message, Mapping):
        return _is_mask(message)
    content = message.get("content")
    if isinstance(content, list) and content:
        return all(isinstance(b, Mapping) and _is_mask(b.get("text")) for b in content)
    return _is_mask(content) and not message.get("tool_calls")


def _spoken(answer: Any) -> Any:
    """An answer as messages: plain text is the model's."""
    if isinstance(answer, str):
        return [{"role": "assistant", "content": answer}]
    if isinstance(answer, Mapping):
        return [answer if "role" in answer or "type" in answer else {"role": "assistant", **answer}]
    return answer


# ---- usage


def _usage(details: Any) -> UsageClaim | None:
    """A provider's own usage, or Langfuse's buckets: each token is in one of them, so ``input`` is what is left when
    ``input_cached_tokens``, ``input_audio`` … are taken off."""
    if not isinstance(details, Mapping):
        return None
    claim = read_usage(details)
    if claim is not None and "input" not in details:
        return claim
    plain = _sum(details, "input", but=_CACHED)
    output = _sum(details, "output")
    read, write = number(details, *_READ), number(details, *_WRITE)
    write_1h, write_5m = number(details, *_WRITE_1H), number(details, *_WRITE_5M)
    total = number(details, "total")
    if plain is None and output is None and total is None:
        return None
    claim = UsageClaim(
        input=plain,
        output=output,
        cache_read=read,
        cache_write=write,
        cache_write_1h=write_1h,
        cache_write_5m=write_5m,
        reasoning=number(details, "output_reasoning", "output_reasoning_tokens"),
        total=total,
        zeros_omitted=any(n is not None for n in (read, write, write_1h, write_5m)),
    )
    return _settled(claim)


def _settled(claim: UsageClaim) -> UsageClaim:
    """``claim`` with what its buckets and its total say together of ``input``."""
    split = (claim.cache_write_1h or 0) + (claim.cache_write_5m or 0)
    cached = (claim.cache_read or 0) + (claim.cache_write or split)
    if not cached or claim.input is None:
        return claim
    rest = None if claim.total is None or claim.output is None else claim.total - claim.output
    if rest is None or rest == claim.input + cached:
        return claim._replace(
            semantics="exclusive", semantics_evidence="Langfuse's buckets exclude each other"
        )
    if rest > claim.input and rest >= cached:  # details that overlap were taken off twice
        evidence = "total - output: the buckets overlap"
        return claim._replace(input=rest, semantics="inclusive", semantics_evidence=evidence)
    return claim


def _sum(details: Mapping[str, Any], kind: str, but: frozenset[str] = frozenset()) -> int | None:
    """All buckets of ``kind``, that of its own name and those that its name begins."""
    counts = [number(details, k) for k in details if k == kind or (k.startswith(f"{kind}_") and k not in but)]
    known = [n for n in counts if n is not None]
    return sum(known) if known else None
