"""Completion of a recipe before anything is built: the model that it starts from, and what that model and the data
decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import torch

from heedful.architectures.frames import FrameEncoderArchitecture
from heedful.architectures.interface import TranslationArchitecture
from heedful.architectures.model import TransformerConfig
from heedful.architectures.stack import DecoderConfig, EncoderConfig
from heedful.data.factors import Factor
from heedful.data.tokenizers import Tokenizer
from heedful.errors import RecipeError, RunError
from heedful.foreign.folders import is_hugging_face_folder
from heedful.foreign.hugging_face import open_hugging_face
from heedful.models.model_size import build_without_memory
from heedful.models.parameters import find_shared_names
from heedful.recipes import toml
from heedful.recipes.config import Config
from heedful.recipes.load import apply_settings, is_unset
from heedful.recipes.recipe import ArchitectureConfig, FineTunableRecipe, Recipe, format_data_key
from heedful.recipes.text import GivenTokenizerConfig
from heedful.runs.adapter_runs import build_uninitialized_model, get_adapter, get_unmerged_adapter, load_full_weights
from heedful.runs.load import open_run
from heedful.tasks.auto_settings import ComputeBudget, Settings
from heedful.tasks.portable_model import PortableModel, PretrainedSource
from heedful.tasks.task import Run, get_task

_CHANGEABLE_KEYS: Final = (
    "dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "initialisation", "summary", "d_hidden",
    "bag", "hide",
)  # fmt: skip
"""Keys of a model that may differ from those of `init`, because its weights do not depend on them."""
_LENGTH_KEYS: Final = ("max_length", "length")
"""Keys of the longest text, in tokens, in the table [data]; each task has one of them."""
_GIVEN_TOKENIZER: Final = {"tokenizer": {"kind": "given"}}
_ARCHITECTURE_NAMES: Final[Mapping[type[ArchitectureConfig], str]] = {
    DecoderConfig: "a language model",
    EncoderConfig: "an encoder",
    TranslationArchitecture: "a model that translates",
    FrameEncoderArchitecture: "a model that transcribes sounds",
}

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


@dataclass
class ResolvedRecipe(Generic[AnyRecipe]):
    """A complete recipe, and the model that its training starts from, which is opened only once.

    Attributes:
        recipe: the recipe with the vocabulary and the architecture of the model that `init` names.
        origin: that model; None without `init`, and after `take_origin`.
    """

    recipe: AnyRecipe
    origin: PretrainedSource | None = None

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...] | None:
        """The vocabularies of `origin`; None if the run learns its own."""
        return find_given_tokenizers(self.recipe, self.origin)

    def take_origin(self) -> PretrainedSource | None:
        """Return `origin` and forget it, so that its weights can be freed."""
        origin, self.origin = self.origin, None
        return origin


def resolve_recipe(recipe: AnyRecipe) -> ResolvedRecipe[AnyRecipe]:
    """Open the model that `init` names, and complete the recipe with its vocabulary and its architecture; without
    `init` the recipe stays as it is.

    Raises:
        RecipeError: a key of the recipe contradicts that model.
        RunError: there is no such model.
    """
    if (origin := open_init(recipe)) is None:
        if isinstance(recipe, FineTunableRecipe) and isinstance(recipe.tokenizer, GivenTokenizerConfig):
            raise RecipeError('tokenizer.kind = "given": needs init, the folder of the model that gives its vocabulary')
        return ResolvedRecipe(recipe)
    assert isinstance(recipe, FineTunableRecipe)
    with_tokenizer = (
        recipe if "tokenizer" in recipe.model_fields_set else apply_settings(recipe, _GIVEN_TOKENIZER, source="")
    )
    has_given_tokenizer, adapter = isinstance(with_tokenizer.tokenizer, GivenTokenizerConfig), get_adapter(recipe)
    if not (with_tokenizer.allows_new_vocabulary or has_given_tokenizer):
        raise RecipeError(f"tokenizer: init = {recipe.init} has its own vocabulary; leave out the table [tokenizer]")
    if adapter is not None and not has_given_tokenizer:
        raise RecipeError(
            "tokenizer: the vectors of a new vocabulary must be trained, but training.adapter keeps all weights of "
            "init; leave one of them out"
        )
    source = f"init = {recipe.init}"
    settings = {
        "model": _resolve_architecture(recipe, origin),
        **_resolve_vocabulary(with_tokenizer, origin),
        **_resolve_inputs(recipe, origin),
        **_resolve_lengths(recipe, origin),
    }
    without_init = {"init": None} if adapter is None else {"init": None, "training.adapter": None}
    # Without init the recipe also checks the keys that could not be checked before the model was known.
    apply_settings(with_tokenizer, {**settings, **without_init}, source=source)
    return ResolvedRecipe(apply_settings(with_tokenizer, settings, source=source), origin)


def find_given_tokenizers(recipe: Recipe, origin: PretrainedSource | None) -> tuple[Tokenizer, ...] | None:
    """Return the vocabularies that a run takes from `origin`, the model that `init` names; None if it learns its
    own.
    """
    if not isinstance(recipe, FineTunableRecipe) or not isinstance(recipe.tokenizer, GivenTokenizerConfig):
        return None
    assert origin is not None, "the model that init names is opened when the recipe is resolved"
    return origin.tokenizers


def open_init(recipe: Recipe) -> PretrainedSource | None:
    """Open the model that `init` names; None without `init`.

    Raises:
        RecipeError: the task cannot start from that model.
        RunError: there is no such model.
    """
    if not isinstance(recipe, FineTunableRecipe) or recipe.init is None:
        return None
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
    """Return the vocabulary settings that `origin`, the model that `init` names, decides and the recipe leaves open, by
    dotted key. Raise `RecipeError` if the recipe takes that vocabulary but sets something else.
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


def _resolve_inputs(recipe: FineTunableRecipe, origin: PretrainedSource) -> dict[str, Any]:
    """Return the input settings of `origin`, the model that `init` names, which the recipe leaves open, by dotted key;
    raise `RecipeError` if the recipe sets something else.
    """
    settings = {}
    for key, value in origin.input_settings.items():
        own_value = reduce(getattr, key.split("."), recipe)
        if is_unset(recipe, key):
            settings[key] = value
        elif own_value != value:
            raise RecipeError(
                f"{key} = {own_value}: init = {recipe.init} has {value} and reads nothing else; leave it out"
            )
    return settings


def _resolve_lengths(recipe: FineTunableRecipe, origin: PretrainedSource) -> dict[str, Any]:
    """Return the settings, by dotted key, of the longest text in each dataset. A key is included if the recipe does not
    set it and its default is larger than the positions of `origin` allow. One position stays free for the token that
    begins a text.
    """
    limit = recipe.wrap_architecture(origin.model.drop_initial_vectors()).length_limit
    if limit is None:
        return {}
    longest = limit.tokens - 1
    return {
        key: longest
        for dataset, data in recipe.datasets.items()
        for name in _LENGTH_KEYS
        if is_unset(recipe, key := f"{format_data_key(dataset)}.{name}") and getattr(data, name, 0) > longest
    }


def _resolve_architecture(recipe: FineTunableRecipe, origin: PretrainedSource) -> dict[str, Any]:
    """Return the table [model] of `origin`, the model that `init` names, with the changes that the recipe may make;
    raise `RecipeError` if it makes others.
    """
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
    """Merge `config`, a table of the recipe, into `table`, the same one of the model that `init` names; raise
    `RecipeError` if the weights do not allow a change. `key_prefix` is the table's dotted key, for messages.
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


def fit_recipe(
    recipe: AnyRecipe, *, device: torch.device, processes: int = 1, log: Callable[[str], None] = lambda _: None
) -> AnyRecipe:
    """Return the recipe of a new run with the settings that its task chooses for the data and the device, where the
    recipe leaves them open; `log` receives them.

    Args:
        recipe: a recipe with the vocabulary and the architecture of its `init`.
        device: device on which each process trains.
        processes: number of processes that train together.
        log: receives the chosen settings, line by line.

    Raises:
        DataError: a text cannot be read or is empty.
    """
    if not recipe.needs_fitting:
        return recipe
    config = recipe.training
    threads = config.threads or torch.get_num_threads()
    budget = ComputeBudget.from_config(config, threads=threads, processes=processes, gpu=device.type == "cuda")
    chosen = {
        key: value for key, value in get_task(recipe).choose_settings(recipe, budget).items() if is_unset(recipe, key)
    }
    assert chosen.keys() <= set(recipe.auto_keys), "a task chooses the settings that its recipe class declares"
    if not chosen:
        return recipe
    log("chosen from the data and the time; keys of the recipe take precedence:")
    for line in format_settings(chosen):
        log(f"  {line}")
    return apply_settings(recipe, chosen, source="the settings chosen from the data and the time")


def format_settings(settings: Settings) -> Iterator[str]:
    """Format settings, values by dotted key, as lines of a recipe, one line for each table."""

    def get_table(item: tuple[str, Any]) -> str:
        return item[0].rpartition(".")[0]

    for name, items in groupby(settings.items(), key=get_table):
        values = ", ".join(f"{key.rpartition('.')[2]} = {toml.format_value(value)}" for key, value in items)
        yield f"{name} = {{ {values} }}" if name else values


def open_predecessor(folder: Path) -> PretrainedSource:
    """Open the model in a folder, of any family, for another model to start from.

    Raises:
        RunError: there is no model, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face_folder(folder):
        return open_hugging_face(folder).predecessor
    run = open_run(folder)
    if any(isinstance(vocabulary, Factor) for vocabulary in run.vocabularies.values()):
        raise RunError(
            f"{folder}: reads factors of words, and no other model can start from such a model; give another run"
        )
    run_tokenizers = tuple(run.get_tokenizer(file) for file in run.task.tokenizer_files)
    tensors = load_full_weights(folder).dequantize()
    return PretrainedSource(
        folder,
        run.recipe.model,
        run_tokenizers,
        tensors,
        get_unmerged_adapter(run.recipe),
        _find_shared_names(run),
        run.task.get_input_settings(run.recipe),
    )


def open_origin(folder: Path, *, step: int | None = None) -> PortableModel:
    """Open the model in a folder for export: of a run the finished model, else the best checkpoint so far; with `step`,
    the checkpoint of that update.

    Raises:
        RunError: there is no model, it is damaged, or heedful cannot represent it.
        MissingExtraError: its vocabulary needs a package that is not installed.
    """
    if is_hugging_face_folder(folder):
        opened = open_hugging_face(folder)
        opened.require_no_step(step)
        return opened.origin
    return build_origin(open_run(folder), step=step)


def build_origin(run: Run[Any, Any], *, step: int | None = None) -> PortableModel:
    """Build the portable form of a run's model, at the checkpoint of `step` if given; raise `RunError` if it is not a
    Transformer that reads or writes text. See `open_origin`.
    """
    folder, config = run.folder, run.recipe.model
    if not isinstance(config, EncoderConfig | DecoderConfig | TransformerConfig):
        raise RunError(
            f"{folder}: its model is of the kind {config.kind}; only Transformers that read or write text can be used: "
            "give a run that has one"
        )
    tokenizers = tuple(vocabulary for vocabulary in run.vocabularies.values() if isinstance(vocabulary, Tokenizer))
    if isinstance(config, TransformerConfig) and len(tokenizers) != 2:
        raise RunError(
            f"{folder}: encoder and decoder read more than two texts, which no other model does; give another run"
        )
    tokenizer = tokenizers[0] if len(tokenizers) == 1 else (tokenizers[0], tokenizers[1])
    tensors = load_full_weights(folder, step=step).dequantize()
    return PortableModel(
        folder,
        config,
        tokenizer,
        tensors,
        head=run.task.output_head(run),
        adapter=get_unmerged_adapter(run.recipe),
        factors=run.task.source_factors(run),
        aliases=_find_shared_names(run),
    )


def _find_shared_names(run: Run[Any, Any]) -> dict[str, str]:
    """Return the further names of shared parameters, which checkpoints store once."""
    with build_without_memory():
        return find_shared_names(build_uninitialized_model(run))
