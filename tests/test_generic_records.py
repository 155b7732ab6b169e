"""Log records of events that nobody knows: messages of any known shape in them are their span's, and marked as guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_ctx.dialects import read_log
from otel_ctx.engine import Engine
from otel_ctx.model import Analysis, LogRecord, Span

TRACE, SPAN = "1" * 32, "2" * 16
SYSTEM, ASKED = "You are the clerk of a small shop.", "Where is the parcel that I sent on Monday?"
CHAT = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
PARTS = [
    {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
    {"role": "user", "parts": [{"type": "text", "content": ASKED}]},
]
TOOL = {"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}
ANTHROPIC = {
    "model": "claude-x",
    "max_tokens": 9,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": ASKED}],
}


def record(body: Any = None, name: str = "shop.llm.prompt", **attributes: Any) -> LogRecord:
    return LogRecord(TRACE, SPAN, name, 1_500, body, attributes)


def analysed(*records: LogRecord, **attributes: Any) -> Analysis:
    """A call of a known dialect that has figures and no content, and these records."""
    given = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 5, **attributes,
    }  # fmt: skip
    engine = Engine()
    engine.feed([Span(TRACE, SPAN, "", "chat gpt-4o", 1_000, 2_000, given)], records)
    return engine.close()


def texts(analysis: Analysis) -> list[str | None]:
    return [analysis.text(s.digest) for s in analysis.readings[0].call.prompt]


@pytest.mark.parametrize(
    "given",
    [
        record(CHAT),
        record(json.dumps(CHAT)),
        record(json.dumps({"messages": CHAT})),
        record(PARTS),
        record({"prompt": {"messages": PARTS}}),
        record(ANTHROPIC),
        record("prompt", **{"llm.messages": json.dumps(CHAT)}),
        record("prompt", **{"request.body": json.dumps(ANTHROPIC)}),
    ],
)
def test_any_known_shape_is_read_and_marked(given: LogRecord) -> None:
    found = analysed(given)
    (reading,) = found.readings

    assert texts(found) == [SYSTEM, ASKED]
    assert "guessed" in reading.call.completeness.reasons
    assert "tools" in reading.call.completeness.lost
    assert found.orphans == 0


def test_tools_and_the_answer_of_a_record_are_the_calls() -> None:
    body = {"request": {"model": "gpt-4o", "messages": CHAT, "tools": [TOOL]}}
    answer = {"response": {"role": "assistant", "content": "On its way."}}
    (reading,) = analysed(record(body), record(answer, name="shop.llm.completion")).readings

    assert [s.name for s in reading.call.prompt.tools] == ["track"]
    assert [s.kind for s in reading.call.prompt.messages] == ["system", "user"]
    assert len(reading.call.answer) == 1


def test_a_message_alone_is_one_of_the_history() -> None:
    spoken = [
        *CHAT,
        {"role": "assistant", "content": "Let me look."},
        {"role": "user", "content": "Thank you."},
    ]
    found = analysed(*(LogRecord(TRACE, SPAN, "line", 1_500 + n, m, {}) for n, m in enumerate(spoken)))

    assert texts(found) == [SYSTEM, ASKED, "Let me look.", "Thank you."]


def test_what_was_told_for_sure_is_not_guessed_and_not_counted_twice() -> None:
    sure = {"gen_ai.input.messages": json.dumps(PARTS), "gen_ai.tool.definitions": json.dumps([TOOL])}
    plain, again = analysed(**sure), analysed(record(CHAT), **sure)

    assert texts(again) == texts(plain)
    assert again.readings[0].call.completeness == plain.readings[0].call.completeness
    assert again.readings[0].tokens == plain.readings[0].tokens


@pytest.mark.parametrize(
    "given",
    [
        record("GET /orders 200"),
        record({"status": 200, "path": "/orders"}),
        record({"items": [{"name": "pear", "content": 3}]}),
        record([1, 2, 3]),
        record(None, **{"http.status": 200}),
        LogRecord(TRACE, "", "shop.llm.prompt", 1_500, CHAT, {}),  # of no span
    ],
)
def test_other_records_are_left_alone(given: LogRecord) -> None:
    assert read_log(given) is None
