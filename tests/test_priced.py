"""Which calls have a price: by a dated id, by the model behind a deployment's name; and what is said where some have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

import otel_ctx
from otel_ctx.rules import load, normalise_model_id
from tests.own_rules import own_price

RULES = load()


# ---- names


@pytest.mark.parametrize(
    ("model", "name", "usd"),
    [
        ("claude-sonnet-4-20250514", "claude-sonnet-4", 3),
        ("claude-sonnet-4-0", "claude-sonnet-4", 3),
        ("claude-sonnet-4@20250514", "claude-sonnet-4", 3),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4", 3),
        ("claude-4-sonnet-20250514", "claude-sonnet-4", 3),
        ("claude-opus-4-20250514", "claude-opus-4", 15),
        ("claude-opus-4.0", "claude-opus-4", 15),
        ("anthropic/claude-4.5-opus", "claude-opus-4-5", 5),
        ("claude-opus-4-1-20250805", "claude-opus-4-1", 15),
        ("claude-opus-5.0", "claude-opus-5", 5),
        ("claude-sonnet-3.7", "claude-3-7-sonnet", 3),
        ("claude-haiku-3-5", "claude-3-5-haiku", 0.8),
        ("claude-3-5-sonnet-20241022", "claude-3-5-sonnet", 3),
    ],
)
def test_a_model_has_one_price_under_all_its_names(model: str, name: str, usd: float) -> None:
    price = RULES.price(model)
    assert (normalise_model_id(model), price and price.usd["input"]) == (name, usd)


# ---- a dump of some calls


PREFIX = "Larkspur sells parcels, and answers whoever asks for one. " * 200


def report(path: Path, named: list[str], **more: Any) -> otel_ctx.Report:
    """A conversation whose second half lost all that it could have read."""
    records = []
    for n, model in enumerate(named):
        read = 0 if n == len(named) - 1 or not n else 2304
        usage = {
            "prompt_tokens": 2400 + 20 * n,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": read},
        }
        messages = [{"role": "system", "content": PREFIX}]
        for turn in range(n + 1):
            messages += [
                {"role": "user", "content": f"question {turn}"},
                {"role": "assistant", "content": f"answer {turn}"},
            ]
        answer = {"role": "assistant", "content": f"answer {n}"}
        records.append({
            "timestamp": f"2026-11-30T12:0{n}:00Z", "conversation": "c", "url": "https://api.openai.com/v1/chat/completions",
            "request": {"model": model, "messages": messages[:-1]},
            "response": {"model": model, "choices": [{"message": answer}], "usage": usage},
        })  # fmt: skip
    path.write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))
    return otel_ctx.analyze(path, **more)


def test_savings_without_a_price_are_not_known(tmp_path: Path) -> None:
    """Calls of a model with a price, and the one that lost of a model without."""
    said = report(tmp_path / "requests.jsonl", ["gpt-4o"] * 3 + ["gpt-nobody-knows"])
    told = said.to_dict()
    assert told["totals"]["cost"]["priced_calls"] == 3
    assert told["totals"]["waste"]["tokens"] > 0
    assert told["totals"]["waste"]["usd"] is None
    assert [(c["savings"]["usd"], c["savings"]["share"]) for c in told["conversations"]] == [(None, None)]
    assert told["totals"]["savings"]["usd"] is None
    assert told["totals"]["savings"]["share"] is None
    assert told["totals"]["savings"]["usd_per_1000_sessions"] is None


def test_a_cost_says_of_how_many_calls_it_is(tmp_path: Path) -> None:
    said = report(tmp_path / "requests.jsonl", ["gpt-4o"] * 3 + ["gpt-nobody-knows"])
    assert "at list price of 3 of 4 calls" in said.to_text()
    assert "at list price of 3 of 4 calls" in said.to_md()
    whole = report(tmp_path / "requests.jsonl", ["gpt-4o"] * 4)
    assert "at list price of" not in whole.to_text() + whole.to_md()


def test_a_cost_that_is_not_known_says_why(tmp_path: Path) -> None:
    said = report(tmp_path / "requests.jsonl", ["gpt-nobody-knows"] * 2)
    assert "cost not known: no price of the model" in said.to_text()


# ---- the model behind a deployment's name


OWN = own_price("gpt-4o", "usd = { input = 1, output = 1, cache_read = 1 }")


def test_a_deployment_is_its_model_in_all_that_the_rules_say(tmp_path: Path) -> None:
    as_it_is = report(tmp_path / "a.jsonl", ["gpt-4o"] * 4).to_dict()
    unknown = report(tmp_path / "b.jsonl", ["my-deploy"] * 4).to_dict()
    said = report(tmp_path / "b.jsonl", ["my-deploy"] * 4, models={"my-*": "gpt-4o"}).to_dict()
    assert unknown["totals"]["cost"]["usd"] is None
    assert said["totals"]["cost"] == as_it_is["totals"]["cost"]
    for mine, real in zip(said["calls"], as_it_is["calls"], strict=True):
        assert mine["model"] == "my-deploy"
        assert {k: mine[k] for k in ("cache", "waste", "context", "tokens") if k in mine} == {
            k: real[k] for k in ("cache", "waste", "context", "tokens") if k in real
        }
    own = report(tmp_path / "b.jsonl", ["my-deploy"] * 4, models={"my-*": "gpt-4o"}, rules=OWN).to_dict()
    assert own["totals"]["cost"]["usd"] == pytest.approx((4 * 2400 + 120 + 40) / 1e6)
