"""What token numbers mean: cases by hand, and claims of real libraries beside what the provider itself counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.model import Usage, UsageClaim
from otel_ctx.rules import UsageRule, load
from otel_ctx.usage import ASSUMED, agree, decide, settled

RULES = load()
# [scope, version, provider, claim, [input inclusive, cache read, cache write, output] by the provider]
CAPTURES: list[Any] = json.loads((Path(__file__).parent / "data" / "usage_captures.json").read_text())

BEDROCK = "opentelemetry.instrumentation.genai.bedrock"
BOTOCORE = "opentelemetry.instrumentation.botocore.bedrock-runtime"
TRACELOOP_JS = "@traceloop/instrumentation-anthropic"
ANTHROPIC = "opentelemetry.instrumentation.genai.anthropic"
OPENAI_GENAI = "opentelemetry.instrumentation.genai.openai"
OPENAI_V2 = "opentelemetry.instrumentation.openai_v2"
OLL_GEMINI = "opentelemetry.instrumentation.google_generativeai"
OLL_BEDROCK = "opentelemetry.instrumentation.bedrock"
AGNO = "openinference.instrumentation.agno"


def rule(scope: str, provider: str = "", version: str = "1.3b0") -> UsageRule:
    found = RULES.usage(scope, version, provider)
    assert found is not None
    return found


# name: (claim, scope, what must come out); a number that is not named must be None
CASES: dict[str, tuple[UsageClaim, str, dict[str, Any]]] = {
    # two traces of one call, told inclusive and exclusive
    "F03 inclusive": (
        UsageClaim(input=1012, cache_read=1000, output=40), "",
        {"input": 1012, "cache_read": 1000, "output": 40, "semantics": "inclusive"},
    ),
    "F03 exclusive": (
        UsageClaim(input=12, cache_read=1000, output=40), BEDROCK,
        {"input": 1012, "cache_read": 1000, "cache_write": 0, "output": 40, "semantics": "exclusive"},
    ),
    "F04": (
        UsageClaim(input=2, cache_read=127_000, cache_write=2_017), "",
        {"input": 129_019, "cache_read": 127_000, "cache_write": 2_017, "semantics": "exclusive"},
    ),
    "F06": (
        UsageClaim(input=3, cache_write=8_989, cache_write_1h=8_989, cache_write_5m=0, output=1), "",
        {"input": 8_992, "cache_write": 8_989, "cache_write_1h": 8_989, "output": 1, "semantics": "exclusive"},
    ),
    "the proof beats the dialect and the rule": (
        UsageClaim(input=10, cache_read=20, cache_write=5, semantics="inclusive"), ANTHROPIC,
        {"input": 35, "cache_read": 20, "cache_write": 5, "semantics": "exclusive"},
    ),
    "all was cached: inclusive numbers may be equal": (
        UsageClaim(input=20, cache_read=15, cache_write=5), "",
        {"input": 20, "cache_read": 15, "cache_write": 5, "semantics": "inclusive"},
    ),
    "the dialect beats the rule": (
        UsageClaim(input=100, cache_read=20, cache_write=5, semantics="exclusive"), ANTHROPIC,
        {"input": 125, "cache_read": 20, "cache_write": 5, "semantics": "exclusive"},
    ),
    "the rule beats the convention": (
        UsageClaim(input=100, cache_read=20, cache_write=5), BEDROCK,
        {"input": 125, "cache_read": 20, "cache_write": 5, "semantics": "exclusive"},
    ),
    "total tells exclusive": (
        UsageClaim(input=100, cache_read=20, cache_write=5, output=9, total=134), "",
        {"input": 125, "cache_read": 20, "cache_write": 5, "output": 9, "semantics": "exclusive"},
    ),
    "total tells inclusive": (
        UsageClaim(input=100, cache_read=20, cache_write=5, output=9, total=109), "",
        {"input": 100, "cache_read": 20, "cache_write": 5, "output": 9, "semantics": "inclusive"},
    ),
    "total = input + output although the input excludes": (
        UsageClaim(input=2_000, cache_read=1_800, cache_write=0, output=30, total=2_030), TRACELOOP_JS,
        {"input": 3_800, "cache_read": 1_800, "cache_write": 0, "output": 30, "semantics": "exclusive"},
    ),
    # zeros left out
    "absent is 0 where zeros are left out": (
        UsageClaim(input=100, output=5), ANTHROPIC,
        {"input": 100, "cache_read": 0, "cache_write": 0, "output": 5, "semantics": "inclusive"},
    ),
    "by the dialect's word too": (
        UsageClaim(input=100, output=5, zeros_omitted=True), "",
        {"input": 100, "cache_read": 0, "cache_write": 0, "output": 5},
    ),
    "absent is unknown elsewhere": (UsageClaim(input=100, output=5), OPENAI_V2, {"input": 100, "output": 5}),
    "no usage at all is no zero": (UsageClaim(), ANTHROPIC, {"semantics": None}),
    "output alone tells nothing of the cache": (UsageClaim(output=5), ANTHROPIC, {"output": 5, "semantics": None}),
    "an input of 0 that was left out": (
        UsageClaim(cache_read=1_923, cache_write=3_432, output=9), BOTOCORE,
        {"input": 5_355, "cache_read": 1_923, "cache_write": 3_432, "output": 9, "semantics": "exclusive"},
    ),
    "one of three left out": (
        UsageClaim(cache_write=3_432, output=9), BOTOCORE,
        {"input": 3_432, "cache_read": 0, "cache_write": 3_432, "output": 9, "semantics": "exclusive"},
    ),
    "InvokeModel loses the cache counts: not 0": (
        UsageClaim(input=26, output=9), BOTOCORE,
        {"input": 26, "output": 9, "semantics": "exclusive"},
    ),
    "an absent input is unknown where it is inclusive": (
        UsageClaim(cache_read=50, output=9), ANTHROPIC,
        {"cache_read": 50, "cache_write": 0, "output": 9, "semantics": "inclusive"},
    ),
    "nothing uncached and nothing else known is no input of 0": (
        UsageClaim(input=0, output=24, total=24), OLL_BEDROCK, {"output": 24, "semantics": None},
    ),
    "a failed call may have 0": (UsageClaim(input=0, output=0), "", {"input": 0, "output": 0}),
    # sums that prove what is missing
    "a full total proves the missing count": (
        UsageClaim(input=100, cache_read=20, output=9, total=134), OLL_BEDROCK,
        {"input": 125, "cache_read": 20, "cache_write": 5, "output": 9, "semantics": "exclusive"},
    ),
    "and that nothing is missing": (
        UsageClaim(input=100, cache_read=20, output=9, total=129), OLL_BEDROCK,
        {"input": 120, "cache_read": 20, "cache_write": 0, "output": 9, "semantics": "exclusive"},
    ),
    "of two missing counts only the sum": (
        UsageClaim(input=100, output=9, total=134), OLL_BEDROCK,
        {"input": 125, "output": 9, "semantics": "exclusive"},
    ),
    # writes by TTL
    "the split gives the sum": (
        UsageClaim(input=100, cache_read=0, cache_write_1h=7, cache_write_5m=3), "",
        {"input": 100, "cache_read": 0, "cache_write": 10, "cache_write_1h": 7},
    ),
    "the sum gives the split": (
        UsageClaim(input=100, cache_read=0, cache_write=10, cache_write_5m=3), "",
        {"input": 100, "cache_read": 0, "cache_write": 10, "cache_write_1h": 7},
    ),
    "a lone 5 min count gives both": (
        UsageClaim(input=100, cache_write_5m=3), "",
        {"input": 100, "cache_write": 3, "cache_write_1h": 0},
    ),
    # reasoning
    "output with reasoning": (
        UsageClaim(input=100, output=50, reasoning=40), "", {"input": 100, "output": 50, "reasoning": 40},
    ),
    "output without reasoning": (
        UsageClaim(input=100, output=50, reasoning=40, output_excludes_reasoning=True), "",
        {"input": 100, "output": 90, "reasoning": 40},
    ),
    "reasoning that only the total has": (
        UsageClaim(input=100, output=50, total=190), OLL_GEMINI,
        {"input": 100, "output": 90, "reasoning": 40},
    ),
    "a total that counts reasoning beside the output": (
        UsageClaim(input=100, output=50, reasoning=40, total=190), "",
        {"input": 100, "output": 90, "reasoning": 40},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_decide(name: str) -> None:
    claim, scope, expected = CASES[name]
    found = decide(claim, rule(scope) if scope else None)
    names = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    assert {n: getattr(found, n) for n in names} == {n: expected.get(n) for n in names}
    if "semantics" in expected:
        assert found.semantics == expected["semantics"]
    assert (found.semantics is None) == (found.semantics_evidence == "")
    assert found.conflicts == ()


@pytest.mark.parametrize(("scope", "version", "provider", "claimed", "truth"), CAPTURES)
def test_claims_of_real_libraries(
    scope: str, version: str, provider: str, claimed: dict[str, Any], truth: list[int]
) -> None:
    found = decide(UsageClaim(**claimed), RULES.usage(scope, version, provider))
    whole, read, write, output = truth
    assert (found.input, found.output) == (whole, output)
    assert found.cache_read in (read, None)
    assert found.cache_write in (write, None)
    assert found.conflicts == ()


def test_the_captures_have_both_meanings_and_both_kinds_of_zero() -> None:
    decided = [decide(UsageClaim(**c[3]), RULES.usage(*c[:3])) for c in CAPTURES]
    assert {u.semantics for u in decided} == {"inclusive", "exclusive"}
    assert sum(u.semantics == "exclusive" for u in decided) > 15
    assert sum("cache_read" not in c[3] and c[4][1] == 0 for c in CAPTURES) > 15
    assert sum(c[3].get("cache_read") == 0 for c in CAPTURES) > 15


EVIDENCE = {
    "cache read 127,000 + cache write 2,017 > input 2": (
        UsageClaim(input=2, cache_read=127_000, cache_write=2_017), "",
    ),
    "cache read 20 > input 10; cache write not recorded: the input may be too low": (
        UsageClaim(input=10, cache_read=20), "",
    ),
    "llm.token_count.prompt is documented": (
        UsageClaim(input=10, semantics="inclusive", semantics_evidence="llm.token_count.prompt is documented"), "",
    ),
    "said by the dialect": (UsageClaim(input=10, semantics="inclusive"), ""),
    "rule otel-genai-anthropic: inclusive (inferred, 2026-11-30: captures)": (UsageClaim(input=10), ANTHROPIC),
    "total 134 = input + cached + output": (
        UsageClaim(input=100, cache_read=20, cache_write=5, output=9, total=134), "",
    ),
    "total 109 = input + output": (UsageClaim(input=100, cache_read=20, output=9, total=109), ""),
    ASSUMED: (UsageClaim(input=10), ""),
}  # fmt: skip


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_the_evidence_is_stated(evidence: str) -> None:
    claim, scope = EVIDENCE[evidence]
    assert decide(claim, rule(scope) if scope else None).semantics_evidence == evidence


def test_a_rule_for_a_provider_only() -> None:
    claim = UsageClaim(input=3_439, cache_read=1_799, output=30)
    assert decide(claim, rule(AGNO, "Anthropic")).input == 5_238
    assert decide(claim, rule(AGNO, "OpenAI")).input == 3_439


def test_a_rule_that_does_not_say_leaves_the_convention() -> None:
    found = decide(UsageClaim(input=2_000, cache_read=500), rule("ai", "anthropic.messages"))
    assert (found.input, found.semantics_evidence) == (2_000, ASSUMED)


CONFLICTS: dict[str, tuple[UsageClaim, tuple[str, ...]]] = {
    "total": (UsageClaim(input=2_900, output=150, total=3_100), ("total 3,100 but input 2,900 + output 150",)),
    "negative": (UsageClaim(input=-5, output=3, cache_write_1h=-1),
                 ("input -5 is negative", "1 h cache write -1 is negative")),
    "beyond belief": (UsageClaim(input=2**63 - 1, output=3, cache_read=10**10 + 1),
                      ("input 9,223,372,036,854,775,807 is more than any model can have",
                       "cache read 10,000,000,001 is more than any model can have")),
    "not readable": (UsageClaim(output=3, unreadable="input is text"), ("input is text",)),
    "not readable, and told elsewhere": (UsageClaim(input=9, output=3, unreadable="input is text"), ()),
    "split above the sum": (UsageClaim(input=90, cache_write=10, cache_write_1h=20),
                            ("cache write 10 but 5 min 0 + 1 h 20",)),
    "split beside a sum of 0": (UsageClaim(input=90, cache_write=0, cache_write_1h=20, cache_write_5m=1),
                                ("cache write 0 but 5 min 1 + 1 h 20",)),
    "split below the sum": (UsageClaim(input=90, cache_write=30, cache_write_1h=20, cache_write_5m=1),
                            ("cache write 30 but 5 min 1 + 1 h 20",)),
    "reasoning": (UsageClaim(input=90, output=10, reasoning=30), ("reasoning 30 but output 10",)),
    "table against arithmetic is none": (UsageClaim(input=9, cache_read=10, output=1, total=10), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflicts_have_both_numbers(name: str) -> None:
    claim, conflicts = CONFLICTS[name]
    assert decide(claim, rule(ANTHROPIC)).conflicts == conflicts


@pytest.mark.parametrize(
    ("scope", "said", "by_api", "conflicts"),
    [
        (OPENAI_GENAI, "", True, ("cache read 5,000 > input 100, which includes the cached tokens",)),
        ("", "inclusive", True, ("cache read 5,000 > input 100, which includes the cached tokens",)),
        (OPENAI_GENAI, "", None, ()),  # of a model that is not known
        (ANTHROPIC, "", False, ()),  # a version that passes the API's own numbers on
        ("", "", True, ()),  # no rule: arithmetic alone decides
        (BEDROCK, "", True, ()),
    ],
)
def test_more_cached_than_an_input_that_can_only_include_it(
    scope: str, said: Any, by_api: bool | None, conflicts: tuple[str, ...]
) -> None:
    claim = UsageClaim(input=100, cache_read=5_000, semantics=said)
    found = decide(claim, rule(scope) if scope else None, by_api)

    assert found.conflicts == conflicts
    expected = (None, None, None) if conflicts else (5_100, 5_000, "exclusive")
    assert (found.input, found.cache_read, found.semantics) == expected


def test_a_sum_tells_which_of_two_numbers_is_wrong() -> None:
    claim = UsageClaim(input=100, output=20, cache_read=5_000, total=120)
    found = decide(claim, rule(OPENAI_GENAI), True)

    assert (found.input, found.cache_read, found.output, found.semantics) == (100, None, 20, "inclusive")


def test_no_part_is_more_than_the_sum() -> None:
    found = decide(UsageClaim(input=5_000_000, output=150, total=3_100), rule(ANTHROPIC))
    assert (found.input, found.output) == (None, 150)
    found = decide(UsageClaim(input=2_950, output=900_000, total=3_100), rule(ANTHROPIC))
    assert (found.input, found.output) == (2_950, None)
    found = decide(UsageClaim(input=90, output=10, reasoning=30), rule(ANTHROPIC))
    assert (found.input, found.output, found.reasoning) == (90, 10, None)


def test_a_negative_number_is_no_number() -> None:
    found = decide(UsageClaim(input=-5, output=3), None)
    assert (found.input, found.output) == (None, 3)


def test_a_number_beyond_belief_is_no_number() -> None:
    claim = UsageClaim(input=2**63 - 1, output=3, cache_read=10**10, guessed=True)
    found = decide(claim, None)
    assert (found.input, found.output, found.cache_read) == (None, 3, 10**10)
    assert settled(found, claim, 900, whole=True).input is None


def test_a_split_beside_a_sum_of_0_is_what_was_written() -> None:
    found = decide(UsageClaim(input=90, cache_write=0, cache_write_1h=20, cache_write_5m=1), None)
    assert (found.cache_write, found.cache_write_1h) == (21, 20)


A = Usage(input=1_012, cache_read=1_000, cache_write=0, output=40)
AGREE: dict[str, tuple[Usage, bool]] = {
    "itself": (A, True),
    "knows less": (Usage(input=1_012), True),
    "knows the output only": (Usage(output=40), True),
    "knows more": (replace(A, reasoning=7), True),
    "another output": (replace(A, output=41), False),
    "another input": (replace(A, input=1_013), False),
    "another cache read": (replace(A, cache_read=999), False),
    "exclusive taken for inclusive": (Usage(input=12, output=40), True),
    "exclusive with its read": (Usage(input=12, cache_read=1_000, output=40), True),
    "nothing in common": (Usage(cache_read=1_000), False),
    "nothing known": (Usage(), False),
}


@pytest.mark.parametrize("name", AGREE)
def test_agree(name: str) -> None:
    other, expected = AGREE[name]
    assert agree(A, other) is expected
    assert agree(other, A) is expected


def test_agree_on_a_difference_of_read_and_write() -> None:
    whole = Usage(input=129_019, cache_read=127_000, cache_write=2_017, output=9)
    assert agree(whole, Usage(input=2, output=9))
    assert agree(whole, Usage(input=127_002, output=9))  # its writes were invisible
    assert not agree(whole, Usage(input=3, output=9))


def test_two_calls_without_cache_do_not_agree_by_chance() -> None:
    assert not agree(Usage(input=100, cache_read=0, output=9), Usage(input=200, cache_read=0, output=9))


# ---- whatever arrives

counts = st.none() | st.integers(-2, 300)
claims = st.builds(
    UsageClaim,
    input=counts,
    output=counts,
    cache_read=counts,
    cache_write=counts,
    cache_write_1h=counts,
    cache_write_5m=counts,
    reasoning=counts,
    total=counts,
    semantics=st.sampled_from(["", "inclusive", "exclusive"]),
    zeros_omitted=st.booleans(),
    output_excludes_reasoning=st.booleans(),
)


@given(claims, st.sampled_from([None, *RULES.usages]))
def test_input_is_inclusive_whatever_arrives(claim: UsageClaim, given_rule: UsageRule | None) -> None:
    found = decide(claim, given_rule)
    known = [
        n
        for n in (found.input, found.cache_read, found.cache_write, found.output, found.reasoning)
        if n is not None
    ]
    assert all(n >= 0 for n in known)
    if found.input is not None:
        assert (found.cache_read or 0) + (found.cache_write or 0) <= found.input
    for count in ("cache_read", "output"):
        told = getattr(claim, count)
        if told is not None and told >= 0 and not (getattr(found, count) is None and found.conflicts):
            assert (getattr(found, count) or 0) >= told
    assert agree(found, found) is (found.input is not None or found.output is not None)


def test_the_uncached_rest_of_a_dialect_that_never_tells_of_its_cache_is_no_input() -> None:
    row = next(
        u
        for u in load().usages
        if {"cache_read", "cache_write"} <= set(u.not_recorded) and u.input_includes_cache is False
    )
    found = decide(UsageClaim(input=26, output=30), row)
    assert found.input is None
    assert "not recorded" in found.semantics_evidence


# ---- names that were guessed: no convention holds

# claim, does the provider's API include cached tokens?, (input, semantics)
GUESSED: dict[str, tuple[UsageClaim, bool | None, tuple[int | None, str | None]]] = {
    "arithmetic": (UsageClaim(input=20, cache_read=60), None, (80, "exclusive")),
    "a total of all": (UsageClaim(input=90, cache_read=60, output=8, total=158), None, (150, "exclusive")),
    "a total of input and output, which some write of an input without the cached tokens too": (
        UsageClaim(input=90, cache_read=60, output=8, total=98), False, (None, None),
    ),
    "an API that includes them": (UsageClaim(input=90, cache_read=60), True, (90, "inclusive")),
    "an API that does not": (UsageClaim(input=90, cache_read=60), False, (None, None)),
    "nothing": (UsageClaim(input=90, cache_read=60), None, (None, None)),
    "nothing, and nothing cached": (UsageClaim(input=90, cache_read=0, cache_write=0), None, (90, None)),
    "its own word": (UsageClaim(input=90, cache_read=60, semantics="inclusive"), None, (90, "inclusive")),
}  # fmt: skip


@pytest.mark.parametrize("name", GUESSED)
def test_a_guess_follows_no_convention(name: str) -> None:
    claim, api, expected = GUESSED[name]

    found = decide(claim._replace(guessed=True), None, api)

    assert (found.input, found.semantics) == expected


def test_what_is_not_known_says_so() -> None:
    found = decide(UsageClaim(input=900, cache_read=600, cache_write=5, guessed=True), None)

    assert found.semantics_evidence == "not known: input 900 with or without the cached 605"
    assert (found.cache_read, found.cache_write) == (600, 5)


OPEN = UsageClaim(input=5_000, cache_read=4_000, guessed=True)


@pytest.mark.parametrize(
    ("text", "whole", "expected"),
    [
        (8_900, True, (9_000, "exclusive")),
        (8_900, False, (9_000, "exclusive")),  # more text than input proves it, whatever is missing
        (4_800, True, (5_000, "inclusive")),
        (4_800, False, (None, None)),
        (7_000, True, (None, None)),  # between both
        (1_000, True, (None, None)),  # neither: something is missing that nobody told of
    ],
)
def test_the_text_settles_what_the_input_is(
    text: int, whole: bool, expected: tuple[int | None, str | None]
) -> None:
    found = settled(decide(OPEN, None), OPEN, text, whole=whole)

    assert (found.input, found.semantics) == expected
    assert f"{text:,}" in found.semantics_evidence or expected == (None, None)


def test_text_settles_nothing_that_is_known() -> None:
    for claim in (
        OPEN._replace(guessed=False),
        OPEN._replace(semantics="inclusive"),
        OPEN._replace(cache_read=0),
    ):
        known = decide(claim, None)

        assert settled(known, claim, 90_000, whole=True) == known
    assert settled(Usage(), None, 90_000, whole=True) == Usage()


def test_an_input_without_cached_tokens_of_which_none_are_told_is_not_known() -> None:
    """As OpenLIT writes Anthropic's streams: of 1,900 tokens 26 were not cached, and the rest is told as 0."""
    claim = UsageClaim(input=26, output=24, cache_read=0, cache_write=0, semantics="exclusive")
    found = settled(decide(claim, None), claim, 2_100, whole=True)

    assert (found.input, found.cache_read, found.cache_write, found.output) == (None, None, None, 24)
    assert found.conflicts == (
        "input 26 is without cached tokens and none are told, but the text has about 2,100",
    )


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (UsageClaim(input=1_900, cache_read=0, cache_write=0, semantics="exclusive"), 2_400),
        (UsageClaim(input=26, cache_read=0, cache_write=1_850, semantics="exclusive"), 2_100),
        (UsageClaim(input=26, cache_read=0, cache_write=0, semantics="inclusive"), 2_100),
        (UsageClaim(input=26, cache_read=0, cache_write=0, semantics="exclusive"), 300),
    ],
)
def test_an_input_that_the_text_does_not_contradict_stands(claim: UsageClaim, text: int) -> None:
    known = decide(claim, None)

    assert settled(known, claim, text, whole=True) == known
