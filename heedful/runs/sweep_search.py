"""Random search and successive halving over the values of a sweep, by Optuna."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from heedful.errors import MissingExtraError, RecipeError
from heedful.recipes.sweep_axes import PlannedRun, SweepAxis, build_runs
from heedful.runs.sweep import RunScheduler

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial

STUDY_FILE: Final = "study.log"
"""File in the folder of a sweep with the configurations that were drawn and their results."""


@final
class SearchScheduler(RunScheduler):
    """Schedules random configurations; it may stop those that are worse than others after the same number of
    evaluations.

    Successive halving is asynchronous (Li et al. 2020, A System for Massively Parallel Hyperparameter Tuning): after 1,
    3, 9, ... evaluations a run goes on only if it is among the best third of all runs that came so far. A search that
    was interrupted goes on with the configurations that had not ended.

    Args:
        recipe: the recipe file.
        axes: keys with their values or intervals.
        count: number of configurations.
        seeds: seeds of each configuration.
        folder: folder of the sweep, which keeps the state of the search.
        seed: seed of the draws.
        higher_is_better: whether higher values of the monitored metric are better.
        stops_early: whether bad configurations are stopped; this has no effect with several seeds.
        options: further options of `heedful train`.

    Raises:
        MissingExtraError: Optuna is not installed.
        RecipeError: the folder has a search over other keys or values.
    """

    def __init__(
        self,
        recipe: Path,
        axes: Sequence[SweepAxis],
        *,
        count: int,
        seeds: Sequence[int],
        folder: Path,
        seed: int,
        higher_is_better: bool,
        stops_early: bool,
        options: Sequence[str] = (),
    ) -> None:
        self._study = _open_study(folder, seed=seed, higher_is_better=higher_is_better, stops_early=stops_early)
        self._recipe = recipe
        self._axes = axes
        self._count = count
        self._seeds = seeds
        self._options = options
        self._distributions = {axis.key: _build_distribution(axis) for axis in axes}
        if any(trial.distributions != self._distributions for trial in self._study.trials):
            raise RecipeError(f"--over: {folder} has a search over other keys or values; choose another --output")
        self._trials: dict[int, Trial] = {}
        self._results: dict[int, list[float | None]] = {}
        self._waiting = self._list_former_runs()

    def next_run(self) -> PlannedRun | None:
        """Return the next run; draw a new configuration if all runs of the others have been returned."""
        if not self._waiting and len(self._study.trials) < self._count:
            trial = self._study.ask(self._distributions)
            self._trials[trial.number] = trial
            self._waiting = self._build_runs(trial)
        return self._waiting.pop(0) if self._waiting else None

    def should_stop(self, run: PlannedRun, values: Sequence[float]) -> bool:
        """Report the validation results of a run; return whether to stop it."""
        trial = self._trials.get(run.number)
        if trial is None or len(self._seeds) > 1:  # it had ended before, or is one of several that count together
            return False
        reported = len(self._study.trials[run.number].intermediate_values)
        for step, value in enumerate(values[reported:], reported + 1):
            trial.report(value, step)
        return trial.should_prune()

    def record_result(self, run: PlannedRun, values: Sequence[float], *, stopped: bool, failed: bool) -> None:
        """Record the mean over seeds of the best result when all runs of a configuration have ended."""
        from optuna.trial import TrialState

        if run.number not in self._trials:  # it had ended before
            return
        is_maximized = self._study.direction.name == "MAXIMIZE"
        best = (max(values) if is_maximized else min(values)) if values and not failed else None
        results = self._results.setdefault(run.number, [])
        results.append(best)
        if len(results) < len(self._seeds):
            return
        trial, numbers = self._trials.pop(run.number), [result for result in results if result is not None]
        if stopped:
            self._study.tell(trial, state=TrialState.PRUNED)
        elif len(numbers) < len(results):
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, sum(numbers) / len(numbers))

    def _list_former_runs(self) -> list[PlannedRun]:
        """Return the runs of an earlier search: first the finished ones, then the interrupted ones. Stopped and failed
        ones are left out.
        """
        from optuna.trial import Trial, TrialState

        for trial in self._study.get_trials(states=(TrialState.RUNNING,)):
            self._trials[trial.number] = Trial(self._study, trial._trial_id)
        finished = self._study.get_trials(states=(TrialState.COMPLETE,))
        return [run for trial in (*finished, *self._trials.values()) for run in self._build_runs(trial)]

    def _build_runs(self, trial: BaseTrial) -> list[PlannedRun]:
        """Build the runs of a trial, one for each seed."""
        settings = {axis.key: _format_setting(trial.params[axis.key]) for axis in self._axes}
        return build_runs(
            self._recipe,
            settings,
            seeds=self._seeds,
            options=self._options,
            label=f"{trial.number:03}",
            number=trial.number,
        )


def _open_study(folder: Path, *, seed: int, higher_is_better: bool, stops_early: bool) -> Study:
    """Open the study of a folder, or create it."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError(
            "--strategy: the package optuna is not installed; install it with: pip install 'heedful[sweep]', or sweep "
            "a grid of values"
        ) from None
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    study = optuna.create_study(
        study_name="sweep",
        storage=JournalStorage(JournalFileBackend(str(folder / STUDY_FILE))),
        pruner=pruner if stops_early else optuna.pruners.NopPruner(),
        direction="maximize" if higher_is_better else "minimize",
        load_if_exists=True,
    )
    # a search that goes on must not draw the same configurations again
    study.sampler = optuna.samplers.RandomSampler(seed=seed + len(study.trials))
    return study


def _build_distribution(axis: SweepAxis) -> BaseDistribution:
    """Build the distribution of the values of an axis."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    drawn_from = axis.drawn_from
    if drawn_from is None:
        return CategoricalDistribution(axis.values)
    if drawn_from.is_integer:
        return IntDistribution(int(drawn_from.low), int(drawn_from.high), log=drawn_from.is_logarithmic)
    return FloatDistribution(drawn_from.low, drawn_from.high, log=drawn_from.is_logarithmic)


def _format_setting(value: Any) -> str:
    """Format a drawn value as text for the command line, numbers with four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
