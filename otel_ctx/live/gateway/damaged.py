"""Requests whose text is not UTF-8, as who cuts by bytes leaves it: Go and C++ take them, protobuf's reader here does not.

They are parsed with bytes for every string, analysed as a copy that has U+FFFD, and go on with the bytes that came.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


@cache
def unchecked(message: Any) -> Any:
    """The class of a message of the same fields, bytes for every string."""
    pool = DescriptorPool()
    _add(message.DESCRIPTOR.file, pool)
    return GetMessageClass(pool.FindMessageTypeByName(message.DESCRIPTOR.full_name))


def repaired(came: Any, message: Any) -> Any:
    """An unchecked one as a ``message``, U+FFFD for what is no text."""
    copy = type(came)()
    copy.CopyFrom(came)
    _repair(copy, message.DESCRIPTOR)
    return message.FromString(copy.SerializeToString())


def carry(read: Any, came: Any) -> None:
    """What was added to the spans of a repaired request is added to those that came."""
    for group, group_came in zip(read.resource_spans, came.resource_spans, strict=True):
        for scope, scope_came in zip(group.scope_spans, group_came.scope_spans, strict=True):
            for span, span_came in zip(scope.spans, scope_came.spans, strict=True):
                for name in ("attributes", "events", "links"):
                    to = getattr(span_came, name)
                    for item in getattr(span, name)[len(to) :]:
                        to.add().MergeFromString(item.SerializeToString())


# ---- inside


def _add(file: Any, pool: DescriptorPool) -> None:
    for other in file.dependencies:
        _add(other, pool)
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    _untype(copy.message_type)
    pool.Add(copy)


def _untype(messages: Iterable[Any]) -> None:
    for message in messages:
        for f in message.field:
            if f.type == f.TYPE_STRING:
                f.type = f.TYPE_BYTES
        _untype(message.nested_type)


def _repair(message: Any, descriptor: Any) -> None:
    for f, value in message.ListFields():
        as_text = descriptor.fields_by_name[f.name]
        if as_text.message_type is not None:
            for item in value if f.is_repeated else (value,):
                _repair(item, as_text.message_type)
        elif as_text.type == as_text.TYPE_STRING:
            if f.is_repeated:
                value[:] = [_text(item) for item in value]
            else:
                setattr(message, f.name, _text(value))


def _text(value: bytes) -> bytes:
    return value.decode(errors="replace").encode()
