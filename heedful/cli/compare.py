"""`heedful compare`: runs side by side on one text, as a table, a page with plots, and JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from heedful.cli.arguments import MaybeInt, MaybePath, MaybeText, parse
from heedful.cli.parallel import TextOptions
from heedful.cli.searching import SearchOptions
from heedful.errors import DataError, RecipeError
from heedful.recipes.options import apart

if TYPE_CHECKING:
    from heedful.recipes.recipe import Recipe
    from heedful.runs.comparing import Candidate
    from heedful.tasks.exam import Asking


@dataclass(frozen=True)
class Arguments:
    """Runs of one task side by side: size, time, the metrics of the task with intervals; p against the first.

    Translation runs by BLEU, also by source length, chrF and speed; language models by bits per byte, whatever their
    vocabularies, and perplexity; classification, tagging, spans and several tasks at once by their own metrics, also by
    the number of examples that was learned from. Without text options the runs' own test set is used,
    or their validation set; it must be the same for all. With --train, recipes are trained where they are not finished
    yet, and the keys in their tables can be changed:
    heedful compare recipes/road/*.toml --train --training.minutes 10
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """run folders; with --train recipes too"""
    train: bool = False
    """first train the recipes that are named, one after the other, each in its own run folder"""
    examples: tuple[int, ...] = ()
    """with --train, of classification, tagging and spans: train each recipe with so many of its training examples, each
    number in a run folder of its own (<output>-<number>)"""
    init: MaybePath = None
    """with --train, the pre-trained model for recipes that begin with one, instead of theirs"""
    text: Annotated[TextOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=TextOptions)
    html: MaybePath = None
    """file for a page with the tables and with plots: BLEU by length and learning, or metrics by examples"""
    figure: MaybePath = None
    """file for the plot of BLEU by length, or of the first metric by examples, as SVG"""
    json: MaybePath = None
    """file for all numbers"""
    lowercase: bool = False
    """compare lowercased text"""
    tokenize: str = "13a"
    """how BLEU cuts words (13a, intl, zh, ja-mecab, char, none)"""
    searching: Annotated[SearchOptions, tyro.conf.OmitArgPrefixes] = field(default_factory=SearchOptions)
    samples: int = 1000
    """corpora, or sets of examples, drawn for confidence intervals and the paired bootstrap"""
    seed: int = 1
    """of the bootstrap"""
    device: MaybeText = None
    """where to compute; a GPU where there is one"""
    threads: MaybeInt = None
    """CPU threads"""


@dataclass(frozen=True)
class _Named:
    """What was named: a run folder, or a recipe file, which leads to one, or to one for each number of examples."""

    folder: Path
    recipe: Recipe | None = None
    file: Path | None = None
    changes: tuple[str, ...] = ()

    def entry(self) -> _Entry:
        """The same with a complete recipe; `RunError` where nothing was trained and nothing will be."""
        from heedful.runs.comparing import Candidate
        from heedful.runs.initial import resolved

        if self.recipe is None:
            return _Entry(Candidate.trained(self.folder))
        return _Entry(Candidate(self.folder, resolved(self.recipe)), self.file, self.changes)


@dataclass(frozen=True)
class _Entry:
    """A run that takes part, trained or still to be trained.

    Attributes:
        run: that it is.
        file: the recipe file that leads to it, where one was named.
        changes: keys that differ from the file, as words of a command line.
    """

    run: Candidate
    file: Path | None = None
    changes: tuple[str, ...] = ()


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, or 128 and the signal that interrupted training."""
    own, overrides = apart(arguments, others=lambda name: "." in name)  # only keys of recipes have dots
    given = parse(Arguments, own, program="heedful compare")
    _check(given, overrides)
    named = [each for path in given.runs for each in _named(path, given=given, overrides=overrides)]
    _require_different(named)

    import torch

    from heedful.metrics.bootstrap import Sampling
    from heedful.runs.comparing import compare, shared_exam
    from heedful.runs.device import find_device

    find_device(given.device)
    threads = given.threads or torch.get_num_threads()
    entries = [each.entry() for each in named]
    runs = [entry.run for entry in entries]
    exam = shared_exam(runs, _asking(given))  # what is wrong shows before anything is trained or translated
    if code := _train(entries, given=given, overrides=overrides):
        return code
    torch.set_num_threads(threads)
    compared = compare(runs, exam, Sampling(given.samples, given.seed), device=given.device, say=_say)
    for path, content in ((given.html, compared.html), (given.figure, compared.figure), (given.json, compared.json)):
        if path is not None:
            _write(path, content())
    print(compared.text(), end="")
    sys.stdout.flush()
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(given: Arguments, overrides: Sequence[str]) -> None:
    for name, least in (("samples", 2), ("threads", 1), ("seed", 0)):
        number = getattr(given, name)
        if number is not None and number < least:
            raise RecipeError(f"--{name}: {number}; must be at least {least}")
    if not given.runs:
        raise RecipeError("heedful compare: no run was named; give run folders, or recipes and --train")
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
    for option, path in (("--html", given.html), ("--figure", given.figure), ("--json", given.json)):
        if path is not None:
            if path in named:
                raise RecipeError(f"{named[path]} and {option}: both are {path}; give each its own file")
            named[path] = option
            _require_room(path, option)


def _require_room(path: Path, option: str) -> None:
    """Complains before hours of work, and leaves nothing behind."""
    existed = path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another {option}") from None


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}); choose another file") from None
    _say(f"written: {path}")


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


def _asking(given: Arguments) -> Asking:
    from heedful.tasks.exam import Asking

    return Asking(
        text=given.text.reader() if given.text.named else None,
        lowercase=given.lowercase,
        tokenize=given.tokenize,
        search=None if given.searching == SearchOptions() else given.searching.config,
    )


def _require_different(entries: Sequence[_Named]) -> None:
    seen: dict[Path, _Named] = {}
    for entry in entries:
        before = seen.setdefault(entry.folder.resolve(), entry)
        if before is not entry:
            names = [str(e.file or e.folder) for e in (before, entry)]
            told = f"{names[0]} and {names[1]}: are one run" if names[0] != names[1] else f"{names[0]}: is named twice"
            raise RecipeError(f"{told} ({entry.folder}); name each run once")


def _train(entries: Sequence[_Entry], *, given: Arguments, overrides: Sequence[str]) -> int:
    """Trains as `heedful train` does; what is not 0 ends the command."""
    from heedful.cli import train
    from heedful.runs.prepare import require_inputs
    from heedful.store import MANIFEST

    for entry in entries:
        if entry.file is not None:
            require_inputs(entry.run.recipe)
    device = [] if given.device is None else ["--device", given.device]
    for number, entry in enumerate(entries, 1):
        if entry.file is None:
            continue
        if (entry.run.folder / MANIFEST).exists() and entry.run.is_done():
            _say(f"{entry.file}: {entry.run.folder} is finished ({number} of {len(entries)})")
            continue
        _say(f"{entry.file}: training {entry.run.folder} ({number} of {len(entries)})")
        if code := train.run([str(entry.file), *device, *overrides, *entry.changes]):
            return code
    return 0
