"""Nothing out of a dump runs in the page, and everybody can read it: hostile text in every field, and axe's rules."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from otel_ctx.model import Span
from otel_ctx.outputs.html import render
from otel_ctx.outputs.report import Inputs, Source
from tests.browser.window import Open
from tests.html_reports import BASE, INPUTS, SECOND, judged, support_agent

HOSTILE = (
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    "</script><script>window.ran=1</script>",
    "<svg onload=window.ran=1>",
    "\"><iframe srcdoc='<script>parent.ran=1</script>'>",
    "javascript:window.ran=1",
    "<!--<script>window.ran=1",
    "]]><script>window.ran=1</script>",
    "' onmouseover='window.ran=1",
    "{{constructor.constructor('window.ran=1')()}}",
    "<style>*{display:none}</style>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "\u202egnp.exe <b onclick=window.ran=1>",
    "__proto__",
    "constructor",
    "toString",
    "\\u003cscript>window.ran=1</script>",
    "<a href='javascript:window.ran=1' autofocus onfocus=window.ran=1>x</a>",
    "${window.ran=1}`",
    "\x00\x1b]8;;x\x07",
)


@cache
def hostile() -> bytes:
    """Two turns for each text, with it in every field that a span, a prompt or a file name has."""
    spans = []
    for n, bad in enumerate(HOSTILE):
        messages: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": bad}]}]
        tools = [
            {"type": "function", "name": bad, "description": bad, "parameters": {"type": "object", bad: bad}}
        ]
        for turn in (1, 2):
            at = BASE + (n * 10 + turn) * SECOND
            attributes = {
                "gen_ai.operation.name": bad if turn == 2 else "chat",
                "gen_ai.provider.name": bad,
                "gen_ai.request.model": bad,
                "gen_ai.agent.name": bad,
                "gen_ai.response.id": f"{bad}{turn}",
                "gen_ai.conversation.id": bad,
                "error.type": bad if turn == 2 else None,
                "gen_ai.input.messages": json.dumps(messages),
                "gen_ai.tool.definitions": json.dumps(tools),
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": f"{bad} {turn}"}]),
                "gen_ai.usage.input_tokens": 90 + turn,
                "gen_ai.usage.output_tokens": 5,
                "gen_ai.usage.cache_read.input_tokens": 0,
            }
            spans.append(
                Span(
                    f"{n + 1:032x}",
                    f"{n * 10 + turn:016x}",
                    "",
                    bad,
                    at,
                    at + SECOND,
                    {k: v for k, v in attributes.items() if v is not None},
                    kind=3,
                    scope_name="opentelemetry.instrumentation.genai.openai" if turn == 1 else bad,
                    scope_version=bad,
                    resource={"service.name": bad},
                    status_code=2 if turn == 2 else 0,
                    status_message=bad,
                )
            )
            messages = [
                *messages,
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": bad, "name": bad, "arguments": {bad: bad}}],
                },
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": bad, "response": bad}]},
                {"role": bad, "parts": [{"type": bad, "content": bad}]},
            ]
    files = tuple(Source(bad, bad, 1, 1) for bad in HOSTILE)
    return render(judged(spans), Inputs(files, tuple((bad, bad) for bad in HOSTILE)), title=HOSTILE[0])


def _own(page: Any) -> dict[str, int]:
    count = "names => Object.fromEntries(names.map(n => [n, document.querySelectorAll(n).length]))"
    told: dict[str, int] = page.evaluate(
        count,
        [
            "script:not([type])",
            "img",
            "iframe",
            "base",
            "style",
            "meta",
            "link",
            "object",
            "a[href]",
            "b[onclick]",
        ],
    )
    return told


def test_hostile_text_runs_nowhere(opened: Open) -> None:
    one = opened(hostile())
    page = one.page
    conversations = page.locator('[aria-label="Conversations"]').first.get_attribute("aria-rowcount")
    assert int(conversations or 0) > len(HOSTILE)
    places = [
        "",
        "tab=calls",
        "tab=findings",
        "tab=unchecked",
        "tab=input",
        "q=%3Cimg%20src%3Dx%20onerror%3Dwindow.ran%3D1%3E",
    ]
    places += [f"c={i}&t=2&s={i % 5}" for i in range(int(conversations or 1) - 1)]
    for place in places:
        one.at(place)
        for button in page.locator(".tile, .panels .finding .link").all()[:3]:
            button.click(force=True)
        assert page.evaluate("window.ran") is None, place
        assert _own(page) == {
            "script:not([type])": 1,
            "img": 0,
            "iframe": 0,
            "base": 0,
            "style": 1,
            "meta": 5,
            "link": 0,
            "object": 0,
            "a[href]": 0,
            "b[onclick]": 0,
        }, place
    one.quiet()


def test_hostile_text_is_shown_as_it_is(opened: Open) -> None:
    page = opened(hostile(), "tab=input").page
    shown = page.locator("[role=tabpanel]").inner_text()
    for bad in HOSTILE[:8]:
        assert bad in shown
    assert "\\u202e" in shown  # what turns the direction of text is made visible
    assert "\u202e" not in shown


PLACES = ("", "tab=calls", "tab=findings", "c=0&t=4&s=0")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 1400), ("dark", 360)])
def test_axe_finds_nothing(opened: Open, axe: str, scheme: str, width: int) -> None:
    report = render(support_agent(), INPUTS, title="support-agent")
    one = opened(report, scripts=(axe,), color_scheme=scheme, viewport={"width": width, "height": 900})
    found = []
    for place in PLACES:
        page = one.at(place)
        found += [(place, *v) for v in _violations(page)]
    page.keyboard.press("?")
    found += [("help", *v) for v in _violations(page)]
    assert found == []


def _violations(page: Any) -> list[tuple[str, str, str]]:
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    result = page.evaluate("tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", tags)
    return [
        (v["id"], v["help"], v["nodes"][0]["html"][:200] + v["nodes"][0].get("failureSummary", ""))
        for v in result["violations"]
    ]
