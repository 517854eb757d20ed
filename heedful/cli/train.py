"""`heedful train`, `curve` and `quickstart`: train the model of a recipe, plot its loss, and show it all on made-up
data.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from heedful.cli.arguments import (
    OptionalOutput,
    PositionalPath,
    PositionalPaths,
    parse_arguments,
    parse_known_arguments,
)
from heedful.cli.option_types import is_file_name
from heedful.cli.output import log, open_output, require_writable, wrap_write_errors
from heedful.errors import RecipeError, RunError
from heedful.files import check_path_name
from heedful.recipes.load import dump, load_recipe
from heedful.recipes.recipe import Recipe, get_recipe_class
from heedful.registry import DEFAULT_TASK, list_tasks, load_object, suggest_task
from heedful.version import __version__

if TYPE_CHECKING:
    from heedful.runs.metrics_log import CurvePlots
    from heedful.runs.train import TrainResult
    from heedful.tasks.demonstration import Demonstration
    from heedful.training.callbacks import Callback
    from heedful.training.prometheus import TrainingMetrics


@dataclass(frozen=True)
class TrainArguments:
    """Train the model of a recipe, or resume an interrupted run.

    Any key of the recipe can be changed by an option:

        heedful train recipe.toml --training.steps 2000 --model.positions.kind rotary

    heedful recipe KEY explains a key, such as training.steps; heedful recipe lists all keys of a task.
    """

    recipe: PositionalPath
    """TOML file with the keys that differ from the defaults"""
    print_config: bool = False
    """show the complete recipe and exit"""
    device: str | None = None
    """device to compute on (cpu, cuda, cuda:1); a GPU if there is one"""
    baseline: Literal["words", "none"] = "words"
    """for classification and language modelling: at the end also measure a model that only counts words"""
    log: Literal["text", "json"] = "text"
    """format of what is written to standard error; json is one object a line, with the id of the run"""
    metrics_port: int | None = None
    """port on which the numbers of the training can be read by Prometheus until it ends; 0 takes a free one"""
    metrics_host: str = "127.0.0.1"
    """address on which they can be read; 0.0.0.0 means every address"""


def run_train(argv: Sequence[str]) -> int:
    """Run `heedful train`, which trains the model of a recipe, and return its exit code: 0, or 128 and the signal that
    interrupted training.
    """
    _require_recipe(argv)
    args, overrides = parse_known_arguments(TrainArguments, argv, program="heedful train")
    if args.log == "text":
        return _load_and_train(args, overrides, log)

    from heedful.cli.training_log import JsonLog

    json_log = JsonLog()
    with json_log.report_problems():
        return _load_and_train(args, overrides, json_log)


def _load_and_train(args: TrainArguments, overrides: Sequence[str], say: Callable[[str], None]) -> int:
    """Load the recipe, changed by the options `overrides`, and train its model or show it; `say` writes messages."""
    recipe = _load_recipe(args.recipe, overrides)
    if args.print_config:
        print(dump(_complete_recipe(recipe, args.device)), end="")
        return 0
    return _train_recipe(recipe, args, say)


def _train_recipe(recipe: Recipe, args: TrainArguments, say: Callable[[str], None]) -> int:
    """Train the model of a recipe as the options ask for, and return the exit code; `say` writes messages."""
    from heedful.cli.training_log import JsonLog
    from heedful.runs.prepare import generate_run_id, read_run_id
    from heedful.runs.train import train

    stored_id = read_run_id(recipe.output)
    run_id = stored_id or generate_run_id()
    if isinstance(say, JsonLog):
        say.run_id = run_id if _is_first_process() else stored_id  # the first process chooses the id of a new run
    with ExitStack() as stack:
        metrics = None
        if args.metrics_port is not None and _is_first_process():
            metrics = stack.enter_context(_publish_metrics(recipe, args, say, run_id=run_id))
        with _show_progress(recipe, say) as progress:
            callbacks = [progress] if metrics is None else [progress, metrics]
            result = train(recipe, listeners=callbacks, say=say, device=args.device, run_id=run_id)
        if result.leads:
            _report_result(recipe, result, say, measure_baseline=args.baseline == "words")
        if metrics is not None:
            metrics.set_outcome("interrupted" if result.signal else "finished")
    return 128 + result.signal if result.signal else 0


def _is_first_process() -> bool:
    """Whether this is the first of the processes that train together, or the only one."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def _show_progress(recipe: Recipe, say: Callable[[str], None]) -> Iterator[Callback]:
    """Yield the callback that shows progress inside the block: JSON if `say` writes it, otherwise a bar or lines."""
    from rich.console import Console

    from heedful.cli.progress import TrainingProgress
    from heedful.cli.training_log import JsonLog, JsonProgress
    from heedful.runs.trainer_factory import build_limits
    from heedful.tasks.task import get_task
    from heedful.training.eta import TrainingForecast

    limits = build_limits(recipe.training)
    if isinstance(say, JsonLog):
        yield JsonProgress(limits, say)
        return
    console = Console(stderr=True, force_terminal=None if _is_first_process() else False)
    with TrainingProgress(TrainingForecast(limits), console, get_task(recipe).unit_names) as progress:
        yield progress


@contextmanager
def _publish_metrics(
    recipe: Recipe, args: TrainArguments, say: Callable[[str], None], *, run_id: str
) -> Iterator[TrainingMetrics]:
    """Yield the callback whose metrics can be read over HTTP inside the block; `say` writes where.

    Raises:
        MissingExtraError: prometheus-client is not installed.
        RecipeError: it cannot listen at the address that the options give.
    """
    from heedful.runs.trainer_factory import build_limits
    from heedful.training.prometheus import MetricsServer, TrainingMetrics

    assert args.metrics_port is not None, "the option is given"
    labels = {"run_id": run_id, "run": recipe.output.name, "task": recipe.task, "version": __version__}
    metrics = TrainingMetrics(build_limits(recipe.training), labels=labels)
    with MetricsServer(metrics, host=args.metrics_host, port=args.metrics_port) as server:
        say(f"metrics: {server.address}")
        yield metrics


def _report_result(recipe: Recipe, result: TrainResult, say: Callable[[str], None], *, measure_baseline: bool) -> None:
    """Write what came of a training, and what to do next; measure the baseline of word counts before, if asked for."""
    from heedful.runs.metrics_log import describe_high_perplexity
    from heedful.tasks.task import get_task

    if result.signal:
        name = signal.Signals(result.signal).name
        say(f"{name}: saved; run the same command again to continue from here ({result.folder})")
        return
    if measure_baseline:
        _show_word_baseline(result.folder, say)
    if result.weaknesses:
        say(f"trained: {result.folder}\nwhat may help to make it useful:")
        for remedy in result.remedies:
            say(f"- {remedy}")
        return
    if warning := describe_high_perplexity(result.folder / "metrics.jsonl"):
        say(f"note: {warning}")
    next_command = get_task(recipe).example_command(recipe).replace("RUN", shlex.quote(str(result.folder)))
    say(f"trained: {result.folder}\nnext: heedful {next_command}")


def _show_word_baseline(folder: Path, say: Callable[[str], None]) -> None:
    """Measure the baseline of word counts on the validation data of a run, show it and keep it in the run folder."""
    from heedful.atomic_io import write_json
    from heedful.runs.evaluate import BASELINE_FILE, measure_word_baseline
    from heedful.runs.load import open_run

    run = open_run(folder)
    if (baseline := measure_word_baseline(run, "validation", log=say)) is not None:
        say(str(baseline))
        write_json(folder / BASELINE_FILE, asdict(baseline))


def _require_recipe(argv: Sequence[str]) -> None:
    """Raise an error that names `heedful new` if several files are given and they are not recipes.

    Raises:
        RecipeError: the words before the first option are file names, and one of them is not that of a recipe.
    """
    files = list(takewhile(lambda word: not word.startswith("-"), argv))
    if len(files) > 1 and all(map(is_file_name, files)) and not all(file.endswith(".toml") for file in files):
        raise RecipeError(f"{', '.join(files)}: a recipe is expected here; {_suggest_new(files)}")


def _load_recipe(file: Path, overrides: Sequence[str]) -> Recipe:
    """Load the recipe in a file, changed by the options `overrides`; the `RecipeError` mentions `heedful new` if the
    file may be data.
    """
    try:
        return load_recipe(file, overrides)
    except RecipeError as error:
        if file.suffix == ".toml" or str(file) == "-" or file.is_dir():
            raise
        raise RecipeError(f"{error}; {_suggest_new([str(file)])}") from None


def _suggest_new(files: Sequence[str]) -> str:
    """Return the hint to write a recipe for data files first."""
    return f"if these are data, write a recipe for them first: {shlex.join(['heedful', 'new', *files])}"


def _complete_recipe(recipe: Recipe, device: str | None) -> Recipe:
    """Return the recipe with the values that training on the device would choose from the data and the time."""
    if not recipe.needs_fitting:
        return recipe

    from heedful.runs.device import find_device
    from heedful.runs.resolve import fit_recipe, resolve_recipe

    return fit_recipe(resolve_recipe(recipe).recipe, device=find_device(device))


_POLL_SECONDS: Final = 2.0
"""Seconds between two reads of the files."""
_MAX_COLUMNS, _MAX_ROWS = 110, 30


@dataclass(frozen=True)
class CurveArguments:
    """Plot the training and validation loss of runs over updates, from their metrics.jsonl.

    Both are negative log-likelihoods in nats per label, so that they can be compared; the training loss includes
    dropout. In a terminal each line has its own symbol; --output draws the plot as a page or a picture.
    """

    runs: PositionalPaths
    """run folders, finished or not"""
    output: OptionalOutput = None
    """file for a page (.html) or a picture (.svg), instead of a plot in the terminal"""
    follow: bool = False
    """redraw when there is new data, until all runs are finished; Ctrl-C stops it"""

    def execute(self) -> int:
        """Run the command; return the exit code."""
        _check_curve_arguments(self)
        if self.follow:
            return _follow_runs(self.runs)
        plots = _read_curves(self.runs)
        if plots.is_empty:
            raise RunError(
                f"{self.runs[0]}: has no measurements yet; the first ones come after 50 updates, or with the first "
                "validation (training.evaluate_every); --follow waits for it"
            )
        if self.output is None:
            with open_output(None) as out:
                out.write(_draw_curves(plots))
            return 0
        text = plots.to_html() if self.output.suffix == ".html" else plots.to_svg()
        with wrap_write_errors(self.output, "--output"):
            self.output.write_text(text, encoding="utf-8")
        log(f"written: {self.output}")
        return 0


def _check_curve_arguments(args: CurveArguments) -> None:
    """Raise `RunError` if a run folder is missing, and `RecipeError` if the output has another suffix than .html and
    .svg or is combined with --follow.
    """
    for folder in args.runs:
        check_path_name(folder)
        if not folder.is_dir():
            raise RunError(f"{folder}: no such run folder; give the `output` of a recipe that is trained")
    if args.output is None:
        return
    if args.follow:
        raise RecipeError("--follow: draws in the terminal; leave --output out, or leave --follow out")
    if args.output.suffix not in (".html", ".svg"):
        raise RecipeError(f"--output: {args.output}; the name must end in .html or .svg")
    require_writable(args.output, "--output")


def _read_curves(runs: Sequence[Path]) -> CurvePlots:
    """Read the learning curves of runs."""
    from heedful.runs.checkpoints import METRICS_FILE
    from heedful.runs.metrics_log import CurvePlots, read_curve

    return CurvePlots({str(folder): read_curve(folder / METRICS_FILE) for folder in runs})


def _draw_curves(plots: CurvePlots) -> str:
    """Draw the curves as text that fits the terminal."""
    size = shutil.get_terminal_size((80, 24))
    return plots.to_text(width=min(size.columns, _MAX_COLUMNS), height=min(size.lines - 1, _MAX_ROWS))


def _follow_runs(runs: Sequence[Path]) -> int:
    """Redraw the curves in place in a terminal until all runs are finished; elsewhere print one plot after the other.
    Return the exit code.
    """
    if not sys.stdout.isatty():
        with open_output(None) as out:

            def show(text: str) -> None:
                out.write(f"{text}\n")
                out.flush()

            return _redraw_until_finished(runs, show)

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as live:
        return _redraw_until_finished(runs, lambda text: live.update(Text(text), refresh=True))


def _redraw_until_finished(runs: Sequence[Path], show: Callable[[str], None]) -> int:
    """Call `show` with the drawn curves whenever they change, until all runs are finished or Ctrl-C; return the exit
    code.
    """
    previous = ""
    while True:
        plots = _read_curves(runs)
        if (drawing := _draw_curves(plots)) != previous:
            show(drawing)
            previous = drawing
        if all(curve.finished for curve in plots.curves.values()):
            return 0
        try:
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            return 0


_HELP_WIDTH: Final = 80


def run_quickstart(argv: Sequence[str]) -> int:
    """Run `heedful quickstart`, which trains a small model on generated data, and return its exit code."""
    parsed_demonstration = parse_demonstration(argv)
    recipe = parsed_demonstration.write_recipe()
    if recipe is None:
        return 0
    from heedful.runs.load import load

    exit_code = run_train([str(recipe)])
    if exit_code == 0:
        output = load_recipe(recipe).output
        parsed_demonstration.show_results(load(output), output)
    return exit_code


def parse_demonstration(argv: Sequence[str]) -> Demonstration:
    """Parse the words of the command: a task, or none for the default one, and the options of its demonstration."""
    has_task = bool(argv) and not argv[0].startswith("-")
    task, words = (argv[0], argv[1:]) if has_task else (DEFAULT_TASK, argv)
    references = {name: reference for name in list_tasks() if (reference := get_recipe_class(name).shown_by)}
    if task not in references:
        suggestion = suggest_task(task)
        remedy = f"did you mean {suggestion}?" if suggestion in references else f"choose one of {', '.join(references)}"
        raise RecipeError(f"quickstart {task}: no such task; {remedy}")
    demonstration_class: type[Demonstration] = load_object(references[task], context=f"task = {task!r}")
    if not has_task and {"--help", "-h"} & {*words} and len(references) > 1:
        others = ", ".join(name for name in references if name != task)
        print(textwrap.fill(f"heedful quickstart TASK shows another task: {others}", _HELP_WIDTH), end="\n\n")
    return parse_arguments(
        demonstration_class, words, program=f"heedful quickstart {task}" if has_task else "heedful quickstart"
    )
