"""What several formats read alike: fields of a JSON record, ids -> lower-case hex ("" where there is none, or only
zeros), times -> nanoseconds, OTLP's enums by number or name, what has no place outside OTLP but in tags, the name of a
log record."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from otel_ctx.inputs.interface import Skipped
from otel_ctx.model import Event

TRACE_ID, SPAN_ID = 16, 8  # bytes

_is_hex = re.compile(r"[0-9a-fA-F]+").fullmatch
_ZEROS = {TRACE_ID: "0" * 32, SPAN_ID: "0" * 16}


def id_of_text(text: object, size: int) -> str:
    """Hex in any case, base64 of the bytes (protobuf's own JSON), or base64 of the hex: the length tells.
    A trace id of 64 bits is filled up with zeros. Raises ValueError where it is none of these."""
    if isinstance(text, str):
        return _id(text, size) if text else ""
    if text is None:
        return ""
    raise ValueError("is no text")


@lru_cache(4096)
def _id(text: str, size: int) -> str:
    """Those of a trace and of parents come again and again."""
    try:
        is_hex = len(text) == 2 * size and len(bytes.fromhex(text)) == size  # it skips spaces
    except ValueError:
        is_hex = False
    text = text.lower() if is_hex else _other_text(text, size).lower()
    return "" if text == _ZEROS[size] else text


def id_of_bytes(raw: bytes, size: int) -> str:
    """The bytes of an id; also its hex, or hex that a JSON reader took for base64 (24 and 12 bytes)."""
    if len(raw) == size:
        text = raw.hex()
    elif not raw:
        return ""
    else:
        text = (raw if len(raw) == 2 * size else base64.b64encode(raw)).decode("ascii", "replace").lower()
        if len(text) != 2 * size or not _is_hex(text):
            raise ValueError(f"is of {len(raw)} bytes, not {size}")
    return "" if text == _ZEROS[size] else text


EVENT_NAMES = frozenset(("event.name", "event_name"))
"""Attributes of a log record that hold its name, where it has no field for it."""


def event_name(name: str, attributes: Mapping[str, Any]) -> str:
    """The name of a log record: its own, else the attribute that OpenTelemetry or litellm keeps it in."""
    name = name or attributes.get("event.name") or attributes.get("event_name") or ""
    return name if isinstance(name, str) else ""


def _other_text(text: str, size: int) -> str:
    if size == TRACE_ID and len(text) == 16 and _is_hex(text):
        return text.rjust(32, "0")
    if text.startswith("0x") and len(text) == 2 * size + 2:
        return id_of_text(text[2:], size)
    padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
    try:
        raw = base64.b64decode(padded, validate=True)
    except ValueError as error:
        raise ValueError("is neither hex nor base64") from error
    return id_of_bytes(raw, size)


# ---- fields of a record


class MalformedError(ValueError):
    """Names a field and what is wrong with it; never its value, which may be prompt text."""


ODD = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading a record of any shape may raise: such a record is passed over."""

_TOO_LARGE = 2**64


def note(skipped: list[Skipped] | None, where: str, path: str, error: Exception) -> None:
    """Say in ``skipped`` what was passed over."""
    if skipped is not None:
        why = str(error) if isinstance(error, MalformedError) else f"malformed ({type(error).__name__})"
        skipped.append(Skipped(where, f"{path}: {why}" if path else why))


def list_of(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedError("is no list")
    return value


def dict_of(record: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = record.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"{field} is no object")
    return value


def text_of(record: Mapping[str, Any], field: str) -> str:
    value = record.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError(f"{field} is no text")
    return value


def id_of(record: Mapping[str, Any], field: str, size: int) -> str:
    try:
        return id_of_text(record.get(field), size)
    except ValueError as error:
        raise MalformedError(f"{field} {error}") from error


def ids_of(record: Mapping[str, Any], trace: str, span: str, parent: str) -> tuple[str, str, str]:
    """Trace, span and parent id of a span, which has the first two."""
    trace_id, span_id = id_of(record, trace, TRACE_ID), id_of(record, span, SPAN_ID)
    if not (trace_id and span_id):
        raise MalformedError(f"no {trace if not trace_id else span}")
    return trace_id, span_id, id_of(record, parent, SPAN_ID)


def int_of(record: Mapping[str, Any], field: str, scale: int = 1) -> int:
    """A number of 64 bits without sign, times ``scale``: a time, a count."""
    value = record.get(field)
    if value is None:
        return 0
    try:
        number = round(value * scale) if isinstance(value, float) else int(value) * scale
    except ODD as error:
        raise MalformedError(f"{field} is no number") from error
    if not 0 <= number < _TOO_LARGE:
        raise MalformedError(f"{field} is no 64-bit number")
    return number


# ---- times


_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,9})\d*)?\s*(?:Z|UTC|([+-]\d\d):?(\d\d)?)?",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# least value -> nanoseconds in its unit
_UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))


def time_of(record: Mapping[str, Any], field: str) -> int:
    """A point in time as in ``nanoseconds``; 0 where there is none."""
    value = record.get(field)
    if value is None or value == "":
        return 0
    found = _nanoseconds(value)
    if found is None:
        raise MalformedError(f"{field} is no time")
    return found


def nanoseconds(value: Any) -> int:
    """A point in time in nanoseconds since the epoch, 0 where it is none: ISO 8601 (without a zone: UTC), or seconds,
    milli-, micro- or nanoseconds since the epoch, as the size of the number tells."""
    return _nanoseconds(value) or 0


def _nanoseconds(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return _of_iso(value.strip())
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _TOO_LARGE:
        return None
    scale = next(unit for least, unit in _UNITS if value >= least)
    found = value * scale if isinstance(value, int) else round(value * scale)
    return found if found < _TOO_LARGE else None


def _of_iso(text: str) -> int | None:
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, hours, minutes = match.groups()
    try:
        since = datetime.fromisoformat(f"{day}T{clock}{hours or '+00'}:{minutes or '00'}") - _EPOCH
    except (ValueError, OverflowError):
        return None
    found = (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))
    return found if 0 <= found < _TOO_LARGE else None


# ---- events


def events_of(span: Mapping[str, Any]) -> tuple[Event, ...]:
    """A span's events as OpenTelemetry's SDK for Python writes them in JSON."""
    return tuple(
        Event(text_of(event, "name"), time_of(event, "timestamp"), dict_of(event, "attributes"))
        for event in list_of(span.get("events"))
    )


# ---- enums


_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_CODES = {"OK": 1, "ERROR": 2}
_LARGEST_ENUM = 1 << 31


def span_kind(value: Any) -> int:
    """OTLP's number of a kind that came as that number or by its name, in any library's spelling."""
    return _enum(value, _KINDS)


def status_code(value: Any) -> int:
    """OTLP's number of a status code, likewise."""
    return _enum(value, _CODES)


def _enum(value: Any, numbers: Mapping[str, int]) -> int:
    if isinstance(value, str):
        if not value.isascii() or not value.isdigit():
            # CLIENT, client, SPAN_KIND_CLIENT, SpanKind.CLIENT; STATUS_CODE_ERROR, StatusCode.ERROR
            return numbers.get(re.split(r"[._]", value.upper())[-1], 0)
        value = int(value[:9])
    return value if isinstance(value, int) and 0 <= value < _LARGEST_ENUM else 0


# ---- tags


def taken_from_tags(tags: dict[str, Any]) -> dict[str, Any]:
    """Fields of a ``Span`` that other formats have no place for but tags, as OpenTelemetry's specification maps them; they
    are taken out of ``tags``."""
    scope = [str(tags.pop(f"otel.{kind}.name", None) or "") for kind in ("scope", "library")]
    version = [str(tags.pop(f"otel.{kind}.version", None) or "") for kind in ("scope", "library")]
    code = tags.pop("otel.status_code", None)
    dropped = {f: tags.pop(f"otel.dropped_{f}_count", None) for f in ("attributes", "events")}
    return {
        "scope_name": scope[0] or scope[1],
        "scope_version": version[0] or version[1],
        "status_code": status_code(code) or (2 if str(tags.get("error", "false")).lower() != "false" else 0),
        "status_message": str(tags.pop("otel.status_description", None) or ""),
        "dropped_attributes": int_of(dropped, "attributes"),
        "dropped_events": int_of(dropped, "events"),
    }
