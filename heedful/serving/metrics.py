"""Metrics of the server in the Prometheus format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from heedful.version import __version__

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
_SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROWS_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class HasQueue(Protocol):
    """Protocol of models with a request queue."""

    @property
    def num_waiting(self) -> int:
        """Number of requests in the queue."""

    @property
    def run_id(self) -> str | None:
        """Id of the run that trained it, if it is known."""


@final
@dataclass(frozen=True)
class WorkerState:
    """State of a process that computes.

    Attributes:
        number: from 1.
        is_ready: whether it accepts requests.
        examples: number of texts that it still has to answer.
        restarts: how often it was started again.
        last_exit: how it ended the last time; empty if it has not.
    """

    number: int
    is_ready: bool
    examples: int = 0
    restarts: int = 0
    last_exit: str = ""


class HasState(Protocol):
    """Protocol of what knows the state of a server, as `ModelRegistry`."""

    @property
    def models(self) -> Mapping[str, HasQueue]:
        """Models by name; some may be added later."""

    @property
    def state(self) -> str:
        """`loading`, `ready` or `ending`."""

    @property
    def has_ready_backends(self) -> bool:
        """Whether all models can be computed now."""

    @property
    def list_workers(self) -> Callable[[], Sequence[WorkerState]]:
        """Returns the state of each process that computes."""


@final
class ServerMetrics:
    """Prometheus metrics of one server; any thread may update them.

    Args:
        server: whose state is reported, if there is one.
    """

    def __init__(self, server: HasState | None = None) -> None:
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
        Info("heedful", "The software of the server.", registry=self._registry).info({"version": __version__})
        if server is not None:
            self._registry.register(_StateCollector(server))

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
class _StateCollector(Collector):
    """Reports the state of a server at each scrape: queues, models and processes."""

    def __init__(self, server: HasState) -> None:
        self._server = server

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, with one value for each model or process."""
        server, models = self._server, list(self._server.models.items())
        waiting = GaugeMetricFamily(
            "heedful_waiting", "Requests that wait for a model, or are being answered by it.", labels=["model"]
        )
        info = InfoMetricFamily("heedful_model", "A model, and the run that trained it.", labels=["model"])
        for name, model in models:
            waiting.add_metric([name], model.num_waiting)
            info.add_metric([name], {"run_id": model.run_id or ""})
        yield waiting
        yield info
        is_ready = server.state == "ready" and server.has_ready_backends
        yield GaugeMetricFamily("heedful_ready", "Whether requests are answered: 1 or 0.", value=float(is_ready))
        yield from _collect_workers(server.list_workers())


def _collect_workers(workers: Sequence[WorkerState]) -> Iterator[Any]:
    """Yield the metrics of the processes that compute, with one value for each."""
    ready = GaugeMetricFamily(
        "heedful_worker_ready", "Whether a process that computes accepts requests: 1 or 0.", labels=["worker"]
    )
    examples = GaugeMetricFamily(
        "heedful_worker_examples", "Texts that a process that computes has to answer.", labels=["worker"]
    )
    restarts = CounterMetricFamily(
        "heedful_worker_restarts", "How often a process that computes was started again.", labels=["worker"]
    )
    for worker in workers:
        label = [str(worker.number)]
        ready.add_metric(label, float(worker.is_ready))
        examples.add_metric(label, worker.examples)
        restarts.add_metric(label, worker.restarts)
    yield from (ready, examples, restarts)
