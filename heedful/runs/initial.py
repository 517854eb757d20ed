"""What a run begins with besides chance: vocabulary, architecture and weights of a trained model."""

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
from heedful.models.shared_parameters import other_names
from heedful.recipes.load import filled, left_open
from heedful.recipes.recipe import Architecture, Recipe, TunedRecipe
from heedful.recipes.section import Section
from heedful.recipes.text import GivenTokenizerConfig
from heedful.runs.adapted import AdapterFile, adapter_of, described, read_file, require_same_base
from heedful.runs.origin import open_predecessor
from heedful.runs.relearned import entries, relearned
from heedful.tasks.kind import Run, kind_of
from heedful.tasks.origin import Predecessor

_FREE: Final = (
    "dropout", "attention_dropout", "activation_dropout", "embedding_dropout", "initialisation", "summary", "d_hidden",
    "bag",
)  # fmt: skip
"""Keys of a model that say nothing of what the weights of its body are."""
_GIVEN: Final = {"tokenizer": {"kind": "given"}}
_SHOWN: Final = 4
_MODELS: Final[Mapping[type[Architecture], str]] = {
    DecoderConfig: "a language model",
    EncoderConfig: "an encoder",
    TranslationArchitecture: "a model that translates",
}

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def resolved(recipe: AnyRecipe) -> AnyRecipe:
    """The recipe with the vocabulary and the architecture of the model that its `init` names; as it is without one.

    Raises:
        RecipeError: a key of the recipe contradicts that model.
        RunError: there is no such model.
    """
    if not isinstance(recipe, TunedRecipe):
        return recipe
    if recipe.init is None:
        if isinstance(recipe.tokenizer, GivenTokenizerConfig):
            raise RecipeError('tokenizer.kind = "given": needs init, the folder of the model that gives its vocabulary')
        return recipe
    origin = _origin(recipe)
    named = recipe if "tokenizer" in recipe.model_fields_set else filled(recipe, _GIVEN, place="")
    if not (named.relearns or isinstance(named.tokenizer, GivenTokenizerConfig)):
        raise RecipeError(
            f"tokenizer: init = {recipe.init} brings its own vocabulary; leave the table [tokenizer] away"
        )
    if adapter_of(recipe) is not None and not isinstance(named.tokenizer, GivenTokenizerConfig):
        raise RecipeError(
            "tokenizer: pieces of a vocabulary that is learned anew must learn, and training.adapter keeps all weights "
            "of init; leave one of them away"
        )
    settings, place = {"model": _model(recipe, origin), **_vocabulary(named, origin)}, f"init = {recipe.init}"
    without = {"init": None} if adapter_of(recipe) is None else {"init": None, "training.adapter": None}
    filled(named, {**settings, **without}, place=place)  # what waited for the model is complained of now
    return filled(named, settings, place=place)


def given_tokenizers(recipe: Recipe) -> tuple[Tokenizer, ...] | None:
    """The vocabularies of the model that `init` names; None where the run learns its own."""
    if not isinstance(recipe, TunedRecipe) or not isinstance(recipe.tokenizer, GivenTokenizerConfig):
        return None
    return _origin(recipe).tokenizers


def begin_run(folder: Path, recipe: Recipe) -> Run[Any, Any]:
    """A new run with freshly learned vocabularies; nothing is written."""
    kind, given = kind_of(recipe), given_tokenizers(recipe)
    return Run(folder, recipe, kind.learn(recipe, given=None) if given is None else kind.take(recipe, given))


def fresh(run: Run[Any, Any], *, say: Callable[[str], None]) -> nn.Module:
    """The model that training begins with; of what `init` knows, `say` is told what is taken and what is left behind.

    Raises:
        RunError: a part of the body is missing in the other model, or has another shape.
    """
    model: nn.Module = run.model()
    if isinstance(run.recipe, TunedRecipe) and run.recipe.init is not None:
        _warm(model, run, say=say)
    run.kind.warm(run, model, say=say)
    _adapt(model, run, say=say)
    return model


def unfinished(run: Run[Any, Any]) -> nn.Module:
    """The model that a checkpoint of training goes into: of random numbers, but for those that no checkpoint holds.

    Raises:
        RunError: the model that is adapted has other weights now.
    """
    model: nn.Module = run.model()
    if adapter_of(run.recipe) is not None:
        _warm(model, run, say=_silent)
        _adapt(model, run, say=_silent)
    return model


def adapting(run: Run[Any, Any]) -> AdapterFile | None:
    """What a new run is to keep of the model that it adapts; None where it adapts none."""
    recipe = run.recipe
    if adapter_of(recipe) is None:
        return None
    assert isinstance(recipe, TunedRecipe)
    assert recipe.init is not None
    origin = _origin(recipe)
    return described(run, recipe.init, given=origin.named, body=recipe.body, shared=origin.shared)


def still(run: Run[Any, Any]) -> frozenset[str]:
    """Names of what no update changes, and no checkpoint holds: what an adapted model gives."""
    about = None if adapter_of(run.recipe) is None else read_file(run.folder)
    return frozenset(() if about is None else about.taken)


def _silent(_: str) -> None:
    """What has been said when training began."""


def _adapt(model: nn.Module, run: Run[Any, Any], *, say: Callable[[str], None]) -> None:
    """Puts the recipe's adapter on, drawn by its seed, and takes what the base gives out of training."""
    adapter = adapter_of(run.recipe)
    if adapter is None:
        return
    require_same_base(run.folder, run.recipe.init)
    names = still(run)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name not in names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.recipe.seed)
        adapter.put_on(model)
    numbers = {name: parameter.numel() for name, parameter in model.named_parameters()}
    learned = sum(number for name, number in numbers.items() if name not in names)
    say(f"training.adapter: {learned:,} of {sum(numbers.values()):,} numbers learn, and are all that is stored")


def _warm(model: nn.Module, run: Run[Any, Any], *, say: Callable[[str], None]) -> None:
    """Copies what `init` knows of a model's body, of which the other model may lack the summary of a text alone."""
    recipe = run.recipe
    origin = _origin(recipe)
    given = isinstance(recipe.tokenizer, GivenTokenizerConfig)
    tensors = origin.named if given else relearned(origin, run, say=say)
    prefix, heads = f"{recipe.body}." if recipe.body else "", tuple(f"{head}." for head in recipe.heads)
    named = _named(model, tensors)
    taken: dict[str, nn.Parameter] = {}
    for first, parameter in model.named_parameters():
        name = named.get(first)
        if name is None:
            if first.startswith(prefix) and not first.startswith((f"{prefix}summary.", *heads)):
                raise RunError(f"{recipe.init}: has no {first}, which this model needs; name another init")
        elif name.startswith((prefix, *heads)):
            taken[name] = parameter
    begun = {name: _begun(name, parameter, tensors[name], run) for name, parameter in taken.items()}
    with torch.no_grad():
        for name, parameter in taken.items():
            parameter.copy_(begun[name])
    all_of_them = {id(parameter) for parameter in taken.values()}
    fresh = [name for name, parameter in model.named_parameters() if id(parameter) not in all_of_them]
    used = {origin.shared.get(name, name) for name in taken}
    left = [name for name in tensors if origin.shared.get(name, name) not in used]
    numbers = sum(tensors[name].numel() for name in taken)
    say(f"{recipe.init}: {numbers:,} weights taken over; new: {_parts(fresh)}; left behind: {_parts(left)}")


def _named(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Of each parameter, by the first of its names, a name under which the other model has it."""
    found = {name: name for name, _ in model.named_parameters() if name in tensors}
    for name, first in other_names(model).items():
        if name in tensors:
            found.setdefault(first, name)
    return found


def _begun(name: str, parameter: nn.Parameter, given: Tensor, run: Run[Any, Any]) -> Tensor:
    """What a parameter begins with: the other model's, above what is fresh of entries that only this vocabulary has.

    Raises:
        RunError: it has another shape.
    """
    if given.shape == parameter.shape:
        return given
    _, side = entries(run).get(name, ("", None))
    grown = [place for place, (now, then) in enumerate(zip(parameter.shape, given.shape, strict=False)) if now != then]
    if side is None or given.dim() != parameter.dim() or grown != [side] or given.size(side) > parameter.size(side):
        raise RunError(
            f"{run.recipe.init}: {name} is {_shape(given)} where this model has {_shape(parameter)}; name another init"
        )
    whole = parameter.detach().clone()
    whole.narrow(side, 0, given.size(side)).copy_(given)
    return whole


def _origin(recipe: TunedRecipe) -> Predecessor:
    assert recipe.init is not None
    if not recipe.init.is_dir():
        raise RunError(f"init = {recipe.init}: there is no such folder; name that of a run or of a downloaded model")
    origin = open_predecessor(recipe.init)
    needed = f'task = "{recipe.task}" needs {recipe.origin}; name another one'
    if not recipe.begins_with(origin.model):
        raise RecipeError(f"init = {recipe.init}: is {_described(origin.model)}, and {needed}")
    if len(origin.tokenizers) != len(kind_of(recipe).words):
        has = f"has {len(origin.tokenizers)} vocabularies of text instead of {len(kind_of(recipe).words)}"
        raise RecipeError(f"init = {recipe.init}: {has}, and {needed}")
    if origin.adapter is not None:
        raise RunError(
            f"init = {recipe.init}: computes with bottlenecks, which are no part of its weights; name the model "
            "that it adapts, or one that was adapted with LoRA"
        )
    return origin


def _described(model: Architecture) -> str:
    """What somebody might have taken it for."""
    for promise, words in _MODELS.items():
        if isinstance(model, promise):
            return words
    return f"a model of the kind {model.kind}"


def _vocabulary(recipe: TunedRecipe, origin: Predecessor) -> dict[str, Any]:
    """What the recipe leaves open of its vocabulary and the origin decides; of a given one that is no choice."""
    found = {}
    for key, value in kind_of(recipe).likened(recipe, origin).items():
        dotted = f"tokenizer.{key}"
        if left_open(recipe, dotted):
            found[dotted] = value
        elif isinstance(recipe.tokenizer, GivenTokenizerConfig) and getattr(recipe.tokenizer, key) != value:
            raise RecipeError(
                f"{dotted}: init = {recipe.init} has {str(value).lower()}, and its vocabulary is given; leave it away"
            )
    return found


def _model(recipe: TunedRecipe, origin: Predecessor) -> dict[str, Any]:
    """The architecture of the origin with what the recipe may change of it."""
    given, model = recipe.model, recipe.around(origin.model.learned())
    if "model" not in recipe.model_fields_set and given.kind != model.kind:
        return model.model_dump(mode="json", exclude_none=True)
    if given.kind != model.kind:
        raise RecipeError(
            f'model.kind = "{given.kind}": init = {recipe.init} is of the kind "{model.kind}"; leave model.kind away, '
            f'or set it to "{model.kind}" where other keys of [model] are given'
        )
    return _changed(given, model.model_dump(mode="json", exclude_none=True), place="model", init=recipe.init)


def _changed(given: Section, table: Mapping[str, Any], *, place: str, init: Path | None) -> dict[str, Any]:
    """A table of the origin with what one of the recipe changes; `RecipeError` where weights forbid it."""
    known = type(given).model_fields  # another task's model may have a head of its own
    theirs = {key: value for key, value in table.items() if key in known}
    ours = given.model_dump(mode="json", exclude_none=True)
    keys = [key for key in given.model_fields_set if key in ours and key != "kind"]
    changed: dict[str, Any] = {}
    for key in sorted(keys):
        inner = getattr(given, key)
        if isinstance(inner, Architecture) and isinstance(theirs.get(key), dict):
            changed[key] = _changed(inner, theirs[key], place=f"{place}.{key}", init=init)
        elif key not in _FREE and ours[key] != theirs.get(key):
            raise RecipeError(
                f"{place}.{key} = {ours[key]}: init = {init} has {theirs.get(key)}, and its weights fit nothing "
                f"else; leave {place}.{key} away"
            )
        else:
            changed[key] = ours[key]
    if "dropout" in keys and "embedding_dropout" not in keys:
        changed["embedding_dropout"] = ours["dropout"]
    return theirs | changed


def _parts(names: list[str]) -> str:
    """The modules that some parameters belong to, the first few by name."""
    modules = list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
    more = f" and {len(modules) - _SHOWN} more" if len(modules) > _SHOWN else ""
    return ", ".join(modules[:_SHOWN]) + more if modules else "nothing"


def _shape(tensor: torch.Tensor) -> str:
    return " x ".join(map(str, tensor.shape))
