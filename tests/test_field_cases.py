"""Small dumps of what users reported in public threads, each with its whole kind: the numbers are the reports', the texts
are made up.

F01 one sum told again by the parent; F03 and F04 input without and with the cached tokens; F12 attributes beyond the limit;
F13 one trace in several clothes; F15 sub-agents beside the main thread.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_ctx.engine import Engine
from otel_ctx.errors import InputError
from otel_ctx.inputs import read
from otel_ctx.inputs.otlp_json import spans_of
from otel_ctx.model import Analysis, Call, Finding
from otel_ctx.outputs.report import Inputs, build
from otel_ctx.outputs.views.gates import Gates, judge

SECOND = 10**9
BASE = 1_796_000_000
GENAI = "opentelemetry.instrumentation.genai.openai"

Json = dict[str, Any]


def attribute(key: str, value: str | int) -> Json:
    return {
        "key": key,
        "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)},
    }


def span(
    n: int,
    name: str,
    attributes: Mapping[str, Any],
    *,
    parent: int = 0,
    at: int = 0,
    length: int = 2,
    dropped: int = 0,
) -> Json:
    """``at`` and ``length`` in seconds."""
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{n:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str((BASE + at) * SECOND),
        "endTimeUnixNano": str((BASE + at + length) * SECOND),
        "attributes": [attribute(k, v) for k, v in attributes.items() if v is not None],
        "droppedAttributesCount": dropped,
    }


def export(
    spans: Sequence[Json], scope: str = GENAI, version: str = "1.3b0", language: str = "python"
) -> Json:
    resource = {
        "attributes": [attribute("service.name", "shop"), attribute("telemetry.sdk.language", language)]
    }
    scoped = {"scope": {"name": scope, "version": version}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}


def analysed(*requests: Json) -> Analysis:
    engine = Engine()
    for request in requests:
        engine.feed(spans_of(request, ""))
    return engine.close()


def of(input_: int | None, output: int | None, *, operation: str = "chat", **more: Any) -> Json:
    """The attributes of a call or of a sum; underscores of further names stand for dots."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": input_,
        "gen_ai.usage.output_tokens": output,
        **more,
    }


def calls(analysis: Analysis) -> list[Call]:
    return [r.call for r in analysis.readings]


def about(analysis: Analysis, kind: str) -> list[Finding]:
    return [f for f in analysis.findings if f.kind == kind]


# ---- F01: an agent's sum and its calls


TOLD = ((6_900, 300), (7_526, 471))


def loop(input_: int, output: int, told: Sequence[tuple[int, int]] = TOLD) -> Json:
    inner = [span(10 + i, "chat", of(*t), parent=1, at=1 + 4 * i) for i, t in enumerate(told)]
    tool = span(20, "execute_tool", {"gen_ai.operation.name": "execute_tool"}, parent=1, at=4, length=1)
    agent = span(1, "invoke_agent", of(input_, output, operation="invoke_agent"), length=20)
    return export([*inner, tool, agent])


def sums(analysis: Analysis) -> tuple[int, int]:
    return sum(c.usage.input or 0 for c in calls(analysis)), sum(c.usage.output or 0 for c in calls(analysis))


def test_f01_a_sum_is_counted_once() -> None:
    analysis = analysed(loop(14_426, 771))

    assert sums(analysis) == (14_426, 771)
    assert len(analysis.readings) == 2
    assert {s.role for c in calls(analysis) for s in c.spans if s.span_id == f"{1:016x}"} == {"aggregate"}
    assert not about(analysis, "usage_inconsistent")


def test_f01_a_sum_without_calls_is_used_and_said_to_be_one() -> None:
    analysis = analysed(loop(14_426, 771, ()))

    assert sums(analysis) == (14_426, 771)
    (call,) = calls(analysis)
    assert "aggregate_only" in call.completeness.reasons
    assert analysis.readings[0].context.usage is None  # a sum over several calls is no depth
    assert about(analysis, "content_not_captured")


@pytest.mark.parametrize(
    ("input_", "output", "words"),
    [
        (20_000, 771, "input 20,000 on invoke_agent, 14,426 on its calls."),
        (10_000, 771, "input 10,000 on invoke_agent, 14,426 on its calls."),
        (14_426, 2_000, "output 2,000 on invoke_agent, 771 on its calls."),
        (
            20_000,
            2_000,
            "input 20,000 on invoke_agent, 14,426 on its calls; output 2,000 on invoke_agent, 771 on its calls.",
        ),
    ],
)
def test_f01_a_sum_that_is_not_that_of_its_calls_is_told_with_both_numbers(
    input_: int, output: int, words: str
) -> None:
    analysis = analysed(loop(input_, output))

    (found,) = about(analysis, "usage_inconsistent")
    assert found.detail == words
    assert sums(analysis) == (14_426, 771)  # the calls are what is counted


@pytest.mark.parametrize(
    ("input_", "output"),
    [(7_526, 471), (6_900, 300)],  # frameworks write the last or the first call's numbers
)
def test_f01_one_calls_numbers_on_the_parent_are_no_contradiction(input_: int, output: int) -> None:
    assert not about(analysed(loop(input_, output)), "usage_inconsistent")


def test_f01_a_sum_over_the_agents_life_is_no_contradiction() -> None:
    def turn(n: int, at: int, input_: int, told: int) -> list[Json]:
        agent = of(told, 10 * n, operation="invoke_agent", **{"gen_ai.agent.name": "clerk"})
        return [
            span(n, "invoke_agent", agent, at=at, length=10),
            span(10 + n, "chat", of(input_, 10), parent=n, at=at + 1),
        ]

    analysis = analysed(export([*turn(1, 0, 4_402, 4_402), *turn(2, 60, 6_241, 10_643)]))

    assert not about(analysis, "usage_inconsistent")


def test_f01_a_sum_without_the_cached_tokens_is_no_contradiction() -> None:
    cached = {"gen_ai.usage.cache_read.input_tokens": 6_000}
    inner = [span(10, "chat", of(6_900, 300, **cached), parent=1, at=1)]
    agent = span(1, "invoke_agent", of(900, 300, operation="invoke_agent"), length=20)

    assert not about(analysed(export([*inner, agent])), "usage_inconsistent")


# ---- F03, F04: does the input include the cached tokens?


def cached(input_: int, read_: int | None, written: int | None = None, provider: str = "anthropic") -> Json:
    return of(
        input_,
        40,
        **{
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": "claude-sonnet-4-5-20250929",
            "gen_ai.usage.cache_read.input_tokens": read_,
            "gen_ai.usage.cache_creation.input_tokens": written,
        },
    )


def only(analysis: Analysis) -> Call:
    (call,) = calls(analysis)
    return call


def test_f03_one_call_from_two_packages_has_one_input() -> None:
    inclusive = only(
        analysed(
            export(
                [span(1, "chat", cached(1_012, 1_000))], "opentelemetry.instrumentation.anthropic", "0.62.4"
            )
        )
    )
    exclusive = only(
        analysed(
            export(
                [span(1, "chat", cached(12, 1_000, None, "aws.bedrock"))],
                "opentelemetry.instrumentation.bedrock",
                "0.62.4",
            )
        )
    )

    assert inclusive.usage.input == exclusive.usage.input == 1_012
    assert (inclusive.usage.semantics, exclusive.usage.semantics) == ("inclusive", "exclusive")
    assert "cache read 1,000 > input 12" in exclusive.usage.semantics_evidence


@pytest.mark.parametrize(
    "scope",
    [
        "opentelemetry.instrumentation.bedrock",
        "opentelemetry.instrumentation.genai.bedrock",
        "somebody.s.own",
    ],
)
def test_f03_arithmetic_decides_whatever_the_scope(scope: str) -> None:
    call = only(analysed(export([span(1, "chat", cached(12, 1_000, 0, "aws.bedrock"))], scope, "9")))

    assert (call.usage.input, call.usage.semantics) == (1_012, "exclusive")


@pytest.mark.parametrize(
    ("scope", "input_"),
    [
        ("opentelemetry.instrumentation.bedrock", 6_000),  # a small cached share: only the scope can tell
        ("opentelemetry.instrumentation.anthropic", 5_000),
    ],
)
def test_f03_where_arithmetic_cannot_tell_the_scope_does(scope: str, input_: int) -> None:
    call = only(analysed(export([span(1, "chat", cached(5_000, 1_000, 0, "aws.bedrock"))], scope, "0.62.4")))

    assert call.usage.input == input_
    assert "rule " in call.usage.semantics_evidence


@pytest.mark.parametrize(
    ("input_", "read_", "written", "whole"),
    [
        (2, 127_000, 2_017, 129_019),  # of a call of Claude Code
        (1_601, 162_432, 0, 164_033),  # told as 2,018 %
        (0, 0, 2_017, 2_017),
        (3, 0, 12_304, 12_307),
    ],
)
@pytest.mark.parametrize("scope", ["com.anthropic.claude_code.tracing", "shop"])
def test_f04_an_input_below_the_cached_tokens_excludes_them(
    scope: str, input_: int, read_: int, written: int, whole: int
) -> None:
    usage = only(analysed(export([span(1, "chat", cached(input_, read_, written))], scope))).usage

    assert (usage.input, usage.semantics) == (whole, "exclusive")
    assert usage.input is not None
    assert usage.cache_read is not None
    assert 0 <= usage.cache_read / usage.input <= 1
    if read_ == 127_000:
        assert round(100 * usage.cache_read / usage.input, 1) == 98.4


def test_f04_claude_codes_first_names_are_the_apis_own_numbers() -> None:
    native = {
        "span.type": "llm_request",
        "model": "claude-sonnet-4-5-20250929",
        "session.id": "s-1",
        "input_tokens": 2,
        "output_tokens": 40,
        "cache_read_tokens": 127_000,
        "cache_creation_tokens": 2_017,
    }
    call = only(
        analysed(export([span(1, "claude_code.llm_request", native)], "com.anthropic.claude_code.tracing"))
    )

    assert (call.usage.input, call.usage.cache_read, call.usage.cache_write) == (129_019, 127_000, 2_017)
    assert (call.usage.semantics, call.model, call.conversation_hint) == ("exclusive", native["model"], "s-1")


# ---- F12: more attributes than the limit


PYTHON, JAVASCRIPT = (
    "openinference.instrumentation.langchain",
    "@arizeai/openinference-instrumentation-langchain",
)


def flattened(messages: int, language: str, dropped: int, limit: int = 128) -> Json:
    """Python's SDK drops the oldest attributes, JavaScript's those that come last, the token counts among them."""
    whole: Json = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.provider": "openai"}
    for i in range(messages):
        role = "system" if i == 0 else "user" if i % 2 else "assistant"
        whole[f"llm.input_messages.{i}.message.role"] = role
        whole[f"llm.input_messages.{i}.message.content"] = f"Message number {i} says something of its own."
    whole |= {"llm.token_count.prompt": 12 * messages, "llm.token_count.completion": 10}
    kept = list(whole.items())
    kept = kept[-limit:] if language == "python" else kept[:limit]
    if language == "python":
        kept.append(("openinference.span.kind", "LLM"))  # set again at the end
        kept = kept[1:]
    scope = PYTHON if language == "python" else JAVASCRIPT
    return export([span(1, "ChatOpenAI", dict(kept), dropped=dropped)], scope, "0.1.80", language)


@pytest.mark.parametrize("dropped", [19, 0])  # not every way keeps the counter
@pytest.mark.parametrize("language", ["python", "nodejs"])
def test_f12_a_span_that_lost_attributes_is_incomplete_whatever_its_counter_says(
    language: str, dropped: int
) -> None:
    analysis = analysed(flattened(70, language, dropped))

    call = only(analysis)
    assert call.completeness.status == "partial"
    assert call.completeness.reasons[0] == "attributes_dropped"
    assert call.completeness.lost & {"head", "messages"}
    (found,) = about(analysis, "attributes_dropped")
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in found.fix
    if language == "nodejs":
        (missing,) = about(analysis, "usage_missing")
        assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in missing.fix  # and nothing of streams
        assert call.usage.input is None


@pytest.mark.parametrize("limit", [100, 64])
def test_f12_a_hole_in_the_indexes_is_a_loss_under_any_limit(limit: int) -> None:
    call = only(analysed(flattened(70, "python", 0, limit)))

    assert call.completeness.status == "partial"
    assert call.completeness.reasons[0] == "attributes_dropped"
    assert "head" in call.completeness.lost


def test_f12_openllmetrys_indexes_too() -> None:
    kept: Json = {"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4o"}
    for i in range(9, 30):
        kept |= {
            f"gen_ai.prompt.{i}.role": "user" if i % 2 else "assistant",
            f"gen_ai.prompt.{i}.content": f"Number {i}.",
        }
    call = only(
        analysed(export([span(1, "openai.chat", kept)], "opentelemetry.instrumentation.openai.v1", "0.53.4"))
    )

    assert call.completeness.reasons[0] == "attributes_dropped"
    assert {"head", "system"} <= call.completeness.lost


def test_f12_a_span_that_is_full_and_has_it_all_has_lost_nothing() -> None:
    request = flattened(61, "python", 0)  # 127 attributes
    attributes = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    attributes.append(attribute("llm.finish_reason", "stop"))

    assert len(attributes) == 128
    assert only(analysed(request)).completeness.status == "full"


def test_f12_no_clean_verdict_between_two_that_lost_their_beginning() -> None:
    first, second = (flattened(n, "python", 0) for n in (70, 72))
    later = second["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    later |= {
        "spanId": f"{2:016x}",
        "startTimeUnixNano": str((BASE + 60) * SECOND),
        "endTimeUnixNano": str((BASE + 61) * SECOND),
    }
    analysis = analysed(first, second)

    assert [r.relation for r in analysis.readings] == ["joined", "continues"]
    assert analysis.readings[1].break_ is None
    assert any(n.check == "prefix_changed" for n in analysis.not_checked)


# ---- F13: one trace in several clothes


def recoded(request: Json, code: Callable[[str], str]) -> Json:
    text = json.dumps(request)
    out: Json = json.loads(text)
    for resource in out["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for one in scope["spans"]:
                for key in ("traceId", "spanId", "parentSpanId"):
                    one[key] = code(one[key]) if one[key] else ""
    return out


def in_base64(id_: str) -> str:
    return base64.b64encode(bytes.fromhex(id_)).decode()


def in_base64_of_hex(id_: str) -> str:
    return base64.b64encode(id_.encode()).decode()


def protobuf(request: Json) -> bytes:
    message = ParseDict(recoded(request, in_base64), ExportTraceServiceRequest())
    return bytes(message.SerializeToString())


def session() -> Json:
    told = [{"role": "user", "parts": [{"type": "text", "content": "What is in the box?"}]}]
    more = [*told, {"role": "assistant", "parts": [{"type": "text", "content": "A cat."}]}, *told]
    return export(
        [
            span(1, "chat", of(20, 5, **{"gen_ai.input.messages": json.dumps(told)})),
            span(2, "chat", of(40, 5, **{"gen_ai.input.messages": json.dumps(more)}), at=60),
        ]
    )


CLOTHES: Mapping[str, Callable[[Json], bytes]] = {
    "base64.json": lambda r: json.dumps(recoded(r, in_base64)).encode(),
    "base64-of-hex.json": lambda r: json.dumps(recoded(r, in_base64_of_hex)).encode(),
    "upper.json": lambda r: json.dumps(recoded(r, str.upper)).encode(),
    "lines.jsonl": lambda r: b"".join(json.dumps(_alone(r, n)).encode() + b"\n" for n in range(2)),
    "lines.jsonl.gz": lambda r: gzip.compress(
        b"".join(json.dumps(_alone(r, n)).encode() + b"\n" for n in range(2))
    ),
    "indented.json": lambda r: json.dumps(r, indent=2).encode(),
    "list.json": lambda r: json.dumps([_alone(r, 0), _alone(r, 1)]).encode(),
    "trace.binpb": protobuf,
    "trace.binpb.gz": lambda r: gzip.compress(protobuf(r)),
}


def _alone(request: Json, n: int) -> Json:
    scoped = request["resourceSpans"][0]["scopeSpans"][0]
    return {
        "resourceSpans": [
            {**request["resourceSpans"][0], "scopeSpans": [{**scoped, "spans": [scoped["spans"][n]]}]}
        ]
    }


def report(path: Path) -> Json:
    engine = Engine()
    for batch in read([path]):
        engine.feed(batch.spans, batch.logs)
    return build(engine.close(), Inputs((), ()), include_text=True)


@pytest.mark.parametrize("name", CLOTHES)
def test_f13_the_clothes_of_a_trace_change_nothing(name: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.json", tmp_path / name
    plain.write_text(json.dumps(session()), "utf-8")
    other.write_bytes(CLOTHES[name](session()))

    assert len(report(plain)["calls"]) == 2
    assert report(other) == report(plain)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tempo.json", json.dumps({"batches": session()["resourceSpans"]})),
        (
            "console.json",
            json.dumps({"name": "chat", "context": {"trace_id": "0x1", "span_id": "0x2"}}, indent=4),
        ),
        ("console.txt", "Span #0\n    Trace ID       : 1\n    Name           : chat\n"),
    ],
)
def test_f13_what_is_not_read_is_refused_by_name(name: str, text: str, tmp_path: Path) -> None:
    """Read like the others or refused: nothing in between, and no half of it."""
    path, plain = tmp_path / name, tmp_path / "plain.json"
    path.write_text(text, "utf-8")
    plain.write_text(json.dumps(session()), "utf-8")

    assert read_or_refused(path) in (report(plain), f"{name} was refused")


def read_or_refused(path: Path) -> Json | str:
    try:
        return report(path)
    except InputError as error:
        return f"{path.name} was refused" if path.name in str(error) else str(error)


# ---- F15: sub-agents beside the main thread


MAIN = "You are the main agent, and you plan with care. " + "Rule: be thorough. " * 60
SUB = "You look into one question and report. " + "Rule: be brief. " * 60
LONG = "Some history of this long talk. " * 5_000


def prompt(system: str, *turns: str) -> str:
    told = [{"role": "system", "parts": [{"type": "text", "content": system}]}]
    for i, text in enumerate(turns):
        told.append({"role": "assistant" if i % 2 else "user", "parts": [{"type": "text", "content": text}]})
    return json.dumps(told)


def crew(*, contents: bool, agents: str, sequential: bool = False) -> Analysis:
    """Main 40k → two sub-agents 9k → main 41k. ``agents``: "named" spans, "nameless" ones, "tools" in their place or none."""

    def chat(n: int, parent: int, at: int, tokens: int, text: str, length: int = 10) -> Json:
        told = {"gen_ai.input.messages": text} if contents else {}
        return span(n, "chat", of(tokens, 50, **told), parent=parent if agents else 0, at=at, length=length)

    def run(n: int, name: str, parent: int, at: int, length: int) -> list[Json]:
        operation = "execute_tool" if agents == "tools" and parent else "invoke_agent"
        said: Json = {"gen_ai.operation.name": operation}
        if agents == "named":
            said["gen_ai.agent.name"] = name
        return [span(n, f"{operation} {name}", said, parent=parent, at=at, length=length)] if agents else []

    second = 20 if sequential else 5
    return analysed(
        export(
            [
                *run(1, "main", 0, 0, 90),
                chat(10, 1, 1, 40_000, prompt(MAIN, LONG + "Compare A and B."), 2),
                *run(2, "sub", 1, 5, 13),
                chat(20, 2, 6, 9_000, prompt(SUB, LONG[:57_000] + "What is A?")),
                *run(3, "sub", 1, second, 13),
                chat(30, 3, second + 1, 9_000, prompt(SUB, LONG[:57_000] + "What is B?")),
                chat(
                    11,
                    1,
                    60,
                    41_000,
                    prompt(MAIN, LONG + "Compare A and B.", "I looked at both.", "And now?"),
                    2,
                ),
            ]
        )
    )


@pytest.mark.parametrize("sequential", [False, True])
@pytest.mark.parametrize("agents", ["named", "nameless", "tools"])
@pytest.mark.parametrize("contents", [True, False])
def test_f15_sub_agents_are_threads_of_their_own(contents: bool, agents: str, sequential: bool) -> None:
    analysis = crew(contents=contents, agents=agents, sequential=sequential)

    main, *subs = analysis.conversations
    assert [r.context.usage for r in analysis.readings if r.conversation == main.id] == [40_000, 41_000]
    assert (main.usage_peak, main.usage_last, main.parent) == (41_000, 41_000, None)
    assert [(c.usage_last, c.parent) for c in subs] == [(9_000, main.id)] * 2
    assert all(r.break_ is None for r in analysis.readings)
    assert not about(analysis, "compaction")
    assert not about(analysis, "prefix_changed")


def test_f15_by_their_contents_alone() -> None:
    analysis = crew(contents=True, agents="")

    assert sorted(c.usage_last or 0 for c in analysis.conversations) == [9_000, 9_000, 41_000]
    assert all(r.break_ is None for r in analysis.readings)


def test_f15_a_run_that_follows_another_and_has_grown_goes_on_from_it() -> None:
    """Turns of one session in one trace, without contents: each is a run of its own."""
    spans = []
    for turn, tokens in enumerate((1_000, 2_000, 3_000), 1):
        agent = of(None, None, operation="invoke_agent", **{"gen_ai.agent.name": "clerk"})
        spans += [
            span(turn, "invoke_agent", agent, parent=99, at=60 * turn, length=20),
            span(10 + turn, "chat", of(tokens, 5), parent=turn, at=60 * turn + 1),
        ]
    analysis = analysed(export([*spans, span(99, "session", {}, length=600)]))

    (conversation,) = analysis.conversations
    assert len(conversation.calls) == 3


# ---- what no gate passes: tools that were called and not written, numbers that contradict themselves


def asked(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


USED = [
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "t1", "name": "look", "arguments": {"at": "it"}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "a pear"}]},
]  # fmt: skip


def turns(usage: Mapping[str, Any], *, used: bool = False, **more: Any) -> Analysis:
    """Three turns of one conversation; ``used``: a tool was called in the first of them."""
    prompts = [
        [
            asked("user", "What is it?"),
            *(USED if used and n else ()),
            *(asked("user", f"And {i}?") for i in range(n)),
        ]
        for n in range(3)
    ]
    numbers = {f"gen_ai.usage.{key}": value for key, value in usage.items()}
    return analysed(
        export(
            [
                span(
                    10 + n,
                    "chat gpt-4o",
                    {
                        **of(None, None),
                        **numbers,
                        "gen_ai.conversation.id": "c",
                        "gen_ai.input.messages": json.dumps(p),
                    },
                    at=10 * n,
                )
                for n, p in enumerate(prompts)
            ],
            **more,
        )
    )


def results(analysis: Analysis, **gates: Any) -> dict[str, str]:
    return {v.gate: v.result for v in judge(analysis, analysis, Gates(**gates))}


TEXT_GATES = {"stable_prefix": True, "no_dead_schemas": True}


@pytest.mark.parametrize("scope", [GENAI, "opentelemetry.instrumentation.litellm", "shop.agent"])
def test_what_was_called_was_defined(scope: str) -> None:
    first, *later = calls(found := turns({}, used=True, scope=scope))

    for call in later:
        assert "schema_missing" in call.completeness.reasons
        assert "tools" in call.completeness.lost
        assert call.completeness.status == "partial"
    assert results(found, **TEXT_GATES) == dict.fromkeys(TEXT_GATES, "not_checked")
    assert "schema_missing" not in first.completeness.reasons or scope == "shop.agent"


def test_where_no_tool_was_called_an_instrumentation_that_writes_them_is_believed() -> None:
    assert {c.completeness.status for c in calls(turns({}))} == {"full"}


def test_no_tools_where_the_numbers_leave_no_room_for_them() -> None:
    whole = calls(turns({}, used=True))[-1].prompt.counted
    *_, last = calls(turns({"input_tokens": whole}, used=True))

    assert last.completeness.lost == frozenset()
    assert last.completeness.status == "full"


@pytest.mark.parametrize(
    ("input_tokens", "result"),
    [(None, "not_checked"), (400, "not_checked"), (0, "pass")],
    ids=["no numbers", "room for tools", "no room"],
)
def test_that_no_tool_was_sent_is_believed_where_the_numbers_show_it(
    input_tokens: int | None, result: str
) -> None:
    """That an instrumentation writes tools is no proof: by content or by version it may not."""
    analyses = [turns({})]
    if input_tokens is not None:  # above what was seen of the last, and longest, call
        analyses = [turns({"input_tokens": calls(analyses[0])[-1].prompt.counted + input_tokens})]

    assert results(analyses[0], no_dead_schemas=True) == {"no_dead_schemas": result}


def test_a_request_of_no_tools_has_none() -> None:
    whole = turns({})
    logged = replace(
        whole, readings=tuple(r._replace(call=replace(r.call, record="request")) for r in whole.readings)
    )

    assert results(logged, no_dead_schemas=True) == {"no_dead_schemas": "pass"}


CACHE_GATES = {"min_hit_ratio": 0.5, "max_waste": 0, "max_waste_usd": 0.0}


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (
            {"input_tokens": 100, "output_tokens": 20, "cache_read.input_tokens": 5_000},
            "cache read 5,000 > input 100, which includes the cached tokens",
        ),
        (
            {"input_tokens": -5, "output_tokens": 9, "cache_read.input_tokens": 0},
            "input -5 is negative",
        ),
        (
            {"input_tokens": "many", "output_tokens": 9},
            "input is recorded as text, not as a number of tokens",
        ),
        (
            {"input_tokens": 100, "output_tokens": 9, "cache_read.input_tokens": -100},
            "cache read -100 is negative",
        ),
    ],
)
def test_numbers_that_cannot_be_right_pass_no_gate(usage: dict[str, Any], told: str) -> None:
    found = turns(usage)

    assert f"{told}." in {f.detail for f in about(found, "usage_inconsistent")}
    assert {f.title for f in about(found, "usage_inconsistent")} == {
        "Token numbers of a call cannot be right"
    }
    assert results(found, **CACHE_GATES) == dict.fromkeys(CACHE_GATES, "not_checked")


def test_numbers_that_agree_are_judged() -> None:
    sound = {"input_tokens": 100, "output_tokens": 20, "cache_read.input_tokens": 60}

    assert not about(turns(sound), "usage_inconsistent")
    assert results(turns(sound), min_hit_ratio=0.5) == {"min_hit_ratio": "pass"}
