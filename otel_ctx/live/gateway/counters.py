"""What the gateway counts of its own work, beside the metrics that it has in common with the in-app part."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

ANSWERS = ("accepted", "retry", "refused")
EXPORTS = ("accepted", "partial", "retry", "refused", "full")


class Counters:
    """``signals``, ``downstreams``: their names, so that each series stands at 0 before its first event."""

    def __init__(
        self, registry: CollectorRegistry, signals: tuple[str, ...], downstreams: tuple[str, ...]
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each
        self.requests = Counter(
            "otelctx_gateway_requests",
            "Requests, by signal and by what was answered.",
            ("signal", "answer"),
            registry=registry,
        )
        self.exports = Counter(
            "otelctx_gateway_exports",
            "Requests sent on, by downstream and by what it answered; full: its queue was, and it was not sent.",
            ("downstream", "result"),
            registry=registry,
        )
        self.in_flight = Gauge(
            "otelctx_gateway_in_flight_bytes",
            "Bytes of requests that are not answered yet.",
            registry=registry,
        )
        self.late_batches = Counter(
            "otelctx_gateway_late_batches",
            "Requests that went on as they came because their analysis took longer than they may wait.",
            registry=registry,
        )
        self.damaged = Counter(
            "otelctx_gateway_damaged_requests",
            "Requests with text that is not UTF-8: it went on as it is, and was read with U+FFFD in its place.",
            ("signal",),
            registry=registry,
        )
        self.forgotten = Gauge(
            "otelctx_gateway_forgotten_spans",
            "Spans whose delivery was forgotten before its time, for want of room.",
            registry=registry,
        )
        self.saves = Counter(
            "otelctx_gateway_state_saves", "Times the state was written.", ("success",), registry=registry
        )
        for signal in signals:
            for answer in ANSWERS:
                self.requests.labels(signal, answer)
            self.damaged.labels(signal)
        for downstream in downstreams:
            for result in EXPORTS:
                self.exports.labels(downstream, result)
        for success in ("true", "false"):
            self.saves.labels(success)
