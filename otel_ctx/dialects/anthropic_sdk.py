"""The spans that Anthropic's SDKs make themselves, by default, wherever a tracer provider is registered.

Mostly they are a second word on a call that another instrumentation tells of, with the same response id. Without the
SDK's content switch they hold figures only; with it, never tool definitions, and media by type alone.
"""

from __future__ import annotations

from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import flag, text
from otel_ctx.model import Reason, Span, Telling

_SCOPE = "com.anthropic.sdk."
_MARKS = (
    "anthropic.message.stop_reason",
    "anthropic.request.id",
    "anthropic.response.service_tier",
    "anthropic.content.truncated",
    "anthropic.usage.cache_creation.ephemeral_5m_input_tokens",
)
NEEDS = frozenset({f"{_SCOPE}*", *_MARKS})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of the SDK's, or none of a call."""
    a = span.attributes
    if not span.scope_name.startswith(_SCOPE) and not any(mark in a for mark in _MARKS):
        return None
    operation = text(a, "gen_ai.operation.name")
    if operation != "chat":
        return None  # a tool, a tool runner's loop, a token count: genai.read has the next word
    telling = semconv.telling(span, "anthropic_sdk", "call")
    reasons: set[Reason] = set(telling.reasons)
    lost = set(telling.lost)
    if flag(a, "anthropic.content.truncated"):  # whole blocks, from the oldest on, the system prompt first
        reasons.add("message_cut")
        lost.add("head")
        if telling.system is None or telling.system.value in ("[]", []):
            lost.add("system")
    if _keeps_history_on_server(a.get("anthropic.beta")):
        reasons.add("server_side")
        lost.add("head")
    usage = telling.usage
    if usage is not None:
        usage = usage._replace(
            semantics="inclusive", semantics_evidence="the SDK adds the cached tokens to input_tokens"
        )
    return telling._replace(usage=usage, reasons=frozenset(reasons), lost=frozenset(lost))


def _keeps_history_on_server(betas: Any) -> bool:
    """Under this beta a follow-up request holds only what is new, and the span does not say which it is."""
    return "message-threads" in str(betas or "")
