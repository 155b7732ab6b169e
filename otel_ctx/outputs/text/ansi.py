"""Styles as the codes that terminals know."""

from __future__ import annotations

from collections.abc import Mapping

from otel_ctx.outputs.text.layout import Line, Style

CODES: Mapping[Style, str] = {
    "title": "\x1b[1m\x1b[4m",
    "strong": "\x1b[1m",
    "dim": "\x1b[2m",
    "good": "\x1b[32m",
    "notice": "\x1b[33m",
    "alarm": "\x1b[31m\x1b[1m",
    "chart": "\x1b[36m",
    "removed": "\x1b[31m",
    "added": "\x1b[32m",
    # Dark on light enough to be read, and told apart by whoever sees fewer colours (after Okabe and Ito).
    "tools": "\x1b[30;48;5;180m",
    "system": "\x1b[30;48;5;74m",
    "user": "\x1b[30;48;5;228m",
    "assistant": "\x1b[30;48;5;36m",
    "tool_call": "\x1b[30;48;5;215m",
    "tool_result": "\x1b[30;48;5;173m",
    "image": "\x1b[30;48;5;175m",
    "file": "\x1b[30;48;5;182m",
    "thinking": "\x1b[30;48;5;152m",
    "other": "\x1b[30;48;5;250m",
}
_RESET = "\x1b[0m"


def coloured(line: Line) -> str:
    """The line with its styles; without spaces at the end, which have none."""
    runs = list(line)
    while runs and not runs[-1].text.strip(" "):
        runs.pop()
    if runs:
        runs[-1] = runs[-1]._replace(text=runs[-1].text.rstrip(" "))
    return "".join(f"{CODES[r.style]}{r.text}{_RESET}" if r.style and r.text else r.text for r in runs)
