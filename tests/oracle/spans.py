"""A session as spans: three dialects that carry what was sent, with or without markers, and one without any text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from random import Random
from typing import Any

from otel_ctx.model import Span
from tests.oracle.provider import Usage
from tests.oracle.sessions import Block, Call, Session

_SCOPES = {
    "anthropic": ("opentelemetry.instrumentation.genai.anthropic", "1.3b0"),
    "openai": ("opentelemetry.instrumentation.genai.openai", "1.3b0"),
    "aws.bedrock": ("opentelemetry.instrumentation.genai.bedrock", "1.3b0"),
    "gcp.gemini": ("opentelemetry.instrumentation.google_genai", "1.3b0"),
}
_OTHER_SCOPE = ("support.agent", "1.0")  # an application that writes the conventions' attributes itself


@dataclass(frozen=True, slots=True)
class Clothes:
    """``dialect``: "genai", "marked" (the same with the markers in its parts), "openinference", "textless"; ``split``: writes
    are told by lifetime; ``named``: conversations have ids; ``first_token``: its time is told."""

    dialect: str
    split: bool
    named: bool
    first_token: bool

    @property
    def shows_lifetimes(self) -> bool:
        return self.split or self.dialect in ("marked", "openinference")


def clothes_of(session: Session) -> Clothes:
    rng = Random(session.seed)
    dialect = _dialect(session, rng)
    split = session.provider.name != "bedrock" and rng.random() < 0.5
    return Clothes(dialect, split, dialect == "textless" or rng.random() < 0.5, rng.random() < 0.5)


def _dialect(session: Session, rng: Random) -> str:
    provider = session.provider
    if rng.random() < 0.08:
        return "textless"
    if provider.explicit and provider.name != "bedrock":
        return rng.choice(("genai", "genai", "marked", "openinference"))
    if provider.span_name == "openai" and any(c.params for c in session.calls):
        return "openinference"
    return "genai"


def spans(session: Session, usage: Sequence[Usage], clothes: Clothes) -> list[Span]:
    rng = Random(session.seed)
    dialect, split = clothes.dialect, clothes.split
    trace = f"{rng.getrandbits(128) | 1:032x}"
    agents = {}
    out = []
    for number in sorted({c.conversation for c in session.calls}):
        own = [c for c in session.calls if c.conversation == number]
        agents[number] = f"{rng.getrandbits(64) | 1:016x}"
        out.append(
            Span(
                trace,
                agents[number],
                "",
                "run",
                _ns(own[0].start - 0.01),
                _ns(max(c.end for c in own) + 0.01),
                {},
            )
        )
    for number, (call, counted) in enumerate(zip(session.calls, usage, strict=True)):
        if dialect == "openinference":
            attributes, scope = _openinference(call, counted, split, session, number)
        else:
            attributes, scope = _genai(call, counted, split, session, dialect, number)
        if session.provider.keyed:
            holder = "llm." if dialect == "openinference" else "gen_ai.request."
            attributes[f"{holder}prompt_cache_key"] = "shop"
        if clothes.named:
            attributes["gen_ai.conversation.id"] = f"conversation-{call.conversation}"
        if clothes.first_token:
            attributes["gen_ai.response.time_to_first_chunk"] = round(call.first - call.start, 9)
        out.append(
            Span(
                trace, f"{rng.getrandbits(64) | 1:016x}", agents[call.conversation], f"chat {call.model}",
                _ns(call.start), _ns(call.end), attributes, 3, scope_name=scope[0], scope_version=scope[1],
                resource={"service.name": "oracle"},
            )
        )  # fmt: skip
    return out


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


# ---- OpenTelemetry's conventions


def _genai(
    call: Call, usage: Usage, split: bool, session: Session, dialect: str, number: int
) -> tuple[dict[str, Any], tuple[str, str]]:
    provider = session.provider
    exclusive = provider.span_name == "aws.bedrock"
    fresh = usage.total - usage.read - usage.write
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider.span_name,
        "gen_ai.request.model": call.model,
        "gen_ai.response.model": call.model,
        "gen_ai.response.id": f"response-{number}",
        "gen_ai.usage.input_tokens": fresh if exclusive else usage.total,
        "gen_ai.usage.output_tokens": sum(len(b.text) // 5 + 1 for b in call.answer),
        "gen_ai.usage.cache_read.input_tokens": usage.read,
    }
    if provider.explicit or provider.engine == "endings":
        attributes["gen_ai.usage.cache_write.input_tokens"] = usage.write
    if provider.explicit and split:
        attributes["anthropic.usage.cache_creation.ephemeral_1h_input_tokens"] = usage.write_1h
        attributes["anthropic.usage.cache_creation.ephemeral_5m_input_tokens"] = usage.write - usage.write_1h
    if "response_format" in call.params:
        attributes["gen_ai.output.type"] = "json"
    marked = dialect == "marked"
    if dialect != "textless":
        system = _list([_part(b, marked) for b in call.blocks if b.section == "system"])
        said = [_message(m, marked) for m in _messages(call.blocks)]
        if provider.explicit or provider.span_name == "gcp.gemini":
            attributes["gen_ai.system_instructions"] = system
        else:
            said = [f'{{"role": "system", "parts": {system}}}', *said]
        attributes["gen_ai.input.messages"] = _list(said)
        attributes["gen_ai.output.messages"] = _list([_message(call.answer, False)])
        tools = [b for b in call.blocks if b.section == "tools"]
        if tools:
            attributes["gen_ai.tool.definitions"] = _list([_definition(b, marked) for b in tools])
    scope = _OTHER_SCOPE if marked else _SCOPES.get(provider.span_name, _OTHER_SCOPE)
    return attributes, scope


def _messages(blocks: Sequence[Block]) -> list[tuple[Block, ...]]:
    own = (b for b in blocks if b.section == "messages")
    return [tuple(group) for _, group in groupby(own, key=lambda b: b.message)]


def _list(items: Sequence[str]) -> str:
    """JSON of JSON, spaced as by ``json.dumps``."""
    return f"[{', '.join(items)}]"


def _message(blocks: Sequence[Block], marked: bool) -> str:
    return f'{{"role": {json.dumps(blocks[0].role)}, "parts": {_list([_part(b, marked) for b in blocks])}}}'


@lru_cache(maxsize=20_000)  # each call sends again what the calls before it sent
def _part(block: Block, marked: bool) -> str:
    part: dict[str, Any]
    if block.kind == "tool_use":
        part = {
            "type": "tool_call",
            "id": block.call_id,
            "name": block.name,
            "arguments": json.loads(block.text),
        }
    elif block.kind == "tool_result":
        part = {"type": "tool_call_response", "id": block.call_id, "response": block.text}
    elif block.kind == "thinking":
        part = {"type": "reasoning", "content": block.text}
    elif block.kind == "image":
        part = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": block.text}
    else:
        part = {"type": "text", "content": block.text}
    return json.dumps({**part, **_control(block, marked)})


def _control(block: Block, marked: bool) -> dict[str, Any]:
    if not marked or not block.marker:
        return {}
    return {"cache_control": {"type": "ephemeral", **({"ttl": "1h"} if block.marker == "1h" else {})}}


@lru_cache(maxsize=20_000)
def _definition(block: Block, marked: bool) -> str:
    return json.dumps({"type": "function", **json.loads(block.text), **_control(block, marked)})


# ---- OpenInference: the request's body in input.value


def _openinference(
    call: Call, usage: Usage, split: bool, session: Session, number: int
) -> tuple[dict[str, Any], tuple[str, str]]:
    anthropic = session.provider.explicit
    body = _anthropic(call) if anthropic else _openai(call)
    parameters = {"max_tokens": 1024, **call.params}
    attributes: dict[str, Any] = {
        "openinference.span.kind": "LLM",
        "llm.provider": "google" if session.provider.name == "vertex" else session.provider.span_name,
        "llm.system": "anthropic" if anthropic else "openai",
        "llm.model_name": call.model,
        "llm.invocation_parameters": json.dumps(parameters),
        "input.mime_type": "application/json",
        "input.value": json.dumps({"model": call.model, **parameters, **body}),
        "output.mime_type": "application/json",
        "output.value": json.dumps(
            _response(call, usage, split, number) if anthropic else {"id": f"response-{number}"}
        ),
        "llm.token_count.prompt": usage.total,
        "llm.token_count.completion": sum(len(b.text) // 5 + 1 for b in call.answer),
        "llm.token_count.prompt_details.cache_read": usage.read,
    }
    if anthropic or session.provider.engine == "endings":
        attributes["llm.token_count.prompt_details.cache_write"] = usage.write
    attributes |= _flat(body)
    attributes["llm.output_messages.0.message.role"] = "assistant"
    calls = [b for b in call.answer if b.kind == "tool_use"]
    texts = [b for b in call.answer if b.kind == "text"]
    for i, b in enumerate(texts):
        attributes[f"llm.output_messages.0.message.contents.{i}.message_content.type"] = "text"
        attributes[f"llm.output_messages.0.message.contents.{i}.message_content.text"] = b.text
    for i, b in enumerate(calls):
        prefix = f"llm.output_messages.0.message.tool_calls.{i}.tool_call"
        attributes[f"{prefix}.id"] = b.call_id
        attributes[f"{prefix}.function.name"] = b.name
        attributes[f"{prefix}.function.arguments"] = b.text
    if anthropic:
        return attributes, ("openinference.instrumentation.anthropic", "3.1.0")
    return attributes, ("openinference.instrumentation.openai", "0.1.66")


def _flat(body: dict[str, Any]) -> dict[str, Any]:
    """The messages once more, as the library flattens them."""
    out: dict[str, Any] = {}
    system = body.get("system")
    said = [{"role": "system", "content": system}] if system else []
    for i, message in enumerate([*said, *body["messages"]]):
        prefix, content = f"llm.input_messages.{i}.message", message["content"]
        results = [b for b in content if b["type"] == "tool_result"] if isinstance(content, list) else []
        out[f"{prefix}.role"] = "tool" if results else message["role"]
        if isinstance(content, str):
            out[f"{prefix}.content"] = content
            continue
        for j, block in enumerate(content or ()):
            if block["type"] == "text":
                out[f"{prefix}.contents.{j}.message_content.type"] = "text"
                out[f"{prefix}.contents.{j}.message_content.text"] = block["text"]
            elif block["type"] == "tool_result":
                out[f"{prefix}.content"] = block["content"]
                out[f"{prefix}.tool_call_id"] = block["tool_use_id"]
        calls = [b for b in content or () if b["type"] == "tool_use"]
        for j, block in enumerate(calls):
            out[f"{prefix}.tool_calls.{j}.tool_call.id"] = block["id"]
            out[f"{prefix}.tool_calls.{j}.tool_call.function.name"] = block["name"]
            out[f"{prefix}.tool_calls.{j}.tool_call.function.arguments"] = json.dumps(block["input"])
        for j, block in enumerate(message.get("tool_calls", ())):
            out[f"{prefix}.tool_calls.{j}.tool_call.id"] = block["id"]
            out[f"{prefix}.tool_calls.{j}.tool_call.function.name"] = block["function"]["name"]
            out[f"{prefix}.tool_calls.{j}.tool_call.function.arguments"] = block["function"]["arguments"]
    for i, tool in enumerate(body.get("tools", ())):
        out[f"llm.tools.{i}.tool.json_schema"] = json.dumps(tool)
    return out


def _anthropic(call: Call) -> dict[str, Any]:
    tools = []
    for b in call.blocks:
        if b.section == "tools":
            definition = json.loads(b.text)
            schema = {("input_schema" if k == "parameters" else k): v for k, v in definition.items()}
            tools.append({**schema, **_control(b, True)})
    return {
        **({"tools": tools} if tools else {}),
        "system": [
            {"type": "text", "text": b.text, **_control(b, True)}
            for b in call.blocks
            if b.section == "system"
        ],
        "messages": [
            {"role": m[0].role, "content": [_anthropic_block(b) for b in m]} for m in _messages(call.blocks)
        ],
    }


def _anthropic_block(b: Block) -> dict[str, Any]:
    block: dict[str, Any]
    if b.kind == "tool_use":
        block = {"type": "tool_use", "id": b.call_id, "name": b.name, "input": json.loads(b.text)}
    elif b.kind == "tool_result":
        block = {"type": "tool_result", "tool_use_id": b.call_id, "content": b.text}
    elif b.kind == "thinking":
        block = {"type": "thinking", "thinking": b.text, "signature": f"signed-{b.uid}"}
    elif b.kind == "image":
        block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b.text}}
    else:
        block = {"type": "text", "text": b.text}
    return {**block, **_control(b, True)}


def _response(call: Call, usage: Usage, split: bool, number: int) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "input_tokens": usage.total - usage.read - usage.write,
        "cache_read_input_tokens": usage.read,
        "cache_creation_input_tokens": usage.write,
    }
    if split:
        counts["cache_creation"] = {
            "ephemeral_1h_input_tokens": usage.write_1h,
            "ephemeral_5m_input_tokens": usage.write - usage.write_1h,
        }
    return {
        "id": f"response-{number}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [_anthropic_block(b) for b in call.answer],
        "usage": counts,
    }


def _openai(call: Call) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": b.text} for b in call.blocks if b.section == "system"
    ]
    for m in _messages(call.blocks):
        if m[0].kind == "tool_result":
            messages.append({"role": "tool", "tool_call_id": m[0].call_id, "content": m[0].text})
            continue
        text = "\n".join(b.text for b in m if b.kind == "text") or None
        content: Any = text
        if any(b.kind == "image" for b in m):
            content = [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b.text}"}}
                if b.kind == "image"
                else {"type": "text", "text": b.text}
                for b in m
            ]
        message: dict[str, Any] = {"role": m[0].role, "content": content}
        calls = [b for b in m if b.kind == "tool_use"]
        if calls:
            message["tool_calls"] = [
                {"id": b.call_id, "type": "function", "function": {"name": b.name, "arguments": b.text}}
                for b in calls
            ]
        messages.append(message)
    tools = [
        {"type": "function", "function": json.loads(b.text)} for b in call.blocks if b.section == "tools"
    ]
    return {"messages": messages, **({"tools": tools} if tools else {})}


# ---- to look at by hand


def otlp(told: Sequence[Span]) -> dict[str, Any]:
    """An ExportTraceServiceRequest in OTLP/JSON."""
    scopes = [
        {
            "scope": {"name": s.scope_name, "version": s.scope_version},
            "spans": [
                {
                    "traceId": s.trace_id, "spanId": s.span_id, "parentSpanId": s.parent_id, "name": s.name,
                    "kind": s.kind, "startTimeUnixNano": str(s.start_unix_nano), "endTimeUnixNano": str(s.end_unix_nano),
                    "attributes": [{"key": k, "value": _value(v)} for k, v in s.attributes.items()],
                }
            ],
        }
        for s in told
    ]  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": scopes}]}


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}
