"""What an engineer reads of a finding is true for that provider, and said once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import otel_ctx
from otel_ctx.findings.marking import table

START = 1_795_600_000
RULE = "Answer in two sentences, name the order and its state, and never promise a refund before the policy was read. "


def text(role: str, *parts: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": part} for part in parts]}


def findings(
    tmp_path: Path,
    provider: str,
    model: str,
    calls: list[tuple[int, list[dict[str, Any]], int, int | None, int]],
    more: dict[str, str] | None = None,
    scope: str = "acme.genai",
    service: str = "shop",
) -> list[dict[str, Any]]:
    """``calls``: second of the start, messages, input, read (None: not told), written."""
    spans = []
    for i, (at, messages, total, read, write) in enumerate(calls):
        begin = (START + at) * 1_000_000_000
        texts = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": provider, "gen_ai.request.model": model,
            "gen_ai.input.messages": json.dumps(messages), **(more or {}),
        }  # fmt: skip
        numbers = {"gen_ai.usage.input_tokens": total}
        if read is not None:
            numbers["gen_ai.usage.cache_read.input_tokens"] = read
        if write:
            numbers["gen_ai.usage.cache_creation.input_tokens"] = write
        pairs = [{"key": k, "value": {"stringValue": v}} for k, v in texts.items()]
        pairs += [{"key": k, "value": {"intValue": str(v)}} for k, v in numbers.items()]
        spans.append({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": f"{i + 1:016x}", "name": "chat", "kind": 3,
            "startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + 2_000_000_000), "attributes": pairs,
        })  # fmt: skip
    dump = {"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
        "scopeSpans": [{"scope": {"name": scope}, "spans": spans}],
    }]}  # fmt: skip
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(dump))
    told: list[dict[str, Any]] = json.loads(otel_ctx.analyze(path).to_json())["findings"]
    return told


def turns(n: int, system: str = RULE * 150) -> list[dict[str, Any]]:
    asks = [text("user", f"Question {i}: where is order {1000 + i}? {RULE}") for i in range(n + 1)]
    told = [m for i, ask in enumerate(asks) for m in (ask, text("assistant", f"On its way, {i}."))][:-1]
    return [text("system", system), *told]


@pytest.mark.parametrize(
    ("provider", "model", "said"),
    [
        ("anthropic", "claude-sonnet-4-5", "last cache_control breakpoint"),
        ("gcp.vertex_ai", "claude-sonnet-4-5@20250929", "last cache_control breakpoint"),
        ("aws.bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", "last cachePoint"),
        ("gcp.vertex_ai", "gemini-3.5-flash", "by itself"),
        ("openai", "gpt-4.1", "by itself"),
    ],
)
def test_where_changing_text_may_stand_is_said_by_what_serves_the_model(
    tmp_path: Path, provider: str, model: str, said: str
) -> None:
    calls = [
        (i * 20, turns(i, f"It is 3:0{i}:1{i} PM. {RULE * 300}"), 7_000 + 40 * i, 0, 0) for i in range(3)
    ]
    found = [
        f
        for f in findings(tmp_path, provider, model, calls)
        if f["kind"] in ("volatile_prefix", "prefix_changed")
    ]
    assert [f["kind"] for f in found] == ["volatile_prefix"]
    assert said in found[0]["fix"]


@pytest.mark.parametrize(
    ("model", "pause", "said"),
    [
        ("claude-sonnet-4-5", 900, 'ttl "1h" in cache_control'),
        ("claude-sonnet-4-5", 9_000, "No lifetime that is offered bridges such a pause."),
    ],
)
def test_only_a_lifetime_that_bridges_the_pause_is_advised(
    tmp_path: Path, model: str, pause: int, said: str
) -> None:
    calls = [
        (0, turns(0), 3_000, 0, 3_000),
        (20, turns(1), 3_100, 3_000, 100),
        (pause, turns(2), 3_200, 0, 3_200),
    ]
    found = [f for f in findings(tmp_path, "anthropic", model, calls) if f["kind"] == "ttl_expired"]
    assert [f["tokens"] for f in found] == [3_100]
    assert said in found[0]["fix"]


@pytest.mark.parametrize("changes", [True, False])
def test_where_a_prompt_changes_behind_a_pause_both_are_to_be_mended(tmp_path: Path, changes: bool) -> None:
    """A longer lifetime alone keeps what nothing can read."""
    clock = ("It is 3:0{0}:1{0} PM. " if changes else "Be kind. ") + RULE * 300
    calls = [(i * 9_000, turns(i, clock.format(i)), 7_000 + 40 * i, 0, 7_000 + 40 * i) for i in range(3)]
    told = findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
    (found,) = [f for f in told if f["kind"] == "ttl_expired"]
    assert ("mend both" in found["fix"]) == changes
    assert "breakpoint alone" not in found["fix"]
    assert ("volatile_prefix" in {f["kind"] for f in told}) == changes


@pytest.mark.parametrize(
    ("provider", "model", "pause", "title", "lives", "fix"),
    [
        ("openai", "gpt-4o", 900, "may have", "5 to 60 min: it may", "No lifetime that is offered"),
        ("openai", "gpt-4o", 9_000, "had", "5 to 60 min.", "No lifetime that is offered"),
        ("openai", "gpt-5.4", 900, "may have", "5 min to 24 h: it may", '(prompt_cache_retention "24h"). '),
        ("openai", "gpt-5.4", 5_400, "may have", "5 min to 24 h: it may", "as an entry then lives 30 min to 24 h"),
        ("anthropic", "claude-sonnet-4-5", 9_000, "had", "5 to 60 min.", "No lifetime that is offered"),
    ],
)  # fmt: skip
def test_a_lifetime_that_is_a_range_is_told_with_both_bounds(
    tmp_path: Path, provider: str, model: str, pause: int, title: str, lives: str, fix: str
) -> None:
    """Within it an entry may have expired, and whoever asks for a longer one may have it bridge the pause."""
    written = 3_000 if provider == "anthropic" else 0
    calls = [
        (0, turns(0), 3_000, 0, written),
        (20, turns(1), 3_100, 2_944, written and 100),
        (20 + pause, turns(2), 3_200, 0, written),
    ]
    (found,) = [f for f in findings(tmp_path, provider, model, calls) if f["kind"] == "ttl_expired"]
    assert found["title"] == f"The cache {title} expired"
    assert f"an entry lives {lives}" in found["detail"]
    assert fix in found["fix"]
    assert found["evidence"] == ("inferred" if title == "may have" else "reported")


def test_a_reminder_that_is_always_put_last_is_one_finding(tmp_path: Path) -> None:
    """It stands further on in each call, and so does the place where the prompts part."""
    calls = []
    for i in range(6):
        messages = turns(i)
        messages[-1]["parts"].append(
            {"type": "text", "content": "<reminder>Be brief. " + RULE * 2 + "</reminder>"}
        )
        calls.append((i * 20, messages, 3_000 + 60 * i, 0, 3_000 + 60 * i))
    found = [
        f
        for f in findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
        if f["kind"] in ("moved_segment", "breakpoint_before_change", "prefix_changed")
    ]
    assert [(f["kind"], len(f["calls"])) for f in found] == [("moved_segment", 5)]
    assert found[0]["tokens"] == sum(3_000 + 60 * i for i in range(5))


def test_two_edits_of_the_history_stay_two_findings(tmp_path: Path) -> None:
    """What happened at two places by chance is no habit: each keeps its place."""
    calls = []
    for i in range(5):
        messages = turns(i)
        if i >= 2:
            messages[1] = text("user", "Question 0, edited. " + RULE)
        if i >= 4:
            messages[3] = text("user", "Question 1, edited. " + RULE)
        calls.append((i * 20, messages, 3_000 + 60 * i, 0, 3_000 + 60 * i))
    found = [
        f
        for f in findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
        if f["kind"] == "prefix_changed"
    ]
    assert {f["path"] for f in found} == {"messages[1].parts[0]", "messages[3].parts[0]"}


@pytest.mark.parametrize(
    ("provider", "model", "key"),
    [
        ("aws.bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", False),
        ("anthropic", "claude-sonnet-4-5", False),
        ("openai", "gpt-4.1", True),
    ],
)
def test_a_routing_key_is_advised_only_where_the_provider_may_have_one(
    tmp_path: Path, provider: str, model: str, key: bool
) -> None:
    tool = {"type": "function", "name": "order", "description": RULE, "parameters": {"type": "object"}}
    sizes = ((0, 3_450, 0), (1, 3_530, 3_440), (2, 3_610, 0))
    calls = [(20 * i, turns(i), n, read, 0 if key else n - read - 10) for i, n, read in sizes]
    told = findings(tmp_path, provider, model, calls, {"gen_ai.tool.definitions": json.dumps([tool])})
    (found,) = [f for f in told if f["kind"] == "provider_side_miss"]
    assert ("prompt_cache_key" in found["fix"]) == key


@pytest.mark.parametrize("installed", [True, False])
def test_codex_has_a_price_and_an_extra_that_is_missing_is_installed_from_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr("otel_ctx.findings.quality._has_package", lambda: installed)
    calls = [(0, turns(0), 4_500, 0, 0)]
    known = findings(tmp_path, "openai", "gpt-5.1-codex", calls)
    assert "unpriced_model" not in {f["kind"] for f in known}
    (found,) = [f for f in findings(tmp_path, "acme", "nobody-1", calls) if f["kind"] == "unpriced_model"]
    assert ("pip install '.[prices]' in a clone" in found["fix"]) == (not installed)
    assert '[[price]] row, model = "nobody-1"' in found["fix"]


# ---- for that library and that provider


UNMARKED = [(i * 20, turns(i), 3_000 + 60 * i, 0, 0) for i in range(3)]
CLAUDE, ON_BEDROCK = "claude-sonnet-4-5", "anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize(
    ("scope", "provider", "model", "said", "not_said"),
    [
        ("acme.genai", "anthropic", CLAUDE, "set cache_control at the top level", "cachePoint"),
        ("acme.genai", "aws.bedrock", ON_BEDROCK, '{"cachePoint": {"type": "default"}}', "top level"),
        ("strands.telemetry.tracer", "anthropic", CLAUDE, 'CacheConfig(strategy="auto")', "cache_control"),
        ("strands.telemetry.tracer", "aws.bedrock", ON_BEDROCK, 'CacheConfig(strategy="auto")', "cachePoint"),
        ("litellm", "anthropic", CLAUDE, "cache_control_injection_points", "top level"),
        ("pydantic-ai", "anthropic", CLAUDE, "anthropic_cache=True", "bedrock"),
        ("pydantic-ai", "aws.bedrock", ON_BEDROCK, "bedrock_cache_messages=True", "anthropic_cache"),
        ("openinference.instrumentation.langchain", "anthropic", CLAUDE, "AnthropicPromptCachingMiddleware", "top level"),
        ("com.anthropic.claude_code.tracing", "anthropic", CLAUDE, "Claude Code sets its breakpoints itself", "Put"),
    ],
)  # fmt: skip
def test_how_the_end_is_marked_is_said_for_that_library_and_provider(
    tmp_path: Path, scope: str, provider: str, model: str, said: str, not_said: str
) -> None:
    found = [
        f
        for f in findings(tmp_path, provider, model, UNMARKED, scope=scope)
        if f["kind"] == "no_cache_control"
    ]
    assert len(found) == 1
    assert said in found[0]["fix"]
    assert not_said not in found[0]["fix"]


def test_of_a_prompt_that_a_library_writes_nobody_is_told_to_write_it_otherwise(tmp_path: Path) -> None:
    calls = [
        (i * 20, turns(i, f"It is 3:0{i}:1{i} PM. {RULE * 300}"), 7_000 + 40 * i, 0, 0) for i in range(3)
    ]
    (found,) = (
        f
        for f in findings(tmp_path, "anthropic", CLAUDE, calls, service="claude-code")
        if f["kind"] == "volatile_prefix"
    )
    assert found["fix"].startswith("Claude Code writes its prompt itself")


def test_of_what_a_library_cuts_nobody_is_told_to_cut_it_seldom(tmp_path: Path) -> None:
    calls = []
    for i in range(3):
        messages = turns(i + 2)
        del messages[1 : 1 + 2 * i]  # the oldest question and its answer, at each turn
        calls.append((i * 20, messages, 3_000, 0, 0))
    by_service = {
        service: [
            f["fix"]
            for f in findings(tmp_path, "anthropic", CLAUDE, calls, service=service)
            if f["kind"] == "evicted_content"
        ]
        for service in ("shop", "claude-code", "opencode")
    }
    assert [len(fixes) for fixes in by_service.values()] == [1, 1, 1]
    assert by_service["shop"][0].startswith("Each cut makes")
    assert by_service["claude-code"][0].startswith("Claude Code writes its prompt itself")
    assert by_service["opencode"][0].startswith("opencode writes its prompt itself")


def test_the_table_of_markings_holds_together() -> None:
    rows = table()
    assert all(row.end and not row.end.endswith(".") and row.source for row in rows)
    assert "*" in rows[-1].scopes
    assert not rows[-1].platform
    assert rows[-1].longer
    assert rows[-1].shorter


@pytest.mark.parametrize(
    ("provider", "model", "said"),
    [
        ("openai", "gpt-4.1", "an unbroken prefix gives"),
        ("gcp.gemini", "gemini-3.5-flash", "an unbroken prefix gives"),
        ("anthropic", "claude-sonnet-4-5", "an unbroken, marked prefix gives"),
    ],
)
def test_a_prefix_is_marked_only_where_something_is_marked(
    tmp_path: Path, provider: str, model: str, said: str
) -> None:
    findings(tmp_path, provider, model, [(20 * i, turns(i), 4_200 + 80 * i, 4_096 * i, 0) for i in range(2)])
    assert said in otel_ctx.analyze(tmp_path / "dump.json").to_text()


def test_what_was_read_and_what_was_lost_are_what_could_have_been_read(tmp_path: Path) -> None:
    """The few tokens that counts may be wrong by are not lost."""
    reads = (0, 3_447, 3_527, 0)
    calls = [(20 * i, turns(i), 3_450 + 80 * i, n, 3_447 + 80 * i - n) for i, n in enumerate(reads)]
    findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
    said = otel_ctx.analyze(tmp_path / "dump.json").to_text()
    found = re.search(r"read ([\d,]+) of ([\d,]+) tokens that .*?([\d,]+) tokens billed again", said, re.S)
    assert found is not None
    read, most, lost = (int(n.replace(",", "")) for n in found.groups())

    assert (read, read + lost) == (6_974, most)


def test_who_looks_for_what_is_not_recorded_is_told_of_values_that_are_cut(tmp_path: Path) -> None:
    calls = [(20 * i, turns(i, RULE), 9_000 + 80 * i, 0, 0) for i in range(2)]
    found = findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
    assert any("texts that end in" in f["fix"] for f in found if f["kind"] == "content_not_captured")


@pytest.mark.parametrize("changes", [True, False])
def test_where_an_unmarked_prompt_changes_as_well_both_are_to_be_mended(
    tmp_path: Path, changes: bool
) -> None:
    """Who sets the breakpoint alone pays for writes that nothing can read."""
    clock = ("It is 3:0{0}:1{0} PM. " if changes else "Be kind. ") + RULE * 300
    calls = [(i * 20, turns(i, clock.format(i)), 7_000 + 40 * i, 0, 0) for i in range(3)]
    told = findings(tmp_path, "anthropic", "claude-sonnet-4-5", calls)
    (found,) = [f for f in told if f["kind"] == "no_cache_control"]
    assert ("mend both. A breakpoint alone costs more" in found["fix"]) == changes
    assert ("volatile_prefix" in {f["kind"] for f in told}) == changes
