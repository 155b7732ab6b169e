"""Transcripts of coding agents tell the depth that the wire had, and each call once, however often a session was copied."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx import Analysis, Engine, read
from otel_ctx.dialects import exchange
from otel_ctx.inputs import Skipped, claude_code, codex, gemini_cli, opencode
from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Item, StreamFormat
from otel_ctx.model import Call, Span
from otel_ctx.outputs.report import Inputs, build
from tests.alike import Told, analysed, prompt

DATA = Path(__file__).parent / "data" / "transcripts"
READERS = (claude_code.FORMAT, codex.FORMAT, gemini_cli.FORMAT, opencode.FORMAT)

Json = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows as lines of a file."""

    def write_(rows: Iterable[Any], name: str = "session.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return path

    return write_


def rows_of(case: str) -> list[Json]:
    with gzip.open(DATA / case / "session.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def calls(*paths: Path) -> list[Call]:
    return [r.call for r in analysed(paths)[0].readings]


def depths(analysis: Analysis) -> list[int | None]:
    return [r.context.usage for r in analysis.readings]


# ---- as the wire and the spans have it


@pytest.mark.parametrize("case", ["claude-code-content-proto", "codex-nocontent", "gemini-cli-nocontent"])
def test_the_messages_of_a_transcript_are_those_of_the_wire(case: str) -> None:
    def messages(analysis: Analysis) -> list[list[Told]]:
        # what Codex sends in front as its first message is not in its rollout
        skip = {"codex-nocontent": 1}.get(case, 0) if analysis is wire else 0
        found = []
        for call in (r.call for r in analysis.readings):
            length = len(call.prompt.tools) + len(call.prompt.system) + skip
            found.append(prompt(analysis, call)[length:])
        return found

    wire, _ = analysed([DATA / case / "requests.jsonl.gz"])
    transcript, skipped = analysed([DATA / case / "session.jsonl.gz"])
    assert messages(transcript) == messages(wire)
    assert depths(transcript) == depths(wire)
    assert len(depths(transcript)) == 3
    assert skipped == []
    for r in transcript.readings:
        assert (r.call.record, r.call.completeness.status) == ("transcript", "partial")
        assert "system" in r.call.completeness.lost


def test_the_journal_of_claude_code_has_tools_and_breakpoints_too() -> None:
    case = DATA / "claude-code-content-proto"
    wire, transcript = calls(case / "requests.jsonl.gz"), calls(case / "session.jsonl.gz")
    for sent, told in zip(wire, transcript, strict=True):
        assert [s.digest for s in told.prompt.tools] == [s.digest for s in sent.prompt.tools]
        assert [s.digest for s in told.prompt.system] == [s.digest for s in sent.prompt.system[1:]]
        markers = [s.cache_marker for s in told.prompt]
        assert markers == [s.cache_marker for s in sent.prompt if s is not sent.prompt.system[0]]
        assert sum(map(bool, markers)) == 3
        assert told.reserve == sent.reserve == 32_000


@pytest.mark.parametrize("case", ["claude-code-compact", "gemini-cli-nocontent"])
def test_a_transcript_and_the_spans_of_its_session_say_one_thing(case: str) -> None:
    transcript, spans = DATA / case / "session.jsonl.gz", DATA / case / "traces.jsonl.gz"
    told, traced, both = analysed([transcript])[0], analysed([spans])[0], analysed([transcript, spans])[0]
    # two requests that compact the history stand in no transcript
    unwritten = {32_517, 32_602} if case == "claude-code-compact" else set()
    assert depths(told) == [depth for depth in depths(traced) if depth not in unwritten]
    assert depths(both) == depths(traced)
    assert len(both.conversations) == 1
    assert not {f.kind for f in both.findings} & {"double_instrumentation", "usage_inconsistent"}


def logged(call: Call, later: int) -> Json:
    """The request of a call, as a log has it that knows nothing of sessions; ``later``: seconds."""
    usage = {
        "input_tokens": (call.usage.input or 0)
        - (call.usage.cache_read or 0)
        - (call.usage.cache_write or 0),
        "cache_read_input_tokens": call.usage.cache_read,
        "cache_creation_input_tokens": call.usage.cache_write,
        "output_tokens": call.usage.output,
    }
    return {
        "start_unix_nano": call.start_unix_nano + later * 10**9,
        "end_unix_nano": call.end_unix_nano + later * 10**9,
        "body": {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        },
        "response": {"type": "message", "role": "assistant", "content": [], "usage": usage},
    }


@pytest.mark.parametrize("skew", [0, 2, -2])
def test_a_log_beside_a_transcript_without_ids_of_responses_counts_nothing_twice(
    write: Write, skew: int
) -> None:
    """Numbers and times tell which request is whose; those of another minute are more."""
    session = DATA / "opencode-anthropic" / "session.jsonl.gz"
    turns = calls(session)
    log = write([logged(call, later) for call in turns for later in (skew, 60)], "requests.jsonl")
    told = calls(session, log)
    assert [len(call.spans) for call in told] == [2] * 12 + [1] * 12
    assert sum(call.usage.input or 0 for call in told) == 2 * sum(call.usage.input or 0 for call in turns)


def test_two_sessions_with_equal_numbers_have_a_request_each(write: Write) -> None:
    session = DATA / "opencode-anthropic" / "session.jsonl.gz"
    others = [json.loads(json.dumps(row).replace("ses_", "ses_o")) for row in rows_of("opencode-anthropic")]
    log = write([logged(call, later) for call in calls(session) for later in (0, 1)], "requests.jsonl")
    told = calls(session, write(others), log)
    assert [len(call.spans) for call in told] == [2] * 24


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("codex-exec", [8514, 10162, 10314, 10460, 12338, 12492, 12643, 14290, 14443, 14574, 16220, 16372]),
        ("gemini-cli", [9811, 11416, 11535, 13167, 14867, 14986, 16678, 18283, 18402, 23234, 24839, 24958]),
        (
            "opencode-anthropic",
            [6686, 8434, 8523, 8598, 10482, 10571, 10656, 12404, 12493, 12557, 14305, 14394],
        ),
    ],
)
def test_depth_by_depth(case: str, expected: list[int]) -> None:
    analysis, skipped = analysed([DATA / case])
    assert depths(analysis) == expected
    assert len(analysis.conversations) == 1
    assert skipped == []
    (conversation,) = analysis.conversations
    assert conversation.usage_last == expected[-1]
    assert [r.call.dialect for r in analysis.readings] == [
        case.removesuffix("-exec").removesuffix("-anthropic")
    ] * 12


def test_a_window_that_the_transcript_names() -> None:
    (reading, *_) = analysed([DATA / "codex-exec"])[0].readings
    assert (reading.context.limit, reading.context.limit_source) == (258_400, "attribute")


# ---- Claude Code, row by row

MODEL = "claude-sonnet-4-5-20250929"


def stamp(second: float) -> str:
    return f"2026-11-30T04:{int(second) // 60:02}:{second % 60:06.3f}Z"


class Rows:
    """The rows of a session of Claude Code, as versions without a journal write them."""

    def __init__(self, session: str = "s1", agent: str = "") -> None:
        self.session, self.agent = session, agent
        self.rows: list[Json] = []
        self._parent: str | None = None

    def add(self, type_: str, second: float, **more: Any) -> Json:
        row = {
            "parentUuid": self._parent, "isSidechain": bool(self.agent), "type": type_, "sessionId": self.session,
            "uuid": f"{self.session}-{self.agent}-{len(self.rows)}", "timestamp": stamp(second), "version": "2.0.77", **more,
        }  # fmt: skip
        if self.agent:
            row["agentId"] = self.agent
        self._parent = row["uuid"]
        self.rows.append(row)
        return row

    def user(self, text: str, second: float, **more: Any) -> Json:
        return self.add("user", second, message={"role": "user", "content": text}, **more)

    def model(
        self,
        id_: str,
        second: float,
        *blocks: Json,
        fresh: int = 0,
        read: int = 0,
        write: int = 0,
        out: int = 1,
    ) -> None:
        """An answer of several blocks, each a row, the output growing."""
        for n, block in enumerate(blocks or ({"type": "text", "text": f"answer {id_}"},)):
            usage = {
                "input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
                "output_tokens": out * (n + 1),
            }  # fmt: skip
            message = {"id": id_, "role": "assistant", "model": MODEL, "content": [block], "usage": usage}
            self.add("assistant", second + n / 10, message=message)


def session(turns: int, name: str = "s1", base: int = 20_000, growth: int = 1_000) -> Rows:
    rows = Rows(name)
    for n in range(turns):
        rows.user(f"question {n}", 10 * n)
        rows.model(f"msg_{n}", 10 * n + 1, read=base + growth * n)
    return rows


def test_the_rows_of_a_message_are_one_call_with_the_last_usage(write: Write) -> None:
    rows = Rows()
    rows.user("Hi!", 0)
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Ho!"},
              {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}]  # fmt: skip
    rows.model("msg_1", 1, *blocks, fresh=3, read=100, write=20, out=7)
    (call,) = calls(write(rows.rows))
    assert (call.usage.input, call.usage.cache_read, call.usage.cache_write) == (123, 100, 20)
    assert call.usage.output == 21
    assert call.response_id == "msg_1"
    assert [s.kind for s in call.answer] == ["thinking", "assistant", "tool_call"]
    assert call.end_unix_nano > call.start_unix_nano > 0


def test_without_a_journal_the_prompt_is_what_was_said_before(write: Write) -> None:
    rows = session(3)
    analysis, _ = analysed([write(rows.rows)])
    last = analysis.readings[-1].call
    assert prompt(analysis, last) == [
        ("user", "", "question 0"), ("assistant", "", "answer msg_0"), ("user", "", "question 1"),
        ("assistant", "", "answer msg_1"), ("user", "", "question 2"),
    ]  # fmt: skip
    assert last.completeness.lost == {"tools", "system", "messages"}
    assert [r.turn for r in analysis.readings] == [1, 2, 3]
    assert not any(r.break_ for r in analysis.readings)


def test_what_was_taken_back_is_not_in_the_prompt(write: Write) -> None:
    rows = session(2)
    rows._parent = rows.rows[1]["uuid"]  # the user went back to after the first answer
    rows.user("another question", 60)
    rows.model("msg_9", 61, read=21_000)
    analysis, _ = analysed([write(rows.rows)])
    texts = [content for _, _, content in prompt(analysis, analysis.readings[-1].call)]
    assert texts == ["question 0", "answer msg_0", "another question"]


def test_results_of_calls_that_ran_side_by_side_are_all_there(write: Write) -> None:
    """Each result hangs at the row of its call, and the next answer at one of them."""
    rows = Rows()
    rows.user("Hi!", 0)
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {}} for n in range(2)]
    rows.model("msg_0", 1, *blocks, read=100)
    of_calls = [row["uuid"] for row in rows.rows[-2:]]
    for n in (0, 1):
        rows._parent = of_calls[n]
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"result {n}"}
        rows.add("user", 3 + n, message={"role": "user", "content": [result]})
    rows.model("msg_1", 6, read=200)
    analysis, _ = analysed([write(rows.rows)])
    kinds = [(kind, content) for kind, _, content in prompt(analysis, analysis.readings[-1].call)]
    assert kinds[0] == ("user", "Hi!")
    assert sorted(kinds[3:]) == [("tool_result", "result 0"), ("tool_result", "result 1")]


@pytest.mark.parametrize("name", ["copy.jsonl", "elsewhere/session.jsonl"])
def test_a_session_that_was_copied_is_counted_once(name: str, write: Write) -> None:
    rows = session(4)
    one, copy = write(rows.rows), write(rows.rows, name)
    analysis, _ = analysed([one, copy])
    assert depths(analysis) == [20_000, 21_000, 22_000, 23_000]
    assert len(analysis.conversations) == 1


def test_a_session_that_was_resumed_under_a_new_id_is_counted_once(write: Write) -> None:
    rows = session(3)
    one = write(rows.rows)
    resumed = Rows("s2")
    resumed.rows = [{**row, "sessionId": "s2"} for row in rows.rows]
    resumed._parent = rows.rows[-1]["uuid"]
    resumed.user("and now?", 100)
    resumed.model("msg_3", 101, read=23_000)
    analysis, _ = analysed([one, write(resumed.rows, "s2.jsonl")])
    assert depths(analysis) == [20_000, 21_000, 22_000, 23_000]
    assert sum(r.call.usage.input or 0 for r in analysis.readings) == 86_000
    assert "usage_inconsistent" not in {f.kind for f in analysis.findings}


def test_a_fork_names_the_session_that_its_rows_are_from(write: Write) -> None:
    rows = session(3)
    forked = Rows("s2")
    forked.rows = [
        {
            **row,
            "sessionId": "s2",
            "timestamp": stamp(500),
            "forkedFrom": {"sessionId": "s1", "messageUuid": row["uuid"]},
        }
        for row in rows.rows
    ]
    forked._parent = forked.rows[-1]["uuid"]
    forked.user("and now?", 600)
    forked.model("msg_3", 601, read=23_000)
    analysis, _ = analysed([write(rows.rows), write(forked.rows, "s2.jsonl")])
    assert sorted(d or 0 for d in depths(analysis)) == [20_000, 21_000, 22_000, 23_000]


@pytest.mark.parametrize("new_id", [False, True])
def test_of_a_message_that_was_copied_while_it_grew_the_last_numbers_count(
    new_id: bool, write: Write
) -> None:
    rows = Rows()
    rows.user("Hi!", 0)
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    rows.model("msg_1", 1, *blocks, read=100, out=5)
    early = [{**row, "sessionId": "s2" if new_id else "s1"} for row in rows.rows[:2]]
    for paths in (
        [write(early, "a.jsonl"), write(rows.rows, "b.jsonl")],
        [write(rows.rows, "c.jsonl"), write(early, "d.jsonl")],
    ):
        (call,) = calls(*paths)
        assert (call.usage.input, call.usage.output, call.usage.conflicts) == (100, 10, ())


def test_ids_of_a_test_server_that_come_back_are_other_calls(write: Write) -> None:
    later = [{**row, "sessionId": "s2", "uuid": f"x{row['uuid']}", "timestamp": stamp(1000 + n)}
             for n, row in enumerate(session(2).rows)]  # fmt: skip
    assert len(calls(write(session(2).rows), write(later, "s2.jsonl"))) == 4


@pytest.mark.parametrize("inline", [False, True])
def test_a_sub_agent_is_a_conversation_of_its_own(inline: bool, write: Write) -> None:
    main = session(2, base=50_000)
    main.user("look into it", 30)
    main.model("msg_2", 31, {"type": "tool_use", "id": "t1", "name": "Agent", "input": {}}, read=52_000)
    sub = Rows("s1", agent="a1b2")
    sub.user("your task", 32)
    sub.model("msg_a", 33, read=9_000)
    sub.add("user", 34, message={"role": "user", "content": "go on"})
    sub.model("msg_b", 35, read=9_500)
    main.user("done", 40)
    main.model("msg_3", 41, read=53_000)
    if inline:  # before agents had ids and files, their rows stood among the others
        plain = [{k: v for k, v in row.items() if k != "agentId"} for row in sub.rows]
        analysis, _ = analysed([write([*main.rows[:6], *plain, *main.rows[6:]])])
    else:
        analysis, _ = analysed([write(main.rows), write(sub.rows, "s1/subagents/agent-a1b2.jsonl")])
    (one, two) = analysis.conversations
    assert (one.usage_last, two.usage_last) == (53_000, 9_500)
    assert (len(one.calls), len(two.calls)) == (4, 2)
    assert (one.parent, two.parent) == (None, one.id)
    assert two.agents == ("subagent",)


def test_a_session_whose_clocks_cannot_be_right_is_written_once(write: Write) -> None:
    rows = Rows("s1")
    for n in range(40):  # a sub-agent as it was before they had ids; all asked and all answered at one time
        rows.user(f"question {n}", 0, isSidechain=True)
        rows.model(f"msg_{n}", 3)
        rows.rows[-1]["isSidechain"] = True
    analysis, _ = analysed([write(rows.rows)])
    assert [r.relation for r in analysis.readings] == ["new", *["continues"] * 39]
    assert [r.call.id for r in analysis.readings] == [f"s1:msg_{n}" for n in range(40)]
    told = build(analysis, Inputs((), ()))["calls"]
    assert [len(call["segments"]["new"]) for call in told] == [1, *[2] * 39]


def test_a_request_is_sent_when_all_of_the_answer_before_it_has_come(write: Write) -> None:
    rows = Rows()
    rows.user("look", 0)
    tools = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"n": n}} for n in (1, 2)]
    rows.model("msg_1", 1, *tools)
    (first, second), path = rows.rows[-2:], [rows.rows[0]]
    results = [
        {**rows.add("user", 1.05 + n / 10, message={"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"t{n + 1}", "content": "ok"}]}), "parentUuid": row["uuid"]}
        for n, row in enumerate((first, second))
    ]  # fmt: skip
    rows.model("msg_2", 2)
    answer = {
        **rows.rows[-1],
        "parentUuid": results[0]["uuid"],
    }  # it came before the second block of the answer
    one, two = calls(write([*path, first, results[0], second, results[1], answer]))
    assert two.start_unix_nano == one.end_unix_nano == nanoseconds(stamp(1.1))


def test_sub_agents_without_ids_are_told_apart_by_their_first_rows(write: Write) -> None:
    agents = [Rows("s1", agent=name) for name in "ab"]
    for n in range(3):
        for agent in agents:
            agent.user(f"task {n} of {agent.agent}", 10 * n)
            agent.model(f"msg_{agent.agent}{n}", 10 * n + 1)
    rows = [row for pair in zip(*(agent.rows for agent in agents), strict=True) for row in pair]
    analysis, _ = analysed([write([{k: v for k, v in row.items() if k != "agentId"} for row in rows])])
    assert [len(c.calls) for c in analysis.conversations] == [3, 3]


def test_compaction_goes_on_with_the_conversation(write: Write) -> None:
    rows = session(8, base=150_000)
    rows._parent = None
    rows.add(
        "system", 90, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 157_000}
    )
    rows.user("This session is continued from …", 90, isCompactSummary=True)
    rows.model("msg_c", 91, read=30_000)
    rows.user("go on", 95)
    rows.model("msg_d", 96, read=31_000)
    analysis, _ = analysed([write(rows.rows)])
    assert [r.relation for r in analysis.readings] == ["new", *["continues"] * 7, "compacted", "continues"]
    (conversation,) = analysis.conversations
    assert (conversation.usage_peak, conversation.usage_last) == (157_000, 31_000)
    assert [r.call.compacted for r in analysis.readings[-2:]] == [True, False]


def test_a_compaction_that_the_journal_tells() -> None:
    analysis, _ = analysed([DATA / "claude-code-compact" / "session.jsonl.gz"])
    assert [r.relation for r in analysis.readings] == [
        "new",
        *["continues"] * 11,
        "compacted",
        "continues",
        "continues",
    ]
    assert "compaction" in {f.kind for f in analysis.findings}


def test_what_the_client_says_itself_is_no_call(write: Write) -> None:
    rows = session(1)
    usage = {"input_tokens": 0, "output_tokens": 0}
    message = {"id": "x", "model": "<synthetic>", "role": "assistant", "content": [], "usage": usage}
    rows.add("assistant", 20, message=message, isApiErrorMessage=True)
    assert len(calls(write(rows.rows))) == 1


def test_what_is_printed_has_no_final_output(write: Write) -> None:
    usage = {
        "input_tokens": 1,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {
        "id": "m",
        "model": MODEL,
        "role": "assistant",
        "content": [],
        "usage": usage,
        "stop_reason": None,
    }
    row = {"type": "assistant", "message": message, "session_id": "s", "uuid": "u", "parent_tool_use_id": None,
           "timestamp": stamp(1)}  # fmt: skip
    first = {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/", "uuid": "i"}
    (call,) = calls(write([first, row]))
    assert (call.usage.input, call.usage.output) == (6, None)


def test_a_request_whose_messages_the_journal_lost_is_not_judged(write: Write) -> None:
    rows = [row for row in rows_of("claude-code-content-proto") if row["type"] != "api-request-blob"]
    for call in calls(write(rows)):
        assert "messages" in call.completeness.lost
    rows = [row for row in rows_of("claude-code-content-proto") if row["type"] != "api-request-shape"]
    for call in calls(write(rows)):
        assert call.completeness.lost == {"tools", "system"}


def test_a_session_without_an_answer_is_no_error(write: Write) -> None:
    rows = Rows()
    rows.user("Hi!", 0)
    analysis, skipped = analysed([write(rows.rows), DATA / "gemini-cli" / "other.jsonl.gz"])
    assert analysis.readings == ()
    assert skipped == []


def test_a_row_that_is_still_being_written_is_named(write: Write) -> None:
    path = write(session(2).rows)
    path.write_bytes(path.read_bytes()[:-40])
    analysis, skipped = analysed([path])
    assert len(analysis.readings) == 1
    assert [s.where for s in skipped] == [f"{path}:4"]


# ---- what else stands in one stream

OTHERS: dict[str, tuple[str, list[Any]]] = {
    "otlp": ("otlp-json", [{"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2"},
    ]}]}]}]),
    "raw": ("raw-requests", [{"request": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi!"}]}}]),
    "codex": ("codex", rows_of("codex-nocontent")),
    "claude": ("claude-code", rows_of("claude-code-content-proto")),
    "gemini": ("gemini-cli", rows_of("gemini-cli-nocontent")),
    "opencode": ("opencode", [{"type": "step_finish", "sessionID": "ses_1", "timestamp": 1, "part": {
        "type": "step-finish", "messageID": "msg_1", "tokens": {"input": 1, "output": 1}}}]),
}  # fmt: skip


@pytest.mark.parametrize("second", OTHERS)
@pytest.mark.parametrize("first", OTHERS)
def test_what_follows_a_session_is_read_by_its_own_format(first: str, second: str, write: Write) -> None:
    def counted(*parts: str) -> tuple[dict[str, int], list[Skipped]]:
        found, skipped = dict[str, int](), list[Skipped]()
        for batch in read([write([row for part in parts for row in OTHERS[part][1]])]):
            found[batch.format] = found.get(batch.format, 0) + len(batch.spans)
            skipped += batch.skipped
        return found, skipped

    if first != second:
        assert counted(first, second) == ({**counted(first)[0], **counted(second)[0]}, [])


@pytest.mark.parametrize("case", ["claude-code-content-proto", "gemini-cli-nocontent", "codex-nocontent"])
def test_what_is_no_row_of_a_session_and_of_no_format_is_named(case: str, write: Write) -> None:
    path = write([*rows_of(case), {"some": "thing"}, {"level": "info", "msg": "?"}])
    last = len(rows_of(case))
    _, skipped = analysed([path])
    assert [s.where for s in skipped] == [f"{path}:{last + 1}", f"{path}:{last + 2}"]
    assert {s.why for s in skipped} <= {"no row of a session", "no row of a rollout"}


def test_rows_of_types_that_are_not_known_are_passed_over_quietly(write: Write) -> None:
    new = [
        {"type": "summary", "summary": "…", "leafUuid": "u"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False},
        {"type": "queue-operation", "operation": "enqueue", "timestamp": stamp(1), "sessionId": "s1"},
        {"type": "yet-to-come", "sessionId": "s1", "request": {"model": "m", "messages": [{"role": "user"}]}},
        {"type": "also-to-come", "anything": {}},
    ]
    analysis, skipped = analysed([write([*session(2).rows, *new, *session(3).rows[4:]])])
    assert [r.relation for r in analysis.readings] == ["new", "continues", "continues"]
    assert skipped == []


# ---- how full, how soon


def test_the_bounds_of_transcripts_are_those_of_a_person_at_a_keyboard(write: Write) -> None:
    def band(depth: int) -> str:
        return analysed([write(session(4, base=depth - 3_000).rows)])[0].readings[-1].context.band

    assert [band(200_000 - turns * 1_000) for turns in (61, 59, 21, 19)] == ["ok", "low", "low", "critical"]


def test_what_a_fresh_start_saves(write: Write) -> None:
    analysis, _ = analysed([write(session(5, base=20_000, growth=4_000).rows)])
    (conversation,) = analysis.conversations
    # 36,000 deep, 20,000 of which any session begins with; 164,000 left at 4,000 a turn
    assert conversation.headroom_turns == 41.0
    assert conversation.saved_by_restarting == 16_000 * 41


@pytest.mark.parametrize(("turns", "growth"), [(2, 4_000), (5, 0)])
def test_where_it_is_not_known_how_soon_it_is_full_neither_is_that(
    turns: int, growth: int, write: Write
) -> None:
    analysis, _ = analysed([write(session(turns, growth=growth).rows)])
    assert analysis.conversations[0].saved_by_restarting is None


def test_a_window_that_was_passed_was_a_larger_one(write: Write) -> None:
    (_, _, last) = analysed([write(session(3, base=190_000, growth=10_000).rows)])[0].readings
    assert (last.context.limit, last.context.limit_source) == (1_000_000, "observed")


# ---- Codex


def token_count(given: int, out: int, total: int, second: float) -> Json:
    def numbers(input_: int, output: int) -> Json:
        return {"input_tokens": input_, "cached_input_tokens": input_ // 2, "output_tokens": output,
                "reasoning_output_tokens": 0, "total_tokens": input_ + output}  # fmt: skip

    info = {
        "total_token_usage": numbers(total, out),
        "last_token_usage": numbers(given, out),
        "model_context_window": 200_000,
    }
    return {"timestamp": stamp(second), "type": "event_msg", "payload": {"type": "token_count", "info": info}}


def item(second: float, **payload: Any) -> Json:
    return {"timestamp": stamp(second), "type": "response_item", "payload": payload}


def meta(id_: str, second: float = 0, **more: Any) -> Json:
    return {"timestamp": stamp(second), "type": "session_meta", "payload": {"id": id_, **more}}


def words(role: str, text: str) -> Json:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def old_rollout(second: float = 0) -> list[Json]:
    """As versions without records of usage write it."""
    return [
        meta("t1", second),
        item(second, **words("user", "Hi!")),
        item(second + 2, **words("assistant", "Ho!")),
        token_count(1_000, 5, 1_000, second + 3),
        token_count(1_000, 5, 1_000, second + 3),  # the limits of the plan have changed
        item(second + 4, **words("user", "And?")),
        item(second + 5, **words("assistant", "So.")),
        token_count(1_400, 9, 2_400, second + 6),
    ]


def test_a_rollout_of_old_has_each_request_once(write: Write) -> None:
    analysis, _ = analysed([write(old_rollout())])
    assert depths(analysis) == [1_000, 1_400]
    assert [c.usage.cache_read for c in (r.call for r in analysis.readings)] == [500, 700]
    assert prompt(analysis, analysis.readings[-1].call) == [
        ("user", "", "Hi!"), ("assistant", "", "Ho!"), ("user", "", "And?"),
    ]  # fmt: skip


def test_numbers_that_follow_a_record_are_the_same_numbers() -> None:
    rows = rows_of("codex-exec")
    assert sum(r["payload"].get("type") == "token_count" for r in rows) == 12
    assert sum(r["type"] == "token_usage_record" for r in rows) == 12
    assert len(calls(DATA / "codex-exec" / "session.jsonl.gz")) == 12


@pytest.mark.parametrize(("late", "count"), [(0.2, 2), (30, 4)])
def test_a_span_of_the_session_with_the_same_numbers_is_the_same_request(
    late: float, count: int, write: Write
) -> None:
    """Codex' spans have no id of the response. Numbers that come again much later are another request."""
    path = write(old_rollout())
    engine = Engine()
    for batch in read([path]):
        engine.feed(batch.spans)
    for n, (sent, out, at) in enumerate([(1_000, 5, 2), (1_400, 9, 5)]):
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "t1", "gen_ai.usage.input_tokens": sent,
            "gen_ai.usage.output_tokens": out, "gen_ai.usage.cache_read.input_tokens": sent // 2,
        }  # fmt: skip
        begin = nanoseconds(stamp(at + late))
        engine.feed(
            [Span("a" * 32, f"{n:016x}", "", "chat", begin, begin + 10**9, attributes, scope_name="x")]
        )
    assert len(engine.close().readings) == count


def test_a_fork_begins_with_its_parents_rows(write: Write) -> None:
    copied = [{**row, "timestamp": stamp(1000)} for row in old_rollout()]
    fork = [meta("t2", 1000, forked_from_id="t1"), *copied, meta("t2", 1001), item(1002, **words("user", "Else?")),
            item(1003, **words("assistant", "Yes.")), token_count(1_900, 3, 4_300, 1004)]  # fmt: skip
    assert len(calls(write(old_rollout()), write(fork, "fork.jsonl"))) == 3

    rows = rows_of("codex-nocontent")
    fork = [meta("t2", 0, forked_from_id="t1"), *({**row, "timestamp": stamp(2000)} for row in rows)]
    assert len(calls(write(rows), write(fork, "fork.jsonl"))) == 3


def test_a_rollout_that_was_compacted(write: Write) -> None:
    payload = {"message": "", "replacement_history": [words("user", "In short: …")]}
    summary = {"timestamp": stamp(10), "type": "compacted", "payload": payload}
    rows = [*old_rollout(), summary, item(11, **words("user", "Go on")), item(12, **words("assistant", "Done.")),
            token_count(600, 4, 3_000, 13)]  # fmt: skip
    analysis, _ = analysed([write(rows)])
    assert [r.relation for r in analysis.readings] == ["new", "continues", "compacted"]
    assert prompt(analysis, analysis.readings[-1].call) == [
        ("user", "", "In short: …"),
        ("user", "", "Go on"),
    ]


def test_turns_that_were_taken_back_leave_an_unsure_history(write: Write) -> None:
    back = {
        "timestamp": stamp(7),
        "type": "event_msg",
        "payload": {"type": "thread_rolled_back", "num_turns": 1},
    }
    rows = [*old_rollout(), back, item(8, **words("user", "Else?")), item(9, **words("assistant", "Yes.")),
            token_count(1_300, 4, 3_700, 10)]  # fmt: skip
    *before, after = calls(write(rows))
    assert all("messages" not in c.completeness.lost for c in before)
    assert "messages" in after.completeness.lost


# ---- Gemini CLI


def test_a_session_as_one_json(write: Write, tmp_path: Path) -> None:
    tokens = {"input": 900, "output": 9, "cached": 300, "thoughts": 4, "tool": 0, "total": 913}
    messages = [
        {"id": "1", "timestamp": stamp(1), "type": "user", "content": "Hi!"},
        {"id": "2", "timestamp": stamp(2), "type": "info", "content": "a hint"},
        {
            "id": "3",
            "timestamp": stamp(3),
            "type": "gemini",
            "content": "Ho!",
            "model": "gemini-2.5-pro",
            "tokens": tokens,
        },
    ]
    path = tmp_path / "session.json"
    path.write_text(
        json.dumps({"sessionId": "s", "projectHash": "h", "messages": messages}, indent=2), "utf-8"
    )
    analysis, _ = analysed([path])
    (call,) = (r.call for r in analysis.readings)
    assert (call.usage.input, call.usage.cache_read, call.usage.output, call.usage.reasoning) == (
        900,
        300,
        13,
        4,
    )
    assert (call.model, call.provider, call.conversation_hint) == ("gemini-2.5-pro", "google", "s")
    assert prompt(analysis, call) == [("user", "", "Hi!")]
    assert [analysis.text(s.digest) for s in call.answer] == ["Ho!"]


def test_after_a_resume_the_file_is_not_what_is_sent() -> None:
    told = calls(DATA / "gemini-cli" / "session.jsonl.gz")
    assert ["messages" in c.completeness.lost for c in told] == [False] * 3 + [True] * 9


# ---- opencode


def test_an_export(write: Write, tmp_path: Path) -> None:
    def answer(id_: str, second: int, read: int, *parts: Json) -> Json:
        info = {
            "id": id_, "sessionID": "ses_1", "role": "assistant", "modelID": MODEL, "providerID": "anthropic",
            "time": {"created": 1_764_500_000_000 + second * 1000, "completed": 1_764_500_001_000 + second * 1000},
            "tokens": {"input": 5, "output": 7, "reasoning": 0, "cache": {"read": read, "write": 10}},
        }  # fmt: skip
        return {"info": info, "parts": list(parts)}

    done = {"status": "completed", "input": {"path": "a"}, "output": "text of a"}
    messages = [
        {
            "info": {"id": "m1", "role": "user", "sessionID": "ses_1"},
            "parts": [{"type": "text", "text": "Read a"}],
        },
        answer("m2", 1, 0, {"type": "tool", "callID": "c1", "tool": "read", "state": done}),
        answer("m3", 3, 20, {"type": "reasoning", "text": "hm"}, {"type": "text", "text": "It says …"}),
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": messages}, indent=2), "utf-8")
    analysis, _ = analysed([path])
    one, two = (r.call for r in analysis.readings)
    assert (one.usage.input, two.usage.input, two.usage.cache_read) == (15, 35, 20)
    assert prompt(analysis, two) == [
        ("user", "", "Read a"), ("tool_call", "read", {"path": "a"}), ("tool_result", "", "text of a"),
    ]  # fmt: skip
    assert [s.kind for s in two.answer] == ["thinking", "assistant"]


def test_a_file_of_one_message(tmp_path: Path) -> None:
    info = {"id": "m", "sessionID": "ses_1", "role": "assistant", "modelID": MODEL, "time": {"created": 1_764_500_000_000},
            "tokens": {"input": 5, "output": 7, "cache": {"read": 20, "write": 0}}}  # fmt: skip
    (tmp_path / "m.json").write_text(json.dumps(info), "utf-8")
    (tmp_path / "u.json").write_text(json.dumps({"id": "u", "sessionID": "ses_1", "role": "user"}), "utf-8")
    (call,) = calls(tmp_path)
    assert (call.usage.input, call.model, call.completeness.status) == (25, MODEL, "usage_only")


# ---- nothing makes them fail


KEYS = [
    "type", "uuid", "parentUuid", "sessionId", "session_id", "isSidechain", "agentId", "message", "id", "model", "content",
    "usage", "timestamp", "requestRef", "subtype", "isCompactSummary", "forkedFrom", "params", "tail", "base", "keep",
    "cacheControl", "path", "shapeHash", "shape", "hash", "system", "tools", "messages", "payload", "info", "role",
    "total_token_usage", "last_token_usage", "input_tokens", "response_id", "thread_id", "replacement_history", "$set",
    "tokens", "toolCalls", "projectHash", "part", "parts", "sessionID", "state", "time", "cache", "messageID",
]  # fmt: skip
WORDS = [
    "assistant", "user", "system", "gemini", "api-request", "api-request-blob", "api-request-shape", "compact_boundary",
    "session_meta", "response_item", "event_msg", "token_usage_record", "token_count", "compacted", "message", "tool",
    "step-finish", "step-start", "text", "a", "b", "", "2026-11-30T04:00:00Z",
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inside, max_size=6),
    max_leaves=20,
)


def run(format_: StreamFormat, rows: Iterable[Any]) -> None:
    """Read rows, and judge what comes of them."""
    skipped: list[Skipped] = []
    items = (Item(str(n), f"f:{n}", row) for n, row in enumerate(rows, 1))
    engine = Engine()
    for records in format_.read(items, "f", skipped):
        for span in records.spans:
            exchange.read(span)
        engine.feed(records.spans)
    engine.close()


@pytest.mark.parametrize("format_", READERS, ids=lambda f: f.name)
@given(rows=st.lists(values, max_size=6))
def test_no_rows_make_it_fail(format_: StreamFormat, rows: list[Any]) -> None:
    for row in rows:
        format_.claims(row)
    run(format_, rows)


@pytest.mark.parametrize(
    ("format_", "case"),
    [
        (claude_code.FORMAT, "claude-code-content-proto"),
        (codex.FORMAT, "codex-nocontent"),
        (gemini_cli.FORMAT, "gemini-cli-nocontent"),
        (opencode.FORMAT, "opencode-anthropic"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
@given(data=st.data())
def test_no_value_in_a_real_row_makes_it_fail(format_: StreamFormat, case: str, data: st.DataObject) -> None:
    rows = rows_of(case)
    for _ in range(data.draw(st.integers(1, 4))):
        node: Any = rows
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], (dict, list)) and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = data.draw(values)
            break
    run(format_, rows)


def test_the_list_of_what_a_user_typed_into_gemini_cli_is_no_transcript(write: Write, tmp_path: Path) -> None:
    typed = {
        "sessionId": "s",
        "messageId": 0,
        "type": "user",
        "message": "hello",
        "timestamp": "2026-11-20T10:00:00Z",
    }
    (tmp_path / "logs.json").write_text(json.dumps([typed]), "utf-8")
    (tmp_path / "session.jsonl.gz").write_bytes((DATA / "gemini-cli" / "session.jsonl.gz").read_bytes())
    analysis, skipped = analysed([tmp_path])
    assert analysis.spans == len(analysis.readings) == 12
    assert [(Path(note.where).name, note.foreign) for note in skipped] == [("logs.json", True)]
