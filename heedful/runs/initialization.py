"""Initialization of a run: vocabularies and weights, fresh or from a trained model (`init`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from heedful.data.word_vectors import VocabularyMapping, is_same_vocabulary
from heedful.errors import RunError
from heedful.models.model_size import build_without_memory
from heedful.models.parameters import find_shared_names
from heedful.recipes.recipe import FineTunableRecipe, Recipe
from heedful.recipes.text import GivenTokenizerConfig
from heedful.runs.adapter_runs import AdapterFile, build_adapter_file, get_adapter, read_adapter_file, require_same_base
from heedful.runs.resolve import find_given_tokenizers
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.task import Run, get_task

_MAX_SHOWN_MODULES: Final = 4


def create_run(folder: Path, recipe: Recipe, origin: PretrainedSource | None = None) -> Run[Any, Any]:
    """Create a run with newly learned vocabularies, or with those of `origin` (the model that `init` names) if the
    recipe takes them over, without writing anything.
    """
    task, tokenizers = get_task(recipe), find_given_tokenizers(recipe, origin)
    return Run(
        folder,
        recipe,
        task.learn_vocabularies(recipe, existing=None)
        if tokenizers is None
        else task.use_tokenizers(recipe, tokenizers),
    )


def init_model(run: Run[Any, Any], origin: PretrainedSource | None = None, *, log: Callable[[str], None]) -> nn.Module:
    """Build the model at the start of training; with `init`, copy the weights of that model and log which are copied
    and which are not.

    Args:
        run: a new run.
        origin: the model that `init` names.
        log: receives what was copied.

    Raises:
        RunError: a part of the body is missing in the other model or has another shape.
    """
    model: nn.Module = run.init_model()
    if isinstance(run.recipe, FineTunableRecipe) and run.recipe.init is not None:
        _copy_pretrained(model, run, origin, log=log)
    run.task.init_weights(run, model, log=log)
    _attach_adapter(model, run, log=log)
    return model


def build_model_to_resume(run: Run[Any, Any], origin: PretrainedSource | None = None) -> nn.Module:
    """Build the model into which a training checkpoint is loaded. Only the parameters that no checkpoint holds have
    their final values: those of `origin`, the model that an adapter adapts.

    Raises:
        RunError: the adapted model has other weights now.
    """
    model: nn.Module = run.init_model()
    if get_adapter(run.recipe) is not None:
        _copy_pretrained(model, run, origin, log=ignore_message)
        _attach_adapter(model, run, log=ignore_message)
    return model


def prepare_adapter_file(run: Run[Any, Any], origin: PretrainedSource | None) -> AdapterFile | None:
    """Describe the model that a new run adapts, for `adapter.json`; None if the run has no adapter. `origin` is the
    opened model that `init` names; only a run with an adapter needs it.
    """
    recipe = run.recipe
    if get_adapter(recipe) is None:
        return None
    assert isinstance(recipe, FineTunableRecipe)
    assert recipe.init is not None
    assert origin is not None
    return build_adapter_file(
        run, recipe.init, base_tensors=origin.all_tensors, body=recipe.body, shared_names=origin.aliases
    )


def get_frozen_names(run: Run[Any, Any]) -> frozenset[str]:
    """Return the names of the parameters that come from the adapted model: no update changes them and no checkpoint
    holds them.
    """
    adapter_file = None if get_adapter(run.recipe) is None else read_adapter_file(run.folder)
    return frozenset(() if adapter_file is None else adapter_file.taken)


def ignore_message(_: str) -> None:
    """Ignore a message that another process logs, or that was logged when training started."""


def _attach_adapter(model: nn.Module, run: Run[Any, Any], *, log: Callable[[str], None]) -> None:
    """Attach the recipe's adapter, initialized from the seed, and exclude the weights of the base from training; does
    nothing without an adapter. `log` receives the numbers of parameters.
    """
    adapter = get_adapter(run.recipe)
    if adapter is None:
        return
    require_same_base(run.folder, run.recipe.init)
    frozen_names = get_frozen_names(run)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name not in frozen_names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.recipe.seed)
        adapter.attach(model)
    counts = {name: parameter.numel() for name, parameter in model.named_parameters()}
    num_trainable = sum(count for name, count in counts.items() if name not in frozen_names)
    log(
        f"training.adapter: {num_trainable:,} of {sum(counts.values()):,} parameters are trained, and only these are "
        "stored"
    )


def _copy_pretrained(
    model: nn.Module, run: Run[Any, Any], origin: PretrainedSource | None, *, log: Callable[[str], None]
) -> None:
    """Copy the weights of `origin`, the model that `init` names, into a model's body; of the body only the summary of a
    text may be missing there. `log` receives what was copied.
    """
    recipe = run.recipe
    assert origin is not None, "the model that init names is opened when the recipe is resolved"
    has_given_tokenizer = isinstance(recipe.tokenizer, GivenTokenizerConfig)
    tensors = origin.all_tensors if has_given_tokenizer else transfer_vocabulary(origin, run, log=log)
    prefix, heads = f"{recipe.body}." if recipe.body else "", tuple(f"{head}." for head in recipe.heads)
    names_in_origin = _match_names(model, tensors)
    copied: dict[str, nn.Parameter] = {}
    for first_name, parameter in model.named_parameters():
        name = names_in_origin.get(first_name)
        if name is None:
            if first_name.startswith(prefix) and not first_name.startswith((f"{prefix}summary.", *heads)):
                raise RunError(f"{recipe.init}: has no {first_name}, which this model needs; give another init")
        elif name.startswith((prefix, *heads)):
            copied[name] = parameter
    initial_values = {
        name: _build_initial_value(name, parameter, tensors[name], run) for name, parameter in copied.items()
    }
    with torch.no_grad():
        for name, parameter in copied.items():
            parameter.copy_(initial_values[name])
    copied_ids = {id(parameter) for parameter in copied.values()}
    new_names = [name for name, parameter in model.named_parameters() if id(parameter) not in copied_ids]
    used_names = {origin.aliases.get(name, name) for name in copied}
    unused_names = [name for name in tensors if origin.aliases.get(name, name) not in used_names]
    num_weights = sum(tensors[name].numel() for name in copied)
    log(
        f"{recipe.init}: {num_weights:,} weights taken over; new: {_list_modules(new_names)}; not used: "
        f"{_list_modules(unused_names)}"
    )


def _match_names(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Map the name of each parameter of a model to the name that it has in `tensors`, the other model's; leave out
    parameters that are not there.
    """
    matches = {name: name for name, _ in model.named_parameters() if name in tensors}
    for name, first in find_shared_names(model).items():
        if name in tensors:
            matches.setdefault(first, name)
    return matches


def _build_initial_value(name: str, parameter: nn.Parameter, pretrained: Tensor, run: Run[Any, Any]) -> Tensor:
    """Return the initial value of the parameter `name`: the tensor of the model that `init` names, extended by fresh
    rows for entries that only this run's vocabulary has.

    Raises:
        RunError: the shapes do not fit.
    """
    if pretrained.shape == parameter.shape:
        return pretrained
    _, vocabulary_dimension = find_vocabulary_parameters(run).get(name, ("", None))
    grown_dimensions = [
        dimension
        for dimension, (size, old_size) in enumerate(zip(parameter.shape, pretrained.shape, strict=False))
        if size != old_size
    ]
    if (
        vocabulary_dimension is None
        or pretrained.dim() != parameter.dim()
        or grown_dimensions != [vocabulary_dimension]
        or pretrained.size(vocabulary_dimension) > parameter.size(vocabulary_dimension)
    ):
        raise RunError(
            f"{run.recipe.init}: {name} is {_format_shape(pretrained)}, but this model has {_format_shape(parameter)}; "
            "give another init"
        )
    value = parameter.detach().clone()
    value.narrow(vocabulary_dimension, 0, pretrained.size(vocabulary_dimension)).copy_(pretrained)
    return value


def _list_modules(names: list[str]) -> str:
    """List the modules that the named parameters belong to, for a message: the first few names, then a count; "nothing"
    if there are none.
    """
    modules = list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
    rest = f" and {len(modules) - _MAX_SHOWN_MODULES} more" if len(modules) > _MAX_SHOWN_MODULES else ""
    return ", ".join(modules[:_MAX_SHOWN_MODULES]) + rest if modules else "nothing"


def _format_shape(tensor: torch.Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def transfer_vocabulary(
    origin: PretrainedSource, run: Run[Any, Any], *, log: Callable[[str], None]
) -> Mapping[str, Tensor]:
    """Return the parameters of the model `origin`, with the entries of its vocabularies replaced by those of the run's
    (`VocabularyMapping`).

    The model itself shows which parameters have an entry for each piece (`find_vocabulary_parameters`), so it may be of
    any family.

    Args:
        origin: the model, which has the architecture of the run.
        run: a run with newly learned vocabularies.
        log: receives the number of known pieces.
    """
    files = run.task.tokenizer_files
    old_tokenizers = dict(zip(files, origin.tokenizers, strict=True))
    descents: dict[str, VocabularyMapping] = {}
    for file in files:
        readers = [
            old_tokenizers[file],
            *(
                tokenizer
                for tokenizer in old_tokenizers.values()
                if tokenizer is not old_tokenizers[file] and is_same_vocabulary(tokenizer, old_tokenizers[file])
            ),
        ]
        descents[file] = VocabularyMapping.from_tokenizers(readers, run.get_tokenizer(file))
    summaries = {file: str(descent) for file, descent in descents.items()}
    if len(set(summaries.values())) == 1:
        summaries = {"": summaries[files[0]]}
    for file, summary in summaries.items():
        log(f"the new vocabulary{file and f' {file}'}: {summary}")
    tensors = dict(origin.tensors)
    for name, (file, dimension) in find_vocabulary_parameters(run).items():
        if name in tensors:
            tensors[name] = descents[file].map_rows(tensors[name].movedim(dimension, 0)).movedim(0, dimension)
    return tensors


def find_vocabulary_parameters(run: Run[Any, Any]) -> Mapping[str, tuple[str, int]]:
    """Return the parameters with an entry for each piece of a vocabulary: by name, the vocabulary's file and the
    dimension of the entries.

    They are the parameters that grow when the vocabulary grows, as measured on models without memory (meta device).
    """

    def compute_shapes(grown_file: str = "") -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter of the model if the vocabulary in the file `grown_file` had one more
        entry; if it is empty, none has.
        """
        sizes = {file: size + (file == grown_file) for file, size in run.vocab_sizes.items()}
        with build_without_memory():
            model = run.task.build_model(run.recipe, sizes)
        return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}

    old_shapes, parameters = compute_shapes(), {}
    for file in run.task.tokenizer_files:
        for name, shape in compute_shapes(file).items():
            grown_dimensions = [
                dimension
                for dimension, (new_size, old_size) in enumerate(zip(shape, old_shapes[name], strict=True))
                if new_size != old_size
            ]
            if grown_dimensions:
                parameters[name] = (file, grown_dimensions[0])
    return parameters
