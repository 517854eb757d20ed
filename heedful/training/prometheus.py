"""The numbers of a training for Prometheus: a callback that keeps them, and a small HTTP server that shows them."""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, final

import torch

from heedful.errors import MissingExtraError, RecipeError
from heedful.training.callbacks import Callback, EpochPlan, SavedCheckpoint, StepMetrics, TrainState, ValidationResult
from heedful.training.eta import TrainingForecast
from heedful.training.trainer import StoppingLimits

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

TrainingOutcome: TypeAlias = Literal["finished", "interrupted", "failed"]

_PREFIX: Final = "heedful_training"
_STATES: Final = ("preparing", "training", "finished", "interrupted", "failed")
_GAUGES: Final[Mapping[str, str]] = {
    "step": "Number of updates.",
    "epoch": "Current epoch, from 0.",
    "epoch_updates": "Number of updates of the current epoch.",
    "epoch_updates_done": "Number of updates of the current epoch that are done.",
    "last_step": "Update at which the limits on updates or epochs are expected to end training; NaN if unknown.",
    "loss": "Loss per label of the last update, in nats.",
    "nll": "Negative log-likelihood per label of the last update, in nats.",
    "learning_rate": "Learning rate of the last update.",
    "gradient_norm": "Norm of the gradient of the last update, before clipping.",
    "labels_per_second": "Mean number of labels per second of the last updates.",
    "elapsed_seconds": "Seconds of training with evaluations and checkpoints, over all sessions.",
    "remaining_seconds": "Expected seconds until a limit ends training; NaN if unknown.",
    "best": "Best value of the monitored metric so far.",
    "best_step": "Update of the best value.",
    "stale_evaluations": "Number of evaluations since the best one.",
    "checkpoint_step": "Update of the last checkpoint.",
    "checkpoint_timestamp_seconds": "Time of the last checkpoint, in seconds since 1970.",
}
"""Gauges without labels, by name after the prefix."""
_UPDATE_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MAX_WAIT_SECONDS: Final = 60.0
"""Maximum seconds that a training waits at its end until its last numbers have been read."""
_RECENT_SECONDS: Final = 180.0
"""Maximum seconds since the last reading while metrics are still being read."""
_ANSWER_SECONDS: Final = 0.2
"""Seconds for sending the last answer."""
_MAX_PORT: Final = 65_535


def require_prometheus() -> None:
    """Raise `MissingExtraError` if the package prometheus-client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            'metrics for Prometheus need prometheus-client, not installed here: pip install "heedful[monitoring]"'
        ) from None


@final
class TrainingMetrics(Callback):
    """Callback that keeps the numbers of a training as Prometheus metrics, all with the prefix `heedful_training_`.

    Args:
        limits: that end training, as metrics too.
        labels: of the metric `heedful_training_info`, such as the id of the run.

    Attributes:
        registry: of the metrics; `prometheus_client.generate_latest` renders it.
        readings: counts how often the metrics were read.
        outcome: how training has ended; None before.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """

    def __init__(self, limits: StoppingLimits, *, labels: Mapping[str, str] | None = None) -> None:
        require_prometheus()
        from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
        from prometheus_client.process_collector import ProcessCollector

        self.registry = registry = CollectorRegistry()
        self.readings = ReadingCounter()
        self.outcome: TrainingOutcome | None = None
        self._forecast = TrainingForecast(limits)
        self._gauges = {name: Gauge(f"{_PREFIX}_{name}", text, registry=registry) for name, text in _GAUGES.items()}
        for name in ("last_step", "remaining_seconds", "best", "best_step", "checkpoint_step"):
            self._gauges[name].set(math.nan)
        self._labels = Counter(f"{_PREFIX}_labels", "Labels that were learned from.", registry=registry)
        self._num_labels: int | None = None
        self._parts = Gauge(f"{_PREFIX}_part_loss", "Mean of a part of the loss.", ("part",), registry=registry)
        self._validation = Gauge(
            f"{_PREFIX}_validation", "Metric on the validation set.", ("metric",), registry=registry
        )
        self._update_seconds = Histogram(
            f"{_PREFIX}_update_seconds", "Seconds of an update.", buckets=_UPDATE_BUCKETS, registry=registry
        )
        self._evaluation_seconds = Summary(
            f"{_PREFIX}_evaluation_seconds", "Seconds of an evaluation.", registry=registry
        )
        self._save_seconds = Summary(f"{_PREFIX}_save_seconds", "Seconds for saving a checkpoint.", registry=registry)
        self._state = Enum(f"{_PREFIX}_state", "What the training does.", states=_STATES, registry=registry)
        limit_gauge = Gauge(f"{_PREFIX}_limit", "Limit that ends training.", ("limit",), registry=registry)
        for name in ("steps", "epochs", "minutes", "patience"):
            if (value := getattr(limits, name)) is not None:
                limit_gauge.labels(name).set(value)
        Info(_PREFIX, "The run that is trained.", registry=registry).info(dict(labels or {}))
        ProcessCollector(registry=registry)
        registry.register(_build_device_collector(self.readings))

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Set the size of the epoch and the progress so far."""
        self._forecast = self._forecast.with_plan(plan)
        self._state.state("training")
        self._set_gauges(epoch_updates=plan.updates, epoch_updates_done=plan.done)
        self._set_progress(plan.progress)
        if self._num_labels is None:
            self._num_labels = plan.progress.labels
            self._labels.inc(plan.progress.labels)

    def on_step_end(self, update: StepMetrics) -> None:
        """Set the numbers of an update."""
        self._forecast = forecast = self._forecast.with_update(update)
        self._set_gauges(
            step=update.step,
            epoch=update.epoch,
            loss=update.loss,
            nll=update.nll,
            learning_rate=update.rate,
            gradient_norm=update.gradient_norm,
            labels_per_second=forecast.labels_per_second,
            elapsed_seconds=update.elapsed,
        )
        self._gauges["epoch_updates_done"].inc()
        self._labels.inc(update.labels)
        self._update_seconds.observe(update.seconds)
        for name, part in update.extra_losses.items():
            self._parts.labels(name).set(part.mean)
        end = forecast.estimate_end()
        if end is not None:
            self._set_gauges(remaining_seconds=end.seconds)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Set the metrics of an evaluation."""
        self._forecast = self._forecast.with_evaluation(evaluation)
        self._evaluation_seconds.observe(evaluation.seconds)
        for name, value in evaluation.metrics.items():
            self._validation.labels(name).set(value)
        self._set_progress(evaluation.progress)

    def on_save(self, checkpoint: SavedCheckpoint) -> None:
        """Set the step and the time of the last checkpoint."""
        self._save_seconds.observe(checkpoint.seconds)
        self._set_gauges(checkpoint_step=checkpoint.progress.step, checkpoint_timestamp_seconds=time.time())

    def set_outcome(self, outcome: TrainingOutcome) -> None:
        """Set how training has ended."""
        self.outcome = outcome
        self._state.state(outcome)
        if outcome == "finished":
            self._set_gauges(remaining_seconds=0.0)

    def _set_progress(self, progress: TrainState) -> None:
        """Set the gauges of the progress of training."""
        last_step = self._forecast.last_step
        self._set_gauges(
            step=progress.step,
            epoch=progress.epoch,
            elapsed_seconds=progress.seconds,
            stale_evaluations=progress.stale,
            last_step=math.nan if last_step is None else last_step,
        )
        if progress.best is not None and progress.best_step is not None:
            self._set_gauges(best=progress.best, best_step=progress.best_step)

    def _set_gauges(self, **values: float) -> None:
        for name, value in values.items():
            self._gauges[name].set(value)


@final
class ReadingCounter:
    """Counter of the readings of metrics, with their times.

    Attributes:
        count: number of readings.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last_time = -math.inf
        self._interval = math.inf
        self._event = threading.Event()

    def note_reading(self) -> None:
        """Note that the metrics are read now."""
        now = time.monotonic()
        self.count += 1
        self._interval, self._last_time = now - self._last_time, now
        self._event.set()

    def wait_for_next(self) -> None:
        """Wait for the next reading if the metrics are read regularly; no longer than two intervals or a minute."""
        if self.count < 2 or time.monotonic() - self._last_time > _RECENT_SECONDS:
            return
        self._event.clear()
        if self._event.wait(min(2 * self._interval, _MAX_WAIT_SECONDS)):
            time.sleep(_ANSWER_SECONDS)


def _build_device_collector(readings: ReadingCounter) -> Any:
    """Return a collector of the memory of GPUs, which also notes each reading."""
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    @final
    class DeviceCollector(Collector):
        """Collects the memory that PyTorch uses on GPUs."""

        def collect(self) -> Iterator[Any]:
            """Yield the gauge of memory, with values for each GPU in use."""
            readings.note_reading()
            metric = GaugeMetricFamily(
                f"{_PREFIX}_gpu_memory_bytes", "Memory of PyTorch on a GPU.", labels=["device", "kind"]
            )
            for device, kind, value in list_gpu_memory():
                metric.add_metric([device, kind], value)
            yield metric

    return DeviceCollector()


def list_gpu_memory() -> Iterator[tuple[str, str, int]]:
    """Yield device, kind (`allocated`, `reserved`, `peak`) and bytes of the memory of each GPU that this process uses;
    nothing before its first use.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no annotation here
        return
    for number in range(torch.cuda.device_count()):
        if reserved := torch.cuda.memory_reserved(number):
            yield f"cuda:{number}", "allocated", torch.cuda.memory_allocated(number)
            yield f"cuda:{number}", "reserved", reserved
            yield f"cuda:{number}", "peak", torch.cuda.max_memory_allocated(number)


@final
class MetricsServer:
    """HTTP server of the metrics of a training, which runs inside a `with` block.

    The block must call `metrics.set_outcome`; an exception sets the outcome `failed`, or `interrupted` for Ctrl-C. If
    the metrics are read regularly, the block ends after the outcome has been read, at most a minute later. After an
    interruption it ends at once.

    Args:
        metrics: of the training.
        host: address on which it listens.
        port: port; 0 takes a free one.

    Attributes:
        address: such as http://127.0.0.1:9464/metrics.

    Raises:
        RecipeError: it cannot listen there.
    """

    def __init__(self, metrics: TrainingMetrics, *, host: str, port: int) -> None:
        self._metrics = metrics
        self._server = _start_server(metrics.registry, host, port)
        bound_port = self._server.server_address[1]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{bound_port}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._metrics.set_outcome("failed" if isinstance(error, Exception) else "interrupted")
        if self._metrics.outcome in ("finished", "failed"):
            self._metrics.readings.wait_for_next()
        self._server.shutdown()
        self._server.server_close()


def _start_server(registry: CollectorRegistry, host: str, port: int) -> Any:
    """Start a thread that answers requests for the metrics; raise a `RecipeError` if that is impossible."""
    from prometheus_client import start_http_server

    option = f"--metrics-port {port}"
    if not 0 <= port <= _MAX_PORT:
        raise RecipeError(f"{option}: is not a port; take one from 1024 to {_MAX_PORT:,}, or 0 for a free one")
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        code = error.errno or 0
        if code == errno.EADDRINUSE:
            raise RecipeError(
                f"{option}: another program listens there ({host}); choose another port, or 0 for a free one"
            ) from None
        if code in (errno.EACCES, errno.EPERM):
            raise RecipeError(f"{option}: only the administrator may listen there; take one above 1023") from None
        reason = os.strerror(code).lower() if code > 0 else str(error.strerror or error).lower()
        raise RecipeError(
            f"--metrics-host {host}: cannot listen there ({reason}); take an address of this machine, such as 127.0.0.1"
        ) from None
    return server
