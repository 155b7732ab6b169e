"""Google's ADK in its first layout (1.x, and 2.x where that is asked for): ``call_llm`` with the whole request as JSON.

The ``generate_content`` span below it, of ADK itself or of an instrumentation of the provider's SDK, has figures only.
In its own newer layout ADK speaks the conventions.
"""

from __future__ import annotations

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import text
from otel_ctx.model import Raw, Reason, Span, Telling
from otel_ctx.parts import mapping, read_body, read_usage, structure, unpack

_REQUEST = "gcp.vertex.agent.llm_request"
_RESPONSE = "gcp.vertex.agent.llm_response"
_SESSION = "gcp.vertex.agent.session_id"
_FRAMEWORK = "gcp.vertex.agent"  # in place of the provider's name
NEEDS = frozenset({_REQUEST})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it holds no request of ADK's."""
    a = span.attributes
    if _REQUEST not in a or not any(name in a for name in semconv.REQUEST_MODEL):
        return None  # a tool's span has an empty request too
    said = semconv.telling(span, "adk", "call")
    request, cut = unpack(a[_REQUEST])
    body = read_body(mapping(request))
    response = mapping(structure(a.get(_RESPONSE)))
    reasons: set[Reason] = set()
    lost: set[str] = set()
    if body is None or body.messages is None:
        reasons.add("attributes_dropped" if span.dropped_attributes else "not_captured")
        lost.update(("tools", "system", "messages"))
    elif cut:
        reasons.add("value_cut")
        lost.update({"tools", "messages"} if body.tools is None else {"messages"})
    answer = mapping(response.get("content"))
    return said._replace(
        operation="chat",
        provider="" if said.provider == _FRAMEWORK else said.provider,
        response_model=text(response, "model_version") or said.response_model,
        response_id=text(response, "response_id") or said.response_id,
        conversation_hint=text(a, _SESSION) or said.conversation_hint,
        usage=read_usage(response.get("usage_metadata")) or said.usage,
        reserve=(body.reserve if body is not None else None) or said.reserve,
        tools=body.tools if body is not None else None,
        system=body.system if body is not None else None,
        messages=body.messages if body is not None else None,
        output=Raw("messages", [answer]) if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )
