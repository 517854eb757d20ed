"""Build classifiers and span models for fine-tuning from their configs."""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

from heedful.architectures.build_recurrent import build_conditional_encoder, build_recurrent_encoder
from heedful.architectures.build_stack import build_activation, build_transformer_encoder, get_initializer
from heedful.architectures.classifiers import (
    BagConfig,
    ConditionalConfig,
    EncoderClassifierConfig,
    FirstTokenConfig,
    MeanConfig,
    RecurrentClassifierConfig,
    SelfAttentiveConfig,
    SiameseConfig,
    WindowClassifierConfig,
)
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.embedding import TokenEmbedding, build_embedding
from heedful.blocks.feedforward import build_xavier_linear
from heedful.models.convolutional import ConvWindow, WindowEncoder
from heedful.models.heads import NgramClassifier, TextClassifier, TokenClassifier
from heedful.models.interface import Encoder
from heedful.models.pair_encoder import PairEncoder
from heedful.models.transformer import FirstTokenPooler, MeanPooler, SelfAttentivePooler
from heedful.tensors import Tokens

_DEVIATION: Final = 0.2
"""Initial standard deviation of the embeddings of window classifiers: small, so that words without training have little
influence."""


def build_transformer_classifier(
    config: EncoderClassifierConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,
    encoder: Encoder[Tokens] | None = None,
) -> TextClassifier:
    """Build a text classifier with `outputs` numbers on a given Transformer encoder, or on a new one with `vocabulary`
    entries for at most `longest` tokens; new parts are initialised like the encoder.
    """
    pooler = None
    if encoder is None and isinstance(config.summary, FirstTokenConfig):
        pooler = FirstTokenPooler(config.d_model, activation=build_activation(config.summary.activation))
    if encoder is None:
        encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest, summary=pooler)
    summary = (
        _build_self_attentive_pooler(config.summary, config.d_model)
        if isinstance(config.summary, SelfAttentiveConfig)
        else None
    )
    width = config.d_model if summary is None else summary.d_output
    hidden_layer = _build_hidden_layer(width, config.d_hidden)
    output = nn.Linear(config.d_hidden or width, outputs)
    for part in (pooler, hidden_layer, output):
        if part is not None:
            get_initializer(config)(part)
    return _add_ngram_classifier(
        TextClassifier(encoder, output=output, summary=summary, hidden=hidden_layer, dropout=config.dropout),
        config.bag,
        vocabulary=vocabulary,
    )


def build_recurrent_classifier(
    config: RecurrentClassifierConfig, *, vocabulary: int, outputs: int, longest: int
) -> TextClassifier:
    """Build a text classifier with `outputs` numbers on a recurrent encoder with `vocabulary` entries, which reads
    texts of any length (`longest` is ignored).
    """
    encoder = build_recurrent_encoder(config, vocabulary=vocabulary, longest=longest)
    width = encoder.stack.d_output
    return _build_pooling_classifier(
        config, encoder, d_summary=width, d_slot=width, vocabulary=vocabulary, outputs=outputs
    )


def build_window_classifier(
    config: WindowClassifierConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - windows are wherever there are tokens
) -> TextClassifier:
    """Build a text classifier with `outputs` numbers on convolution windows over `vocabulary` entries, which read texts
    of any length (`longest` is ignored).
    """
    table = build_embedding(vocabulary, config.d_model, deviation=_DEVIATION)
    encoder = WindowEncoder(
        TokenEmbedding(table, scaled=False, dropout=config.embedding_dropout),
        [ConvWindow(config.d_model, width, features=config.features) for width in config.widths],
    )
    return _build_pooling_classifier(
        config, encoder, d_summary=encoder.d_summary, d_slot=encoder.d_slot, vocabulary=vocabulary, outputs=outputs
    )


def _build_pooling_classifier(
    config: RecurrentClassifierConfig | WindowClassifierConfig,
    encoder: Encoder[Tokens],
    *,
    d_summary: int,
    d_slot: int,
    vocabulary: int,
    outputs: int,
) -> TextClassifier:
    """Build a classifier with `outputs` numbers that reads the encoder's own summary (`d_summary` wide), or what the
    config's pooler makes of its memory slots (`d_slot` wide); an n-gram classifier of `vocabulary` entries may be
    added.
    """
    summary: MeanPooler | SelfAttentivePooler | None = None
    match config.summary:
        case MeanConfig():
            summary, width = MeanPooler(), d_slot
        case SelfAttentiveConfig():
            summary = _build_self_attentive_pooler(config.summary, d_slot)
            width = summary.d_output
        case _:
            width = d_summary
    classifier = TextClassifier(
        encoder,
        output=build_xavier_linear(config.d_hidden or width, outputs),
        summary=summary,
        hidden=_build_hidden_layer(width, config.d_hidden),
        dropout=config.dropout,
    )
    return _add_ngram_classifier(classifier, config.bag, vocabulary=vocabulary)


def _add_ngram_classifier(classifier: TextClassifier, config: BagConfig | None, *, vocabulary: int) -> TextClassifier:
    """Add an n-gram classifier of `vocabulary` entries, in place; the output layer adds its log-probabilities to its
    own logits. Without a config nothing is added. Return the classifier.
    """
    if config is None:
        return classifier
    old_output = classifier.output
    outputs = old_output.out_features
    new_output = nn.Linear(old_output.in_features + outputs, outputs)
    with torch.no_grad():
        new_output.weight.copy_(torch.cat((old_output.weight, config.weight * torch.eye(outputs)), 1))
        new_output.bias.copy_(old_output.bias)
    classifier.output = new_output
    classifier.bag = NgramClassifier(vocabulary, outputs, longest=config.longest, buckets=config.buckets)
    return classifier


def build_siamese_classifier(
    config: SiameseConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - words are compared at all positions
) -> TextClassifier:
    """Build a classifier of text pairs with `outputs` numbers on a siamese encoder with `vocabulary` entries, which
    reads texts of any length (`longest` is ignored).
    """
    table = build_embedding(vocabulary, config.d_model, deviation=1.0)  # large, so that one step changes it little
    encoder = PairEncoder(
        TokenEmbedding(table, scaled=False, dropout=config.embedding_dropout),
        vocabulary=vocabulary,
        features=config.features,
        dropout=config.dropout,
    )
    return TextClassifier(encoder, output=build_xavier_linear(config.features, outputs), dropout=config.dropout)


def build_conditional_classifier(
    config: ConditionalConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - a recurrent network has no end
) -> TextClassifier:
    """Build a classifier of text pairs with `outputs` numbers on a conditional encoder with `vocabulary` entries, which
    reads texts of any length (`longest` is ignored).
    """
    encoder = build_conditional_encoder(config, vocabulary=vocabulary)
    return TextClassifier(encoder, output=build_xavier_linear(config.d_model, outputs), dropout=config.dropout)


def _build_self_attentive_pooler(config: SelfAttentiveConfig, d_model: int) -> SelfAttentivePooler:
    return SelfAttentivePooler(d_model, hops=config.hops, d_alignment=config.d_alignment)


def _build_hidden_layer(width: int, d_hidden: int | None) -> nn.Linear | None:
    return None if d_hidden is None else build_xavier_linear(width, d_hidden)


def build_span_classifier(
    config: EncoderConfig, *, vocabulary: int, longest: int, encoder: Encoder[Tokens] | None = None
) -> TokenClassifier:
    """Build a token classifier with two outputs, start and end of an answer, on a given encoder or on a new one with
    `vocabulary` entries for at most `longest` tokens.
    """
    if encoder is None:
        encoder = build_transformer_encoder(config, vocabulary=vocabulary, longest=longest)
    output = nn.Linear(config.d_model, 2)
    get_initializer(config)(output)
    return TokenClassifier(encoder, output=output)
