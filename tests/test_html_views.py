"""Curves, maps and tiles: their sums are the window's, and their places are where the text and the provider say."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.engine import Engine, Settings
from otel_ctx.inputs import read
from otel_ctx.model import Analysis, CacheTokens, Conversation, Reading, Span
from otel_ctx.outputs.views.composition import Memo, Tile, composition
from otel_ctx.outputs.views.depth import depth
from otel_ctx.outputs.views.kinds import by_kind
from otel_ctx.outputs.views.prefix_map import Row, Stretch, prefix_map, row
from tests import html_reports
from tests.html_reports import text

DUMP = Path(__file__).parent.parent / "examples" / "support-agent.otlp.jsonl.gz"


@cache
def analysis() -> Analysis:
    engine = Engine(Settings())
    for batch in read([str(DUMP)]):
        engine.feed(batch.spans, batch.logs)
    return engine.close()


def readings() -> dict[str, Reading]:
    return {r.call.id: r for r in analysis().readings}


def longest() -> Conversation:
    return max(analysis().conversations, key=lambda c: len(c.calls))


def chat(id_: int, messages: int, *, tokens: int, read: int | None = None) -> Span:
    """A call of which the first message has 400 words, and each other one a word."""
    history = [{"role": "user", "parts": [{"type": "text", "content": "word " * 400 if i == 0 else f"and {i}"}]}
               for i in range(messages)]  # fmt: skip
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.input.messages": json.dumps(history),
        "gen_ai.usage.input_tokens": tokens,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": read,
    }
    start = 1_764_500_000_000_000_000 + id_ * 10_000_000_000
    return Span(
        "1" * 32, f"{id_:016x}", "", "chat", start, start + 1_000_000_000,
        {k: v for k, v in attributes.items() if v is not None}, kind=3,
    )  # fmt: skip


def judged(*spans: Span) -> list[Reading]:
    engine = Engine()
    engine.feed(spans)
    return list(engine.close().readings)


# ---- depth


def test_a_depth_has_a_point_for_each_turn_and_the_end_where_headroom_says() -> None:
    conversation = longest()

    curve = depth(conversation, readings())

    last = readings()[conversation.calls[-1]].context
    assert [p.turn for p in curve.points] == [readings()[c].turn for c in conversation.calls]
    assert curve.peak == conversation.usage_peak
    assert (curve.limit, curve.reserve, curve.growth) == (last.limit, last.reserve, last.growth)
    assert last.headroom_turns is not None
    assert curve.full_at == pytest.approx(curve.points[-1].turn + last.headroom_turns)


def test_changes_are_between_neighbours_and_kinds_are_the_usage() -> None:
    curve = depth(longest(), readings())

    for before, after in zip(curve.points, curve.points[1:], strict=False):
        assert before.usage is not None
        assert after.usage is not None
        assert after.change == after.usage - before.usage
        assert sum(after.kinds.values()) == pytest.approx(after.usage, rel=0.02)
    assert curve.points[0].change is None


def test_kinds_are_shares_where_more_was_counted_than_is_reported() -> None:
    counted = judged(chat(1, 40, tokens=100))[0].call.prompt.counted
    engine = Engine()
    engine.feed([chat(i, 40 + i, tokens=round(counted / 2) + i) for i in (1, 2)])
    small = engine.close()

    for conversation in small.conversations:
        for point in depth(conversation, {r.call.id: r for r in small.readings}).points:
            assert sum(point.kinds.values()) == pytest.approx(point.usage, abs=len(point.kinds))


def test_a_conversation_without_usage_has_no_end() -> None:
    conversation = longest()
    bare = {
        id_: r._replace(context=replace(r.context, usage=None, headroom_turns=None))
        for id_, r in readings().items()
    }

    curve = depth(conversation, bare)

    assert curve.full_at is None
    assert curve.limit is None
    assert curve.peak is None


# ---- the prefix map


def test_the_stretches_of_a_row_add_up_to_its_usage() -> None:
    rows = [r for c in analysis().conversations for r in prefix_map(c, readings())]

    assert rows
    for one in rows:
        assert sum(s.tokens for s in one.stretches) == (one.usage or 0)
        assert all(s.tokens > 0 for s in one.stretches)


def test_what_was_lost_lies_behind_what_was_read() -> None:
    first, second = judged(chat(1, 1, tokens=2000, read=0), chat(2, 2, tokens=2010, read=1024))
    broken = second._replace(wasted=900)
    assert second.context.usage == 2010

    assert row(broken).stretches == (Stretch("read", 1024), Stretch("lost", 900), Stretch("fresh", 86))
    assert row(first).source == "reported"


@pytest.mark.parametrize(
    ("tokens", "lost", "expected"),
    [
        # what was lost was written once more: only what is left of it is new in the cache
        (CacheTokens(100, 1500, 410), 900, [("read", 100), ("lost", 900), ("written", 600), ("fresh", 410)]),
        (CacheTokens(0, 0, 2010), 0, [("fresh", 2010)]),
        (CacheTokens(2010, 0, 0), 0, [("read", 2010)]),
        (CacheTokens(5000, 0, 0), 70, [("read", 2010)]),  # never more than there is
        (CacheTokens(0, 100, 1910), 2010, [("lost", 2010)]),
    ],
)
def test_stretches(tokens: CacheTokens, lost: int, expected: list[tuple[str, int]]) -> None:
    _, second = judged(chat(1, 1, tokens=2000, read=0), chat(2, 2, tokens=2010, read=0))
    assert second.access is not None
    one = second._replace(wasted=lost, access=second.access._replace(reported=tokens))

    assert [tuple(s) for s in row(one).stretches] == expected


def test_without_a_word_on_the_cache_nothing_is_claimed() -> None:
    (only,) = judged(chat(1, 1, tokens=2000))
    silent = only._replace(access=None)

    assert row(silent) == Row(
        only.call.id, 1, 2000, "unknown", (Stretch("unknown", 2000),), only.tokens.factor, None
    )


def test_a_break_stands_behind_the_segments_before_it() -> None:
    broken = [r for r in analysis().readings if r.break_ is not None]

    assert broken
    for r in broken:
        assert r.break_ is not None
        before = list(r.call.prompt)[: r.break_.index]
        assert row(r).break_at == pytest.approx(sum(s.tokens or 0 for s in before) * r.tokens.factor, abs=1)


def test_a_break_stands_within_what_the_provider_reports() -> None:
    """Where more was counted than that, its place is a share."""
    said = [
        text(("user", "assistant")[i % 2], " ".join(f"{c}{n}" for n in range(12)))
        for i, c in enumerate("abcdefgh")
    ]
    edited = [*said[:4], text("user", "e0 e1 e2 and no more"), *said[5:], text("user", "and now?")]
    calls = judged(
        html_reports.chat(1, said, **{"gen_ai.usage.input_tokens": 300}),
        html_reports.chat(2, edited, **{"gen_ai.usage.input_tokens": 300}),
    )
    broken = calls[1]
    assert broken.break_ is not None
    assert broken.break_.index == 4
    counted = broken.tokens.counted * broken.tokens.factor
    half = broken._replace(context=replace(broken.context, usage=round(counted / 2)))

    assert row(half).break_at == pytest.approx((row(broken).break_at or 0) / 2, rel=0.05)


# ---- tiles


def area(tile: Tile) -> float:
    return tile.width * tile.height


def test_tiles_fill_the_picture_by_tokens() -> None:
    for r in analysis().readings:
        tiles = composition(r, 1600, 900)

        kinds = by_kind(r)
        whole = sum(t.tokens for t in tiles)
        assert sum(map(area, tiles)) == pytest.approx(1600 * 900)
        assert whole == pytest.approx(sum(kinds.values()), abs=len(tiles))
        for tile in tiles:
            assert -0.01 <= tile.x <= tile.x + tile.width <= 1600.01
            assert -0.01 <= tile.y <= tile.y + tile.height <= 900.01
            assert area(tile) == pytest.approx(tile.tokens / whole * 1600 * 900, rel=0.1)


def test_a_tile_names_its_segment() -> None:
    r = readings()[longest().calls[-1]]
    segments = list(r.call.prompt)

    tiles = composition(r, most=8)

    named = [t for t in tiles if t.segment is not None]
    assert len(named) <= 8
    for tile in named:
        segment = segments[tile.segment or 0]
        assert segment.kind == tile.kind
        assert tile.tokens == round((segment.tokens or 0) * r.tokens.factor)
    for kind in {t.kind for t in tiles} - {"other"}:
        assert sum(t.segments for t in tiles if t.kind == kind) == sum(s.kind == kind for s in segments)


def test_the_memory_of_chains_changes_nothing() -> None:
    memo: Memo = {}

    assert [composition(r, memo=memo) for r in analysis().readings] == [
        composition(r) for r in analysis().readings
    ]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30))
def test_tiles_never_overlap(sizes: list[int]) -> None:
    parts = [{"type": "text", "content": "word " * n} for n in sizes]
    span = chat(1, 1, tokens=sum(sizes) + 10)
    (r,) = judged(
        replace(span, attributes={**span.attributes, "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}])})
    )  # fmt: skip

    tiles = composition(r, 100, 100)

    for i, a in enumerate(tiles):
        for b in tiles[i + 1 :]:
            apart = (
                a.x + a.width <= b.x + 1e-6
                or b.x + b.width <= a.x + 1e-6
                or a.y + a.height <= b.y + 1e-6
                or b.y + b.height <= a.y + 1e-6
            )
            assert apart, (a, b)
