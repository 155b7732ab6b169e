"""A cause is named as far as usage, times and published rules prove it; hand-made calls with the right value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from otel_ctx.engine import Engine
from otel_ctx.model import Span, Usage
from otel_ctx.outputs.report import Inputs, build
from tests.test_cache import Provider, call, row

SECOND = 1_000_000_000
START = 1_764_500_000 * SECOND
SONNET, OTHER = "claude-sonnet-4-5", "claude-sonnet-4-6"
SYSTEM = "Answer politely, cite the policy and never invent an order number. " * 163
MAKERS = {
    "claude": "anthropic",
    "gpt": "openai",
    "kimi": "moonshot",
    "mistral": "mistral_ai",
    "gemini": "gcp.gemini",
}
DAY = 86_400


class Chat:
    """A conversation; each call tells what the provider read and wrote."""

    def __init__(self, model: str = SONNET, **attributes: Any) -> None:
        self.model, self.attributes = model, attributes
        self.spans: list[Span] = []

    def ask(
        self,
        at: float,
        messages: Sequence[str],
        tokens: int | None,
        read: int | None = 0,
        write: int | None = 0,
        *,
        model: str = "",
        system: str = SYSTEM,
        tools: Sequence[str] = ("find", "refund"),
        took: float = 2,
        **more: Any,
    ) -> None:
        """``messages``: the user's and the model's in turn."""
        n, model = len(self.spans) + 1, model or self.model
        said = [
            {"role": role, "parts": [{"type": "text", "content": text}]}
            for role, text in zip(("user", "assistant") * len(messages), messages, strict=False)
        ]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": next((v for k, v in MAKERS.items() if model.startswith(k)), "acme"),
            "gen_ai.request.model": model,
            "gen_ai.conversation.id": "c",
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
            "gen_ai.tool.definitions": json.dumps(
                [{"type": "function", "name": t, "parameters": {}} for t in tools]
            ),
            "gen_ai.input.messages": json.dumps(said),
            "gen_ai.usage.input_tokens": tokens,
            "gen_ai.usage.cache_read.input_tokens": read,
            "gen_ai.usage.cache_creation.input_tokens": write,
            **self.attributes,
            **more,
        }
        start = START + round(at * SECOND) if at >= 0 else 0
        self.spans.append(
            Span(
                trace_id=f"{n:032x}",
                span_id=f"{n:016x}",
                parent_id="",
                name="chat",
                start_unix_nano=start,
                end_unix_nano=start + round(took * SECOND) if start else 0,
                attributes={k: v for k, v in attributes.items() if v is not None},
                kind=3,
                scope_name="opentelemetry.instrumentation.genai",
                scope_version="1.3b0",
                resource={"service.name": "shop"},
            )
        )

    def report(self) -> dict[str, Any]:
        engine = Engine()
        engine.feed(self.spans, [])
        return build(engine.close(), Inputs((), ()))

    def lost(self) -> list[dict[str, int]]:
        """Of each call: the tokens by cause."""
        calls = self.report()["calls"]
        assert len(calls) == len(self.spans)
        for c in calls:
            assert c["waste"] is None or c["waste"]["tokens"] == sum(
                v["tokens"] for v in c["waste"]["by_cause"].values()
            )
        return [
            {k: v["tokens"] for k, v in (c["waste"] or {"by_cause": {}})["by_cause"].items()} for c in calls
        ]


def text(name: str, n: int = 270) -> str:
    return f"{name}: " + "where is my parcel, please? " * (n // 6)


A, B, C, D = (text(name) for name in ("first", "second", "third", "fourth"))
X, Y, Z = "on its way", "still on its way", "delivered"


# ---- a pause that an entry may have outlived


@pytest.mark.parametrize(
    ("model", "pause", "cause"),
    [
        (SONNET, 465, "tools_reordered"),  # 5 minutes or an hour: nothing tells which
        (SONNET, 4_000, "ttl_expired"),
        ("gpt-4o", 400, "tools_reordered"),  # 5 minutes to an hour
        ("gpt-4o", 4_000, "ttl_expired"),
        ("gpt-5.4", 4_000, "tools_reordered"),  # or a day
        ("gpt-5.4", DAY + 600, "ttl_expired"),
    ],
)
def test_a_certain_change_comes_before_an_expiry_that_is_not(model: str, pause: int, cause: str) -> None:
    chat, writes = Chat(model), model == SONNET
    chat.ask(0, [A], 2500, 0, 2500 if writes else 0)
    chat.ask(pause, [A, X, B], 2828, 0, 2828 if writes else 0, tools=("refund", "find"))

    assert list(chat.lost()[1]) == [cause]


def test_an_expiry_shows_in_what_no_change_can_explain() -> None:
    """Only the last message changed, and the system prompt in front of it was not read either."""
    chat = Chat("gpt-4o")
    chat.ask(0, [A, X, B], 2828)
    chat.ask(400, [A, X, C, Y, D], 3150)

    assert list(chat.lost()[1]) == ["ttl_expired"]


def test_a_lifetime_that_may_have_been_the_longer_one_is_no_blame_where_nothing_is_promised() -> None:
    chat = Chat("kimi-k2-thinking")
    chat.ask(0, [A], 2500)
    chat.ask(420, [A, X, B], 2828)
    chat.ask(5_000, [A, X, B, Y, C], 3156)

    assert [list(lost) for lost in chat.lost()] == [[], [], ["ttl_expired"]]


# ---- what was never written


def test_nothing_is_read_of_what_the_call_before_did_not_mark() -> None:
    chat = Chat()
    chat.ask(0, [A], 2500)
    chat.ask(20, [A, X, B], 2828)
    chat.ask(40, [A, X, B, Y, C], 3156, 0, 3156)
    chat.ask(60, [A, X, B, Y, C, Z, D], 3484, 3156, 328)

    assert chat.lost() == [{}, {"no_cache_control": 2500}, {"no_cache_control": 2828}, {}]


def test_one_call_without_a_marker_costs_the_next_what_it_added() -> None:
    chat = Chat()
    chat.ask(0, [A], 2500, 0, 2500)
    chat.ask(20, [A, X, B], 2828)
    chat.ask(40, [A, X, B, Y, C], 3156, 2500, 656)

    assert chat.lost() == [{}, {"no_cache_control": 2500}, {"no_cache_control": 328}]
    found = [f for f in chat.report()["findings"] if f["kind"] == "no_cache_control"]
    assert [f["title"] for f in found] == [
        "Nothing is marked for the prompt cache",
        "The request before marked nothing for the prompt cache",
    ]
    assert found[0]["fix"] == found[1]["fix"]


def test_a_marker_in_front_of_the_only_entry_reads_nothing() -> None:
    """The end was marked before, and only the system prompt is now: no entry ends there."""
    chat = Chat()
    chat.ask(0, ["hi"], 2302, 0, 2302)
    chat.ask(20, ["hi", X, "thanks"], 2330, 0, 2290)

    assert list(chat.lost()[1]) == ["missing_tail_breakpoint"]


# ---- several that go on from one call


@pytest.mark.parametrize(
    ("model", "then", "at", "cause"),
    [
        (SONNET, SONNET, 4_000, "ttl_expired"),
        (SONNET, OTHER, 30, "model_switch"),
        ("gpt-4o", "gpt-4o", DAY, "ttl_expired"),
        ("gpt-4o", "gpt-4.1", 30, "model_switch"),
    ],
)
def test_what_runs_beside_the_first_lost_what_the_first_lost(
    model: str, then: str, at: float, cause: str
) -> None:
    chat, writes = Chat(model), model == SONNET
    chat.ask(0, [A], 2500, 0, 2500 if writes else 0)
    for n in range(3):
        last = text(f"branch {n}")
        chat.ask(at + n / 10, [A, X, last], 2830, 0, 2830 if writes else 0, model=then, took=10)
    calls = chat.report()["calls"]

    assert [list(lost) for lost in chat.lost()] == [[], [cause], [cause], [cause]]
    assert all(c["cache"]["predicted"]["read"] == 0 for c in calls[1:])


@pytest.mark.parametrize(
    ("model", "at", "cause"), [(OTHER, 20, "model_switch"), (SONNET, 4_000, "ttl_expired")]
)
def test_what_goes_on_from_an_earlier_call_needs_the_entry_of_that_one(
    model: str, at: float, cause: str
) -> None:
    """The last message is edited: the call in between has written its own end only."""
    chat = Chat()
    chat.ask(0, [A], 2500, 0, 2500)
    chat.ask(at, [A, X, B], 2728, 0, 2728, model=model)
    chat.ask(at + 20, [A, X, C], 2728, 0, 2728, model=model)

    assert chat.lost() == [{}, {cause: 2500}, {cause: 2500}]


def test_agents_without_text_under_one_id_go_on_from_their_own_call() -> None:
    chat = Chat(
        **dict.fromkeys(("gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.input.messages"))
    )
    sizes = [(2500, 0), (2701, 0), (2828, 2500), (3229, 2701), (3156, 2828), (3757, 3229), (3484, 3156)]
    for n, (tokens, read) in enumerate(sizes):
        chat.ask(n * 20, [], tokens, read, tokens - read)

    assert chat.lost()[2:] == [{}] * 5


# ---- where no cache is known to be in use


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("mistral-large-4", "costs nothing yet"),
        ("gemini-2.0-flash", "costs nothing yet"),
        ("gpt-3.5-turbo", "nor what this costs"),  # by no known rule
        ("llama-9", "nor what this costs"),
    ],
)
def test_a_change_costs_nothing_known_where_nothing_is_cached(model: str, said: str) -> None:
    chat = Chat(model)
    chat.ask(0, [A], 2500)
    chat.ask(20, [A, X, B], 2828, tools=("refund", "find"))
    report = chat.report()
    found = next(f for f in report["findings"] if f["kind"] == "tools_reordered")

    assert chat.lost() == [{}, {}]
    assert (found["severity"], found["tokens"], found["evidence"]) == ("info", 0, "predicted")
    assert said in found["detail"]


def test_a_cache_that_promises_nothing_and_is_not_reported_is_not_said_to_lose_anything() -> None:
    chat = Chat("gemini-2.5-flash", **{"gen_ai.provider.name": "gcp.gemini"})
    chat.ask(0, [A], 2500, None, None)
    chat.ask(20, [A, X, B], 2828, None, None, tools=("refund", "find"))
    report = chat.report()
    found = next(f for f in report["findings"] if f["kind"] == "tools_reordered")

    assert chat.lost() == [{}, {}]
    assert report["totals"]["waste"]["tokens"] is None
    assert (found["severity"], found["tokens"]) == ("warning", 0)
    assert found["detail"].endswith("what this costs is not known.")


@pytest.mark.parametrize(("read", "lost"), [(0, {}), (2400, {"tools_reordered": 2828})])
def test_a_change_costs_nothing_where_a_cache_that_promises_nothing_read_nothing_before(
    read: int, lost: dict[str, int]
) -> None:
    chat = Chat("gemini-2.5-flash", **{"gen_ai.provider.name": "gcp.gemini"})
    chat.ask(0, [A], 2500, 0)
    chat.ask(20, [A, X, B], 2828, read)
    chat.ask(40, [A, X, B, X, B], 3156, 0, tools=("refund", "find"))

    assert chat.lost() == [{}, {}, lost]
    severity = next(f["severity"] for f in chat.report()["findings"] if f["kind"] == "tools_reordered")
    assert severity == ("error" if lost else "info")


@pytest.mark.parametrize(
    ("model", "read", "more"),
    [
        ("llama-9", 2400, {}),  # a read has shown it
        ("mistral-large-4", 2496, {}),
        ("mistral-large-4", 0, {"gen_ai.request.prompt_cache_key": "k"}),  # it was asked for
        ("deepseek-chat", 0, {}),  # by the rule, whatever the request says
    ],
)
def test_a_change_costs_what_was_cached(model: str, read: int, more: dict[str, str]) -> None:
    chat = Chat(model, **more)
    if model.startswith("deepseek"):
        chat.attributes["gen_ai.provider.name"] = "deepseek"
    chat.ask(0, [A], 2500, read)
    chat.ask(20, [A, X, B], 2828, 0, tools=("refund", "find"))

    assert list(chat.lost()[1]) == ["tools_reordered"]


# ---- what else may be the reason


def test_another_key_is_another_server_where_the_provider_routes_by_it() -> None:
    for model, cause in (("gpt-5", "parameters_changed"), ("gpt-5.6", "provider_side_miss")):
        chat = Chat(model)
        for n, (messages, read, key) in enumerate(
            [([A], 0, "a"), ([A, X, B], 2432, "a"), ([A, X, B, Y, C], 0, "b")]
        ):
            given = json.dumps({"prompt_cache_key": key})
            chat.ask(n * 20, messages, 2500 + 328 * n, read, None, **{"llm.invocation_parameters": given})

        assert list(chat.lost()[2]) == [cause]


def test_without_times_an_expiry_cannot_be_ruled_out() -> None:
    for at, cause in ((-1, "unknown"), (20, "provider_side_miss")):
        chat = Chat()
        chat.ask(at, [A], 2500, 0, 2500)
        chat.ask(at + 20 if at > 0 else at, [A, X, B], 2828, 0, 2828)

        assert list(chat.lost()[1]) == [cause]


@pytest.mark.parametrize("tokens", [None, 0, -5])
def test_what_a_call_without_usage_has_written_is_not_known(tokens: int | None) -> None:
    chat = Chat()
    chat.ask(0, [A], 2500, 0, 2500)
    chat.ask(20, [A, X, B], tokens, tokens, tokens)
    chat.ask(40, [A, X, B, Y, C], 3156, 2500, 656)

    assert list(chat.lost()[2]) == ["unknown"]


@pytest.mark.parametrize(("blocks", "causes"), [(11, ["below_minimum"] * 2), (30, ["unknown"] * 2)])
def test_what_the_provider_did_not_write_was_too_short_where_that_is_near(
    blocks: int, causes: list[str]
) -> None:
    """The marker is on the span, and by our count there is enough in front of it."""
    provider = Provider()
    provider.ask(call(row(blocks, 100, (blocks,)), 0, usage=Usage(blocks * 100, 0, 0)))
    still = provider.ask(call(row(blocks + 1, 100, (blocks,)), 20, usage=Usage(blocks * 100 + 100, 0, 0)))
    end = blocks + 2
    moved = provider.ask(call(row(end, 100, (end,)), 40, usage=Usage(end * 100, 0, end * 100)))

    assert [a.barrier or a.otherwise for a in (still, moved)] == causes
    assert {a.sure for a in (still, moved)} <= {"inferred", "unknown"}
