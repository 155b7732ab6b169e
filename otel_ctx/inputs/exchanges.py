"""What formats that hold no spans make of a request: a span with the attributes that ``dialects.exchange`` reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_ctx.inputs.interface import Records
from otel_ctx.model import Span


def exchange(
    source: str, record: str, where: str, start: int, end: int, parent: str = "", **said: Any
) -> Span:
    """The span of ``record`` in ``source``; ``said``: the attributes below ``exchange.``, None left out."""
    return Span(
        trace_id=source,
        span_id=record,
        parent_id=parent,
        name="",
        start_unix_nano=start,
        end_unix_nano=max(start, end),
        attributes={f"exchange.{name}": value for name, value in said.items() if value is not None},
        where=where,
    )


def told(spans: Iterator[Span], source: str) -> Iterator[Records]:
    """The requests of a session, one after the other. A session that has none yet is a session all the same."""
    empty = True
    for span in spans:
        empty = False
        yield Records((span,))
    if empty:
        yield Records((exchange(source, "session", source, 0, 0),))
