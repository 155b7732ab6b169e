"""Usage objects of providers' APIs."""

from __future__ import annotations

from typing import Any

import pytest

from otel_ctx.model import UsageClaim
from otel_ctx.parts import read_usage


@pytest.mark.parametrize(
    ("usage", "claim"),
    [
        (
            {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35,
             "prompt_tokens_details": {"cached_tokens": 20}, "completion_tokens_details": {"reasoning_tokens": 2}},
            UsageClaim(input=30, output=5, cache_read=20, reasoning=2, total=35, semantics="inclusive"),
        ),
        (  # DeepSeek
            {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35, "prompt_cache_hit_tokens": 20,
             "prompt_cache_miss_tokens": 10},
            UsageClaim(input=30, output=5, cache_read=20, total=35, semantics="inclusive"),
        ),
        (
            {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35,
             "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4}},
            UsageClaim(input=30, output=5, cache_read=20, cache_write=4, total=35, semantics="inclusive"),
        ),
        (
            {"input_tokens": 6, "output_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4,
             "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 1}},
            UsageClaim(input=6, output=5, cache_read=20, cache_write=4, cache_write_1h=1, cache_write_5m=3,
                       semantics="exclusive"),
        ),
        (
            {"promptTokenCount": 30, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 37,
             "cachedContentTokenCount": 20},
            UsageClaim(input=30, output=7, cache_read=20, reasoning=2, total=37, semantics="inclusive"),
        ),
        (
            {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35, "input_token_details": {"cache_read": 20},
             "output_token_details": {"reasoning": 2}},
            UsageClaim(input=30, output=5, cache_read=20, reasoning=2, total=35, zeros_omitted=True),
        ),
    ],
)  # fmt: skip
def test_shapes(usage: dict[str, Any], claim: UsageClaim) -> None:
    assert read_usage(usage) == claim


@pytest.mark.parametrize("usage", [None, [], "30", {}, {"input_tokens": 30, "output_tokens": 5}])
def test_what_does_not_tell_its_meaning(usage: Any) -> None:
    assert read_usage(usage) is None


@pytest.mark.parametrize("count", [None, True, "30", 1.5, float("nan"), float("inf"), {}])
def test_counts_that_are_none(count: Any) -> None:
    assert read_usage({"prompt_tokens": count}) == UsageClaim(semantics="inclusive")


def test_a_count_is_a_whole_number_however_it_is_written() -> None:
    assert read_usage({"prompt_tokens": 1500.0}) == UsageClaim(input=1500, semantics="inclusive")
