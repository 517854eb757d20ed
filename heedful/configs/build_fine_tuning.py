"""From the tables of a fine-tuning run to its model, to what of it stands still, and to the rates of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from torch import nn

from heedful.blocks.linear import xavier_linear
from heedful.configs.build_recurrent import conditional_encoder, recurrent_encoder
from heedful.configs.build_stack import initialisation, transformer_encoder
from heedful.configs.classifiers import (
    ConditionalConfig,
    EncoderClassifierConfig,
    EndsConfig,
    FirstTokenConfig,
    MeanConfig,
    RecurrentClassifierConfig,
    SelfAttentiveConfig,
)
from heedful.configs.model import ClassifierConfig
from heedful.configs.stack import EncoderConfig
from heedful.configs.training import FineTuningConfig, TrainingConfig
from heedful.errors import RecipeError
from heedful.models.depth import depths
from heedful.models.encoders import FirstToken, MeanOfTokens, SelfAttentive
from heedful.models.interface import Encoder
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.values import Tokens

BODY = "encoder"


def build_text_classifier(
    config: ClassifierConfig, *, vocabulary: int, outputs: int, longest: int, encoder: Encoder[Tokens] | None = None
) -> TextClassifier:
    """A freshly initialised head on what an encoder says of the whole text.

    The encoder is a new one unless a Transformer is given, which keeps its own summary.
    """
    assert encoder is None or isinstance(config, EncoderClassifierConfig), "only Transformers are shared"
    match config:
        case EncoderClassifierConfig():
            return _on_stack(config, vocabulary=vocabulary, outputs=outputs, longest=longest, encoder=encoder)
        case RecurrentClassifierConfig():
            return _on_recurrence(config, vocabulary=vocabulary, outputs=outputs)
        case ConditionalConfig():
            encoder = conditional_encoder(config, vocabulary=vocabulary)
            return TextClassifier(encoder, output=xavier_linear(config.d_model, outputs), dropout=config.dropout)
    assert_never(config)


def _on_stack(
    config: EncoderClassifierConfig, *, vocabulary: int, outputs: int, longest: int, encoder: Encoder[Tokens] | None
) -> TextClassifier:
    """What an encoder has in common with a pre-trained one is initialised alike, and so is the output."""
    pooler = FirstToken(config.d_model) if encoder is None and isinstance(config.summary, FirstTokenConfig) else None
    if encoder is None:
        encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=pooler)
    summary = _hops(config.summary, config.d_model) if isinstance(config.summary, SelfAttentiveConfig) else None
    width = config.d_model if summary is None else summary.d_output
    hidden = _hidden(width, config.d_hidden)
    output = nn.Linear(config.d_hidden or width, outputs)
    for part in (pooler, hidden, output):
        if part is not None:
            initialisation(config).apply(part)
    return TextClassifier(encoder, output=output, summary=summary, hidden=hidden, dropout=config.dropout)


def _on_recurrence(config: RecurrentClassifierConfig, *, vocabulary: int, outputs: int) -> TextClassifier:
    reader = recurrent_encoder(config, vocabulary=vocabulary)
    width = reader.stack.d_output
    summary: MeanOfTokens | SelfAttentive | None
    match config.summary:
        case EndsConfig():
            summary = None
        case MeanConfig():
            summary = MeanOfTokens()
        case SelfAttentiveConfig():
            summary = _hops(config.summary, width)
            width = summary.d_output
    return TextClassifier(
        reader,
        output=xavier_linear(config.d_hidden or width, outputs),
        summary=summary,
        hidden=_hidden(width, config.d_hidden),
        dropout=config.dropout,
    )


def _hops(config: SelfAttentiveConfig, d_model: int) -> SelfAttentive:
    return SelfAttentive(d_model, hops=config.hops, d_alignment=config.d_alignment)


def _hidden(width: int, d_hidden: int | None) -> nn.Linear | None:
    return None if d_hidden is None else xavier_linear(width, d_hidden)


def build_span_finder(
    config: EncoderConfig, *, vocabulary: int, longest: int, encoder: Encoder[Tokens] | None = None
) -> TokenClassifier:
    """A freshly initialised head, begin and end of an answer, on each token of an encoder: a new one unless given."""
    if encoder is None:
        encoder = transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    output = nn.Linear(config.d_model, 2)
    initialisation(config).apply(output)
    return TokenClassifier(encoder, output=output)


def freeze(model: nn.Module, config: TrainingConfig) -> None:
    """Takes out of training what the recipe wants to keep as it is; nothing in tasks that keep nothing.

    Raises:
        RecipeError: there are not as many layers.
    """
    if not isinstance(config, FineTuningConfig) or config.freeze == 0:
        return
    found = depths(model, body=BODY)
    if config.freeze != "encoder" and config.freeze > found.layers:
        raise RecipeError(
            f'training.freeze = {config.freeze}: this model has {found.layers} layers; set at most that, or "encoder"'
        )
    for name, parameter in model.named_parameters():
        if config.freeze == "encoder":
            still = name.startswith(f"{BODY}.")
        else:
            still = found.of[name] > found.layers - config.freeze
        parameter.requires_grad_(not still)


def rate_factors(model: nn.Module, config: TrainingConfig) -> Mapping[str, float]:
    """What the learning rate of each parameter is multiplied by: layer_decay^depth (Howard and Ruder 2018, 3.2; Clark
    et al. 2020, A.2); empty where all have the same."""
    if not isinstance(config, FineTuningConfig) or config.layer_decay == 1:
        return {}
    return {name: config.layer_decay**depth for name, depth in depths(model, body=BODY).of.items()}
