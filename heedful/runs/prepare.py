"""From text files to encoded corpora inside the run folder; done once, found again by fingerprint."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from heedful.data.corpus import Corpus, fingerprint
from heedful.errors import DataError, RunError
from heedful.recipes.recipe import PARTS, Recipe, data_table
from heedful.recipes.section import Mark, fixed, marked
from heedful.recipes.text import TokenizerConfig
from heedful.runs.checkpoints import is_for_use
from heedful.runs.initial import adapting, begin_run
from heedful.runs.load import is_begun, open_run, save_run, taking_up_run
from heedful.runs.metrics_log import writer_class
from heedful.runs.texts import lost, noted
from heedful.store import MANIFEST, digest
from heedful.tasks.kind import Run, kind_of, placed

_LOCK = ".lock"
_MADE = (_LOCK, "config.json", "tokenizer")
_TRAINED = ("checkpoints", "model.safetensors", "metrics.jsonl")


def require_inputs(recipe: Recipe) -> None:
    """Looks for everything that training reads, before any work is done.

    Raises:
        DataError: a file of text or of word vectors is missing.
        MissingExtraError: TensorBoard is wanted and not installed.
    """
    try:
        for data in recipe.datasets.values():
            for part in PARTS:
                if getattr(data, part) is not None:
                    data.readers(part)
    except DataError as error:
        if before := lost(noted(recipe.output)):
            raise DataError(f"{error}; the run in {recipe.output} has learned from {before}: put it back") from None
        raise
    kind_of(recipe).require(recipe)
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
        # The system lets go of it when the process ends, however that happens.
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise RunError(
            f"{folder}: another process is training in it; wait for its end or choose another folder with --output"
        ) from None
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be a run folder ({error.strerror}); choose another one with --output"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _require_ours(folder: Path) -> None:
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / MANIFEST).exists():
        if any((folder / name).exists() for name in _TRAINED):
            raise RunError(
                f"{folder / MANIFEST}: is missing though something was trained here; restore it from a copy, or choose "
                "another folder with --output"
            )
        if not any((folder / name).exists() for name in _MADE):
            raise RunError(f"{folder}: is not empty and holds no run; choose another folder with --output")
    elif is_for_use(folder):
        raise RunError(
            f"{folder}: was made for use, by heedful quantize or heedful export, and holds nothing that training could "
            "go on from; train the run that it was made of, or begin another one from it (init)"
        )
    for inside in folder.rglob("*"):
        if inside.is_symlink() and inside.is_dir():
            raise RunError(
                f"{inside}: leads to {inside.resolve()}, where training would write and remove files; copy the run "
                "with what is behind its links (cp -rL), or let the folder of the run itself be the link"
            )


def open_or_create(recipe: Recipe, *, say: Callable[[str], None]) -> Run[Any, Any]:
    """The recipe's run: a new one with freshly learned vocabularies, or the one that is already there.

    Raises:
        RunError: the folder holds a run of another recipe, of which something was trained.
    """
    folder = recipe.output
    if not (folder / MANIFEST).exists():
        return _create(recipe, say=say)
    old = open_run(folder)
    recipe = taking_up_run(folder, recipe)
    alike = _asked(old.recipe) == _asked(recipe)
    run = open_run(folder, recipe) if alike else old
    moved = [
        f"{data_table(name)}.{key}."
        for name, data in (recipe.datasets.items() if alike else ())
        for part in ("train", "validation")
        if _same_text(run, name, part)
        for key in data.tables(part)
    ]
    before, after = dict(fixed(old.recipe)), dict(fixed(recipe))
    differing = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    if different := [key for key in differing if not key.startswith(tuple(moved))]:
        if not is_begun(folder):
            say(f"{folder}: nothing was trained with the earlier recipe; beginning again")
            for name in ("metrics.jsonl", MANIFEST):
                (folder / name).unlink(missing_ok=True)
            return _create(recipe, say=say)
        raise RunError(
            f"{folder}: holds a run whose recipe differs in {', '.join(different)}; choose another folder with "
            "--output, or remove this one"
        )
    if is_begun(folder):
        say("going on where this run was left")
    return run


def _asked(recipe: Recipe) -> tuple[str, Mapping[str, type]]:
    """What a folder's files are about: a recipe that asks for something else cannot be opened with them."""
    return recipe.task, {name: type(data) for name, data in recipe.datasets.items()}


def _create(recipe: Recipe, *, say: Callable[[str], None]) -> Run[Any, Any]:
    say("learning the vocabulary")
    with ExitStack() as place:
        if "" in recipe.datasets:  # where there are several, each tells its own
            place.enter_context(placed("data.train"))
        run = begin_run(recipe.output, recipe)
    for name, member in run.members.items():
        for shrunk in _shrunk(member):
            say(f"{f'{name}: ' if name else ''}{shrunk}")
    save_run(run, adapter=adapting(run))
    return run


def _shrunk(run: Run[Any, Any]) -> Iterator[str]:
    """Which vocabularies have fewer pieces than the recipe allows, because the text has no more."""
    config = getattr(run.recipe, "tokenizer", None)  # pictures have none
    wanted = config.size if isinstance(config, TokenizerConfig) else None
    sizes = {run.sizes[file] for file in run.kind.words}
    if wanted is not None and (found := sorted(size for size in sizes if size < wanted)):
        counts = " and ".join(f"{size:,}" for size in found)
        yield f"the training text has {counts} pieces, fewer than tokenizer.size = {wanted}: these are taken"


def open_corpus(run: Run[Any, Any], part: str, *, say: Callable[[str], None], name: str = "") -> Corpus:
    """One part of the data, encoded with the run's vocabularies into memory-mapped arrays.

    The part is train, validation or test; `name` is that of the task, where the run has several.
    """
    member = run.members[name]
    folder = member.folder / "data" / part
    mark = _mark(run, name, part)
    if folder.exists():
        try:
            return Corpus.open(folder, fingerprint=mark)
        except RunError as error:
            say(f"encoding again, {error}")
            shutil.rmtree(folder)  # it is only a cache
    with placed(f"{data_table(name)}.{part}"):
        return member.encode(part, folder, fingerprint=mark)


def _mark(run: Run[Any, Any], name: str, part: str) -> str:
    """What an encoded text depends on, which is not where its files lie."""
    data, member = run.recipe.datasets[name], run.members[name].recipe
    count = member.drawn(part)
    return fingerprint(
        (path for reader in data.readers(part).values() for path in reader.paths),
        *data.settings(part),
        data.model_dump_json(include=marked(type(data), Mark.ENCODES)),
        *(digest(run.folder / file) for file in run.vocabularies),
        *(() if count is None else (f"{count} by {member.seed}",)),
    )


def _same_text(run: Run[Any, Any], name: str, part: str) -> bool:
    """Whether a run, which may have been moved with its text, has encoded this very part of the data."""
    try:
        Corpus.open(run.members[name].folder / "data" / part, fingerprint=_mark(run, name, part))
    except RunError:
        return False
    return True
