"""A whole run as data, and the one way from files and command lines to it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError, ValidationInfo, field_validator

from heedful.configs import toml
from heedful.configs.data import (
    LanguageDataConfig,
    PairTokenizerConfig,
    PretrainingDataConfig,
    TextTokenizerConfig,
    TextVocabularyConfig,
    TokenizerConfig,
    TranslationDataConfig,
)
from heedful.configs.fine_tuning import ClassificationRecipe, FineTuningRecipe, SpansRecipe, TaggingRecipe
from heedful.configs.generation import BeamConfig, ContinuationConfig, GenerationConfig, SampledContinuationConfig
from heedful.configs.model import LanguageModelConfig, ModelConfig, TransformerConfig
from heedful.configs.multitask import MultitaskRecipe
from heedful.configs.overrides import anchored, merge, read_overrides
from heedful.configs.problems import sentences
from heedful.configs.recipe import FORMAT, Recipe, known
from heedful.configs.section import InputPath, misfit
from heedful.configs.stack import DecoderConfig, EncoderConfig
from heedful.configs.stored import completed, taken_up
from heedful.configs.training import (
    LanguageTrainingConfig,
    PretrainingTrainingConfig,
    ReinforceConfig,
    TranslationTrainingConfig,
)
from heedful.errors import RecipeError

__all__ = [
    "FORMAT",
    "RECIPES",
    "ClassificationRecipe",
    "FineTuningRecipe",
    "LanguageRecipe",
    "MultitaskRecipe",
    "PretrainingRecipe",
    "Recipe",
    "SpansRecipe",
    "TaggingRecipe",
    "TranslationRecipe",
    "dump",
    "json_schema",
    "load_recipe",
    "recipe_from",
    "stored_recipe",
    "taking_up",
]


class TranslationRecipe(Recipe):
    """Sentences become other sentences."""

    task: Literal["translation"] = "translation"
    """what is learned"""
    data: TranslationDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: PairTokenizerConfig = PairTokenizerConfig()
    """how text is cut into tokens"""
    model: ModelConfig = TransformerConfig()
    """the architecture"""
    training: TranslationTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: GenerationConfig = BeamConfig()
    """how the finished model translates unless a command is told otherwise"""

    @field_validator("training")
    @classmethod
    def _has_heads(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        model = info.data.get("model")
        if training.decorrelation and model is not None and not model.has_heads:
            raise misfit(
                "training.decorrelation",
                f"= {training.decorrelation} pushes attention heads apart, and a model of kind "
                f'"{model.kind}" has no heads: set training.decorrelation = 0',
            )
        return training

    @field_validator("training")
    @classmethod
    def _draws(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        model = info.data.get("model")
        if model is None or model.draws == (training.reinforce is not None):
            return training
        if model.draws:
            return training.model_copy(update={"reinforce": ReinforceConfig()})
        raise misfit(
            "training.reinforce",
            'teaches attention that is drawn: set model.reading.weights = "sampled" in a model of kind "recurrent", or '
            "leave training.reinforce away",
        )

    @field_validator("training")
    @classmethod
    def _decays(cls, training: TranslationTrainingConfig, info: ValidationInfo) -> TranslationTrainingConfig:
        model, decay = info.data.get("model"), training.optimizer.weight_decay
        if model is not None and model.freeze_vectors and decay:
            raise misfit(
                "training.optimizer.weight_decay",
                f"= {decay} would shrink the vectors that model.freeze_vectors keeps: set one of them to 0 or false",
            )
        return training

    @field_validator("model")
    @classmethod
    def _fits(cls, model: ModelConfig, info: ValidationInfo) -> ModelConfig:
        tokenizer, data = info.data.get("tokenizer"), info.data.get("data")
        if tokenizer is not None and not tokenizer.joint and model.tie == "three_way":
            raise misfit(
                "model.tie",
                '= "three_way" needs one vocabulary for both languages: set model.tie = "two_way" or '
                "tokenizer.joint = true",
            )
        longest = model.longest
        if data is not None and longest is not None and longest.tokens <= data.max_length:
            raise misfit(
                longest.key,
                f"= {longest.tokens} must be above data.max_length = {data.max_length}, "
                "the token that begins or ends a sentence takes a place too",
            )
        return model


class LanguageRecipe(Recipe):
    """A text is continued."""

    task: Literal["language_modelling"] = "language_modelling"
    """what is learned"""
    data: LanguageDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: TextVocabularyConfig = TextTokenizerConfig()
    """how text is cut into tokens; with `init` as that model does"""
    model: LanguageModelConfig = DecoderConfig()
    """the architecture"""
    training: LanguageTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: ContinuationConfig = SampledContinuationConfig()
    """how the finished model writes unless a command is told otherwise"""

    @field_validator("model")
    @classmethod
    def _fits(cls, model: LanguageModelConfig, info: ValidationInfo) -> LanguageModelConfig:
        data, longest = info.data.get("data"), model.longest
        if data is not None and longest is not None and known(info) and longest.tokens < data.length:
            raise misfit(
                longest.key,
                f"= {longest.tokens} must be at least data.length = {data.length}, or a piece has more tokens than "
                "there are positions",
            )
        return model


class PretrainingRecipe(Recipe):
    """Hidden tokens are found, and passages that belong together."""

    task: Literal["pretraining"] = "pretraining"
    """what is learned"""
    data: PretrainingDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """how text is cut into tokens"""
    model: EncoderConfig = EncoderConfig()
    """the architecture"""
    training: PretrainingTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""

    @field_validator("model")
    @classmethod
    def _fits(cls, model: EncoderConfig, info: ValidationInfo) -> EncoderConfig:
        data, longest = info.data.get("data"), model.longest
        if data is not None and longest is not None and longest.tokens < data.max_length:
            raise misfit(longest.key, f"= {longest.tokens} must not be below data.max_length = {data.max_length}")
        return model

    @field_validator("training")
    @classmethod
    def _asks_one_thing(cls, training: PretrainingTrainingConfig) -> PretrainingTrainingConfig:
        if training.objective.kind == "replaced_tokens" and training.pairing != "alone":
            raise misfit(
                "training.pairing",
                f'= "{training.pairing}" asks about passages, and training.objective.kind = "replaced_tokens" asks '
                'about tokens alone: set training.pairing = "alone"',
            )
        return training

    @field_validator("training")
    @classmethod
    def _has_parts(cls, training: PretrainingTrainingConfig, info: ValidationInfo) -> PretrainingTrainingConfig:
        model = info.data.get("model")
        if training.pairing != "alone" and model is not None and model.segments < 2:
            raise misfit(
                "model.segments",
                f'= {model.segments} cannot tell two parts apart: set model.segments = 2 or training.pairing = "alone"',
            )
        return training


RECIPES: Final[Mapping[str, type[Recipe]]] = {
    str(recipe.model_fields["task"].default): recipe
    for recipe in (
        TranslationRecipe,
        LanguageRecipe,
        PretrainingRecipe,
        TaggingRecipe,
        ClassificationRecipe,
        SpansRecipe,
        MultitaskRecipe,
    )
}
"""Each task's recipe."""


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, changed by `overrides` such as `["--training.steps", "2000"]`.

    Paths in the file are counted from its folder, paths in `overrides` from the current one; `output`
    always from the current one. RecipeError with one sentence a line for everything that is wrong.
    """
    path = Path(path)
    content = _read(path)
    kind = _kind(content, place=str(path))
    table = {"output": str(Path("runs") / path.stem)} | anchored(content, kind, path.parent)
    changes = read_overrides(overrides)
    merged = merge(table, changes, kind)
    return _validated(merged, kind, place=str(path), flags=[".".join(change.path) for change in changes])


def recipe_from(table: Mapping[str, Any], *, place: str) -> Recipe:
    """The recipe in a nest of plain values, as JSON and TOML hold them; a RecipeError names `place`."""
    return _validated(table, _kind(table, place=place), place=place, flags=())


def stored_recipe(table: Mapping[str, Any], *, place: str) -> Recipe:
    """`recipe_from` of the table that a run keeps, which may be older than some keys."""
    return recipe_from(completed(table, _kind(table, place=place)), place=place)


def taking_up(recipe: Recipe, stored: Mapping[str, Any]) -> Recipe:
    """A recipe as it goes on with the run that keeps `stored`: where neither says a word, all stays as it began."""
    table = taken_up(recipe, stored)
    try:
        return recipe if table is None else recipe_from(table, place="")
    except RecipeError:  # it asks for something else, as the one who takes up the run will tell
        return recipe


def dump(recipe: Recipe) -> str:
    """The recipe as TOML, with what was left to defaults written out; loading it gives the same recipe."""
    return toml.document(recipe.model_dump(mode="json", exclude_none=True))


def json_schema(task: str = "translation") -> str:
    """The JSON Schema (2020-12) of a task's recipes, for editors and documentation."""
    return json.dumps(RECIPES[task].model_json_schema(), indent=2) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot read this recipe ({error.strerror}); give the path of a TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
    except RecursionError:
        raise RecipeError(f"{path}: is nested too deeply for a recipe") from None
    except ValueError as error:
        raise RecipeError(f"{path}: is no valid TOML: {error}") from None


def _kind(table: Mapping[str, Any], *, place: str) -> type[Recipe]:
    task = table.get("task", "translation")
    if not isinstance(task, str) or task not in RECIPES:
        raise RecipeError(f"{place}: task = {task!r} is no task; choose one of {', '.join(map(toml.value, RECIPES))}")
    return RECIPES[task]


def _validated(table: Mapping[str, Any], kind: type[Recipe], *, place: str, flags: Sequence[str]) -> Recipe:
    version = table.get("format", FORMAT)
    if version != FORMAT or isinstance(version, bool):
        place = "command line" if "format" in flags else place
        raise RecipeError(
            f"{place}: format = {version!r} is a recipe format that this heedful does not know; "
            f"set format = {FORMAT} or install the heedful that the recipe was written for"
        )
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        found = sentences(error, root=kind, content=table, place=place, flags=flags)
        raise RecipeError("\n".join(found)) from None
