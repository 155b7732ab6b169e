"""Sessions through Anthropic's client."""

from __future__ import annotations

from functools import cache
from typing import Any

import anthropic

from tests.live_apps.texts import RESULTS, TOOLS


@cache  # each reads the machine's certificates
def clients(url: str) -> tuple[anthropic.Anthropic, anthropic.AsyncAnthropic]:
    return anthropic.Anthropic(base_url=url, api_key="x"), anthropic.AsyncAnthropic(base_url=url, api_key="x")


class Messages:
    def __init__(self, url: str) -> None:
        self._client, self._async = clients(url)
        self._messages: list[Any] = []

    def ask(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def _request(self, system: str) -> dict[str, Any]:
        tools = [
            {"name": name, "description": said, "input_schema": schema}
            for name, (said, schema) in TOOLS.items()
        ]
        marked = {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}
        return {
            "model": "claude-sonnet-5", "max_tokens": 1000, "system": [marked],
            "messages": self._messages, "tools": tools,
        }  # fmt: skip

    def call(self, system: str, stream: bool) -> None:
        if not stream:
            self._take(self._client.messages.create(**self._request(system)))
            return
        with self._client.messages.stream(**self._request(system)) as streaming:
            self._take(streaming.get_final_message())

    async def call_async(self, system: str, stream: bool) -> None:
        if not stream:
            self._take(await self._async.messages.create(**self._request(system)))
            return
        async with self._async.messages.stream(**self._request(system)) as streaming:
            self._take(await streaming.get_final_message())

    def _take(self, message: Any) -> None:
        content = [
            {"type": "text", "text": part.text}
            if part.type == "text"
            else {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
            for part in message.content
        ]
        self._messages = [*self._messages, {"role": "assistant", "content": content}]

    def answer_tools(self) -> bool:
        calls = [part for part in self._messages[-1]["content"] if part["type"] == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": c["id"], "content": RESULTS[c["name"]]} for c in calls
        ]
        if results:
            self._messages = [*self._messages, {"role": "user", "content": results}]
        return bool(results)
