"""What a call cost: at the price of its time, of its own model and of where it was served; and how sure that is."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from otel_ctx.cost import cost_of
from otel_ctx.errors import RulesError
from otel_ctx.model import Cost, Usage
from otel_ctx.rules import Rules, check, load
from otel_ctx.rules.names import endpoint_of, priced_names
from tests.own_rules import own_price
from tests.test_cache import call

RULES = load()


@cache  # each reads all tables anew
def mine(model: str, more: str, provider: str = "anthropic", row: str = "mine") -> Rules:
    return load(own_price(model, more, provider, row))


def nanos(when: str) -> int:
    return int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def cost(
    model: str,
    platform: str = "openai",
    when: str = "2026-11-30T12:00",
    rules: Rules = RULES,
    **usage: int | None,
) -> Cost | None:
    counts = {"input": 100_000, "cache_read": 0, "cache_write": 0, "output": 10_000, **usage}
    start = nanos(when) if when else 0
    asked = call([("x", 1)], model=model, platform=platform, usage=Usage(**counts))
    return cost_of(replace(asked, start_unix_nano=start), (), rules)


def bounds(found: Cost | None) -> tuple[float, float, float]:
    assert found is not None
    assert found.low <= found.usd <= found.high
    return round(found.low, 6), round(found.usd, 6), round(found.high, 6)


def exactly(found: Cost | None) -> float:
    low, usd, high = bounds(found)
    assert low == usd == high
    return usd


# ---- the price of the day, and of the hour

DATED = [
    ("gemini-4-argon", "gemini-api", "2026-11-30T23:59", 0.3),
    ("gemini-4-argon", "gemini-api", "2026-12-01T00:00", 0.6),
    ("gemini-3.8-flash", "gemini-api", "2026-12-31T12:00", 0.1125),
    ("gemini-3.8-flash", "gemini-api", "2027-01-01T12:00", 0.225),
    ("gpt-5.6-luna", "openai", "2026-07-15T12:00", 0.16),
    ("gpt-5.6-luna", "openai", "2026-07-30T00:00", 0.032),
    ("gpt-5.6-terra", "openai", "2026-07-15T12:00", 0.4),
    ("gpt-5.6-sol", "openai", "2026-08-01T12:00", 0.8),
    ("gpt-5.6-sol", "openai", "2026-08-21T12:00", 0.6),
    ("o3", "openai", "2025-05-01T12:00", 1.4),
    ("o3", "openai", "2025-06-10T12:00", 0.28),
    ("mistral-large-4", "mistral_ai", "2026-10-19T12:00", 0.0889),
    ("mistral-large-4", "mistral_ai", "2026-10-25T12:00", 0.1778),
    ("mistral-large-4", "mistral_ai", "2026-10-29T12:00", 0.091),
    ("grok-4.20", "x_ai", "2026-04-29T12:00", 0.26),
    ("grok-4.20", "x_ai", "2026-04-30T12:00", 0.15),
    ("deepseek-v4-pro", "deepseek", "2026-07-01T02:00", 0.0522),  # a Wednesday before there were peak hours
    ("deepseek-v4-pro", "deepseek", "2026-08-22T02:00", 0.1716),  # a Saturday before weekends were left out
    ("deepseek-v4-pro", "deepseek", "2026-11-28T02:00", 0.0858),  # a Saturday
    ("deepseek-v4-pro", "deepseek", "2026-11-30T00:59", 0.0858),
    ("deepseek-v4-pro", "deepseek", "2026-11-30T04:00", 0.0858),
    ("deepseek-v4-flash", "deepseek", "2026-08-18T02:00", 0.0572),
    ("deepseek-v4-flash", "deepseek", "2026-09-10T12:00", 0.021),
]


@pytest.mark.parametrize(("model", "platform", "when", "usd"), DATED)
def test_a_call_has_the_price_of_its_time(model: str, platform: str, when: str, usd: float) -> None:
    assert exactly(cost(model, platform, when)) == usd


def test_a_public_holiday_may_be_cheaper_than_the_peak_hours_of_other_weekdays() -> None:
    monday = cost("deepseek-v4-pro", "deepseek", "2026-11-30T02:00")
    assert bounds(monday) == (0.0858, 0.1716, 0.1716)


@pytest.mark.parametrize("platform", ["anthropic", "vertex"])
def test_long_requests_cost_more_until_a_day(platform: str) -> None:
    before, after = (
        cost("claude-opus-4-6", platform, day, input=300_000)
        for day in ("2026-03-12T12:00", "2026-03-13T12:00")
    )
    assert (before and round(before.usd, 6), after and round(after.usd, 6)) == (3.375, 1.75)


def test_a_call_of_an_unknown_time_has_the_newest_price_and_what_the_others_would_be() -> None:
    assert bounds(cost("gpt-5.6-sol", when="")) == (0.6, 0.6, 0.8)
    assert bounds(cost("gemini-3.8-flash", "gemini-api", "")) == (
        0.1125,
        0.1125,
        0.225,
    )  # announced, not begun
    assert exactly(cost("gpt-5", when="")) == 0.225


@pytest.mark.parametrize("far", [-(2**70), -1, 1, 2**63, 2**70])
def test_any_time_that_a_span_claims_has_a_price(far: int) -> None:
    asked = call([("x", 1)], model="deepseek-v4-pro", platform="deepseek", usage=Usage(input=10, output=1))
    assert cost_of(replace(asked, start_unix_nano=far), (), RULES) is not None


def test_an_own_price_holds_from_its_day_on() -> None:
    own = mine("claude-opus-5", 'usd = { input = 1, output = 1 }\nfrom = "2026-06-01"')
    assert exactly(cost("claude-opus-5", "anthropic", "2026-06-01T00:00", own)) == 0.11
    assert exactly(cost("claude-opus-5", "anthropic", "2026-05-31T23:59", own)) == 0.75


@pytest.mark.parametrize("when", ["", "2026-06-01T12:00", "2026-11-30T12:00"])
def test_an_own_price_without_a_day_is_the_price_at_all_times(when: str) -> None:
    own = mine("gpt-5.6-sol", "usd = { input = 1, output = 1 }", "openai")
    assert exactly(cost("gpt-5.6-sol", when=when, rules=own)) == 0.11


def test_before_the_first_known_price_there_is_the_package_s_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    more = 'usd = { input = 1, output = 1 }\nfrom = "2026-06-01"'
    own = mine("o3", more, "openai", "openai/o3/2025-06-10")  # in place of the row that stood there
    late = mine("claude-opus-5", more, "anthropic", "anthropic/claude-opus-5")
    assert exactly(cost("o3", when="2025-05-01T12:00", rules=own)) == 1.4
    found = cost("claude-opus-5", "anthropic", "2026-05-01T12:00", late)
    assert found is not None
    assert (found.method, found.usd) == ("package", pytest.approx(0.75))
    from otel_ctx.cost.prices import _package_rows

    _package_rows.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    assert cost("claude-opus-5", "anthropic", "2026-05-01T12:00", late) is None
    _package_rows.cache_clear()


@pytest.mark.parametrize(
    "more",
    [
        'from = "2026-06"',
        'from = "2026-13-01"',
        'hours = ["1-4"]',
        'hours = ["24:00-25:00"]',
        "weekdays = true",
        "some_days = true",
    ],
)
def test_what_is_no_day_and_no_hour_is_refused(more: str) -> None:
    with pytest.raises(RulesError, match=r"price mine: (from|hours)"):
        mine("claude-opus-5", f"usd = {{ input = 1 }}\n{more}")


def test_prices_of_one_model_hold_one_after_the_other() -> None:
    assert check(RULES) == []
    for pair, rows in RULES.prices.items():
        begin = [(row.since, not row.hours) for row in rows]
        assert len(set(begin)) == len(begin), pair
        assert all(a >= b or a[0] == b[0] for a, b in pairwise(begin)), pair
        assert any(not row.since and not row.hours for row in rows), pair


NAMES = {"google": "google", "openai": "openai", "anthropic": "anthropic", "deepseek": "deepseek", "x-ai": "x_ai",
         "mistral": "mistral_ai"}  # fmt: skip


def test_changes_of_prices_are_those_of_the_package() -> None:
    """At noon, which is no peak hour; what the package cannot say of hours stands in its comments."""
    snapshot = pytest.importorskip("genai_prices.data_snapshot").get_snapshot()
    seen = 0
    for provider in snapshot.providers:
        for model in provider.models if provider.id in NAMES else ():
            rows = RULES.prices.get((NAMES[provider.id], model.id.removesuffix("-latest")))
            if not rows or not isinstance(model.prices, list):
                continue
            starts = [getattr(row.constraint, "start_date", None) or date(2024, 1, 1) for row in model.prices]
            for day in (d + timedelta(n) for d in starts for n in (0, -1)):
                noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
                theirs = model.get_prices(noon)
                ours = RULES.price(rows[0].model, NAMES[provider.id], int(noon.timestamp()) * 10**9)
                assert ours is not None
                for ours_of, theirs_of in (("input", "input_mtok"), ("output", "output_mtok")):
                    value: Any = getattr(theirs, theirs_of)
                    assert ours.usd[ours_of] == float(getattr(value, "base", value)), (model.id, day)
                    tiers = getattr(value, "tiers", None)
                    assert ours.tier.get(ours_of) == (float(tiers[0].price) if tiers else None), (
                        model.id,
                        day,
                    )
                seen += 1
    assert seen > 80


# ---- models with a price of their own


def test_names_of_a_price_from_the_closest_on() -> None:
    assert priced_names("openai/gpt-4o-2024-05-13") == ("gpt-4o-2024-05-13", "gpt-4o")
    assert priced_names("ft:gpt-4o-2024-08-06:acme::abc") == ("ft:gpt-4o-2024-08-06", "ft:gpt-4o")
    assert priced_names("us.anthropic.claude-sonnet-4-5-20250929-v1:0")[-1] == "claude-sonnet-4-5"
    assert priced_names("gpt-5") == ("gpt-5",)


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("gpt-4o-2024-05-13", 0.65),
        ("gpt-4o-2024-08-06", 0.35),
        ("gpt-4o", 0.35),
        ("ft:gpt-4o-2024-08-06:acme::abc", 0.525),
        ("ft:gpt-4o-mini-2024-07-18:acme::abc", 0.042),
        ("ft:gpt-4.1-2025-04-14:acme::abc", 0.42),
    ],
)
def test_snapshots_and_tuned_models_have_their_own_price(model: str, usd: float) -> None:
    assert exactly(cost(model)) == usd


def test_a_tuned_model_never_has_the_price_of_its_base() -> None:
    assert RULES.price("o4-mini", "openai") is not None
    assert cost("ft:o4-mini-2025-04-16:acme::abc") is None


# ---- where it is served


def test_the_endpoint_is_told_by_the_name() -> None:
    name = "projects/p/locations/{}/publishers/anthropic/models/claude-opus-5"
    assert [endpoint_of(name.format(at)) for at in ("global", "us-east5")] == ["global", "regional"]
    assert endpoint_of("anthropic.claude-opus-5") == "regional"  # the region that was asked
    assert (
        endpoint_of("arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-5")
        == "global"
    )
    assert endpoint_of("claude-opus-5") == endpoint_of("openai/gpt-5") == ""


@pytest.mark.parametrize(
    ("model", "platform", "usd"),
    [
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", (0.45, 0.45, 0.45)),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", (0.495, 0.495, 0.495)),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", (0.495, 0.495, 0.495)),
        ("claude-sonnet-4-5", "bedrock", (0.45, 0.45, 0.495)),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "bedrock", (2.25, 2.25, 2.25)),  # older: one price
        ("us.openai.gpt-5.6-sol", "bedrock", (0.66, 0.66, 0.66)),
        ("claude-sonnet-4-5@20250929", "vertex", (0.45, 0.45, 0.495)),
        ("claude-3-5-haiku@20241022", "vertex", (0.12, 0.12, 0.12)),
        ("claude-sonnet-4-5", "anthropic", (0.45, 0.45, 0.45)),
    ],
)
def test_a_region_costs_more(model: str, platform: str, usd: tuple[float, float, float]) -> None:
    assert bounds(cost(model, platform)) == usd


def test_an_own_price_is_what_it_costs_wherever_it_is_served() -> None:
    own = mine("claude-sonnet-4-5", "usd = { input = 1, output = 1 }", "bedrock")
    assert exactly(cost("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock", rules=own)) == 0.11


# ---- what usage leaves open


def test_what_may_have_been_written_may_cost_what_the_dearest_write_does() -> None:
    assert bounds(cost("claude-opus-4-1", "anthropic", cache_write=None, output=0)) == (1.5, 1.5, 3.0)
    assert bounds(cost("gpt-5.6-sol", cache_write=None, output=0)) == (
        0.4,
        0.4,
        0.8,
    )  # twelve hours: twice the input
    assert bounds(cost("gpt-5.6-sol", cache_write=None, cache_read=None, output=0)) == (0.04, 0.4, 0.8)
    assert bounds(cost("claude-opus-4-1", "anthropic", cache_read=60_000, cache_write=None, output=0)) == (
        0.69, 0.69, 1.29,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "input_"), [("gpt-5", 100_000), ("claude-opus-4-1", 1000), ("gpt-5.6-sol", 1023)]
)
def test_where_writes_are_free_or_the_prompt_is_too_short_nothing_is_open(model: str, input_: int) -> None:
    exactly(
        cost(model, "" if model.startswith("claude") else "openai", input=input_, cache_write=None, output=0)
    )


@pytest.mark.parametrize("read", [None, 0, 40_000])
@pytest.mark.parametrize("write", [None, 0, 40_000])
@pytest.mark.parametrize("long", [None, 0, 40_000])
@pytest.mark.parametrize(
    "usd",
    [
        "cache_read = 9, cache_write = 1, cache_write_1h = 0.5",
        "cache_read = 0.3, cache_write = 3.75, cache_write_1h = 6",
        "cache_write = 6, cache_write_1h = 2",
        "output = 1",
    ],
)
def test_the_price_lies_between_its_bounds(
    read: int | None, write: int | None, long: int | None, usd: str
) -> None:
    own = mine("claude-sonnet-4-5", f"usd = {{ input = 3, {usd} }}")
    found = cost(
        "claude-sonnet-4-5", "anthropic", rules=own, cache_read=read, cache_write=write, cache_write_1h=long
    )
    bounds(found)


def test_a_longer_write_may_be_the_cheaper_one() -> None:
    own = mine("claude-sonnet-4-5", "usd = { input = 3, cache_write = 1, cache_write_1h = 0.5 }")
    found = cost("claude-sonnet-4-5", "anthropic", rules=own, cache_write=100_000, output=0)
    assert bounds(found) == (0.05, 0.1, 0.1)


# ---- a class of token that has no price


def test_cached_tokens_without_a_price_cost_between_nothing_and_the_price_of_input() -> None:
    own = mine("our-model", "usd = { input = 1, output = 2 }", "azure")
    found = cost("our-model", "azure", rules=own, cache_read=60_000)
    assert bounds(found) == (0.06, 0.12, 0.12)
    assert found is not None
    assert found.saved is None  # not 0
    assert found.wasted == 0

    unread = cost("our-model", "azure", rules=own)
    assert exactly(unread) == 0.12
    assert unread is not None
    assert unread.saved == 0


def test_what_was_lost_is_worth_nothing_known_where_a_read_has_no_price() -> None:
    own = mine("our-model", "usd = { input = 1, output = 2 }", "azure")
    asked = call(
        [("x", 1)], model="our-model", platform="azure", usage=Usage(input=1000, cache_read=0, output=0)
    )
    found = cost_of(asked, [("prefix_changed", 500)], own)
    assert found is not None
    assert (found.wasted, found.losses) == (None, {})


def test_cached_tokens_of_a_known_model_cost_what_the_rule_of_its_cache_says() -> None:
    own = mine("claude-opus-5", "usd = { input = 1, output = 1 }")
    assert exactly(cost("claude-opus-5", "anthropic", rules=own, cache_read=60_000)) == 0.056


def test_what_was_lost_has_two_bounds_where_it_is_not_told_for_how_long_it_was_written() -> None:
    """5 minutes cost $6.25, an hour $10, a read $0.5 per million tokens."""
    for hour, least, most in ((None, 5.75, 9.5), (0, 5.75, 5.75), (1000, 9.5, 9.5)):
        usage = Usage(input=1000, cache_read=0, cache_write=1000, cache_write_1h=hour, output=0)
        asked = call([("x", 1)], model="claude-opus-5", platform="anthropic", usage=usage)
        found = cost_of(asked, [("prefix_changed", 800)], RULES)
        assert found is not None
        assert found.wasted == pytest.approx(800 * least / 1e6)
        assert found.wasted_high == pytest.approx(800 * most / 1e6)
