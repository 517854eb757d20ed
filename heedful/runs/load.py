"""Run folders: writing and opening them, loading their trained models, and copies for inference only."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, overload

import torch
from torch import Tensor, nn

from heedful.argument_checks import require_path
from heedful.atomic_io import (
    MANIFEST,
    MODEL_FILE,
    RunManifest,
    atomic_folder,
    compute_digest,
    read_manifest,
    save_tensors,
    verify_file,
    write_json,
    write_manifest,
)
from heedful.engines.select_engine import get_default_engine, prepare_for_inference
from heedful.english_words import add_article
from heedful.errors import RecipeError, RunError
from heedful.files import read_json, walk_folder
from heedful.foreign.folders import is_hugging_face_folder
from heedful.models.parameters import skip_initialization
from heedful.recipes.load import build_stored_recipe, resume_recipe
from heedful.recipes.recipe import EngineName, Recipe
from heedful.runs.adapter_runs import (
    ADAPTER_FILE,
    AdapterFile,
    apply_adapter,
    apply_adapter_to_hf,
    build_uninitialized_model,
    load_full_weights,
    open_adapter,
)
from heedful.runs.checkpoints import METRICS_FILE, get_best_step, is_weights_file
from heedful.runs.device import find_device
from heedful.runs.kept_models import load_once
from heedful.tasks.embedder import Embedder, TextEmbedder
from heedful.tasks.predictor import MultiHeadPredictor
from heedful.tasks.task import Run, get_task

FORMAT: Final = 1
CONFIG: Final = "config.json"
_COPIED_FILES: Final = re.compile(rf"{re.escape(METRICS_FILE)}|[^/]*\.json|tasks/[^/]*/[^/]*\.json")
"""Files besides weights that are copied: the learning curve and findings of the task about the final model."""

PredictorT = TypeVar("PredictorT")


def save_run(run: Run[Any, Any], *, adapter: AdapterFile | None = None) -> None:
    """Write the parts of a run that do not change while it is trained, with the description of its adapter if it has
    one; the manifest is written last and makes the folder a run.

    Args:
        run: a new run, or an existing one with another folder.
        adapter: description of its adapter, if its weights are only those of an adapter.
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
        write_json(run.folder / ADAPTER_FILE, adapter.model_dump(mode="json"))
        files[ADAPTER_FILE] = compute_digest(run.folder / ADAPTER_FILE)
    write_manifest(run.folder, RunManifest(files=files))


def save_inference_copy(
    run: Run[Any, Any], tensors: Mapping[str, Tensor], folder: Path, *, use: str, step: int | None, recipe: Recipe
) -> None:
    """Write a copy of a trained run for inference only to `folder`, with the given tensors, those of its checkpoint
    `step`, and the given recipe. `use` names the purpose in errors.

    Args:
        run: the trained run.
        tensors: tensors of its model, at `step`.
        folder: the folder to write; new or empty.
        use: purpose of the folder for error messages, as `atomic_folder` expects it.
        step: a kept checkpoint; None for the finished or the best model.
        recipe: the recipe to write.

    Raises:
        RunError: `folder` is not empty or cannot be written.
    """
    old_manifest = read_manifest(run.folder)
    with atomic_folder(folder, purpose=use) as partial:
        save_run(replace(run, folder=partial, recipe=recipe))
        saved = save_tensors(partial / MODEL_FILE, tensors)
        for path in walk_folder(run.folder):
            name = path.relative_to(run.folder).as_posix()
            if _COPIED_FILES.fullmatch(name) and path.name not in (MANIFEST, CONFIG, ADAPTER_FILE):
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, partial / name)
        copied_digests = {name: entry for name, entry in old_manifest.files.items() if (partial / name).is_file()}
        final_step = get_best_step(run.folder, old_manifest) if step is None else step
        manifest = read_manifest(partial).with_file(MODEL_FILE, saved)
        copied = {name: digest_ for name, digest_ in copied_digests.items() if name not in manifest.files}
        manifest = replace(
            manifest,
            files={**copied, **manifest.files},
            last=final_step,
            best=final_step,
            finished=old_manifest.finished,
        )
        write_manifest(partial, manifest)


def open_run(folder: Path, recipe: Recipe | None = None) -> Run[Any, Any]:
    """Open an existing run; `recipe` replaces the recipe in the folder, for instance when a resumed run has other
    limits.

    Raises:
        RunError: the run is missing, damaged, or of another version.
    """
    if is_hugging_face_folder(folder):
        raise RunError(
            f"{folder}: is a Hugging Face model and not a run, so it has no recipe for training or "
            f'evaluation; train from it with init = "{folder}" in a recipe, or use it unchanged'
        )
    manifest = read_manifest(folder)
    verify_file(folder, CONFIG, manifest=manifest)
    for name in sorted(name for name in manifest.files if not is_weights_file(name)):
        verify_file(folder, name, manifest=manifest)
    if recipe is None:
        recipe = _read_recipe(folder / CONFIG, manifest.files[CONFIG])
    return Run(folder, recipe, get_task(recipe).load_vocabularies(recipe, folder))


def read_run_recipe(folder: Path) -> Recipe:
    """Read only the recipe of a run, which is fast; vocabularies and weights are not opened.

    Raises:
        RunError: the folder is missing, damaged, or of another version.
    """
    manifest = read_manifest(folder)
    verify_file(folder, CONFIG, manifest=manifest)
    return _read_recipe(folder / CONFIG, manifest.files[CONFIG])


@lru_cache(maxsize=16)
def _read_recipe(path: Path, digest: str) -> Recipe:  # noqa: ARG001 - of another file the cached recipe is not valid
    """Read the recipe from the config file of a run; raise `RunError` if this version cannot read it. `digest` is the
    file's sha256: the result is cached for each path and digest.
    """
    table = _read_stored_recipe(path)
    try:
        return build_stored_recipe(table, source=str(path))
    except RecipeError as error:
        raise RunError(f"{path}: contains a recipe that this version of heedful cannot read: {error}") from None


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a run with at least one checkpoint."""
    return (folder / MANIFEST).exists() and read_manifest(folder).last is not None


def get_engine(recipe: Recipe, device: torch.device) -> EngineName | None:
    """Return the engine that a recipe names for CPUs; None on other devices or if the recipe names none."""
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
    """Load the model of a run with its trained weights, prepared for the given engine or the one that its recipe names.
    `step` selects a kept checkpoint and `adapter` the folder of an adapter to attach; see `load`.

    Raises:
        RecipeError: the engine does not support the device.
        RunError: there are no weights yet, or a file is damaged.
    """
    weights = load_full_weights(run.folder, step=step)
    engine = engine or get_engine(run.recipe, device)
    with skip_initialization():
        model = build_uninitialized_model(run)
    if adapter is not None:
        engine = engine or get_default_engine(model, stores_int8=bool(weights.quantized), device=device)
        weights = apply_adapter(run, weights, open_adapter(adapter, run.recipe.model), model=model, log=say)
    return prepare_for_inference(
        model, weights.exact, weights.quantized, origin=str(weights.path), device=device, engine=engine, log=say
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
    """Load the trained model of a run as the predictor of its task, such as a `Translator` or a `TextGenerator`.

    With `kind` the result is an instance of that class, for type checkers too.

    A run with several tasks is loaded as `MultiHeadPredictor`; `head("NAME")` returns the predictor of one task, as
    `task` and `kind` do. A Hugging Face folder of a family in `heedful.foreign.families.registry` (BERT, GPT-2, Llama,
    Marian, BART and others) works like a run; a fine-tuned encoder is a `Classifier`, a `Tagger` or a
    `QuestionAnsweringPredictor`, one without a head an `Embedder`.

    Args:
        folders: one run folder, or several translation runs with the same vocabulary, used as an ensemble.
        kind: class of the result; of a run with several tasks, the one task of that class.
        task: name of the task, for a run with several.
        device: device to compute on; the GPU if there is one.
        step: a kept checkpoint instead of the finished (or, so far, the best) model.
        engine: "torch" computes in floating point, as in training; "torch-bfloat16" with large matrices and attention
            in bf16; "torch-graphs" and "torch-graphs-bfloat16" also record the steps of decoders for a GPU; "int8" with
            large matrices in 8 bits, on a CPU; "native" with these in native code; "native-float32" and
            "native-bfloat16" in native code without 8 bits; "auto" with the fastest of them. The default is the engine
            of the recipe on a CPU. If it names none, it is "native-float32" on a CPU with heedful-native, else "torch";
            for a folder written by `heedful.quantize`, it is "native" or "int8".
        say: receives messages: what "auto" chose and why, and warnings about an adapter.
        adapter: adapter to attach to the model: a run that was trained with training.adapter on a base of this shape
            and vocabulary, or a PEFT folder with LoRA. A run with an adapter of its own finds its base by itself.

    Raises:
        RecipeError: there is no such device or engine, or the engine does not support the device.
        RunError: a folder is missing, damaged or not trained yet, the runs cannot be combined, or the model is not of
            the requested kind; the message names its kind.

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
    """Load the predictor of one run, of a Hugging Face folder, or of an ensemble of runs. `step` and `adapter` are
    those of `load`, and `load_kwargs` holds its `device`, `engine` and `say`.
    """
    if adapter is not None and len(folders) > 1:
        raise RunError(f"{adapter}: an adapter is for one model, but {len(folders)} are given; give one run")
    if hf_folders := [folder for folder in folders if is_hugging_face_folder(folder)]:
        if len(folders) > 1:
            raise RunError(
                f"{hf_folders[0]}: is a Hugging Face model, and only runs of heedful can form an ensemble; leave it out"
            )
        from heedful.foreign.hugging_face import open_hugging_face  # what all families need, which few runs do

        attach_adapter = None if adapter is None else partial(apply_adapter_to_hf, adapter)
        device, engine, log = (load_kwargs[name] for name in ("device", "engine", "say"))
        return open_hugging_face(hf_folders[0]).build_predictor(
            step=step, adapt=attach_adapter, device=device, engine=engine, log=log
        )
    if not folders:
        raise RunError("no run folder was given; give at least one")
    first, *others = runs = [open_run(folder) for folder in folders]
    for other in others:
        require_task(other, first.recipe.task)
    models = [load_trained_model(run, step=step, adapter=adapter, **load_kwargs) for run in runs]
    return (
        first.task.build_ensemble(runs, models) if others else first.task.build_predictor(first, models[0], step=step)
    )


def _select_predictor(predictor: Any, folder: Path, kind: type[Any], task: str | None) -> Any:
    """Return the loaded predictor, or its head for a task, if it is of the requested class `kind`; raise `RunError`
    otherwise. Without a task the only head of that class is chosen.
    """
    if not isinstance(predictor, MultiHeadPredictor):
        if task is not None:
            raise RunError(f"{folder}: has one task, which has no name; leave out task={task!r}")
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
    remedy = "choose one with task=..." if matching else "request one of those"
    raise RunError(f"{folder}: has several tasks, {all_heads}, of which {number} of kind {kind.__name__}; {remedy}")


def _raise_wrong_kind(predictor: object, folder: Path, kind: type[Any], argument: str, *, task: str = "") -> NoReturn:
    """Raise a `RunError`: the predictor of a folder (of one task, if `task` is given) is not of the class `kind`.
    `argument` is the argument of `load` that selects its real class.
    """
    actual = type(predictor)
    module_prefix = "heedful." if actual.__module__.startswith("heedful.") else ""
    subject = f"{folder}: {task}" if task else f"{folder}:"
    raise RunError(
        f"{subject} is {add_article(actual.__name__)} and not {add_article(kind.__name__)}; load it with "
        f"{argument}={module_prefix}{actual.__name__}"
    )


def load_predictor(
    predictor_type: type[PredictorT],
    *folders: str | Path,
    use: str,
    task: str | None = None,
    **load_kwargs: Any,
) -> PredictorT:
    """Load a model with `load` and return it, or its head for a task, if it is a `predictor_type`; otherwise raise
    `RunError`. `use` says what such a model does, for the error.

    Args:
        predictor_type: required class or protocol.
        folders: one run folder, or several that form an ensemble.
        use: what a model of this kind does, in words, for error messages.
        task: name of the task, for a run with several; by default the only one of the kind.
        load_kwargs: further arguments of `load`.

    Raises:
        RunError: the model is of another kind, has no such task, or has several of the kind and `task` is not given.
    """
    predictor = load_once(load, *folders, **load_kwargs)
    folder = Path(folders[0]) if folders else Path()
    if isinstance(predictor, MultiHeadPredictor):
        return predictor.find_head(predictor_type, purpose=use, name=task)
    if task is not None:
        raise RunError(f"{folder}: has one task, which has no name; leave out --task {task}")
    if isinstance(predictor, Embedder) and not isinstance(predictor, predictor_type) and is_hugging_face_folder(folder):
        raise RunError(
            f"{folder}: its config.json names no architecture with a head that heedful reads, so it is an encoder and "
            f"not a model that {use}; it computes vectors (heedful embed), and a recipe can start from it (init)"
        )
    if not isinstance(predictor, predictor_type):
        actual_name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(predictor).__name__).lower()
        raise RunError(
            f"{folder}: is {add_article(actual_name)} and not a model that {use}; use it with heedful "
            f"{predictor.command}, or give another model"
        )
    return predictor


def load_embedder(folder: Path, *, task: str | None = None, **load_kwargs: Any) -> TextEmbedder:
    """Load a model that embeds texts; raise `RunError` for other models."""
    use = "computes vectors of texts"
    return load_predictor(TextEmbedder, folder, use=use, task=task, **load_kwargs)  # type: ignore[type-abstract]  # protocol


def require_task(run: Run[Any, Any], task: str) -> None:
    """Raise `RunError` if the task of a run is not the wanted one."""
    if run.recipe.task != task:
        raise RunError(f"{run.folder}: its task is {run.recipe.task}, but {task} is needed; give a run of that task")


def resume_run_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """Return the recipe with which the run in `folder` is resumed: keys that `recipe` does not give keep the values
    that are stored with the run. If the result is not valid, return `recipe` unchanged.
    """
    return resume_recipe(recipe, _read_stored_recipe(folder / CONFIG), has_checkpoint=has_checkpoint(folder))


def _read_stored_recipe(path: Path) -> Mapping[str, Any]:
    """Read the stored table of the recipe from the config file of a run; raise `RunError` if there is none."""
    try:
        content: dict[str, Any] = read_json(path)
        version, table = content["format"], content["recipe"]
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); restore it from a copy or train again") from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path}: contains no recipe; restore it from a copy or train again") from None
    if version != FORMAT:
        raise RunError(
            f"{path}: has format {version!r}, this version of heedful reads {FORMAT}; install the version that wrote it"
        )
    if not isinstance(table, dict):
        raise RunError(f"{path}: contains no recipe; restore it from a copy or train again")
    return table
