"""A Collector on loopback, as far as it receives: ``with OtlpReceiver() as receiver: ... receiver.spans()``."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.loopback import Loopback


class OtlpReceiver(Loopback):
    """OTLP over HTTP, as protobuf, on a free port of 127.0.0.1; ``url`` is what OTEL_EXPORTER_OTLP_ENDPOINT is set to."""

    def __init__(self) -> None:
        self._bodies: list[tuple[str, bytes]] = []  # path and body, in the order of arrival
        server = _Server(("127.0.0.1", 0), _Handler)
        server.bodies = self._bodies
        super().__init__(server)

    def traces(self, path: str = "/v1/traces") -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self._of(path)]

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> list[Any]:
        """Each as often as it was exported."""
        return [
            metric
            for request in self.metric_requests()
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def metric_requests(self) -> list[ExportMetricsServiceRequest]:
        return [ExportMetricsServiceRequest.FromString(body) for body in self._of("/v1/metrics")]

    def log_records(self) -> list[Any]:
        return [
            record
            for body in self._of("/v1/logs")
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def texts(self) -> list[str]:
        """All that arrived, read as text: strings stand in protobuf as they are."""
        return [body.decode("utf-8", "replace") for _, body in self._bodies]

    def _of(self, path: str) -> Iterator[bytes]:
        return (body for at, body in self._bodies if at == path)


class _Server(ThreadingHTTPServer):
    bodies: list[tuple[str, bytes]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        packed = self.headers.get("Content-Encoding") == "gzip"
        self.server.bodies.append((self.path, gzip.decompress(body) if packed else body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
