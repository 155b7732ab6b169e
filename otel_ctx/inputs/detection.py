"""What arrived is told from its content: a stream from its first bytes, a JSON document from its keys."""

from __future__ import annotations

from typing import Any

from otel_ctx.inputs.formats import FORMATS
from otel_ctx.inputs.interface import BytesFormat, Envelope, Format, JsonFormat, StreamFormat, Wrapping


def envelope(head: bytes) -> Envelope | None:
    """What the stream that begins with ``head`` is packed in."""
    return next((known for known in FORMATS if isinstance(known, Envelope) and known.claims(head)), None)


def bytes_format(head: bytes, forced: Format | None) -> BytesFormat | None:
    """Who reads the stream that begins with ``head``; where a format was named, only that one."""
    if forced is not None:
        return forced if isinstance(forced, BytesFormat) else None
    return next((known for known in FORMATS if isinstance(known, BytesFormat) and known.claims(head)), None)


def claimant(value: Any, forced: Format | None) -> JsonFormat | StreamFormat | Wrapping | None:
    """Who knows ``value``; where a format was named, that one does, but for what others put round it."""
    if isinstance(forced, JsonFormat) and forced.claims(value):
        return forced
    for known in FORMATS:
        if (
            isinstance(known, Wrapping) or (forced is None and isinstance(known, (JsonFormat, StreamFormat)))
        ) and known.claims(value):
            return known
    return None


def inside_of(item: Any, claimed: Format | None) -> list[Any]:
    """What lies in a list, or in what an API put round its answer."""
    if isinstance(claimed, Wrapping):
        return claimed.open(item)
    return item if isinstance(item, list) else []


def stream_format(value: Any, forced: Format | None, claimed: Format | None) -> StreamFormat | None:
    """The format of a stream that begins with ``value``, which ``claimed`` knows, or with a list of such."""
    if forced is not None:
        return forced if isinstance(forced, StreamFormat) else None
    whole, known = value, claimed
    while not isinstance(known, (JsonFormat, StreamFormat)) and (inside := inside_of(value, known)):
        value = next((v for v in inside if isinstance(v, (dict, list))), None)
        known = claimant(value, None)
    opens = isinstance(known, StreamFormat) and (value is whole or known.opens(whole) is not None)
    return known if isinstance(known, StreamFormat) and opens else None


def is_anothers(value: Any, known: StreamFormat) -> bool:
    """Does it belong to another format than the stream that it stands in?"""
    if isinstance(value, list):
        value = _known_by(value)
    return not (known.owns or known.claims)(value) and claimant(value, None) not in (None, known)


def _known_by(value: Any) -> Any:
    """What tells whose it is: of a list that nobody claims as a whole, its first document."""
    if isinstance(value, list) and claimant(value, None) is None:
        return next((v for v in value if isinstance(v, dict)), None)
    return value
