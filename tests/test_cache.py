"""The simulated prompt cache against the arithmetic of the providers' own pages, and what a call costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from otel_ctx.cache import Simulator
from otel_ctx.cache.store import Entry, Store
from otel_ctx.cost import cost_of
from otel_ctx.model import (
    EMPTY_CHAIN,
    NO_SECTION,
    Access,
    Break,
    Call,
    Completeness,
    Kind,
    Prompt,
    Section,
    Segment,
    SpanRef,
    Tokens,
    Usage,
    grown,
    replaced,
)
from otel_ctx.rules import load
from tests.own_rules import own_price

SECOND = 1_000_000_000
START = 1_764_500_000 * SECOND
RULES = load()
SONNET, OPUS = "claude-sonnet-4-5", "claude-opus-4-7"

Block = tuple[str, int] | tuple[str, int, str] | tuple[str, int, str, Kind]
"""(content, tokens, cache marker, kind)"""


def prompt(blocks: Sequence[Block]) -> Prompt:
    segments = []
    for i, block in enumerate(blocks):
        content, tokens, marker, kind = (*block, "", "user")[:4] if len(block) < 4 else block
        if len(block) == 3:
            content, tokens, marker = block
            kind = "user"
        digest = f"{hash((content, kind)) & 0xFFFFFFFFFFFFFFFF:032x}"
        segments.append(
            Segment(kind, "user", "", f"messages[{i}]", tokens * 4, tokens, "exact", digest, marker)  # type: ignore[arg-type]
        )
    tools = Section(s for s in segments if s.kind == "tools")
    rest = segments[len(tools) :]
    return Prompt(tools, NO_SECTION, grown(EMPTY_CHAIN, rest, len(rest)))


def call(
    blocks: Sequence[Block],
    at: float = 0,
    model: str = SONNET,
    platform: str = "anthropic",
    took: float = 1,
    **more: Any,
) -> Call:
    p = prompt(blocks)
    more.setdefault("usage", Usage(input=p.counted))
    return replace(
        Call(
            id=f"t:{at}", spans=(SpanRef("t", "1", "primary"),), trace_id="t", parent_id="", dialect="genai", scope="",
            scope_version="", service="shop", agent="", operation="chat", status="ok", error="", provider=platform,
            platform=platform, model=model, response_id="", previous_response_id="", conversation_hint="",
            start_unix_nano=START + round(at * SECOND), end_unix_nano=START + round((at + took) * SECOND),
            first_token_unix_nano=None, completeness=Completeness("full"), usage=Usage(), prompt=p, answer=(), reserve=None,
            limit=None,
        ),
        **more,
    )  # fmt: skip


class Provider:
    """Calls of one conversation, each continuing the one before it, unless it is told otherwise."""

    def __init__(self) -> None:
        self.simulator = Simulator(RULES, 100)
        self.before: Call | None = None

    def ask(self, now: Call, conversation: str = "") -> Access:
        before = None if conversation else self.before
        tokens = Tokens(now.prompt.counted, None, None, "exact")
        shared = 0
        if before is not None:
            for a, b in zip(before.prompt, now.prompt, strict=False):
                if a.digest != b.digest:
                    break
                shared += 1
        relation = "continues" if before is not None else "new"
        name = conversation or "c"
        access = self.simulator.step(now, name, relation, before, before, shared, None, tokens)  # type: ignore[arg-type]
        assert access is not None
        if not conversation:
            self.before = now
        return access

    def read(self, now: Call, conversation: str = "") -> int:
        predicted = self.ask(now, conversation).predicted
        assert predicted is not None
        return predicted.read


def row(n: int, tokens: int = 100, marked: Sequence[int] = (), marker: str = "5m") -> list[Block]:
    """Blocks 1…n, those in ``marked`` with a marker."""
    return [(f"block {i}", tokens, marker if i in marked else "") for i in range(1, n + 1)]


@pytest.mark.parametrize(
    ("gone", "rest", "pairs"),
    [
        ("t:a t:b s:x m:p m:q", "t:b t:a s:y m:p m:q", {2: 2}),  # whatever stands in front
        ("t:a s:x m:p", "t:a t:b s:y m:p", {1: 2}),
        ("s:x m:p m:q m:r", "s:y m:r m:u", {0: 0}),  # a history that was cut
        ("s:x m:p m:q m:r", "s:y m:sum m:r m:u", {0: 0}),  # or summed up
        ("m:p m:q m:r m:s", "m:u m:q m:v m:s", {0: 0, 2: 2}),
        ("m:p m:q m:r", "m:u m:v m:r", {}),  # two of them: nobody knows
        ("m:p", "m:u m:v", {0: 0}),
        ("m:p m:q", "m:u m:v", {}),
        ("m:p m:q", "m:q m:p", {}),
        ("s:x s:y m:p", "s:z m:p", {}),
    ],
)
def test_pieces_that_stand_changed_at_their_place(gone: str, rest: str, pairs: dict[int, int]) -> None:
    kinds: dict[str, Kind] = {"t": "tools", "s": "system", "m": "user"}

    def segments(names: str) -> list[Segment]:
        parts = [name.split(":") for name in names.split()]
        return [Segment(kinds[k], "", name, "", 4, 1, "exact", k + name) for k, name in parts]

    assert replaced(segments(gone), segments(rest)) == pairs


def test_a_tool_is_known_by_its_name() -> None:
    def tool(name: str, says: str) -> Segment:
        return Segment("tools", "", name, "", 4, 1, "exact", says)

    old, new = (
        [tool("a", "1"), tool("b", "2"), tool("c", "3")],
        [tool("b", "4"), tool("d", "5"), tool("a", "6")],
    )

    assert replaced(old, new) == {0: 2, 1: 0}


# ---- Anthropic: lookback


@pytest.mark.parametrize(
    ("written", "marks", "found"), [(15, (35,), 0), (16, (35,), 16), (15, (20, 35), 15), (34, (35,), 34)]
)
def test_the_page_s_example_of_35_blocks(written: int, marks: Sequence[int], found: int) -> None:
    """A breakpoint at block 35 looks at blocks 35 to 16; an entry at 15 is missed, unless another breakpoint is near."""
    provider = Provider()
    provider.ask(call(row(written, 200, (written,))))

    assert provider.read(call(row(35, 200, marks), at=10)) == 200 * found


def test_a_run_of_tool_calls_is_one_position_and_a_run_of_results_another() -> None:
    first: list[Block] = [("question", 2000, "5m")]
    tools: list[Block] = [(f"call {i}", 50, "", "tool_call") for i in range(30)]
    results: list[Block] = [(f"result {i}", 50, "", "tool_result") for i in range(30)]
    provider = Provider()
    provider.ask(call(first))

    assert provider.read(call([("question", 2000), *tools, *results, ("end", 10, "5m")], at=10)) == 2000


# ---- Anthropic: lifetimes


@pytest.mark.parametrize(
    ("marker", "gap", "alive"),
    [("5m", 300, True), ("5m", 301, False), ("1h", 3600, True), ("1h", 3601, False)],
)
def test_an_entry_lives_from_the_start_of_the_request(marker: str, gap: int, alive: bool) -> None:
    provider = Provider()
    provider.ask(call(row(1, 2000, (1,), marker), took=60))

    assert provider.read(call(row(2, 2000, (2,), marker), at=gap)) == (2000 if alive else 0)


def test_each_read_renews_it() -> None:
    provider = Provider()
    provider.ask(call(row(1, 2000, (1,))))

    assert provider.read(call(row(1, 2000, (1,)), at=200)) == 2000
    assert provider.read(call(row(1, 2000, (1,)), at=450)) == 2000
    assert provider.read(call(row(1, 2000, (1,)), at=751)) == 0


def test_an_entry_is_there_once_the_answer_has_begun() -> None:
    provider = Provider()
    writing = call(row(1, 2000, (1,)), took=30)
    provider.ask(replace(writing, first_token_unix_nano=START + 5 * SECOND))

    early = provider.ask(call(row(1, 2000, (1,)), at=4), "other")
    later = provider.ask(call(row(1, 2000, (1,)), at=6), "another")

    assert early.predicted is not None
    assert (early.predicted.read, early.barrier, early.lost) == (0, "parallel_miss", 2000)
    assert later.predicted is not None
    assert later.predicted.read == 2000


@pytest.mark.parametrize(
    ("reads", "causes"),
    [
        ((0, 1792, 1792), ("", "", "")),
        ((1792, 1792, 0), ("", "", "")),  # the one that began last was served first
        ((1792, 0, 1792), ("", "", "")),
        ((1792, 0, 0), ("", "", "parallel_miss")),
        ((0, 0, 0), ("", "parallel_miss", "parallel_miss")),
    ],
)
def test_of_equal_calls_that_run_beside_each_other_one_is_cold(
    reads: Sequence[int], causes: Sequence[str]
) -> None:
    provider = Provider()
    for i, (read, cause) in enumerate(zip(reads, causes, strict=True)):
        usage = Usage(input=1906, cache_read=read)
        now = call([("system", 1700), ("question", 206)], 0.1 * i, "gpt-4o", "openai", usage=usage)
        access = provider.ask(now, f"conversation {i}")
        assert (access.barrier, access.lost) == (cause, 1792 if cause else 0)
        assert access.outcome == ("hit" if read else "miss" if cause else "cold")


def test_the_best_is_no_worse_than_what_an_older_call_left_behind_a_change() -> None:
    """A tool changes and changes back: what stood there two calls ago is longer than what the last call shares."""
    simulator = Simulator(RULES, 100)
    old: Call | None = None
    first: list[Block] = [("system", 1280), ("tool", 640), ("question", 640)]
    for i, blocks in enumerate((first, [("system", 1280), ("other", 640)], [*first, ("answer", 200)])):
        total = sum(block[1] for block in blocks)
        now = call(blocks, 10 * i, "gpt-4o", "openai", usage=Usage(input=total, cache_read=0))
        at = None
        if old is not None:
            places = list(old.prompt)[1], list(now.prompt)[1]
            at = Break("messages[1]", "user", "modified", 1280, 0, 1, *places)
        tokens = Tokens(now.prompt.counted, None, None, "exact")
        access = simulator.step(
            now, "c", "continues" if old else "new", old, old, 1 if old else 0, at, tokens
        )
        old = now

    assert access is not None
    assert access.predicted is not None
    assert access.optimal is not None
    assert access.predicted.read == access.optimal.read == access.lost == 2560  # the entry of the first call


def test_what_is_missed_once_the_answer_has_begun_is_no_writer_s() -> None:
    provider = Provider()
    for i, read in enumerate((1792, 0)):
        usage = Usage(input=1906, cache_read=read)
        access = provider.ask(call([("system", 1906)], 5 * i, "gpt-4o", "openai", usage=usage), f"{i}")
    assert (access.outcome, access.lost) == ("miss", 1792)


@pytest.mark.parametrize(
    ("gap", "reported", "cause"),
    [(200, 0, "provider_side_miss"), (400, 0, "ttl_expired"), (4000, 0, "ttl_expired"), (200, 2000, "")],
)
def test_why_a_marked_prefix_was_missed(gap: int, reported: int, cause: str) -> None:
    provider = Provider()
    provider.ask(
        call(row(1, 2000, (1,)), usage=Usage(input=2000, cache_read=0, cache_write=2000, cache_write_1h=0))
    )
    usage = Usage(input=4000, cache_read=reported, cache_write=4000 - reported, cache_write_1h=0)
    access = provider.ask(call(row(2, 2000, (2,)), at=gap, usage=usage))

    assert (access.barrier or access.otherwise) == cause
    assert access.lost == (2000 if cause else 0)


# ---- Anthropic: what is written, what is too short


def test_read_written_and_the_rest() -> None:
    """A: the last hit, C: the last breakpoint. Read A, write C − A, the rest is plain input."""
    provider = Provider()
    provider.ask(call(row(2, 1000, (2,))))
    access = provider.ask(call(row(5, 1000, (4,)), at=10))

    assert access.predicted == (2000, 2000, 1000)


@pytest.mark.parametrize(
    ("model", "platform", "minimum"),
    [
        ("claude-opus-5-5", "anthropic", 512), (SONNET, "anthropic", 1024), (OPUS, "anthropic", 2048), (OPUS, "bedrock", 4096),
        ("claude-haiku-4-5", "anthropic", 4096), ("gpt-5.6", "openai", 1024),
    ],
)  # fmt: skip
def test_nothing_is_cached_below_the_minimum(model: str, platform: str, minimum: int) -> None:
    for tokens, read in ((minimum - 1, 0), (minimum, minimum)):
        provider = Provider()
        provider.ask(call([("start", tokens, "5m")], model=model, platform=platform))

        assert provider.read(call([("start", tokens, "5m"), ("more", 20, "5m")], 10, model, platform)) == read


def test_a_model_has_a_cache_of_its_own() -> None:
    provider = Provider()
    provider.ask(call(row(1, 2000, (1,)), usage=Usage(input=2000, cache_read=0, cache_write=2000)))
    usage = Usage(input=4000, cache_read=0, cache_write=4000)
    access = provider.ask(call(row(2, 2000, (2,)), at=10, model="claude-sonnet-4-6", usage=usage))

    assert (access.barrier, access.lost) == ("model_switch", 2000)


def test_a_setting_that_loses_the_messages() -> None:
    provider = Provider()
    provider.ask(call(row(1, 2000, (1,)), usage=Usage(input=2000, cache_read=0, cache_write=2000)))
    usage = Usage(input=4000, cache_read=0, cache_write=4000)
    access = provider.ask(call(row(2, 2000, (2,)), at=10, parameters=(("tool_choice", "x"),), usage=usage))

    assert access.predicted is not None
    assert (access.predicted.read, access.otherwise, access.note) == (
        0,
        "parameters_changed",
        "tool_choice changed.",
    )


def test_an_image_that_comes_or_goes_loses_the_messages_and_keeps_what_stands_before_them() -> None:
    provider = Provider()
    provider.ask(call([("system", 2000, "5m", "system"), ("question", 3000, "5m")]))
    now = call(
        [
            ("system", 2000, "5m", "system"),
            ("question", 3000),
            ("image", 500, "", "image"),
            ("and", 100, "5m"),
        ],
        at=10,
        usage=Usage(input=5600, cache_read=2000, cache_write=3600, cache_write_1h=0),
    )
    access = provider.ask(now)

    assert access.predicted is not None
    assert access.predicted.read == 2000
    assert (access.otherwise, access.note, access.lost) == (
        "parameters_changed",
        "An image was added or taken away.",
        3000,
    )


def test_images_that_stay_lose_nothing() -> None:
    system: Block = ("system", 2000, "5m", "system")
    image: Block = ("image", 500, "", "image")
    provider = Provider()
    provider.ask(call([system, image, ("question", 3000, "5m")]))

    assert provider.read(call([system, image, ("question", 3000), ("more", 100, "5m")], at=10)) == 5500


def test_a_setting_that_loses_the_system_prompt_too() -> None:
    """Fast mode keeps the tools alone, a choice of tools the system prompt as well."""
    tool: Block = ("tool", 2000, "5m", "tools")
    system: Block = ("system", 2000, "5m", "system")
    for name, read in (("speed", 2000), ("tool_choice", 4000)):
        provider = Provider()
        provider.ask(call([tool, system, ("question", 1000, "5m")]))

        assert (
            provider.read(
                call([tool, system, ("question", 1000, "5m")], at=10, parameters=((name, "x"),)), "other"
            )
            == read
        )


# ---- Anthropic: thinking

OPUS_5 = "claude-opus-5"


def thinking(model: str, read: int, total: int) -> Access:
    """Two calls with thinking, and a third that begins with a user's words: 2,000 of them, 500 of thinking, 1,000, 100."""
    first: list[Block] = [("system", 2000, "5m", "system"), ("question", 1000)]
    loop: list[Block] = [
        ("thought", 500, "", "thinking"),
        ("call", 100, "", "tool_call"),
        ("result", 900, "", "tool_result"),
    ]
    last: list[Block] = [("answer", 100, "", "assistant"), ("more", 300, "5m")]
    provider = Provider()
    provider.ask(call([*first[:-1], ("question", 1000, "5m")], model=model))
    provider.ask(call([*first, *loop[:-1], ("result", 900, "5m", "tool_result")], 10, model))  # type: ignore[list-item]
    usage = Usage(input=total, cache_read=read, cache_write=total - read, cache_write_1h=0)
    return provider.ask(call([*first, *loop, *last], 20, model, usage=usage))


def test_a_user_s_message_takes_out_the_thinking_before_it() -> None:
    """On Sonnet 4.5: what stood in front of the first block is read, the 1,000 tokens behind it are lost."""
    access = thinking(SONNET, 3000, 4400)

    assert access.predicted is not None
    assert access.predicted.read == 3000
    assert (access.otherwise, access.sure, access.lost) == ("server_side_rewrite_suspected", "reported", 1000)


def test_later_models_keep_it() -> None:
    access = thinking(OPUS_5, 4500, 4900)

    assert access.predicted is not None
    assert (access.predicted.read, access.lost) == (4500, 0)


@pytest.mark.parametrize("read", [4500, 3000])
def test_what_usage_shows_is_believed_before_the_rule(read: int) -> None:
    """4,900 tokens are all of them: nothing was taken out."""
    access = thinking(SONNET, read, 4900)

    assert access.predicted is not None
    assert access.predicted.read == 4500
    assert access.otherwise == ("" if read == 4500 else "provider_side_miss")


def test_thinking_that_was_taken_out_is_no_position_of_the_lookback() -> None:
    """Seven blocks of thinking stood in front of the last marker: 24 new positions are too many, whatever is gone."""
    loop: list[Block] = []
    for i in range(7):
        loop += [
            (f"thought {i}", 5, "", "thinking"),
            (f"call {i}", 20, "", "tool_call"),
            (f"result {i}", 300, "", "tool_result"),
        ]
    first: list[Block] = [("system", 3000, "", "system"), ("question", 1000)]
    new: list[Block] = [(f"note {i}", 20) for i in range(24)]
    provider = Provider()
    written = 4000 + 7 * 325
    usage = Usage(input=written, cache_read=0, cache_write=written, cache_write_1h=0)
    provider.ask(call([*first, *loop[:-1], ("result 6", 300, "5m", "tool_result")], usage=usage))  # type: ignore[list-item]
    total = written - 35 + 480
    usage = Usage(input=total, cache_read=3000, cache_write=total - 3000, cache_write_1h=0)
    access = provider.ask(call([*first, *loop, *new[:-1], ("note 23", 20, "5m")], 10, usage=usage))

    assert access.otherwise == "lookback_exceeded"


def test_a_marker_that_stays_is_frozen_though_the_thinking_in_front_of_it_goes() -> None:
    """The place in tokens is another one, and no block at the end of the prompt was marked by itself."""
    first: list[Block] = [("system", 2000, "5m", "system"), ("question", 1000)]
    loop: list[Block] = [
        ("thought", 500, "", "thinking"),
        ("call", 40, "", "tool_call"),
        ("result", 900, "5m", "tool_result"),
    ]
    more: list[Block] = [("call 2", 40, "", "tool_call"), ("result 2", 900, "", "tool_result"), ("call 3", 40, "", "tool_call"),
                         ("result 3", 900, "", "tool_result")]  # fmt: skip
    provider = Provider()
    provider.ask(
        call([*first, *loop], usage=Usage(input=4440, cache_read=0, cache_write=4440, cache_write_1h=0))
    )
    usage = Usage(input=6320, cache_read=4440, cache_write=0)
    provider.ask(call([*first, *loop, *more], 10, usage=usage))
    last: list[Block] = [("answer", 60, "", "assistant"), ("more", 100)]
    usage = Usage(input=5980, cache_read=2000, cache_write=1940, cache_write_1h=0)
    access = provider.ask(call([*first, *loop, *more, *last], 20, usage=usage))

    assert (access.otherwise, access.behind_cause) == ("frozen_breakpoint", "")


def test_a_marker_that_stays_is_known_though_its_place_is_only_counted() -> None:
    """No marker is on the span. The thinking was 460 tokens and was counted as 500: the same marker seems to stand two small
    blocks further on."""
    first: list[Block] = [("system", 2000, "", "system"), ("question", 1000)]
    loop: list[Block] = [
        ("thought", 500, "", "thinking"),
        ("call", 40, "", "tool_call"),
        ("result", 900, "", "tool_result"),
    ]
    more: list[Block] = [
        ("call 2", 20, "", "tool_call"),
        ("call 3", 20, "", "tool_call"),
        ("result 2", 900, "", "tool_result"),
    ]
    last: list[Block] = [("answer", 60, "", "assistant"), ("more", 100)]
    provider = Provider()
    provider.ask(call(first[:1], usage=Usage(input=2000, cache_read=0, cache_write=2000)))
    provider.ask(call([*first, *loop], 5, usage=Usage(input=4440, cache_read=2000, cache_write=2440)))
    provider.ask(call([*first, *loop, *more], 10, usage=Usage(input=5380, cache_read=4440, cache_write=0)))
    usage = Usage(input=5080, cache_read=2000, cache_write=1980)
    access = provider.ask(call([*first, *loop, *more, *last], 20, usage=usage))

    assert access.otherwise == "frozen_breakpoint"


def test_thinking_goes_on_each_branch_of_a_fork() -> None:
    """Two calls go on from the same one, each with a user's words: what the first takes out had stood before the second,
    and what the first had added of its own was not asked for by the call that both go on from."""
    first: list[Block] = [("system", 2000, "5m", "system"), ("question", 1000)]
    loop: list[Block] = [
        ("thought", 500, "", "thinking"),
        ("call", 100, "", "tool_call"),
        ("result", 900, "", "tool_result"),
    ]
    answer: Block = ("answer", 100, "", "assistant")
    provider = Provider()
    provider.ask(call([*first[:-1], ("question", 1000, "5m")]))
    stem = call(
        [*first, *loop[:-1], ("result", 900, "5m", "tool_result")],  # type: ignore[list-item]
        10,
        usage=Usage(input=4500, cache_read=3000, cache_write=1500, cache_write_1h=0),
    )
    provider.ask(stem)
    for at, words, size in ((20, "one", 2000), (30, "two", 300)):
        provider.before = stem
        total = 4100 + size
        usage = Usage(input=total, cache_read=3000, cache_write=total - 3000, cache_write_1h=0)
        access = provider.ask(call([*first, *loop, answer, (words, size, "5m")], at, usage=usage))

        assert (access.otherwise, access.lost) == ("server_side_rewrite_suspected", 1000)


def cleared_once(read: int) -> Access:
    """A provider takes 880 tokens of a result out of the third prompt, and thinking stands behind it; the fourth begins with
    a user's words, which take that thinking out too."""
    blocks: list[Block] = [("system", 2000, "5m", "system"), ("question", 1000)]
    provider = Provider()

    def ask(at: float, read: int, total: int, *more: Block) -> Access:
        blocks.extend(more)
        usage = Usage(input=total, cache_read=read, cache_write=total - read, cache_write_1h=0)
        end = (*blocks[-1][:2], "5m", *blocks[-1][3:])
        return provider.ask(call([*blocks[:-1], end], at, usage=usage))  # type: ignore[list-item]

    ask(0, 0, 3000)
    ask(10, 3000, 4000, ("call", 100, "", "tool_call"), ("result", 900, "", "tool_result"))
    ask(
        20,
        4000,
        5000,
        ("thought", 500, "", "thinking"),
        ("call 2", 100, "", "tool_call"),
        ("result 2", 400, "", "tool_result"),
    )
    third = ask(30, 3000, 5120, ("call 3", 100, "", "tool_call"), ("result 3", 900, "", "tool_result"))
    assert (third.otherwise, third.sure) == ("server_side_rewrite_suspected", "inferred")
    return ask(40, read, 5020, ("answer", 100, "", "assistant"), ("more", 300))


def test_what_a_provider_put_in_place_of_a_text_is_not_in_the_cache_as_it_was_sent() -> None:
    """What had been written behind the result when it was whole is not found any more."""
    access = cleared_once(3000)

    assert access.predicted is not None
    assert access.predicted.read == 3000
    assert (access.otherwise, access.sure, access.lost) == ("server_side_rewrite_suspected", "reported", 1620)


def test_a_provider_that_took_text_out_before_may_have_done_it_again() -> None:
    access = cleared_once(2000)

    assert (access.otherwise, access.sure, access.lost) == ("server_side_rewrite_suspected", "inferred", 2620)


@pytest.mark.parametrize(("gap", "cause"), [(3100, "server_side_rewrite_suspected"), (3700, "ttl_expired")])
def test_an_entry_that_outlived_shows_that_its_neighbours_may_live(gap: int, cause: str) -> None:
    """Five minutes or an hour? What stood in front of the thinking that went was read after 3,100 seconds."""
    first: list[Block] = [("system", 2000, "", "system"), ("question", 1000)]
    loop: list[Block] = [
        ("thought", 500, "", "thinking"),
        ("call", 100, "", "tool_call"),
        ("result", 900, "", "tool_result"),
    ]
    provider = Provider()
    provider.ask(call(first, usage=Usage(input=3000, cache_read=0, cache_write=3000)))
    provider.ask(call([*first, *loop], 10, usage=Usage(input=4500, cache_read=3000, cache_write=1500)))
    usage = Usage(input=4400, cache_read=3000, cache_write=1400)
    access = provider.ask(
        call([*first, *loop, ("answer", 100, "", "assistant"), ("more", 300)], gap, usage=usage)
    )

    assert (access.barrier or access.otherwise, access.lost) == (cause, 1000)


# ---- Anthropic: markers that only usage tells


def told(total: int, read: int, write: int, at: float, blocks: int) -> Call:
    return call(
        row(blocks, 1000),
        at=at,
        usage=Usage(input=total, cache_read=read, cache_write=write, cache_write_1h=0),
    )


@pytest.mark.parametrize("known", [True, False])
def test_requests_at_once_miss_what_usage_showed_to_be_marked(known: bool) -> None:
    """No span shows a marker. That the end of the system prompt has one is known where it was read to there before: then two
    requests at once with another system prompt have nothing to read yet."""

    def asked(system: str, words: str, at: float, read: int = 0) -> Call:
        usage = Usage(input=2500, cache_read=read, cache_write=2500 - read, cache_write_1h=0)
        return call([(system, 2000, "", "system"), (words, 500)], at, took=5, usage=usage)

    provider = Provider()
    provider.ask(asked("one", "a", 0), "a")
    if known:
        provider.ask(asked("one", "b", 20, read=2000), "b")
    provider.ask(asked("two", "c", 40), "c")
    access = provider.ask(asked("two", "d", 41), "d")

    expected = ("parallel_miss", "inferred", 2000) if known else ("", "unknown", 0)
    assert (access.barrier, access.sure, access.lost) == expected


def test_results_that_were_cleared_are_no_more_than_those_that_were_there() -> None:
    """Of 2,400 tokens that are missing, the old results held 1,400 but for what stays in their place: the others are of the
    new results, so 1,024 of the old prompt's 5,000 tokens behind the system prompt can still be there."""
    old: list[Block] = [
        ("system", 2000, "", "system"),
        ("question", 1576),
        ("call", 24, "", "tool_call"),
        ("result", 1400, "", "tool_result"),
    ]
    new: list[Block] = [("call 2", 50, "", "tool_call"), ("call 3", 50, "", "tool_call"), ("result 2", 1000, "", "tool_result"),
                        ("result 3", 1000, "", "tool_result")]  # fmt: skip
    provider = Provider()
    provider.ask(call(old, usage=Usage(input=5000, cache_read=0, cache_write=5000, cache_write_1h=0)))
    usage = Usage(input=4700, cache_read=2000, cache_write=2700, cache_write_1h=0)
    access = provider.ask(call([*old, *new], 10, usage=usage))

    assert (access.otherwise, access.lost) == ("server_side_rewrite_suspected", 5000 - 1376 - 2000)


def test_where_nothing_was_marked_nothing_is_read() -> None:
    provider = Provider()
    provider.ask(told(2000, 0, 2000, 0, 2))

    access = provider.ask(told(3000, 0, 0, 10, 3))

    assert access.predicted is not None
    assert access.predicted.read == 0
    assert access.optimal is not None
    assert access.optimal.read == 2000


@pytest.mark.parametrize(
    ("turns", "cause", "lost"),
    [
        # what was read and written in each turn of 1,000 more tokens
        ([(0, 2000), (2000, 1000), (3000, 1000)], "", 0),
        ([(0, 0), (0, 0), (0, 0)], "no_cache_control", 3000),
        ([(0, 2000), (2000, 0), (2000, 0)], "frozen_breakpoint", 1000),
    ],
)
def test_the_last_breakpoint_is_computed_from_usage(
    turns: list[tuple[int, int]], cause: str, lost: int
) -> None:
    provider = Provider()
    for i, (read, write) in enumerate(turns):
        access = provider.ask(told(2000 + 1000 * i, read, write, 10 * i, 2 + i))

    assert (access.barrier or access.otherwise, access.lost) == (cause, lost)


def test_what_the_provider_took_out_is_not_expected() -> None:
    """3,000 tokens were there and 1,000 came: 2,500 are left, so 1,500 old ones are gone and 1,500 could have been read."""
    provider = Provider()
    provider.ask(told(3000, 0, 3000, 0, 3))
    access = provider.ask(told(2500, 0, 2500, 10, 4))

    assert (access.otherwise, access.lost) == ("server_side_rewrite_suspected", 1500)


@pytest.mark.parametrize(("tail", "cause"), [("1h", "ttl_lost"), ("5m", "ttl_expired")])
def test_a_lifetime_is_lost_where_the_same_place_had_a_longer_one(tail: str, cause: str) -> None:
    """An hour for the system prompt is none for the conversation behind it."""
    provider = Provider()

    def asked(at: float, marker: str, read: int, blocks: int) -> Call:
        usage = Usage(input=2000 * blocks, cache_read=read, cache_write=2000 * blocks - read)
        middle = row(blocks, 2000)[1:-1]
        return call([("system", 2000, "1h"), *middle, (f"block {blocks - 1}", 2000, marker)], at, usage=usage)

    provider.ask(asked(0, tail, 0, 2))
    provider.ask(asked(10, "5m", 4000, 3))
    access = provider.ask(asked(1000, "5m", 0, 4))

    assert access.barrier == cause


# ---- OpenAI


def test_hidden_tokens_of_gpt_5_5_are_known_from_what_was_read() -> None:
    """A read of 1,536 says that 512 stand in front: breakpoints are at 1,536, 3,584, 5,632."""
    provider = Provider()
    for i, (total, read) in enumerate([(3000, 0), (3500, 1536), (4000, 1536), (4500, 0)]):
        usage = Usage(input=total, cache_read=read)
        access = provider.ask(call(row(6 + i, 500), 10 * i, "gpt-5.5", "openai", usage=usage))

    assert (access.expected, access.lost) == (3584, 3584)


@pytest.mark.parametrize(
    ("tokens", "read"), [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (5000, 4992)]
)
def test_steps_of_128_from_1024(tokens: int, read: int) -> None:
    provider = Provider()
    provider.ask(call([("start", tokens)], model="gpt-4o", platform="openai"))

    assert provider.read(call([("start", tokens), ("more", 500)], 10, "gpt-4o", "openai")) == read


@pytest.mark.parametrize(("tokens", "read"), [(2047, 0), (2048, 2048), (4095, 2048), (4096, 4096)])
def test_breakpoints_of_2048_on_gpt_5_5(tokens: int, read: int) -> None:
    provider = Provider()
    provider.ask(call([("start", tokens)], model="gpt-5.5", platform="openai"))

    assert provider.read(call([("start", tokens), ("more", 500)], 10, "gpt-5.5", "openai")) == read


def test_gpt_5_6_reads_to_the_end_of_a_message_exactly_and_its_writes_cost() -> None:
    provider = Provider()
    provider.ask(call([("start", 1333)], model="gpt-5.6", platform="openai"))
    access = provider.ask(call([("start", 1333), ("more", 500)], 10, "gpt-5.6", "openai"))

    assert access.predicted == (1333, 500, 0)


def test_gpt_5_6_owes_a_new_conversation_nothing() -> None:
    """The end of the developer message is looked up; that an entry is written there is not said."""
    provider = Provider()

    def asked(question: str, at: float) -> Call:
        now = call([("instructions", 2000, "", "system"), (question, 100)], at, "gpt-5.6", "openai")
        return replace(now, usage=Usage(input=2100, cache_read=0, cache_write=2100))

    provider.ask(asked("one", 0), "one")

    assert provider.ask(asked("two", 10), "two").lost == 0


def test_a_prefix_that_another_conversation_sent() -> None:
    provider = Provider()
    provider.ask(call([("system", 1500), ("question", 100)], model="gpt-4o", platform="openai"), "one")

    assert provider.read(call([("system", 1500), ("other", 100)], 10, "gpt-4o", "openai"), "two") == 1408


@pytest.mark.parametrize(
    ("relation", "at", "cause"),
    [
        ("forks", 7200, "ttl_expired"),  # it goes on with what was there
        ("new", 7200, ""),  # a cold start
        ("joined", 0.5, "parallel_miss"),  # whatever came before it: the same prompt was on its way
    ],
)
def test_what_another_conversation_sent_is_expected_by_who_goes_on_with_it(
    relation: str, at: float, cause: str
) -> None:
    simulator = Simulator(RULES, 100)
    blocks: list[Block] = [("system", 1500, "5m"), ("question", 500, "5m")]
    for name, kind, when in (("one", "new", 0.0), ("two", relation, at)):
        usage = Usage(input=2000, cache_read=0, cache_write=2000, cache_write_1h=0)
        now = call(blocks, when, usage=usage)
        access = simulator.step(now, name, kind, None, None, 0, None, Tokens(2000, None, None, "exact"))  # type: ignore[arg-type]

    assert access is not None
    assert (access.barrier, access.lost) == (cause, 2000 if cause else 0)


def test_a_miss_of_a_cache_that_promises_nothing_is_nobody_s() -> None:
    provider = Provider()
    for i in range(3):
        usage = Usage(input=5000 + 1000 * i, cache_read=0)
        access = provider.ask(call(row(5 + i, 1000), 10 * i, "gemini-2.5-flash", "gemini-api", usage=usage))

    assert (access.barrier, access.otherwise) == ("", "")


# ---- money


def priced(model: str, **usage: int | None) -> Any:
    return cost_of(call([("x", 1)], model=model, usage=Usage(**usage)), (), RULES)


def test_an_hour_costs_twice_the_input_price() -> None:
    cost = priced(
        "claude-opus-4-5", input=8992, cache_read=0, cache_write=8989, cache_write_1h=8989, output=0
    )

    assert cost.parts["cache_write"] == pytest.approx(0.08989)  # at $5 per million tokens
    assert cost.low == cost.high == cost.usd


def test_writes_of_an_unknown_lifetime_have_two_bounds() -> None:
    cost = priced("claude-opus-4-5", input=8992, cache_read=0, cache_write=8989, output=0)

    rest = 3 * 5 / 1_000_000
    assert (cost.low, cost.high) == (pytest.approx(0.05618125 + rest), pytest.approx(0.08989 + rest))


def test_a_long_request_costs_more_in_every_class() -> None:
    short = priced("claude-haiku-5-5", input=100_000, cache_read=50_000, cache_write=0, output=1000)
    long = priced("claude-haiku-5-5", input=100_001, cache_read=50_000, cache_write=0, output=1000)

    assert long.parts["cache_read"] == pytest.approx(5 * short.parts["cache_read"])
    assert long.parts["output"] == pytest.approx(5 * short.parts["output"])


def test_an_unknown_price_is_no_price() -> None:
    assert priced("nobody-s-model", input=10, output=1) is None


def test_parts_add_up_and_waste_is_what_a_read_would_have_saved() -> None:
    usage = Usage(input=10_000, cache_read=1000, cache_write=9000, cache_write_1h=0, output=100)
    cost = cost_of(call([("x", 1)], usage=usage), [("volatile_prefix", 4000)], RULES)

    assert cost is not None
    assert cost.usd == pytest.approx(sum(cost.parts.values()))
    assert cost.wasted == pytest.approx(4000 * (3.75 - 0.3) / 1_000_000)


def test_what_one_cause_lost_in_two_places_adds_up() -> None:
    usage = Usage(input=10_000, cache_read=1000, cache_write=9000, cache_write_1h=0, output=100)
    asked = call([("x", 1)], usage=usage)
    whole = cost_of(asked, [("prefix_changed", 4000)], RULES)
    parts = cost_of(asked, [("prefix_changed", 3000), ("prefix_changed", 1000)], RULES)

    assert whole is not None
    assert parts is not None
    assert parts.losses == pytest.approx(whole.losses)
    assert parts.wasted == pytest.approx(whole.wasted)


def test_a_class_without_a_price_costs_what_the_rule_of_the_cache_says() -> None:
    own = own_price("claude-opus-5-5", "usd = { input = 2.0, output = 8.0 }", "anthropic")
    usage = Usage(input=3_000_000, cache_read=1_000_000, cache_write=2_000_000, cache_write_1h=1_000_000)
    cost = cost_of(call([("x", 1)], model="claude-opus-5-5", usage=usage), (), load(own))

    assert cost is not None
    assert cost.parts["cache_read"] == pytest.approx(2 * 0.05)
    assert cost.parts["cache_write"] == pytest.approx(2 * 1.25 + 2 * 2)


@pytest.mark.parametrize("far", [-(2**70), -1, 0, 2**63, 2**64 - 1, 2**70])
def test_a_store_takes_any_number_that_a_span_claims(far: int) -> None:
    store = Store(3600)
    store.use("scope", 1, Entry(far, far, far, None, 300))
    found = store.get("scope", 1)

    assert found is not None
    assert found.tokens == found.start == found.ready == min(max(far, 0), 2**64 - 1)
    assert (found.least, found.most) == (None, 300)
