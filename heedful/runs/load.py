"""From a folder to the run in it, and to the trained model as its users see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, overload

import torch
from torch import nn

from heedful.engines.arrange import arranged
from heedful.errors import RecipeError, RunError
from heedful.files import read_json
from heedful.foreign.folders import is_hugging_face
from heedful.given_texts import require_path
from heedful.models.initialisation import unfilled
from heedful.recipes.load import stored_recipe, taking_up
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.adapted import FILE as ADAPTER
from heedful.runs.adapted import AdapterFile, model_of, whole_weights
from heedful.runs.checkpoints import is_weights
from heedful.runs.device import find_device
from heedful.runs.worn import open_adapter, wear, wear_foreign
from heedful.store import MANIFEST, Manifest, digest, read_manifest, verify, write_json, write_manifest
from heedful.tasks.embedder import Embedder, Embeds
from heedful.tasks.heads import Heads
from heedful.tasks.kind import Run, kind_of

FORMAT: Final = 1
CONFIG: Final = "config.json"

User = TypeVar("User")


def save_run(run: Run[Any, Any], *, adapter: AdapterFile | None = None) -> None:
    """Writes what does not change while a run is trained; its manifest comes last and makes it a run.

    Args:
        run: new, or another one in another folder.
        adapter: what its weights will belong to, where they are an adapter's alone.
    """
    files = {}
    for name, vocabulary in run.vocabularies.items():
        (run.folder / name).parent.mkdir(parents=True, exist_ok=True)
        vocabulary.save(run.folder / name)
        files[name] = digest(run.folder / name)
    content = {"format": FORMAT, "recipe": run.recipe.model_dump(mode="json", exclude_none=True)}
    write_json(run.folder / CONFIG, content)
    files[CONFIG] = digest(run.folder / CONFIG)
    if adapter is not None:
        write_json(run.folder / ADAPTER, adapter.model_dump(mode="json"))
        files[ADAPTER] = digest(run.folder / ADAPTER)
    write_manifest(run.folder, Manifest(files=files))


def open_run(folder: Path, recipe: Recipe | None = None) -> Run[Any, Any]:
    """A run that exists; a `recipe` counts instead of that in the folder, as where a later sitting changed its limits.

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
    for name in sorted(name for name in manifest.files if not is_weights(name)):
        verify(folder, name, manifest=manifest)
    if recipe is None:
        recipe = _recipe_in(folder / CONFIG)
    return Run(folder, recipe, kind_of(recipe).load(recipe, folder))


def recipe_of_run(folder: Path) -> Recipe:
    """Return the recipe of a run alone, which takes no time; its vocabularies and weights are not looked at.

    Raises:
        RunError: the folder is missing, damaged, or of another version.
    """
    verify(folder, CONFIG, manifest=read_manifest(folder))
    return _recipe_in(folder / CONFIG)


def _recipe_in(path: Path) -> Recipe:
    """Return the recipe in the file of a run."""
    table = _stored(path)
    try:
        return stored_recipe(table, place=str(path))
    except RecipeError as error:
        raise RunError(f"{path}: holds a recipe that this version of heedful cannot read: {error}") from None


def is_begun(folder: Path) -> bool:
    """Whether anything was trained in a folder."""
    return (folder / MANIFEST).exists() and read_manifest(folder).last is not None


def engine_of(recipe: Recipe, device: torch.device) -> EngineName | None:
    """The engine that a recipe names for CPUs; None where it names none, or the device is another one."""
    return recipe.engine if device.type == "cpu" else None


def trained(
    run: Run[Any, Any],
    *,
    device: torch.device,
    step: int | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: Path | None = None,
) -> nn.Module:
    """A run's model with its trained weights, arranged for use by the engine that is named, or that its recipe names;
    `load` says what is given.

    Raises:
        RecipeError: the engine does not compute on the device.
        RunError: there are no weights yet, or a file is damaged.
    """
    found = whole_weights(run.folder, step=step)
    engine = engine or engine_of(run.recipe, device)
    with unfilled():
        model = model_of(run)
    if adapter is not None:
        engine = engine or ("int8" if found.rounded and device.type == "cpu" else None)
        found = wear(run, found, open_adapter(adapter, run.recipe.model), model=model, say=say)
    return arranged(model, found.exact, found.rounded, place=str(found.place), device=device, engine=engine, say=say)


@overload
def load(
    *folders: str | Path,
    task: str | None = None,
    device: str | torch.device | None = None,
    step: int | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> Any: ...


@overload
def load(
    *folders: str | Path,
    kind: type[User],
    task: str | None = None,
    device: str | torch.device | None = None,
    step: int | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> User: ...


def load(
    *folders: str | Path,
    kind: type[Any] | None = None,
    task: str | None = None,
    device: str | torch.device | None = None,
    step: int | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> Any:
    """The trained model of a run: a `Translator`, a `Writer`, a `Reader`, a `Tagger` ..., as its task is.

    With `kind` it is certainly that, for type checkers too: `heedful.load(run, kind=heedful.Translator)`.

    Where it has several tasks it is `Heads`, and `head("NAME")` gives what one of them is for, as `task` and `kind` do.
    A folder of Hugging Face (BERT, RoBERTa-PreLayerNorm, ELECTRA, GPT-2, GPT-NeoX, Marian, BART) works like a run; a
    fine-tuned encoder is a `Classifier`, a `Tagger` or an `Answerer`, one without a head an `Embedder`.

    Args:
        folders: run folders, or one; several translation runs with the same vocabulary translate together.
        kind: class of what is wanted; of a run with several tasks the one task of that kind.
        task: which task of a run that has several.
        device: where to compute; a GPU where there is one.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.
        engine: what computes: "torch" in floating point, as it was trained; "int8" with large matrices of bytes, on a
            CPU; "native", these in native code; "auto", what is faster here. Unless given, that of the recipe on a CPU,
            else that of the weights: "int8" of a folder that `heedful.quantize` made, else "torch".
        say: is told what "auto" took and why, and what of an adapter is doubtful.
        adapter: what is put on the model: a run that was trained with training.adapter and whose base is of this shape
            and vocabulary, or a folder of PEFT with LoRA. A run with an adapter of its own finds its base by itself.

    Raises:
        RecipeError: there is no such device or engine, or the engine does not compute there.
        RunError: a folder is missing, damaged, not trained yet, the runs cannot work together, or what they hold is
            not what is wanted; the message says what it is.

    >>> import heedful
    >>> model = heedful.load("runs/multi30k-en-de", kind=heedful.Translator)  # doctest: +SKIP
    >>> model.translate(["A dog runs."])[0].text  # doctest: +SKIP
    'Ein Hund rennt.'
    """
    for place, folder in enumerate(folders):
        require_path(folder, name=f"folders[{place}]")
    how = {"device": find_device(device), "engine": engine, "say": say}
    worn = None if adapter is None else Path(adapter)
    user = _load(*map(Path, folders), step=step, adapter=worn, how=how)
    return user if kind is None and task is None else _wanted(user, Path(folders[0]), kind or object, task)


def _load(*folders: Path, step: int | None, adapter: Path | None, how: Mapping[str, Any]) -> Any:
    if adapter is not None and len(folders) > 1:
        raise RunError(f"{adapter}: an adapter is put on one model, and {len(folders)} are named; name one run")
    if foreign := [folder for folder in folders if is_hugging_face(folder)]:
        if len(folders) > 1:
            raise RunError(f"{foreign[0]}: is a model of Hugging Face, and only runs of heedful work together")
        from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do

        adapted = None if adapter is None else partial(wear_foreign, adapter)
        return open_hugging_face(foreign[0]).user(step=step, adapted=adapted, **how)
    if not folders:
        raise RunError("no run folder was given; name at least one")
    first, *others = runs = [open_run(folder) for folder in folders]
    for other in others:
        require_task(other, first.recipe.task)
    models = [trained(run, step=step, adapter=adapter, **how) for run in runs]
    return first.kind.together(runs, models) if others else first.kind.face(first, models[0], step=step)


def _wanted(user: Any, folder: Path, kind: type[Any], task: str | None) -> Any:
    """What was loaded, or what it has for a task, if that is of a kind."""
    if not isinstance(user, Heads):
        if task is not None:
            raise RunError(f"{folder}: has one task, which has no name; leave task={task!r} away")
        return user if isinstance(user, kind) else _complain(user, folder, kind, "kind")
    if task is not None:
        face = user.head(task)
        return face if isinstance(face, kind) else _complain(face, folder, kind, f"task={task!r}, kind", of=task)
    if isinstance(user, kind):
        return user
    found = [name for name in user.names if isinstance(user.head(name), kind)]
    if len(found) == 1:
        return user.head(found[0])
    all_are = ", ".join(f"{name} ({type(user.head(name)).__name__})" for name in user.names)
    number = "several are" if found else "none is"
    remedy = "choose one with task=..." if found else "ask for one of those"
    raise RunError(f"{folder}: has several tasks, {all_are}, of which {number} of kind {kind.__name__}; {remedy}")


def _complain(user: object, folder: Path, kind: type[Any], given: str, *, of: str = "") -> NoReturn:
    found = type(user)
    ours = "heedful." if found.__module__.startswith("heedful.") else ""
    subject = f"{folder}: {of}" if of else f"{folder}:"
    raise RunError(
        f"{subject} is {_article(found.__name__)} {found.__name__} and no {kind.__name__}; load it with "
        f"{given}={ours}{found.__name__}"
    )


def _article(name: str) -> str:
    return "an" if name[0].lower() in "aeiou" else "a"


def load_as(
    kind: type[User],
    *folders: str | Path,
    use: str,
    task: str | None = None,
    **how: Any,
) -> User:
    """`load`, where only models of one kind will do.

    Args:
        kind: class or protocol of what is wanted.
        folders: of the run, or of several that work together.
        use: what it does, in words.
        task: which task of a run that has several; the one of the kind unless given.
        how: the other arguments of `load`.

    Raises:
        RunError: the model is of another kind, has no such task, or has several of the kind and none is named.
    """
    user = load(*folders, **how)
    folder = Path(folders[0]) if folders else Path()
    if isinstance(user, Heads):
        return user.only(kind, use=use, name=task)
    if task is not None:
        raise RunError(f"{folder}: has one task, which has no name; leave --task {task} away")
    if isinstance(user, Embedder) and not isinstance(user, kind) and is_hugging_face(folder):
        raise RunError(
            f"{folder}: its config.json names no architecture with a head that heedful reads, so it is an encoder and "
            f"none that {use}; it makes vectors (heedful embed), and a recipe may begin from it (init)"
        )
    if not isinstance(user, kind):
        found = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(user).__name__).lower()
        raise RunError(f"{folder}: is {_article(found)} {found} and none that {use}; name another model")
    return user


def load_embedder(folder: Path, *, task: str | None = None, **how: Any) -> Embeds:
    """`load_as`, where a model must make vectors of texts; `RunError` where it makes none."""
    use = "makes vectors of texts"
    return load_as(Embeds, folder, use=use, task=task, **how)  # type: ignore[type-abstract]  # protocol


def require_task(run: Run[Any, Any], wanted: str) -> None:
    """`RunError` where the task of a run is another one."""
    if run.recipe.task != wanted:
        raise RunError(f"{run.folder}: its task is {run.recipe.task} where {wanted} is needed; name a run of that task")


def taking_up_run(folder: Path, recipe: Recipe) -> Recipe:
    """A recipe as it goes on with the run in a folder, which may be older than some of its keys."""
    return taking_up(recipe, _stored(folder / CONFIG), begun=is_begun(folder))


def _stored(path: Path) -> Mapping[str, Any]:
    try:
        content: dict[str, Any] = read_json(path)
        version, table = content["format"], content["recipe"]
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: holds no recipe; restore it from a copy or train again") from None
    if version != FORMAT:
        raise RunError(
            f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
        )
    if not isinstance(table, dict):
        raise RunError(f"{path}: holds no recipe; restore it from a copy or train again")
    return table
