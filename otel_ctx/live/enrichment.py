"""A copy of a finished span with what is said of its call.

The span that the SDK hands out is one object, shared by all processors and exporters, and it is full: an attribute
added to its own container would push out the oldest, which is where the prompt stands. So the copy has containers
of its own, without a limit, and says of itself what the original says was dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util import BoundedList
from opentelemetry.trace import Link, SpanContext, TraceFlags

from otel_ctx.model import Role, Said
from otel_ctx.outputs.attributes import Value, attributes, events, link

MARK = "otelctx.call.role"


@dataclass(frozen=True, slots=True)
class Enrichment:
    """What is added to one span. ``link`` is the context of the span of the call that this one continues."""

    attributes: Mapping[str, Value]
    events: tuple[tuple[str, Mapping[str, Value]], ...] = ()
    link: SpanContext | None = None


def enrichment(said: Said, role: Role) -> Enrichment:
    """Findings and the link stand on the primary span alone: a backend that counts must find each once."""
    added = attributes(said, role)
    if role != "primary":
        return Enrichment(added)
    to = link(said.reading)
    return Enrichment(added, events(said), span_context(*to) if to is not None else None)


def span_context(trace_id: str, span_id: str) -> SpanContext:
    """Of a span of this process whose ids are hex. Raises ValueError where they are not."""
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def attributes_of(span: ReadableSpan) -> Mapping[str, Any]:
    """The span's attributes to read: the dict behind them where the SDK has one, which is 50 times faster than
    its proxy."""
    held = getattr(span, "_attributes", None)
    found: Mapping[str, Any] | None = getattr(held, "_dict", held)
    return (span.attributes if found is None else found) or {}


def enriched(span: ReadableSpan, added: Enrichment) -> ReadableSpan:
    """A copy of ``span`` with ``added``; the span itself where it has been enriched before. The original is
    never changed."""
    own = attributes_of(span)
    if MARK in own:
        return span
    merged = _attributes({**own, **added.attributes}, span.dropped_attributes)
    new_events = [Event(name, dict(values), span.end_time) for name, values in added.events]
    new_links = [Link(added.link)] if added.link is not None else []
    if not {"_attributes", "_events", "_links"} <= vars(span).keys():
        return _rebuilt(span, merged, new_events, new_links)
    result: Any = copy.copy(span)
    result._attributes = merged
    if new_events:
        result._events = _longer(span.events, new_events, span.dropped_events)
    if new_links:
        result._links = _longer(span.links, new_links, span.dropped_links)
    return result  # type: ignore[no-any-return]  # it is what was copied


def _attributes(values: dict[str, Any], dropped: int) -> BoundedAttributes:
    """Filled behind its back: the constructor cleans every value again, which takes as long as the export."""
    held: Any = BoundedAttributes(maxlen=None, immutable=False)
    if hasattr(held, "_dict") and hasattr(held, "_immutable"):
        held._dict = values
        held._immutable = True
    else:
        held = BoundedAttributes(maxlen=None, attributes=values, immutable=True)
    held.dropped = dropped
    return held  # type: ignore[no-any-return]


def _longer(items: Any, new: list[Any], dropped: int) -> Any:
    held = BoundedList.from_seq(None, [*items, *new])
    held.dropped = dropped
    return held


def _rebuilt(span: ReadableSpan, merged: Any, new_events: list[Event], new_links: list[Link]) -> ReadableSpan:
    """By the public constructor alone: for an SDK that keeps its fields under other names."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=merged,
        events=_longer(span.events, new_events, span.dropped_events),
        links=_longer(span.links, new_links, span.dropped_links),
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
