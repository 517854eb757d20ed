"""From configs to objects: the one place that knows every family and both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import nn

from heedful.attention import (
    AbsolutePosition,
    Aggregation,
    Concatenation,
    Integer,
    Learned,
    Mean,
    MultiHeadAttention,
    Projection,
    RelativePosition,
    Rotary,
    Shaw,
    Sinusoidal,
    UnitInterval,
    Visibility,
    causal,
    everything,
    window,
)
from heedful.blocks.embedding import TokenEmbedding, embedding_table
from heedful.blocks.feedforward import FeedForward
from heedful.blocks.residual import PostNorm, PreNorm, Residual
from heedful.blocks.transformer import TransformerLayer, TransformerStack
from heedful.configs.attention import HeadsConfig
from heedful.configs.build_attention import build_weigher
from heedful.configs.build_convolutional import convolutional
from heedful.configs.build_recurrent import recurrent, recurrent_language_model, recurrent_tagger
from heedful.configs.convolutional import ConvolutionalConfig
from heedful.configs.model import (
    CausalConfig,
    CausalWindowConfig,
    EverythingConfig,
    IntegerConfig,
    LanguageModelConfig,
    LearnedConfig,
    ModelConfig,
    NoPositionsConfig,
    RotaryConfig,
    ShawConfig,
    SinusoidalConfig,
    TaggerConfig,
    TransformerConfig,
    UnitIntervalConfig,
    WindowConfig,
)
from heedful.configs.recurrent import RecurrentConfig
from heedful.models.encoders import TransformerEncoder
from heedful.models.language_model import LanguageModel
from heedful.models.sequence_to_sequence import SequenceToSequence
from heedful.models.token_classifier import TokenClassifier
from heedful.models.transformer_decoder import TransformerDecoder
from heedful.values import Tokens


@dataclass(frozen=True)
class Sizes:
    """What a model must know of its data: entries of both vocabularies, and the longest sentence in tokens."""

    source: int
    target: int
    max_length: int


def build_sequence_to_sequence(config: ModelConfig, sizes: Sizes) -> SequenceToSequence[Tokens]:
    """A freshly initialised model; `torch.device("meta")` as the default device builds it without memory."""
    match config:
        case TransformerConfig():
            return _transformer(config, sizes)
        case RecurrentConfig():
            return recurrent(config, sizes)
        case ConvolutionalConfig():
            return convolutional(config, sizes)
    assert_never(config)


def build_language_model(config: LanguageModelConfig, *, vocabulary: int) -> LanguageModel:
    """A freshly initialised decoder that looks at nothing but its own past."""
    return recurrent_language_model(config, vocabulary=vocabulary)


def build_tagger(config: TaggerConfig, *, vocabulary: int, tags: int) -> TokenClassifier:
    """A freshly initialised encoder with a classifier on every token."""
    return recurrent_tagger(config, vocabulary=vocabulary, tags=tags)


def _transformer(config: TransformerConfig, sizes: Sizes) -> SequenceToSequence[Tokens]:
    target = embedding_table(sizes.target, config.d_model)
    source = target if config.tie == "three_way" else embedding_table(sizes.source, config.d_model)
    encoder = TransformerStack(
        _embedding(config, source, sizes),
        [_layer(config, sizes, across=False) for _ in range(config.encoder_layers)],
        visibility=_visibility(config.encoder_visibility),
        final_norm=_final_norm(config),
    )
    decoder = TransformerStack(
        _embedding(config, target, sizes),
        [_layer(config, sizes, across=True) for _ in range(config.decoder_layers)],
        visibility=_visibility(config.decoder_visibility),
        final_norm=_final_norm(config),
    )
    output = nn.Linear(config.d_model, sizes.target, bias=config.output_bias)
    if config.tie == "none":
        nn.init.normal_(output.weight, std=config.d_model**-0.5)
    else:
        output.weight = target.weight
    if config.output_bias:
        nn.init.zeros_(output.bias)
    return SequenceToSequence(TransformerEncoder(encoder), TransformerDecoder(decoder), output=output)


def _embedding(config: TransformerConfig, table: nn.Embedding, sizes: Sizes) -> TokenEmbedding:
    return TokenEmbedding(
        table,
        position=_absolute(config, sizes),
        scaled=config.scale_embedding,
        dropout=config.embedding_dropout,
    )


def _layer(config: TransformerConfig, sizes: Sizes, *, across: bool) -> TransformerLayer:
    activation: nn.Module = nn.ReLU(inplace=True) if config.activation == "relu" else nn.GELU()
    return TransformerLayer(
        _attention(config, config.self_attention, sizes=sizes, relative=_relative(config)),
        FeedForward(config.d_model, config.d_ff, activation=activation, dropout=config.activation_dropout),
        residual=_residual(config),
        across=_attention(config, config.cross_attention, sizes=sizes, relative=None) if across else None,
    )


def _attention(
    config: TransformerConfig, heads: HeadsConfig, *, sizes: Sizes, relative: RelativePosition | None
) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        aggregation=_aggregation(config),
        relative=relative,
        weigher=build_weigher(heads, d_k=config.d_model // config.heads, longest=sizes.max_length + 1),
        shared_key_value=config.shared_key_value,
        dropout=config.attention_dropout,
    )


def _aggregation(config: TransformerConfig) -> Aggregation:
    match config.aggregation:
        case "mean":
            return Mean()
        case "concat":
            return Concatenation()
        case "project":
            return Projection(config.d_model)
    assert_never(config.aggregation)


def _residual(config: TransformerConfig) -> Callable[[], Residual]:
    kind = PostNorm if config.residual == "post_norm" else PreNorm
    return lambda: kind(config.d_model, config.dropout)


def _final_norm(config: TransformerConfig) -> nn.Module | None:
    return nn.LayerNorm(config.d_model) if config.residual == "pre_norm" else None


def _absolute(config: TransformerConfig, sizes: Sizes) -> AbsolutePosition | None:
    match config.positions:
        case SinusoidalConfig():
            return Sinusoidal(config.d_model)
        case LearnedConfig(length=length):
            return Learned(length, config.d_model)
        case UnitIntervalConfig():
            return UnitInterval(config.d_model, sizes.max_length + 1)
        case IntegerConfig():
            return Integer(config.d_model)
        case RotaryConfig() | ShawConfig() | NoPositionsConfig():
            return None
    assert_never(config.positions)


def _relative(config: TransformerConfig) -> RelativePosition | None:
    d_k = config.d_model // config.heads
    match config.positions:
        case RotaryConfig():
            return Rotary(d_k)
        case ShawConfig(clip=clip, values=values):
            d_v = config.d_model if config.aggregation == "mean" else d_k
            return Shaw(d_k, d_v if values else None, clip=clip)
    return None


def _visibility(config: EverythingConfig | WindowConfig | CausalConfig | CausalWindowConfig) -> Visibility:
    match config:
        case EverythingConfig():
            return everything
        case CausalConfig():
            return causal
        case WindowConfig(before=before, after=after):
            return window(before, after)
        case CausalWindowConfig(before=before):
            return window(before, 0)
    assert_never(config)


def default_device() -> torch.device:
    """The GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
