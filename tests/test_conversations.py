"""Calls find the call that they continue, and no other."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from otel_ctx.conversations import shared_segments
from otel_ctx.engine import Engine
from otel_ctx.model import Analysis, Reading, Span
from otel_ctx.outputs.views.gates import Gates, judge
from otel_ctx.parts.texts import common_prefix

SECOND = 1_000_000_000
BASE = 1_764_500_000 * SECOND
PAD = "Answer politely, cite the policy and never invent an order number. " * 6
BREAKS = {
    "prefix_changed",
    "volatile_prefix",
    "moved_segment",
    "tools_changed",
    "tools_reordered",
    "tool_schema_key_order",
    "compaction",
}

Message = dict[str, Any]


def said(role: str, text: str) -> Message:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def asked(name: str, call_id: str, **arguments: Any) -> Message:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def tools(*names: str) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    return [{"type": "function", "name": n, "description": f"{n} it", "parameters": schema} for n in names]


class App:
    """Makes the spans of an instrumented application. Times are in seconds; a call takes one."""

    def __init__(self, **attributes: Any) -> None:
        self.spans: list[Span] = []
        self.attributes = attributes

    def span(
        self,
        operation: str,
        at: float,
        *,
        length: float = 1,
        trace: int = 1,
        parent: int = 0,
        error: str = "",
        **attributes: Any,
    ) -> int:
        id_ = len(self.spans) + 1
        start = BASE + round(at * SECOND)
        known = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "openai",
            "error.type": error or None,
            **self.attributes,
            **attributes,
        }
        self.spans.append(
            Span(
                trace_id=f"{trace:032x}",
                span_id=f"{id_:016x}",
                parent_id=f"{parent:016x}" if parent else "",
                name=operation,
                start_unix_nano=start,
                end_unix_nano=start + round(length * SECOND),
                attributes={k: v for k, v in known.items() if v is not None},
                kind=3,
                scope_name="opentelemetry.instrumentation.genai.openai",
                scope_version="1.3b0",
                resource={"service.name": "shop"},
                status_code=2 if error else 0,
            )
        )
        return id_

    def call(
        self,
        at: float,
        messages: Sequence[Message] | None,
        answer: Message | str | None = "ok",
        *,
        defs: Sequence[dict[str, Any]] | None = (),
        session: str | None = None,
        agent: str | None = None,
        reported: int | None = None,
        **more: Any,
    ) -> int:
        text = json.dumps(messages) if messages is not None else None
        if reported is None and messages is not None:
            reported = (len(text or "") + len(json.dumps(list(defs or ())))) // 5
        if isinstance(answer, str):
            answer = said("assistant", answer)
        return self.span(
            "chat",
            at,
            **{
                "gen_ai.request.model": "gpt-4o",
                "gen_ai.input.messages": text,
                "gen_ai.output.messages": json.dumps([answer]) if answer else None,
                "gen_ai.tool.definitions": json.dumps(list(defs)) if defs else None,
                "gen_ai.usage.input_tokens": reported,
                "gen_ai.usage.output_tokens": 7,
                "gen_ai.conversation.id": session,
                "gen_ai.agent.name": agent,
                **more,
            },
        )


def analysed(spans: Iterable[Span]) -> Analysis:
    engine = Engine()
    engine.feed(spans)
    return engine.close()


def story(spans: Iterable[Span]) -> list[tuple[int, str, int | None, int]]:
    """Of each call, in the order of the starts: the number of the conversation's first span, relation, the span that it
    continues, turn."""
    return [
        (number(r.conversation) or 0, r.relation, number(r.previous), r.turn)
        for r in analysed(spans).readings
    ]


def number(id_: str | None) -> int | None:
    return int(id_.partition(":")[2], 16) if id_ else None


def broken(analysis: Analysis) -> set[str]:
    return {f.kind for f in analysis.findings} & BREAKS


def dialogue(
    app: App,
    start: float,
    turns: int,
    *,
    every: float = 10,
    topic: str = "parcel",
    system: str | None = PAD,
    answers: str = "Answer",
    traces: bool = False,
    **more: Any,
) -> None:
    """A conversation of ``turns`` calls."""
    history = [said("system", system)] if system else []
    for i in range(turns):
        history = [*history, said("user", f"Question {i} about my {topic}, please?")]
        answer = f"{answers} {i} on {topic}."
        trace = {"trace": 100 + len(app.spans)} if traces else {}
        app.call(start + i * every, history, answer, **more, **trace)
        history = [*history, said("assistant", answer)]


# ---- continues


@pytest.mark.parametrize("own", [{"session": "a", "traces": True}, {}], ids=["session", "trace"])
@pytest.mark.parametrize("every", [0, 0.01])
def test_what_a_session_says_again_had_been_answered_whatever_the_clocks_say(
    own: dict[str, Any], every: float
) -> None:
    app = App()
    dialogue(app, 0, 12, every=every, **own)
    expected = [(1, "new" if n == 1 else "continues", n - 1 or None, n) for n in range(1, 13)]
    assert story(app.spans) == expected


def test_of_calls_that_run_beside_each_other_without_an_id_in_common_none_continues_another() -> None:
    app = App()
    dialogue(app, 0, 3, every=0.01, traces=True)
    assert [relation for _, relation, *_ in story(app.spans)] == ["new", "joined", "joined"]


def test_each_call_continues_the_one_before() -> None:
    app = App()
    dialogue(app, 0, 4)

    assert story(app.spans) == [
        (1, "new", None, 1),
        (1, "continues", 1, 2),
        (1, "continues", 2, 3),
        (1, "continues", 3, 4),
    ]
    analysis = analysed(app.spans)
    assert broken(analysis) == set()
    (conversation,) = analysis.conversations
    assert (conversation.id, len(conversation.calls), conversation.gaps) == (
        analysis.readings[0].call.id,
        4,
        0,
    )
    assert conversation.joined is False
    assert conversation.usage_last == conversation.usage_peak == analysis.readings[-1].context.usage


def test_the_order_in_the_file_and_the_traces_do_not_matter() -> None:
    app = App()
    dialogue(app, 0, 6, traces=True)
    expected = story(app.spans)

    assert len({c for c, *_ in expected}) == 1
    for seed in range(5):
        assert story(random.Random(seed).sample(app.spans, 6)) == expected


def test_tool_loops_are_one_conversation_without_gaps() -> None:
    app = App()
    history = [said("user", "where is my parcel?")]
    app.call(0, history, asked("find", "c1", q="parcel"))
    history = [*history, asked("find", "c1", q="parcel"), result("c1", "on its way")]
    app.call(5, history, asked("find", "c2", q="date"))
    history = [*history, asked("find", "c2", q="date"), result("c2", "today")]
    app.call(10, history, "It comes today.")

    analysis = analysed(app.spans)
    assert [(r.relation, r.gap) for r in analysis.readings] == [
        ("new", False),
        ("continues", False),
        ("continues", False),
    ]


def test_parallel_tool_calls_that_are_written_one_by_one_are_no_gap() -> None:
    app = App()
    history = [said("user", "where are my parcels?")]
    one, two = asked("find", "c1", q="a"), asked("find", "c2", q="b")
    app.call(0, history, {"role": "assistant", "parts": [*one["parts"], *two["parts"]]})
    app.call(5, [*history, one, result("c1", "here"), two, result("c2", "there")])

    assert [r.gap for r in analysed(app.spans).readings] == [False, False]


# ---- sessions side by side


def test_sessions_with_equal_beginnings_are_told_apart_by_the_answers() -> None:
    app = App()
    for session in (1, 2, 3):
        dialogue(app, session * 0.1, 4, answers=f"Reply {session}")

    conversations = analysed(app.spans).conversations
    assert sorted([number(i) for i in c.calls] for c in conversations) == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12],
    ]


def test_a_hundred_sessions_at_once_with_equal_beginnings_are_a_hundred_conversations() -> None:
    app = App()
    for session in range(100):
        dialogue(app, session * 0.001, 3, answers=f"Reply {session}")

    analysis = analysed(app.spans)
    assert len(analysis.conversations) == 100
    assert {r.relation for r in analysis.readings} == {"new", "continues"}


def test_equal_sessions_with_equal_answers_are_told_apart_by_ids() -> None:
    app = App()
    dialogue(app, 0, 3, session="a")
    dialogue(app, 0.1, 3, session="b")

    conversations = analysed(app.spans).conversations
    assert [[number(i) for i in c.calls] for c in conversations] == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("gap", [0.1, 1000], ids=["at once", "later"])
def test_the_same_session_played_twice_without_ids_is_two_conversations(gap: float) -> None:
    app = App()
    dialogue(app, 0, 3, traces=True)
    dialogue(app, gap, 3, traces=True)

    conversations = analysed(app.spans).conversations
    assert [len(c.calls) for c in conversations] == [3, 3]


def test_an_id_that_changes_with_each_request_does_not_beat_the_content() -> None:
    app = App()
    history: list[Message] = []
    for i in range(3):
        history = [*history, said("user", f"Question {i}, please?")]
        app.call(i * 10, history, f"Answer {i}.", session=f"request-{i}")
        history = [*history, said("assistant", f"Answer {i}.")]

    assert [c for c, *_ in story(app.spans)] == [1, 1, 1]


def test_one_shots_with_equal_prompts_are_conversations_of_their_own() -> None:
    app = App()
    for i in range(3):
        app.call(i * 10, [said("user", "Name a colour.")], trace=i + 1)
    assert [relation for _, relation, *_ in story(app.spans)] == ["new", "new", "new"]


def test_prompts_that_are_only_a_system_prompt_have_no_history_in_common() -> None:
    app = App()
    app.call(0, [said("system", f"Summarise this. {PAD}")], session="s")
    app.call(5, [said("system", "Name a colour.")], session="s")
    app.call(10, [said("system", "Be kind."), said("user", "hi")], trace=2)

    assert [(c, relation) for c, relation, *_ in story(app.spans)] == [(1, "new"), (2, "new"), (3, "new")]


def test_one_question_to_two_agents_is_not_asked_again() -> None:
    app = App()
    question = said("user", "Is this message about returns?")
    app.call(0, [said("system", f"You are a guard. Say yes or no. {PAD}"), question], "yes", session="s")
    app.call(
        2,
        [said("system", "You sell shoes and know the returns policy."), question],
        "Send it back.",
        session="s",
    )

    assert [relation for _, relation, *_ in story(app.spans)] == ["new", "new"]


# ---- sub-agents


def f15(app: App, *, content: bool = True, named: bool = True, **more: Any) -> None:
    """main 40k -> two sub-agents 9k, at once -> main 41k"""

    def name(agent: str) -> str | None:
        return agent if named else None

    root = app.span("invoke_agent", 0, length=60, **{"gen_ai.agent.name": name("main")})
    history = [said("system", f"You are the main agent. {PAD}"), said("user", "Compare the two policies.")]
    answer = {
        "role": "assistant",
        "parts": [*asked("task", "c1", q="a")["parts"], *asked("task", "c2", q="b")["parts"]],
    }
    app.call(
        1,
        history if content else None,
        answer if content else None,
        defs=tools("task") if content else None,
        reported=40_000,
        parent=root,
        **more,
    )
    for i in (1, 2):
        tool = app.span("execute_tool", 5 + i / 10, length=20, parent=root)
        agent = app.span(
            "invoke_agent", 6 + i / 10, length=15, parent=tool, **{"gen_ai.agent.name": name("reader")}
        )
        own = [said("system", f"You read one document. {PAD}"), said("user", f"Read policy {i}.")]
        app.call(
            7 + i / 10,
            own if content else None,
            f"Policy {i} says no." if content else None,
            defs=tools("open") if content else None,
            reported=9_000,
            parent=agent,
            **more,
        )
    history = [*history, answer, result("c1", "Policy 1 says no."), result("c2", "Policy 2 says no.")]
    app.call(
        40,
        history if content else None,
        "Both say no." if content else None,
        defs=tools("task") if content else None,
        reported=41_000,
        parent=root,
        **more,
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [(True, True), (True, False), (False, True)],
    ids=["content", "no names", "usage only"],
)
@pytest.mark.parametrize("session", [None, "s"])
def test_f15_sub_agents_are_conversations_with_a_parent(
    content: bool, named: bool, session: str | None
) -> None:
    app = App()
    f15(app, content=content, named=named, session=session)
    for spans in (app.spans, app.spans[::-1]):
        analysis = analysed(spans)
        main, one, two = analysis.conversations
        first = {r.conversation: r for r in analysis.readings}
        assert [len(c.calls) for c in (main, one, two)] == [2, 1, 1]
        assert (main.parent, one.parent, two.parent) == (None, main.id, main.id)
        depths = [r.context.usage for r in analysis.readings if r.conversation == main.id]
        assert depths == [40_000, 41_000]
        assert {first[c.id].context.usage for c in (one, two)} == {9_000}
        assert broken(analysis) == set()


def test_a_sub_agent_that_is_a_copy_of_its_parent_is_no_compaction() -> None:
    app = App(**{"gen_ai.conversation.id": "s"})
    root = app.span("invoke_agent", 0, length=100)
    history = [said("system", PAD)]
    for i in range(4):
        history = [*history, said("user", f"Step {i}: {PAD}"), said("assistant", f"Done {i}.")]
    history = [*history, said("user", "Now compare the policies.")]
    ask = asked("task", "c1", q="read policy 1")
    app.call(1, history, ask, defs=tools("task"), parent=root)
    tool = app.span("execute_tool", 3, length=20, parent=root)
    agent = app.span("invoke_agent", 4, length=15, parent=tool)
    app.call(
        5,
        [said("system", PAD), said("user", "Read policy 1.")],
        "It says no.",
        defs=tools("task"),
        parent=agent,
    )
    app.call(30, [*history, ask, result("c1", "It says no.")], "No.", defs=tools("task"), parent=root)

    analysis = analysed(app.spans)
    main, sub = analysis.conversations
    assert [r.relation for r in analysis.readings] == ["joined", "new", "continues"]
    assert (len(main.calls), len(sub.calls), sub.parent) == (2, 1, main.id)
    assert broken(analysis) == set()


# ---- forks, repeats, rewritten and compacted histories


def test_another_question_at_the_same_place_is_a_fork() -> None:
    app = App()
    first = [said("user", "Name a colour.")]
    app.call(0, first, "Red.")
    app.call(10, [*first, said("assistant", "Red."), said("user", "Another?")], "Blue.")
    app.call(20, [*first, said("assistant", "Red."), said("user", "A number?")], "One.")

    assert story(app.spans) == [(1, "new", None, 1), (1, "continues", 1, 2), (3, "forks", 1, 1)]
    analysis = analysed(app.spans)
    assert analysis.conversations[1].parent == analysis.conversations[0].id
    assert broken(analysis) == set()


def test_a_retry_after_an_error_repeats_the_call() -> None:
    app = App()
    first = [said("user", "Name a colour.")]
    again = [*first, said("assistant", "Red."), said("user", "Another?")]
    app.call(0, first, "Red.")
    app.call(10, again, None, error="RateLimitError")
    app.call(12, again, "Blue.", trace=2)
    app.call(20, [*again, said("assistant", "Blue."), said("user", "And?")], "Pink.", trace=3)

    assert story(app.spans) == [
        (1, "new", None, 1),
        (1, "continues", 1, 2),
        (1, "repeats", 2, 2),
        (1, "continues", 3, 3),
    ]
    assert broken(analysed(app.spans)) == set()


def test_another_question_after_an_error_is_no_fork() -> None:
    app = App()
    first = [said("user", "Name a colour.")]
    app.call(0, first, "Red.")
    app.call(10, [*first, said("assistant", "Red."), said("user", PAD)], None, error="BadRequestError")
    app.call(20, [*first, said("assistant", "Red."), said("user", "Another?")], "Blue.")

    assert [(c, relation) for c, relation, *_ in story(app.spans)] == [
        (1, "new"),
        (1, "continues"),
        (1, "continues"),
    ]


def test_an_answer_that_is_made_once_more_repeats_the_call() -> None:
    app = App()
    first = [said("user", "Name a colour.")]
    again = [*first, said("assistant", "Red."), said("user", "Another?")]
    app.call(0, first, "Red.")
    app.call(10, again, "Blue.")
    app.call(20, again, "Pink.")
    app.call(30, [*again, said("assistant", "Pink."), said("user", "And?")], "Grey.")

    assert story(app.spans) == [
        (1, "new", None, 1),
        (1, "continues", 1, 2),
        (1, "repeats", 2, 2),
        (1, "continues", 3, 3),
    ]


def edited(at: int, form: str) -> Analysis:
    """A dialogue of four turns, and a fifth in whose history the question ``at`` has another form."""
    app = App()
    dialogue(app, 0, 4)
    history = [said("system", PAD)]
    for i in range(5):
        question = f"Question {i} about my parcel, please?"
        history.append(said("user", form.format(question) if i == at else question))
        if i < 4:
            history.append(said("assistant", f"Answer {i} on parcel."))
    app.call(50, history)
    return analysed(app.spans)


def test_a_history_whose_beginning_changed_is_rewritten() -> None:
    analysis = edited(0, "[note] {}")
    last = analysis.readings[-1]
    assert (last.relation, number(last.previous), last.turn) == ("rewrites", 4, 5)
    assert last.break_ is not None
    assert (last.break_.path, last.break_.change) == ("messages[1].parts[0]", "modified")
    assert len(analysis.conversations) == 1


def test_a_history_that_was_edited_in_its_middle_is_rewritten_not_forked() -> None:
    """Its beginning is that of an earlier call too: that it says again what came later tells which one it continues."""
    last = edited(1, "{} [edited]").readings[-1]
    assert (last.relation, number(last.previous), last.turn) == ("rewrites", 4, 5)
    assert last.break_ is not None
    assert last.break_.path == "messages[3].parts[0]"


@pytest.mark.parametrize("told", ["Blue, as the sea.", "ok"], ids=["answer", "another answer told"])
def test_a_last_answer_that_is_rewritten_with_the_same_words_behind_it_is_no_fork(told: str) -> None:
    app = App(**{"gen_ai.conversation.id": "a"})
    first = [said("user", "Name a colour.")]
    behind = [said("user", f"Another? {PAD}")]
    app.call(0, first, "Red, as a rose.")
    app.call(10, [*first, said("assistant", "Red, as a rose."), *behind], told)
    more = [*behind, said("assistant", "Blue, as the sea."), said("user", "And?")]
    app.call(20, [*first, said("assistant", "Red."), *more])

    analysis = analysed(app.spans)
    last = analysis.readings[-1]
    assert (last.relation, number(last.previous), last.turn) == ("rewrites", 2, 3)
    assert last.break_ is not None
    assert last.break_.path == "messages[1].parts[0]"
    assert len(analysis.conversations) == 1


def test_the_same_words_behind_another_answer_are_a_fork() -> None:
    """Drafts that are judged beside each other: none says again what was answered to another."""
    app = App()
    first = [said("user", "Name a colour.")]
    app.call(0, first, "Red.")
    for i, draft in enumerate(("Red.", "Blue.", "Grey.")):
        app.call(
            10 + 10 * i, [*first, said("assistant", draft), said("user", f"Judge it. {PAD}")], f"Mark {i}."
        )
    judged = [
        *first,
        said("assistant", "Blue."),
        said("user", f"Judge it. {PAD}"),
        said("assistant", "Mark 1."),
    ]
    app.call(50, [*judged, said("user", "Why?")])

    assert [(c, relation, p) for c, relation, p, _ in story(app.spans)] == [
        (1, "new", None),
        (1, "continues", 1),
        (3, "forks", 1),
        (4, "forks", 1),
        (3, "continues", 3),
    ]


def test_a_note_that_only_the_first_request_had_is_no_new_history() -> None:
    app = App()
    app.call(0, [said("user", "Where is my parcel?"), said("user", "It is noon.")], "On its way.")
    app.call(
        10,
        [
            said("user", "Where is my parcel?"), said("assistant", "On its way."), said("user", "Thanks!"),
            said("user", "It is later."),
        ],
    )  # fmt: skip

    assert story(app.spans) == [(1, "new", None, 1), (1, "rewrites", 1, 2)]


def test_a_summary_in_the_place_of_the_history_is_compacted() -> None:
    app = App()
    dialogue(app, 0, 6, session="s", topic="parcel " * 30, defs=tools("find"))
    app.call(
        100,
        [said("system", PAD), said("user", "Summary of what was said: the parcel is on its way. Go on.")],
        session="s",
        defs=tools("find"),
    )
    last = analysed(app.spans).readings[-1]
    assert (last.relation, number(last.previous), last.turn) == ("compacted", 6, 7)


@pytest.mark.parametrize("system", [PAD, PAD * 20], ids=["short", "long"])
@pytest.mark.parametrize("answered", [True, False])
def test_a_long_system_prompt_hides_no_compaction(system: str, answered: bool) -> None:
    """The window is hardly smaller, the history is."""
    app = App()
    dialogue(app, 0, 6, topic="parcel " * 30, defs=tools("find"), system=system)
    reply = [said("assistant", "Understood. I continue from here."), said("user", "Go on.")]
    summary = said("user", "Summary of what was said: the parcel is on its way.")
    app.call(100, [said("system", system), summary, *(reply if answered else ())], defs=tools("find"))

    last = analysed(app.spans).readings[-1]
    assert (last.relation, number(last.previous)) == ("compacted", 6)


def test_a_new_task_with_the_same_long_system_prompt_is_new() -> None:
    app = App()
    dialogue(app, 0, 6, topic="parcel " * 30, defs=tools("find"), system=PAD * 20)
    app.call(100, [said("system", PAD * 20), said("user", "Hello, a word?")], defs=tools("find"))

    assert analysed(app.spans).readings[-1].relation == "new"


SUMMARY = (
    "\n\n# Summary of the conversation so far\n"
    + "The parcel is on its way and will be there on Monday. " * 5
)


@pytest.mark.parametrize("apart", [True, False], ids=["instructions", "first message"])
@pytest.mark.parametrize("turns", [2, 6])
def test_a_summary_in_the_system_prompt_is_compacted_where_the_session_is_the_same(
    apart: bool, turns: int
) -> None:
    """Tools outweigh the history, and no message is left: the session's id and the summary's own words are enough."""
    many = tools(*(f"find_{i}" for i in range(40)))
    app = App(
        **({"gen_ai.system_instructions": json.dumps([{"type": "text", "content": PAD}])} if apart else {})
    )
    dialogue(app, 0, turns, session="s", system=None if apart else PAD, defs=many)
    for i, (at, summary) in enumerate(((100, SUMMARY), (200, SUMMARY.replace("Monday", "Friday")))):
        system = [{"type": "text", "content": PAD + summary}]
        app.call(
            at,
            [*([] if apart else [said("system", PAD + summary)]), said("user", "Go on.")],
            session="s",
            defs=many,
            **({"gen_ai.system_instructions": json.dumps(system)} if apart else {}),
        )
        app.call(
            at + 10,
            [
                *([] if apart else [said("system", PAD + summary)]),
                said("user", "Go on."),
                said("assistant", "ok"),
                said("user", f"Further {i}."),
            ],
            session="s",
            defs=many,
            **({"gen_ai.system_instructions": json.dumps(system)} if apart else {}),
        )

    assert [(r[1], r[2]) for r in story(app.spans)[-4:]] == [
        ("compacted", turns),
        ("continues", turns + 1),
        ("compacted", turns + 2),
        ("continues", turns + 3),
    ]
    analysis = analysed(app.spans)
    assert [r.findings[0] for r in analysis.readings if r.relation == "compacted"] == ["compaction"] * 2
    assert broken(analysis) == {"compaction"}
    assert len(analysis.conversations) == 1


def test_a_summary_that_is_as_long_as_the_history_is_compacted_where_the_session_is_the_same() -> None:
    text = "This session is being continued from a previous conversation that ran out of context."
    for session, relation in (("s", "compacted"), ("t", "new")):
        app = App()
        dialogue(app, 0, 3, session="s", defs=tools("find"))
        app.call(
            100,
            [said("system", PAD), said("user", f"{text} {PAD}")],
            session=session,
            defs=tools("find"),
        )
        assert story(app.spans)[-1][1] == relation


@pytest.mark.parametrize(
    ("system", "first"),
    [
        ("Write a title of five words for what follows.", "Where is my parcel?"),
        ("You route questions: answer with the name of an agent.", "Where is my parcel?"),
        ("You sum up.", "Write a summary of the conversation: my parcel was late."),
        (PAD, "Give me a summary of the session of parliament in May."),
    ],
    ids=["title", "router", "summary", "another task"],
)
def test_who_only_shares_the_session_is_no_compaction(system: str, first: str) -> None:
    """One-shot calls of an application bear the session's id too."""
    app = App()
    dialogue(app, 0, 2 if system == PAD else 6, session="s", topic="parcel " * 30)
    app.call(100, [said("system", system), said("user", first)], session="s")

    analysis = analysed(app.spans)
    assert analysis.readings[-1].relation == "new"
    assert broken(analysis) == set()


def test_a_first_question_that_is_rewritten_is_known_by_its_answer_and_the_session() -> None:
    """What was looked up for a question stands in front of it once, and is taken out of it in the next call."""
    app = App()
    for session, trace in (("s", 1), ("t", 2)):
        at = trace * 100
        app.call(
            at, [said("user", f"<docs>{PAD}</docs> Where is it?")], "Here.", session=session, trace=trace
        )
        app.call(
            at + 10,
            [said("user", "Where is it?"), said("assistant", "Here."), said("user", f"<docs>{PAD}</docs> And now?")],
            session=session,
            trace=trace + 10,
        )  # fmt: skip
    assert story(app.spans) == [
        (1, "new", None, 1), (1, "rewrites", 1, 2), (3, "new", None, 1), (3, "rewrites", 3, 2),
    ]  # fmt: skip
    assert broken(analysed(app.spans)) & {"prefix_changed", "volatile_prefix"}


def test_an_answer_in_common_is_no_history_in_common() -> None:
    """Without a session or trace that says so, and between agents, an equal answer is chance."""
    app = App()
    app.call(0, [said("user", "Where is it?")], "Here.", trace=1)
    rest = [said("assistant", "Here."), said("user", "And now?")]
    app.call(10, [said("user", "Where is she?"), *rest], trace=2)
    app.call(20, [said("user", "Who is it?")], "Here.", trace=3, session="s", agent="a")
    app.call(
        30,
        [said("user", "Who was it?"), rest[0], said("user", "And who else?")],
        trace=3,
        session="s",
        agent="b",
    )

    assert [r[1] for r in story(app.spans)] == ["new", "joined", "new", "joined"]


def test_another_sessions_history_is_never_compacted() -> None:
    app = App()
    dialogue(app, 0, 6, session="s", topic="parcel " * 30)
    app.call(100, [said("system", PAD), said("user", "Hello.")], session="t")

    assert analysed(app.spans).readings[-1].relation == "new"


# ---- what was seen late, or not whole


def test_a_first_call_that_carries_history_is_joined_not_new() -> None:
    app = App()
    app.call(0, [said("user", "Name a colour."), said("assistant", "Red."), said("user", "Another?")])
    analysis = analysed(app.spans)
    assert analysis.readings[0].relation == "joined"
    assert analysis.conversations[0].joined is True


def test_a_history_on_the_server_that_nobody_saw_is_joined() -> None:
    app = App()
    app.call(0, [said("user", "And now?")], reported=40_000, **{"gen_ai.request.previous_response_id": "r0"})
    assert analysed(app.spans).readings[0].relation == "joined"


def test_an_answer_that_no_call_gave_is_a_gap() -> None:
    app = App()
    history = [said("user", "Name a colour.")]
    app.call(0, history, "Red.")
    history = [
        *history,
        said("assistant", "Red."),
        said("user", "Another?"),
        said("assistant", "Blue."),
        said("user", "And?"),
    ]
    app.call(10, history)

    analysis = analysed(app.spans)
    assert [(r.relation, r.gap) for r in analysis.readings] == [("new", False), ("continues", True)]
    assert analysis.conversations[0].gaps == 1
    assert broken(analysis) == set()


def test_an_answer_of_which_one_part_is_recorded_otherwise_is_no_gap() -> None:
    """Thinking that the next prompt bears beside the same words: one turn of the model, whatever of it was recorded."""
    app = App()
    history = [said("user", "Name a colour.")]
    app.call(0, history, "Red.")
    thought = {"type": "reasoning", "content": "It should be a warm one."}
    spoken = {"role": "assistant", "parts": [thought, {"type": "text", "content": "Red."}]}
    app.call(10, [*history, spoken, said("user", "Another?")])

    analysis = analysed(app.spans)
    assert [(r.relation, r.gap) for r in analysis.readings] == [("new", False), ("continues", False)]


def test_responses_that_name_the_one_before_are_a_conversation() -> None:
    app = App()
    app.call(0, [said("user", "Name a colour.")], "Red.", **{"gen_ai.response.id": "r1"})
    for i in (1, 2):
        app.call(
            i * 10,
            [said("user", "Another?")],
            "Blue.",
            reported=100 * i,
            trace=i + 1,
            **{"gen_ai.response.id": f"r{i + 1}", "gen_ai.request.previous_response_id": f"r{i}"},
        )
    assert story(app.spans) == [(1, "new", None, 1), (1, "continues", 1, 2), (1, "continues", 2, 3)]
    analysis = analysed(app.spans)
    assert [r.call.completeness.status for r in analysis.readings] == ["full", "partial", "partial"]
    assert broken(analysis) == set()  # what the server holds was not compared


def test_two_responses_after_one_are_a_fork() -> None:
    app = App()
    app.call(0, [said("user", "Name a colour.")], "Red.", **{"gen_ai.response.id": "r1"})
    for i, text in ((1, "Another?"), (2, "A number?")):
        app.call(i * 10, [said("user", text)], reported=100, **{"gen_ai.request.previous_response_id": "r1"})

    assert story(app.spans) == [(1, "new", None, 1), (1, "continues", 1, 2), (3, "forks", 1, 1)]


def test_without_content_ids_thread_the_calls() -> None:
    app = App()
    for i, (session, tokens) in enumerate([("s", 100), ("t", 900), ("s", 200), ("t", 950)]):
        app.call(i * 5, None, None, session=session, reported=tokens, trace=1)  # one trace for all of them

    assert [(c, relation) for c, relation, *_ in story(app.spans)] == [
        (1, "new"),
        (2, "new"),
        (1, "continues"),
        (2, "continues"),
    ]


def test_without_content_and_sessions_the_trace_threads_the_calls() -> None:
    app = App()
    for i, trace in enumerate((1, 2, 1, 2)):
        app.call(i * 5, None, None, reported=100 + i, trace=trace)
    assert [c for c, *_ in story(app.spans)] == [1, 2, 1, 2]


def limited(app: App, turns: int, kept: int) -> None:
    """A span limit drops the oldest attributes: of each prompt only the newest ``kept`` messages are left."""
    history: list[Message] = []
    for i in range(turns):
        history = [*history, said("user", f"Question {i} about my parcel, please?")]
        flat = {}
        for n, message in enumerate(history[-kept:], start=max(0, len(history) - kept)):
            flat[f"llm.input_messages.{n}.message.role"] = message["role"]
            flat[f"llm.input_messages.{n}.message.content"] = message["parts"][0]["content"]
        answer = said("assistant", f"Answer {i} on parcel.")
        app.span(
            "chat",
            i * 10,
            trace=i + 1,
            **{
                "gen_ai.operation.name": None,
                "gen_ai.provider.name": None,
                "openinference.span.kind": "LLM",
                "llm.model_name": "gpt-4o",
                **flat,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": answer["parts"][0]["content"],
            },
        )
        history = [*history, answer]


def test_a_lost_head_is_restored_from_the_call_before_and_marked() -> None:
    app = App()
    limited(app, 7, kept=7)
    spans = [
        s if i < 4 else Span(**{**{f: getattr(s, f) for f in s.__slots__}, "dropped_attributes": 5})
        for i, s in enumerate(app.spans)
    ]
    analysis = analysed(spans)
    assert len(analysis.conversations) == 1
    later = analysis.readings[-1]
    assert later.relation == "continues"
    inferred = [s.inferred for s in later.call.prompt]
    assert inferred == [True] * 6 + [False] * 7
    words = [(analysis.text(s.digest) or "").partition(" about")[0] for s in later.call.prompt]
    assert words[:4] == ["Question 0", "Answer 0 on parcel.", "Question 1", "Answer 1 on parcel."]
    assert broken(analysis) == set()
    assert later.call.completeness.status == "partial"


# ---- hand-offs, and what is no break


@pytest.mark.parametrize("named", [True, False])
def test_a_hand_off_to_another_agent_is_no_break(named: bool) -> None:
    app = App()
    agents = {
        "desk": (said("system", f"You greet people and pass them on. {PAD}"), tools("pass_on")),
        "shoes": (
            said("system", "Sell shoes: know every size, colour and price by heart."),
            tools("find", "sell"),
        ),
    }
    history: list[Message] = []
    for i, agent in enumerate(["desk", "shoes", "shoes", "desk"]):
        system, defs = agents[agent]
        history = [*history, said("user", f"Question {i}, please?")]
        app.call(i * 10, [system, *history], f"Answer {i}.", defs=defs, agent=agent if named else None)
        history = [*history, said("assistant", f"Answer {i}.")]

    analysis = analysed(app.spans)
    assert len(analysis.conversations) == 1
    assert broken(analysis) == set()


def test_an_agents_own_prompt_that_changed_over_a_hand_off_is_a_break() -> None:
    app = App()
    history: list[Message] = []
    for i, (agent, system) in enumerate(
        [("desk", f"Greet. {PAD}"), ("shoes", "Sell."), ("desk", f"Greet all. {PAD}")]
    ):
        history = [*history, said("user", f"Question {i}, please?")]
        app.call(i * 10, [said("system", system), *history], f"Answer {i}.", agent=agent)
        history = [*history, said("assistant", f"Answer {i}.")]

    last = analysed(app.spans).readings[-1]
    assert last.break_ is not None
    assert last.break_.path == "messages[0].parts[0]"


def _gates(app: App) -> list[tuple[str, str]]:
    analysis = analysed(app.spans)
    return [(v.result, v.told) for v in judge(analysis, analysis, Gates(stable_prefix=True, max_waste=0))]


_RULES = [
    f"Rule {i}: treat case {i} of the handbook with care, and answer on topic {i * 7}." for i in range(40)
]


@pytest.mark.parametrize(
    "system",
    [
        lambda i: "\n".join([f"Clock: 10:0{i}:07.", *_RULES, f"Request id: {i * 7919}"]),
        lambda i: "\n".join(
            f"[{i * 7919 + n}] {rule}" if n % 4 == 0 else rule for n, rule in enumerate(_RULES)
        ),
    ],
    ids=["both ends", "all over"],
)
@pytest.mark.parametrize("defs", [None, tools("find", "sell")], ids=["no tools", "tools"])
def test_values_in_several_places_make_no_other_agent(system: Any, defs: Any) -> None:
    app = App()
    history: list[Message] = []
    for i in range(5):
        history = [*history, said("user", f"Question {i}, please?")]
        app.call(i * 10, [said("system", system(i)), *history], f"Answer {i}.", defs=defs)
        history = [*history, said("assistant", f"Answer {i}.")]

    analysis = analysed(app.spans)
    assert len(analysis.conversations) == 1
    assert [r.break_.path if r.break_ else None for r in analysis.readings] == [
        None,
        *["messages[0].parts[0]"] * 4,
    ]
    result, _ = _gates(app)[0]
    assert result == "fail"


def test_a_system_prompt_that_was_cut_tells_no_agents_apart() -> None:
    whole = [f"Clock: 10:0{i}:07. " + " ".join(_RULES) for i in range(4)]
    app = App()
    history: list[Message] = []
    for i, cut in enumerate((1500, 900, 1210, 400)):
        history = [*history, said("user", f"Question {i}, please?")]
        parts = json.dumps([{"type": "text", "content": whole[i]}])[:cut]
        app.call(i * 10, history, f"Answer {i}.", **{"gen_ai.system_instructions": parts})
        history = [*history, said("assistant", f"Answer {i}.")]

    assert {frozenset(r.call.completeness.lost) for r in analysed(app.spans).readings} == {
        frozenset({"system"})
    }
    result, told = _gates(app)[0]
    assert (result, told[:12]) == ("not_checked", "3 of 4 calls")


@pytest.mark.parametrize(
    ("named", "result", "told"),
    [
        (True, "pass", "2 pairs compared"),
        (False, "not_checked", "3 of 5 calls: the system prompt is another one than before"),
    ],
)
def test_a_hand_off_is_no_pair_that_was_compared(named: bool, result: str, told: str) -> None:
    app = App()
    agents = {
        "desk": (said("system", f"You greet people and pass them on. {PAD}"), tools("pass_on")),
        "shoes": (said("system", "Sell shoes: know every size and price by heart."), tools("find", "sell")),
        "hats": (said("system", "A hat is sold by its brim alone, say so first."), tools("measure")),
    }
    history: list[Message] = []
    for i, agent in enumerate(["desk", "shoes", "shoes", "hats", "desk"]):
        system, defs = agents[agent]
        history = [*history, said("user", f"Question {i}, please?")]
        app.call(i * 10, [system, *history], f"Answer {i}.", defs=defs, agent=agent if named else None)
        history = [*history, said("assistant", f"Answer {i}.")]

    (found, words), (waste, _) = _gates(app)
    assert (found, waste) == (result, result)
    assert told in words


def test_a_marker_that_rolls_on_is_no_break() -> None:
    app = App()
    history: list[Message] = []
    for i in range(4):
        history = [*history, {"role": "user", "content": [{"type": "text", "text": f"Question {i}. {PAD}"}]}]
        marked = json.loads(json.dumps(history))
        marked[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
        app.call(i * 10, marked, f"Answer {i}.")
        history = [*history, {"role": "assistant", "content": [{"type": "text", "text": f"Answer {i}."}]}]

    analysis = analysed(app.spans)
    assert len(analysis.conversations) == 1
    assert broken(analysis) == set()
    assert [r.break_ for r in analysis.readings] == [None] * 4
    assert [sum(bool(s.cache_marker) for s in r.call.prompt) for r in analysis.readings] == [1] * 4


def test_a_value_that_changes_only_in_the_newest_message_is_no_break() -> None:
    app = App()
    history: list[Message] = []
    for i in range(4):
        history = [*history, said("user", f"[2026-03-0{i + 1}T10:0{i}:00Z] Question {i}, please?")]
        app.call(i * 10, history, f"Answer {i}.")
        history = [*history, said("assistant", f"Answer {i}.")]

    analysis = analysed(app.spans)
    assert broken(analysis) == set()


def test_a_break_is_located_to_the_character_with_what_stood_behind_it() -> None:
    app = App()
    for i in range(2):
        history = [said("system", f"It is {3 + i}:07 PM. {PAD}"), said("user", "Name a colour.")]
        app.call(i * 10, [*history, said("assistant", "ok"), said("user", "More?")][: 2 + 2 * i])

    first, second = analysed(app.spans).readings
    at = second.break_
    assert at is not None
    assert (at.path, at.kind, at.change, at.char_offset, at.index) == (
        "messages[0].parts[0]",
        "system",
        "modified",
        6,
        0,
    )
    assert at.tokens == round(sum(s.tokens or 0 for s in first.call.prompt) * second.tokens.factor)


def test_a_system_prompt_that_moves_into_the_messages_is_no_break() -> None:
    """One library has it apart, another as the first message; a call may be told by either."""
    app = App()
    system = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": PAD}])}
    history = [said("user", "One?"), said("assistant", "ok"), said("user", "Two?")]
    app.call(0, [said("system", PAD), *history[:1]])
    app.call(10, history, **system)
    history += [said("assistant", "ok"), said("user", "Three?")]
    app.call(20, [said("system", PAD), *history])
    system = {"gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"{PAD} Now."}])}
    app.call(30, [*history, said("assistant", "ok"), said("user", "Four?")], **system)

    readings = analysed(app.spans).readings
    assert [(r.shared, r.break_ and r.break_.kind) for r in readings[1:3]] == [(2, None), (4, None)]
    assert readings[3].break_ is not None
    assert readings[3].break_.kind == "system"


def test_what_was_lost_is_not_compared() -> None:
    app = App()
    dialogue(app, 0, 2)
    cut = app.spans[1]
    attributes = dict(cut.attributes)
    attributes["gen_ai.input.messages"] = str(attributes["gen_ai.input.messages"]).replace(
        "Question 0", "Query 0"
    )[:-60]
    spans = [app.spans[0], Span(**{**{f: getattr(cut, f) for f in cut.__slots__}, "attributes": attributes})]

    analysis = analysed(spans)
    assert [r.break_ for r in analysis.readings] == [None, None]
    assert broken(analysis) == set()


# ---- a value in the first question


@pytest.mark.parametrize(
    ("sessions", "second", "relations"),
    [
        (("s", "s"), "Request 2", ["new", "rewrites"]),
        (("s", "t"), "Request 2", ["new", "joined"]),
        ((None, None), "Request 2", ["new", "joined"]),
        (("s", "s"), "Something else altogether, and no word of the order", ["new", "joined"]),
    ],
    ids=["one session", "two sessions", "no session", "another question"],
)
def test_a_first_question_with_a_value_that_changes_is_continued_in_its_session(
    sessions: tuple[str | None, str | None], second: str, relations: list[str]
) -> None:
    app = App()
    asked = "{}: where is order 7, and when will it be here, as it should have come on Monday? "
    later = asked.format(second) if second == "Request 2" else second
    app.call(0, [said("user", asked.format("Request 1"))], None, session=sessions[0])
    history = [said("user", later), said("assistant", "On its way."), said("user", "Thanks, and order 8?")]
    app.call(10, history, session=sessions[1], trace=2)
    readings = analysed(app.spans).readings

    assert [r.relation for r in readings] == relations
    assert len({r.conversation for r in readings}) == len(set(relations) - {"rewrites"})


# ---- small questions


@pytest.mark.parametrize(
    ("a", "b", "n"),
    [("", "", 0), ("a", "", 0), ("ab", "ab", 2), ("abc", "abd", 2), ("abcx", "abcyz", 3), ("x", "y", 0)],
)
def test_common_prefix(a: str, b: str, n: int) -> None:
    assert common_prefix(a, b) == common_prefix(b, a) == n


def test_shared_segments_are_counted_from_the_start() -> None:
    app = App()
    dialogue(app, 0, 3)
    readings = analysed(app.spans).readings
    assert [r.shared for r in readings] == [0, 2, 4]
    one, three = readings[0].call.prompt, readings[2].call.prompt
    assert shared_segments(one, three) == shared_segments(three, one) == 2


# ---- causality


def figures(reading: Reading) -> tuple[Any, ...]:
    return (
        reading.conversation,
        reading.turn,
        reading.relation,
        reading.previous,
        reading.shared,
        reading.context,
        reading.tokens,
        reading.break_,
        reading.findings,
        reading.gap,
        reading.call.completeness,
        reading.call.usage,
        [(s.path, s.digest, s.tokens) for s in reading.call.prompt],
    )


def test_later_calls_change_nothing_of_earlier_ones() -> None:
    app = App()
    dialogue(app, 0, 4, session="s")
    dialogue(app, 1, 4, topic="shoes", system=f"At 3:07:42 PM. {PAD}")
    f15(app)
    app.call(70, [said("user", "Name a colour.")], None, error="RateLimitError")
    app.call(75, [said("user", "Name a colour.")])
    app.call(80, [said("system", PAD), said("user", "Summary: all is well.")], session="s")
    whole = {r.call.id: figures(r) for r in analysed(app.spans).readings}
    ends = sorted(s.start_unix_nano for s in app.spans)

    for cut in ends[2::4]:
        # a tree is known when its root has come; spans that are sums have no start of their own here
        some = [
            s for s in app.spans if s.start_unix_nano < cut or s.attributes["gen_ai.operation.name"] != "chat"
        ]
        for r in analysed(some).readings:
            assert figures(r) == whole[r.call.id]
