"""Logs that put a request in a way of their own: Bedrock's invocation logs, LiteLLM's, HAR files, CloudWatch's events."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from otel_ctx import Engine, Settings, read
from otel_ctx.inputs import Skipped
from otel_ctx.model import Call, Reading
from otel_ctx.reports import report_of
from otel_ctx_cli.main import main

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{MODEL}"
RULES = "Look the order up before you answer. " * 200  # more than the least that is cached
TOOL = {"name": "look", "description": "Looks an order up", "input_schema": {"type": "object"}}


def converse(turn: int) -> dict[str, Any]:
    said: list[dict[str, Any]] = [{"role": "user", "content": [{"text": "Where is it?"}]}]
    for n in range(1, turn):
        said += [
            {"role": "assistant", "content": [{"text": f"Here, {n}."}]},
            {"role": "user", "content": [{"text": f"And {n}?"}]},
        ]
    return {"system": [{"text": RULES}, {"cachePoint": {"type": "default"}}], "messages": said}


def invoke(turn: int) -> dict[str, Any]:
    said = [{"role": m["role"], "content": m["content"][0]["text"]} for m in converse(turn)["messages"]]
    return {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 64,
        "system": RULES,
        "tools": [TOOL],
        "messages": said,
    }


def invocation(turn: int, **more: Any) -> dict[str, Any]:
    """``more``: "body", "answer" and "model" in their places, and what stands beside them."""
    read_, written = (0, 1500) if turn == 1 else (1500, 0)
    given = {
        "inputContentType": "application/json",
        "inputBodyJson": more.pop("body", None) or converse(turn),
        "inputTokenCount": 10 * turn,
        "cacheReadInputTokenCount": read_,
        "cacheWriteInputTokenCount": written,
    }
    taken = {"outputContentType": "application/json", "outputTokenCount": 7}
    if "answer" in more:
        taken["outputBodyJson"] = more.pop("answer")
    return {
        "schemaType": "ModelInvocationLog",
        "schemaVersion": "1.0",
        "timestamp": f"2026-11-30T10:0{turn}:00Z",
        "accountId": "123456789012",
        "requestId": f"req-{turn}",
        "operation": "Converse",
        "modelId": more.pop("model", PROFILE),
        "input": given,
        "output": taken,
        **more,
    }


def lines(*records: object) -> bytes:
    return b"".join(orjson.dumps(record) + b"\n" for record in records)


def told(*paths: Path) -> tuple[list[Reading], list[Skipped]]:
    engine, skipped = Engine(), []
    for batch in read(paths):
        engine.feed(batch.spans, batch.logs)
        skipped += batch.skipped
    return list(engine.close().readings), skipped


def numbers(call: Call) -> tuple[int | None, ...]:
    u = call.usage
    return u.input, u.cache_read, u.cache_write, u.output


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.json"


# ---- Bedrock


STREAM = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "model": "claude-sonnet-4-5-20250929",
            "usage": {"input_tokens": 11, "cache_creation_input_tokens": 1500, "cache_read_input_tokens": 0},
        },
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Here."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 11}},
]


def test_a_streamed_answer_is_read_event_by_event(log: Path) -> None:
    log.write_bytes(lines(invocation(1, body=invoke(1), answer=STREAM)))
    (reading,), skipped = told(log)
    assert numbers(reading.call) == (1511, 0, 1500, 9)
    assert reading.call.response_id == "msg_1"
    assert skipped == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"answer": {"output": {"message": {"role": "assistant", "content": [{"text": "Here."}]}}}},
    ],
    ids=["no body", "no usage"],
)
def test_the_counts_of_the_record_stand_in_for_those_of_the_answer(log: Path, more: dict[str, Any]) -> None:
    """Without the cached tokens, as Converse counts."""
    log.write_bytes(lines(*(invocation(turn, **more) for turn in (1, 2, 3))))
    readings, _ = told(log)
    assert [numbers(r.call) for r in readings] == [(1510, 0, 1500, 7), (1520, 1500, 0, 7), (1530, 1500, 0, 7)]
    assert [r.relation for r in readings] == ["new", "continues", "continues"]


def test_the_numbers_of_the_answer_go_before_those_of_the_record(log: Path) -> None:
    usage = {"inputTokens": 12, "outputTokens": 8, "cacheReadInputTokens": 0, "cacheWriteInputTokens": 1500}
    log.write_bytes(lines(invocation(1, answer={"usage": usage})))
    (reading,), _ = told(log)
    assert numbers(reading.call) == (1512, 0, 1500, 8)


def test_a_record_whose_bodies_are_not_logged_is_a_call_all_the_same(log: Path) -> None:
    record = invocation(1)
    del record["input"]["inputBodyJson"]
    log.write_bytes(lines(record))
    (reading,), skipped = told(log)
    assert (reading.call.completeness.status, numbers(reading.call)) == ("usage_only", (1510, 0, 1500, 7))
    assert skipped == []


def test_what_was_refused_has_failed_and_written_nothing(log: Path) -> None:
    refused = invocation(1, errorCode="ThrottlingException")
    del refused["output"]
    log.write_bytes(lines(refused, *(invocation(turn) for turn in (1, 2))))
    engine = Engine()
    for batch in read([log]):
        engine.feed(batch.spans)
    analysis = engine.close()
    first, second, third = (r.call for r in analysis.readings)
    assert (first.status, first.error, numbers(first)) == ("error", "ThrottlingException", (None,) * 4)
    assert (second.status, third.status) == ("ok", "ok")
    assert "provider_side_miss" not in {f.kind for f in analysis.findings}


@pytest.mark.parametrize(
    "model",
    [
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        MODEL,
        PROFILE,
        "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws-us-gov:bedrock:us-gov-west-1:123456789012:inference-profile/us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
        f"bedrock/{PROFILE}",
    ],
)
def test_a_model_is_priced_by_whichever_name_it_is_called(log: Path, model: str) -> None:
    log.write_bytes(lines(invocation(1, model=model)))
    (reading,), _ = told(log)
    assert reading.cost is not None
    times = 1 if "global." in model else 1.1  # in one region or geography
    assert reading.cost.usd == pytest.approx(times * (10 * 3 + 1500 * 3.75 + 7 * 15) / 1e6)
    assert reading.call.platform == "bedrock"


def test_an_application_profile_names_no_model_and_has_no_price(log: Path) -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcd1234"
    log.write_bytes(lines(invocation(1, model=arn)))
    (reading,), _ = told(log)
    assert (reading.cost, reading.call.platform) == (None, "bedrock")


@pytest.mark.parametrize(
    ("version", "platform"), [("bedrock-2023-05-31", "bedrock"), ("vertex-2023-10-16", "vertex")]
)
def test_anthropics_api_is_served_by_whom_its_version_names(log: Path, version: str, platform: str) -> None:
    answer = {"id": "msg_1", "model": "claude-sonnet-4-5-20250929", "content": []}
    log.write_bytes(lines({"request": {**invoke(1), "anthropic_version": version}, "response": answer}))
    (reading,), _ = told(log)
    assert reading.call.platform == platform


def test_an_invoked_model_is_bedrocks(log: Path) -> None:
    answer = {"id": "msg_1", "model": "claude-sonnet-4-5-20250929", "content": []}
    log.write_bytes(lines(invocation(1, body=invoke(1), answer=answer)))
    (reading,), _ = told(log)
    assert (reading.call.provider, reading.call.platform) == ("bedrock", "bedrock")
    assert [s.name for s in reading.call.prompt.tools] == ["look"]


def test_embeddings_among_the_invocations_are_no_calls_and_no_damage(log: Path) -> None:
    embedding = invocation(2, body={"inputText": "Hi"}, model="amazon.titan-embed-text-v2:0")
    log.write_bytes(lines(invocation(1), embedding))
    readings, skipped = told(log)
    assert len(readings) == 1
    assert skipped == []


def _in_a_bucket(folder: Path) -> None:
    key = "AWSLogs/123456789012/BedrockModelInvocationLogs/us-east-1/2026/11/30/10"
    there = folder / key.partition("/")[2]
    (there / "data").mkdir(parents=True)
    large = invocation(2)
    del large["input"]["inputBodyJson"]
    large["input"]["inputBodyS3Path"] = f"s3://bucket/{key}/data/req-2_input.json.gz"
    large["output"]["outputBodyS3Path"] = f"s3://bucket/{key}/data/req-2_output.json.gz"
    logged = lines(invocation(1), large, invocation(3))
    (there / "20261130T100000000Z_ab.json.gz").write_bytes(gzip.compress(logged))
    (there / "data" / "req-2_input.json.gz").write_bytes(gzip.compress(orjson.dumps(converse(2))))
    answer = {"output": {"message": {"role": "assistant", "content": [{"text": "Here, 2."}]}}}
    (there / "data" / "req-2_output.json.gz").write_bytes(gzip.compress(orjson.dumps(answer)))


def test_a_large_body_is_read_where_it_lies_and_is_no_call_of_its_own(tmp_path: Path) -> None:
    _in_a_bucket(tmp_path)
    report = report_of([tmp_path], Settings())
    readings = report.analysis.readings
    assert [r.relation for r in readings] == ["new", "continues", "continues"]
    assert {r.call.completeness.status for r in readings} == {"full"}
    assert report.analysis.text(readings[1].call.answer[0].digest) == "Here, 2."
    assert (report.analysis.spans, len(report.inputs.files)) == (3, 1)


def test_a_large_body_that_is_not_there_is_missing_as_such(tmp_path: Path) -> None:
    _in_a_bucket(tmp_path)
    for file in tmp_path.rglob("req-2_*"):
        file.unlink()
    readings = report_of([tmp_path], Settings()).analysis.readings
    assert [r.call.completeness.reasons for r in readings] == [(), ("reference_missing",), ()]


def test_the_file_that_asks_for_permission_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "amazon-bedrock-logs-permission-check").touch()
    (tmp_path / "log.json").write_bytes(lines(*(invocation(turn) for turn in (1, 2))))
    (tmp_path / "empty.json").touch()
    assert [Path(s.where).name for s in told(tmp_path)[1]] == ["empty.json"]
    (tmp_path / "empty.json").unlink()
    ran = CliRunner().invoke(main, ["analyze", str(tmp_path), "--fail-on", "error"])
    assert ran.exit_code == 0, ran.output


# ---- CloudWatch


def _answer_of_the_api(records: list[dict[str, Any]]) -> bytes:
    events = [{"timestamp": 1796032800000, "message": json.dumps(r), "eventId": "1"} for r in records]
    return json.dumps({"events": events, "searchedLogStreams": []}, indent=4).encode()


def _exported(records: list[dict[str, Any]]) -> bytes:
    return b"".join(b"2026-11-30T10:01:00.000Z " + lines(r) for r in records)


def _tailed(records: list[dict[str, Any]]) -> bytes:
    start = b"2026-11-30T10:01:00.000000+00:00 aws/bedrock/modelinvocations "
    return b"".join(start + lines(r) for r in records)


@pytest.mark.parametrize(
    ("written", "places"),
    [(_answer_of_the_api, ["1.1", "1.2"]), (_exported, ["1", "2"]), (_tailed, ["1", "2"])],
)
def test_events_of_cloudwatch_are_the_records_that_they_hold(
    log: Path, written: Any, places: list[str]
) -> None:
    log.write_bytes(written([invocation(turn) for turn in (1, 2)]))
    readings, skipped = told(log)
    assert [r.call.id for r in readings] == [f"{log}:{place}" for place in places]
    assert [r.relation for r in readings] == ["new", "continues"]
    assert skipped == []


def test_lines_of_an_export_that_are_no_json_are_named(log: Path) -> None:
    log.write_bytes(
        _exported([invocation(1)])
        + b"2026-11-30T10:01:00.000Z START RequestId\n"
        + _exported([invocation(2)])
    )
    readings, skipped = told(log)
    assert len(readings) == 2
    assert [s.where for s in skipped] == [f"{log}:2"]


# ---- LiteLLM


CHAT = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "tool_choice": "required",
}
CHAT_ANSWER = {
    "id": "chatcmpl-1",
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 40, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}},
}
PAYLOAD = {  # LiteLLM's StandardLoggingPayload
    "id": "chatcmpl-1",
    "call_type": "acompletion",
    "status": "success",
    "custom_llm_provider": "openai",
    "prompt_tokens": 40,
    "completion_tokens": 3,
    "total_tokens": 43,
    "startTime": 1796032800.5,
    "endTime": 1796032802.5,
    "model": "gpt-4o-mini",
    "messages": CHAT["messages"],
    "response": CHAT_ANSWER,
    "model_parameters": {"tools": CHAT["tools"], "tool_choice": "required"},
}
SPENT = {  # a row of LiteLLM_SpendLogs
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "prompt_tokens": 40,
    "completion_tokens": 3,
    "total_tokens": 43,
    "startTime": "2026-11-30 10:01:00.123000",
    "endTime": "2026-11-30 10:01:02.123000",
    "model": "gpt-4o-mini",
    "messages": {},
    "response": {},
    "proxy_server_request": {**CHAT, "model": "our-own-name"},
}


@pytest.mark.parametrize(
    "record",
    [
        PAYLOAD,
        SPENT,
        {**SPENT, "messages": CHAT["messages"], "response": CHAT_ANSWER},
        {**SPENT, "messages": "{}", "response": "{}", "proxy_server_request": json.dumps(CHAT)},
        {**SPENT, "proxy_server_request": {"url": "http://proxy", "headers": {}, "body": CHAT}},
    ],
    ids=["payload", "row", "row with messages", "row of strings", "row with headers"],
)
def test_the_tools_of_litellms_records_are_read(log: Path, record: dict[str, Any]) -> None:
    log.write_bytes(lines({"timestamp": 1796032700, "request": CHAT}, record))
    (bare, reading), skipped = told(log)
    assert [s.digest for s in reading.call.prompt] == [s.digest for s in bare.call.prompt]
    assert reading.call.parameters == bare.call.parameters
    assert (reading.call.usage.input, reading.call.usage.output) == (40, 3)
    assert reading.call.model.startswith("gpt-4o-mini")
    assert skipped == []


def test_what_litellm_cut_out_of_a_text_is_missing(log: Path) -> None:
    cut = {
        **CHAT,
        "messages": [{"role": "user", "content": "Be ... (litellm_truncated skipped 900 chars) ... k"}],
    }
    log.write_bytes(lines({**SPENT, "proxy_server_request": cut}))
    (reading,), _ = told(log)
    assert reading.call.completeness.reasons == ("value_cut",)
    assert reading.call.completeness.lost == {"messages"}


def test_a_request_that_litellm_saw_fail_has_failed(log: Path) -> None:
    told_ = {"error_class": "RateLimitError", "error_message": "slow down"}
    more = {"status": "failure", "response": None, "prompt_tokens": 0, "error_information": told_}
    log.write_bytes(lines({**PAYLOAD, **more}))
    (reading,), _ = told(log)
    assert (reading.call.status, reading.call.error) == ("error", "RateLimitError")
    assert reading.call.usage.input is None


# ---- HAR


def anthropic(turn: int) -> dict[str, Any]:
    body = {"model": "claude-opus-4-5", **invoke(turn)}
    del body["anthropic_version"]
    return body


def har(*answers: dict[str, Any]) -> bytes:
    script = {
        "startedDateTime": "2026-11-30T10:00:00.000Z",
        "time": 20,
        "request": {"method": "GET", "url": "https://example.com/app.js", "headers": []},
        "response": {"status": 200, "content": {"mimeType": "text/javascript", "text": "1+1"}},
    }
    calls = [
        {
            "startedDateTime": f"2026-11-30T10:0{turn}:00.000Z",
            "time": 1520.5,
            "request": {
                "method": "POST",
                "url": "https://api.anthropic.com/v1/messages",
                "headers": [{"name": "X-Session-Id", "value": "s1"}],
                "postData": {
                    "mimeType": "application/json",
                    "text": json.dumps(anthropic(turn)),
                },
            },
            "response": {"status": 200, "content": answer},
        }
        for turn, answer in enumerate(answers, 1)
    ]
    return json.dumps({"log": {"version": "1.2", "entries": [script, *calls, script]}}, indent=1).encode()


def _whole(data: bytes) -> dict[str, Any]:
    return {"mimeType": "application/json", "text": data.decode()}


def _base64(data: bytes) -> dict[str, Any]:
    return {"text": base64.b64encode(data).decode(), "encoding": "base64"}


ANSWER = {
    "id": "msg_1",
    "model": "claude-opus-4-5",
    "content": [{"type": "text", "text": "Here, 1."}],
    "usage": {
        "input_tokens": 1511,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 9,
    },
}
EVENTS = b"".join(b"event: e\ndata: " + orjson.dumps(event) + b"\n\n" for event in STREAM)


@pytest.mark.parametrize(
    ("answer", "sizes"),
    [
        (_whole(orjson.dumps(ANSWER)), (1511, 9)),
        (_base64(orjson.dumps(ANSWER)), (1511, 9)),
        (_whole(EVENTS), (1511, 9)),
    ],
    ids=["json", "base64", "events"],
)
def test_the_requests_to_models_in_a_har_file_are_read_and_the_rest_is_not(
    log: Path, answer: dict[str, Any], sizes: tuple[int, int]
) -> None:
    log.write_bytes(har(answer, {"text": "", "size": 0}))
    (first, second), skipped = told(log)
    assert (first.call.id, second.call.id) == (f"{log}:1.2", f"{log}:1.3")
    assert (first.call.usage.input, first.call.usage.output) == sizes
    assert first.call.end_unix_nano - first.call.start_unix_nano == 1_520_500_000
    assert (first.call.platform, first.call.conversation_hint) == ("anthropic", "s1")
    assert second.relation == "continues"
    assert skipped == []


def test_a_har_file_without_such_requests_holds_none(log: Path) -> None:
    log.write_bytes(har())
    with pytest.raises(Exception, match="holds no spans"):
        told(log)


def _changed(*, request: Any = None, response: Any = None) -> bytes:
    """A HAR file of two requests, of the second of which something else was written."""
    document = json.loads(har(_whole(orjson.dumps(ANSWER)), _whole(orjson.dumps(ANSWER))))
    entry = document["log"]["entries"][2]
    if request is not None:
        entry["request"]["postData"] = request
    entry["response"]["content"] = response or entry["response"]["content"]
    return orjson.dumps(document)


TWICE = '{"model": "claude-opus-4-5", "max_tokens": 1, "messages": [], "messages": [{"role": "user", "content": "Hi!"}]}'


@pytest.mark.parametrize(
    ("data", "inputs", "why"),
    [
        (_changed(request={"text": json.dumps(anthropic(2))[:900]}), [1511], "its request is damaged"),
        (
            _changed(request={"text": TWICE}),
            [1511],
            "its request is JSON with a key that an object has twice",
        ),
        (_changed(response={"text": "!!no64", "encoding": "base64"}), [1511, None], "its answer is damaged"),
        (_changed(request=_base64(json.dumps(anthropic(2)).encode())), [1511, 1511], ""),
        (_changed(request={}), [1511, 1511], ""),
    ],
    ids=["cut", "twice", "no base64", "base64", "no body"],
)
def test_what_a_har_file_has_of_a_request_is_read_or_named(
    data: bytes, inputs: list[int | None], why: str, log: Path
) -> None:
    log.write_bytes(data)
    readings, skipped = told(log)
    assert [r.call.usage.input for r in readings] == inputs
    assert [(note.where, note.why.startswith(why)) for note in skipped] == [(f"{log}, record 1.3", True)][
        : bool(why)
    ]


PLAIN = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi!"}]}


@pytest.mark.parametrize(
    ("document", "odd"),
    [
        ({"requests": [{"request": PLAIN}, None, {"request": {**PLAIN, "user": "2"}}]}, [2]),
        ({"calls": [*({"a": 1} for _ in range(9)), {"request": PLAIN}, {"body": PLAIN}]}, list(range(1, 10))),
        (
            {"events": [{"message": json.dumps(invocation(1))}, {"message": None}, 1, {"message": json.dumps(invocation(2))}]},
            [2, 3],
        ),
        (
            {"log": {"entries": [*json.loads(_changed())["log"]["entries"][1:3], {"request": None}, None]}},
            [3, 4],
        ),
    ],
    ids=["requests", "calls", "events", "har"],
)  # fmt: skip
def test_an_odd_one_among_records_is_named_and_the_others_are_read(
    document: Any, odd: list[int], log: Path
) -> None:
    log.write_bytes(orjson.dumps(document))
    readings, skipped = told(log)
    assert len(readings) == 2
    assert [note.where for note in skipped] == [f"{log}, record 1.{n}" for n in odd]


@pytest.mark.parametrize(
    "record",
    [
        invocation(2, body=TWICE),
        {"events": [{"message": json.dumps(invocation(2)).replace('"messages": ', '"messages": [], "messages": ')}]},
        {"call_type": "acompletion", "model": "gpt-4o", "model_parameters": {"temperature": 0},
         "messages": '[{"role": "user", "content": "a", "content": "b"}]'},
        {"request": PLAIN, "response": '{"choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens": 9}}'},
    ],
    ids=["bedrock", "cloudwatch", "litellm", "answer"],
)  # fmt: skip
def test_text_that_has_a_key_twice_is_ambiguous_in_every_log(record: Any, log: Path) -> None:
    log.write_bytes(orjson.dumps(invocation(1)) + b"\n" + orjson.dumps(record))
    readings, skipped = told(log)
    assert len(readings) == 1
    assert ["a key that an object has twice" in note.why for note in skipped] == [True]
