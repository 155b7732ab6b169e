"""The HTML report in a browser: every panel, key, link and filter, on a real report."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from otel_ctx.outputs.html import Bounds, render
from otel_ctx.outputs.report import Inputs, build
from tests.browser.window import Open
from tests.html_reports import INPUTS, blocks, chat, judged, part, support_agent, text, usage_only

PANELS = (
    "Depth over turns", "Prefix map", "What fills the window", "This turn", "Findings", "Cache", "Segments", "What changed",
    "Segment", "Tools and duplicates", "Not checked",
)  # fmt: skip
BROKEN, LONG = 0, 1  # the two conversations of the dump: one whose prefix breaks each turn, one of 24 turns


@cache
def report() -> bytes:
    return render(support_agent(), INPUTS, title="support-agent")


@cache
def told() -> dict[str, Any]:
    return build(support_agent(), INPUTS)


def place(page: Page) -> dict[str, str]:
    return dict(p.split("=", 1) for p in page.evaluate("location.hash").lstrip("#").split("&") if p)


def panel(page: Page, name: str) -> Locator:
    return page.locator(f'section[aria-label="{name}"]')


def calls_of(conversation: int) -> list[dict[str, Any]]:
    by_id = {c["id"]: c for c in told()["calls"]}
    return [by_id[id_] for id_ in told()["conversations"][conversation]["calls"]]


# ---- the first page


def test_the_first_page_says_what_matters_first(opened: Open) -> None:
    one = opened(report())
    page = one.page

    assert page.title() == "support-agent – otelctx"
    expect(panel(page, "Totals")).to_contain_text("billed again24k")
    expect(panel(page, "First")).to_contain_text(
        "System prompt contains a value that changes between requests"
    )
    expect(panel(page, "Services").locator("tbody tr")).to_have_count(2)
    one.quiet()


def test_a_finding_leads_to_its_call(opened: Open) -> None:
    page = opened(report()).page
    first = told()["findings"][0]["calls"][0]
    turn = next(c["turn"] for c in told()["calls"] if c["id"] == first)

    panel(page, "First").get_by_role("button", name="go to the first").click()

    assert place(page) == {"c": str(BROKEN), "t": str(turn)}
    expect(page.locator("h1")).to_contain_text("support-agent-js")


def test_services_filter_the_conversations(opened: Open) -> None:
    page = opened(report()).page

    panel(page, "Services").get_by_role("button", name="larkspur-support").click()

    rows = page.locator('[aria-label="Conversations"] .body .row')
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("larkspur-support")
    assert place(page)["service"] == "larkspur-support"
    panel(page, "Services").get_by_role("button", name="larkspur-support").click()
    expect(rows).to_have_count(2)


@pytest.mark.parametrize(
    ("tab", "filter_", "value", "rows"),
    [
        ("conversations", "service", "support-agent-js", 1), ("calls", "service", "support-agent-js", 8),
        ("calls", "outcome", "miss", 7), ("findings", "severity", "error", 1),
    ],
)  # fmt: skip
def test_each_filter_leaves_what_it_says(opened: Open, tab: str, filter_: str, value: str, rows: int) -> None:
    page = opened(report(), f"tab={tab}").page

    page.locator(f"#filter-{filter_}").select_option(value)

    expect(page.locator("[role=tabpanel] .body .row, [role=tabpanel] .finding")).to_have_count(rows)
    assert place(page)[filter_] == value
    page.reload()
    expect(page.locator(f"#filter-{filter_}")).to_have_value(value)
    expect(page.locator("[role=tabpanel] .body .row, [role=tabpanel] .finding")).to_have_count(rows)


@pytest.mark.parametrize(
    ("tab", "word", "rows"),
    [
        ("conversations", "gpt-4o", 1),
        ("conversations", "volatile_prefix", 1),
        ("calls", "claude", 8),
        ("findings", "DUPLICATE", 3),
        ("unchecked", "tools_changed", 1),
        ("calls", "no such", 0),
    ],
)
def test_search_in_each_list(opened: Open, tab: str, word: str, rows: int) -> None:
    page = opened(report(), f"tab={tab}").page

    page.keyboard.press("/")
    page.keyboard.type(word)

    expect(
        page.locator("[role=tabpanel] .body .row, [role=tabpanel] .finding, [role=tabpanel] .unchecked li")
    ).to_have_count(rows)
    if not rows:
        expect(page.get_by_text("Nothing matches.")).to_be_visible()


def test_tabs_by_mouse_and_by_arrows(opened: Open) -> None:
    page = opened(report()).page

    page.get_by_role("tab", name="Calls").click()
    expect(page.locator('[aria-label="Calls"] .body .row').first).to_be_visible()
    page.keyboard.press("ArrowRight")
    assert place(page)["tab"] == "findings"
    expect(page.locator("[role=tabpanel] .finding")).to_have_count(6)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=tabpanel]")).to_contain_text("support-agent.otlp.jsonl.gz")


def test_columns_sort_both_ways(opened: Open) -> None:
    page = opened(report()).page
    names = page.locator('[aria-label="Conversations"] .body .row')

    page.get_by_role("button", name="turns", exact=True).click()
    expect(names.first).to_contain_text("larkspur-support")
    expect(page.locator("[aria-sort=descending]")).to_contain_text("turns")
    page.get_by_role("button", name="turns").first.click()
    expect(names.first).to_contain_text("support-agent-js")


def test_a_list_is_walked_by_keys(opened: Open) -> None:
    page = opened(report(), "tab=calls").page
    grid = page.locator('[aria-label="Calls"][role=grid]')

    grid.focus()
    for key in ("End", "Home", "ArrowDown", "ArrowDown", "ArrowUp", "PageDown", "PageUp"):
        page.keyboard.press(key)
    active = page.locator(f"#{grid.get_attribute('aria-activedescendant')}")
    expect(active).to_have_attribute("aria-rowindex", "3")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    third = told()["calls"][2]
    assert place(page)["t"] == str(third["turn"])


# ---- a conversation


def test_every_panel_is_there_and_says_something(opened: Open) -> None:
    one = opened(report(), f"c={BROKEN}&t=4&s=0")

    for name in PANELS:
        assert len(panel(one.page, name).inner_text()) > len(name) + 10, name
    one.quiet()


def test_the_turn_s_cache_is_the_report_s(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=4").page
    call = calls_of(BROKEN)[3]

    cells = panel(page, "This turn").locator("tbody td").all_inner_texts()

    states = [call["cache"][name] for name in ("predicted", "reported", "optimal")]
    assert cells == [f"{s[key]:,}" for key in ("read", "write", "uncached") for s in states]
    expect(panel(page, "This turn")).to_contain_text("volatile prefix")
    expect(panel(page, "This turn")).to_contain_text(f"{call['waste']['tokens']:,} tokens")


def test_the_cache_table_has_a_row_for_each_turn(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}").page
    rows = panel(page, "Cache").locator(".body .row")
    expect(rows).to_have_count(8)
    for i, call in enumerate(calls_of(BROKEN)):
        shown = rows.nth(i).locator("[role=gridcell]").all_inner_texts()
        cache = call["cache"]
        reads = [f"{cache[name]['read']:,}" for name in ("predicted", "reported", "optimal")]
        assert shown[:6] == [str(i + 1), cache["outcome"], *reads, f"{call['waste']['tokens']:,}"]
        assert shown[7] == (cache["cause"] or "–").replace("_", " ")
        assert shown[8] == (cache["evidence"] or "–")


def test_the_prefix_map_draws_what_was_read_and_lost(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}").page
    row = panel(page, "Prefix map").locator(".body .row").nth(3)
    call = calls_of(BROKEN)[3]

    width = {
        name: row.locator(f"rect.state.{name}").evaluate_all("all => all.reduce((n, r) => n + r.width.baseVal.value, 0)")
        for name in ("read", "lost", "written", "fresh")
    }  # fmt: skip

    assert width["read"] == width["fresh"] == 0
    share = width["lost"] / (width["lost"] + width["written"])
    assert share == pytest.approx(call["waste"]["tokens"] / call["context"]["usage"], abs=0.01)
    expect(row.locator(".break")).to_have_count(1)
    assert "lost: billed again 2,647" in (row.locator("svg").get_attribute("aria-label") or "")
    # not by colour alone
    assert row.locator("rect.lost").first.evaluate("e => getComputedStyle(e).fill").startswith("url(")
    expect(row.locator(".letter text").first).to_have_text("L")


def test_the_window_s_tiles_fill_it_and_open_segments(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=4").page
    area = page.locator(".tile").evaluate_all(
        "all => all.reduce((n, t) => n + parseFloat(t.style.width) * parseFloat(t.style.height), 0)"
    )
    assert area == pytest.approx(100 * 100, rel=0.02)

    page.locator(".tile", has_text="system[0]").click()

    assert place(page)["s"] == "0"
    expect(panel(page, "Segment")).to_contain_text("You are the support agent of Larkspur & Finch")
    expect(panel(page, "Segments").locator("[aria-selected=true]")).to_contain_text("system[0]")


def test_segments_are_found_by_their_text(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=8").page

    page.locator("#segments").fill("unworn items with their tags")

    rows = panel(page, "Segments").locator(".body .row")
    assert rows.count() > 0
    for i in range(rows.count()):
        expect(rows.nth(i)).to_contain_text("tool result")
    rows.first.click()
    expect(panel(page, "Segment").locator("pre")).to_contain_text("unworn items with their tags")


def test_what_changed_shows_the_characters(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=4").page
    changed = panel(page, "What changed")

    expect(changed).to_contain_text("turn 3 → turn 4")
    expect(changed).to_contain_text("Not compared: tools")
    edit = changed.locator("li.changed").first
    gone, new = edit.locator("del").all_inner_texts(), edit.locator("ins").all_inner_texts()
    assert gone
    assert new
    assert all(re.fullmatch(r"\[-\d+-\]", t) for t in gone)  # digits of a clock, and nothing else
    assert all(re.fullmatch(r"\{\+\d+\+\}", t) for t in new)


def test_what_changed_is_read_word_by_word_and_without_colour(opened: Open) -> None:
    first = chat(1, [text("system", "it is 20:10:10.798578 today 今は12時です"), text("user", "hi")])
    second = chat(2, [text("system", "it is 20:10:11.109292 today 今は13時です"), text("user", "hi")])
    one = opened(render(judged([first, second]), INPUTS), "c=0&t=2&b=1")

    edit = panel(one.page, "What changed").locator("li.changed pre")
    assert edit.inner_text() == "it is 20:10:[-10.798578-]{+11.109292+} today 今は[-12-]{+13+}時です"
    one.quiet()


def test_turns_left_are_rounded_down_on_every_page(opened: Open) -> None:
    """405.9 and 287.5 turns fit; the eighth turn and 405 more are 413."""
    page = opened(report()).page
    listed = page.get_by_role("tabpanel")
    expect(listed).to_contain_text("405")
    expect(listed).to_contain_text("287")
    for conversation, left, full in ((BROKEN, "405", "413"), (LONG, "287", "311")):
        one = opened(report(), f"c={conversation}").page
        shown = one.locator('section[aria-label="Conversation"]')
        expect(shown).to_contain_text(f"turns left{left}")
        expect(shown).to_contain_text(f"full atturn {full}")
        expect(one.locator(f'svg[aria-label*="full at about turn {full}"]')).to_have_count(1)


def test_a_restart_says_what_it_saves(opened: Open) -> None:
    shown = opened(report(), f"c={BROKEN}").page.locator('section[aria-label="Conversation"]')

    expect(shown).to_contain_text(re.compile(r"a restart would save[\d.]+[kM] tokens over the turns left"))


def test_the_first_change_has_the_reports_offset(opened: Open) -> None:
    calls = calls_of(BROKEN)
    for turn in (4, 5):
        offset = calls[turn - 1]["cache"]["break"]["char_offset"]
        assert offset == {4: 31, 5: 29}[turn]
        page = opened(report(), f"c={BROKEN}&t={turn}").page
        expect(panel(page, "This turn")).to_contain_text(f"changed at character {offset}")


def test_any_two_turns_can_be_compared(opened: Open) -> None:
    page = opened(report(), f"c={LONG}&t=24").page

    page.locator("#against").select_option("1")

    assert place(page)["b"] == "1"
    shared = len(_segments(LONG, 0))
    expect(panel(page, "What changed").locator(".sums")).to_contain_text(f"= {shared} same")
    expect(panel(page, "What changed").locator(".sums")).to_contain_text(
        f"+ {len(_segments(LONG, 23)) - shared} added"
    )
    page.locator("#against").select_option("24")
    expect(panel(page, "What changed")).to_contain_text("Choose another turn")


def _segments(conversation: int, at: int) -> list[object]:
    id_ = told()["conversations"][conversation]["calls"][at]
    return list(next(r for r in support_agent().readings if r.call.id == id_).call.prompt)


def test_moved_added_evicted_and_changed_are_told_apart(opened: Open) -> None:
    said = [
        text(("user", "assistant")[i % 2], " ".join(f"{letter}{n}" for n in range(12)))
        for i, letter in enumerate("abcdefghijklmnop")
    ]
    rules, edited, new = (
        text("system", "rules " * 40),
        text("user", said[8]["parts"][0]["content"] + "X"),
        text("user", "new"),
    )
    later = [rules, *said[:8], edited, said[9], said[12], said[13], said[10], said[11], said[15], new]
    first = chat(1, [rules, *said], **{"gen_ai.usage.input_tokens": 460})
    second = chat(2, later, **{"gen_ai.usage.input_tokens": 470})
    one = opened(render(judged([first, second]), INPUTS), "c=0&t=2")

    rows = panel(one.page, "What changed").locator("ul.diff > li").all()

    kinds = [row.get_attribute("class") for row in rows]
    assert kinds[:3] == ["same", "changed", "same"]
    assert sorted(k for k in kinds if k != "same") == ["added", "changed", "evicted", "moved", "moved"]
    expect(rows[0]).to_contain_text("9 segments the same")
    changed = panel(one.page, "What changed").locator("li.changed")
    expect(changed.locator("ins")).to_contain_text("X")
    one.quiet()


def test_links_of_findings_go_to_their_turns(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=1").page

    panel(page, "Findings").locator(".finding.error").get_by_role("button", name="6", exact=True).click()

    assert place(page)["t"] == "6"
    expect(page.locator("output")).to_have_text("turn 6 of 8")
    finding = panel(page, "Findings").locator(".finding.error")
    expect(finding).to_contain_text("Fix: Take the value out of the system prompt")
    expect(finding).to_contain_text("$0.08")


def test_tools_nobody_called_are_marked(opened: Open) -> None:
    page = opened(report(), f"c={LONG}").page
    tools = panel(page, "Tools and duplicates")

    expect(tools.locator("tr.dead")).to_contain_text("issue_refund")
    expect(tools.locator("tr.dead")).to_contain_text("never")
    tools.get_by_role("button", name="turn 24").first.click()
    assert place(page)["t"] == "24"


def test_what_was_not_checked_is_told(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}").page
    expect(panel(page, "Not checked")).to_contain_text("tools_changed")
    expect(panel(page, "Not checked")).to_contain_text("8 calls: content partial (schema missing)")


def test_depth_tells_the_turn_under_the_pointer_and_chooses_it(opened: Open) -> None:
    page = opened(report(), f"c={LONG}&t=1").page
    depth = panel(page, "Depth over turns")
    picture = depth.locator("svg[role=img]")

    assert (
        picture.get_attribute("aria-label")
        == "Depth over 24 turns, peak 11,512 tokens, limit 128,000, full at about turn 311"
    )
    expect(depth.locator(".projected")).to_have_count(1)
    picture.click(position={"x": 300, "y": 100})
    assert int(place(page)["t"]) > 5
    depth.get_by_role("button", name="scale to the limit").click()
    expect(depth.locator(".limit")).to_have_count(1)


def test_a_part_of_a_conversation_keeps_its_turns_numbers(opened: Open) -> None:
    one = opened(render(part(support_agent(), range(3, 7)), INPUTS), f"c={BROKEN}&t=4")
    page = one.page

    expect(page.locator("output")).to_have_text("turn 4 of 6")
    expect(panel(page, "Depth over turns").locator(".readout")).to_contain_text("turn 4 · 3,803 tokens")
    assert panel(page, "Depth over turns").locator(".axis.middle").all_text_contents() == ["3", "4", "6"]
    expect(panel(page, "What changed")).to_contain_text("turn 3 → turn 4")
    expect(panel(page, "Prefix map").locator(".body .row").first).to_contain_text("3")
    page.keyboard.press("Home")
    expect(page.locator("output")).to_have_text("turn 3 of 6")
    one.quiet()


# ---- keys


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("ArrowRight", "t=4", "5"), ("ArrowLeft", "t=4", "3"), ("Home", "t=4", "1"), ("End", "t=4", "8"),
        ("b", "t=4", "5"), ("f", "t=8", "1"), ("ArrowLeft", "t=1", "1"), ("ArrowRight", "t=8", "8"),
    ],
)  # fmt: skip
def test_keys_walk_the_turns(opened: Open, key: str, before: str, after: str) -> None:
    page = opened(report(), f"c={BROKEN}&{before}").page

    page.keyboard.press(key)

    expect(page.locator("output")).to_have_text(f"turn {after} of 8")


def test_keys_walk_the_rest(opened: Open) -> None:
    one = opened(report(), f"c={BROKEN}&t=4")
    page = one.page

    page.keyboard.press("c")
    assert place(page)["b"] == "4"
    page.keyboard.press("]")
    expect(page.locator("h1")).to_contain_text("larkspur-support")
    page.keyboard.press("[")
    expect(page.locator("h1")).to_contain_text("support-agent-js")
    page.keyboard.press("/")
    expect(page.locator("#segments")).to_be_focused()
    page.keyboard.press("b")  # is typed, and no key
    assert page.locator("#segments").input_value() == "b"
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(panel(page, "Prefix map").locator("h2")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("ArrowRight")  # the help is open: nothing behind it moves
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    page.keyboard.press("u")
    expect(panel(page, "Totals")).to_be_visible()
    one.quiet()


def test_the_slider_goes_by_its_own_keys(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=4").page
    page.locator("#turn").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("output")).to_have_text("turn 5 of 8")
    assert page.locator("#turn").get_attribute("aria-valuetext") == "turn 5 of 8"


def test_buttons_of_the_scrubber(opened: Open) -> None:
    page = opened(report(), f"c={BROKEN}&t=1").page
    for button, turn in (
        ("Next turn", "2"),
        ("Turn before", "1"),
        ("next break", "2"),
        ("next finding", "3"),
    ):
        page.locator(".scrubber").get_by_role("button", name=button, exact=True).click()
        expect(page.locator("output")).to_have_text(f"turn {turn} of 8")


def test_all_of_it_by_keyboard_alone(opened: Open) -> None:
    """From the first page into a conversation and to a segment's text, without a mouse."""
    page = opened(report()).page
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "grid":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('tile')"):
            break
    page.keyboard.press("Enter")
    expect(panel(page, "Segment").locator("pre")).to_be_visible()


# ---- the place, the looks, the paper


def test_back_goes_back_and_a_link_opens_the_same_place(opened: Open) -> None:
    one = opened(report(), "tab=calls&q=claude")
    page = one.page
    page.locator('[aria-label="Calls"] .body .row').nth(2).click()
    page.keyboard.press("ArrowRight")
    link = page.evaluate("location.hash")

    page.go_back()
    expect(page.locator("#search")).to_have_value("claude")
    one.at(link.lstrip("#"))
    expect(page.locator("h1")).to_contain_text("support-agent-js")
    expect(page.locator("output")).to_have_text("turn 4 of 8")


@pytest.mark.parametrize(
    "hash_", ["c=99", "c=-1", "c=x&t=y", "t=3", "c=0&t=99&s=99&b=77", "tab=nothing", "%%%", "c=0&q=%3Cb%3E"]
)
def test_a_place_that_is_not_there_is_no_fault(opened: Open, hash_: str) -> None:
    one = opened(report(), hash_)
    expect(one.page.locator("h1")).to_be_visible()
    one.quiet()


def test_light_and_dark(opened: Open) -> None:
    page = opened(report(), color_scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)

    page.keyboard.press("t")
    light = page.evaluate(ground)
    page.reload()

    assert dark == "rgb(14, 16, 19)"
    assert light == page.evaluate(ground) == "rgb(244, 245, 246)"
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize(
    "place_", ["", "tab=calls", "tab=findings", "tab=input", f"c={BROKEN}&t=4&s=0", f"c={LONG}&s=3"]
)
def test_nothing_is_wider_than_a_small_screen(opened: Open, place_: str) -> None:
    page = opened(report(), place_, viewport={"width": 360, "height": 700}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_paper_has_every_row(opened: Open) -> None:
    page = opened(report(), f"c={LONG}&t=24").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    expect(panel(page, "Cache").locator(".body .row")).to_have_count(24)
    expect(page.locator(".scrubber button").first).to_be_hidden()
    assert page.pdf()[:5] == b"%PDF-"


# ---- other reports


def test_redacted_the_page_says_so_and_shows_no_text(opened: Open) -> None:
    one = opened(render(support_agent(), INPUTS, redact=True), f"c={BROKEN}&t=4&s=0")

    expect(panel(one.page, "Segment")).to_contain_text("Redacted: no prompt text is in this file.")
    assert "Larkspur & Finch" not in one.page.content()
    expect(panel(one.page, "What changed").locator("li.changed")).to_contain_text("system[0]")
    one.quiet()


def test_what_was_left_out_is_told(opened: Open) -> None:
    one = opened(render(support_agent(), INPUTS, bounds=Bounds(text=200, calls=10)), "c=0&t=2&s=0")

    expect(panel(one.page, "Segment")).to_contain_text("Cut: the first 200 of 6,515 characters.")
    expect(panel(one.page, "What changed")).to_contain_text("compared up to character 200")
    one.at("")
    expect(panel(one.page, "Totals")).to_contain_text("cut to 200 characters")
    expect(panel(one.page, "Totals")).to_contain_text("1 conversation without details")
    one.at("c=1")
    expect(one.page.locator("main")).to_contain_text("The details of this conversation were left out")
    one.quiet()


def test_calls_without_content_claim_nothing(opened: Open) -> None:
    one = opened(render(judged(list(usage_only(6, turns=6))), INPUTS), "c=0&t=3")

    expect(panel(one.page, "This turn")).to_contain_text("usage only")
    expect(panel(one.page, "Segments")).to_contain_text("none was seen")
    expect(panel(one.page, "What changed")).to_contain_text("Neither prompt was seen.")
    one.quiet()


def test_an_empty_report_is_a_page(opened: Open) -> None:
    one = opened(render(judged([]), Inputs((), (("x.json", "is no telemetry"),))), "tab=input")
    expect(one.page.locator("[role=tabpanel]")).to_contain_text("x.json: is no telemetry")
    one.quiet()


def test_ten_thousand_calls_are_a_list_of_a_few_elements(opened: Open) -> None:
    analysis = judged(list(usage_only(10_000)))
    page_bytes = render(analysis, INPUTS)
    one = opened(page_bytes, "tab=calls")
    page = one.page
    rows = page.locator('[aria-label="Calls"] .body .row')

    assert page.locator('[aria-label="Calls"]').first.get_attribute("aria-rowcount") == "10001"
    assert rows.count() < 80
    assert page.evaluate("document.querySelectorAll('*').length") < 2_500 + len(blocks(page_bytes))
    page.locator('[aria-label="Calls"][role=grid]').focus()
    page.keyboard.press("End")
    expect(rows.last).to_have_attribute("aria-rowindex", "10001")
    assert rows.count() < 80
    page.keyboard.press("Enter")
    assert place(page)["c"] == str(len(analysis.conversations) - 1)
    one.quiet()
