"""A whole run as data, and the one way from files and command lines to it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from heedful.configs import toml
from heedful.configs.data import DataConfig, TokenizerConfig
from heedful.configs.generation import BeamConfig, GenerationConfig
from heedful.configs.model import ModelConfig, TransformerConfig
from heedful.configs.overrides import anchored, merge, read_overrides
from heedful.configs.problems import sentences
from heedful.configs.section import AnyPath, Section, misfit
from heedful.configs.training import TrainingConfig
from heedful.errors import RecipeError

FORMAT: Final = 1


class Recipe(Section):
    """Everything that decides a run: the same recipe, data and software give the same model."""

    format: Literal[1] = FORMAT
    """version of the recipe format"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """where all randomness starts"""
    output: AnyPath
    """the run folder, counted from the current folder; runs/<name of the recipe file> if not given"""
    data: DataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: TokenizerConfig = TokenizerConfig()
    """how text is cut into tokens"""
    model: ModelConfig = TransformerConfig()
    """the architecture"""
    training: TrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""
    generation: GenerationConfig = BeamConfig()
    """how the finished model translates unless a command is told otherwise"""

    @field_validator("training")
    @classmethod
    def _has_heads(cls, training: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        model = info.data.get("model")
        if training.decorrelation and model is not None and not model.has_heads:
            raise misfit(
                "training.decorrelation",
                f"= {training.decorrelation} pushes attention heads apart, and a model of kind "
                f'"{model.kind}" has no heads: set training.decorrelation = 0',
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


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a TOML file, changed by `overrides` such as `["--training.steps", "2000"]`.

    Paths in the file are counted from its folder, paths in `overrides` from the current one; `output`
    always from the current one. RecipeError with one sentence a line for everything that is wrong.
    """
    path = Path(path)
    table = anchored(_read(path), Recipe, path.parent)
    table = {"output": str(Path("runs") / path.stem)} | table
    changes = read_overrides(overrides)
    merged = merge(table, changes, Recipe)
    return _validated(merged, place=str(path), flags=[".".join(change.path) for change in changes])


def recipe_from(table: Mapping[str, Any], *, place: str) -> Recipe:
    """The recipe in a nest of plain values, as JSON and TOML hold them; a RecipeError names `place`."""
    return _validated(table, place=place, flags=())


def dump(recipe: Recipe) -> str:
    """The recipe as TOML, with what was left to defaults written out; loading it gives the same recipe."""
    return toml.document(recipe.model_dump(mode="json", exclude_none=True))


def json_schema() -> str:
    """The JSON Schema (2020-12) of recipes, for editors and documentation."""
    return json.dumps(Recipe.model_json_schema(), indent=2) + "\n"


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


def _validated(table: Mapping[str, Any], *, place: str, flags: Sequence[str]) -> Recipe:
    version = table.get("format", FORMAT)
    if version != FORMAT or isinstance(version, bool):
        place = "command line" if "format" in flags else place
        raise RecipeError(
            f"{place}: format = {version!r} is a recipe format that this heedful does not know; "
            f"set format = {FORMAT} or install the heedful that the recipe was written for"
        )
    try:
        return Recipe.model_validate(dict(table))
    except ValidationError as error:
        found = sentences(error, root=Recipe, content=table, place=place, flags=flags)
        raise RecipeError("\n".join(found)) from None
