"""The HTML report: one file that asks nothing of any network. The page draws what the engine and the views have computed.

Data lie in script tags that no browser runs, and reach the page as text only; the policy in its head admits the page's own
script and style, by their hashes, and nothing else.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from otel_ctx.model import Analysis
from otel_ctx.outputs.escape import escape as visible
from otel_ctx.outputs.html.data import Bounds, page
from otel_ctx.outputs.report import Inputs, dumps

__all__ = ["Bounds", "render"]

# In this order they are one script: each file uses what stands before it.
_SCRIPTS = (
    "dom.js", "data.js", "place.js", "grid.js", "charts.js", "compare.js", "overview.js", "conversation.js", "main.js",
)  # fmt: skip
_FIELD = re.compile(r"\{\{(\w+)\}\}")
_DEFAULT = Bounds()


def render(
    analysis: Analysis, inputs: Inputs, *, redact: bool = False, title: str = "", bounds: Bounds = _DEFAULT
) -> bytes:
    """The page as UTF-8. With ``redact`` no prompt text is in it; without, texts are cut to ``bounds``."""
    return b"".join(_parts(analysis, inputs, redact, title, bounds))


def _parts(analysis: Analysis, inputs: Inputs, redact: bool, title: str, bounds: Bounds) -> Iterator[bytes]:
    data = page(analysis, inputs, redact=redact, bounds=bounds)
    script, style = _script(), _read("page.css")
    head, foot = _read("page.html").split("{{data}}")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'"
    )
    named = f"{title} – otelctx" if title else "otelctx report"
    told = {"policy": policy, "style": style, "title": escape(visible(named))}
    yield _FIELD.sub(lambda field: told[field[1]], head).encode("utf-8", "backslashreplace")
    yield _block("index", data.index)
    for i, conversation in enumerate(data.conversations):
        if conversation is not None:
            yield _block(f"c{i}", conversation)
    for i, texts in enumerate(data.texts):
        yield _block(f"t{i}", texts)
    yield foot.replace("{{script}}", script).encode()


def _block(name: str, value: Any) -> bytes:
    """No tag can be in it, nor a comment begin: JSON knows another way to write ``<``."""
    data = dumps(value).replace(b"<", b"\\u003c")
    return b'<script type="application/json" id="%s">%s</script>\n' % (name.encode(), data.rstrip(b"\n"))


@cache
def _script() -> str:
    return '"use strict";\n{\n' + "\n".join(map(_read, _SCRIPTS)) + "}\n"


@cache
def _read(name: str) -> str:
    return (files("otel_ctx.outputs.html") / "static" / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
