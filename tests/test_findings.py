"""Findings: the right cause, once, and nothing on what was not seen."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_ctx.conversations import find_break
from otel_ctx.engine import Engine, Settings
from otel_ctx.engine.assemble import EMPTY, Assembler
from otel_ctx.engine.texts import Texts
from otel_ctx.findings import CHECKS, Step, as_it_stands, gather, unknown_dialects
from otel_ctx.findings.window import headroom_low
from otel_ctx.model import (
    NO_SECTION,
    Analysis,
    Band,
    Break,
    Call,
    Completeness,
    Context,
    Finding,
    NotChecked,
    Part,
    Prompt,
    Reading,
    Reason,
    Relation,
    Section,
    Span,
    SpanRef,
    Status,
    Tokens,
    Usage,
    grown,
)

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
PAD = "Answer politely, cite the policy and never invent an order number. " * 120
AUTOMATIC = "caches the longest unchanged beginning by itself"


# ---- small conversations, as an instrumented application would send them


class App:
    """Makes the spans of calls to a model."""

    def __init__(self, trace: int = 1, **attributes: Any) -> None:
        self.spans: list[Span] = []
        self.trace = f"{trace:032x}"
        self.attributes = attributes

    def call(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] = (),
        answer: str = "ok",
        scope: str = "opentelemetry.instrumentation.genai.openai",
        **more: Any,
    ) -> None:
        n = len(self.spans) + 1
        at = BASE + n * 10 * SECOND + int(self.trace, 16)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([said("assistant", answer)]),
            "gen_ai.tool.definitions": json.dumps(list(tools)),
            "gen_ai.usage.input_tokens": (len(json.dumps(messages)) + len(json.dumps(list(tools)))) // 5,
            **self.attributes,
            **more,
        }
        self.spans.append(
            Span(
                trace_id=self.trace,
                span_id=f"{n:016x}",
                parent_id="",
                name="chat gpt-4o",
                start_unix_nano=at,
                end_unix_nano=at + SECOND,
                attributes={k: v for k, v in attributes.items() if v is not None},
                kind=3,
                scope_name=scope,
                scope_version="1.3b0",
                resource={"service.name": "shop"},
            )
        )


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {"q": {"type": "string"}}, "required": ["q"]}
    return {
        "type": "function",
        "name": name,
        "description": description or f"{name} it",
        "parameters": schema,
    }


def turns(n: int) -> list[dict[str, Any]]:
    """A user's first ``n`` questions with the answers to all but the last."""
    out = []
    for i in range(1, n + 1):
        out.append(said("user", f"Question {i}: where is my parcel, please?"))
        if i < n:
            out.append(said("assistant", f"Answer {i}: it is on its way."))
    return out


HINDSIGHT = frozenset({"dead_tool_schema", "duplicate_content"})  # tests/test_findings_hindsight.py


def analysed(spans: Iterable[Span]) -> Analysis:
    engine = Engine(Settings(ignore=HINDSIGHT))
    engine.feed(spans)
    return engine.close()


def kinds(spans: Iterable[Span]) -> list[str]:
    return [f.kind for f in analysed(spans).findings]


def talk(
    systems: Sequence[str], tools: Sequence[Sequence[dict[str, Any]]] | None = None, **attributes: Any
) -> App:
    """A conversation whose n-th call has the n-th system prompt and the n-th list of tools."""
    app = App(**attributes)
    for i, system in enumerate(systems, start=1):
        messages = [said("system", system), *turns(i)]
        app.call(messages, tools[i - 1] if tools else (), f"Answer {i}: it is on its way.")
    return app


# ---- volatile values


@pytest.mark.parametrize(
    "systems",
    [
        [f"It is 3:07:{s} PM on Thu. {PAD}" for s in (42, 45, 51, 55, 58, 59)],
        [f"Ticket {n}. {PAD}" for n in (41, 42, 43, 44, 45, 46)],
        [f"{PAD} Session {s}." for s in "8f3k2m1q9x zz19a8b7c1 k3j4h5g6f7 a1s2d3f4g5 p0o9i8u7y6 q1w2e3r4t5".split()],
    ],
    ids=["time", "counter", "id"],
)  # fmt: skip
def test_a_volatile_value_is_named_once_with_its_characters(systems: list[str]) -> None:
    analysis = analysed(talk(systems).spans)

    (found,) = analysis.findings
    assert (found.kind, found.severity, found.path) == ("volatile_prefix", "error", "messages[0].parts[0]")
    assert found.title == "System prompt contains a value that changes between requests"
    assert len(found.calls) == 5
    values = [s.replace(PAD, "").strip(" .") for s in systems[:2]]
    assert all(v.split()[-1] in found.excerpt for v in values)
    assert AUTOMATIC in found.fix
    assert found.tokens == sum(r.wasted for r in analysis.readings) > 0
    assert {r.cause for r in analysis.readings[1:]} == {"volatile_prefix"}


def test_one_change_is_enough_where_the_value_says_what_it_is() -> None:
    assert kinds(talk([f"It is 3:07 PM. {PAD}", f"It is 3:09 PM. {PAD}"]).spans) == ["volatile_prefix"]


def test_the_fix_knows_the_provider() -> None:
    systems = [f"It is 3:07 PM. {PAD}", f"It is 3:09 PM. {PAD}"]
    app = talk(systems, **{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"})

    unmarked, found = sorted(analysed(app.spans).findings, key=lambda f: f.kind)

    assert (unmarked.kind, unmarked.evidence) == ("no_cache_control", "inferred")  # it takes the loss
    assert (found.kind, found.tokens) == ("volatile_prefix", 0)
    assert "cache_control" in found.fix


def test_a_value_of_no_known_class_is_found_the_second_time() -> None:
    app = talk([f"Mood: {m}. {PAD}" for m in ("sunny", "gloomy", "so-so", "great")])

    analysis = analysed(app.spans)

    assert [r.findings for r in analysis.readings] == [
        (),
        ("prefix_changed",),
        ("volatile_prefix",),
        ("volatile_prefix",),
    ]
    (found,) = analysis.findings  # the first change is told with the others: one cause, one finding
    assert (found.kind, len(found.calls)) == ("volatile_prefix", 3)


def test_texts_that_come_back_are_a_switch_and_no_value() -> None:
    app = talk([f"Mode {m}. {PAD}" for m in ("plan", "act", "plan", "act")])

    assert kinds(app.spans) == ["prefix_changed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"You help Alice. {PAD}", f"You help Bob. {PAD}"),
        (f"{PAD} Shipping is free.", f"{PAD} Shipping costs extra."),
        (f"Prices: mug 12, cap 30. {PAD}", f"Prices: mug 14, cap 35. {PAD}"),
    ],
)
def test_a_changed_text_is_not_called_volatile(before: str, after: str) -> None:
    (found,) = analysed(talk([before, after]).spans).findings

    assert (found.kind, found.title) == ("prefix_changed", "System prompt changed")


def test_a_value_in_a_tools_description() -> None:
    def tools(minute: int) -> list[dict[str, Any]]:
        return [tool("search"), tool("orders", f"Orders as of 10:{minute}"), tool("track")]

    app = talk([PAD] * 3, [tools(m) for m in (11, 12, 13)])

    (found,) = analysed(app.spans).findings
    assert (found.kind, found.path, len(found.calls)) == ("volatile_prefix", "tools[1]", 2)
    assert "10:11" in found.excerpt


def test_a_value_in_an_old_message() -> None:
    app = App()
    for i in (1, 2, 3):
        messages = turns(i)
        messages[0] = said("user", f"Now it is 2026-11-30T10:00:0{i}Z. {PAD}")
        app.call([said("system", PAD), *messages], answer=f"Answer {i}: it is on its way.")

    (found,) = analysed(app.spans).findings
    assert (found.kind, found.path) == ("volatile_prefix", "messages[1].parts[0]")
    assert found.title.startswith("An earlier user message")


def test_a_value_in_what_is_newest_is_nothing() -> None:
    app = App()
    history: list[dict[str, Any]] = [said("system", PAD)]
    for i in (1, 2, 3):
        history = [*history, said("user", f"It is 10:0{i}. Question {i}?")]
        app.call(history, answer=f"Answer {i}")
        history.append(said("assistant", f"Answer {i}"))

    assert kinds(app.spans) == []


# ---- tools

FIVE = [tool(n) for n in ("search", "orders", "track", "refund", "mail")]


def test_order_of_tools_and_keys() -> None:
    """Permuted, back again, then the same order with one schema's keys swapped."""
    permuted = [FIVE[0], FIVE[3], FIVE[2], FIVE[1], FIVE[4]]
    swapped = [*FIVE[:2], {k: FIVE[2][k] for k in reversed(FIVE[2])}, *FIVE[3:]]
    app = talk([PAD] * 4, [FIVE, permuted, FIVE, swapped])

    analysis = analysed(app.spans)

    assert [r.findings for r in analysis.readings] == [
        (), ("tools_reordered",), ("tools_reordered",), ("tool_schema_key_order",)
    ]  # fmt: skip
    reordered = next(f for f in analysis.findings if f.kind == "tools_reordered")
    assert all(n in reordered.detail for n in ("refund", "orders"))
    assert not any(n in reordered.detail for n in ("search", "track", "mail"))
    assert all(f.severity == "error" for f in analysis.findings)


def test_unstable_tools_and_a_clock_in_the_system_prompt_are_both_told() -> None:
    """The whole prompt before would have been read; the order lost what stands in front of the clock, the clock the rest."""
    often = [FIVE[i:] + FIVE[:i] for i in (0, 1, 2, 3)]
    clocks = [f"It is 3:07:{s} PM. {PAD}" for s in (42, 45, 51, 55)]
    app = talk(clocks, often, **{"gen_ai.usage.cache_read.input_tokens": 0})

    analysis = analysed(app.spans)

    by_kind = {f.kind: f for f in analysis.findings}
    assert set(by_kind) == {"tools_reordered", "volatile_prefix"}
    assert all(len(f.calls) == 3 for f in by_kind.values())
    assert by_kind["volatile_prefix"].path == "messages[0].parts[0]"
    assert "3:07:45" in by_kind["volatile_prefix"].excerpt
    for before, r in pairwise(analysis.readings):
        whole = before.call.usage.input or 0
        assert whole - 128 <= r.wasted <= whole
        assert [cause for cause, _ in r.losses] == ["tools_reordered", "volatile_prefix"]
        assert sum(n for _, n in r.losses) == r.wasted
        head = sum(s.tokens or 0 for s in r.call.prompt.tools) * r.tokens.factor
        assert r.losses[0][1] == pytest.approx(head, rel=0.1)
    for kind, f in by_kind.items():
        assert f.tokens == sum(dict(r.losses).get(kind, 0) for r in analysis.readings)


@pytest.mark.parametrize(
    ("systems", "tools", "causes"),
    [
        ([PAD, f"Be kind. {PAD}"], [FIVE, FIVE[::-1]], ["tools_reordered", "prefix_changed"]),
        ([PAD, f"Be kind. {PAD}"], [FIVE, [*FIVE, tool("late")]], ["tools_changed", "prefix_changed"]),
        ([PAD, f"Be kind. {PAD}"], [FIVE, FIVE[:-1]], ["tools_changed", "prefix_changed"]),
        ([PAD, PAD], [FIVE, FIVE[::-1]], ["tools_reordered"]),
    ],
)
def test_a_change_behind_the_tools_hides_no_loss(
    systems: list[str], tools: list[list[dict[str, Any]]], causes: list[str]
) -> None:
    app = talk(systems, tools, **{"gen_ai.usage.cache_read.input_tokens": 0})

    first, last = analysed(app.spans).readings

    gone = max(0, sum(s.tokens or 0 for s in first.call.prompt.tools) - 100 * len(tools[1]))
    whole = (first.call.usage.input or 0) - gone
    assert whole - 256 <= last.wasted <= whole
    assert [cause for cause, _ in last.losses] == causes
    assert sum(n for _, n in last.losses) == last.wasted


def test_a_history_that_was_cut_and_a_system_prompt_that_changed() -> None:
    """What is left of the history was sent again, and the system prompt in its place."""
    app = App(**{"gen_ai.usage.cache_read.input_tokens": 0})
    app.call([said("system", PAD), *turns(8)], answer="Answer 8: it is on its way.")
    app.call([said("system", f"Be kind. {PAD}"), *turns(9)[2:]])

    first, last = analysed(app.spans).readings

    cut = sum(s.tokens or 0 for s in list(first.call.prompt)[1:3]) * first.tokens.factor
    whole = (first.call.usage.input or 0) - cut
    assert whole - 256 <= last.wasted <= whole
    assert last.cause == "prefix_changed"


def test_a_fan_out_does_not_hide_what_the_call_after_it_lost() -> None:
    """Of two calls that go on from one, the next goes on from the first, whose prompt it should have kept."""

    def lost(siblings: int) -> tuple[str, int]:
        app = App(**{"gen_ai.conversation.id": "c", "gen_ai.usage.cache_read.input_tokens": 0})
        app.call([said("system", PAD), *turns(1)], answer="Answer 1: it is on its way.")
        asked = [said("system", PAD), *turns(2)]
        app.call(asked, answer="Answer 2: it is on its way.")
        for n in range(siblings):
            app.call([*asked[:-1], said("user", f"Or is it lost, after {n} days?")], answer="No.")
        app.call([said("system", f"{PAD} Be kind."), *turns(3)])
        last = analysed(app.spans).readings[-1]
        return last.cause, last.wasted

    alone = lost(0)

    assert alone[1] > 1024
    assert lost(1) == lost(2) == alone


def test_another_order_of_required_names_says_nothing_else() -> None:
    def two(required: list[str]) -> list[dict[str, Any]]:
        schema = {"type": "object", "properties": {"a": {}, "b": {}}, "required": required}
        return [{"type": "function", "name": "search", "description": "d", "parameters": schema}]

    assert kinds(talk([PAD] * 2, [two(["a", "b"]), two(["b", "a"])]).spans) == ["tool_schema_key_order"]


def test_order_and_keys_at_once_is_told_as_order() -> None:
    other = [{k: FIVE[1][k] for k in reversed(FIVE[1])}, FIVE[0], *FIVE[2:]]

    (found,) = analysed(talk([PAD] * 2, [FIVE, other]).spans).findings

    assert found.kind == "tools_reordered"
    assert "keys" in found.detail


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([*FIVE, tool("late")], "1 added: tools[5] (late)"),
        (FIVE[:-1], "1 removed: tools[4] (mail)"),
        ([FIVE[0], tool("new"), *FIVE[1:]], "1 added: tools[1] (new)"),
        (
            [*FIVE[:2], tool("track", "Finds a parcel by its number"), *FIVE[3:]],
            "1 changed: tools[2] (track)",
        ),
    ],
    ids=["at the end", "fewer", "in the middle", "defined anew"],
)
def test_other_tools(tools: list[dict[str, Any]], words: str) -> None:
    (found,) = analysed(talk([PAD] * 2, [FIVE, tools]).spans).findings

    assert (found.kind, found.severity) == ("tools_changed", "warning")
    assert words in found.detail


# ---- messages


def test_history_that_was_replaced_by_a_summary() -> None:
    app = App()
    history = [said("system", PAD), *turns(8)]
    app.call(history, answer="Answer 8: it is on its way.")
    summary = said(
        "user", "So far: " + "the customer asks for a parcel, and each time it is on its way. " * 3
    )
    app.call(
        [
            history[0],
            summary,
            *history[-3:],
            said("assistant", "Answer 8: it is on its way."),
            said("user", "And now?"),
        ]
    )

    analysis = analysed(app.spans)

    (found,) = [f for f in analysis.findings if f.path]
    assert (found.kind, found.severity) == ("compaction", "info")
    assert "12 parts" in found.detail


@pytest.mark.parametrize("opening", [[said("user", "Go on.")], []], ids=["another opening", "none"])
def test_history_that_was_replaced_by_a_summary_in_the_system_prompt(opening: list[dict[str, Any]]) -> None:
    """One cause, and no change of the system prompt beside it."""
    app = App()
    kept = [said("assistant", "Yes?"), said("user", "Tell me more, please."), said("assistant", "Fine.")]
    app.call([said("system", PAD), *turns(8), *kept[:2]], answer="Fine.")
    summary = (
        f"{PAD}\n\n# Summary of the conversation so far\n{'The parcel was asked for, and is late. ' * 9}"
    )
    app.call([said("system", summary), *opening, *kept, said("user", "And now?")])

    analysis = analysed(app.spans)

    (found,) = [f for f in analysis.findings if f.path]
    assert (found.kind, found.path) == ("compaction", "messages[0].parts[0]")
    assert analysis.readings[-1].cause == "compaction"


def test_a_summary_beside_a_system_prompt_that_changed() -> None:
    """Both are told, and each lost token is put down to one of them: what the system prompt lost is no summary's."""
    app = App()
    rules, asked = said("system", PAD), said("user", f"These are the terms: {PAD}")
    app.call(
        [said("system", "You are Ann."), rules, *turns(8), said("assistant", "Yes?"), asked], answer="Fine."
    )
    summary = said("user", "Summary: " + "the customer asks for a parcel, each time it is on its way. " * 3)
    kept = [said("assistant", "Yes?"), asked, said("assistant", "Fine."), said("user", "And now?")]
    app.call([said("system", "You are Bob, and kind."), rules, summary, *kept])

    analysis = analysed(app.spans)

    by_kind = {f.kind: f for f in analysis.findings if f.path}
    last = analysis.readings[-1]
    assert set(by_kind) == {"compaction", "prefix_changed"}
    assert by_kind["compaction"].path.startswith("messages[2]")
    assert by_kind["prefix_changed"].path.startswith("messages[0]")
    assert last.cause == "compaction"
    assert by_kind["compaction"].tokens + by_kind["prefix_changed"].tokens == last.wasted > 0
    assert dict(last.losses) == {k: f.tokens for k, f in by_kind.items()}
    assert min(f.tokens for f in by_kind.values()) > 1000


def test_a_block_that_is_always_put_last_has_moved() -> None:
    app = App()
    reminder = said("user", f"Remember: {PAD}")
    for i in (1, 2):
        app.call([said("system", PAD), *turns(i), reminder], answer=f"Answer {i}: it is on its way.")

    assert kinds(app.spans) == ["moved_segment"]


def test_two_messages_that_changed_places_have_moved() -> None:
    app = App()
    a, b = said("user", f"Context A. {PAD}"), said("user", f"Context B. {PAD}")
    app.call([a, b, *turns(2)])
    app.call([b, a, *turns(2), said("assistant", "ok"), said("user", "And?")])

    assert kinds(app.spans) == ["moved_segment"]


def test_new_text_in_front_of_the_history() -> None:
    app = App()
    app.call([said("system", PAD), *turns(3)], answer="Answer 3: it is on its way.")
    app.call([said("system", PAD), said("user", f"New context. {PAD}"), *turns(4)])

    (found,) = analysed(app.spans).findings
    assert (found.kind, found.title) == (
        "prefix_changed",
        "New content was put in front of what had been sent",
    )


def test_history_that_was_left_out() -> None:
    app = App()
    app.call([said("system", PAD), *turns(5)], answer="Answer 5: it is on its way.")
    app.call([said("system", PAD), *turns(6)[4:]])

    (found,) = analysed(app.spans).findings
    assert (found.kind, found.title) == ("evicted_content", "Content that had been sent was left out")
    assert {r.cause for r in analysed(app.spans).readings[1:]} == {"prefix_changed"}


# ---- what is no finding


def test_a_conversation_that_only_grows_is_clean() -> None:
    analysis = analysed(talk([PAD] * 6, [FIVE] * 6).spans)

    assert (analysis.findings, analysis.not_checked) == ((), ())


def test_a_rolling_cache_marker_is_no_change() -> None:
    app = App(**{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"})
    for i in (1, 2, 3):
        messages = [said("system", PAD), *turns(i)]
        messages[-1]["parts"][0]["cache_control"] = {"type": "ephemeral"}
        app.call(messages, answer=f"Answer {i}: it is on its way.")

    assert kinds(app.spans) == []


def test_a_hand_off_between_agents_is_no_change() -> None:
    app = App()
    history = turns(1)
    for i, (agent, system) in enumerate(
        (("triage", "Sort it."), ("refunds", "Pay it."), ("triage", "Sort it."))
    ):
        app.call(
            [said("system", f"{system} {PAD}"), *history], answer=f"A{i}", **{"gen_ai.agent.name": agent}
        )
        history = [*history, said("assistant", f"A{i}"), said("user", f"Go on {i}")]

    assert kinds(app.spans) == []


def test_sub_agents_are_conversations_of_their_own() -> None:
    """The main thread, two sub-agents with a system prompt of their own, the main thread again."""
    app = App()
    main = [said("system", f"Main agent. {PAD * 20}"), *turns(3)]
    app.call(main, FIVE, answer="I ask two others.")
    for i in (1, 2):
        app.call([said("system", f"Helper. {PAD}"), said("user", f"Look up parcel {i}.")], [tool("lookup")])
    app.call([*main, said("assistant", "I ask two others."), said("user", "Thanks, and?")], FIVE)

    analysis = analysed(app.spans)

    assert analysis.findings == ()
    assert [r.break_ for r in analysis.readings] == [None] * 4
    first, last = analysis.readings[0], analysis.readings[-1]
    assert (len(analysis.conversations), last.previous) == (3, first.call.id)


def test_sessions_side_by_side_do_not_mix() -> None:
    apps = [
        talk([f"Agent for {name}. {PAD}"] * 4, [FIVE] * 4, trace=i)
        for i, name in enumerate(("Ann", "Ben", "Cy"), 1)
    ]
    spans = [s for group in zip(*(a.spans for a in apps), strict=True) for s in group]

    assert kinds(spans) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_arrival_does_not_matter(seed: int) -> None:
    times = talk([f"It is 3:07:{s} PM. {PAD}" for s in (42, 45, 51)], [FIVE, FIVE[::-1], FIVE]).spans
    shuffled = list(times)
    random.Random(seed).shuffle(shuffled)

    first, second = analysed(times), analysed(shuffled)

    assert first.findings == second.findings
    assert first.not_checked == second.not_checked


@pytest.mark.parametrize("time", [0, 1_700_000_000_000_000_000])
@pytest.mark.parametrize("seed", range(3))
def test_where_all_times_are_equal_the_longer_history_goes_on_from_the_shorter(seed: int, time: int) -> None:
    timeless = [
        replace(s, start_unix_nano=time, end_unix_nano=time) for s in talk([PAD] * 6, [FIVE] * 6).spans
    ]
    random.Random(seed).shuffle(timeless)
    found = analysed(timeless)

    assert len(found.conversations) == 1
    assert [(r.turn, r.relation) for r in found.readings] == [
        (1, "new"),
        *((n, "continues") for n in range(2, 7)),
    ]
    assert [f.kind for f in found.findings if f.kind != "dead_tool_schema"] == []


# ---- what was not seen


CONTENTS = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")


def test_without_contents_nothing_is_clean() -> None:
    app = App()
    for i in (1, 2, 3):
        app.call(turns(i), **dict.fromkeys(CONTENTS), **{"gen_ai.usage.input_tokens": 1000 * i})

    analysis = analysed(app.spans)

    (found,) = analysis.findings
    (unchecked,) = analysis.not_checked
    assert (found.kind, len(found.calls)) == ("content_not_captured", 3)
    assert (unchecked.check, len(unchecked.calls)) == ("prefix_changed", 2)  # nothing stands before the first
    assert "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in found.fix
    assert "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY" in unchecked.why


# ---- single steps, built by hand


TEXTS = Texts(None)
ASSEMBLER = Assembler(lambda text, encoding: (len(text) // 4 + 1, "exact"), TEXTS)


THOUSAND = Usage(input=1000)


def made(
    system: str = "",
    messages: Sequence[str] = (),
    *,
    usage: Usage = THOUSAND,
    status: Status = "full",
    reasons: tuple[Reason, ...] = (),
    lost: Iterable[str] = (),
    **more: Any,
) -> Call:
    parts = [Part("user", "user", "", f"messages[{i}].parts[0]", m) for i, m in enumerate(messages)]
    parts_of_system = [Part("system", "system", "", "system[0]", system)] if system else []
    head = Section(ASSEMBLER.segment(p, "") for p in parts_of_system)
    history = grown(EMPTY, [ASSEMBLER.segment(p, "") for p in parts], len(parts))
    blank = Call(
        id="t:1", spans=(SpanRef("t", "1", "primary", "genai"),), trace_id="t", parent_id="", dialect="genai",
        scope="genai", scope_version="", service="shop", agent="", operation="chat", status="ok", error="",
        provider="openai", platform="openai", model="gpt-4o", response_id="", previous_response_id="",
        conversation_hint="", start_unix_nano=0, end_unix_nano=1, first_token_unix_nano=None,
        completeness=Completeness(status, reasons, frozenset(lost)), usage=usage,
        prompt=Prompt(NO_SECTION, head, history), answer=(), reserve=None, limit=None,
    )  # fmt: skip
    return replace(blank, **more)


def context(
    band: Band = "ok", usage: int | None = 1000, limit: int | None = 128_000, source: str = "rules"
) -> Context:
    return Context(usage, "exact", limit, source, 0, None, None, None, None, band)


def step(
    call: Call,
    old: Call | None = None,
    *,
    now: Context | None = None,
    previous: Reading | None = None,
    breaks: Sequence[Break] = (),
    conflicts: Sequence[str] = (),
    relation: Relation = "continues",
    **more: Any,
) -> Step:
    at = find_break(old, call, TEXTS.get) if old is not None else None
    counted = sum(s.tokens or 0 for s in call.prompt)
    tokens = Tokens(counted, None, None, "exact")
    reading = Reading(call, "t:1", 2, relation, None, 0, now or context(), tokens, at)
    return Step(
        reading._replace(**more),
        previous.call if previous else None,
        old,
        breaks,
        TEXTS.get,
        conflicts,
        previous.context if previous else None,
    )


def checked(s: Step) -> list[Finding | NotChecked]:
    return [r for check in CHECKS for r in check(s)]


def told(s: Step) -> list[str]:
    return [r.kind if isinstance(r, Finding) else f"? {r.check}" for r in checked(s)]


NOW, LATER = f"It is 3:07 PM. {PAD}", f"It is 3:09 PM. {PAD}"


@pytest.mark.parametrize(
    ("read", "evidence"),
    [(None, "predicted"), (0, "reported"), (100, "reported")],
)
def test_usage_confirms_what_the_text_predicts(read: int | None, evidence: str) -> None:
    old = made(NOW, ["x" * 8000])
    (found,) = checked(step(made(LATER, ["x" * 8000, "y"], usage=Usage(input=3000, cache_read=read)), old))

    assert isinstance(found, Finding)
    assert (found.kind, found.evidence) == ("volatile_prefix", evidence)


def test_a_cache_that_read_past_the_difference_denies_it() -> None:
    old = made(NOW, ["x" * 8000], usage=Usage(input=2200))
    s = step(made(LATER, ["x" * 8000, "y"], usage=Usage(input=2210, cache_read=2200)), old)

    assert told(s) == ["? prefix_changed"]


def test_a_text_of_before_may_be_cached_still() -> None:
    a, b = (
        made(f"Mode {m}. {PAD}", ["x" * 8000], usage=Usage(input=2200, cache_read=2200))
        for m in ("plan", "act")
    )
    first = find_break(a, b, TEXTS.get)
    assert first is not None

    (found,) = checked(step(a, b, breaks=[first]))

    assert isinstance(found, Finding)
    assert (found.kind, found.tokens) == ("prefix_changed", 0)


def test_no_call_reads_again_more_than_it_holds() -> None:
    old = made(f"Be kind. {PAD}", ["x" * 8000])
    new = made(f"Be rude. {PAD}", ["y" * 40])
    (found,) = checked(step(new, old))

    assert isinstance(found, Finding)
    assert 0 < found.tokens <= new.prompt.counted < old.prompt.counted


@pytest.mark.parametrize("mask", ["__REDACTED__", "[REDACTED]"])
def test_a_mask_is_no_change(mask: str) -> None:
    assert told(step(made(mask, ["a", "b"]), made(NOW, ["a"]))) == ["? prefix_changed"]


@pytest.mark.parametrize("form", ["sha256:{}", "{}", "SHA-256={}"])
def test_a_hash_in_the_place_of_a_text_is_no_change(form: str) -> None:
    one, other = (form.format(sha256(text).hexdigest()) for text in (b"one", b"other"))
    assert told(step(made(one, ["a", "b"]), made(other, ["a"]))) == ["? prefix_changed"]
    assert told(step(made(one, ["a", "b"]), made(NOW, ["a"]))) == ["? prefix_changed"]
    assert told(step(made(f"{one} {PAD}", ["a", "b"]), made(f"{other} {PAD}", ["a"]))) == ["volatile_prefix"]


def test_a_text_restored_from_an_answer_is_no_proof() -> None:
    old, new = made("", ["a", "b"]), made("", ["a", "c", "d"])
    chain = new.prompt.messages
    segments = tuple(replace(s, inferred=s.path == "messages[1].parts[0]") for s in chain)
    new = replace(new, prompt=replace(new.prompt, messages=replace(chain, new=segments)))

    assert told(step(new, old)) == ["? prefix_changed"]


def test_a_difference_where_the_text_was_cut_is_no_change() -> None:
    texts = [f"{'x' * 4000}[cut: 17{n} characters left]" for n in (11, 48)]
    old, new = (made("", ["a", t, "b"], status="partial", reasons=("value_cut",)) for t in texts)

    assert told(step(new, old)) == ["? prefix_changed", "content_truncated"]


@pytest.mark.parametrize(
    ("reasons", "lost", "expected"),
    [
        (("schema_missing",), {"tools"}, ["? tools_changed", "content_not_captured"]),
        (("redacted",), {"messages"}, ["? prefix_changed", "content_not_captured"]),
        (("redacted",), (), ["? prefix_changed", "content_not_captured"]),
        (("value_cut",), {"messages"}, ["? prefix_changed", "content_truncated"]),
        (("message_cut",), {"head"}, ["? prefix_changed", "content_truncated"]),
        (
            ("attributes_dropped",), {"tools", "head", "system"},
            ["? tools_changed", "? prefix_changed", "attributes_dropped"],
        ),
        (("server_side",), {"head"}, ["? prefix_changed", "content_not_captured"]),
        (("not_captured",), {"head"}, ["? prefix_changed", "content_not_captured"]),
        (("unparsable",), {"messages"}, ["? prefix_changed", "content_not_captured"]),
        (("logs_missing",), {"messages"}, ["? prefix_changed", "content_not_captured"]),
        (("reference_missing",), {"system"}, ["? prefix_changed", "content_not_captured"]),
        (("media_placeholder",), (), []),
    ],
)  # fmt: skip
def test_what_was_lost_is_said_once(
    reasons: tuple[Reason, ...], lost: Iterable[str], expected: list[str]
) -> None:
    old, new = made(PAD, ["a"]), made(PAD, ["a", "b"], status="partial", reasons=reasons, lost=lost)

    assert told(step(new, old)) == expected
    unchecked = [
        r for r in checked(step(made(PAD, ["a", "b"]), replace(new, id="t:0"))) if isinstance(r, NotChecked)
    ]
    assert [f"? {u.check}" for u in unchecked] == [
        e for e in expected if e.startswith("?")
    ]  # whichever call lost it


def test_a_break_in_the_system_prompt_stands_although_messages_are_lost() -> None:
    old = made(NOW, ["a"], status="partial", reasons=("value_cut",), lost={"messages"})

    assert told(step(made(LATER, ["a", "b"]), old)) == ["volatile_prefix"]


def test_without_the_texts_the_kind_of_change_is_left_open() -> None:
    s = step(made(LATER, ["a", "b"]), made(NOW, ["a"]))
    at = s.reading.break_
    assert at is not None
    s = replace(s, reading=s.reading._replace(break_=replace(at, char_offset=None)), text=lambda digest: None)

    (found,) = checked(s)

    assert isinstance(found, Finding)
    assert (found.kind, found.excerpt) == ("prefix_changed", "")


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        (made(PAD, ["a"], usage=Usage()), True),
        (made(PAD, ["a"], usage=Usage(input=0, output=0)), True),
        (made(PAD, ["a"]), False),
        (made(PAD, ["a"], usage=Usage(), status="partial", reasons=("aggregate_only",)), False),
        (replace(made(PAD, ["a"], usage=Usage()), status="error", error="RateLimitError"), False),
    ],
)
def test_usage_missing(call: Call, missing: bool) -> None:
    assert ("usage_missing" in told(step(call))) == missing


def test_contradictions_come_with_both_numbers() -> None:
    conflict = "cache read 1,200 is more than input 1,000"
    call = made(PAD, ["a"], usage=Usage(input=1000, conflicts=(conflict,)))

    found = [
        r
        for r in checked(step(call, conflicts=["input 900 on invoke_agent, 1,000 on its calls"]))
        if isinstance(r, Finding)
    ]

    assert [f.kind for f in found] == ["usage_inconsistent"] * 2
    assert conflict in found[0].detail
    assert "900" in found[1].detail


@pytest.mark.parametrize(
    ("spans", "double"),
    [
        ((("primary", "pydantic-ai"), ("duplicate", "com.anthropic.sdk.python")), True),
        ((("primary", "litellm"), ("duplicate", "litellm")), False),
        ((("primary", "pydantic-ai"), ("aggregate", "agents")), False),
    ],
)
def test_double_instrumentation(spans: Sequence[tuple[Any, str]], double: bool) -> None:
    refs = tuple(SpanRef("t", str(i), role, scope) for i, (role, scope) in enumerate(spans))

    found = [r for r in checked(step(replace(made(PAD, ["a"]), spans=refs))) if isinstance(r, Finding)]

    assert [f.kind for f in found] == ["double_instrumentation"] * double
    if double:
        assert "com.anthropic.sdk.python and pydantic-ai" in found[0].title
        assert "ANTHROPIC_OPEN_TELEMETRY=false" in found[0].fix


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (None, "low", True),
        ("unknown", "low", True),
        ("ok", "low", True),
        ("low", "low", False),
        ("low", "critical", True),
        ("critical", "low", False),
        ("ok", "ok", False),
        ("ok", "unknown", False),
    ],
)
def test_headroom_is_told_when_it_gets_worse(before: Band | None, now: Band, said: bool) -> None:
    previous = step(made(PAD, ["a"]), now=context(before)).reading if before else None

    found = told(step(made(PAD, ["a"]), now=context(now, 110_000), previous=previous))

    assert found == ["headroom_low"] * said


@pytest.mark.parametrize(
    ("call", "now", "exceeded"),
    [
        (replace(made(PAD, ["a"]), status="error", error="context_length_exceeded"), context(), True),
        (replace(made(PAD, ["a"]), status="error", error="ContextWindowExceededError"), context(), True),
        (replace(made(PAD, ["a"]), status="error", error="RateLimitError"), context(), False),
        (made(PAD, ["a"]), context("ok", 9000, 8000, "setting"), True),
        (made(PAD, ["a"]), context("exceeded", 9000, 8000, "attribute"), True),
        (made(PAD, ["a"]), context("ok", 8000, 8000, "setting"), False),
        (made(PAD, ["a"]), context("unknown", 9000, None, ""), False),
    ],
)
def test_window_exceeded(call: Call, now: Context, exceeded: bool) -> None:
    assert told(step(call, now=now)) == ["window_exceeded"] * exceeded


def test_an_error_message_is_never_repeated() -> None:
    call = replace(made(PAD, ["a"]), status="error", error="prompt is too long: SECRET-WORDS")

    (found,) = checked(step(call))

    assert isinstance(found, Finding)
    assert "SECRET" not in f"{found.title} {found.detail} {found.fix}"


def test_scopes_that_no_dialect_knows() -> None:
    found = unknown_dialects([("b.scope", 1), ("a.scope", 1200)])

    assert [f.kind for f in found] == ["unknown_dialect"] * 2
    assert "a.scope" in found[0].title
    assert "1,200 spans" in found[0].detail


# ---- gathering


def finding(call: str, **more: Any) -> Finding:
    return replace(Finding("prefix_changed", "warning", "T", "D.", "F", (call,), "system[0]", 10), **more)


def reading(call: str, service: str = "shop", agent: str = "", offset: int | None = None) -> Reading:
    at = Break("system[0]", "system", "modified", 10, offset, 0, None, None) if offset is not None else None
    return step(replace(made(PAD, ["a"]), id=call, service=service, agent=agent), break_=at).reading


def test_the_same_over_many_calls_is_one() -> None:
    found = [(finding(c, tokens=n), reading(c)) for c, n in (("a", 10), ("b", 30), ("c", 0))]

    (merged,), _ = gather(found)

    assert (merged.calls, merged.tokens) == (("a", "b", "c"), 40)
    assert merged.detail == "D. Billed again: 10 to 30 tokens each in 2 of 3 calls."


@pytest.mark.parametrize(
    "other", [{"title": "U"}, {"kind": "tools_changed"}, {"path": "system[1]"}], ids=["title", "kind", "path"]
)
def test_what_differs_stays_apart(other: dict[str, Any]) -> None:
    merged, _ = gather([(finding("a"), reading("a")), (finding("b", **other), reading("b"))])

    assert len(merged) == 2


def test_services_and_agents_stay_apart() -> None:
    merged, _ = gather(
        [
            (finding("a"), reading("a")),
            (finding("b"), reading("b", "other")),
            (finding("c"), reading("c", agent="x")),
        ]
    )

    assert len(merged) == 3


def test_agents_share_what_concerns_no_place_and_other_fixes_stay_apart() -> None:
    parts = [finding(c, path="", tokens=0) for c in "ab"] + [finding("c", path="", tokens=0, fix="G")]

    merged, _ = gather([(f, reading(f.calls[0], agent=f.calls[0])) for f in parts])

    assert [f.calls for f in merged] == [("a", "b"), ("c",)]


def test_a_further_change_is_folded_by_its_own_place() -> None:
    """A change of the system prompt, where the value that changes each time is the tool's in front of it."""
    system = Break("system[0]", "system", "modified", 10, 100, 1, None, None)
    at = Break("tools[0]", "tools", "modified", 20, 100, 0, None, None, system)
    both = step(made(PAD, ["a"]), break_=at).reading
    value = finding("a", kind="volatile_prefix", path="tools[0]")

    merged, _ = gather([(value, both), (finding("a"), both)])

    assert [(f.kind, f.path) for f in merged] == [
        ("prefix_changed", "system[0]"), ("volatile_prefix", "tools[0]")
    ]  # fmt: skip


def test_the_worst_come_first_then_the_dearest() -> None:
    found = [
        finding("a", severity="info", title="I", tokens=99),
        finding("b", title="W", tokens=1),
        finding("c", title="V", tokens=5),
        finding("d", severity="error", title="E", tokens=0),
    ]

    merged, _ = gather([(f, reading(f.calls[0])) for f in found])

    assert [f.title for f in merged] == ["E", "V", "W", "I"]


@pytest.mark.parametrize(("offset", "left"), [(110, 1), (400, 2), (None, 2)])
def test_a_change_at_the_place_of_a_volatile_value_is_part_of_it(offset: int | None, left: int) -> None:
    volatile = finding("b", kind="volatile_prefix", severity="error", title="V")

    merged, _ = gather([(finding("a"), reading("a", offset=offset)), (volatile, reading("b", offset=100))])

    assert len(merged) == left
    assert merged[0].kind == "volatile_prefix"
    assert merged[0].calls == (("a", "b") if left == 1 else ("b",))
    assert sum(f.tokens for f in merged) == 20


def filling(call: str, turn: int, now: Context, conversation: str = "a") -> Reading:
    return step(replace(made(PAD, ["a"]), id=call), now=now).reading._replace(
        turn=turn, conversation=conversation
    )


def low(at: Reading, newest: Reading) -> tuple[Finding, Reading]:
    (found,) = headroom_low(step(at.call, now=at.context))
    assert isinstance(found, Finding)
    return as_it_stands(found, at, newest), at


def test_how_full_the_window_is_is_one_finding_a_conversation_as_it_stands_at_last() -> None:
    first, second = filling("a", 3, context("low", 44_000)), filling("b", 4, context("critical", 63_000))
    last = filling("c", 7, context("critical", 88_000))
    other = filling("x", 1, context("low", 50_000), "x")

    merged, _ = gather([low(first, last), low(second, last), low(other, other)])

    one = next(f for f in merged if f.calls != ("x",))
    assert len(merged) == 2
    assert one.calls == ("a", "b")
    assert one.title == "The context window is nearly full"
    assert one.detail.startswith("By turn 7: 88,000 of ")


def test_room_that_came_back_is_told() -> None:
    full, after = filling("a", 3, context("critical", 90_000)), filling("b", 4, context("ok", 5_000))

    (one,), _ = gather([low(full, after)])

    assert one.detail.startswith("At turn 3: 90,000 of ")
    assert one.detail.endswith(" There is room again since.")


def test_a_full_window_has_no_room_and_no_turns() -> None:
    now = replace(context("critical", 110_000), headroom=0, headroom_turns=0.0, growth=476.0)

    (found,) = headroom_low(step(made(PAD, ["a"]), now=now))

    assert found.detail.endswith(", no room left.")


def test_the_first_call_of_several_has_nothing_to_be_compared_with() -> None:
    alone, first, second = (
        filling("a", 1, context()),
        filling("b", 1, context(), "b"),
        filling("c", 2, context(), "b"),
    )
    first, second = first._replace(relation="new"), second._replace(relation="continues")
    said = [(NotChecked("prefix_changed", "x", (r.call.id,)), r) for r in (alone, first, second)]

    _, (one,) = gather(said, [alone, first, second])

    assert one.calls == ("a", "c")


def test_the_best_evidence_is_kept() -> None:
    merged, _ = gather([(finding("a"), reading("a")), (finding("b", evidence="reported"), reading("b"))])

    assert merged[0].evidence == "reported"


def test_what_was_not_checked_is_one_for_each_reason() -> None:
    said = [NotChecked("prefix_changed", w, (c,)) for c, w in (("a", "x"), ("b", "y"), ("c", "x"))]

    _, merged = gather([(n, reading(n.calls[0])) for n in said])

    assert merged == (
        NotChecked("prefix_changed", "x", ("a", "c")),
        NotChecked("prefix_changed", "y", ("b",)),
    )


# ---- no prompt text


SENTINEL = "zanzibar"
WORDS = st.lists(
    st.sampled_from([SENTINEL, f"{SENTINEL} 3:07 PM", f"{SENTINEL} 3:09 PM", f"{SENTINEL}42"]), max_size=3
)
TEXT = WORDS.map(" ".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=4), TEXT), min_size=2, max_size=4))
def test_no_finding_repeats_a_prompt(story: list[tuple[str, list[str], str]]) -> None:
    """Whatever changes: only the excerpt, which is shown where text may be shown, has any of it."""
    app = App()
    history: list[dict[str, Any]] = []
    for system, messages, description in story:
        history = [*history[:2], *(said("user", m) for m in messages), said("user", f"{SENTINEL}?")]
        tools = [tool("search", f"{description} {SENTINEL}"), tool(f"{SENTINEL} {description}\n")]
        app.call([said("system", system), *history], tools)

    analysis = analysed(app.spans)

    for f in analysis.findings:
        assert SENTINEL not in " ".join((f.kind, f.title, f.detail, f.fix, f.path))
    for n in analysis.not_checked:
        assert SENTINEL not in n.why


def test_the_text_that_may_be_shown_is_in_the_excerpt() -> None:
    (found,) = analysed(
        talk([f"{SENTINEL} at 3:07 PM. {PAD}", f"{SENTINEL} at 3:09 PM. {PAD}"]).spans
    ).findings

    assert SENTINEL in found.excerpt


# ---- too short to be cached


def few(times: int) -> str:
    return PAD[: len(PAD) // 120 * times]


@pytest.mark.parametrize(
    ("times", "severity"), [(10, "info"), (120, "error")], ids=["below the minimum", "above it"]
)
def test_a_volatile_value_in_a_prompt_too_short_to_be_cached_costs_nothing_yet(
    times: int, severity: str
) -> None:
    app = talk([f"It is 3:0{n} PM. {few(times)}" for n in range(3, 6)])

    (found,) = analysed(app.spans).findings

    assert (found.kind, found.severity, len(found.calls)) == ("volatile_prefix", severity, 2)
    said_so = (
        "shorter than the 1,024 tokens from which on it is cached: this costs nothing yet." in found.detail
    )
    assert said_so == (severity == "info")
    assert (found.tokens == 0) == (severity == "info")


def test_a_short_prompt_that_grows_is_told_by_what_it_costs_at_last() -> None:
    systems = [f"It is 3:0{n} PM. {few(10)}" for n in range(3, 6)]
    app = App()
    history: list[dict[str, Any]] = []
    for n, system in enumerate([*systems, *systems[:2]]):
        history += [said("user", f"Question {n}? {PAD if n > 2 else ''}")]
        app.call([said("system", system), *history])
        history += [said("assistant", "ok")]

    (found,) = [f for f in analysed(app.spans).findings if f.kind == "volatile_prefix"]

    assert (found.severity, found.tokens > 0) == ("error", True)
    assert "costs nothing" not in found.detail


@pytest.mark.parametrize(("pad", "severity"), [("", "info"), (PAD, "error")])
def test_reordered_tools_of_a_short_prompt_cost_nothing_yet(pad: str, severity: str) -> None:
    tools = [tool("find"), tool("weather")]
    app = App()
    history = [said("system", f"Be kind. {pad}"), said("user", "Where?")]
    app.call(history, tools)
    app.call([*history, said("assistant", "ok"), said("user", "And now?")], tools[::-1])

    found = next(f for f in analysed(app.spans).findings if f.kind == "tools_reordered")

    assert (found.severity, "costs nothing yet" in found.detail) == (severity, severity == "info")


# ---- beside a change, and without promises


def test_what_the_provider_missed_in_front_of_an_edit_is_not_the_edit_s() -> None:
    """The tail was edited, and not even what stands in front of it was read: each lost token has one cause."""
    app = App(**{"gen_ai.usage.cache_read.input_tokens": 0})
    history = [said("system", PAD), *turns(8)]
    app.call(history, answer="Answer 8: it is on its way.")
    app.call(
        [*history, said("assistant", "Answer 8: it is on its way."), said("user", "And now?")], answer="Soon.",
        **{"gen_ai.usage.cache_read.input_tokens": 1792},
    )  # fmt: skip
    edited = [*history[:-2], said("assistant", "Answer 7, in other words."), *history[-1:]]
    app.call([*edited, said("assistant", "Answer 8: it is on its way."), said("user", "And now?")])

    analysis = analysed(app.spans)

    losses = dict(analysis.readings[-1].losses)
    assert losses.keys() == {"provider_side_miss", "prefix_changed"}
    assert losses["provider_side_miss"] > 10 * losses["prefix_changed"] > 0
    assert sum(losses.values()) == analysis.readings[-1].wasted
    assert {f.kind: f.tokens for f in analysis.findings if f.tokens} == losses


@pytest.mark.parametrize(("read", "missed"), [(0, True), (1, False)], ids=["nothing read", "the entry read"])
def test_of_a_marked_prompt_the_entry_in_front_of_the_edit_is_the_provider_s(read: int, missed: bool) -> None:
    """Each request was written to its end, so one entry ends in front of the answer that is edited: 25 tokens."""
    app = App(**{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"})
    ends = [2000, 2300, 2600, 2900]
    for n, (end, before) in enumerate(zip(ends, [0, *ends], strict=False), 1):
        history = [said("system", PAD), *turns(n)]
        if n == 4:
            history[4] = said("assistant", "Answer 1, in other words.")
            before = 2300 * read
        app.call(
            history,
            scope="opentelemetry.instrumentation.genai.anthropic",
            answer=f"Answer {n}: it is on its way.",
            **{
                "gen_ai.usage.input_tokens": end,
                "gen_ai.usage.cache_read.input_tokens": before,
                "gen_ai.usage.cache_creation.input_tokens": end - before,
            },
        )

    analysis = analysed(app.spans)

    losses = dict(analysis.readings[-1].losses)
    assert losses == (
        {"provider_side_miss": 2300, "prefix_changed": 275} if missed else {"prefix_changed": 275}
    )
    told = [f.detail for f in analysis.findings if f.kind == "provider_side_miss"]
    assert [d.split(",")[0] for d in told] == ["The text in front of the change had stayed the same"] * missed


@pytest.mark.parametrize("blocks", [0, 2])
def test_a_read_that_ends_near_the_edit_is_the_edit_s_alone(blocks: int) -> None:
    """Counts that are estimates put the edit a little before or behind where the provider saw it."""
    history = [said("system", PAD), *turns(40)]
    edited = [*history[:60], said("user", "Other words."), *history[61:]]

    def of(read: int) -> Analysis:
        app = App()
        app.call(history, answer="Fine.", **{"gen_ai.usage.cache_read.input_tokens": 0})
        app.call(edited, **{"gen_ai.usage.cache_read.input_tokens": read})
        return analysed(app.spans)

    access = of(0).readings[-1].access
    assert access is not None
    assert access.predicted is not None
    assert access.predicted.read > 1024
    analysis = of(access.predicted.read - 128 * blocks)
    assert {f.kind for f in analysis.findings if f.tokens} == {"prefix_changed"}


def test_a_reminder_behind_the_only_marker_is_shown_by_usage() -> None:
    """What stands in front of the reminder is nearly all; nothing of it can be read, and nothing was."""
    app = App(**{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"})
    reminder = {"type": "text", "content": "<reminder>Be brief, and cite the policy.</reminder>"}
    for n in (1, 2, 3):
        messages = [said("system", PAD), *turns(n)]
        messages[-1]["parts"].append(reminder)
        size = len(json.dumps(messages)) // 5
        app.call(
            messages,
            answer=f"Answer {n}: it is on its way.",
            scope="opentelemetry.instrumentation.genai.anthropic",
            **{
                "gen_ai.usage.input_tokens": size,
                "gen_ai.usage.cache_read.input_tokens": 0,
                "gen_ai.usage.cache_creation.input_tokens": size,
            },
        )

    found = [f for f in analysed(app.spans).findings if f.tokens]
    assert [(f.kind, f.evidence) for f in found] == [("moved_segment", "reported")] * 2


@pytest.mark.parametrize(
    ("provider", "model", "words"),
    [("vllm", "meta-llama/Llama-3.3-70B-Instruct", "not promised"), ("openai", "gpt-4o", "should have been alive")],
)  # fmt: skip
def test_a_lifetime_that_nobody_promises_is_not_held_against_a_provider(
    provider: str, model: str, words: str
) -> None:
    app = App(**{"gen_ai.provider.name": provider, "gen_ai.request.model": model})
    for n, read in ((1, 0), (2, 1536), (3, 0)):
        app.call(
            [said("system", PAD), *turns(n)],
            answer=f"Answer {n}: it is on its way.",
            **{"gen_ai.usage.cache_read.input_tokens": read},
        )

    (found,) = [f for f in analysed(app.spans).findings if f.kind == "provider_side_miss"]
    assert words in found.detail
    assert len(found.calls) == 1


def test_a_smaller_prompt_without_text_has_no_tail_that_was_sent_before() -> None:
    """It may be another session's: what of it was sent before, nothing tells."""
    app = App(**{"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"})
    for size, read, written in ((8662, 0, 8617), (9323, 8617, 0), (9812, 8617, 0), (9061, 8617, 0)):
        app.call(
            [],
            scope="opentelemetry.instrumentation.genai.anthropic",
            **{
                "gen_ai.input.messages": None,
                "gen_ai.output.messages": None,
                "gen_ai.tool.definitions": None,
                "gen_ai.usage.input_tokens": size,
                "gen_ai.usage.cache_read.input_tokens": read,
                "gen_ai.usage.cache_creation.input_tokens": written,
            },
        )

    readings = analysed(app.spans).readings
    assert [r.cause for r in readings[1:]] == ["", "missing_tail_breakpoint", ""]
    assert readings[-1].wasted == 0
