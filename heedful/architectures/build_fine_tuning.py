"""From the tables of a fine-tuning run to its model, to what of it stands still, and to the rates of its layers."""

from __future__ import annotations

from typing import Final

import torch
from torch import nn

from heedful.architectures.build_recurrent import conditional_encoder, recurrent_encoder
from heedful.architectures.build_stack import initialisation, transformer_encoder
from heedful.architectures.classifiers import (
    BagConfig,
    ConditionalConfig,
    EncoderClassifierConfig,
    EndsConfig,
    FirstTokenConfig,
    MeanConfig,
    RecurrentClassifierConfig,
    SelfAttentiveConfig,
    SiameseConfig,
    WindowClassifierConfig,
)
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.embedding import TokenEmbedding, embedding_table
from heedful.blocks.linear import xavier_linear
from heedful.models.bag import Bag
from heedful.models.encoders import FirstToken, MeanOfTokens, SelfAttentive
from heedful.models.interface import Encoder
from heedful.models.pair_encoder import PairEncoder
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.models.windows import WindowEncoder, Windows
from heedful.values import Tokens

_DEVIATION: Final = 0.2
"""Of the embeddings that windows read: small enough that what a text has not taught them says little."""


def classifier_on_stack(
    config: EncoderClassifierConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,
    encoder: Encoder[Tokens] | None = None,
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
            initialisation(config)(part)
    return _with_bag(
        TextClassifier(encoder, output=output, summary=summary, hidden=hidden, dropout=config.dropout),
        config.bag,
        vocabulary=vocabulary,
    )


def classifier_on_recurrence(
    config: RecurrentClassifierConfig, *, vocabulary: int, outputs: int, longest: int
) -> TextClassifier:
    """A recurrent network reads texts of any length."""
    reader = recurrent_encoder(config, vocabulary=vocabulary, longest=longest)
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
    classifier = TextClassifier(
        reader,
        output=xavier_linear(config.d_hidden or width, outputs),
        summary=summary,
        hidden=_hidden(width, config.d_hidden),
        dropout=config.dropout,
    )
    return _with_bag(classifier, config.bag, vocabulary=vocabulary)


def classifier_on_windows(
    config: WindowClassifierConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - windows stand wherever there are tokens
) -> TextClassifier:
    """Windows read texts of any length."""
    table = embedding_table(vocabulary, config.d_model, deviation=_DEVIATION)
    encoder = WindowEncoder(
        TokenEmbedding(table, scaled=False, dropout=config.embedding_dropout),
        [Windows(config.d_model, width, features=config.features) for width in config.widths],
    )
    summary: MeanOfTokens | SelfAttentive | None = None
    width = encoder.d_summary
    match config.summary:
        case MeanConfig():
            summary = MeanOfTokens()
            width = encoder.d_slot
        case SelfAttentiveConfig():
            summary = _hops(config.summary, encoder.d_slot)
            width = summary.d_output
    classifier = TextClassifier(
        encoder,
        output=xavier_linear(config.d_hidden or width, outputs),
        summary=summary,
        hidden=_hidden(width, config.d_hidden),
        dropout=config.dropout,
    )
    return _with_bag(classifier, config.bag, vocabulary=vocabulary)


def _with_bag(classifier: TextClassifier, config: BagConfig | None, *, vocabulary: int) -> TextClassifier:
    """The same with votes of n-grams beside, which the output adds to its own."""
    if config is None:
        return classifier
    plain = classifier.output
    outputs = plain.out_features
    joined = nn.Linear(plain.in_features + outputs, outputs)
    with torch.no_grad():
        joined.weight.copy_(torch.cat((plain.weight, config.weight * torch.eye(outputs)), 1))
        joined.bias.copy_(plain.bias)
    classifier.output = joined
    classifier.bag = Bag(vocabulary, outputs, longest=config.longest, buckets=config.buckets)
    return classifier


def siamese_classifier(
    config: SiameseConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - words are compared wherever they stand
) -> TextClassifier:
    """A reader of two texts that compares them; it reads texts of any length."""
    table = embedding_table(vocabulary, config.d_model, deviation=1.0)  # large, so that a step changes little of it
    encoder = PairEncoder(
        TokenEmbedding(table, scaled=False, dropout=config.embedding_dropout),
        vocabulary=vocabulary,
        features=config.features,
        dropout=config.dropout,
    )
    return TextClassifier(encoder, output=xavier_linear(config.features, outputs), dropout=config.dropout)


def conditional_classifier(
    config: ConditionalConfig,
    *,
    vocabulary: int,
    outputs: int,
    longest: int,  # noqa: ARG001 - a recurrent network has no end
) -> TextClassifier:
    """A reader of two texts with a head; it reads texts of any length."""
    encoder = conditional_encoder(config, vocabulary=vocabulary)
    return TextClassifier(encoder, output=xavier_linear(config.d_model, outputs), dropout=config.dropout)


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
    initialisation(config)(output)
    return TokenClassifier(encoder, output=output)
