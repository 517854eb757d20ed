"""The messages and numbers of a training as JSON, one object on each line of standard error."""

from __future__ import annotations

import json
import math
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, final

from heedful.cli.output import explain_error, log
from heedful.errors import HeedfulError
from heedful.training.callbacks import Callback, EpochPlan, SavedCheckpoint, StepMetrics, ValidationResult
from heedful.training.eta import TrainingForecast
from heedful.training.trainer import StoppingLimits

LogLevel: TypeAlias = Literal["info", "warning", "error"]

_WARNING_PREFIX: Final = "warning: "
_SECONDS_PER_LINE: Final = 20.0
"""Seconds between two lines about updates."""
_USER_ERROR, _UNEXPECTED_ERROR, _INTERRUPTED = 2, 1, 130
"""Exit codes, as of all commands."""


@final
class JsonLog:
    """Writes messages as JSON objects with the fields `time`, `level`, `run_id` and `message`, and further ones.

    Attributes:
        run_id: id of the run; lines lack it as long as it is None.
    """

    def __init__(self) -> None:
        self.run_id: str | None = None

    def __call__(self, text: str) -> None:
        """Write a message; one that begins with "warning: " is a warning."""
        level: LogLevel = "warning" if text.startswith(_WARNING_PREFIX) else "info"
        self.write(text.removeprefix(_WARNING_PREFIX), level=level)

    def write(self, message: str, *, level: LogLevel = "info", fields: Mapping[str, Any] | None = None) -> None:
        """Write a message with further fields; numbers that are not finite become null."""
        timestamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        run = {} if self.run_id is None else {"run_id": self.run_id}
        record = {"time": timestamp, "level": level, **run, "message": message, **(fields or {})}
        log(json.dumps(_replace_nonfinite(record), ensure_ascii=False, allow_nan=False))

    @contextmanager
    def report_problems(self) -> Iterator[None]:
        """Write the warnings of Python and the error that ends the block as JSON too; the exit code of the error stays
        what it is without this.
        """
        with warnings.catch_warnings():
            warnings.showwarning = self._write_warning
            try:
                yield
            except HeedfulError as error:
                self.write(str(error), level="error")
                raise SystemExit(_USER_ERROR) from error
            except KeyboardInterrupt as error:
                self.write("interrupted", level="error")
                raise SystemExit(_INTERRUPTED) from error
            except BrokenPipeError:
                raise
            except Exception as error:
                if message := explain_error(error):
                    self.write(message, level="error")
                    raise SystemExit(_USER_ERROR) from error
                trace = "".join(traceback.format_exception(error)).rstrip("\n")
                self.write("this is a bug in heedful; please report it", level="error", fields={"trace": trace})
                raise SystemExit(_UNEXPECTED_ERROR) from error

    def _write_warning(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        """Write a warning of Python."""
        self.write(str(message), level="warning", fields={"category": category.__name__})


def _replace_nonfinite(value: Any) -> Any:
    """Return a number or a nested mapping with None for each number that is not finite."""
    if isinstance(value, Mapping):
        return {name: _replace_nonfinite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@final
class JsonProgress(Callback):
    """Training callback that writes the numbers of updates from time to time, and those of all evaluations and
    checkpoints.

    Args:
        limits: that end training.
        json_log: that writes the lines.
        seconds: between two lines about updates.
    """

    def __init__(self, limits: StoppingLimits, json_log: JsonLog, *, seconds: float = _SECONDS_PER_LINE) -> None:
        self._forecast = TrainingForecast(limits)
        self._log = json_log
        self._seconds = seconds
        self._last_line = time.monotonic()
        self._num_labels: int | None = None

    def on_epoch_begin(self, plan: EpochPlan) -> None:
        """Write the size of an epoch."""
        self._forecast = self._forecast.with_plan(plan)
        if self._num_labels is None:
            self._num_labels = plan.progress.labels
        fields = {
            "step": plan.progress.step,
            "epoch": plan.progress.epoch,
            "updates": plan.updates,
            "last_step": self._forecast.last_step,
        }
        self._log.write("epoch", fields=fields)

    def on_step_end(self, update: StepMetrics) -> None:
        """Count the labels of an update, and write its numbers if the next line is due."""
        self._forecast = forecast = self._forecast.with_update(update)
        self._num_labels = (self._num_labels or 0) + update.labels
        now = time.monotonic()
        if now - self._last_line < self._seconds:
            return
        self._last_line = now
        end = forecast.estimate_end()
        fields = {
            "step": update.step,
            "epoch": update.epoch,
            "loss": update.loss,
            "nll": update.nll,
            "rate": update.rate,
            "gradient_norm": update.gradient_norm,
            "labels": self._num_labels,
            "labels_per_second": round(forecast.labels_per_second, 1),
            "seconds": round(update.elapsed, 1),
            "eta_seconds": None if end is None else round(end.seconds, 1),
            **({"task": update.task} if update.task else {}),
        }
        self._log.write("update", fields=fields)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Write the metrics of an evaluation."""
        self._forecast = self._forecast.with_evaluation(evaluation)
        progress = evaluation.progress
        fields = {
            "step": progress.step,
            "epoch": progress.epoch,
            "labels": progress.labels,
            "seconds": round(progress.seconds, 1),
            "improved": evaluation.improved,
            "validation": dict(evaluation.metrics),
        }
        self._log.write("validation", fields=fields)

    def on_save(self, checkpoint: SavedCheckpoint) -> None:
        """Write the step of a checkpoint that was saved."""
        fields = {"step": checkpoint.progress.step, "save_seconds": round(checkpoint.seconds, 3)}
        self._log.write("checkpoint", fields=fields)
