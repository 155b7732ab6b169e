"""One message in the shape of every provider and framework -> the same parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import otel_ctx
from otel_ctx.parts import as_sent, read_messages, read_system, read_tools
from otel_ctx.parts.shapes import is_message

ASKED = ("user", "", "Where is A-1042?")
CALLED = ("tool_call", "get_order", '{"id":"A-1042"}')
ANSWERED = ("tool_result", "", "shipped")

SHAPES: dict[str, list[Any]] = {
    "GenAI conventions": [
        {"role": "user", "parts": [{"type": "text", "content": "Where is A-1042?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A-1042"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "shipped"}]},
    ],
    "OpenAI Chat": [
        {"role": "user", "content": "Where is A-1042?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_order", "arguments": '{"id": "A-1042"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
    ],
    "OpenAI Responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "Where is A-1042?"}]},
        {"type": "function_call", "call_id": "c1", "name": "get_order", "arguments": '{"id":"A-1042"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "shipped"},
        {"type": "item_reference", "id": "rs_1"},
    ],
    "Genkit": [
        {"role": "user", "content": [{"text": "Where is A-1042?"}]},
        {
            "role": "model",
            "content": [{"toolRequest": {"name": "get_order", "ref": "c1", "input": {"id": "A-1042"}}}],
        },
        {
            "role": "tool",
            "content": [{"toolResponse": {"name": "get_order", "ref": "c1", "output": "shipped"}}],
        },
    ],
    "LangChain4j": [
        {"type": "USER", "contents": [{"type": "TEXT", "text": "Where is A-1042?"}]},
        {
            "type": "AI",
            "toolExecutionRequests": [{"id": "c1", "name": "get_order", "arguments": '{"id": "A-1042"}'}],
        },
        {"type": "TOOL_EXECUTION_RESULT", "id": "c1", "text": "shipped"},
    ],
    "AutoGen": [
        {"type": "UserMessage", "source": "user", "content": "Where is A-1042?"},
        {
            "type": "AssistantMessage",
            "source": "clerk",
            "content": [{"id": "c1", "name": "get_order", "arguments": '{"id": "A-1042"}'}],
        },
        {
            "type": "FunctionExecutionResultMessage",
            "content": [{"content": "shipped", "call_id": "c1", "is_error": False}],
        },
    ],
    "AutoGen, as OpenInference spells it": [
        {"role": "user", "content": "Where is A-1042?"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "tool_call": {
                        "id": "c1",
                        "function": {"name": "get_order", "arguments": '{"id": "A-1042"}'},
                    }
                }
            ],
        },
        {
            "role": "function",
            "function": ['{"name": "get_order", "content": "shipped", "call_id": "c1", "is_error": false}'],
        },
    ],
    "Anthropic": [
        {"role": "user", "content": "Where is A-1042?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "get_order", "input": {"id": "A-1042"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "shipped"}]}
            ],
        },
    ],
    "Bedrock Converse": [
        {"role": "user", "content": [{"text": "Where is A-1042?"}]},
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c1", "name": "get_order", "input": {"id": "A-1042"}}}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "shipped"}]}}]},
    ],
    "LangChain": [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["x", "HumanMessage"],
            "kwargs": {"content": "Where is A-1042?"},
        },
        {
            "lc": 1,
            "type": "constructor",
            "id": ["x", "AIMessage"],
            "kwargs": {
                "content": "",
                "tool_calls": [{"name": "get_order", "args": {"id": "A-1042"}, "id": "c1"}],
            },
        },
        {
            "lc": 1,
            "type": "constructor",
            "id": ["x", "ToolMessage"],
            "kwargs": {"content": "shipped", "tool_call_id": "c1"},
        },
    ],
    "Haystack": [
        {"role": "user", "content": [{"text": "Where is A-1042?"}]},
        {
            "role": "assistant",
            "content": [{"tool_call": {"tool_name": "get_order", "arguments": {"id": "A-1042"}, "id": "c1"}}],
        },
        {
            "role": "tool",
            "content": [{"tool_call_result": {"result": "shipped", "origin": {"id": "c1"}, "error": False}}],
        },
    ],
    "CrewAI, what lies deep as Python prints it": [
        {"role": "user", "parts": [{"type": "text", "content": "Where is A-1042?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "c1", "name": "'get_order'", "arguments": '\'{"id":"A-1042"}\''}
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "shipped"}]},
    ],
    "AI SDK": [
        {"role": "user", "content": [{"type": "text", "text": "Where is A-1042?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool-call", "toolCallId": "c1", "toolName": "get_order", "input": {"id": "A-1042"}}
            ],
        },
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c1", "output": {"type": "text", "value": "shipped"}}
            ],
        },
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_alike(shape: str) -> None:
    parts, count = read_messages(SHAPES[shape])
    assert [(p.kind, p.name if p.kind == "tool_call" else "", p.text) for p in parts] == [
        ASKED,
        CALLED,
        ANSWERED,
    ]
    assert count == len(SHAPES[shape])
    assert {p.call_id for p in parts if p.kind != "user"} == {"c1"}


def test_gemini_has_objects_for_results() -> None:
    parts, _ = read_messages([
        {"role": "user", "parts": [{"text": "Where is A-1042?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "get_order", "args": {"id": "A-1042"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "get_order", "response": {"state": "shipped"}}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "It was shipped."}]},
    ])  # fmt: skip
    assert [(p.kind, p.text) for p in parts] == [
        ("user", "Where is A-1042?"),
        ("tool_call", '{"id":"A-1042"}'),
        ("tool_result", '{"state":"shipped"}'),
        ("thinking", "hm"),
        ("assistant", "It was shipped."),
    ]


def test_smolagents_roles_are_the_models_and_the_users_words() -> None:
    parts, _ = read_messages([
        {"role": "tool-call", "content": "Calling tools: []"},
        {"role": "tool-response", "content": [{"type": "text", "text": "Observation: 3"}]},
    ])  # fmt: skip
    assert [(p.kind, p.text) for p in parts] == [
        ("assistant", "Calling tools: []"),
        ("user", "Observation: 3"),
    ]


def test_smolagents_sends_neighbours_of_one_role_as_one_message() -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "New task: count"}]}
    sent = as_sent([
        {"role": "system", "content": "Be brief."},
        asked,
        {"role": "tool-call", "contents": [{"message_content": {"type": "text", "text": "Calling tools: []"}}]},
        {"role": "tool-response", "content": [{"type": "text", "text": "Observation: 3"}]},
        {"role": "user", "content": [{"type": "text", "text": "New task: again"}, {"type": "text", "text": "now"}]},
        {"role": "tool-response", "content": "Error"},
    ])  # fmt: skip

    assert [(p.kind, p.path, p.text) for p in read_messages(sent)[0]] == [
        ("system", "messages[0].parts[0]", "Be brief."),
        ("user", "messages[1].parts[0]", "New task: count"),
        ("assistant", "messages[2].parts[0]", "Calling tools: []"),
        ("user", "messages[3].parts[0]", "Observation: 3\nNew task: again"),
        ("user", "messages[3].parts[1]", "now\nError"),
    ]


def test_what_smolagents_cannot_join_stands_alone() -> None:
    picture = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}],
    }
    messages = [
        {"role": "tool-response", "content": "seen"},
        picture,
        {"role": "user", "content": "And now?"},
    ]

    assert [p.path for p in read_messages(as_sent(messages))[0]] == [
        f"messages[{n}].parts[0]" for n in range(3)
    ]


def test_other_libraries_messages_are_never_joined() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]

    assert as_sent(messages) is messages


def test_a_message_of_which_nothing_is_left_is_none() -> None:
    assert read_messages([[{"id": "", "type": ""}], [], [[None]]])[0] == []
    assert [p.text for p in read_messages([[{"id": "", "n": 0}], []])[0]] == ['[{"id":"","n":0}]']


def test_a_tool_call_that_stands_twice_is_one() -> None:
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    blocks = [{"type": "text", "text": "So."}, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]
    parts, _ = read_messages([{"role": "assistant", "content": blocks, "tool_calls": [call]}])
    assert [p.kind for p in parts] == ["assistant", "tool_call"]


def test_a_cache_marker_is_no_part_and_marks_what_stands_before_it() -> None:
    point = {"cachePoint": {"type": "default"}}
    parts, _ = read_messages([{"role": "user", "content": [{"text": "hi"}, point]}])
    assert [(p.text, p.cache_marker) for p in parts] == [("hi", "default")]
    block = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    parts, _ = read_messages([{"role": "user", "content": [block]}])
    assert [(p.text, p.cache_marker) for p in parts] == [("hi", "1h")]
    tools = read_tools([{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}, point])
    assert [(p.name, p.cache_marker) for p in tools] == [("f", "default")]


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f", "description": "does", "parameters": {}}},
        {"type": "function", "name": "f", "description": "does", "parameters": {}},
        {"name": "f", "description": "does", "input_schema": {}},
        {"toolSpec": {"name": "f", "description": "does", "inputSchema": {"json": {}}}},
        {"functionDeclarations": [{"name": "f", "description": "does", "parameters": {}}]},
        '{"name": "f", "description": "does"}',
        {
            "type": "function",
            "function": {"type": "function", "function": {"name": "f", "description": "does"}},
        },
    ],
)
def test_a_tool_in_every_shape(tool: Any) -> None:
    (part,) = read_tools([tool])
    assert (part.kind, part.name, part.path) == ("tools", "f", "tools[0]")
    assert "does" in part.text


def test_a_schema_that_python_has_printed_in_parts() -> None:
    """CrewAI prints what lies deep in a value; a text among the properties gives it away."""
    schema = {"properties": {"q": "{'title': 'Q', 'default': None}"}, "required": ["'q'"], "type": "object"}
    whole = {"properties": {"q": {"title": "Q", "default": None}}, "required": ["q"], "type": "object"}
    printed, plain = ({"name": "f", "parameters": s} for s in (schema, whole))
    quoted = {"name": "f", "parameters": {"properties": {"q": {"const": "'a'"}}}}

    assert read_tools([printed]) == read_tools([plain])
    assert "'a'" in read_tools([quoted])[0].text


@pytest.mark.parametrize(
    "system",
    [
        "Be kind.",
        '[{"type":"text","content":"Be kind."}]',
        [{"text": "Be kind."}],
        {"parts": [{"text": "Be kind."}]},
    ],
)
def test_a_system_prompt_in_every_shape(system: Any) -> None:
    assert [(p.kind, p.text, p.path) for p in read_system(system)] == [("system", "Be kind.", "system[0]")]


@pytest.mark.parametrize(
    "odd", [None, 7, [], {}, "", [[]], {"role": None}, {"content": {"a": 1}}, {"type": []}, {"parts": 3}]
)
def test_nothing_is_too_odd(odd: Any) -> None:
    parts, count = read_messages([odd])
    assert count <= 1  # an empty list in a list is a batch of one empty prompt
    assert all(isinstance(p.text, str) for p in parts)


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        ([{"role": "system", "parts": "Be kind."}], ["Be kind."]),
        ([{"role": "system", "parts": []}], []),
        ([{"role": "system", "parts": None, "content": []}], []),
        ([{"role": "system", "parts": {"type": "text", "content": "Be kind."}}], ["Be kind."]),
        ([{"role": "system", "parts": 7}], ["7"]),
    ],
)
def test_a_system_message_whose_parts_are_no_list(said: Any, texts: list[str]) -> None:
    assert [part.text for part in read_system(said)] == texts


@pytest.mark.parametrize("odd", [{"a": 1}, [1], 7, None])
def test_what_has_no_word_for_its_type_is_no_message(odd: Any) -> None:
    assert not is_message({"type": odd})


@pytest.mark.parametrize(
    "text",
    ['{\n  "rows": [{"id": 1, "note": "a b"}],\n  "total": 2\n}', "[1, 2,  3]", '[{"id": 1},  {"id": 2}]'],
)
def test_a_system_prompt_that_is_json_of_its_own_stays_as_it_was_sent(text: str) -> None:
    """Its blanks are tokens, and part of what is cached."""
    assert [(part.kind, part.text) for part in read_system(text)] == [("system", text)]


def test_a_system_prompt_that_is_json_of_its_own_in_a_request(tmp_path: Path) -> None:
    text = json.dumps({"rows": [{"id": i, "note": "unworn items"} for i in range(40)]}, indent=2)
    body = {
        "model": "gpt-5.1",
        "instructions": text,
        "input": [{"role": "user", "content": "How many?"}],
        "store": False,
    }
    (tmp_path / "requests.jsonl").write_text(json.dumps(body))
    call = json.loads(otel_ctx.analyze(tmp_path / "requests.jsonl").to_json(include_text=True))["calls"][0]
    assert [(s["kind"], s["text"]) for s in call["segments"]["new"]] == [
        ("system", text),
        ("user", "How many?"),
    ]
