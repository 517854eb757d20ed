"""A run folder: what a recipe became, and the trained model in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heedful.artifacts.checkpoints import load_weights
from heedful.artifacts.device import find_device
from heedful.artifacts.files import Manifest, digest, read_manifest, verify, write_json, write_manifest
from heedful.configs.build import Sizes, build_model
from heedful.configs.build_run import build_length, build_search
from heedful.configs.run import Recipe, recipe_from
from heedful.data.tokenizers import Tokenizer, load_tokenizer
from heedful.errors import RecipeError, RunError
from heedful.models.layout import arrange_for_inference
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.tasks.translator import Translator
from heedful.values import Tokens

FORMAT = 1
CONFIG = "config.json"
SOURCE, TARGET = "tokenizer/source", "tokenizer/target"


@dataclass(frozen=True)
class Run:
    """A run on disk, its recipe and its tokenizers; weights are loaded when asked for."""

    folder: Path
    recipe: Recipe
    source: Tokenizer
    target: Tokenizer

    @property
    def sizes(self) -> Sizes:
        """What the model must know of its data."""
        return Sizes(self.source.size, self.target.size, self.recipe.data.max_length)

    @property
    def max_target(self) -> int | None:
        """Tokens of the longest translation, its end included; None where positions have no end."""
        longest = self.recipe.model.longest
        return None if longest is None else longest.tokens

    def model(self) -> SequenceToSequence[Tokens]:
        """The recipe's model, freshly initialised from its seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            return build_model(self.recipe.model, self.sizes)


def create_run(folder: Path, recipe: Recipe, tokenizers: tuple[Tokenizer, Tokenizer]) -> Run:
    """Writes what does not change while a run is trained; its manifest comes last and makes it a run."""
    source, target = tokenizers
    files = {}
    for name, tokenizer in ((SOURCE, source), (TARGET, target)):
        (folder / name).parent.mkdir(exist_ok=True)
        tokenizer.save(folder / name)
        files[name] = digest(folder / name)
    content = {"format": FORMAT, "recipe": recipe.model_dump(mode="json", exclude_none=True)}
    write_json(folder / CONFIG, content)
    files[CONFIG] = digest(folder / CONFIG)
    write_manifest(folder, Manifest(files=files))
    return Run(folder, recipe, source, target)


def open_run(folder: Path) -> Run:
    """A run that exists.

    Raises:
        RunError: it is missing, damaged, or of another version.
    """
    manifest = read_manifest(folder)
    for name in (CONFIG, SOURCE, TARGET):
        verify(folder, name, manifest=manifest)
    recipe = _recipe(folder / CONFIG)
    source, target = (load_tokenizer(folder / name) for name in (SOURCE, TARGET))
    return Run(folder, recipe, source, source if recipe.tokenizer.joint else target)


def load(*folders: str | Path, device: str | torch.device | None = None, step: int | None = None) -> Translator:
    """The trained model of a run; several runs with the same vocabulary translate together.

    Args:
        folders: run folders, or one.
        device: where to compute; a GPU where there is one.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Raises:
        RunError: a folder is missing, damaged, not trained yet, or the vocabularies differ.

    >>> import heedful
    >>> model = heedful.load("runs/multi30k-en-de")  # doctest: +SKIP
    >>> model.translate(["A dog runs."])[0].text  # doctest: +SKIP
    'Ein Hund rennt.'
    """
    if not folders:
        raise RunError("no run folder was given; name at least one")
    runs = [open_run(Path(folder)) for folder in folders]
    first = runs[0]
    for other in runs[1:]:
        if any(digest(other.folder / n) != digest(first.folder / n) for n in (SOURCE, TARGET)):
            raise RunError(
                f"{other.folder}: has another vocabulary than {first.folder}; an ensemble needs the same one"
            )
    place = find_device(device)
    models = []
    for run in runs:
        model = run.model()
        load_weights(run.folder, model, step=step)
        arrange_for_inference(model.to(place).eval())
        models.append(model)
    return Translator(
        models,
        source=first.source,
        target=first.target,
        search=build_search(first.recipe.generation),
        length=build_length(first.recipe.generation),
        max_source=min(run.recipe.data.max_length for run in runs),
        max_target=min((run.max_target for run in runs if run.max_target is not None), default=None),
    )


def _recipe(path: Path) -> Recipe:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, table = content["format"], content["recipe"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{path}: holds no recipe; restore it from a copy or train again") from None
    if version != FORMAT:
        raise RunError(
            f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
        )
    try:
        return recipe_from(table, place=str(path))
    except RecipeError as error:
        raise RunError(f"{path}: holds a recipe that this version of heedful cannot read: {error}") from None
