"""What arrives: spans and log records, whatever their clothes were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from otel_ctx.frozen import frozen


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    time_unix_nano: int
    attributes: Mapping[str, Any]
    dropped_attributes: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    trace_id: str
    span_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Cut(NamedTuple):
    """What a dump's format, not the library that recorded it, has kept of some attributes only in part, or not at all."""

    format: str
    keys: frozenset[str]  # of the attributes


@frozen(frozen=True, slots=True)
class Span:
    """One span, whatever its clothes were. Ids are lower-case hex; values are plain Python (str, bool, int,
    float, bytes, list, dict, None); ``kind`` is OTLP's number (3 = CLIENT); ``parent_id`` is "" on a root.

    A request that no span tells of is one too: of a log of requests its ids are file and record, of a transcript session
    and message; a time of 0 is not known."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Mapping[str, Any]
    kind: int = 0
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)
    status_code: int = 0
    status_message: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    cut: Cut | None = None
    where: str = ""  # "FILE:LINE" of a dump, for error messages


@frozen(frozen=True, slots=True)
class LogRecord:
    """One log record. ``name`` is the eventName field, else the ``event.name`` attribute, else ""."""

    trace_id: str
    span_id: str
    name: str
    time_unix_nano: int  # timeUnixNano, else observedTimeUnixNano, else 0
    body: Any
    attributes: Mapping[str, Any]
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)
    dropped_attributes: int = 0
    cut: Cut | None = None
    where: str = ""
