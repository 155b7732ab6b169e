"""The three signals of OTLP: their paths, methods, messages, and the names of what is inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from otel_ctx.live.gateway.damaged import repaired, unchecked


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
        """The request; where only its text is damaged, an unchecked one. ValueError where the bytes are none."""
        try:
            return self.request.FromString(body)
        except (DecodeError, UnicodeDecodeError):  # the latter from protobuf's pure Python
            pass
        try:
            return unchecked(self.request).FromString(body)
        except DecodeError:
            raise ValueError(f"not a valid OTLP {self.name} request") from None

    def is_text(self, request: Any) -> bool:
        """Are its strings text?"""
        return isinstance(request, self.request)

    def readable(self, request: Any) -> Any:
        """The request itself where its strings are text, else a repaired one."""
        return request if self.is_text(request) else repaired(request, self.request)

    def count(self, request: Any) -> int:
        """The records in a request (of metrics: the metrics)."""
        return sum(
            len(getattr(scope, self.records))
            for group in getattr(request, self.groups)
            for scope in getattr(group, self.scopes)
        )


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
