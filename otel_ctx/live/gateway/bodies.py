"""The body of an HTTP request -> the bytes of a protobuf request: unpacked within bounds, JSON turned into protobuf."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from otel_ctx.inputs.jsontext import loads
from otel_ctx.live.gateway.signals import Signal

_MEMBERS = 10_000  # of gzip, or frames of zstd, in one body: each costs time, however empty
_WINDOW = 1 << 27  # bytes of memory that a zstd stream may ask for
_IDS = frozenset(("trace_id", "span_id", "parent_span_id"))
_DEEPEST = 100  # levels of values in values: protobuf reads no more


class TooLargeError(ValueError):
    """It unfolds to more than is allowed."""


class TookTooLongError(ValueError):
    """Unpacking was given up."""


def unpack(encoding: str, body: bytes, most: int, enough: Callable[[], bool] = lambda: False) -> bytes:
    """What ``body`` holds. TooLargeError beyond ``most`` bytes; TookTooLongError where it is ``enough`` before its end;
    ValueError where it is damaged or cut off; LookupError for an encoding that is not known."""
    if encoding in ("", "identity"):
        return body
    return _unfold(encoding, body, most, enough)


class _Unpacker(NamedTuple):
    begin: Callable[[], Any]  # what unpacks one member of gzip, one frame of zstd
    error: type[Exception]
    feed: int  # bytes at once: each can become 1 KiB of gzip, 32 of zstd


def _gzip() -> _Unpacker:
    return _Unpacker(lambda: zlib.decompressobj(wbits=31), zlib.error, 1 << 13)


def _zstd() -> _Unpacker:
    import zstandard

    unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    return _Unpacker(unpacker.decompressobj, zstandard.ZstdError, 1 << 9)


_ENCODINGS = {"gzip": _gzip, "zstd": _zstd}


def _unfold(encoding: str, body: bytes, most: int, enough: Callable[[], bool]) -> bytes:
    """One member after another. Fed in small pieces: what is behind the end of a member is copied."""
    unpacker = _ENCODINGS[encoding]()
    view, at = memoryview(body), 0
    out: list[bytes] = []
    size = 0
    for _ in range(_MEMBERS):
        member = unpacker.begin()
        while not member.eof:
            if enough():
                raise TookTooLongError
            fed = view[at : at + unpacker.feed]
            if not fed:
                raise ValueError(f"the {encoding} data are cut off")
            try:
                piece = member.decompress(fed)
            except unpacker.error:
                raise ValueError(f"the {encoding} data are damaged") from None
            at += len(fed) - len(member.unused_data)
            size += len(piece)
            if size > most:
                raise TooLargeError
            out.append(piece)
        if at == len(view) or (view[at] == 0 and not bytes(view[at:]).strip(b"\0")):  # padded with zeros
            return b"".join(out)
    raise ValueError(f"the {encoding} data are in more than {_MEMBERS} pieces")


def message_of_json(signal: Signal, body: bytes) -> Any:
    """An OTLP/JSON request as a message. ValueError where it is none. What is not known is passed over, as the
    specification asks; protobuf's own reader would take hex ids for base64."""
    try:
        document = loads(body)  # U+FFFD for what is no text: JSON.stringify writes half an emoji
        message = signal.request()
        _fill(message, document, 0)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"not a valid OTLP/JSON {signal.name} request") from None
    return message


def json_of_message(message: Any) -> bytes:
    from google.protobuf.json_format import MessageToJson

    return MessageToJson(message, indent=None).encode()


_Setter = Callable[[Any, Any, int], None]
_SETTERS: dict[str, dict[str, _Setter]] = {}  # by message type, by JSON name


def _fill(message: Any, value: Any, depth: int) -> None:
    if not isinstance(value, dict):
        raise TypeError
    if depth > _DEEPEST:
        raise ValueError
    setters = _SETTERS.get(message.DESCRIPTOR.full_name)
    if setters is None:
        setters = _SETTERS[message.DESCRIPTOR.full_name] = _setters(message.DESCRIPTOR)
    for key, item in value.items():
        setter = setters.get(key)
        if setter is not None and item is not None:
            setter(message, item, depth)


def _setters(descriptor: Any) -> dict[str, _Setter]:
    """Also under the field's own name: protobuf's JSON may have either."""
    found: dict[str, _Setter] = {}
    for f in descriptor.fields:
        found[f.name] = found[f.json_name] = _setter(f)
    return found


def _setter(f: Any) -> _Setter:
    name, many = f.name, f.is_repeated
    if f.message_type is not None:
        if many:

            def fill_all(message: Any, items: Any, depth: int) -> None:
                inner = getattr(message, name)
                for item in _list(items):
                    _fill(inner.add(), item, depth + 1)

            return fill_all

        def fill_one(message: Any, item: Any, depth: int) -> None:
            inner = getattr(message, name)
            inner.SetInParent()
            _fill(inner, item, depth + 1)

        return fill_one
    read = _reader(f)
    if many:
        return lambda message, items, depth: getattr(message, name).extend([read(i) for i in _list(items)])
    return lambda message, item, depth: setattr(message, name, read(item))


def _reader(f: Any) -> Callable[[Any], Any]:
    if f.enum_type is not None:
        values = f.enum_type.values_by_name
        return lambda item: values[item].number if isinstance(item, str) and item in values else _int(item)
    if f.cpp_type in (f.CPPTYPE_INT32, f.CPPTYPE_INT64, f.CPPTYPE_UINT32, f.CPPTYPE_UINT64):
        return _int
    if f.cpp_type in (f.CPPTYPE_DOUBLE, f.CPPTYPE_FLOAT):
        return float
    if f.cpp_type == f.CPPTYPE_BOOL:
        return _bool
    if f.type == f.TYPE_BYTES:
        return _id if f.name in _IDS else _base64
    return _str


def _list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise TypeError
    return items


def _int(item: Any) -> int:
    if isinstance(item, bool):
        raise TypeError
    if isinstance(item, float) and not item.is_integer():
        raise ValueError
    return int(item)


def _bool(item: Any) -> bool:
    if not isinstance(item, bool):
        raise TypeError
    return item


def _str(item: Any) -> str:
    if not isinstance(item, str):
        raise TypeError
    return item


def _id(item: str) -> bytes:
    return base64.b64decode(item) if item.endswith("=") else bytes.fromhex(item)


def _base64(item: str) -> bytes:
    return base64.b64decode(item, b"-_" if "-" in item or "_" in item else None)
