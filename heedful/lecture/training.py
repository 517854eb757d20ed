"""Training of the lecture's models, several at a time, each in the order in which it depends on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import final

from heedful.errors import TrainingError
from heedful.lecture.models import LectureModel
from heedful.memory_limits import count_cores
from heedful.recipes.sweep_axes import PlannedRun
from heedful.runs.sweep import ProcessPool, RunResult, RunScheduler, raise_on_sigterm


@final
class ModelScheduler(RunScheduler):
    """Schedules the lecture's runs: the longest first, and a model only after the model that it starts from."""

    def __init__(self, models: Sequence[LectureModel], folder: Path) -> None:
        self._waiting = sorted(models, key=lambda model: -model.seconds)
        self._folder = folder
        self._trained: set[str] = set()

    def next_run(self) -> PlannedRun | None:
        """Return the next run that can start; None while all others wait for the model that they start from."""
        for model in self._waiting:
            if not model.starts_from or model.starts_from in self._trained:
                self._waiting.remove(model)
                return model.plan_run(self._folder)
        return None

    def record_result(self, run: PlannedRun, values: Sequence[float], *, stopped: bool, failed: bool) -> None:
        """Record that a run has ended. If it failed, the models that start from it are not trained."""
        if not failed:
            self._trained.add(run.name)


def train_models(
    models: Sequence[LectureModel], folder: Path, *, jobs: int | None = None, log: Callable[[str], None]
) -> None:
    """Write the data and recipes of models into a folder and train them in its folder `runs`, `jobs` at a time. What is
    trained already stays, and interrupted trainings continue. `log` receives a line for each model.

    Raises:
        TrainingError: a training failed, or a file cannot be written.
    """
    runs = folder / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for model in models:
        model.write_sources(folder)
    models = [model for model in models if not model.is_finished(folder)]
    jobs = jobs or max(1, min(count_cores(), len(models)))
    seconds = sum(model.seconds for model in models)
    log(f"{len(models)} models, {jobs} at a time: about {seconds / 60 / jobs:.0f} minutes if nothing is trained yet")
    pool = ProcessPool(folder=runs, jobs=jobs, monitor="loss")
    results: list[RunResult] = []
    purposes = {model.name: model.purpose for model in models}
    with raise_on_sigterm(), closing(pool.train(ModelScheduler(models, folder))) as ended:
        for result in ended:
            results.append(result)
            outcome = "failed" if result.exit_code else "is trained"
            log(f"({len(results)} of {len(models)}) {result.run.name} {outcome}: {purposes[result.run.name]}")
    if failed := [result.run.name for result in results if result.exit_code]:
        raise TrainingError(
            f"{', '.join(failed)}: the training failed; {runs / failed[0]}.log says why; the same command tries again"
        )
