"""Recipes of runs that may begin with a pre-trained encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationInfo, field_validator

from heedful.architectures.classifiers import EncoderClassifierConfig
from heedful.architectures.model import ClassifierConfig, TaggerConfig
from heedful.architectures.stack import EncoderConfig
from heedful.recipes.data import FineTuningDataConfig, TaggingDataConfig, TokenizerConfig, WordsTokenizerConfig
from heedful.recipes.labelled import BenchmarkConfig, ClassificationDataConfig, SpansDataConfig
from heedful.recipes.recipe import Recipe, known
from heedful.recipes.section import InputPath, misfit
from heedful.recipes.training import (
    ClassificationTrainingConfig,
    FineTuningConfig,
    SpansTrainingConfig,
    TaggingTrainingConfig,
)


class FineTuningRecipe(Recipe):
    """Texts, words or questions are labelled by an encoder that may have been pre-trained.

    Abstract: what is labelled, and by what, belongs to the task.
    """

    data: FineTuningDataConfig
    """the table [data] names the texts to train and validate on"""
    init: InputPath | None = None
    """folder of a pre-trained model whose vocabulary, architecture and weights training begins with"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how text is cut into tokens; with `init` as that model does"""
    model: TaggerConfig | ClassifierConfig = EncoderConfig()
    """the architecture; with `init` that of that model, of which nothing but dropout can be changed"""
    training: FineTuningConfig
    """the table [training] says at least when training ends, as in steps = 10000"""

    @field_validator("model")
    @classmethod
    def _fits(cls, model: TaggerConfig | ClassifierConfig, info: ValidationInfo) -> TaggerConfig | ClassifierConfig:
        data, longest = info.data.get("data"), model.longest
        if data is not None and longest is not None and known(info) and longest.tokens < data.max_length:
            raise misfit(
                longest.key,
                f"= {longest.tokens} must be at least data.max_length = {data.max_length}, or a text has more tokens "
                "than there are positions",
            )
        return model


class TaggingRecipe(FineTuningRecipe):
    """Each word of a sentence gets a tag."""

    task: Literal["tagging"] = "tagging"
    """what is learned"""
    data: TaggingDataConfig
    """the table [data] names the texts to train and validate on"""
    tokenizer: WordsTokenizerConfig = TokenizerConfig()
    """how words are cut into tokens, a word's tag stands at its first; with `init` as that model does"""
    model: TaggerConfig = EncoderConfig()
    """the architecture; with `init` that of that model, of which nothing but dropout can be changed"""
    training: TaggingTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""


class ClassificationRecipe(FineTuningRecipe):
    """A text, or two together, get a class or a number, or one of several candidates is chosen."""

    task: Literal["classification"] = "classification"
    """what is learned"""
    data: ClassificationDataConfig
    """the table [data] names the texts to train and validate on"""
    model: ClassifierConfig = EncoderClassifierConfig()
    """the architecture; with `init` that of that model, of which only dropout, summary and d_hidden can be changed"""
    training: ClassificationTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""

    @field_validator("model")
    @classmethod
    def _is_given_pairs(cls, model: ClassifierConfig, info: ValidationInfo) -> ClassifierConfig:
        data = info.data.get("data")
        if data is None or not model.paired:
            return model
        for part in ("train", "validation", "test"):
            text = getattr(data, part)
            if text is not None and not isinstance(text, BenchmarkConfig) and text.pair is None:
                raise misfit(
                    f"data.{part}.pair",
                    f'must name the second text: a model of kind "{model.kind}" reads two texts together',
                )
        return model

    @field_validator("training")
    @classmethod
    def _has_hops(cls, training: ClassificationTrainingConfig, info: ValidationInfo) -> ClassificationTrainingConfig:
        model = info.data.get("model")
        if model is None:
            return training
        if model.has_hops and training.decorrelation is None:
            return training.model_copy(update={"decorrelation": 1.0})
        if training.decorrelation and not model.has_hops:
            raise misfit(
                "training.decorrelation",
                f"= {training.decorrelation} pushes hops apart, and this model has none: set model.summary.kind = "
                '"self_attentive" or leave training.decorrelation away',
            )
        return training


class SpansRecipe(FineTuningRecipe):
    """Questions are answered by a part of a text, or by nothing."""

    task: Literal["spans"] = "spans"
    """what is learned"""
    data: SpansDataConfig
    """the table [data] names the questions to train and validate on"""
    model: EncoderConfig = EncoderConfig()
    """the architecture; with `init` that of that model, of which nothing but dropout can be changed"""
    training: SpansTrainingConfig
    """the table [training] says at least when training ends, as in steps = 10000"""
