"""What came before is not read again, and nobody can tell: chains are those of an assembler that has seen nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_ctx import dialects
from otel_ctx.dialects import flat
from otel_ctx.engine import assemble
from otel_ctx.engine.assemble import Assembler
from otel_ctx.engine.texts import Texts
from otel_ctx.memo import Memo
from otel_ctx.model import EMPTY_CHAIN as EMPTY
from otel_ctx.model import Chain, Method, Raw, Reason, Span, Telling, grown
from otel_ctx.parts import (
    Beginnings,
    Link,
    Linked,
    is_mask,
    linked,
    pairs_written,
    read_message,
    read_messages,
    values_written,
)

Message = dict[str, Any]
MASK = "__REDACTED__"


def count(text: str, encoding: str) -> tuple[int, Method]:
    return len(text) + ord(encoding), "exact" if len(text) % 2 else "estimated"


def assembler() -> Assembler:
    return Assembler(count, Texts(None))


def facts(chain: Chain) -> tuple[Any, ...]:
    """Everything that a chain says, however many links it has."""
    marks: list[bytes] = []
    link: Chain | None = chain
    while link is not None:
        marks[:0] = link.marks
        link = link.base
    return (
        list(chain), marks, chain.key, chain.length, chain.messages, chain.tokens_by_kind, chain.bytes, chain.first,
        chain.unmeasured, chain.estimated,
    )  # fmt: skip


def read(by: Assembler, raw: Raw | None, encoding: str = "e") -> tuple[tuple[Any, ...], set[Reason]]:
    chain, reasons = by.chain(raw, encoding, "thread")
    return facts(chain), reasons


# ---- how one history may arrive


def strings(messages: list[Message], **style: Any) -> Telling:
    return Telling("genai", "call", "t", "s", messages=Raw("messages", json.dumps(messages, **style)))


def compact(messages: list[Message]) -> Telling:
    return strings(messages, separators=(",", ":"), ensure_ascii=False)


def spaced(messages: list[Message]) -> Telling:
    return strings(messages)


def broken_lines(messages: list[Message]) -> Telling:
    return strings(messages, indent=1, ensure_ascii=False)


def cut(messages: list[Message]) -> Telling:
    """A string of which a length limit took the end."""
    text = json.dumps(messages)
    return Telling("genai", "call", "t", "s", messages=Raw("messages", text[: len(text) * 3 // 4]))


def nested(messages: list[Message]) -> Telling:
    return Telling("genai", "call", "t", "s", messages=Raw("messages", messages))


def batch(messages: list[Message]) -> Telling:
    return Telling("genai", "call", "t", "s", messages=Raw("messages", [messages]))


def linked_up(messages: list[Message]) -> Telling:
    end: Link | None = None
    for message in messages:
        end = linked(end, message)
    return Telling("genai", "call", "t", "s", messages=Raw("messages", Linked(end)))


def with_a_tail(messages: list[Message]) -> Telling:
    """The last message is of this list only."""
    raw = linked_up(messages[:-1]).messages
    assert raw is not None
    return Telling(
        "genai", "call", "t", "s", messages=Raw("messages", Linked(raw.value.end, tuple(messages[-1:])))
    )


def told(attributes: Mapping[str, Any], dropped: int = 0) -> Telling:
    said = dialects.read(Span("t", "s", "", "chat", 1, 2, attributes, dropped_attributes=dropped))
    assert said is not None
    return said


def _openinference(messages: list[Message]) -> Iterator[tuple[str, Any]]:
    for i, message in enumerate(messages):
        at = f"llm.input_messages.{i}.message."
        for key, value in message.items():
            if key == "tool_calls":
                for n, call in enumerate(value):
                    yield f"{at}tool_calls.{n}.tool_call.id", call["id"]
                    yield f"{at}tool_calls.{n}.tool_call.function.name", call["function"]["name"]
                    yield f"{at}tool_calls.{n}.tool_call.function.arguments", call["function"]["arguments"]
            elif isinstance(value, list):
                for n, block in enumerate(value):
                    for name, inner in block.items():
                        yield f"{at}contents.{n}.message_content.{name}", inner
            elif value is not None:
                yield at + key, value


def openinference(messages: list[Message]) -> Telling:
    known = {"openinference.span.kind": "LLM", "llm.token_count.prompt": 10}
    return told(
        {**known, **dict(_openinference(messages)), "llm.output_messages.0.message.role": "assistant"}
    )


def openinference_sorted(messages: list[Message]) -> Telling:
    """As a store that sorts keys gives them back: 10 before 2."""
    return told({"openinference.span.kind": "LLM", **dict(sorted(_openinference(messages)))})


def openinference_limited(messages: list[Message]) -> Telling:
    """The oldest attributes were dropped."""
    kept = dict(list(_openinference(messages))[3:])
    return told({"openinference.span.kind": "LLM", "llm.token_count.prompt": 10, **kept}, dropped=3)


def openinference_beside_a_body(messages: list[Message]) -> Telling:
    body = json.dumps({"model": "m", "messages": messages})
    return told({"openinference.span.kind": "LLM", "input.value": body, **dict(_openinference(messages))})


def _openllmetry(messages: list[Message]) -> Iterator[tuple[str, Any]]:
    for i, message in enumerate(messages):
        for key, value in message.items():
            at = f"gen_ai.prompt.{i}.{key}"
            if key == "tool_calls":
                for n, call in enumerate(value):
                    yield f"{at}.{n}.id", call["id"]
                    yield f"{at}.{n}.name", call["function"]["name"]
                    yield f"{at}.{n}.arguments", call["function"]["arguments"]
            elif value is not None:
                yield at, value if isinstance(value, str) else json.dumps(value)


def openllmetry(messages: list[Message], system: str = "openai") -> Telling:
    return told({"llm.request.type": "chat", "gen_ai.system": system, **dict(_openllmetry(messages))})


def openllmetry_limited(messages: list[Message]) -> Telling:
    return told({"llm.request.type": "chat", **dict(list(_openllmetry(messages))[2:])}, dropped=2)


def openllmetry_on_bedrock(messages: list[Message]) -> Telling:
    return openllmetry(messages, "AWS")


WHOLE = [
    compact, spaced, broken_lines, nested, batch, openinference, openinference_sorted, openinference_beside_a_body,
    openllmetry, openllmetry_on_bedrock, linked_up,
]  # fmt: skip
FORMS: list[Callable[[list[Message]], Telling]] = [
    *WHOLE,
    with_a_tail,
    cut,
    openinference_limited,
    openllmetry_limited,
]
every_form = pytest.mark.parametrize("form", WHOLE)


@contextmanager
def nothing_read() -> Iterator[None]:
    """As in a process that has seen no span yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "_beginnings", Beginnings(1000, pairs_written))
        patch.setattr(flat, "_known", {})
        yield


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with nothing_read():
        yield


def alone(form: Callable[[list[Message]], Telling], messages: list[Message]) -> Telling:
    with nothing_read():
        return form(messages)


def plain(raw: Raw | None, encoding: str = "e") -> tuple[Any, ...]:
    """What a chain has to say of a value that is whole, with no memo and no prefix."""
    parts, messages = read_messages(raw.value if raw is not None else None)
    by = assembler()
    return facts(grown(EMPTY, [by.segment(p, encoding) for p in parts if not is_mask(p.text)], messages))


def agree(
    by: Assembler, form: Callable[[list[Message]], Telling], messages: list[Message], encoding: str = "e"
) -> None:
    """``by``, who has read other histories before, reads ``messages`` as one that has not."""
    said, fresh = form(messages), alone(form, messages)
    chain, reasons = read(by, said.messages, encoding)

    assert (said.reasons, said.lost) == (fresh.reasons, fresh.lost)
    assert by.section(said.system, encoding) == assembler().section(fresh.system, encoding)
    assert by.answer(said.output, encoding) == assembler().answer(fresh.output, encoding)
    assert (chain, reasons) == read(assembler(), fresh.messages, encoding)
    if form is not cut:
        assert chain == plain(fresh.messages, encoding)


# ---- any histories in any order

PIECES = st.sampled_from(
    ["a", "b", "]", "[", ",", ", ", '"', '","', '{"role":"user"}', "\\", "\\u005d", "]}", "\n", "\0", "é", "字",
     "\ud800", "\U0001f600", "x" * 60, MASK, "[{", '[{"text": "b"}]', "media_resolution="]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=3).map("".join)
CALLS = st.builds(
    lambda id_, name, arguments: {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}},
    st.sampled_from(["c1", "c2"]), st.sampled_from(["look", "send"]), TEXTS,
)  # fmt: skip
BLOCKS = st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant"]), TEXTS),
    st.builds(lambda content: {"role": "system", "content": content}, TEXTS),
    st.builds(lambda content: {"role": "tool", "content": content, "tool_call_id": "c1"}, TEXTS),
    st.builds(
        lambda calls: {"role": "assistant", "content": None, "tool_calls": calls},
        st.lists(CALLS, min_size=1, max_size=2),
    ),
    st.builds(lambda blocks: {"role": "user", "content": blocks}, st.lists(BLOCKS, min_size=1, max_size=2)),
    st.just({"role": "user"}),
    st.builds(lambda content: {"content": content}, TEXTS),  # a role that was lost
)  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> list[list[Message]]:
    """Calls of several conversations, interleaved: most extend an earlier one; others drop, cut or change messages."""
    calls: list[list[Message]] = [draw(st.lists(MESSAGES, min_size=1, max_size=4))]
    for _ in range(draw(st.integers(1, 6))):
        history = list(draw(st.sampled_from(calls)))
        change = draw(
            st.sampled_from(["grow", "grow", "grow", "repeat", "change", "cut", "drop", "shorten", "new"])
        )
        at = draw(st.integers(0, max(0, len(history) - 1)))
        if change == "change" and history:
            history[at] = draw(MESSAGES)
        elif change == "cut" and history and isinstance(history[at].get("content"), str):
            history[at] = {**history[at], "content": history[at]["content"][:-1]}
        elif change == "drop":
            del history[at : at + 1]
        elif change == "shorten":
            del history[at:]
        elif change == "new":
            history = []
        if change != "repeat":
            history += draw(st.lists(MESSAGES, min_size=1, max_size=3))
        calls.append(history)
    return calls


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40)
@given(histories())
def test_who_has_read_others_reads_the_same(
    form: Callable[[list[Message]], Telling], calls: list[list[Message]]
) -> None:
    by = assembler()
    with nothing_read():
        for messages in calls:
            agree(by, form, messages)


@given(histories(), st.data())
def test_so_do_all_forms_and_encodings_together(calls: list[list[Message]], data: st.DataObject) -> None:
    by = assembler()
    with nothing_read():
        for messages in calls:
            agree(by, data.draw(st.sampled_from(FORMS)), messages, data.draw(st.sampled_from(["e", "f"])))


# ---- histories that begin almost alike

TURNS: list[Message] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"where": "there"}'}}]},
    {"role": "tool", "content": "[1, 2]", "tool_call_id": "c1"},
    {"role": "assistant", "content": "There, é 字."},
]  # fmt: skip
MORE: list[Message] = [{"role": "user", "content": "Thanks."}, {"role": "assistant", "content": "So long."}]


def altered(at: int, **values: Any) -> list[Message]:
    return [{**m, **values} if i == at else m for i, m in enumerate(TURNS)]


@every_form
@pytest.mark.parametrize(
    "near",
    [
        altered(1, content="Where is he?"),  # as long
        altered(1, content="Where is"),
        altered(1, content="Where is it? "),
        altered(0, content="Be kind! "),
        altered(3, content="[1, 3]"),
        altered(4, content="There, e 字."),
        altered(4, content='There"},{"role":"user","content":"é 字.'),
        altered(4, content="There, é 字.]"),
        altered(4, content="There, \ud800."),
        altered(4, role="user"),
        altered(1, name="Ann"),
        TURNS[:4],
        [*TURNS[:3], *TURNS[4:]],
        [TURNS[1], TURNS[0], *TURNS[2:]],
        [*TURNS, TURNS[4]],
    ],
)
def test_a_near_prefix_is_none(form: Callable[[list[Message]], Telling], near: list[Message]) -> None:
    by = assembler()
    for messages in (TURNS, near, [*near, *MORE], [*TURNS, *MORE], near, [*TURNS, *MORE, *MORE]):
        agree(by, form, messages)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[]", '[,"a"]'),
        ('["a"]', '["a"]]'),
        ('["a"]', '["a",]'),
        ('["a"]', '["a", ]'),
        ('["a"]', '["a"] ]'),
        ('["a"]', '["a""b"]'),
        ('["a]"]', '["a]","b"]'),
        ('["a"]', '["a"\n,\n"b"]'),
        ('["a" ]', '["a" ,"b"]'),
        ("[1]", "[12]"),
        ('[["a"]]', '[["a"],"b"]'),
        ('[["a"]]', '[["a"],["b"]]'),
        ('["a"]', '["a",["b"]]'),
        ('["a"]', '["a",NaN]'),
        ('["a"]', '["a","\\ud800"]'),
    ],
)
def test_json_that_looks_like_more_of_the_same(before: str, after: str) -> None:
    by = assembler()
    read(by, Raw("messages", before))

    assert read(by, Raw("messages", after)) == read(assembler(), Raw("messages", after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([["a"]], [["a"], "b"]),
        ([["a"]], [["a"], ["b"]]),
        (["a"], ["a", ["b"]]),
        ([[["a"]]], [[["a"]]]),
        ([[["a"]]], [[["a"]], "b"]),
        ([{"content": 1}, "b"], [{"content": True}, "b"]),
        ([{"content": 1}, "b"], [{"content": 1.0}, "b"]),
        (
            [{"content": [{"text": "a", "type": "text"}]}, "b"],
            [{"content": ({"text": "a", "type": "text"},)}, "b"],
        ),
        ([{"content": float("nan")}, "b"], [{"content": None}, "b"]),
        ([{"a": 1, "b": 2}, "b"], [{"b": 2, "a": 1}, "b"]),
        ([{"content": object}, "b"], [{"content": object}, "b", "c"]),
    ],
)
def test_values_that_look_like_more_of_the_same(before: list[Any], after: list[Any]) -> None:
    by = assembler()
    read(by, Raw("messages", before))

    assert read(by, Raw("messages", after)) == read(assembler(), Raw("messages", after))
    assert read(by, Raw("messages", after))[0] == plain(Raw("messages", after))


@every_form
def test_a_role_that_shows_late(form: Callable[[list[Message]], Telling]) -> None:
    """Without any roles the first message has lost nothing; beside others it has."""
    by = assembler()
    for messages in ([{"content": "a"}], [{"content": "a"}, {"content": "b"}], [{"content": "a"}, *MORE]):
        agree(by, form, messages)


def test_one_history_of_two_providers() -> None:
    by = assembler()
    history = [{"role": "user", "content": '[{"text": "b"}]'}]
    for messages in (history, [*history, *MORE]):
        agree(by, openllmetry, messages)
        agree(by, openllmetry_on_bedrock, messages)


@pytest.mark.parametrize("form", [openinference_limited, openllmetry_limited])
def test_what_a_limit_took_is_missing_from_longer_histories_too(
    form: Callable[[list[Message]], Telling],
) -> None:
    by = assembler()
    for messages in (TURNS, [*TURNS, *MORE]):
        agree(by, form, messages)


def test_attributes_that_come_late_change_what_was_read() -> None:
    """A later span has one more attribute of a message that was whole before."""
    by = assembler()
    agree(by, openinference, TURNS)

    agree(by, openinference, [*TURNS[:1], {**TURNS[1], "name": "Ann"}, *TURNS[2:], *MORE])
    attributes = {"openinference.span.kind": "LLM", **dict(_openinference([*TURNS, *MORE]))}
    late = {
        **attributes,
        "llm.input_messages.1.message.name": "Ann",
        "llm.input_messages.01.message.content": "Bob",
    }
    agree(by, lambda _: told(late), [])


@pytest.mark.parametrize("dropped", [0, 3])
def test_gaps_and_foreign_keys_between(dropped: int) -> None:
    by = assembler()
    for turns in (TURNS, [*TURNS, *MORE]):
        pairs = list(_openinference(turns))
        gone = f"llm.input_messages.{dropped}."
        pairs.insert(3, ("llm.output_messages.0.message.content", "So long."))
        attributes = {k: v for k, v in pairs if not k.startswith(gone)}
        agree(by, lambda _, a=attributes: told({"openinference.span.kind": "LLM", **a}), [])  # type: ignore[misc]


# ---- only what is new is read


class Reader:
    """Counts the messages that are read."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.indexes: list[int] = []

        def counting(message: Any, index: int) -> Any:
            self.indexes.append(index)
            return read_message(message, index)

        patch.setattr(assemble, "read_message", counting)

    def new(self) -> list[int]:
        found, self.indexes = self.indexes, []
        return found


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    return Reader(monkeypatch)


@pytest.mark.parametrize(
    "form",
    [compact, spaced, nested, batch, openinference, openinference_beside_a_body, openllmetry, linked_up],
)
def test_a_longer_history_costs_its_new_messages(
    form: Callable[[list[Message]], Telling], reader: Reader
) -> None:
    by = assembler()
    turns = [{**m, "content": m["content"] and f"{form.__name__}: {m['content']}"} for m in TURNS]
    for engine, messages, new in (
        (by, turns, [0, 1, 2, 3, 4]),
        (by, [*turns, *MORE], [5, 6]),
        (by, [*turns, *MORE], []),
        (by, [*turns, *MORE, *MORE], [7, 8]),
        (by, [*turns, MORE[1]], [5]),  # forks
        (assembler(), [*turns, MORE[1]], [0, 1, 2, 3, 4, 5]),  # knows nothing of what others have read
    ):
        read(engine, form(messages).messages)
        assert reader.new() == new


@every_form
def test_behind_a_change_only_the_change_is_read(
    form: Callable[[list[Message]], Telling], reader: Reader
) -> None:
    """A system prompt with a clock, or a cache marker that moves, breaks a history; the rest stands where it stood."""
    by = assembler()
    read(by, form(TURNS).messages)
    reader.new()

    chain, _ = read(by, form([{"role": "system", "content": "It is noon."}, *TURNS[1:], *MORE]).messages)

    assert reader.new() == [0, 5, 6]
    assert [s.path.partition(".")[0] for s in chain[0]] == [f"messages[{i}]" for i in range(7)]


@every_form
def test_each_encoding_is_counted_for_itself(form: Callable[[list[Message]], Telling]) -> None:
    by, turns = assembler(), TURNS
    for encoding in ("e", "f", "e", "f"):
        agree(by, form, turns, encoding)
        turns = [*turns, *MORE]


# ---- memos are bounded


def test_what_was_forgotten_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "_REMEMBERED", 2)
    monkeypatch.setattr(flat, "_known", {})
    by = assembler()
    monkeypatch.setattr(assemble, "_FACTS", 2)
    for name in ("_chains", "_messages", "_threads", "_heads", "_sections"):
        setattr(by, name, Memo[Any, Any](2))
    by._lists, by._runs = Beginnings(2, values_written), Beginnings(2, pairs_written)

    for form in WHOLE * 2:
        agree(by, form, TURNS)
        agree(by, form, [{"role": "user", "content": form.__name__}, *MORE])
        agree(by, form, [*TURNS, *MORE])
        assert len(flat._known) <= 2
