"""Requests that no span tells of: lines of a log of requests, turns of a coding agent's transcript.

``inputs`` finds the bodies and numbers and hangs them on a span under the names below; what they mean is read here.

==========================  ==================================================================================
``exchange.dialect``        the format's name; what is below is only looked at where this is
``exchange.request``        the request's body, parsed
``exchange.response``       the answer's body, parsed; its events where it was streamed
``exchange.stored_request`` where the request's body lies instead; likewise ``.stored_response``
``exchange.usage``          token numbers that stand beside the answer
``exchange.failure``        type and words of an error, a pair
``exchange.url``            where the request went, or a part of that
``exchange.model``          also ``.provider``, ``.agent``, ``.conversation`` and ``.id``, as the log names them
``exchange.ids``            name and value of all ids that the log gives the request
``exchange.lost``           sections that the format does not have, and ``exchange.reasons`` why
``exchange.limit``          the model's window, where the record says it
``exchange.tier``           the service tier, where the kind of log tells it
``exchange.compacted``      True where a summary has taken the place of what was said before
==========================  ==================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects.fields import first, number, refusal, text
from otel_ctx.dialects.parameters import of_request
from otel_ctx.model import Raw, Reason, Span, Stored, Telling, UsageClaim
from otel_ctx.parts import Answer, Body, mark_the_end, read_answer, read_body, read_tier, read_usage
from otel_ctx.parts.usages import read_plain_usage

_PREFIX = "exchange."
RAW = "raw-requests"
_SECTIONS = ("tools", "system", "messages")
_NO_CONVERSATION = re.compile(
    r"/(?:embeddings|embed|moderations|rerank|count_tokens|tokenize|images|audio)\b"
    r"|:(?:countTokens|embedContent|batchEmbedContents|predict)\b",
)
_NO_CHAT_MODEL = re.compile(r"embed|moderation|rerank", re.IGNORECASE)
_MODEL_IN_URL = re.compile(r"/(?:models?|deployments)/([^/?]+?)(?::[a-z]+[A-Z]\w*)?(?:[/?]|$)")
_PLATFORMS = (  # where a request goes, by its URL
    (re.compile(r"bedrock|/model/[^/]+/(?:converse|invoke)"), "aws.bedrock"),
    (re.compile(r"openai\.azure\.com|services\.ai\.azure\.com|/openai/deployments/"), "azure"),
    (re.compile(r"aiplatform\.googleapis\.com|/publishers/"), "gcp.vertex_ai"),
    (re.compile(r"generativelanguage|:(?:generateContent|streamGenerateContent)"), "gcp.gemini"),
    (re.compile(r"api\.anthropic\.com"), "anthropic"),
    (re.compile(r"api\.openai\.com"), "openai"),
    (re.compile(r"openrouter\.ai"), "openrouter"),
)
_ONLY_THERE = (("contents", "gcp.gemini"), ("inferenceConfig", "aws.bedrock"), ("toolConfig", "aws.bedrock"))
_VERSIONS = (("bedrock-", "aws.bedrock"), ("vertex-", "gcp.vertex_ai"))  # Anthropic's API as others serve it
_THREADS = "message-threads"  # Anthropic's beta under which a follow-up holds only what is new
NEEDS = frozenset({f"{_PREFIX}dialect"})


def read(span: Span) -> Telling | None:
    """What a record that is no span tells of a call to a model; None where it is none of these, or no such call."""
    a = span.attributes
    dialect = text(a, f"{_PREFIX}dialect")
    if not dialect:
        return None
    sent = a.get(f"{_PREFIX}request")
    sent = _without_reference(sent) if isinstance(sent, Mapping) else {}
    answer = read_answer(a.get(f"{_PREFIX}response")) or Answer([])
    url = text(a, f"{_PREFIX}url")
    body = read_body(sent)
    model = (body.model if body is not None else "") or text(a, f"{_PREFIX}model") or _model_of(url)
    if _NO_CONVERSATION.search(url) or _NO_CHAT_MODEL.search(model) or _is_of_texts(sent.get("input")):
        return None
    reasons, lost = _unseen(a, sent, body)
    status, error = _outcome(a.get(f"{_PREFIX}failure"), answer)
    messages = body.messages if body is not None else None
    stored = text(a, f"{_PREFIX}stored_request")
    apart = {s: Raw(s, Stored(stored)) for s in _SECTIONS} if stored else {}
    answered = text(a, f"{_PREFIX}stored_response")
    said = answer.messages or (Stored(answered) if answered else None)
    control = sent.get("cache_control")
    if messages is not None and control and isinstance(messages.value, list):
        messages = Raw("messages", mark_the_end(messages.value, control))
    return Telling(
        dialect=dialect,
        role="call",
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=span.parent_id,
        start_unix_nano=span.start_unix_nano,
        end_unix_nano=span.end_unix_nano,
        agent=text(a, f"{_PREFIX}agent"),
        operation="chat",
        provider=_provider(a, url, sent),
        request_model=model,
        response_model=answer.model,
        response_id=answer.id,
        previous_response_id=body.previous_response_id if body is not None else "",
        conversation_hint=text(a, f"{_PREFIX}conversation") or _conversation(sent),
        status=status,
        error=error,
        usage=_usage(a, answer),
        reserve=body.reserve if body is not None else None,
        limit=number(a, f"{_PREFIX}limit"),
        service_tier=read_tier(text(a, f"{_PREFIX}tier"), answer.tier, a.get(f"{_PREFIX}usage"), sent),
        parameters=of_request(sent),
        diagnosis=answer.diagnosis,
        tools=apart.get("tools") or _tools(sent, body),
        system=apart.get("system") or (body.system if body is not None else None),
        messages=apart.get("messages") or messages,
        output=Raw("messages", said) if said else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
        where=span.where,
        record="request" if dialect == RAW else "transcript",
        compacted=a.get(f"{_PREFIX}compacted") is True,
        request_id=text(a, f"{_PREFIX}id"),
        ids=a.get(f"{_PREFIX}ids") or (),
    )


def _is_of_texts(given: Any) -> bool:
    """The input of embeddings: texts or tokens in a row, where a conversation has items."""
    return isinstance(given, list) and bool(given) and not any(isinstance(item, Mapping) for item in given)


def _tools(sent: Mapping[str, Any], body: Body | None) -> Raw | None:
    if body is not None and body.tools is not None:
        return body.tools
    functions = sent.get("functions")  # of OpenAI's Chat before there were tools
    return Raw("tools", functions) if isinstance(functions, list) and functions else None


def _without_reference(sent: Mapping[str, Any]) -> Mapping[str, Any]:
    """OpenAI's ``prompt`` may be a template that the server keeps: that is no message."""
    return (
        {k: v for k, v in sent.items() if k != "prompt"} if isinstance(sent.get("prompt"), Mapping) else sent
    )


def _unseen(
    attributes: Mapping[str, Any], sent: Mapping[str, Any], body: Body | None
) -> tuple[set[Reason], set[str]]:
    """Why something of the prompt is not here, and what. A body that was logged is whole, but for what it names."""
    reasons: set[Reason] = set(attributes.get(f"{_PREFIX}reasons") or ())
    lost: set[str] = set(attributes.get(f"{_PREFIX}lost") or ())
    asked = attributes.get(f"{_PREFIX}request")
    if attributes.get(f"{_PREFIX}stored_request"):
        return reasons, lost  # whoever fetches it knows
    if body is None or body.messages is None:
        reasons.add("not_captured")
        lost.update(_SECTIONS)
    if body is not None and body.previous_response_id:
        reasons.add("server_side")
        lost.add("head")
    if sent.get("conversation") or _THREADS in str(first(sent, "betas", "anthropic_beta") or ""):
        reasons.add("server_side")
        lost.add("head")
    if sent.get("cachedContent") or sent.get("cached_content"):
        reasons.add("server_side")
        lost.update(("tools", "system", "head"))
    if isinstance(asked, Mapping) and isinstance(asked.get("prompt"), Mapping):
        reasons.add("reference_missing")
        lost.add("system")
    return reasons, lost


def _outcome(failure: Any, answer: Answer) -> Any:
    kind, words = failure if isinstance(failure, tuple) else ("", "")
    kind, words = answer.error or kind, answer.words or words
    return refusal(kind, (words,)) if kind or words else ("ok", "")


def _usage(attributes: Mapping[str, Any], answer: Answer) -> UsageClaim | None:
    for numbers in (answer.usage, attributes.get(f"{_PREFIX}usage")):
        claim = read_usage(numbers) or read_plain_usage(numbers)
        if claim is not None:
            return claim
    return None


def _provider(attributes: Mapping[str, Any], url: str, sent: Mapping[str, Any]) -> str:
    """By the URL, by what the log says, by the parameters that only one provider's API has."""
    said = next((name for there, name in _PLATFORMS if there.search(url)), "")
    version = text(sent, "anthropic_version")
    said = said or next((name for start, name in _VERSIONS if version.startswith(start)), "")
    said = said or text(attributes, f"{_PREFIX}provider")
    return said or next((name for key, name in _ONLY_THERE if key in sent), "")


def _model_of(url: str) -> str:
    found = _MODEL_IN_URL.search(url)
    return _unquoted(found[1]) if found else ""


def _unquoted(name: str) -> str:
    return re.sub(r"%([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), name)


def _conversation(sent: Mapping[str, Any]) -> str:
    """The conversation as the request itself names it."""
    named = sent.get("conversation")
    if isinstance(named, Mapping):
        named = named.get("id")
    metadata = sent.get("metadata")
    if not named and isinstance(metadata, Mapping):
        named = first(metadata, "conversation_id", "session_id", "thread_id")
    return named if isinstance(named, str) else ""
