"""Sizes of published models, measured on models that are built without memory for their weights."""

from __future__ import annotations

from torch import nn

from heedful.architectures.build import build_language_model, build_sequence_to_sequence
from heedful.architectures.build_stack import build_transformer_encoder
from heedful.architectures.interface import DataSizes
from heedful.architectures.model import PUBLISHED_MODELS, PublishedModel, TransformerConfig
from heedful.architectures.stack import DecoderConfig
from heedful.english_words import closest_match
from heedful.errors import RecipeError
from heedful.models.model_size import ModelSize, build_without_memory, measure_model
from heedful.models.transformer import FirstTokenPooler


def get_published_size(name: str, *, length: int) -> ModelSize:
    """Return the size of the published model `name`, in sentences of `length` tokens.

    Raises:
        RecipeError: no such model is known.
    """
    if name not in PUBLISHED_MODELS:
        suggestion = closest_match(name, PUBLISHED_MODELS)
        hint = f"did you mean {suggestion}?" if suggestion else f"choose one of {', '.join(PUBLISHED_MODELS)}"
        raise RecipeError(f"--preset: {name} is not a model whose size heedful knows; {hint}")
    with build_without_memory():
        return measure_model(_build_published(PUBLISHED_MODELS[name], length=length), length=length)


def _build_published(published: PublishedModel, *, length: int) -> nn.Module:
    """Build a published model without trained weights, of the class for its kind of config; `length` is the number of
    tokens that it must be able to read.
    """
    config, vocabulary = published.config, published.vocabulary
    match config:
        case TransformerConfig():
            return build_sequence_to_sequence(config, DataSizes(vocabulary, vocabulary, length))
        case DecoderConfig():
            return build_language_model(config, vocabulary=vocabulary)
    summary = FirstTokenPooler(config.d_model)
    return build_transformer_encoder(config, vocabulary=vocabulary, longest=length, summary=summary)
