"""Batch, flex and priority: told by a log, an answer, a request or a span, and priced as such or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from otel_ctx import Engine, read
from otel_ctx.cost import cost_of
from otel_ctx.dialects import read as read_span
from otel_ctx.model import Reading, Span
from otel_ctx.parts import read_tier
from otel_ctx.rules import load
from otel_ctx.rules.rows import ServiceTier
from tests.own_rules import own_row

RULES = load()
CHAT = {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Where is my order? " * 400}]}
ANSWER = {
    "id": "chatcmpl-1",
    "model": "gpt-5-mini-2025-08-07",
    "choices": [{"message": {"role": "assistant", "content": "Here."}}],
    "usage": {
        "prompt_tokens": 2000,
        "completion_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 1024},
    },
}
USUAL = (976 * 0.25 + 1024 * 0.025 + 100 * 2) / 1e6


def told(folder: Path, *files: list[dict[str, Any]]) -> list[Reading]:
    engine = Engine()
    for n, records in enumerate(files):
        (folder / f"{n}.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))
    for batch in read([folder]):
        engine.feed(batch.spans, batch.logs)
    return list(engine.close().readings)


def usd(reading: Reading) -> float | None:
    return reading.cost.usd if reading.cost is not None else None


# ---- what tells of it


@pytest.mark.parametrize(
    ("values", "tier"),
    [
        ([{"service_tier": "flex"}], "flex"),
        ([{"service_tier": "default"}, {"service_tier": "priority"}], "standard"),  # asked for, and not had
        ([{}, {"service_tier": "priority"}], "priority"),
        ([{"service_tier": "auto"}], ""),
        ([{"service_tier": "standard"}], "standard"),
        ([{"service_tier": "on_demand"}], "standard"),
        ([{"serviceTier": {"type": "flex"}}], "flex"),
        ([{"trafficType": "ON_DEMAND"}], "standard"),
        ([{"trafficType": "ON_DEMAND_PRIORITY"}], "priority"),
        ([{"trafficType": "PROVISIONED_THROUGHPUT"}], "provisioned_throughput"),
        ([{"service_tier": "standard", "speed": "fast"}], "fast"),
        (["batch", {"service_tier": "default"}], "batch"),
        ([{"service_tier": "Tell me of Ada Lovelace!"}], "other"),
        ([{"service_tier": 7}, None, [], ""], ""),
    ],
)
def test_a_tier_is_read_by_any_provider_s_words(values: list[Any], tier: str) -> None:
    assert read_tier(*values) == tier


@pytest.mark.parametrize(
    ("attributes", "tier"),
    [
        ({"openai.response.service_tier": "flex"}, "flex"),
        ({"gen_ai.openai.response.service_tier": "priority"}, "priority"),
        ({"gen_ai.openai.request.service_tier": "flex"}, "flex"),
        ({"openai.request.service_tier": "priority", "openai.response.service_tier": "default"}, "standard"),
        ({"anthropic.response.service_tier": "batch"}, "batch"),
        ({"llm.invocation_parameters": '{"service_tier": "flex"}'}, "flex"),
        ({"output.value": '{"id": "r", "choices": [], "usage": {}, "service_tier": "flex"}'}, "flex"),
        ({"output.value": '{"id": "r", "content": [], "usage": {"service_tier": "batch"}}'}, "batch"),
        ({"output.value": '{"candidates": [], "usageMetadata": {"trafficType": "ON_DEMAND_FLEX"}}'}, "flex"),
        ({"response_data": '{"message": {}, "usage": {"service_tier": "priority"}}'}, "priority"),
        (
            {
                "llm.invocation_parameters": '{"service_tier": "auto"}',
                "output.value": '{"choices": [], "usage": {}, "service_tier": "default"}',
            },
            "standard",
        ),
        ({"output.value": '{"customer": "Greta", "service_tier": "gold"}'}, ""),  # what the model answered
        ({}, ""),
    ],
)
def test_spans_tell_the_tier(attributes: dict[str, str], tier: str) -> None:
    asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini"}
    telling = read_span(Span("t", "s", "", "chat gpt-5-mini", 1, 2, attributes={**asked, **attributes}))
    assert telling is not None
    assert telling.service_tier == tier


def test_the_tier_of_a_span_is_its_price() -> None:
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": 2000, "gen_ai.usage.cache_read.input_tokens": 1024,
        "gen_ai.usage.output_tokens": 100,
    }  # fmt: skip
    engine = Engine()
    for n, tier in enumerate(("default", "flex", "priority", "scale")):
        more = {"openai.response.service_tier": tier, "gen_ai.response.id": f"r{n}"}
        engine.feed(
            [Span(f"t{n}", "s", "", "chat", n * 10**12, n * 10**12 + 1, attributes={**attributes, **more})]
        )
    costs = [usd(r) for r in engine.close().readings]
    assert costs == [pytest.approx(USUAL), pytest.approx(USUAL / 2), pytest.approx(USUAL * 1.8), None]


# ---- logs


@pytest.mark.parametrize(
    ("answer", "factor"), [({}, 1), ({"service_tier": "default"}, 1), ({"service_tier": "flex"}, 0.5)]
)
def test_an_answer_tells_the_tier(tmp_path: Path, answer: dict[str, str], factor: float) -> None:
    (reading,) = told(
        tmp_path, [{"request": {**CHAT, "service_tier": "auto"}, "response": {**ANSWER, **answer}}]
    )
    assert usd(reading) == pytest.approx(USUAL * factor)


def test_the_chunks_of_a_streamed_answer_tell_it(tmp_path: Path) -> None:
    chunks = [
        {
            "id": "chatcmpl-1",
            "model": "gpt-5-mini",
            "service_tier": "flex",
            "choices": [{"delta": {"content": "H"}}],
        },
        {"id": "chatcmpl-1", "model": "gpt-5-mini", "choices": [], "usage": ANSWER["usage"]},
    ]
    (reading,) = told(tmp_path, [{"request": CHAT, "response": chunks}])
    assert usd(reading) == pytest.approx(USUAL / 2)


def test_a_batch_of_openai_costs_half(tmp_path: Path) -> None:
    asked = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    answer = {**ANSWER, "service_tier": "default"}  # as a batch's answers have it
    answered = {"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": answer}, "error": None}
    (reading,) = told(tmp_path, [asked], [answered])
    assert (reading.call.service_tier, usd(reading)) == ("batch", pytest.approx(USUAL / 2))


@pytest.mark.parametrize("tier", [{}, {"service_tier": "batch"}])
def test_a_batch_of_anthropic_costs_half(tmp_path: Path, tier: dict[str, str]) -> None:
    body = {"model": "claude-opus-4-5", "max_tokens": 9, "messages": CHAT["messages"]}
    usage = {
        "input_tokens": 2000,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 100,
    }
    message = {"id": "msg_1", "model": "claude-opus-4-5", "content": [], "usage": {**usage, **tier}}
    answered = {"custom_id": "1", "result": {"type": "succeeded", "message": message}}
    (reading,) = told(tmp_path, [{"requests": [{"custom_id": "1", "params": body}]}], [answered])
    assert usd(reading) == pytest.approx((2000 * 5 + 100 * 25) / 2 / 1e6)


def test_an_application_s_own_ids_make_no_batch(tmp_path: Path) -> None:
    (reading,) = told(tmp_path, [{"custom_id": "1", "request": CHAT, "response": ANSWER}])
    assert (reading.call.service_tier, usd(reading)) == ("", pytest.approx(USUAL))


# ---- prices


def _priced(folder: Path, model: str, tier: str, **usage: int) -> Reading:
    numbers = {"prompt_tokens": 2000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 0}}
    answer = {**ANSWER, "model": model, "service_tier": tier, "usage": {**numbers, **usage}}
    (reading,) = told(
        folder, [{"url": "https://api.openai.com/v1/chat/completions", "request": CHAT, "response": answer}]
    )
    return reading


def test_a_tier_without_a_price_has_no_cost_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_bytes(
        orjson.dumps(
            {"request": CHAT, "response": {**ANSWER, "model": "gpt-4o-mini", "service_tier": "flex"}}
        )
    )
    engine = Engine()
    for batch in read([tmp_path]):
        engine.feed(batch.spans)
    analysis = engine.close()
    assert [r.cost for r in analysis.readings] == [None]
    (finding,) = (f for f in analysis.findings if f.kind == "unpriced_model")
    assert "gpt-4o-mini is in no price table for requests that were served as flex" in finding.detail
    assert "[[service_tier]]" in finding.fix


def test_cached_tokens_without_a_price_in_a_batch_leave_it_open(tmp_path: Path) -> None:
    """OpenAI lists none of its older models."""
    details = {"prompt_tokens_details": {"cached_tokens": 1024}}
    cost = _priced(tmp_path, "gpt-4o-mini", "batch", **details).cost  # type: ignore[arg-type]
    assert cost is not None
    fresh, cached, output = 976 * 0.075 / 1e6, 1024 * 0.075 / 1e6, 100 * 0.3 / 1e6
    assert (cost.low, cost.usd, cost.high) == (
        pytest.approx(fresh + output), pytest.approx(fresh + cached + output), pytest.approx(fresh + cached + output),
    )  # fmt: skip


@pytest.mark.parametrize(("tokens", "usd_"), [(272_000, 272_000 * 5 / 1e6 + 100 * 30 / 1e6), (272_001, None)])
def test_what_is_not_sold_for_long_requests_has_no_price_for_them(
    tmp_path: Path, tokens: int, usd_: float | None
) -> None:
    reading = _priced(tmp_path, "gpt-5.4", "priority", prompt_tokens=tokens)
    assert usd(reading) == (pytest.approx(usd_) if usd_ else None)


def test_a_maker_s_tiers_are_not_those_of_whoever_else_serves_the_model(tmp_path: Path) -> None:
    record = {"request": CHAT, "response": {**ANSWER, "service_tier": "flex"}, "provider": "azure"}
    (reading,) = told(tmp_path, [record])
    assert (reading.call.platform, reading.cost) == ("azure", None)


def test_a_tier_of_one_s_own_has_the_price_that_is_written_for_it(tmp_path: Path) -> None:
    own = own_row("service_tier", 'provider = "openai"\nnames = ["scale"]\ntimes = 0.7')
    reading = _priced(tmp_path, "gpt-5-mini", "scale")
    assert reading.cost is None
    cost = cost_of(reading.call, (), load(own))
    assert cost is not None
    assert cost.usd == pytest.approx(0.7 * (2000 * 0.25 + 100 * 2) / 1e6)


def _of_a_table(row: ServiceTier) -> set[str]:
    return {model for provider, model in RULES.prices if provider == row.provider}


def test_every_model_of_a_tier_has_a_price_to_multiply() -> None:
    assert [
        (row.id, set(row.models) - _of_a_table(row))
        for row in RULES.service_tiers
        if set(row.models) - _of_a_table(row)
    ] == []


def test_no_two_rows_say_what_one_tier_of_a_model_costs() -> None:
    said = [
        (row.provider, name, model)
        for row in RULES.service_tiers
        for name in row.names
        for model in row.models or ("*",)
    ]
    assert len(said) == len(set(said))
