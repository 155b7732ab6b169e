"""Several records of one request are one call, and no two requests are ever one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx.calls import Told, fold
from otel_ctx.engine import Engine
from otel_ctx.model import (
    EMPTY_CHAIN,
    Analysis,
    Call,
    Kind,
    LogRecord,
    Method,
    Reading,
    Reason,
    Section,
    Segment,
    Span,
    Telling,
    UsageClaim,
    grown,
)
from otel_ctx.rules import load

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
GENAI = "opentelemetry.instrumentation.genai.openai"
OTHER = "openinference.instrumentation.langchain"
SDK = "com.anthropic.sdk.python"
LONG = "Please read the returns policy again and tell me what it says about worn items. " * 12


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def span(
    id_: int,
    *,
    trace: int = 1,
    parent: int = 0,
    at: float = 0,
    length: float = 1,
    scope: str = GENAI,
    operation: str = "chat",
    messages: Sequence[dict[str, Any]] | None = None,
    answer: str | None = None,
    tokens: tuple[int, int] | None = None,
    dropped: int = 0,
    **attributes: Any,
) -> Span:
    """``at`` and ``length`` in seconds; ``tokens``: input and output; underscores in names stand for dots."""
    known: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o" if operation == "chat" else None,
        "gen_ai.input.messages": json.dumps(messages) if messages is not None else None,
        "gen_ai.output.messages": json.dumps([said("assistant", answer)]) if answer else None,
        "gen_ai.usage.input_tokens": tokens[0] if tokens else None,
        "gen_ai.usage.output_tokens": tokens[1] if tokens else None,
        **attributes,
    }
    start = BASE + round(at * SECOND)
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{id_:016x}",
        parent_id=f"{parent:016x}" if parent else "",
        name=operation,
        start_unix_nano=start,
        end_unix_nano=start + round(length * SECOND),
        attributes={k: v for k, v in known.items() if v is not None},
        kind=3,
        scope_name=scope,
        scope_version="1.3b0",
        resource={"service.name": "shop"},
        dropped_attributes=dropped,
    )


def details(
    span_id: int, at: float, *, trace: int = 1, scope: str = GENAI, name: str = "", **attributes: Any
) -> LogRecord:
    """One log record that holds a whole request."""
    return LogRecord(
        trace_id=f"{trace:032x}" if trace else "",
        span_id=f"{span_id:016x}" if span_id else "",
        name=name or "gen_ai.client.inference.operation.details",
        time_unix_nano=BASE + round(at * SECOND),
        body=None,
        attributes=attributes,
        scope_name=scope,
        scope_version="1.3b0",
        resource={"service.name": "shop"},
    )


def message(span_id: int, at: float, name: str, body: Any, *, trace: int = 1) -> LogRecord:
    """One log record that holds one message."""
    return LogRecord(
        trace_id=f"{trace:032x}",
        span_id=f"{span_id:016x}",
        name=name,
        time_unix_nano=BASE + round(at * SECOND),
        body=body,
        attributes={"gen_ai.system": "openai"},
        scope_name="opentelemetry.instrumentation.openai_v2",
        scope_version="2.1b0",
    )


def tool_call(id_: str) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def analysed(spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> Analysis:
    engine = Engine()
    engine.feed(spans, logs)
    return engine.close()


def calls(spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> list[Call]:
    return [r.call for r in analysed(spans, logs).readings]


def in_any_order(spans: Sequence[Span]) -> list[Sequence[Span]]:
    return [*itertools.permutations(spans)] if len(spans) < 5 else [spans, spans[::-1]]


def roles(call: Call) -> list[tuple[int, str]]:
    return [(int(s.span_id, 16), s.role) for s in call.spans]


def texts(analysis: Analysis, reading: Reading) -> list[str | None]:
    return [analysis.text(s.digest) for s in reading.call.prompt]


# ---- the same span twice


def test_a_span_that_is_delivered_twice_is_one_call() -> None:
    first = span(1, messages=[said("user", "hi")], tokens=(5, 2))
    analysis = analysed([first, first])

    (reading,) = analysis.readings
    assert roles(reading.call) == [(1, "primary")]
    assert reading.call.usage.input == 5


def test_two_deliveries_of_a_span_that_differ_give_the_fuller_one_in_any_order() -> None:
    early = span(1, tokens=(5, 2))
    whole = span(1, messages=[said("user", "hi")], tokens=(5, 2))

    for pair in ([early, whole], [whole, early]):
        (call,) = calls(pair)
        assert call.completeness.status == "full"
        assert [s.kind for s in call.prompt] == ["user"]


def test_the_same_span_id_in_two_traces_is_two_calls() -> None:
    assert len(calls([span(1, trace=1, tokens=(5, 2)), span(1, trace=2, at=5, tokens=(5, 2))])) == 2


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"tokens": (900, 20)}, 2),  # forked processes draw the same ids
        ({"tokens": (500, 20), "at": 3}, 2),
        ({"tokens": (500, 20), "at": 0.0005}, 1),  # a format that counts in milliseconds
        ({"tokens": (500, 30)}, 1),  # sent again when more was answered
        ({"tokens": (0, 20)}, 1),
        ({}, 1),
    ],
)
def test_two_spans_of_one_id_are_two_calls_and_one_that_is_sent_again_is_one(
    other: dict[str, Any], expected: int
) -> None:
    one = span(1, messages=[said("user", "hi")], tokens=(500, 20))
    two = span(1, messages=[said("user", "h")], **other)
    for order in ([one, two], [two, one], [one, two, one, two]):
        told = calls(order)
        assert len(told) == expected
        assert sum(c.usage.input or 0 for c in told) == 500 + (expected - 1) * other.get("tokens", (0,))[0]


# ---- a request and the account of what it cost


def account(id_: int, at: float, tokens: tuple[int, int], *, parent: int = 9) -> Span:
    """AG2's ``record_usage``: the figures once more, and nothing that was asked."""
    kept = span(id_, parent=parent, at=at, length=0, operation="", tokens=tokens)
    own = {"gen_ai.response.model": "gpt-4o", "ag2.span.type": "usage", "ag2.usage.kind": "model_call"}
    nameless = {k: v for k, v in kept.attributes.items() if k != "gen_ai.operation.name"}
    return replace(kept, attributes=nameless | own)


def test_the_account_of_a_request_is_no_second_one() -> None:
    asked = [
        span(n, parent=9, at=n * 2, messages=[said("user", f"question {n}")], tokens=(9, 2)) for n in (1, 2)
    ]
    for order in in_any_order([*asked, account(3, 3.1, (9, 2)), account(4, 5.1, (9, 2))]):
        found = calls(order)
        assert sorted(roles(call) for call in found) == [
            [(1, "primary"), (3, "duplicate")],
            [(2, "primary"), (4, "duplicate")],
        ]


def test_an_account_that_no_request_explains_is_a_call() -> None:
    asked = span(1, parent=9, messages=[said("user", "hi")], tokens=(9, 2))
    for other in (
        account(2, 1.1, (700, 2)),  # a summary that was made beside it
        account(2, 1.1, (9, 2), parent=8),
        replace(account(2, 0, (9, 2)), start_unix_nano=BASE - SECOND, end_unix_nano=BASE - SECOND),
        account(2, 90, (9, 2)),
    ):
        assert len(calls([asked, other])) == 2


def test_the_account_of_a_whole_task_is_a_sum() -> None:
    task = account(2, 1.1, (18, 4))
    task = replace(task, attributes=task.attributes | {"ag2.usage.kind": "subtask"})

    asked, whole = calls([span(1, parent=9, messages=[said("user", "hi")], tokens=(9, 2)), task])
    assert asked.usage.input == 9
    assert whole.completeness.reasons == ("not_captured", "aggregate_only")


# ---- a wrapper and the SDK's own span


def test_a_wrapper_and_the_span_below_it_with_its_response_id_are_one_call() -> None:
    wrapper = span(
        1, length=3, scope=OTHER, messages=[said("user", "hi")], tokens=(9, 2), **{"gen_ai.response.id": "r1"}
    )
    native = span(
        2,
        parent=1,
        at=1,
        scope=SDK,
        tokens=(9, 2),
        **{"gen_ai.response.id": "r1", "gen_ai.response.model": "gpt-4o-2024-08-06"},
    )
    for order in in_any_order([wrapper, native]):
        (call,) = calls(order)
        assert roles(call) == [(1, "primary"), (2, "duplicate")]
        assert (call.usage.input, call.usage.output, call.response_id) == (9, 2, "r1")
        assert call.model == "gpt-4o-2024-08-06"
        assert [s.kind for s in call.prompt] == ["user"]
        assert (call.start_unix_nano, call.end_unix_nano) == (BASE, BASE + 3 * SECOND)


def test_a_wrapper_and_the_span_below_it_with_equal_numbers_are_one_call() -> None:
    spans = [
        span(1, length=3, scope=OTHER, tokens=(9, 2)),
        span(2, parent=1, at=1, scope=SDK, messages=[said("user", "hi")], tokens=(9, 2)),
    ]
    for order in in_any_order(spans):
        (call,) = calls(order)
        assert sorted(roles(call)) == [(1, "duplicate"), (2, "primary")]  # the one with the content leads


def test_the_wrapper_may_be_blind_to_the_cache() -> None:
    spans = [
        span(1, length=3, scope="acme.wrapper", tokens=(12, 40)),
        span(2, parent=1, at=1, tokens=(1012, 40), **{"gen_ai.usage.cache_read.input_tokens": 1000}),
    ]
    (call,) = calls(spans)
    assert (call.usage.input, call.usage.cache_read) == (1012, 1000)


def test_spans_between_a_wrapper_and_its_call_do_not_hide_it() -> None:
    spans = [
        span(1, length=5, scope=OTHER, tokens=(9, 2)),
        span(7, parent=1, at=1, length=3, operation="execute_task"),
        span(2, parent=7, at=2, scope=SDK, tokens=(9, 2)),
    ]
    assert len(calls(spans)) == 1


def test_siblings_with_one_response_id_are_one_call() -> None:
    spans = [
        span(9, length=9, operation="invoke_agent"),
        span(1, parent=9, tokens=(9, 2), **{"gen_ai.response.id": "r1"}),
        span(2, parent=9, at=0.1, scope=OTHER, tokens=(9, 2), **{"gen_ai.response.id": "r1"}),
    ]
    (call,) = calls(spans)
    assert {r for r in roles(call) if r[1] != "aggregate"} == {(1, "primary"), (2, "duplicate")}


def test_three_tellings_in_a_row_are_one_call() -> None:
    spans = [
        span(1, length=5, scope=OTHER, tokens=(9, 2)),
        span(2, parent=1, at=1, length=3, scope=GENAI, tokens=(9, 2)),
        span(3, parent=2, at=2, length=1, scope=SDK, tokens=(9, 2)),
    ]
    for order in in_any_order(spans):
        assert len(calls(order)) == 1


def test_a_response_id_that_comes_back_much_later_is_another_response() -> None:
    spans = [
        span(1, trace=1, tokens=(9, 2), **{"gen_ai.response.id": "chatcmpl-0"}),
        span(2, trace=2, at=3600, tokens=(9, 2), **{"gen_ai.response.id": "chatcmpl-0"}),
    ]
    assert len(calls(spans)) == 2


def test_an_id_that_one_library_tells_of_several_prompts_proves_nothing() -> None:
    """A test server that calls all its answers alike, asked twice at once, and told by two libraries."""
    spans = [
        span(
            n,
            trace=n,
            scope=scope,
            messages=[said("user", text)],
            tokens=(9, 2),
            **{"gen_ai.response.id": "x"},
        )
        for n, (scope, text) in enumerate(itertools.product((SDK, OTHER), ("one", "two")), 1)
    ]
    for order in in_any_order(spans):
        told = calls(order)
        assert sorted(len(c.spans) for c in told) == [2, 2]
        assert [len({s.digest for s in c.prompt}) for c in told] == [1, 1]


@pytest.mark.parametrize("step", [0, 0.5, 2])
@pytest.mark.parametrize("traces", [(1, 1, 1), (1, 2, 3)])
def test_an_id_that_one_library_tells_again_and_again_joins_none_of_its_calls(
    step: float, traces: tuple[int, ...]
) -> None:
    spans = [
        span(
            n,
            trace=trace,
            at=n * step,
            messages=[said("user", "poll")],
            tokens=(9, 2),
            **{"gen_ai.response.id": "x"},
        )
        for n, trace in enumerate(traces, 1)
    ]
    for order in in_any_order(spans):
        assert len(calls(order)) == 3


# ---- two instrumentations, each with traces of its own


def test_two_instrumentations_in_different_traces_are_one_call_each() -> None:
    spans = []
    for i in range(3):
        spans.append(span(1, trace=10 + i, at=i * 10, length=2, scope=OTHER, tokens=(100 + i, 20)))
        spans.append(span(2, trace=20 + i, at=i * 10 + 0.5, scope=GENAI, tokens=(100 + i, 20)))
    for order in in_any_order(spans):
        assert [c.usage.input for c in calls(order)] == [100, 101, 102]


def test_they_are_not_one_when_two_could_be_the_partner() -> None:
    outer = span(1, trace=10, length=5, scope=OTHER, tokens=(100, 20))
    inner = [span(2, trace=20 + i, at=1 + i, scope=GENAI, tokens=(100, 20)) for i in range(2)]

    assert len(calls([outer, *inner])) == 3


@pytest.mark.parametrize(
    ("one", "other", "read", "expected"),
    [
        (2_000, 1_000, 300, (None, None)),  # who is right?
        (2_000, 1_000, 1_000, (None, None)),  # a doubled input, and a prompt that was read whole
        (2_000, 1_700, 300, (2_000, 300)),  # the second leaves the cached tokens out
        (2_000, 1_950, 300, (2_000, 300)),  # the first stands: neither is far from the truth
    ],
)
def test_an_input_that_two_spans_tell_differently_is_not_known(
    one: int, other: int, read: int, expected: tuple[int | None, int | None]
) -> None:
    known = {"gen_ai.response.id": "r1", "gen_ai.usage.cache_read.input_tokens": read}
    first = span(1, messages=[said("user", "Q")], tokens=(one, 7), **known)
    second = span(2, parent=1, scope="acme", messages=[said("user", "Q")], tokens=(other, 7), **known)
    (call,) = calls([first, second])

    assert (call.usage.input, call.usage.cache_read) == expected
    assert call.usage.conflicts == (f"input {one:,} on one span, {other:,} on another",)


@pytest.mark.parametrize("count", ["input", "output"])
def test_a_number_that_is_many_times_the_window_is_told_and_not_known(count: str) -> None:
    tokens = (5_000_000, 7) if count == "input" else (40, 5_000_000)
    (reading,) = analysed([span(1, messages=[said("user", "Q")], tokens=tokens)]).readings

    assert getattr(reading.call.usage, count) is None
    assert reading.call.usage.conflicts == (f"{count} 5,000,000, but the model's window holds 128,000",)
    assert (reading.context.usage or 0) < 100
    assert reading.cost is None or reading.cost.usd < 0.01


def test_three_instrumentations_in_different_traces_are_one_call() -> None:
    spans = [
        span(1, trace=10, length=3, scope=OTHER, tokens=(100, 20)),
        span(2, trace=20, at=0.5, length=2, scope=GENAI, tokens=(100, 20)),
        span(3, trace=30, at=1, scope=SDK, tokens=(100, 20)),
    ]
    for order in in_any_order(spans):
        (call,) = calls(order)
        assert len(call.spans) == 3


def test_a_request_that_has_its_own_span_of_a_scope_takes_no_other_of_that_scope() -> None:
    spans = [
        span(1, trace=10, at=0.2, scope=GENAI, tokens=(100, 20)),
        span(2, trace=20, length=3, scope=OTHER, tokens=(100, 20)),
        span(3, trace=20, parent=2, at=0.3, scope=GENAI, tokens=(100, 20)),
    ]
    for order in in_any_order(spans):
        assert sorted(len(c.spans) for c in calls(order)) == [1, 2]


def test_they_are_not_one_when_neither_contains_the_other() -> None:
    spans = [
        span(1, trace=10, length=2, scope=OTHER, tokens=(100, 20)),
        span(2, trace=20, at=1, length=2, scope=GENAI, tokens=(100, 20)),
    ]
    assert len(calls(spans)) == 2


def test_they_are_not_one_when_their_prompts_have_nothing_in_common() -> None:
    spans = [
        span(1, trace=10, length=3, scope=OTHER, tokens=(100, 20), messages=[said("user", "one thing")]),
        span(2, trace=20, at=1, scope=GENAI, tokens=(100, 20), messages=[said("user", "something else")]),
    ]
    assert len(calls(spans)) == 2


def test_they_are_one_when_their_prompts_agree() -> None:
    spans = [
        span(1, trace=10, length=3, scope=OTHER, tokens=(100, 20), messages=[said("user", "one thing")]),
        span(2, trace=20, at=1, scope=GENAI, tokens=(100, 20), messages=[said("user", "one thing")]),
    ]
    assert len(calls(spans)) == 1


# ---- what only the agent's span has

TOOLS = json.dumps([{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}])


def test_tools_that_only_the_agent_s_span_has_are_its_requests_tools() -> None:
    agent = span(1, length=9, operation="invoke_agent", **{"gen_ai.tool.definitions": TOOLS})
    cycle = span(2, parent=1, at=1, length=7, operation="execute_event_loop_cycle")
    request = span(3, parent=2, at=2, messages=[said("user", "hi")], tokens=(90, 7), scope=OTHER)
    for order in in_any_order([agent, cycle, request]):
        (call,) = calls(order)
        assert [s.name for s in call.prompt.tools] == ["f"]
        assert call.completeness.status == "full"


def test_an_agent_without_tools_does_not_get_those_of_the_agent_above() -> None:
    outer = span(1, length=9, operation="invoke_agent", **{"gen_ai.tool.definitions": TOOLS})
    inner = span(2, parent=1, at=1, length=7, operation="invoke_agent", **{"gen_ai.agent.name": "helper"})
    request = span(3, parent=2, at=2, messages=[said("user", "hi")], tokens=(90, 7), scope=OTHER)
    (call,) = calls([outer, inner, request])

    assert call.prompt.tools == ()


def test_an_agent_s_bare_names_are_tools_without_schemas() -> None:
    agent = span(1, length=9, operation="invoke_agent", **{"gen_ai.tool.definitions": '["f", "g"]'})
    request = span(2, parent=1, at=2, messages=[said("user", "hi")], tokens=(90, 7), scope=OTHER)
    (call,) = calls([agent, request])

    assert [s.name for s in call.prompt.tools] == ["f", "g"]
    assert (call.completeness.status, call.completeness.reasons) == ("partial", ("schema_missing",))


def test_a_request_below_another_of_its_library_with_the_same_prompt_is_the_same() -> None:
    """LiteLLM's raw span of a request that failed has no numbers."""
    outer = span(1, length=9, messages=[said("user", "hi")], tokens=(90, 7))
    inner = span(2, parent=1, at=2, messages=[said("user", "hi")])
    other = span(2, parent=1, at=2, messages=[said("user", "summarise: hi")])

    assert len(calls([outer, inner])) == 1
    assert len(calls([outer, other])) == 2


# ---- steps of a library that loses its spans' parents


def step(id_: int, history: Sequence[tuple[str, str]], answer: str, at: float, **more: Any) -> Span:
    """A LangGraph node: the messages without the system prompt, its tool calls and the answer with its numbers."""
    kinds = {"user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}

    def message(role: str, text: str) -> dict[str, Any]:
        called = [{"name": "f", "args": {}, "id": "c1"}] if (role, text) == ("assistant", "") else []
        kwargs = {"content": text, "tool_calls": called, "tool_call_id": "c1"}
        return {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain_core", "messages", kinds[role]],
            "kwargs": kwargs,
        }

    state = {"messages": [message(*m) for m in history]}
    spoken = message("assistant", answer)
    spoken["kwargs"] |= {
        "usage_metadata": {"input_tokens": 40, "output_tokens": 3, "input_token_details": {}}
    }
    attributes = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps(state),
        "traceloop.entity.output": json.dumps({"messages": [spoken]}),
    }
    known = span(id_, trace=100 + id_, at=at, scope="@traceloop/instrumentation-langchain", **more)
    return replace(known, attributes=attributes)


def request_of_step(id_: int, history: Sequence[tuple[str, str]], at: float, **more: Any) -> Span:
    """The span of the request below: with the system prompt, without tool calls, numbers and ids."""
    messages = [said("system", "Be kind."), *(said(*m) for m in history)]
    scope = "@traceloop/instrumentation-langchain"
    return span(id_, trace=100 + id_, at=at, length=0.5, scope=scope, messages=messages, **more)


LOOP = [("user", "Where is it?"), ("assistant", ""), ("tool", "In the post.")]


def test_a_step_and_the_request_in_it_are_one_call_with_what_each_has_kept() -> None:
    for order in in_any_order([step(1, LOOP, "Soon.", 0), request_of_step(2, LOOP, 0.2)]):
        (call,) = calls(order)
        assert [s.kind for s in call.prompt] == ["system", "user", "tool_call", "tool_result"]
        assert (call.usage.input, call.usage.output) == (40, 3)
        assert call.completeness.lost == {"tools"}


def test_equal_requests_at_one_time_are_as_many_calls_as_there_are_requests() -> None:
    steps = [step(i, LOOP, "Soon.", i / 100, length=2) for i in (1, 2, 3)]
    requests = [request_of_step(10 + i, LOOP, 0.5 + i / 100) for i in (1, 2, 3)]

    assert len(calls([*steps, *requests])) == 3


def test_a_step_whose_request_is_not_there_stands_for_itself() -> None:
    other = request_of_step(2, [("user", "Another matter.")], 0.2)
    later = request_of_step(3, LOOP, 5)

    assert len(calls([step(1, LOOP, "Soon.", 0), other, later])) == 3


# ---- parent ids that were lost


def without_parents(spans: Iterable[Span]) -> list[list[Span]]:
    """The same spans with no parent ids, and with such as lead nowhere."""
    absent = [replace(s, parent_id="") for s in spans]
    nowhere = [replace(s, parent_id=f"{0xDEAD0000 + i:016x}") for i, s in enumerate(absent)]
    return [absent, nowhere]


def test_a_sum_without_parent_ids_is_not_counted_again() -> None:
    numbers = (
        (14_426, 771),
        (14_000, 771),
        (50_000, 2_000),
    )  # the sum, another, one of the agent's whole life
    for spans in (s for n in numbers for s in without_parents(f01(n, *f01_children()))):
        for order in in_any_order(spans):
            found = calls(order)
            assert [(c.usage.input, c.usage.output) for c in found] == [(6900, 300), (7526, 471)]
            assert all((1, "aggregate") in roles(c) for c in found)
            assert {c.agent for c in found} == {"shop"}


def test_a_call_with_the_exact_sum_of_those_in_it_is_none() -> None:
    inner = [span(2, at=1, tokens=(60, 4)), span(3, at=4, tokens=(90, 5))]
    for spans in without_parents([span(1, length=9, tokens=(150, 9)), *inner]):
        for order in in_any_order(spans):
            assert [c.usage.input for c in calls(order)] == [60, 90]
    for spans in without_parents([span(1, length=9, tokens=(151, 9)), *inner]):
        assert sorted(c.usage.input or 0 for c in calls(spans)) == [60, 90, 151]


def test_sums_of_wrappers_without_parent_ids_count_their_calls_once() -> None:
    answered = {"gen_ai.response.model": "gpt-4o-2024-08-06"}
    spans = [
        span(1, length=20, operation="invoke_agent", tokens=(150, 9)),
        span(2, at=1, length=18, operation="invoke_agent", tokens=(150, 9)),
        span(3, at=2, length=3, tokens=(60, 4)),
        span(4, at=2, length=3, tokens=(60, 4), **answered),
        span(5, at=6, length=3, tokens=(90, 5)),
        span(6, at=6, length=3, tokens=(90, 5), **answered),
        span(7, trace=2, at=7, tokens=(30, 3)),  # of another trace
    ]
    for lost in without_parents(spans):
        assert [c.usage.input for c in calls(lost)] == [60, 90, 30]


def test_a_call_that_repeats_the_first_or_the_last_of_those_in_it_is_none() -> None:
    inner = [span(2, at=1, tokens=(60, 4), scope=SDK), span(3, at=4, tokens=(90, 5), scope=SDK)]
    for numbers in ((60, 4), (90, 5)):
        for spans in without_parents([span(1, length=9, tokens=numbers), *inner]):
            assert [c.usage.input for c in calls(spans)] == [60, 90]


def test_two_of_one_kind_at_one_time_are_two_calls_without_parent_ids_too() -> None:
    for spans in without_parents(
        [
            span(2, length=2, messages=[said("user", "look it up")], tokens=(90, 7)),
            span(3, at=0.1, length=1.8, messages=[said("user", "look it up")], tokens=(90, 7)),
        ]
    ):
        for order in in_any_order(spans):
            assert len(calls(order)) == 2


def test_a_parent_that_is_there_is_believed_whatever_else_was_open() -> None:
    spans = [
        span(9, length=20, operation="invoke_agent", tokens=(150, 9)),
        span(
            1, parent=9, at=1, length=9, operation="invoke_agent", tokens=(60, 4)
        ),  # its calls have not come
        span(2, parent=9, at=2, tokens=(90, 5)),
    ]
    for order in in_any_order(spans):
        assert [c.usage.input for c in calls(order)] == [60, 90]


# ---- never one


def test_parallel_equal_sub_agents_of_one_scope_are_two_calls() -> None:
    spans = [
        span(1, length=9, operation="invoke_agent"),
        span(2, parent=1, at=1, length=2, messages=[said("user", "look it up")], tokens=(90, 7)),
        span(3, parent=1, at=1.1, length=1.8, messages=[said("user", "look it up")], tokens=(90, 7)),
    ]
    for order in in_any_order(spans):
        assert len(calls(order)) == 2


def test_equal_token_counts_one_after_the_other_are_two_calls() -> None:
    spans = [
        span(1, tokens=(90, 7), scope=GENAI),
        span(2, trace=2, at=1.5, tokens=(90, 7), scope=OTHER),
    ]
    assert len(calls(spans)) == 2


def test_response_ids_that_differ_are_two_calls_even_inside_each_other() -> None:
    spans = [
        span(1, length=5, scope=OTHER, tokens=(90, 7), **{"gen_ai.response.id": "r1"}),
        span(2, parent=1, at=1, scope=GENAI, tokens=(90, 7), **{"gen_ai.response.id": "r2"}),
    ]
    assert len(calls(spans)) == 2
    apart = [
        span(1, trace=1, length=5, scope=OTHER, tokens=(90, 7), **{"gen_ai.response.id": "r1"}),
        span(2, trace=2, at=1, scope=GENAI, tokens=(90, 7), **{"gen_ai.response.id": "r2"}),
    ]
    assert len(calls(apart)) == 2


def test_a_call_inside_another_with_other_numbers_is_a_call_of_its_own() -> None:
    spans = [
        span(1, length=9, messages=[said("user", "hi")], tokens=(90, 7)),
        span(2, parent=1, at=1, messages=[said("user", "judge this")], tokens=(30, 1)),
    ]
    assert sorted(c.usage.input or 0 for c in calls(spans)) == [30, 90]


# ---- sums


def test_a_wrapper_above_several_calls_is_a_sum() -> None:
    spans = [
        span(1, length=9, scope=OTHER, tokens=(150, 9)),
        span(2, parent=1, at=1, tokens=(60, 4)),
        span(3, parent=1, at=4, tokens=(90, 5)),
    ]
    for order in in_any_order(spans):
        found = calls(order)
        assert [c.usage.input for c in found] == [60, 90]
        assert all((1, "aggregate") in roles(c) for c in found)


def test_a_wrapper_of_a_wrapper_above_several_calls_is_a_sum_too() -> None:
    inner = [span(3, parent=2, at=2, tokens=(60, 4)), span(4, parent=2, at=5, tokens=(90, 5))]
    wrapper = span(2, parent=1, at=1, length=7, scope=GENAI, tokens=(150, 9))
    for numbers in ((150, 9), (149, 9), None):
        outer = span(1, length=9, scope=OTHER, tokens=numbers)
        for order in in_any_order([outer, wrapper, *inner]):
            found = calls(order)
            assert [c.usage.input for c in found] == [60, 90]
            assert all({(1, "aggregate"), (2, "aggregate")} < set(roles(c)) for c in found)


def f01(sum_: tuple[int, int], *children: Span) -> list[Span]:
    root = span(1, length=30, operation="invoke_agent", tokens=sum_, **{"gen_ai.agent.name": "shop"})
    return [root, *children]


def f01_children() -> list[Span]:
    return [
        span(2, parent=1, at=1, tokens=(6900, 300)),
        span(3, parent=1, at=5, operation="execute_tool"),
        span(4, parent=1, at=9, tokens=(7526, 471)),
    ]


def test_f01_a_parents_sum_is_not_counted_again() -> None:
    for order in in_any_order(f01((14_426, 771), *f01_children())):
        analysis = analysed(order)
        found = [r.call for r in analysis.readings]
        assert [(c.usage.input, c.usage.output) for c in found] == [(6900, 300), (7526, 471)]
        assert all((1, "aggregate") in roles(c) for c in found)
        assert {c.agent for c in found} == {"shop"}
        assert "usage_inconsistent" not in {f.kind for f in analysis.findings}


def test_f01_b_a_parent_without_children_is_used_and_says_so() -> None:
    analysis = analysed(f01((14_426, 771)))

    (reading,) = analysis.readings
    assert (reading.call.usage.input, reading.call.usage.output) == (14_426, 771)
    assert reading.call.completeness.status == "usage_only"
    assert "aggregate_only" in reading.call.completeness.reasons
    assert (reading.context.usage, reading.context.headroom, reading.context.band) == (None, None, "unknown")


def test_f01_c_a_parent_that_says_less_than_its_calls_is_told() -> None:
    for order in in_any_order(f01((14_000, 771), *f01_children())):
        analysis = analysed(order)
        assert [r.call.usage.input for r in analysis.readings] == [6900, 7526]
        (told,) = [f for f in analysis.findings if f.kind == "usage_inconsistent"]
        assert "14,000" in told.detail
        assert "14,426" in told.detail


def test_a_parent_that_repeats_its_last_calls_numbers_is_no_contradiction() -> None:
    analysis = analysed(f01((7526, 471), *f01_children()))
    assert "usage_inconsistent" not in {f.kind for f in analysis.findings}


def test_the_outermost_of_sums_without_calls_counts() -> None:
    spans = [
        span(1, length=9, operation="invoke_agent", tokens=(100, 9)),
        span(2, parent=1, at=1, operation="invoke_agent", tokens=(60, 5)),
        span(3, parent=1, at=3, operation="invoke_agent", tokens=(40, 4)),
    ]
    for order in in_any_order(spans):
        assert [c.usage.input for c in calls(order)] == [100]


def test_a_sub_agent_whose_calls_are_missing_counts_beside_the_calls_that_are_not() -> None:
    spans = [
        span(1, length=9, operation="invoke_agent", tokens=(160, 9)),
        span(2, parent=1, at=1, tokens=(100, 5)),
        span(3, parent=1, at=3, operation="invoke_agent", tokens=(60, 4)),
    ]
    for order in in_any_order(spans):
        found = calls(order)
        assert [c.usage.input for c in found] == [100, 60]
        assert ["aggregate_only" in c.completeness.reasons for c in found] == [False, True]


def test_the_nearest_agent_names_a_call_in_any_order() -> None:
    spans = [
        span(1, length=9, operation="invoke_agent", **{"gen_ai.agent.name": "planner"}),
        span(2, parent=1, at=1, length=7, operation="invoke_agent", **{"gen_ai.agent.name": "writer"}),
        span(3, parent=2, at=2, tokens=(100, 5)),
        span(4, parent=1, at=0.5, length=0.3, tokens=(100, 5)),
    ]
    for order in in_any_order(spans):
        planner, writer = calls(order)
        assert (planner.agent, writer.agent) == ("planner", "writer")
        assert roles(writer) == [(3, "primary"), (2, "aggregate"), (1, "aggregate")]


# ---- content in log records


def whole_request(at: float = 0.9, **more: Any) -> LogRecord:
    return details(
        1,
        at,
        **{
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [said("user", "hi")],
            "gen_ai.output.messages": [said("assistant", "hello")],
            **more,
        },
    )


@pytest.mark.parametrize("log_first", [True, False])
def test_a_log_record_with_the_content_is_no_call_of_its_own(log_first: bool) -> None:
    engine = Engine()
    steps: list[tuple[list[Span], list[LogRecord]]] = [
        ([span(1, tokens=(5, 2))], []),
        ([], [whole_request()]),
    ]
    for spans, logs in steps[::-1] if log_first else steps:
        engine.feed(spans, logs)
    analysis = engine.close()

    (reading,) = analysis.readings
    assert texts(analysis, reading) == ["hi"]
    assert [analysis.text(s.digest) for s in reading.call.answer] == ["hello"]
    assert "not_captured" not in reading.call.completeness.reasons
    assert analysis.orphans == 0


def test_one_record_a_message_makes_one_prompt_in_the_order_of_their_times() -> None:
    logs = [
        message(1, 0.1, "gen_ai.system.message", {"content": "be kind"}),
        message(1, 0.2, "gen_ai.user.message", {"content": "hi"}),
        message(1, 0.3, "gen_ai.assistant.message", {"content": "hello"}),
        message(1, 0.4, "gen_ai.user.message", {"content": "bye"}),
        message(1, 0.9, "gen_ai.choice", {"index": 0, "message": {"content": "see you"}}),
    ]
    for seed in range(5):
        shuffled = random.Random(seed).sample(logs, len(logs))
        analysis = analysed([span(1, tokens=(15, 2))], shuffled)
        (reading,) = analysis.readings
        assert texts(analysis, reading) == ["be kind", "hi", "hello", "bye"]
        assert [s.path for s in reading.call.prompt] == [f"messages[{i}].parts[0]" for i in range(4)]
        assert [analysis.text(s.digest) for s in reading.call.answer] == ["see you"]


def numbers_logged(at: float, output: int, read: int) -> LogRecord:
    """An event of a request under the span around it, its input without the cached tokens."""
    figures = {"input_tokens": "3", "output_tokens": str(output), "cache_read_tokens": str(read)}
    record = details(9, at, scope="com.anthropic.claude_code", **{"event.name": "api_request"})
    return replace(
        record, attributes=record.attributes | figures | {"event.sequence": "1", "session.id": "s1"}
    )


@pytest.mark.parametrize("skew", [0, 0.9, 3, -3, 3600])
def test_events_under_the_span_around_a_request_find_it_though_their_clock_is_another(skew: float) -> None:
    spans = [span(9, length=9, operation="invoke_agent")]
    logs = []
    for i, (output, read) in enumerate(((20, 0), (20, 900), (30, 950), (30, 950))):
        cached = {"gen_ai.usage.cache_read.input_tokens": read}
        spans.append(
            span(i + 1, parent=9, at=i + 0.1, length=0.8, scope=SDK, tokens=(read + 3, output), **cached)
        )
        logs.append(numbers_logged(i + 0.9 + skew, output, read))
    for records in (logs, logs[::-1]):
        found = calls(spans, records)
        assert [(c.usage.input, c.usage.output) for c in found] == [(3, 20), (903, 20), (953, 30), (953, 30)]
    found = calls(
        spans, [*logs, numbers_logged(20, 31, 950)]
    )  # of no request here: none is given its numbers
    assert [c.usage.output for c in found] == [20, 20, 30, 30]


def test_records_that_are_delivered_twice_count_once_even_at_one_time() -> None:
    logs = [
        message(1, 0.1, "gen_ai.user.message", {"content": text})
        for text in ("hi", "are you there?", "well?")
    ]
    analysis = analysed([span(1, tokens=(15, 2))], [*logs, *logs])
    (reading,) = analysis.readings
    assert texts(analysis, reading) == ["hi", "are you there?", "well?"]


def test_messages_that_come_again_in_a_history_of_one_time_all_count() -> None:
    logs = [
        message(1, 0.1, "gen_ai.user.message", {"content": "go on"}),
        message(1, 0.1, "gen_ai.assistant.message", {"tool_calls": [tool_call("c1")]}),
        message(1, 0.1, "gen_ai.tool.message", {"id": "c1", "content": "nothing found"}),
        message(1, 0.1, "gen_ai.assistant.message", {"tool_calls": [tool_call("c2")]}),
        message(1, 0.1, "gen_ai.tool.message", {"id": "c2", "content": "nothing found"}),
        message(1, 0.1, "gen_ai.user.message", {"content": "go on"}),
    ]
    for sent in (logs, logs * 2):
        analysis = analysed([span(1, tokens=(25, 2))], sent)
        (reading,) = analysis.readings
        kinds = [s.kind for s in reading.call.prompt]
        assert kinds == ["user", "tool_call", "tool_result", "tool_call", "tool_result", "user"]


def test_a_request_told_at_its_start_and_at_its_end_is_one_prompt() -> None:
    at_start = details(
        1, 0.0, **{"gen_ai.operation.name": "chat", "gen_ai.input.messages": [said("user", "hi")]}
    )
    analysis = analysed([span(1, tokens=(5, 2))], [at_start, whole_request()])
    (reading,) = analysis.readings
    assert texts(analysis, reading) == ["hi"]
    assert [analysis.text(s.digest) for s in reading.call.answer] == ["hello"]


def test_content_records_whose_span_never_comes_are_counted_and_are_no_call() -> None:
    analysis = analysed([], [message(7, 0.1, "gen_ai.user.message", {"content": "hi"})])

    assert analysis.readings == ()
    assert (analysis.orphans, analysis.unassigned_bytes) == (1, 2)


def test_a_record_that_tells_the_figures_too_stands_in_for_its_span() -> None:
    log = whole_request(**{"gen_ai.usage.input_tokens": 5, "gen_ai.response.id": "r1"})
    analysis = analysed([], [log])

    (reading,) = analysis.readings
    assert (reading.call.usage.input, reading.call.response_id) == (5, "r1")
    assert texts(analysis, reading) == ["hi"]
    assert analysis.orphans == 0


def test_records_without_ids_are_never_one_call() -> None:
    logs = [
        details(
            0,
            i,
            trace=0,
            **{
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": [said("user", f"question {i}")],
                "gen_ai.response.id": f"r{i}",
                "gen_ai.usage.input_tokens": 5,
            },
        )
        for i in range(2)
    ]
    analysis = analysed([], logs)
    assert [r.call.response_id for r in analysis.readings] == ["r0", "r1"]
    assert analysis.orphans == 0


def answered(at: float, tokens: int, session: str = "s1") -> LogRecord:
    """A record of an answer that names no span."""
    more = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": session}
    return details(
        0, at, trace=0, **{**more, "gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": 5}
    )


def in_session(id_: int, at: float, tokens: int | None, length: float = 1) -> Span:
    numbers = (tokens, 5) if tokens is not None else None
    return span(id_, at=at, length=length, tokens=numbers, **{"gen_ai.conversation.id": "s1"})


def test_a_record_without_ids_goes_to_the_call_of_its_conversation_that_was_open() -> None:
    spans = [in_session(1, 0, None), in_session(2, 2, None)]
    found = calls(spans, [answered(2.9, 70), answered(0.9, 60), answered(0.9, 50, session="s2")])

    assert [c.usage.input for c in found] == [60, 50, 70]
    assert [len(c.spans) for c in found] == [1, 1, 1]


def test_of_several_that_were_open_the_numbers_decide_or_nobody_is_given_it() -> None:
    spans = [in_session(1, 0, 60), in_session(2, 0, 70)]

    assert [c.usage.input for c in calls(spans, [answered(0.9, 70)])] == [60, 70]
    analysis = analysed([in_session(1, 0, None), in_session(2, 0, None)], [answered(0.9, 70)])
    assert [r.call.usage.input for r in analysis.readings] == [None, None]
    assert analysis.orphans == 1


def test_two_records_of_one_answer_are_one_call_and_a_later_one_is_another() -> None:
    assert [c.usage.input for c in calls((), [answered(1, 60), answered(1.01, 60), answered(2, 60)])] == [
        60,
        60,
    ]


def test_a_message_that_was_not_captured_leaves_the_prompt_partial() -> None:
    logs = [
        message(1, 0.1, "gen_ai.user.message", {"content": "hi"}),
        message(1, 0.2, "gen_ai.assistant.message", {"content": None}),
        message(1, 0.3, "gen_ai.user.message", {"content": "bye"}),
    ]
    (call,) = calls([span(1, tokens=(15, 2))], logs)
    assert call.completeness.status == "partial"
    assert "not_captured" in call.completeness.reasons
    assert "messages" in call.completeness.lost


def test_what_a_span_has_lost_stays_lost_when_a_record_brings_only_the_answer() -> None:
    cut = json.dumps([said("user", LONG), said("user", "and?")])[:-40]
    first = span(1, tokens=(300, 2), **{"gen_ai.input.messages": cut})
    answer = message(1, 0.9, "gen_ai.choice", {"index": 0, "message": {"content": "see you"}})

    (call,) = calls([first], [answer])

    assert "value_cut" in call.completeness.reasons
    assert "messages" in call.completeness.lost


def test_a_whole_prompt_in_a_record_is_taken_before_a_cut_one_on_the_span() -> None:
    prompt = [said("user", LONG), said("user", "and?")]
    first = span(1, tokens=(300, 2), **{"gen_ai.input.messages": json.dumps(prompt)[:-40]})
    analysis = analysed([first], [details(1, 0.9, **{"gen_ai.input.messages": prompt})])

    (reading,) = analysis.readings
    assert texts(analysis, reading) == [LONG, "and?"]


def test_a_cut_prompt_in_a_record_is_lost_though_the_tools_are_whole() -> None:
    cut = json.dumps([said("user", LONG), said("user", "and?")])[:-40]
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    (call,) = calls(
        [span(1, tokens=(330, 2))],
        [details(1, 0.9, **{"gen_ai.input.messages": cut, "gen_ai.tool.definitions": tools})],
    )
    assert "value_cut" in call.completeness.reasons
    assert "messages" in call.completeness.lost


def test_a_system_prompt_on_the_span_and_in_the_messages_is_one() -> None:
    system = json.dumps([{"type": "text", "content": "be kind"}])
    analysis = analysed(
        [
            span(
                1,
                messages=[said("system", "be kind"), said("user", "hi")],
                tokens=(8, 2),
                **{"gen_ai.system_instructions": system},
            )
        ]
    )
    (reading,) = analysis.readings
    assert texts(analysis, reading) == ["be kind", "hi"]


def test_a_system_prompt_on_the_span_and_in_a_record_is_one() -> None:
    system = json.dumps([{"type": "text", "content": "be kind"}])
    analysis = analysed(
        [span(1, tokens=(8, 2), **{"gen_ai.system_instructions": system})],
        [
            message(1, 0.1, "gen_ai.system.message", {"content": "be kind"}),
            message(1, 0.2, "gen_ai.user.message", {"content": "hi"}),
        ],
    )
    (reading,) = analysis.readings
    assert texts(analysis, reading) == ["be kind", "hi"]


def test_a_loop_that_ends_with_its_last_answers_id_is_a_sum() -> None:
    spans = [
        span(1, length=9, scope=OTHER, tokens=(150, 9), **{"gen_ai.response.id": "r2"}),
        span(2, parent=1, at=1, tokens=(60, 4), **{"gen_ai.response.id": "r1"}),
        span(3, parent=1, at=4, tokens=(90, 5), **{"gen_ai.response.id": "r2"}),
    ]
    for order in in_any_order(spans):
        assert [(c.usage.input, c.usage.output) for c in calls(order)] == [(60, 4), (90, 5)]


# ---- completeness


def segment(kind: Kind, tokens: int | None, method: Method = "exact", size: int | None = None) -> Segment:
    """One of its own kind, role and text."""
    text = f"{kind} {next(_NUMBERS)}"
    length = (tokens or 0) * 4 if size is None else size
    return Segment(kind, kind, "", "messages[0].parts[0]", length, tokens, method, text)


_NUMBERS = itertools.count()


def complete(
    messages: Sequence[Segment],
    reported: int | None,
    *,
    tools: Sequence[Segment] = (),
    system: Sequence[Segment] = (),
    reasons: Iterable[Reason] = (),
    lost: Iterable[str] = (),
    **more: Any,
) -> tuple[str, tuple[str, ...], set[str]]:
    """Status, reasons and what is lost of one call with these segments and reported input tokens."""
    telling = Telling(
        "genai",
        "call",
        "t",
        "s",
        request_model="gpt-4o",
        usage=UsageClaim(input=reported, output=1) if reported is not None else None,
        reasons=frozenset(reasons),
        lost=frozenset(lost),
        **more,
    )
    chain = grown(EMPTY_CHAIN, messages, len(messages))
    told = Told(telling, Section(tools), Section(system), chain, (), telling.reasons)
    (call,) = fold([told], {}, load(), lambda base, chains: base).calls
    c = call.completeness
    return c.status, c.reasons, set(c.lost)


def test_a_prompt_whose_tokens_add_up_is_full() -> None:
    assert complete([segment("user", 90)], 97) == ("full", (), set())
    assert complete([segment("user", 90, "estimated")], 70) == ("full", (), set())
    assert complete([segment("user", 90)], None) == ("full", (), set())


@pytest.mark.parametrize(
    "reason",
    [
        "attributes_dropped",
        "value_cut",
        "message_cut",
        "redacted",
        "logs_missing",
        "reference_missing",
        "unparsable",
    ],
)
def test_what_a_reader_says_of_damage_makes_a_prompt_partial(reason: Reason) -> None:
    status, reasons, lost = complete([segment("user", 90)], 97, reasons=[reason], lost=["messages"])
    assert (status, reasons, lost) == ("partial", (reason,), {"messages"})


def test_media_without_data_leave_a_prompt_full() -> None:
    status, reasons, _ = complete([segment("user", 9), segment("image", None, "unmeasured", 0)], 800)
    assert (status, reasons) == ("full", ("media_placeholder",))


def test_a_prompt_of_nothing_but_media_was_not_seen() -> None:
    status, reasons, lost = complete([segment("image", None, "unmeasured", 0)], 800)
    assert (status, reasons, lost) == ("usage_only", ("media_placeholder",), {"messages", "system", "tools"})


def test_without_content_there_are_numbers_or_nothing() -> None:
    assert complete([], 97) == ("usage_only", ("not_captured",), {"messages", "system", "tools"})
    assert complete([], None) == ("none", ("not_captured",), {"messages", "system", "tools"})
    assert complete([], 97, reasons=["redacted"]) == (
        "usage_only",
        ("redacted",),
        {"messages", "system", "tools"},
    )


def test_unknown_tools_leave_a_prompt_partial_unless_the_numbers_leave_no_room_for_them() -> None:
    known = {"reasons": ["schema_missing"], "lost": ["tools"]}
    long = [segment("user", 50_000)]
    assert complete([segment("user", 90)], 97, **known) == ("full", (), set())
    assert complete(long, 50_007, **known) == ("full", (), set())
    for room in (40, 400, 2400):  # one small tool; five per cent
        status, reasons, lost = complete(long, 50_000 + room, **known)
        assert (status, reasons, lost) == ("partial", ("schema_missing",), {"tools"}), room
    # an estimate leaves no such proof, and tools were called
    guess = [segment("user", 90, "estimated")]
    assert complete(guess, 97, **known) == ("partial", ("schema_missing",), {"tools"})
    assert complete(guess, None, **known) == ("partial", ("schema_missing",), {"tools"})
    called = [segment("user", 60), segment("tool_call", 20), segment("tool_result", 10)]
    assert complete(called, 97, **known) == ("partial", ("schema_missing",), {"tools"})


def test_many_small_messages_need_their_framing() -> None:
    messages = [segment("user" if i % 2 else "assistant", 5) for i in range(100)]
    assert complete(messages, 500 + 8 * 100 + 400) == ("full", (), set())
    assert complete(messages, 500 + 8 * 100 + 401)[0] == "partial"


def test_tokens_that_no_text_accounts_for_are_text_that_was_not_seen() -> None:
    lone, talk = [segment("user", 1000)], [segment("user", 900), segment("assistant", 100)]
    assert complete(lone, 1400) == ("full", (), set())
    assert complete(lone, 3000) == ("partial", ("server_side",), {"head"})
    assert complete(talk, 3000) == ("partial", ("not_captured",), {"head"})
    # counts that are estimates must be further off
    guess = [segment("user", 3000, "estimated")]
    assert complete(guess, 4900) == ("full", (), set())
    assert complete(guess, 5100) == ("partial", ("server_side",), {"head"})
    assert complete([segment("user", 3000)], 4900)[0] == "partial"
    # an image takes tokens that nobody counted here
    assert complete([*lone, segment("image", None, "unmeasured", 9)], 9000)[0] == "full"


def test_a_history_on_the_server_is_said_to_be_there() -> None:
    status, reasons, lost = complete([segment("user", 9)], 900, previous_response_id="r1")
    assert (status, reasons, lost) == ("partial", ("server_side",), {"head"})
    status, reasons, lost = complete([segment("tool_result", 9)], 14)
    assert (status, reasons, lost) == ("partial", ("server_side",), {"head"})


def test_a_guess_hides_no_history_on_a_server() -> None:
    status, reasons, lost = complete([segment("tool_result", 9)], 14, reasons=["guessed"])
    assert (status, reasons, lost) == ("partial", ("server_side", "guessed"), {"head"})
    status, reasons, lost = complete([segment("user", 1000)], 3000, reasons=["guessed"])
    assert (status, reasons, lost) == ("partial", ("server_side", "guessed"), {"head"})
    assert complete([segment("user", 1000)], 1400, reasons=["guessed"]) == ("full", ("guessed",), set())


def test_tools_without_schemas_are_partial_though_their_names_are_there() -> None:
    tools = json.dumps([{"type": "function", "name": "f", "description": "does f", "parameters": None}])
    (call,) = calls(
        [span(1, messages=[said("user", "hi")], tokens=(9, 1), **{"gen_ai.tool.definitions": tools})]
    )
    assert (call.completeness.status, call.completeness.reasons) == ("partial", ("schema_missing",))
    assert call.completeness.lost == {"tools"}


def test_dropped_attributes_are_told_with_what_they_took() -> None:
    (call,) = calls([span(1, messages=[said("user", "hi")], tokens=(200, 1), dropped=3)])
    assert (call.completeness.status, call.completeness.reasons) == ("partial", ("attributes_dropped",))
    assert call.completeness.lost == {"tools", "system"}


def test_a_placeholder_in_an_earlier_turn_is_told_in_any_order() -> None:
    image = {"role": "user", "parts": [{"type": "image", "source": {"type": "base64"}}]}
    history = [said("user", "look"), image, said("assistant", "nice"), said("user", "and?")]
    spans = [span(1, messages=history[:2], tokens=(9, 1)), span(2, at=5, messages=history, tokens=(19, 1))]
    for order in in_any_order(spans):
        assert ["media_placeholder" in c.completeness.reasons for c in calls(order)] == [True, True]


def test_zeros_beside_a_prompt_are_no_report() -> None:
    analysis = analysed([span(1, messages=[said("user", LONG)], tokens=(0, 0))])
    (reading,) = analysis.readings
    assert reading.call.usage.input is None
    assert reading.context.usage == reading.tokens.counted > 100
    assert reading.tokens.unaccounted is None
    assert [f.kind for f in analysis.findings if f.kind == "usage_missing"] == ["usage_missing"]


# ---- a message that is missing


def _call(id_: str) -> dict[str, Any]:
    part = {"type": "tool_call", "id": id_, "name": "look", "arguments": {"of": id_}}
    return {"role": "assistant", "parts": [part]}


def _result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, "response": f"found {id_}"}]}


_Q = said("user", "Q")
HISTORIES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "one after the other": ([_Q, _call("a"), _result("a"), _call("b"), _result("b")], False),
    "both at once, the second is first": ([_Q, _call("a"), _call("b"), _result("b"), _result("a")], False),
    "the newest is not answered yet": ([_Q, _call("a"), _result("a"), _call("b")], False),
    "results are never written": ([_Q, _call("a"), _Q, _call("b"), _Q], False),
    "an id comes again": ([_Q, _call("a"), _result("a"), _Q, _call("a"), _result("a")], False),
    "a result is late": ([_Q, _call("a"), _Q, _result("a"), _call("b"), _result("b")], False),
    "one result is missing": ([_Q, _call("a"), _Q, _call("b"), _result("b")], True),
    "one of two at once": (
        [_Q, _call("a"), _call("b"), _result("b"), _Q, _call("c"), _result("c"), _Q], True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_a_tool_call_that_alone_has_no_result_shows_a_hole(name: str) -> None:
    messages, hole = HISTORIES[name]
    tools = {"gen_ai.tool.definitions": '[{"name":"look","parameters":{}}]'}
    (call,) = calls([span(1, messages=messages, **tools)])

    assert ("messages" in call.completeness.lost) is hole
    assert ("not_captured" in call.completeness.reasons) is hole


# ---- what two libraries tell


@pytest.mark.parametrize(("scope", "changed"), [(OTHER, False), (GENAI, True)])
def test_tools_are_compared_as_one_library_tells_them(scope: str, changed: bool) -> None:
    """Each writes them in its own way: what differs then is no change, and is said to be not compared."""

    def call(id_: int, scope: str, tool: dict[str, Any]) -> Span:
        history = [said("user", LONG), said("assistant", "Yes."), said("user", "And then?")][: 2 * id_ - 1]
        tools = json.dumps([{"type": "function", "name": "look", **tool}])
        return span(
            id_,
            at=id_ * 2,
            scope=scope,
            messages=history,
            tokens=(300, 3),
            **{"gen_ai.tool.definitions": tools},
        )

    wide = {"description": "Looks it up", "parameters": {"type": "object", "properties": {}}}
    spans = [call(1, GENAI, wide), call(2, scope, wide | {"parameters": {"type": "object"}})]
    analysis = analysed(spans)
    assert len(analysis.readings) == 2
    assert ("tools_changed" in {f.kind for f in analysis.findings}) is changed
    assert [n.check for n in analysis.not_checked if "two libraries" in n.why] == [
        "tools_changed" for _ in range(not changed)
    ]
    assert (analysis.readings[1].break_ is not None) is changed
    assert analysis.readings[1].shared == (0 if changed else 2)
