"""A provider that counts otherwise than we do, and what else a dump may leave open: the cause stays the true one.

The provider of these tests writes tools as JSON with blanks and a few tokens of its own, as no page says that it must not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import otel_ctx
from otel_ctx.tokens import Counter

START = 1_795_600_000
COUNTER = Counter()
RULE = "Answer in two sentences, name the order and its state, and never promise a refund before the policy was read. "


def tool(name: str, keys: tuple[str, ...] = ("type", "properties", "required")) -> dict[str, Any]:
    words = {
        "type": "string",
        "description": f"What {name} looks for, in plain words, without names or numbers.",
    }
    schema = {
        "type": "object",
        "properties": {"query": words, "limit": {"type": "integer", "description": "How many."}},
        "required": ["query"],
    }
    return {
        "type": "function",
        "name": name,
        "description": f"Looks up {name} in the shop.",
        "parameters": {key: schema[key] for key in keys},
    }


def count(text: str, encoding: str = "o200k_base") -> int:
    return COUNTER.count(text, encoding)[0]


def billed_tools(tools: list[dict[str, Any]], encoding: str = "o200k_base") -> int:
    return sum(count(json.dumps(t), encoding) + 8 for t in tools)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def history(turns: int) -> list[dict[str, Any]]:
    asks = [user(f"Question {turn}: where is order {1000 + turn}? {RULE}") for turn in range(turns + 1)]
    return [m for turn, ask in enumerate(asks) for m in (ask, assistant(f"On its way, {turn}."))][:-1]


def analyzed(tmp_path: Path, calls: list[dict[str, Any]], scope: str = "acme.genai") -> dict[str, Any]:
    """``calls``: attributes with the second at which each began."""
    spans = []
    for i, call in enumerate(calls):
        at = (START + call.pop("at")) * 1_000_000_000
        pairs = []
        for key, value in call.items():
            if isinstance(value, int):
                pairs.append({"key": key, "value": {"intValue": str(value)}})
            else:
                text = value if isinstance(value, str) else json.dumps(value)
                pairs.append({"key": key, "value": {"stringValue": text}})
        spans.append({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{i + 1:016x}", "name": "chat", "kind": 3,
            "startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 2_000_000_000), "attributes": pairs,
        })  # fmt: skip
    dump = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": spans}]}]}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    told: dict[str, Any] = json.loads(otel_ctx.analyze(path).to_json())
    return told


def asked(
    at: int, provider: str, model: str, total: int, read: int, write: int | None = None, **more: Any
) -> dict[str, Any]:
    usage = {"gen_ai.usage.input_tokens": total, "gen_ai.usage.cache_read.input_tokens": read}
    if write is not None:
        usage["gen_ai.usage.cache_creation.input_tokens"] = write
    named = {
        "system": "gen_ai.system_instructions",
        "tools": "gen_ai.tool.definitions",
        "messages": "gen_ai.input.messages",
    }
    return {
        "at": at,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.usage.output_tokens": 5,
        **usage,
        **{named[key]: value for key, value in more.items()},
    }


def blamed(report: dict[str, Any]) -> list[dict[str, int]]:
    return [
        {
            cause: w["tokens"]
            for cause, w in (c["waste"] or {"by_cause": {}})["by_cause"].items()
            if cause != "dead_tool_schema"
        }
        for c in report["calls"]
    ]


@pytest.mark.parametrize("number", [20, 60])
def test_tools_that_the_provider_writes_longer_are_no_missing_content(tmp_path: Path, number: int) -> None:
    """Everything is on the span: that the provider's tokens are more is its way of writing tools."""
    tools = [tool(f"shelf_{i}") for i in range(number)]
    calls, last = [], 0
    for turn in range(4):
        system = f"It is 3:0{turn}:1{turn} PM. " + RULE * 12
        messages = history(turn)
        text = system + "".join(p["content"] for m in messages for p in m["parts"])
        total = billed_tools(tools) + count(text) + 4 * (len(messages) + 1)
        # The tools alone stay as they are, and end between two steps of 128.
        read = billed_tools(tools) // 128 * 128 if turn and billed_tools(tools) >= 1024 else 0
        calls.append(
            asked(turn * 20, "openai", "gpt-4.1", total, read, tools=tools, messages=messages,
                  system=[{"type": "text", "content": system}])
        )  # fmt: skip
        if turn == 3:
            lost = last // 128 * 128 - read
        last = total
    report = analyzed(tmp_path, calls)
    assert [c["completeness"]["status"] for c in report["calls"]] == ["full"] * 4
    assert report["calls"][-1]["cache"]["cause"] == "volatile_prefix"
    assert blamed(report)[-1] == {"volatile_prefix": lost}
    assert not [f for f in report["findings"] if f["kind"] in ("unexplained_miss", "content_not_captured")]


def test_hidden_instructions_are_still_missing_content(tmp_path: Path) -> None:
    """A prompt far larger than what was recorded, its tools written at length, has something that was not."""
    tools = [tool(f"shelf_{i}") for i in range(4)]
    messages = history(1)
    text = "".join(p["content"] for m in messages for p in m["parts"])
    total = billed_tools(tools) + count(text) + 2_000
    report = analyzed(
        tmp_path, [asked(0, "openai", "gpt-4.1", total, 0, tools=tools, messages=messages)]
    )  # 2,000 of instructions
    assert report["calls"][0]["completeness"]["reasons"] == ["not_captured"]


def test_a_tool_added_behind_many_is_named_though_more_was_read_than_we_count_in_front(
    tmp_path: Path,
) -> None:
    tools = [tool(f"shelf_{i}") for i in range(60)]
    more = [*tools, tool("shelf_60")]
    calls = []
    system = [{"type": "text", "content": RULE * 40}]
    front = billed_tools(tools, "mistral_v3")
    body = count(RULE * 40, "mistral_v3") // 2
    for turn in range(3):
        messages = history(turn)
        # Its own tokens for this language are fewer than we count, so that nothing seems to be missing in the sum.
        text = sum(count(p["content"], "mistral_v3") // 2 for m in messages for p in m["parts"])
        sent = more if turn == 2 else tools
        total = billed_tools(sent, "mistral_v3") + body + text
        read = (0, (front + body) // 64 * 64, front // 64 * 64)[turn]
        calls.append(
            asked(turn * 20, "mistral_ai", "mistral-large-4", total, read, tools=sent, messages=messages, system=system)
        )  # fmt: skip
    report = analyzed(tmp_path, calls)
    assert report["calls"][2]["cache"]["cause"] == "tools_changed"
    assert "unknown" not in blamed(report)[2]
    assert [f["kind"] for f in report["findings"] if f["kind"] in ("tools_changed", "unexplained_miss")] == [
        "tools_changed"
    ]


def test_keys_of_other_tools_each_time_are_one_finding(tmp_path: Path) -> None:
    """Whichever schema changed first: one habit, one finding, one fix."""
    calls = []
    for turn in range(5):
        tools = [tool(f"shelf_{i}") for i in range(20)]
        if turn:
            tools[turn] = tool(f"shelf_{turn}", ("required", "properties", "type"))
        messages = history(turn)
        text = sum(count(p["content"]) + 4 for m in messages for p in m["parts"])
        calls.append(
            asked(
                turn * 20, "openai", "gpt-4.1", billed_tools(tools) + text, 0, tools=tools, messages=messages
            )
        )
    report = analyzed(tmp_path, calls)
    found = [f for f in report["findings"] if f["kind"] == "tool_schema_key_order"]
    assert [(len(f["calls"]), f["path"]) for f in found] == [(4, "tools[1]")]
    assert found[0]["tokens"] == sum(sum(b.values()) for b in blamed(report))


def test_other_tools_by_the_question_hold_no_value_that_changes(tmp_path: Path) -> None:
    """A router that sends other tools each time: what stands first is exchanged again and again, not changed."""
    calls = []
    for turn in range(5):
        tools = [tool(f"{name}_{turn}") for name in ("stock", "orders", "refunds", "returns")]
        messages = history(turn)
        text = sum(count(p["content"]) + 4 for m in messages for p in m["parts"])
        system = [{"type": "text", "content": RULE * 60}]
        total = billed_tools(tools) + text + count(RULE * 60)
        calls.append(
            asked(turn * 20, "openai", "gpt-4.1", total, 0, tools=tools, messages=messages, system=system)
        )
    report = analyzed(tmp_path, calls)
    found = {f["kind"]: f for f in report["findings"] if f["kind"] != "dead_tool_schema"}
    assert set(found) == {"tools_changed"}
    assert [c["cache"]["cause"] for c in report["calls"][1:]] == ["tools_changed"] * 4
    assert len(found["tools_changed"]["calls"]) == 4


@pytest.mark.parametrize(
    ("moves", "cause"), [(False, "missing_tail_breakpoint"), (True, "frozen_breakpoint")]
)
def test_without_text_a_marker_that_never_moved_is_not_said_to_have_stopped(
    tmp_path: Path, moves: bool, cause: str
) -> None:
    """It may stand at the end of the system prompt: all that usage proves is that the tail is not marked."""
    totals = (3_000, 3_500, 4_200, 5_000)
    ends = (3_000, 3_500, 3_500, 3_500) if moves else (2_500,) * 4
    reads = (0, *ends[:-1])
    calls = [
        {
            **asked(i * 20, "anthropic", "claude-sonnet-4-5", totals[i], reads[i], ends[i] - reads[i]),
            "gen_ai.conversation.id": "c-1",
        }
        for i in range(4)
    ]
    report = analyzed(tmp_path, calls)
    assert blamed(report)[3] == {cause: totals[2] - ends[2]}
    assert report["calls"][3]["cache"]["evidence"] == "inferred"


def test_a_request_without_an_answer_in_a_log_that_has_answers_wrote_nothing(tmp_path: Path) -> None:
    """The try before a retry: what the retry writes is not blamed on the provider."""

    def record(at: int, messages: list[dict[str, Any]], usage: dict[str, int] | None) -> dict[str, Any]:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages}
        made: dict[str, Any] = {"timestamp": f"2026-11-25T08:{at // 60:02d}:{at % 60:02d}Z", "body": body}
        if usage is not None:
            made["response"] = {
                "id": f"msg_{at}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "Yes."}], "stop_reason": "end_turn",
                "usage": {**usage, "output_tokens": 2},
            }  # fmt: skip
        return made

    def marked(texts: list[str]) -> list[dict[str, Any]]:
        roles = ("user", "assistant")
        told = [{"role": roles[i % 2], "content": [{"type": "text", "text": t}]} for i, t in enumerate(texts)]
        told[-1]["content"] = [{**told[-1]["content"][0], "cache_control": {"type": "ephemeral"}}]  # type: ignore[dict-item]
        return told

    texts = [RULE * 100, "Yes.", RULE * 40]
    first = {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 2_600}
    second = {"input_tokens": 0, "cache_read_input_tokens": 2_600, "cache_creation_input_tokens": 1_050}
    records = [
        record(0, marked(texts[:1]), first),
        record(20, marked(texts), None),
        record(25, marked(texts), second),
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in records))
    report = json.loads(otel_ctx.analyze(path).to_json())
    assert [c["usage"]["input"] for c in report["calls"]] == [2_600, None, 3_650]
    assert report["calls"][1]["cache"]["predicted"] is None
    assert blamed(report)[2] == {}
    assert report["calls"][2]["cache"]["cause"] is None
