"""What the live engine holds: bounded, once, and the same as before when it is looked at."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.cache.path import Path
from otel_ctx.cache.store import Entry, Store
from otel_ctx.conversations.memory import End, _Recent
from otel_ctx.engine import LiveEngine
from otel_ctx.engine.packed import Packing
from otel_ctx.engine.spans import RecentParents, RecentSpans
from otel_ctx.engine.texts import Texts
from otel_ctx.live.gateway.delivered import Delivered
from otel_ctx.model import EMPTY_CHAIN, NO_SECTION, Chain, Prompt, Segment, Span, grown

SECOND = 1_000_000_000
segments = st.builds(
    Segment,
    st.sampled_from(["user", "assistant", "tool_call", "tool_result", "system", "thinking"]),
    st.sampled_from(["user", "assistant", ""]),
    st.sampled_from(["", "search"]),
    st.sampled_from(["messages[0]", "messages[1].parts[2]"]),
    st.integers(0, 1 << 40),
    st.none() | st.integers(0, 1 << 30),
    st.sampled_from(["exact", "estimated", "unmeasured"]),
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.sampled_from(["", "5m"]),
    st.sampled_from(["", "call_1"]),
    st.booleans(),
)


@given(st.lists(st.lists(segments, min_size=1, max_size=6), min_size=1, max_size=8))
def test_a_packed_history_is_the_same_history(turns: list[list[Segment]]) -> None:
    packing = Packing()
    packed, plain = EMPTY_CHAIN, EMPTY_CHAIN
    for n, turn in enumerate(turns):
        packed, plain = grown(packed, turn, n), grown(plain, turn, n)
        older = packed.base
        packing.pack(packed)
        assert list(packed) == list(plain)
        assert keys(packed) == keys(plain)
        for start in range(plain.length + 1):
            assert packed.since(start) == plain.since(start)
        if older is not None:
            assert list(older) == list(plain)[: older.length]
    assert packed.key == plain.key
    assert len(packed) == len(plain)


def keys(chain: Chain) -> list[bytes]:
    link: Chain | None = chain
    out: list[bytes] = []
    while link is not None:
        out = [*link.marks, *out]
        link = link.base
    return out


def test_a_long_history_is_few_links() -> None:
    packing, chain = Packing(), EMPTY_CHAIN
    one = Segment("user", "user", "", "messages[0]", 4, 1, "exact", "ab" * 16)
    for n in range(1000):
        chain = grown(chain, [one, one], n)
        packing.pack(chain)
    links, link = 0, chain
    while link is not None:
        links, link = links + 1, link.base  # type: ignore[assignment]
    assert links < 20


def test_a_digest_that_is_none_of_ours_is_not_packed() -> None:
    chain = grown(EMPTY_CHAIN, [Segment("user", "user", "", "m", 4, 1, "exact", "AB" * 16)], 1)
    Packing().pack(chain)
    assert [s.digest for s in chain] == ["AB" * 16]


@pytest.mark.parametrize("parent", ["", f"{7:016x}", "ffffffffffffffff", "step-1", "0" * 15])
def test_a_span_keeps_its_parent(parent: str) -> None:
    known = RecentParents(10)
    known["trace", "span"] = parent
    assert known["trace", "span"] == known.get(("trace", "span")) == parent
    assert ("trace", "span") in known
    assert ("trace", "other") not in known
    assert known.get(("trace", "other"), "?") == "?"


def test_spans_are_bounded_and_those_asked_for_stay() -> None:
    known = RecentSpans(100)
    known.add(("t", "agent"))
    for n in range(1000):
        known.add(("t", f"{n}"))
        assert ("t", "agent") in known
    assert len(known) <= 100
    assert ("t", "3") not in known


def test_texts_take_more_than_their_characters() -> None:
    texts = Texts(100_000)
    texts.put("shared", "s" * 1000)
    for n in range(5000):
        texts.touch("shared")
        texts.put(f"{n}", "word")
    assert texts.get("shared") == "s" * 1000
    assert texts.get("4999") == "word"
    assert sum(texts.get(f"{n}") is not None for n in range(5000)) * 204 <= 100_000


def test_texts_are_known_by_any_name() -> None:
    texts = Texts(None)
    names = ("0" * 31 + "f", "f", "0f", "x" * 32, "no number", "")
    for name in names:
        texts.put(name, f"of {name}")
    assert [texts.get(name) for name in names] == [f"of {name}" for name in names]
    assert texts.get("no other") is None


@given(st.lists(segments, max_size=30), st.lists(segments, max_size=6), st.integers(0, 1 << 20))
def test_a_path_at_rest_goes_on_as_the_same_path(
    first: list[Segment], more: list[Segment], total: int
) -> None:
    path, chain = Path(), grown(EMPTY_CHAIN, first, len(first))
    path.follow(Prompt(NO_SECTION, NO_SECTION, chain), 0, total, 1.0, drops=True)
    at_rest = path.packed()
    for _ in range(2):  # what goes on from it leaves it as it is
        again = at_rest.opened()
        assert again.packed() == at_rest
        assert all(getattr(again, f.name) == getattr(path, f.name) for f in fields(Path))
        prompt = Prompt(NO_SECTION, NO_SECTION, grown(chain, more, len(first) + len(more)))
        again.follow(prompt, len(first), total + 100, 1.0, drops=True)
    path.follow(prompt, len(first), total + 100, 1.0, drops=True)
    assert path.packed() == again.packed()


def test_ends_of_one_key_leave_one_after_the_other() -> None:
    known = _Recent(size=2, each=3)
    (call,) = LiveEngine().feed(conversation(0, 1))
    ends = [End(call.reading.call, "c", n) for n in range(5)]
    for n, end in enumerate(ends):
        known.add(["one"], end)
        assert list(known.get("one")) == ends[max(0, n - 2) : n + 1]
    assert not known.drop(["one"], ends[0])
    assert not known.drop(["none"], ends[4])
    assert known.drop(["none", "one"], ends[3]) == ["one"]
    assert list(known.get("one")) == [ends[2], ends[4]]
    ends[2].void = True
    assert list(known.get("one")) == [ends[4]]
    assert known.drop(["one"], ends[2])
    assert list(known.get("one")) == [ends[4]]
    assert known.drop(["one"], ends[4])
    assert list(known.get("one")) == []
    for key in ("two", "three", "four"):
        known.add([key], ends[0])
    assert [list(known.get(key)) for key in ("two", "three", "four")] == [[], [ends[0]], [ends[0]]]


def test_where_another_end_comes_those_that_were_continued_leave() -> None:
    known = _Recent(size=2, waiting=True)
    (call,) = LiveEngine().feed(conversation(0, 1))
    first, second, third = (End(call.reading.call, "c", n) for n in range(3))
    known.add(["one"], first)
    first.next = second
    known.add(["one"], second)
    assert list(known.get("one")) == [second]
    known.add(["one"], third)
    assert list(known.get("one")) == [second, third]


def entry(start: int, ready: int = 0, tokens: int = 2000) -> Entry:
    return Entry(tokens, start * SECOND, ready * SECOND, 300, 3600)


def test_a_store_looks_into_the_one_behind_it_and_keeps_the_later_entry() -> None:
    behind = Store(86_400)
    ahead = Store(86_400, behind)
    behind.use("scope", 1, entry(10, 11))
    found = ahead.get("scope", 1)
    assert found is not None
    assert (found.start, found.ready) == (10 * SECOND, 11 * SECOND)
    ahead.use("scope", 1, entry(20, 25))
    found = ahead.get("scope", 1)
    assert found is not None
    assert (found.start, found.ready) == (20 * SECOND, 11 * SECOND)  # alive: readable since it first was
    untouched = behind.get("scope", 1)
    assert untouched is not None
    assert untouched.start == 10 * SECOND
    behind.use("scope", 1, entry(30, 31))
    found = ahead.get("scope", 1)
    assert found is not None
    assert found.start == 30 * SECOND
    for n in range(2000):
        ahead.use("scope", 2 + n, entry(25, 26))
    ahead.caught_up()
    assert len(ahead) == 0


def test_a_store_is_bounded_and_knows_lifetimes_that_are_not_published() -> None:
    store = Store(86_400, most=100)
    for n in range(1000):
        store.use("scope", n, Entry(2000, n, n, None, None))
    assert len(store) <= 100
    last = store.get("scope", 999)
    assert last is not None
    assert (last.least, last.most, last.tokens) == (None, None, 2000)
    store.use("scope", 1000, entry(90_000))
    assert store.get("scope", 999) is None  # a day has passed


def test_a_delivery_is_known_for_its_time_whatever_came_since() -> None:
    clock = [0.0]
    known = Delivered(300, 1 << 30, lambda: clock[0])
    put: dict[int, float] = {}
    for n in range(4000):
        clock[0] = n * 0.5
        known.put(n, b"added %d" % n if n % 3 else b"")
        put[n] = clock[0]
        for old in (n, n - 31, n - 599):
            if old >= 0:
                assert known.get(old) == (b"added %d" % old if old % 3 else b"")
    assert known.early == 0
    assert len(known) < 2 * (400 + 100) + 64


def conversation(n: int, turns: int) -> list[Span]:
    messages: list[dict[str, object]] = []
    out = []
    for turn in range(turns):
        messages.append(
            {"role": "user", "parts": [{"type": "text", "content": f"question {turn} of {n} " * 8}]}
        )
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1", "gen_ai.provider.name": "openai",
            "gen_ai.usage.input_tokens": 50 * (turn + 1), "gen_ai.input.messages": json.dumps(messages),
        }  # fmt: skip
        messages.append(
            {"role": "assistant", "parts": [{"type": "text", "content": f"answer {turn} of {n}"}]}
        )
        start = (1000 + 40 * turn) * SECOND + n
        out.append(
            Span(
                f"{n * 100 + turn + 1:032x}",
                f"{n + 1:016x}",
                "",
                "chat",
                start,
                start + SECOND,
                attributes,
                3,
            )
        )
    return out


def test_what_has_settled_is_held_once_and_said_at_first_as_when_it_was_held_twice() -> None:
    """Conversations go on across settling: turns and depth at first are those that settle."""
    engine = LiveEngine()
    spans = [conversation(n, 6) for n in range(30)]
    first, settled = [], []
    for turn in range(6):
        for own in spans:
            first += engine.feed([own[turn]])
        settled += engine.advance((1000 + 40 * turn + 35) * SECOND)
    settled += engine.drain()
    assert len(first) == len(settled) == 180
    by_call = {s.reading.call.id: s.reading for s in settled}
    for said in first:
        mine, theirs = said.reading, by_call[said.reading.call.id]
        assert (mine.conversation, mine.turn, mine.relation) == (
            theirs.conversation,
            theirs.turn,
            theirs.relation,
        )
        assert mine.context == theirs.context
    assert {r.turn for r in by_call.values()} == {1, 2, 3, 4, 5, 6}
    assert engine.conversations == 30
    assert sum(engine.bands().values()) == 30
    assert len(engine._at_first) == 0  # all have settled


def test_calls_that_have_nothing_to_do_with_each_other_are_not_looked_at_together() -> None:
    engine = LiveEngine()
    spans = [span for n in range(40) for span in conversation(n, 1)]
    engine.feed(spans)
    told = list(engine._told.values())
    assert len(told) == 40
    assert all(engine._told.near([t]) == [t] for t in told)
    same_trace = replace(spans[0], span_id=f"{999:016x}", parent_id=spans[0].span_id)
    engine.feed([same_trace])
    assert len(engine._told.near([told[0]])) == 2


def test_what_waits_is_forgotten_when_it_has_settled() -> None:
    engine = LiveEngine()
    for n in range(50):
        engine.feed(conversation(n, 1))
    engine.advance(1100 * SECOND)
    assert len(engine._told) == 0
    assert engine._told.first_start() is None
    assert not engine._made.calls
    assert not engine._made.usages
    assert not engine._made.parts
    assert not engine._heard


def test_a_second_span_of_a_call_adds_nothing_however_many_calls_are_open() -> None:
    engine = LiveEngine()
    inner = replace(conversation(0, 1)[0], parent_id=f"{77:016x}")
    engine.feed([inner])
    for n in range(1, 5000):
        engine.feed(conversation(n, 1))
    (said,) = engine.feed([replace(inner, span_id=inner.parent_id, parent_id="", scope_name="outer")])
    assert said.again
    assert {ref.role for ref in said.reading.call.spans} == {"primary", "duplicate"}
