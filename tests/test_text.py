"""The terminal report: what it says, what it never says, and that it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_ctx.model import (
    KIND_INDEX,
    KINDS,
    Access,
    Analysis,
    Band,
    Break,
    Call,
    Chain,
    Completeness,
    Context,
    Conversation,
    Cost,
    Finding,
    Kind,
    NotChecked,
    Prompt,
    Reading,
    Section,
    Segment,
    Tokens,
    Usage,
)
from otel_ctx.outputs.escape import cells, escape
from otel_ctx.outputs.report import Inputs, Source
from otel_ctx.outputs.text import plain, render
from otel_ctx.outputs.text.layout import clip_path, paragraph, percent, period, spans_of, wrap

FULL = Completeness("full")
NOT_REPORTED = Usage()
NOON = 1_800_000_000_000_000_000


# ---- building


class Builder:
    """Analyses by hand: texts are kept by digest, as the engine does it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.readings: list[Reading] = []
        self.conversations: list[Conversation] = []

    def segment(self, kind: Kind, path: str, text: str, tokens: int | None = None, name: str = "") -> Segment:
        digest = blake2b(f"{kind}{name}{text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self.texts[digest] = text
        size = len(text.encode("utf-8", "surrogatepass"))
        return Segment(kind, "", name, path, size, tokens, "exact", digest)

    def call(
        self,
        id_: str,
        *,
        segments: Sequence[Segment] = (),
        usage: Usage = NOT_REPORTED,
        tokens: Tokens | None = None,
        context: Mapping[str, Any] = {},
        turn: int = 1,
        conversation: str = "",
        break_: Break | None = None,
        completeness: Completeness = FULL,
        **more: Any,
    ) -> Reading:
        tools = Section(s for s in segments if s.kind == "tools")
        system = Section(s for s in segments if s.kind == "system")
        messages = tuple(s for s in segments if s.kind not in ("tools", "system"))
        sums = [0] * len(KINDS)
        for s in messages:
            sums[KIND_INDEX[s.kind]] += s.tokens or 0
        chain = Chain(None, messages, len(messages), len(messages), b"", (), tuple(sums), 0, None, 0, 0)
        counted = sum(s.tokens or 0 for s in segments)
        call_fields: dict[str, Any] = {
            "id": id_, "spans": (), "trace_id": id_.split(":")[0], "parent_id": "", "dialect": "genai", "scope": "",
            "scope_version": "", "service": "shop", "agent": "", "operation": "chat", "status": "ok", "error": "",
            "provider": "openai", "platform": "", "model": "gpt-x", "response_id": "", "previous_response_id": "",
            "conversation_hint": "", "start_unix_nano": NOON + turn * 10**9, "end_unix_nano": NOON + (turn + 1) * 10**9,
            "first_token_unix_nano": None, "completeness": completeness, "usage": usage,
            "prompt": Prompt(tools, system, chain), "answer": (), "reserve": None, "limit": None,
        }  # fmt: skip
        seen: dict[str, Any] = {
            "usage": usage.input, "usage_method": "exact", "limit": 10_000, "limit_source": "rules", "reserve": 0,
            "utilization": None, "headroom": None, "headroom_turns": None, "growth": None, "band": "ok",
        }  # fmt: skip
        unaccounted = None if usage.input is None else usage.input - counted
        reading = Reading(
            Call(**{**call_fields, **more}), conversation or id_, turn, "continues" if turn > 1 else "new",
            "before" if turn > 1 else None, 0, Context(**{**seen, **context}),
            tokens or Tokens(counted, unaccounted, None, "exact"), break_,
        )  # fmt: skip
        self.readings.append(reading)
        return reading

    def converse(self, *readings: Reading, parent: str | None = None, **more: Any) -> Conversation:
        last, usages = readings[-1], [r.context.usage for r in readings if r.context.usage is not None]
        fields: dict[str, Any] = {
            "id": readings[0].call.id, "parent": parent, "calls": tuple(r.call.id for r in readings),
            "services": ("shop",), "agents": (), "models": ("gpt-x",), "usage_peak": max(usages, default=None),
            "usage_last": usages[-1] if usages else None, "limit": last.context.limit,
            "headroom": last.context.headroom, "headroom_turns": last.context.headroom_turns,
            "band": last.context.band, "gaps": 0, "joined": False,
        }  # fmt: skip
        conversation = Conversation(**{**fields, **more})
        self.conversations.append(conversation)
        return conversation

    def analysis(self, **more: Any) -> Analysis:
        fields: dict[str, Any] = {
            "readings": tuple(self.readings), "conversations": tuple(self.conversations), "findings": (),
            "not_checked": (), "spans": len(self.readings), "log_records": 0, "orphans": 0, "unassigned_bytes": 0,
            "foreign": (), "text": self.texts.get,
        }  # fmt: skip
        return Analysis(**{**fields, **more})


INPUTS = Inputs((Source("dump.jsonl", "otlp-json", 1, 0),), ())


def shown(analysis: Analysis, inputs: Inputs = INPUTS, **options: Any) -> str:
    return "\n".join(plain(line) for line in render(analysis, inputs, **options))


def finding(**more: Any) -> Finding:
    fields: dict[str, Any] = {
        "kind": "prefix_changed", "severity": "warning", "title": "The prefix changed", "detail": "It did.",
        "fix": "Keep it.", "calls": ("a:1",),
    }  # fmt: skip
    return Finding(**{**fields, **more})


def one_call(**more: Any) -> Builder:
    b = Builder()
    b.converse(b.call("a:1", **{"usage": Usage(input=1234, cache_read=0, output=5), **more}))
    return b


# ---- the head


def test_the_head_says_what_was_read_and_what_it_used() -> None:
    b = Builder()
    first = b.call("a:1", usage=Usage(input=1_000, cache_read=0, output=10))
    second = b.call("a:2", usage=Usage(input=4_096, cache_read=900, output=20), turn=2, conversation="a:1")
    b.converse(first, second)

    head = shown(b.analysis(spans=5, log_records=3)).splitlines()[:3]

    assert head == [
        "1 file · 5 spans · 3 log records · 2 calls · 1 conversation",
        "2027-01-15 08:00:01–08:00:03 UTC",
        "tokens in 5,096 · cached 900 (18%) · out 30",
    ]


def test_what_was_not_reported_is_a_dash_never_zero() -> None:
    b = one_call(usage=Usage(), context={"limit": None, "band": "unknown"})

    text = shown(b.analysis())

    assert "tokens in – · cached – · out – · reported by 0 of 1 call" in text
    assert "depth unknown: no usage reported" in text
    assert "limit unknown (--limit gpt-x=TOKENS)" in text


def test_usage_of_a_call_that_failed_is_usage_all_the_same() -> None:
    b = one_call(status="error", context={"usage": 1234, "limit": None, "band": "unknown"})
    (conversation,) = b.conversations
    b.conversations[:] = [replace(conversation, usage_last=None)]

    text = shown(b.analysis())

    assert "tokens in 1,234" in text
    assert "depth unknown: known of failed calls only" in text
    assert "no usage reported" not in text


def test_who_tells_nothing_of_the_cache_is_named() -> None:
    silent = one_call(usage=Usage(input=1234, output=5), scope="ai")

    assert "Prompt cache" in shown(silent.analysis())
    assert "  not reported by ai (1 call)" in shown(silent.analysis()).splitlines()
    assert "not reported by" not in shown(one_call().analysis())


def test_a_cost_is_a_range_where_the_cache_was_not_reported() -> None:
    """What is billed again is then a prediction, and is called one."""
    calls = [
        one_call(usage=Usage(input=1234, cache_read=read, output=5))
        .readings[0]
        ._replace(
            cost=Cost(0.071, low, 0.071, "table", {}, 0.01, 0.0, {"volatile_prefix": 0.01}),
            losses=(("volatile_prefix", 400),),
            access=Access(None, None, None, "miss", 400, 0, read is None, 400, "", "", "predicted"),
        )
        for read, low in ((None, 0.037), (0, 0.071))
    ]
    texts = []
    for call in calls:
        b = one_call()
        found = (finding(kind="volatile_prefix", tokens=400, usd=0.01, evidence="predicted"),)
        texts.append(shown(replace(b.analysis(findings=found), readings=(call,))))

    assert "$0.037 to $0.071 at list price" in texts[0]
    assert "400 tokens billed again, $0.010 more than reading them (predicted)" in texts[0]
    assert "400 tokens · $0.010 · predicted · 1 call" in texts[0]
    assert "$0.071 at list price" in texts[1]
    assert " to $0.071" not in texts[1]
    assert "predicted" not in texts[1]


def test_an_input_without_calls_says_so() -> None:
    text = shown(Builder().analysis(spans=7))

    assert text.splitlines() == [
        "1 file · 7 spans · 0 calls · 0 conversations",
        "",
        "No model call in this input.",
    ]


def test_nothing_is_said_to_be_clean_that_was_not_seen() -> None:
    clean = one_call().analysis()
    cut = one_call(completeness=Completeness("partial", ("value_cut",))).analysis()
    unchecked = one_call().analysis(not_checked=(NotChecked("prefix_changed", "not captured", ("a:1",)),))

    assert shown(clean).endswith("\nNothing found.")
    assert shown(cut).endswith("\nNothing found in what could be seen.")
    assert shown(unchecked).endswith("\nNothing found in what could be seen.")
    assert shown(clean, Inputs((), (("dump:3", "not JSON"),))).endswith(
        "\nNothing found in what could be seen."
    )


def test_what_is_ignored_is_told() -> None:
    ignored = (("compaction", 1), ("unknown_dialect", 0), ("volatile_prefix", 3))
    words = "ignored compaction (1 call), unknown_dialect, volatile_prefix (3 calls)"

    nothing = shown(one_call().analysis(ignored=ignored)).splitlines()
    one = shown(one_call().analysis(ignored=ignored, findings=(finding(),))).splitlines()

    assert nothing[-2:] == [words, "Nothing else found."]
    assert one[-2:] == ["1 warning", words]


# ---- conversations


def conversation(b: Builder, id_: str, band: Band, usage: int, agent: str, parent: str | None = None) -> None:
    reading = b.call(id_, usage=Usage(input=usage), context={"band": band})
    b.converse(reading, agents=(agent,), parent=parent)


def order(text: str, *names: str) -> list[str]:
    return sorted(names, key=text.index)


def test_the_most_urgent_conversation_comes_first_then_the_deepest() -> None:
    b = Builder()
    conversation(b, "a:1", "ok", 9_000, "calm-deep")
    conversation(b, "b:1", "ok", 100, "calm-flat")
    conversation(b, "c:1", "low", 10, "filling")
    conversation(b, "d:1", "critical", 5, "burning")

    text = shown(b.analysis(), verbose=1)

    names = ("burning", "filling", "calm-deep", "calm-flat")
    assert order(text.partition("What fills")[0], *names) == list(names)


def test_a_sub_agent_stands_under_its_parent_and_brings_it_up() -> None:
    b = Builder()
    conversation(b, "a:1", "low", 500, "filling")
    conversation(b, "b:1", "ok", 500, "parent")
    conversation(b, "c:1", "critical", 500, "child", parent="b:1")

    lines = shown(b.analysis()).partition("What fills")[0].splitlines()

    titles = [line for line in lines if "shop ›" in line]
    assert [line.split(" · ")[0] for line in titles] == [
        "  ok        shop › parent",
        "  critical  └ shop › child",
        "  low       shop › filling",
    ]


def test_parents_in_a_circle_are_shown_all_the_same() -> None:
    b = Builder()
    conversation(b, "a:1", "ok", 500, "hen", parent="b:1")
    conversation(b, "b:1", "ok", 500, "egg", parent="a:1")
    conversation(b, "c:1", "ok", 500, "self", parent="c:1")

    text = shown(b.analysis()).partition("What fills")[0]

    assert all(f"shop › {name} · " in text for name in ("hen", "egg", "self"))


def test_a_conversation_says_how_full_it_is_and_how_soon_full() -> None:
    b = Builder()
    readings = [
        b.call(
            f"a:{turn}", turn=turn, conversation="a:1", usage=Usage(input=usage),
            context={"limit": 10_000, "headroom": 1_000, "headroom_turns": 2.9, "growth": 340.4, "band": "critical",
                     "reserve": 500, "limit_source": "setting"},
        )
        for turn, usage in ((1, 9_000), (2, 8_500))
    ]  # fmt: skip
    b.converse(*readings, joined=True, gaps=2)

    text = shown(b.analysis())

    assert "shop · gpt-x · 2 turns" in text
    assert " 85%  8,500 of 10,000 tokens" in text
    assert "1,000 left, about 2 turns, growing 340 a turn · peak 9,000" in text
    assert "limit set by --limit · 500 reserved for the answer" in text
    assert "joined: began before this input · 2 gaps: answers of no call here" in text


@pytest.mark.parametrize(
    ("turns", "words"), [(0.2, "less than one turn"), (0.9, "less than one turn"), (1.9, "about 1 turn")]
)
def test_room_for_part_of_a_turn_is_less_than_one(turns: float, words: str) -> None:
    b = Builder()
    context = {"limit": 10_000, "headroom": 200, "headroom_turns": turns, "growth": 340.0, "band": "critical"}
    b.converse(b.call("a:1", usage=Usage(input=9_800), context=context))

    assert f"200 left, {words}, growing 340 a turn" in shown(b.analysis())


def test_a_window_is_never_drawn_full_before_it_is() -> None:
    b = Builder()
    b.converse(b.call("a:1", usage=Usage(input=9_999), context={"limit": 10_000}))

    gauge = next(line for line in shown(b.analysis()).splitlines() if "of 10,000" in line)

    assert "█░ " in gauge
    assert " 99%" in gauge


def test_conversations_of_the_same_name_are_told_apart() -> None:
    b = Builder()
    for trace in ("1111", "2222"):
        reading = b.call(f"{trace}:1", usage=Usage(input=5), completeness=Completeness("full"))
        b.converse(reading)

    text = shown(b.analysis(findings=(finding(calls=("1111:1", "2222:1")),)))

    assert "turn 1 of shop #1111:1 · turn 1 of shop #2222:1" in text


def test_a_name_that_is_cut_where_it_differs_has_its_mark() -> None:
    b = Builder()
    for n, trace in enumerate(("1111", "2222"), 1):
        service = f"a-service-with-a-name-{n}-that-takes-more-than-half-of-a-line"
        b.converse(b.call(f"{trace}:1", usage=Usage(input=5), service=service), services=(service,))

    text = shown(b.analysis(findings=(finding(calls=("1111:1", "2222:1")),)), width=80)

    (first,) = (line for line in text.splitlines() if "#1111:1" in line and "turn 1 of" in line)
    (second,) = (line for line in text.splitlines() if "#2222:1" in line and "turn 1 of" in line)
    name = "turn 1 of a-service-…e-than-half-of-a-line"
    assert first.endswith(f"{name} #1111:1")
    assert second.endswith(f"{name} #2222:1")


def test_calls_that_share_a_turn_are_not_counted_as_turns() -> None:
    b = Builder()
    calls = [
        b.call(f"a:{n}", usage=Usage(input=n), turn=turn, conversation="a:1")
        for n, turn in enumerate((1, 2, 2, 3), 1)
    ]
    b.converse(*calls)

    assert " · 4 calls in 3 turns " in shown(b.analysis())


def test_long_lists_are_cut_and_v_shows_all() -> None:
    b = Builder()
    for n in range(9):
        conversation(b, f"{n}:1", "ok", 1000 - n, f"agent-{n}")

    short, long = shown(b.analysis()), shown(b.analysis(), verbose=1)

    assert "agent-3" not in short
    assert "… and 6 more conversations (-v shows all)" in short
    assert all(f"agent-{n}" in long for n in range(9))
    assert "-v shows all" not in long


def test_more_are_shown_where_more_are_urgent() -> None:
    b = Builder()
    for n in range(9):
        conversation(b, f"{n}:1", "low" if n < 5 else "ok", 1000 - n, f"agent-{n}")

    text = shown(b.analysis())

    assert "agent-4" in text
    assert "… and 4 more conversations (-v shows all)" in text


def test_v_shows_each_turn() -> None:
    b = Builder()
    first = b.call("a:1", usage=Usage(input=1_000, output=10))
    second = b.call("a:2", usage=Usage(input=4_096, cache_read=0), turn=2, conversation="a:1", status="error")
    b.converse(first, second)

    rows = shown(b.analysis(), verbose=1).splitlines()

    assert "    turn  start        in  cached  out  relation          break" in rows
    assert "       1  08:00:01  1,000       –   10  new" in rows
    assert "       2  08:00:02  4,096       0    –  continues, error" in rows


def test_v_twice_names_calls_by_their_whole_ids() -> None:
    b = Builder()
    ids = [f"{'5c6d03d2bca94e60ef4f7178575cef4'}{n}:4e5fe1d23035dbd{n}" for n in range(3)]
    b.converse(*(b.call(id_, turn=n, conversation=ids[0]) for n, id_ in enumerate(ids, 1)))

    text = shown(b.analysis(findings=(finding(calls=tuple(ids)),)), verbose=2)

    assert all(id_ in text for id_ in ids)
    assert "…" not in text


def test_an_error_brings_a_conversation_up_and_marks_it() -> None:
    b = Builder()
    for n in range(9):
        conversation(b, f"{n}:1", "ok", 1000 - n, f"agent-{n}")
    found = (
        finding(severity="error", calls=("8:1",)),
        finding(calls=("8:1",)),
        finding(severity="info", calls=("0:1",)),
    )

    lines = shown(b.analysis(findings=found)).splitlines()

    titles = [i for i, line in enumerate(lines) if line.startswith("  ok ")]
    assert "agent-8" in lines[titles[0]]
    assert "            1 error · 1 warning" in lines[titles[0] : titles[1]]
    assert not any("1 info" in line for line in lines[titles[1] : titles[2]])
    green = [
        r.text.strip()
        for line in render(b.analysis(findings=found), INPUTS)
        for r in line
        if r.style == "good"
    ]
    assert green.count("ok") == 2


def test_errors_behind_the_end_of_the_list_are_counted() -> None:
    b = Builder()
    for n in range(9):
        conversation(b, f"{n}:1", "ok", 1000 - n, f"agent-{n}")
    found = (finding(severity="error", calls=tuple(f"{n}:1" for n in range(8))),)

    assert "… and 3 more conversations, 2 with errors (-v shows all)" in shown(b.analysis(findings=found))


# ---- what fills the window


def filled(**more: Any) -> Builder:
    b = Builder()
    segments = [
        b.segment("tools", "tools[0]", "{}", 100, name="search"),
        b.segment("system", "system[0]", "be kind", 50),
        b.segment("user", "messages[0].parts[0]", "hello", 25),
        b.segment("tool_result", "messages[1].parts[0]", "found", 500),
        b.segment("tool_result", "messages[2].parts[0]", "found more", 225),
    ]
    b.converse(b.call("a:1", segments=segments, usage=Usage(input=1_000), **more))
    return b


def rows(text: str, section: str) -> list[list[str]]:
    body = text.partition(section)[2]
    return [line.split() for line in body.splitlines() if line.strip()]


def test_the_window_is_told_by_kind_and_the_rest_is_other() -> None:
    text = shown(filled().analysis())

    kinds = [[word for word in row if not word.startswith(("█", "▏", "▎", "▍", "▌", "▋", "▊", "▉"))] for row in
             rows(text, "What fills the window")[1:6]]  # fmt: skip
    assert kinds == [
        ["tool_result", "×2", "725", "72%"],
        ["tools", "100", "10%"],
        ["system", "50", "5%"],
        ["user", "25", "2%"],
        ["other", "100", "10%"],
    ]
    assert "counted exactly, with the model's own tokenizer" in text
    assert "other: reported by the provider, in no segment" in text


def test_what_is_other_in_a_prompt_seen_in_part_was_not_seen() -> None:
    text = shown(filled(completeness=Completeness("partial", ("value_cut",))).analysis())

    assert "other: reported by the provider, not seen, or framing" in text


def test_the_largest_segments_have_path_and_name() -> None:
    largest = rows(shown(filled().analysis()), "largest segments")

    assert largest[0] == ["tool_result", "500", "50%", "messages[1].parts[0]"]
    assert largest[2] == ["tools", "100", "10%", "tools[0]", "·", "search"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (Tokens(900, 100, None, "calibrated", 1.18), "scaled ×1.18 to the usage that the provider reports"),
        (Tokens(900, 100, None, "estimated"), "estimated: no tokenizer for this model"),
        (Tokens(900, 100, 80, "exact"), "80 held by the provider, not in the request"),
    ],
)
def test_the_method_is_said_in_words(tokens: Tokens, words: str) -> None:
    text = shown(filled(tokens=tokens).analysis(), width=120)

    assert words in text


def test_a_count_above_the_reported_one_is_admitted() -> None:
    b = Builder()
    segments = [b.segment("user", "messages[0]", "a", 1_200), b.segment("image", "messages[0].parts[1]", "")]
    b.converse(b.call("a:1", segments=segments, usage=Usage(input=1_000)))

    text = shown(b.analysis(), width=120)

    assert "the count is 20% above the reported 1,000" in text
    assert "1 image not counted" in text
    assert "  other " not in text


def test_a_window_whose_text_was_not_captured_is_unknown() -> None:
    b = one_call(completeness=Completeness("usage_only", ("not_captured",)))

    text = shown(b.analysis())

    assert "unknown: no call's text was captured, only its token counts" in text
    assert "calls   1 token counts only (depth and headroom rest on them)" in text
    assert "content not captured (1 call)" in text


# ---- breaks


def broken(before: str, after: str, offset: int | None, **more: Any) -> Builder:
    b = Builder()
    old = b.segment("system", "system[0]", before, 10)
    new = b.segment("system", "system[0]", after, 10)
    fields: dict[str, Any] = {
        "path": "system[0]", "kind": "system", "change": "modified", "tokens": 4_000, "char_offset": offset,
        "index": 0, "before": old, "after": new,
    }  # fmt: skip
    first = b.call("a:1", usage=Usage(input=5_000))
    turns = [
        b.call(
            f"a:{t}", usage=Usage(input=5_000), turn=t, conversation="a:1", break_=Break(**{**fields, **more})
        )
        for t in (2, 3)
    ]
    b.converse(first, *turns)
    return b


def grown_by(count: int, *, lost: int = 0, agents: Sequence[str] = ()) -> Builder:
    """A conversation of ``count`` calls after the first; of the last ``lost`` nothing but the usage was seen."""
    b = Builder()
    said = b.segment("user", "messages[0]", "hello", 5)
    turns = [b.call("a:1", segments=[said], agent=agents[0] if agents else "")]
    for n in range(1, count + 1):
        unseen = Completeness("usage_only", ("not_captured",))
        reading = b.call(
            f"a:{n + 1}", turn=n + 1, conversation="a:1", segments=[said], agent=agents[n] if agents else "",
            completeness=unseen if n > count - lost else FULL,
        )  # fmt: skip
        turns.append(reading._replace(previous=f"a:{n}", shared=1))
    b.readings[:] = turns
    b.converse(*turns)
    return b


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (grown_by(7), "\nThe prefix held in all 7 calls that continue another.\n"),
        (grown_by(1), "\nThe prefix held in the one call that continues another.\n"),
        (
            grown_by(3, lost=1),
            "\nThe prefix held in 2 of 3 calls that continue another; 1 could not be compared.\n",
        ),
        (grown_by(2, lost=2), "\nWhether the prefix held could not be checked: "),
        (grown_by(2, agents=("x", "x", "y")), "\nThe prefix held in the one call that continues another.\n"),
    ],
    ids=["all", "one", "some", "none", "hand-off"],
)
def test_a_prefix_that_held_is_said_only_of_calls_that_were_compared(b: Builder, words: str) -> None:
    assert words in shown(b.analysis())


def test_a_call_that_was_not_checked_does_not_count_as_held() -> None:
    entry = NotChecked("tools_changed", "tool definitions were not recorded", ("a:2",))

    assert "held in 1 of 2 calls" in shown(grown_by(2).analysis(not_checked=(entry,)))
    assert "prefix" not in shown(grown_by(0).analysis())


def excerpt(text: str) -> list[str]:
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("    - "))
    return lines[at : at + 3]


def test_a_break_shows_the_characters_that_differ() -> None:
    before, after = "It is 09:07.\nBe kind.", "It is 09:14.\nBe kind."
    text = shown(broken(before, after, 9).analysis())

    assert excerpt(text) == [
        r"    - It is 09:07.\nBe kind.",
        r"    + It is 09:14.\nBe kind.",
        "               ^^",
    ]
    assert "2 calls of 2 that continue another" in text
    assert "  system[0] changed at character 9\n" in text
    assert "    8,000 tokens billed again · 2 times · turns 2, 3\n" in text


def test_a_difference_of_masks_is_not_shown() -> None:
    text = shown(broken("Hello <PERSON_0>. Be kind.", "Hello <PERSON_1>. Be kind.", 14).analysis())

    assert "    masked where the texts differ\n" in text
    assert "PERSON" not in text


def test_the_difference_is_in_sight_wherever_it_is() -> None:
    before = "x" * 5_000 + "OLD" + "y" * 5_000
    after = "x" * 5_000 + "NEWER" + "y" * 5_000

    lines = excerpt(shown(broken(before, after, 5_000).analysis()))

    assert lines[0].startswith("    - …xxx")
    assert "xOLDy" in lines[0]
    assert "xNEWERy" in lines[1]
    assert lines[1].index("NEWER") == lines[0].index("OLD") == lines[2].index("^^^^^")
    assert all(len(line) <= 80 for line in lines)


def test_an_invisible_difference_is_made_visible() -> None:
    lines = excerpt(shown(broken("a\u00a0b", "a b", 1).analysis()))

    assert lines[0] == r"    - a\xa0b"
    assert lines[1] == "    + a b"


def test_without_show_text_no_text_is_shown() -> None:
    b = broken("SECRET one", "SECRET two", 7)
    analysis = b.analysis(findings=(finding(excerpt="'SECRET' -> 'x'"),))

    text = shown(analysis, show_text=False, verbose=2)

    assert "SECRET" not in text
    assert "changed at character 7" in text
    assert "SECRET" in shown(analysis)


@pytest.mark.parametrize(
    ("change", "signs"),
    [("added", ["+"]), ("removed", ["-"]), ("reordered", ["-", "+"]), ("modified", ["-", "+"])],
)
def test_what_came_went_or_moved_is_sampled(change: str, signs: list[str]) -> None:
    text = shown(broken("old one", "new one", None, change=change).analysis())

    assert [line[4] for line in text.splitlines() if line.startswith(("    - ", "    + "))] == signs


def test_a_text_that_is_no_longer_kept_is_no_fault() -> None:
    b = broken("one", "two", 0)
    b.texts.clear()

    text = shown(b.analysis())

    assert "system[0] changed at character 0" in text
    assert "    - " not in text


def test_breaks_at_the_moving_end_are_one_entry() -> None:
    b = Builder()
    readings = [b.call("a:1", usage=Usage(input=5))]
    for turn in (2, 3, 4):
        path = f"messages[{turn * 2}].parts[0]"
        segment = b.segment("assistant", path, f"answer {turn}", 5)
        at = Break(path, "assistant", "removed", 100, None, 3, segment, None)
        readings.append(b.call(f"a:{turn}", usage=Usage(input=5), turn=turn, conversation="a:1", break_=at))
    b.converse(*readings)

    text = shown(b.analysis())

    assert "messages[4].parts[0] … messages[8].parts[0] assistant gone" in text
    assert "300 tokens billed again · 3 times · turns 2–4" in text


# ---- findings


def test_findings_come_by_severity_and_cost() -> None:
    found = (
        finding(severity="info", title="Third", tokens=9_000),
        finding(severity="warning", title="Second", tokens=10),
        finding(severity="warning", title="First", tokens=1_234, path="tools[1]"),
    )

    text = shown(one_call().analysis(findings=found))

    assert order(text, "First", "Second", "Third") == ["First", "Second", "Third"]
    assert "2 warnings · 1 info" in text
    assert "            tools[1] · 1,234 tokens · 1 call · turn 1\n" in text
    assert "            fix   Keep it.\n" in text
    assert text.splitlines()[-2:] == ["2 warnings · 1 info", "first   First"]


def test_a_long_title_goes_on_below() -> None:
    text = shown(one_call().analysis(findings=(finding(title="word " * 30 + "end"),)))

    assert "…" not in text
    assert text.count("word") == 30
    assert "prefix_changed · 1 call" in text


def test_checks_that_failed_for_one_reason_are_told_once() -> None:
    why = "no content: set CAPTURE=true"
    entries = tuple(NotChecked(kind, why, ("a:1",)) for kind in ("a", "b", "c", "d", "e"))

    text = shown(one_call().analysis(not_checked=entries))

    assert text.count(why) == 1
    assert "    a, b, c and 2 more · 1 call\n" in text
    assert "    a, b, c, d, e · 1 call\n" in shown(one_call().analysis(not_checked=entries), verbose=1)


def test_a_fix_is_told_once() -> None:
    fix = "Set CAPTURE=true."
    entry = NotChecked("prefix_changed", f"contents were not recorded. {fix}", ("a:1",))

    text = shown(one_call().analysis(findings=(finding(fix=fix),), not_checked=(entry,)))

    assert text.count(fix) == 1
    assert "contents were not recorded. The fix is above." in text


def test_characters_are_drawn_once() -> None:
    b = broken("one", "two", 0)
    at_the_break = finding(path="system[0]", calls=("a:2",), excerpt="'one' -> 'two'")
    elsewhere = finding(path="tools[0]", calls=("a:2",), excerpt="'red' -> 'blue'")

    text = shown(b.analysis(findings=(at_the_break, elsewhere)))

    assert "seen  'one'" not in text
    assert "seen  'red' -> 'blue'" in text


def test_what_was_passed_over_is_told() -> None:
    inputs = Inputs((), tuple((f"dump.jsonl:{n}", "not JSON") for n in range(8)))

    text = shown(one_call().analysis(foreign=(("my.scope", 3),), orphans=1, unassigned_bytes=2_000), inputs)

    assert "skipped in the input: 8" in text
    assert "· dump.jsonl:0: not JSON" in text
    assert "… and 3 more records (-v shows all)" in text
    assert "3 spans of my.scope: a model's telemetry in a dialect that is not known here" in text
    assert "1 log record with content (2,000 bytes) of spans that are not in this input" in text


# ---- safety and fit


def test_nothing_out_of_telemetry_reaches_the_terminal_raw() -> None:
    evil = "\x1b[2J\r\n\u202egpj.exe\u2066\udc80\x9b1m\u200b"
    b = Builder()
    segment = b.segment("tools", f"tools[0]{evil}", evil, 5, name=evil)
    at = Break(
        segment.path, "tools", "modified", 5, 2, 0, segment, b.segment("tools", "tools[0]", evil + "x", 5)
    )
    reading = b.call(
        f"a{evil}:1",
        segments=[segment],
        usage=Usage(input=10),
        context={"limit": None},
        model=evil,
        break_=at,
    )
    b.converse(reading, services=(evil,), agents=(evil,), models=(evil,))
    found = finding(title=evil, detail=evil, fix=evil, path=evil, excerpt=evil, calls=(reading.call.id,))
    analysis = b.analysis(findings=(found,), not_checked=(NotChecked("c", evil, ()),), foreign=((evil, 1),))

    lines = [
        plain(line)
        for v in (0, 2)
        for line in render(analysis, Inputs((), ((evil, evil),)), verbose=v, width=120)
    ]

    assert all(line.isprintable() for line in lines)
    assert any(r"\x1b[2J\r\n\u202egpj.exe" in line for line in lines)


@pytest.mark.parametrize(
    ("raw", "visible"),
    [
        ("plain", "plain"),
        ("日本語 ümläut 👍", "日本語 ümläut 👍"),
        ("a\tb\n", r"a\tb\n"),
        ("\x00\x7f\x85", r"\x00\x7f\x85"),
        ("\u202e\u2028\ufeff", r"\u202e\u2028\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041\U000e0100", r"\U000e0041\U000e0100"),
        ("\ufe0f\u3164", r"\ufe0f\u3164"),
        ("\u3000", r"\u3000"),
    ],
)
def test_escape(raw: str, visible: str) -> None:
    assert escape(raw) == visible


def test_cells_are_columns_of_a_terminal() -> None:
    assert [cells(text) for text in ("abc", "日本", "👍", "e\u0301", "█·–")] == [3, 4, 2, 1, 3]


names = st.text(max_size=60) | st.text(alphabet="日a\u0301\x1b ", max_size=60)


@settings(max_examples=60)
@given(st.data(), st.integers(40, 130), st.integers(0, 2))
def test_no_line_is_wider_than_it_may_be(data: st.DataObject, width: int, verbose: int) -> None:
    def some(what: str) -> str:
        return data.draw(names, label=what)

    b = Builder()
    before, after = some("before"), some("after")
    old = b.segment("tool_result", some("path"), before, data.draw(st.integers(0, 10**12)), name=some("tool"))
    new = b.segment(
        "tool_result", some("path"), after, data.draw(st.none() | st.integers(0, 10**12)), name=some("tool")
    )
    offset = data.draw(st.integers(0, min(len(before), len(after))))
    at = Break(old.path, "tool_result", "modified", 10**12, offset, 0, old, new)
    usage = Usage(input=data.draw(st.none() | st.integers(0, 10**15)), cache_read=10**12)
    context = {
        "limit": data.draw(st.none() | st.integers(1, 10**15)),
        "headroom": 5,
        "growth": 1e12,
        "headroom_turns": 1e9,
    }
    ids = [f"{some('trace')}:1", f"{some('trace')}:2"]
    first = b.call(ids[0], usage=usage, context=context, segments=[old])
    second = b.call(
        ids[1] + "x", usage=usage, context=context, segments=[new], turn=2, conversation=ids[0], break_=at
    )
    b.converse(first, second, services=(some("service"),), agents=(some("agent"),), models=(some("model"),))
    found = finding(
        title=some("title"), detail=some("detail"), fix=some("fix"), path=some("path"), excerpt=some("e")
    )
    analysis = b.analysis(
        findings=(found,),
        not_checked=(NotChecked(some("check"), some("why"), ()),),
        foreign=((some("scope"), 1),),
    )

    lines = [
        plain(x)
        for x in render(analysis, Inputs((), ((some("w"), some("y")),)), width=width, verbose=verbose)
    ]

    assert max(map(cells, lines)) <= width
    assert all(line.isprintable() for line in lines)


def test_the_usual_report_is_not_cut_at_80_columns() -> None:
    text = shown(filled().analysis(findings=(finding(calls=("a:1",)),)))

    assert "…" not in text


# ---- small things


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([2, 3, 4, 8], "2–4, 8"), ([1], "1"), ([1, 2], "1, 2"), ([5, 5, 3], "3, 5"), ([], "")],
)
def test_spans_of_numbers(numbers: list[int], text: str) -> None:
    assert spans_of(numbers) == text


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (0, 0, "times unknown"),
        (10**30, 10**30, "times unknown"),
        (NOON, NOON, "2027-01-15 08:00:00 UTC"),
        (NOON, NOON + 86_400 * 10**9, "2027-01-15 08:00:00–2027-01-16 08:00:00 UTC"),
    ],
)
def test_period(start: int, end: int, text: str) -> None:
    assert period(start, end) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0%"), (1, "<1%"), (10, "1%"), (994, "99%"), (999, "99%"), (1000, "100%"), (1200, "120%")],
)
def test_percent_is_full_only_when_it_is(part: int, text: str) -> None:
    assert percent(part, 1000) == text


def test_words_longer_than_a_line_are_broken() -> None:
    assert wrap("see " + "x" * 25 + " there", 20) == ["see " + "x" * 16, "x" * 9 + " there"]


SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"


@pytest.mark.parametrize("width", [60, 70, 80, 140])
def test_a_switch_that_fits_a_line_is_not_broken(width: int) -> None:
    lines = [plain(one) for one in paragraph(f"Set {SWITCH} and restart.", width, 13, "", "fix   ")]

    assert lines[0].startswith(" " * 13 + "fix   Set")
    assert any(SWITCH in one for one in lines)
    assert max(map(len, lines)) <= width


def test_a_switch_wider_than_a_line_is_broken_between_name_and_value() -> None:
    lines = [plain(one).strip() for one in paragraph(f"Set {SWITCH}.", 55, 13, "", "fix   ")]

    assert lines == ["fix   Set", SWITCH.removesuffix("SPAN_ONLY"), "SPAN_ONLY."]
    first = [plain(one) for one in paragraph(SWITCH, 62, 13, "", "fix   ")]
    assert first == [" " * 13 + "fix", "  " + SWITCH]


def test_an_id_is_broken_at_its_joints() -> None:
    assert wrap("a/very/long/path/of/a_file", 12) == ["a/very/long/", "path/of/a_", "file"]


def test_places_keep_their_numbers_where_there_is_little_room() -> None:
    assert clip_path("messages[12].parts[0]", 21) == "messages[12].parts[0]"
    assert clip_path("messages[12].parts[0]", 11) == "m[12].p[0]"
    assert clip_path("messages[3].parts[0] → messages[5].parts[0]", 24) == "m[3].p[0] → m[5].p[0]"
    assert clip_path("tools[112]", 9) == "t[112]"


def test_the_same_analysis_is_the_same_text() -> None:
    make: Callable[[], str] = lambda: shown(filled().analysis(findings=(finding(),)), verbose=1)  # noqa: E731

    assert make() == make()


def test_a_width_below_the_smallest_is_taken_as_that() -> None:
    narrow = replace(filled().analysis(), findings=(finding(),))

    assert shown(narrow, width=1) == shown(narrow, width=40)
