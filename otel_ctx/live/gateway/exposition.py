"""The table of metrics as Prometheus reads it, exemplars included: the SDK's own exporter for it drops them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from otel_ctx.outputs.metrics import CONVERSATION, METRICS, SERVICE, Metric, prometheus_name

Point = tuple[Mapping[str, str], float]


class Exposition:
    """``nearest``: per opt-in gauge, its points; None where they are not wanted."""

    def __init__(
        self,
        reader: InMemoryMetricReader,
        registry: CollectorRegistry,
        nearest: Callable[[], Mapping[str, list[tuple[str, str, float]]]] | None = None,
    ) -> None:
        self._reader = reader
        self._registry = registry
        self._nearest = nearest
        registry.register(self)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, as who asks can read it."""
        encode, kind = choose_encoder(accept)
        return encode(self._registry), kind

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        points = self._points()
        shown = self._nearest() if self._nearest is not None else {}
        for metric in METRICS.values():
            if metric.opt_in:
                if self._nearest is not None:
                    yield _conversations(metric, shown.get(metric.name, []))
            else:
                yield _family(metric, points.get(metric.name, []))

    def _points(self) -> dict[str, list[Any]]:
        data = self._reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def _family(metric: Metric, points: list[Any]) -> Family:
    labels = [_label(key) for key in metric.keys]
    name = prometheus_name(metric)
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(name, metric.description, labels=labels)
        for point in points:
            histogram.add_metric(_values(metric, point.attributes), _buckets(point), point.sum)
        if not points and not metric.keys:
            empty = [(_bound(bound), 0) for bound in (*metric.buckets, float("inf"))]
            histogram.add_metric([], empty, 0)
        return histogram
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = made(name, metric.description, labels=labels)
    for point in points:
        family.add_metric(_values(metric, point.attributes), point.value)
    return family


def _conversations(metric: Metric, points: list[tuple[str, str, float]]) -> Family:
    family = GaugeMetricFamily(
        prometheus_name(metric), metric.description, labels=[_label(SERVICE), _label(CONVERSATION)]
    )
    for service, conversation, value in points:
        family.add_metric([service, conversation], value)
    return family


def _buckets(point: HistogramDataPoint) -> list[Any]:
    """Bounds with cumulative counts, and an exemplar in its bucket."""
    bounds = [*point.explicit_bounds, float("inf")]
    exemplars: dict[int, Exemplar] = {}
    for each in point.exemplars or ():
        if each.trace_id:
            at = next(i for i, bound in enumerate(bounds) if each.value <= bound)
            labels = {"trace_id": f"{each.trace_id:032x}", "span_id": f"{each.span_id or 0:016x}"}
            exemplars[at] = Exemplar(labels, each.value, each.time_unix_nano / 1e9)
    buckets: list[Any] = []
    total = 0
    for i, (bound, n) in enumerate(zip(bounds, point.bucket_counts, strict=True)):
        total += n
        buckets.append((_bound(bound), total, exemplars.get(i)))
    return buckets


def _bound(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return text


def _values(metric: Metric, attributes: Mapping[str, Any] | None) -> list[str]:
    return [str((attributes or {}).get(key, "")) for key in metric.keys]


def _label(key: str) -> str:
    return key.replace(".", "_")
