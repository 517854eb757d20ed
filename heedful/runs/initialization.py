"""Initialization of a run: vocabulary, architecture and weights, fresh or from a trained model (`init`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

from heedful.architectures.interface import TranslationArchitecture
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.models.shared_parameters import find_shared_names
from heedful.recipes.config import Config
from heedful.recipes.load import apply_settings, is_unset
from heedful.recipes.recipe import ArchitectureConfig, FineTunableRecipe, Recipe
from heedful.recipes.text import GivenTokenizerConfig
from heedful.runs.adapter_runs import AdapterFile, build_adapter_file, get_adapter, read_adapter_file, require_same_base
from heedful.runs.origin import open_predecessor
from heedful.runs.vocabulary_transfer import find_vocabulary_parameters, transfer_vocabulary
from heedful.tasks.portable_model import PretrainedSource
from heedful.tasks.task import Run, get_task

_CHANGEABLE_KEYS: Final = (
    "dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "initialisation", "summary", "d_hidden",
    "bag",
)  # fmt: skip
"""Keys of a model that may differ from those of `init`, because its weights do not depend on them."""
_GIVEN_TOKENIZER: Final = {"tokenizer": {"kind": "given"}}
_MAX_SHOWN_MODULES: Final = 4
_ARCHITECTURE_NAMES: Final[Mapping[type[ArchitectureConfig], str]] = {
    DecoderConfig: "a language model",
    EncoderConfig: "an encoder",
    TranslationArchitecture: "a model that translates",
}

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def resolve_recipe(recipe: AnyRecipe) -> AnyRecipe:
    """Return the recipe with the vocabulary and the architecture of the model that its `init` names; unchanged without
    `init`.

    Raises:
        RecipeError: a key of the recipe contradicts that model.
        RunError: there is no such model.
    """
    if not isinstance(recipe, FineTunableRecipe):
        return recipe
    if recipe.init is None:
        if isinstance(recipe.tokenizer, GivenTokenizerConfig):
            raise RecipeError('tokenizer.kind = "given": needs init, the folder of the model that gives its vocabulary')
        return recipe
    origin = _open_init(recipe)
    with_tokenizer = (
        recipe if "tokenizer" in recipe.model_fields_set else apply_settings(recipe, _GIVEN_TOKENIZER, source="")
    )
    if not (with_tokenizer.allows_new_vocabulary or isinstance(with_tokenizer.tokenizer, GivenTokenizerConfig)):
        raise RecipeError(f"tokenizer: init = {recipe.init} has its own vocabulary; leave out the table [tokenizer]")
    if get_adapter(recipe) is not None and not isinstance(with_tokenizer.tokenizer, GivenTokenizerConfig):
        raise RecipeError(
            "tokenizer: the vectors of a new vocabulary must be trained, but training.adapter keeps all weights of "
            "init; leave one of them out"
        )
    settings, source = (
        {"model": _resolve_architecture(recipe, origin), **_resolve_vocabulary(with_tokenizer, origin)},
        f"init = {recipe.init}",
    )
    init_removed = {"init": None} if get_adapter(recipe) is None else {"init": None, "training.adapter": None}
    apply_settings(
        with_tokenizer, {**settings, **init_removed}, source=source
    )  # what waited for the model is complained of now
    return apply_settings(with_tokenizer, settings, source=source)


def load_given_tokenizers(recipe: Recipe) -> tuple[Tokenizer, ...] | None:
    """Load the vocabularies of the model that `init` names; None if the run learns its own."""
    if not isinstance(recipe, FineTunableRecipe) or not isinstance(recipe.tokenizer, GivenTokenizerConfig):
        return None
    return _open_init(recipe).tokenizers


def create_run(folder: Path, recipe: Recipe) -> Run[Any, Any]:
    """Create a run with newly learned or given vocabularies, without writing anything."""
    task, tokenizers = get_task(recipe), load_given_tokenizers(recipe)
    return Run(
        folder,
        recipe,
        task.learn_vocabularies(recipe, existing=None)
        if tokenizers is None
        else task.use_tokenizers(recipe, tokenizers),
    )


def init_model(run: Run[Any, Any], *, log: Callable[[str], None]) -> nn.Module:
    """Build the model at the start of training; with `init`, copy its weights and log which are copied and which are
    not.

    Raises:
        RunError: a part of the body is missing in the other model or has another shape.
    """
    model: nn.Module = run.init_model()
    if isinstance(run.recipe, FineTunableRecipe) and run.recipe.init is not None:
        _copy_pretrained(model, run, log=log)
    run.task.init_weights(run, model, log=log)
    _attach_adapter(model, run, log=log)
    return model


def build_model_to_resume(run: Run[Any, Any]) -> nn.Module:
    """Build the model into which a training checkpoint is loaded; only parameters that no checkpoint holds have their
    final values.

    Raises:
        RunError: the adapted model has other weights now.
    """
    model: nn.Module = run.init_model()
    if get_adapter(run.recipe) is not None:
        _copy_pretrained(model, run, log=_discard_message)
        _attach_adapter(model, run, log=_discard_message)
    return model


def prepare_adapter_file(run: Run[Any, Any]) -> AdapterFile | None:
    """Describe the model that a new run adapts, for `adapter.json`; None if it has no adapter."""
    recipe = run.recipe
    if get_adapter(recipe) is None:
        return None
    assert isinstance(recipe, FineTunableRecipe)
    assert recipe.init is not None
    origin = _open_init(recipe)
    return build_adapter_file(
        run, recipe.init, base_tensors=origin.all_tensors, body=recipe.body, shared_names=origin.aliases
    )


def get_frozen_names(run: Run[Any, Any]) -> frozenset[str]:
    """Return the names of the parameters that come from the adapted model: no update changes them and no checkpoint
    holds them.
    """
    adapter_file = None if get_adapter(run.recipe) is None else read_adapter_file(run.folder)
    return frozenset(() if adapter_file is None else adapter_file.taken)


def _discard_message(_: str) -> None:
    """Ignore a message that was already logged when training started."""


def _attach_adapter(model: nn.Module, run: Run[Any, Any], *, log: Callable[[str], None]) -> None:
    """Attach the recipe's adapter, initialized from the seed, and exclude the weights of the base from training."""
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


def _copy_pretrained(model: nn.Module, run: Run[Any, Any], *, log: Callable[[str], None]) -> None:
    """Copy the weights of `init` into a model's body; of the body only the summary of a text may be missing there."""
    recipe = run.recipe
    origin = _open_init(recipe)
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
    """Map each parameter of a model to a name under which the other model has it."""
    matches = {name: name for name, _ in model.named_parameters() if name in tensors}
    for name, first in find_shared_names(model).items():
        if name in tensors:
            matches.setdefault(first, name)
    return matches


def _build_initial_value(name: str, parameter: nn.Parameter, pretrained: Tensor, run: Run[Any, Any]) -> Tensor:
    """Return the initial value of a parameter: the other model's tensor, extended by fresh rows for entries that only
    this vocabulary has.

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


def _open_init(recipe: FineTunableRecipe) -> PretrainedSource:
    """Open the model that `init` names; raise an error if the task cannot start from it."""
    assert recipe.init is not None
    if not recipe.init.is_dir():
        raise RunError(f"init = {recipe.init}: no such folder; give the folder of a run or of a downloaded model")
    origin = open_predecessor(recipe.init)
    requirement = f'task = "{recipe.task}" needs {recipe.required_init}; give another one'
    if not recipe.accepts_init(origin.model):
        raise RecipeError(f"init = {recipe.init}: is {_describe_architecture(origin.model)}, and {requirement}")
    if len(origin.tokenizers) != len(get_task(recipe).tokenizer_files):
        description = (
            f"has {len(origin.tokenizers)} vocabularies of text instead of {len(get_task(recipe).tokenizer_files)}"
        )
        raise RecipeError(f"init = {recipe.init}: {description}, and {requirement}")
    if origin.adapter is not None:
        raise RunError(
            f"init = {recipe.init}: computes with bottlenecks, which are not part of its weights; give the model that "
            "it adapts, or one that was adapted with LoRA"
        )
    return origin


def _describe_architecture(model: ArchitectureConfig) -> str:
    """Describe an architecture in words, such as "a language model"."""
    for architecture_type, words in _ARCHITECTURE_NAMES.items():
        if isinstance(model, architecture_type):
            return words
    return f"a model of the kind {model.kind}"


def _resolve_vocabulary(recipe: FineTunableRecipe, origin: PretrainedSource) -> dict[str, Any]:
    """Return the vocabulary settings that `init` decides and the recipe leaves open; for a given vocabulary, check
    that they agree.
    """
    settings = {}
    for key, value in get_task(recipe).inherit_tokenizer_settings(recipe, origin).items():
        full_key = f"tokenizer.{key}"
        if is_unset(recipe, full_key):
            settings[full_key] = value
        elif isinstance(recipe.tokenizer, GivenTokenizerConfig) and getattr(recipe.tokenizer, key) != value:
            raise RecipeError(
                f"{full_key}: init = {recipe.init} has {str(value).lower()}, and its vocabulary is given; leave it out"
            )
    return settings


def _resolve_architecture(recipe: FineTunableRecipe, origin: PretrainedSource) -> dict[str, Any]:
    """Return the architecture of `init` with the changes that the recipe may make."""
    recipe_model, model = recipe.model, recipe.wrap_architecture(origin.model.drop_initial_vectors())
    if "model" not in recipe.model_fields_set and recipe_model.kind != model.kind:
        return model.model_dump(mode="json", exclude_none=True)
    if recipe_model.kind != model.kind:
        raise RecipeError(
            f'model.kind = "{recipe_model.kind}": init = {recipe.init} is of the kind "{model.kind}"; leave out '
            f'model.kind, or set it to "{model.kind}" if other keys of [model] are given'
        )
    return _merge_config(
        recipe_model, model.model_dump(mode="json", exclude_none=True), key_prefix="model", init=recipe.init
    )


def _merge_config(config: Config, table: Mapping[str, Any], *, key_prefix: str, init: Path | None) -> dict[str, Any]:
    """Merge a table of the recipe into the same table of `init`; raise `RecipeError` if the weights do not allow a
    change.
    """
    known_keys = type(config).model_fields  # another task's model may have a head of its own
    init_values = {key: value for key, value in table.items() if key in known_keys}
    own_values = config.model_dump(mode="json", exclude_none=True)
    keys = [key for key in config.model_fields_set if key in own_values and key != "kind"]
    merged: dict[str, Any] = {}
    for key in sorted(keys):
        nested = getattr(config, key)
        if isinstance(nested, ArchitectureConfig) and isinstance(init_values.get(key), dict):
            merged[key] = _merge_config(nested, init_values[key], key_prefix=f"{key_prefix}.{key}", init=init)
        elif key not in _CHANGEABLE_KEYS and own_values[key] != init_values.get(key):
            raise RecipeError(
                f"{key_prefix}.{key} = {own_values[key]}: init = {init} has {init_values.get(key)}, and its weights "
                f"fit no other value; leave out {key_prefix}.{key}"
            )
        else:
            merged[key] = own_values[key]
    if "dropout" in keys and "embedding_dropout" not in keys:
        merged["embedding_dropout"] = own_values["dropout"]
    return init_values | merged


def _list_modules(names: list[str]) -> str:
    """List the modules that parameters belong to: the first few names, then a count."""
    modules = list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
    rest = f" and {len(modules) - _MAX_SHOWN_MODULES} more" if len(modules) > _MAX_SHOWN_MODULES else ""
    return ", ".join(modules[:_MAX_SHOWN_MODULES]) + rest if modules else "nothing"


def _format_shape(tensor: torch.Tensor) -> str:
    """Format the shape of a tensor as in 3 x 4."""
    return " x ".join(map(str, tensor.shape))
