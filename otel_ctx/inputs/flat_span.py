"""One span as one JSON object, without the request, resource and scope that OTLP puts round it: lines that scripts and
log shippers write, rows of a table (ClickHouse), Phoenix's ``/spans/otlpv1``.

Names are met in every spelling (traceId, trace_id, TraceId), times as in ``nanoseconds``, attributes as OTLP's list, as
plain values, or beside the fields of the span, with the dots of their names. Each is put where OTLP has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otel_ctx.inputs.fields import nanoseconds
from otel_ctx.inputs.interface import Wrapping

_TRACE, _SPAN = ("traceid",), ("spanid",)
_PARENT = ("parentspanid", "parentid")
_NAME = ("name", "spanname", "operationname")
_START = ("starttimeunixnano", "starttime", "startunixnano", "starttimestamp", "timestamp", "start")
_END = ("endtimeunixnano", "endtime", "endunixnano", "endtimestamp", "end")
_NANOSECONDS = ("durationnano", "durationnanos", "durationns", "durationinnanos", "duration")
_ATTRIBUTES = ("attributes", "spanattributes", "tags")
_RESOURCE = ("resource", "resourceattributes")
_SCOPE = ("scope", "instrumentationscope", "instrumentationlibrary")
_STATUS = ("status", "statuscode")
_COLUMNS = ("events.", "links.")  # of a table, in the same row
_OF_A_RESOURCE = ("service.", "telemetry.sdk.")
_AS_THEY_ARE = (
    ("kind", ("kind", "spankind")),
    ("links", ("links",)),
    ("droppedAttributesCount", ("droppedattributescount", "droppedattributes")),
    ("droppedEventsCount", ("droppedeventscount", "droppedevents")),
)


def claims(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    known = _plain(document)
    return not (known.keys().isdisjoint(_TRACE) or known.keys().isdisjoint(_SPAN)) and not (
        known.keys().isdisjoint(_START) and known.keys().isdisjoint(_ATTRIBUTES)
    )


def open_(document: Any) -> list[Any]:
    """The span in a request of OTLP's JSON."""
    known = _plain(document)
    start = nanoseconds(_first(known, _START))
    end = nanoseconds(_first(known, _END))
    length = _first(known, _NANOSECONDS)
    if not end and isinstance(length, int):
        end = start + length
    status = _first(known, _STATUS)
    beside = _beside(document)
    span = {
        "traceId": _first(known, _TRACE),
        "spanId": _first(known, _SPAN),
        "parentSpanId": _first(known, _PARENT),
        "name": _first(known, _NAME),
        "startTimeUnixNano": start,
        "endTimeUnixNano": end,
        "attributes": _with(_first(known, _ATTRIBUTES), beside),
        "events": _events(known),
        "status": status
        if isinstance(status, dict)
        else {"code": status, "message": known.get("statusmessage")},
        **{name: value for name, keys in _AS_THEY_ARE if (value := _first(known, keys)) is not None},
    }
    resource = _first(known, _RESOURCE)
    if isinstance(resource, dict) and "attributes" in resource:
        resource = resource["attributes"]
    if resource is None:
        named = {"service.name": known.get("servicename")}
        of_it = {key: value for key, value in beside.items() if key.startswith(_OF_A_RESOURCE)}
        resource = {key: value for key, value in (named | of_it).items() if value} or None
    scope = _first(known, _SCOPE)
    if not isinstance(scope, dict):
        scope = {"name": scope or known.get("scopename"), "version": known.get("scopeversion")}
    scoped = {"scope": scope, "spans": [span]}
    return [{"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scoped]}]}]


def _beside(document: dict[str, Any]) -> dict[str, Any]:
    """Attributes that stand beside the fields of the span: none of these has a dot in its name."""
    return {
        key: value
        for key, value in document.items()
        if "." in key and value is not None and not key.lower().startswith(_COLUMNS)
    }


def _with(attributes: Any, beside: dict[str, Any]) -> Any:
    if not beside:
        return attributes
    if isinstance(attributes, list):
        # whatever stands there is taken as it is
        return [*attributes, *({"key": key, "value": {"stringValue": beside[key]}} for key in beside)]
    if isinstance(attributes, dict):
        return {**beside, **attributes}
    return beside if attributes is None else attributes


def _events(known: dict[str, Any]) -> Any:
    """A list of events, or a table's three columns of them."""
    names = known.get("events.name")
    if not isinstance(names, list):
        return known.get("events")
    columns = [known.get(f"events.{field}") for field in ("timestamp", "attributes")]
    times, attributes = (
        c if isinstance(c, list) and len(c) == len(names) else [None] * len(names) for c in columns
    )
    return [
        {"name": name, "timeUnixNano": nanoseconds(at), "attributes": said}
        for name, at, said in zip(names, times, attributes, strict=True)
    ]


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """The same with names in one spelling."""
    return {key.replace("_", "").lower(): value for key, value in document.items()}


def _first(known: dict[str, Any], names: Iterable[str]) -> Any:
    return next((known[name] for name in names if known.get(name) is not None), None)


FLAT = Wrapping("flat", claims, open_)
