"""The least that any analysis of these dumps has to do, as fast as Python does it: read, parse OTLP, parse what is new in each
messages string, tell segments apart, find the common prefix with the call before, count each distinct segment once.

It knows that the dump is one conversation in order and of one shape; it makes no report. What the product does beyond it is
the price of not knowing that.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import orjson

Rows = list[tuple[int, int, int, int]]
"""Of each call: segments, common prefix in segments, tokens, tokens of the common prefix."""


def _text(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return str(part["content"])
    if part["type"] == "tool_call":
        return part["name"] + orjson.dumps(part["arguments"]).decode()
    return str(part["response"])


def run(data: bytes, count: Callable[[str], int]) -> Rows:
    spans: list[dict[str, Any]] = []
    for line in data.splitlines():
        for resource in orjson.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                spans += scope["spans"]
    ids: dict[tuple[str, str], int] = {}
    tokens: list[int] = []
    sections: dict[str, list[int]] = {}
    last_text, last_ids, last = "", [], []
    rows: Rows = []

    def known(kind: str, text: str) -> int:
        found = ids.get((kind, text))
        if found is None:
            found = ids[(kind, text)] = len(tokens)
            tokens.append(count(text))
        return found

    for span in spans:
        a = {kv["key"]: kv["value"].get("stringValue") for kv in span["attributes"]}
        head: list[int] = []
        for key in ("gen_ai.tool.definitions", "gen_ai.system_instructions"):
            value = a[key]
            section = sections.get(value)
            if section is None:
                items = orjson.loads(value)
                texts = (
                    [orjson.dumps(t).decode() for t in items]
                    if key.endswith("definitions")
                    else [t["content"] for t in items]
                )
                section = sections[value] = [known(key, t) for t in texts]
            head += section
        text = a["gen_ai.input.messages"]
        prefix = last_text[:-1]
        if prefix and text.startswith(prefix):
            new, base = orjson.loads("[" + text[len(prefix) + 1 :]), last_ids
        else:
            new, base = orjson.loads(text), []
        body = base + [known(m["role"], _text(p)) for m in new for p in m["parts"]]
        whole = head + body
        n = min(len(last), len(whole))
        same = n if last[:n] == whole[:n] else next(i for i in range(n) if last[i] != whole[i])
        sums = list(accumulate((tokens[i] for i in whole), initial=0))
        rows.append((len(whole), same, sums[-1], sums[same]))
        last_text, last_ids, last = text, body, whole
    return rows
