"""Coding agents and Mastra: requests whose prompts stand in pieces, on spans of several kinds and in log events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from otel_ctx import dialects
from otel_ctx.engine import Engine
from otel_ctx.engine.live import LiveEngine
from otel_ctx.model import Analysis, LogRecord, Span

SECOND = 1_000_000_000
BASE = 1_796_009_981 * SECOND
SESSION = "s-1"
TRACE = f"{7:032x}"


def at(seconds: float) -> int:
    return BASE + round(seconds * SECOND)


def span(
    id_: int, name: str, start: float, end: float, attributes: Mapping[str, Any], parent: int = 0
) -> Span:
    return Span(
        TRACE, f"{id_:016x}", f"{parent:016x}" if parent else "", name, at(start), at(end), attributes,
        scope_name="agent", resource={"service.name": "agent"},
    )  # fmt: skip


def event(name: str, when: float, attributes: Mapping[str, Any], parent: int = 0) -> LogRecord:
    return LogRecord(
        TRACE if parent else "", f"{parent:016x}" if parent else "", name, at(when), None, attributes,
        scope_name="agent", resource={"service.name": "agent"},
    )  # fmt: skip


def analysed(spans: Iterable[Span] = (), logs: Iterable[LogRecord] = ()) -> Analysis:
    engine = Engine()
    engine.feed(spans, logs)
    return engine.close()


def prompts(analysis: Analysis) -> list[list[tuple[str, str | None]]]:
    """Kind and text of each segment, call by call."""
    return [[(s.kind, analysis.text(s.digest)) for s in r.call.prompt] for r in analysis.readings]


# ---- Claude Code


class Claude:
    """A session: each request is told by a span and, if ``logs``, by events; with ``new``, in detail."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.logs: list[LogRecord] = []
        self.turns = 0

    def event(self, name: str, when: float, **attributes: Any) -> None:
        known = {"event.name": name, "event.sequence": len(self.logs), "session.id": SESSION}
        dotted = {k.replace("__", "."): v for k, v in attributes.items()}
        self.logs.append(event(name, when, {**known, **dotted}, parent=900 + self.turns))

    def turn(self, when: float, words: str) -> None:
        self.turns += 1
        a = {"span.type": "interaction", "gen_ai.operation.name": "invoke_agent", "user_prompt": words}
        id_ = 900 + self.turns
        self.spans.append(span(id_, "claude_code.interaction", when, when + 90, {**a, **self._session()}))
        self.event("user_prompt", when, prompt=words)

    def request(self, when: float, written: int, answer: str, **more: Any) -> None:
        figures = {
            "gen_ai.usage.input_tokens": 100 + written,
            "gen_ai.usage.cache_read.input_tokens": 100,
            "gen_ai.usage.cache_write.input_tokens": written,
            "gen_ai.usage.output_tokens": 5,
        }
        a = {"span.type": "llm_request", "gen_ai.request.model": "claude-opus-4-6", "query_source": "sdk"}
        id_ = len(self.spans) + 1
        attributes = {**a, **figures, **self._session(), **more}
        self.spans.append(span(id_, "claude_code.llm_request", when, when + 1, attributes, 900 + self.turns))
        self.event(
            "api_request", when + 1, model="claude-opus-4-6", duration_ms=900, input_tokens=0,
            cache_read_tokens=100, cache_creation_tokens=written, cache_creation_1h_tokens=written,
            cache_creation_5m_tokens=0, output_tokens=5,
        )  # fmt: skip
        self.event("assistant_response", when + 1, response=answer, model="claude-opus-4-6")

    def tool(self, when: float, id_: str, command: str) -> None:
        self.event(
            "tool_result", when, tool_name="Bash", tool_use_id=id_, tool_input=json.dumps({"c": command})
        )

    def _session(self) -> dict[str, str]:
        return {"session.id": SESSION, "gen_ai.conversation.id": SESSION}


def session() -> Claude:
    claude = Claude()
    claude.turn(0, "Count the words.")
    claude.request(1, 50, "Let me look.")
    claude.tool(3, "t1", "wc notes")
    claude.request(4, 10, "Nine.")
    claude.turn(100, "And the lines?")
    claude.request(101, 10, "Two.")
    return claude


CALL = ("tool_call", '{"c":"wc notes"}')
FIRST = ("user", "Count the words.")
LOOK, NINE, AGAIN = ("assistant", "Let me look."), ("assistant", "Nine."), ("user", "And the lines?")


def test_what_was_asked_answered_and_called_is_the_history() -> None:
    claude = session()
    analysis = analysed(claude.spans, claude.logs)

    assert prompts(analysis) == [[FIRST], [FIRST, LOOK, CALL], [FIRST, LOOK, CALL, NINE, AGAIN]]
    assert {r.call.completeness.status for r in analysis.readings} == {"partial"}
    assert all(
        "messages" in r.call.completeness.lost for r in analysis.readings
    )  # no word on what is missing
    assert [r.call.usage.cache_write_1h for r in analysis.readings] == [50, 10, 10]  # the events know the TTL
    assert [r.relation for r in analysis.readings] == ["new", "continues", "continues"]


def test_the_spans_alone_and_the_events_alone_tell_the_same_requests() -> None:
    claude = session()
    alone = [analysed(claude.spans), analysed((), claude.logs)]

    assert [[r.call.usage.input for r in a.readings] for a in alone] == [[150, 110, 110]] * 2
    assert prompts(alone[0]) == [[FIRST], [FIRST], [FIRST, AGAIN]]
    assert prompts(alone[1]) == [[FIRST], [FIRST, LOOK, CALL], [FIRST, LOOK, CALL, NINE, AGAIN]]


def test_after_a_compaction_what_was_before_is_no_more_in_the_prompt() -> None:
    claude = session()
    claude.event("compaction", 110, success="true")
    claude.turn(120, "Go on.")
    claude.request(121, 10, "Done.")

    assert prompts(analysed(claude.spans, claude.logs))[-1] == [("user", "Go on.")]


@pytest.mark.parametrize("told", ["event", "query source", "both"])
def test_a_session_that_was_compacted_says_so(told: str) -> None:
    """By an event, or by the request for the summary and a history that begins anew."""
    claude = session()
    if told != "event":
        claude.request(
            105, 200, "The summary.", query_source="compact", new_context="[USER]\nCount the words."
        )
    if told != "query source":
        claude.event("compaction", 110, success="true")
    claude.turn(120, "Go on.")
    claude.request(121, 10, "Done.", new_context="[USER]\nIn short: nine words.\n\n---\n\n[USER]\nGo on.")
    claude.request(130, 20, "Done.", new_context="[TOOL RESULT: t2]\nfine")
    logs = [e for e in claude.logs if told != "query source" or e.time_unix_nano < at(105)]

    *_, last, after = analysed(claude.spans, logs).readings
    assert (last.relation, last.cause, last.wasted) == ("compacted", "compaction", 0)
    assert (after.relation, after.cause) == ("continues", "")


def test_a_summary_that_failed_compacts_nothing() -> None:
    claude = session()
    claude.request(105, 200, "", query_source="compact", new_context="[USER]\nCount the words.")
    claude.event("compaction", 110, success="false")
    claude.turn(120, "Go on.")
    claude.request(121, 150, "Done.", new_context="[USER]\nGo on.")

    last = analysed(claude.spans, claude.logs).readings[-1]
    assert (last.relation, last.cause) == ("continues", "")


def test_a_request_for_a_title_has_a_prompt_of_its_own() -> None:
    claude = session()
    claude.request(103, 3, "Counting", query_source="generate_session_title")

    assert prompts(analysed(claude.spans, claude.logs))[-1] == []


def detailed(names: bool = True) -> Claude:
    """System prompt and tools by hash; what is new in each request. Before the last one Claude Code was started anew."""
    hashes = {
        "system_prompt_hash": "sp_1",
        "tools": '[{"name":"Bash","hash":"h1"},{"name":"Read","hash":"h2"}]',
    }
    found = "[TOOL RESULT: t1]\n9 notes"
    claude = Claude()
    claude.turn(0, "Count the words.")
    if names:
        claude.event(
            "system_prompt", 0.5, system_prompt_hash="sp_1", system_prompt="h: 1;\n\nYou are.\n\n\nBe kind."
        )
        for hash_, name in (("h1", "Bash"), ("h2", "Read")):
            claude.event("tool", 0.5, tool_hash=hash_, tool=json.dumps({"name": name, "input_schema": {}}))
    claude.request(1, 50, "Let me look.", new_context="[USER]\nCount the words.", **hashes)
    claude.tool(3, "t1", "wc notes")
    claude.request(4, 10, "Nine.", new_context=found, **hashes)
    claude.turn(100, "And the lines?")
    everything = f"[USER]\nCount the words.\n\n---\n\n{found}\n\n---\n\n[USER]\nAnd the lines?"
    claude.request(101, 10, "Two.", new_context=everything, **hashes)
    return claude


def test_in_detail_results_of_tools_and_what_hashes_name_are_there() -> None:
    claude = detailed()
    analysis = analysed(claude.spans, claude.logs)
    head = [
        ("tools", '{"name":"Bash","input_schema":{}}'),
        ("tools", '{"name":"Read","input_schema":{}}'),
        ("system", "h: 1;"),
        ("system", "You are."),
        ("system", "\nBe kind."),
    ]
    found = ("tool_result", "9 notes")

    assert prompts(analysis) == [
        [*head, FIRST],
        [*head, FIRST, LOOK, CALL, found],
        [*head, FIRST, LOOK, CALL, found, NINE, AGAIN],
    ]
    assert analysis.readings[0].call.completeness.lost == {"messages"}  # its reminders, at least


def test_names_without_their_contents_are_no_contents() -> None:
    claude = detailed(names=False)
    (first, *_) = analysed(claude.spans, claude.logs).readings

    assert first.call.prompt.tools == first.call.prompt.system == ()
    assert {"tools", "system"} <= first.call.completeness.lost


def test_all_anew_that_is_not_as_before_takes_its_place() -> None:
    claude = detailed()
    claude.turn(200, "Go on.")
    claude.request(201, 10, "Done.", new_context="[USER]\nA summary.\n\n---\n\n[USER]\nGo on.")

    kinds = [s for s in prompts(analysed(claude.spans, claude.logs))[-1] if s[0] not in ("tools", "system")]
    assert kinds == [("user", "A summary."), ("user", "Go on.")]


# ---- Codex


def codex(n: int, numbers: bool = True) -> list[Span]:
    """The spans of a turn with one request; without ``numbers``, one that failed."""
    when = 10 * n
    usage = {
        "gen_ai.usage.input_tokens": 90 + n,
        "gen_ai.usage.cache_read.input_tokens": 64,
        "gen_ai.usage.output_tokens": 5,
    }
    last = {"codex.usage.total_tokens": 95 + n, "codex.usage.reasoning_output_tokens": 2, **usage}
    turn, attempt, stream = 100 * n + 1, 100 * n + 2, 100 * n + 3
    return [
        span(turn, "run_turn", when, when + 5, {"conversation.id": SESSION, "turn.id": "t"}),
        span(
            attempt, "try_run_sampling_request", when + 1, when + 3, {"turn_id": "t", "model": "gpt-5"}, turn
        ),
        span(stream, "receiving_stream", when + 2, when + 3, {}, attempt),
        *([span(100 * n + 4, "handle_responses", when + 2.8, when + 3, last, stream)] if numbers else []),
        span(
            100 * n + 5, "handle_responses", when + 2, when + 2.1, {"codex.response.event": "delta"}, stream
        ),
    ]


def completed(n: int) -> list[LogRecord]:
    known = {"event.name": "codex.sse_event", "event.kind": "response.completed", "conversation.id": SESSION}
    numbers = {
        "input_token_count": str(90 + n),
        "cached_token_count": 64,
        "output_token_count": "5",
        "model": "gpt-5",
    }
    return [event("", 10 * n + 2.9, known), event("", 10 * n + 2.9, {**known, **numbers})]


@pytest.mark.parametrize("exported", ["spans", "logs", "both"])
def test_codex_s_figures_are_counted_once_whatever_is_exported(exported: str) -> None:
    spans = [s for n in (1, 2) for s in codex(n)] if exported != "logs" else []
    logs = [r for n in (1, 2) for r in completed(n)] if exported != "spans" else []
    calls = [r.call for r in analysed(spans, logs).readings]

    assert [(c.model, c.usage.input, c.usage.cache_read, c.usage.output) for c in calls] == [
        ("gpt-5", 91, 64, 5),
        ("gpt-5", 92, 64, 5),
    ]
    assert {c.conversation_hint for c in calls} == {SESSION}
    assert {c.completeness.status for c in calls} == {"usage_only"}


def test_a_request_of_codex_s_without_numbers_is_a_call() -> None:
    (reading,) = analysed(codex(1, numbers=False)).readings

    assert (reading.call.model, reading.call.usage.input) == ("gpt-5", None)


# ---- Gemini CLI

ASKED = [{"role": "user", "parts": [{"text": "Where?"}]}]
SPOKEN = {"role": "model", "parts": [{"text": "There."}]}
CLI = {"session.id": SESSION, "installation.id": "i", "auth_type": "key"}


def gemini(when: float, seconds: float, numbers: int, parent: int) -> list[LogRecord]:
    """What is logged of a request: its content with the span's id, its figures twice and without."""
    responses = [{"candidates": [{"content": SPOKEN}], "responseId": f"g{numbers}"}]
    request = {**CLI, "event.name": "gemini_cli.api_request", "model": "m", "request_text": json.dumps(ASKED)}
    response = {
        **CLI, "event.name": "gemini_cli.api_response", "model": "m", "duration_ms": round(seconds * 1000),
        "input_token_count": numbers, "output_token_count": 5, "cached_content_token_count": 8,
        "thoughts_token_count": 3, "total_token_count": numbers + 8, "response_text": json.dumps(responses),
    }  # fmt: skip
    details = {
        **CLI, "event.name": "gen_ai.client.inference.operation.details", "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m", "gen_ai.response.id": f"g{numbers}", "gen_ai.usage.input_tokens": numbers,
        "gen_ai.usage.output_tokens": 5,
    }  # fmt: skip
    end = when + seconds
    return [event("", when, request, parent), event("", end, response), event("", end, details)]


@pytest.mark.parametrize("traced", [True, False])
def test_gemini_s_answers_find_their_requests(traced: bool) -> None:
    a = {"gen_ai.operation.name": "llm_call", "gen_ai.request.model": "m", "gen_ai.conversation.id": SESSION}
    named = {
        "gen_ai.system_instructions": '"Be \\"kind\\"."',
        "gen_ai.tool.definitions": '[{"name":"f","parameters":{}}]',
    }
    spans = [span(n, "llm_call", n, n + 0.6, {**a, **named}) for n in (1, 2)] if traced else []
    logs = [*gemini(1, 0.5, 70, 1), *gemini(2, 0.5, 80, 2)]
    analysis = analysed(spans, logs)
    calls = [r.call for r in analysis.readings]

    assert [(c.usage.input, c.usage.cache_read, c.usage.output, c.response_id) for c in calls] == [
        (70, 8, 8, "g70"),
        (80, 8, 8, "g80"),
    ]
    said = [p for p in prompts(analysis)[0] if p[0] in ("system", "user")]
    assert said == [*([("system", 'Be "kind".')] if traced else []), ("user", "Where?")]
    assert [analysis.text(s.digest) for s in calls[0].answer] == ["There."]
    assert analysis.orphans == 0


def test_gemini_s_model_is_called_system_in_its_events() -> None:
    messages = '[{"role":"user","parts":[]},{"role":"system","parts":[{"type":"text","content":"\\"role\\":\\"system\\""}]}]'
    record = event(
        "gen_ai.client.inference.operation.details", 1, {**CLI, "gen_ai.input.messages": messages}, 1
    )
    said = dialects.read_log(record)

    assert said is not None
    assert said.messages is not None
    assert said.messages.value == messages.replace('"role":"system","parts"', '"role":"assistant","parts"')


# ---- Mastra


def mastra(
    words: str, found: str = '{"there":1}', told: str = "Let me look.", history: Any = None
) -> list[Span]:
    """A run of two requests, with a tool between them that ends before the first one's span does. The second step
    has its history as ``told``, with placeholders."""
    run = {"mastra.metadata.runId": "r", "gen_ai.conversation.id": SESSION}
    asked = history or [{"role": "user", "content": words}]
    system = {"role": "system", "content": "Be kind."}
    call = {"toolCallId": "c1", "toolName": "look", "args": {"q": 1}}
    figures = {
        "mastra.span.type": "model_inference", "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
        "gen_ai.provider.name": "openai.chat", "gen_ai.usage.input_tokens": 60, "gen_ai.usage.output_tokens": 5,
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Let me look."}]}]', **run,
    }  # fmt: skip

    def step(id_: int, start: float, end: float, given: Any, output: Any) -> Span:
        a = {"mastra.span.type": "model_step", "mastra.model_step.input": json.dumps(given)}
        return span(
            id_, "agent_step", start, end, {**a, "mastra.model_step.output": json.dumps(output), **run}, 1
        )

    agent = {
        "mastra.span.type": "agent_run", "gen_ai.operation.name": "invoke_agent", "mastra.agent_run.input": json.dumps(asked),
        "gen_ai.tool.definitions": '["look"]', "gen_ai.system_instructions": "Be kind.", **run,
    }  # fmt: skip
    tool = {
        "mastra.span.type": "tool_call",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.result": found,
        **run,
    }
    later = [
        *asked,
        {"role": "assistant", "content": f"{told}[tool: look]"},
        {"role": "tool", "content": "[tool-result: look]"},
    ]
    return [
        step(2, 1, 4, [system, *asked], {"text": "Let me look.", "toolCalls": [call]}),
        span(3, "chat", 1.1, 3, figures, 2),
        span(4, "execute_tool", 2, 2.5, tool, 2),
        step(5, 5, 7, [system, *later], {"text": "There.", "toolCalls": []}),
        span(6, "chat", 5.1, 6, figures, 5),
        span(1, "invoke_agent", 0, 9, agent),
    ]


def test_mastra_s_prompt_is_put_together_where_the_step_has_the_same_words() -> None:
    analysis = analysed(mastra("Where?"))
    second = analysis.readings[1].call

    assert prompts(analysis) == [
        [("tools", "look"), ("system", "Be kind."), ("user", "Where?")],
        [
            ("tools", "look"),
            ("system", "Be kind."),
            ("user", "Where?"),
            ("assistant", "Let me look."),
            ("tool_call", '{"q":1}'),
            ("tool_result", '{"there":1}'),
        ],
    ]
    assert (second.completeness.lost, second.completeness.reasons) == ({"tools"}, ("schema_missing",))
    assert (second.provider, second.usage.input) == ("openai", 60)


def test_a_history_that_is_not_the_step_s_is_not_taken_for_its_prompt() -> None:
    """A memory, or a processor, has put something else into it."""
    second = analysed(mastra("Where?", told="I recall: ")).readings[1].call

    assert "messages" in second.completeness.lost
    assert [s.kind for s in second.prompt.messages] == ["system", "user", "assistant"]


def test_what_lies_too_deep_for_mastra_s_exporter_is_not_there() -> None:
    result = {
        "type": "tool-result",
        "toolCallId": "c0",
        "output": {"type": "json", "value": {"a": ["[MaxDepth]"]}},
    }
    history = [
        {"role": "user", "content": "One?"},
        {"role": "tool", "content": [result]},
        {"role": "user", "content": "Two?"},
    ]
    (first, _) = analysed(mastra("", history=history)).readings

    assert [s.kind for s in first.call.prompt.messages] == ["user", "user"]
    assert "messages" in first.call.completeness.lost


# ---- live


def test_live_a_record_without_a_span_is_counted_once_however_late_it_comes() -> None:
    engine = LiveEngine()
    engine.feed(codex(1))
    settled = engine.advance(at(100))
    engine.feed(codex(1), completed(1))  # once more, and a record of it when it has settled
    settled += engine.drain()

    assert [s.reading.call.usage.input for s in settled] == [91]


def test_live_records_alone_are_said_at_once_and_settle_once() -> None:
    engine = LiveEngine()
    first = engine.feed((), completed(1))
    settled = engine.advance(at(100))
    engine.feed((), completed(1))
    settled += engine.drain()

    assert [s.reading.call.usage.input for s in first] == [91]
    assert [s.reading.call.usage.input for s in settled] == [91]


def test_live_a_session_is_put_together_from_pieces_that_came_long_before() -> None:
    claude = session()
    engine = LiveEngine()
    settled = []
    for s in sorted(claude.spans, key=lambda s: s.end_unix_nano):
        logs = [r for r in claude.logs if r.time_unix_nano <= s.end_unix_nano]
        claude.logs = [r for r in claude.logs if r not in logs]
        engine.feed([s], logs)
        settled += engine.advance(s.end_unix_nano)
    settled += engine.drain()

    assert [len(s.reading.call.prompt) for s in settled] == [1, 3, 5]
