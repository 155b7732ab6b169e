"""Reports of real dumps against what the provider saw; and that the comparison itself sees what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import Store, read
from otel_ctx.outputs.report import Inputs, build
from tests.fidelity import (
    CASES,
    CORPUS,
    Case,
    Difference,
    Piece,
    compare,
    lines,
    pair,
    wire_conversations,
    wire_of,
    wire_pieces,
    wire_usage,
)

# ---- where a report is right not to say what the wire says

UNFAITHFUL = {
    "oi-openai-chat-hidemessages": "asked to hide messages, the library leaks them beside: they stay hidden",
    "oi-langchain-js-anthropic-stream": "the library adds the output tokens of the first event to those of the last",
    "gemini-cli-notraces": "in the system prompt, JSON within JSON, this dump's pseudo-words are others",
    "genkit-openai": "the library sends tools without the descriptions that it records",
    "vercel-ai5-chat-attrlen2048": "what was cut off the prompt stands once more, in the answer's own arguments",
}
NO_THREAD = {
    "oi-smolagents": "a last answer is asked for beside the history, so that two requests go on from one place",
    "agent-framework-chat-nocontent": "neither contents nor ids, and each turn is a trace of its own",
    "crewai-session": "the framework words the last turn's question anew and drops its tool calls",
    "anthropic-sdk-default": "neither contents nor ids, and each call is a trace of its own",
    "oi-openai-chat-hidemessages": "the contents are hidden, and each call is a trace of its own",
    "otel-openai-js-responses-prev": "the history is on the server, and no span names the response it goes on from",
}


@cache
def case_of(name: str) -> Case:
    folder = CORPUS / name
    dumps = [folder / n for n in ("traces.jsonl.gz", "logs.jsonl.gz") if (folder / n).exists()]
    engine = Engine(Settings(contents=Store([folder]).fetch))
    for batch in read(dumps):
        engine.feed(batch.spans, batch.logs)
    return Case(
        traces=lines(folder / "traces.jsonl.gz"),
        logs=lines(folder / "logs.jsonl.gz"),
        wire=wire_of(name),
        report=build(engine.close(), Inputs((), ()), include_text=True),
    )


# ---- the report is the wire, as far as the dump holds it


@pytest.mark.parametrize("name", CASES)
def test_calls(name: str) -> None:
    case = case_of(name)

    assert len(case.report["calls"]) == len(case.wire)
    assert all(call for _, call in pair(case.wire, case.report["calls"]))


@pytest.mark.parametrize("name", CASES)
def test_every_held_segment_nothing_else_and_equal_usage(name: str) -> None:
    differences = compare(case_of(name))

    assert bool(differences) == (name in UNFAITHFUL), differences


def test_the_exceptions_are_no_more_than_they_say() -> None:
    hidden = compare(case_of("oi-openai-chat-hidemessages"))
    sums = compare(case_of("oi-langchain-js-anthropic-stream"))
    cut = compare(case_of("vercel-ai5-chat-attrlen2048"))

    assert [n for n, d in cut.items() if len(d.lost) == 1 and d == Difference(lost=d.lost)] == [7]
    assert all(d.lost and not (d.invented or d.overstated or d.usage) for d in hidden.values())
    assert [d.usage for d in sums.values()] == [
        (f"output: {n + 1} instead of {n}",)
        for n in (wire_usage(r)["output"] for r in case_of("oi-langchain-js-anthropic-stream").wire)
    ]


@pytest.mark.parametrize("name", CASES)
def test_conversations(name: str) -> None:
    case = case_of(name)
    number = {
        call["id"]: n
        for n, (_, call) in enumerate(pair(case.wire, case.report["calls"]), 1)
        if call is not None
    }
    told = sorted(sorted(number[i] for i in c["calls"]) for c in case.report["conversations"])

    assert (told == wire_conversations(case.wire)) == (name not in NO_THREAD), told


@pytest.mark.parametrize("name", CASES)
def test_the_volatile_system_prompt_is_named_where_it_is_and_nowhere_else(name: str) -> None:
    case = case_of(name)
    segments = [s for call in case.report["calls"] for s in call["segments"]["new"]]
    system = {s["path"] for s in segments if s["kind"] == "system"}
    prompts = {tuple(p for p in wire_pieces(r) if p.kind == "system") for r in case.wire}
    volatile = len(prompts) > len(case.report["conversations"]) and "-bust" in name

    named = [f for f in case.report["findings"] if f["kind"] == "volatile_prefix"]

    assert ("-bust" in name) == volatile  # the scripted sessions do what their names say
    assert [f["path"] in system for f in named] == ([True] if volatile else [])


# ---- the comparison sees what is wrong

FULL = "oi-bedrock-converse-cache"
CUT = "oi-openai-chat-valuelen"


def spoiled(name: str, spoil: Callable[[dict[str, Any]], object], call: int = 1) -> dict[int, Difference]:
    """The differences after a change of one call of the report (by number, from 1)."""
    case = case_of(name)
    report = deepcopy(dict(case.report))
    spoil(report["calls"][call - 1])
    return compare(Case(case.traces, case.logs, case.wire, report))


def test_nothing_is_wrong_with_the_cases_that_are_spoiled_here() -> None:
    assert not compare(case_of(FULL))
    assert not compare(case_of(CUT))


def test_a_lost_segment_is_seen_in_each_call_that_has_it() -> None:
    differences = spoiled(FULL, lambda call: call["segments"]["new"].pop())

    (user,) = [p for p in wire_pieces(case_of(FULL).wire[0]) if p.kind == "user"]
    assert differences[1].lost == (user,)
    assert differences[1].overstated == (user,)


def test_a_segment_that_was_never_sent_is_seen() -> None:
    def add(call: dict[str, Any]) -> None:
        call["segments"]["new"].append({"kind": "user", "name": None, "text": "Was this ever said?"})

    assert spoiled(FULL, add)[1].invented == (Piece("user", "Was this ever said?"),)


def test_a_segment_that_is_told_twice_is_seen() -> None:
    def repeat(call: dict[str, Any]) -> None:
        call["segments"]["new"].append(call["segments"]["new"][-1])

    assert [p.kind for p in spoiled(FULL, repeat)[1].invented] == ["user"]


# Not at an end, where it could be a cut.
CHANGES = {
    "tools": ("Search the", "Search a"),
    "system": ("support agent", "agent"),
    "user": ("refund", "return"),
    "tool_call": ("refund", "return"),
    "tool_result": ("Passage", "Text"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_text_is_seen(kind: str) -> None:
    def change(call: dict[str, Any]) -> None:
        segment = next(s for s in call["segments"]["new"] if s["kind"] == kind)
        segment["text"] = segment["text"].replace(*CHANGES[kind])

    first = 2 if kind.startswith("tool_") else 1
    difference = spoiled(FULL, change, first)[first]

    assert [p.kind for p in difference.lost] == [p.kind for p in difference.invented] == [kind]


def test_a_changed_kind_is_seen() -> None:
    def change(call: dict[str, Any]) -> None:
        call["segments"]["new"][-1]["kind"] = "assistant"

    difference = spoiled(FULL, change)[1]

    assert (difference.lost[0].kind, difference.invented[0].kind) == ("user", "assistant")


def test_a_changed_order_is_seen() -> None:
    assert spoiled(FULL, lambda call: call["segments"]["new"].reverse())[1].disordered


def test_a_cut_segment_is_no_invention_but_not_the_whole_prompt_either() -> None:
    def cut(call: dict[str, Any]) -> None:
        call["segments"]["new"][-1]["text"] = call["segments"]["new"][-1]["text"][:30]

    difference = spoiled(FULL, cut)[1]

    assert not difference.invented
    assert [p.kind for p in difference.lost] == [p.kind for p in difference.overstated] == ["user"]


@pytest.mark.parametrize("number", ["input", "cache_read", "cache_write", "output"])
def test_a_wrong_and_a_withheld_number_are_seen(number: str) -> None:
    n = 2  # reads from the cache and writes to it
    right = wire_usage(case_of(FULL).wire[n - 1])[number]

    def change(value: int | None) -> dict[int, Difference]:
        return spoiled(FULL, lambda call: call["usage"].update({number: value}), n)

    assert right
    assert change(right + 1)[n].usage == (f"{number}: {right + 1} instead of {right}",)
    assert change(None)[n].usage == (f"{number}: {right} is in the dump",)


def test_a_missing_call_is_seen() -> None:
    case = case_of(FULL)
    report: Mapping[str, Any] = {**case.report, "calls": case.report["calls"][:-1]}

    assert compare(Case(case.traces, case.logs, case.wire, report))[len(case.wire)].usage == ("no call",)


# ---- the conversations of a wire


def _asked(*messages: str, at: int, system: str = "Be kind.") -> dict[str, Any]:
    roles = ("user", "assistant")
    body = [{"role": roles[n % 2], "content": text} for n, text in enumerate(messages)]
    return {
        "api": "chat",
        "start_unix_nano": at,
        "end_unix_nano": at + 5,
        "response": {"id": f"r{at}"},
        "body": {"messages": [{"role": "system", "content": system}, *body]},
    }


def test_a_request_continues_the_longest_history_that_it_repeats() -> None:
    wire = [_asked("a", at=0), _asked("b", at=10), _asked("a", "1", "c", at=20), _asked("b", "2", "d", at=30)]

    assert wire_conversations(wire) == [[1, 3], [2, 4]]


def test_requests_at_one_time_do_not_continue_each_other() -> None:
    assert wire_conversations([_asked("a", at=0), _asked("a", "1", "c", at=2)]) is None


def test_a_rewritten_history_is_left_open() -> None:
    assert wire_conversations([_asked("a", "1", "b", at=0), _asked("a", "2", "b", at=10)]) is None


def test_a_named_response_is_continued() -> None:
    first = _asked("a", at=0)
    second = _asked("b", at=10)
    second["body"]["previous_response_id"] = "r0"

    assert wire_conversations([first, second]) == [[1, 2]]
