"""What is added to a span, as protobuf: a Span message that holds nothing else, so that to merge it is to add it.

Everything that arrived stays, fields of a later OTLP too: protobuf keeps what it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_ctx.live.enrichment import Enrichment
from otel_ctx.live.gateway.signals import Signal
from otel_ctx.outputs.attributes import Value

_FRAME = 32  # bytes around a record and its group, at most


def addition(added: Enrichment, time_unix_nano: int) -> bytes:
    """``added`` to a span that ended then. To be given to ``MergeFromString`` of the span."""
    span = Span()
    _attributes(span, added.attributes)
    for name, values in added.events:
        event = span.events.add(name=name, time_unix_nano=time_unix_nano)
        _attributes(event, values)
    if added.link is not None:
        span.links.add(
            trace_id=added.link.trace_id.to_bytes(16, "big"), span_id=added.link.span_id.to_bytes(8, "big")
        )
    encoded: bytes = span.SerializeToString()
    return encoded


def parts(signal: Signal, request: Any, limit: int) -> Iterator[bytes]:
    """``request`` in several of about ``limit`` bytes, in its order; a record that is larger stands alone."""
    part, size = type(request)(), 0
    for group, scope, record in _records(signal, request):
        own = record.ByteSize() + _FRAME
        if size and size + own > limit:
            yield part.SerializeToString()
            part, size = type(request)(), 0
        size += own + _put(signal, part, group, scope, record)
    if size:
        yield part.SerializeToString()


def _records(signal: Signal, request: Any) -> Iterator[tuple[Any, Any, Any]]:
    for group in getattr(request, signal.groups):
        for scope in getattr(group, signal.scopes):
            for record in getattr(scope, signal.records):
                yield group, scope, record


def _put(signal: Signal, part: Any, group: Any, scope: Any, record: Any) -> int:
    """Add ``record`` where it stood; the bytes of what had to be repeated for it."""
    size = 0
    groups = getattr(part, signal.groups)
    if not groups or groups[-1].resource != group.resource or groups[-1].schema_url != group.schema_url:
        groups.add(resource=group.resource, schema_url=group.schema_url)
        size += groups[-1].ByteSize()
    scopes = getattr(groups[-1], signal.scopes)
    if not scopes or scopes[-1].scope != scope.scope or scopes[-1].schema_url != scope.schema_url:
        scopes.add(scope=scope.scope, schema_url=scope.schema_url)
        size += scopes[-1].ByteSize()
    getattr(scopes[-1], signal.records).append(record)
    return size


def _attributes(to: Any, values: Mapping[str, Value]) -> None:
    for key, value in values.items():
        held = to.attributes.add(key=key).value
        if isinstance(value, bool):
            held.bool_value = value
        elif isinstance(value, int):
            held.int_value = value
        elif isinstance(value, float):
            held.double_value = value
        elif isinstance(value, str):
            held.string_value = value
        else:
            _list(held, value)


def _list(held: Any, values: Iterable[str]) -> None:
    held.array_value.SetInParent()
    for value in values:
        held.array_value.values.add(string_value=value)
