"""Metrics of the server in the Prometheus format."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROWS_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class HasQueue(Protocol):
    """Protocol of objects with a request queue."""

    @property
    def num_waiting(self) -> int:
        """Number of requests in the queue."""


@final
class ServerMetrics:
    """Prometheus metrics of one server; any thread may update them.

    Args:
        models: by name, whose queue lengths are reported; models may be added later.
    """

    def __init__(self, models: Mapping[str, HasQueue]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "heedful_requests", "Requests that were answered.", ("route", "method", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "heedful_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ("route",),
            buckets=_SECONDS_BUCKETS,
            registry=self._registry,
        )
        self._request_metrics: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._rejected_connections = Counter(
            "heedful_refused_connections",
            "Connections that were closed before their first request, by the status that was sent.",
            ("status",),
            registry=self._registry,
        )
        self._rows = Histogram(
            "heedful_batch_rows",
            "Texts that a model answered in one batch.",
            ("model",),
            buckets=_ROWS_BUCKETS,
            registry=self._registry,
        )
        self._tokens = Counter("heedful_tokens", "Tokens that were generated.", ("model",), registry=self._registry)
        started_at = time.monotonic()
        uptime = Gauge("heedful_uptime_seconds", "Seconds since the server started.", registry=self._registry)
        uptime.set_function(lambda: time.monotonic() - started_at)
        self._registry.register(_QueueCollector(models))

    def count_request(self, route: str, *, method: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the path pattern of a route, never text from a client."""
        key = (route, method, status)
        if key not in self._request_metrics:  # looking up labels costs more than counting
            self._request_metrics[key] = self._requests.labels(route, method, str(status)), self._seconds.labels(route)
        count, histogram = self._request_metrics[key]
        count.inc()
        histogram.observe(seconds)

    def count_rejected_connection(self, status: int) -> None:
        """Count a connection that was closed before it sent a request."""
        self._rejected_connections.labels(str(status)).inc()

    def record_batch(self, model: str, rows: int) -> None:
        """Record how many texts a model computes at the same time."""
        self._rows.labels(model).observe(rows)

    def count_tokens(self, model: str, count: int) -> None:
        """Count tokens that a model has generated."""
        self._tokens.labels(model).inc(count)

    def render_text(self) -> bytes:
        """Render all metrics in the Prometheus text format."""
        return generate_latest(self._registry)


@final
class _QueueCollector(Collector):
    """Reports the lengths of the models' queues at each scrape."""

    def __init__(self, models: Mapping[str, HasQueue]) -> None:
        self._models = models

    def collect(self) -> Iterator[Any]:
        """Yield the gauge of waiting requests, with one value for each model."""
        metric = GaugeMetricFamily(
            "heedful_waiting", "Requests that wait for a model, or are being answered by it.", labels=["model"]
        )
        for name, model in list(self._models.items()):
            metric.add_metric([name], model.num_waiting)
        yield metric
