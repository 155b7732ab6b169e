"""What earlier calls say of how completely a later one was recorded: texts that end at one length, histories on a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.model import Analysis, Completeness, Span

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
OPENINFERENCE = "openinference.instrumentation.openai"
RULES = "You are a clerk of the company. " + " ".join(
    f"Rule {i}: treat parcels of class {i} with care." for i in range(200)
)
RESULT = "Found: " + " ".join(f"{i} {i * i}" for i in range(1500))
OTHER = "Elsewhere: " + " ".join(f"{i}x{i + 1}" for i in range(1500))

Json = dict[str, Any]


def flat(n: int, texts: Sequence[tuple[str, str]], tokens: int | None = None, service: str = "shop") -> Span:
    """Call ``n``, a minute after the one before; ``texts``: role and content, an attribute each."""
    attributes: Json = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.provider": "openai",
    }
    for i, (role, content) in enumerate(texts):
        attributes[f"llm.input_messages.{i}.message.role"] = role
        attributes[f"llm.input_messages.{i}.message.content"] = content
    if tokens is not None:
        attributes |= {"llm.token_count.prompt": tokens, "llm.token_count.completion": 5}
    return _span(n, attributes, service, OPENINFERENCE)


def _span(n: int, attributes: Json, service: str, scope: str) -> Span:
    start = BASE + 60 * n * SECOND
    return Span(
        trace_id=f"{n:032x}",
        span_id=f"{n:016x}",
        parent_id="",
        name="chat",
        start_unix_nano=start,
        end_unix_nano=start + SECOND,
        attributes=attributes,
        scope_name=scope,
        resource={"service.name": service},
    )


def analysed(*spans: Span) -> Analysis:
    engine = Engine()
    engine.feed(spans)
    return engine.close()


def seen(*spans: Span) -> list[tuple[str, tuple[str, ...], set[str]]]:
    return [_of(r.call.completeness) for r in analysed(*spans).readings]


def _of(c: Completeness) -> tuple[str, tuple[str, ...], set[str]]:
    return c.status, c.reasons, set(c.lost)


FULL = ("full", (), set())
LIMIT = 2048


def cut(*texts: tuple[str, str], to: int = LIMIT) -> list[tuple[str, str]]:
    return [(role, text[:to]) for role, text in texts]


SYSTEM, ASKED, FOUND, MORE = (
    ("system", RULES),
    ("user", "What is in the box?"),
    ("user", RESULT),
    ("user", OTHER),
)


# ---- one length


def test_unlike_texts_of_one_length_were_cut_there() -> None:
    (only,) = seen(flat(1, cut(SYSTEM, ASKED, FOUND)))

    assert only == ("partial", ("value_cut",), {"messages"})


def test_what_an_earlier_call_showed_holds_for_a_later_one() -> None:
    """The second has one text of that length only."""
    first, second = seen(flat(1, cut(SYSTEM, ASKED, FOUND)), flat(2, cut(("system", OTHER), ASKED)))

    assert first[1] == second[1] == ("value_cut",)


def test_no_verdict_on_what_was_cut() -> None:
    """The texts agree as far as they go, and nobody knows how they went on."""
    analysis = analysed(
        *(flat(n, cut(SYSTEM, ASKED, FOUND)[:n]) for n in (3, 4)),
        flat(5, [*cut(SYSTEM, ASKED, FOUND), ("user", "Bye")]),
    )

    assert analysis.readings[2].break_ is None
    assert [n.check for n in analysis.not_checked if analysis.readings[2].call.id in n.calls] == [
        "prefix_changed"
    ]
    (found,) = (f for f in analysis.findings if f.kind == "content_truncated")
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in found.fix


def test_the_order_of_arrival_changes_nothing() -> None:
    spans = [
        flat(1, cut(SYSTEM, ASKED)),
        flat(2, cut(SYSTEM, ASKED, FOUND)),
        flat(3, cut(("system", OTHER), ASKED)),
    ]

    assert {tuple(map(str, seen(*order))) for order in permutations(spans)} == {tuple(map(str, seen(*spans)))}
    assert seen(*spans)[0] == FULL  # nothing spoke of a limit when it started


def test_one_text_at_the_limit_proves_nothing() -> None:
    assert seen(flat(1, cut(SYSTEM, ASKED)), flat(2, cut(SYSTEM, ASKED))) == [FULL, FULL]


def test_one_text_that_changes_proves_nothing() -> None:
    """A clock in the system prompt: of one length every time."""
    texts = [f"It is 3:07:{s} PM. {RULES}"[:LIMIT] for s in (41, 42, 43)]

    assert seen(*(flat(n, [("system", t), ASKED]) for n, t in enumerate(texts, 1))) == [FULL] * 3


def test_another_length_than_a_limits_is_chance() -> None:
    assert seen(flat(1, cut(SYSTEM, ASKED, FOUND, to=2_011))) == [FULL]
    assert seen(flat(1, cut(SYSTEM, ASKED, FOUND, to=60))) == [FULL]


@pytest.mark.parametrize("dots", ["...", "…"])
def test_texts_that_end_in_dots_behind_a_limit_were_cut_there(dots: str) -> None:
    """By an application, which may have one for each section; one such text is how somebody writes."""
    texts = [(role, f"{text[:100]}{dots}") for role, text in (FOUND, MORE)]

    assert seen(flat(1, texts))[0] == ("partial", ("value_cut",), {"messages"})
    assert seen(flat(1, texts[:1])) == [FULL]
    assert seen(flat(1, [(role, f"{text[:93]}{dots}") for role, text in (FOUND, MORE)])) == [FULL]


@pytest.mark.parametrize("limit", [128, 1_000, 1_024, 4_095, 4_096, 5_000])
def test_usual_limits(limit: int) -> None:
    assert seen(flat(1, cut(SYSTEM, ASKED, FOUND, to=limit)))[0][1] == ("value_cut",)


def test_a_text_beyond_it_shows_that_there_is_no_limit() -> None:
    assert seen(flat(1, [*cut(SYSTEM, FOUND), MORE])) == [FULL]


def test_tokens_that_add_up_show_that_nothing_was_cut() -> None:
    """The application itself cuts what it sends."""
    texts = cut(SYSTEM, ASKED, FOUND)
    counted = analysed(flat(1, texts)).readings[0].call.prompt.counted

    assert seen(flat(1, texts, counted + 12)) == [FULL]
    assert seen(flat(1, texts, counted + 900))[0][1] == ("value_cut",)


def test_missing_tokens_are_those_that_were_cut_off() -> None:
    texts = [*cut(SYSTEM, ASKED), ("assistant", "Let me look."), *cut(FOUND)]

    assert seen(flat(1, texts, 9_000)) == [("partial", ("value_cut",), {"messages"})]


def test_another_service_has_limits_of_its_own() -> None:
    mine, theirs = (
        flat(1, cut(SYSTEM, ASKED, FOUND)),
        flat(2, cut(("system", OTHER), ASKED), service="billing"),
    )

    assert [s[0] for s in seen(mine, theirs)] == ["partial", "full"]


# ---- a history on the server


def responses(n: int, message: Json, tokens: int, trace: int = 0) -> Span:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.id": f"resp_{n}",
        "gen_ai.input.messages": json.dumps([message]),
        "gen_ai.usage.input_tokens": tokens,
        "gen_ai.usage.output_tokens": 5,
    }
    span = _span(n, attributes, "shop", "opentelemetry.instrumentation.genai.openai")
    fields = {name: getattr(span, name) for name in Span.__slots__}
    return Span(**{**fields, "trace_id": f"{trace or n:032x}"})


def says(text: str) -> Json:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


ANSWERED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "42"}]}


def test_a_first_call_with_too_few_words_lacks_instructions() -> None:
    analysis = analysed(responses(1, says("Hello"), 3_000))

    assert analysis.readings[0].call.completeness.reasons == ("not_captured",)
    assert [f.title for f in analysis.findings] == ["Part of the prompt is not recorded"]


def test_a_call_that_goes_on_from_another_with_its_new_words_only_has_its_history_on_the_server() -> None:
    first, second = (
        responses(n, says(f"Number {n}"), tokens, trace=9) for n, tokens in ((1, 20), (2, 3_000))
    )
    analysis = analysed(first, second)

    assert [r.call.completeness.reasons for r in analysis.readings] == [(), ("server_side",)]
    assert [r.relation for r in analysis.readings] == ["new", "continues"]


def test_a_result_of_a_call_that_is_not_there_speaks_for_the_whole_service() -> None:
    analysis = analysed(responses(1, ANSWERED, 3_000), responses(2, says("And now?"), 4_000))

    reasons = [r.call.completeness.reasons for r in analysis.readings]
    assert reasons == [("server_side", "schema_missing"), ("server_side",)]  # who uses tools has sent them


@pytest.mark.parametrize("id_", ["chatcmpl-1", "msg_1"])
def test_an_api_without_a_memory_keeps_no_history(id_: str) -> None:
    first, second = (
        responses(n, says(f"Number {n}"), tokens, trace=9) for n, tokens in ((1, 20), (2, 3_000))
    )
    second.attributes["gen_ai.response.id"] = id_  # type: ignore[index]

    assert analysed(first, second).readings[1].call.completeness.reasons == ("not_captured",)


# ---- instructions that no call recorded


@pytest.mark.parametrize("missing", [True, False])
def test_what_is_missing_from_a_short_prompt_is_missing_from_a_long_one(missing: bool) -> None:
    """1,500 tokens are much of the first prompt and a tenth of the last: no system prompt was recorded of either."""
    history: list[tuple[str, str]] = []
    spans = []
    for n in range(6):
        words = " ".join(f"parcel {n} {i}" for i in range(700))
        history = [*history, ("user", f"Question {n}: {words}")]
        spans.append(flat(n, history, tokens=_tokens(history) + 1500 * missing))
        history = [*history, ("assistant", f"Answer {n}.")]

    readings = analysed(*spans).readings

    assert {r.call.completeness.status for r in readings} == {"partial" if missing else "full"}
    assert len({r.conversation for r in readings}) == 1


def test_what_is_missing_once_the_instructions_are_there_is_something_else() -> None:
    asked = [("user", f"Question: {RESULT[:3000]}"), ("assistant", "Answer."), ("user", f"Next: {OTHER}")]
    told = [("system", "Be kind."), *asked]
    without, with_ = (
        [_of(r.call.completeness)[0] for r in analysed(first, second).readings]
        for first, second in (
            (flat(0, asked[:1], _tokens(asked[:1]) + 1200), flat(1, asked, _tokens(asked) + 1200)),
            (flat(0, asked[:1], _tokens(asked[:1]) + 1200), flat(1, told, _tokens(told) + 1200)),
        )
    )
    assert (without, with_) == (["partial", "partial"], ["partial", "full"])


def _tokens(texts: Sequence[tuple[str, str]]) -> int:
    (reading,) = analysed(flat(0, texts)).readings
    return reading.call.prompt.counted
