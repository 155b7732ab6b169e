"""Langfuse's own observations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.dialects import langfuse
from otel_ctx.model import Telling, UsageClaim
from tests.dialects import pairs, parts, span

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = {"role": "user", "content": "Where is it?"}
INPUT = "langfuse.observation.input"


def told(value: Any = None, more: Mapping[str, Any] | None = None, **how: Any) -> Telling:
    attributes = {"langfuse.observation.type": "generation", **(more or {})}
    if value is not None:
        attributes[INPUT] = value if isinstance(value, str) else json.dumps(value)
    said = langfuse.read(span(attributes, **how))
    assert said is not None
    return said


def usage(details: Mapping[str, Any]) -> UsageClaim:
    claim = told([ASKED], {"langfuse.observation.usage_details": json.dumps(details)}).usage
    assert claim is not None
    return claim


# ---- by hand


@pytest.mark.parametrize("key", ["tools", "functions"])
def test_what_the_openai_client_got(key: str) -> None:
    said = told({key: [TOOL["function"]], "messages": [ASKED]})

    assert pairs(said.messages) == [("user", "Where is it?")]
    assert [p.name for p in parts(said.tools)] == ["look"]
    assert (said.reasons, said.lost) == (frozenset(), frozenset())


def test_tools_at_the_end_of_a_list_are_no_messages() -> None:
    result = {"role": "tool", "content": '{"found": true}', "tool_call_id": "c1"}
    anthropic = {"name": "take", "input_schema": {"type": "object"}}
    said = told([ASKED, result, {"role": "tool", "content": TOOL}, {"role": "tool", "content": anthropic}])

    assert pairs(said.messages) == [("user", "Where is it?"), ("tool_result", '{"found": true}')]
    assert [p.name for p in parts(said.tools)] == ["look", "take"]
    assert not said.lost


def test_a_list_that_uses_tools_without_having_any() -> None:
    said = told([ASKED, {"role": "tool", "content": "there", "tool_call_id": "c1"}])

    assert (said.reasons, said.lost) == ({"schema_missing"}, {"tools"})


def test_instructions_and_tools_of_responses_in_javascript() -> None:
    metadata = {
        "langfuse.observation.metadata.instructions": "Be kind.",
        "langfuse.observation.metadata.tools": json.dumps([TOOL["function"]]),
    }
    said = told("Where is it?", metadata)

    assert pairs(said.system) == [("system", "Be kind.")]
    assert pairs(said.messages) == [("user", "Where is it?")]
    assert [p.name for p in parts(said.tools)] == ["look"]


def test_history_on_the_server() -> None:
    said = told([ASKED], {"langfuse.observation.metadata.previous_response_id": "r0"})

    assert (said.previous_response_id, said.reasons, said.lost) == ("r0", {"server_side"}, {"head"})


@pytest.mark.parametrize(
    "mask", ["***", '"***"', "<fully masked due to failed mask function>", "<masking failed>", "[REDACTED]"]
)
def test_a_mask_is_no_prompt(mask: str) -> None:
    said = told(mask)

    assert said.messages is None
    assert (said.reasons, said.lost) == ({"redacted"}, {"tools", "system", "messages"})


def test_a_masked_message_leaves_a_hole() -> None:
    said = told([{"role": "system", "content": "***"}, ASKED])

    assert [(p.path, p.text) for p in parts(said.messages)] == [("messages[1].parts[0]", "Where is it?")]
    assert (said.reasons, said.lost) == ({"redacted"}, {"messages"})


def test_a_mask_is_no_answer() -> None:
    assert told([ASKED], {"langfuse.observation.output": "***"}).output is None


@pytest.mark.parametrize(("dropped", "reason"), [(0, "not_captured"), (3, "attributes_dropped")])
def test_no_input_at_all(dropped: int, reason: str) -> None:
    assert told(None, dropped_attributes=dropped).reasons == {reason}


def test_an_input_that_was_cut_keeps_its_beginning() -> None:
    whole = json.dumps({"tools": [TOOL], "messages": [ASKED]})
    said = told(whole[: whole.index("s it?")])

    assert pairs(said.messages) == [("user", "Where i")]
    assert (said.reasons, said.lost) == ({"value_cut"}, {"system", "messages"})


def test_an_applications_own_input() -> None:
    assert told({"question": "Where is it?"}).reasons == {"unparsable"}
    assert pairs(told("Where is it?").messages) == [("user", "Where is it?")]
    assert pairs(told(ASKED).messages) == [("user", "Where is it?")]


@pytest.mark.parametrize(
    "answer", ["There.", {"role": "assistant", "content": "There."}, {"content": "There."}]
)
def test_answers(answer: Any) -> None:
    written = answer if isinstance(answer, str) else json.dumps(answer)

    assert pairs(told([ASKED], {"langfuse.observation.output": written}).output) == [("assistant", "There.")]


def test_a_providers_own_usage() -> None:
    details = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}

    assert usage(details) == UsageClaim(input=30, output=5, cache_read=20, semantics="inclusive")


def test_buckets_exclude_each_other() -> None:
    claim = usage({"input": 8, "output": 3, "total": 35, "input_cached_tokens": 20, "input_audio_tokens": 2,
                   "output_reasoning_tokens": 2})  # fmt: skip

    assert (claim.input, claim.cache_read, claim.output, claim.reasoning) == (10, 20, 5, 2)
    assert (claim.semantics, claim.total, claim.zeros_omitted) == ("exclusive", 35, True)


def test_buckets_without_a_total() -> None:
    claim = usage({"input": 8, "output": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4})

    assert (claim.input, claim.cache_read, claim.cache_write, claim.semantics) == (8, 20, 4, "exclusive")


def test_writes_that_were_taken_off_twice() -> None:
    details = {
        "input": 0,
        "output": 5,
        "total": 35,
        "input_cache_creation": 20,
        "input_ephemeral_5m_input_tokens": 20,
    }

    claim = usage(details)

    assert (claim.input, claim.cache_write, claim.cache_write_5m, claim.semantics) == (
        30,
        20,
        20,
        "inclusive",
    )


def test_a_total_of_input_and_output_leaves_the_meaning_open() -> None:
    claim = usage({"input": 30, "output": 5, "total": 35, "cache_read_input_tokens": 20})

    assert (claim.input, claim.semantics) == (30, "")


def test_no_usage() -> None:
    assert told([ASKED]).usage is None
    assert told([ASKED], {"langfuse.observation.usage_details": "{}"}).usage is None


def test_what_langchain_says_is_json() -> None:
    said = told([ASKED], {"langfuse.observation.metadata.ls_provider": '"anthropic"',
                          "langfuse.observation.metadata.thread_id": '"th"'})  # fmt: skip

    assert (said.provider, said.conversation_hint) == ("anthropic", "th")


def test_when_the_first_token_came() -> None:
    first = {"langfuse.observation.completion_start_time": '"2026-11-30T03:56:05.670189Z"'}

    assert told([ASKED], first).first_token_unix_nano == 1_796_010_965_670_189_000
    assert (
        told([ASKED], {"langfuse.observation.completion_start_time": '"soon"'}).first_token_unix_nano is None
    )


@pytest.mark.parametrize(("limit", "reserve"), [("Infinity", None), ("inf", None), (99, 99), ("99", 99)])
def test_the_reserve(limit: Any, reserve: int | None) -> None:
    parameters = {
        "langfuse.observation.model.parameters": json.dumps({"temperature": 1, "max_tokens": limit})
    }

    assert told([ASKED], parameters).reserve == reserve


def test_langfuses_own_level() -> None:
    words = "This model's maximum context length is 8192 tokens"
    failed = {"langfuse.observation.level": "ERROR", "langfuse.observation.status_message": words}

    said = told([ASKED], failed)

    assert (said.status, said.error) == ("error", "context_length_exceeded")
    assert told([ASKED], {"langfuse.observation.level": "WARNING"}).status == "ok"


def test_a_root_tells_of_the_session() -> None:
    root = {"langfuse.observation.type": "span", INPUT: "Where is it?"}
    said = langfuse.read(span({**root, "session.id": "th"}))

    assert langfuse.read(span(root)) is None
    assert said is not None
    assert (said.role, said.conversation_hint, said.messages) == ("aggregate", "th", None)


@pytest.mark.parametrize(
    "attributes",
    [
        {"session.id": "th", "gen_ai.operation.name": "chat"},
        {"langfuse.observation.type": "tool", "session.id": "th", INPUT: "{}"},
        {"langfuse.observation.type": "embedding", "session.id": "th", INPUT: "Where is it?"},
        {"langfuse.observation.type": "generation", "gen_ai.input.messages": "[]"},
    ],
)
def test_what_is_not_this_dialect(attributes: dict[str, Any]) -> None:
    assert langfuse.read(span(attributes)) is None


_KEYS = st.sampled_from(
    [
        INPUT, "langfuse.observation.output", "langfuse.observation.usage_details", "session.id",
        "langfuse.observation.model.parameters", "langfuse.observation.completion_start_time",
        "langfuse.observation.metadata.instructions", "langfuse.observation.metadata.tools",
    ]
)  # fmt: skip
_NAMES = st.sampled_from(
    ["messages", "role", "content", "tools", "input", "output", "total", "input_cached_tokens"]
)
_JSON = st.recursive(
    st.none() | st.integers() | st.floats() | st.sampled_from(["tool", "***", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_VALUES = st.none() | st.integers() | st.text(max_size=9) | _JSON.map(json.dumps)


@given(st.dictionaries(_KEYS, _VALUES), st.integers(0, 1))
def test_nothing_raises(attributes: dict[str, Any], dropped: int) -> None:
    kind = {"langfuse.observation.type": "generation"}
    said = langfuse.read(span({**kind, **attributes}, dropped_attributes=dropped))

    if said is not None:
        for raw in (said.tools, said.system, said.messages, said.output):
            parts(raw)
