"""From text files to encoded corpora inside the run folder; done once, found again by fingerprint."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from heedful.artifacts.files import read_manifest
from heedful.artifacts.run import Run, create_run, open_run
from heedful.configs.build_run import build_reader, learn_tokenizers
from heedful.configs.data import ParallelTextConfig
from heedful.configs.run import Recipe
from heedful.data.corpus import Corpus, fingerprint, write_corpus
from heedful.errors import RunError

_FREE = ("training", "generation", "output")
"""Tables of a recipe that may change between two sittings of a run."""
_FIXED_TRAINING = (
    "batch_tokens",
    "accumulate",
    "label_smoothing",
    "decorrelation",
    "optimizer",
    "ema",
    "precision",
)


def open_or_create(recipe: Recipe, *, say: Callable[[str], None]) -> Run:
    """The recipe's run: a new one with freshly learned tokenizers, or the one that is already there.

    Raises:
        RunError: the folder holds a run of another recipe, or something that is no run.
    """
    folder = recipe.output
    if not folder.exists() or not any(folder.iterdir()):
        say("learning the tokenizer")
        return create_run(folder, recipe, learn_tokenizers(recipe.tokenizer, build_reader(recipe.data.train)))
    if not (folder / "manifest.json").exists():
        if (folder / "config.json").exists() or (folder / "tokenizer").exists():
            say("starting over: the folder holds a run that never began")
            return create_run(
                folder, recipe, learn_tokenizers(recipe.tokenizer, build_reader(recipe.data.train))
            )
        raise RunError(f"{folder}: is not empty and holds no run; choose another folder with --output")
    run = open_run(folder)
    if different := sorted(_differences(run.recipe, recipe)):
        raise RunError(
            f"{folder}: holds a run whose recipe differs in {', '.join(different)}; choose another folder with "
            "--output, or remove this one"
        )
    if read_manifest(folder).last is not None:
        say("going on where this run was left")
    return Run(folder, recipe, run.source, run.target)


def open_corpus(run: Run, name: str, config: ParallelTextConfig) -> Corpus:
    """One part of the data, encoded with the run's tokenizers into memory-mapped arrays."""
    reader = build_reader(config)
    folder = run.folder / "data" / name
    mark = fingerprint(
        reader.paths,
        config.model_dump_json(exclude={"path", "source", "target"}),
        str(run.recipe.data.max_length),
    )
    if folder.exists():
        try:
            return Corpus.open(folder, fingerprint=mark)
        except RunError:
            shutil.rmtree(folder)  # made from other text, or by an interrupted run; it is only a cache
    return write_corpus(
        folder,
        reader,
        source_tokenizer=run.source,
        target_tokenizer=run.target,
        max_length=run.recipe.data.max_length,
        fingerprint=mark,
    )


def _differences(old: Recipe, new: Recipe) -> set[str]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    tables = {name for name in before if name not in _FREE and before[name] != after[name]}
    return tables | {
        f"training.{name}"
        for name in _FIXED_TRAINING
        if before["training"].get(name) != after["training"].get(name)
    }
