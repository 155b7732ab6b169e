"""What a span is given: the report's figures under ``otelctx.``, each once, nothing that an exporter chokes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx.engine import Engine, LiveEngine
from otel_ctx.inputs import read
from otel_ctx.model import Finding, Said
from otel_ctx.outputs import report
from otel_ctx.outputs.attributes import EVENT, Value, attributes, events, link

CASES = (
    "oi-anthropic",
    "oi-openai-chat-bust",
    "oi-openai-agents-stream",
    "oi-anthropic-12turns-limit128",
    "oi-openai-chat-hidemessages",
    "oll053-anthropic",
    "otel-genai-openai-chat-spanonly-stream-nousage",
)


@pytest.fixture(scope="module")
def settled(corpus_case: Callable[[str], Any]) -> Callable[[str], list[Said]]:
    """``settled("oi-anthropic")``: what is said of that case's calls when nothing more comes."""
    known: dict[str, list[Said]] = {}

    def of(case: str) -> list[Said]:
        if case not in known:
            engine = LiveEngine()
            for batch in read(corpus_case(case).files):
                engine.feed(batch.spans, batch.logs)
            known[case] = engine.drain()
        return known[case]

    return of


def every(settled: Callable[[str], list[Said]]) -> Iterator[Said]:
    for case in CASES:
        yield from settled(case)


def strings(values: dict[str, Value]) -> Iterator[str]:
    for v in values.values():
        if isinstance(v, str):
            yield v
        elif isinstance(v, tuple):
            yield from v


# ---- the primary span


@pytest.mark.parametrize("case", CASES)
def test_the_figures_are_those_of_the_report(
    case: str, settled: Callable[[str], list[Said]], corpus_case: Callable[[str], Any]
) -> None:
    engine = Engine()
    for batch in read(corpus_case(case).files):
        engine.feed(batch.spans, batch.logs)
    calls = {c["id"]: c for c in report.build(engine.close(), report.Inputs((), ()))["calls"]}

    said = settled(case)

    assert said
    assert {s.reading.call.id for s in said} == set(calls)
    for s in said:
        call, got = calls[s.reading.call.id], attributes(s, "primary")
        assert got["otelctx.completeness"] == call["completeness"]["status"]
        assert list(got.get("otelctx.completeness.reasons", ())) == call["completeness"]["reasons"]  # type: ignore[arg-type]
        assert got["otelctx.conversation.id"] == call["conversation"]
        placed = not s.reading.unplaced or s.reading.call.conversation_hint
        assert got.get("otelctx.conversation.turn") == (call["turn"] if placed else None)
        assert got["otelctx.conversation.relation"] == call["relation"]
        for name in ("usage", "limit", "utilization", "headroom", "headroom_turns", "growth"):
            assert got.get(f"otelctx.context.{name}") == call["context"][name]
        assert got["otelctx.tokens.method"] == call["tokens"]["method"]
        assert got.get("otelctx.tokens.unaccounted") == call["tokens"]["unaccounted"]
        assert got.get("otelctx.cache.outcome") == call["cache"]["outcome"]
        reported, at = call["cache"]["reported"] or {}, call["cache"]["break"] or {}
        assert got.get("otelctx.cache.read.reported") == reported.get("read")
        assert [got.get(f"otelctx.cache.break.{k}") for k in ("path", "kind", "tokens")] == [
            at.get(k) for k in ("path", "kind", "tokens")
        ]
        for name in ("predicted", "optimal"):
            assert got.get(f"otelctx.cache.read.{name}") == (call["cache"][name] or {}).get("read")
        for name in ("cause", "evidence"):
            assert got.get(f"otelctx.cache.{name}") == call["cache"][name]
        assert got.get("otelctx.waste.tokens") == (call["waste"] or {}).get("tokens")
        assert got.get("otelctx.cost.usd") == (call["cost"] or {}).get("usd")
        assert list(got.get("otelctx.findings", ())) == call["findings"]  # type: ignore[arg-type]


def test_the_cases_show_every_attribute(settled: Callable[[str], list[Said]]) -> None:
    seen = {k for s in every(settled) for k in attributes(s, "primary") if ".segments." not in k}

    assert seen == {
        "otelctx.call.role",
        "otelctx.cache.cause",
        "otelctx.cache.evidence",
        "otelctx.cache.read.optimal",
        "otelctx.cache.read.predicted",
        "otelctx.cost.usd",
        "otelctx.waste.tokens",
        "otelctx.provisional",
        "otelctx.completeness",
        "otelctx.completeness.reasons",
        "otelctx.conversation.id",
        "otelctx.conversation.turn",
        "otelctx.conversation.relation",
        "otelctx.context.usage",
        "otelctx.context.limit",
        "otelctx.context.utilization",
        "otelctx.context.headroom",
        "otelctx.context.headroom_turns",
        "otelctx.context.growth",
        "otelctx.tokens.method",
        "otelctx.tokens.unaccounted",
        "otelctx.cache.outcome",
        "otelctx.cache.read.reported",
        "otelctx.cache.break.path",
        "otelctx.cache.break.kind",
        "otelctx.cache.break.tokens",
        "otelctx.findings",
    }


def test_what_no_segment_accounts_for_is_other(settled: Callable[[str], list[Said]]) -> None:
    with_other = 0
    for s in every(settled):
        got = attributes(s, "primary")
        segments = {k: v for k, v in got.items() if k.startswith("otelctx.segments.")}
        if "otelctx.segments.other.tokens" in segments:
            with_other += 1
            assert len(segments) > 1
            assert sum(v for v in segments.values() if isinstance(v, int)) == s.reading.call.usage.input

    assert with_other


def test_segments_are_in_the_providers_tokens(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")
    r = said.reading
    raw = r._replace(tokens=replace(r.tokens, factor=1.0))

    calibrated, counted = (attributes(replace(said, reading=x), "primary") for x in (r, raw))

    assert r.tokens.method == "calibrated"
    system = counted["otelctx.segments.system.tokens"]
    assert isinstance(system, int)
    assert calibrated["otelctx.segments.system.tokens"] == round(system * r.tokens.factor) != system


def test_an_unseen_prompt_has_no_segments(settled: Callable[[str], list[Said]]) -> None:
    unseen = [s for s in every(settled) if s.reading.tokens.method == "unmeasured"]

    assert unseen
    for s in unseen:
        assert not any(k.startswith("otelctx.segments.") for k in attributes(s, "primary"))


def test_what_is_not_known_is_left_out_and_what_is_zero_is_not(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")
    r = said.reading
    unknown = r._replace(context=replace(r.context, limit=None, utilization=None, headroom=None))
    full = r._replace(context=replace(r.context, headroom=0))

    none = attributes(replace(said, reading=unknown), "primary")
    zero = attributes(replace(said, reading=full), "primary")

    assert not none.keys() & {
        "otelctx.context.limit",
        "otelctx.context.utilization",
        "otelctx.context.headroom",
    }
    assert zero["otelctx.context.headroom"] == 0


@pytest.mark.parametrize(
    ("status", "lost", "previous", "hint", "turn"),
    [
        ("usage_only", {"messages"}, None, "", None),
        ("none", {"messages"}, None, "", None),
        ("partial", {"head"}, None, "", None),
        ("partial", {"tools"}, None, "", 1),
        ("full", set(), None, "", 1),
        ("usage_only", {"messages"}, None, "session-7", 1),
        ("usage_only", {"messages"}, f"{1:032x}:{2:016x}", "", 1),
    ],
)
def test_a_call_that_could_not_be_placed_has_no_turn(
    status: Any,
    lost: set[str],
    previous: str | None,
    hint: str,
    turn: int | None,
    settled: Callable[[str], list[Said]],
) -> None:
    said = settled("oi-anthropic")[0]
    seen = replace(said.reading.call.completeness, status=status, lost=frozenset(lost))
    call = replace(said.reading.call, completeness=seen, conversation_hint=hint)
    told = replace(said, reading=said.reading._replace(call=call, previous=previous, turn=1))

    assert attributes(told, "primary").get("otelctx.conversation.turn") == turn


@pytest.mark.parametrize("provisional", [True, False])
def test_provisional_is_always_told(provisional: bool, settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")
    said = replace(said, reading=said.reading._replace(provisional=provisional))

    assert attributes(said, "primary")["otelctx.provisional"] is provisional


def test_they_are_few_and_of_kinds_that_every_exporter_takes(settled: Callable[[str], list[Said]]) -> None:
    for s in every(settled):
        got = attributes(s, "primary")
        assert len(got) <= 38
        for value in got.values():
            assert isinstance(value, (bool, int, float, str)) or (
                isinstance(value, tuple) and value and all(isinstance(v, str) for v in value)
            )


# ---- the other spans of a call


@pytest.mark.parametrize("role", ["duplicate", "aggregate"])
def test_other_spans_have_nothing_to_add_up(role: Any, settled: Callable[[str], list[Said]]) -> None:
    for s in every(settled):
        assert attributes(s, role) == {
            "otelctx.call.role": role,
            "otelctx.conversation.id": s.reading.conversation,
        }


# ---- events


def finding(**changes: Any) -> Finding:
    plain = Finding(
        kind="tools_changed",
        severity="warning",
        title="Tool definitions changed",
        detail="tools[1] is new.",
        fix="Leave them.",
        calls=("a",),
        path="tools[1]",
        tokens=1200,
        evidence="reported",
        excerpt="the secret text of a prompt",
    )
    return replace(plain, **changes)


def test_a_finding_is_an_event_without_its_excerpt(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")

    assert events(replace(said, findings=(finding(),))) == (
        (
            EVENT,
            {
                "otelctx.finding.kind": "tools_changed",
                "otelctx.finding.severity": "warning",
                "otelctx.finding.title": "Tool definitions changed",
                "otelctx.finding.detail": "tools[1] is new.",
                "otelctx.finding.path": "tools[1]",
                "otelctx.finding.tokens": 1200,
                "otelctx.finding.evidence": "reported",
            },
        ),
    )


def test_a_finding_without_place_or_loss_does_not_tell_them(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")

    ((_, got),) = events(replace(said, findings=(finding(path="", tokens=0),)))

    assert not got.keys() & {"otelctx.finding.path", "otelctx.finding.tokens"}


def test_every_finding_is_told_once_and_its_kind_once(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")
    said = replace(said, findings=(finding(), finding(title="another"), finding(kind="headroom_low")))

    assert len(events(said)) == 3
    assert attributes(said, "primary")["otelctx.findings"] == ("tools_changed", "headroom_low")


def test_no_prompt_text(settled: Callable[[str], list[Said]], corpus_case: Callable[[str], Any]) -> None:
    """No 12 characters of a message, a system prompt or a tool's description."""
    checked = 0
    for case in CASES:
        engine = Engine()
        for batch in read(corpus_case(case).files):
            engine.feed(batch.spans, batch.logs)
        analysis = engine.close()
        texts = [analysis.text(s.digest) or "" for r in analysis.readings for s in r.call.prompt]
        told = {
            text
            for s in settled(case)
            for values in (attributes(s, "primary"), *(e for _, e in events(s)))
            for text in strings(values)
        }
        own = "\0".join(told)
        runs = {text[i : i + 12] for text in texts for i in range(len(text) - 11)}
        assert not [r for r in runs if r in own]
        checked += len(runs)
    assert checked > 1000


# ---- what would make an exporter lose a batch


def test_numbers_that_otlp_cannot_hold_are_left_out(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")
    r = said.reading

    def told(usage: int) -> dict[str, Value]:
        return attributes(
            replace(said, reading=r._replace(context=replace(r.context, usage=usage))), "primary"
        )

    assert told(2**63 - 1)["otelctx.context.usage"] == 2**63 - 1
    assert "otelctx.context.usage" not in told(2**63)


def test_strings_are_short_and_can_be_encoded(settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")

    ((_, got),) = events(replace(said, findings=(finding(title="scope \ud800 " + "x" * 5000),)))

    title = got["otelctx.finding.title"]
    assert isinstance(title, str)
    assert title.startswith("scope ? x")
    assert len(title.encode()) <= 2048


# ---- links


def test_a_link_goes_to_the_call_that_is_continued(settled: Callable[[str], list[Said]]) -> None:
    said = settled("oi-anthropic")

    for s in said:
        to = link(s.reading)
        assert (":".join(to) if to is not None else None) == s.reading.previous
    assert any(link(s.reading) for s in said)


@pytest.mark.parametrize(
    "previous", [None, "requests.jsonl:3", f"{'0' * 32}:{'0' * 16}", f"{'A' * 32}:{'1' * 16}", "1" * 32]
)
def test_no_link_to_what_is_no_span(previous: str | None, settled: Callable[[str], list[Said]]) -> None:
    (said, *_) = settled("oi-anthropic")

    assert link(said.reading._replace(previous=previous)) is None
