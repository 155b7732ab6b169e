"""Claude Code's log records that hold whole requests and responses (``OTEL_LOG_RAW_API_BODIES``), as text or in files.

Its spans tell the figures and nothing of the prompt (``genai`` reads them); the records belong to the span of their request.
Text is cut at 61,440 characters, in the middle of the JSON, and then says so.
"""

from __future__ import annotations

import re

from otel_ctx.dialects.fields import of_record, text
from otel_ctx.model import LogRecord, Raw, Reason, Stored, Telling
from otel_ctx.parts import read_body, read_usage, unpack

_SCOPE = "com.anthropic.claude_code"
_REQUEST, _RESPONSE = "api_request_body", "api_response_body"
_SECTIONS = ("tools", "system", "messages")
_CUT = re.compile(r"\s*\[TRUNCATED - [^\]]*\]$")


def read_log(record: LogRecord) -> Telling | None:
    """What ``record`` holds of a request or of its answer; None where it is no such record."""
    name = record.name.rpartition(".")[2]
    if name not in (_REQUEST, _RESPONSE) or not record.scope_name.startswith(_SCOPE):
        return None
    a = record.attributes
    reasons: set[Reason] = set()
    lost: frozenset[str] = frozenset()
    reserve = usage = None
    if reference := text(a, "body_ref"):
        sections = _SECTIONS if name == _REQUEST else ("output",)
        content = {s: Raw("messages" if s == "output" else s, Stored(reference)) for s in sections}
    else:
        value, cut = unpack(_CUT.sub("", text(a, "body")))
        held = value if isinstance(value, dict) else {}
        content = {}
        if name == _RESPONSE:
            usage = read_usage(held.get("usage"))
            content["output"] = Raw("messages", [held])
        elif body := read_body(held):
            content = {s: raw for s in _SECTIONS if (raw := getattr(body, s)) is not None}
            reserve = body.reserve
        if name == _REQUEST and (cut or not content):
            reasons.add("value_cut" if cut else "unparsable")
            lost = frozenset(_SECTIONS) - set(list(held)[:-1])  # the cut went through the last of its keys
    return of_record(
        record,
        "claude_code",
        # without tracing there are no spans: then request and answer are one call by the id that they share
        trace_id=record.trace_id or text(a, "session.id"),
        span_id=record.span_id or text(a, "request_body_id"),
        provider="anthropic",
        request_model=text(a, "model"),
        response_id=text(a, "message.id"),
        conversation_hint=text(a, "session.id"),
        usage=usage,
        reserve=reserve,
        tools=content.get("tools"),
        system=content.get("system"),
        messages=content.get("messages"),
        output=content.get("output"),
        reasons=frozenset(reasons),
        lost=lost,
    )
