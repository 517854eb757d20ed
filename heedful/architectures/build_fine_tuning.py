"""From the tables of a fine-tuning run to its model, to what of it stands still, and to the rates of its layers."""

from __future__ import annotations

from torch import nn

from heedful.architectures.build_recurrent import conditional_encoder, recurrent_encoder
from heedful.architectures.build_stack import initialisation, transformer_encoder
from heedful.architectures.classifiers import (
    ConditionalConfig,
    EncoderClassifierConfig,
    EndsConfig,
    FirstTokenConfig,
    MeanConfig,
    RecurrentClassifierConfig,
    SelfAttentiveConfig,
)
from heedful.architectures.stack import EncoderConfig
from heedful.blocks.linear import xavier_linear
from heedful.models.encoders import FirstToken, MeanOfTokens, SelfAttentive
from heedful.models.interface import Encoder
from heedful.models.text_classifier import TextClassifier
from heedful.models.token_classifier import TokenClassifier
from heedful.values import Tokens


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
    return TextClassifier(encoder, output=output, summary=summary, hidden=hidden, dropout=config.dropout)


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
    return TextClassifier(
        reader,
        output=xavier_linear(config.d_hidden or width, outputs),
        summary=summary,
        hidden=_hidden(width, config.d_hidden),
        dropout=config.dropout,
    )


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
