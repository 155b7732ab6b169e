"""LangSmith's OpenTelemetry mode, Python and JavaScript: ``langsmith.*`` beside ``gen_ai.*``; the run's inputs and
outputs as JSON in ``gen_ai.prompt`` and ``gen_ai.completion``.

Inputs are a request body (the wrapped SDKs) or LangChain's messages, as its serialisation writes them. Every run is a
span of one of LangSmith's kinds; only kind ``llm`` is a request. A prompt template's run calls itself a chat too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_ctx.dialects import semconv
from otel_ctx.dialects.fields import first, number, text
from otel_ctx.model import Raw, Reason, Span, Telling, UsageClaim
from otel_ctx.parts import mapping, mark_the_end, printed, read_body, read_usage, structure, unpack

_KIND = "langsmith.span.kind"
_PROMPT = "gen_ai.prompt"
_COMPLETION = "gen_ai.completion"
_METADATA = "langsmith.metadata."
_THREAD = tuple(f"{_METADATA}{name}" for name in ("thread_id", "session_id", "conversation_id"))
_AGENT = (f"{_METADATA}lc_agent_name",)
_USAGE = ("langsmith.metadata.usage_metadata", "langsmith.usage_metadata")
_OTHERS = frozenset({"tool", "retriever", "embedding"})
_NO_PROVIDER = "langchain"  # what gen_ai.system says where no model is known
NEEDS = frozenset({_KIND})


def read(span: Span) -> Telling | None:
    """What ``span`` tells of a model call; None where it is none of LangSmith's, or a tool's."""
    a = span.attributes
    kind = text(a, _KIND).lower()
    if not kind or kind in _OTHERS or any(name in a for name in semconv.INPUT):
        return None  # the conventions' words on a span that was made for LangSmith: genai reads them
    who = _who(span, "call" if kind == "llm" else "aggregate")
    if who.role == "call":
        return _call(span, who)
    if kind == "prompt" or who.usage is not None or who.conversation_hint or who.agent:
        return who  # a template's run must not be taken for a chat
    return None


def _who(span: Span, role: Any) -> Telling:
    """Who, where and when, and the usage."""
    a = span.attributes
    said = semconv.telling(span, "langsmith", role)
    provider = text(a, f"{_METADATA}ls_provider") or said.provider
    return said._replace(
        agent=said.agent or text(a, *_AGENT),
        provider="" if provider == _NO_PROVIDER else provider,
        request_model=said.request_model or text(a, f"{_METADATA}ls_model_name"),
        conversation_hint=text(a, *_THREAD) or said.conversation_hint,
        usage=_usage(a),
        tools=None,
        system=None,
        messages=None,
        output=None,
        reasons=frozenset(),
        lost=frozenset(),
    )


def _call(span: Span, who: Telling) -> Telling:
    a = span.attributes
    reasons: set[Reason] = set()
    lost: set[str] = set()
    prompt, cut = unpack(a.get(_PROMPT))
    body = prompt if isinstance(prompt, Mapping) else {}
    read = read_body(body)
    messages = read.messages if read is not None else None
    if messages is None and _texts(body.get("prompts")):
        messages = Raw("messages", _texts(body["prompts"]))
    if messages is None and isinstance(prompt, list) and prompt:
        messages = Raw("messages", prompt)
    definitions = first(a, *semconv.TOOLS)
    tools = Raw("tools", definitions) if definitions is not None else read.tools if read is not None else None
    if messages is None:
        reasons.add(_why_nothing(span, prompt))
        lost.update(("system", "messages") if tools is not None else ("tools", "system", "messages"))
    elif cut:
        reasons.add("value_cut")
        lost.update(("messages", "system") if tools is not None else ("tools", "messages", "system"))
    elif tools is None and "model" not in body:
        # LangChain's messages alone: the tools stand beside them, where there are any and the version writes them
        reasons.add("attributes_dropped" if span.dropped_attributes else "schema_missing")
        lost.add("tools")
    previous = read.previous_response_id if read is not None else ""
    if previous:
        reasons.add("server_side")
        lost.add("head")
    answer, response = _answer(structure(a.get(_COMPLETION)))
    if messages is not None and isinstance(messages.value, list):
        kept = _before(messages.value, answer)
        control = body.get("cache_control")
        messages = Raw("messages", mark_the_end(kept, control) if control else kept)
    return who._replace(
        response_model=who.response_model or text(response, "model_name", "model"),
        response_id=who.response_id or text(response, "id"),
        previous_response_id=previous,
        reserve=(read.reserve if read is not None else None)
        or who.reserve
        or number(a, f"{_METADATA}ls_max_tokens"),
        tools=tools,
        system=read.system if read is not None else None,
        messages=messages,
        output=Raw("messages", answer) if answer else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
    )


def _why_nothing(span: Span, prompt: Any) -> Reason:
    """Hidden inputs are an empty object, unless the user's own function makes something of them."""
    if prompt is None:
        return "attributes_dropped" if span.dropped_attributes else "not_captured"
    return "redacted" if prompt == {} else "unparsable"


def _texts(prompts: Any) -> list[str]:
    """LangChain's plain text models: a batch of prompts, of which a run has one."""
    return [p for p in prompts if isinstance(p, str) and p] if isinstance(prompts, list) else []


def _answer(outputs: Any) -> tuple[list[Any], Mapping[str, Any]]:
    """The messages of a run's outputs, and what they say of the response: its id and model."""
    if not isinstance(outputs, Mapping):
        return [], {}
    generations = outputs.get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    if isinstance(generations, Mapping):
        message = mapping(generations.get("message"))
        said = mapping((mapping(message.get("kwargs")) or message).get("response_metadata"))
        spoken = message or generations.get("text")
        return [spoken] if spoken else [], said
    choices = outputs.get("choices")
    if isinstance(choices, list):
        return [c["message"] for c in choices[:1] if isinstance(c, Mapping) and c.get("message")], outputs
    items = outputs.get("output")
    if isinstance(items, list):
        return items, outputs
    if "role" in outputs or "content" in outputs:
        return [{"role": "assistant", **outputs}], outputs
    return [], outputs


def _before(messages: list[Any], answer: list[Any]) -> list[Any]:
    """``messages`` up to the span's own answer. JavaScript writes the inputs down when the run is over: by then an
    application may have gone on with the same list. Only ids tell: an answer's are in no request that it answers."""
    own = {i for a in answer for i in _ids(a)}
    if not own:
        return messages
    return messages[: next((n for n, m in enumerate(messages) if own & _ids(m)), len(messages))]


def _ids(message: Any) -> set[str]:
    """The ids that a model's answer, or an item of one, brings with it."""
    if not isinstance(message, Mapping):
        return set()
    message = mapping(message.get("kwargs")) or message
    blocks = [b for k in ("tool_calls", "content") if isinstance(message.get(k), list) for b in message[k]]
    found = [message.get("id"), message.get("call_id")]
    found += [b.get("id") for b in blocks if isinstance(b, Mapping)]
    return {i for i in found if isinstance(i, str) and i}


def _usage(attributes: Mapping[str, Any]) -> UsageClaim | None:
    """The sums of ``gen_ai.usage.*``, the details of LangChain's ``usage_metadata``, which the sums come from."""
    said = semconv.usage(attributes)
    metadata = structure(first(attributes, *_USAGE))
    details = mapping(printed(attributes.get("gen_ai.usage.input_token_details")))
    if not isinstance(metadata, Mapping):
        metadata = {}
    if "input_token_details" not in metadata:
        metadata = {**metadata, "input_token_details": details} if details else metadata
    known = read_usage(metadata)
    if known is None:
        return said
    if said is None:
        return known if known.input is not None or known.output is not None else None
    more = mapping(printed(attributes.get("gen_ai.usage.output_token_details")))
    return known._replace(
        input=said.input if said.input is not None else known.input,
        output=said.output if said.output is not None else known.output,
        total=said.total if said.total is not None else known.total,
        reasoning=known.reasoning if known.reasoning is not None else number(more, "reasoning"),
    )
