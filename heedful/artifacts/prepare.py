"""From text files to encoded corpora inside the run folder; done once, found again by fingerprint."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heedful.artifacts.files import MANIFEST, digest, read_manifest
from heedful.artifacts.run import SOURCE, TARGET, Run, create_run, open_run
from heedful.artifacts.tensorboard import writer_class
from heedful.configs.build_run import build_reader, learn_tokenizers
from heedful.configs.data import ParallelTextConfig
from heedful.configs.run import Recipe
from heedful.data.corpus import Corpus, fingerprint, write_corpus
from heedful.errors import DataError, RunError

_FREE = ("output", "generation.", "training.", "data.test.")
"""Keys of a recipe that may change between two sittings of a run, or how they begin ..."""
_FIXED = (
    "training.batch_tokens",
    "training.accumulate",
    "training.label_smoothing",
    "training.decorrelation",
    "training.optimizer.",
    "training.ema",
    "training.precision",
    "training.monitor",
)
"""... and those of them that may not."""
_MADE = ("config.json", "tokenizer")
_TRAINED = ("checkpoints", "model.safetensors", "metrics.jsonl")


def require_inputs(recipe: Recipe) -> None:
    """Looks for everything that training reads, before any work is done.

    Raises:
        DataError: a file of text or of word vectors is missing.
        MissingExtraError: TensorBoard is wanted and not installed.
    """
    for config in (recipe.data.train, recipe.data.validation, recipe.data.test):
        if config is not None:
            build_reader(config)
    for name in ("source_vectors", "target_vectors"):
        path = getattr(recipe.model, name)
        if path is not None and not path.is_file():
            raise DataError(f"{path}: there is no such file; check model.{name}")
    if recipe.training.tensorboard:
        writer_class()


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Makes a run folder, or takes it up, and keeps other processes from training in it.

    Raises:
        RunError: the folder holds something else, lacks its manifest, cannot be written, or somebody trains in it.
    """
    try:
        _require_ours(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be a run folder ({error.strerror}); choose another one with --output"
        ) from None
    try:
        # The kernel lets go of it when the process ends, however that happens.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise RunError(
            f"{folder}: another process is training in it; wait for its end or choose another folder with --output"
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def _require_ours(folder: Path) -> None:
    if not folder.exists() or not any(folder.iterdir()) or (folder / MANIFEST).exists():
        return
    if any((folder / name).exists() for name in _TRAINED):
        raise RunError(
            f"{folder / MANIFEST}: is missing though something was trained here; restore it from a copy, or choose "
            "another folder with --output"
        )
    if not any((folder / name).exists() for name in _MADE):
        raise RunError(f"{folder}: is not empty and holds no run; choose another folder with --output")


def open_or_create(recipe: Recipe, *, say: Callable[[str], None]) -> Run:
    """The recipe's run: a new one with freshly learned tokenizers, or the one that is already there.

    Raises:
        RunError: the folder holds a run of another recipe, of which something was trained.
    """
    folder = recipe.output
    if not (folder / MANIFEST).exists():
        return _create(recipe, say=say)
    run = open_run(folder)
    if different := _differences(run.recipe, recipe):
        if read_manifest(folder).last is None:
            say(f"{folder}: nothing was trained with the earlier recipe; beginning again")
            for name in ("metrics.jsonl", MANIFEST):
                (folder / name).unlink(missing_ok=True)
            return _create(recipe, say=say)
        raise RunError(
            f"{folder}: holds a run whose recipe differs in {', '.join(different)}; choose another folder with "
            "--output, or remove this one"
        )
    if read_manifest(folder).last is not None:
        say("going on where this run was left")
    return Run(folder, recipe, run.source, run.target)


def _create(recipe: Recipe, *, say: Callable[[str], None]) -> Run:
    say("learning the tokenizer")
    with _place("data.train"):
        tokenizers = learn_tokenizers(recipe.tokenizer, build_reader(recipe.data.train))
    return create_run(recipe.output, recipe, tokenizers)


def open_corpus(run: Run, name: str, config: ParallelTextConfig, *, say: Callable[[str], None]) -> Corpus:
    """One part of the data, encoded with the run's tokenizers into memory-mapped arrays."""
    reader = build_reader(config)
    folder = run.folder / "data" / name
    mark = fingerprint(
        reader.paths,
        config.model_dump_json(exclude={"path", "source", "target"}),
        str(run.recipe.data.max_length),
        *(digest(run.folder / tokenizer) for tokenizer in (SOURCE, TARGET)),
    )
    if folder.exists():
        try:
            return Corpus.open(folder, fingerprint=mark)
        except RunError as error:
            say(f"encoding again, {error}")
            shutil.rmtree(folder)  # it is only a cache
    with _place(f"data.{name}"):
        return write_corpus(
            folder,
            reader,
            source_tokenizer=run.source,
            target_tokenizer=run.target,
            max_length=run.recipe.data.max_length,
            fingerprint=mark,
        )


@contextmanager
def _place(key: str) -> Iterator[None]:
    """Tells of which part of the data an error speaks."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


def _differences(old: Recipe, new: Recipe) -> list[str]:
    before, after = (dict(_flat(recipe.model_dump(mode="json"))) for recipe in (old, new))
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return [key for key in keys if key.startswith(_FIXED) or not key.startswith(_FREE)]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
