"""What a file tells, in a form in which the spans, the log and the transcript of one session are equal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from otel_ctx import Analysis, Engine, read
from otel_ctx.inputs import Skipped
from otel_ctx.model import Call, Segment

Told = tuple[str, str, object]
"""(kind, name, content) of a segment."""


def analysed(paths: Iterable[Path | str]) -> tuple[Analysis, list[Skipped]]:
    """What files hold, and what of them was passed over."""
    engine, skipped = Engine(), []
    for batch in read(paths):
        engine.feed(batch.spans, batch.logs)
        skipped += batch.skipped
    return engine.close(), skipped


def prompt(analysis: Analysis, call: Call) -> list[Told]:
    return [alike(s, analysis.text(s.digest)) for s in call.prompt]


def alike(segment: Segment, text: str | None) -> Told:
    """Instrumentations write tools and the JSON of arguments and results anew and name results; media have a hash of their
    own."""
    kind = segment.kind
    if kind in ("image", "file", "thinking"):
        return kind, "", None
    try:
        value = json.loads(text or "")
    except ValueError:
        return kind, "", text
    if kind == "tools":
        return kind, segment.name, value.get("description")
    return kind, segment.name if kind == "tool_call" else "", value
