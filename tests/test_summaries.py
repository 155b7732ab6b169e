"""Which texts are summaries of what was said."""

from __future__ import annotations

import pytest

from otel_ctx.parts.texts import adds_summary, is_summary

RULES = "You answer politely, cite the policy and never invent an order number. " * 4
TOLD = "# Summary of the conversation so far\nThe parcel is late, and the customer was told so."


@pytest.mark.parametrize(
    "text",
    [
        TOLD,
        "This session is being continued from a previous conversation that ran out of context.",
        "Another language model has produced a summary of its thinking process. Use it.",
        "Here is a summary of the conversation to date:\n- The parcel is late.",
        "Previous conversation summary: the parcel is late.",
        "<summary>The parcel is late.</summary>",
    ],
)
def test_a_summary_of_what_was_said(text: str) -> None:
    assert is_summary(text)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "Write a summary of the conversation below.",
        "Please give me a short summary of our session.",
        "The summary of the report is wrong.",
        "A long beginning. " * 20 + TOLD,
    ],
)
def test_no_summary_of_what_was_said(text: str | None) -> None:
    assert not is_summary(text)


def test_a_system_prompt_that_goes_on_with_a_summary() -> None:
    other = TOLD.replace("late", "here")
    assert adds_summary(RULES, f"{RULES}\n\n{TOLD}") == len(RULES) + 2
    assert adds_summary(f"{RULES}\n\n{TOLD}", f"{RULES}\n\n{other}") == len(RULES) + 2
    assert adds_summary(f"At 10:01. {RULES}", f"At 11:30. {RULES}\n{TOLD}") == len(RULES) + 11


def test_a_system_prompt_that_does_not_go_on_with_a_summary() -> None:
    assert adds_summary(RULES, RULES) is None
    assert adds_summary(RULES, f"{RULES}\nToday is Monday.") is None
    assert adds_summary("You write titles.", f"{RULES}\n{TOLD}") is None
    assert adds_summary(f"{RULES}\n{TOLD}", RULES) is None
    assert adds_summary(f"At 10:01. {RULES}\n{TOLD}", f"At 11:30. {RULES}\n{TOLD}") is None
