"""From a folder to the run in it, and to the trained model as its users see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, overload

import torch
from torch import nn

from heedful.argument_checks import require_path
from heedful.atomic_io import (
    MANIFEST,
    RunManifest,
    compute_digest,
    read_manifest,
    verify_file,
    write_json,
    write_manifest,
)
from heedful.engines.select_engine import prepare_for_inference
from heedful.errors import RecipeError, RunError
from heedful.files import read_json
from heedful.foreign.folders import is_hugging_face_folder
from heedful.models.initialisation import skip_initialization
from heedful.recipes.load import build_stored_recipe, resume_recipe
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.adapter_runs import ADAPTER_FILE as ADAPTER
from heedful.runs.adapter_runs import AdapterFile, build_uninitialized_model, load_full_weights
from heedful.runs.checkpoints import is_weights_file
from heedful.runs.device import find_device
from heedful.runs.external_adapter import apply_adapter, apply_adapter_to_hf, open_adapter
from heedful.tasks.embedder import Embedder, TextEmbedder
from heedful.tasks.multi_head_predictor import MultiHeadPredictor
from heedful.tasks.task import Run, get_task

FORMAT: Final = 1
CONFIG: Final = "config.json"

PredictorT = TypeVar("PredictorT")


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
        files[name] = compute_digest(run.folder / name)
    content = {"format": FORMAT, "recipe": run.recipe.model_dump(mode="json", exclude_none=True)}
    write_json(run.folder / CONFIG, content)
    files[CONFIG] = compute_digest(run.folder / CONFIG)
    if adapter is not None:
        write_json(run.folder / ADAPTER, adapter.model_dump(mode="json"))
        files[ADAPTER] = compute_digest(run.folder / ADAPTER)
    write_manifest(run.folder, RunManifest(files=files))


def open_run(folder: Path, recipe: Recipe | None = None) -> Run[Any, Any]:
    """A run that exists; a `recipe` counts instead of that in the folder, as where a later sitting changed its limits.

    Raises:
        RunError: it is missing, damaged, or of another version.
    """
    if is_hugging_face_folder(folder):
        raise RunError(
            f"{folder}: is a model of Hugging Face and no run, so it has no recipe to train or to measure by; train "
            f'from it with init = "{folder}" in a recipe, or use it as it is'
        )
    manifest = read_manifest(folder)
    verify_file(folder, CONFIG, manifest=manifest)
    for name in sorted(name for name in manifest.files if not is_weights_file(name)):
        verify_file(folder, name, manifest=manifest)
    if recipe is None:
        recipe = _read_recipe(folder / CONFIG)
    return Run(folder, recipe, get_task(recipe).load_vocabularies(recipe, folder))


def read_run_recipe(folder: Path) -> Recipe:
    """Return the recipe of a run alone, which takes no time; its vocabularies and weights are not looked at.

    Raises:
        RunError: the folder is missing, damaged, or of another version.
    """
    verify_file(folder, CONFIG, manifest=read_manifest(folder))
    return _read_recipe(folder / CONFIG)


def _read_recipe(path: Path) -> Recipe:
    """Return the recipe in the file of a run."""
    table = _read_stored_recipe(path)
    try:
        return build_stored_recipe(table, source=str(path))
    except RecipeError as error:
        raise RunError(f"{path}: holds a recipe that this version of heedful cannot read: {error}") from None


def has_checkpoint(folder: Path) -> bool:
    """Whether anything was trained in a folder."""
    return (folder / MANIFEST).exists() and read_manifest(folder).last is not None


def get_engine(recipe: Recipe, device: torch.device) -> EngineName | None:
    """The engine that a recipe names for CPUs; None where it names none, or the device is another one."""
    return recipe.engine if device.type == "cpu" else None


def load_trained_model(
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
    weights = load_full_weights(run.folder, step=step)
    engine = engine or get_engine(run.recipe, device)
    with skip_initialization():
        model = build_uninitialized_model(run)
    if adapter is not None:
        engine = engine or ("int8" if weights.quantized and device.type == "cpu" else None)
        weights = apply_adapter(run, weights, open_adapter(adapter, run.recipe.model), model=model, log=say)
    return prepare_for_inference(
        model, weights.tensors, weights.quantized, origin=str(weights.path), device=device, engine=engine, log=say
    )


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
    kind: type[PredictorT],
    task: str | None = None,
    device: str | torch.device | None = None,
    step: int | None = None,
    engine: EngineName | None = None,
    say: Callable[[str], None] | None = None,
    adapter: str | Path | None = None,
) -> PredictorT: ...


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
    """The trained model of a run: a `Translator`, a `TextGenerator`, a `Reader`, a `Tagger` ..., as its task is.

    With `kind` it is certainly that, for type checkers too: `heedful.load(run, kind=heedful.Translator)`.

    Where it has several tasks it is `MultiHeadPredictor`, and `head("NAME")` gives what one of them is for, as `task` and `kind` do.
    A folder of Hugging Face (BERT, RoBERTa-PreLayerNorm, ELECTRA, GPT-2, GPT-NeoX, Marian, BART) works like a run; a
    fine-tuned encoder is a `Classifier`, a `Tagger` or an `QuestionAnsweringPredictor`, one without a head an `Embedder`.

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
    user = _load_predictor(*map(Path, folders), step=step, adapter=worn, load_kwargs=how)
    return user if kind is None and task is None else _select_predictor(user, Path(folders[0]), kind or object, task)


def _load_predictor(*folders: Path, step: int | None, adapter: Path | None, load_kwargs: Mapping[str, Any]) -> Any:
    if adapter is not None and len(folders) > 1:
        raise RunError(f"{adapter}: an adapter is put on one model, and {len(folders)} are named; name one run")
    if hf_folders := [folder for folder in folders if is_hugging_face_folder(folder)]:
        if len(folders) > 1:
            raise RunError(f"{hf_folders[0]}: is a model of Hugging Face, and only runs of heedful work together")
        from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do

        attach_adapter = None if adapter is None else partial(apply_adapter_to_hf, adapter)
        device, engine, log = (load_kwargs[name] for name in ("device", "engine", "say"))
        return open_hugging_face(hf_folders[0]).build_predictor(
            step=step, adapt=attach_adapter, device=device, engine=engine, log=log
        )
    if not folders:
        raise RunError("no run folder was given; name at least one")
    first, *others = runs = [open_run(folder) for folder in folders]
    for other in others:
        require_task(other, first.recipe.task)
    models = [load_trained_model(run, step=step, adapter=adapter, **load_kwargs) for run in runs]
    return (
        first.task.build_ensemble(runs, models) if others else first.task.build_predictor(first, models[0], step=step)
    )


def _select_predictor(predictor: Any, folder: Path, kind: type[Any], task: str | None) -> Any:
    """What was loaded, or what it has for a task, if that is of a kind."""
    if not isinstance(predictor, MultiHeadPredictor):
        if task is not None:
            raise RunError(f"{folder}: has one task, which has no name; leave task={task!r} away")
        return predictor if isinstance(predictor, kind) else _raise_wrong_kind(predictor, folder, kind, "kind")
    if task is not None:
        head = predictor.head(task)
        return (
            head if isinstance(head, kind) else _raise_wrong_kind(head, folder, kind, f"task={task!r}, kind", task=task)
        )
    if isinstance(predictor, kind):
        return predictor
    matching = [name for name in predictor.names if isinstance(predictor.head(name), kind)]
    if len(matching) == 1:
        return predictor.head(matching[0])
    all_heads = ", ".join(f"{name} ({type(predictor.head(name)).__name__})" for name in predictor.names)
    number = "several are" if matching else "none is"
    remedy = "choose one with task=..." if matching else "ask for one of those"
    raise RunError(f"{folder}: has several tasks, {all_heads}, of which {number} of kind {kind.__name__}; {remedy}")


def _raise_wrong_kind(predictor: object, folder: Path, kind: type[Any], argument: str, *, task: str = "") -> NoReturn:
    actual = type(predictor)
    module_prefix = "heedful." if actual.__module__.startswith("heedful.") else ""
    subject = f"{folder}: {task}" if task else f"{folder}:"
    raise RunError(
        f"{subject} is {_choose_article(actual.__name__)} {actual.__name__} and no {kind.__name__}; load it with "
        f"{argument}={module_prefix}{actual.__name__}"
    )


def _choose_article(name: str) -> str:
    return "an" if name[0].lower() in "aeiou" else "a"


def load_predictor(
    predictor_type: type[PredictorT],
    *folders: str | Path,
    use: str,
    task: str | None = None,
    **load_kwargs: Any,
) -> PredictorT:
    """`load`, where only models of one kind will do.

    Args:
        predictor_type: class or protocol of what is wanted.
        folders: of the run, or of several that work together.
        use: what it does, in words.
        task: which task of a run that has several; the one of the kind unless given.
        load_kwargs: the other arguments of `load`.

    Raises:
        RunError: the model is of another kind, has no such task, or has several of the kind and none is named.
    """
    predictor = load(*folders, **load_kwargs)
    folder = Path(folders[0]) if folders else Path()
    if isinstance(predictor, MultiHeadPredictor):
        return predictor.find_head(predictor_type, purpose=use, name=task)
    if task is not None:
        raise RunError(f"{folder}: has one task, which has no name; leave --task {task} away")
    if isinstance(predictor, Embedder) and not isinstance(predictor, predictor_type) and is_hugging_face_folder(folder):
        raise RunError(
            f"{folder}: its config.json names no architecture with a head that heedful reads, so it is an encoder and "
            f"none that {use}; it makes vectors (heedful embed), and a recipe may begin from it (init)"
        )
    if not isinstance(predictor, predictor_type):
        actual_name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(predictor).__name__).lower()
        raise RunError(
            f"{folder}: is {_choose_article(actual_name)} {actual_name} and none that {use}; name another model"
        )
    return predictor


def load_embedder(folder: Path, *, task: str | None = None, **load_kwargs: Any) -> TextEmbedder:
    """`load_predictor`, where a model must make vectors of texts; `RunError` where it makes none."""
    use = "makes vectors of texts"
    return load_predictor(TextEmbedder, folder, use=use, task=task, **load_kwargs)  # type: ignore[type-abstract]  # protocol


def require_task(run: Run[Any, Any], task: str) -> None:
    """`RunError` where the task of a run is another one."""
    if run.recipe.task != task:
        raise RunError(f"{run.folder}: its task is {run.recipe.task} where {task} is needed; name a run of that task")


def resume_run_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """A recipe as it goes on with the run in a folder, which may be older than some of its keys."""
    return resume_recipe(recipe, _read_stored_recipe(folder / CONFIG), has_checkpoint=has_checkpoint(folder))


def _read_stored_recipe(path: Path) -> Mapping[str, Any]:
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
