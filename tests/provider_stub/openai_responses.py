"""OpenAI's Responses, with ``previous_response_id``. https://platform.openai.com/docs/api-reference/responses"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.provider_stub.interface import (
    Answer,
    Block,
    Json,
    Prompt,
    Tool,
    compact,
    halves,
    server_sent,
    text_of,
)
from tests.provider_stub.openai_chat import offered, openai_error


class Responses:
    name = "responses"
    automatic = True
    error = staticmethod(openai_error)

    def __init__(self) -> None:
        self._histories: dict[str, list[Json]] = {}  # response id -> all items up to and with its own
        self._said: dict[str, Json] = {}  # item id -> the item of an answer

    def serves(self, path: str) -> bool:
        return path.endswith("/responses")

    def streams(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def prompt(self, path: str, body: Json) -> Prompt:
        tools = body.get("tools") or []
        items = self._items(body)
        blocks = [Block(compact(tool)) for tool in tools]
        if body.get("instructions"):
            blocks.append(Block("system\n" + body["instructions"]))
        blocks += [Block(_item_text(item)) for item in items]
        last = items[-1]
        return Prompt(
            model=body["model"],
            blocks=tuple(blocks),
            role="tool" if last.get("type") == "function_call_output" else "user",
            text=text_of(last),
            turn=sum(item.get("role") == "assistant" for item in items),
            tools=tuple(
                Tool(tool["name"], tool.get("parameters") or {})
                for tool in tools
                if tool["type"] == "function" and offered(body)
            ),
            thinks=(body.get("reasoning") or {}).get("effort") not in (None, "none"),
        )

    def response(self, answer: Answer, body: Json) -> dict[str, Any]:
        usage, output = answer.usage, _output(answer)
        self._histories[f"resp_{answer.id}"] = [*self._items(body), *output]
        self._said |= {item["id"]: item for item in output}
        return {
            "id": f"resp_{answer.id}",
            "object": "response",
            "created_at": answer.created,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"),
            "metadata": {},
            "model": answer.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": body.get("previous_response_id"),
            "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
            "store": True,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": {
                "input_tokens": usage.input,
                "input_tokens_details": {"cached_tokens": usage.read},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.input + usage.output,
            },
            "user": None,
        }

    def stream(self, response: Json, body: Json) -> tuple[str, Iterator[bytes]]:
        return server_sent(
            ({**event, "sequence_number": n} for n, event in enumerate(_events(response))), named=True
        )

    def _items(self, body: Json) -> list[Json]:
        """The conversation: what is on the server, then what came, with what it refers to. KeyError: no such response
        or item."""
        sent = body["input"]
        if isinstance(sent, str):
            sent = [{"role": "user", "content": sent}]
        previous = body.get("previous_response_id")
        came = [self._said[item["id"]] if item.get("type") == "item_reference" else item for item in sent]
        return [*(self._histories[previous] if previous else ()), *came]


def _item_text(item: Json) -> str:
    """As it is counted: what Chat Completions counts of the same message. Ids the model never sees."""
    if item.get("type") == "function_call":
        return "assistant\n" + compact({key: item[key] for key in ("name", "arguments")})
    if "output" in item or "content" in item:
        return f"{item.get('role', 'tool')}\n{text_of(item)}"
    return compact({key: value for key, value in item.items() if key not in ("id", "status")})


def _output(answer: Answer) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if answer.thought:
        summary = [{"type": "summary_text", "text": answer.thought}]
        output.append({"type": "reasoning", "id": f"rs_{answer.id}", "summary": summary})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{answer.id}", "status": "completed"}
        output.append({**message, "role": "assistant", "content": content})
    for n, call in enumerate(answer.calls):
        ids = {"id": f"fc_{answer.id}_{n}", "call_id": f"call_{answer.id}_{n}"}
        said = {"name": call.name, "arguments": compact(call.arguments)}
        output.append({"type": "function_call", **ids, **said, "status": "completed"})
    return output


def _events(response: Json) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}
        opened = {**item, **empty[item["type"]]}
        if "status" in item:
            opened["status"] = "in_progress"
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        if item["type"] == "message":
            yield from _text_events(item["content"][0], {**place, "content_index": 0})
        elif item["type"] == "function_call":
            for piece in halves(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield {"type": "response.function_call_arguments.done", **place, **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response}


def _text_events(part: Json, place: Json) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in halves(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}
