"""`heedful sweep`: train a recipe with several values of its keys and several seeds, and compare the runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from heedful.cli.arguments import OptionalOutput, PositionalPath, parse_arguments, require_minimum
from heedful.cli.compare import write_comparison
from heedful.cli.option_parser import OptionInfo
from heedful.cli.options import EvaluationOptions
from heedful.cli.output import log
from heedful.errors import RecipeError, RunError
from heedful.memory_limits import count_cores
from heedful.recipes.overrides import split_options
from heedful.recipes.sweep_axes import PlannedRun, SweepAxis, build_grid, parse_sweep_axis

if TYPE_CHECKING:
    from heedful.inspection.page import PageTable
    from heedful.recipes.recipe import Recipe
    from heedful.runs.sweep import ProcessPool, RunResult, RunScheduler


@dataclass(frozen=True, kw_only=True)
class SweepArguments(EvaluationOptions):
    """Train a recipe with each combination of some values of its keys, with several seeds, and compare the runs.

        heedful sweep recipe.toml --over model.heads=1,2,4 model.layers=2,3 --seeds 3

    Each run is trained by a process of its own, several at a time, into a folder inside that of the sweep. The same
    command continues an interrupted sweep, and adds the values and seeds that are new. At the end the runs are compared
    as by heedful compare: means and deviations over seeds, with tests, in a table and in comparison.html. Any key of
    the recipe can be changed for all runs, as in --training.steps 2000.

    With --strategy random or halving, --trials configurations are drawn from the values, and from intervals such as
    training.schedule.rate=1e-4..1e-2:log.
    """

    recipe: PositionalPath
    """TOML file with the keys that differ from the defaults"""
    over: Annotated[tuple[str, ...], OptionInfo(metavar="KEY=VALUE,...")] = ()
    """keys and their values; an interval LOW..HIGH, with :log on a logarithmic scale, is for drawn values"""
    seeds: int = 1
    """number of seeds of each configuration, counted from the seed of the recipe"""
    minutes: float | None = None
    """minutes for the whole sweep, instead of the limits of the recipe; all runs get the same share"""
    jobs: int | None = None
    """number of runs that are trained at a time; one for each processor core or GPU if not given"""
    strategy: Literal["grid", "random", "halving"] = "grid"
    """all combinations of the values (grid), drawn ones (random), or drawn ones of which the worse are stopped early
    (halving); the last two need heedful[sweep]"""
    trials: int | None = None
    """number of configurations that are drawn"""
    output: OptionalOutput = None
    """folder of the sweep; by default that of the recipe's run with -sweep after its name"""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_minimum(self, seeds=1, jobs=1, trials=1)
        if self.minutes is not None and not self.minutes > 0:
            raise RecipeError(f"--minutes: {self.minutes:g}; must be above 0")
        if not self.over and self.seeds == 1:
            raise RecipeError(
                "heedful sweep: has nothing to vary; give --over KEY=VALUE,VALUE, such as --over model.heads=2,4, or "
                "--seeds 3"
            )
        if self.strategy == "grid" and self.trials is not None:
            raise RecipeError("--trials: is for drawn configurations; give --strategy random or halving as well")
        if self.strategy != "grid" and (self.trials is None or not self.over):
            raise RecipeError(f"--strategy {self.strategy}: needs --over, and the number of configurations, --trials")
        if self.strategy == "halving" and self.seeds > 1:
            raise RecipeError(
                "--strategy halving: compares runs of one seed; leave --seeds out, and sweep the best configurations "
                "with several seeds afterwards"
            )


def run_sweep(argv: Sequence[str]) -> int:
    """Run `heedful sweep`; return its exit code: 0, 1 if a run failed, or 128 and the signal that interrupted it."""
    own_words, overrides = split_options(argv, is_foreign=lambda name: "." in name)  # only keys of recipes have dots
    args = parse_arguments(SweepArguments, own_words, program="heedful sweep")
    axes = _parse_axes(args)

    from heedful.recipes.load import load_recipe

    # with the first values, because a key may exist only with them, such as the clip of one kind of positions
    first_values = [f"--{axis.key}={axis.values[0]}" for axis in axes if axis.values]
    recipe = load_recipe(args.recipe, [*overrides, *first_values])
    folder = args.output or recipe.output.with_name(f"{recipe.output.name}-sweep")
    seeds = range(recipe.seed, recipe.seed + args.seeds)
    count = args.seeds * (args.trials or math.prod(len(axis.values) for axis in axes))
    jobs, gpus = _count_jobs(args, count)
    words = [*overrides, *_build_time_words(args, count, jobs)]
    device = [] if args.computing.device is None else ["--device", args.computing.device]
    options = [*device, *words]
    runs = build_grid(args.recipe, axes, seeds=seeds, options=options) if args.strategy == "grid" else []
    recipes = [load_recipe(args.recipe, [*words, *run.overrides]) for run in runs]  # what is wrong shows at once
    _check_comparable(args, recipes or [recipe])
    folder.mkdir(parents=True, exist_ok=True)

    from heedful.runs.sweep import ProcessPool

    pool = ProcessPool(folder=folder, jobs=jobs, monitor=recipe.training.monitor, gpus=gpus)
    scheduler = _build_scheduler(args, axes, runs=runs, seeds=seeds, pool=pool, options=options)
    results = _train_runs(pool, scheduler, count)
    return _show_results(args, results, pool)


def _parse_axes(args: SweepArguments) -> list[SweepAxis]:
    """Parse the options --over; raise `RecipeError` if a key is given twice, or a grid has an interval."""
    axes = [parse_sweep_axis(text) for text in args.over]
    keys = [axis.key for axis in axes]
    for axis in axes:
        if keys.count(axis.key) > 1:
            raise RecipeError(f"--over: {axis.key} is given twice; write all its values behind one key")
        if axis.drawn_from is not None and args.strategy == "grid":
            raise RecipeError(
                f"--over {axis.key}: an interval has no list of values; write them one by one, or draw from it with "
                "--strategy random --trials 20"
            )
        if axis.key in ("seed", "output"):
            raise RecipeError(f"--over {axis.key}: is set by the sweep; --seeds 3 gives three seeds")
    return axes


def _count_jobs(args: SweepArguments, count: int) -> tuple[int, int]:
    """Return how many runs are trained at a time, and on how many GPUs."""
    from heedful.runs.device import find_device

    device = find_device(args.computing.device)
    gpus = 0
    if str(device) == "cuda":  # none in particular
        import torch

        gpus = torch.cuda.device_count()
    slots = gpus or (count_cores() if device.type == "cpu" else 1)
    return args.jobs or max(1, min(slots, count)), gpus


def _build_time_words(args: SweepArguments, count: int, jobs: int) -> list[str]:
    """Return the options of `heedful train` that limit the time of each run, if a time was given."""
    if args.minutes is None:
        return []
    from heedful.runs.sweep import share_minutes

    share = share_minutes(args.minutes, runs=count, jobs=jobs)
    log(f"{count} runs, {jobs} at a time, {share:.1f} minutes each")
    return ["--training.steps=none", "--training.epochs=none", f"--training.minutes={share:.3f}"]


def _check_comparable(args: SweepArguments, recipes: Sequence[Recipe]) -> None:
    """Raise the error that the comparison of the runs would raise, before anything is trained."""
    from heedful.runs.evaluate import ComparedRun, build_shared_evaluator
    from heedful.runs.prepare import require_inputs
    from heedful.runs.resolve import resolve_recipe
    from heedful.tasks.task import get_task

    for recipe in recipes:
        require_inputs(recipe)
    if get_task(recipes[0]).report_class is not None:
        runs = [ComparedRun(recipe.output, resolve_recipe(recipe).recipe) for recipe in recipes]
        build_shared_evaluator(runs, args.build_request())


def _build_scheduler(
    args: SweepArguments,
    axes: Sequence[SweepAxis],
    *,
    runs: Sequence[PlannedRun],
    seeds: range,
    pool: ProcessPool,
    options: Sequence[str],
) -> RunScheduler:
    """Build the scheduler of the runs; `options` are those of `heedful train`."""
    if args.strategy == "grid":
        from heedful.runs.sweep import GridScheduler

        return GridScheduler(runs)
    from heedful.runs.sweep_search import SearchScheduler

    assert args.trials is not None, "checked with the options"
    return SearchScheduler(
        args.recipe,
        axes,
        count=args.trials,
        seeds=seeds,
        folder=pool.folder,
        seed=seeds[0],
        higher_is_better=pool.higher_is_better,
        stops_early=args.strategy == "halving",
        options=options,
    )


def _train_runs(pool: ProcessPool, scheduler: RunScheduler, count: int) -> list[RunResult]:
    """Train all runs, with a line for each that has ended."""
    from heedful.cli.progress import CountingProgress
    from heedful.runs.sweep import raise_on_sigterm

    results: list[RunResult] = []
    with raise_on_sigterm(), closing(pool.train(scheduler)) as ended, CountingProgress("runs") as progress:
        progress(0, count)
        for result in ended:
            results.append(result)
            progress(len(results), count)
            log(f"({len(results)} of {count}) {_describe_result(result, pool.monitor)}")
    return results


def _describe_result(result: RunResult, monitor: str) -> str:
    """Describe the result of a run in a line."""
    if result.exit_code:
        log_file = result.folder.with_name(f"{result.folder.name}.log")
        return f"{result.run.name}: failed with exit code {result.exit_code}; see {log_file}"
    best = "not evaluated" if result.best is None else f"best {monitor} {result.best:.4f}"
    return f"{result.run.description}: {best}{', stopped early' if result.stopped else ''}"


def _show_results(args: SweepArguments, results: Sequence[RunResult], pool: ProcessPool) -> int:
    """Compare the finished runs, print the comparison and write its page and its JSON; return the exit code."""
    from heedful.inspection.page import render_html_page, write_page
    from heedful.runs.evaluate import ComparedRun, build_shared_evaluator, compare_runs
    from heedful.tasks.task import get_task

    finished = [result for result in results if not (result.stopped or result.exit_code)]
    if not finished:
        raise RunError(f"{pool.folder}: no run was finished; the files *.log in it say why")
    runs = [ComparedRun.from_folder(result.folder) for result in finished]
    if get_task(runs[0].recipe).report_class is None:
        table = _build_validation_table(finished, pool.monitor)
        write_page(render_html_page(table.title, tables=[table], pictures=()), pool.folder / "comparison.html")
        print(table.format_text(), end="")
        return max(result.exit_code > 0 for result in results)
    args.computing.set_num_threads()
    device = args.computing.device
    comparison = compare_runs(
        runs,
        build_shared_evaluator(runs, args.build_request()),
        args.build_sampling(),
        device=device,
        engine=args.computing.engine,
        log=log,
    )
    write_comparison(comparison, page=pool.folder / "comparison.html", json=pool.folder / "comparison.json")
    print(comparison.format_text(), end="")
    sys.stdout.flush()
    return max(result.exit_code > 0 for result in results)


def _build_validation_table(results: Sequence[RunResult], monitor: str) -> PageTable:
    """Build a table of the best validation results, for tasks whose runs `heedful compare` does not compare."""
    from heedful.inspection.page import PageTable

    rows = [[result.run.name, "-" if result.best is None else f"{result.best:.4f}"] for result in results]
    return PageTable(f"Best {monitor} on the validation data", ["run", monitor], rows)
