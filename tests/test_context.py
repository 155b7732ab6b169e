"""How full the window is: limits and where they come from, growth, headroom, bands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.context import Bands, Limits, context_of, growth_of, limit_of
from otel_ctx.engine import Engine, Settings
from otel_ctx.model import EMPTY_CHAIN, NO_SECTION, Call, Completeness, Context, Prompt, Span, SpanRef, Usage
from otel_ctx.rules import load

RULES = load()
DEFAULT = Limits()
SECOND = 1_000_000_000


def call(model: str = "gpt-4o", **more: Any) -> Call:
    known: dict[str, Any] = {
        "id": "t:s",
        "spans": (SpanRef("t", "s", "primary"),),
        "trace_id": "t",
        "parent_id": "",
        "dialect": "genai",
        "scope": "",
        "scope_version": "",
        "service": "shop",
        "agent": "",
        "operation": "chat",
        "status": "ok",
        "error": "",
        "provider": "openai",
        "platform": "openai",
        "model": model,
        "response_id": "",
        "previous_response_id": "",
        "conversation_hint": "",
        "start_unix_nano": 1,
        "end_unix_nano": 2,
        "first_token_unix_nano": None,
        "completeness": Completeness("full"),
        "usage": Usage(),
        "prompt": Prompt(NO_SECTION, NO_SECTION, EMPTY_CHAIN),
        "answer": (),
        "reserve": None,
        "limit": None,
        **more,
    }
    return Call(**known)


def context(usage: int | None, before: Sequence[int] = (), limits: Limits = DEFAULT, **more: Any) -> Context:
    return context_of(call(**more), usage, "exact", before, RULES, limits)


# ---- limits


def test_the_order_of_sources_is_setting_attribute_rules() -> None:
    setting = Limits(windows={"gpt-*": 64_000})
    assert limit_of(call(limit=32_000), 10, RULES, setting) == (64_000, "setting")
    assert limit_of(call(limit=32_000), 10, RULES, Limits()) == (32_000, "attribute")
    assert limit_of(call(), 10, RULES, Limits()) == (128_000, "rules")
    assert limit_of(call("nobody-knows-this"), 10, RULES, Limits()) == (None, "")


def test_a_call_that_went_well_and_was_larger_proves_a_larger_window() -> None:
    model = {"model": "claude-sonnet-4-5", "provider": "anthropic", "platform": "anthropic"}
    assert limit_of(call(**model), 200_000, RULES, Limits()) == (200_000, "rules")
    assert limit_of(call(**model), 219_313, RULES, Limits()) == (1_000_000, "observed")
    assert limit_of(call(**model, status="error"), 219_313, RULES, Limits()) == (200_000, "rules")
    assert limit_of(call(**model), 9_000_000, RULES, Limits()) == (None, "")
    # what the user or the span says is not doubted
    assert limit_of(call(**model), 219_313, RULES, Limits(windows={"claude-*": 200_000})) == (
        200_000,
        "setting",
    )
    assert limit_of(call(**model, limit=200_000), 219_313, RULES, Limits()) == (200_000, "attribute")


def test_an_estimate_proves_no_larger_window() -> None:
    limit = context_of(call(), 128_500, "estimated", (), RULES, Limits())
    assert (limit.limit, limit.limit_source) == (128_000, "rules")


def test_a_deployments_name_is_the_model_that_it_stands_for() -> None:
    rules = RULES.standing_for({"prod-*": "gpt-4o"})
    assert rules.known("prod-blue") == "gpt-4o"
    assert rules.known("test-blue") == "test-blue"
    assert limit_of(call("prod-blue"), 10, rules, DEFAULT) == (128_000, "rules")
    told = Limits(windows={"gpt-4o": 64_000})
    assert limit_of(call("prod-blue"), 10, rules, told) == (64_000, "setting")


# ---- growth


def test_growth_needs_three_turns() -> None:
    assert growth_of([]) is None
    assert growth_of([100, 900]) is None
    assert growth_of([100, 200, 300]) == 100


def test_growth_is_the_slope_of_least_squares() -> None:
    assert growth_of([0, 0, 6]) == 3
    assert growth_of([5, 5, 5, 5]) == 0
    assert growth_of([300, 290, 280]) == -10
    assert growth_of([11, 14, 13, 18]) == 2.0  # by hand: Σ(x−1.5)(y−14) = 10 over 5


def test_what_a_compaction_took_away_is_no_growth() -> None:
    rising = [10_000, 12_000, 14_000, 16_000]
    assert growth_of([*rising, 5_000, 5_300, 5_600]) == 300  # since the drop
    assert growth_of([*rising, 5_000, 7_000]) == 2_000  # two turns are too few: all, with the drop left out
    assert growth_of([*rising, 5_000]) == 2_000
    assert growth_of([9_000, 3_000, 9_000, 3_000, 4_000, 5_000]) == 1_000
    assert growth_of([9_000, 3_000, 4_000]) is None  # one rise
    assert context(7_000, before=[*rising, 5_000]).headroom_turns == 60.5


@given(st.integers(0, 1000), st.integers(0, 10**6), st.integers(3, 40))
def test_a_straight_line_has_its_own_slope(slope: int, start: int, n: int) -> None:
    assert growth_of([start + slope * x for x in range(n)]) == pytest.approx(slope)


def test_only_the_last_twenty_turns_count() -> None:
    before = [*[0] * 20, *range(1000, 1950, 50)]
    assert len(before) == 39
    assert context(1950, before).growth == 50
    assert context(1950, before[-18:]).growth == 50
    assert context(1950, before, Limits(turns=21)).growth != 50
    assert context(1950, [1850, 1900], Limits(turns=1)).growth is None


# ---- headroom


def test_headroom_is_what_limit_usage_and_reserve_leave() -> None:
    now = context(100_000, [98_000, 99_000], reserve=8_000)
    assert (now.limit, now.reserve, now.headroom, now.utilization) == (128_000, 8_000, 20_000, 0.7812)
    assert (now.growth, now.headroom_turns) == (1000, 20)
    assert context(100_000).reserve == 0


@pytest.mark.parametrize("reserve", [2**63 - 1, 128_001, 128_000])
def test_an_answer_that_may_be_as_long_as_the_window_reserves_nothing(reserve: int) -> None:
    now = context(4_000, [2_000, 3_000], reserve=reserve)
    assert (now.reserve, now.headroom, now.band) == (0, 124_000, "ok")


def test_headroom_in_turns_needs_growth() -> None:
    assert context(100, [90, 95]).headroom_turns is not None
    assert context(100, [90]).headroom_turns is None  # two points
    assert context(100, [100, 100]).headroom_turns is None
    assert context(100, [300, 200]).headroom_turns is None
    assert context(100, [300, 200]).headroom == 127_900


def test_no_headroom_is_no_turn() -> None:
    now = context(127_000, [125_000, 126_000], reserve=4_000)
    assert (now.headroom, now.headroom_turns, now.band) == (-3_000, 0, "critical")


def test_without_a_limit_or_a_usage_nothing_is_said() -> None:
    unknown = context(5_000, [3_000, 4_000], model="nobody-knows-this")
    assert (unknown.limit, unknown.headroom, unknown.headroom_turns, unknown.utilization) == (
        None,
        None,
        None,
        None,
    )
    assert (unknown.growth, unknown.band, unknown.limit_source) == (1000, "unknown", "")
    blind = context(None, [3_000, 4_000])
    assert (blind.usage, blind.growth, blind.headroom, blind.band) == (None, None, None, "unknown")


# ---- bands


@pytest.mark.parametrize(
    ("usage", "before", "band"),
    [
        (79_999, [], "ok"),
        (80_000, [], "low"),
        (94_999, [], "low"),
        (95_000, [], "critical"),
        (100_000, [], "critical"),
        (100_001, [], "exceeded"),
        (50_000, [45_000, 47_500], "ok"),  # 20 turns
        (52_500, [47_500, 50_000], "low"),  # 19
        (50_000, [30_000, 40_000], "low"),  # 5 turns
        (55_000, [35_000, 45_000], "critical"),  # 4.5
        (0, [], "ok"),
    ],
)
def test_bands_and_their_bounds(usage: int, before: list[int], band: str) -> None:
    assert context(usage, before, Limits(windows={"*": 100_000})).band == band


def test_settings_change_the_bounds() -> None:
    bands = Bands(low_turns=60, critical_turns=20, low_share=0.5, critical_share=0.6)
    limits = Limits(windows={"*": 100_000}, bands=bands)
    assert [context(n, (), limits).band for n in (49_999, 50_000, 60_000)] == ["ok", "low", "critical"]
    assert context(10_000, [8_000, 9_000], limits).band == "ok"  # 90 turns
    assert context(10_000, [6_000, 8_000], limits).band == "low"  # 45
    assert context(10_000, [0, 5_000], limits).band == "critical"  # 18


# ---- inside the engine


def spans(usages: Sequence[int | None], repeat: Sequence[int] = (), error: Sequence[int] = ()) -> list[Span]:
    """A conversation with these inputs; the calls ``repeat`` send the history of the one before once more."""
    out: list[Span] = []
    history: list[dict[str, Any]] = []
    for i, usage in enumerate(usages):
        if i not in repeat:
            history = [*history, {"role": "user", "content": f"Question {i}?"}]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.conversation.id": "s",
            "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": f"Answer {i}."}]),
            **({"error.type": "RateLimitError"} if i in error else {"gen_ai.usage.input_tokens": usage}),
        }
        start = (1 + i * 10) * SECOND
        out.append(
            Span(
                "t" * 32,
                f"{i:016x}",
                "",
                "chat",
                start,
                start + SECOND,
                attributes,
                3,
                status_code=2 * (i in error),
            )
        )
        if i + 1 not in repeat:
            history = [*history, {"role": "assistant", "content": f"Answer {i}."}]
    return out


def contexts(some: Sequence[Span], limits: Limits = DEFAULT) -> list[Context]:
    engine = Engine(Settings(limits=limits))
    engine.feed(some)
    return [r.context for r in engine.close().readings]


def test_a_conversation_grows_turn_by_turn() -> None:
    found = contexts(spans([100, 250, 300, 550]))
    assert [c.growth for c in found] == [None, None, 100, 140]
    assert [c.usage for c in found] == [100, 250, 300, 550]


def test_a_call_that_is_repeated_is_no_turn() -> None:
    found = contexts(spans([100, 200, 200, 300], repeat=[2]))
    assert [c.growth for c in found] == [None, None, None, 100]


def test_a_call_that_failed_is_no_point() -> None:
    engine = Engine()
    engine.feed(spans([100, 200, 0, 300, 0], error=[2, 4], repeat=[3]))
    analysis = engine.close()
    assert analysis.readings[3].context.growth == 100
    (conversation,) = analysis.conversations
    assert (conversation.usage_peak, conversation.usage_last) == (300, 300)


def test_an_error_at_the_end_does_not_hide_how_full_the_window_was() -> None:
    some = spans([100, 200, 300, None], error=[3])
    blind = {k: v for k, v in some[3].attributes.items() if "messages" not in k}
    some[3] = Span(**{**{f: getattr(some[3], f) for f in Span.__slots__}, "attributes": blind})
    engine = Engine()
    engine.feed(some)
    (conversation,) = engine.close().conversations
    assert len(conversation.calls) == 4
    assert (conversation.limit, conversation.usage_last, conversation.headroom) == (128_000, 300, 127_700)
    assert (conversation.band, conversation.headroom_turns) == ("ok", 1277)


def test_a_sum_over_calls_is_no_depth() -> None:
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": 900_000,
        "gen_ai.usage.output_tokens": 9,
    }
    (found,) = contexts([Span("t" * 32, "a" * 16, "", "agent", SECOND, 9 * SECOND, attributes)])
    assert (found.usage, found.headroom, found.utilization, found.band) == (None, None, None, "unknown")
    assert found.limit_source in ("rules", "")  # 900,000 over several calls prove no larger window
