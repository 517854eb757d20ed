"""The experiment trackers of a run: a callback that gives them the recipe as parameters, and the numbers of each
update, of each validation and of the final model, under names such as training/loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

from heedful.errors import MissingExtraError, TrainingError
from heedful.recipes.training import TrackerName, TrainingConfig
from heedful.runs.tracker_backends import (
    AimTracker,
    MlflowTracker,
    RunOutcome,
    TensorBoardTracker,
    Tracker,
    WandbTracker,
    set_missing_variables,
)
from heedful.tasks.task import Run
from heedful.training.callbacks import Callback, StepMetrics, TrainState, ValidationResult

_RUNS_KEY = "tracker_runs"
_MAX_MESSAGE = 300
"""Characters of a tracker's own error message that are shown."""

TRACKERS: Final[Mapping[TrackerName, type[Tracker]]] = {
    "tensorboard": TensorBoardTracker,
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
    "aim": AimTracker,
}


def require_trackers(config: TrainingConfig) -> None:
    """Check that the packages of the recipe's trackers can be imported.

    Raises:
        MissingExtraError: one cannot.
    """
    for name in config.all_trackers:
        tracker_class = TRACKERS[name]
        module, needed = tracker_class.entry_point
        try:
            with set_missing_variables(tracker_class.list_variables()):
                getattr(import_module(module), needed)
        except (ImportError, AttributeError) as error:
            raise MissingExtraError(
                f"{_name_key(config, name)} needs the package {name}, which cannot be imported "
                f"({_shorten_message(error)}); install it with: pip install 'heedful[{name}]', or leave it out"
            ) from None


def _name_key(config: TrainingConfig, name: TrackerName) -> str:
    """Return the key of the recipe that asks for a tracker, and its value."""
    return f'training.trackers: "{name}"' if name in config.trackers else "training.tensorboard = true:"


class ExperimentTrackers(Callback):
    """Callback that writes to all experiment trackers of a recipe. As a context, it ends their runs.

    A tracker that fails while training runs is switched off, with one warning.

    Args:
        run: the run, whose recipe names the trackers.
        log: receives where each tracker writes, and warnings.
    """

    def __init__(self, run: Run[Any, Any], *, log: Callable[[str], None]) -> None:
        self._run = run
        self._log = log
        self._trackers: dict[str, Tracker] = {}
        self._run_ids: dict[str, str] = {}
        self._is_finished = False

    def open(self, progress: TrainState, stored: Mapping[str, Any]) -> None:
        """Start a run of each tracker, or continue the one of the checkpoint whose progress is given; `stored` is the
        state of callbacks in it.

        Raises:
            TrainingError: a tracker cannot start.
        """
        self._run_ids = dict(stored.get(_RUNS_KEY, {}))
        config = self._run.recipe.training
        parameters = dict(flatten_table(json.loads(self._run.recipe.model_dump_json(exclude_none=True))))
        for name in config.all_trackers:
            tracker_class, old_id = TRACKERS[name], self._run_ids.get(name, "")
            try:
                with set_missing_variables(tracker_class.list_variables()):
                    tracker = tracker_class(self._run.folder, parameters, run_id=old_id, resumed_at=progress.step)
            except Exception as error:
                raise TrainingError(
                    f"{_name_key(config, name)} cannot start ({_shorten_message(error)}); correct this, or leave it out"
                ) from error
            self._trackers[name] = tracker
            if tracker.run_id:
                self._run_ids[name] = tracker.run_id
            self._log(f"{name}: {tracker.location}{f', run {tracker.run_id}' if tracker.run_id else ''}")
            if old_id not in ("", tracker.run_id):
                self._log(f"warning: {name}: there is no run {old_id} any more; the new run is {tracker.run_id}")

    def get_state(self) -> Mapping[str, Any]:
        """Return the ids of the trackers' runs, which a resumed run continues."""
        return {_RUNS_KEY: self._run_ids} if self._run_ids else {}

    def on_step_end(self, update: StepMetrics) -> None:
        """Log the numbers of an update."""
        metrics = {name: getattr(update, name) for name in ("loss", "nll", "rate", "gradient_norm")}
        metrics |= {name: part.mean for name, part in update.extra_losses.items()}
        self._log_metrics("training", metrics, step=update.step)

    def on_evaluate(self, evaluation: ValidationResult) -> None:
        """Log the numbers of an evaluation."""
        self._log_metrics("validation", evaluation.metrics, step=evaluation.progress.step)
        self._call_each(lambda tracker: tracker.flush())

    def write_final(self, progress: TrainState, metrics: Mapping[str, float]) -> None:
        """Log the metrics of the final model."""
        self._log_metrics("final", metrics, step=progress.step)
        self._is_finished = True

    def _log_metrics(self, group: str, metrics: Mapping[str, float], *, step: int) -> None:
        named = {f"{group}/{name}": value for name, value in metrics.items()}
        self._call_each(lambda tracker: tracker.log_metrics(named, step=step))

    def _call_each(self, action: Callable[[Tracker], None]) -> None:
        """Call `action` with each tracker; switch off those for which it fails."""
        for name, tracker in list(self._trackers.items()):
            try:
                with set_missing_variables(tracker.list_variables()):
                    action(tracker)
            except Exception as error:
                del self._trackers[name]
                self._log(
                    f"warning: {name} is switched off, and gets no more numbers until training is resumed "
                    f"({_shorten_message(error)}); metrics.jsonl has them"
                )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = RunOutcome.FINISHED if self._is_finished else RunOutcome.INTERRUPTED
        if isinstance(error, Exception):
            outcome = RunOutcome.FAILED
        self._call_each(lambda tracker: tracker.close(outcome))
        self._trackers.clear()


def flatten_table(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted key and the value of each entry of a table that is no table itself; `prefix` stands before
    each key.
    """
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten_table(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shorten_message(error: Exception) -> str:
    """Return the type and the message of an error as one line of limited length, without passwords in addresses."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return re.sub(r"://[^/@ ]*@", "://", line)[:_MAX_MESSAGE]
