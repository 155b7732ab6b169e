"""What formats that hold no spans make of a request: a span with the attributes that ``dialects.exchange`` reads.
Beside it, times in whatever form logs write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from otel_ctx.inputs.interface import Records
from otel_ctx.model import Span

_SCALES = (
    (10**17, 1),
    (10**14, 10**3),
    (10**11, 10**6),
    (0, 10**9),
)  # least value -> nanoseconds in its unit
_LATEST = 2**63


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


def nanoseconds(value: Any) -> int:
    """A point in time in nanoseconds since the epoch, 0 where it is none: ISO 8601 (without a zone: UTC), or seconds,
    milli-, micro- or nanoseconds since the epoch, as the size of the number tells."""
    if isinstance(value, str):
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return _of_iso(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _LATEST:
        return 0
    scale = next(unit for least, unit in _SCALES if value >= least)
    return int(value * scale) if isinstance(value, int) else round(value * scale)


def _of_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return 0
    return max(0, (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000)
