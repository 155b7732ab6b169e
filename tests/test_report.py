"""The report as data: every field there, nothing made up, no prompt text unless it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx.engine import Engine, Settings
from otel_ctx.model import KINDS, Analysis, LogRecord, Reading, Span
from otel_ctx.outputs import report
from otel_ctx.outputs.report import Inputs, Source, build, dumps
from otel_ctx.outputs.views.kinds import Reconciliation, by_kind, reconcile

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
SENTINEL = "zebra-crossing"
INPUTS = Inputs(
    (Source("a.json", "otlp_json", 5, 1), Source("b.json", "otlp_json", 2, 0)), (("b.json:3", "cut"),)
)


def text(role: str, value: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": value, **more}]}


def span(id_: int, at: float, *, trace: int = 1, error: str = "", **attributes: Any) -> Span:
    known = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", **attributes}
    start = BASE + round(at * SECOND)
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{id_:016x}",
        parent_id="",
        name="chat",
        start_unix_nano=start,
        end_unix_nano=start + SECOND,
        attributes={k: v for k, v in known.items() if v is not None},
        kind=3,
        scope_name="opentelemetry.instrumentation.genai.openai",
        scope_version="1.3b0",
        resource={"service.name": "shop"},
        status_code=2 if error else 0,
        status_message=error,
    )


def session(turns: int = 4, *, markers: bool = False, model: Sequence[str] = ("gpt-4o",)) -> list[Span]:
    """A conversation with tools and a system prompt that changes once, at the last turn."""
    tools = [
        {
            "type": "function",
            "name": "find",
            "description": f"Find {SENTINEL}",
            "parameters": {"type": "object"},
        }
    ]
    history: list[dict[str, Any]] = []
    out = []
    for i in range(turns):
        history = [*history, text("user", f"Question {i} on {SENTINEL}, please?")]
        sent = json.loads(json.dumps(history))
        if markers:
            sent[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
        answer = text("assistant", f"Answer {i} on {SENTINEL}.")
        system = f"You sell {SENTINEL}s at {'3:07:42' if i < turns - 1 else '4:08:11'} PM. Be kind. " * 3
        out.append(
            span(
                i + 1,
                i * 10,
                **{
                    "gen_ai.request.model": model[i % len(model)],
                    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
                    "gen_ai.tool.definitions": json.dumps(tools),
                    "gen_ai.input.messages": json.dumps(sent),
                    "gen_ai.output.messages": json.dumps([answer]),
                    "gen_ai.usage.input_tokens": 120 + 30 * i,
                    "gen_ai.usage.output_tokens": 8,
                    "gen_ai.usage.cache_read.input_tokens": 0,
                },
            )
        )
        history = [*history, answer]
    return out


def analysed(spans: Sequence[Span], logs: Sequence[LogRecord] = ()) -> Analysis:
    engine = Engine()
    engine.feed(spans, logs)
    return engine.close()


def built(spans: Sequence[Span], **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(dumps(build(analysed(spans), INPUTS, **more)))
    return made


# ---- the schema


CALL = {
    "id",
    "spans",
    "response_id",
    "previous_response_id",
    "conversation",
    "turn",
    "relation",
    "previous",
    "service",
    "agent",
    "operation",
    "status",
    "error",
    "dialect",
    "scope",
    "provider",
    "platform",
    "model",
    "start_unix_nano",
    "end_unix_nano",
    "first_token_unix_nano",
    "completeness",
    "usage",
    "segments",
    "context",
    "tokens",
    "cache",
    "waste",
    "cost",
}
INSIDE = {
    "completeness": {"status", "reasons"},
    "usage": {
        "input",
        "cache_read",
        "cache_write",
        "cache_write_1h",
        "output",
        "reasoning",
        "semantics",
        "semantics_evidence",
    },
    "segments": {"from", "same", "new"},
    "context": {
        "usage",
        "limit",
        "limit_source",
        "reserve",
        "utilization",
        "headroom",
        "headroom_turns",
        "growth",
        "band",
    },
    "tokens": {"counted", "unaccounted", "server_side", "method"},
    "cache": {"predicted", "reported", "optimal", "outcome", "cause", "evidence", "break"},
}
SEGMENT = {"kind", "role", "name", "path", "bytes", "tokens", "method", "digest", "cache_marker"}
CONVERSATION = {
    "id",
    "parent",
    "calls",
    "services",
    "agents",
    "models",
    "usage_peak",
    "headroom",
    "headroom_turns",
    "band",
    "saved_by_restarting",
    "gaps",
}
FINDING = {"kind", "severity", "title", "detail", "fix", "calls", "path", "tokens", "usd", "evidence"}


def test_what_cannot_be_seen_is_written_so_that_it_can() -> None:
    """A report may go to a terminal: U+009B begins its commands, U+202E turns text round."""
    data = {"a": "x\\\x9b31m\u202e\u200b\x7f\U000e0100 é 注文 🙂\n"}
    written = dumps(data)

    assert json.loads(written) == data
    assert written.decode() == ('{"a":"x\\\\\\u009b31m\\u202e\\u200b\\u007f\\udb40\\udd00 é 注文 🙂\\n"}\n')
    assert dumps({"a": "é\u2028"}, pretty=True).decode() == '{\n  "a": "é\\u2028"\n}\n'


def test_what_is_ignored_is_told_with_its_calls() -> None:
    engine = Engine(Settings(ignore=frozenset({"volatile_prefix", "compaction"})))
    engine.feed(session())

    made = build(engine.close(), INPUTS)

    assert made["ignored"] == [{"kind": "volatile_prefix", "calls": 1}]
    assert "volatile_prefix" not in {f["kind"] for f in made["findings"]}


def test_every_field_of_the_schema_is_there() -> None:
    made = built(session())

    assert made["schema"] == "otelctx.report/1"
    assert set(made) >= {"schema", "input", "calls", "conversations", "findings", "not_checked", "totals"}
    assert made["ignored"] == []
    assert set(made["input"]) >= {"files", "spans", "log_records", "skipped"}
    assert made["input"]["files"][0] == {
        "path": "a.json",
        "format": "otlp_json",
        "spans": 5,
        "log_records": 1,
    }
    assert (made["input"]["spans"], made["input"]["log_records"]) == (7, 1)
    assert made["input"]["skipped"] == [{"where": "b.json:3", "why": "cut"}]
    for call in made["calls"]:
        assert set(call) >= CALL
        for field, inside in INSIDE.items():
            assert set(call[field]) >= inside, field
        assert all(set(s) >= {"trace_id", "span_id", "role"} for s in call["spans"])
        assert all(set(s) >= SEGMENT for s in call["segments"]["new"])
    at = made["calls"][-1]["cache"]["break"]
    assert set(at) >= {"path", "kind", "change", "tokens", "char_offset"}
    assert (at["path"], at["kind"], at["change"]) == ("system[0]", "system", "modified")
    assert all(set(c) >= CONVERSATION for c in made["conversations"])
    assert made["findings"]
    assert all(set(f) >= FINDING for f in made["findings"])


def test_ids_are_trace_and_span() -> None:
    made = built(session(2))
    first, second = made["calls"]
    assert first["id"] == f"{1:032x}:{1:016x}"
    assert (second["previous"], second["conversation"]) == (first["id"], first["id"])
    assert made["conversations"][0]["calls"] == [first["id"], second["id"]]


def test_missing_is_null_and_zero_is_zero() -> None:
    bare = span(1, 0, **{"gen_ai.request.model": "nobody-knows-this"})
    told = span(
        2,
        5,
        trace=2,
        **{
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 5,
            "gen_ai.usage.cache_read.input_tokens": 0,
        },
    )
    for made in (built([replace(bare, scope_name="x"), replace(told, scope_name="x")]),):
        nothing, little = made["calls"]
        assert set(nothing["usage"].values()) == {None}
        for name in ("usage", "limit", "limit_source", "utilization", "headroom", "headroom_turns", "growth"):
            assert nothing["context"][name] is None
        assert (nothing["error"], nothing["agent"], nothing["response_id"], nothing["previous"]) == (
            None,
        ) * 4
        assert nothing["first_token_unix_nano"] is None
        assert nothing["tokens"]["unaccounted"] is None
        assert nothing["cache"]["reported"] is None
        assert nothing["cache"]["break"] is None
        assert (nothing["waste"], nothing["cost"]) == (None, None)
        assert little["usage"]["cache_read"] == 0
        assert little["usage"]["cache_write"] is None
        assert little["cache"]["reported"] == {"read": 0, "write": None, "uncached": 5}
        assert made["totals"]["usage"] == {
            "input": 5,
            "cache_read": 0,
            "cache_write": None,
            "output": None,
            "reasoning": None,
        }
        assert (made["totals"]["calls"], made["totals"]["reported_by"]) == (2, 1)


def test_nothing_at_all_is_a_report_too() -> None:
    made = built([])
    assert (made["calls"], made["conversations"], made["findings"]) == ([], [], [])
    assert made["totals"]["usage"]["input"] is None
    assert made["totals"]["start_unix_nano"] is None


# ---- segments


def rebuilt(made: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The whole list of segments of every call, by the rule of the schema."""
    lists: dict[str, list[dict[str, Any]]] = {}
    for call in made["calls"]:
        s = call["segments"]
        lists[call["id"]] = [*(lists[s["from"]][: s["same"]] if s["from"] else []), *s["new"]]
    return lists


def full(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    return {
        r.call.id: [
            {
                "kind": s.kind,
                "role": s.role or None,
                "name": s.name or None,
                "path": s.path,
                "bytes": s.bytes,
                "tokens": s.tokens,
                "method": s.method,
                "digest": s.digest,
                "cache_marker": s.cache_marker or None,
            }
            for s in r.call.prompt
        ]
        for r in analysis.readings
    }


@pytest.mark.parametrize(
    "spans",
    [
        session(6),
        session(6, markers=True),
        session(6, model=("gpt-4o", "claude-sonnet-4-5")),
        session(3) + session(3, markers=True),
    ],
    ids=["plain", "a marker that rolls on", "two models", "twice"],
)
def test_from_same_and_new_give_the_whole_list_back(spans: list[Span]) -> None:
    analysis = analysed(spans)
    made = build(analysis, INPUTS)

    assert rebuilt(made) == full(analysis)


def test_what_is_shared_is_written_once() -> None:
    made = built(session(40))
    written = [len(c["segments"]["new"]) for c in made["calls"]]
    assert written[:-1] == [3] + [2] * 38
    assert [c["segments"]["same"] for c in made["calls"]][1:-1] == [3 + 2 * i for i in range(38)]


def test_by_kind_adds_up_to_the_reported_input() -> None:
    for reading in analysed(session()).readings:
        sums = by_kind(reading)
        assert set(sums) <= {*KINDS, "other"}
        assert sum(sums.values()) == reading.call.usage.input
        assert all(n > 0 for n in sums.values())


# ---- text


def test_no_prompt_text_without_include_text() -> None:
    spans = session()
    cut = dict(spans[1].attributes)
    cut["gen_ai.input.messages"] = str(cut["gen_ai.input.messages"])[:-30]
    made = dumps(build(analysed([spans[0], replace(spans[1], attributes=cut), *spans[2:]]), INPUTS))
    assert SENTINEL.encode() not in made
    assert b"3:07:42" not in made
    assert b'"text":' not in made
    assert b"excerpt" not in made


def test_with_include_text_every_segment_has_its_text() -> None:
    made = built(session(), include_text=True)
    segments = [s for c in made["calls"] for s in c["segments"]["new"]]
    assert all(s["text"] for s in segments)
    assert any(SENTINEL in s["text"] for s in segments)
    assert all("excerpt" in f for f in made["findings"])
    assert any("3:07:42" in (f["excerpt"] or "") for f in made["findings"])


def test_the_message_of_an_error_may_quote_the_prompt_and_is_left_out() -> None:
    failed = span(
        1, 0, error=f"Invalid value: 'tell me about {SENTINEL}'", **{"gen_ai.request.model": "gpt-4o"}
    )
    made = built([failed])
    assert made["calls"][0]["status"] == "error"
    assert made["calls"][0]["error"]
    assert SENTINEL not in json.dumps(made)
    assert SENTINEL in json.dumps(built([failed], include_text=True))


def test_half_characters_out_of_a_dump_can_be_written() -> None:
    messages = '[{"role": "user", "content": "half \\ud83d of one"}]'
    some = span(1, 0, **{"gen_ai.request.model": "m\ud83d", "gen_ai.input.messages": messages})
    made = json.loads(dumps(build(analysed([some]), INPUTS, include_text=True)))
    assert made["calls"][0]["model"]


# ---- reconciliation


def broken(reading: Reading, **tokens: Any) -> Reading:
    return reading._replace(tokens=replace(reading.tokens, **tokens))


def test_sums_that_do_not_add_up_are_not_printed() -> None:
    analysis = analysed(session())
    last = analysis.readings[-1]
    reconcile(analysis.readings)
    for wrong in (
        broken(last, counted=last.tokens.counted + 1),
        broken(last, unaccounted=(last.tokens.unaccounted or 0) + 1),
        broken(last, counted=last.tokens.counted + 1, unaccounted=(last.tokens.unaccounted or 0) - 1),
    ):
        with pytest.raises(Reconciliation, match=last.call.id):
            build(replace(analysis, readings=(*analysis.readings[:-1], wrong)), INPUTS)


def test_a_segment_that_its_chain_does_not_count_is_found() -> None:
    analysis = analysed(session())
    for reading in analysis.readings:
        chain = reading.call.prompt.messages
        for segments in (chain.new[:-1], (*chain.new, chain.new[-1])):
            wrong = replace(chain, new=segments)
            call = replace(reading.call, prompt=replace(reading.call.prompt, messages=wrong))
            with pytest.raises(Reconciliation):
                reconcile([reading._replace(call=call)])


def test_the_report_module_names_its_schema() -> None:
    assert report.SCHEMA == "otelctx.report/1"
