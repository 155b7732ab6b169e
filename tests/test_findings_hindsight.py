"""What the whole of a dump says: duplicates, dead tools, lifetimes paid for in vain, and what comes of single steps there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.model import Analysis, Finding, Span
from otel_ctx.outputs.views.selection import narrowed

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
LONG = " ".join(
    f"Line {i} of the policy says that parcel {i} is paid for by rule {i * 7}." for i in range(60)
)


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def called(name: str, id_: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": id_, "name": name, "arguments": {"q": id_}}],
    }


def result(text: str, id_: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id_, "response": text}]}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": f"{name} it", "parameters": {"type": "object"}}


class App:
    def __init__(self, provider: str = "openai", model: str = "gpt-4o") -> None:
        self.spans: list[Span] = []
        self.provider, self.model, self.now = provider, model, BASE

    def call(
        self, messages: list[dict[str, Any]], tools: tuple[str, ...] = (), pause: int = 10, **usage: int
    ) -> None:
        self.now += pause * SECOND
        n = len(self.spans) + 1
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": self.provider, "gen_ai.request.model": self.model,
            "gen_ai.input.messages": json.dumps(messages), "gen_ai.tool.definitions": json.dumps([tool(t) for t in tools]),
            "gen_ai.output.messages": json.dumps([said("assistant", f"Answer {n}.")]),
            **{f"gen_ai.usage.{k}": v for k, v in usage.items()},
        }  # fmt: skip
        self.spans.append(
            Span(
                trace_id="1" * 32, span_id=f"{n:016x}", parent_id="", name="chat", start_unix_nano=self.now,
                end_unix_nano=self.now + SECOND, attributes=attributes, kind=3,
                scope_name="opentelemetry.instrumentation.genai.openai", scope_version="1.3b0",
            )
        )  # fmt: skip

    def found(self, kind: str) -> list[Finding]:
        return [f for f in self.analysed().findings if f.kind == kind]

    def analysed(self) -> Analysis:
        engine = Engine()
        engine.feed(self.spans)
        return engine.close()


def talk(
    app: App, turns: int, tools: tuple[str, ...] = (), extra: tuple[dict[str, Any], ...] = (), **more: Any
) -> App:
    history: list[dict[str, Any]] = [said("system", "Be kind."), *extra]
    for i in range(1, turns + 1):
        history.append(said("user", f"Question {i}?"))
        app.call(history.copy(), tools, **{k: v(i) if callable(v) else v for k, v in more.items()})
        history.append(said("assistant", f"Answer {len(app.spans)}."))
    return app


@pytest.mark.parametrize(
    ("again", "copies"),
    [(LONG, 2), (LONG.replace("parcel 30", "parcel thirty"), 2), (LONG[::-1], 0), ("short " * 10, 0)],
    ids=["the same", "nearly", "another", "other size"],
)
def test_what_stands_twice_in_the_last_request(again: str, copies: int) -> None:
    app = talk(
        App(), 2, extra=(called("find", "a"), result(LONG, "a"), called("find", "b"), result(again, "b"))
    )

    found = app.found("duplicate_content")

    assert len(found) == (1 if copies else 0)
    for f in found:
        each = app.analysed().readings[0].call.prompt
        size = [s.tokens or 0 for s in each if s.kind == "tool_result"]
        assert f.tokens == round(sum(size) / 2)
        assert (f.severity, f.path, f.calls) == (
            "info",
            "messages[4].parts[0]",
            (app.analysed().readings[-1].call.id,),
        )


def test_a_short_text_is_alike_by_chance() -> None:
    assert talk(App(), 2, extra=(result("ok", "a"), result("ok", "b"))).found("duplicate_content") == []


def test_a_tool_that_nobody_calls() -> None:
    app = talk(App(), 3, ("find", "refund"), extra=(called("find", "a"), result("here", "a")))

    (found,) = app.found("dead_tool_schema")

    assert "tools[1] (refund)" in found.detail
    assert "find" not in found.detail
    assert len(found.calls) == 3
    assert found.tokens == 3 * (app.analysed().readings[0].call.prompt.tools[1].tokens or 0) > 0


@pytest.mark.parametrize(
    "words", [result("Use refund for that.", "x"), said("assistant", "I could refund it.")]
)
def test_a_tool_that_was_spoken_of_is_not_dead(words: dict[str, Any]) -> None:
    app = talk(App(), 3, ("find", "refund"), extra=(called("find", "a"), words))

    assert app.found("dead_tool_schema") == []


def test_two_calls_are_too_few_to_call_a_tool_dead() -> None:
    assert talk(App(), 2, ("refund",)).found("dead_tool_schema") == []


def test_a_request_that_was_refused_is_not_billed_for_its_dead_tools() -> None:
    app = talk(App(), 4, ("refund",))
    app.spans[1] = replace(app.spans[1], status_code=2)

    (found,) = app.found("dead_tool_schema")

    assert len(found.calls) == 3
    assert found.tokens == 3 * (app.analysed().readings[0].call.prompt.tools[0].tokens or 0) > 0
    app.spans[2] = replace(app.spans[2], status_code=2)
    assert app.found("dead_tool_schema") == []


def test_a_tool_is_not_dead_where_a_call_was_not_seen() -> None:
    app = talk(App(), 3, ("refund",))
    app.call([], (), input_tokens=10)
    hidden = app.spans.pop()
    blind = {
        k: v
        for k, v in hidden.attributes.items()
        if k not in ("gen_ai.input.messages", "gen_ai.tool.definitions")
    }
    app.spans.append(Span(**{**{f: getattr(hidden, f) for f in hidden.__slots__}, "attributes": blind}))

    assert app.found("dead_tool_schema") == []


HOUR = {
    "input_tokens": lambda i: 3000 * i,
    "cache_creation.input_tokens": 3000,
    "cache_read.input_tokens": lambda i: 3000 * (i - 1),
}


@pytest.mark.parametrize(("pause", "overpaid"), [(60, True), (299, True), (400, False)])
def test_an_hour_that_was_not_needed(pause: int, overpaid: bool) -> None:
    app = App("anthropic", "claude-sonnet-4-5")
    talk(app, 3, pause=pause, **HOUR)
    for span in app.spans:
        span.attributes["anthropic.usage.cache_creation.ephemeral_1h_input_tokens"] = 3000  # type: ignore[index]

    found = app.found("ttl_overpaid")

    assert bool(found) == overpaid
    for f in found:
        assert f.tokens == 9000
        assert f.usd == pytest.approx(
            9000 * (6.0 - 3.75) / 1_000_000
        )  # an hour costs 2 times the input, 5 minutes 1.25


def test_a_turn_that_adds_far_more_than_the_others() -> None:
    app = talk(App(), 6, input_tokens=lambda i: 1000 + 200 * i if i < 6 else 12_000)

    (found,) = app.found("growth_spike")

    assert found.calls == (app.analysed().readings[-1].call.id,)
    assert "10,000 tokens" in found.detail


def test_a_spike_names_the_part_that_is_most_of_it() -> None:
    app = App()
    messages = [said("user", LONG)]
    for i in range(6):
        app.call(messages=messages, input_tokens=1160 + 20 * i if i < 5 else 12_700)
        more = LONG * 10 if i == 4 else ""
        messages = [
            *messages,
            said("assistant", f"Answer {i + 1}."),
            said("user", f"Question {i + 1}. {more}"),
        ]

    (found,) = app.found("growth_spike")

    assert "Most of it is messages[10].parts[0] (user, " in found.detail


def test_even_growth_is_no_spike() -> None:
    assert talk(App(), 8, input_tokens=lambda i: 6000 * i).found("growth_spike") == []


def compacting(parts: int, turns: int) -> App:
    """A session whose history gives way to a summary after every ``turns`` calls."""
    app = App()
    for part in range(parts):
        history = [
            said("system", "Be kind."),
            said("user", f"Summary {part}: what was said before, in short."),
        ]
        for i in range(turns):
            if i:
                history += [
                    said("assistant", f"Answer {len(app.spans)}."),
                    said("user", f"{part}.{i} {LONG}"),
                ]
            app.call(history.copy())
            app.spans[-1].attributes["gen_ai.conversation.id"] = "session"  # type: ignore[index]
    return app


def test_compacted_again_and_again() -> None:
    app = compacting(4, 4)

    (loop,) = app.found("compaction_loop")

    assert (loop.severity, len(loop.calls)) == ("error", 1)
    assert "3 compactions, the last 3 within 8 turns" in loop.detail
    assert [len(f.calls) for f in app.found("compaction")] == [3]


@pytest.mark.parametrize(("parts", "turns"), [(3, 4), (4, 8)], ids=["twice", "far between"])
def test_compacted_now_and_then_is_no_loop(parts: int, turns: int) -> None:
    app = compacting(parts, turns)

    assert app.found("compaction_loop") == []
    assert [len(f.calls) for f in app.found("compaction")] == [parts - 1]


def conversation(app: App, opening: str, before: int) -> None:
    """The same result twice, behind ``before`` turns of its own."""
    history = [said("system", f"{opening} Be kind.")]
    for n in range(before):
        history += [said("user", f"{opening} {n}?"), said("assistant", f"{opening} {n}.")]
    history += [called("find", "a"), result(LONG, "a"), called("find", "b"), result(LONG, "b")]
    app.call([*history, said("user", f"{opening}?")], ())
    last = app.spans[-1]
    app.spans[-1] = replace(last, attributes={**last.attributes, "gen_ai.conversation.id": opening})


def test_duplicates_have_the_places_of_their_own_conversation() -> None:
    app = App()
    conversation(app, "Apples", 0)
    conversation(app, "Pears", 2)
    calls = [r.call for r in app.analysed().readings]

    found = {f.calls: f for f in app.found("duplicate_content")}

    assert set(found) == {(c.id,) for c in calls}
    for call in calls:
        mine = [s for s in call.prompt if s.kind == "tool_result"]
        f = found[call.id,]
        assert f.detail == f"{mine[0].path}, {mine[1].path}."
        assert (f.path, f.tokens) == (mine[1].path, mine[1].tokens)


def test_duplicates_at_the_same_places_of_several_conversations_are_said_once() -> None:
    app = App()
    conversation(app, "Apples", 1)
    conversation(app, "Pears", 1)
    analysis = app.analysed()
    one, two = (r.call for r in analysis.readings)
    paths = [s.path for s in one.prompt if s.kind == "tool_result"]

    (f,) = app.found("duplicate_content")

    assert f.calls == (one.id, two.id)
    assert f.detail == f"{paths[0]}, {paths[1]}, in the last request of each of 2 conversations."
    (part,) = (g for g in narrowed(analysis, analysis.readings[:1]).findings if g.kind == "duplicate_content")
    assert (part.calls, part.path, part.tokens) == ((one.id,), paths[1], f.tokens)


def test_a_dead_tool_at_several_places_is_called_by_its_name() -> None:
    app = App()
    for n in range(3):
        app.call(
            [said("system", "Be kind."), said("user", f"{n}?" * (n + 1))],
            ("find", "weather") if n else ("weather", "find"),
        )

    (f,) = app.found("dead_tool_schema")

    assert f.path == ""
    assert f.detail.startswith(("find, weather:", "weather, find:"))
