"""opencode's sessions: what ``opencode export`` writes, the events of ``opencode run --format json``, and the files of
``~/.local/share/opencode/storage/message``.

Each message of the model is one request; its input tokens leave the cached ones out. An export holds the words of a session,
but neither system prompt nor tools nor what the client adds; events and files of messages hold numbers only.
Observed: events of 1.18; export and storage as its source and others describe them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otel_ctx.inputs.exchanges import exchange, told
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Records, Skipped, StreamFormat
from otel_ctx.model import Span
from otel_ctx.parts import Link, Linked, linked

NAME = "opencode"

Json = Mapping[str, Any]


def claims(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("info"), dict) and isinstance(value.get("messages"), list):
        return True
    if not isinstance(value.get("sessionID"), str):
        return False
    return isinstance(value.get("part"), dict) or value.get("role") in ("user", "assistant")


def owns(value: Any) -> bool:
    return claims(value) or (isinstance(value, dict) and isinstance(value.get("sessionID"), str))


def read(items: Iterator[Item], source: str, skipped: list[Skipped]) -> Iterator[Records]:
    return told(_spans(items, skipped), source)


def _spans(items: Iterator[Item], skipped: list[Skipped]) -> Iterator[Span]:
    begun = 0
    for item in items:
        value = item.value
        if not isinstance(value, dict):
            skipped.append(Skipped(item.where, "no event of a session"))
            continue
        part = value.get("part")
        if isinstance(part, dict):
            time = nanoseconds(value.get("timestamp"))
            if part.get("type") == "step-start":
                begun = time
            elif part.get("type") == "step-finish":
                told_of = {
                    **part,
                    "id": part.get("messageID"),
                    "time": {"created": begun or time, "completed": time},
                }
                yield from _call(told_of, item.where)
                begun = 0
        elif isinstance(value.get("messages"), list):
            yield from _exported(value["messages"], item.where)
        elif value.get("role") == "assistant":
            yield from _call(value, item.where)
        elif not owns(value):
            skipped.append(Skipped(item.where, "no event of a session"))


def _exported(messages: list[Any], where: str) -> Iterator[Span]:
    """The calls of an export, each with the messages before it."""
    history: Link | None = None
    for message in messages:
        info = message.get("info") if isinstance(message, dict) else None
        if not isinstance(info, dict):
            continue
        found = message.get("parts")
        parts: list[Json] = [p for p in found if isinstance(p, dict)] if isinstance(found, list) else []
        said = _said(parts)
        if info.get("role") == "user":
            history = linked(history, {"role": "user", "content": said})
            continue
        yield from _call(info, where, {"messages": Linked(history)}, said)
        if info.get("summary") is True:  # it stands for what was before it
            history = None
        history = linked(history, {"role": "assistant", "content": said})
        if results := _results(parts):
            history = linked(history, {"role": "user", "content": results})


def _call(info: Json, where: str, sent: Json | None = None, said: Sequence[Json] = ()) -> Iterator[Span]:
    """``info``: who, when and how much; ``sent`` and ``said``: what is known of the prompt and the answer."""
    tokens, time = info.get("tokens"), info.get("time")
    id_, session, model = (_text(info, key) for key in ("id", "sessionID", "modelID"))
    if not isinstance(tokens, dict) or not id_:
        return
    cache = tokens.get("cache")
    cache = cache if isinstance(cache, dict) else {}
    time = time if isinstance(time, dict) else {}
    start = nanoseconds(time.get("created"))
    usage = {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cache.get("read"),
        "cache_creation_input_tokens": cache.get("write"),
    }
    yield exchange(
        session,
        id_,
        where,
        start,
        nanoseconds(time.get("completed")) or start,
        dialect=NAME,
        request=sent,
        response={"content": list(said), "usage": usage},
        model=model,
        provider=_text(info, "providerID"),
        conversation=session,
        lost=("messages", "system", "tools"),
        reasons=("not_captured",),
    )


def _said(parts: Sequence[Json]) -> list[Json]:
    """Texts, thoughts and calls of a message as blocks."""
    blocks: list[Json] = []
    for part in parts:
        match part.get("type"):
            case "text" if not part.get("ignored"):
                blocks.append({"type": "text", "text": part.get("text")})
            case "reasoning":
                blocks.append({"type": "thinking", "thinking": part.get("text")})
            case "tool":
                state = part.get("state")
                given = state.get("input") if isinstance(state, dict) else None
                call = {
                    "type": "tool_use",
                    "id": part.get("callID"),
                    "name": part.get("tool"),
                    "input": given,
                }
                blocks.append(call)
    return blocks


def _results(parts: Sequence[Json]) -> list[Json]:
    results: list[Json] = []
    for part in parts:
        state = part.get("state")
        if part.get("type") == "tool" and isinstance(state, dict):
            output = state.get("output") or state.get("error") or ""
            results.append({"type": "tool_result", "tool_use_id": part.get("callID"), "content": output})
    return results


def _text(row: Json, key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


FORMAT = StreamFormat(NAME, claims, read, owns=owns)
