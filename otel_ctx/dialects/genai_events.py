"""Log records that hold the content of a span: one event for a whole request (``…inference.operation.details``), or
one a message (``gen_ai.user.message`` … ``gen_ai.choice``). Belongs to the span of its trace and span id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import event_messages, semconv
from otel_ctx.dialects.fields import of_record, text
from otel_ctx.model import LogRecord, Raw, Reason, Telling

_GEMINI_CLI = "auth_type"  # on each of its records
_MODELS_ROLE = re.compile(r'"role":\s*"system"')


def read_log(record: LogRecord) -> Telling | None:
    """What ``record`` holds of a prompt or an answer; None where it is no GenAI content.

    A message whose content was switched off, and one that says again what another record says, give a telling without
    content: the record is known."""
    name = record.name or text(record.attributes, "event.name", "event_name")
    if name == event_messages.DETAILS:
        return _details(record)
    return _message(record, name) if event_messages.is_message(name) else None


def _details(record: LogRecord) -> Telling:
    a = record.attributes
    content, reasons, lost = semconv.contents(a)
    if record.dropped_attributes:
        reasons.add("attributes_dropped")
        lost.update({"tools", "system", "messages"} - content.keys())
    if semconv.schemas_missing(content, semconv.writes_tools(record.scope_name, record.scope_version)):
        reasons.add("schema_missing")
        lost.add("tools")
    return of_record(
        record,
        "genai_events",
        agent=text(a, *semconv.AGENT),
        operation=text(a, *semconv.OPERATION),
        provider=text(a, *semconv.PROVIDER),
        request_model=text(a, *semconv.REQUEST_MODEL),
        response_model=text(a, *semconv.RESPONSE_MODEL),
        response_id=text(a, "gen_ai.response.id"),
        conversation_hint=text(a, *semconv.CONVERSATION),
        usage=semconv.usage(a, semconv.omits_zeros(record.scope_name, record.scope_version)),
        tools=content.get("tools"),
        system=content.get("system"),
        messages=_with_roles(content.get("messages"), a),
        output=_with_roles(content.get("output"), a),
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _with_roles(messages: Raw | None, attributes: Mapping[str, Any]) -> Raw | None:
    """Gemini CLI says "system" for the model. Inside of JSON's texts the quotes would be escaped."""
    if messages is None or not isinstance(messages.value, str) or _GEMINI_CLI not in attributes:
        return messages
    return messages._replace(value=_MODELS_ROLE.sub('"role":"assistant"', messages.value))


def _message(record: LogRecord, name: str) -> Telling:
    provider = text(record.attributes, *semconv.PROVIDER)
    answer = event_messages.is_answer(name)
    raw: Raw | None = None
    # no such event carries tool definitions
    reasons: set[Reason] = set() if answer else {"schema_missing"}
    if not event_messages.is_copy(name, record.body, provider):
        message = event_messages.message(name, record.body, record.attributes)
        if message is not None:
            raw = Raw("messages", message if isinstance(message, list) else [message])
        elif not answer:
            reasons.add("not_captured")
    return of_record(
        record,
        "genai_events",
        provider=provider,
        messages=None if answer else raw,
        output=raw if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset() if answer else frozenset({"tools"}),
    )
