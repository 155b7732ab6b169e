"""What the agent's prompts must keep to, whatever the model answers."""

from datetime import UTC, datetime

import pytest
from agent import INSTRUCTIONS, Agent

QUESTIONS = ("Until when can I return a jacket?", "Who pays for the parcel?", "And if it is lost?")


def test_the_prompt_stays_small_and_cacheable(otelctx):
    agent = Agent()
    for question in QUESTIONS:
        agent.ask(question)

    otelctx.check(max_context=2_000, max_growth=200, stable_prefix=True, no_eviction=True, max_waste=0)
    assert otelctx.report.conversations[0].usage_last < 1_000


def test_a_clock_in_the_instructions_is_caught(otelctx):
    agent = Agent()
    for question in QUESTIONS:
        agent.instructions = f"It is {datetime.now(UTC).isoformat()}. {INSTRUCTIONS}"
        agent.ask(question)

    with pytest.raises(AssertionError, match="volatile_prefix"):
        otelctx.check(stable_prefix=True)
