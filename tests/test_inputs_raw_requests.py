"""Logs of requests: bodies, envelopes, answers and times in every form; what is damaged is named and passed over."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx import Analysis, Engine, InputError, read
from otel_ctx.calls import groups
from otel_ctx.dialects import exchange
from otel_ctx.inputs import raw_bodies, raw_requests
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, Skipped
from otel_ctx.inputs.references import Answered
from otel_ctx.model import Call, Span
from otel_ctx_cli.main import main
from tests.alike import analysed, prompt

CORPUS = Path(__file__).parent / "corpus"
SECOND = 10**9
HI = {"role": "user", "content": "Hi!"}
CHAT = {"model": "gpt-4o", "messages": [{"role": "system", "content": "Be kind."}, HI]}
ANTHROPIC = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 64,
    "system": "Be kind.",
    "messages": [HI],
    "tools": [{"name": "look", "description": "Looks", "input_schema": {"type": "object"}}],
}
RESPONSES = {"model": "gpt-4.1", "instructions": "Be kind.", "input": [HI]}
GEMINI = {
    "systemInstruction": {"parts": [{"text": "Be kind."}]},
    "contents": [{"role": "user", "parts": [{"text": "Hi!"}]}],
}
CONVERSE = {
    "system": [{"text": "Be kind."}],
    "messages": [{"role": "user", "content": [{"text": "Hi!"}]}],
    "inferenceConfig": {"maxTokens": 64},
}
ANSWER = {
    "id": "chatcmpl-1",
    "model": "gpt-4o-2024-08-06",
    "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}},
}


@pytest.fixture
def analyse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Files by name and content -> the analysis and what was skipped."""
    monkeypatch.chdir(tmp_path)

    def analyse_(**files: bytes) -> tuple[Analysis, list[Skipped]]:
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
        return analysed(files)

    return analyse_


def lines(*records: object) -> bytes:
    return b"\n".join(orjson.dumps(record) for record in records)


def calls(analysis: Analysis) -> list[Call]:
    return [r.call for r in analysis.readings]


def texts(analysis: Analysis, call: Call) -> list[tuple[str, str | None]]:
    return [(s.kind, analysis.text(s.digest)) for s in call.prompt]


# ---- the same as spans


def _told(path: Path) -> tuple[list[tuple[Any, ...]], set[tuple[str, str]]]:
    """What is said of each call, in order; (completeness, provider) of all."""
    analysis, skipped = analysed([path])
    assert not skipped
    number = {r.call.id: n for n, r in enumerate(analysis.readings)}
    told = []
    for r in analysis.readings:
        at = (r.break_.kind, r.break_.change, r.break_.char_offset) if r.break_ else None
        place = number[r.conversation], r.turn, r.relation, r.previous and number[r.previous]
        told.append((prompt(analysis, r.call), place, at, r.call.usage.input))
    return told, {(r.call.completeness.status, r.call.provider) for r in analysis.readings}


@pytest.mark.parametrize(
    ("case", "provider"),
    [
        ("oi-anthropic", "anthropic"),
        ("oi-anthropic-bust", "anthropic"),
        ("oi-anthropic-js", "anthropic"),
        ("oi-anthropic-sessions", "anthropic"),
        ("oi-anthropic-image", "anthropic"),
        ("oi-langgraph-anthropic-thinking", "anthropic"),
        ("otel-genai-anthropic-spanonly-nonative-bust", "anthropic"),
        ("vercel-ai5-anthropic-stream", "anthropic"),
        ("oi-bedrock-converse-cache", "bedrock"),
        ("oi-google-adk-double", "google"),
        ("oi-google-genai-bust", "google"),
        ("oi-openai-chat-bust", "openai"),
        ("oi-openai-agents-stream", "openai"),
        ("otel-genai-openai-chat-spanonly", "openai"),
        ("otel-genai-openai-chat-spanonly-bust", "openai"),
        ("otel-genai-openai-chat-spanonly-sdkretry", "openai"),
        ("otel-genai-openai-responses-spanandevent", "openai"),
        ("traceloop-sdk-js-vercel", "openai"),
        ("vercel-ai6-responses", "openai"),  # names what it was answered
    ],
)
def test_a_log_of_requests_says_what_the_spans_of_the_session_say(case: str, provider: str) -> None:
    wanted, seen = _told(CORPUS / case / "traces.jsonl.gz")
    assert {status for status, _ in seen} == {"full"}
    assert len(wanted) > 1
    assert _told(CORPUS / case / "requests.jsonl.gz") == (wanted, {("full", provider)})


@pytest.mark.parametrize(
    "case",
    [
        "oi-anthropic",
        "otel-genai-openai-chat-spanonly",
        # spans without response ids: the same prompt at the same time tells
        "traceloop-openai-js-responses-stream",
        "oi-bedrock-converse-cache",
    ],
)
def test_a_log_beside_the_spans_of_the_same_requests_counts_nothing_twice(case: str) -> None:
    analysis, _ = analysed([CORPUS / case / "traces.jsonl.gz", CORPUS / case / "requests.jsonl.gz"])
    assert len(analysis.readings) == 8
    assert all(len([s for s in c.spans if s.role != "aggregate"]) == 2 for c in calls(analysis))
    assert "double_instrumentation" not in {f.kind for f in analysis.findings}


@pytest.mark.parametrize("skew", [0, SECOND, -SECOND])
def test_a_log_beside_spans_without_prompts_counts_nothing_twice(skew: int) -> None:
    """Numbers tell which span is whose, whatever the two clocks say; those that no span tells of are more."""
    case = CORPUS / "oi-anthropic"
    engine = Engine()
    numbers = ("llm.token_count.", "llm.model_name", "llm.provider", "openinference.span.kind")
    for records in read([case / "traces.jsonl.gz"]):
        for span in records.spans:
            told = {k: v for k, v in span.attributes.items() if k.startswith(numbers)}
            start, end = span.start_unix_nano + skew, span.end_unix_nano + skew
            engine.feed([replace(span, attributes=told, start_unix_nano=start, end_unix_nano=end)])
    for records in read([case / "requests.jsonl.gz"]):
        engine.feed(records.spans)
        for span in records.spans:
            start, end = span.start_unix_nano + 60 * SECOND, span.end_unix_nano + 60 * SECOND
            engine.feed([replace(span, trace_id="another log", start_unix_nano=start, end_unix_nano=end)])
    told = calls(engine.close())
    assert [len(c.spans) for c in told] == [2] * 8 + [1] * 8
    assert all(c.completeness.status == "full" for c in told)


def test_an_attempt_that_failed_is_no_part_of_the_span_of_the_retry(tmp_path: Path) -> None:
    case = CORPUS / "oi-anthropic"
    with gzip.open(case / "requests.jsonl.gz") as log:
        (first, *_) = (orjson.loads(line) for line in log)
    failed = {
        **first,
        "response": {"type": "error", "error": {"type": "overloaded_error", "message": ""}},
        "usage": None,
    }
    (tmp_path / "log").write_bytes(lines(failed))
    told = calls(analysed([case / "traces.jsonl.gz", tmp_path / "log"])[0])
    assert sorted(c.status for c in told) == ["error", *["ok"] * 8]


def test_bare_bodies_beside_the_spans_of_the_same_requests_count_nothing_twice(tmp_path: Path) -> None:
    case = CORPUS / "oi-anthropic"
    with gzip.open(case / "requests.jsonl.gz") as log:
        for n, line in enumerate(log):
            (tmp_path / f"{n}.request.json").write_bytes(orjson.dumps(orjson.loads(line)["body"]))
    told = calls(analysed([case / "traces.jsonl.gz", tmp_path])[0])
    assert len(told) == 8
    assert all(c.usage.input and len(c.spans) == 2 for c in told)


# ---- one request in two places


def asked(*words: str) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": word} for word in words]}


def record(second: float | None, *words: str, id_: str | None = None, tokens: int = 500) -> dict[str, Any]:
    """A line of a log; ``second``: since some hour, a whole one is written as such."""
    at = {} if second is None else {"timestamp": f"2026-11-30T10:00:{second:02}Z"}
    answer = {**ANSWER, "usage": {"prompt_tokens": tokens, "completion_tokens": 20}, "id": id_}
    return {**at, "request": asked(*words), "response": answer}


def traced(n: int, second: float, *words: str, id_: str | None = None, tokens: int = 500) -> Span:
    messages = [{"role": "user", "parts": [{"type": "text", "content": word}]} for word in words]
    start = nanoseconds("2026-11-30T10:00:00Z") + round(second * SECOND)
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": tokens,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.response.id": id_,
    }
    attributes = {k: v for k, v in told.items() if v is not None}
    return Span("7" * 32, f"{n:016x}", "", "chat", start, start + 2 * SECOND, attributes)


def together(spans: list[Span], *logs: list[dict[str, Any]], tmp_path: Path) -> list[Call]:
    engine = Engine()
    engine.feed(spans)
    for n, log in enumerate(logs):
        path = tmp_path / f"{n}.jsonl"
        path.write_bytes(lines(*log))
        for batch in read([path]):
            engine.feed(batch.spans)
    return calls(engine.close())


def test_a_log_in_whole_seconds_beside_spans_with_prompts_counts_nothing_twice(tmp_path: Path) -> None:
    spans = [traced(n, 10 * n + 0.35, "Hi", str(n), tokens=500 + n) for n in range(3)]
    log = [record(10 * n, "Hi", str(n), tokens=500 + n) for n in range(3)]
    told = together(spans, log, tmp_path=tmp_path)
    assert [(c.usage.input, len(c.spans)) for c in told] == [(500, 2), (501, 2), (502, 2)]


def test_of_equal_requests_at_once_each_has_a_span_and_a_line(tmp_path: Path) -> None:
    spans = [traced(n, 0.2 * n, "Hi") for n in range(3)]
    told = together(spans, [record(0, "Hi")] * 4, tmp_path=tmp_path)
    assert sorted(len(c.spans) for c in told) == [1, 2, 2, 2]


def test_the_same_prompt_in_other_numbers_or_by_another_model_is_another_call(tmp_path: Path) -> None:
    other = record(1, "Hi")
    other["request"]["model"] = other["response"]["model"] = "gpt-4.1"
    told = together([traced(1, 0.35, "Hi")], [record(0, "Hi", tokens=600), other], tmp_path=tmp_path)
    assert [len(c.spans) for c in told] == [1, 1, 1]


@pytest.mark.parametrize("later", [10, 50])
def test_one_id_prompt_and_numbers_are_one_call_whatever_the_clock_of_a_log(
    later: int, tmp_path: Path
) -> None:
    """A line that was written late, or in local time: the call has the times of its span."""
    log = [record(later, "Hi", id_="chatcmpl-a"), record(later, "You", id_="chatcmpl-b")]
    spans = [traced(1, 0, "Hi", id_="chatcmpl-a"), traced(2, 3, "You", id_="chatcmpl-b")]
    told = together(spans, log, tmp_path=tmp_path)
    assert [len(c.spans) for c in told] == [2, 2]
    assert [c.end_unix_nano - c.start_unix_nano for c in told] == [2 * SECOND] * 2
    assert len(together([], log, [record(1, "Hi", id_="chatcmpl-a")], tmp_path=tmp_path)) == 2


def test_an_id_that_comes_back_with_other_prompts_or_numbers_proves_nothing(tmp_path: Path) -> None:
    """A stub that calls all its answers alike."""
    log = [record(n, word, id_="x") for n, word in ((0, "Hi"), (1, "You"), (30, "Hi"))]
    assert len(together([], log, tmp_path=tmp_path)) == 3
    later = [record(50, "Hi", id_="x", tokens=600)]
    assert len(together([], log[:1], later, tmp_path=tmp_path)) == 2
    assert len(together([], [log[0], log[2]], [record(55, "Hi", id_="x")], tmp_path=tmp_path)) == 3


@pytest.mark.parametrize("step", [0, 1, 15])
def test_of_one_log_each_record_is_a_request_whatever_its_id(step: int, tmp_path: Path) -> None:
    log = [record(n * step, "Hi", id_="x") for n in range(4)]
    assert len(together([], log, tmp_path=tmp_path)) == 4
    assert len(together([], log[:2], tmp_path=tmp_path)) == 2
    timeless = [{k: v for k, v in r.items() if k != "timestamp"} for r in log]
    assert len(together([], timeless, tmp_path=tmp_path)) == 4
    others = [log[0], record(step, "Hi", id_="x", tokens=600)]
    assert len(together([], others, tmp_path=tmp_path)) == 2
    assert len(together([], log, log, tmp_path=tmp_path)) == 4
    spans = [traced(n, n * step + 0.2, "Hi", id_="x") for n in range(4)]
    assert [len(c.spans) for c in together(spans, log, tmp_path=tmp_path)] == [2] * 4


def test_an_exchange_is_logged_twice_where_its_ids_say_so(tmp_path: Path) -> None:
    log = [record(n, word, id_=word) for n, word in enumerate(("Hi", "Hi", "You", "You"))]
    for first, again in (log[:2], log[2:]):
        again["timestamp"] = first["timestamp"]
    assert len(together([], log, tmp_path=tmp_path)) == 2
    for request_ids, expected in (("aabb", 2), ("abcd", 4)):
        named = [{**r, "request_id": i} for r, i in zip(log, request_ids, strict=True)]
        assert len(together([], named, tmp_path=tmp_path)) == expected
    constant = [{**record(0, "Hi", id_="x"), "request_id": i} for i in "aabb"]
    assert len(together([], constant, tmp_path=tmp_path)) == 2


def test_a_span_whose_end_is_wrong_is_joined_with_its_line(tmp_path: Path) -> None:
    for end in (0, 1):
        span = replace(traced(1, 0, "Hi", id_="a"), end_unix_nano=end)
        assert [len(c.spans) for c in together([span], [record(0, "Hi", id_="a")], tmp_path=tmp_path)] == [2]


def test_records_of_one_log_are_not_looked_at_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(groups, "_two_clothes", lambda *_: looked_at.append(1))
    for log in ([record(None, f"{n}") for n in range(50)], [record(0, f"{n}") for n in range(50)]):
        assert len(together([traced(1, 0, "Other", tokens=9)], log, tmp_path=tmp_path)) == 51
    assert len(looked_at) <= 100


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, [2]),
        ({"session_id": "A", "trace_id": "7" * 32}, [2]),
        ({"trace_id": "a gateway's"}, [2]),
        ({"session_id": "B"}, [1, 1]),
        ({"trace_id": "8" * 32}, [1, 1]),
    ],
)
@pytest.mark.parametrize("prompt_told", [True, False])
def test_a_line_of_another_conversation_or_trace_is_no_spans(
    told: dict[str, str], expected: list[int], prompt_told: bool, tmp_path: Path
) -> None:
    span = traced(1, 0, "Hi")
    attributes = {**span.attributes, "gen_ai.conversation.id": "A"}
    if not prompt_told:
        del attributes["gen_ai.input.messages"]
    line = {**without_id(record(3, "Hi"))[0], **told}
    joined = together([replace(span, attributes=attributes)], [line], tmp_path=tmp_path)
    assert [len(c.spans) for c in joined] == expected


@pytest.mark.parametrize("second", [0, None])
@pytest.mark.parametrize("name", ["trace_id", "litellm_call_id", "request_id"])
def test_requests_with_ids_of_their_own_are_no_copies(name: str, second: int | None, tmp_path: Path) -> None:
    log = without_id(*(record(second, word) for word in ("Hi", "You", "There")))
    one, two = ([{**r, name: f"{file}{n}"} for n, r in enumerate(log)] for file in "ab")
    assert len(together([], one, two, tmp_path=tmp_path)) == 6
    assert len(together([], one, one, tmp_path=tmp_path)) == 3


def without_id(*records: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**r, "response": {k: v for k, v in r["response"].items() if k != "id"}} for r in records]


def test_a_copy_of_a_log_and_logs_that_overlap_count_nothing_twice(tmp_path: Path) -> None:
    log = without_id(record(0, "Hi"), record(0, "Hi"), record(1, "You"), record(2, "There"))
    spans = [traced(1, 1.2, "You")]
    assert len(together([], log, tmp_path=tmp_path)) == 4
    assert len(together([], log, log, log, tmp_path=tmp_path)) == 4
    assert len(together([], log[:3], log[1:], tmp_path=tmp_path)) == 4
    assert sorted(len(c.spans) for c in together(spans, log, log, tmp_path=tmp_path)) == [2, 2, 2, 3]


def test_the_same_request_at_another_time_or_answered_otherwise_is_another(tmp_path: Path) -> None:
    (first, again) = without_id(record(0, "Hi"), record(3, "Hi"))
    other = {
        **first,
        "response": {**first["response"], "choices": [{"message": {"role": "assistant", "content": "No."}}]},
    }
    assert len(together([], [first], [again], tmp_path=tmp_path)) == 2
    assert len(together([], [first], [other], tmp_path=tmp_path)) == 2


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("abc", "abc", 3),
        ("abc", "bcd", 4),
        ("bcd", "abc", 4),
        ("abcd", "bc", 4),
        ("bc", "abcd", 4),
        ("cab", "abcab", 5),  # not one record of a file with another of the same file
        ("abc", "cde", 6),  # one that comes again may have been asked again
        ("abcd", "xbcy", 8),  # no run to the end of either
        ("aaa", "aa", 5),  # equal requests are requests
    ],
)
def test_without_times_a_run_to_the_end_of_a_log_is_the_same_in_another(
    one: str, two: str, expected: int, tmp_path: Path
) -> None:
    logs = ([{"request": asked(word)} for word in log] for log in (one, two))
    assert len(together([], *logs, tmp_path=tmp_path)) == expected


# ---- bodies


@pytest.mark.parametrize(
    ("body", "provider"),
    [
        (CHAT, "openai"),
        (ANTHROPIC, "anthropic"),
        (RESPONSES, "openai"),
        (GEMINI, "google"),
        (CONVERSE, "bedrock"),
    ],
    ids=["chat", "anthropic", "responses", "gemini", "converse"],
)
def test_a_single_body(body: dict[str, Any], provider: str, analyse: Any) -> None:
    analysis, skipped = analyse(one=json.dumps(body, indent=2).encode())
    (call,) = calls(analysis)
    tools = [("tools", '{"name":"look","description":"Looks","input_schema":{"type":"object"}}')]
    expected = [*(tools if "tools" in body else ()), ("system", "Be kind."), ("user", "Hi!")]
    assert texts(analysis, call) == expected
    assert (call.id, call.provider, call.completeness.status) == ("one:1", provider, "full")
    assert (call.record, call.start_unix_nano, skipped) == ("request", 0, [])


def test_a_list_and_lines_are_numbered_and_may_be_packed(analyse: Any) -> None:
    analysis, _ = analyse(
        list=json.dumps([CHAT, ANTHROPIC], indent=1).encode(),
        lines=gzip.compress(lines(CHAT, RESPONSES) + b"\n"),
    )
    assert [c.id for c in calls(analysis)] == ["lines:1", "lines:2", "list:1", "list:2"]


def test_functions_of_old_are_tools(analyse: Any) -> None:
    analysis, _ = analyse(one=lines({**CHAT, "functions": [{"name": "look", "parameters": {}}]}))
    assert [s.name for s in calls(analysis)[0].prompt.tools] == ["look"]


def test_the_automatic_breakpoint_is_on_the_last_block(analyse: Any) -> None:
    analysis, _ = analyse(one=lines({**ANTHROPIC, "cache_control": {"type": "ephemeral", "ttl": "1h"}}))
    assert [s.cache_marker for s in calls(analysis)[0].prompt] == ["", "", "1h"]


@pytest.mark.parametrize(
    ("more", "reason", "lost"),
    [
        ({"previous_response_id": "resp_1"}, "server_side", {"head"}),
        ({"conversation": {"id": "conv_1"}}, "server_side", {"head"}),
        ({"prompt": {"id": "pmpt_1"}}, "reference_missing", {"system"}),
    ],
)
def test_what_the_server_keeps_is_not_here(
    more: dict[str, Any], reason: str, lost: set[str], analyse: Any
) -> None:
    analysis, _ = analyse(one=lines({**RESPONSES, **more}))
    (call,) = calls(analysis)
    assert call.completeness.status == "partial"
    assert reason in call.completeness.reasons
    assert call.completeness.lost == lost


def test_a_body_that_names_nothing_on_the_server_has_nothing_there(analyse: Any) -> None:
    """Tokens that no text accounts for are told as such, and put down to no history that the body would name."""
    answer = {"object": "response", "id": "resp_1", "usage": {"input_tokens": 9_000, "output_tokens": 3}}
    analysis, _ = analyse(one=lines({"body": RESPONSES, "response": {**answer, "output": []}}))
    (reading,) = analysis.readings
    assert reading.call.completeness.reasons == ("not_captured",)
    assert reading.tokens.server_side is None
    assert (reading.tokens.unaccounted or 0) > 8_900


def test_cached_content_is_on_the_server(analyse: Any) -> None:
    analysis, _ = analyse(one=lines({**GEMINI, "cachedContent": "cachedContents/1"}))
    assert calls(analysis)[0].completeness.lost >= {"tools", "system", "head"}


@pytest.mark.parametrize(
    "record",
    [
        {"model": "text-embedding-3-large", "input": "Hi!"},
        {"model": "bge", "input": ["Hi!", "Ho!"]},
        {"model": "bge", "input": [1, 2, 3]},
        {"url": "https://api.openai.com/v1/moderations", "body": {"model": "m", "input": "Hi!"}},
        {"path": "/v1/messages/count_tokens", "body": ANTHROPIC},
        {"path": "/v1beta/models/g:countTokens", "body": GEMINI},
    ],
)
def test_what_is_no_conversation_is_no_call_and_no_damage(record: dict[str, Any], analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(CHAT, record))
    assert [c.id for c in calls(analysis)] == ["log:1"]
    assert skipped == []
    assert analysis.foreign == ()


# ---- envelopes


@pytest.mark.parametrize(
    "wrap",
    [
        lambda b: {"params": b},
        lambda b: {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": b},
        lambda b: {"request": b},
        lambda b: {"request_body": b},
        lambda b: {"request_body": json.dumps(b)},
        lambda b: {"request": {"method": "POST", "headers": {}, "body": json.dumps(b)}},
        lambda b: {"input": {"inputContentType": "application/json", "inputBodyJson": b}},
        lambda b: {"body": b, "request": b},
    ],
)
def test_an_envelope_is_opened(wrap: Any, analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(wrap(CHAT)))
    assert texts(analysis, calls(analysis)[-1]) == [("system", "Be kind."), ("user", "Hi!")]
    assert skipped == []


def test_each_record_has_an_envelope_of_its_own(analyse: Any) -> None:
    analysis, skipped = analyse(
        log=lines(CHAT, {"params": ANTHROPIC}, {"body": GEMINI, "path": "/m:generateContent"})
    )
    assert [c.provider for c in calls(analysis)] == ["openai", "anthropic", "google"]
    assert skipped == []


def test_the_call_that_creates_a_batch(analyse: Any) -> None:
    requests = [{"custom_id": str(n), "params": ANTHROPIC} for n in range(2)]
    analysis, _ = analyse(log=lines({"requests": requests}))
    assert [c.id for c in calls(analysis)] == ["log:1.1", "log:1.2"]


def test_two_bodies_in_one_record_are_ambiguous(analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(CHAT, {"request": CHAT, "body": ANTHROPIC}))
    assert len(calls(analysis)) == 1
    assert skipped == [Skipped("log:2", "two request bodies in one record: it is not clear which was sent")]


@pytest.mark.parametrize(
    ("path", "model", "platform"),
    [
        ("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke",
         "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock"),
        ("https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
         "gemini-2.5-flash", "gemini-api"),
        ("https://x.aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.5-pro:generateContent",
         "gemini-2.5-pro", "vertex"),
        ("https://x.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=1", "my-gpt", "azure"),
    ],
)  # fmt: skip
def test_the_url_names_model_and_platform(path: str, model: str, platform: str, analyse: Any) -> None:
    body = {"messages": [HI]} if "google" not in path else GEMINI
    analysis, _ = analyse(log=lines({"url": path, "body": body}))
    (call,) = calls(analysis)
    assert (call.model, call.platform) == (model, platform)


# ---- answers


@pytest.mark.parametrize("key", ["response", "response_body", "result", "output"])
@pytest.mark.parametrize("written", [dict, json.dumps, lambda a: {"status_code": 200, "body": a}])
def test_an_answer_beside_the_request(key: str, written: Any, analyse: Any) -> None:
    analysis, _ = analyse(log=lines({"request": CHAT, key: written(ANSWER)}))
    (call,) = calls(analysis)
    assert (call.response_id, call.model) == ("chatcmpl-1", "gpt-4o-2024-08-06")
    assert (call.usage.input, call.usage.cache_read, call.usage.output) == (12, 0, 3)
    assert [analysis.text(s.digest) for s in call.answer] == ["Hello."]


def test_usage_beside_the_answer(analyse: Any) -> None:
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "output_tokens": 2,
    }
    analysis, _ = analyse(log=lines({"request": ANTHROPIC, "usage": usage}))
    assert (calls(analysis)[0].usage.input, calls(analysis)[0].usage.cache_read) == (12, 7)


def test_the_events_of_a_stream(analyse: Any) -> None:
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "usage": {
            "input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0, "output_tokens": 1}}},
        {"type": "message_delta", "usage": {"output_tokens": 9}},
    ]  # fmt: skip
    sse = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    for answer in (events, sse):
        analysis, _ = analyse(log=lines({"request": ANTHROPIC, "response": answer}))
        (call,) = calls(analysis)
        assert (call.response_id, call.usage.input, call.usage.output) == ("msg_1", 12, 9)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"response": {"status_code": 429, "body": {"error": {"type": "rate_limit_error", "message": "slow"}}}},
         "rate_limit_error"),
        ({"response": {"type": "error", "error": {"type": "invalid_request_error",
                                                  "message": "prompt is too long: 9 tokens > 8"}}},
         "context_length_exceeded"),
        ({"error": {"code": "timeout", "message": "x"}}, "timeout"),
        ({"status": 503}, "503"),
    ],
)  # fmt: skip
def test_a_request_that_failed(more: dict[str, Any], error: str, analyse: Any) -> None:
    analysis, _ = analyse(log=lines({"request": ANTHROPIC, **more}))
    assert [(c.status, c.error) for c in calls(analysis)] == [("error", error)]


OPENAI_BATCH = [
    {"custom_id": f"r{n}", "method": "POST", "url": "/v1/chat/completions", "body": {**CHAT, "user": str(n)}}
    for n in range(2)
]
OPENAI_BATCH_ANSWERS = [
    {"id": f"batch_req_{n}", "custom_id": f"r{n}", "error": None, "response": {
        "status_code": 200, "request_id": "x", "body": {**ANSWER, "id": f"chatcmpl-{n}", "created": 1_764_500_000 + n}}}
    for n in (1, 0)
]  # fmt: skip


def test_requests_and_answers_of_a_batch_in_two_files(analyse: Any) -> None:
    analysis, skipped = analyse(input=lines(*OPENAI_BATCH), output=lines(*OPENAI_BATCH_ANSWERS))
    told = [(c.id, c.response_id, c.usage.input, c.completeness.status) for c in calls(analysis)]
    assert told == [("input:1", "chatcmpl-0", 12, "full"), ("input:2", "chatcmpl-1", 12, "full")]
    assert skipped == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"result": {"type": "expired"}}, "expired"),
        ({"result": {"type": "canceled"}}, "canceled"),
        (
            {"id": "b", "response": None, "error": {"code": "batch_expired", "message": "Late."}},
            "batch_expired",
        ),
    ],
)
def test_a_request_of_a_batch_that_was_not_answered_has_failed(said: Any, error: str, analyse: Any) -> None:
    asked_, answered = OPENAI_BATCH, OPENAI_BATCH_ANSWERS
    analysis, skipped = analyse(input=lines(*asked_), output=lines(answered[1], {"custom_id": "r1", **said}))
    told = [(c.id, c.usage.input, c.error) for c in calls(analysis)]
    assert told == [("input:1", 12, ""), ("input:2", None, error)]
    assert skipped == []
    alone, skipped = analyse(output=lines({"custom_id": "r1", **said}))
    assert [(c.status, c.error) for c in calls(alone)] == [("error", error)]
    assert skipped == []


GATEWAY = [
    {"request_id": f"r{n}", "ts": 1_790_000_000 + n, "request": {**CHAT, "user": str(n)}} for n in range(2)
]
GATEWAY_ANSWERS = [
    {"request_id": f"r{n}", "ts": 1_790_000_060 + n, "response": {**ANSWER, "id": f"chatcmpl-{n}"}}
    for n in range(2)
]


@pytest.mark.parametrize(
    "files",
    [
        {"in": GATEWAY, "out": GATEWAY_ANSWERS},
        {"a": [*GATEWAY, GATEWAY_ANSWERS[0]], "b": GATEWAY_ANSWERS[1:]},
        {"a": GATEWAY[:1], "b": [GATEWAY_ANSWERS[0], GATEWAY[1], GATEWAY_ANSWERS[1]]},
        {"log": [*GATEWAY_ANSWERS, *GATEWAY]},
        {"log": [GATEWAY_ANSWERS[0], *GATEWAY, GATEWAY_ANSWERS[1]]},
    ],
)
def test_an_answer_with_the_id_of_its_request_stands_where_it_will(files: Any, analyse: Any) -> None:
    analysis, skipped = analyse(**{name: lines(*records) for name, records in files.items()})
    told = [(c.response_id, c.usage.input, c.completeness.status) for c in calls(analysis)]
    assert told == [("chatcmpl-0", 12, "full"), ("chatcmpl-1", 12, "full")]
    assert skipped == []


def test_an_answer_of_no_model_is_no_answer() -> None:
    assert raw_requests.claims(GATEWAY_ANSWERS[0])
    assert not raw_requests.claims(
        {"request_id": "r0", "response": {"id": "1", "content": []}, "status": 200}
    )


def batch(*words: str) -> bytes:
    return lines(*({"custom_id": f"r{n}", "body": asked(word)} for n, word in enumerate(words)))


def batch_answers(name: str, created: int, *tokens: int, model: str = "gpt-4o-2024-08-06") -> bytes:
    """One answer for each of ``tokens``, which are those of its request."""
    return lines(
        *(
            {"custom_id": f"r{n}", "response": {"status_code": 200, "body": {
                **ANSWER, "id": f"chatcmpl-{name}{n}", "created": 1_764_500_000 + created, "model": model,
                "usage": {"prompt_tokens": count, "completion_tokens": 20}}}}
            for n, count in enumerate(tokens)
        )
    )  # fmt: skip


def pairs(analysis: Analysis) -> list[tuple[str | None, int | None]]:
    return [(next((t for _, t in texts(analysis, c)), None), c.usage.input) for c in calls(analysis)]


def test_ids_that_two_batches_share_pair_nothing_that_is_not_known(analyse: Any) -> None:
    asked_ = {"in1": batch("Hi", "You"), "in2": batch("He", "She")}
    analysis, _ = analyse(**asked_, out1=batch_answers("a", 90, 10, 11), out2=batch_answers("b", 0, 20, 21))
    assert pairs(analysis) == [
        ("Hi", None), ("You", None), ("He", None), ("She", None), (None, 20), (None, 21), (None, 10), (None, 11),
    ]  # fmt: skip
    (unclear,) = (n for n in analysis.not_checked if n.check == "usage_missing")
    assert len(unclear.calls) == 8
    assert "Analyse each batch by itself" in unclear.why


def test_answers_of_two_batches_and_the_requests_of_one_are_not_paired(analyse: Any) -> None:
    analysis, _ = analyse(in1=batch("Hi"), out1=batch_answers("a", 90, 10), out2=batch_answers("b", 0, 20))
    assert pairs(analysis) == [("Hi", None), (None, 20), (None, 10)]


def test_ids_that_two_batches_share_are_paired_where_the_file_tells(analyse: Any) -> None:
    longer = {"in1": batch("Hi", "You", "There"), "in2": batch("He", "She")}
    analysis, _ = analyse(
        **longer, out1=batch_answers("a", 90, 10, 11, 12), out2=batch_answers("b", 0, 20, 21)
    )
    assert pairs(analysis) == [("He", 20), ("She", 21), ("Hi", 10), ("You", 11), ("There", 12)]
    assert not [n for n in analysis.not_checked if n.check == "usage_missing"]


def test_ids_that_two_batches_share_are_paired_where_the_model_tells(analyse: Any) -> None:
    claude = lines({"custom_id": "r0", "body": {**asked("He"), "model": "claude-opus-4-1"}})
    out = batch_answers("b", 0, 20, model="claude-opus-4-1-20250805")
    analysis, _ = analyse(in1=batch("Hi"), in2=claude, out1=batch_answers("a", 90, 10), out2=out)
    assert pairs(analysis) == [("He", 20), ("Hi", 10)]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o-2024-08-06", [("Hi", 10)]),
        ("claude-opus-4-1", [("Hi", None), (None, 10)]),
        ("gpt-4o-mini", [("Hi", None), (None, 10)]),
        ("our-deployment", [("Hi", 10)]),
    ],
)
def test_an_answer_of_another_model_is_not_that_of_the_request(
    model: str, expected: list[tuple[str | None, int | None]], analyse: Any
) -> None:
    analysis, _ = analyse(in1=batch("Hi"), out=batch_answers("a", 0, 10, model=model))
    assert pairs(analysis) == expected


def test_a_batch_that_is_sent_again_is_answered_again(analyse: Any) -> None:
    twice = {"in1": batch("Hi", "You"), "in2": batch("Hi", "You")}
    analysis, _ = analyse(**twice, out1=batch_answers("a", 0, 10, 11), out2=batch_answers("b", 90, 10, 11))
    assert pairs(analysis) == [("Hi", 10), ("You", 11), ("Hi", 10), ("You", 11)]
    analysis, _ = analyse(**twice, out1=batch_answers("a", 0, 10, 11), out2=batch_answers("a", 0, 10, 11))
    assert pairs(analysis) == [("Hi", 10), ("You", 11)]


@pytest.mark.parametrize("timed", [True, False])
def test_an_id_that_comes_back_in_one_log_is_answered_by_what_follows(timed: bool, analyse: Any) -> None:
    log: list[dict[str, Any]] = []
    for n, word in enumerate(("Hi", "You")):
        times = [{"timestamp": f"2026-11-30T10:00:{n}{second}Z"} if timed else {} for second in (1, 4)]
        answer = {k: v for k, v in ANSWER.items() if k != "id"} | {
            "usage": {"prompt_tokens": 10 + n, "completion_tokens": 3}
        }
        log.append({**times[0], "request_id": "r", "request": asked(word)})
        log.append({**times[1], "custom_id": "r", "response": answer})
    analysis, _ = analyse(log=lines(*log))
    assert pairs(analysis) == [("Hi", 10), ("You", 11)]


def test_answers_of_a_batch_alone_are_numbers_without_a_prompt(analyse: Any) -> None:
    message = {
        "id": "msg_1",
        "type": "message",
        "content": [{"type": "text", "text": "Hello."}],
        "usage": {"input_tokens": 4, "cache_read_input_tokens": 0, "output_tokens": 2},
    }
    analysis, _ = analyse(log=lines({"custom_id": "a", "result": {"type": "succeeded", "message": message}}))
    (call,) = calls(analysis)
    assert (call.completeness.status, call.usage.input, call.response_id) == ("usage_only", 4, "msg_1")


def test_answers_of_a_batch_are_no_conversation(analyse: Any) -> None:
    analysis, _ = analyse(log=lines(*OPENAI_BATCH_ANSWERS))
    assert [r.relation for r in analysis.readings] == ["new", "new"]


def test_bedrocks_invocation_log(analyse: Any) -> None:
    record = {
        "schemaType": "ModelInvocationLog", "timestamp": "2026-11-30T04:00:00Z", "operation": "Converse",
        "requestId": "r", "modelId": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "input": {"inputContentType": "application/json", "inputBodyJson": CONVERSE},
        "output": {"outputContentType": "application/json", "outputBodyJson": {
            "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
            "usage": {"inputTokens": 4, "outputTokens": 2, "totalTokens": 9, "cacheReadInputTokens": 3}}},
    }  # fmt: skip
    analysis, _ = analyse(log=lines(record))
    (call,) = calls(analysis)
    assert (call.platform, call.model) == ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert (call.usage.input, call.usage.cache_read, call.usage.output) == (7, 3, 2)
    assert call.start_unix_nano == nanoseconds("2026-11-30T04:00:00Z")


# ---- answers under other names, and in other records


CLAUDE_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello."}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0, "output_tokens": 9,
    },
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {
        **CLAUDE_ANSWER, "content": [], "stop_reason": None, "usage": {**CLAUDE_ANSWER["usage"], "output_tokens": 1}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]  # fmt: skip


def sse(*events: dict[str, Any]) -> str:
    return "".join(f"event: {e.get('type')}\ndata: {json.dumps(e)}\n\n" for e in events)


@pytest.mark.parametrize("key", ["resp_body", "res", "reply", "backend_said"])
@pytest.mark.parametrize(
    "written", [dict, json.dumps, lambda _: sse(*EVENTS), lambda a: {"code": 200, "body": json.dumps(a)}]
)
def test_an_answer_is_known_by_its_shape(key: str, written: Any, analyse: Any) -> None:
    for record in (
        {"request": ANTHROPIC, key: written(CLAUDE_ANSWER)},
        {"level": "info", "data": {"request": ANTHROPIC, key: written(CLAUDE_ANSWER)}},
    ):
        (call,) = calls(analyse(log=lines(record))[0])
        assert (call.response_id, call.usage.input, call.usage.output) == ("msg_1", 12, 9)


def test_of_two_answers_under_strange_names_none_is_taken(analyse: Any) -> None:
    record = {"request": ANTHROPIC, "first": CLAUDE_ANSWER, "second": {**CLAUDE_ANSWER, "id": "msg_2"}}
    (call,) = calls(analyse(log=lines(record))[0])
    assert (call.response_id, call.usage.input) == ("", None)


def test_json_in_a_string_in_a_string(analyse: Any) -> None:
    record = {"request_body": json.dumps(json.dumps(ANTHROPIC)), "response_body": json.dumps(CLAUDE_ANSWER)}
    (call,) = calls(analyse(log=lines(record))[0])
    assert (call.model, call.usage.input) == ("claude-sonnet-4-5", 12)


def split(
    key: str, *ids: Any, answer: dict[str, Any] = CLAUDE_ANSWER, answer_key: str = ""
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for n, name in enumerate(ids):
        body = {**ANTHROPIC, "messages": [{"role": "user", "content": f"Question {n}"}]}
        rows.append({"ts": 1_764_500_000 + 10 * n, "event": "request", key: name, "body": body})
        said = {**answer, "id": f"msg_{name}"}
        rows.append(
            {"ts": 1_764_500_002 + 10 * n, "event": "response", answer_key or key: name, "body": said}
        )
    return rows


@pytest.mark.parametrize(
    "key",
    ["id", "request_id", "requestId", "req_id", "reqId", "correlation_id", "trace_id", "call_id", "x-request-id",
     "flow_id", "traceID", "requestid", "uuid"],
)  # fmt: skip
@pytest.mark.parametrize("ids", [(1, 2, 3), ("a", "b", "c")])
def test_a_request_and_its_answer_in_two_records(key: str, ids: tuple[Any, ...], analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(*split(key, *ids)))
    told = [
        (c.id, c.response_id, c.usage.input, c.end_unix_nano - c.start_unix_nano) for c in calls(analysis)
    ]
    assert told == [(f"log:{2 * n + 1}", f"msg_{name}", 12, 2 * SECOND) for n, name in enumerate(ids)]
    assert skipped == []


def test_an_answer_is_logged_when_it_has_been_given(analyse: Any) -> None:
    asked, answered = split("trace_id", "a")
    analysis, _ = analyse(log=lines(asked, {**answered, "latency_ms": 1900}))
    (call,) = calls(analysis)
    assert call.end_unix_nano - call.start_unix_nano == 2 * SECOND


def test_a_refusal_in_a_record_of_its_own(analyse: Any) -> None:
    asked, answered = split("trace_id", "a")
    refusal = {"type": "error", "error": {"type": "overloaded_error", "message": ""}}
    analysis, skipped = analyse(log=lines(asked, {**answered, "status": 529, "body": refusal}))
    assert [(c.status, c.error) for c in calls(analysis)] == [("error", "overloaded_error")]
    assert skipped == []


def test_answers_find_their_requests_in_any_order(analyse: Any) -> None:
    rows = split("trace_id", "a", "b", "c")
    analysis, skipped = analyse(log=lines(*rows[::2], *reversed(rows[1::2])))
    assert [c.response_id for c in calls(analysis)] == ["msg_a", "msg_b", "msg_c"]
    assert skipped == []


@pytest.mark.parametrize(
    "rows",
    [
        split("trace_id", "a", "a"),  # one trace of two requests
        split("session_id", "a", "b"),  # lasts longer than a request
        split("user_id", "a", "b"),
        split("span_id", "a", "b", answer_key="trace_id"),
        split("note", "a", "b"),
    ],
)
def test_answers_that_cannot_be_joined_are_told(rows: list[dict[str, Any]], analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(*rows))
    assert len(calls(analysis)) == 4
    (note,) = skipped
    assert note.where == "log:2"
    assert note.why.startswith("2 answers that no id joins to a request")


def test_what_cannot_be_joined_in_a_log_is_not_put_down_to_spans(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(lines(*split("note", "a", "b", "c")))
    told = CliRunner().invoke(main, ["analyze", str(tmp_path / "log")], env={"COLUMNS": "200"}).stdout
    assert "Log the request beside each answer" in told
    assert "on the spans" not in told


# ---- damaged answers


@pytest.mark.parametrize("key", ["response", "response_body", "resp_body", "outputBodyJson"])
def test_an_answer_that_was_cut_is_named_and_its_request_is_read(key: str, analyse: Any) -> None:
    record = {"request": CHAT, key: json.dumps(ANSWER)[:-20]}
    analysis, skipped = analyse(log=lines({"request": CHAT, key: json.dumps(ANSWER)}, record))
    assert [c.usage.input for c in calls(analysis)] == [12, None]
    assert skipped == [Skipped("log:2", "its answer is damaged: JSON or an event that was cut or is broken")]


def test_json_of_the_model_that_was_cut_is_no_damage(analyse: Any) -> None:
    analysis, skipped = analyse(
        log=lines({"request": CHAT, "response": '{"name": "Jo', "usage": ANSWER["usage"]})
    )
    assert [c.usage.input for c in calls(analysis)] == [12]
    assert skipped == []


@pytest.mark.parametrize("said", ["The data: 3", "data: 3\ndata: 4", "see\ndata: {x}"])
def test_text_is_no_stream(said: str, analyse: Any) -> None:
    analysis, _ = analyse(log=lines({"request": CHAT, "response": said, "seen": ANSWER}))
    assert calls(analysis)[0].usage.input == 12


def test_a_damaged_answer_in_a_record_of_its_own_is_named(analyse: Any) -> None:
    rows = [{"id": 1, "body": CHAT}, {"id": 1, "body": json.dumps(ANSWER)[:-20]}]
    analysis, skipped = analyse(log=lines(*rows))
    assert [c.usage.input for c in calls(analysis)] == [None]
    assert [(note.where, note.why[:21]) for note in skipped] == [("log:2", "its answer is damaged")]


def test_a_stream_that_was_cut_inside_an_event(analyse: Any) -> None:
    cut = sse(*EVENTS[:2])[:-30]
    analysis, skipped = analyse(log=lines(CHAT, {"request": ANTHROPIC, "response": cut}))
    usage = calls(analysis)[1].usage
    assert (usage.input, usage.cache_read, usage.output) == (12, 7, None)
    assert [note.where for note in skipped] == ["log:2"]


CREATED = {"type": "response.created", "response": {"id": "r"}}
CHUNK = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}


@pytest.mark.parametrize(
    ("events", "broken"),
    [
        ([CREATED], True),
        ([CREATED, {"type": "response.incomplete", "response": {"id": "r"}}], False),
        ([CREATED, {"type": "error", "message": "Oh."}], False),
        ([CHUNK], True),
        ([CHUNK, {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}], False),
        ([CHUNK, "[DONE]"], False),
    ],
)
def test_a_stream_that_was_cut_between_two_events_is_named(
    events: list[Any], broken: bool, analyse: Any
) -> None:
    said = "".join(f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n" for e in events)
    _, skipped = analyse(log=lines({"request": CHAT, "response": said}))
    assert [note.why.startswith("its answer is damaged") for note in skipped] == [True] * broken


OPENAI_CHUNKS: list[dict[str, Any]] = [
    {"id": "c", "choices": [{"delta": {"content": "Hel"}, "finish_reason": None}],
     "usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13}},
    {"id": "c", "choices": [{"delta": {}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}},
]  # fmt: skip
GEMINI_CHUNKS: list[dict[str, Any]] = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}],
     "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 1, "totalTokenCount": 13}},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "lo"}]}, "finishReason": "STOP"}],
     "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 9, "totalTokenCount": 21}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "events", "known"),
    [
        (ANTHROPIC, EVENTS[:2], None),
        (ANTHROPIC, EVENTS[:3], 9),
        (ANTHROPIC, EVENTS, 9),
        (CHAT, OPENAI_CHUNKS[:1], None),
        (CHAT, OPENAI_CHUNKS, 9),
        (CHAT, [{"id": "c", "choices": [], "usage": OPENAI_CHUNKS[1]["usage"]}], 9),
        (GEMINI, GEMINI_CHUNKS[:1], None),
        (GEMINI, GEMINI_CHUNKS, 9),
    ],
)
def test_an_answer_without_its_end_has_no_length(
    body: dict[str, Any], events: list[dict[str, Any]], known: int | None, analyse: Any
) -> None:
    for answer in (events, sse(*events)):
        analysis, skipped = analyse(log=lines({"request": body, "response": answer}))
        usage = calls(analysis)[0].usage
        assert (usage.input, usage.output) == (12, known)
        named = isinstance(answer, str) and body is ANTHROPIC and known is None
        assert [note.why.startswith("its answer is damaged") for note in skipped] == [True] * named


@pytest.mark.parametrize("key", ["request", "request_body", "body"])
@pytest.mark.parametrize("first", [True, False])
def test_a_request_that_was_cut_is_named(key: str, first: bool, analyse: Any) -> None:
    cut = {key: json.dumps(CHAT)[:-20], "response": ANSWER}
    rows = [cut, {"request": CHAT}] if first else [{"request": CHAT}, cut]
    analysis, skipped = analyse(log=lines(*rows))
    assert len(calls(analysis)) == 1
    assert skipped == [
        Skipped(f"log:{1 if first else 2}", "its request is damaged: JSON that was cut or is broken")
    ]


def test_a_gate_does_not_judge_a_log_with_a_damaged_answer(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(lines(CHAT, {"request": CHAT, "response": json.dumps(ANSWER)[:-20]}))
    result = CliRunner().invoke(main, ["analyze", str(log), "--fail-on", "error"])
    assert result.exit_code == 2
    assert "log.jsonl:2: its answer is damaged" in result.stderr


# ---- no request


PRODUCT = {"model": "T-1000", "input": "5V USB", "price": 3}
NO_REQUESTS: dict[str, Any] = {
    "a product": PRODUCT,
    "a product of lists": {"model": "T-1000", "input": [{"volts": 5}]},
    "a product of typed things": {"model": "T-1000", "input": [{"type": "usb"}]},
    "a printer": {"model": "X9", "prompt": "Insert paper"},
    "a book": {"contents": [{"parts": [{"text": "chapter 1"}]}]},
    "a chat": {"sender": "a", "messages": [{"role": "member", "content": "hi"}]},
    "messages alone": {"messages": [HI]},
    "an example to train with": {
        "messages": [HI, {"role": "assistant", "content": "Hello."}], "tools": [{"name": "look"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_only_has_the_names_of_a_request_is_none(name: str, analyse: Any) -> None:
    with pytest.raises(InputError):
        analyse(log=lines(NO_REQUESTS[name], NO_REQUESTS[name]))
    analysis, skipped = analyse(log=lines(CHAT, NO_REQUESTS[name]))
    assert [c.id for c in calls(analysis)] == ["log:1"]
    assert [note.where for note in skipped] == ["log:2"]


TEXT = {"model": "my-own", "input": "Hi!"}


@pytest.mark.parametrize(
    "record",
    [
        {"model": "gpt-5-mini", "input": "Hi!"},
        {"model": "openai/o3", "input": "Hi!"},
        {**TEXT, "instructions": "Be kind."},
        {**TEXT, "max_output_tokens": 9},
        {**TEXT, "usage": {"input_tokens": 3, "output_tokens": 2}},
        {"request": TEXT},
        {"request": {"method": "POST", "body": TEXT}},
        {"model": "gpt-5", "input": [{"type": "shell_call_output", "call_id": "c", "output": "a.py"}]},
        {"url": "https://host/v1/responses", "body": TEXT},
        {"body": TEXT, "response": {"object": "response", "id": "resp_1", "output": []}},
        {"messages": [HI], "temperature": 0},
        {"messages": [HI], "tools": [{"name": "look"}]},
        {"body": {"messages": [HI]}},
        {"path": "/openai/deployments/d/chat/completions", "messages": [HI]},
        {"messages": [HI], "response": ANSWER},
        {"model": "m", "messages": [{"type": "human", "content": "Hi!"}]},
        {"model": "m", "messages": [{"role": "developer", "content": "Be kind."}, HI]},
        {"contents": [{"role": "user", "parts": [{"text": "Hi!"}]}]},
        {"contents": [{"parts": [{"text": "Hi!"}]}], "generationConfig": {"temperature": 0}},
        {"model": "m", "contents": [{"parts": [{"text": "Hi!"}]}]},
    ],
)
def test_a_request_needs_little_to_be_known(record: dict[str, Any], analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(record))
    assert len(calls(analysis)) == 1
    assert skipped == []


@pytest.mark.parametrize("alone", [[HI, HI], {"messages": [HI]}])
def test_messages_alone_are_told_what_they_lack(alone: Any, analyse: Any) -> None:
    with pytest.raises(InputError, match="a request is known by its model"):
        analyse(log=json.dumps(alone, indent=1).encode())


# ---- several in one document


def numbered(*records: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**record, "user": str(n)} for n, record in enumerate(records)]


ONE, TWO, THREE, FOUR = (json.dumps(record).encode() for record in numbered(CHAT, CHAT, CHAT, CHAT))


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        (ONE + TWO + THREE, ["1", "1.2", "1.3"]),
        (ONE + b" " + TWO + b"\r" + THREE, ["1", "1.2", "1.3"]),
        (ONE + TWO + b"\n" + THREE + b"\n", ["1", "1.2", "2"]),
        (b"\n" + ONE + b"\n" + TWO, ["2", "3"]),
        (b"[" + ONE + b"," + TWO + b"]" + THREE + FOUR, ["1.1", "1.2", "1.3", "1.4"]),
        (ONE + b"[" + TWO + b"]\n[" + THREE + b"," + FOUR + b"]", ["1", "1.2", "2.1", "2.2"]),
        (b'{"requests":[{"params":' + ONE + b'},{"params":' + TWO + b"}]}" + THREE, ["1.1", "1.2", "1.3"]),
        (b'{"calls":[' + ONE + b"," + TWO + b"]}", ["1.1", "1.2"]),
        (b'{"data":[' + ONE + b"," + TWO + b"]}", ["1.1", "1.2"]),
        (b"[[" + ONE + b"],[" + TWO + b"," + THREE + b"]]", ["1", "2", "3"]),
        (ONE * 12, ["1", *(f"1.{n}" for n in range(2, 13))]),
    ],
)
def test_no_two_records_have_one_number(data: bytes, ids: list[str], analyse: Any) -> None:
    analysis, skipped = analyse(log=data)
    assert [c.id for c in calls(analysis)] == [f"log:{name}" for name in ids]
    assert skipped == []


def test_pretty_printed_records_in_a_row(analyse: Any) -> None:
    one = json.dumps(CHAT, indent=2).encode()
    analysis, _ = analyse(log=one + one + b"\n" + one)
    assert len({c.id for c in calls(analysis)}) == len(calls(analysis)) == 3


def test_of_a_list_that_was_cut_the_first_records_are_read(analyse: Any) -> None:
    data = json.dumps([CHAT, ANTHROPIC, RESPONSES], indent=1).encode()
    analysis, skipped = analyse(log=data[: data.rindex(b"Be kind.")])
    assert [c.id for c in calls(analysis)] == ["log:1", "log:2"]
    (note,) = skipped
    first, last = (data.count(b"\n", 0, data.rindex(word)) + 1 for word in (b'{\n  "model', b"Be kind."))
    assert (note.where, note.why) == (f"log:{first}-{last}", "cut off: the data end inside this record")


def test_bytes_that_are_no_text_are_not_said_to_be_replaced_in_a_record_that_is_passed_over(
    analyse: Any,
) -> None:
    _, skipped = analyse(log=lines(CHAT) + b"\n" + CORRUPT["no UTF-8"])
    assert skipped == [Skipped("log:2", "JSON with bytes that are no UTF-8")]


# ---- times and order


@pytest.mark.parametrize(
    "value",
    [1_764_500_000, 1_764_500_000.0, 1_764_500_000_000, 1_764_500_000_000_000, 1_764_500_000_000_000_000,
     "1764500000", "2025-11-30T10:53:20Z", "2025-11-30T11:53:20+01:00", "2025-11-30 10:53:20"],
)  # fmt: skip
def test_a_time_in_any_form(value: object) -> None:
    assert nanoseconds(value) == 1_764_500_000 * SECOND


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", True, -1, 0, [], "nan", "inf", float("nan"), float("inf"), "9999-99-99", 1e300],
)
def test_what_is_no_time_is_not_known(value: object) -> None:
    assert nanoseconds(value) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"start_unix_nano": 1_764_500_000 * SECOND, "end_unix_nano": 1_764_500_002 * SECOND},
        {"timestamp": "2025-11-30T10:53:20Z", "latency_ms": 2000},
        {"startTime": 1_764_500_000_000, "endTime": 1_764_500_002_000},
        {"request_time": 1_764_500_000, "response_time": 1_764_500_002},
        {"created_at": "2025-11-30T10:53:20Z", "duration": 2.0},
    ],
)
def test_start_and_end_by_whatever_name(said: dict[str, Any], analyse: Any) -> None:
    analysis, _ = analyse(log=lines({"request": CHAT, **said}))
    (call,) = calls(analysis)
    assert call.start_unix_nano == 1_764_500_000 * SECOND
    assert call.end_unix_nano == 1_764_500_002 * SECOND


@pytest.mark.parametrize(
    "value",
    ["30/Nov/2025:11:53:20 +0100", "[30/Nov/2025:11:53:20 +0100]", "Sun, 30 Nov 2025 10:53:20 GMT",
     "30 Nov 2025 10:53:20 +0000", "2025-11-30 10:53:20,000", "1764500000.0"],
)  # fmt: skip
@pytest.mark.parametrize(
    "key", ["timestamp", "time_local", "time_iso8601", "logged_at", "requestTime", "t", "msec"]
)
def test_a_time_of_a_log(key: str, value: str, analyse: Any) -> None:
    analysis, skipped = analyse(log=lines({"request": CHAT, key: value}))
    assert calls(analysis)[0].start_unix_nano == 1_764_500_000 * SECOND
    assert skipped == []


@pytest.mark.parametrize("took", [2.5, "1.234", 1234, "30.0"])
@pytest.mark.parametrize("key", ["request_time", "response_time", "time", "requestTime"])
def test_a_duration_is_no_time(key: str, took: Any, analyse: Any) -> None:
    record = {"timestamp": "2025-11-30T10:53:20Z", key: took, "request": CHAT}
    analysis, skipped = analyse(log=lines(record, {**record, "timestamp": None}))
    assert sorted(c.start_unix_nano for c in calls(analysis)) == [0, 1_764_500_000 * SECOND]
    assert skipped == []


def test_nginx_writes_its_log_when_the_answer_was_sent(analyse: Any) -> None:
    record = {
        "time_iso8601": "2025-11-30T11:53:20+01:00", "request": "POST /v1/chat HTTP/1.1", "request_time": "1.250",
        "request_body": json.dumps(CHAT), "resp_body": json.dumps(ANSWER),
    }  # fmt: skip
    (call,) = calls(analyse(log=lines(record))[0])
    assert call.end_unix_nano == 1_764_500_000 * SECOND
    assert call.end_unix_nano - call.start_unix_nano == 1_250_000_000


@pytest.mark.parametrize("value", ["11/30/2025 10:53:20 AM", "10:53:20", "99/Nov/2025:11:53:20 +0100", 12.5])
def test_a_time_that_cannot_be_read_is_told_once(value: Any, analyse: Any) -> None:
    analysis, skipped = analyse(log=lines(*({"request": CHAT, "timestamp": value} for _ in range(3))))
    assert [c.start_unix_nano for c in calls(analysis)] == [0, 0, 0]
    (note,) = skipped
    assert note.where == "log:1"
    assert note.why.startswith("a time that cannot be read")


def conversation(times: list[int | None]) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = []
    rows = []
    for n, second in enumerate(times):
        history = [*history, {"role": "user", "content": f"Question {n}"}]
        when = {} if second is None else {"ts": 1_764_500_000 + second}
        rows.append(
            {
                **when,
                "request": {**ANTHROPIC, "messages": history},
                "response": {**CLAUDE_ANSWER, "id": f"msg_{n}"},
            }
        )
        history = [*history, {"role": "assistant", "content": "Hello."}]
    return rows


@pytest.mark.parametrize(
    "times",
    [
        [0, None, 60],
        [None, 0, 60],
        [0, 60, None],
        [None, None, 0],
        [0, None, None, 60],
        [0, None, 3600, None],
    ],
)
def test_a_record_without_a_time_keeps_its_place(times: list[int | None], analyse: Any) -> None:
    analysis, _ = analyse(log=lines(*conversation(times)))
    assert [c.id for c in calls(analysis)] == [f"log:{n}" for n in range(1, len(times) + 1)]
    assert [r.turn for r in analysis.readings] == list(range(1, len(times) + 1))
    assert [r.call.start_unix_nano == 0 for r in analysis.readings] == [t is None for t in times]
    assert "ttl_expired" not in {f.kind for f in analysis.findings}


def test_records_without_times_keep_their_places_beside_another_log(analyse: Any) -> None:
    (first,) = conversation([30])
    other = [{**first, "response": {**CLAUDE_ANSWER, "id": "msg_other"}}]
    analysis, _ = analyse(a=lines(*conversation([0, None, 60])), b=lines(*other))
    assert [c.id for c in calls(analysis)] == ["a:1", "a:2", "b:1", "a:3"]


def test_pauses_that_nobody_told_are_not_called_short(analyse: Any) -> None:
    """An hour of lifetime was paid for; whether it was needed is not known where there are no times."""
    hour = {**CLAUDE_ANSWER["usage"], "cache_creation_input_tokens": 900, "cache_creation": {
        "ephemeral_1h_input_tokens": 900, "ephemeral_5m_input_tokens": 0}}  # fmt: skip
    rows = [{**row, "response": {**row["response"], "usage": hour}} for row in conversation([None] * 20)]
    analysis, _ = analyse(log=lines(*rows))
    assert "ttl_overpaid" not in {f.kind for f in analysis.findings}
    timed = [{**row, "ts": 1_764_500_000 + n} for n, row in enumerate(rows)]
    analysis, _ = analyse(log=lines(*timed))
    assert "ttl_overpaid" in {f.kind for f in analysis.findings}


def test_without_times_records_come_in_their_order(analyse: Any) -> None:
    history: list[dict[str, Any]] = []
    requests = []
    for n in range(12):
        history = [*history, {"role": "user", "content": f"Question {n}"}]
        requests.append({"model": "gpt-4o", "messages": history})
        history = [*history, {"role": "assistant", "content": f"Answer {n}"}]
    analysis, _ = analyse(log=lines(*requests))
    assert [c.id for c in calls(analysis)] == [f"log:{n}" for n in range(1, 13)]
    assert [r.turn for r in analysis.readings] == list(range(1, 13))
    assert not any(r.break_ for r in analysis.readings)


def test_a_request_sent_twice_is_two_calls(analyse: Any) -> None:
    analysis, _ = analyse(log=lines({"request": CHAT}, {"request": CHAT, "response": ANSWER}))
    assert len(calls(analysis)) == 2


def test_sessions_that_share_a_log_are_not_one(analyse: Any) -> None:
    one, two = ({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]} for text in ("A?", "B?"))
    analysis, _ = analyse(log=lines(one, two))
    assert len(analysis.conversations) == 2


# ---- damage


CORRUPT = {
    "cut": lines(CHAT)[:40],
    "no JSON": b"{]",
    "no UTF-8": lines(CHAT).replace(b"Hi!", b"H\xff!"),
    "a key twice": b'{"model":"m","messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}',
    "NaN": b'{"temperature":NaN,' + lines(CHAT)[1:],
    "too large a number": b'{"temperature":1e999,' + lines(CHAT)[1:],
    "too deep": b'{"x":' + b"[" * 200 + b"]" * 200 + b"," + lines(CHAT)[1:],
    "no request": b'{"hello":"world"}',
    "null": b"[null]",
    "messages that are none": b'{"messages":["Hi!"]}',
}


@pytest.mark.parametrize("name", CORRUPT)
def test_a_corrupt_record_is_named_with_its_line_and_passed_over(name: str, analyse: Any) -> None:
    good = lines(CHAT)
    analysis, skipped = analyse(log=b"\n".join([good, CORRUPT[name], good + b"\n"]))
    assert [c.id for c in calls(analysis)] == ["log:1", "log:3"]
    (note,) = skipped
    assert note.where.startswith("log:2") or note.where == "log, record 2.1"
    assert "Hi" not in note.why


def test_a_corrupt_record_of_a_list_is_named_with_its_number(analyse: Any) -> None:
    analysis, skipped = analyse(log=json.dumps([CHAT, {"a": 1}, ANTHROPIC]).encode())
    assert [c.id for c in calls(analysis)] == ["log:1", "log:3"]
    assert [s.where for s in skipped] == ["log, record 2"]


@pytest.mark.parametrize("data", [b"[]", b"[{}]", b'{"model":"m"}', b"[1,2]"])
def test_a_log_without_a_request_is_refused(data: bytes, analyse: Any) -> None:
    with pytest.raises(InputError):
        analyse(log=data)


def test_the_format_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(lines({"hello": "world"}, CHAT))
    (batch,) = read([path], format="raw-requests")
    assert [span.span_id for span in batch.spans] == ["2"]
    assert batch.skipped == (Skipped(f"{path}:1", "no request body of a known shape"),)


# ---- nothing makes it fail


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "a", "{", "data: {}", "1"]),
    lambda inside: st.lists(inside, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [*raw_bodies._REQUESTS, *raw_bodies._ANSWERS, "messages", "contents", "model", "usage", "role", "content",
             "parts", "error", "status", "timestamp", "custom_id", "requests", "choices", "candidates", "system", "tools",
             "headers", "metadata", "conversation", "prompt", "cache_control", "duration", "type", "id"]
        ),
        inside,
        max_size=5,
    ),
    max_leaves=25,
)  # fmt: skip


@given(values)
def test_no_record_makes_it_fail(value: Any) -> None:
    raw_requests.claims(value)
    skipped: list[Skipped] = []
    items = iter([Item("1", "log:1", value)])
    spans = [span for records in raw_requests.read(items, "log", skipped) for span in records.spans]
    assert spans or skipped
    for span in spans:
        exchange.read(span)
    engine = Engine()
    engine.feed(spans)
    engine.close()


# ---- beside telemetry


def test_a_log_beside_spans_is_no_second_instrumentation() -> None:
    case = CORPUS / "oi-anthropic"
    command = ["doctor", str(case / "requests.jsonl.gz"), str(case / "traces.jsonl.gz")]
    result = CliRunner().invoke(main, command, env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "(no scope: raw-requests)" in result.stdout
    assert "Nothing is withheld." in result.stdout


def test_a_gate_does_not_judge_a_log_with_a_corrupt_record(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(lines({**CHAT, "tools": []}) + b"\n" + CORRUPT["a key twice"])
    result = CliRunner().invoke(main, ["analyze", str(log), "--fail-on", "error"])
    assert result.exit_code == 2
    assert "log.jsonl:2: JSON with a key that an object has twice" in result.stderr


# ---- items that are only named


def test_an_item_that_an_earlier_answer_of_the_log_holds(analyse: Any) -> None:
    said = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello."}],
    }
    named = {"type": "item_reference", "id": "msg_1"}
    first = {"body": RESPONSES, "response": {"object": "response", "id": "resp_1", "output": [said]}}
    later = {**RESPONSES, "input": [HI, named, {"role": "user", "content": "And?"}]}
    analysis, skipped = analyse(one=lines(first, {"body": later}))
    assert not skipped
    (_, call) = calls(analysis)
    assert [text for _, text in texts(analysis, call)] == ["Be kind.", "Hi!", "Hello.", "And?"]
    assert (call.completeness.status, analysis.readings[1].relation) == ("full", "continues")


@pytest.mark.parametrize(
    "kept",
    [
        {"type": "item_reference", "id": "msg_9"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "item_reference"},
    ],
)
def test_an_item_that_only_the_server_can_read_is_missed(kept: dict[str, Any], analyse: Any) -> None:
    analysis, _ = analyse(one=lines({**RESPONSES, "input": [HI, kept]}))
    (call,) = calls(analysis)
    assert call.completeness.status == "partial"
    assert "server_side" in call.completeness.reasons
    assert call.completeness.lost >= {"messages"}


def test_the_newest_items_are_kept() -> None:
    answered = Answered()
    for n in range(5_000):
        answered.learn({"output": [{"id": f"msg_{n}", "type": "message"}]})
    asked = {"input": [{"type": "item_reference", "id": f"msg_{n}"} for n in (0, 4_999)]}
    filled = answered.filled(asked)
    assert filled is not None
    assert [item["type"] for item in filled["input"]] == ["item_reference", "message"]
    assert asked["input"][1]["type"] == "item_reference", "the record is as it was"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            '{"model": "m", "messages": [{"role": "user", "content": "a"}], "model": "n"}',
            "a key that an object has",
        ),
        (
            '{"model": "m", "messages": [{"role": "user", "content": "a"}], "temperature": NaN}',
            "a number that JSON does",
        ),
    ],
)
@pytest.mark.parametrize("name", ["body", "request"])
def test_a_request_in_a_string_is_repaired_no_more_than_a_bare_one(
    name: str, body: str, why: str, analyse: Any
) -> None:
    analysis, skipped = analyse(log=lines({name: body}, {name: json.dumps(CHAT)}))
    assert [c.id for c in calls(analysis)] == ["log:2"]
    (one,) = skipped
    assert one.where == "log:1"
    assert one.why.startswith(f"its request is JSON with {why}")
