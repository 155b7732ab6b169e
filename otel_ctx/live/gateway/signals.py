"""The three signals of OTLP: their paths, methods, messages, and the names of what is inside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2


@dataclass(frozen=True, slots=True)
class Signal:
    """``groups``, ``scopes``, ``records``: the fields of a request, from the outside in; ``refused``: how many records a
    partial success says were not taken."""

    name: str
    method: str
    request: Any
    response: Any
    groups: str
    scopes: str
    records: str
    refused: str

    @property
    def path(self) -> str:
        return f"/v1/{self.name}"

    def parse(self, body: bytes) -> Any:
        """The request; where only its text is damaged (a string that ends inside a character), one whose strings are
        bytes: Go and C++ take those. ValueError where the bytes are no request."""
        try:
            return self.request.FromString(body)
        except DecodeError:
            pass
        try:
            return _without_text(self.request).FromString(body)
        except DecodeError:
            raise ValueError(f"not a valid OTLP {self.name} request") from None

    def is_text(self, request: Any) -> bool:
        """Are its strings text?"""
        return isinstance(request, self.request)

    def count(self, request: Any) -> int:
        """The records in a request (of metrics: the metrics)."""
        return sum(
            len(getattr(scope, self.records))
            for group in getattr(request, self.groups)
            for scope in getattr(group, self.scopes)
        )


@cache
def _without_text(message: Any) -> Any:
    """The class of a message of the same fields, bytes for every string: nothing looks whether those are UTF-8."""
    pool = DescriptorPool()
    _add(message.DESCRIPTOR.file, pool)
    return GetMessageClass(pool.FindMessageTypeByName(message.DESCRIPTOR.full_name))


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


def _method(package: str, service: str) -> str:
    return f"/opentelemetry.proto.collector.{package}.v1.{service}/Export"


TRACES = Signal(
    "traces",
    _method("trace", "TraceService"),
    trace_service_pb2.ExportTraceServiceRequest,
    trace_service_pb2.ExportTraceServiceResponse,
    "resource_spans",
    "scope_spans",
    "spans",
    "rejected_spans",
)
LOGS = Signal(
    "logs",
    _method("logs", "LogsService"),
    logs_service_pb2.ExportLogsServiceRequest,
    logs_service_pb2.ExportLogsServiceResponse,
    "resource_logs",
    "scope_logs",
    "log_records",
    "rejected_log_records",
)
METRICS = Signal(
    "metrics",
    _method("metrics", "MetricsService"),
    metrics_service_pb2.ExportMetricsServiceRequest,
    metrics_service_pb2.ExportMetricsServiceResponse,
    "resource_metrics",
    "scope_metrics",
    "metrics",
    "rejected_data_points",
)
SIGNALS = (TRACES, LOGS, METRICS)
