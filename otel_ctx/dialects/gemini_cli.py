"""Gemini CLI's log records of requests and responses, in Gemini's own shape.

Its spans and one of its events speak the conventions, but know nothing of cached tokens, and of nothing with traces
switched off. The record of a response names no span: it belongs to the request of its session that ended then.
"""

from __future__ import annotations

from otel_ctx.dialects.fields import milliseconds, number, of_record, text
from otel_ctx.model import LogRecord, Raw, Reason, Telling, UsageClaim
from otel_ctx.parts import mapping, unpack

_REQUEST, _RESPONSE, _FAILURE = "gemini_cli.api_request", "gemini_cli.api_response", "gemini_cli.api_error"


def read_log(record: LogRecord) -> Telling | None:
    """What ``record`` holds of a request or of its answer; None where it is no such record."""
    a = record.attributes
    name = record.name or text(a, "event.name")
    if name not in (_REQUEST, _RESPONSE, _FAILURE):
        return None
    reasons: set[Reason] = set()
    messages, cut = unpack(a.get("request_text")) if name == _REQUEST else (None, False)
    responses, _ = unpack(a.get("response_text")) if name == _RESPONSE else (None, False)
    chunks = [mapping(r) for r in (responses if isinstance(responses, list) else [responses])]
    answers = [c["content"] for r in chunks for c in r.get("candidates") or () if mapping(c).get("content")]
    if cut:
        reasons.add("value_cut")
    ended = record.time_unix_nano
    return of_record(
        record,
        "gemini_cli",
        start_unix_nano=ended - milliseconds(a, "duration_ms"),
        operation="chat",
        provider="gcp.gemini",
        request_model=text(a, "model"),
        response_id=next((found for r in chunks if (found := text(r, "responseId"))), ""),
        conversation_hint=text(a, "session.id"),
        status="error" if name == _FAILURE else "ok",
        error=text(a, "error_type", "status_code") if name == _FAILURE else "",
        usage=_usage(record) if name == _RESPONSE else None,
        messages=Raw("messages", messages) if messages else None,
        output=Raw("messages", answers) if answers else None,
        reasons=frozenset(reasons),
        lost=frozenset({"messages"}) if cut else frozenset(),
    )


def _usage(record: LogRecord) -> UsageClaim | None:
    """Counts as Gemini's API has them: thoughts stand beside the answer."""
    a = record.attributes
    claim = UsageClaim(
        input=number(a, "input_token_count"),
        output=number(a, "output_token_count"),
        cache_read=number(a, "cached_content_token_count"),
        reasoning=number(a, "thoughts_token_count"),
        total=number(a, "total_token_count"),
        semantics="inclusive",
        semantics_evidence="Gemini's promptTokenCount includes the cached ones",
        output_excludes_reasoning=True,
    )
    return None if claim.input is None and claim.output is None else claim
