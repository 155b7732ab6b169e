"""Claude Code's raw bodies: whole requests and answers in log records, as text that may be cut or in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from otel_ctx.dialects import claude_code_bodies, read_log
from otel_ctx.engine import Engine, Settings
from otel_ctx.model import Analysis, LogRecord, Span

MILLI = 1_000_000
BASE = 1_796_009_981_000 * MILLI
SESSION = "c361a442-6361-4ae5-8726-d43936a2d56d"
TRACE = "9910e761ad16c3ddc8fd0aa80df25bc4"
INTERACTION = "bd7c13c6c44d09af"
MARKED = {"type": "ephemeral"}
MARK = "\n\n[TRUNCATED - Content exceeds 60KB limit]"

Json = dict[str, Any]


def request(messages: Sequence[Json]) -> Json:
    """A body with its keys in the order that Claude Code writes."""
    return {
        "model": "claude-sonnet-4-5-20250929",
        "messages": list(messages),
        "system": [{"type": "text", "text": "You are a clerk.", "cache_control": MARKED}],
        "tools": [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}],
        "max_tokens": 32_000,
    }


def answer(n: int, content: Sequence[Json], read: int, written: int) -> Json:
    usage = {"input_tokens": 3, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {
        "id": f"msg_{n}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
        "content": list(content),
        "usage": {**usage, "output_tokens": 20, "cache_creation": {"ephemeral_1h_input_tokens": written}},
    }  # fmt: skip


def thinking(signature: str) -> Json:
    return {"type": "thinking", "thinking": "<REDACTED>", "signature": signature}


ASKED = {"role": "user", "content": [{"type": "text", "text": "What do the notes say?"}]}
CALLED = [
    thinking("c2lnbmVk"),
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "notes.txt"}},
]
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Nothing.", "cache_control": MARKED}],
}
REQUESTS = [request([ASKED]), request([ASKED, {"role": "assistant", "content": CALLED}, RESULT])]
ANSWERS = [answer(1, CALLED, 0, 100), answer(2, [{"type": "text", "text": "Nothing."}], 100, 40)]


def record(kind: str, n: int, at: int, *, traced: bool = True, **attributes: Any) -> LogRecord:
    """``at``: milliseconds after the beginning. What it logs of call ``n`` hangs on the span around the call."""
    return LogRecord(
        trace_id=TRACE if traced else "",
        span_id=INTERACTION if traced else "",
        name=kind,
        time_unix_nano=BASE + at * MILLI,
        body=f"claude_code.{kind}",
        attributes={
            "event.name": kind,
            "session.id": SESSION,
            "request_body_id": f"body-{n}",
            "model": "claude-sonnet-4-5-20250929",
            **({"message.id": f"msg_{n}"} if kind == "api_response_body" else {}),
            **attributes,
        },
        scope_name="com.anthropic.claude_code.events",
        scope_version="2.1.332",
    )


def records(*, traced: bool = True, files: bool = False) -> list[LogRecord]:
    out = []
    for n, (asked, answered) in enumerate(zip(REQUESTS, ANSWERS, strict=True), 1):
        for kind, body, at in (("request", asked, 10), ("response", answered, 90)):
            held = {"body_ref": f"/tmp/bodies/{n}.{kind}.json"} if files else {"body": json.dumps(body)}
            out.append(record(f"api_{kind}_body", n, 1000 * n + at, traced=traced, **held))
    return out


FILES = {
    f"/tmp/bodies/{n}.{kind}.json": body
    for n, both in enumerate(zip(REQUESTS, ANSWERS, strict=True), 1)
    for kind, body in zip(("request", "response"), both, strict=True)
}


def span(n: int, name: str, start: int, end: int, attributes: Mapping[str, Any], parent: str = "") -> Span:
    return Span(
        trace_id=TRACE,
        span_id=INTERACTION if name == "claude_code.interaction" else f"{n:016x}",
        parent_id=parent,
        name=name,
        start_unix_nano=BASE + start * MILLI,
        end_unix_nano=BASE + end * MILLI,
        attributes={"gen_ai.provider.name": "anthropic", "gen_ai.conversation.id": SESSION, **attributes},
        scope_name="com.anthropic.claude_code.tracing",
        scope_version="1.0.0",
    )


def spans(more: int = 0) -> list[Span]:
    """The interaction and its two requests; ``more``: others that were open all the while."""
    calls = [
        span(
            n,
            "claude_code.llm_request",
            1000 * n,
            1000 * n + 100,
            _figures(100 * (n - 1), written),
            INTERACTION,
        )
        for n, written in ((1, 100), (2, 40))
    ]
    others = [
        span(n, "claude_code.llm_request", 0, 9000, _figures(7, 7), INTERACTION) for n in range(3, 3 + more)
    ]
    whole = span(0, "claude_code.interaction", 0, 9000, {"gen_ai.operation.name": "invoke_agent"})
    return [*calls, *others, whole]


def _figures(read: int, written: int) -> Json:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "claude-sonnet-4-5-20250929",
        "gen_ai.usage.input_tokens": 3 + read + written,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": written,
    }


def analysed(
    told: Sequence[Span], logs: Sequence[LogRecord], files: Mapping[str, Any] | None = None
) -> Analysis:
    engine = Engine(Settings(contents=files.get if files is not None else None))
    engine.feed(told, logs)
    return engine.close()


def shown(analysis: Analysis) -> list[list[str]]:
    return [[s.kind for s in r.call.prompt] for r in analysis.readings]


WHOLE = [["tools", "system", "user"], ["tools", "system", "user", "thinking", "tool_call", "tool_result"]]


@pytest.mark.parametrize("files", [False, True])
def test_bodies_belong_to_the_request_that_was_open_at_their_time(files: bool) -> None:
    analysis = analysed(spans(), records(files=files), FILES)

    assert shown(analysis) == WHOLE
    assert [r.call.completeness.status for r in analysis.readings] == ["full", "full"]
    assert [r.call.usage.input for r in analysis.readings] == [103, 143]
    assert [[s.role for s in r.call.spans] for r in analysis.readings] == [["primary", "aggregate"]] * 2
    assert [r.relation for r in analysis.readings] == ["new", "continues"]
    assert [s.kind for s in analysis.readings[0].call.answer] == ["thinking", "tool_call"]
    assert analysis.readings[1].break_ is None
    assert [s.cache_marker for s in analysis.readings[1].call.prompt][-1] == "default"
    assert not analysis.orphans


@pytest.mark.parametrize("files", [False, True])
def test_without_tracing_request_and_answer_are_a_call(files: bool) -> None:
    analysis = analysed([], records(traced=False, files=files), FILES)

    assert shown(analysis) == WHOLE
    first = analysis.readings[0].call
    assert (first.usage.input, first.usage.cache_write, first.usage.cache_write_1h) == (103, 100, 100)
    assert (first.model, first.response_id, first.conversation_hint) == (
        "claude-sonnet-4-5-20250929",
        "msg_1",
        SESSION,
    )
    assert first.end_unix_nano - first.start_unix_nano == 80 * MILLI
    assert first.reserve == 32_000


def test_where_two_requests_were_open_nobody_is_given_the_body() -> None:
    analysis = analysed(spans(more=1), records())

    assert {r.call.completeness.status for r in analysis.readings} == {"usage_only"}


def test_bodies_that_are_not_there_are_told_as_missing() -> None:
    analysis = analysed(spans(), records(files=True), {})

    assert {r.call.completeness.reasons for r in analysis.readings} == {("reference_missing",)}
    assert [r.call.usage.input for r in analysis.readings] == [103, 143]


@pytest.mark.parametrize(
    ("until", "seen", "lost"),
    [
        ('"input_schema": {"type"', ["tools", "system", "user"], {"tools"}),
        ("You are", ["system", "user"], {"tools", "system"}),
        ("What do the", ["user"], {"tools", "system", "messages"}),
    ],
)
def test_of_a_body_that_was_cut_what_came_before_is_whole(
    until: str, seen: list[str], lost: set[str]
) -> None:
    body = json.dumps(REQUESTS[0])
    cut = body[: body.index(until) + len(until)] + MARK
    analysis = analysed(spans()[:1], [record("api_request_body", 1, 1010, body=cut, body_truncated="true")])

    (call,) = (r.call for r in analysis.readings)
    assert [s.kind for s in call.prompt] == seen
    assert call.completeness.status == "partial"
    assert call.completeness.reasons == ("value_cut",)
    assert call.completeness.lost == lost
    assert not any("TRUNCATED" in (analysis.text(s.digest) or "") for s in call.prompt)


def test_a_body_that_is_no_json_is_unparsable() -> None:
    told = claude_code_bodies.read_log(record("api_request_body", 1, 0, body="oops"))

    assert told is not None
    assert told.reasons == {"unparsable"}
    assert told.lost == {"tools", "system", "messages"}


def test_other_records_and_other_scopes_are_left_alone() -> None:
    stranger = record("api_request_body", 1, 0, body=json.dumps(REQUESTS[0]))
    stranger = LogRecord(**{**{k: getattr(stranger, k) for k in LogRecord.__slots__}, "scope_name": "shop"})

    assert read_log(record("api_request", 1, 0, input_tokens=3)) is None
    assert claude_code_bodies.read_log(stranger) is None


def test_hidden_thinking_is_told_apart_by_its_signature() -> None:
    other = [{**CALLED[0], "signature": "b3RoZXI="}, CALLED[1]]
    first = [ASKED, {"role": "assistant", "content": CALLED}, RESULT]
    more = [{"role": "assistant", "content": "Nothing."}, ASKED]

    def continued(messages: Sequence[Json]) -> Analysis:
        third = {
            "request": request([*messages, *more]),
            "response": answer(3, [{"type": "text", "text": "Yes."}], 0, 9),
        }
        logs = [
            record(f"api_{kind}_body", 3, 3010, traced=False, body=json.dumps(body))
            for kind, body in third.items()
        ]
        return analysed([], [*records(traced=False)[2:], *logs])

    assert continued(first).readings[1].break_ is None
    at = continued([ASKED, {"role": "assistant", "content": other}, RESULT]).readings[1].break_
    assert at is not None
    assert (at.kind, at.path) == ("thinking", "messages[1].parts[0]")
