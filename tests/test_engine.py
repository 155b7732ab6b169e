"""The engine as a whole: any order and any chunks, the same words; nothing made up, nothing counted twice."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_ctx.engine import Engine, Settings
from otel_ctx.model import Analysis, LogRecord, Span
from otel_ctx.outputs.report import Inputs, build, dumps

SECOND = 1_000_000_000
MILLI = 1_000_000
BASE = 1_764_500_000 * SECOND
SCOPE = "opentelemetry.instrumentation.genai.openai"
WORDS = "parcel refund invoice colour size policy receipt shoe jacket carrier label stock".split()

Message = dict[str, Any]


# ---- sessions, as instrumented applications tell of them


@dataclass(frozen=True)
class Plan:
    """One conversation. ``content``: where it is told: on the span, in one record a call, in one a message,
    or nowhere."""

    turns: int
    start: int  # seconds
    every: int
    seed: int  # equal seeds: equal words
    content: str
    system: str
    tools: int
    session: bool
    traces: bool  # a trace for each call
    wrapped: bool
    error: int  # the turn that fails once, and is tried again
    clock: bool  # a time in the system prompt


PLANS = st.builds(
    Plan,
    turns=st.integers(1, 4),
    start=st.integers(0, 20),
    every=st.sampled_from([3, 7, 400]),
    seed=st.integers(0, 2),
    content=st.sampled_from(["span", "span", "record", "messages", "none"]),
    system=st.sampled_from(["", "apart", "inside"]),
    tools=st.integers(0, 2),
    session=st.booleans(),
    traces=st.booleans(),
    wrapped=st.booleans(),
    error=st.sampled_from([-1, -1, 0, 1]),
    clock=st.booleans(),
)
SESSIONS = st.lists(PLANS, min_size=1, max_size=4)


def said(role: str, text: str) -> Message:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


class World:
    """Renders plans as spans and log records."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.spans: list[Span] = []
        self.logs: list[LogRecord] = []
        self.requests: list[tuple[int, list[tuple[str, str]]]] = []  # start, and the spans that tell of it
        for i, plan in enumerate(plans):
            self._render(i, plan)

    def _render(self, number: int, plan: Plan) -> None:
        words = random.Random(plan.seed)
        tools = [
            {
                "type": "function",
                "name": f"tool_{n}",
                "description": "Looks it up.",
                "parameters": {"type": "object"},
            }
            for n in range(plan.tools)
        ]
        history: list[Message] = []
        at = BASE + plan.start * SECOND + number * MILLI
        for turn in range(plan.turns):
            hour = f" It is {turn + 1}:07 PM." if plan.clock else ""
            system = f"You are a clerk.{hour} " + "Be kind and brief. " * 5
            question = " ".join(words.choices(WORDS, k=6)) + "?"
            answer = said("assistant", " ".join(words.choices(WORDS, k=4)) + ".")
            history = [*history, said("user", question)]
            sent = [said("system", system), *history] if plan.system == "inside" else history
            trace = number * 100 + (turn if plan.traces else 0) + 1
            for failed in (True, False) if turn == plan.error else (False,):
                apart = system if plan.system == "apart" else ""
                self._call(plan, number, trace, at, sent, apart, tools, None if failed else answer)
                at += 2 * SECOND
            history = [*history, answer]
            at += plan.every * SECOND

    def _call(
        self,
        plan: Plan,
        number: int,
        trace: int,
        at: int,
        sent: list[Message],
        system: str,
        tools: list[Message],
        answer: Message | None,
    ) -> None:
        size = len(json.dumps([sent, system, tools])) // 5
        usage = {
            "gen_ai.usage.input_tokens": size,
            "gen_ai.usage.output_tokens": 9,
            "gen_ai.usage.cache_read.input_tokens": size // 2,
            "gen_ai.usage.cache_creation.input_tokens": 0,
        }
        content: dict[str, Any] = {
            "gen_ai.input.messages": sent,
            "gen_ai.output.messages": [answer] if answer else None,
            "gen_ai.system_instructions": [{"type": "text", "content": system}] if system else None,
            "gen_ai.tool.definitions": tools,
        }
        on_span = {k: json.dumps(v) for k, v in content.items() if v is not None}
        who = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.conversation.id": f"session-{number}" if plan.session else None,
        }
        parent = ""
        if plan.wrapped:
            parent = self._span(trace, "", at - MILLI, SECOND + 2 * MILLI, {**who, **usage}, "acme.framework")
        attributes = {**who, **(usage if answer else {"error.type": "RateLimitError"})}
        if plan.content == "span":
            attributes.update(on_span)
        id_ = self._span(trace, parent, at, SECOND, attributes, SCOPE)
        self.requests.append((at, [(f"{trace:032x}", i) for i in (parent, id_) if i]))
        if plan.content == "record":
            self._log(
                trace,
                id_,
                at + SECOND - 1,
                "gen_ai.client.inference.operation.details",
                None,
                {**who, **content},
            )
        if plan.content == "messages":
            names = {
                "system": "gen_ai.system.message",
                "user": "gen_ai.user.message",
                "assistant": "gen_ai.assistant.message",
            }
            first = [said("system", system)] if system else []
            for i, message in enumerate([*first, *sent]):
                body = {"content": message["parts"][0]["content"]}
                self._log(trace, id_, at + i + 1, names[message["role"]], body, {})
            if answer:
                body = {"index": 0, "message": {"content": answer["parts"][0]["content"]}}
                self._log(trace, id_, at + SECOND - 1, "gen_ai.choice", body, {})

    def _span(
        self, trace: int, parent: str, at: int, length: int, attributes: dict[str, Any], scope: str
    ) -> str:
        id_ = f"{len(self.spans) + 1:016x}"
        known = {k: v for k, v in attributes.items() if v is not None}
        failed = "error.type" in known
        self.spans.append(
            Span(
                f"{trace:032x}",
                id_,
                parent,
                "chat",
                at,
                at + length,
                known,
                3,
                scope_name=scope,
                scope_version="1.3b0",
                resource={"service.name": "shop"},
                status_code=2 * failed,
            )
        )
        return id_

    def _log(
        self, trace: int, span_id: str, at: int, name: str, body: Any, attributes: dict[str, Any]
    ) -> None:
        known = {k: v for k, v in attributes.items() if v is not None}
        self.logs.append(LogRecord(f"{trace:032x}", span_id, name, at, body, known, SCOPE, "1.3b0"))


INPUTS = Inputs((), ())
thorough = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def whole(world: World) -> Analysis:
    engine = Engine()
    engine.feed(world.spans, world.logs)
    return engine.close()


def written(analysis: Analysis) -> bytes:
    return dumps(build(analysis, INPUTS, include_text=True))


# ---- properties


@thorough
@given(SESSIONS, st.randoms(use_true_random=False))
def test_any_order_and_any_chunks_give_the_same_report_to_the_byte(
    plans: list[Plan], chance: random.Random
) -> None:
    world = World(plans)
    expected = written(whole(world))
    records: list[tuple[str, Any]] = [*(("span", s) for s in world.spans), *(("log", r) for r in world.logs)]
    chance.shuffle(records)
    engine = Engine()
    while records:
        size = chance.randint(1, len(records))
        chunk, records = records[:size], records[size:]
        engine.feed([r for kind, r in chunk if kind == "span"], [r for kind, r in chunk if kind == "log"])
    assert written(engine.close()) == expected


@thorough
@given(SESSIONS)
def test_a_second_delivery_of_everything_changes_nothing(plans: list[Plan]) -> None:
    world = World(plans)
    engine = Engine()
    engine.feed(world.spans, world.logs)
    engine.feed(world.spans, world.logs)
    assert written(engine.close()) == written(whole(world))


def without_scopes(report: dict[str, Any]) -> dict[str, Any]:
    """What a reading says but for the scope, and for the words that a scope's own rules give."""
    for call in report["calls"]:
        call["scope"] = call["scope_version"] = call["usage"]["semantics_evidence"] = None
        for s in call["spans"]:
            s["scope"] = None
        call["findings"] = [k for k in call["findings"] if k != "double_instrumentation"]
    found = [f for f in report["findings"] if f["kind"] != "double_instrumentation"]
    report["findings"] = sorted((f["kind"], f["path"] or "", id_) for f in found for id_ in f["calls"])
    report["not_checked"] = sorted((n["check"], id_) for n in report["not_checked"] for id_ in n["calls"])
    return report


@thorough
@given(SESSIONS)
def test_hidden_scopes_give_the_same_reading(plans: list[Plan]) -> None:
    # what a scope alone tells: that there were no tools where none are recorded
    world = World(
        [
            replace(p, tools=max(p.tools, 1), content="record" if p.content == "messages" else p.content)
            for p in plans
        ]
    )
    expected = without_scopes(json.loads(written(whole(world))))
    world.spans = [replace(s, scope_name="", scope_version="") for s in world.spans]
    world.logs = [replace(r, scope_name="", scope_version="") for r in world.logs]
    assert without_scopes(json.loads(written(whole(world)))) == expected


@thorough
@given(SESSIONS)
def test_every_request_is_one_call_and_every_text_is_in_one_segment(plans: list[Plan]) -> None:
    world = World(plans)
    analysis = whole(world)

    requests = [s for s in world.spans if s.scope_name == SCOPE]
    assert len(analysis.readings) == len(requests)
    by_span = {f"{s.trace_id}:{s.span_id}": r for r in analysis.readings for s in r.call.spans}
    told: dict[str, list[str]] = {}
    for s in requests:
        messages = json.loads(s.attributes.get("gen_ai.input.messages", "[]"))
        system = json.loads(s.attributes.get("gen_ai.system_instructions", "[]"))
        told[f"{s.trace_id}:{s.span_id}"] = [
            p["content"] for p in [*system, *(p for m in messages for p in m["parts"])]
        ]
    for log in world.logs:
        texts = told[f"{log.trace_id}:{log.span_id}"]
        if log.body is None:
            system = log.attributes.get("gen_ai.system_instructions", [])
            texts += [
                p["content"]
                for p in [*system, *(p for m in log.attributes["gen_ai.input.messages"] for p in m["parts"])]
            ]
        elif log.name != "gen_ai.choice":
            texts.append(log.body["content"])
    for id_, texts in told.items():
        reading = by_span[id_]
        assert [analysis.text(s.digest) for s in reading.call.prompt if s.kind != "tools"] == texts
        assert (reading.call.completeness.status in ("usage_only", "none")) == (not texts)


@thorough
@given(SESSIONS)
def test_each_session_is_one_conversation(plans: list[Plan]) -> None:
    seen = [
        replace(p, seed=10 + i, content="span" if p.content == "none" else p.content)
        for i, p in enumerate(plans)
    ]
    world = World(seen)
    analysis = whole(world)

    made = {tuple(sorted(c.calls)) for c in analysis.conversations}
    sessions: dict[int, list[str]] = {}
    for _, spans in world.requests:
        trace, span_id = spans[-1]
        sessions.setdefault((int(trace, 16) - 1) // 100, []).append(f"{trace}:{span_id}")
    mine = {f"{s.trace_id}:{s.span_id}": r.call.id for r in analysis.readings for s in r.call.spans}
    assert made == {tuple(sorted(mine[i] for i in ids)) for ids in sessions.values()}
    for conversation in analysis.conversations:
        assert not conversation.joined
        assert (conversation.gaps, conversation.parent) == (0, None)


@thorough
@given(SESSIONS)
def test_what_is_said_is_bounded_by_what_was_given(plans: list[Plan]) -> None:
    world = World(plans)
    analysis = whole(world)
    made = build(analysis, INPUTS)  # raises where a sum does not hold

    assert len(made["calls"]) <= len(world.spans)
    assert len(made["conversations"]) <= len(made["calls"])
    assert sorted(i for c in made["conversations"] for i in c["calls"]) == sorted(
        c["id"] for c in made["calls"]
    )
    known = [c["id"] for c in made["calls"]]
    for i, call in enumerate(made["calls"]):
        assert call["previous"] is None or call["previous"] in known[:i]
        assert call["segments"]["from"] is None or call["segments"]["from"] in known[:i]
        assert call["conversation"] in known[: i + 1]
        assert 1 <= call["turn"] <= i + 1
        assert call["context"]["headroom"] is None or call["context"]["headroom"] <= call["context"]["limit"]
    size = sum(len(json.dumps(dict(s.attributes))) for s in world.spans) + sum(
        len(json.dumps([r.body, dict(r.attributes)])) for r in world.logs
    )
    text = sum(s["bytes"] for c in made["calls"] for s in c["segments"]["new"])
    assert text <= size
    assert len(dumps(made)) <= 20 * size + 4000 * len(world.spans)
    assert sum(f["tokens"] for f in made["findings"]) <= sum(c["usage"]["input"] or 0 for c in made["calls"])


@thorough
@given(SESSIONS, st.data())
def test_a_figure_depends_on_what_came_before_and_on_nothing_else(
    plans: list[Plan], data: st.DataObject
) -> None:
    world = World(plans)
    expected = {r.call.id: r for r in whole(world).readings}
    cut = data.draw(st.sampled_from(sorted(at for at, _ in world.requests)))
    ids = {id_ for at, spans in world.requests if at <= cut for id_ in spans}
    world.spans = [s for s in world.spans if (s.trace_id, s.span_id) in ids]
    world.logs = [r for r in world.logs if (r.trace_id, r.span_id) in ids]
    for reading in whole(world).readings:
        later = expected[reading.call.id]
        for field in (
            "conversation",
            "turn",
            "relation",
            "previous",
            "shared",
            "context",
            "tokens",
            "break_",
            "findings",
            "gap",
        ):
            assert getattr(reading, field) == getattr(later, field), field


# ---- the edges


def test_an_engine_may_be_closed_twice() -> None:
    plan = Plan(3, 0, 3, 0, "span", "apart", 1, False, True, False, -1, True)
    engine = Engine()
    world = World([plan])
    engine.feed(world.spans)
    assert written(engine.close()) == written(engine.close())


def test_no_records_are_no_calls() -> None:
    analysis = Engine().close()
    assert (analysis.readings, analysis.conversations, analysis.findings, analysis.orphans) == ((), (), (), 0)


def test_texts_leave_under_their_cap_and_figures_stay() -> None:
    world = World([Plan(4, 0, 3, 0, "span", "apart", 1, False, True, False, -1, True)])
    small = Engine(Settings(text_cap=40))
    small.feed(world.spans)
    kept, whole_ = small.close(), whole(world)
    assert [r.tokens for r in kept.readings] == [r.tokens for r in whole_.readings]
    assert [r.relation for r in kept.readings] == [r.relation for r in whole_.readings]
    held = [kept.text(s.digest) for r in kept.readings for s in r.call.prompt]
    assert any(t is None for t in held)
    assert sum(len(t) for t in set(held) if t) <= 40


def test_a_kind_of_finding_can_be_left_out() -> None:
    world = World([Plan(4, 0, 3, 0, "span", "apart", 1, False, True, False, -1, True)])
    kinds = {f.kind for f in whole(world).findings}
    assert "volatile_prefix" in kinds
    engine = Engine(Settings(ignore=frozenset({"volatile_prefix"})))
    engine.feed(world.spans)
    analysis = engine.close()
    assert {f.kind for f in analysis.findings} == kinds - {"volatile_prefix"}
    assert all("volatile_prefix" not in r.findings for r in analysis.readings)
    ((kind, calls),) = analysis.ignored
    assert kind == "volatile_prefix"
    assert calls >= 2


def test_spans_of_a_model_that_no_dialect_knows_are_counted_once_by_scope() -> None:
    foreign = Span(
        "a" * 32, "b" * 16, "", "x", BASE, BASE + 1, {"llm.strange.token_count": 5}, scope_name="acme"
    )
    engine = Engine()
    engine.feed([foreign, replace(foreign, span_id="c" * 16), foreign])
    analysis = engine.close()
    assert analysis.foreign == (("acme", 2),)
    assert [f.kind for f in analysis.findings] == ["unknown_dialect"]
