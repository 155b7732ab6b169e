"""The GenAI conventions' dialects: spans, their events, log records, and the Anthropic SDK's own spans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import anthropic_sdk, genai, genai_events, semconv
from otel_ctx.dialects.fields import indexed
from otel_ctx.inputs.otlp_json import logs_of, spans_of
from otel_ctx.model import Event, LogRecord, Part, Raw, Span, Stored, Telling, UsageClaim
from otel_ctx.parts import read_messages
from tests.dialects import line, parts

if TYPE_CHECKING:
    from conftest import CorpusCase

CASES = (
    "otel-genai-openai-chat-spanonly",  # JSON strings on the span
    "otel-genai-bedrock-converse-eventonly",  # nested values on one log event
    "otel-genai-anthropic-upload",  # references only, and the SDK's own span below each call
    "otel-google-genai-07b2-legacy-events",  # one log event a message, all turns named user
    "otel-botocore-bedrock-converse",  # Bedrock's blocks, tool calls and results twice
    "otel-openai-v2-chat-legacy-events",
    "otel-openai-js-responses",  # input and answer in two events, the system prompt on the span as well
    "oll-bedrock-converse-stream",  # cache points written out as text
    "anthropic-sdk-contentcap",  # the oldest content cut away
    "strands-openai-default",  # span events
)
_EMPTY = Telling("", "call", "", "")


def read_span(span: Span) -> Telling | None:
    return anthropic_sdk.read(span) or genai.read(span)


def tellings(case: CorpusCase, *, hidden: bool = False) -> Iterator[Telling]:
    """All that a case tells; ``hidden``: with no scope's name on it."""
    for request in case.traces:
        for span in spans_of(request, ""):
            said = read_span(replace(span, scope_name="", scope_version="") if hidden else span)
            if said is not None:
                yield said
    for request in case.logs:
        for record in logs_of(request, ""):
            said = genai_events.read_log(
                replace(record, scope_name="", scope_version="") if hidden else record
            )
            assert said is not None, record.name
            yield said


def span(attributes: Mapping[str, Any], *events: Event, **more: Any) -> Span:
    return Span("t", "s", "p", "chat m", 1_000_000_000, 4_000_000_000, attributes, events=events, **more)


def told(attributes: Mapping[str, Any], *events: Event, **more: Any) -> Telling:
    said = genai.read(
        span({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes}, *events, **more)
    )
    assert said is not None
    return said


def record(
    name: str, body: Any = None, attributes: Mapping[str, Any] | None = None, **more: Any
) -> LogRecord:
    return LogRecord("t", "s", name, 7, body, attributes or {}, **more)


def log_told(
    name: str, body: Any = None, attributes: Mapping[str, Any] | None = None, **more: Any
) -> Telling:
    said = genai_events.read_log(record(name, body, attributes, **more))
    assert said is not None
    return said


# ---- what real instrumentations wrote


@pytest.mark.parametrize("name", CASES)
def test_corpus(
    name: str, corpus_case: Callable[[str], CorpusCase], golden: Callable[[str, object], None]
) -> None:
    golden(f"corpus/{name}/tellings.json", [_row(t) for t in tellings(corpus_case(name))])


_LEFT_OUT = {
    "trace_id",
    "parent_id",
    "start_unix_nano",
    "end_unix_nano",
    "order",
    "tools",
    "system",
    "messages",
    "output",
}


def _row(telling: Telling) -> dict[str, Any] | str:
    """What is said of a call, its content as one line a part; a record with one message is one line."""
    sections = {k: _section(getattr(telling, k)) for k in ("tools", "system", "messages", "output")}
    content = {k: v for k, v in sections.items() if v}
    if telling.role == "content" and telling.usage is None:
        return f"{telling.span_id} {sorted(telling.reasons)} {sorted(telling.lost)} {content}"
    empty = _EMPTY._asdict()
    row = {k: v for k, v in telling._asdict().items() if k not in _LEFT_OUT and v != empty[k]}
    row |= {k: sorted(row[k]) for k in ("reasons", "lost") if k in row}
    if telling.usage is not None:
        row["usage"] = {k: v for k, v in telling.usage._asdict().items() if v != UsageClaim()._asdict()[k]}
    return row | content


def _section(raw: Raw | None) -> list[str]:
    if raw is not None and isinstance(raw.value, Stored):
        return [f"stored at {raw.value.reference}"]
    return [line(p) for p in parts(raw)]


@pytest.mark.parametrize("name", CASES)
def test_hidden_scope_tells_the_same(name: str, corpus_case: Callable[[str], CorpusCase]) -> None:
    """But for what no attribute says: whether an absent number is 0 and absent tools are none."""

    def by_attributes(telling: Telling) -> Telling:
        usage = telling.usage
        bedrock_client = usage is not None and "botocore" in usage.semantics_evidence
        return telling._replace(
            scope="",
            scope_version="",
            usage=usage if usage is None or bedrock_client else usage._replace(zeros_omitted=False),
            reasons=telling.reasons - {"schema_missing", "logs_missing"},
            lost=telling.lost - {"tools"},
        )

    case = corpus_case(name)
    seen = [by_attributes(t) for t in tellings(case)]

    assert seen
    assert seen == [by_attributes(t) for t in tellings(case, hidden=True)]


def test_a_botocore_tool_result_comes_out_once(corpus_case: Callable[[str], CorpusCase]) -> None:
    by_span: dict[str, list[Part]] = {}
    for t in tellings(corpus_case("otel-botocore-bedrock-converse")):
        if t.role == "content":
            by_span.setdefault(t.span_id, []).extend(parts(t.messages))

    longest = max(by_span.values(), key=len)

    for kind in ("tool_call", "tool_result"):
        ids = [p.call_id for p in longest if p.kind == kind]
        assert len(ids) == 5
        assert len(ids) == len(set(ids))
    assert longest[-1].cache_marker == "default"


# ---- which spans tell of a call


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, "call"),
        ({"gen_ai.operation.name": "generate_content"}, "call"),
        ({"gen_ai.operation.name": "text_completion"}, "call"),
        ({"gen_ai.operation.name": "generateText"}, "call"),
        ({"gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 3}, "call"),
        ({"gen_ai.request.model": "m", "gen_ai.input.messages": "[]"}, "call"),
        (
            {
                "gen_ai.operation.name": "new_thing",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 3,
            },
            "call",
        ),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 3}, "aggregate"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "[]"}, "aggregate"),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, "aggregate"),
        ({"gen_ai.operation.name": "create_agent", "gen_ai.system_instructions": "s"}, "aggregate"),
        ({"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": "c"}, "aggregate"),
        (
            {"traceloop.span.kind": "workflow", "gen_ai.usage.input_tokens": 3, "gen_ai.request.model": "m"},
            "aggregate",
        ),
        ({"agent_name": "a", "gen_ai.usage.input_tokens": 3}, "aggregate"),
        ({"gen_ai.operation.name": "invoke_agent"}, None),
        (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.request.model": "m"},
            None,
        ),
        ({"traceloop.span.kind": "tool", "gen_ai.agent.name": "a", "gen_ai.usage.input_tokens": 3}, None),
        (
            {
                "gen_ai.operation.name": "embeddings",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 3,
            },
            None,
        ),
        ({"llm.request.type": "rerank", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3}, None),
        ({"gen_ai.usage.input_tokens": 3}, None),
        ({"gen_ai.request.model": "m"}, None),
        ({"http.request.method": "POST"}, None),
    ],
)
def test_role(attributes: dict[str, Any], role: str | None) -> None:
    said = genai.read(span(attributes))

    assert (said.role if said else None) == role


# ---- numbers


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("gen_ai.usage.input_tokens", "input"),
        ("gen_ai.usage.prompt_tokens", "input"),
        ("gen_ai.usage.output_tokens", "output"),
        ("gen_ai.usage.completion_tokens", "output"),
        ("gen_ai.usage.cache_read.input_tokens", "cache_read"),
        ("gen_ai.usage.cache_read_input_tokens", "cache_read"),
        ("gen_ai.usage.input_tokens.cached", "cache_read"),
        ("gen_ai.usage.cached_tokens", "cache_read"),
        ("gen_ai.usage.details.cache_read_tokens", "cache_read"),
        ("gen_ai.usage.cache_write.input_tokens", "cache_write"),
        ("gen_ai.usage.cache_creation.input_tokens", "cache_write"),
        ("gen_ai.usage.cache_creation_input_tokens", "cache_write"),
        ("gen_ai.usage.details.cache_write_tokens", "cache_write"),
        ("anthropic.usage.cache_creation.ephemeral_1h_input_tokens", "cache_write_1h"),
        ("anthropic.usage.cache_creation.ephemeral_5m_input_tokens", "cache_write_5m"),
        ("gen_ai.usage.reasoning.output_tokens", "reasoning"),
        ("gen_ai.usage.reasoning_tokens", "reasoning"),
        ("gen_ai.usage.total_tokens", "total"),
        ("llm.usage.total_tokens", "total"),
    ],
)
def test_every_name_of_a_count(name: str, field: str) -> None:
    others = {"gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 6}
    if field in ("input", "output"):
        others.pop(f"gen_ai.usage.{field}_tokens")

    claim = semconv.usage({**others, name: 7})

    assert claim is not None
    assert getattr(claim, field) == 7
    assert claim.semantics == ""


def test_no_count_is_no_claim() -> None:
    assert told({}).usage is None
    assert told({"gen_ai.usage.input_tokens": True, "gen_ai.usage.output_tokens": "many"}).usage is None


def test_the_scope_says_that_zeros_are_left_out() -> None:
    counts = {"gen_ai.usage.input_tokens": 5}

    for scope, version, omitted in (
        ("opentelemetry.instrumentation.genai.openai", "1.3b0", True),
        ("opentelemetry.util.genai.handler", "1.3b0", True),
        ("opentelemetry.util.genai.handler", "0.4b0", False),
        ("opentelemetry.instrumentation.openai_v2", "", False),
        ("", "", False),
    ):
        usage = told(counts, scope_name=scope, scope_version=version).usage
        assert usage is not None
        assert usage.zeros_omitted is omitted, scope


def test_botocore_leaves_an_input_of_zero_out_too() -> None:
    client = {"gen_ai.system": "aws.bedrock", "rpc.system": "aws-api", "gen_ai.usage.output_tokens": 4}
    converse = told({**client, "rpc.method": "Converse", "gen_ai.usage.cache_read.input_tokens": 900}).usage
    invoke = told({**client, "rpc.method": "InvokeModel"}).usage

    assert converse is not None
    assert invoke is not None
    assert (converse.input, converse.semantics, converse.zeros_omitted) == (0, "exclusive", True)
    assert (invoke.input, invoke.semantics, invoke.zeros_omitted) == (None, "exclusive", False)


def test_openllmetry_gemini_thoughts_stand_only_in_the_total() -> None:
    counts = {
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.total_tokens": 55,
    }
    usage = told(counts, scope_name="opentelemetry.instrumentation.google_generativeai").usage

    assert usage is not None
    assert (usage.output, usage.reasoning, usage.output_excludes_reasoning) == (5, 40, True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 1_500_000_000),
        (2, 3_000_000_000),
        (1671, 2_671_000_000),
        (5_000_000, None),
        (-1, None),
        ("1", 2_000_000_000),  # formats whose tags are text
    ],
)
def test_time_to_first_token_in_seconds_or_milliseconds(value: object, expected: int | None) -> None:
    assert told({"gen_ai.server.time_to_first_token": value}).first_token_unix_nano == expected


def test_a_first_token_is_no_later_than_otlp_can_tell() -> None:
    last = 2**64 - 1
    late = replace(
        span({"gen_ai.server.time_to_first_token": 0.0001}), start_unix_nano=last, end_unix_nano=last
    )

    assert semconv.first_token(late) == last


def test_the_first_chunk_event_is_the_first_token() -> None:
    chunks = [Event("gen_ai.content.completion.chunk", n, {}) for n in (1_700_000_000, 1_800_000_000)]

    assert told({}, *chunks).first_token_unix_nano == 1_700_000_000


# ---- who and what


def test_identity() -> None:
    said = told(
        {
            "gen_ai.system": "openai",
            "gen_ai.response.model": "m-2",
            "gen_ai.response.id": "r1",
            "gen_ai.request.max_tokens": 900,
            "gen_ai.agent.name": "a",
            "gen_ai.request.previous_response.id": "r0",
            "traceloop.association.properties.session_id": "s-1",
            "traceloop.association.properties.thread_id": "t-1",
        },
        resource={"service.name": "shop"},
        where="d.json:3",
    )

    assert (said.provider, said.request_model, said.response_model, said.response_id) == (
        "openai",
        "m",
        "m-2",
        "r1",
    )
    assert (said.reserve, said.agent, said.service, said.where) == (900, "a", "shop", "d.json:3")
    assert (said.previous_response_id, said.conversation_hint) == ("r0", "t-1")
    assert "server_side" in said.reasons
    assert "head" in said.lost


def test_provider_name_wins_over_the_old_system() -> None:
    assert (
        told({"gen_ai.system": "az.ai.openai", "gen_ai.provider.name": "azure.ai.openai"}).provider
        == "azure.ai.openai"
    )


def test_errors() -> None:
    failed = told({"error.type": "RateLimitError"}, status_code=2)
    cancelled = told({"error.type": "asyncio.exceptions.CancelledError"}, status_code=2)
    raised = told({}, Event("exception", 2, {"exception.type": "openai.BadRequestError"}), status_code=2)

    assert (failed.status, failed.error) == ("error", "RateLimitError")
    assert (cancelled.status, cancelled.error) == ("cancelled", "asyncio.exceptions.CancelledError")
    assert (raised.status, raised.error) == ("error", "openai.BadRequestError")
    assert told({}).status == "ok"


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is 128000 tokens, but 'my secret' has more",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (2000000) exceeds the maximum number of tokens allowed",
        "context_length_exceeded",
    ],
)
def test_an_exceeded_window_keeps_its_kind_and_no_text(words: str) -> None:
    by_status = told({"error.type": "BadRequestError"}, status_code=2, status_message=words)
    by_event = told(
        {}, Event("exception", 2, {"exception.type": "E", "exception.message": words}), status_code=2
    )

    assert by_status.error == by_event.error == "context_length_exceeded"


# ---- content, and what is missing of it


def test_messages_stay_unparsed() -> None:
    value = '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]'
    said = told({"gen_ai.input.messages": value, "gen_ai.system_instructions": "Be kind."})

    assert said.messages == Raw("messages", value)
    assert said.system == Raw("system", "Be kind.")


def test_tools_that_were_never_recorded() -> None:
    content = {"gen_ai.input.messages": "[]"}
    silent = told(content)
    outspoken = told(content, scope_name="opentelemetry.instrumentation.genai.openai", scope_version="1.3b0")
    empty = told({**content, "gen_ai.tool.definitions": '[{"name":"f","parameters":null,"type":"function"}]'})
    off = told({"gen_ai.usage.input_tokens": 3})

    assert "schema_missing" in silent.reasons
    assert "tools" in silent.lost
    assert not outspoken.reasons
    assert not outspoken.lost
    assert "schema_missing" in empty.reasons
    assert not off.reasons


def test_litellm_writes_a_tool_in_several_attributes() -> None:
    said = told(
        {
            "gen_ai.input.messages": "[]",
            "llm.request.functions.0.name": "f",
            "llm.request.functions.0.parameters": '{"type": "object"}',
        }
    )

    assert [(p.name, p.text) for p in parts(said.tools)] == [
        ("f", '{"name":"f","parameters":{"type":"object"}}')
    ]
    assert not said.lost


def test_keys_that_attributes_spell_have_an_order_of_their_own() -> None:
    """Attributes have no order. That inside a schema, which is one text, is the request's own."""
    attributes = {
        "gen_ai.input.messages": "[]",
        "llm.request.functions.0.name": "f",
        "llm.request.functions.0.description": "Finds.",
        "llm.request.functions.0.parameters": '{"type": "object", "properties": {}}',
    }
    turned = {key: attributes[key] for key in reversed(attributes)}

    assert parts(told(turned).tools) == parts(told(attributes).tools)
    assert parts(told(turned).tools)[0].text == (
        '{"name":"f","description":"Finds.","parameters":{"type":"object","properties":{}}}'
    )
    assert (
        indexed({"0.a.z": 1, "0.a.b.d": 2, "0.a.b.c": 3})[0]
        == indexed({"0.a.b.c": 3, "0.a.b.d": 2, "0.a.z": 1})[0]
    )
    assert [*indexed({"0.a.z": 1, "0.a.b": 2})[0][0]["a"]] == ["b", "z"]


def test_references() -> None:
    said = told(
        {"gen_ai.input.messages_ref": "file:///u/1.json", "gen_ai.tool.definitions_ref": "file:///u/2.json"}
    )

    assert said.messages == Raw("messages", Stored("file:///u/1.json"))
    assert said.tools == Raw("tools", Stored("file:///u/2.json"))
    assert not said.reasons
    assert not said.lost


def test_a_hidden_answer_is_no_loss_of_the_prompt() -> None:
    said = told({"gen_ai.input.messages": "[]", "gen_ai.output.messages": "[REDACTED]"})

    assert said.output is None
    assert "redacted" not in said.reasons
    assert "output" not in said.lost


@pytest.mark.parametrize(
    ("value", "cut"),
    [
        ('[{"role":"user","parts":[{"type":"te', True),
        ('[{"role":"user"}]', False),
        ("[]", False),
        ("[Note] be brief", False),
        ("{placeholders} stay", False),
    ],
)
def test_json_that_was_cut(value: str, cut: bool) -> None:
    said = told(
        {"gen_ai.system_instructions": value, "gen_ai.tool.definitions": "[]", "gen_ai.input.messages": "[]"}
    )

    assert ("value_cut" in said.reasons) is cut
    assert ("system" in said.lost) is cut
    assert said.system == Raw("system", value)


def test_masks_are_no_prompt() -> None:
    said = told({"gen_ai.input.messages": "[REDACTED]"})

    assert said.messages is None
    assert said.reasons == {"redacted"}


def test_dropped_attributes() -> None:
    said = told({"gen_ai.tool.definitions": "[]"}, dropped_attributes=3)

    assert "attributes_dropped" in said.reasons
    assert said.lost == {"system", "messages", "tools"} - {"tools"}


# ---- messages in events


def test_span_events_make_a_prompt() -> None:
    said = told(
        {"gen_ai.tool.definitions": "[]"},
        Event("gen_ai.system.message", 1, {"content": "Be kind."}),
        Event("gen_ai.user.message", 2, {"content": '[{"text": "hi"}, {"cachePoint": {"type": "default"}}]'}),
        Event(
            "gen_ai.assistant.message",
            3,
            {"content": '[{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]'},
        ),
        Event("gen_ai.tool.message", 4, {"content": '[{"a": 1}]', "id": "c"}),
        Event("gen_ai.choice", 5, {"message": '[{"text": "done"}]', "finish_reason": "stop"}),
        Event("gen_ai.content.completion.chunk", 6, {}),
    )

    assert [(p.kind, p.name, p.text, p.call_id, p.cache_marker) for p in parts(said.messages)] == [
        ("system", "", "Be kind.", "", ""),
        ("user", "", "hi", "", "default"),
        ("tool_call", "f", "{}", "c", ""),
        ("tool_result", "", '[{"a": 1}]', "c", ""),
    ]
    assert [(p.kind, p.text) for p in parts(said.output)] == [("assistant", "done")]


def test_dropped_events_take_the_head() -> None:
    said = told({}, Event("gen_ai.user.message", 2, {"content": "hi"}), dropped_events=2)

    assert "attributes_dropped" in said.reasons
    assert "head" in said.lost


def test_events_that_are_not_whole_say_so() -> None:
    details = "gen_ai.client.inference.operation.details"
    cut = Event("gen_ai.user.message", 2, {"role": "user"}, dropped_attributes=1)
    kept = Event("gen_ai.assistant.message", 3, {"content": "hi"})
    lone = Event(details, 1, {"gen_ai.system_instructions": "[]"})

    assert told({}, cut, kept).lost >= {"messages"}
    assert "attributes_dropped" in told({}, cut, kept).reasons
    assert told({}, lone, dropped_events=2).lost >= {"messages", "tools"}
    assert "attributes_dropped" in told({}, lone, dropped_events=2).reasons


def test_events_of_other_things_that_were_dropped_are_no_loss() -> None:
    said = told(
        {"gen_ai.usage.input_tokens": 9}, Event("gen_ai.content.completion.chunk", 2, {}), dropped_events=2
    )

    assert not said.reasons


def test_details_in_three_span_events() -> None:
    name = "gen_ai.client.inference.operation.details"
    said = told(
        {},
        Event(name, 1, {"gen_ai.system_instructions": '[{"type":"text","content":"Be kind."}]'}),
        Event(name, 2, {"gen_ai.input.messages": '[{"role":"user","parts":[]}]'}),
        Event(name, 3, {"gen_ai.output.messages": "[]"}),
    )

    assert said.system is not None
    assert said.messages == Raw("messages", '[{"role":"user","parts":[]}]')
    assert said.output is not None


def test_the_first_generation_of_events() -> None:
    said = told(
        {},
        Event(
            "gen_ai.content.prompt",
            1,
            {"gen_ai.prompt": '[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]'},
        ),
        Event(
            "gen_ai.content.completion", 2, {"gen_ai.completion": '[{"role": "assistant", "content": "a"}]'}
        ),
    )

    assert [(p.kind, p.text) for p in parts(said.messages)] == [("system", "s"), ("user", "u")]
    assert [(p.kind, p.text) for p in parts(said.output)] == [("assistant", "a")]


def test_attributes_win_over_events() -> None:
    said = told({"gen_ai.input.messages": "[1]"}, Event("gen_ai.user.message", 2, {"content": "hi"}))

    assert said.messages == Raw("messages", "[1]")


def test_event_content_in_one_attribute() -> None:
    said = told(
        {}, Event("gen_ai.user.message", 2, {"gen_ai.event.content": '{"role": "user", "content": "hi"}'})
    )

    assert [(p.kind, p.text) for p in parts(said.messages)] == [("user", "hi")]


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("gen_ai.system.message", {"content": "s"}, [("system", "s")]),
        ("gen_ai.user.message", '{"role": "user", "content": "as JSON"}', [("user", "as JSON")]),
        ("gen_ai.user.message", "plain", [("user", "plain")]),
        ("gen_ai.user.message", {"role": "developer", "content": "d"}, [("system", "d")]),
        (
            "gen_ai.user.message",
            {"content": {"role": "model", "parts": [{"text": "mine", "thought": None}]}},
            [("assistant", "mine")],
        ),
        ("gen_ai.tool.message", {"content": "[1]", "id": "c"}, [("tool_result", "[1]")]),
        (
            "gen_ai.assistant.message",
            {"content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            [("tool_call", "{}")],
        ),
    ],
)
def test_one_record_one_message(name: str, body: object, expected: list[tuple[str, str]]) -> None:
    said = log_told(name, body, {"gen_ai.system": "x"})

    assert (said.role, said.order, said.output) == ("content", 7, None)
    assert [(p.kind, p.text) for p in parts(said.messages)] == expected
    assert "tools" in said.lost


@pytest.mark.parametrize(
    "body",
    [
        {
            "index": 0,
            "message": {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        },
        {
            "index": 0,
            "message": {"content": None},
            "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}],
        },
        {"index": 0, "content": {"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]}},
    ],
)
def test_choices(body: object) -> None:
    said = log_told("gen_ai.choice", body)

    assert said.messages is None
    assert [(p.kind, p.name) for p in parts(said.output)] == [("tool_call", "f")]
    assert not said.lost


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gen_ai.user.message", None),
        ("gen_ai.user.message", {}),
        ("gen_ai.tool.message", {"id": "c"}),
        (
            "gen_ai.assistant.message",
            {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]},
        ),
    ],
)
def test_events_without_content_are_no_messages(name: str, body: object) -> None:
    said = log_told(name, body)

    assert said.messages is None
    assert "not_captured" in said.reasons


def test_only_bedrock_says_a_tool_result_twice() -> None:
    body = {"id": "c", "content": [{"text": "r"}]}

    assert log_told("gen_ai.tool.message", body, {"gen_ai.system": "aws.bedrock"}).messages is None
    assert log_told("gen_ai.tool.message", body, {"gen_ai.system": "openai"}).messages is not None


def test_details_stand_in_for_a_span_that_never_came() -> None:
    name = "gen_ai.client.inference.operation.details"
    said = log_told(
        name,
        None,
        {
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.response.id": "r",
            "gen_ai.request.model": "m",
        },
        dropped_attributes=1,
    )

    assert (said.response_id, said.request_model) == ("r", "m")
    assert said.usage == UsageClaim(input=3)
    assert "attributes_dropped" in said.reasons
    assert [p.text for p in parts(said.messages)] == ["hi"]


def test_other_log_records_are_none_of_ours() -> None:
    assert genai_events.read_log(record("gen_ai.evaluation.result")) is None
    assert genai_events.read_log(record("", "hello")) is None
    assert (
        genai_events.read_log(record("", {"content": "hi"}, {"event_name": "gen_ai.user.message"}))
        is not None
    )


# ---- the Anthropic SDK


def test_the_sdk_is_known_by_scope_or_by_attributes() -> None:
    counts = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9}
    by_scope = anthropic_sdk.read(span(counts, scope_name="com.anthropic.sdk.typescript"))
    by_mark = anthropic_sdk.read(span({**counts, "anthropic.request.id": "req_1"}))

    for said in (by_scope, by_mark):
        assert said is not None
        assert said.dialect == "anthropic_sdk"
        assert said.usage is not None
        assert said.usage.semantics == "inclusive"
    assert anthropic_sdk.read(span(counts)) is None
    assert (
        anthropic_sdk.read(
            span({"gen_ai.operation.name": "execute_tool"}, scope_name="com.anthropic.sdk.python")
        )
        is None
    )


def test_the_sdk_cuts_the_oldest_content() -> None:
    content = {"gen_ai.operation.name": "chat", "anthropic.request.id": "r", "gen_ai.input.messages": "[]"}
    cut = {**content, "anthropic.content.truncated": True}
    whole_system = anthropic_sdk.read(
        span({**cut, "gen_ai.system_instructions": '[{"type":"text","content":"s"}]'})
    )
    no_system = anthropic_sdk.read(span({**cut, "gen_ai.system_instructions": "[]"}))

    assert whole_system is not None
    assert no_system is not None
    assert whole_system.lost == {"tools", "head"}
    assert no_system.lost == {"tools", "head", "system"}
    assert "message_cut" in no_system.reasons


def test_message_threads_keep_the_history_on_the_server() -> None:
    said = anthropic_sdk.read(
        span(
            {
                "gen_ai.operation.name": "chat",
                "anthropic.request.id": "r",
                "anthropic.beta": ["message-threads-2026-08-12"],
            }
        )
    )

    assert said is not None
    assert "server_side" in said.reasons
    assert "head" in said.lost


# ---- blocks that were written out as text


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ('{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}', [("thinking", "hm")]),
        (
            '[{"type":"text","text":"hi"},{"type":"tool_use","id":"c","name":"f","input":{}}]',
            [("user", "hi"), ("tool_call", "{}")],
        ),
        ('[{"type":"row"}]', [("user", '[{"type":"row"}]')]),
        (
            "media_resolution=None file_data=FileData(\n  mime_type='application/pdf'\n) text=None",
            [("file", "application/pdf")],
        ),
        ("media_resolution= is a setting", [("user", "media_resolution= is a setting")]),
    ],
)
def test_written_out_blocks(block: str, expected: list[tuple[str, str]]) -> None:
    message = {"role": "user", "parts": [{"type": "text", "content": block}]}

    assert [(p.kind, p.text) for p in read_messages([message])[0]] == expected


def test_a_cache_point_written_out_marks_what_stands_before_it() -> None:
    point = {"type": "text", "content": '{"cachePoint": {"type": "default", "ttl": "1h"}}'}
    message = {"role": "user", "parts": [{"type": "text", "content": "hi"}, point]}

    assert [(p.text, p.cache_marker) for p in read_messages([message])[0]] == [("hi", "1h")]


def test_skeletons_without_content_are_no_parts() -> None:
    call = {"type": "tool_call", "id": "c", "name": "f"}
    result = {"type": "tool_call_response", "id": "c", "name": "f"}

    assert (
        read_messages(
            [{"role": "assistant", "parts": [call, {"type": "text"}]}, {"role": "tool", "parts": [result]}]
        )[0]
        == []
    )
    assert len(read_messages([{"role": "assistant", "parts": [{**call, "arguments": None}]}])[0]) == 1


# ---- anything at all

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5)
    | st.sampled_from(["[", '[{"', "chat", "invoke_agent", "aws-api", "aws.bedrock", "[REDACTED]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "parts", "message", "tool_calls", "function"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
_names = st.sampled_from(
    [
        *semconv.INPUT,
        *semconv.OUTPUT,
        *semconv.SYSTEM,
        *semconv.TOOLS,
        *semconv.PROVIDER,
        *semconv.OPERATION,
        *semconv.REQUEST_MODEL,
        *semconv.RESERVE,
        *semconv.PREVIOUS_RESPONSE,
        "gen_ai.usage.input_tokens",
        "gen_ai.response.time_to_first_chunk",
        "error.type",
        "rpc.system",
        "rpc.method",
        "llm.request.functions.0.name",
        "llm.request.functions.0.parameters",
        "anthropic.request.id",
        "anthropic.beta",
        "gen_ai.event.content",
        "gen_ai.prompt",
        "content",
        "message",
        "role",
        "tool_calls",
        "id",
    ]
)
_attributes = st.dictionaries(_names, _values, max_size=8)
_events = st.sampled_from(
    [
        "gen_ai.user.message",
        "gen_ai.choice",
        "gen_ai.content.prompt",
        "gen_ai.client.inference.operation.details",
        "exception",
    ]
)


@given(_attributes, st.lists(st.tuples(_events, _attributes), max_size=3), st.integers(0, 2))
def test_no_span_is_too_odd(
    attributes: dict[str, Any], events: list[tuple[str, dict[str, Any]]], status: int
) -> None:
    said = read_span(span(attributes, *(Event(n, 1, a) for n, a in events), status_code=status))

    assert said is None or said.trace_id == "t"


@given(_events, _values, _attributes)
def test_no_record_is_too_odd(name: str, body: object, attributes: dict[str, Any]) -> None:
    said = genai_events.read_log(record(name, body, attributes))

    assert said is None or said.role == "content"


def test_langtraces_tools_are_texts_in_a_list_in_a_text() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
    asked = Event("gen_ai.content.prompt", 1, {"gen_ai.prompt": '[{"role": "user", "content": "Where?"}]'})
    said = told(call | {"gen_ai.request.tools": json.dumps([json.dumps([tool])])}, asked)

    assert [p.name for p in parts(said.tools)] == ["look"]
    assert not said.reasons


def test_bare_names_of_tools_are_no_definitions() -> None:
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role": "user", "content": "Where?"}]',
    }

    assert "schema_missing" in told(call | {"gen_ai.tool.definitions": '["look"]'}).reasons
