"""The provider's own word on its cache: where it stands, and that it overrules what was worked out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from otel_ctx import Analysis, Engine
from otel_ctx.dialects import diagnoses, exchange
from otel_ctx.findings.caching import _said
from otel_ctx.model import Diagnosis, Span
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.parts import read_answer

SECOND = 1_000_000_000
START = 1_796_000_000 * SECOND
SONNET = "claude-sonnet-4-5-20250929"
PAD = "Answer politely, cite the policy and never invent an order number. " * 200
MISS = {"type": "system_changed", "cache_missed_input_tokens": 618_127}
TOLD = Diagnosis("system_changed", 618_127)
ANTHROPIC = {"id": "msg_1", "content": [], "diagnostics": {"cache_miss_reason": MISS}}
OPENAI = {
    "id": "resp_1",
    "output": [],
    "prompt_cache_diagnostics": {
        "type": "cache_miss",
        "reason": "verbosity_changed",
        "cache_missed_tokens": 4096,
    },
}
EDITS = [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}]


# ---- where it stands


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ANTHROPIC, TOLD),
        ([{"type": "message_start", "message": {**ANTHROPIC, "usage": {"input_tokens": 1}}}], TOLD),
        (OPENAI, Diagnosis("verbosity_changed", 4096)),
        ([{"type": "response.completed", "response": OPENAI}], Diagnosis("verbosity_changed", 4096)),
        ({**OPENAI, "prompt_cache_diagnostics": {"type": "cache_hit"}}, None),
        ({**OPENAI, "prompt_cache_diagnostics": None}, None),
        ({**ANTHROPIC, "diagnostics": {"cache_miss_reason": None}}, None),
        ({"id": "msg_1", "context_management": {"applied_edits": EDITS}}, Diagnosis("context_edited")),
        ({"id": "msg_1", "context_management": {"applied_edits": []}}, None),
    ],
)
def test_answers(answer: Any, found: Diagnosis | None) -> None:
    read = read_answer(answer)

    assert read is not None
    assert read.diagnosis == found


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"metadata": json.dumps({"cache_miss_reason": MISS})}, TOLD),
        ({"metadata": json.dumps({"context_management_applied_edits": EDITS})}, Diagnosis("context_edited")),
        ({"output.value": json.dumps(ANTHROPIC)}, TOLD),
        ({"response_data": json.dumps(OPENAI)}, Diagnosis("verbosity_changed", 4096)),
        (
            {
                "agento11y.generation.metadata": json.dumps(
                    {
                        "agento11y.cache_diagnostics.miss_reason": "tools_changed",
                        "agento11y.cache_diagnostics.missed_input_tokens": 7,
                    }
                )
            },
            Diagnosis("tools_changed", 7),
        ),
        ({"metadata": json.dumps({"cache_miss_reason": "a text of the user's own"})}, None),
        ({"metadata": '{"cache_miss_reason": '}, None),
        ({"metadata": "free text about applied_edits"}, None),
        ({}, None),
    ],
)
def test_attributes(attributes: Mapping[str, Any], found: Diagnosis | None) -> None:
    assert diagnoses.of_attributes(attributes) == found


def test_a_log_of_requests() -> None:
    sent = {"model": SONNET, "messages": []}
    attributes = {
        "exchange.dialect": exchange.RAW,
        "exchange.request": sent,
        "exchange.response": ANTHROPIC,
    }
    span = Span("1" * 32, "1" * 16, "", "x", START, START + SECOND, attributes)
    told = exchange.read(span)

    assert told is not None
    assert told.diagnosis == TOLD


# ---- what it does


def call(
    number: int,
    system: str,
    read: int,
    reason: Mapping[str, Any] | None = None,
    tools: Sequence[str] = ("look", "find"),
    at: float | None = None,
    model: str = SONNET,
    content: bool = True,
) -> Span:
    """The ``number``-th call of a conversation that grows by a turn; 3,000 tokens, and 100 more each turn."""
    said = [
        {"role": role, "parts": [{"type": "text", "content": f"{role} {i}"}]}
        for i in range(number + 1)
        for role in ("user", "assistant")
    ][:-1]
    total = 3000 + 100 * number
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": model,
        "gen_ai.conversation.id": "c",
        "gen_ai.usage.input_tokens": total,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": total - read,
    }
    if content:
        attributes |= {
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
            "gen_ai.input.messages": json.dumps(said),
            "gen_ai.tool.definitions": json.dumps(
                [{"type": "function", "name": t, "parameters": {}} for t in tools]
            ),
        }
    if reason is not None:
        attributes["metadata"] = json.dumps({"cache_miss_reason": reason})
    start = START + round((10 * number if at is None else at) * SECOND)
    return Span(
        "1" * 32, f"{number + 1:016x}", "", "chat", start, start + SECOND, attributes, 3,
        scope_name="opentelemetry.instrumentation.genai.anthropic", scope_version="1.3b0",
        resource={"service.name": "shop"},
    )  # fmt: skip


def second(spans: Sequence[Span]) -> tuple[dict[str, Any], Analysis]:
    engine = Engine()
    engine.feed(spans)
    analysis = engine.close()
    return build(analysis, Inputs((), ()))["calls"][1], analysis


def reason(kind: str, tokens: int = 3000) -> dict[str, Any]:
    return {"type": kind, "cache_missed_input_tokens": tokens}


def test_what_was_found_in_the_text_is_confirmed_where_the_provider_says_the_same() -> None:
    call_, analysis = second(
        [
            call(0, f"It is 3:07:42 PM. {PAD}", 0),
            call(1, f"It is 3:08:51 PM. {PAD}", 0, reason("system_changed")),
        ]
    )

    assert (call_["cache"]["cause"], call_["cache"]["evidence"]) == ("volatile_prefix", "confirmed")
    assert call_["waste"]["by_cause"]["volatile_prefix"]["tokens"] == 3000
    assert [f.evidence for f in analysis.findings if f.kind == "volatile_prefix"] == ["confirmed"]


def test_another_word_of_the_provider_s_overrules_it() -> None:
    call_, analysis = second(
        [
            call(0, f"It is 3:07:42 PM. {PAD}", 0),
            call(1, f"It is 3:08:51 PM. {PAD}", 0, reason("tools_changed")),
        ]
    )

    assert (call_["cache"]["cause"], call_["cache"]["evidence"]) == ("tools_changed", "confirmed")
    assert set(call_["waste"]["by_cause"]) == {"tools_changed"}
    assert "volatile_prefix" not in {f.kind for f in analysis.findings}


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("system_changed", "prefix_changed"),
        ("messages_changed", "prefix_changed"),
        ("tools_changed", "tools_changed"),
        ("model_changed", "parameters_changed"),
        ("context_compacted", "compaction"),
        ("reasoning_effort_changed", "parameters_changed"),
    ],
)
@pytest.mark.parametrize("content", [True, False])
@pytest.mark.parametrize("pause", [10, 4000])
def test_it_overrules_times_and_what_could_not_be_seen(
    word: str, cause: str, content: bool, pause: int
) -> None:
    """An hour's pause would be ttl_expired, none a provider_side_miss, without text an unexplained_miss."""
    call_, analysis = second(
        [
            call(0, PAD, 0, content=content),
            call(1, PAD, 0, reason(word), at=pause, content=content),
        ]
    )

    assert (call_["cache"]["cause"], call_["cache"]["evidence"]) == (cause, "confirmed")
    assert call_["waste"]["tokens"] == 3000
    assert [f.kind for f in analysis.findings if call_["id"] in f.calls and f.tokens] == [cause]


def test_another_model() -> None:
    call_, _ = second(
        [
            call(0, PAD, 0),
            call(1, PAD, 0, reason("model_changed"), model="claude-sonnet-4-20250514"),
        ]
    )

    assert (call_["cache"]["cause"], call_["cache"]["evidence"]) == ("model_switch", "confirmed")


@pytest.mark.parametrize("word", ["unavailable", "previous_message_not_found", "something_new"])
def test_a_word_that_says_nothing_changes_nothing(word: str) -> None:
    plain, _ = second([call(0, PAD, 0), call(1, PAD, 0)])
    told, _ = second([call(0, PAD, 0), call(1, PAD, 0, {"type": word})])

    assert told["cache"] == plain["cache"]
    assert told["waste"] == plain["waste"]


def test_tokens_that_only_the_provider_knows_of() -> None:
    """The call before was not recorded: nothing was expected, and the provider says what it missed."""
    spans = [call(0, PAD, 0, content=False), call(3, PAD, 500, reason("system_changed", 1200))]
    spans[1].attributes["gen_ai.conversation.id"] = "another"  # type: ignore[index]
    call_, _ = second(spans)

    assert call_["waste"]["by_cause"]["prefix_changed"]["tokens"] == 1200
    assert call_["cache"]["outcome"] == "partial"
    assert call_["cache"]["optimal"]["read"] == 1700


def test_a_hit_is_a_hit_whatever_it_says_of_an_older_message() -> None:
    call_, _ = second([call(0, PAD, 0), call(1, PAD, 3000, reason("messages_changed", 0))])

    assert (call_["cache"]["cause"], call_["waste"]["tokens"]) == (None, 0)


def test_every_word_has_its_words() -> None:
    from otel_ctx.cache.confirmed import _CAUSES

    assert {f"confirmed.{cause}" for cause in _CAUSES.values()} <= set(_said())
