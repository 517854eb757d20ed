"""`heedful compare`: compare runs on one text, as a table, a page with plots, and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from heedful.cli.arguments import OptionalPage, PositionalPaths, parse_arguments, require_minimum
from heedful.cli.option_parser import FileSuffixes, RenamedFrom
from heedful.cli.options import EvaluationOptions
from heedful.cli.output import log, require_writable, wrap_write_errors
from heedful.errors import RecipeError
from heedful.recipes.overrides import split_options

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe
    from heedful.runs.evaluate import ComparedRun
    from heedful.tasks.comparison import RunComparison


@dataclass(frozen=True, kw_only=True)
class CompareArguments(EvaluationOptions):
    """Compare runs of one task: size, time, and the metrics of the task with intervals; p-values against the first run.

    Translation runs are compared by BLEU, also by source length, chrF and speed; language models by bits per byte,
    whatever their vocabularies, and perplexity; classification, tagging, spans and multi-task runs by their own
    metrics, also by the number of training examples. Without text options the runs' own test set is used, or their
    validation set; it must be the same for all.

    With --train, recipes are trained first if they are not finished, and their keys can be changed:

        heedful compare recipes/road/*.toml --train --training.minutes 10
    """

    runs: PositionalPaths
    """run folders; with --train also recipes"""
    train: bool = False
    """first train the given recipes, one after the other, each in its own run folder"""
    examples: tuple[int, ...] = ()
    """with --train, for classification, tagging and spans: train each recipe with these numbers of training examples,
    each in its own run folder (<output>-<number>)"""
    init: Path | None = None
    """with --train: pre-trained model for recipes that start from one, instead of theirs"""
    page: Annotated[OptionalPage, RenamedFrom("--html")] = None
    """file for a page (HTML) with the tables and with plots: BLEU by length and learning curves, or metrics by
    examples"""
    figure: Annotated[Path | None, FileSuffixes((".svg",))] = None
    """SVG file for the plot of BLEU by length, or of the first metric by examples"""
    json: Path | None = None
    """file for all numbers"""


@dataclass(frozen=True)
class _ComparedEntry:
    """One run to compare: a given run folder, or the run of a recipe file with a number of examples.

    Attributes:
        folder: the run folder.
        recipe: the recipe of the file, with all changes.
        file: the recipe file, if one was given.
        changes: options that change keys for this run only.
    """

    folder: Path
    recipe: Recipe | None = None
    file: Path | None = None
    changes: tuple[str, ...] = ()

    def build_candidate(self) -> ComparedRun:
        """Build the run to compare, with a complete recipe; `RunError` if it was never trained and will not be."""
        from heedful.runs.evaluate import ComparedRun
        from heedful.runs.resolve import resolve_recipe

        return (
            ComparedRun.from_folder(self.folder)
            if self.recipe is None
            else ComparedRun(self.folder, resolve_recipe(self.recipe).recipe)
        )


def run_compare(argv: Sequence[str]) -> int:
    """Run `heedful compare`, which compares trained runs, and return its exit code: 0, or 128 and the signal that
    interrupted training.
    """
    own_words, overrides = split_options(argv, is_foreign=lambda name: "." in name)  # only keys of recipes have dots
    args = parse_arguments(CompareArguments, own_words, program="heedful compare")
    _check_arguments(args, overrides)
    entries = [entry for path in args.runs for entry in _build_entries(path, args=args, overrides=overrides)]
    _require_distinct(entries)

    import torch

    from heedful.runs.device import find_device
    from heedful.runs.evaluate import build_shared_evaluator, compare_runs

    find_device(args.computing.device)
    threads = args.computing.threads or torch.get_num_threads()
    runs = [entry.build_candidate() for entry in entries]
    evaluator = build_shared_evaluator(
        runs, args.build_request()
    )  # what is wrong shows before anything is trained or translated
    if exit_code := _train_recipes(entries, runs, args=args, overrides=overrides):
        return exit_code
    torch.set_num_threads(threads)
    device_options = args.computing
    comparison = compare_runs(
        runs, evaluator, args.build_sampling(), device=device_options.device, engine=device_options.engine, log=log
    )
    write_comparison(comparison, page=args.page, figure=args.figure, json=args.json)
    print(comparison.format_text(), end="")
    sys.stdout.flush()
    return 0


def write_comparison(
    comparison: RunComparison, *, page: Path | None = None, figure: Path | None = None, json: Path | None = None
) -> None:
    """Write the page, the main plot and the JSON of a comparison into the files that are given."""
    for path, render in (
        (page, comparison.to_html),
        (figure, comparison.draw_main_plot),
        (json, comparison.dump_json),
    ):
        if path is not None:
            text = render()
            with wrap_write_errors(path, "file"):
                path.write_text(text, encoding="utf-8")
            log(f"written: {path}")


def _check_arguments(args: CompareArguments, overrides: Sequence[str]) -> None:
    """Raise `RecipeError` if options need --train without it, exclude each other, or name one file twice; `DataError`
    if an output cannot be written. `overrides` are options that change keys of recipes.
    """
    require_minimum(args, samples=2)
    if args.computing.adapter is not None:
        raise RecipeError("--adapter: is for one model; give runs with adapters instead, which find their base models")
    if overrides and not args.train:
        raise RecipeError(
            f"heedful compare: {overrides[0]} is not an option; keys of recipes can be changed with --train"
        )
    if args.examples and not args.train:
        raise RecipeError("--examples: needs --train, which trains a run for each number of examples")
    if args.init is not None and not args.train:
        raise RecipeError("--init: needs --train; runs that are trained are already initialized")
    for count in args.examples:
        if count < 1:
            raise RecipeError(f"--examples: {count}; must be at least 1")
    if args.train and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError(
            "heedful compare --train: trains in one process; train each recipe with torchrun, then compare the runs"
        )
    options_by_path: dict[Path, str] = {}
    for option, path in (("--page", args.page), ("--figure", args.figure), ("--json", args.json)):
        if path is not None:
            if path in options_by_path:
                raise RecipeError(f"{options_by_path[path]} and {option}: both are {path}; give each its own file")
            options_by_path[path] = option
            require_writable(path, option)


def _build_entries(path: Path, *, args: CompareArguments, overrides: Sequence[str]) -> list[_ComparedEntry]:
    """Build the entries of a run folder or recipe file: one, or one for each number of examples. `overrides` are
    options that change keys of the recipe.
    """
    if path.suffix != ".toml" or path.is_dir():
        return [_ComparedEntry(path)]
    if not args.train:
        raise RecipeError(f"{path}: is a recipe and not a run; add --train, or give the folder of its run")
    from heedful.recipes.load import load_recipe
    from heedful.tasks.fine_tuning import FineTuningRecipe

    recipe = load_recipe(path, overrides)
    init_options: tuple[str, ...] = ()
    if args.init is not None and isinstance(recipe, FineTuningRecipe) and recipe.init is not None:
        init_options = ("--init", str(args.init))
    if not args.examples:
        return [_ComparedEntry(recipe.output, load_recipe(path, [*overrides, *init_options]), path, init_options)]
    if not isinstance(recipe, FineTuningRecipe):
        raise RecipeError(f"{path}: its task is {recipe.task}, where no number of examples can be set; see --examples")
    entries = []
    for count in dict.fromkeys(args.examples):
        folder = recipe.output.with_name(f"{recipe.output.name}-{count}")
        changes = (*init_options, "--data.examples", str(count), "--output", str(folder))
        entries.append(_ComparedEntry(folder, load_recipe(path, [*overrides, *changes]), path, changes))
    return entries


def _require_distinct(entries: Sequence[_ComparedEntry]) -> None:
    """Raise `RecipeError` if two entries are the same run."""
    entries_by_folder: dict[Path, _ComparedEntry] = {}
    for entry in entries:
        earlier = entries_by_folder.setdefault(entry.folder.resolve(), entry)
        if earlier is not entry:
            names = [str(e.file or e.folder) for e in (earlier, entry)]
            problem = (
                f"{names[0]} and {names[1]}: are the same run"
                if names[0] != names[1]
                else f"{names[0]}: is named twice"
            )
            raise RecipeError(f"{problem} ({entry.folder}); name each run once")


def _train_recipes(
    entries: Sequence[_ComparedEntry], runs: Sequence[ComparedRun], *, args: CompareArguments, overrides: Sequence[str]
) -> int:
    """Train the unfinished recipes among the entries as `heedful train` does; return the first exit code that is not 0,
    else 0. `runs` are those of the entries; `overrides` are options that change keys of every recipe.
    """
    from heedful.cli import train
    from heedful.runs.prepare import require_inputs

    for entry, run in zip(entries, runs, strict=True):
        if entry.file is not None:
            require_inputs(run.recipe)
    device = [] if args.computing.device is None else ["--device", args.computing.device]
    for position, (entry, run) in enumerate(zip(entries, runs, strict=True), 1):
        if entry.file is None:
            continue
        if run.is_finished():
            log(f"{entry.file}: {run.folder} is finished ({position} of {len(runs)})")
            continue
        log(f"{entry.file}: training {run.folder} ({position} of {len(runs)})")
        if exit_code := train.run_train([str(entry.file), *device, *overrides, *entry.changes]):
            return exit_code
    return 0
