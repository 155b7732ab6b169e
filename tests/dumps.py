"""Small dumps for tests of reading, and what came out of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from otel_ctx.inputs import Batch, Skipped
from otel_ctx.model import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"


def line(number: int, **attributes: str) -> bytes:
    """An export request with the span ``span NUMBER``, as a line without its end."""
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"traceId": TRACE, "spanId": f"{number:016x}", "name": f"span {number}", "attributes": pairs}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def spans(batches: Iterable[Batch]) -> list[Span]:
    return [span for batch in batches for span in batch.spans]


def names(batches: Iterable[Batch]) -> list[str]:
    return [span.name for span in spans(batches)]


def skipped(batches: Iterable[Batch]) -> list[Skipped]:
    return [note for batch in batches for note in batch.skipped]
