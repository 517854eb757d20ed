"""From a folder to the run in it, and to the trained model as its users see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch

from heedful.artifacts.classification_run import ClassificationRun
from heedful.artifacts.device import find_device
from heedful.artifacts.files import digest, read_manifest, verify
from heedful.artifacts.hugging_face import HuggingFaceFolder, is_hugging_face, open_hugging_face
from heedful.artifacts.language_run import LanguageRun
from heedful.artifacts.multitask_run import MultitaskRun
from heedful.artifacts.pretraining_run import PretrainingRun
from heedful.artifacts.run import CONFIG, FORMAT
from heedful.artifacts.spans_run import SpansRun
from heedful.artifacts.tagging_run import TaggingRun
from heedful.artifacts.translation_run import SOURCE, TARGET, TranslationRun, translator
from heedful.configs.generation import ContinuationConfig, GenerationConfig
from heedful.configs.run import Recipe, stored_recipe, taking_up
from heedful.errors import RecipeError, RunError
from heedful.tasks.embedder import Embedder, Embeds
from heedful.tasks.heads import Heads
from heedful.tasks.translator import Translator
from heedful.tasks.writer import Writer

AnyRun = TranslationRun | LanguageRun | PretrainingRun | TaggingRun | ClassificationRun | SpansRun | MultitaskRun
RUNS: Final[Mapping[str, type[AnyRun]]] = {
    "translation": TranslationRun,
    "language_modelling": LanguageRun,
    "pretraining": PretrainingRun,
    "tagging": TaggingRun,
    "classification": ClassificationRun,
    "spans": SpansRun,
    "multitask": MultitaskRun,
}
"""What each task makes of a folder."""

User = TypeVar("User")
Opened = TypeVar(
    "Opened", TranslationRun, LanguageRun, PretrainingRun, TaggingRun, ClassificationRun, SpansRun, MultitaskRun
)


def begin_run(folder: Path, recipe: Recipe) -> AnyRun:
    """A new run with freshly learned vocabularies; nothing is written."""
    run: AnyRun = RUNS[recipe.task].begin(folder, recipe)  # type: ignore[arg-type]  # each takes its task's recipe
    return run


def open_run(folder: Path, recipe: Recipe | None = None) -> AnyRun:
    """A run that exists.

    Args:
        folder: where.
        recipe: what to believe instead of the recipe in the folder, as where a later sitting changed its limits.

    Raises:
        RunError: it is missing, damaged, or of another version.
    """
    if is_hugging_face(folder):
        raise RunError(
            f"{folder}: is a model of Hugging Face and no run, so it has no recipe to train or to measure by; train "
            f'from it with init = "{folder}" in a recipe, or use it as it is'
        )
    manifest = read_manifest(folder)
    verify(folder, CONFIG, manifest=manifest)
    for name in sorted(name for name in manifest.files if name.startswith(("tokenizer/", "tasks/"))):
        verify(folder, name, manifest=manifest)
    recipe = recipe or _recipe(folder / CONFIG)
    run: AnyRun = RUNS[recipe.task].open(folder, recipe)  # type: ignore[arg-type]  # each takes its task's recipe
    return run


def open_task(kind: type[Opened], folder: Path) -> Opened:
    """A run of one kind that exists; see `open_run`.

    Raises:
        RunError: its task is another one.
    """
    run = open_run(folder)
    if not isinstance(run, kind):
        wanted = next(task for task, known in RUNS.items() if known is kind)
        raise _other_task(run, wanted)
    return run


def load(*folders: str | Path, device: str | torch.device | None = None, step: int | None = None) -> Any:
    """The trained model of a run: a `Translator`, a `Writer`, a `Reader`, a `Tagger` ..., as its task is.

    Where it has several tasks it is `Heads`, and `head("NAME")` gives what one of them is for.
    A folder of Hugging Face (BERT, GPT-2, Marian, BART) works like a run; a BERT without a head is an `Embedder`.

    Args:
        folders: run folders, or one; several translation runs with the same vocabulary translate together.
        device: where to compute; a GPU where there is one.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.

    Raises:
        RunError: a folder is missing, damaged, not trained yet, or the runs cannot work together.

    >>> import heedful
    >>> model = heedful.load("runs/multi30k-en-de")  # doctest: +SKIP
    >>> model.translate(["A dog runs."])[0].text  # doctest: +SKIP
    'Ein Hund rennt.'
    """
    if (foreign := _foreign(folders)) is not None:
        return foreign.user(device=find_device(device), step=step)
    first = _opened(folders)[0]
    if isinstance(first, TranslationRun):
        return load_translator(*folders, device=device, step=step)
    if len(folders) > 1:
        raise RunError(f"{first.folder}: its task is {first.recipe.task}, and only translation runs work together")
    return first.user(device=find_device(device), step=step)


def load_as(
    kind: type[User], folder: Path, *, use: str, task: str | None = None, device: str | torch.device | None = None
) -> User:
    """`load`, where only models of one kind will do.

    Args:
        kind: class or protocol of what is wanted.
        folder: of the run.
        use: what it does, in words.
        task: which task of a run that has several; the one of the kind unless given.
        device: where to compute; a GPU where there is one.

    Raises:
        RunError: the model is of another kind, has no such task, or has several of the kind and none is named.
    """
    user = load(folder, device=device)
    if isinstance(user, Heads):
        return user.only(kind, use=use, name=task)
    if task is not None:
        raise RunError(f"{folder}: has one task, which has no name; leave --task {task} away")
    if isinstance(user, Embedder) and not isinstance(user, kind) and is_hugging_face(folder):
        raise RunError(
            f"{folder}: is an encoder without the head of pre-training, and none that {use}; it makes vectors (heedful "
            "embed), and a recipe may begin from it (init)"
        )
    if not isinstance(user, kind):
        found = type(user).__name__.lower()
        article = "an" if found[0] in "aeiou" else "a"
        raise RunError(f"{folder}: is {article} {found} and none that {use}; name another model")
    return user


def load_embedder(folder: Path, *, task: str | None = None, device: str | torch.device | None = None) -> Embeds:
    """`load_as`, where a model must make vectors of texts; `RunError` where it makes none."""
    use = "makes vectors of texts"
    return load_as(Embeds, folder, use=use, task=task, device=device)  # type: ignore[type-abstract]  # protocol


def load_translator(
    *folders: str | Path, device: str | torch.device | None = None, step: int | None = None
) -> Translator:
    """The trained model of a translation run, or of several that translate together; see `load`."""
    if (foreign := _foreign(folders)) is not None:
        user = _of_task(foreign, "translation").user(device=find_device(device), step=step)
        assert isinstance(user, Translator)
        return user
    runs = [_translation(run) for run in _opened(folders)]
    first = runs[0]
    for other in runs[1:]:
        if any(digest(other.folder / n) != digest(first.folder / n) for n in (SOURCE, TARGET)):
            raise RunError(
                f"{other.folder}: has another vocabulary than {first.folder}; an ensemble needs the same one"
            )
    return translator(runs, device=find_device(device), step=step)


def translation_search(folder: Path) -> GenerationConfig:
    """How a model that translates searches unless told otherwise; `RunError` where there is none."""
    if (foreign := _foreign((folder,))) is not None:
        return _of_task(foreign, "translation").generation
    return open_translation(folder).recipe.generation


def load_writer(folder: Path, *, device: str | torch.device | None = None) -> tuple[Writer, ContinuationConfig]:
    """A language model as its users see it, and how it writes unless told otherwise; see `load`."""
    if (foreign := _foreign((folder,))) is not None:
        user = _of_task(foreign, "language_modelling").user(device=find_device(device))
        assert isinstance(user, Writer)
        return user, foreign.continuation
    run = open_task(LanguageRun, folder)
    return run.user(device=find_device(device)), run.recipe.generation


def open_translation(folder: Path, recipe: Recipe | None = None) -> TranslationRun:
    """A translation run that exists; see `open_run`."""
    return _translation(open_run(folder, recipe))


def _translation(run: AnyRun) -> TranslationRun:
    if not isinstance(run, TranslationRun):
        raise _other_task(run, "translation")
    return run


def _foreign(folders: tuple[str | Path, ...]) -> HuggingFaceFolder | None:
    """The model of Hugging Face, if that is what the folder holds."""
    found = [Path(folder) for folder in folders if is_hugging_face(Path(folder))]
    if found and len(folders) > 1:
        raise RunError(f"{found[0]}: is a model of Hugging Face, and only runs of heedful work together")
    return open_hugging_face(found[0]) if found else None


def _of_task(foreign: HuggingFaceFolder, wanted: str) -> HuggingFaceFolder:
    if foreign.task != wanted:
        raise RunError(f"{foreign.folder}: is a {foreign.family.name}, where a model for {wanted} is needed")
    return foreign


def _opened(folders: tuple[str | Path, ...]) -> list[AnyRun]:
    if not folders:
        raise RunError("no run folder was given; name at least one")
    return [open_run(Path(folder)) for folder in folders]


def _other_task(run: AnyRun, wanted: str) -> RunError:
    return RunError(f"{run.folder}: its task is {run.recipe.task} where {wanted} is needed; name a run of that task")


def taking_up_run(folder: Path, recipe: Recipe) -> Recipe:
    """A recipe as it goes on with the run in a folder, which may be older than some of its keys."""
    return taking_up(recipe, _stored(folder / CONFIG)) if read_manifest(folder).last is not None else recipe


def _recipe(path: Path) -> Recipe:
    table = _stored(path)
    try:
        return stored_recipe(table, place=str(path))
    except RecipeError as error:
        raise RunError(f"{path}: holds a recipe that this version of heedful cannot read: {error}") from None


def _stored(path: Path) -> Mapping[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version, table = content["format"], content["recipe"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RunError(f"{path}: holds no recipe; restore it from a copy or train again") from None
    if version != FORMAT:
        raise RunError(
            f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
        )
    if not isinstance(table, dict):
        raise RunError(f"{path}: holds no recipe; restore it from a copy or train again")
    return table
