"""`heedful compare`: runs side by side on one text, as a table, a page with plots, and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from heedful.cli.arguments import MaybePage, MaybePath, PositionalPaths, parse, require_least
from heedful.cli.grammar import Ending, Formerly
from heedful.cli.options import MeasuringOptions
from heedful.cli.output import require_room, say, writing
from heedful.errors import RecipeError
from heedful.recipes.options import apart

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe
    from heedful.runs.comparing import Candidate


@dataclass(frozen=True, kw_only=True)
class Arguments(MeasuringOptions):
    """Runs of one task side by side: size, time, the metrics of the task with intervals; p against the first.

    Translation runs by BLEU, also by source length, chrF and speed; language models by bits per byte, whatever their
    vocabularies, and perplexity; classification, tagging, spans and several tasks at once by their own metrics, also by
    the number of examples that was learned from. Without text options the runs' own test set is used,
    or their validation set; it must be the same for all. With --train, recipes are trained where they are not finished
    yet, and the keys in their tables can be changed:
    heedful compare recipes/road/*.toml --train --training.minutes 10
    """

    runs: PositionalPaths
    """run folders; with --train recipes too"""
    train: bool = False
    """first train the recipes that are named, one after the other, each in its own run folder"""
    examples: tuple[int, ...] = ()
    """with --train, of classification, tagging and spans: train each recipe with so many of its training examples, each
    number in a run folder of its own (<output>-<number>)"""
    init: MaybePath = None
    """with --train, the pre-trained model for recipes that begin with one, instead of theirs"""
    page: Annotated[MaybePage, Formerly("--html")] = None
    """file for a page (HTML) with the tables and with plots: BLEU by length and learning, or metrics by examples"""
    figure: Annotated[MaybePath, Ending((".svg",))] = None
    """file for the plot of BLEU by length, or of the first metric by examples, as SVG"""
    json: MaybePath = None
    """file for all numbers"""


@dataclass(frozen=True)
class _Named:
    """What was named: a run folder, or a recipe file, which leads to one, or to one for each number of examples.

    Attributes:
        folder: of the run.
        recipe: what is in the file, with all changes.
        file: where one was named.
        changes: keys that differ from the file for this run alone, as words of a command line.
    """

    folder: Path
    recipe: Recipe | None = None
    file: Path | None = None
    changes: tuple[str, ...] = ()

    def candidate(self) -> Candidate:
        """With a complete recipe; `RunError` where nothing was trained and nothing will be."""
        from heedful.runs.comparing import Candidate
        from heedful.runs.initial import resolved

        return Candidate.trained(self.folder) if self.recipe is None else Candidate(self.folder, resolved(self.recipe))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 128 and the signal that interrupted training."""
    own, overrides = apart(arguments, others=lambda name: "." in name)  # only keys of recipes have dots
    given = parse(Arguments, own, program="heedful compare")
    _check(given, overrides)
    named = [each for path in given.runs for each in _named(path, given=given, overrides=overrides)]
    _require_different(named)

    import torch

    from heedful.runs.comparing import compare, shared_exam
    from heedful.runs.device import find_device

    find_device(given.computing.device)
    threads = given.computing.threads or torch.get_num_threads()
    runs = [each.candidate() for each in named]
    exam = shared_exam(runs, given.asking())  # what is wrong shows before anything is trained or translated
    if code := _train(named, runs, given=given, overrides=overrides):
        return code
    torch.set_num_threads(threads)
    how = given.computing
    compared = compare(runs, exam, given.sampling(), device=how.device, engine=how.engine, say=say)
    for path, content in ((given.page, compared.html), (given.figure, compared.figure), (given.json, compared.json)):
        if path is not None:
            text = content()
            with writing(path, "file"):
                path.write_text(text, encoding="utf-8")
            say(f"written: {path}")
    print(compared.text(), end="")
    sys.stdout.flush()
    return 0


def _check(given: Arguments, overrides: Sequence[str]) -> None:
    require_least(given, samples=2)
    if given.computing.adapter is not None:
        raise RecipeError(
            "--adapter: is put on one model; compare runs that were adapted, each of which finds its base"
        )
    if overrides and not given.train:
        raise RecipeError(f"heedful compare: {overrides[0]} is no option; keys of recipes can be changed with --train")
    if given.examples and not given.train:
        raise RecipeError("--examples: needs --train, which trains a run for each number of examples")
    if given.init is not None and not given.train:
        raise RecipeError("--init: needs --train; runs that are trained have begun already")
    for count in given.examples:
        if count < 1:
            raise RecipeError(f"--examples: {count}; must be at least 1")
    if given.train and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError(
            "heedful compare --train: trains in one process; train each recipe with torchrun, then compare the runs"
        )
    named: dict[Path, str] = {}
    for option, path in (("--page", given.page), ("--figure", given.figure), ("--json", given.json)):
        if path is not None:
            if path in named:
                raise RecipeError(f"{named[path]} and {option}: both are {path}; give each its own file")
            named[path] = option
            require_room(path, option)


def _named(path: Path, *, given: Arguments, overrides: Sequence[str]) -> list[_Named]:
    if path.suffix != ".toml" or path.is_dir():
        return [_Named(path)]
    if not given.train:
        raise RecipeError(f"{path}: is a recipe and no run; add --train, or name the run folder that it made")
    from heedful.recipes.load import load_recipe
    from heedful.tasks.fine_tuning import FineTuningRecipe

    recipe = load_recipe(path, overrides)
    init: tuple[str, ...] = ()
    if given.init is not None and isinstance(recipe, FineTuningRecipe) and recipe.init is not None:
        init = ("--init", str(given.init))
    if not given.examples:
        return [_Named(recipe.output, load_recipe(path, [*overrides, *init]), path, init)]
    if not isinstance(recipe, FineTuningRecipe):
        raise RecipeError(f"{path}: its task is {recipe.task}, where no number of examples can be set; see --examples")
    found = []
    for count in dict.fromkeys(given.examples):
        folder = recipe.output.with_name(f"{recipe.output.name}-{count}")
        changes = (*init, "--data.examples", str(count), "--output", str(folder))
        found.append(_Named(folder, load_recipe(path, [*overrides, *changes]), path, changes))
    return found


def _require_different(entries: Sequence[_Named]) -> None:
    seen: dict[Path, _Named] = {}
    for entry in entries:
        before = seen.setdefault(entry.folder.resolve(), entry)
        if before is not entry:
            names = [str(e.file or e.folder) for e in (before, entry)]
            told = f"{names[0]} and {names[1]}: are one run" if names[0] != names[1] else f"{names[0]}: is named twice"
            raise RecipeError(f"{told} ({entry.folder}); name each run once")


def _train(named: Sequence[_Named], runs: Sequence[Candidate], *, given: Arguments, overrides: Sequence[str]) -> int:
    """Trains as `heedful train` does; what is not 0 ends the command."""
    from heedful.cli import train
    from heedful.runs.prepare import require_inputs

    for each, run in zip(named, runs, strict=True):
        if each.file is not None:
            require_inputs(run.recipe)
    device = [] if given.computing.device is None else ["--device", given.computing.device]
    for number, (each, run) in enumerate(zip(named, runs, strict=True), 1):
        if each.file is None:
            continue
        if run.is_done():
            say(f"{each.file}: {run.folder} is finished ({number} of {len(runs)})")
            continue
        say(f"{each.file}: training {run.folder} ({number} of {len(runs)})")
        if code := train.run([str(each.file), *device, *overrides, *each.changes]):
            return code
    return 0
