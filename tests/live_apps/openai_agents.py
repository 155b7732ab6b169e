"""Sessions through OpenAI's client: Chat Completions and Responses."""

from __future__ import annotations

from functools import cache
from typing import Any

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.live_apps.texts import RESULTS, TOOLS


@cache  # each reads the machine's certificates
def clients(url: str) -> tuple[openai.OpenAI, openai.AsyncOpenAI]:
    where = {"base_url": f"{url}/v1", "api_key": "x"}
    return openai.OpenAI(**where), openai.AsyncOpenAI(**where)


class Chat:
    def __init__(self, url: str) -> None:
        self._client, self._async = clients(url)
        self._messages: list[Any] = []

    def ask(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def _request(self, system: str) -> dict[str, Any]:
        tools = [
            {"type": "function", "function": {"name": name, "description": said, "parameters": schema}}
            for name, (said, schema) in TOOLS.items()
        ]
        messages = [{"role": "system", "content": system}, *self._messages]
        return {"model": "gpt-4o-2024-08-06", "messages": messages, "tools": tools}

    def call(self, system: str, stream: bool) -> None:
        create: Any = self._client.chat.completions.create
        if not stream:
            self._take(create(**self._request(system)))
            return
        state = ChatCompletionStreamState()
        for chunk in create(**self._request(system), stream=True, stream_options={"include_usage": True}):
            state.handle_chunk(chunk)
        self._take(state.get_final_completion())

    async def call_async(self, system: str, stream: bool) -> None:
        create: Any = self._async.chat.completions.create
        if not stream:
            self._take(await create(**self._request(system)))
            return
        state = ChatCompletionStreamState()
        async for chunk in await create(
            **self._request(system), stream=True, stream_options={"include_usage": True}
        ):
            state.handle_chunk(chunk)
        self._take(state.get_final_completion())

    def _take(self, completion: Any) -> None:
        message = completion.choices[0].message
        calls = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.function.name, "arguments": c.function.arguments},
            }
            for c in message.tool_calls or ()
        ]
        said: dict[str, Any] = {"role": "assistant", "content": message.content}
        self._messages.append(said | ({"tool_calls": calls} if calls else {}))

    def answer_tools(self) -> bool:
        calls = self._messages[-1].get("tool_calls", ())
        self._messages += [
            {"role": "tool", "tool_call_id": c["id"], "content": RESULTS[c["function"]["name"]]}
            for c in calls
        ]
        return bool(calls)


class Responses:
    def __init__(self, url: str) -> None:
        self._client, self._async = clients(url)
        self._items: list[Any] = []
        self._calls: list[Any] = []

    def ask(self, text: str) -> None:
        self._items.append({"role": "user", "content": text})

    def _request(self, system: str) -> dict[str, Any]:
        tools = [
            {"type": "function", "name": name, "description": said, "parameters": schema, "strict": False}
            for name, (said, schema) in TOOLS.items()
        ]
        return {"model": "gpt-4.1-2025-04-14", "instructions": system, "input": self._items, "tools": tools}

    def call(self, system: str, stream: bool) -> None:
        create: Any = self._client.responses.create
        if not stream:
            self._take(create(**self._request(system)))
            return
        *_, last = create(**self._request(system), stream=True)
        self._take(last.response)

    async def call_async(self, system: str, stream: bool) -> None:
        create: Any = self._async.responses.create
        if not stream:
            self._take(await create(**self._request(system)))
            return
        *_, last = [event async for event in await create(**self._request(system), stream=True)]
        self._take(last.response)

    def _take(self, response: Any) -> None:
        self._items = [*self._items, *(item.model_dump(exclude_none=True) for item in response.output)]
        self._calls = [item for item in response.output if item.type == "function_call"]

    def answer_tools(self) -> bool:
        self._items += [
            {"type": "function_call_output", "call_id": c.call_id, "output": RESULTS[c.name]}
            for c in self._calls
        ]
        return bool(self._calls)
