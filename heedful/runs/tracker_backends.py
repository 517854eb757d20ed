"""Experiment trackers: TensorBoard, Weights & Biases, MLflow and Aim.

Each class writes in the form of one tracker, into the run folder if the environment names no other place. Nothing is
sent to a network unless variables of the environment ask for it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from mlflow.entities import Metric

_PROJECT = "heedful"


class RunOutcome(Enum):
    """How a training run ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Tracker(ABC):
    """Abstract base of experiment trackers. The constructor starts a run of the tracker, or continues one.

    Any method may raise any exception of the tracker's package.

    Args:
        folder: the run folder, in which the tracker writes unless the environment names another place.
        parameters: the recipe: values by dotted key.
        run_id: the tracker's id of the run to continue; empty to start a new one.
        resumed_at: the update after which training continues.

    Attributes:
        entry_point: module and name that the tracker needs from its package.
        run_id: the tracker's id of its run; empty if it has no ids.
        location: where the numbers are, for messages.
    """

    entry_point: ClassVar[tuple[str, str]]
    run_id: str = ""
    location: str

    @abstractmethod
    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None: ...

    @classmethod
    def list_variables(cls) -> Mapping[str, str]:
        """Return environment variables that the package reads, with heedful's defaults. Those that are not set have
        these values while heedful calls the package.
        """
        return {}

    @abstractmethod
    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Log numbers, by name, that were measured after the update `step`."""

    def flush(self) -> None:
        """Write what is still in memory."""
        return

    @abstractmethod
    def close(self, outcome: RunOutcome) -> None:
        """End the tracker's run; it can be continued later."""


class TensorBoardTracker(Tracker):
    """Tracker that writes TensorBoard's event files into the folder `tensorboard` of a run.

    TensorBoard drops what earlier files contain for updates after `resumed_at`.
    """

    entry_point = ("torch.utils.tensorboard", "SummaryWriter")

    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.location = str(folder / "tensorboard")
        self._writer = SummaryWriter(self.location, purge_step=resumed_at + 1 if resumed_at else None)
        table = "\n".join(f"    {key} = {_format_parameter(value)}" for key, value in parameters.items())
        self._writer.add_text("recipe", table, resumed_at)

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Write numbers as scalars."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Write the event file to disk."""
        self._writer.flush()

    def close(self, outcome: RunOutcome) -> None:
        """Close the event file."""
        self._writer.close()


class WandbTracker(Tracker):
    """Tracker that writes for Weights & Biases, into the folder `wandb` of a run.

    Data are sent only if WANDB_API_KEY is set or WANDB_MODE is online. Each number has the number of updates next to
    it, as `step`; the steps of wandb cannot go back, which updates after a kill do.
    """

    entry_point = ("wandb", "init")
    _EXIT_CODES: ClassVar = {RunOutcome.FINISHED: 0, RunOutcome.INTERRUPTED: 255, RunOutcome.FAILED: 1}
    """wandb shows 255 as killed."""

    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None:
        import wandb

        exit_hooks = sys.exit, sys.excepthook
        try:
            self._run = wandb.init(
                dir=os.environ.get("WANDB_DIR", str(folder)),
                project=os.environ.get("WANDB_PROJECT", _PROJECT),
                name=os.environ.get("WANDB_NAME", folder.name),
                mode=os.environ["WANDB_MODE"],
                id=run_id or None,
                resume="allow",
                settings={"symlink": False},  # a run folder with a link to a folder cannot be resumed
            )
        finally:
            sys.exit, sys.excepthook = exit_hooks  # wandb replaces them for good; heedful reports how a run ends
        self.run_id = self._run.id
        self.location = self._run.url or f"{Path(self._run.dir).parent} (offline; wandb sync sends it)"
        self._run.config.update(dict(parameters), allow_val_change=True)
        self._run.define_metric("*", step_metric="step")

    @classmethod
    def list_variables(cls) -> Mapping[str, str]:
        """Return defaults that keep wandb offline and quiet, and end its wait for a service that does not answer."""
        return {
            "WANDB_MODE": "online" if os.environ.get("WANDB_API_KEY") else "offline",
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_CONSOLE": "off",
            "WANDB_SILENT": "true",
            "WANDB_FINISH_TIMEOUT": "120",
            "WANDB_FINISH_TIMEOUT_RAISES": "true",
        }

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Log numbers as one row of the history."""
        self._run.log({"step": step, **metrics})

    def close(self, outcome: RunOutcome) -> None:
        """Finish the run with the exit code of its outcome."""
        self._run.finish(exit_code=self._EXIT_CODES[outcome])


class MlflowTracker(Tracker):
    """Tracker that writes for MLflow: to MLFLOW_TRACKING_URI, or into the folder `mlruns` of a run.

    The folder is MLflow's file store, the only local one that needs no database. Parameters cannot change in MLflow;
    if a resumed run has other values, they become tags.
    """

    entry_point = ("mlflow", "MlflowClient")
    _STATUS: ClassVar = {
        RunOutcome.FINISHED: "FINISHED",
        RunOutcome.INTERRUPTED: "KILLED",
        RunOutcome.FAILED: "FAILED",
    }
    _MAX_PARAMETERS, _MAX_VALUE, _MAX_METRICS = 100, 6000, 1000
    """MLflow's limits: parameters in a call, characters of a value, and metrics in a call."""

    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None:
        from mlflow import MlflowClient

        address = os.environ.get("MLFLOW_TRACKING_URI")
        self.location = "MLFLOW_TRACKING_URI" if address else str(folder / "mlruns")  # an address may hold a password
        self._client = MlflowClient(address or (folder / "mlruns").resolve().as_uri())
        self._metrics: list[Metric] = []
        self.run_id = run_id if run_id and self._has_run(run_id) else self._create_run(folder.name)
        self._client.update_run(self.run_id, status="RUNNING")
        self._log_parameters(parameters, resumed_at=resumed_at)

    @classmethod
    def list_variables(cls) -> Mapping[str, str]:
        """Return defaults that let MLflow use its file store, send nothing about its use, print no address, and wait
        two minutes at most for a server that does not answer.
        """
        return {
            "MLFLOW_ALLOW_FILE_STORE": "true",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
        }

    def _has_run(self, run_id: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise
        return True

    def _create_run(self, name: str) -> str:
        """Create a run in the experiment MLFLOW_EXPERIMENT_NAME, by default heedful; return its id."""
        experiment_name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        experiment = self._client.get_experiment_by_name(experiment_name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(experiment_name)
        return str(self._client.create_run(experiment_id, run_name=name).info.run_id)

    def _log_parameters(self, parameters: Mapping[str, object], *, resumed_at: int) -> None:
        """Log the parameters that the run does not have yet, and a tag for each whose value has changed."""
        from mlflow.entities import Param

        known = self._client.get_run(self.run_id).data.params
        values = {key: _format_parameter(value)[: self._MAX_VALUE] for key, value in parameters.items()}
        added = [Param(key, value) for key, value in values.items() if key not in known]
        for start in range(0, len(added), self._MAX_PARAMETERS):
            self._client.log_batch(self.run_id, params=added[start : start + self._MAX_PARAMETERS])
        for key, value in values.items():
            if known.get(key, value) != value:
                self._client.set_tag(self.run_id, f"{key} after update {resumed_at}", value)

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Collect numbers; send them when there are enough, because each call may be a request to a server."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._metrics += [Metric(name, value, now, step) for name, value in metrics.items()]
        if len(self._metrics) >= self._MAX_METRICS // 2:
            self.flush()

    def flush(self) -> None:
        """Send the collected numbers."""
        metrics, self._metrics = self._metrics, []
        for start in range(0, len(metrics), self._MAX_METRICS):
            self._client.log_batch(self.run_id, metrics=metrics[start : start + self._MAX_METRICS])

    def close(self, outcome: RunOutcome) -> None:
        """Send the collected numbers and set the status of the run."""
        self.flush()
        self._client.set_terminated(self.run_id, status=self._STATUS[outcome])


class AimTracker(Tracker):
    """Tracker that writes to the Aim repository AIM_REPO, or to one in the folder `aim` of a run."""

    entry_point = ("aim", "Run")

    def __init__(
        self, folder: Path, parameters: Mapping[str, object], *, run_id: str = "", resumed_at: int = 0
    ) -> None:
        import aim

        self.location = os.environ.get("AIM_REPO") or str(folder / "aim")
        repository = aim.Repo.from_path(self.location, init=True)
        self._run = aim.Run(
            run_id if run_id and repository.run_exists(run_id) else None,
            repo=repository,
            experiment=_PROJECT,
            system_tracking_interval=None,
            capture_terminal_logs=False,
        )
        self.run_id = self._run.hash
        self._run.name = folder.name
        self._run["recipe"] = dict(parameters)

    def log_metrics(self, metrics: Mapping[str, float], *, step: int) -> None:
        """Track each number."""
        for name, value in metrics.items():
            self._run.track(value, name=name, step=step)

    def close(self, outcome: RunOutcome) -> None:
        """Note the outcome, for which Aim has no field, and close the run."""
        self._run["outcome"] = outcome.value
        self._run.close()


def _format_parameter(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def set_missing_variables(defaults: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, while the context is open."""
    missing = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
