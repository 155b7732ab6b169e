"""The HTML report as a file: what it holds, what it must not hold, and what nobody can make it run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ctx.model import Analysis, Span
from otel_ctx.outputs import html
from otel_ctx.outputs.html import Bounds, render
from otel_ctx.outputs.report import Inputs, build
from tests.html_reports import INPUTS, analysed, blocks, chat, judged, support_agent, text, usage_only

STATIC = Path(html.__file__).parent / "static"
CORPUS = Path(__file__).parent / "corpus"


# ---- the file asks nothing and runs nothing but itself


def test_the_policy_admits_the_page_s_own_script_and_style_only() -> None:
    page = render(support_agent(), INPUTS).decode()

    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    assert policy
    assert len(scripts) == len(styles) == 1
    directives = dict(d.strip().split(" ", 1) for d in policy[1].split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": _hash(scripts[0]),
        "style-src": _hash(styles[0]),
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def test_the_policy_stands_before_anything_that_could_load() -> None:
    page = render(support_agent(), INPUTS).decode()
    first = re.findall(r"<(?:meta http-equiv|style|script|link|title)", page)[0]
    assert first == "<meta http-equiv"
    assert "<link" not in page


@pytest.mark.parametrize(
    "way",
    [
        "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment", "eval(",
        "new Function", "setTimeout(\"", "srcdoc", "javascript:", "fetch(", "XMLHttpRequest", "WebSocket", "EventSource",
        "sendBeacon", "import(", "Worker(", "setHTML", ".src", "http://", "https://",
    ],
)  # fmt: skip
def test_no_way_from_text_to_markup_or_to_a_network(way: str) -> None:
    allowed = 'const SVG = "http://www.w3.org/2000/svg";'
    for file in STATIC.iterdir():
        assert way not in file.read_text("utf-8").replace(allowed, ""), file.name


def test_every_script_is_in_the_page() -> None:
    page = render(support_agent(), INPUTS).decode()
    for file in STATIC.glob("*.js"):
        assert file.read_text("utf-8") in page


# ---- data cannot leave their block


@given(st.text(alphabet=st.sampled_from("<>/!-&\"'\\\u2028\ud800scriptSCRIPT={}`$"), max_size=60))
def test_no_text_ends_its_block(nasty: str) -> None:
    told = f"</script><script>alert(1)</script><!--{nasty}-->"
    span = chat(1, [text("user", told)], **{"gen_ai.agent.name": told})
    page = render(judged([span]), Inputs((), ((told, told),)), title=told)

    assert page.count(b"<script>") == 1
    assert page.count(b"<!--") == 0
    held = blocks(page)
    assert held["index"]["conversations"][0]["agents"] == [
        told.encode("utf-8", "backslashreplace").decode() if _has_surrogate(told) else told
    ]


def _has_surrogate(value: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in value)


def test_a_title_can_be_seen() -> None:
    page = render(support_agent(), INPUTS, title="a\x1b[31m\u202eb\n.json").decode()
    assert r"<title>a\x1b[31m\u202eb\n.json – otelctx</title>" in page


def test_a_title_is_text() -> None:
    page = render(support_agent(), INPUTS, title="</title><script>{{style}}{{policy}}").decode()
    assert "<title>&lt;/title&gt;&lt;script&gt;{{style}}{{policy}} – otelctx</title>" in page


# ---- what the page gets is what the report says


def test_the_numbers_are_the_report_s() -> None:
    analysis = support_agent()
    report = build(analysis, INPUTS)
    held = blocks(render(analysis, INPUTS))
    index = held["index"]

    assert index["totals"] == report["totals"]
    assert [f["title"] for f in index["findings"]] == [f["title"] for f in report["findings"]]
    assert len(index["calls"]) == len(report["calls"])
    for number, conversation in enumerate(report["conversations"]):
        block = held[f"c{number}"]
        told = index["conversations"][number]
        assert [report["calls"][i]["id"] for i in told["calls"]] == conversation["calls"]
        for i, call in zip(told["calls"], block["calls"], strict=True):
            source = report["calls"][i]
            shown = {**block["common"], **call}
            assert shown["id"] == source["id"]
            assert shown["cache"]["outcome"] == source["cache"]["outcome"]
            assert shown["cache"]["reported"] == source["cache"]["reported"]
            assert shown["context"]["usage"] == source["context"]["usage"]
            assert index["calls"][i][:3] == [number, source["turn"], source["context"]["usage"]]


def test_segments_are_whole_when_put_together_as_the_page_does() -> None:
    analysis = support_agent()
    held = blocks(render(analysis, INPUTS))
    readings = {r.call.id: r for r in analysis.readings}

    for number in range(len(analysis.conversations)):
        block = held[f"c{number}"]
        calls = [{**block["common"], **c} for c in block["calls"]]
        lists: list[list[int]] = []
        for call in calls:
            base, same, new = call["segments"]
            lists.append([*(lists[base][:same] if base >= 0 else []), *new])
            prompt = list(readings[call["id"]].call.prompt)
            rows = [block["segments"][i] for i in lists[-1]]
            assert [r[7] for r in rows] == [s.digest[:16] for s in prompt]
            assert [r[3] for r in rows] == [s.path for s in prompt]
            assert [r[5] for r in rows] == [s.tokens for s in prompt]


def test_services_are_summed() -> None:
    index = blocks(render(support_agent(), INPUTS))["index"]
    assert [(s["name"], s["calls"], s["wasted"]) for s in index["services"]] == [
        ("support-agent-js", 8, 24009),
        ("larkspur-support", 24, 0),
    ]


def test_the_same_input_makes_the_same_file() -> None:
    analysis = support_agent()
    spans = list(usage_only(40))

    assert render(analysis, INPUTS) == render(analysis, INPUTS)
    assert render(judged(spans), INPUTS) == render(judged(spans[::-1]), INPUTS)


def test_nothing_read_is_a_page_too() -> None:
    index = blocks(render(judged([]), Inputs((), (("a.json", "is no telemetry"),))))["index"]
    assert index["calls"] == []
    assert index["input"]["skipped"] == [{"where": "a.json", "why": "is no telemetry"}]


# ---- redacted


def _texts(analysis: Analysis) -> Iterator[str]:
    for r in analysis.readings:
        for s in (*r.call.prompt, *r.call.answer):
            told = analysis.text(s.digest)
            if told:
                yield told
    for f in analysis.findings:
        yield f.excerpt


def _runs(analysis: Analysis, size: int = 12) -> set[str]:
    return {told[i : i + size] for told in set(_texts(analysis)) for i in range(len(told) - size + 1)}


def _names(analysis: Analysis) -> set[str]:
    """Of tools, agents, services and models: a prompt may speak of them, and they are no prompt text."""
    calls = [r.call for r in analysis.readings]
    tools = {s.name for c in calls for s in (*c.prompt, *c.answer)}
    return {n for n in tools | {n for c in calls for n in (c.agent, c.service, c.model)} if n}


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for held in value.values():  # keys are ours
            yield from _strings(held)
    elif isinstance(value, list):
        for held in value:
            yield from _strings(held)


def _leaks(page: bytes, runs: set[str]) -> set[str]:
    """Runs, all of one length, that are in the page. Its template and script are the same for every input."""
    held = "\0".join(_strings(blocks(page)))
    (size,) = {len(run) for run in runs}
    return runs & {held[i : i + size] for i in range(len(held) - size + 1)}


REDACTED = (
    "", "oi-anthropic-bust", "oi-openai-chat-bust", "vercel-ai5-anthropic-stream", "logfire-anthropic-v1", "crewai-session",
    "oi-anthropic-sessions", "claude-code-content-proto", "google-adk-gemini-schema1",
)  # fmt: skip


@pytest.mark.parametrize("case", REDACTED)
def test_redacted_no_run_of_twelve_characters_of_any_prompt(case: str) -> None:
    analysis = analysed([str(CORPUS / case)]) if case else support_agent()
    names = "\0".join(_names(analysis))
    runs = {run for run in _runs(analysis) if run.strip("/") not in names}
    assert runs

    assert _leaks(render(analysis, INPUTS), runs)
    assert _leaks(render(analysis, INPUTS, redact=True), runs) == set()


def test_redacted_also_where_text_strays_into_names_and_errors() -> None:
    secret = "the launch code is 1-2-3-4, tell nobody"
    messages = [
        text("user", secret),
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": secret, "arguments": {"q": secret}}]},
        {"role": secret, "parts": [{"type": "text", "content": secret}]},
    ]  # fmt: skip
    first = chat(1, messages)
    second = chat(2, [text("user", secret + "!"), *messages[1:]], **{"error.type": secret})
    broken = Span(**{**_fields(second), "status_code": 2, "status_message": secret})
    analysis = judged([first, broken])

    page = render(analysis, INPUTS, redact=True)

    assert secret.encode() in render(analysis, INPUTS)
    assert secret.encode() not in page
    assert not _leaks(page, {secret[i : i + 12] for i in range(len(secret) - 11)})
    assert blocks(page)["index"]["redacted"] is True


def test_redacted_names_of_tools_are_names() -> None:
    definitions = [
        {"type": "function", "name": name, "parameters": {"type": "object"}}
        for name in ("look_up", "please summarise the confidential memo")
    ]
    messages = [text("user", "hello")]
    analysis = judged([chat(1, messages, **{"gen_ai.tool.definitions": json.dumps(definitions)})])

    def names(redact: bool) -> list[str]:
        held = blocks(render(analysis, INPUTS, redact=redact))
        return sorted(name for name, *_ in held["c0"]["tools"])

    assert b"confidential" not in render(analysis, INPUTS, redact=True)
    first, second = names(redact=True)
    assert re.fullmatch(r"\(no name [0-9a-f]{8}\)", first)
    assert second == "look_up"
    assert names(redact=False) == ["look_up", "please summarise the confidential memo"]


def _fields(span: Span) -> dict[str, object]:
    return {name: getattr(span, name) for name in Span.__slots__}


def test_redacted_pages_have_no_blocks_of_text() -> None:
    held = blocks(render(support_agent(), INPUTS, redact=True))
    assert not [name for name in held if name.startswith("t")]
    assert all("excerpt" not in f for f in held["index"]["findings"])


# ---- bounded, and told


def test_a_long_text_is_its_beginning_and_its_length() -> None:
    long = "x" * 500 + "the end of it"
    held = blocks(render(judged([chat(1, [text("user", long)])]), INPUTS, bounds=Bounds(text=100)))

    assert held["t0"] == [["x" * 100, len(long)]]
    assert held["index"]["left_out"] == {"conversations": 0, "texts": 0, "cut": 1, "characters": 100}


def test_texts_have_a_common_bound() -> None:
    messages = [text("user", f"{i} " + "y" * 80) for i in range(10)]
    held = blocks(render(judged([chat(1, messages)]), INPUTS, bounds=Bounds(texts=400)))

    assert sum(len(t) for t in held["t0"]) <= 400
    assert held["index"]["left_out"]["texts"] == 6
    rows = held["c0"]["segments"]
    assert [row[10] for row in rows] == [0, 1, 2, 3, None, None, None, None, None, None]


def test_past_the_bound_the_lighter_conversations_keep_their_line_only() -> None:
    analysis = support_agent()

    held = blocks(render(analysis, INPUTS, bounds=Bounds(calls=10)))

    assert [name for name in held if name.startswith("c")] == ["c0"]  # the one that lost tokens
    assert held["index"]["left_out"]["conversations"] == 1
    assert [c["detailed"] for c in held["index"]["conversations"]] == [True, False]
    assert len(held["index"]["calls"]) == 32


def test_a_text_is_in_the_page_once() -> None:
    page = render(support_agent(), INPUTS)
    held = blocks(page)
    texts = [json.dumps(t) for name, block in held.items() if name.startswith("t") for t in block]
    assert len(texts) == len(set(texts))


def test_a_call_of_another_conversation_is_written_out() -> None:
    """A fork's block can be read alone."""
    shared = [text("system", "be kind " * 50), text("user", "hello there, my dear")]
    first = chat(1, shared)
    left = chat(2, [*shared, text("assistant", "one"), text("user", "go left")])
    right = chat(3, [*shared, text("assistant", "two"), text("user", "go right")])
    analysis = judged([first, left, right])
    assert len(analysis.conversations) == 2

    held = blocks(render(analysis, INPUTS))

    fork = held["c1"]
    base, same, new = {**fork["common"], **fork["calls"][0]}["segments"]
    assert (base, same) == (-1, 0)
    assert len(new) == 4


def test_a_call_takes_about_a_kilobyte() -> None:
    page = render(judged(list(usage_only(2_000))), INPUTS)

    held = blocks(page)
    assert len(held["index"]["calls"]) == 2_000
    assert len(page) < 2_400_000
